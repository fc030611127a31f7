/*
 * A key's life: unknown -> WAITING (due at a time) -> WORKED ON -> unknown, or WAITING again where
 * it was added meanwhile, or failed. A key that failed is remembered until it works. A paused
 * queue knows those alone that are still worked on.
 */
#include "queue.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "hash.h"
#include "mem.h"
#include "sync.h"

#define BUCKETS 1024

struct item {
    struct item *next; /* in its bucket */
    char *key;
    bool waiting, worked_on;
    uint64_t due, order; /* while it waits; order: who came first among those that are due */
    unsigned failures;
};

struct queue {
    struct lock lock;
    struct cond changed;
    struct item *buckets[BUCKETS];
    struct item **heap; /* those that wait and nobody works on: by due, then order */
    size_t n_heap, room, n_waiting, n_failing;
    uint64_t base, cap, orders, taken, retried;
    bool paused, ended;
};

struct queue *queue_new(uint64_t base_ns, uint64_t cap_ns)
{
    struct queue *q = xcalloc(1, sizeof *q);
    lock_init(&q->lock, RANK_QUEUE, "queue");
    cond_init(&q->changed);
    q->base = base_ns;
    q->cap = cap_ns;
    q->paused = true;
    return q;
}

void queue_free(struct queue *q)
{
    if (!q)
        return;
    for (size_t b = 0; b < BUCKETS; b++)
        while (q->buckets[b]) {
            struct item *i = q->buckets[b];
            q->buckets[b] = i->next;
            free(i->key);
            free(i);
        }
    free(q->heap);
    cond_destroy(&q->changed);
    lock_destroy(&q->lock);
    free(q);
}

/* --- the heap: the lock is held for all below ------------------------------------------------ */

static bool sooner(const struct item *a, const struct item *b)
{
    return a->due != b->due ? a->due < b->due : a->order < b->order;
}

static void swap(struct item **a, struct item **b)
{
    struct item *t = *a;
    *a = *b;
    *b = t;
}

static void rise(struct queue *q, size_t i)
{
    for (; i && sooner(q->heap[i], q->heap[(i - 1) / 2]); i = (i - 1) / 2)
        swap(&q->heap[i], &q->heap[(i - 1) / 2]);
}

static void sink(struct queue *q, size_t i)
{
    for (;;) {
        size_t least = i;
        for (size_t child = 2 * i + 1; child <= 2 * i + 2 && child < q->n_heap; child++)
            if (sooner(q->heap[child], q->heap[least]))
                least = child;
        if (least == i)
            return;
        swap(&q->heap[i], &q->heap[least]);
        i = least;
    }
}

static void heap_add(struct queue *q, struct item *item)
{
    if (q->n_heap == q->room) {
        q->room = q->room ? 2 * q->room : 64;
        q->heap = xrealloc(q->heap, q->room * sizeof(struct item *));
    }
    q->heap[q->n_heap] = item;
    rise(q, q->n_heap++);
}

static void heap_remove(struct queue *q, const struct item *item)
{
    size_t i = 0;
    while (q->heap[i] != item)
        i++;
    q->heap[i] = q->heap[--q->n_heap];
    if (i < q->n_heap) {
        rise(q, i);
        sink(q, i);
    }
}

/* --- keys ------------------------------------------------------------------------------------- */

static struct item **find(struct queue *q, const char *key)
{
    struct item **at = &q->buckets[hash64(key, strlen(key), 0) % BUCKETS];
    while (*at && strcmp((*at)->key, key) != 0)
        at = &(*at)->next;
    return at;
}

static void wait_until(struct queue *q, struct item *i, uint64_t due)
{
    if (i->waiting && i->due <= due)
        return;
    if (i->waiting && !i->worked_on)
        heap_remove(q, i);
    if (!i->waiting)
        q->n_waiting++;
    i->waiting = true;
    i->due = due;
    i->order = q->orders++;
    if (!i->worked_on)
        heap_add(q, i);
}

void queue_add_after(struct queue *q, const char *key, uint64_t delay_ns)
{
    ACQUIRE(&q->lock);
    if (q->ended || q->paused)
        return;
    struct item **at = find(q, key);
    if (!*at) {
        *at = xcalloc(1, sizeof **at);
        (*at)->key = xstrdup(key);
    }
    wait_until(q, *at, clock_mono_ns() + delay_ns);
    cond_signal(&q->changed);
}

void queue_add(struct queue *q, const char *key)
{
    queue_add_after(q, key, 0);
}

char *queue_take(struct queue *q)
{
    ACQUIRE(&q->lock);
    while (!q->ended) {
        uint64_t now = clock_mono_ns();
        if (q->paused || !q->n_heap) {
            cond_wait(&q->changed, &q->lock);
            continue;
        }
        struct item *first = q->heap[0];
        if (first->due > now) {
            cond_wait_for(&q->changed, &q->lock, first->due - now);
            continue;
        }
        heap_remove(q, first);
        first->waiting = false;
        first->worked_on = true;
        q->n_waiting--;
        q->taken++;
        if (q->n_heap)
            cond_signal(&q->changed); /* another worker looks when the next is due */
        return xstrdup(first->key);
    }
    return NULL;
}

static uint64_t back_off(const struct queue *q, unsigned failures)
{
    uint64_t ns = q->base;
    while (--failures && ns < q->cap)
        ns *= 2;
    return ns < q->cap ? ns : q->cap;
}

void queue_done(struct queue *q, const char *key, bool failed)
{
    ACQUIRE(&q->lock);
    struct item **at = find(q, key), *i = *at;
    assert(i && i->worked_on);
    failed = failed && !q->paused;
    bool failed_before = i->failures > 0;
    i->worked_on = false;
    i->failures = failed ? i->failures + 1 : 0;
    q->n_failing += failed && !failed_before;
    q->n_failing -= !failed && failed_before;
    if (failed) {
        uint64_t due = clock_mono_ns() + back_off(q, i->failures);
        q->retried++;
        if (i->waiting)
            due = i->due; /* something changed: that may have been what it lacked */
        else
            q->n_waiting++;
        i->waiting = true;
        i->due = due;
        i->order = q->orders++;
    }
    if (i->waiting)
        heap_add(q, i);
    cond_signal(&q->changed);
    if (!i->waiting) {
        *at = i->next;
        free(i->key);
        free(i);
    }
}

/* --- the whole -------------------------------------------------------------------------------- */

/* The lock is held. */
static void forget_all(struct queue *q)
{
    for (size_t b = 0; b < BUCKETS; b++)
        for (struct item **at = &q->buckets[b], *i; (i = *at);) {
            i->waiting = false;
            if (i->worked_on) {
                at = &i->next;
                continue;
            }
            q->n_failing -= i->failures > 0;
            *at = i->next;
            free(i->key);
            free(i);
        }
    q->n_heap = q->n_waiting = 0;
}

void queue_pause(struct queue *q, bool pause)
{
    ACQUIRE(&q->lock);
    q->paused = pause;
    if (pause)
        forget_all(q);
    cond_broadcast(&q->changed);
}

void queue_end(struct queue *q)
{
    ACQUIRE(&q->lock);
    q->ended = true;
    cond_broadcast(&q->changed);
}

void queue_numbers(struct queue *q, struct queue_numbers *ret)
{
    ACQUIRE(&q->lock);
    *ret = (struct queue_numbers){
        .waiting = q->n_waiting, .failing = q->n_failing, .taken = q->taken, .retried = q->retried};
}
