/*
 * A controller: which objects it decides about, whose changes make it decide, and the decision.
 */
#ifndef SAMPAN_OPERATOR_CONTROLLER_H
#define SAMPAN_OPERATOR_CONTROLLER_H

#include "actions.h"
#include "conf.h"
#include "err.h"
#include "view.h"

/* What the operator was started with; the same for all decisions. */
struct operator_config {
    const char *image;           /* of runtime servers, unless a set names another */
    const char *namespace_;      /* the operator's own */
    const char *csi_driver;      /* "csi.sampan.io" */
    const char *etcd_servers;    /* of elastic jobs, commas between; NULL: none */
    const char *token_key;       /* from which tokens of runtime servers are made (parts.h) */
    unsigned port_from, port_to; /* of jobs on the host's network */
    bool volcano;                /* PodGroups are made and waited for */
    struct conf_list set_files;  /* all folders of the nodes that sets may name; empty: any */
};

/* The object that a change of another object concerns: writes its key "ns/name" (or "name"). */
struct wake {
    enum kind kind;
    /* Calls `add` once for each key. Pure; looks at the changed object alone. */
    void (*keys)(const struct json *changed, void (*add)(void *arg, const char *key), void *arg);
};

struct controller {
    const char *name; /* in logs and metrics */
    enum kind kind;
    const struct wake *wakes;
    size_t n_wakes;
    /* An error: nothing can be decided; it is logged and tried again. What a user did wrong is not
     * an error but a condition and an event. */
    int (*decide)(struct view *v, const struct operator_config *config, struct actions *out,
                  struct err *err);
};

extern const struct controller sampleset_controller, samplejob_controller, paddlejob_controller,
    trainingjob_controller;

#endif
