/* Inside the planner. */
#ifndef SAMPAN_WARMUP_PLAN_INTERNAL_H
#define SAMPAN_WARMUP_PLAN_INTERNAL_H

#include "buf.h"
#include "plan.h"

#define BLOCK 64 /* numbers whose bytes are summed up together */

struct plan {
    struct plan_conf conf;
    struct owners *owners;
    /* The folder of the sample whose key was asked for last, and its path. */
    uint64_t path_of;
    struct bytes path;
    size_t folder_len;
    /* Only while the owners are made. */
    uint64_t *blocks; /* bytes below block i */
    uint64_t block;   /* whose sizes are here */
    uint64_t sizes[BLOCK];
};

#endif
