/* Node and controller service over the machine in memory, their folders, and calls in few words. */
#ifndef SAMPAN_TEST_CSI_WORLD_H
#define SAMPAN_TEST_CSI_WORLD_H

#include "fake.h"
#include "pb.h"

struct world {
    char top[64];
    char state[128], run[128], staging[128], target[128], target2[128];
    char store[128]; /* a folder; the set lies in its folder "set" */
    struct fake *fake;
    struct node *node;
    struct controller *controller;
    struct plugin plugin;
    const char *group;    /* volumes are written, by pods of that group; NULL: they are read */
    struct err err;       /* of the last call */
    uint64_t deadline_ns; /* of it */
};
void world_make(struct world *w);
void world_open(struct world *w); /* a plugin starts on what is there */
void world_close(struct world *w);
void world_remove(struct world *w);
size_t world_records(const struct world *w); /* files below state and run */

typedef enum rpc_code world_call(struct world *w);
/* Makes the call in a process of its own, which ends at that step. True: it lived. */
bool world_survives(struct world *w, world_call *call, int die_at);

/* Calls of volume "v", set s3://b/set, with the code that came back. `secret` NULL: none. */
enum rpc_code do_stage(struct world *w, const char *volume, const char *secret);
enum rpc_code do_unstage(struct world *w, const char *volume);
enum rpc_code do_publish(struct world *w, const char *volume, const char *target, bool read_only,
                         const char *secret);
/* A new world where volume "v" is staged, or published at w->target as well. */
void world_with_volume(struct world *w, const char *secret);
void world_with_pod(struct world *w, const char *secret);
enum rpc_code do_inline(struct world *w, const char *volume, const char *target);
enum rpc_code do_unpublish(struct world *w, const char *volume, const char *target);

/* Of the controller: a claim "STORE/claims/NAME" that is written to, a volume of "STORE/set", a
 * snapshot of that volume with its catalog below "STORE/catalogs", a volume of that snapshot. */
enum rpc_code do_create_claim(struct world *w, const char *name);
enum rpc_code do_create(struct world *w, const char *name, const char *snapshot);
enum rpc_code do_delete(struct world *w, const char *volume);
enum rpc_code do_snapshot(struct world *w, const char *name, const char *volume);
enum rpc_code do_delete_snapshot(struct world *w, const char *snapshot);
/* How many are listed. */
size_t world_volumes(struct world *w);
size_t world_snapshots(struct world *w);

/* The answer lies in `arena`. */
enum rpc_code call_in(struct world *w, struct arena *arena, const char *method, const void *request,
                      void *response);
enum rpc_code call_node(struct world *w, const char *method, const void *request, void *response);

#endif
