/*
 * Collectives: what the ranks of a job do together. One process a rank.
 *
 * The engine on CPUs is Gloo (Debian's libgloo-dev): the one that PyTorch and Paddle use there, it
 * needs neither a launcher of its own nor the same library on every node's PATH as MPI does
 * (mpirun, orted, ssh), works between containers by plain TCP, and a lost peer is an error that a
 * program can catch, where MPI's default is to end all processes. It is C++ alone: coll-gloo.cc is
 * the one file that knows it. Sums are the same bits on every rank.
 *
 * The process ignores SIGPIPE: Gloo writes to peers that may be gone.
 *
 * All ranks call the same functions in the same order. A failed call is final: the error names the
 * rank that died, or stands still, where one did (store.h watches them), and nothing works
 * afterwards but close().
 *
 * A stop that one rank is asked for is known to all at once, whatever they wait for. Who waits for
 * a rank that has not joined STORE_STOP_NS later waits no longer: the call fails (`broken`), and
 * each goes by what it has.
 */
#ifndef SAMPAN_TRAIN_COLLECTIVE_H
#define SAMPAN_TRAIN_COLLECTIVE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "err.h"
#include "rendezvous.h"

struct collective {
    const struct collective_ops *ops;
    uint32_t ranks, rank;
    const atomic_int *stop; /* not 0: this rank was asked to stop. NULL: it never is */
    bool broken;            /* a call failed: there are no others any more */
    bool failed;            /* set by who ends with an error: the others hear of it as of a death */
};

struct collective_ops {
    const char *name;
    /* y = the sum over all ranks, in host memory. */
    int (*sum)(struct collective *c, float *y, size_t n, struct err *err);
    /* All get the bytes of rank 0. */
    int (*share)(struct collective *c, void *bytes, size_t n, struct err *err);
    /* Returns when all have called it. */
    int (*barrier)(struct collective *c, struct err *err);
    /* Are others waited for in vain? -1: one has died (its name), or a stop was asked for long ago
     * (as above). Never waits. */
    int (*check)(struct collective *c, struct err *err);
    /* Was this rank asked to stop, or another? Never waits. */
    bool (*stops)(struct collective *c);
    void (*close)(struct collective *c);
};

/* One rank needs nobody. More: meets the others as `r` says, within its time limit. */
int collective_open(struct collective **ret, const struct rendezvous *r, const atomic_int *stop,
                    struct err *err);
void collective_close(struct collective *c);

#endif
