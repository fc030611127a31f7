/*
 * Building the JSON of objects out of what a user wrote: a part is copied, but for the members that
 * are ours to say.
 */
#ifndef SAMPAN_OPERATOR_BUILD_H
#define SAMPAN_OPERATOR_BUILD_H

#include <stdbool.h>
#include <stddef.h>

#include "json.h"

/* Names and values in the order they were added: labels, annotations, environment, data. */
struct pair {
    char *key, *value;
    bool field; /* of an environment: `value` is the path of a field of the pod */
};
struct pairs {
    struct pair *items;
    size_t n;
};
/* A key that is there already keeps its place and gets the value. */
__attribute__((format(printf, 3, 4))) void pairs_add(struct pairs *p, const char *key,
                                                     const char *fmt, ...);
void pairs_add_field(struct pairs *p, const char *key, const char *path);
const char *pairs_get(const struct pairs *p, const char *key); /* NULL: none */
void pairs_release(struct pairs *p);
#define cleanup_pairs CLEANUP(pairs_release)

/* The members as a JSON object. */
void pairs_write(const struct pairs *p, struct json_writer *w, const char *key);

/* What lies below `from` on a way of keys that ends with NULL; .node NULL where it breaks off. */
__attribute__((sentinel)) struct json build_at(const struct json *from, ...);
/* The text there, or NULL. */
__attribute__((sentinel)) const char *build_text(const struct json *from, ...);
/* The number there, or `dflt`. */
__attribute__((sentinel)) int64_t build_int(int64_t dflt, const struct json *from, ...);
/* Is it the truth value `true`? */
__attribute__((sentinel)) bool build_true(const struct json *from, ...);

/* The value as the member `key`; nothing where there is none. */
void build_copy(struct json_writer *w, const char *key, const struct json *value);
/* All members but those in the NULL-ended list. */
void build_copy_members(struct json_writer *w, const struct json *from, const char *const *except);
/* All items of an array. */
void build_copy_items(struct json_writer *w, const struct json *from);

/* The keys of its owners of that kind: whom a change of it wakes (controller.h). */
void build_owner_keys(const struct json *changed, const char *kind,
                      void (*add)(void *arg, const char *key), void *arg);

#endif
