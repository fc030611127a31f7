/* A parameter server's ports and those who are connected to them (pserver.c), and who is let in
 * (pserver-greet.c). */
#ifndef SAMPAN_TRAIN_PSERVER_INTERNAL_H
#define SAMPAN_TRAIN_PSERVER_INTERNAL_H

#include "ps-round.h"
#include "pserver.h"

#define NOBODY UINT32_MAX

struct peer {
    int fd;
    uint32_t rank;   /* NOBODY until it said hello */
    bool over;       /* what is in `out` is sent, then it is closed */
    uint32_t claims; /* it is this trainer of this job, which had not come before; or NOBODY */
    uint64_t came_ns;
    struct bytes in, out;
    size_t sent;
    char name[64];      /* its address, for people */
    struct bytes hello; /* that is still to be proved */
    uint8_t number[PS_NUMBER];
};

/* One port. */
struct shard {
    struct server *server;
    int listener;
    const char *port;
    struct peer **peers;
    size_t n_peers;
    struct ps_tables *tables;
    struct ps_round round;
    bool is_deaf;      /* nobody could be let in: the listener is left alone for a moment */
    bool is_async;     /* steps are made as they come: the first trainer says so */
    bool stops;        /* one of the trainers was asked to stop */
    bool *came, *gone; /* of each rank; gone: it has said good bye, or (is_async) died */
    bool *done;        /* it makes no more steps (is_async) */
};

struct server {
    const struct pserver_conf *conf;
    struct backend *b;
    struct shard *shards;
    bool complete; /* all trainers have come */
    bool failed;
    struct err why;
};

void pserver_answer(struct peer *p, enum ps_kind kind, const struct bytes *with);

/* HELLO and PROOF. Who is to prove that it knows the secret hears nothing else of this job before.
 */
int pserver_greet(struct shard *s, struct peer *p, struct ps_in *in, struct err *err);
int pserver_prove(struct shard *s, struct peer *p, struct ps_in *in, struct err *err);

#endif
