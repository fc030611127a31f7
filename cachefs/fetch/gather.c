/*
 * Neighbours of a pack fetched together: reads of low priority wait here for a moment, in the order
 * of their places, and one GET carries all that lie side by side.
 *
 * No clock is needed. At most GETS_MAX such requests are under way; while fewer are, a read goes
 * out at once, with whatever waits beside it. So a lone read is never held up, and under load (a
 * warmup) the reads that come while requests are under way are what the next ones gather.
 *
 *   gather_add()  -> waiting, sorted by (store, object, offset)
 *   start_runs()  -> the first that waits and those that follow it closely: a run, one GET into a
 *                    buffer of RUN_MAX bytes at most
 *   on_run()      -> each read's bytes copied out and summed; if the GET failed, each is asked for
 *                    alone, so that one bad sample does not fail its neighbours
 *   gather_give_up() -> what waits and was given up is out; a run goes on as long as one of its
 *                    reads is wanted
 *
 * Lock: `lock` (RANK_FETCH_QUEUE) guards what waits; it is never held while the engine is called.
 */
#include <assert.h>
#include <string.h>

#include "gather-internal.h"
#include "mem.h"
#include "sync.h"

#define GETS_MAX  8
#define RUN_MAX   (1u << 20)
#define GAP_MAX   4096 /* dead bytes between two samples that are rather fetched than another GET */
#define READS_MAX 4096 /* in one run */

struct waiting {
    struct waiting *next;
    struct fetch_get get;
    char text[]; /* key, etag */
};

struct run {
    struct run *next; /* of g->runs */
    struct gather *gather;
    struct waiting *reads; /* in the order of their places */
    uint64_t off;
    uint32_t len;
    unsigned char *data;  /* NULL: one read alone, which lands where it is wanted */
    atomic_bool given_up; /* by all its reads */
};

struct gather {
    struct fetch *fetch;
    struct lock lock;
    struct waiting *first; /* lock, as all below */
    struct waiting *last;  /* reads mostly come in order */
    struct run *runs;      /* under way */
    unsigned under_way;
};

struct gather *gather_new(struct fetch *f)
{
    struct gather *g = xcalloc(1, sizeof *g);
    g->fetch = f;
    lock_init(&g->lock, RANK_FETCH_QUEUE, "fetch-gather");
    return g;
}

void gather_free(struct gather *g)
{
    assert(!g->first && !g->under_way);
    lock_destroy(&g->lock);
    free(g);
}

/* --- what waits ------------------------------------------------------------------------------- */

static int compare(const struct fetch_get *a, const struct fetch_get *b)
{
    if (a->store != b->store)
        return a->store < b->store ? -1 : 1;
    size_t n = a->key_len < b->key_len ? a->key_len : b->key_len;
    int c = memcmp(a->key, b->key, n);
    if (c || a->key_len != b->key_len)
        return c ? c : a->key_len < b->key_len ? -1 : 1;
    return (a->off > b->off) - (a->off < b->off);
}

/* Reads mostly come in order: the end is looked at first. */
static void insert(struct gather *g, struct waiting *w)
{
    struct waiting **at = &g->first;
    if (g->last && compare(&g->last->get, &w->get) <= 0)
        at = &g->last->next;
    while (*at && compare(&(*at)->get, &w->get) <= 0)
        at = &(*at)->next;
    w->next = *at;
    *at = w;
    if (!w->next)
        g->last = w;
}

static bool follows(const struct run *r, const struct waiting *last, const struct waiting *w)
{
    const struct fetch_get *a = &last->get, *b = &w->get;
    if (a->store != b->store || a->key_len != b->key_len || memcmp(a->key, b->key, a->key_len) != 0)
        return false;
    uint64_t end = r->off + r->len;
    return b->off <= end + GAP_MAX && b->off + b->len <= r->off + RUN_MAX;
}

