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

static int compare_text(const char *a, const char *b)
{
    return strcmp(a ? a : "", b ? b : "");
}

int object_compare(const struct json *a, const struct json *b)
{
    int by_namespace = compare_text(object_namespace(a), object_namespace(b));
    return by_namespace ? by_namespace : compare_text(object_name(a), object_name(b));
}

/* --- marks ------------------------------------------------------------------------------------ */

void object_uses(const struct json *o, void (*add)(void *arg, const char *name), void *arg)
{
    struct json spec = json_get(o, "spec"), output = json_get(&spec, "output");
    struct json from = json_get(&spec, "sampleSetRef"), to = json_get(&output, "sampleSetRef");
    const char *const names[] = {text(&from, "name"), text(&to, "name"), text(&spec, "sampleset")};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        bool again = false;
        for (size_t k = 0; k < i && names[i]; k++)
            again = again || (names[k] && strcmp(names[k], names[i]) == 0);
        if (names[i] && !again)
            add(arg, names[i]);
    }
}

struct wanted {
    const char *name; /* NULL: any */
    bool found;
};

static void look_at(void *arg, const char *name)
{
    struct wanted *w = arg;
    w->found = w->found || !w->name || strcmp(w->name, name) == 0;
}

static bool uses(const struct json *o, const char *name)
{
    struct wanted w = {.name = name};
    object_uses(o, look_at, &w);
    return w.found;
}

bool object_matches(const struct json *o, const char *ns, const char *key, const char *value)
{
    if (ns && compare_text(object_namespace(o), ns) != 0)
        return false;
    if (!key)
        return true;
    if (strcmp(key, MARK_USES) == 0)
        return uses(o, value);
    const char *have = strcmp(key, MARK_NAME) == 0 ? object_name(o) : object_label(o, key);
    return have && (!value || strcmp(have, value) == 0);
}
