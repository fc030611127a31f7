/* What others ask of a cache besides reading: is it here, will be read soon, pin, verify,
 * statistics. */
#include "cache-internal.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "clock.h"

#define NEAR_BYTES (64u << 10) /* records closer than this are read ahead as one stretch */
#define PROBES     8           /* stretches of a batch that are looked at first */
/* A page of padding is at most a sixteenth of a unit; as much again is to spare. */
#define ROOMY_SHARE  8
#define ROOMY_SAMPLE 256 /* heads, the journal */

int cache_where(struct cache *c, uint64_t unit)
{
    struct stripe *s = stripe_of(c, unit);
    struct place e;
    ACQUIRE(&s->lock);
    if (guests_have(c, unit))
        return c->guests.tier->place;
    struct fill *f = fill_find(s, unit);
    if (f)
        return f->state == FILL_READY && !f->unwanted ? f->tier->place : NO_TIER;
    if (!place_load(c, unit, &e) || !(e.flags & UNIT_IN_PACK))
        return NO_TIER;
    return e.tier;
}

bool cache_has_all(struct cache *c, uint64_t unit, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        if (cache_where(c, unit + i) < 0)
            return false;
    return true;
}

/* --- reading ahead --------------------------------------------------------------------------- */

struct stretch {
    struct pack *pack; /* referenced */
    uint64_t from, to;
};

static int by_place(const void *a, const void *b)
{
    const struct stretch *x = a, *y = b;
    if (x->pack != y->pack)
        return x->pack < y->pack ? -1 : 1;
    return x->from < y->from ? -1 : x->from > y->from;
}

static bool is_resident(const struct stretch *s)
{
    const unsigned char *map = pack_map(s->pack, NULL);
    uint64_t middle = (s->from + (s->to - s->from) / 2) & ~4095ull;
    unsigned char in_memory;

    if (s->pack->tier->kind == TIER_MEM)
        return true;
    return map && !mincore((void *)(map + middle), 4096, &in_memory) && (in_memory & 1);
}

/* Asking for pages that are all there takes as long as a twentieth of reading them. What a look at
 * some of the stretches misses is asked for by whoever reads it. */
static bool seem_resident(const struct stretch *s, size_t n)
{
    for (size_t i = 0; i < n; i += (n + PROBES - 1) / PROBES)
        if (!is_resident(&s[i]))
            return false;
    return true;
}

static void read_ahead(const struct stretch *s)
{
    const unsigned char *map = pack_map(s->pack, NULL);
    uint64_t from = s->from & ~4095ull;
    if (map && s->pack->tier->kind != TIER_MEM)
        madvise((void *)(map + from), s->to - from, MADV_WILLNEED);
}

static void read_ahead_merged(struct stretch *s, size_t n)
{
    qsort(s, n, sizeof *s, by_place);
    bool resident = seem_resident(s, n);
    for (size_t i = 0, j; i < n && !resident; i = j) {
        for (j = i + 1; j < n && s[j].pack == s[i].pack && s[j].from <= s[i].to + NEAR_BYTES; j++)
            s[i].to = s[j].to;
        read_ahead(&s[i]);
    }
    for (size_t i = 0; i < n; i++)
        pack_unref(s[i].pack);
}

/* The chunks of a large unit are read past the page cache; its head is not. */
static uint64_t near_bytes(const struct extent_ref *x)
{
    const struct place *e = &x->entry;
    return e->stored < LARGE_BYTES ? place_bytes(e) : record_lead(x->offset, e->flags, e->raw);
}

void cache_will_need(struct cache *c, const uint64_t *units, size_t n)
{
    struct stretch batch[64];
    size_t have = 0;
    for (size_t i = 0; i < n; i++) {
        struct extent_ref x;
        if (place_find(c, units[i], &x))
            batch[have++] = (struct stretch){x.pack, x.offset, x.offset + near_bytes(&x)};
        if (have == 64 || i + 1 == n) {
            read_ahead_merged(batch, have);
            have = 0;
        }
    }
}

/* --- room ------------------------------------------------------------------------------------ */

