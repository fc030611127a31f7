/*
 * Remote parameters: a trainer's side of the parameter servers.
 *
 * The trainer's own net is small where tables are large: an embedding has room for the rows of one
 * batch alone. Before a step those rows (and all dense parameters) are pulled, ids are renamed to
 * the places they got, and afterwards the gradients are pushed; servers do the update when all
 * trainers have pushed (synchronous: as one process with the summed batch would, within the
 * rounding of sums in another order).
 *
 * Rows of a table lie on the server whose number is the row's modulo the number of servers; a dense
 * parameter lies whole on the one that had the least so far.
 */
#ifndef SAMPAN_TRAIN_REMOTE_H
#define SAMPAN_TRAIN_REMOTE_H

#include "collective.h"
#include "net.h"

struct remote_conf {
    const char *const *dense; /* HOST:PORT of the servers of dense parameters, in order */
    size_t n_dense;
    const char *const *sparse; /* of rows; they may be the same */
    size_t n_sparse;
    const char *job;
    const struct secret *secret; /* outlives it; text NULL: there is none */
    uint32_t rank, ranks;
    bool is_async; /* steps are those of single trainers, as they come */
    uint64_t seed;
    uint64_t timeout_ns; /* to reach the servers */
    uint64_t answer_ns;  /* for one answer, the other trainers' steps among it */
};

struct remote;
struct remote *remote_new(const struct remote_conf *conf); /* copies; connects to nobody */
/* Gives `rows` (of each embedding of a batch) room for no more than a batch can name. */
int remote_room(int rows, size_t batch, int width);
/* Connects. `shape`: the whole model, unfinished; `n`: the same with remote_room(). Both outlive
 * the connection. A server that belongs to another job or model refuses, and says so. */
int remote_meet(struct remote *r, const struct net *shape, struct net *n, struct err *err);
/* Without `well` the others hear of a death. */
void remote_free(struct remote *r, bool well);

/* The parameters of this batch into the net; `*ret`: the batch with its ids renamed, valid until
 * the next call. An empty batch brings the dense ones alone. */
int remote_pull(struct remote *r, const struct net_batch *in, struct net_batch *ret,
                struct err *err);
/* The gradients of that batch. `sums` become those of all trainers (async: stay this one's); where
 * their loss is not a number, no parameter was changed. Async: `*stop` tells the others that all
 * shall stop, and becomes true when one of them told so. */
int remote_push(struct remote *r, const struct update *u, uint64_t step, float sums[N_SUMS],
                bool *stop, struct err *err);
/* Async: this trainer makes no more steps. `*stop` as above; `*all`: nor does any other. -1 also
 * where others still do when all were asked to stop STORE_STOP_NS before. */
int remote_done(struct remote *r, bool *stop, bool *all, struct err *err);
/* All numbers into a finished net of the whole shape (on the CPU), and from it. One trainer alone,
 * while the others do neither. */
int remote_read(struct remote *r, struct net *whole, struct err *err);
int remote_write(struct remote *r, const struct net *whole, struct err *err);
/* What trainers agree on, through the first server. Lives as long as `r`; remote_free() ends it. */
struct collective *remote_collective(struct remote *r);

#endif
