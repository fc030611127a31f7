/*
 * A store in trouble: what has to ask it asks again, until the caller's patience is at its end. A
 * failed call has done nothing yet; the calls that wait for what is owed (owed.c) wait by
 * themselves, and fail when that end has come.
 */
#include <errno.h>

#include "clock.h"
#include "owed-internal.h"

#define AGAIN_NS (NS_PER_S / 2) /* the engine has paused between its own tries before */

bool stage_ask_again(struct stage *s, const struct stage_call *c, struct err *err)
{
    if (!c->wait || !c->since_ns || err->class != ERR_TRANSIENT || err->sys == EINTR)
        return false;
    uint64_t again = clock_mono_ns() + AGAIN_NS, now;
    if (again >= c->since_ns + s->conf.patience_ns)
        return false;
    ACQUIRE(&s->lock);
    while ((now = clock_mono_ns()) < again && !s->stopping) {
        if (is_given_up(c)) {
            given_up(err);
            return false;
        }
        cond_wait_for(&s->changed, &s->lock, again - now < LOOK_NS ? again - now : LOOK_NS);
    }
    return !s->stopping;
}
