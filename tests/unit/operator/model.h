/*
 * A cluster in memory, for decisions: objects with versions and finalizers, what Kubernetes' own
 * controllers do with them (claims are bound, pods made, placed and ended, owned objects removed),
 * and runtime servers that answer. Actions are applied to it until nothing is wanted any more.
 */
#ifndef SAMPAN_TEST_OPERATOR_MODEL_H
#define SAMPAN_TEST_OPERATOR_MODEL_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "controller.h"

struct model {
    json_t *objects;   /* array */
    json_t *jobs;      /* "SERVICE.NS/ID": a job of the servers */
    json_t *samplers;  /* by pod: what its mount reads by */
    json_t *pins;      /* by pod: the version that its mount stays at; "" or none: the newest, v2 */
    const char *older; /* the version that mounts keep beside it: "v1"; "": none */
    int64_t told;      /* how often servers were told the order */
    int64_t told_version;
    json_t *events;     /* "Warning Reason: message": how often */
    int64_t now, until; /* time goes on by itself up to `until`; 0: without an end */
    long versions, uids;
    /* How the servers are. */
    bool away;            /* nobody answers */
    bool no_pods;         /* no pod may be made for them */
    bool refuses;         /* everybody: the token that they have is another one */
    unsigned unanswered;  /* requests; why differs each time */
    const char *jobs_end; /* the state that jobs come to: "succeeded" */
    const char *job_error;
    int64_t cached, limit, reads, local; /* of each server */
    int64_t kept; /* of the 500 samples and 500000 bytes of each one's share; 0: it tells of none */
    /* Of decisions. */
    int64_t actions;    /* applied so far, without AGAIN */
    int64_t kill_after; /* the operator is killed after so many actions, once; -1: never */
    bool killed;
    bool rests;     /* a set asked for no other look than that of a set at rest */
    unsigned again; /* seconds, that look aside: the soonest that was asked for in the last pass; 0:
                       none */
    struct bytes log; /* the actions, as lines */
};

extern const struct operator_config model_config;

/* `objects`: an array in JSON; uids, versions and times are filled in. */
struct model *model_new(const char *objects);
/* As it is, for another course of things. */
struct model *model_copy(const struct model *m);
void model_free(struct model *m);
void model_add(struct model *m, const char *object);
json_t *model_get(struct model *m, const char *kind, const char *ns, const char *name);
/* A merge patch by somebody else. */
void model_patch(struct model *m, const char *kind, const char *ns, const char *name,
                 const char *patch);
void model_delete(struct model *m, const char *kind, const char *ns, const char *name);
/* "a.b.0.c" in an object, as text; "": not there. The text is good until the next call. */
const char *model_at(struct model *m, const char *kind, const char *ns, const char *name,
                     const char *path);
/* Status of a condition and its reason: "True Found"; "": it is not there. */
const char *model_condition(struct model *m, const char *kind, const char *ns, const char *name,
                            const char *type);
size_t model_count(struct model *m, const char *kind);
/* How often an event whose text begins so was told. */
long long model_event(struct model *m, const char *text);

/* Lets all controllers decide once, and Kubernetes' own, once. True: something changed. */
bool model_pass(struct model *m);
/* Passes until nothing changes; then time goes on to what was asked for, at most `clocks` times.
 * Fails the test if it does not come to rest. Returns the passes. */
int model_settle(struct model *m, int clocks);
/* All but times and versions, as text; the caller frees. */
char *model_text(struct model *m);

#endif
