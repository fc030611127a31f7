/* What the files around a decision share. */
#ifndef SAMPAN_OPERATOR_OPERATOR_INTERNAL_H
#define SAMPAN_OPERATOR_OPERATOR_INTERNAL_H

#include "cache.h"
#include "events.h"
#include "informer.h"
#include "metrics.h"
#include "operator.h"
#include "queue.h"
#include "sync.h"

enum watch { WATCH_NOT, WATCH_ALL, WATCH_OURS, WATCH_OURS_WITH_VOLCANO };
extern const enum watch watch_of[KIND_N];

struct worker_numbers {
    counter rounds, failures, conflicts, passes;
    struct histogram decide, decide_cpu; /* by the wall clock; of the thread's CPU */
};

/* One controller at work. */
struct department {
    struct operator* op;
    const struct controller *controller;
    struct queue *queue;
    struct worker_numbers numbers;
};

struct operator
{
    struct operator_conf conf;
    struct cache *cache;
    struct events *events;
    struct informer *informers[KIND_N];
    struct department *departments; /* one a controller */
    pthread_t *threads;
    size_t n_threads;
    struct metric_row *rows; /* of all departments */
    char **labels;           /* of the rows */
    size_t n_rows;
    counter unchanged; /* patches that would have changed nothing */
    counter actions[ACTION_AGAIN + 1];
    struct lock lock;
    /* --- under the lock --- */
    size_t n_synced, n_watched;
    bool leads, working, stopping;
};

bool operator_watches(const struct operator* op, enum kind kind);

/* --- round.c: what one decision looks up ------------------------------------------------------ */

struct round;
struct round *round_new(struct operator* op);
void round_free(struct round *r);
/* A view of `object` now; freed before the round. */
struct view *round_view(struct round *r, enum kind kind, const struct json *object);
/* Gets what views asked for and did not have. */
int round_fetch(struct round *r, struct err *err);
/* A name that was looked up is held by an object of somebody else. */
bool round_met_foreign(const struct round *r);

/* --- apply.c ---------------------------------------------------------------------------------- */

struct applied {
    unsigned again_s; /* 0: nothing was said */
    bool conflict;    /* the failure is one of versions: what we knew was old */
};
/* Carries out the actions decided about `about`, in order, up to the first that fails. */
int apply_actions(struct operator* op, const struct controller *c, const struct json *about,
                  const struct actions *actions, struct applied *ret, struct err *err);

/* A request to a runtime server, with our token; any status is an answer. */
int ask_server(struct operator* op, enum http_method method, const char *url, const char *header,
               const struct bytes *body, uint64_t timeout_ns, struct http_answer *ret,
               struct bytes *ret_body, struct err *err);

#endif
