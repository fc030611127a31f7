/*
 * Making room, the mechanism: forgetting units. The policies (policy-*.c) say which go; reclaim.c
 * gets the bytes of their records back.
 */
#include "cache-internal.h"

#include <errno.h>
#include <unistd.h>

#include "clock.h"

#define LOG_MODULE "cache"
#include "log.h"

#define ROOM_PAUSE_NS (10 * NS_PER_S)
#define ROOM_LEAST    (64ull << 20)

static uint32_t age_of(const struct cache *c, const struct place *e)
{
    uint32_t now = atomic_load(&c->now_min);
    if (e->flags & UNIT_LEFT)
        return now;
    return now > e->used ? now - e->used : 0;
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
    ch->live += place_cost(e);
    ages_add(&ch->ages, e->flags & UNIT_PINNED, age_of(ch->c, e), place_cost(e));
}

static void evict_chosen(void *arg, uint64_t unit, const struct place *e)
{
    struct choice *ch = arg;
    if (concerns(ch, e) &&
        policy_pinned_goes(&ch->victims, e->flags & UNIT_PINNED, age_of(ch->c, e), place_cost(e)))
        place_evict(ch->c, unit, e);
}

static uint64_t unpinned_bytes(const struct choice *ch)
{
    uint64_t sum = 0;
    for (unsigned b = 0; b < AGE_BUCKETS; b++)
        sum += ch->ages.bytes[0][b];
    return sum;
}

/* Forgets units until what lives (of one tier, or all) costs at most `bytes`: pinned ones only if
 * they may go at all. */
static void evict_down_to(struct cache *c, int tier, uint64_t bytes, bool pinned_too)
{
    cleanup_free struct choice *ch = xcalloc(1, sizeof *ch);
    ch->c = c;
    ch->tier = tier;
    each_place(c, sum_up, ch);
    if (ch->live <= bytes)
        return;
    uint64_t need = ch->live - bytes, unpinned = unpinned_bytes(ch);
    policy_pinned_pick(&ch->ages, pinned_too || need < unpinned ? need : unpinned, &ch->victims);
    each_place(c, evict_chosen, ch);
}

static void evict_idle(void *arg, uint64_t unit, const struct place *e)
{
    struct choice *ch = arg;
    if (!ch->idle_left || !concerns(ch, e) ||
        !policy_scan_goes(e->flags & UNIT_PINNED, age_of(ch->c, e)))
        return;
    uint64_t bytes = place_cost(e);
    ch->idle_left -= bytes < ch->idle_left ? bytes : ch->idle_left;
    place_evict(ch->c, unit, e);
}

/* --- upkeep ---------------------------------------------------------------------------------- */

static uint64_t pack_bytes(struct tier *t)
{
    uint64_t index = t->c->index.tier == t ? index_bytes(&t->c->index) : 0;
    ACQUIRE(&t->lock);
    return t->used - index;
}

static void look_at_folder(struct tier *t)
{
    uint64_t over = 0;
    tier_look(t);
    {
        ACQUIRE(&t->lock);
        uint64_t taken = t->used + t->foreign + t->guests;
        over = taken > t->limit ? taken - t->limit : 0;
    }
    if (!over)
        return;
    uint64_t have = pack_bytes(t), target = have > over ? have - over : 0;
    evict_down_to(t->c, t->place, target - target / 256, true);
    reclaim_to(t, target, SPARE_NOTHING);
}

static void evict_left(void *arg, uint64_t unit, const struct place *e)
{
    struct choice *ch = arg;
    if (!ch->idle_left || !concerns(ch, e) || !(e->flags & UNIT_LEFT))
        return;
    uint64_t bytes = place_cost(e);
    ch->idle_left -= bytes < ch->idle_left ? bytes : ch->idle_left;
    place_evict(ch->c, unit, e);
}

/* What nobody wants goes for any newcomer. */
static void make_room_of_left(struct tier *t, uint64_t wanted)
{
    uint64_t asked = wanted > ROOM_LEAST ? wanted : ROOM_LEAST, have = packs_bytes(t);
    cleanup_free struct choice *ch = xcalloc(1, sizeof *ch);
    ch->c = t->c;
    ch->tier = t->place;
    ch->idle_left = asked;
    atomic_store(&t->left, false); /* before: what is left meanwhile sets it again */
    each_place(t->c, evict_left, ch);
    uint64_t freed = asked - ch->idle_left;
    if (!ch->idle_left) /* there may be more of it */
        atomic_store(&t->left, true);
    if (freed)
        reclaim_to(t, have > freed ? have - freed : 0, SPARE_ALL);
}

static void make_room(struct tier *t)
{
    uint64_t wanted, left_wanted, now = clock_mono_ns();
    {
        ACQUIRE(&t->lock);
        wanted = t->room_wanted;
        left_wanted = t->left_wanted;
        t->room_wanted = t->left_wanted = 0;
    }
    if ((!wanted && !left_wanted) || (t->room_made_ns && now - t->room_made_ns < ROOM_PAUSE_NS))
        return;
    t->room_made_ns = now;
    if (left_wanted)
        make_room_of_left(t, left_wanted);
    if (!wanted)
        return;
    cleanup_free struct choice *ch = xcalloc(1, sizeof *ch);
    ch->c = t->c;
    ch->tier = t->place;
    uint64_t asked = wanted > ROOM_LEAST ? wanted : ROOM_LEAST;
    ch->idle_left = asked < t->limit / 8 ? asked : t->limit / 8;
    uint64_t freed = ch->idle_left;
    each_place(t->c, evict_idle, ch);
    freed -= ch->idle_left;
    uint64_t have = packs_bytes(t);
    if (freed)
        reclaim_to(t, have > freed ? have - freed : 0, SPARE_PINNED);
}

