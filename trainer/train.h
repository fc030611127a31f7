/* Training: all that one rank does, from options to the last checkpoint. */
#ifndef SAMPAN_TRAIN_H
#define SAMPAN_TRAIN_H

#include <signal.h>
#include <stdatomic.h>

#include "log.h"
#include "options.h"
#include "roles.h"

/* Exit codes of a run that a signal ended after its checkpoint was written. */
#define TRAIN_STOPPED 1

struct train_end {
    uint64_t steps;
    double loss; /* of the last step; NaN: none was made */
};

struct train_signals {
    /* Becomes the signal that asks for an end: a checkpoint is written then, on all ranks after the
     * same step. */
    const atomic_int *stop;
    /* True while it opens, which may take minutes (other ranks are waited for): a signal may end
     * the process where it stands, for nothing is learnt and nothing is written yet. */
    volatile sig_atomic_t *at_once;
};

/* 0: all passes are done. TRAIN_STOPPED: a signal ended it. -1: the error. */
int train_run(const struct options *o, const struct roles *roles, struct log *log,
              const struct train_signals *signals, struct train_end *ret, struct err *err);

#endif
