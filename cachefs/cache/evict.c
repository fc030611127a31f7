/*
 * Making room, the mechanism: forgetting units, and getting the bytes of their records back. The
 * policies (policy-*.c) say which units go.
 *
 * Forgetting a unit only clears its entry; its record becomes garbage in its pack. A sealed pack
 * without live records is unlinked; one whose live bytes are less than half is rewritten: what
 * lives is appended elsewhere, entry by entry, and then it is unlinked too. Readers never wait for
 * any of this: a view keeps its pack until it is released.
 *
 * Reclaim runs on the tier's writer thread, and lets fills pass between its steps.
 */
#include "cache-internal.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "clock.h"

#define MOVE_BYTES    (UNIT_BYTES + 4096u) /* copied in one step */
#define MOVE_RECORDS  16u
#define ROOM_PAUSE_NS (10 * NS_PER_S)
#define ROOM_LEAST    (64ull << 20)
#define COPY_GAIN     8u /* an eighth of a pack must come back, or copying the rest does not pay */

static uint64_t cost_of(const struct place *e)
{
    return record_bytes(e->raw, e->stored) + sizeof(struct journal_record);
}

static uint32_t age_of(const struct cache *c, const struct place *e)
{
    uint32_t now = atomic_load(&c->now_min);
    if (e->flags & UNIT_LEFT)
        return now;
    return now > e->used ? now - e->used : 0;
}

static void evict(struct cache *c, uint64_t unit, const struct place *e)
{
    if (place_forget(c, unit, e))
        counter_add(&c->counts->evicted_units, 1);
}

/* --- which units ----------------------------------------------------------------------------- */

struct choice {
    struct cache *c;
    int tier; /* or NO_TIER: all */
    struct ages ages;
    uint64_t live;
    struct victims victims;
    uint64_t idle_left; /* for newcomers: bytes still to free among idle units */
};

static bool concerns(const struct choice *ch, const struct place *e)
{
    return (e->flags & UNIT_IN_PACK) && (ch->tier == NO_TIER || e->tier == ch->tier);
}

static void sum_up(void *arg, uint64_t unit, const struct place *e)
{
    struct choice *ch = arg;
    (void)unit;
    if (!concerns(ch, e))
        return;
    ch->live += cost_of(e);
    ages_add(&ch->ages, e->flags & UNIT_PINNED, age_of(ch->c, e), cost_of(e));
}

static void evict_chosen(void *arg, uint64_t unit, const struct place *e)
{
    struct choice *ch = arg;
    if (concerns(ch, e) &&
        policy_pinned_goes(&ch->victims, e->flags & UNIT_PINNED, age_of(ch->c, e), cost_of(e)))
        evict(ch->c, unit, e);
}

/* Forgets units until what lives (of one tier, or all) costs at most `bytes`. */
static void evict_down_to(struct cache *c, int tier, uint64_t bytes)
{
    cleanup_free struct choice *ch = xcalloc(1, sizeof *ch);
    ch->c = c;
    ch->tier = tier;
    each_place(c, sum_up, ch);
    if (ch->live <= bytes)
        return;
    policy_pinned_pick(&ch->ages, ch->live - bytes, &ch->victims);
    each_place(c, evict_chosen, ch);
}

static void evict_idle(void *arg, uint64_t unit, const struct place *e)
{
    struct choice *ch = arg;
    if (!ch->idle_left || !concerns(ch, e) ||
        !policy_scan_goes(e->flags & UNIT_PINNED, age_of(ch->c, e)))
        return;
    uint64_t bytes = cost_of(e);
    ch->idle_left -= bytes < ch->idle_left ? bytes : ch->idle_left;
    evict(ch->c, unit, e);
}

/* --- getting bytes back ---------------------------------------------------------------------- */

static void retire(struct tier *t, struct pack *p)
{
    char name[32];
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
    pack_name(name, p->number, "pack");
    unlinkat(t->dir_fd, name, 0);
    pack_name(name, p->number, "idx");
    unlinkat(t->dir_fd, name, 0);
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
    place_set(t->c, r->unit, writer_entry(t, r, now.flags & (UNIT_FIRST | UNIT_LEFT), now.used));
}

static void move_flush(struct move *m)
{
    struct err err = {0};
    uint64_t grown = 0;
    if (m->n && !m->failed) {
        m->failed = writer_append(m->t, m->records, m->n, &grown, &err) != 0;
        m->grown += grown;
    }
    for (size_t i = 0; i < m->n && !m->failed; i++)
        publish_move(m->t, &m->records[i], &m->from[i]);
    if (m->failed && err.msg[0]) {
        ACQUIRE(&m->t->lock);
        health_error(&m->t->health, &err);
    }
    m->n = m->used = 0;
}

