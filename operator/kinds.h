/*
 * The kinds of objects that the operator reads or writes: a row each in kinds.c.
 */
#ifndef SAMPAN_OPERATOR_KINDS_H
#define SAMPAN_OPERATOR_KINDS_H

#include <stdbool.h>

enum kind {
    KIND_SAMPLESET,
    KIND_SAMPLEJOB,
    KIND_PADDLEJOB,
    KIND_TRAININGJOB,
    KIND_POD,
    KIND_SERVICE,
    KIND_CONFIGMAP,
    KIND_SECRET, /* never watched nor kept: read when a decision needs one */
    KIND_PVC,
    KIND_PV,
    KIND_STATEFULSET,
    KIND_REPLICASET,
    KIND_JOB,
    KIND_NODE,
    KIND_PODGROUP,
    KIND_LEASE,
    KIND_EVENT,
    KIND_N,
};

struct kind_row {
    const char *group; /* "" for the core */
    const char *version, *kind, *plural;
    bool namespaced;
};
extern const struct kind_row kinds[KIND_N];

/* By the two members every object has. KIND_N: none of ours. */
enum kind kind_of(const char *api_version, const char *kind);

#endif
