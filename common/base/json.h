/*
 * JSON: a reader whose errors name the path ("spec.tiers[0].limit: want a number, got a string"),
 * and a streaming writer that cannot produce text that does not parse. This is the only file that
 * knows the JSON library.
 *
 * Reader. A `struct json` is a node together with its path. The root owns the tree; nodes got from
 * it are borrowed views and live as long as the root. Unknown keys are an error only when asked for
 * with json_only_keys().
 */
#ifndef SAMPAN_BASE_JSON_H
#define SAMPAN_BASE_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "buf.h"
#include "err.h"

struct json_doc; /* owns a parsed text */
struct json {    /* a borrowed view of one node */
    void *node;  /* NULL: absent */
    const struct json *parent;
    const char *key; /* or NULL: `index` is the place in the array */
    size_t index;
};

/* `what` names the text in errors ("set.json"). Limits: depth 64, no duplicate keys. */
int json_parse(struct json_doc **ret, const char *what, const void *text, size_t len,
               struct err *err);
void json_doc_free(struct json_doc *d);
static inline void cleanup_json_fn(struct json_doc **d)
{
    json_doc_free(*d);
}
#define cleanup_json CLEANUP(cleanup_json_fn)

struct json json_root(const struct json_doc *d);
struct json json_get(const struct json *obj,
                     const char *key); /* .node NULL if absent; `obj` must outlive it */
struct json json_at(const struct json *arr, size_t index);
size_t json_count(const struct json *j); /* elements of an array or object, else 0 */
bool json_has(const struct json *obj, const char *key);
/* The i-th member of an object, in file order. */
struct json json_member(const struct json *obj, size_t i);
/* The one behind a member of it; .node NULL behind the last. For objects that may be large: the
 * i-th is found by counting. */
struct json json_after(const struct json *obj, const struct json *member);

/* Each fails if the key is absent or of another type; the `_or` forms give the default if absent.
 */
int json_str(const struct json *obj, const char *key, const char **ret, struct err *err);
int json_int(const struct json *obj, const char *key, int64_t min, int64_t max, int64_t *ret,
             struct err *err);
int json_num(const struct json *obj, const char *key, double *ret, struct err *err);
int json_bool(const struct json *obj, const char *key, bool *ret, struct err *err);
int json_str_or(const struct json *obj, const char *key, const char *dflt, const char **ret,
                struct err *err);
int json_int_or(const struct json *obj, const char *key, int64_t min, int64_t max, int64_t dflt,
                int64_t *ret, struct err *err);
int json_bool_or(const struct json *obj, const char *key, bool dflt, bool *ret, struct err *err);
/* A number of an answer; 0 where it is absent, or no such number. */
uint64_t json_uint_at(const struct json *obj, const char *key);
/* The value of a node itself (array elements). */
int json_as_str(const struct json *j, const char **ret, struct err *err);
/* A name of a file, as jw_name() writes them: its very bytes, in memory of its own. */
int json_as_name(const struct json *j, char **ret, struct err *err);
int json_name(const struct json *obj, const char *key, char **ret, struct err *err);
int json_as_int(const struct json *j, int64_t min, int64_t max, int64_t *ret, struct err *err);
int json_want_array(const struct json *j, struct err *err);
int json_want_object(const struct json *j, struct err *err);
/* Fails on the first key that is not in the NULL-ended list, naming it and those allowed. */
int json_only_keys(const struct json *obj, const char *const *keys, struct err *err);

/* Appends where the node is, as errors say it: "set.json: sources[0].uri". */
void json_path(const struct json *j, struct bytes *out);

/* A document of its own that shares the node: it outlives the document the node came from. */
struct json_doc *json_doc_of(const struct json *j, const char *what);
/* Takes a member out of an object; only where nobody else reads the document. */
void json_drop(const struct json *obj, const char *key);
bool json_holds_null(const struct json *j);                 /* there, and null */
bool json_same(const struct json *a, const struct json *b); /* equal values; absent equals absent */
/* Would this merge patch (RFC 7396) change the object? Members of an object that are null or empty
 * change nothing where there is none. */
bool json_patch_changes(const struct json *object, const struct json *patch);

/* Appends a node as text again, in its members' order, on one line. */
void json_text(const struct json *j, struct bytes *out);

/* Length of the well-formed UTF-8 sequence at `p`, 0 if there is none (RFC 3629: no surrogates, no
 * overlong forms, nothing above U+10FFFF). */
size_t utf8_len(const unsigned char *p, size_t left);
bool is_utf8(const char *text, size_t len);

/*
 * Writer. Keys are NULL inside arrays and at the top. Strings that are not UTF-8 are written with
 * U+FFFD in place of the bad bytes. Commas and nesting are the writer's business.
 */
struct json_writer {
    struct bytes *out;
    unsigned depth;
    uint64_t has_items; /* bit i: the container at depth i has an item already */
    uint64_t is_array;
};
void jw_init(struct json_writer *w, struct bytes *out);
void jw_object(struct json_writer *w, const char *key);
void jw_array(struct json_writer *w, const char *key);
void jw_end(struct json_writer *w); /* closes the innermost object or array */
void jw_str(struct json_writer *w, const char *key, const char *value); /* NULL value: null */
void jw_strn(struct json_writer *w, const char *key, const char *value, size_t len);
/* A name of a file, which may be any bytes: the string, or {"hex":DIGITS} where that is not UTF-8.
 */
void jw_name(struct json_writer *w, const char *key, const char *name);
void jw_int(struct json_writer *w, const char *key, int64_t value);
void jw_uint(struct json_writer *w, const char *key, uint64_t value);
void jw_num(struct json_writer *w, const char *key, double value); /* 3 decimals; NaN: null */
/* As exact as a float; NaN: null. */
void jw_float(struct json_writer *w, const char *key, double value);
void jw_bool(struct json_writer *w, const char *key, bool value);
void jw_raw(struct json_writer *w, const char *key, const char *json_text);

#endif
