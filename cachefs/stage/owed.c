/*
 * What is owed to the store: the queue of nodes, who waits for them and for keys that must go, and
 * what a person is told of it. s->lock is held throughout, except where a function is of stage.h.
 */
#include <errno.h>
#include <string.h>

#include "clock.h"
#include "mem.h"
#include "content-internal.h"
#include "owed-internal.h"

#define PENDING_SHOWN 100

/* --- lists ----------------------------------------------------------------------------------- */

static void list_add(struct owed_list *l, struct node *n)
{
    n->owed_next = NULL;
    n->owed_prev = l->last;
    *(l->last ? &l->last->owed_next : &l->first) = n;
    l->last = n;
    l->n++;
}

static void list_remove(struct owed_list *l, struct node *n)
{
    *(n->owed_prev ? &n->owed_prev->owed_next : &l->first) = n->owed_next;
    *(n->owed_next ? &n->owed_next->owed_prev : &l->last) = n->owed_prev;
    n->owed_next = n->owed_prev = NULL;
    l->n--;
}

void dirty_add(struct stage *s, struct node *n)
{
    if (n->in_dirty)
        return;
    n->dirty_prev = NULL;
    n->dirty_next = s->dirty_first;
    if (s->dirty_first)
        s->dirty_first->dirty_prev = n;
    else if (s->conf.commit == COMMIT_INTERVAL)
        cond_signal(&s->clock); /* it begins to tick */
    s->dirty_first = n;
    n->in_dirty = true;
}

void dirty_remove(struct stage *s, struct node *n)
{
    if (!n->in_dirty)
        return;
    *(n->dirty_prev ? &n->dirty_prev->dirty_next : &s->dirty_first) = n->dirty_next;
    if (n->dirty_next)
        n->dirty_next->dirty_prev = n->dirty_prev;
    n->dirty_next = n->dirty_prev = NULL;
    n->in_dirty = false;
}

/* --- nodes ----------------------------------------------------------------------------------- */

bool node_owes(const struct node *n)
{
    unsigned flags = n->row.flags;
    if (flags & N_ORPHAN)
        return n->fetch_first && (n->opens || n->lookups);
    if (flags & N_DIRTY && flags & N_PUBLISH && !(flags & N_HELD))
        return true;
    if (n->row.skey)
        return true;
    return flags & N_META && (!(flags & N_DIRTY) || flags & N_STORED);
}

void owed_wake(struct stage *s)
{
    if (s->idle_workers > s->wakes) {
        s->wakes++;
        cond_signal(&s->work);
        return;
    }
    unsigned most = s->conf.uploads < WORKERS_MAX ? s->conf.uploads : WORKERS_MAX;
    if (s->stopping || s->n_workers >= most)
        return;
    if (thread_start(&s->workers[s->n_workers], "stage-up", worker_main, s) == 0)
        s->n_workers++;
}

void owed_wake_all(struct stage *s)
{
    s->passed_over = false;
    s->wakes = s->idle_workers;
    cond_broadcast(&s->work);
}

bool owed_enqueue(struct stage *s, struct node *n)
{
    if (!node_owes(n) && !n->parts_wanted)
        return false;
    if (n->queued && n->failed) {
        list_remove(&s->failed, n);
        n->queued = false;
    }
    n->failed = n->unfetched = false;
    n->due_ns = 0;
    if (n->queued)
        return false;
    if (!n->owed_ns)
        n->owed_ns = clock_mono_ns();
    n->queued = true;
    drop_list_remove(s, n);
    list_add(&s->owed, n);
    return true;
}

void owed_add(struct stage *s, struct node *n)
{
    if (owed_enqueue(s, n))
        owed_wake(s);
}

void owed_remove(struct stage *s, struct node *n)
{
    if (!n->queued)
        return;
    list_remove(n->failed ? &s->failed : &s->owed, n);
    n->queued = n->failed = false;
    n->owed_ns = 0;
    n->tries = 0;
    free(n->why);
    n->why = NULL;
}

void why_keep(struct err **to, const struct err *why)
{
    if (!*to)
        *to = xmalloc(sizeof **to);
    **to = *why;
}

