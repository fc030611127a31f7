/* Gloo as C functions: what coll-gloo.cc gives to collective.c. No exception passes here; a failed
 * call returns -1 and its reason as text. Included by C and C++. */
#ifndef SAMPAN_TRAIN_GLOO_INTERNAL_H
#define SAMPAN_TRAIN_GLOO_INTERNAL_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define GLOO_WHY 256

/* Where ranks leave their addresses for each other. get() waits; *ret is malloc'ed. 0 or -1. */
struct gloo_store {
    int (*set)(void *arg, const char *key, const void *value, size_t len);
    int (*get)(void *arg, const char *key, void **ret, size_t *len);
    void *arg;
};

struct gloo_mesh;
int gloo_mesh_open(struct gloo_mesh **ret, uint32_t rank, uint32_t ranks, const char *address,
                   uint64_t answer_ms, const struct gloo_store *store, char why[GLOO_WHY]);
int gloo_mesh_sum(struct gloo_mesh *m, float *y, size_t n, char why[GLOO_WHY]);
int gloo_mesh_share(struct gloo_mesh *m, void *bytes, size_t n, char why[GLOO_WHY]);
int gloo_mesh_barrier(struct gloo_mesh *m, char why[GLOO_WHY]);
void gloo_mesh_close(struct gloo_mesh *m);

#ifdef __cplusplus
}
#endif
#endif
