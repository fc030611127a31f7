/*
 * TrainingJob: servers and trainers of which the cluster may take and to which it may give pods.
 *
 * Style edl: a ReplicaSet of masters (fault tolerant jobs), a ReplicaSet of servers, a Job of
 * trainers. Style tensor: each task is a ReplicaSet of one pod and a Service of the same name, told
 * of all others by --ps_hosts and --worker_hosts; one tensorboard; and servers of the trained
 * model.
 */
#ifndef SAMPAN_API_TRAININGJOB_H
#define SAMPAN_API_TRAININGJOB_H

#include "parts.h"

struct trainingjob_role {
    char *entrypoint, *workspace, *resources, *envs, *tolerations, *node_selector, *affinity;
    char *liveness, *readiness, *pre_stop;
    int64_t min, max, grace_s; /* max and grace_s -1: absent */
};
struct trainingjob_master {
    char *etcd, *resources, *image;
};
struct trainingjob_board {
    char *image, *logdir, *resources;
};
struct trainingjob_serving {
    char *image, *entrypoint, *resources;
    int64_t replicas, port;
};
struct trainingjob_spec {
    char *image, *style, *volumes, *volume_mounts, *image_pull_secrets;
    int64_t port, ports, sparse_ports, passes;
    bool fault_tolerant, local, host_network;
    struct trainingjob_master *master;
    struct trainingjob_role *pserver, *trainer;
    struct trainingjob_board *board;
    struct trainingjob_serving *serving;
};
struct trainingjob_status {
    char *phase, *message, *started, *ended;
    int64_t running, succeeded, failed, parallelism, generation;
    struct api_list conditions;
};

extern const struct api_kind api_trainingjob;

#endif
