/*
 * The source layer: index -> hit, wait or lead.
 *
 * A unit's state is what its stripe says: the fill listed there, else the entry of the index.
 *
 *   state             fill listed   entry      who moves it on
 *   ABSENT            no            not set    fill_lead() -> FILLING
 *   FILLING           RUNNING       not set    came() (fill.c) -> READY in memory, or ABSENT
 *   READY in memory   READY         not set    publish() (writer.c) -> READY in a pack, or ABSENT
 *   READY in a pack   no            set        place_forget() -> ABSENT: dropped, evicted, bad
 *                                              publish_move() (reclaim.c): READY in another pack
 *                                              leave_pack() (carry.c) -> READY in memory, on its
 *                                              way to another pack
 *
 *   invariant, whenever the stripe is free           ABSENT  FILLING  in memory  in a pack
 *   at most one fill is listed for the unit            0       1        1          0
 *   fill->waiters may be non-empty                     -       yes      no         -
 *   fill->given_up may be set                          -       yes      no         -
 *   fill->buf holds all the unit's bytes               -       no       yes        -
 *   fill->tier has reserved room for it                -   maybe        yes        -
 *   entry names a record of a pack in its tier's list  no      no       no         yes
 *   the record's bytes are in that pack's `live`       no      no       no         yes
 *
 * A waiter may be taken back (fill_give_up()). A fill that has none left is given up below, and
 * ends as ABSENT, or READY if the bytes were faster; until then it is listed, and who joins it
 * meanwhile begins anew when it has ended without bytes.
 *
 * Entries are not believed: the record they name carries its unit's number and sums of its bytes,
 * and is checked each time it is read. So a damaged or stale entry costs a fetch and never a wrong
 * byte.
 */
#include "cache-internal.h"

#include <errno.h>

#include "clock.h"

#define LOG_MODULE "cache"
#include "log.h"

/* --- places ---------------------------------------------------------------------------------- */

static struct pack *pack_of(const struct cache *c, const struct place *e)
{
    return e->tier < c->conf.n_tiers ? tier_pack(c->tiers[e->tier], e->pack) : NULL;
}

bool same_place(const struct place *a, const struct place *b)
{
    return a->tier == b->tier && a->pack == b->pack && a->offset64 == b->offset64 &&
           (a->flags & b->flags & UNIT_IN_PACK);
}

void count_pinned(struct cache *c, uint32_t bytes, bool first, int sign)
{
    uint64_t one = (uint64_t)(int64_t)sign;
    atomic_fetch_add_explicit(&c->pinned_bytes, one * bytes, memory_order_relaxed);
    if (first)
        atomic_fetch_add_explicit(&c->pinned_samples, one, memory_order_relaxed);
}

void place_count_pinned(struct cache *c, const struct place *e, int sign)
{
    count_pinned(c, e->raw, e->flags & UNIT_FIRST, sign);
}

void place_count(struct cache *c, const struct place *e, int sign)
{
    uint64_t one = (uint64_t)(int64_t)sign;
    struct pack *p = pack_of(c, e);
    if (p)
        atomic_fetch_add_explicit(&p->live, one * place_bytes(e), memory_order_relaxed);
    atomic_fetch_add_explicit(&c->units, one, memory_order_relaxed);
    atomic_fetch_add_explicit(&c->bytes, one * e->raw, memory_order_relaxed);
    if (e->flags & UNIT_FIRST)
        atomic_fetch_add_explicit(&c->samples, one, memory_order_relaxed);
    if ((e->flags & UNIT_FIRST) && (e->flags & UNIT_PAST))
        atomic_fetch_add_explicit(&c->past_samples, one, memory_order_relaxed);
    if (e->flags & UNIT_PINNED)
        place_count_pinned(c, e, sign);
}

bool place_load(struct cache *c, uint64_t unit, struct place *ret)
{
    return settle(c, unit) && index_load(&c->index, unit, ret);
}

