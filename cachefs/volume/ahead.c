/*
 * Reading ahead: one thread that makes units local before they are asked for.
 *
 *   a reader's READ --> streams.c: blocks of this sample, the samples after it   --> jobs
 *                   --> position in the order of training (if one is set)        --> window
 *   thread: jobs first, then the window  --> source_ahead() at PRIO_PREFETCH, many outstanding
 *                                        --> cache_will_need() for packs, in a nearer window
 *
 * Bounds: `prefetch` samples (or what fits a byte budget), the engine's connections, and a share of
 * the pool, so that a reader's own miss always finds a buffer. Without work the thread sleeps.
 */
#define LOG_MODULE "volume"
#include "volume-internal.h"

#include <errno.h>

#include "clock.h"
#include "log.h"

#define WINDOW_BYTES  (1ull << 30) /* fetched ahead, if the tiers have four times the room */
#define WINDOW_MOST   4096
#define WINDOW_LEAST  16
#define NEAR_BYTES    (64ull << 20) /* read from packs ahead of the pusher */
#define SIBLINGS_MOST 256
#define CHUNK         16 /* positions taken at a time, at most */
#define DISK_CHUNK    64
#define FULL_WAIT_NS  (2 * NS_PER_MS)  /* the pool is full: look again */
#define LIMIT_WAIT_NS (10 * NS_PER_MS) /* a queue below is full: try again */
#define WASTED_RUN    64               /* so many were not kept: the cache has no room for them */
/* Of a large sample ahead of its reader; its own stream fetches the rest. */
#define BLOCKS_A_SAMPLE 4

struct ahead_op {
    struct source_wait wait;
    struct volume *v;
    struct catalog *catalog;
    uint64_t unit;
};

/* --- sizes of the windows -------------------------------------------------------------------- */

static uint64_t mean_bytes(const struct catalog_info *info)
{
    uint64_t mean = info->samples ? info->bytes / info->samples : 0;
    return mean ? mean : 1;
}

static uint64_t clamp(uint64_t n, uint64_t least, uint64_t most)
{
    return n < least ? least : n > most ? most : n;
}

/* In samples. */
static unsigned ahead_window(const struct volume *v, const struct catalog_info *info)
{
    if (v->conf.prefetch)
        return v->conf.prefetch;
    uint64_t room = 0;
    for (size_t i = 0; i < v->conf.n_tiers; i++)
        room += v->conf.tiers[i].limit;
    uint64_t bytes = room / 4 < WINDOW_BYTES ? room / 4 : WINDOW_BYTES;
    return (unsigned)clamp(bytes / mean_bytes(info), WINDOW_LEAST, WINDOW_MOST);
}

static uint64_t near_window(const struct volume *v, const struct catalog_info *info)
{
    return clamp(NEAR_BYTES / mean_bytes(info), WINDOW_LEAST, ahead_window(v, info));
}

/* Positions taken at a time: half a window at most, so that the other half is there while they
 * come. */
static uint64_t chunk_of(uint64_t window, uint64_t most)
{
    return clamp(window / 2, 1, most);
}

static unsigned siblings_depth(const struct volume *v)
{
    if (v->conf.prefetch)
        return v->conf.prefetch < SIBLINGS_MOST ? v->conf.prefetch : SIBLINGS_MOST;
    return (unsigned)clamp(atomic_load(&v->connections) * 2ull, 8, SIBLINGS_MOST);
}

/* --- what readers and the pusher tell -------------------------------------------------------- */

static void add_job(struct ahead *a, struct ahead_job job)
{
    if (a->n_jobs == AHEAD_JOBS) { /* the oldest is the least use */
        a->job_first = (a->job_first + 1) % AHEAD_JOBS;
        a->n_jobs--;
    }
    a->jobs[(a->job_first + a->n_jobs++) % AHEAD_JOBS] = job;
    cond_signal(&a->wake);
}

void ahead_reader(struct volume *v, uint64_t id, uint64_t off)
{
    struct ahead *a = &v->ahead;
    ACQUIRE(&a->lock);
    struct reach reach = {.siblings = a->order ? 0 : siblings_depth(v),
                          .blocks = (unsigned)(POOL_SHARE(pool_limit(v->pool)) / UNIT_BYTES)};
    struct ahead_job job = streams_seen(&a->streams, id, off, reach);
    if (job.kind != AHEAD_NONE)
        add_job(a, job);
}

