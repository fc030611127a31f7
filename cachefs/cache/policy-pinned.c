/*
 * Who goes when room must be made: the unpinned first, those not used for longest before the
 * others; pinned units only when no unpinned one is left. Bytes by age in a fixed histogram, so
 * that a choice among ten million units takes two passes over the index and no memory.
 */
#include "policy-internal.h"

unsigned age_bucket(uint32_t minutes)
{
    if (minutes < 64)
        return minutes;
    unsigned bits = 31 - (unsigned)__builtin_clz(minutes); /* 6..31 */
    return 64 + (bits - 6) * 8 + ((minutes >> (bits - 3)) & 7);
}

void ages_add(struct ages *a, bool pinned, uint32_t minutes, uint64_t bytes)
{
    a->bytes[pinned][age_bucket(minutes)] += bytes;
}

void policy_pinned_pick(const struct ages *a, uint64_t need, struct victims *ret)
{
    for (int pinned = 0; pinned < 2; pinned++) {
        ret->from[pinned] = AGE_BUCKETS;
        ret->part[pinned] = 0;
        for (unsigned b = AGE_BUCKETS; b-- > 0 && need > 0;) {
            uint64_t here = a->bytes[pinned][b];
            ret->from[pinned] = b;
            ret->part[pinned] = need;
            need -= here < need ? here : need;
        }
    }
}

bool policy_pinned_goes(struct victims *v, bool pinned, uint32_t minutes, uint64_t bytes)
{
    unsigned b = age_bucket(minutes);
    if (v->from[pinned] == AGE_BUCKETS || b < v->from[pinned])
        return false;
    if (b > v->from[pinned])
        return true;
    if (v->part[pinned] == 0)
        return false;
    v->part[pinned] -= bytes < v->part[pinned] ? bytes : v->part[pinned];
    return true;
}
