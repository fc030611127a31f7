/*
 * Content in memory, on its way to the store or from it: so much at once and no more, however many
 * files are written and read.
 */
#include <errno.h>

#include "clock.h"
#include "content-internal.h"
#include "owed-internal.h"

static bool is_full(const struct memory_use *m, uint64_t len)
{
    return m->used && m->used + len > m->most;
}

bool memory_take(struct stage *s, struct memory_use *m, uint64_t len, bool busy)
{
    uint64_t end = m->patience_ns ? clock_mono_ns() + m->patience_ns : UINT64_MAX;
    ACQUIRE(&s->lock);
    while (is_full(m, len)) {
        if (busy || s->stopping || clock_mono_ns() >= end)
            return false;
        m->waiting++;
        cond_wait_for(&s->changed, &s->lock, LOOK_NS);
        m->waiting--;
    }
    m->used += len;
    return true;
}

void memory_give(struct stage *s, struct memory_use *m, uint64_t len)
{
    ACQUIRE(&s->lock);
    m->used -= len;
    if (m->waiting) /* else it would wake all who wait for the store, for nothing */
        cond_broadcast(&s->changed);
}
