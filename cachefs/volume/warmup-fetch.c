/* A round of a warmup: what is missing is fetched, so many units outstanding. */
#include "clock.h"
#include "warmup-internal.h"

#define FULL_WAIT_NS  (2 * NS_PER_MS)
#define LIMIT_WAIT_NS (10 * NS_PER_MS)

#define PACKED_AT_ONCE 4096

/* A sample on its way: one wait a missing unit. */
struct warm_sample {
    struct warm *w;
    struct target *target;
    atomic_int left; /* units on their way, and one for who starts them */
    atomic_bool failed;
    atomic_bool not_kept;          /* there was no room for a part of it */
    atomic_bool given_up;          /* the warmup was cancelled before all of it came */
    uint64_t parts, parts_fetched; /* counted in the warmup's; under its lock */
    char why[400];                 /* of the first failure */
    struct warm_unit {
        struct source_wait wait;
        struct warm_sample *sample;
    } units[];
};

static void sample_end(struct warm_sample *s)
{
    struct warm *w = s->w;
    enum target_state state = atomic_load(&s->failed)     ? TARGET_FAILED
                              : atomic_load(&s->not_kept) ? TARGET_NOT_KEPT
                                                          : TARGET_FETCHED;
    if (atomic_load(&s->given_up)) {
        free(s);
        return;
    }
    if (state == TARGET_FAILED)
        warm_failed(w, s->target->id, s->why);
    atomic_store(&s->target->state, state);
    ACQUIRE(&w->lock);
    w->done++;
    w->work += warm_work_of(s->target);
    w->parts -= s->parts;
    w->parts_fetched -= s->parts_fetched;
    if (state == TARGET_FETCHED) {
        w->result.fetched++;
        w->fetched_bytes += s->target->size;
    }
    free(s);
}

static void sample_leave(struct warm_sample *s)
{
    if (atomic_fetch_sub(&s->left, 1) == 1)
        sample_end(s);
}

static void sample_failed(struct warm_sample *s, const struct err *err)
{
    if (!atomic_exchange(&s->failed, true))
        snprintf(s->why, sizeof s->why, "%.*s", (int)sizeof s->why - 1, err->msg);
}

/* Of packed samples many share a request (fetch/gather.c), if they are asked for together. */
static unsigned most_outstanding(const struct warm *w)
{
    return w->packed ? PACKED_AT_ONCE : atomic_load(&w->v->connections) * 2;
}

static void give_place(struct warm *w)
{
    unsigned most = most_outstanding(w);
    ACQUIRE(&w->lock);
    w->outstanding--;
    if (w->outstanding <= most - most / 4) /* woken for several at once */
        cond_signal(&w->changed);
}

/* A large sample may take hours: its blocks count as they come. */
static void count_part(struct warm_sample *s, uint64_t block, bool fetched)
{
    uint32_t len = unit_length(s->target->size, block);
    if (len == s->target->size)
        return;
    ACQUIRE(&s->w->lock);
    s->parts += len;
    s->w->parts += len;
    s->parts_fetched += fetched ? len : 0;
    s->w->parts_fetched += fetched ? len : 0;
}

/* The place is given back last: while one is taken, `w` stays. */
static void unit_arrived(struct source_wait *wait, struct view *view, const struct err *err)
{
    struct warm_sample *s = ((struct warm_unit *)wait)->sample;
    struct warm *w = s->w;
    uint64_t block = (uint64_t)((struct warm_unit *)wait - s->units), unit = s->target->id + block;
    (void)view;
    /* "No room now" comes late where another's fill was joined: the next round asks again. */
    if (err && err->class == ERR_CANCELLED && atomic_load(&w->given_up))
        atomic_store(&s->given_up, true);
    else if (err && err->class != ERR_LIMIT)
        sample_failed(s, err);
    else if (err || cache_where(w->v->cache, unit) < 0)
        atomic_store(&s->not_kept, true);
    else
        count_part(s, block, true);
    sample_leave(s);
    give_place(w);
}

