/* Reading an object's metadata. */
#include "object.h"

#include <string.h>

static const char *text(const struct json *o, const char *key)
{
    struct json j = json_get(o, key);
    const char *value = NULL;
    return json_as_str(&j, &value, NULL) ? NULL : value;
}

static const char *meta(const struct json *o, const char *key)
{
    struct json m = json_get(o, "metadata");
    return text(&m, key);
}

static const char *of_map(const struct json *o, const char *map, const char *key)
{
    struct json m = json_get(o, "metadata"), pairs = json_get(&m, map);
    return text(&pairs, key);
}

const char *object_name(const struct json *o)
{
    return meta(o, "name");
}

const char *object_namespace(const struct json *o)
{
    return meta(o, "namespace");
}

const char *object_uid(const struct json *o)
{
    return meta(o, "uid");
}

const char *object_version(const struct json *o)
{
    return meta(o, "resourceVersion");
}

const char *object_label(const struct json *o, const char *key)
{
    return of_map(o, "labels", key);
}

const char *object_annotation(const struct json *o, const char *key)
{
    return of_map(o, "annotations", key);
}

bool object_is_deleted(const struct json *o)
{
    return meta(o, "deletionTimestamp") != NULL;
}

bool object_is_managed(const struct json *o)
{
    const char *by = object_label(o, MANAGED_KEY);
    return by && strcmp(by, MANAGED_BY) == 0;
}

enum kind object_kind(const struct json *o)
{
    const char *version = text(o, "apiVersion"), *kind = text(o, "kind");
    return version && kind ? kind_of(version, kind) : KIND_N;
}

static int compare_text(const char *a, const char *b)
{
    return strcmp(a ? a : "", b ? b : "");
}

int object_compare(const struct json *a, const struct json *b)
{
    int by_namespace = compare_text(object_namespace(a), object_namespace(b));
    return by_namespace ? by_namespace : compare_text(object_name(a), object_name(b));
}

bool object_matches(const struct json *o, const char *ns, const char *key, const char *value)
{
    if (ns && compare_text(object_namespace(o), ns) != 0)
        return false;
    if (!key)
        return true;
    const char *have = object_label(o, key);
    return have && (!value || strcmp(have, value) == 0);
}