static void move_disk_window(struct volume *v, struct ahead *a, uint64_t pos)
{
    uint64_t near = near_window(v, catalog_info(a->order->catalog));
    bool jumped_back = pos + 2 * near < a->disk_next;
    if (pos >= a->disk_next || jumped_back)
        a->disk_next = pos + 1;
    uint64_t limit = pos + 1 + near < a->order->length ? pos + 1 + near : a->order->length;
    if (limit > a->disk_limit || jumped_back)
        a->disk_limit = limit;
    if (a->disk_limit >= a->disk_next + a->disk_chunk ||
        (limit == a->order->length && a->disk_next < limit))
        cond_signal(&a->wake);
}

/*
 * What the pusher has asked for is in the kernel's pages, or on its way there, whether the cache
 * keeps it or not: fetched ahead as well it would come twice for one read.
 */
static void mark_pushed(struct ahead *a, uint64_t pos)
{
    if (pos >= a->marked_from && pos - a->marked_from < AHEAD_MARKS)
        a->marks[pos % AHEAD_MARKS / 64] |= 1ull << (pos % 64);
}

/* What lies before `pos` is asked for no more. */
static void marks_go_on(struct ahead *a, uint64_t pos)
{
    if (pos < a->marked_from || pos - a->marked_from >= AHEAD_MARKS) {
        memset(a->marks, 0, sizeof a->marks);
        a->marked_from = pos;
    }
    for (; a->marked_from < pos; a->marked_from++)
        a->marks[a->marked_from % AHEAD_MARKS / 64] &= ~(1ull << (a->marked_from % 64));
}

void ahead_pushed(struct volume *v, uint64_t id)
{
    struct ahead *a = &v->ahead;
    uint64_t pos, gen = 0;
    {
        ACQUIRE(&a->lock);
        pos = a->order ? epoch_order_position(a->order, id) : UINT64_MAX;
        if (pos == UINT64_MAX)
            return;
        gen = a->order->gen;
        mark_pushed(a, pos);
        move_disk_window(v, a, pos);
    }
    epochs_seen(v, gen, pos, /*pushed*/ true);
}

/*
 * Each rank has its place. The window ends a window's length after the rank that is furthest; what
 * a slower one still has to read was fetched when the fastest came by. A rank that falls back by
 * more than a window has begun again: fetch from there (what is local already costs a look at the
 * index).
 */
static uint64_t move_windows(struct volume *v, uint64_t id, uint64_t *ret_gen)
{
    struct ahead *a = &v->ahead;
    ACQUIRE(&a->lock);
    struct epoch_order *o = a->order;
    uint64_t pos = o ? epoch_order_position(o, id) : UINT64_MAX;
    if (pos == UINT64_MAX)
        return pos;
    uint64_t window = ahead_window(v, catalog_info(o->catalog));
    uint64_t *last = &a->rank_pos[epoch_order_rank(o, pos)];
    bool began_again = pos + window < *last;
    *last = pos;
    a->seen = true;
    if (pos >= a->next || began_again)
        a->next = pos + 1;
    uint64_t limit = pos + 1 + window < o->length ? pos + 1 + window : o->length;
    if (limit > a->limit || began_again)
        a->limit = limit;
    if (a->limit >= a->next + a->chunk || (limit == o->length && a->next < limit))
        cond_signal(&a->wake);
    move_disk_window(v, a, pos);
    *ret_gen = o->gen;
    return pos;
}

uint64_t volume_seen(struct volume *v, uint64_t id)
{
    uint64_t gen, pos = move_windows(v, id, &gen);
    if (pos != UINT64_MAX)
        epochs_seen(v, gen, pos, /*pushed*/ false);
    return pos;
}

