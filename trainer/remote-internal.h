/* Between a trainer's connections (remote.c), what it moves over them (remote-rows.c) and what it
 * agrees on with other trainers (remote-agree.c). */
#ifndef SAMPAN_TRAIN_REMOTE_INTERNAL_H
#define SAMPAN_TRAIN_REMOTE_INTERNAL_H

#include "buf.h"
#include "ps-wire.h"
#include "remote.h"

struct remote_table {
    size_t param;
    struct ps_shape shape;
};

struct remote_server {
    char *where;
    int fd;
    struct remote_table *tables; /* that it keeps, by the number they have on the wire */
    size_t n_tables;
    struct bytes in, out; /* the answer in hand; the request in the making */
    struct bytes hello;   /* the greeting's payload, until it is proved */
};

/* Ids of the batch in hand, of one table. */
struct remote_ids {
    int32_t *ids;   /* renamed: places in `rows` */
    uint32_t *rows; /* the rows they name, each once, ascending */
    size_t n_rows, cap;
};

struct remote {
    struct collective base;
    struct remote_conf conf;
    char *job;
    struct remote_server *servers;
    size_t n_servers;
    size_t *dense, *sparse; /* places in `servers` */
    const struct net *shape;
    struct net *n;
    struct remote_ids batch[NET_IDS];
    float *host;       /* the net's numbers on their way */
    bool stops;        /* a trainer was asked to stop, this one or another ... */
    uint64_t stops_ns; /* ... at this moment, as far as is known here */
    uint64_t last_ns;  /* since when the others' last steps are waited for all the same; 0: not */
};

extern const struct collective_ops remote_collective_ops;

/* Word of a stop came, or this trainer was asked to. */
void remote_now_stops(struct remote *r);
/* Others are waited for no longer after a stop: the error, ERR_CANCELLED. Always -1. */
int remote_give_up(const struct remote *r, struct err *err);
/* Sends what stands in s->out; its answer then stands in s->in. */
int remote_send(struct remote *r, struct remote_server *s, struct err *err);
int remote_answer(struct remote *r, struct remote_server *s, enum ps_kind want, struct err *err);
/* Has a server that was asked nothing ended, and why? -1 then. Never waits if `err` is NULL. */
int remote_check(struct remote *r, struct remote_server *s, struct err *err);
int remote_ask(struct remote *r, struct remote_server *s, enum ps_kind want, struct err *err);

#endif
