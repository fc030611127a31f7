/*
 * Events of pods, told to the cluster's API server: one thread posts them, tries again for a while
 * what could not be told, and gives up with a line in the log. Nothing waits for it.
 *
 * It speaks with the token of the pod that the plugin runs in (a folder with token, ca.crt), and
 * needs the right to `create` `events`, no other. An event's name is made from what it is about, so
 * that the server refuses it a second time: told twice (by a plugin that was restarted) it is there
 * once.
 */
#ifndef SAMPAN_CSI_EVENTS_H
#define SAMPAN_CSI_EVENTS_H

#include "buf.h"
#include "err.h"
#include "log.h"

struct pod_ref {
    char *name, *namespace, *uid;
};

struct events_conf {
    const char *account;   /* folder of the service account: token, ca.crt */
    const char *component; /* who tells: the driver's name */
    const char *node;
    struct log *log;
};
struct events;
/* *ret stays NULL where there is no cluster to tell: no KUBERNETES_SERVICE_HOST, or no token. */
int events_start(struct events **ret, const struct events_conf *conf, struct err *err);
/* What was not told yet is dropped. NULL is fine. */
void events_stop(struct events *e);
/* A warning about a pod. `about` makes its name: equal pods and texts are one event. */
void events_warn(struct events *e, const struct pod_ref *pod, const char *about, const char *reason,
                 const char *message);
/* So many were told, so many given up. */
void events_counts(const struct events *e, uint64_t *ret_told, uint64_t *ret_failed);

/* The object as it is posted. For tests. */
void events_object(const struct events_conf *conf, const struct pod_ref *pod, const char *about,
                   const char *reason, const char *message, int64_t now_s, struct bytes *out);

#endif
