/* JSON reading, on jansson; the only file that knows it. Writing is json-write.c. */
#include "json.h"

#include <jansson.h>
#include <string.h>

#include "mem.h"

#define DEPTH_MAX 64

struct json_doc {
    json_t *root;
    char *what;
};

static json_t *node_of(const struct json *j)
{
    return j->node;
}

/* The library goes as deep as 2048 levels, by recursion: on the small stack of a thread that serves
 * somebody, that much of another's text may be too much. */
static bool is_deep(const char *text, size_t len)
{
    unsigned depth = 0;
    bool quoted = false;
    for (const char *p = text; p < text + len; p++) {
        if (quoted && *p == '\\')
            p++;
        else if (*p == '"')
            quoted = !quoted;
        else if (!quoted && (*p == '[' || *p == '{') && ++depth > DEPTH_MAX)
            return true;
        else if (!quoted && (*p == ']' || *p == '}') && depth)
            depth--;
    }
    return false;
}

int json_parse(struct json_doc **ret, const char *what, const void *text, size_t len,
               struct err *err)
{
    json_error_t why;
    if (len && is_deep(text, len))
        return err_set(err, ERR_CORRUPT, "%s: not taken: nested deeper than %d levels", what,
                       DEPTH_MAX);
    json_t *root = json_loadb(text ? text : "", len, JSON_REJECT_DUPLICATES, &why);
    if (!root)
        return err_set(err, ERR_CORRUPT, "%s: not JSON: line %d, column %d: %s", what, why.line,
                       why.column, why.text);
    struct json_doc *d = xcalloc(1, sizeof *d);
    d->root = root;
    d->what = xstrdup(what);
    *ret = d;
    return 0;
}

void json_doc_free(struct json_doc *d)
{
    if (!d)
        return;
    json_decref(d->root);
    free(d->what);
    free(d);
}

struct json json_root(const struct json_doc *d)
{
    return (struct json){.node = d->root, .key = d->what};
}

struct json json_get(const struct json *obj, const char *key)
{
    return (struct json){.node = json_object_get(obj->node, key), .parent = obj, .key = key};
}

struct json json_at(const struct json *arr, size_t index)
{
    return (struct json){.node = json_array_get(arr->node, index), .parent = arr, .index = index};
}

size_t json_count(const struct json *j)
{
    return json_is_array(node_of(j)) ? json_array_size(j->node) : json_object_size(j->node);
}

bool json_has(const struct json *obj, const char *key)
{
    return json_object_get(obj->node, key) != NULL;
}

static struct json member_at(const struct json *obj, void *it)
{
    if (!it)
        return (struct json){.parent = obj, .key = "?"};
    return (struct json){
        .node = json_object_iter_value(it), .parent = obj, .key = json_object_iter_key(it)};
}

struct json json_member(const struct json *obj, size_t i)
{
    void *it = json_object_iter(obj->node);
    while (it && i--)
        it = json_object_iter_next(obj->node, it);
    return member_at(obj, it);
}

struct json json_after(const struct json *obj, const struct json *member)
{
    return member_at(obj, json_object_iter_next(obj->node, json_object_key_to_iter(member->key)));
}

struct json_doc *json_doc_of(const struct json *j, const char *what)
{
    struct json_doc *d = xcalloc(1, sizeof *d);
    d->root = json_incref(j->node);
    d->what = xstrdup(what);
    return d;
}

void json_drop(const struct json *obj, const char *key)
{
    json_object_del(obj->node, key);
}

bool json_holds_null(const struct json *j)
{
    return json_is_null(node_of(j));
}

bool json_same(const struct json *a, const struct json *b)
{
    return a->node == b->node || json_equal(a->node, b->node);
}

static bool patch_changes(json_t *object, json_t *patch)
{
    const char *key;
    json_t *value;
    if (!json_is_object(patch))
        return !json_equal(object, patch);
    if (object && !json_is_object(object))
        return true;
    json_object_foreach(patch, key, value)
    {
        json_t *have = json_object_get(object, key);
        if (json_is_null(value) ? have != NULL : patch_changes(have, value))
            return true;
    }
    return false;
}

bool json_patch_changes(const struct json *object, const struct json *patch)
{
    return patch_changes(object->node, patch->node);
}

/* --- errors that name the place --------------------------------------------------------------- */

/* "set.json: sources[0].uri"; the root's key is what the text is called. */
void json_path(const struct json *j, struct bytes *path)
{
    if (!j->parent) {
        bytes_add_str(path, j->key ? j->key : "JSON");
        return;
    }
    json_path(j->parent, path);
    bool first = !j->parent->parent;
    if (first)
        bytes_add_str(path, ": ");
    if (j->key)
        bytes_addf(path, "%s%s", first ? "" : ".", j->key);
    else
        bytes_addf(path, "[%zu]", j->index);
}

static const char *type_name(const json_t *node)
{
    if (!node)
        return "nothing";
    switch (json_typeof(node)) {
    case JSON_OBJECT:
        return "an object";
    case JSON_ARRAY:
        return "an array";
    case JSON_STRING:
        return "a string";
    case JSON_INTEGER:
        return "an integer";
    case JSON_REAL:
        return "a number";
    case JSON_TRUE:
    case JSON_FALSE:
        return "a boolean";
    default:
        return "null";
    }
}

static int unwanted(const struct json *j, const char *want, struct err *err)
{
    cleanup_bytes struct bytes path = {0};
    if (!err)
        return -1;
    json_path(j, &path);
    return err_set(err, ERR_USAGE, "%s: want %s, got %s", path.data, want, type_name(j->node));
}

