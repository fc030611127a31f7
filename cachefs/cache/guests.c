/*
 * Units that lie in files of guests (cache.h): known by a bit each, so that what is local is not
 * fetched again, and what a guest holds is in no pack besides.
 *
 * A bit changes under its unit's stripe, as places do, and together with them.
 */
#include "cache-internal.h"

#include <errno.h>
#include <sys/mman.h>

#define BITS_BYTES (CACHE_UNITS_MAX / 8) /* of addresses; memory comes with the units */

bool guests_begin(struct tier *t, const struct guests_ops *ops, void *arg)
{
    struct guests *g = &t->c->guests;
    void *bits = mmap(NULL, BITS_BYTES, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (bits == MAP_FAILED)
        return false;
    *g = (struct guests){.tier = t, .bits = bits, .ops = ops, .arg = arg};
    return true;
}

void guests_end(struct cache *c)
{
    if (c->guests.bits)
        munmap((void *)c->guests.bits, BITS_BYTES);
}

bool guests_have(const struct cache *c, uint64_t unit)
{
    const struct guests *g = &c->guests;
    return g->bits && unit < CACHE_UNITS_MAX &&
           atomic_load_explicit(&g->bits[unit / 64], memory_order_relaxed) >> unit % 64 & 1;
}

bool cache_guests_have(struct cache *c, uint64_t unit)
{
    if (!c->guests.bits)
        return false;
    ACQUIRE(&stripe_of(c, unit)->lock);
    return guests_have(c, unit);
}

/* Words are shared with units of other stripes. Stripe held. */
static void note(struct guests *g, uint64_t unit, bool here)
{
    if (!g->bits || unit >= CACHE_UNITS_MAX)
        return;
    uint64_t bit = 1ull << unit % 64;
    if (here)
        atomic_fetch_or_explicit(&g->bits[unit / 64], bit, memory_order_relaxed);
    else
        atomic_fetch_and_explicit(&g->bits[unit / 64], ~bit, memory_order_relaxed);
}

static void count(struct tier *t, uint32_t bytes, bool first, bool here)
{
    ACQUIRE(&t->lock);
    t->guest_bytes += here ? bytes : -(uint64_t)bytes;
    t->guest_samples += here ? first : -(uint64_t)first;
}

void guests_count_pinned(struct cache *c, uint32_t bytes, bool first, int sign)
{
    count_pinned(c, bytes, first, sign);
    atomic_fetch_add(&c->guests.pinned_bytes, (uint64_t)(int64_t)sign * bytes);
}

void cache_guests_hold(struct tier *t, uint64_t unit, uint32_t bytes, bool first, bool here)
{
    struct cache *c = t->c;
    struct place e;
    {
        ACQUIRE(&stripe_of(c, unit)->lock);
        if (here)
            place_drop(c, unit);
        note(&c->guests, unit, here);
        count(t, bytes, first, here);
        if (place_load(c, unit, &e) && (e.flags & UNIT_PINNED))
            guests_count_pinned(c, bytes, first, here ? 1 : -1);
    }
    if (here)
        passing_drop(c, unit);
}

static void release_buf(struct view *v)
{
    buf_unref(v->owner);
}

int guests_read(struct cache *c, const struct piece *p, struct view *ret, struct err *err)
{
    struct buf *buf = pool_get(c->conf.pool, p->len);
    if (!buf)
        return errno == ENOMEM ? cache_no_memory(p->len, err) : READ_NO_ROOM;
    int64_t n = c->guests.ops->read(c->guests.arg, p->unit, p->off, buf->data, p->len);
    if (n < 0) {
        buf_unref(buf);
        return cache_guests_have(c, p->unit) ? READ_UNMAPPED : READ_BAD;
    }
    buf->len = (size_t)n;
    *ret = (struct view){.ptr = buf->data,
                         .len = (size_t)n,
                         .origin = FROM_DISK,
                         .release = release_buf,
                         .owner = buf};
    return 0;
}

/* --- what goes ------------------------------------------------------------------------------- */

struct staying {
    struct cache *c;
    guests_pick_fn *stays; /* NULL: the pinned alone */
    const void *ctx;
};

static bool is_staying(const void *staying, uint64_t unit)
{
    const struct staying *s = staying;
    return cache_pinned(s->c, unit) || (s->stays && s->stays(s->ctx, unit));
}

bool cache_guests_pinned(struct tier *t, uint64_t unit)
{
    return cache_pinned(t->c, unit);
}

uint64_t cache_guests_spare(struct cache *c, guests_pick_fn *stays, const void *ctx)
{
    const struct staying s = {c, stays, ctx};
    return c->guests.tier ? c->guests.ops->spare(c->guests.arg, is_staying, &s) : 0;
}

void cache_guests_make_way(struct cache *c, uint64_t bytes, guests_pick_fn *stays, const void *ctx)
{
    const struct staying s = {c, stays, ctx};
    uint64_t room = cache_room(c), used = guests_used(c), need = bytes > room ? bytes - room : 0;
    if (used && need)
        c->guests.ops->shrink(c->guests.arg, used > need ? used - need : 0, is_staying, &s);
}

void guests_shrink(struct cache *c, uint64_t bytes, bool pinned_too)
{
    const struct staying s = {.c = c};
    if (c->guests.tier)
        c->guests.ops->shrink(c->guests.arg, bytes, pinned_too ? NULL : is_staying, &s);
}

void guests_name(struct cache *c, guests_pick_fn *named, const void *ctx)
{
    if (c->guests.tier)
        c->guests.ops->name(c->guests.arg, named, ctx);
}

uint64_t guests_used(struct cache *c)
{
    struct tier *t = c->guests.tier;
    if (!t)
        return 0;
    ACQUIRE(&t->lock);
    return t->guests;
}
