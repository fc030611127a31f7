/*
 * Room for epochs ahead: what goes, so that an earlier epoch finds its samples here.
 *
 * Room comes from what is read last. First go samples that no known epoch reads again: leftovers,
 * and those that the running epoch has done with. Then, for an epoch's sake, those that only a
 * later one reads: of the last known epoch from its end backwards, then of the one before it. The
 * cache copies what lives beside them together. It never decides here by age, and a sample that was
 * fetched ahead leaves only for one that is read in an earlier epoch.
 */
#include "epochs-internal.h"

#include "clock.h"
#include "plan.h"

#define SWEEP_SHARE 16 /* of all tiers' limits: dropped at a time */

static uint64_t tier_limits(const struct volume *v)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < v->conf.n_tiers; i++)
        sum += v->conf.tiers[i].limit;
    return sum;
}

bool epochs_may_fit(const struct volume *v, const struct entry *e)
{
    uint64_t limits = tier_limits(v);
    return plan_stored_bytes(e->size, 1.0) <= limits - limits / SHARE_SLACK;
}

/* Does one of the epochs to come, the `last`-th at most, read it? */
static bool read_later(const struct epochs_run *r, uint64_t id, size_t last)
{
    for (size_t k = 1; k <= last; k++)
        if (epoch_order_position(r->orders[k], id) != UINT64_MAX)
            return true;
    return false;
}

/* The positions that were seen are those of the order that is set now. Lock held. */
static bool run_done_with(const struct epochs_run *r, uint64_t pos)
{
    return r->e->now == r->orders[0] && epochs_done_with(r->e, pos);
}

static bool needed_now(const struct epochs_run *r, uint64_t id)
{
    const struct epoch_order *o = r->orders[0];
    uint64_t pos = epoch_order_position(o, id);
    if (pos == UINT64_MAX)
        return false;
    ACQUIRE(&r->e->lock);
    return epoch_order_repeats(o, id) || !run_done_with(r, pos);
}

/* Of a large sample some units may be here, and the first of them elsewhere. Returns the bytes of
 * those that were. */
static uint64_t drop_units(struct cache *c, uint64_t id, uint64_t size)
{
    uint64_t bytes = 0, n = unit_count(size);
    cache_pin(c, id, size, false);
    for (uint64_t i = 0; i < n; i++) {
        if (cache_where(c, id + i) < 0)
            continue;
        cache_drop(c, id + i);
        bytes += unit_length(size, i);
    }
    return bytes;
}

/* Drops the sample if neither the running epoch nor those to come up to the `last`-th read it any
 * more. One that never fits is kept for none of those to come: its parts would hold up all that
 * do. Returns the room that gives back. */
static uint64_t drop_unless_read(struct epochs_run *r, uint64_t id, size_t last)
{
    struct entry entry;
    const struct epoch_order *now = r->orders[0];
    if (now->single_units && cache_where(r->v->cache, id) < 0)
        return 0;
    bool later = read_later(r, id, last); /* told apart by size only where some are large */
    if ((later && now->single_units) || needed_now(r, id) ||
        catalog_get(now->catalog, id, &entry, NULL) || entry.folder ||
        (later && epochs_may_fit(r->v, &entry)))
        return 0;
    uint64_t bytes = drop_units(r->v->cache, id, entry.size);
    if (!bytes)
        return 0;
    counter_add(&r->e->dropped, 1);
    return plan_stored_bytes(bytes, 1.0);
}

static bool swept_is_done(struct epochs_run *r)
{
    ACQUIRE(&r->e->lock);
    return run_done_with(r, r->swept);
}

/* What no known epoch reads again: leftovers first, then what was read longest ago. */
static uint64_t drop_dead(struct epochs_run *r, uint64_t want)
{
    const struct epoch_order *o = r->orders[0];
    uint64_t got = 0;
    while (got < want && r->hand <= o->max_id) {
        uint64_t id = r->hand++;
        if (epoch_order_position(o, id) == UINT64_MAX)
            got += drop_unless_read(r, id, r->n - 1);
    }
    while (got < want && r->swept < o->length && swept_is_done(r))
        got += drop_unless_read(r, epoch_order_id(o, r->swept++), r->n - 1);
    return got;
}

/* What only later epochs than the one that is fetched for read, from the last read backwards. */
static uint64_t drop_later(struct epochs_run *r, uint64_t want)
{
    uint64_t got = 0;
    for (size_t k = r->n - 1; k > r->k && k > 0; k--) {
        while (got < want && r->tail[k] > 0) {
            uint64_t id = epoch_order_id(r->orders[k], --r->tail[k]);
            got += drop_unless_read(r, id, k - 1);
        }
    }
    return got;
}

/* Readers have gone on since: what was needed then may have been done with. */
static void look_again(struct epochs_run *r)
{
    uint64_t now = clock_mono_ns();
    if (now - r->looked_ns < NS_PER_S)
        return;
    r->looked_ns = now;
    r->hand = 1;
    for (size_t k = 1; k < r->n; k++)
        r->tail[k] = r->orders[k]->length;
}

bool epochs_room_for(struct epochs_run *r, uint64_t want)
{
    struct cache *c = r->v->cache;
    uint64_t some = tier_limits(r->v) / SWEEP_SHARE;
    if (cache_room(c) >= want)
        return true;
    while (epochs_next_order(r))
        ;                             /* who is read again must be known before anybody goes */
    some = want > some ? want : some; /* few packs are copied for many samples */
    for (uint64_t got = 1; got && cache_room(c) < want && !epochs_outdated(r);) {
        got = drop_dead(r, some);
        if (!got)
            got = drop_later(r, some);
        cache_reclaim(c, want > got ? want : got);
    }
    if (cache_room(c) >= want)
        return true;
    look_again(r);
    return false;
}
