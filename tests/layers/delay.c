/*
 * delay: answers come late. A thread of the layer holds the calls until their time has come and
 * only then passes them on, so that no thread of the caller sleeps.
 */
#include "layers-internal.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "catalog.h"
#include "clock.h"
#include "mem.h"
#include "sync.h"

struct held {
    struct held *next;
    uint64_t due_ns;
    struct piece piece;
    struct source_wait *wait;
    struct view view;
    bool ahead;
};

struct delay {
    struct source source; /* first */
    enum layer_op op;
    uint64_t ns;
    uint64_t percent;
    _Atomic uint64_t calls;
    pthread_t thread;
    struct lock lock;
    struct cond changed;
    struct held *first, **tail; /* guarded by lock; all wait equally long: in order of time */
    bool stop;
};

static int hold(struct delay *d, const struct piece *p, struct source_wait *wait, bool ahead)
{
    struct held *h = xcalloc(1, sizeof *h);
    h->due_ns = clock_mono_ns() + d->ns;
    h->piece = *p;
    h->piece.row = NULL;
    h->wait = wait;
    h->ahead = ahead;
    catalog_ref(p->catalog);
    ACQUIRE(&d->lock);
    *d->tail = h;
    d->tail = &h->next;
    cond_signal(&d->changed);
    return SOURCE_PENDING;
}

static void let_go(struct delay *d, struct held *h)
{
    struct source *inner = d->source.inner;
    struct err err = {0};
    int rc = h->ahead ? source_ahead(inner, &h->piece, h->wait, &err)
                      : source_read(inner, &h->piece, &h->view, h->wait, &err);
    if (rc != SOURCE_PENDING)
        h->wait->done(h->wait, rc || h->ahead ? NULL : &h->view, rc ? &err : NULL);
    catalog_unref(h->piece.catalog);
    free(h);
}

static struct held *next_due(struct delay *d)
{
    ACQUIRE(&d->lock);
    for (;;) {
        struct held *h = d->first;
        uint64_t now = clock_mono_ns();
        if (h && h->due_ns <= now) {
            d->first = h->next;
            if (!d->first)
                d->tail = &d->first;
            return h;
        }
        if (!h && d->stop)
            return NULL;
        if (h)
            cond_wait_for(&d->changed, &d->lock, h->due_ns - now);
        else
            cond_wait(&d->changed, &d->lock);
    }
}

static void *delay_main(void *arg)
{
    struct delay *d = arg;
    for (struct held *h; (h = next_due(d));)
        let_go(d, h);
    return NULL;
}

/* Spread evenly: of 100 calls in a row exactly `percent` are late. */
static bool is_late(struct delay *d)
{
    uint64_t call = atomic_fetch_add(&d->calls, 1);
    return call * d->percent / 100 != (call + 1) * d->percent / 100;
}

static int delay_read(struct source *s, const struct piece *p, struct view *ret,
                      struct source_wait *wait, struct err *err)
{
    struct delay *d = (struct delay *)s;
    if ((d->op & OP_READ) && is_late(d))
        return hold(d, p, wait, false);
    return source_read(s->inner, p, ret, wait, err);
}

static int delay_ahead(struct source *s, const struct piece *p, struct source_wait *wait,
                       struct err *err)
{
    struct delay *d = (struct delay *)s;
    if ((d->op & OP_AHEAD) && is_late(d))
        return hold(d, p, wait, true);
    return source_ahead(s->inner, p, wait, err);
}

static void delay_drop(struct source *s, uint64_t unit)
{
    if (s->inner->ops->drop)
        s->inner->ops->drop(s->inner, unit);
}

static void delay_close(struct source *s)
{
    struct delay *d = (struct delay *)s;
    {
        ACQUIRE(&d->lock);
        d->stop = true;
        cond_signal(&d->changed);
    }
    pthread_join(d->thread, NULL);
    cond_destroy(&d->changed);
    lock_destroy(&d->lock);
    free(d);
}

#define DELAY_OPS                                                                  \
    .name = "delay", .read = delay_read, .drop = delay_drop, .close = delay_close, \
    .raise = layer_raise, .give_up = layer_give_up
static const struct source_ops ops = {DELAY_OPS, .ahead = delay_ahead};
static const struct source_ops ops_no_ahead = {DELAY_OPS};

int delay_new(struct source **ret, const char *args, struct source *inner, struct err *err)
{
    char word[24] = "";
    enum layer_op op;
    uint64_t ms, percent = 100;
    layer_word(&args, ':', word, sizeof word);
    if (layer_op_parse(word, &op, err))
        return -1;
    layer_word(&args, ':', word, sizeof word);
    if (layer_number(word, &ms, err) || (*args && layer_number(args, &percent, err)))
        return -1;
    if (percent > 100)
        return err_set(err, ERR_USAGE, "%llu percent: at most 100", (unsigned long long)percent);
    struct delay *d = xcalloc(1, sizeof *d);
    d->source.ops = inner->ops->ahead ? &ops : &ops_no_ahead;
    d->source.inner = inner;
    d->op = op;
    d->ns = ms * NS_PER_MS;
    d->percent = percent;
    d->tail = &d->first;
    lock_init(&d->lock, RANK_FETCH_QUEUE, "delay layer");
    cond_init(&d->changed);
    int error = thread_start(&d->thread, "delay", delay_main, d);
    if (error) {
        free(d);
        return err_sys(err, error, "start the delay thread");
    }
    *ret = &d->source;
    return 0;
}
