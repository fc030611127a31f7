/*
 * Room for units on their way in: a bounded number of slots, and memory of the pool.
 *
 * Readers that find no slot or no memory are parked in order and try again whenever a slot or pool
 * memory comes back; work ahead of readers is refused instead, and may use three quarters of both.
 * Where the system has no memory and nothing could come back, the reader gets that error.
 */
#include "cache-internal.h"

#include <string.h>

struct fill *slots_take(struct cache *c, bool ahead, bool resumed)
{
    struct slots *s = &c->slots;
    ACQUIRE(&s->lock);
    if (!s->free || (ahead && s->n_used >= s->n - s->n / 4) || (!ahead && !resumed && s->parked))
        return NULL;
    struct fill *f = s->free;
    s->free = f->queue_next;
    s->n_used++;
    memset(f, 0, sizeof *f);
    f->c = c;
    atomic_init(&f->refs, 1);
    return f;
}

/* There may be room. Lock held. True: the caller is to resume_parked(). */
static bool kick(struct slots *s)
{
    s->kicked = true; /* the one that resumes already sees it */
    if (s->resuming || !s->parked)
        return false;
    s->resuming = true; /* until it is over nobody ends the cache */
    return true;
}

/* Tries parked readers in order, until one finds no room again. After kick(). */
static void resume_parked(struct cache *c)
{
    struct slots *s = &c->slots;
    lock_take(&s->lock);
    while (s->kicked && s->parked) {
        struct waiter *w = s->parked;
        s->parked = w->next;
        if (!s->parked)
            s->parked_tail = &s->parked;
        s->kicked = false;
        lock_drop(&s->lock);
        struct view view = {0};
        struct err err = {0};
        int rc = cache_try(c, &w->piece, w->wait, true /* resumed */, &view, &err);
        if (rc == 0)
            w->wait->done(w->wait, &view, NULL);
        else if (rc == -1)
            w->wait->done(w->wait, NULL, &err);
        lock_take(&s->lock);
        if (rc == READ_NO_ROOM) {
            w->next = s->parked;
            if (!s->parked)
                s->parked_tail = &w->next;
            s->parked = w;
        } else {
            free(w);
            s->kicked = true;
        }
    }
    s->resuming = false;
    cond_broadcast(&s->idle);
    lock_drop(&s->lock);
}

static void on_pool_space(void *arg)
{
    struct cache *c = arg;
    bool resumes;
    {
        ACQUIRE(&c->slots.lock);
        resumes = kick(&c->slots);
    }
    if (resumes)
        resume_parked(c);
}

void slots_init(struct cache *c, unsigned n)
{
    struct slots *s = &c->slots;
    lock_init(&s->lock, RANK_CACHE_TIER, "cache fill slots");
    cond_init(&s->idle);
    s->parked_tail = &s->parked;
    pool_on_space(c->conf.pool, on_pool_space, c);
    s->n = n;
    s->all = xcalloc(n, sizeof *s->all);
    for (unsigned i = 0; i < n; i++) {
        s->all[i].queue_next = s->free;
        s->free = &s->all[i];
    }
}

void slots_destroy(struct cache *c)
{
    pool_on_space(c->conf.pool, NULL, NULL);
    free(c->slots.all);
    cond_destroy(&c->slots.idle);
    lock_destroy(&c->slots.lock);
}

/* Does a reader wait for room? One that is tried just now stands in no list. */
static bool anybody_waits(struct cache *c)
{
    ACQUIRE(&c->slots.lock);
    return c->slots.parked || c->slots.resuming;
}

void slots_make_way(struct cache *c)
{
    while (anybody_waits(c) && passing_make_way(c))
        ;
}

/* With the last one the cache may end: it is not looked at again. */
void slots_give(struct fill *f, bool wakes)
{
    struct cache *c = f->c;
    bool resumes;
    {
        ACQUIRE(&c->slots.lock);
        f->queue_next = c->slots.free;
        c->slots.free = f;
        c->slots.n_used--;
        resumes = wakes && kick(&c->slots);
        cond_broadcast(&c->slots.idle);
    }
    if (resumes)
        resume_parked(c);
}

void slots_park(struct cache *c, const struct piece *p, struct source_wait *wait)
{
    struct waiter *w = waiter_new(p, wait, false);
    bool resumes;
    {
        ACQUIRE(&c->slots.lock);
        *c->slots.parked_tail = w;
        c->slots.parked_tail = &w->next;
        c->slots.parking++;
        resumes = kick(&c->slots); /* room may have come back before it stood in the list */
    }
    if (resumes)
        resume_parked(c);
    slots_make_way(c);
    ACQUIRE(&c->slots.lock);
    c->slots.parking--;
    cond_broadcast(&c->slots.idle);
}

void slots_drain(struct cache *c)
{
    struct slots *s = &c->slots;
    ACQUIRE(&s->lock);
    while (s->n_used || s->parked || s->resuming || s->parking)
        cond_wait(&s->idle, &s->lock);
}