uint64_t pause_of(struct stage *s, const struct err *err, uint64_t now)
{
    switch (err->class) {
    case ERR_TRANSIENT:
    case ERR_CANCELLED:
        s->pause_ns = s->pause_ns ? 2 * s->pause_ns : NS_PER_S / 2;
        if (s->pause_ns > 30 * NS_PER_S)
            s->pause_ns = 30 * NS_PER_S;
        s->paused_until_ns = now + s->pause_ns;
        cond_signal(&s->clock);
        return 0;
    case ERR_LIMIT:
        return 30 * NS_PER_S;
    case ERR_DENIED:
        return 300 * NS_PER_S; /* credentials may change */
    case ERR_STALE:
    case ERR_NOT_FOUND:
    case ERR_USAGE:
        return 0; /* for good: somebody must look at it */
    default:
        return 60 * NS_PER_S;
    }
}

bool err_passes(const struct err *err)
{
    return err->class == ERR_TRANSIENT || err->class == ERR_CANCELLED;
}

void node_failed(struct stage *s, struct node *n, const struct err *err)
{
    uint64_t now = clock_mono_ns(), pause = pause_of(s, err, now);
    why_keep(&n->why, err);
    n->tries++;
    bool again = n->again;
    n->again = false;
    if (again || err_passes(err) || !n->queued)
        return;
    list_remove(n->failed ? &s->failed : &s->owed, n);
    n->failed = true;
    n->due_ns = pause ? now + pause : UINT64_MAX;
    list_add(&s->failed, n);
    cond_signal(&s->clock);
}

void store_answers(struct stage *s)
{
    if (s->paused_until_ns)
        owed_wake_all(s);
    s->pause_ns = 0;
    s->paused_until_ns = 0;
    s->progress++;
}

int owed_wish(struct stage *s, struct node *n, struct err *err)
{
    if (!(n->row.flags & N_DIRTY) || n->row.flags & N_ORPHAN)
        return 0;
    unsigned flags = n->row.flags;
    uint64_t wanted = n->publish_seq;
    n->publish_seq = n->seq;
    if (!(flags & N_PUBLISH) || flags & N_HELD) {
        n->row.flags = (flags | N_PUBLISH) & ~(unsigned)N_HELD;
        if (journal_save(s, n, err)) {
            n->row.flags = flags;
            n->publish_seq = wanted;
            return -1;
        }
    }
    return 0;
}

int owed_publish(struct stage *s, struct node *n, struct err *err)
{
    if (owed_wish(s, n, err))
        return -1;
    if (n->row.flags & N_DIRTY && !(n->row.flags & N_ORPHAN))
        owed_add(s, n);
    return 0;
}

void owed_insist(struct stage *s, struct node *n)
{
    if (owed_publish(s, n, NULL) == 0)
        return;
    n->row.flags = (n->row.flags | N_PUBLISH) & ~(unsigned)N_HELD;
    n->publish_seq = n->seq;
    owed_add(s, n);
}

void owed_withdraw(struct stage *s, struct node *n)
{
    if (!(n->row.flags & N_PUBLISH))
        return;
    n->row.flags &= ~(unsigned)N_PUBLISH;
    (void)journal_save(s, n, NULL); /* else halves may be stored, and the whole later */
    n->publish_seq = 0;
    cond_broadcast(&s->changed);
}

/* --- waiting --------------------------------------------------------------------------------- */

int owed_give_up(const struct err *why, struct err *err)
{
    if (why && err)
        *err = *why;
    else
        err_set(err, ERR_TRANSIENT, "the store does not take it yet");
    return err_wrap(err, "kept here, and tried again");
}

int given_up(struct err *err)
{
    return err_sys(err, EINTR, "who asked for it waits no longer (it is kept here, and goes on)");
}

/* One wait of a caller, who looks up every now and then whether he still waits; -1: stopping, or
 * `end_ns` has passed. */
static int wait_until(struct stage *s, const struct stage_call *c, uint64_t end_ns)
{
    uint64_t now = clock_mono_ns();
    if (s->stopping || now >= end_ns)
        return -1;
    uint64_t ns = end_ns - now;
    cond_wait_for(&s->changed, &s->lock, c && c->given_up && ns > LOOK_NS ? LOOK_NS : ns);
    return 0;
}

/* Patience counts from the last thing that went well: long uploads take their time. */
struct waiting {
    const struct stage_call *call; /* NULL: nobody who could go away */
    uint64_t end_ns, progress, bytes;
};

static void wait_begin(const struct stage *s, struct waiting *w, const struct stage_call *c)
{
    *w = (struct waiting){c, clock_mono_ns() + s->conf.patience_ns, s->progress,
                          counter_get(&s->counts->uploaded_bytes)};
}

