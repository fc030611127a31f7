/* Makes the scheduler look at the clock now, which a test has moved. */
#ifndef SAMPAN_TEST_JOBS_KICK_H
#define SAMPAN_TEST_JOBS_KICK_H

#include "jobs-internal.h"

static inline void jobs_kick(struct jobs *j)
{
    ACQUIRE(&j->lock);
    cond_broadcast(&j->news);
}

#endif
