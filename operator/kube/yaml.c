/* YAML to JSON, on libyaml; the only file that knows it. */
#include <string.h>
#include <yaml.h>

#include "kube.h"

#define DEPTH_MAX 32

/* Where we are in each container: whether the next scalar is a key, and the key of the next value.
 */
struct level {
    bool map, want_key;
    char key[256];
};
struct converter {
    const char *what;
    struct json_writer w;
    struct level levels[DEPTH_MAX];
    unsigned depth; /* of levels; 0: at the top */
    bool done;
};

static int refuse(const struct converter *c, const yaml_event_t *e, const char *why,
                  struct err *err)
{
    return err_set(err, ERR_USAGE, "%s: line %zu: %s", c->what, e->start_mark.line + 1, why);
}

/* The key of a value that comes now: NULL in arrays and at the top. */
static const char *key_now(struct converter *c)
{
    if (!c->depth || !c->levels[c->depth - 1].map)
        return NULL;
    c->levels[c->depth - 1].want_key = true;
    return c->levels[c->depth - 1].key;
}

static bool wants_key(const struct converter *c)
{
    return c->depth && c->levels[c->depth - 1].map && c->levels[c->depth - 1].want_key;
}

static int open_level(struct converter *c, const yaml_event_t *e, bool map, struct err *err)
{
    if (wants_key(c))
        return refuse(c, e, "a key must be a word", err);
    if (c->depth == DEPTH_MAX)
        return refuse(c, e, "nested too deep", err);
    const char *key = key_now(c);
    if (map)
        jw_object(&c->w, key);
    else
        jw_array(&c->w, key);
    c->levels[c->depth++] = (struct level){.map = map, .want_key = map};
    return 0;
}

static int take_scalar(struct converter *c, const yaml_event_t *e, struct err *err)
{
    const char *text = (const char *)e->data.scalar.value;
    size_t len = e->data.scalar.length;
    bool plain = e->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
    if (strlen(text) != len)
        return refuse(c, e, "a NUL in a text", err);
    if (wants_key(c)) {
        struct level *l = &c->levels[c->depth - 1];
        if (len >= sizeof l->key)
            return refuse(c, e, "a key too long", err);
        memcpy(l->key, text, len + 1);
        l->want_key = false;
        return 0;
    }
    const char *key = key_now(c);
    if (plain && (len == 0 || strcmp(text, "~") == 0 || strcmp(text, "null") == 0))
        jw_str(&c->w, key, NULL);
    else if (plain && (strcmp(text, "true") == 0 || strcmp(text, "false") == 0))
        jw_bool(&c->w, key, *text == 't');
    else
        jw_str(&c->w, key, text);
    return 0;
}

static int take_event(struct converter *c, const yaml_event_t *e, struct err *err)
{
    switch (e->type) {
    case YAML_MAPPING_START_EVENT:
        return open_level(c, e, true, err);
    case YAML_SEQUENCE_START_EVENT:
        return open_level(c, e, false, err);
    case YAML_MAPPING_END_EVENT:
    case YAML_SEQUENCE_END_EVENT:
        jw_end(&c->w);
        c->depth--;
        return 0;
    case YAML_SCALAR_EVENT:
        return take_scalar(c, e, err);
    case YAML_ALIAS_EVENT:
        return refuse(c, e, "anchors are not understood here", err);
    case YAML_DOCUMENT_END_EVENT:
    case YAML_STREAM_END_EVENT:
        c->done = true;
        return 0;
    default:
        return 0;
    }
}

int kube_yaml(const char *what, const char *text, size_t len, struct bytes *json, struct err *err)
{
    yaml_parser_t parser;
    if (!yaml_parser_initialize(&parser))
        return err_set(err, ERR_LIMIT, "out of memory: %s", what);
    yaml_parser_set_input_string(&parser, (const unsigned char *)text, len);
    struct converter c = {.what = what};
    jw_init(&c.w, json);
    int result = 0;
    while (!result && !c.done) {
        yaml_event_t event;
        if (!yaml_parser_parse(&parser, &event)) {
            result = err_set(err, ERR_USAGE, "%s: not YAML: line %zu: %s", what,
                             parser.problem_mark.line + 1,
                             parser.problem ? parser.problem : "unreadable");
            break;
        }
        result = take_event(&c, &event, err);
        yaml_event_delete(&event);
    }
    yaml_parser_delete(&parser);
    if (!result && !json->len)
        result = err_set(err, ERR_USAGE, "%s: empty", what);
    return result;
}
