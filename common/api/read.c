/* From JSON to the structs that tables describe. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "api.h"
#include "conf.h"
#include "cron.h"
#include "mem.h"

static void *at(void *object, const struct api_field *f)
{
    return (char *)object + f->offset;
}

/* --- giving back ------------------------------------------------------------------------------ */

static void release(const struct api_object *o, void *object);

static void release_list(const struct api_object *o, struct api_list *l)
{
    for (size_t i = 0; i < l->n; i++)
        release(o, (char *)l->items + i * o->size);
    free(l->items);
}

static void release_field(const struct api_field *f, void *member)
{
    switch (f->type) {
    case API_STRING:
    case API_ENUM:
    case API_CRON:
    case API_TIME:
    case API_ANY:
        free(*(char **)member);
        break;
    case API_OBJECT:
        api_free(f->object, *(void **)member);
        break;
    case API_LIST:
        release_list(f->object, member);
        break;
    case API_STRINGS: {
        struct api_strings *s = member;
        for (size_t i = 0; i < s->n; i++)
            free(s->items[i]);
        free(s->items);
        break;
    }
    case API_MAP: {
        struct api_map *m = member;
        for (size_t i = 0; i < m->n; i++) {
            free(m->pairs[i].key);
            free(m->pairs[i].value);
        }
        free(m->pairs);
        break;
    }
    case API_INT:
    case API_BOOL:
    case API_BYTES:
    case API_DURATION:
        break;
    }
}

static void release(const struct api_object *o, void *object)
{
    for (size_t i = 0; i < o->n_fields; i++)
        release_field(&o->fields[i], at(object, &o->fields[i]));
}

void api_free(const struct api_object *o, void *object)
{
    if (!object)
        return;
    release(o, object);
    free(object);
}

/* --- reading ---------------------------------------------------------------------------------- */

static int fill(const struct api_object *o, const struct json *from, void *object, struct err *err);

static int wrong(const struct json *j, struct err *err)
{
    cleanup_bytes struct bytes path = {0};
    json_path(j, &path);
    return err_wrap(err, "%s", path.data);
}

static int check_length(const struct api_field *f, const struct json *j, size_t n, const char *what,
                        struct err *err)
{
    if ((!f->min && !f->max) || ((int64_t)n >= f->min && (!f->max || (int64_t)n <= f->max)))
        return 0;
    err_set(err, ERR_USAGE, "want %" PRId64 " to %" PRId64 " %s, got %zu", f->min, f->max, what, n);
    return wrong(j, err);
}

static int check_text(const struct api_field *f, const char *text, struct err *err)
{
    struct cron cron;
    if (f->type == API_ENUM && !conf_is_choice(f->choices, text))
        return err_set(err, ERR_USAGE, "\"%s\": want one of %s", text, f->choices);
    return f->type == API_CRON ? cron_parse(&cron, text, err) : 0;
}

/* As the API server counts. */
static size_t characters(const char *text)
{
    size_t n = 0;
    for (; *text; text++)
        n += (*text & 0xc0) != 0x80; /* not inside one of UTF-8 */
    return n;
}

static int read_text(const struct api_field *f, const struct json *j, char **ret, struct err *err)
{
    const char *text;
    if (json_as_str(j, &text, err))
        return -1;
    if (check_text(f, text, err))
        return wrong(j, err);
    if (f->type == API_STRING && check_length(f, j, characters(text), "characters", err))
        return -1;
    *ret = xstrdup(text);
    return 0;
}

/* Text that `parse` takes. */
static int read_amount(const struct json *j, int (*parse)(const char *, uint64_t *, struct err *),
                       uint64_t *ret, struct err *err)
{
    const char *text;
    if (json_as_str(j, &text, err))
        return -1;
    return parse(text, ret, err) ? wrong(j, err) : 0;
}

/* Bytes need no unit; a duration does. */
static int read_bytes(const struct json *j, uint64_t *ret, struct err *err)
{
    int64_t n;
    if (json_as_int(j, 0, INT64_MAX, &n, NULL))
        return read_amount(j, api_quantity, ret, err);
    *ret = (uint64_t)n;
    return 0;
}

static int read_bool(const struct json *j, bool *ret, struct err *err)
{
    return json_bool(j->parent, j->key, ret, err);
}

static int read_object(const struct api_field *f, const struct json *j, void **ret, struct err *err)
{
    *ret = xcalloc(1, f->object->size);
    return fill(f->object, j, *ret, err);
}

