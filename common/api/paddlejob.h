/*
 * PaddleJob: a training of parameter servers and workers, or of workers alone.
 *
 * Mode: PS where there are parameter servers, else Collective for more than one worker, else
 * Single. Phases: Pending, Starting, Running, Restarting, Scaling, Suspended, Completed, Failed,
 * Terminating.
 */
#ifndef SAMPAN_API_PADDLEJOB_H
#define SAMPAN_API_PADDLEJOB_H

#include "parts.h"

struct paddlejob_role {
    int64_t replicas, requests, limits; /* -1: absent */
    char *template;
};
struct paddlejob_scheduling {
    int64_t min_available; /* -1: absent */
    char *queue, *priority, *min_resources;
};
struct paddlejob_output {
    struct api_ref *set, *claim;
    char *mount_path;
};
struct paddlejob_spec {
    char *clean, *intranet, *start_policy, *placement, *sampler;
    int64_t gloo, elastic, backoff_limit, ttl_s; /* elastic -1: absent */
    struct paddlejob_scheduling *scheduling;
    struct api_set_ref *set;
    struct paddlejob_output *output;
    struct paddlejob_role *ps, *worker, *heter;
    bool suspend;
};

struct paddlejob_counts {
    int64_t pending, starting, running, failed, succeeded, unknown;
    char *refs;
};
struct paddlejob_status {
    char *phase, *mode, *elastic, *started, *ended, *message;
    struct paddlejob_counts *ps, *worker, *heter;
    int64_t restarts, generation;
    struct api_list conditions;
};

extern const struct api_kind api_paddlejob;

#endif
