/*
 * The kinds of objects that the operator reads or writes: a row each in kinds.c.
 *
 * Of pods, services and whatever else the operator makes, it watches only its own: those with the
 * label MANAGED_KEY=MANAGED_BY. So every object that an ACTION_CREATE makes carries that label, and
 * so does the template of its pods. Seen whole are: the four kinds of users' objects, claims
 * (persistent volume claims, which a user may name as a source) and their volumes, and nodes
 * (without their images).
 * A name that a foreign object holds is seen too, once a create has failed on it: view_get() then
 * gives that object, which lacks the label.
 */
#ifndef SAMPAN_OPERATOR_KINDS_H
#define SAMPAN_OPERATOR_KINDS_H

#include <stdbool.h>

#define MANAGED_KEY "app.kubernetes.io/managed-by"
#define MANAGED_BY  "sampan-operator"

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
