/*
 * The operator around its controllers: informers fill the cache, changes put keys into queues,
 * workers decide and carry out. Only the leader works; the others keep their caches warm.
 *
 *   informer.c  cluster -> cache        round.c   what one decision looks up
 *   cache.c     objects                 apply.c   actions -> requests
 *   queue.c     keys                    events.c  events, told once and counted
 *   lead.c      who acts                operator.c  workers and wakes
 */
#ifndef SAMPAN_OPERATOR_OPERATOR_H
#define SAMPAN_OPERATOR_OPERATOR_H

#include "controller.h"
#include "kube.h"
#include "lead.h"
#include "log.h"

struct operator_conf {
    struct kube_client *client;
    struct lead *lead; /* its `changed` calls operator_lead() */
    struct log *log;
    const char *identity; /* which operator told an event */
    const struct controller *const *controllers;
    size_t n_controllers;
    struct operator_config config;
    unsigned workers;           /* of each controller */
    const char *server_ca_file; /* of runtime servers; NULL: the system's */
};

struct operator;
int operator_start(struct operator** ret, const struct operator_conf *conf, struct err *err);
void operator_lead(struct operator* op, bool leads);
/* No decision begins any more; returns when those under way have ended. */
void operator_stop(struct operator* op);
/* After kube_close(): nothing may come any more. NULL is fine. */
void operator_free(struct operator* op);

bool operator_synced(struct operator* op, struct err *why); /* all kinds were listed */
void operator_metrics(struct operator* op, struct bytes *out);

#endif