static int read_list(const struct api_field *f, const struct json *j, struct api_list *ret,
                     struct err *err)
{
    size_t n = json_count(j);
    if (json_want_array(j, err) || check_length(f, j, n, "items", err))
        return -1;
    ret->items = n ? xcalloc(n, f->object->size) : NULL;
    while (ret->n < n) {
        struct json item = json_at(j, ret->n);
        void *to = (char *)ret->items + ret->n++ * f->object->size;
        if (fill(f->object, &item, to, err))
            return -1;
    }
    return 0;
}

static int read_strings(const struct api_field *f, const struct json *j, struct api_strings *ret,
                        struct err *err)
{
    size_t n = json_count(j);
    if (json_want_array(j, err) || check_length(f, j, n, "items", err))
        return -1;
    ret->items = n ? xcalloc(n, sizeof *ret->items) : NULL;
    for (; ret->n < n; ret->n++) {
        struct json item = json_at(j, ret->n);
        const char *text;
        if (json_as_str(&item, &text, err))
            return -1;
        ret->items[ret->n] = xstrdup(text);
    }
    return 0;
}

static int read_map(const struct json *j, struct api_map *ret, struct err *err)
{
    if (json_want_object(j, err))
        return -1;
    size_t n = json_count(j);
    ret->pairs = n ? xcalloc(n, sizeof *ret->pairs) : NULL;
    for (; ret->n < n; ret->n++) {
        struct json item = json_member(j, ret->n);
        const char *text;
        if (json_as_str(&item, &text, err))
            return -1;
        ret->pairs[ret->n] = (struct api_pair){xstrdup(item.key), xstrdup(text)};
    }
    return 0;
}

static char *read_any(const struct json *j)
{
    struct bytes text = {0};
    json_text(j, &text);
    return bytes_take(&text);
}

static int read_field(const struct api_field *f, const struct json *j, void *member,
                      struct err *err)
{
    switch (f->type) {
    case API_STRING:
    case API_ENUM:
    case API_CRON:
    case API_TIME:
        return read_text(f, j, member, err);
    case API_ANY:
        *(char **)member = read_any(j);
        return 0;
    case API_INT:
        return json_as_int(j, f->min || f->max ? f->min : INT64_MIN, f->max ? f->max : INT64_MAX,
                           member, err);
    case API_BOOL:
        return read_bool(j, member, err);
    case API_BYTES:
        return read_bytes(j, member, err);
    case API_DURATION:
        return read_amount(j, conf_duration, member, err);
    case API_OBJECT:
        return read_object(f, j, member, err);
    case API_LIST:
        return read_list(f, j, member, err);
    case API_STRINGS:
        return read_strings(f, j, member, err);
    case API_MAP:
        return read_map(j, member, err);
    }
    return 0;
}

/* A default is as good as what a user writes. */
static int read_default(const struct api_field *f, void *member, struct err *err)
{
    cleanup_bytes struct bytes text = {0};
    cleanup_json struct json_doc *doc = NULL;
    struct json_writer w;
    bool quoted = f->type == API_STRING || f->type == API_ENUM || f->type == API_CRON ||
                  f->type == API_BYTES || f->type == API_DURATION;
    jw_init(&w, &text);
    jw_object(&w, NULL);
    if (quoted)
        jw_str(&w, f->name, f->dflt);
    else
        jw_raw(&w, f->name, f->dflt);
    jw_end(&w);
    if (json_parse(&doc, "default", text.data, text.len, err))
        return -1;
    struct json root = json_root(doc), value = json_get(&root, f->name);
    return read_field(f, &value, member, err);
}

static int missing(const struct api_field *f, const struct json *from, struct err *err)
{
    err_set(err, ERR_USAGE, "%s is missing", f->name);
    return wrong(from, err);
}

static int fill(const struct api_object *o, const struct json *from, void *object, struct err *err)
{
    if (json_want_object(from, err))
        return -1;
    for (size_t i = 0; i < o->n_fields; i++) {
        const struct api_field *f = &o->fields[i];
        struct json value = json_get(from, f->name);
        bool given = json_has(from, f->name);
        if (!given && (f->flags & API_REQUIRED))
            return missing(f, from, err);
        if (given ? read_field(f, &value, at(object, f), err)
                  : f->dflt && read_default(f, at(object, f), err))
            return -1;
    }
    return 0;
}

int api_read(const struct api_object *o, const struct json *from, void **ret, struct err *err)
{
    void *object = xcalloc(1, o->size);
    if (fill(o, from, object, err)) {
        api_free(o, object);
        return -1;
    }
    *ret = object;
    return 0;
}