void ahead_set_order(struct volume *v, struct epoch_order *o)
{
    struct ahead *a = &v->ahead;
    struct epoch_order *old;
    {
        ACQUIRE(&a->lock);
        old = a->order;
        a->order = o;
        a->next = a->disk_next = a->limit = a->disk_limit = 0;
        a->wasted = 0;
        a->unseen = a->seen ? 0 : a->unseen + (old != NULL);
        a->seen = false;
        memset(a->rank_pos, 0, sizeof a->rank_pos);
        memset(a->marks, 0, sizeof a->marks);
        a->marked_from = 0;
        if (o) {
            const struct catalog_info *info = catalog_info(o->catalog);
            a->limit = clamp(ahead_window(v, info), 0, o->length);
            a->disk_limit =
                a->unseen < AHEAD_UNSEEN ? clamp(near_window(v, info), 0, o->length) : 0;
            a->chunk = chunk_of(ahead_window(v, info), CHUNK);
            a->disk_chunk = chunk_of(near_window(v, info), DISK_CHUNK);
        }
        cond_signal(&a->wake);
    }
    epoch_order_unref(old);
}

/* --- the thread ------------------------------------------------------------------------------ */

static void ahead_done(struct source_wait *wait, struct view *view, const struct err *err)
{
    struct ahead_op *op = (struct ahead_op *)wait;
    struct volume *v = op->v;
    struct ahead *a = &v->ahead;
    bool kept = !err && cache_where(v->cache, op->unit) >= 0;
    (void)view; /* ahead() hands out nothing */
    counter_add(err ? &a->failed : kept ? &a->fetched : &a->not_kept, 1);
    {
        ACQUIRE(&a->lock);
        a->outstanding--;
        a->wasted = kept || err ? 0 : a->wasted + 1;
        cond_signal(&a->wake);
    }
    catalog_unref(op->catalog);
    free(op);
    gate_leave(&v->gate);
}

/* Waits for a free place. False: the thread is to end. */
static bool take_place(struct volume *v)
{
    struct ahead *a = &v->ahead;
    ACQUIRE(&a->lock);
    for (;;) {
        if (a->stop)
            return false;
        bool full = cache_in_flight(v->cache) >= POOL_SHARE(pool_limit(v->pool));
        if (!full && a->outstanding < atomic_load(&v->connections))
            break;
        cond_wait_for(&a->wake, &a->lock, full ? FULL_WAIT_NS : NS_PER_S);
    }
    a->outstanding++;
    return true;
}

static void give_place(struct ahead *a, bool pause)
{
    ACQUIRE(&a->lock);
    a->outstanding--;
    if (pause && !a->stop)
        cond_wait_for(&a->wake, &a->lock, LIMIT_WAIT_NS);
}

/* Where in an order a sample is fetched for; order NULL: for none. */
struct turn {
    const struct epoch_order *order;
    uint64_t pos;
};

/* It was pushed, or its order is followed no more. */
static bool is_over(const struct ahead *a, const struct turn *t)
{
    if (a->order != t->order)
        return true;
    return t->pos >= a->marked_from && t->pos - a->marked_from < AHEAD_MARKS &&
           (a->marks[t->pos % AHEAD_MARKS / 64] >> (t->pos % 64) & 1);
}

/* The reader, or the pusher, may be faster than this thread, which waits for its place at times. */
static bool has_been_asked_for(struct ahead *a, uint64_t id, uint64_t block,
                               const struct turn *turn)
{
    ACQUIRE(&a->lock);
    return turn->order ? is_over(a, turn) : streams_passed(&a->streams, id, block);
}

/* A block that is not fetched `if_kept` is for the stream that reads its sample; others have a
 * turn in an order, or are a walk's.
 * FETCH_NO: it can't be had, or the thread is to end. */
enum fetched { FETCH_OK, FETCH_NO_ROOM, FETCH_NO };

static enum fetched fetch_unit(struct volume *v, struct catalog *c, uint64_t id, uint64_t block,
                               bool if_kept, const struct turn *turn)
{
    uint64_t unit = id + block;
    for (;;) {
        if (!take_place(v))
            return FETCH_NO;
        if ((!if_kept || turn->order) && has_been_asked_for(&v->ahead, id, block, turn)) {
            give_place(&v->ahead, false);
            return FETCH_OK;
        }
        if (!gate_enter(&v->gate)) {
            give_place(&v->ahead, false);
            return FETCH_NO;
        }
        struct ahead_op *op = xcalloc(1, sizeof *op);
        *op = (struct ahead_op){{ahead_done}, v, catalog_ref(c), unit};
        struct piece p = {.catalog = c,
                          .unit = unit,
                          .len = UNIT_BYTES,
                          .prio = PRIO_PREFETCH,
                          .if_kept = if_kept};
        struct err err = {0};
        int rc = source_ahead(v->top, &p, &op->wait, &err);
        if (rc == SOURCE_PENDING)
            return FETCH_OK;
        catalog_unref(op->catalog);
        free(op);
        give_place(&v->ahead, rc == -1 && err.class == ERR_LIMIT);
        gate_leave(&v->gate);
        if (rc == SOURCE_NO_ROOM)
            counter_add(&v->ahead.no_room, 1);
        if (rc >= 0 || err.class != ERR_LIMIT)
            return rc == 0 ? FETCH_OK : rc == SOURCE_NO_ROOM ? FETCH_NO_ROOM : FETCH_NO;
    }
}