int json_as_str(const struct json *j, const char **ret, struct err *err)
{
    if (!json_is_string(node_of(j)))
        return unwanted(j, "a string", err);
    const char *text = json_string_value(j->node);
    if (strlen(text) != json_string_length(j->node))
        return unwanted(j, "a string without NUL", err);
    *ret = text;
    return 0;
}

static int nibble(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

int json_as_name(const struct json *j, char **ret, struct err *err)
{
    static const char *const keys[] = {"hex", NULL};
    const char *text = "";
    if (!json_is_object(node_of(j))) {
        if (json_as_str(j, &text, err))
            return -1;
        *ret = xstrdup(text);
        return 0;
    }
    struct json hex = json_get(j, "hex");
    if (json_only_keys(j, keys, err) || json_as_str(&hex, &text, err))
        return -1;
    size_t len = strlen(text) / 2;
    cleanup_free char *name = xcalloc(len + 1, 1);
    bool good = strlen(text) % 2 == 0;
    for (size_t i = 0; i < len && good; i++) {
        int high = nibble(text[2 * i]), low = nibble(text[2 * i + 1]);
        good = high >= 0 && low >= 0 && (high || low);
        name[i] = (char)(good ? high << 4 | low : 0);
    }
    if (!good)
        return unwanted(&hex, "a name's bytes as pairs of hexadecimal digits", err);
    *ret = take_ptr(&name);
    return 0;
}

int json_name(const struct json *obj, const char *key, char **ret, struct err *err)
{
    struct json j = json_get(obj, key);
    return json_as_name(&j, ret, err);
}

int json_as_int(const struct json *j, int64_t min, int64_t max, int64_t *ret, struct err *err)
{
    if (!json_is_integer(node_of(j)))
        return unwanted(j, "an integer", err);
    int64_t value = json_integer_value(j->node);
    if (value < min || value > max) {
        cleanup_bytes struct bytes path = {0};
        json_path(j, &path);
        return err_set(err, ERR_USAGE, "%s: want %lld to %lld, got %lld", path.data, (long long)min,
                       (long long)max, (long long)value);
    }
    *ret = value;
    return 0;
}

int json_want_array(const struct json *j, struct err *err)
{
    return json_is_array(node_of(j)) ? 0 : unwanted(j, "an array", err);
}

int json_want_object(const struct json *j, struct err *err)
{
    return json_is_object(node_of(j)) ? 0 : unwanted(j, "an object", err);
}

int json_str(const struct json *obj, const char *key, const char **ret, struct err *err)
{
    struct json j = json_get(obj, key);
    return json_as_str(&j, ret, err);
}

int json_int(const struct json *obj, const char *key, int64_t min, int64_t max, int64_t *ret,
             struct err *err)
{
    struct json j = json_get(obj, key);
    return json_as_int(&j, min, max, ret, err);
}

int json_num(const struct json *obj, const char *key, double *ret, struct err *err)
{
    struct json j = json_get(obj, key);
    if (!json_is_number(node_of(&j)))
        return unwanted(&j, "a number", err);
    *ret = json_number_value(j.node);
    return 0;
}

int json_bool(const struct json *obj, const char *key, bool *ret, struct err *err)
{
    struct json j = json_get(obj, key);
    if (!json_is_boolean(node_of(&j)))
        return unwanted(&j, "a boolean", err);
    *ret = json_is_true(node_of(&j));
    return 0;
}

int json_str_or(const struct json *obj, const char *key, const char *dflt, const char **ret,
                struct err *err)
{
    if (json_has(obj, key))
        return json_str(obj, key, ret, err);
    *ret = dflt;
    return 0;
}

int json_int_or(const struct json *obj, const char *key, int64_t min, int64_t max, int64_t dflt,
                int64_t *ret, struct err *err)
{
    if (json_has(obj, key))
        return json_int(obj, key, min, max, ret, err);
    *ret = dflt;
    return 0;
}

uint64_t json_uint_at(const struct json *obj, const char *key)
{
    int64_t n = 0;
    return json_int_or(obj, key, 0, INT64_MAX, 0, &n, NULL) ? 0 : (uint64_t)n;
}

int json_bool_or(const struct json *obj, const char *key, bool dflt, bool *ret, struct err *err)
{
    if (json_has(obj, key))
        return json_bool(obj, key, ret, err);
    *ret = dflt;
    return 0;
}

int json_only_keys(const struct json *obj, const char *const *keys, struct err *err)
{
    if (json_want_object(obj, err))
        return -1;
    for (void *it = json_object_iter(obj->node); it; it = json_object_iter_next(obj->node, it)) {
        const char *key = json_object_iter_key(it);
        size_t i = 0;
        while (keys[i] && strcmp(keys[i], key) != 0)
            i++;
        if (keys[i])
            continue;
        struct json bad = {.parent = obj, .key = key};
        cleanup_bytes struct bytes path = {0}, known = {0};
        json_path(&bad, &path);
        for (i = 0; keys[i]; i++)
            bytes_addf(&known, "%s%s", i ? ", " : "", keys[i]);
        return err_set(err, ERR_USAGE, "%s: unknown key (known: %s)", path.data,
                       known.data ? known.data : "none");
    }
    return 0;
}

static int take_text(const char *text, size_t len, void *arg)
{
    bytes_add(arg, text, len);
    return 0;
}

void json_text(const struct json *j, struct bytes *out)
{
    bytes_add(out, "", 0);
    if (j->node)
        json_dump_callback(node_of(j), take_text, out,
                           JSON_COMPACT | JSON_ENCODE_ANY | JSON_REAL_PRECISION(15));
}