bool place_set(struct cache *c, uint64_t unit, struct place e)
{
    struct place old;
    if (!settle(c, unit))
        return false;
    bool known = index_load(&c->index, unit, &old);
    e.flags |= UNIT_IN_PACK | (known ? old.flags & UNIT_PINNED : 0);
    if (!index_store(&c->index, unit, &e))
        return false;
    if (known && (old.flags & UNIT_IN_PACK))
        place_count(c, &old, -1);
    place_count(c, &e, 1);
    return true;
}

void place_clear(struct cache *c, uint64_t unit, const struct place *e)
{
    struct place pinned = {.flags = UNIT_PINNED, .used = e->used};
    index_store(&c->index, unit, e->flags & UNIT_PINNED ? &pinned : NULL);
    if (e->flags & UNIT_IN_PACK)
        place_count(c, e, -1);
}

void place_drop(struct cache *c, uint64_t unit)
{
    struct place e;
    struct fill *f = fill_find(stripe_of(c, unit), unit);
    if (f)
        f->unwanted = true;
    if (place_load(c, unit, &e) && (e.flags & UNIT_IN_PACK))
        place_clear(c, unit, &e);
}

bool place_forget(struct cache *c, uint64_t unit, const struct place *e)
{
    struct place now;
    ACQUIRE(&stripe_of(c, unit)->lock);
    if (!place_load(c, unit, &now) || !same_place(&now, e))
        return false;
    place_clear(c, unit, &now);
    return true;
}

bool place_is_bad(struct cache *c, uint64_t unit, const struct place *e, enum pack_result found)
{
    bool bad = found == PACK_BAD || found == PACK_IO;
    if (bad && place_forget(c, unit, e))
        counter_add(&c->counts->corrupt, 1);
    return bad;
}

/* Stripe held. */
static bool place_ref(struct cache *c, uint64_t unit, struct extent_ref *ret)
{
    struct place e;
    if (!place_load(c, unit, &e) || !(e.flags & UNIT_IN_PACK))
        return false;
    struct pack *p = pack_of(c, &e);
    if (!p || !pack_ref(p)) {
        place_clear(c, unit, &e);
        return false;
    }
    *ret = (struct extent_ref){p, place_offset(&e), e};
    return true;
}

bool place_find(struct cache *c, uint64_t unit, struct extent_ref *ret)
{
    ACQUIRE(&stripe_of(c, unit)->lock);
    return place_ref(c, unit, ret);
}

void cache_tick(struct cache *c)
{
    atomic_store_explicit(&c->now_min, (uint32_t)((uint64_t)clock_wall_ns() / (60 * NS_PER_S)),
                          memory_order_relaxed);
}

/* Stripe held. */
static void touch(struct cache *c, uint64_t unit, struct place *e)
{
    uint32_t now = atomic_load_explicit(&c->now_min, memory_order_relaxed);
    if (now - e->used < TOUCH_MINUTES && !(e->flags & UNIT_LEFT))
        return;
    e->flags &= (uint8_t)~UNIT_LEFT;
    e->used = now;
    index_store(&c->index, unit, e);
}

/* --- reading --------------------------------------------------------------------------------- */

enum found { FOUND_NOTHING, FOUND_BYTES, FOUND_FLIGHT, FOUND_RECORD, FOUND_GUEST };

/* A flight that somebody more urgent joined. */
struct urgent {
    struct fill *flight; /* referenced: what has joined may be answered meanwhile; NULL: none */
    struct piece piece;
};

/* Stripe held. */
static void hurry(struct fill *f, const struct piece *p, struct urgent *ret)
{
    if (p->prio >= f->prio)
        return;
    f->prio = p->prio;
    atomic_fetch_add(&f->refs, 1);
    ret->flight = f;
    ret->piece = f->piece;
    ret->piece.prio = p->prio;
}

/* Stripe held. */
static void join(struct fill *f, const struct piece *p, struct source_wait *wait, bool ahead,
                 struct urgent *ret)
{
    fill_join(f, p, wait, ahead);
    hurry(f, p, ret);
}