/* `busy`: the store is at work on it, which ends by itself. */
static int wait_more(struct stage *s, struct waiting *w, bool busy, const struct err *why,
                     struct err *err)
{
    if (is_given_up(w->call))
        return given_up(err);
    if (busy || w->progress != s->progress || w->bytes != counter_get(&s->counts->uploaded_bytes))
        wait_begin(s, w, w->call);
    if (wait_until(s, w->call, w->end_ns) == 0)
        return 0;
    return s->stopping ? err_set(err, ERR_CANCELLED, "the mount is ending")
                       : owed_give_up(why, err);
}

static int wait_node(struct stage *s, const struct stage_call *c, struct node *n, struct err *err)
{
    uint64_t want = n->seq;
    bool content = n->row.kind == NODE_FILE && n->row.flags & N_DIRTY;
    struct waiting w;
    wait_begin(s, &w, c);
    owed_add(s, n);
    while (node_owes(n) && !(content && n->stored_seq >= want && !n->row.skey)) {
        if (n->failed)
            return owed_give_up(n->why, err);
        if (wait_more(s, &w, n->busy && !n->why, n->why, err))
            return -1;
    }
    return 0;
}

int owed_wait(struct stage *s, const struct stage_call *c, struct node *n, struct err *err)
{
    n->pins++;
    int result = wait_node(s, c, n, err);
    if (result == 0)
        result = journal_barrier_held(s, err);
    n->pins--;
    return result;
}

static struct doom *doom_of(struct stage *s, uint64_t ino)
{
    for (struct doom *d = s->doom_last; d;
         d = d->prev) /* the newest first: it is looked for most */
        if (d->ino == ino && !d->upload)
            return d;
    return NULL;
}

int doom_wait(struct stage *s, const struct stage_call *c, uint64_t ino, struct err *err)
{
    struct doom *d;
    struct waiting w;
    wait_begin(s, &w, c);
    while ((d = doom_of(s, ino))) {
        if (d->failed)
            return owed_give_up(d->why, err);
        if (wait_more(s, &w, d->busy && !d->why, d->why, err))
            return -1;
    }
    return journal_barrier_held(s, err);
}

/* --- the whole ------------------------------------------------------------------------------- */

static void retry_all(struct stage *s)
{
    s->paused_until_ns = s->pause_ns = 0;
    while (s->failed.first) {
        struct node *n = s->failed.first;
        owed_add(s, n);
        if (n->failed || !n->queued) { /* owes nothing any more */
            owed_remove(s, n);
        }
    }
    for (struct node *n = s->owed.first; n; n = n->owed_next)
        n->again = n->busy;
    for (struct doom *d = s->dooms; d; d = d->next) {
        d->again = d->busy;
        d->failed = false;
        d->due_ns = 0;
    }
    for (unsigned i = 0; i < WORKERS_MAX; i++)
        owed_wake(s);
    owed_wake_all(s);
}

void stage_retry(struct stage *s)
{
    ACQUIRE(&s->lock);
    for (struct node *n = s->dirty_first, *next; n; n = next) {
        next = n->dirty_next;
        if (n->row.flags & N_HELD)
            owed_publish(s, n, NULL);
    }
    retry_all(s);
}

/* What was removed while it is open has the key of its object, and no path. */
static char *key_told(const struct node *n)
{
    return n->row.flags & N_ORPHAN ? node_stored_key(n) : node_key_new(n);
}

/* What failed for good, named; how many wait behind it. */
static int first_failure(struct stage *s, struct err *err)
{
    size_t n = s->failed.n + s->owed.n + s->n_dooms;
    const struct node *node = s->failed.first ? s->failed.first : s->owed.first;
    const struct doom *doom = s->dooms;
    while (!node && doom && !doom->why)
        doom = doom->next;
    const struct err *why = node ? node->why : doom ? doom->why : NULL;
    cleanup_free char *key = node ? key_told(node) : xstrdup(doom ? doom->key : "");
    if (why && err)
        *err = *why;
    else
        err_set(err, ERR_TRANSIENT, "the store does not take it yet");
    return n > 1 ? err_wrap(err, "not stored: %s, and %zu more", key, n - 1)
                 : err_wrap(err, "not stored: %s", key);
}

static bool dooms_all_failed(const struct stage *s)
{
    for (const struct doom *d = s->dooms; d; d = d->next)
        if (!d->failed)
            return false;
    return true;
}

