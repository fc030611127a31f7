/*
 * A cluster in memory, for decisions to work on: objects as the API server would keep them, and a
 * kubelet that moves pods from phase to phase.
 */
#ifndef SAMPAN_TEST_OPERATOR_CLUSTER_H
#define SAMPAN_TEST_OPERATOR_CLUSTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "actions.h"
#include "controller.h"
#include "json.h"

struct cluster_object {
    enum kind kind;
    char *ns, *name; /* ns NULL: none */
    char *text;
};
struct cluster {
    struct cluster_object *items;
    size_t n;
    int64_t now;
    unsigned version, uid, address;
    size_t sent; /* requests */
};

void cluster_release(struct cluster *m);
void cluster_copy(struct cluster *to, const struct cluster *from);
/* Puts an object there, with a uid and a resourceVersion if it has none. */
void cluster_put(struct cluster *m, const char *text);
const char *cluster_get(const struct cluster *m, enum kind kind, const char *ns, const char *name);
/* A merge patch by somebody else than the operator. */
void cluster_patch(struct cluster *m, enum kind kind, const char *ns, const char *name,
                   const char *patch);
/* As `kubectl delete` does. */
void cluster_delete(struct cluster *m, enum kind kind, const char *ns, const char *name);
size_t cluster_count(const struct cluster *m, enum kind kind);
/* The value at a way of keys, as JSON text; "" where there is none. The caller frees. */
__attribute__((sentinel)) char *cluster_at(const struct cluster *m, enum kind kind, const char *ns,
                                           const char *name, ...);

/* Decides about the object. */
void cluster_decide(struct cluster *m, const struct controller *c,
                    const struct operator_config *config, const char *ns, const char *name,
                    struct actions *out);
/* Carries out one action as the API server would. False: it failed, the round is over. */
bool cluster_apply(struct cluster *m, const struct action *a);

/* One step of all pods: deleted ones go; the others get a node and an address, pass the barrier
 * when both files say the same, run. True: something changed. */
bool cluster_kubelet(struct cluster *m);
/* Ends a pod that runs; `code` 0: well. */
void cluster_end_pod(struct cluster *m, const char *ns, const char *name, int code);

/* All objects without what differs from run to run: uids, versions, times, addresses. */
void cluster_dump(const struct cluster *m, struct bytes *out);

#endif
