/*
 * What is known of the cluster: the newest version of each object that is watched.
 *
 * Objects are immutable and counted: a holder reads one without a lock for as long as it likes.
 * What our own writes gave back goes in at once (cache_put), so that the next decision sees it and
 * nothing is made twice; news that are older are passed over. Versions are compared as numbers,
 * as the API server counts them for all objects of a kind.
 *
 * All functions may be called from any thread; the listener is called without a lock, by the thread
 * that brought the change.
 */
#ifndef SAMPAN_OPERATOR_CACHE_H
#define SAMPAN_OPERATOR_CACHE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "json.h"
#include "kinds.h"

struct object {
    atomic_int refs;
    struct json_doc *doc;
    struct json root;
    char *key; /* "ns/name" or "name" */
};
/* Takes `doc` over and strips it of what nobody reads. */
struct object *object_new(enum kind kind, struct json_doc *doc);
void object_unref(struct object *o); /* NULL is fine */

struct cache;
/* `before` or `after` is NULL where the object came or went. */
typedef void cache_listener(void *arg, enum kind kind, const struct json *before,
                            const struct json *after);
struct cache *cache_new(cache_listener *listener, void *arg);
void cache_free(struct cache *c);

/* Objects that are there, in any order; the caller unrefs each. `label` may be a mark (object.h).
 */
struct object *cache_get(struct cache *c, enum kind kind, const char *ns, const char *name);
void cache_list(struct cache *c, enum kind kind, const char *ns, const char *label,
                const char *value, void (*add)(void *arg, struct object *o), void *arg);

/* --- what watches bring --- */

/* A full list at `version`: what it lacks is gone, unless it is newer. "": the kind itself is gone.
 */
void cache_replace(struct cache *c, enum kind kind, struct object **objects, size_t n,
                   const char *version);
/* One change; takes the reference. */
void cache_changed(struct cache *c, enum kind kind, struct object *o, bool deleted);
void cache_bookmark(struct cache *c, enum kind kind, const char *version);

/* --- what our writes bring --- */

/* Takes the reference. Older than what is known: passed over. */
void cache_put(struct cache *c, enum kind kind, struct object *o);
/* Was deleted; hidden until the watch says so too. */
void cache_gone(struct cache *c, enum kind kind, const char *ns, const char *name, const char *uid);
/* An object of somebody else, which holds a name that we wanted: known for a minute. */
void cache_foreign(struct cache *c, enum kind kind, struct object *o);

struct cache_numbers {
    size_t objects[KIND_N];
};
void cache_numbers(struct cache *c, struct cache_numbers *ret);

/* Is version `a` newer than `b`? Both are numbers of any length; "" and NULL are older than all. */
bool version_newer(const char *a, const char *b);

#endif
