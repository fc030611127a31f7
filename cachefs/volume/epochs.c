/*
 * Epochs ahead: one thread that makes the samples of the epochs to come local while the running
 * one trains. (volume-internal.h states what holds.)
 *
 *   running epoch:  ....seen....|....unseen, missing....     fetched first, in order
 *   epoch + 1:      ............missing.................     then these, in the order of reading
 *   epoch + 2, …:   built and fetched as budget and room allow
 *
 * Room comes from what is read last. First go samples that no known epoch reads again: leftovers,
 * and those that the running epoch has done with. Then, for an epoch's sake, those that only a
 * later one reads: of the last known epoch from its end backwards, then of the one before it. The
 * cache copies what lives beside them together. It never decides here by age, and a sample that was
 * fetched ahead leaves only for one that is read in an earlier epoch.
 */
#define LOG_MODULE "volume"
#include "volume-internal.h"

#include <assert.h>

#include "clock.h"
#include "log.h"
#include "plan.h"

#define RECENT_MOST   256  /* samples seen last: their reads may go on */
#define BEHIND_LEAST  1024 /* positions: so far behind a rank's furthest nobody reads any more */
#define WAIT_NS       (250 * NS_PER_MS)
#define LIMIT_WAIT_NS (10 * NS_PER_MS)
#define SWEEP_SHARE   16 /* of all tiers' limits: dropped at a time */
#define LOOK_OFTEN    4096

struct epochs_op {
    struct source_wait wait;
    struct volume *v;
    struct catalog *catalog;
    uint64_t unit;
    uint32_t raw;
};

/* --- what the running epoch has done with ---------------------------------------------------- */

static bool bit(const struct spill *s, uint64_t at)
{
    return ((const uint8_t *)s->data)[at / 8] >> (at % 8) & 1;
}

static void set_bit(struct spill *s, uint64_t at)
{
    ((uint8_t *)s->data)[at / 8] |= (uint8_t)(1u << (at % 8));
}

static size_t recent_room(const struct epoch_order *o)
{
    uint64_t n = o->length / 16 + 1;
    return n < RECENT_MOST ? (size_t)n : RECENT_MOST;
}

/* Lock held. The position was seen for the first time; whose turn in the ring is over is done with.
 */
static void note_recent(struct epochs *e, uint64_t pos)
{
    size_t room = recent_room(e->now), at = e->n_seen % room;
    if (e->n_seen >= room)
        set_bit(&e->done, e->recent[at]);
    e->recent[at] = (uint32_t)pos;
    e->n_seen++;
}

void epochs_seen(struct volume *v, uint64_t gen, uint64_t pos, bool pushed)
{
    struct epochs *e = &v->epochs;
    ACQUIRE(&e->lock);
    if (!e->now || e->now->gen != gen)
        return;
    bool first = !bit(&e->seen, pos);
    set_bit(&e->seen, pos);
    e->n_distinct += first;
    if (first && e->n_distinct + e->now->n_repeats >= e->now->length)
        cond_signal(&e->wake); /* all of it may have been pushed before anybody read */
    if (pushed)
        return;
    uint64_t *furthest = &e->furthest[epoch_order_rank(e->now, pos)];
    if (pos > *furthest)
        *furthest = pos;
    if (first)
        note_recent(e, pos);
    if (e->n_reads++ % recent_room(e->now) == 0)
        cond_signal(&e->wake);
}

/* Has the running epoch done with what it reads at this position? What was pushed: once its reader
 * was seen further on. Lock held. */
static bool done_with(const struct epochs *e, uint64_t pos)
{
    uint64_t behind = e->now->length / 64 > BEHIND_LEAST ? e->now->length / 64 : BEHIND_LEAST;
    if (bit(&e->seen, pos))
        behind = recent_room(e->now);
    return bit(&e->done, pos) || e->furthest[epoch_order_rank(e->now, pos)] > pos + behind;
}

/* --- one run: a running epoch, and those after it -------------------------------------------- */

