/*
 * Three first-in-first-out queues, one a priority, and the rule of who goes next.
 *
 * Of 16 turns in a row, two start with the prefetches and one with the warmup; all others go by
 * rank. So readers go first, yet nobody starves: a waiting prefetch gets at least 1 admission of 8
 * and a waiting warmup at least 1 of 16. What was tried before goes before all others of its class,
 * and of no other. Pure; the caller locks.
 */
#ifndef SAMPAN_FETCH_QUEUE_INTERNAL_H
#define SAMPAN_FETCH_QUEUE_INTERNAL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "err.h"
#include "source.h"

struct queue_item {
    struct queue_item *prev, *next;
    atomic_int prio; /* enum prio; written under the caller's lock, read by its engine without */
    bool queued, tried;
};

struct queues {
    struct queue_item heads[2][PRIO_COUNT]; /* of rings: of those not tried yet; of the others */
    size_t n[PRIO_COUNT];                   /* of both */
    size_t limit;                           /* of each queue */
    unsigned turn;
};

#define QUEUES_ALL ((1u << PRIO_COUNT) - 1)

void queues_init(struct queues *q, size_t limit);
/* At the end of its class's queue; ERR_LIMIT when that is full. */
int queues_push(struct queues *q, struct queue_item *item, enum prio prio, struct err *err);
/* Once more, which may exceed the limit. */
void queues_push_tried(struct queues *q, struct queue_item *item);
/* The next in turn among the classes in `allowed` (a bit each); NULL if those are empty. */
struct queue_item *queues_pop(struct queues *q, unsigned allowed);
struct queue_item *queues_pop_tried(struct queues *q, unsigned allowed); /* no others */
/* To the end of another class's queue, which may exceed its limit by it. */
void queues_move(struct queues *q, struct queue_item *item, enum prio prio);
void queues_remove(struct queues *q, struct queue_item *item);
/* Calls fn for each that waits; it may remove that one. */
void queues_each(struct queues *q, void (*fn)(void *arg, struct queue_item *item), void *arg);
bool queues_have(const struct queues *q, unsigned allowed);

#endif
