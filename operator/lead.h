/*
 * Takes, renews and gives back the Lease, on a thread of its own ("lease").
 */
#ifndef SAMPAN_OPERATOR_LEAD_H
#define SAMPAN_OPERATOR_LEAD_H

#include "kube.h"
#include "lease.h"
#include "log.h"

struct lead_conf {
    struct kube_client *client; /* may be set later: lead_start() */
    struct log *log;
    const char *ns, *name, *identity;
    struct lease_times times;
    void (*changed)(void *arg, bool leads); /* on the lease's thread, without a lock */
    void *arg;
};

struct lead;
struct lead *lead_new(const struct lead_conf *conf);
int lead_start(struct lead *l, struct kube_client *client, struct err *err);
/* Nothing is written any more from now on; then gives the Lease back, if we hold it. */
void lead_stop(struct lead *l);
void lead_free(struct lead *l);

bool lead_leads(struct lead *l);
/* For the client's fence (kube.h): any thread, never waits. */
uint64_t lead_write_until(void *lead);
/* Does the thread move? An API server that is away is no reason to be restarted. */
bool lead_healthy(struct lead *l, struct err *why);

#endif
