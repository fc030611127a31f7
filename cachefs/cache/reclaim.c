/*
 * Getting the bytes of forgotten units' records back.
 *
 * Forgetting a unit only clears its entry; its record becomes garbage in its pack. A sealed pack
 * without live records is unlinked; one whose live bytes are less than half is rewritten: what
 * lives is appended elsewhere, entry by entry, and then it is unlinked too. In a tier too full for
 * copies, what lives in a pack goes through memory (carry.c). Readers never wait for any of this: a
 * view keeps its pack until it is released.
 *
 * All of it runs on the tier's writer thread, and lets fills pass between its steps.
 */
#include "cache-internal.h"

#include <stdio.h>
#include <string.h>

#include "clock.h"

#define MOVE_BYTES   (UNIT_BYTES + 2 * PAGE_BYTES) /* copied in one step */
#define MOVE_RECORDS 16u
#define COPY_GAIN    8u /* an eighth of a pack must come back, or copying the rest does not pay */

uint64_t place_cost(const struct place *e)
{
    return record_most(e->flags, e->raw, e->stored) + sizeof(struct journal_record);
}

void place_evict(struct cache *c, uint64_t unit, const struct place *e)
{
    if (place_forget(c, unit, e))
        counter_add(&c->counts->evicted_units, 1);
}

void pack_retire(struct tier *t, struct pack *p)
{
    {
        ACQUIRE(&t->lock);
        struct pack **at = &t->packs;
        while (*at != p)
            at = &(*at)->next;
        *at = p->next;
        p->retired_ns = clock_mono_ns();
        _Atomic(struct pack *) *leaf = atomic_load(&t->leaves[p->number / PACK_LEAF]);
        atomic_store(&leaf[p->number % PACK_LEAF], NULL);
    }
    pack_unlink(t, p->number);
    counter_add(&t->c->counts->retired_packs, 1);
    pack_unref(p); /* the list's */
}

struct move {
    struct tier *t;
    unsigned char *bytes;
    size_t used;
    struct record records[MOVE_RECORDS];
    struct place from[MOVE_RECORDS];
    size_t n;
    uint64_t grown;
    bool failed;
};

static void publish_move(struct tier *t, const struct record *r, const struct place *from)
{
    struct place now;
    ACQUIRE(&stripe_of(t->c, r->unit)->lock);
    if (!place_load(t->c, r->unit, &now) || !same_place(&now, from))
        return; /* dropped meanwhile: the copy is garbage */
    place_set(t->c, r->unit, writer_entry(t, r, now.flags & (UNIT_FIRST | UNIT_FATE), now.used));
}

static void move_flush(struct move *m)
{
    struct err err = {0};
    uint64_t grown = 0;
    if (m->n && !m->failed) {
        m->failed = writer_append(m->t, m->records, m->n, false, &grown, &err) != 0;
        m->grown += grown;
    }
    for (size_t i = 0; i < m->n && !m->failed; i++)
        publish_move(m->t, &m->records[i], &m->from[i]);
    if (m->failed && err.msg[0]) {
        ACQUIRE(&m->t->lock);
        health_error(&m->t->health, m->t->dir_fd, &err);
    }
    m->n = m->used = 0;
}

bool pack_lives(struct tier *t, struct pack *p, const struct journal_record *r,
                struct extent_ref *ret)
{
    if (!place_find(t->c, r->unit, ret))
        return false;
    if (ret->pack == p && ret->offset == r->offset)
        return true;
    pack_unref(ret->pack);
    return false;
}

/* Records may come twice: from a journal up to where it cannot be read, then from the pack. */
static bool moves_already(const struct move *m, uint64_t unit)
{
    for (size_t i = 0; i < m->n; i++)
        if (m->records[i].unit == unit)
            return true;
    return false;
}