/* Is the record the place of its unit now? Then *ret is it, referenced. */
static bool lives_here(struct tier *t, struct pack *p, const struct journal_record *r,
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

static void move_one(void *arg, struct pack *p, const struct journal_record *r)
{
    struct move *m = arg;
    struct extent_ref x;
    if (m->failed || moves_already(m, r->unit) || !lives_here(m->t, p, r, &x))
        return;
    uint64_t bytes = record_bytes(x.entry.raw, x.entry.stored);
    if (m->n == MOVE_RECORDS || m->used + bytes > MOVE_BYTES) {
        move_flush(m);
        writer_batch(m->t);
    }
    unsigned char *to = m->bytes + m->used;
    if (pack_copy(&x, r->unit, to, bytes) == PACK_OK) {
        struct record *out = &m->records[m->n];
        out->unit = r->unit;
        memcpy(&out->head, to, sizeof out->head);
        memcpy(out->table, to + sizeof out->head, out->head.chunks * sizeof out->table[0]);
        out->payload = to + sizeof out->head + out->head.chunks * sizeof out->table[0];
        out->bytes = bytes;
        m->from[m->n++] = x.entry;
        m->used += bytes;
    } else if (place_forget(m->t->c, r->unit, &x.entry)) {
        counter_add(&m->t->c->counts->corrupt, 1);
    }
    pack_unref(x.pack);
}

static void add_cost(void *arg, struct pack *p, const struct journal_record *r)
{
    uint64_t *cost = arg;
    struct extent_ref x;
    if (!lives_here(p->tier, p, r, &x))
        return;
    *cost += cost_of(&x.entry);
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

/* Appends what lives in `p` elsewhere. false: no room for that, or the disk fails. */
static bool rewrite(struct tier *t, struct pack *p)
{
    uint64_t cost = rewrite_cost(p);
    if (!tier_reserve(t, cost))
        return false;
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

static void forget_one(void *arg, struct pack *p, const struct journal_record *r)
{
    struct tier *t = arg;
    struct extent_ref x;
    if (!lives_here(t, p, r, &x))
        return;
    evict(t->c, r->unit, &x.entry);
    pack_unref(x.pack);
}

/* The pack that gives back most for the least copying: the one with the smallest live share. */
static struct pack *emptiest(struct tier *t, bool active_too)
{
    struct pack *best = NULL;
    double best_share = 2;
    ACQUIRE(&t->lock);
    for (struct pack *p = t->packs; p; p = p->next) {
        double share = (double)atomic_load(&p->live) / (double)(atomic_load(&p->size) + 1);
        if (share >= best_share || (p == t->active && !active_too))
            continue;
        best = p;
        best_share = share;
    }
    return best;
}

/* Ends a pack. `must`: what can't be moved for want of room is forgotten. */
static bool reclaim(struct tier *t, struct pack *p, bool must)
{
    if (p == t->active) {
        pack_seal(p);
        t->active = NULL;
    }
    if (atomic_load(&p->live) > 0 && !rewrite(t, p)) {
        if (!must)
            return false;
        pack_each_record(p, forget_one, t);
    }
    retire(t, p);
    return true;
}

static uint64_t pack_bytes(struct tier *t)
{
    uint64_t index = t->c->index.tier == t ? index_bytes(&t->c->index) : 0;
    ACQUIRE(&t->lock);
    return t->used - index;
}

/* Packs of the list alone: unlinked ones that readers still hold come back by themselves. */
static uint64_t listed_bytes(struct tier *t)
{
    uint64_t sum = 0;
    ACQUIRE(&t->lock);
    for (struct pack *p = t->packs; p; p = p->next)
        sum += atomic_load(&p->size) + atomic_load(&p->journal_size);
    return sum;
}

/*
 * Comes down to `goal` bytes of packs and journals. A pack that is nearly all live can't be made
 * smaller by rewriting it: some of its units must go, so it is given up.
 */
static void reclaim_to(struct tier *t, uint64_t goal)
{
    while (listed_bytes(t) > goal) {
        struct pack *p = emptiest(t, true);
        if (!p)
            return;
        uint64_t size = atomic_load(&p->size) + atomic_load(&p->journal_size);
        uint64_t live = atomic_load(&p->live);
        if (live + sizeof(struct pack_head) >= atomic_load(&p->size) && size > 0)
            pack_each_record(p, forget_one, t);
        reclaim(t, p, true);
    }
}

static void reclaim_garbage(struct tier *t)
{
    struct pack *p;
    while ((p = emptiest(t, false)) && atomic_load(&p->live) < atomic_load(&p->size) / 2)
        if (!reclaim(t, p, false))
            return;
}

/* Comes down towards `goal` by copying what lives out of the emptiest packs, as long as that gives
 * back a fair part of them and there is room for the copies: nothing that lives is forgotten. */
static void reclaim_gently(struct tier *t, uint64_t goal)
{
    while (listed_bytes(t) > goal) {
        struct pack *p = emptiest(t, true);
        if (!p)
            return;
        uint64_t size = atomic_load(&p->size), live = atomic_load(&p->live);
        if (live > size - size / COPY_GAIN || !reclaim(t, p, false))
            return;
    }
}

/* --- upkeep ---------------------------------------------------------------------------------- */

static void look_at_folder(struct tier *t)
{
    struct cache *c = t->c;
    uint64_t foreign = folder_foreign(t, c->index.tier == t ? c->index.path : NULL);
    uint64_t over = 0;
    {
        ACQUIRE(&t->lock);
        t->foreign = foreign;
        uint64_t taken = t->used + t->foreign + t->guests;
        over = taken > t->limit ? taken - t->limit : 0;
    }
    if (!over)
        return;
    uint64_t have = pack_bytes(t), target = have > over ? have - over : 0;
    evict_down_to(c, t->place, target - target / 256);
    reclaim_to(t, target);
}

static void make_room(struct tier *t)
{
    uint64_t wanted, now = clock_mono_ns();
    {
        ACQUIRE(&t->lock);
        wanted = t->room_wanted;
        t->room_wanted = 0;
    }
    if (!wanted || (t->room_made_ns && now - t->room_made_ns < ROOM_PAUSE_NS))
        return;
    t->room_made_ns = now;
    cleanup_free struct choice *ch = xcalloc(1, sizeof *ch);
    ch->c = t->c;
    ch->tier = t->place;
    uint64_t asked = wanted > ROOM_LEAST ? wanted : ROOM_LEAST;
    ch->idle_left = asked < t->limit / 8 ? asked : t->limit / 8;
    uint64_t freed = ch->idle_left;
    each_place(t->c, evict_idle, ch);
    freed -= ch->idle_left;
    uint64_t have = listed_bytes(t);
    if (freed)
        reclaim_to(t, have > freed ? have - freed : 0);
}

static void reach_goal(struct tier *t)
{
    uint64_t asked, goal;
    bool gentle;
    {
        ACQUIRE(&t->lock);
        asked = t->goal_asked;
        goal = t->goal;
        gentle = t->goal_gentle;
        if (asked == t->goal_done)
            return;
    }
    if (gentle)
        reclaim_gently(t, goal);
    else
        reclaim_to(t, goal);
    ACQUIRE(&t->lock);
    t->goal_done = asked;
    cond_broadcast(&t->ended);
}

void evict_upkeep(struct tier *t)
{
    cache_tick(t->c);
    leases_expire(t->c);
    reach_goal(t);
    look_at_folder(t);
    make_room(t);
    reclaim_garbage(t);
}

/* --- asked for ------------------------------------------------------------------------------- */

static void ask_goal(struct tier *t, uint64_t goal, bool gentle)
{
    ACQUIRE(&t->lock);
    if (gentle && t->goal_asked != t->goal_done)
        return; /* a stricter one is under way, or another gentle one */
    t->goal = goal;
    t->goal_gentle = gentle;
    t->goal_asked++;
    t->poked = true;
    cond_signal(&t->wake);
}

static void wait_goal(struct tier *t)
{
    ACQUIRE(&t->lock);
    uint64_t asked = t->goal_asked;
    while (t->goal_done < asked)
        cond_wait(&t->ended, &t->lock);
}

int cache_evict_to(struct cache *c, uint64_t bytes, struct err *err)
{
    if (cache_flush(c, err)) /* what is in memory counts too */
        return err_wrap(err, "evict");
    cache_tick(c);
    /* Heads of packs and padding need a little too. */
    uint64_t heads =
        c->conf.n_tiers * 2 * (sizeof(struct pack_head) + sizeof(struct journal_record));
    uint64_t target = bytes > heads ? bytes - heads : 0;
    evict_down_to(c, NO_TIER, target);
    uint64_t left = bytes;
    for (size_t i = 0; i < c->conf.n_tiers; i++) {
        /* The first tiers keep what lives there; the last gets what is left of the bytes. */
        uint64_t have = 0;
        cleanup_free struct choice *ch = xcalloc(1, sizeof *ch);
        ch->c = c;
        ch->tier = (int)i;
        each_place(c, sum_up, ch);
        have = ch->live ? ch->live + heads / c->conf.n_tiers : 0;
        uint64_t goal = i + 1 == c->conf.n_tiers || have > left ? left : have;
        left -= goal;
        if (listed_bytes(c->tiers[i]) > goal)
            ask_goal(c->tiers[i], goal, false);
    }
    for (size_t i = 0; i < c->conf.n_tiers; i++)
        wait_goal(c->tiers[i]);
    return 0;
}

int cache_make_room(struct cache *c, uint64_t bytes, struct err *err)
{
    struct cache_stat s;
    uint64_t free = 0, listed = 0, unpinned = 0;
    if (cache_flush(c, err))
        return err_wrap(err, "make room");
    cache_stat(c, &s);
    for (size_t i = 0; i < s.n_tiers; i++) {
        uint64_t left = s.tiers[i].limit > s.tiers[i].used ? s.tiers[i].limit - s.tiers[i].used : 0;
        free += left < s.tiers[i].free ? left : s.tiers[i].free;
        listed += listed_bytes(c->tiers[i]);
    }
    cleanup_free struct choice *ch = xcalloc(1, sizeof *ch);
    ch->c = c;
    ch->tier = NO_TIER;
    each_place(c, sum_up, ch);
    for (unsigned b = 0; b < AGE_BUCKETS; b++)
        unpinned += ch->ages.bytes[0][b];
    if (!unpinned)
        return 0; /* what is between the records does not pay for giving up one that is pinned */
    uint64_t garbage = listed > ch->live ? listed - ch->live : 0;
    uint64_t most = unpinned + garbage, excess = bytes > free ? bytes - free : 0;
    if (excess > most)
        excess = most;
    return excess ? cache_evict_to(c, listed - excess, err) : 0;
}

int cache_reclaim(struct cache *c, uint64_t bytes, struct err *err)
{
    (void)err;
    uint64_t room = cache_room(c), want = bytes > room ? bytes - room : 0;
    for (size_t i = 0; i < c->conf.n_tiers && want; i++) {
        uint64_t have = listed_bytes(c->tiers[i]);
        ask_goal(c->tiers[i], have > want ? have - want : 0, true);
        wait_goal(c->tiers[i]);
        uint64_t left = listed_bytes(c->tiers[i]);
        want -= left < have && have - left < want ? have - left : left < have ? want : 0;
    }
    return 0;
}

static void forget_any(void *arg, uint64_t unit, const struct place *e)
{
    if (e->flags & UNIT_IN_PACK)
        place_forget(arg, unit, e);
}

/* Fills under way are answered but not kept. */
static void drop_fills(struct cache *c)
{
    for (size_t i = 0; i < STRIPES; i++) {
        ACQUIRE(&c->stripes[i].lock);
        for (struct fill *f = c->stripes[i].fills; f; f = f->next)
            f->unwanted = true;
    }
}

int cache_clear(struct cache *c, struct err *err)
{
    (void)err;
    drop_fills(c);
    each_place(c, forget_any, c);
    for (size_t i = 0; i < c->conf.n_tiers; i++)
        ask_goal(c->tiers[i], 0, false);
    for (size_t i = 0; i < c->conf.n_tiers; i++)
        wait_goal(c->tiers[i]);
    return 0;
}

/* A tier without packs, new or lost in a restart of the machine, holds nothing of any lineage. */
static bool is_of_another(struct tier *t, uint64_t lineage)
{
    ACQUIRE(&t->lock);
    return t->packs && folder_lineage(t->marker_fd) != lineage;
}

int cache_bind(struct cache *c, uint64_t lineage, struct err *err)
{
    bool another = false;
    for (size_t i = 0; i < c->conf.n_tiers; i++)
        another = another || is_of_another(c->tiers[i], lineage);
    /* Emptied first: a death in between leaves the old lineage, and the next one empties again. */
    if (another && (cache_clear(c, err) || cache_flush(c, err)))
        return -1;
    for (size_t i = 0; i < c->conf.n_tiers; i++) {
        struct tier *t = c->tiers[i];
        if (folder_lineage(t->marker_fd) == lineage)
            continue;
        /* Packs that were unlinked may come back after a power loss: not below the new lineage. */
        if (fsync(t->dir_fd))
            return err_sys(err, errno, "cache: sync %s", t->dir);
        if (folder_set_lineage(t->dir, t->marker_fd, lineage, err))
            return -1;
    }
    cache_recount(c);
    return 0;
}

void cache_recount(struct cache *c)
{
    for (size_t i = 0; i < c->conf.n_tiers; i++) {
        struct tier *t = c->tiers[i];
        uint64_t foreign = folder_foreign(t, c->index.tier == t ? c->index.path : NULL);
        {
            ACQUIRE(&t->lock);
            t->foreign = foreign;
        }
        writer_poke(t); /* makes room if that is too much now */
    }
}