struct run {
    struct volume *v;
    struct epochs *e;
    struct share_conf division;
    struct epoch_order *orders[EPOCHS_AHEAD + 1]; /* [0]: the running one */
    size_t n;                                     /* of them are known */
    size_t k;                                     /* what is fetched next: in this epoch … */
    uint64_t pos;                                 /* … at this position */
    uint64_t hand;                                /* leftovers: ids below were looked at */
    uint64_t swept; /* positions of the running epoch below were looked at */
    uint64_t
        tail[EPOCHS_AHEAD + 1]; /* of each epoch to come: positions from here on were looked at */
    uint64_t looked_ns;
    size_t looked;
    unsigned changes; /* of what was set, as far as they are known here */
};

static bool outdated(struct run *r)
{
    struct epochs *e = r->e;
    ACQUIRE(&e->lock);
    r->changes = e->changes;
    return e->stop || e->now != r->orders[0] || !e->budget;
}

static void say(struct run *r, const char *state)
{
    struct epochs *e = r->e;
    ACQUIRE(&e->lock);
    e->state = state;
    e->epoch = r->orders[r->k < r->n ? r->k : r->n - 1]->spec.epoch;
    e->pos = r->pos;
    e->length = r->k < r->n ? r->orders[r->k]->length : 0;
}

/* Until readers have gone on, something has changed, or (not 0) so long. */
static void pause_run(struct run *r, const char *state, uint64_t ns)
{
    say(r, state);
    struct epochs *e = r->e;
    ACQUIRE(&e->lock);
    if (e->changes == r->changes && ns)
        cond_wait_for(&e->wake, &e->lock, ns);
    else if (e->changes == r->changes)
        cond_wait(&e->wake, &e->lock);
}

/* The order of the epoch after the last known one. False: there is none, or it can't be built. */
static bool next_order(struct run *r)
{
    const struct epoch_order *now = r->orders[0];
    struct order_spec spec = now->spec;
    struct err err = {0};
    spec.epoch += r->n;
    if (r->n > EPOCHS_AHEAD || spec.epoch > now->last_epoch)
        return false;
    if (epoch_order_new(&r->orders[r->n], &spec, &r->division, now->catalog, r->v->conf.dir,
                        now->gen, &err)) {
        log_warn(r->v->conf.log, "no order of epoch %llu to fetch ahead by: %s",
                 (unsigned long long)spec.epoch, err.msg);
        return false;
    }
    assert(r->orders[r->n]);
    r->tail[r->n] = r->orders[r->n]->length;
    r->n++;
    return true;
}

/* --- room ------------------------------------------------------------------------------------ */

static uint64_t tier_limits(const struct volume *v)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < v->conf.n_tiers; i++)
        sum += v->conf.tiers[i].limit;
    return sum;
}

/* Never, if it is larger than all tiers: there is no room for it, whatever goes. */
static bool sample_may_fit(const struct volume *v, const struct entry *e)
{
    uint64_t limits = tier_limits(v);
    return plan_stored_bytes(e->size, 1.0) <= limits - limits / SHARE_SLACK;
}

/* Does one of the epochs to come, the `last`-th at most, read it? */
static bool read_later(const struct run *r, uint64_t id, size_t last)
{
    for (size_t k = 1; k <= last; k++)
        if (epoch_order_position(r->orders[k], id) != UINT64_MAX)
            return true;
    return false;
}

/* The positions that were seen are those of the order that is set now. Lock held. */
static bool run_done_with(const struct run *r, uint64_t pos)
{
    return r->e->now == r->orders[0] && done_with(r->e, pos);
}