uint64_t cache_room(struct cache *c)
{
    uint64_t room = 0;
    for (size_t i = 0; i < c->conf.n_tiers; i++)
        room += tier_room(c->tiers[i]);
    return room;
}

void cache_set_size(struct cache *c, uint64_t samples, uint64_t bytes)
{
    uint64_t room = 0, most = bytes + bytes / ROOMY_SHARE + samples * ROOMY_SAMPLE;
    for (size_t i = 0; i < c->conf.n_tiers; i++) {
        struct tier *t = c->tiers[i];
        room += tier_room(t);
        ACQUIRE(&t->lock);
        room += t->used;
    }
    atomic_store(&c->roomy, most <= room);
}

/* --- pins, verification ---------------------------------------------------------------------- */

void cache_expect(struct cache *c, uint64_t samples, uint64_t bytes)
{
    atomic_store(&c->expected_bytes, bytes);
    atomic_store(&c->expected_samples, samples);
}

static void pin_unit(struct cache *c, uint64_t unit, uint32_t len, bool first, bool pinned)
{
    struct place e;
    if (pinned && index_cover(&c->index, unit))
        return; /* no room to note it: it will hardly be kept either */
    ACQUIRE(&stripe_of(c, unit)->lock);
    if (!settle(c, unit))
        return; /* the disk broke there */
    bool known = place_load(c, unit, &e);
    if (!known)
        e = (struct place){.used = atomic_load(&c->now_min)};
    if (pinned == ((e.flags & UNIT_PINNED) != 0))
        return;
    if (e.flags & UNIT_IN_PACK)
        place_count_pinned(c, &e, pinned ? 1 : -1);
    else if (guests_have(c, unit))
        guests_count_pinned(c, len, first, pinned ? 1 : -1);
    e.flags ^= UNIT_PINNED;
    e.flags &= (uint8_t)~UNIT_LEFT;
    if (!pinned && (e.flags & UNIT_IN_PACK))
        e.flags |= UNIT_LEFT; /* nobody wants it any more (policy-scan.c) */
    index_store(&c->index, unit, e.flags ? &e : NULL);
    if (e.flags & UNIT_LEFT)
        atomic_store(&c->tiers[e.tier]->left, true);
}

void cache_pin(struct cache *c, uint64_t id, uint64_t size, bool pinned)
{
    for (uint64_t i = 0, n = unit_count(size); i < n; i++)
        pin_unit(c, id + i, unit_length(size, i), i == 0, pinned);
}

void cache_serves(struct cache *c, struct catalog *now)
{
    struct catalog *before;
    if (now)
        catalog_ref(now);
    {
        ACQUIRE(&c->served_lock);
        before = c->served;
        c->served = now;
    }
    catalog_unref(before);
}

struct naming {
    struct cache *c;
    const uint64_t *named;
    uint64_t n;
    bool all;
};

static bool is_named(const void *naming, uint64_t unit)
{
    const struct naming *n = naming;
    return unit < n->n && n->named[unit / 64] >> (unit % 64) & 1;
}

static void name_one(void *arg, uint64_t unit, const struct place *seen)
{
    const struct naming *n = arg;
    struct cache *c = n->c;
    struct place e;
    bool named = is_named(n, unit);
    uint8_t undone = n->all ? UNIT_FATE : UNIT_PAST; /* of one that is named */
    if (!(seen->flags & UNIT_IN_PACK) || (named && !(seen->flags & undone)))
        return;
    ACQUIRE(&stripe_of(c, unit)->lock);
    if (!settle(c, unit) || !place_load(c, unit, &e) || !(e.flags & UNIT_IN_PACK))
        return;
    if ((e.flags & UNIT_FIRST) && named == ((e.flags & UNIT_PAST) != 0))
        atomic_fetch_add_explicit(&c->past_samples, named ? -1 : 1, memory_order_relaxed);
    if (named) {
        e.flags &= (uint8_t)~undone;
    } else {
        if (e.flags & UNIT_PINNED)
            place_count_pinned(c, &e, -1);
        e.flags = (uint8_t)((e.flags & ~UNIT_PINNED) | UNIT_FATE);
    }
    index_store(&c->index, unit, &e);
    if (!named)
        atomic_store(&c->tiers[e.tier]->left, true);
}

