/* Second requests at the tail: see hedge-internal.h. */
#include "hedge-internal.h"

#include <string.h>

#define PER_REQUEST 5 /* percent */
#define COST        100
#define SAVED_MAX   800 /* eight in a row after a quiet time */
#define CROWD_ONE   16
#define REFRESH     16 /* the percentile is computed anew after so many samples */

static unsigned class_of(uint32_t len)
{
    static const uint32_t up_to[HEDGE_CLASSES - 1] = {64u << 10, 512u << 10, 2u << 20};
    unsigned c = 0;
    while (c < HEDGE_CLASSES - 1 && len > up_to[c])
        c++;
    return c;
}

/* 0..15 as they are, then 8 buckets an octave. */
static unsigned bucket_of(uint64_t ns)
{
    if (ns < 16)
        return (unsigned)ns;
    unsigned top = 63u - (unsigned)__builtin_clzll(ns);
    unsigned bucket = (top - 3) * 8 + (unsigned)(ns >> (top - 3) & 7) + 8;
    return bucket < HEDGE_BUCKETS ? bucket : HEDGE_BUCKETS - 1;
}

/* The first value above the bucket. */
static uint64_t bucket_end(unsigned bucket)
{
    if (bucket < 16)
        return bucket + 1;
    unsigned top = (bucket - 8) / 8 + 3;
    return (9ull + (bucket & 7)) << (top - 3);
}

static void forget_half(struct hedge_class *c)
{
    c->count = 0;
    for (unsigned i = 0; i < HEDGE_BUCKETS; i++) {
        c->buckets[i] /= 2;
        c->count += c->buckets[i];
    }
}

/* The time below which `want` of the samples are. */
static uint64_t quantile(const struct hedge_class *c, uint32_t want)
{
    uint32_t seen = 0;
    for (unsigned i = 0; i < HEDGE_BUCKETS; i++) {
        seen += c->buckets[i];
        if (seen >= want)
            return bucket_end(i);
    }
    return UINT64_MAX;
}

void hedge_request(struct hedge *h)
{
    if (h->allowed < SAVED_MAX)
        h->allowed += PER_REQUEST;
}

void hedge_learn(struct hedge *h, uint32_t len, uint64_t took_ns, uint32_t crowd)
{
    struct hedge_class *c = &h->classes[class_of(len)];
    c->crowd = c->crowd ? c->crowd - c->crowd / CROWD_ONE + crowd : crowd * CROWD_ONE;
    c->buckets[bucket_of(took_ns)]++;
    if (++c->count >= HEDGE_WINDOW)
        forget_half(c);
    if (c->count < HEDGE_ENOUGH || c->count % REFRESH)
        return;
    uint64_t after = quantile(c, c->count - c->count / 20);
    c->after_ns = after < HEDGE_MIN_NS ? HEDGE_MIN_NS : after;
    c->half_ns = quantile(c, c->count / 2);
}

uint64_t hedge_after_ns(const struct hedge *h, uint32_t len)
{
    uint64_t after = h->classes[class_of(len)].after_ns;
    return after ? after : UINT64_MAX;
}

/* What another request of this class would take now. */
static uint64_t another_ns(const struct hedge_class *c, uint32_t crowd)
{
    double share = c->crowd ? (double)crowd * CROWD_ONE / (double)c->crowd : 1;
    uint64_t ns = share < 1 ? (uint64_t)((double)c->half_ns * share) : c->half_ns;
    return ns < HEDGE_LOOK_NS ? HEDGE_LOOK_NS : ns;
}

bool hedge_straggles(const struct hedge *h, const struct hedge_look *l)
{
    const struct hedge_class *c = &h->classes[class_of(l->len)];
    uint64_t another = another_ns(c, l->crowd);
    if (!c->half_ns || l->took_ns < another || l->got >= l->len)
        return false;
    return !l->got || l->silent_ns >= another ||
           (double)l->took_ns * (double)(l->len - l->got) / (double)l->got >= (double)another;
}

bool hedge_take(struct hedge *h)
{
    if (h->allowed < COST)
        return false;
    h->allowed -= COST;
    return true;
}
