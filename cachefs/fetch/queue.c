/* The queues of fetch: see queue-internal.h. */
#include "queue-internal.h"

#include <assert.h>

#define TURNS 16

/* Who is asked first in each turn; the rest follow by rank. */
static const unsigned char first_of_turn[TURNS] = {
    [3] = PRIO_PREFETCH,
    [11] = PRIO_PREFETCH,
    [15] = PRIO_WARMUP,
};
_Static_assert(PRIO_READER == 0, "turns that are not listed start with the readers");

static const char *const class_names[PRIO_COUNT] = {
    [PRIO_READER] = "readers",
    [PRIO_PREFETCH] = "prefetches",
    [PRIO_WARMUP] = "warmup",
};

void queues_init(struct queues *q, size_t limit)
{
    *q = (struct queues){.limit = limit};
    for (size_t i = 0; i < PRIO_COUNT; i++) {
        for (size_t tried = 0; tried < 2; tried++) {
            struct queue_item *head = &q->heads[tried][i];
            head->prev = head->next = head;
        }
    }
}

static void link_last(struct queues *q, struct queue_item *item, enum prio prio)
{
    struct queue_item *place = q->heads[item->tried][prio].prev;
    assert(!item->queued);
    item->prev = place;
    item->next = place->next;
    place->next->prev = item;
    place->next = item;
    item->queued = true;
    atomic_store_explicit(&item->prio, (int)prio, memory_order_relaxed);
    q->n[prio]++;
}

int queues_push(struct queues *q, struct queue_item *item, enum prio prio, struct err *err)
{
    if (q->n[prio] >= q->limit)
        return err_set(err, ERR_LIMIT, "queue a transfer: %zu %s wait already (try again later)",
                       q->n[prio], class_names[prio]);
    item->tried = false;
    link_last(q, item, prio);
    return 0;
}

void queues_push_tried(struct queues *q, struct queue_item *item)
{
    item->tried = true;
    link_last(q, item, (enum prio)atomic_load_explicit(&item->prio, memory_order_relaxed));
}

void queues_remove(struct queues *q, struct queue_item *item)
{
    assert(item->queued);
    item->prev->next = item->next;
    item->next->prev = item->prev;
    item->prev = item->next = NULL;
    item->queued = false;
    q->n[atomic_load_explicit(&item->prio, memory_order_relaxed)]--;
}

static struct queue_item *pop_class(struct queues *q, unsigned class, unsigned allowed,
                                    bool only_tried)
{
    struct queue_item *tried = &q->heads[true][class], *head = &q->heads[false][class];
    if (tried->next != tried || only_tried)
        head = tried;
    struct queue_item *item = head->next;
    if (!(allowed & 1u << class) || item == head)
        return NULL;
    queues_remove(q, item);
    return item;
}

static struct queue_item *pop(struct queues *q, unsigned allowed, bool only_tried)
{
    struct queue_item *item = pop_class(q, first_of_turn[q->turn % TURNS], allowed, only_tried);
    for (unsigned prio = 0; !item && prio < PRIO_COUNT; prio++)
        item = pop_class(q, prio, allowed, only_tried);
    if (item)
        q->turn++;
    return item;
}

struct queue_item *queues_pop(struct queues *q, unsigned allowed)
{
    return pop(q, allowed, false);
}

struct queue_item *queues_pop_tried(struct queues *q, unsigned allowed)
{
    return pop(q, allowed, true);
}

void queues_move(struct queues *q, struct queue_item *item, enum prio prio)
{
    queues_remove(q, item);
    link_last(q, item, prio);
}

void queues_each(struct queues *q, void (*fn)(void *arg, struct queue_item *item), void *arg)
{
    for (size_t i = 0; i < 2 * PRIO_COUNT; i++) {
        struct queue_item *head = &q->heads[i / PRIO_COUNT][i % PRIO_COUNT];
        for (struct queue_item *item = head->next, *next; item != head; item = next) {
            next = item->next;
            fn(arg, item);
        }
    }
}

bool queues_have(const struct queues *q, unsigned allowed)
{
    for (unsigned prio = 0; prio < PRIO_COUNT; prio++)
        if (allowed & 1u << prio && q->n[prio])
            return true;
    return false;
}
