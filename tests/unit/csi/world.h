/* A node service over the machine in memory, its folders, and calls of it in few words. */
#ifndef SAMPAN_TEST_CSI_WORLD_H
#define SAMPAN_TEST_CSI_WORLD_H

#include "fake.h"
#include "pb.h"

struct world {
    char top[64];
    char state[128], run[128], staging[128], target[128], target2[128];
    struct fake *fake;
    struct node *node;
    struct plugin plugin;
    struct err err; /* of the last call */
};
void world_make(struct world *w);
void world_open(struct world *w); /* a plugin starts on what is there */
void world_close(struct world *w);
void world_remove(struct world *w);
size_t world_records(const struct world *w); /* files below state and run */

/* Calls of volume "v", set s3://b/set, with the code that came back. `secret` NULL: none. */
enum rpc_code do_stage(struct world *w, const char *volume, const char *secret);
enum rpc_code do_unstage(struct world *w, const char *volume);
enum rpc_code do_publish(struct world *w, const char *volume, const char *target, bool read_only,
                         const char *secret);
enum rpc_code do_inline(struct world *w, const char *volume, const char *target);
enum rpc_code do_unpublish(struct world *w, const char *volume, const char *target);

enum rpc_code call_node(struct world *w, const char *method, const void *request, void *response);

#endif