static void raise_flight(struct cache *c, const struct urgent *u)
{
    if (!u->flight)
        return;
    if (c->source.inner->ops->raise)
        c->source.inner->ops->raise(c->source.inner, &u->piece);
    fill_unref(u->flight);
}

/* Looks the unit up and, in the same hold of the lock, takes what was found. */
static enum found look_up(struct cache *c, const struct piece *p, struct source_wait *wait,
                          struct view *ret_view, struct extent_ref *ret_record)
{
    struct stripe *s = stripe_of(c, p->unit);
    struct urgent urgent = {0};
    {
        ACQUIRE(&s->lock);
        struct fill *f = fill_find(s, p->unit);
        if (f && f->state == FILL_READY) {
            buf_view(f->buf, f->len, p, ret_view);
            return FOUND_BYTES;
        }
        if (guests_have(c, p->unit))
            return FOUND_GUEST;
        if (!f && !place_ref(c, p->unit, ret_record))
            return FOUND_NOTHING;
        if (!f) {
            touch(c, p->unit, &ret_record->entry);
            return FOUND_RECORD;
        }
        counter_add(&c->counts->waits, 1);
        join(f, p, wait, false, &urgent);
    }
    raise_flight(c, &urgent);
    return FOUND_FLIGHT;
}

static void count_hit(struct cache *c, const struct view *v)
{
    counter_add(v->origin == FROM_MEM ? &c->counts->hits_mem : &c->counts->hits_disk, 1);
}

int cache_no_memory(size_t bytes, struct err *err)
{
    err_set(err, ERR_LIMIT,
            "cannot read a sample: no memory for %zu bytes: the system has none left (free some)",
            bytes);
    if (err)
        err->sys = ENOMEM;
    return -1;
}

/* READ_BAD: the record was bad and is forgotten now. READ_UNMAPPED: it stays, for later. */
static int read_record(struct cache *c, const struct piece *p, struct extent_ref *x,
                       struct view *ret, struct err *err)
{
    enum pack_result rc = pack_view(c, x, p->unit, p->off, p->len, ret);
    bool bad = place_is_bad(c, p->unit, &x->entry, rc);
    pack_unref(x->pack);
    if (bad)
        return READ_BAD;
    if (rc == PACK_NO_ROOM)
        return READ_NO_ROOM;
    if (rc == PACK_NO_MEMORY)
        return cache_no_memory(p->len, err);
    return rc == PACK_UNMAPPED ? READ_UNMAPPED : 0;
}

/* Only what the reader wants is fetched, and it is not kept: the unit is here, out of reach. */
static int read_past(struct cache *c, const struct piece *p, struct source_wait *wait, bool resumed,
                     struct err *err)
{
    struct piece alone = *p;
    alone.alone = true;
    if (!atomic_exchange(&c->unmapped, true))
        log_warn(c->conf.log, "what is cached cannot be opened for want of descriptors or memory: "
                              "it is fetched (raise ulimit -n, or vm.max_map_count)");
    int rc = fill_lead(c, &alone, wait, false, resumed, err);
    return rc == LEAD_NO_ROOM ? READ_NO_ROOM : rc;
}

int cache_try(struct cache *c, const struct piece *p, struct source_wait *wait, bool resumed,
              struct view *ret, struct err *err)
{
    for (;;) {
        struct extent_ref x;
        int rc = LEAD_LOST;
        enum found found = look_up(c, p, wait, ret, &x);
        switch (found) {
        case FOUND_BYTES:
            count_hit(c, ret);
            return 0;
        case FOUND_FLIGHT:
            return SOURCE_PENDING;
        case FOUND_RECORD:
        case FOUND_GUEST:
            rc = found == FOUND_GUEST ? guests_read(c, p, ret, err)
                                      : read_record(c, p, &x, ret, err);
            if (rc == 0)
                count_hit(c, ret);
            if (rc == READ_UNMAPPED)
                return read_past(c, p, wait, resumed, err);
            if (rc != READ_BAD)
                return rc;
            break;
        case FOUND_NOTHING:
            if (passing_find(c, p, ret)) {
                count_hit(c, ret);
                return 0;
            }
            rc = fill_lead(c, p, wait, false, resumed, err);
            if (rc == LEAD_NO_ROOM)
                return READ_NO_ROOM;
            if (rc != LEAD_LOST)
                return rc;
            break;
        }
    }
}