/* Lock held. The first that waits, and its neighbours. */
static struct run *take_run(struct gather *g)
{
    if (!g->first || g->under_way >= GETS_MAX)
        return NULL;
    struct run *r = xcalloc(1, sizeof *r);
    struct waiting *last = g->first;
    *r = (struct run){.gather = g, .reads = last, .off = last->get.off, .len = last->get.len};
    for (size_t n = 1; n < READS_MAX && last->next && follows(r, last, last->next); n++) {
        last = last->next;
        uint64_t end = last->get.off + last->get.len - r->off;
        if (end > r->len)
            r->len = (uint32_t)end;
    }
    if (last != r->reads)
        r->data = xmalloc(r->len);
    g->first = last->next;
    last->next = NULL;
    if (!g->first)
        g->last = NULL;
    r->next = g->runs;
    g->runs = r;
    g->under_way++;
    return r;
}

/* --- runs ------------------------------------------------------------------------------------- */

static void run_free(struct run *r)
{
    free(r->data);
    free(r);
}

/* Its place is free for the next. */
static void run_leave(struct run *r)
{
    struct gather *g = r->gather;
    ACQUIRE(&g->lock);
    struct run **at = &g->runs;
    while (*at != r)
        at = &(*at)->next;
    *at = r->next;
    g->under_way--;
}

static void fail_all(struct waiting *list, const struct err *err)
{
    for (struct waiting *w = list; w;) {
        struct waiting *next = w->next;
        w->get.done(w->get.arg, err);
        free(w);
        w = next;
    }
}

static bool is_given_up(const struct waiting *w)
{
    return source_given_up(w->get.given_up);
}

static void fail_given_up(struct waiting *list)
{
    struct err err = {0};
    err_given_up(&err);
    fail_all(list, &err);
}

/* Tried again, judged and reported as any other. */
static void ask_alone(struct fetch *f, struct waiting *w)
{
    struct err err = {0};
    if (fetch_get(f, &w->get, &err))
        w->get.done(w->get.arg, &err);
}

static bool hand_out(const struct run *r, const struct waiting *w)
{
    const struct fetch_get *g = &w->get;
    const unsigned char *from = r->data + (g->off - r->off);
    if (g->sum_of_range && store_check_sum(g->etag, from, g->len, NULL))
        return false;
    memcpy(g->dest, from, g->len);
    g->done(g->arg, NULL);
    return true;
}

static void start_runs(struct gather *g);

/* After the last done() the gather may be gone. */
static void on_run(void *arg, const struct err *err)
{
    struct run *r = arg;
    struct gather *g = r->gather;
    struct fetch *f = g->fetch;
    run_leave(r);
    start_runs(g); /* first: the line should not wait for the copies */
    if (!r->data || (err && err->class == ERR_CANCELLED)) {
        fail_all(r->reads, err); /* one read alone: its bytes, or its error */
    } else {
        for (struct waiting *w = r->reads; w;) {
            struct waiting *next = w->next;
            if (err || !hand_out(r, w))
                ask_alone(f, w);
            free(w);
            w = next;
        }
    }
    run_free(r);
}

/* Lock held. That of its most urgent read. */
static enum prio prio_of(const struct run *r)
{
    enum prio prio = r->reads->get.prio;
    for (const struct waiting *w = r->reads->next; w; w = w->next)
        prio = w->get.prio < prio ? w->get.prio : prio;
    return prio;
}

/* A read that was raised before the engine knew of its run was only marked by find(). The run may
 * be gone by now, and another be at its address: then this raises nothing, or in vain. */
static void raise_marked(struct gather *g, const struct run *sent, const void *dest, enum prio prio)
{
    enum prio now = prio;
    {
        ACQUIRE(&g->lock);
        for (const struct run *r = g->runs; r; r = r->next)
            now = r == sent ? prio_of(r) : now;
    }
    if (now < prio)
        fetch_raise(g->fetch, dest, now);
}

