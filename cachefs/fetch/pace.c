/* How many requests below readers at once: see pace-internal.h. */
#include "pace-internal.h"

#define GAIN 1.1

static void begin_round(struct pace *p, unsigned to_settle)
{
    p->to_settle = to_settle;
    p->landed = 0;
    p->began_ns = 0;
}

static void set_limit(struct pace *p, unsigned limit, bool trial)
{
    p->limit = limit;
    p->trial = trial;
    begin_round(p, limit);
}

void pace_init(struct pace *p)
{
    *p = (struct pace){0};
    set_limit(p, PACE_START, false);
}

static void end_round(struct pace *p, double rate)
{
    if (p->trial && rate < p->rate * GAIN) {
        p->hold = PACE_HOLD;
        set_limit(p, p->limit / 2, false);
        return;
    }
    p->rate = rate;
    p->trial = false;
    if (p->hold)
        p->hold--;
    if (!p->hold && p->limit < p->most)
        set_limit(p, 2 * p->limit, true);
    else
        begin_round(p, 0);
}

void pace_landed(struct pace *p, uint64_t bytes, uint64_t now_ns, bool bound)
{
    if (!bound) {
        begin_round(p, p->limit);
        return;
    }
    if (p->to_settle) {
        p->to_settle--;
        return;
    }
    if (!p->began_ns) {
        p->began_ns = now_ns;
        p->began_bytes = bytes;
        return;
    }
    if (++p->landed >= p->limit && now_ns > p->began_ns)
        end_round(p, (double)(bytes - p->began_bytes) / (double)(now_ns - p->began_ns));
}