static int layer_read(struct source *s, const struct piece *p, struct view *ret,
                      struct source_wait *wait, struct err *err)
{
    struct cache *c = (struct cache *)(void *)s;
    int rc = cache_try(c, p, wait, false, ret, err);
    if (rc != READ_NO_ROOM)
        return rc;
    slots_park(c, p, wait);
    return SOURCE_PENDING;
}

/* look_up() for who wants it here ahead of its readers, and no bytes of it. FOUND_BYTES: it is in
 * memory, or on its way without anybody who waits for it. */
static enum found look_up_ahead(struct cache *c, const struct piece *p, struct source_wait *wait)
{
    struct stripe *s = stripe_of(c, p->unit);
    struct urgent urgent = {0};
    bool joins;
    {
        ACQUIRE(&s->lock);
        struct place e;
        if (guests_have(c, p->unit))
            return FOUND_GUEST;
        struct fill *f = fill_find(s, p->unit);
        if (!f)
            return place_load(c, p->unit, &e) && (e.flags & UNIT_IN_PACK) ? FOUND_RECORD
                                                                          : FOUND_NOTHING;
        f->unwanted = false; /* what was dropped meanwhile is asked for again */
        if (f->state == FILL_READY)
            return FOUND_BYTES;
        joins = !p->if_kept || f->piece.if_kept || p->waits;
        if (joins)
            join(f, p, wait, true, &urgent);
        else
            hurry(f, p, &urgent);
    }
    raise_flight(c, &urgent);
    return joins ? FOUND_FLIGHT : FOUND_BYTES;
}

static int layer_ahead(struct source *s, const struct piece *p, struct source_wait *wait,
                       struct err *err)
{
    struct cache *c = (struct cache *)(void *)s;
    for (;;) {
        enum found found = look_up_ahead(c, p, wait);
        if (found != FOUND_NOTHING)
            return found == FOUND_FLIGHT ? SOURCE_PENDING : 0;
        if (!p->if_kept && passing_has(c, p->unit))
            return 0;
        int rc = fill_lead(c, p, wait, true, false, err);
        if (rc == LEAD_NO_ROOM)
            return err_set(err, ERR_LIMIT, "cache: no room for more work ahead now");
        if (rc == LEAD_NOT_KEPT)
            return SOURCE_NO_ROOM;
        if (rc != LEAD_LOST)
            return rc;
    }
}

static void layer_give_up(struct source *s)
{
    fill_give_up((struct cache *)(void *)s);
}

static void layer_drop(struct source *s, uint64_t unit)
{
    struct cache *c = (struct cache *)(void *)s;
    cache_drop(c, unit);
    if (s->inner && s->inner->ops->drop)
        s->inner->ops->drop(s->inner, unit);
}

void cache_drop(struct cache *c, uint64_t unit)
{
    {
        ACQUIRE(&stripe_of(c, unit)->lock);
        place_drop(c, unit);
    }
    passing_drop(c, unit);
}

static const struct source_ops ops = {
    .name = "cache",
    .read = layer_read,
    .ahead = layer_ahead,
    .drop = layer_drop,
    .close = cache_close,
    .give_up = layer_give_up,
};

struct source *cache_source(struct cache *c, struct source *inner)
{
    c->source.ops = &ops;
    c->source.inner = inner;
    return &c->source;
}

const struct cache_counts *cache_counts(const struct cache *c)
{
    return c->counts;
}
