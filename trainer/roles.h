/*
 * Roles: is this process a trainer by itself, a trainer with parameter servers, or such a server;
 * and where the others are. Pure, but for the environment it is given.
 *
 * The first that says something counts:
 *   --job_name ps|worker --task_index I --ps_hosts H:P,… --worker_hosts H:P,…
 *   --pservers IP,… --local=0, with --port, --ports_num, --ports_num_for_sparse: a server a port,
 *     those of host 0 first; ports for rows come after the dense ones on each host
 *   TRAINING_ROLE=PSERVER|TRAINER and PADDLE_PSERVERS_IP_PORT_LIST (with PADDLE_PORT and POD_IP,
 *     which that list must name); a trainer without that list learns without servers
 * `sampan-train pserver …` is a server whatever else is said. Without ports of their own, rows are
 * kept by the dense servers, too.
 */
#ifndef SAMPAN_TRAIN_ROLES_H
#define SAMPAN_TRAIN_ROLES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "err.h"
#include "options.h"

#define ROLES_SERVERS 256

enum role { ROLE_ALONE, ROLE_WORKER, ROLE_SERVER };

struct roles {
    enum role role;
    /* worker: the servers, in order */
    char *dense[ROLES_SERVERS], *sparse[ROLES_SERVERS];
    size_t n_dense, n_sparse;
    /* server: where it listens; "" for all addresses */
    char address[256];
    char *ports[ROLES_SERVERS];
    size_t n_ports;
    int64_t rank, ranks; /* -1: not said here */
};

int roles_find(struct roles *ret, const struct options *o, bool is_server,
               const char *(*get)(const char *name), struct err *err);
void roles_release(struct roles *r);

#endif