void cache_name(struct cache *c, const uint64_t *named, uint64_t n, bool all)
{
    struct naming naming = {c, named, n, all};
    each_place(c, name_one, &naming);
    guests_name(c, is_named, &naming);
}

bool cache_knows_named(const struct cache *c)
{
    return c->index_believed;
}

bool cache_unused(struct cache *c, uint64_t unit, uint64_t age_ns)
{
    struct place e;
    uint64_t least = age_ns / (60 * NS_PER_S) + TOUCH_MINUTES;
    if (cache_guests_have(c, unit))
        return c->guests.ops->unused(c->guests.arg, unit, age_ns);
    cache_tick(c);
    uint32_t now = atomic_load(&c->now_min);
    ACQUIRE(&stripe_of(c, unit)->lock);
    return !fill_find(stripe_of(c, unit), unit) && place_load(c, unit, &e) &&
           (e.flags & UNIT_IN_PACK) && now > e.used && now - e.used >= least;
}

bool cache_pinned(struct cache *c, uint64_t unit)
{
    struct place e;
    ACQUIRE(&stripe_of(c, unit)->lock);
    return place_load(c, unit, &e) && (e.flags & UNIT_PINNED);
}

int cache_verify(struct cache *c, uint64_t unit, struct err *err)
{
    struct extent_ref x;
    if (cache_guests_have(c, unit))
        return c->guests.ops->verify(c->guests.arg, unit, err);
    if (!place_find(c, unit, &x)) {
        if (cache_where(c, unit) >= 0)
            return 0; /* still in memory */
        return err_set(err, ERR_NOT_FOUND, "unit %llu is not cached", (unsigned long long)unit);
    }
    enum pack_result rc = pack_verify(&x, unit);
    bool bad = place_is_bad(c, unit, &x.entry, rc);
    if (rc != PACK_OK && !bad)
        err_set(err, ERR_LIMIT, "unit %llu: no descriptor or no memory left to look at it",
                (unsigned long long)unit);
    else if (bad)
        err_set(err, ERR_CORRUPT, "unit %llu: pack %u in %s at %llu: %s", (unsigned long long)unit,
                x.pack->number, x.pack->tier->dir, (unsigned long long)x.offset,
                rc == PACK_IO ? "can't be read" : "a checksum does not match");
    pack_unref(x.pack);
    return rc == PACK_OK ? 0 : -1;
}

/* --- statistics ------------------------------------------------------------------------------ */

static void stat_tier(struct tier *t, struct cache_stat *all, struct tier_stat *ret)
{
    static const char *const states[] = {"ok", "full", "failed"};
    ret->kind = t->kind;
    ret->dir = t->dir;
    ret->free = tier_free_bytes(t);
    ret->capacity = tier_capacity(t);
    ACQUIRE(&t->lock);
    ret->limit = t->limit;
    ret->used = t->used + t->foreign + t->guests;
    all->samples += t->guest_samples;
    all->bytes += t->guest_bytes;
    ret->state = states[t->health.state];
    snprintf(ret->why, sizeof ret->why, "%s", t->health.why);
}

uint64_t cache_index_growth(const struct cache *c, uint64_t unit)
{
    return index_growth(&c->index, unit);
}

void cache_stat(struct cache *c, struct cache_stat *ret)
{
    settle_all(c);
    uint64_t past = atomic_load(&c->past_samples), samples = atomic_load(&c->samples);
    *ret = (struct cache_stat){
        .units = atomic_load(&c->units),
        .bytes = atomic_load(&c->bytes),
        .samples = samples > past ? samples - past : 0,
        .pinned_samples = atomic_load(&c->pinned_samples),
        .pinned_bytes = atomic_load(&c->pinned_bytes),
        .n_tiers = c->conf.n_tiers,
        .compressed = atomic_load(&c->trial.verdict) > 0,
        .ratio = trial_ratio(&c->trial),
        .index_bytes = index_bytes(&c->index),
    };
    for (size_t i = 0; i < c->conf.n_tiers; i++)
        stat_tier(c->tiers[i], ret, &ret->tiers[i]);
}