/* Copies the record, for which there is room. */
static void move_take(struct move *m, const struct extent_ref *x, uint64_t unit, uint64_t bytes)
{
    unsigned char *to = m->bytes + m->used;
    enum pack_result found = pack_copy(x, unit, to, bytes);
    if (found != PACK_OK) {
        place_is_bad(m->t->c, unit, &x->entry, found);
        return;
    }
    struct record *out = &m->records[m->n];
    out->unit = unit;
    memcpy(&out->head, to, sizeof out->head);
    memcpy(out->table, to + sizeof out->head, out->head.chunks * sizeof out->table[0]);
    out->payload = to + record_lead(x->offset, out->head.flags, out->head.raw);
    m->from[m->n++] = x->entry;
    m->used += bytes;
}

static void move_one(void *arg, struct pack *p, const struct journal_record *r)
{
    struct move *m = arg;
    struct extent_ref x;
    if (m->failed || moves_already(m, r->unit) || !pack_lives(m->t, p, r, &x))
        return;
    uint64_t bytes = place_bytes(&x.entry);
    if (m->n == MOVE_RECORDS || m->used + bytes > MOVE_BYTES) {
        move_flush(m);
        writer_batch(m->t);
    }
    move_take(m, &x, r->unit, bytes);
    pack_unref(x.pack);
}

static void add_cost(void *arg, struct pack *p, const struct journal_record *r)
{
    uint64_t *cost = arg;
    struct extent_ref x;
    if (!pack_lives(p->tier, p, r, &x))
        return;
    *cost += place_cost(&x.entry);
    pack_unref(x.pack);
}

/* What rewriting a pack may cost before its own bytes come back. Its records are counted: a damaged
 * journal has fewer of them than will be written. */
static uint64_t rewrite_cost(struct pack *p)
{
    uint64_t cost = 2 * (sizeof(struct pack_head) + sizeof(struct journal_record));
    pack_each_record(p, add_cost, &cost);
    return cost;
}

/* Appends what lives in `p` elsewhere, for which there is room. false: the disk fails. */
static bool rewrite(struct tier *t, struct pack *p, uint64_t cost)
{
    struct move *m = xcalloc(1, sizeof *m);
    m->t = t;
    m->bytes = xmalloc(MOVE_BYTES);
    pack_each_record(p, move_one, m);
    move_flush(m);
    tier_settle(t, cost, m->grown);
    bool moved = !m->failed;
    free(m->bytes);
    free(m);
    return moved;
}

static bool usable(struct tier *t)
{
    ACQUIRE(&t->lock);
    return health_usable(&t->health, clock_mono_ns());
}

static void forget_one(void *arg, struct pack *p, const struct journal_record *r)
{
    struct tier *t = arg;
    struct extent_ref x;
    if (!pack_lives(t, p, r, &x))
        return;
    place_evict(t->c, r->unit, &x.entry);
    pack_unref(x.pack);
}

static void forget_unpinned(void *arg, struct pack *p, const struct journal_record *r)
{
    struct tier *t = arg;
    struct extent_ref x;
    if (!pack_lives(t, p, r, &x))
        return;
    if (!(x.entry.flags & UNIT_PINNED))
        place_evict(t->c, r->unit, &x.entry);
    pack_unref(x.pack);
}

static void add_pinned(void *arg, struct pack *p, const struct journal_record *r)
{
    uint64_t *cost = arg;
    struct extent_ref x;
    if (!pack_lives(p->tier, p, r, &x))
        return;
    if (x.entry.flags & UNIT_PINNED)
        *cost += place_cost(&x.entry);
    pack_unref(x.pack);
}

/* The pack that can be given up at the least cost of pinned units. Only this thread, the tier's
 * writer, takes packs out of the list and puts them there. */
static struct pack *least_pinned(struct tier *t)
{
    struct pack *best = NULL, *p;
    uint64_t best_cost = UINT64_MAX;
    {
        ACQUIRE(&t->lock);
        p = t->packs;
    }
    for (; p && best_cost; p = p->next) {
        uint64_t cost = 0;
        pack_each_record(p, add_pinned, &cost);
        if (cost >= best_cost)
            continue;
        best = p;
        best_cost = cost;
    }
    return best;
}

/* Of a pack; what is copied takes as much elsewhere, be it alone there. */
static uint64_t not_given_back(const struct pack *p)
{
    uint64_t live = atomic_load(&p->live);
    return live ? live + sizeof(struct pack_head) : 0;
}

