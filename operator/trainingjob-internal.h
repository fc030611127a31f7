/*
 * TrainingJob, from what is there to what is wanted: trainingjob.c decides, trainingjob-edl.c and
 * trainingjob-tensor.c say which children the two styles have, trainingjob-child.c makes them.
 */
#ifndef SAMPAN_OPERATOR_TRAININGJOB_INTERNAL_H
#define SAMPAN_OPERATOR_TRAININGJOB_INTERNAL_H

#include "build-pod.h"
#include "parts.h"
#include "trainingjob.h"

#define TENSOR_PORT 5000
#define BOARD_PORT  6006

struct training {
    struct view *v;
    struct actions *out;     /* events and the status: before all else */
    struct actions children; /* what follows the status */
    const struct json *object;
    const char *ns, *name, *uid;
    struct trainingjob_spec *spec;
    struct json was;        /* the status */
    const struct json *job; /* of the trainers of style edl; NULL: there is none */
    const char *begun;      /* by the Job of its trainers, which is complete; NULL: not said */
    struct part_conditions conditions;
    const char *phase;
    char *message;
    int64_t running, succeeded, failed, parallelism;
    size_t wanted, ready; /* replica sets, and those that are up */
    char **names;         /* of the replica sets that are wanted */
};

/* A set of equal pods. */
struct training_child {
    enum kind kind;    /* KIND_REPLICASET or KIND_JOB */
    const char *name;  /* its own name */
    const char *label; /* label of its pods: LABEL=<label_value> */
    const char *label_value;
    const char *image, *container;
    const char *command;                 /* as a shell takes it; NULL: the image's own */
    const struct trainingjob_role *role; /* NULL: none */
    const char *resources;               /* in place of the role's; NULL: the role's */
    const struct pairs *env;
    int64_t replicas, backoff;
    bool elastic; /* of a Job: its pods come and go, so it is complete when one has ended well and
                   * the others have ended */
    int64_t port;
    size_t n_ports;
    const char *sidecar; /* one more container, as JSON; NULL: none */
};
void training_want(struct training *t, const struct training_child *c);
/* Below the name of the pods. `type`: NULL for the default. */
void training_want_service(struct training *t, const char *name, const char *label,
                           const char *value, int64_t port, const char *type);
/* Takes away what the style has no more. */
void training_drop_others(struct training *t);

/* The most trainers there may be. */
int64_t training_most(const struct trainingjob_role *r);
/* How many trainers there are to be from now on. */
void training_scale(struct training *t);

void training_edl(struct training *t);
void training_tensor(struct training *t);

#endif
