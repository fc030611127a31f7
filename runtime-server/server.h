/*
 * The Cache Runtime Server: a node's one network listener (port 7716). docs/openapi.yaml is its
 * contract with clients.
 *
 *   http.c     the library's callbacks: bodies, answers   routes.c   the table of routes
 *   auth.c     tokens, addresses                          compat.c   the Paddle Operator's routes
 *   mounts.c   asking the owners of the mounts            kinds.c    what each type of job does
 *   events.c   /events                                    prom.c     /metrics
 *   lists.c    lists of paths, by their digest
 *   members.c  which servers there are, and how they are  cluster.c  many servers as one
 *   samples.c  samples for other machines                 catalog.c  versions for other machines
 *   fanout.c   the work of a cluster's job                owed.c     what the lost are to hear yet
 *   guide.c    what mounts are told of the cluster
 *   limits.c   what one client can take of us             ui.c       the dashboard's files (ui/)
 *
 * It holds no sample and no cache: it asks the owners over their control sockets, and keeps jobs
 * (jobs.h). Everything but health and the dashboard's files wants a bearer token; secrets go in and
 * never come out.
 */
#ifndef SAMPAN_SERVER_H
#define SAMPAN_SERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "err.h"

struct log;

#define SERVER_PORT 7716

struct server_conf {
    const char *const *mounts; /* mount points, absolute */
    size_t n_mounts;
    const char *listen;             /* "ADDR:PORT", ":PORT", "[ADDR6]:PORT"; PORT 0: any */
    const char *state;              /* folder of jobs.db */
    const char *token_file;         /* read again when it changes; NULL: only with no_auth */
    bool no_auth;                   /* refused unless listening on loopback */
    const char *tls_cert, *tls_key; /* PEM files, read again when they change; both or none */
    const char *compat_peers; /* CIDR[,CIDR…] that may use the compat routes without a token */
    unsigned ordinal, partitions;
    const char *peers;   /* the servers of all partitions (members.h); NULL: this one alone */
    const char *ca_file; /* of those with https; NULL: the system's */
    /* The mounts are told their partition, and that whoever keeps the others is known at this
     * address, which is ours; NULL: they are left as they are. */
    const char *guide;
    uint64_t rate_limit; /* requests a second from one address; 0: any */
    uint64_t request_ns; /* a request's head, then its body, must arrive within; 0: 20 s */
    const char *version; /* of the program */
    struct log *log;
};

struct server;
/* Listens and serves from here on; refuses bad options before anything is opened. */
int server_start(struct server **ret, const struct server_conf *conf, struct err *err);
uint16_t server_port(const struct server *s);
/* Stops taking requests, ends what runs (jobs go on at the next start), frees. NULL is fine. */
void server_stop(struct server *s);

#endif