static bool needed_now(const struct run *r, uint64_t id)
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
    for (uint64_t i = 0; i < n; i++) {
        cache_pin(c, id + i, false);
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
static uint64_t drop_unless_read(struct run *r, uint64_t id, size_t last)
{
    struct entry entry;
    const struct epoch_order *now = r->orders[0];
    if (now->single_units && cache_where(r->v->cache, id) < 0)
        return 0;
    bool later = read_later(r, id, last); /* told apart by size only where some are large */
    if ((later && now->single_units) || needed_now(r, id) ||
        catalog_get(now->catalog, id, &entry, NULL) || entry.folder ||
        (later && sample_may_fit(r->v, &entry)))
        return 0;
    uint64_t bytes = drop_units(r->v->cache, id, entry.size);
    if (!bytes)
        return 0;
    counter_add(&r->e->dropped, 1);
    return plan_stored_bytes(bytes, 1.0);
}

static bool swept_is_done(struct run *r)
{
    ACQUIRE(&r->e->lock);
    return run_done_with(r, r->swept);
}

/* What no known epoch reads again: leftovers first, then what was read longest ago. */
static uint64_t drop_dead(struct run *r, uint64_t want)
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
static uint64_t drop_later(struct run *r, uint64_t want)
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
static void look_again(struct run *r)
{
    uint64_t now = clock_mono_ns();
    if (now - r->looked_ns < NS_PER_S)
        return;
    r->looked_ns = now;
    r->hand = 1;
    for (size_t k = 1; k < r->n; k++)
        r->tail[k] = r->orders[k]->length;
}

/* Is there room for so many bytes? Makes some if not. */
static bool room_for(struct run *r, uint64_t want)
{
    struct cache *c = r->v->cache;
    uint64_t some = tier_limits(r->v) / SWEEP_SHARE;
    if (cache_room(c) >= want)
        return true;
    while (next_order(r))
        ;                             /* who is read again must be known before anybody goes */
    some = want > some ? want : some; /* few packs are copied for many samples */
    for (uint64_t got = 1; got && cache_room(c) < want && !outdated(r);) {
        got = drop_dead(r, some);
        if (!got)
            got = drop_later(r, some);
        cache_reclaim(c, want > got ? want : got, NULL);
    }
    if (cache_room(c) >= want)
        return true;
    look_again(r);
    return false;
}

/* --- fetching -------------------------------------------------------------------------------- */

static void arrived(struct source_wait *wait, struct view *view, const struct err *err)
{
    struct epochs_op *op = (struct epochs_op *)wait;
    struct volume *v = op->v;
    struct epochs *e = &v->epochs;
    (void)view; /* ahead() hands out nothing */
    bool kept = !err && cache_where(v->cache, op->unit) >= 0;
    counter_add(err ? &e->failed : kept ? &e->fetched : &e->not_kept, 1);
    if (kept)
        counter_add(&e->fetched_bytes, op->raw);
    {
        ACQUIRE(&e->lock);
        e->outstanding--;
        cond_signal(&e->wake);
    }
    catalog_unref(op->catalog);
    free(op);
    gate_leave(&v->gate);
}

/* Readers and their window go first: half of the connections, and of what they may take of the
 * pool, are never used here. */
static bool take_place(struct run *r)
{
    struct epochs *e = r->e;
    struct pool *pool = r->v->pool;
    unsigned most = atomic_load(&r->v->connections) / 2;
    bool full = cache_in_flight(r->v->cache) >= POOL_SHARE(pool_limit(pool)) / 2;
    ACQUIRE(&e->lock);
    if (e->stop || full || e->outstanding >= (most ? most : 1)) {
        if (!e->stop)
            cond_wait_for(&e->wake, &e->lock, full ? LIMIT_WAIT_NS : WAIT_NS);
        return false;
    }
    e->outstanding++;
    return true;
}

static void give_place(struct run *r)
{
    ACQUIRE(&r->e->lock);
    r->e->outstanding--;
}

enum begun { BEGUN, NOT_TO_BE_HAD, QUEUE_FULL, NO_ROOM };

static enum begun begin_fetch(struct run *r, uint64_t unit, uint32_t raw)
{
    struct volume *v = r->v;
    struct catalog *c = r->orders[0]->catalog;
    struct err err = {0};
    if (!gate_enter(&v->gate))
        return NOT_TO_BE_HAD;
    struct epochs_op *op = xcalloc(1, sizeof *op);
    *op = (struct epochs_op){{arrived}, v, catalog_ref(c), unit, raw};
    struct piece p = {
        .catalog = c, .unit = unit, .len = UNIT_BYTES, .prio = PRIO_WARMUP, .if_kept = true};
    int rc = source_ahead(v->top, &p, &op->wait, &err);
    if (rc == SOURCE_PENDING)
        return BEGUN;
    catalog_unref(op->catalog);
    free(op);
    gate_leave(&v->gate);
    if (rc == SOURCE_NO_ROOM)
        return NO_ROOM;
    if (rc == -1 && err.class == ERR_LIMIT)
        return QUEUE_FULL;
    if (rc == -1)
        counter_add(&r->e->failed, 1);
    return NOT_TO_BE_HAD; /* or it is here, or comes for a reader */
}

/* False: there is no room for it. */
static bool fetch_unit(struct run *r, uint64_t unit, uint32_t raw)
{
    while (!outdated(r)) {
        if (!take_place(r))
            continue;
        enum begun begun = begin_fetch(r, unit, raw);
        if (begun == BEGUN)
            return true;
        give_place(r);
        if (begun != QUEUE_FULL)
            return begun != NO_ROOM;
        pause_run(r, "fetching", LIMIT_WAIT_NS);
    }
    return true;
}

/* False: readers have taken the room meanwhile. */
static bool fetch_sample(struct run *r, uint64_t id, uint64_t size)
{
    uint64_t n = unit_count(size);
    for (uint64_t i = 0; i < n; i++) {
        cache_pin(r->v->cache, id + i, true);
        if (cache_where(r->v->cache, id + i) < 0 && !fetch_unit(r, id + i, unit_length(size, i)))
            return false;
    }
    return true;
}

/* --- in the order of reading ----------------------------------------------------------------- */

/* Kept for an epoch to come alone: it counts against the budget. */
static void count_held(struct run *r, uint64_t bytes)
{
    ACQUIRE(&r->e->lock);
    r->e->held += bytes;
}

static bool within_budget(struct run *r, uint64_t bytes)
{
    ACQUIRE(&r->e->lock);
    return r->e->held + bytes <= r->e->budget;
}

static bool already_seen(struct run *r)
{
    ACQUIRE(&r->e->lock);
    return r->e->now == r->orders[0] && bit(&r->e->seen, r->pos);
}

/* Looks at the next position. False: it has to wait there, as `why` says. */
static bool advance(struct run *r, const char **why, uint64_t *ret_wait)
{
    struct epoch_order *o = r->orders[r->k];
    uint64_t id = epoch_order_id(o, r->pos);
    struct entry entry = {.size = 0};
    bool local = cache_where(r->v->cache, id) >= 0;
    bool theirs = r->k == 0 || epoch_order_position(r->orders[0], id) != UINT64_MAX;
    if ((r->k == 0 && already_seen(r)) || (local && theirs && o->single_units) ||
        catalog_get(o->catalog, id, &entry, NULL) || !sample_may_fit(r->v, &entry)) {
        r->pos++;
        return true;
    }
    if (local && cache_has_all(r->v->cache, id, unit_count(entry.size))) {
        for (uint64_t i = 0; i < unit_count(entry.size); i++)
            cache_pin(r->v->cache, id + i, true);
        if (!theirs)
            count_held(r, entry.size);
        r->pos++;
        return true;
    }
    *why = "no budget left";
    *ret_wait = 0;
    if (r->k > 0 && !within_budget(r, entry.size))
        return false;
    *why = "no room";
    *ret_wait = NS_PER_S;
    if (!room_for(r, plan_stored_bytes(entry.size, 1.0)) || !fetch_sample(r, id, entry.size))
        return false;
    if (r->k > 0)
        count_held(r, entry.size);
    r->pos++;
    return true;
}

static void go_on(struct run *r)
{
    const char *why = NULL;
    uint64_t wait = 0;
    if (r->k < r->n && r->pos < r->orders[r->k]->length) {
        if (!advance(r, &why, &wait))
            pause_run(r, why, wait);
        else if (r->looked++ % LOOK_OFTEN == 0)
            say(r, "fetching");
        return;
    }
    if (r->k + 1 < r->n || next_order(r)) {
        r->k++;
        r->pos = 0;
        say(r, "fetching");
        return;
    }
    pause_run(r, "done", 0);
}

static void run(struct volume *v, struct epoch_order *now, const struct share_conf *division)
{
    struct run r = {
        .v = v, .e = &v->epochs, .division = *division, .orders = {now}, .n = 1, .hand = 1};
    while (!outdated(&r))
        go_on(&r);
    for (size_t k = 0; k < r.n; k++)
        epoch_order_unref(r.orders[k]);
}

/* --- the thread ------------------------------------------------------------------------------ */

/* Does anybody read it? What is pushed whole is read unseen. Lock held. */
static bool has_begun(const struct epochs *e)
{
    return e->n_reads || e->n_distinct + e->now->n_repeats >= e->now->length;
}

/* The epoch to work for, referenced: it is set, there is a budget, and its reading has begun. NULL:
 * the end. */
static struct epoch_order *wait_for_epoch(struct epochs *e, struct share_conf *ret)
{
    ACQUIRE(&e->lock);
    while (!e->stop) {
        if (e->now && e->budget && has_begun(e)) {
            *ret = e->division;
            return epoch_order_ref(e->now);
        }
        e->state = !e->budget ? "off" : e->now ? "waiting for readers" : "not needed";
        cond_wait(&e->wake, &e->lock);
    }
    return NULL;
}

static void *epochs_main(void *arg)
{
    struct volume *v = arg;
    struct share_conf division;
    for (struct epoch_order *now; (now = wait_for_epoch(&v->epochs, &division));)
        run(v, now, &division);
    return NULL;
}

void epochs_set_order(struct volume *v, struct epoch_order *o, const struct share *share)
{
    struct epochs *e = &v->epochs;
    struct spill seen = {0}, done = {0};
    struct err err = {0};
    bool changes = o && share && o->length && !o->many_repeats && order_spec_deals(&o->spec) &&
                   (share->strategy == OWNER_RANDOM || share->strategy == OWNER_LOCAL);
    if (changes && (spill_new(&seen, v->conf.dir, o->length / 8 + 1, &err) ||
                    spill_new(&done, v->conf.dir, o->length / 8 + 1, &err))) {
        log_warn(v->conf.log, "epochs to come are not fetched ahead: %s", err.msg);
        changes = false;
    }
    struct epoch_order *old;
    struct spill old_seen, old_done;
    {
        ACQUIRE(&e->lock);
        old = e->now;
        old_seen = e->seen;
        old_done = e->done;
        e->now = changes ? epoch_order_ref(o) : NULL;
        e->seen = seen;
        e->done = done;
        if (changes)
            e->division = share->conf;
        e->n_seen = e->n_reads = e->n_distinct = e->held = e->pos = e->length = 0;
        memset(e->furthest, 0, sizeof e->furthest);
        e->changes++;
        cond_broadcast(&e->wake);
    }
    epoch_order_unref(old);
    spill_free(&old_seen);
    spill_free(&old_done);
}

void volume_set_ahead_bytes(struct volume *v, uint64_t bytes)
{
    struct epochs *e = &v->epochs;
    ACQUIRE(&e->lock);
    e->budget = bytes;
    e->changes++;
    cond_broadcast(&e->wake);
}

int epochs_start(struct volume *v, struct err *err)
{
    int error = thread_start(&v->epochs.thread, "epochs", epochs_main, v);
    if (error)
        return err_thread(err, error, "start the thread that fetches epochs ahead");
    v->epochs.started = true;
    return 0;
}

void epochs_stop(struct volume *v)
{
    struct epochs *e = &v->epochs;
    {
        ACQUIRE(&e->lock);
        e->stop = true;
        e->changes++;
        cond_broadcast(&e->wake);
    }
    if (e->started)
        pthread_join(e->thread, NULL);
    e->started = false;
}

void epochs_status(struct volume *v, struct json_writer *w)
{
    struct epochs *e = &v->epochs;
    ACQUIRE(&e->lock);
    jw_object(w, "epochs_ahead");
    jw_str(w, "state", e->state ? e->state : "off");
    jw_uint(w, "budget", e->budget);
    jw_uint(w, "held", e->held);
    jw_uint(w, "epoch", e->epoch);
    jw_uint(w, "position", e->pos);
    jw_uint(w, "length", e->length);
    jw_uint(w, "fetched", counter_get(&e->fetched));
    jw_uint(w, "bytes", counter_get(&e->fetched_bytes));
    jw_uint(w, "dropped", counter_get(&e->dropped));
    jw_uint(w, "not_kept", counter_get(&e->not_kept));
    jw_uint(w, "failed", counter_get(&e->failed));
    jw_end(w);
}
