/*
 * Epochs ahead: one thread that makes the samples of the epochs to come local while the running
 * one trains. (volume-internal.h states what holds, epochs-room.c where room comes from.)
 *
 *   running epoch:  ....seen....|....unseen, missing....     fetched first, in order
 *   epoch + 1:      ............missing.................     then these, in the order of reading
 *   epoch + 2, …:   built and fetched as budget and room allow
 */
#define LOG_MODULE "volume"
#include "epochs-internal.h"

#include <assert.h>

#include "clock.h"
#include "log.h"
#include "plan.h"

#define RECENT_MOST   256  /* samples seen last: their reads may go on */
#define BEHIND_LEAST  1024 /* positions: so far behind a rank's furthest nobody reads any more */
#define WAIT_NS       (250 * NS_PER_MS)
#define LIMIT_WAIT_NS (10 * NS_PER_MS)
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

bool epochs_done_with(const struct epochs *e, uint64_t pos)
{
    uint64_t behind = e->now->length / 64 > BEHIND_LEAST ? e->now->length / 64 : BEHIND_LEAST;
    if (bit(&e->seen, pos))
        behind = recent_room(e->now);
    return bit(&e->done, pos) || e->furthest[epoch_order_rank(e->now, pos)] > pos + behind;
}

/* --- one run: a running epoch, and those after it -------------------------------------------- */

bool epochs_outdated(struct epochs_run *r)
{
    struct epochs *e = r->e;
    ACQUIRE(&e->lock);
    r->changes = e->changes;
    return e->stop || e->now != r->orders[0] || !e->budget;
}

static void say(struct epochs_run *r, const char *state)
{
    struct epochs *e = r->e;
    ACQUIRE(&e->lock);
    e->state = state;
    e->epoch = r->orders[r->k < r->n ? r->k : r->n - 1]->spec.epoch;
    e->pos = r->pos;
    e->length = r->k < r->n ? r->orders[r->k]->length : 0;
}

/* Until readers have gone on, something has changed, or (not 0) so long. */
static void pause_run(struct epochs_run *r, const char *state, uint64_t ns)
{
    say(r, state);
    struct epochs *e = r->e;
    ACQUIRE(&e->lock);
    if (e->changes == r->changes && ns)
        cond_wait_for(&e->wake, &e->lock, ns);
    else if (e->changes == r->changes)
        cond_wait(&e->wake, &e->lock);
}

bool epochs_next_order(struct epochs_run *r)
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
static bool take_place(struct epochs_run *r)
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

static void give_place(struct epochs_run *r)
{
    ACQUIRE(&r->e->lock);
    r->e->outstanding--;
}

enum begun { BEGUN, NOT_TO_BE_HAD, QUEUE_FULL, NO_ROOM };

static enum begun begin_fetch(struct epochs_run *r, uint64_t unit, uint32_t raw)
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
static bool fetch_unit(struct epochs_run *r, uint64_t unit, uint32_t raw)
{
    while (!epochs_outdated(r)) {
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
static bool fetch_sample(struct epochs_run *r, uint64_t id, uint64_t size)
{
    uint64_t n = unit_count(size);
    cache_pin(r->v->cache, id, size, true);
    for (uint64_t i = 0; i < n; i++)
        if (cache_where(r->v->cache, id + i) < 0 && !fetch_unit(r, id + i, unit_length(size, i)))
            return false;
    return true;
}

/* --- in the order of reading ----------------------------------------------------------------- */

/* Kept for an epoch to come alone: it counts against the budget. */
static void count_held(struct epochs_run *r, uint64_t bytes)
{
    ACQUIRE(&r->e->lock);
    r->e->held += bytes;
}

static bool within_budget(struct epochs_run *r, uint64_t bytes)
{
    ACQUIRE(&r->e->lock);
    return r->e->held + bytes <= r->e->budget;
}

static bool already_seen(struct epochs_run *r)
{
    ACQUIRE(&r->e->lock);
    return r->e->now == r->orders[0] && bit(&r->e->seen, r->pos);
}

/* Looks at the next position. False: it has to wait there, as `why` says. */
static bool advance(struct epochs_run *r, const char **why, uint64_t *ret_wait)
{
    struct epoch_order *o = r->orders[r->k];
    uint64_t id = epoch_order_id(o, r->pos);
    struct entry entry = {.size = 0};
    bool local = cache_where(r->v->cache, id) >= 0;
    bool theirs = r->k == 0 || epoch_order_position(r->orders[0], id) != UINT64_MAX;
    if ((r->k == 0 && already_seen(r)) || (local && theirs && o->single_units) ||
        catalog_get(o->catalog, id, &entry, NULL) || !epochs_may_fit(r->v, &entry)) {
        r->pos++;
        return true;
    }
    if (local && cache_has_all(r->v->cache, id, unit_count(entry.size))) {
        cache_pin(r->v->cache, id, entry.size, true);
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
    if (!epochs_room_for(r, plan_stored_bytes(entry.size, 1.0)) || !fetch_sample(r, id, entry.size))
        return false;
    if (r->k > 0)
        count_held(r, entry.size);
    r->pos++;
    return true;
}

static void go_on(struct epochs_run *r)
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
    if (r->k + 1 < r->n || epochs_next_order(r)) {
        r->k++;
        r->pos = 0;
        say(r, "fetching");
        return;
    }
    pause_run(r, "done", 0);
}

static void run(struct volume *v, struct epoch_order *now, const struct share_conf *division)
{
    struct epochs_run r = {
        .v = v, .e = &v->epochs, .division = *division, .orders = {now}, .n = 1, .hand = 1};
    while (!epochs_outdated(&r))
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