static void pause_for(struct warm *w, uint64_t ns)
{
    ACQUIRE(&w->lock);
    cond_wait_for(&w->changed, &w->lock, ns);
}

static bool place_free(struct warm *w, bool full)
{
    ACQUIRE(&w->lock);
    if (!full && w->outstanding < most_outstanding(w)) {
        w->outstanding++;
        return true;
    }
    cond_wait_for(&w->changed, &w->lock, full ? FULL_WAIT_NS : TICK_NS);
    return false;
}

/* False: cancelled. */
static bool take_place(struct warm *w)
{
    struct pool *pool = w->v->pool;
    while (!warm_ends(w)) {
        if (place_free(w, cache_in_flight(w->v->cache) >= POOL_SHARE(pool_limit(pool))))
            return true;
        warm_tick(w, false);
    }
    return false;
}

static void fetch_unit(struct warm_sample *s, uint64_t block)
{
    struct warm *w = s->w;
    struct warm_unit *u = &s->units[block];
    *u = (struct warm_unit){{unit_arrived}, s};
    struct piece p = {.catalog = w->catalog,
                      .unit = s->target->id + block,
                      .len = UNIT_BYTES,
                      .prio = PRIO_WARMUP,
                      .if_kept = true,
                      .waits = true,
                      .given_up = &w->given_up};
    while (take_place(w)) {
        struct err err = {0};
        atomic_fetch_add(&s->left, 1);
        int rc = source_ahead(w->v->top, &p, &u->wait, &err);
        if (rc == SOURCE_PENDING)
            return;
        give_place(w);
        if (rc == -1 && err.class != ERR_LIMIT)
            sample_failed(s, &err);
        if (rc == SOURCE_NO_ROOM)
            atomic_store(&s->not_kept, true);
        atomic_fetch_sub(&s->left, 1); /* never the last: the starter's own is still in */
        if (rc != -1 || err.class != ERR_LIMIT)
            return;
        pause_for(w, LIMIT_WAIT_NS);
        warm_tick(w, false);
    }
}

static void fetch_target(struct warm *w, struct target *t)
{
    uint64_t n = unit_count(t->size);
    struct warm_sample *s = xcalloc(1, sizeof *s + n * sizeof s->units[0]);
    s->w = w;
    s->target = t;
    atomic_init(&s->left, 1);
    for (uint64_t i = 0; i < n && !warm_ends(w) && !atomic_load(&s->failed); i++)
        if (cache_where(w->v->cache, t->id + i) < 0)
            fetch_unit(s, i);
        else
            count_part(s, i, false);
    if (warm_ends(w))
        atomic_store(&s->given_up, true);
    sample_leave(s);
}

/* A narrow line would be busy for long with what nobody wants. */
static void take_back(struct warm *w)
{
    if (w->wish != WARMUP_TAKE_BACK || atomic_load(&w->given_up))
        return;
    atomic_store(&w->given_up, true);
    source_give_up(w->v->top);
}

static void wait_for_all(struct warm *w)
{
    for (;;) {
        take_back(w);
        {
            ACQUIRE(&w->lock);
            if (w->outstanding > 0)
                cond_wait_for(&w->changed, &w->lock, TICK_NS);
            if (w->outstanding == 0)
                return;
        }
        warm_tick(w, false);
    }
}

void warm_fetch(struct warm *w)
{
    for (size_t i = 0; i < w->targets.n && !warm_ends(w); i++) {
        struct target *t = target_at(&w->targets, i);
        if (atomic_load(&t->state) != TARGET_OPEN)
            continue;
        if (cache_has_all(w->v->cache, t->id, unit_count(t->size))) {
            atomic_store(&t->state, TARGET_HAD);
            ACQUIRE(&w->lock);
            w->done++;
            w->work += warm_work_of(t);
            w->result.already++;
        } else {
            fetch_target(w, t);
        }
        if (i % 256 == 0)
            warm_tick(w, false);
    }
    wait_for_all(w);
}
