#include <sched.h>

#include "clock.h"
#include "loader-internal.h"

/* About what it costs to put a thread to sleep and wake it on a core that fell idle meanwhile, in
 * a virtual machine most of all. */
#define AWAKE_NS (50 * 1000)
#define SLEEPS   16 /* after a look in vain: a consumer that computes wants its cores for that */
#define ASIDE_NS (500 * 1000ull) /* between two looks of all threads that are one too many */

void tell_workers(struct loader *l)
{
    atomic_fetch_add_explicit(&l->news, 1, memory_order_relaxed);
    cond_broadcast(&l->work);
}

void tell_consumer(struct loader *l)
{
    atomic_fetch_add_explicit(&l->news, 1, memory_order_relaxed);
    cond_broadcast(&l->done);
}

void wait_aside(struct loader *l)
{
    cond_wait_for(&l->aside, &l->lock, ASIDE_NS * l->o.threads / l->cores);
}

bool wait_awake(struct loader *l, unsigned *sleeps)
{
    if (l->sample_size || !l->direct)
        return false; /* the next sample takes longer than to be woken */
    if (*sleeps) {
        --*sleeps;
        return false;
    }
    uint32_t seen = atomic_load_explicit(&l->news, memory_order_relaxed);
    lock_drop(&l->lock);
    uint64_t until = clock_mono_ns() + AWAKE_NS;
    do
        sched_yield(); /* whoever brings the news may need this core */
    while (atomic_load_explicit(&l->news, memory_order_relaxed) == seen && clock_mono_ns() < until);
    lock_take(&l->lock);
    bool heard = atomic_load_explicit(&l->news, memory_order_relaxed) != seen;
    *sleeps = heard ? 0 : SLEEPS;
    return heard;
}
