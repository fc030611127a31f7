/*
 * The objects that users write for Kubernetes, as tables of their fields. A table is the only
 * source of what an object is: from it come
 *
 *   api_read()    JSON -> struct: defaults filled in, errors that name the path
 *   api_crd()     the CustomResourceDefinition in deploy/crd (a test fails when the two differ)
 *
 * What the API server checks (types, bounds, choices, rules) api_read() checks too, as far as one
 * object shows it: rules in CEL are the API server's alone. Keys that no table knows are passed
 * over: they may be of a newer version.
 *
 * A struct that api_read() made owns all it points to; api_free() gives it back.
 */
#ifndef SAMPAN_API_H
#define SAMPAN_API_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "buf.h"
#include "err.h"
#include "json.h"

enum api_type {
    API_STRING,   /* char *; NULL: absent */
    API_ENUM,     /* char *, one of `choices` */
    API_CRON,     /* char *, a cron expression */
    API_TIME,     /* char *, RFC 3339 */
    API_ANY,      /* char *, the text of any JSON value: what Kubernetes checks elsewhere */
    API_INT,      /* int64_t within min..max */
    API_BOOL,     /* bool */
    API_BYTES,    /* uint64_t; a Kubernetes quantity: 10Gi, 500M, 1024 */
    API_DURATION, /* uint64_t nanoseconds: 90s, 5m, 24h */
    API_OBJECT,   /* a pointer to the struct of `object`; NULL: absent */
    API_LIST,     /* struct api_list of structs of `object` */
    API_STRINGS,  /* struct api_strings */
    API_MAP,      /* struct api_map: labels, selectors */
};

struct api_list {
    void *items; /* an array of the structs themselves */
    size_t n;
};
struct api_strings {
    char **items;
    size_t n;
};
struct api_map {
    struct api_pair {
        char *key, *value;
    } * pairs;
    size_t n;
};

enum api_flags {
    API_REQUIRED = 1, /* absent: an error */
    API_FIXED = 2,    /* set once: a change is refused, saying `why` */
    API_QUIET = 4,    /* the default is ours alone: the API server does not write it into objects */
};

/* A rule of the API server over one object. */
struct api_rule {
    const char *cel, *message;
};

struct api_object;
struct api_field {
    const char *name;
    enum api_type type;
    size_t offset;
    const char *doc; /* one sentence, for `kubectl explain` */
    unsigned flags;
    const struct api_object *object; /* API_OBJECT, API_LIST */
    const char *choices;             /* API_ENUM: "a|b|c" */
    const char *dflt;                /* as the user would write it; API_OBJECT: "{}" */
    int64_t min, max;                /* API_INT; both 0: no bound. Others: of the length */
    const char *pattern;             /* API_STRING: for the API server */
    const char *why;                 /* API_FIXED */
    const char *list_key;            /* API_LIST: of its items, unique */
    const char *schema;              /* API_ANY: what it looks like, as lines of YAML */
};

struct api_object {
    size_t size; /* of its struct */
    const char *doc;
    const struct api_field *fields;
    size_t n_fields;
    const struct api_rule *rules;
    size_t n_rules;
};

/* A column of `kubectl get`. */
struct api_column {
    const char *name, *type, *path, *doc;
    int priority; /* above 0: with -o wide */
};

struct api_kind {
    const char *group, *version, *kind, *plural, *singular, *short_name, *doc;
    const struct api_object *spec, *status;
    const struct api_rule *rules; /* over the whole object */
    size_t n_rules;
    const struct api_column *columns;
    size_t n_columns;
};

/* Reads an object of `o` into a new struct. Path names begin where `from` does. */
int api_read(const struct api_object *o, const struct json *from, void **ret, struct err *err);
void api_free(const struct api_object *o, void *object);
/* The CustomResourceDefinition, as YAML. */
void api_crd(const struct api_kind *k, struct bytes *out);

/* A Kubernetes quantity of bytes. */
int api_quantity(const char *text, uint64_t *ret, struct err *err);

#endif