/* What the cache would not keep is not fetched ahead: its reader would fetch it once more. */
static void fetch_sample(struct volume *v, struct catalog *c, uint64_t id, uint64_t size,
                         struct turn turn)
{
    uint64_t n = unit_count(size);
    for (uint64_t i = 0; i < n && i < BLOCKS_A_SAMPLE; i++)
        if (cache_where(v->cache, id + i) < 0 && fetch_unit(v, c, id, i, true, &turn) != FETCH_OK)
            return;
}

static void fetch_blocks(struct volume *v, const struct ahead_job *job)
{
    struct entry e;
    struct catalog *c = version_of(v, job->id, &e, NULL);
    if (!c)
        return;
    uint64_t n = unit_count(e.size), i;
    const struct turn none = {0};
    enum fetched rc = FETCH_OK;
    for (i = job->first; i <= job->last && i < n; i++) {
        uint64_t unit = job->id + i;
        if (cache_where(v->cache, unit) >= 0)
            cache_will_need(v->cache, &unit, 1);
        else if ((rc = fetch_unit(v, c, job->id, i, false, &none)) != FETCH_OK)
            break;
    }
    catalog_unref(c);
    if (rc == FETCH_NO_ROOM) { /* its reader makes some */
        ACQUIRE(&v->ahead.lock);
        streams_no_room(&v->ahead.streams, job->id, i);
    }
}

struct siblings {
    uint64_t ids[SIBLINGS_MOST], sizes[SIBLINGS_MOST];
    uint64_t last;
    size_t n;
};

static bool sibling(void *arg, const struct entry *e)
{
    struct siblings *s = arg;
    if (e->id > s->last || s->n == SIBLINGS_MOST)
        return false;
    s->ids[s->n] = e->id;
    s->sizes[s->n++] = e->size;
    return true;
}

static void will_need(struct volume *v, const uint64_t *ids, size_t n)
{
    uint64_t local[SIBLINGS_MOST];
    size_t n_local = 0;
    for (size_t i = 0; i < n && n_local < SIBLINGS_MOST; i++)
        if (cache_where(v->cache, ids[i]) >= 0)
            local[n_local++] = ids[i];
    if (n_local)
        cache_will_need(v->cache, local, n_local);
}

static void fetch_siblings(struct volume *v, const struct ahead_job *job)
{
    struct siblings s = {.last = job->last};
    struct catalog *c = volume_catalog(v);
    if (!catalog_walk(c, job->first - 1, sibling, &s, NULL)) {
        will_need(v, s.ids, s.n);
        for (size_t i = 0; i < s.n; i++)
            fetch_sample(v, c, s.ids[i], s.sizes[i], (struct turn){0});
    }
    catalog_unref(c);
}

/* A piece of work, taken off under the lock and done without it. */
struct work {
    struct ahead_job job;
    struct epoch_order *order;
    uint64_t fetch_first, disk_first;
    size_t n_fetch, n_disk;
};

static size_t take_window(uint64_t *next, uint64_t limit, size_t most, uint64_t *ret_first)
{
    size_t n = *next >= limit ? 0 : limit - *next < most ? (size_t)(limit - *next) : most;
    *ret_first = *next;
    *next += n;
    return n;
}

/* The cache has no room for what is fetched: what it would not keep is not fetched. The window goes
 * on past it, and one chunk in a window tries again. */
