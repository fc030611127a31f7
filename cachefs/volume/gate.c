/* The gate: how many reads, fetches ahead and warmups are under way, and the end of letting them
 * in. */
#include "volume-internal.h"

#define GATE_LOOK_NS (5 * 1000000ull)

void gate_init(struct gate *g)
{
    atomic_init(&g->inside, 0);
    atomic_init(&g->closed, false);
    lock_init(&g->lock, RANK_GATE, "volume gate");
    cond_init(&g->empty);
}

/* Counting comes before the look at `closed`: a closer that saw nobody inside shut the door before.
 */
bool gate_enter(struct gate *g)
{
    atomic_fetch_add(&g->inside, 1);
    if (!atomic_load(&g->closed))
        return true;
    gate_leave(g);
    return false;
}

/*
 * While the gate is open nobody waits, and the decrement is the last touch. While it closes, the
 * last one out wakes the closer; the closer looks again by itself every few milliseconds, which
 * covers a leaver that read `closed` just before it was set.
 */
void gate_leave(struct gate *g)
{
    if (!atomic_load(&g->closed)) {
        atomic_fetch_sub(&g->inside, 1);
        return;
    }
    ACQUIRE(&g->lock);
    atomic_fetch_sub(&g->inside, 1);
    cond_broadcast(&g->empty);
}

void gate_close(struct gate *g)
{
    atomic_store(&g->closed, true);
    ACQUIRE(&g->lock);
    while (atomic_load(&g->inside) > 0)
        cond_wait_for(&g->empty, &g->lock, GATE_LOOK_NS);
}

void gate_destroy(struct gate *g)
{
    cond_destroy(&g->empty);
    lock_destroy(&g->lock);
}
