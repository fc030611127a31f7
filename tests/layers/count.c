/*
 * count: what passed here. The counters of open layers are found by name through one list, which is
 * the only state of a process that any layer has (tests run in processes of their own).
 */
#include "layers-internal.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "mem.h"

struct count {
    struct source source; /* first */
    char name[32];
    _Atomic uint64_t reads, aheads, bytes, errors, drops, in_flight, in_flight_max;
    struct count *next; /* guarded by open_lock */
};

static pthread_mutex_t open_lock = PTHREAD_MUTEX_INITIALIZER;
static struct count *open_counts; /* guarded by open_lock */

struct counted {
    struct source_wait wait; /* first */
    struct source_wait *outer;
    struct count *count;
};

static struct counted *began(struct count *c, struct source_wait *wait)
{
    uint64_t now = atomic_fetch_add(&c->in_flight, 1) + 1;
    uint64_t max = atomic_load(&c->in_flight_max);
    while (now > max && !atomic_compare_exchange_weak(&c->in_flight_max, &max, now))
        ;
    struct counted *call = xcalloc(1, sizeof *call);
    call->outer = wait;
    call->count = c;
    return call;
}

static void ended(struct counted *call, const struct view *view, bool failed)
{
    struct count *c = call->count;
    atomic_fetch_sub(&c->in_flight, 1);
    if (view)
        atomic_fetch_add(&c->bytes, view->len);
    if (failed)
        atomic_fetch_add(&c->errors, 1);
    free(call);
}

static void counted_done(struct source_wait *wait, struct view *view, const struct err *err)
{
    struct counted *call = (struct counted *)wait;
    struct source_wait *outer = call->outer;
    ended(call, err ? NULL : view, err != NULL);
    outer->done(outer, view, err);
}

static int count_read(struct source *s, const struct piece *p, struct view *ret,
                      struct source_wait *wait, struct err *err)
{
    struct count *c = (struct count *)s;
    atomic_fetch_add(&c->reads, 1);
    struct counted *call = began(c, wait);
    call->wait.done = counted_done;
    int rc = source_read(s->inner, p, ret, &call->wait, err);
    if (rc != SOURCE_PENDING)
        ended(call, rc ? NULL : ret, rc != 0);
    return rc;
}

static int count_ahead(struct source *s, const struct piece *p, struct source_wait *wait,
                       struct err *err)
{
    struct count *c = (struct count *)s;
    atomic_fetch_add(&c->aheads, 1);
    struct counted *call = began(c, wait);
    call->wait.done = counted_done;
    int rc = source_ahead(s->inner, p, &call->wait, err);
    if (rc != SOURCE_PENDING)
        ended(call, NULL, rc != 0);
    return rc;
}

static void count_drop(struct source *s, uint64_t unit)
{
    atomic_fetch_add(&((struct count *)s)->drops, 1);
    if (s->inner->ops->drop)
        s->inner->ops->drop(s->inner, unit);
}

static void count_close(struct source *s)
{
    struct count *c = (struct count *)s;
    pthread_mutex_lock(&open_lock);
    for (struct count **at = &open_counts; *at; at = &(*at)->next) {
        if (*at == c) {
            *at = c->next;
            break;
        }
    }
    pthread_mutex_unlock(&open_lock);
    free(c);
}

#define COUNT_OPS                                                                  \
    .name = "count", .read = count_read, .drop = count_drop, .close = count_close, \
    .raise = layer_raise, .give_up = layer_give_up
static const struct source_ops ops = {COUNT_OPS, .ahead = count_ahead};
static const struct source_ops ops_no_ahead = {COUNT_OPS};

int count_new(struct source **ret, const char *args, struct source *inner, struct err *err)
{
    struct count *c = xcalloc(1, sizeof *c);
    c->source.ops = inner->ops->ahead ? &ops : &ops_no_ahead;
    c->source.inner = inner;
    if (!*args || !layer_word(&args, ':', c->name, sizeof c->name)) {
        free(c);
        return err_set(err, ERR_USAGE, "want a name of at most 31 letters");
    }
    pthread_mutex_lock(&open_lock);
    c->next = open_counts;
    open_counts = c;
    pthread_mutex_unlock(&open_lock);
    *ret = &c->source;
    return 0;
}

int layers_count(const char *name, struct layer_counts *ret)
{
    int rc = -1;
    pthread_mutex_lock(&open_lock);
    for (struct count *c = open_counts; c && rc; c = c->next) {
        if (strcmp(c->name, name) != 0)
            continue;
        *ret = (struct layer_counts){atomic_load(&c->reads),        atomic_load(&c->aheads),
                                     atomic_load(&c->bytes),        atomic_load(&c->errors),
                                     atomic_load(&c->drops),        atomic_load(&c->in_flight),
                                     atomic_load(&c->in_flight_max)};
        rc = 0;
    }
    pthread_mutex_unlock(&open_lock);
    return rc;
}