static void skip_if_wasted(struct ahead *a)
{
    if (a->wasted < WASTED_RUN || a->next >= a->limit)
        return;
    a->next = a->limit;
    a->wasted = WASTED_RUN - (unsigned)a->chunk;
}

static bool take_work(struct ahead *a, struct work *w)
{
    *w = (struct work){0};
    if (a->n_jobs > 0) {
        w->job = a->jobs[a->job_first];
        a->job_first = (a->job_first + 1) % AHEAD_JOBS;
        a->n_jobs--;
        return true;
    }
    if (!a->order)
        return false;
    skip_if_wasted(a);
    w->n_disk = take_window(&a->disk_next, a->disk_limit, a->disk_chunk, &w->disk_first);
    w->n_fetch = take_window(&a->next, a->limit, a->chunk, &w->fetch_first);
    if (!w->n_disk && !w->n_fetch)
        return false;
    if (w->n_fetch)
        marks_go_on(a, w->fetch_first);
    w->order = epoch_order_ref(a->order);
    return true;
}

static void fetch_positions(struct volume *v, const struct work *w)
{
    struct epoch_order *o = w->order;
    for (size_t i = 0; i < w->n_fetch; i++) {
        uint64_t id = epoch_order_id(o, w->fetch_first + i);
        struct entry e;
        bool local = cache_where(v->cache, id) >= 0;
        if ((local && o->single_units) || catalog_get(o->catalog, id, &e, NULL))
            continue;
        fetch_sample(v, o->catalog, id, e.size, (struct turn){o, w->fetch_first + i});
    }
}

static void do_work(struct volume *v, const struct work *w)
{
    if (w->job.kind == AHEAD_UNITS)
        fetch_blocks(v, &w->job);
    if (w->job.kind == AHEAD_SIBLINGS)
        fetch_siblings(v, &w->job);
    if (!w->order)
        return;
    if (w->n_disk)
        will_need(v, (const uint64_t *)w->order->ids.data + w->disk_first, w->n_disk);
    fetch_positions(v, w);
    epoch_order_unref(w->order);
}

static bool wait_for_work(struct ahead *a, struct work *w)
{
    ACQUIRE(&a->lock);
    while (!a->stop) {
        if (take_work(a, w))
            return true;
        cond_wait(&a->wake, &a->lock);
    }
    return false;
}

static void *ahead_main(void *arg)
{
    struct volume *v = arg;
    struct work w;
    while (wait_for_work(&v->ahead, &w))
        do_work(v, &w);
    return NULL;
}

int ahead_start(struct volume *v, struct err *err)
{
    int error = thread_start(&v->ahead.thread, "ahead", ahead_main, v);
    if (error)
        return err_thread(err, error, "start the thread that reads ahead");
    v->ahead.started = true;
    return 0;
}

void ahead_stop(struct volume *v)
{
    {
        ACQUIRE(&v->ahead.lock);
        v->ahead.stop = true;
        cond_broadcast(&v->ahead.wake);
    }
    if (v->ahead.started)
        pthread_join(v->ahead.thread, NULL);
    v->ahead.started = false;
}

uint64_t ahead_queued(struct volume *v)
{
    struct ahead *a = &v->ahead;
    ACQUIRE(&a->lock);
    return a->n_jobs + a->outstanding + (a->next < a->limit ? a->limit - a->next : 0);
}

uint64_t ahead_furthest(struct volume *v)
{
    struct ahead *a = &v->ahead;
    uint64_t furthest = 0;
    ACQUIRE(&a->lock);
    for (size_t i = 0; i < AHEAD_RANKS; i++)
        furthest = a->rank_pos[i] > furthest ? a->rank_pos[i] : furthest;
    return furthest;
}

void ahead_status(struct volume *v, struct json_writer *w)
{
    struct ahead *a = &v->ahead;
    ACQUIRE(&a->lock);
    jw_uint(w, "fetched", counter_get(&a->fetched));
    jw_uint(w, "failed", counter_get(&a->failed));
    jw_uint(w, "not_kept", counter_get(&a->not_kept));
    jw_uint(w, "no_room", counter_get(&a->no_room));
    jw_uint(w, "outstanding", a->outstanding);
    jw_uint(w, "position", a->order ? a->next : 0);
    jw_uint(w, "window", a->order ? a->limit - (a->next < a->limit ? a->next : a->limit) : 0);
}