static void reach_goal(struct tier *t)
{
    uint64_t asked, goal;
    enum mercy mercy;
    {
        ACQUIRE(&t->lock);
        asked = t->goal_asked;
        goal = t->goal;
        mercy = t->goal_mercy;
        if (asked == t->goal_done)
            return;
    }
    reclaim_to(t, goal, mercy);
    ACQUIRE(&t->lock);
    t->goal_done = asked;
    cond_broadcast(&t->ended);
}

void evict_upkeep(struct tier *t)
{
    cache_tick(t->c);
    leases_expire(t->c);
    passing_expire(t->c);
    reach_goal(t);
    look_at_folder(t);
    make_room(t);
    reclaim_garbage(t);
}

/* --- asked for ------------------------------------------------------------------------------- */

static void ask_goal(struct tier *t, uint64_t goal, enum mercy mercy)
{
    ACQUIRE(&t->lock);
    if (mercy == SPARE_ALL && t->goal_asked != t->goal_done)
        return; /* a stricter one is under way, or another gentle one */
    /* Who asked for another goal waits for that one. */
    while (t->goal_asked != t->goal_done)
        cond_wait(&t->ended, &t->lock);
    t->goal = goal;
    t->goal_mercy = mercy;
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

static void evict_to(struct cache *c, uint64_t bytes, enum mercy mercy)
{
    cache_drain(c); /* what is in memory counts too */
    cache_tick(c);
    /* Heads of packs and padding need a little too. */
    uint64_t heads =
        c->conf.n_tiers * 2 * (sizeof(struct pack_head) + sizeof(struct journal_record));
    uint64_t target = bytes > heads ? bytes - heads : 0;
    evict_down_to(c, NO_TIER, target, mercy == SPARE_NOTHING);
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
        if (packs_bytes(c->tiers[i]) > goal)
            ask_goal(c->tiers[i], goal, mercy);
    }
    for (size_t i = 0; i < c->conf.n_tiers; i++)
        wait_goal(c->tiers[i]);
}

static uint64_t pinned_in_packs(struct cache *c)
{
    settle_all(c);
    uint64_t all = atomic_load(&c->pinned_bytes), guests = atomic_load(&c->guests.pinned_bytes);
    return all > guests ? all - guests : 0;
}

void cache_evict_to(struct cache *c, uint64_t bytes)
{
    uint64_t pinned = pinned_in_packs(c);
    guests_shrink(c, bytes > pinned ? bytes - pinned : 0, /* pinned_too= */ false);
    guests_shrink(c, bytes, /* pinned_too= */ true);
    uint64_t guests = guests_used(c);
    evict_to(c, bytes > guests ? bytes - guests : 0, SPARE_NOTHING);
}

void cache_make_room(struct cache *c, uint64_t bytes)
{
    struct cache_stat s;
    uint64_t free = 0, listed = 0;
    cache_drain(c);
    cache_stat(c, &s);
    for (size_t i = 0; i < s.n_tiers; i++) {
        uint64_t left = s.tiers[i].limit > s.tiers[i].used ? s.tiers[i].limit - s.tiers[i].used : 0;
        free += left < s.tiers[i].free ? left : s.tiers[i].free;
        listed += packs_bytes(c->tiers[i]);
    }
    cleanup_free struct choice *ch = xcalloc(1, sizeof *ch);
    ch->c = c;
    ch->tier = NO_TIER;
    each_place(c, sum_up, ch);
    uint64_t unpinned = unpinned_bytes(ch);
    if (!unpinned)
        return; /* what is between the records does not pay for copying them all */
    uint64_t garbage = listed > ch->live ? listed - ch->live : 0;
    uint64_t most = unpinned + garbage, excess = bytes > free ? bytes - free : 0;
    if (excess > most)
        excess = most;
    if (excess)
        evict_to(c, listed - excess, SPARE_PINNED);
}

void cache_reclaim(struct cache *c, uint64_t bytes)
{
    uint64_t room = cache_room(c), want = bytes > room ? bytes - room : 0;
    for (size_t i = 0; i < c->conf.n_tiers && want; i++) {
        uint64_t have = packs_bytes(c->tiers[i]);
        ask_goal(c->tiers[i], have > want ? have - want : 0, SPARE_ALL);
        wait_goal(c->tiers[i]);
        uint64_t left = packs_bytes(c->tiers[i]);
        want -= left < have && have - left < want ? have - left : left < have ? want : 0;
    }
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

void cache_clear(struct cache *c)
{
    drop_fills(c);
    passing_clear(c);
    each_place(c, forget_any, c);
    guests_shrink(c, 0, /* pinned_too= */ true);
    for (size_t i = 0; i < c->conf.n_tiers; i++)
        ask_goal(c->tiers[i], 0, SPARE_NOTHING);
    for (size_t i = 0; i < c->conf.n_tiers; i++)
        wait_goal(c->tiers[i]);
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
    if (another) {
        log_warn(c->conf.log,
                 "what lies in the tiers was cached by another catalog than that in "
                 "%s: it is dropped, and fetched again",
                 c->dir);
        cache_clear(c);
        if (cache_flush(c, err))
            return -1;
    }
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
        tier_look(t);
        writer_poke(t); /* makes room if that is too much now */
    }
}