/* The pack that gives back most for the least copying: the one with the smallest live share. */
static struct pack *emptiest(struct tier *t, bool active_too)
{
    struct pack *best = NULL;
    double best_share = 2;
    ACQUIRE(&t->lock);
    for (struct pack *p = t->packs; p; p = p->next) {
        double share = (double)not_given_back(p) / (double)(atomic_load(&p->size) + 1);
        if (share >= best_share || (p == t->active && !active_too))
            continue;
        best = p;
        best_share = share;
    }
    return best;
}

/* Without a mapping not even all that lives there might be found: its journal takes a descriptor,
 * too. */
static bool can_be_read(struct pack *p)
{
    struct err err = {0};
    return pack_map(p, &err) || err.class != ERR_LIMIT;
}

/* Ends a pack: what lives there is appended elsewhere. false: there is no room for that, or no
 * reading it now. */
static bool reclaim(struct tier *t, struct pack *p)
{
    if (p == t->active) {
        pack_seal(p);
        t->active = NULL;
    }
    if (atomic_load(&p->live) > 0) {
        if (!can_be_read(p))
            return false;
        uint64_t cost = rewrite_cost(p);
        if (!tier_reserve(t, cost))
            return usable(t) && carry_out(t, p);
        if (!rewrite(t, p, cost))
            return false;
    }
    pack_retire(t, p);
    return true;
}

static bool nearly_all_lives(const struct pack *p)
{
    uint64_t size = atomic_load(&p->size);
    return size > 0 && atomic_load(&p->live) + sizeof(struct pack_head) >= size;
}

uint64_t packs_bytes(struct tier *t)
{
    uint64_t sum = 0;
    ACQUIRE(&t->lock);
    for (struct pack *p = t->packs; p; p = p->next)
        sum += atomic_load(&p->size) + atomic_load(&p->journal_size);
    return sum;
}

/* Comes down towards `goal` by copying what lives out of the emptiest packs, as long as that gives
 * back a fair part of them, and so makes them smaller each time, and there is room for the copies:
 * nothing that lives is forgotten. */
static void reclaim_gently(struct tier *t, uint64_t goal)
{
    while (packs_bytes(t) > goal) {
        struct pack *p = emptiest(t, true);
        if (!p)
            return;
        uint64_t size = atomic_load(&p->size);
        if (not_given_back(p) > size - size / COPY_GAIN || !reclaim(t, p))
            return;
    }
}

/*
 * Comes down to `goal` bytes of packs and journals. A pack that is nearly all live can't be made
 * smaller by rewriting it, and one that is read has to stay while a full tier has no room for its
 * copy: then the units of the pack with the fewest pinned ones go, and its pinned ones are spared
 * where there is room for them elsewhere. Where they may not go at all, a full tier still gives up
 * so much as a pack takes, since after that there is room to rewrite all others.
 */
static void reclaim_hard(struct tier *t, uint64_t goal, bool pinned_too)
{
    uint64_t given_up = 0;
    while (packs_bytes(t) > goal) {
        struct pack *p = emptiest(t, true);
        if (!p)
            return;
        if (!nearly_all_lives(p) && reclaim(t, p))
            continue;
        p = least_pinned(t);
        pack_each_record(p, forget_unpinned, t);
        if (!nearly_all_lives(p) && reclaim(t, p))
            continue;
        if (!pinned_too && (nearly_all_lives(p) || given_up >= t->pack_max))
            return;
        given_up += atomic_load(&p->size);
        pack_each_record(p, forget_one, t);
        if (!reclaim(t, p))
            return;
    }
}

void reclaim_to(struct tier *t, uint64_t goal, enum mercy mercy)
{
    if (mercy == SPARE_ALL)
        reclaim_gently(t, goal);
    else
        reclaim_hard(t, goal, mercy == SPARE_NOTHING);
}

void reclaim_garbage(struct tier *t)
{
    struct pack *p;
    while ((p = emptiest(t, false)) && atomic_load(&p->live) < atomic_load(&p->size) / 2)
        if (!reclaim(t, p))
            return;
}