static void start_run(struct gather *g, struct run *r)
{
    struct fetch_get get;
    struct err err = {0};
    {
        ACQUIRE(&g->lock); /* it may be raised meanwhile */
        get = r->reads->get;
        get.prio = prio_of(r);
    }
    if (r->data) {
        get.off = r->off;
        get.len = r->len;
        get.etag = "";
        get.sum_of_range = false;
        get.dest = r->data;
        get.given_up = &r->given_up;
    }
    get.done = on_run;
    get.arg = r;
    if (fetch_get(g->fetch, &get, &err) == 0) {
        raise_marked(g, r, get.dest, get.prio);
        return;
    }
    run_leave(r);
    fail_all(r->reads, &err);
    run_free(r);
}

/* The caller's own read keeps the gather alive while it waits; another's is its own matter. */
static void start_runs(struct gather *g)
{
    for (;;) {
        struct run *r;
        {
            ACQUIRE(&g->lock);
            r = take_run(g);
        }
        if (!r)
            return;
        start_run(g, r);
    }
}

/* --- callers ---------------------------------------------------------------------------------- */

void gather_add(struct gather *g, const struct fetch_get *get)
{
    size_t etag_len = strlen(get->etag);
    struct waiting *w = xcalloc(1, sizeof *w + get->key_len + 1 + etag_len + 1);
    w->get = *get;
    memcpy(w->text, get->key, get->key_len);
    memcpy(w->text + get->key_len + 1, get->etag, etag_len);
    w->get.key = w->text;
    w->get.etag = w->text + get->key_len + 1;
    bool given_up;
    {
        ACQUIRE(&g->lock);
        given_up = is_given_up(w); /* or gather_give_up() finds it here */
        if (!given_up)
            insert(g, w);
    }
    if (given_up)
        fail_given_up(w);
    else
        start_runs(g);
}

/* Lock held. A read that waits is taken out; one under way is marked, and `ret_dest` is where its
 * run lands: should the run fail, it is asked for alone as what it is now. */
static struct waiting *find(struct gather *g, const void *dest, enum prio prio,
                            const void **ret_dest)
{
    struct waiting *before = NULL;
    for (struct waiting **at = &g->first; *at; at = &(*at)->next) {
        struct waiting *w = *at;
        if (w->get.dest == dest) {
            *at = w->next;
            if (g->last == w)
                g->last = before;
            return w;
        }
        before = w;
    }
    for (const struct run *r = g->runs; r; r = r->next) {
        for (struct waiting *w = r->reads; w; w = w->next) {
            if (w->get.dest != dest)
                continue;
            w->get.prio = prio;
            *ret_dest = r->data ? r->data : dest;
        }
    }
    return NULL;
}

void gather_raise(struct gather *g, const void *dest, enum prio prio)
{
    struct waiting *w;
    const void *at = dest;
    {
        ACQUIRE(&g->lock);
        w = find(g, dest, prio, &at);
    }
    if (w) {
        w->get.prio = prio;
        ask_alone(g->fetch, w);
        free(w);
    } else {
        fetch_raise(g->fetch, at, prio);
    }
}

static bool all_given_up(const struct run *r)
{
    const struct waiting *w = r->reads;
    while (w && is_given_up(w))
        w = w->next;
    return !w;
}

/* Lock held. Those that wait and were given up. */
static struct waiting *take_given_up(struct gather *g)
{
    struct waiting *taken = NULL;
    g->last = NULL;
    for (struct waiting **at = &g->first; *at;) {
        struct waiting *w = *at;
        if (is_given_up(w)) {
            *at = w->next;
            w->next = taken;
            taken = w;
        } else {
            g->last = w;
            at = &w->next;
        }
    }
    return taken;
}

void gather_give_up(struct gather *g)
{
    struct fetch *f = g->fetch;
    struct waiting *taken;
    {
        ACQUIRE(&g->lock);
        taken = take_given_up(g);
        for (struct run *r = g->runs; r; r = r->next)
            if (all_given_up(r))
                atomic_store(&r->given_up, true);
    }
    fail_given_up(taken);
    fetch_give_up(f);
}
