/*
 * What lives in a pack goes through memory to another one: the way out of a full tier, in which no
 * copy finds room while there is garbage in every pack.
 *
 * A unit turns from READY in a pack to READY in memory (cache.c has the states), so readers find it
 * all the time; then the pack ends, and the writer appends what is in memory as it does with what
 * was fetched. So much of the pack's bytes is reserved for that, before anybody else sees them.
 *
 * Only a pack that nobody reads gives its bytes back at once. Is there somebody, or no memory, or
 * more in it than may be there at once, then all stays as it was. But a record that is bad is
 * forgotten: the pack would never end, and be tried first each time.
 */
#include <string.h>

#include "cache-internal.h"
#include "mem.h"

struct carry {
    struct tier *t;
    struct fill **fills;
    size_t n, most; /* half of all slots: readers want some */
    uint64_t reserved;
    bool failed;
};

static bool is_taken(const struct carry *k, uint64_t unit)
{
    for (size_t i = 0; i < k->n; i++)
        if (k->fills[i]->piece.unit == unit)
            return true;
    return false;
}

/* A copy in memory, verified. False: there is no room for it. */
static bool copy(struct carry *k, const struct extent_ref *x, uint64_t unit)
{
    struct cache *c = k->t->c;
    struct view v = {0};
    struct fill *f = k->n < k->most ? fill_carried(k->t, unit, &x->entry) : NULL;
    if (!f)
        return false;
    enum pack_result found = pack_view(c, x, unit, 0, f->len, &v);
    if (found != PACK_OK) {
        fill_unref(f);
        return place_is_bad(c, unit, &x->entry, found);
    }
    memcpy(f->buf->data, v.ptr, v.len);
    f->buf->len = v.len;
    view_release(&v);
    k->fills[k->n++] = f;
    k->reserved += f->reserved;
    return true;
}

static void take_up(void *arg, struct pack *p, const struct journal_record *r)
{
    struct carry *k = arg;
    struct extent_ref x;
    if (k->failed || is_taken(k, r->unit) || !pack_lives(k->t, p, r, &x))
        return;
    k->failed = !copy(k, &x, r->unit);
    pack_unref(x.pack);
}

/* READY in a pack -> READY in memory; those that were dropped meanwhile are none of it any more. */
static void leave_pack(struct carry *k)
{
    size_t kept = 0;
    for (size_t i = 0; i < k->n; i++) {
        struct fill *f = k->fills[i];
        struct stripe *s = stripe_of(k->t->c, f->piece.unit);
        struct place now;
        lock_take(&s->lock);
        bool there = place_load(k->t->c, f->piece.unit, &now) && same_place(&now, &f->was);
        if (there) {
            f->was = now;
            place_clear(k->t->c, f->piece.unit, &now);
            f->next = s->fills;
            s->fills = f;
        }
        lock_drop(&s->lock);
        if (there)
            k->fills[kept++] = f;
        else
            fill_unref(f);
    }
    k->n = kept;
}

static void go_back(struct carry *k)
{
    for (size_t i = 0; i < k->n; i++) {
        struct fill *f = k->fills[i];
        struct stripe *s = stripe_of(k->t->c, f->piece.unit);
        lock_take(&s->lock);
        fill_unlist(s, f);
        f->was.flags &= (uint8_t)~UNIT_PINNED; /* what was noted meanwhile holds */
        if (!f->unwanted)
            place_set(k->t->c, f->piece.unit, f->was);
        lock_drop(&s->lock);
        fill_unref(f);
    }
}

/* The pack's bytes come back, less what is reserved of them. */
static void swap(struct carry *k, struct pack *p)
{
    {
        ACQUIRE(&k->t->lock);
        for (size_t i = 0; i < k->n; i++)
            k->t->reserved += k->fills[i]->reserved;
    }
    pack_retire(k->t, p);
    for (size_t i = 0; i < k->n; i++)
        writer_push(k->t, k->fills[i]);
    while (writer_batch(k->t))
        ;
}

static bool carry(struct carry *k, struct pack *p)
{
    pack_each_record(p, take_up, k);
    if (k->failed || k->reserved > atomic_load(&p->size)) {
        for (size_t i = 0; i < k->n; i++)
            fill_unref(k->fills[i]);
        return false;
    }
    leave_pack(k);
    if (atomic_load(&p->refs) > 1) { /* no place leads there: nobody comes anew */
        go_back(k);
        return false;
    }
    swap(k, p);
    return true;
}

bool carry_out(struct tier *t, struct pack *p)
{
    struct carry k = {.t = t, .most = t->c->slots.n / 2};
    if (atomic_load(&p->refs) > 1)
        return false;
    k.fills = xcalloc(k.most + 1, sizeof(struct fill *));
    bool done = carry(&k, p);
    free(k.fills);
    return done;
}
