/*
 * Credentials: looked up and renewed on a thread of its own, because asking a metadata service may
 * block. A job whose store has none (or whose key the store called expired) waits here; keys that
 * run out soon are renewed early, while requests go on.
 */
#include <assert.h>
#include <string.h>

#include "clock.h"
#include "engine-internal.h"
#include "mem.h"

#define TOO_NEAR_NS (15 * NS_PER_S)  /* a request signed now might arrive too late */
#define EARLY_NS    (300 * NS_PER_S) /* renewed in the background from here on */
#define EARLY_PAUSE (30 * NS_PER_S)

/* One look-up. The engine's thread owns all but `failed` and `err`, which it reads once it is done.
 */
struct visit {
    struct visit *next;
    struct store *store;
    uint64_t asked_ns; /* it began then or later */
    bool force, done;  /* done: f->lock */
    bool failed;
    struct err err;
    struct job *waiting;
};

struct creds_desk {
    pthread_t thread;
    bool started;
    struct cond work;
    struct visit *visits; /* the list: engine's thread; a new one is published under f->lock */
    struct visit *todo;   /* the one at hand; f->lock. Others wait in the list until it is done. */
    const struct store *last_store;
    uint64_t last_ns; /* when the last look-up that brought keys was asked for */
    uint64_t early_ns;
};

void creds_new(struct fetch *f)
{
    f->creds = xcalloc(1, sizeof *f->creds);
    cond_init(&f->creds->work);
}

void creds_free(struct fetch *f)
{
    cond_destroy(&f->creds->work);
    free(f->creds);
}

static void *creds_main(void *arg)
{
    struct fetch *f = arg;
    struct creds_desk *d = f->creds;
    for (;;) {
        struct visit *v;
        {
            ACQUIRE(&f->lock);
            while (!f->stopping && (!d->todo || d->todo->done))
                cond_wait(&d->work, &f->lock);
            if (f->stopping)
                return NULL;
            v = d->todo;
        }
        struct err err = {0};
        bool failed = store_creds_refresh(v->store, v->force, &err) != 0;
        {
            ACQUIRE(&f->lock);
            v->failed = failed;
            v->err = err;
            v->done = true;
        }
        engine_wake(f);
    }
}

void creds_stop(struct fetch *f)
{
    struct creds_desk *d = f->creds;
    {
        ACQUIRE(&f->lock);
        cond_broadcast(&d->work);
    }
    if (d->started)
        pthread_join(d->thread, NULL);
    while (d->visits) {
        struct visit *v = d->visits;
        d->visits = v->next;
        free(v);
    }
}

/* Gives the thread its next visit, if it is free. */
static void hand_over(struct fetch *f)
{
    struct creds_desk *d = f->creds;
    ACQUIRE(&f->lock);
    if (d->todo || !d->visits)
        return;
    if (!d->started) {
        d->started = thread_start(&d->thread, "fetch-creds", creds_main, f) == 0;
        if (!d->started) {
            d->todo = d->visits;
            d->todo->failed = d->todo->done = true;
            err_set(&d->todo->err, ERR_TRANSIENT, "look up credentials: no thread to be had");
            engine_wake(f);
            return;
        }
    }
    d->todo = d->visits;
    cond_signal(&d->work);
}

static struct visit *visit_of(struct fetch *f, struct store *s)
{
    struct creds_desk *d = f->creds;
    struct visit **end = &d->visits;
    for (; *end; end = &(*end)->next)
        if ((*end)->store == s)
            return *end;
    struct visit *v = xcalloc(1, sizeof *v);
    v->store = s;
    v->asked_ns = f->now_ns;
    *end = v;
    return v;
}

static void visit(struct fetch *f, struct store *s, bool force, struct job *j)
{
    struct visit *v = visit_of(f, s);
    v->force |= force && v != f->creds->todo;
    if (j) {
        j->next = v->waiting;
        v->waiting = j;
    }
    hand_over(f);
}

bool creds_hold(struct fetch *f, struct job *j)
{
    struct creds_desk *d = f->creds;
    struct store *s = (struct store *)job_store(j);
    uint64_t expire = store_creds_expire_ns(s), now = (uint64_t)store_now_ns(s);
    bool force = j->force_creds, seen = j->creds_seen;
    j->force_creds = j->creds_seen = false;
    if (seen || (expire == UINT64_MAX && !force))
        return false;
    /* Keys looked up since the refused request was built answer for all that were refused with it;
     * keys from before, however young, are those that were refused. */
    if (force && d->last_store == s && d->last_ns >= j->sent_ns)
        return false;
    if (force || expire < now + TOO_NEAR_NS) {
        visit(f, s, force, j);
        return true;
    }
    if (expire < now + EARLY_NS && f->now_ns >= d->early_ns) {
        d->early_ns = f->now_ns + EARLY_PAUSE;
        visit(f, s, false, NULL);
    }
    return false;
}

/* The finished visit, out of the list; NULL: none. */
static struct visit *take_finished(struct fetch *f)
{
    struct creds_desk *d = f->creds;
    if (!d->visits)
        return NULL;
    ACQUIRE(&f->lock);
    if (!d->todo || !d->todo->done)
        return NULL;
    struct visit *v = d->todo;
    assert(v == d->visits);
    d->todo = NULL;
    d->visits = v->next;
    return v;
}

void creds_collect(struct fetch *f)
{
    struct visit *v;
    while ((v = take_finished(f))) {
        struct job *next;
        if (!v->failed) {
            f->creds->last_store = v->store;
            f->creds->last_ns = v->asked_ns;
        }
        for (struct job *j = v->waiting; j; j = next) {
            next = j->next;
            if (!j->first_ns)
                j->first_ns = f->now_ns;
            j->creds_seen = true;
            if (v->failed) {
                j->tries++;                /* who gives out keys is asked at growing pauses, too */
                j->force_creds = v->force; /* until then the keys are those that were refused */
                job_failed(f, j, v->err.class == ERR_TRANSIENT ? AGAIN_LATER : OVER, 0, &v->err);
            } else {
                job_resume(f, j);
            }
        }
        free(v);
        hand_over(f);
    }
}

void creds_take_waiting(struct fetch *f, bool (*which)(const struct job *j), struct job **taken)
{
    for (struct visit *v = f->creds->visits; v; v = v->next)
        jobs_take(&v->waiting, which, taken);
}