static int settle(struct stage *s, const struct stage_call *c, uint64_t deadline_ns,
                  struct err *err)
{
    struct waiting w;
    wait_begin(s, &w, c);
    while (s->owed.n || s->n_busy || !dooms_all_failed(s))
        if (deadline_ns ? wait_until(s, c, deadline_ns)
                        : wait_more(s, &w, s->n_busy && !s->pause_ns, NULL, NULL))
            return is_given_up(c) ? given_up(err) : first_failure(s, err);
    return s->failed.n || s->n_dooms ? first_failure(s, err) : journal_barrier_held(s, err);
}

static int settle_all(struct stage *s, const struct stage_call *c, uint64_t deadline_ns,
                      struct err *err)
{
    for (struct node *n = s->dirty_first, *next; n; n = next) {
        next = n->dirty_next;
        if (!(n->row.flags & N_HELD) && owed_publish(s, n, err))
            return -1;
    }
    retry_all(s);
    return settle(s, c, deadline_ns, err);
}

int stage_settle(struct stage *s, uint64_t deadline_ns, struct err *err)
{
    ACQUIRE(&s->lock);
    return settle_all(s, NULL, deadline_ns, err);
}

int stage_sync(struct stage *s, const struct stage_call *c, struct err *err)
{
    if (!c->wait)
        return STAGE_WAIT;
    ACQUIRE(&s->lock);
    return settle_all(s, c, 0, err);
}

int stage_sync_names(struct stage *s, const struct stage_call *c, struct err *err)
{
    return c->wait ? journal_sync(s, err) : STAGE_WAIT;
}

/* --- what a person is told ------------------------------------------------------------------- */

struct told {
    struct json_writer *w;
    uint64_t now, files, bytes, failed, oldest_ns, shown;
};

static void tell_one(struct told *t, const char *path, uint64_t bytes, uint64_t since_ns,
                     const struct err *why)
{
    if (t->shown++ >= PENDING_SHOWN)
        return;
    jw_object(t->w, NULL);
    jw_str(t->w, "path", path);
    jw_uint(t->w, "bytes", bytes);
    jw_str(t->w, "why", why ? why->msg : NULL);
    jw_int(t->w, "since", (clock_wall_ns() - (int64_t)(t->now - since_ns)) / (int64_t)NS_PER_S);
    jw_end(t->w);
}

static void count_one(struct told *t, uint64_t bytes, uint64_t since_ns, bool failed)
{
    t->files++;
    t->bytes += bytes;
    t->failed += failed;
    if (since_ns && t->now - since_ns > t->oldest_ns)
        t->oldest_ns = t->now - since_ns;
}

static void each_node(struct told *t, const struct node *n, bool count)
{
    static const struct err held = {
        .msg = "the machine stopped while it was written, so its content may be incomplete (sampan "
               "flush stores it as it is)"};
    for (; n; n = n->owed_next) {
        uint64_t bytes = n->row.flags & N_DIRTY ? n->row.size : 0;
        cleanup_free char *path = count ? NULL : key_told(n);
        if (count)
            count_one(t, bytes, n->owed_ns, n->failed);
        else
            tell_one(t, path, bytes, n->owed_ns, n->row.flags & N_HELD ? &held : n->why);
    }
}

static void each_held(struct told *t, const struct node *n, bool count)
{
    for (; n; n = n->dirty_next)
        if (n->row.flags & N_HELD && !n->queued) {
            struct node copy = *n;
            copy.owed_next = NULL;
            copy.failed = true;
            each_node(t, &copy, count);
        }
}

static void each_doom(struct told *t, const struct doom *d, bool count)
{
    for (; d; d = d->next) {
        if (count)
            count_one(t, 0, d->owed_ns, d->failed);
        else
            tell_one(t, d->key, 0, d->owed_ns, d->why);
    }
}

static void each(struct stage *s, struct told *t, bool count)
{
    each_node(t, s->failed.first, count);
    each_held(t, s->dirty_first, count);
    each_node(t, s->owed.first, count);
    each_doom(t, s->dooms, count);
}

void stage_pending(struct stage *s, struct json_writer *w)
{
    struct told t = {.w = w, .now = clock_mono_ns()};
    ACQUIRE(&s->lock);
    each(s, &t, true);
    jw_object(w, "pending");
    jw_uint(w, "files", t.files);
    jw_uint(w, "bytes", t.bytes);
    jw_uint(w, "failed", t.failed);
    jw_uint(w, "oldest_s", t.oldest_ns / NS_PER_S);
    jw_array(w, "items");
    each(s, &t, false);
    jw_end(w);
    jw_end(w);
}
