/*
 * Inside of the controller service.
 *
 *   created.c     the table of volumes and snapshots that were made here, and its records
 *   prefix.c      a claim's prefix in the store: made and marked, looked at, removed
 *   catalogs.c    a version's catalog as a file: put away, fetched
 *   controller.c  handlers: volumes made and removed
 *   controller-info.c  handlers: questions about them
 *   snapshots.c   handlers: snapshots
 *
 * controller->lock guards the table. Whoever began an id owns what is made under it until the end.
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

/* A volume or a snapshot, as its record tells. Never changed while it is in the table: another one
 * takes its place. */
struct created {
    struct created *next;
    char *id, *name;
    char *options;    /* attributes_text(): of the volume; of a snapshot's set with its version */
    int64_t capacity; /* of a volume: what was asked for; of a snapshot: bytes of its samples */
    char *prefix;     /* "": it has none of its own */
    char *catalogs;   /* folder in a store that holds its version's catalog and is ours alone; "" */
    char token[TOKEN_BYTES]; /* stands in the record and in the prefix's mark */
    char *source;            /* of a snapshot: the volume; of a volume: its snapshot; or "" */
    int64_t made_at;         /* seconds of the wall clock */
    bool is_snapshot;
    bool done; /* false: a call that made it was cut off, and is to be made again */
};

struct controller {
    struct controller_conf conf;
    struct state_dir volumes_dir, snapshots_dir;
    char *scratch; /* what folders for passing things begin with */
    struct lock lock;
    struct created *all;
    char **begun; /* what calls work on */
    size_t n_begun;
};

int created_load(struct controller *c, struct err *err);
void created_free_all(struct controller *c);

/* What a call works on, alone: a volume or a snapshot by its id, a version by its digest. A version
 * is begun by whoever makes, or may remove, its catalog; and after the volume or snapshot. */
enum created_kind { CREATED_VOLUME, CREATED_SNAPSHOT, CREATED_VERSION };
struct created_scope {
    struct controller *controller;
    char *key;
};
/* RPC_ABORTED if another call works on it; RPC_FAILED_PRECONDITION if its record is strange. */
enum rpc_code created_begin(struct created_scope *scope, enum created_kind kind, const char *id,
                            struct err *err);
void created_scope_end(struct created_scope *s);
#define cleanup_created CLEANUP(created_scope_end)

/* NULL: there is none. A copy in the arena. */
const struct created *created_find(struct controller *c, const char *id, bool snapshot,
                                   struct arena *arena);
/* Record and table; takes the place of one with that id. */
int created_put(struct controller *c, const struct created *v, struct err *err);
int created_remove(struct controller *c, const struct created *gone, struct err *err);
/* In the order of their ids, those that are done: copies in the arena. */
const struct created **created_list(struct controller *c, bool snapshots, struct arena *arena,
                                    size_t *ret_n);
/* Whether another one than `but` has that version, or that folder of catalogs. */
bool created_uses_version(struct controller *c, const char *version, const struct created *but);
bool created_uses_catalogs(struct controller *c, const char *catalogs, const struct created *but);
int created_token(char ret[TOKEN_BYTES], struct err *err);

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
int scratch_make(struct scratch *s, const struct controller *c, const struct bytes *credentials,
                 struct err *err);
void scratch_release(struct scratch *s);
/* What a plugin that was killed has left. */
void scratch_clean(const struct controller *c);
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
/* Removes a folder of the store with all that is in it. None there: fine. */
int store_remove(const struct place *p, const char *uri, struct err *err);

/* --- snapshots -------------------------------------------------------------------------------- */

/* The record goes, and before it the catalog that it names, here and in the store, if no other
 * record has it. */
enum rpc_code snapshot_forget(struct controller *c, const struct created *gone,
                              const struct bytes *credentials, struct rpc_call *call,
                              struct err *err);

extern rpc_handler snapshot_create, snapshot_delete, snapshot_list;
/* controller-info.c */
extern rpc_handler controller_validate, controller_list_volumes, controller_get_volume,
    controller_get_capacity, controller_get_capabilities;
PB(Volume) * volume_message(struct arena *arena, const struct created *v);

#endif
