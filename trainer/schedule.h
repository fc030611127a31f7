/* The learning rate of a step: a warm-up in a straight line, then constant, in steps, or a half
 * cosine down to nothing. Pure. */
#ifndef SAMPAN_TRAIN_SCHEDULE_H
#define SAMPAN_TRAIN_SCHEDULE_H

#include <stdint.h>

#include "err.h"

enum schedule_kind { SCHEDULE_CONSTANT, SCHEDULE_STEP, SCHEDULE_COSINE };

struct schedule {
    enum schedule_kind kind;
    double base;
    uint64_t warmup, total; /* steps */
    uint64_t every;         /* SCHEDULE_STEP: times `factor` after each so many */
    double factor;
};

/* "constant", "step" or "cosine". */
int schedule_kind(const char *name, enum schedule_kind *ret, struct err *err);
double schedule_rate(const struct schedule *s, uint64_t step);

#endif
