/* Training: all that one rank does, from options to the last checkpoint. */
#ifndef SAMPAN_TRAIN_H
#define SAMPAN_TRAIN_H

#include <signal.h>

#include "log.h"
#include "options.h"
#include "roles.h"

/* Exit codes of a run that a signal ended after its checkpoint was written. */
#define TRAIN_STOPPED 1

struct train_end {
    uint64_t steps;
    double loss; /* of the last step; NaN: none was made */
};

/*
 * `stop` becomes the signal that asks for an end: a checkpoint is written then, on all ranks after
 * the same step. 0: all passes are done. TRAIN_STOPPED: a signal ended it. -1: the error.
 */
int train_run(const struct options *o, const struct roles *roles, struct log *log,
              const volatile sig_atomic_t *stop, struct train_end *ret, struct err *err);

#endif
