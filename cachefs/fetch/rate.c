/* The rate limit of fetch: see rate-internal.h. */
#include "rate-internal.h"

#include "clock.h"

void rate_set(struct rate *r, uint64_t per_s, uint64_t now_ns)
{
    if (r->per_s == per_s)
        return;
    *r = (struct rate){.per_s = per_s, .used_until_ns = now_ns};
}

void rate_take(struct rate *r, uint64_t bytes, uint64_t now_ns)
{
    if (!r->per_s)
        return;
    uint64_t oldest = now_ns > RATE_BURST_NS ? now_ns - RATE_BURST_NS : 0;
    if (r->used_until_ns < oldest) {
        r->used_until_ns = oldest;
        r->rest = 0;
    }
    __extension__ unsigned __int128 work = (unsigned __int128)bytes * NS_PER_S + r->rest;
    r->used_until_ns += (uint64_t)(work / r->per_s);
    r->rest = (uint64_t)(work % r->per_s);
}

uint64_t rate_wait_ns(const struct rate *r, uint64_t now_ns)
{
    if (!r->per_s || r->used_until_ns <= now_ns)
        return 0;
    return r->used_until_ns - now_ns;
}
