/*
 * Inside of the controller service.
 *
 *   created.c     the table of volumes and snapshots that were made here, and its records
 *   prefix.c      a claim's prefix in the store: made and marked, looked at, removed
 *   catalogs.c    a version's catalog as a file: put away, fetched
 *   controller.c  handlers: volumes
 *   snapshots.c   handlers: snapshots
 *
 * controller->lock guards the table. Whoever began a name owns what is made under it until the end.
 */
#ifndef SAMPAN_CSI_CONTROLLER_INTERNAL_H
#define SAMPAN_CSI_CONTROLLER_INTERNAL_H

#include "arguments.h"
#include "catalogs.h"
#include "controller.h"
#include "service.h"
#include "state.h"
#include "sync.h"

#define TOKEN_BYTES 33

/* A volume or a snapshot, as its record tells. Never changed once it is in the table. */
struct created {
    struct created *next;
    char *id, *name;
    char *options;    /* attributes_text(): of the volume; of a snapshot's set with its version */
    int64_t capacity; /* of a volume: what was asked for; of a snapshot: bytes of its samples */
    char *prefix;     /* "": it has none of its own */
    char token[TOKEN_BYTES]; /* stands in the record and in the prefix's mark */
    char *source;            /* of a snapshot: the volume; of a volume: its snapshot; or "" */
    int64_t made_at;         /* seconds of the wall clock */
    bool is_snapshot;
};

struct controller {
    struct controller_conf conf;
    struct state_dir volumes_dir, snapshots_dir;
    struct lock lock;
    struct created *all;
    char **begun; /* names that a call works on */
    size_t n_begun;
};

int created_load(struct controller *c, struct err *err);
void created_free_all(struct controller *c);
/* RPC_ABORTED if another call works on that name. */
enum rpc_code created_begin(struct controller *c, const char *name, struct err *err);
void created_end(struct controller *c, const char *name);

struct created_scope {
    struct controller *controller;
    const char *name;
};
static inline void created_scope_end(struct created_scope *s)
{
    if (s->name)
        created_end(s->controller, s->name);
}
#define cleanup_created CLEANUP(created_scope_end)

/* NULL: there is none. It stays as long as its name is begun. */
const struct created *created_find(struct controller *c, const char *id, bool snapshot);
/* Record and table; takes `new` over. */
int created_add(struct controller *c, struct created *new, struct err *err);
int created_remove(struct controller *c, const struct created *gone, struct err *err);
void created_free(struct created *c);
/* In the order of their ids. The array is the caller's, what it points to is copied to the arena.
 */
const struct created **created_list(struct controller *c, bool snapshots, struct arena *arena,
                                    size_t *ret_n);

/* The id for a name: the same for the same name, whenever it is asked for. */
void created_id(const char *name, char ret[ID_MAX + 1]);

/* Where a page of a list begins: 0, or after what `token` names. A token that is none of ours is
 * RPC_ABORTED. *ret_end: one past its last entry. */
enum rpc_code page_of(const struct created *const *list, size_t n, const char *token, int32_t max,
                      size_t *ret_begin, size_t *ret_end, struct err *err);

/* --- a claim's prefix ------------------------------------------------------------------------- */

/* A folder for what passes to and from the store; gone at the end. */
struct scratch {
    char *path;
    char *credentials; /* a file in it, or NULL */
};
int scratch_make(struct scratch *s, const char *run, const struct bytes *credentials,
                 struct err *err);
void scratch_release(struct scratch *s);
#define cleanup_scratch CLEANUP(scratch_release)

/* The place: how to reach the store, and the credentials for it. */
struct place {
    struct mounter *mounter;
    const struct attributes *attributes;
    const struct scratch *scratch;
    uint64_t deadline_ns;
};
/* Makes the prefix that the volume names, and its mark. What holds anything without our mark is
 * refused (ERR_LIMIT). May be called again after any cut. */
int prefix_make(const struct place *p, const struct created *v, const char *driver,
                struct err *err);
/* Removes prefix and mark, if they agree; ERR_DENIED if the mark is not this volume's. */
int prefix_remove(const struct place *p, const struct created *v, const char *driver,
                  struct err *err);

/* A record with these options is gone: so is the catalog that it named, if no other record does. */
void snapshot_drop_catalog(struct controller *c, const char *options, struct arena *arena);

extern rpc_handler snapshot_create, snapshot_delete, snapshot_list;

#endif
