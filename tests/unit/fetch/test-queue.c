/* The three queues: order, shares, bounds. */
#include <criterion/criterion.h>

#include "queue-internal.h"

static struct queue_item items[PRIO_COUNT][200];

static void fill(struct queues *q, enum prio prio, size_t n)
{
    for (size_t i = 0; i < n; i++)
        cr_assert_eq(queues_push(q, &items[prio][i], prio, NULL), 0);
}

static size_t count_of(struct queues *q, unsigned pops, enum prio prio)
{
    size_t n = 0;
    for (unsigned i = 0; i < pops; i++) {
        struct queue_item *it = queues_pop(q, QUEUES_ALL);
        n += it >= items[prio] && it < items[prio] + 200;
    }
    return n;
}

Test(queue, first_in_first_out_within_a_class)
{
    struct queues q;
    queues_init(&q, 200);
    fill(&q, PRIO_READER, 20);
    for (size_t i = 0; i < 20; i++)
        cr_assert_eq(queues_pop(&q, QUEUES_ALL), &items[PRIO_READER][i]);
    cr_assert_null(queues_pop(&q, QUEUES_ALL));
}

static const struct share {
    const char *what;
    size_t waiting[PRIO_COUNT];
    size_t of_16[PRIO_COUNT];
} shares[] = {
    {"all wait", {100, 100, 100}, {13, 2, 1}},  {"no warmup", {100, 100, 0}, {14, 2, 0}},
    {"no prefetch", {100, 0, 100}, {15, 0, 1}}, {"no readers", {0, 100, 100}, {0, 15, 1}},
    {"warmup alone", {0, 0, 100}, {0, 0, 16}},
};

Test(queue, each_class_has_its_share)
{
    for (size_t i = 0; i < sizeof shares / sizeof shares[0]; i++) {
        for (unsigned prio = 0; prio < PRIO_COUNT; prio++) {
            struct queues q;
            queues_init(&q, 200);
            memset(items, 0, sizeof items);
            for (unsigned c = 0; c < PRIO_COUNT; c++)
                fill(&q, (enum prio)c, shares[i].waiting[c]);
            cr_expect_eq(count_of(&q, 16, (enum prio)prio), shares[i].of_16[prio], "%s: class %u",
                         shares[i].what, prio);
        }
    }
}

Test(queue, only_allowed_classes_are_popped)
{
    struct queues q;
    queues_init(&q, 200);
    fill(&q, PRIO_PREFETCH, 3);
    cr_assert_null(queues_pop(&q, 1u << PRIO_READER));
    cr_assert_not(queues_have(&q, 1u << PRIO_READER));
    cr_assert(queues_have(&q, QUEUES_ALL));
    cr_assert_eq(queues_pop(&q, 1u << PRIO_PREFETCH), &items[PRIO_PREFETCH][0]);
}

Test(queue, a_full_class_refuses_and_leaves_the_others_alone)
{
    struct queues q;
    struct err err = {0};
    queues_init(&q, 2);
    fill(&q, PRIO_WARMUP, 2);
    cr_assert_eq(queues_push(&q, &items[PRIO_WARMUP][2], PRIO_WARMUP, &err), -1);
    cr_assert_eq(err.class, ERR_LIMIT);
    cr_assert_str_eq(err.msg, "queue a transfer: 2 warmup wait already (try again later)");
    fill(&q, PRIO_READER, 1);
}

Test(queue, moving_up_overtakes_and_removal_keeps_the_rest)
{
    struct queues q;
    queues_init(&q, 200);
    fill(&q, PRIO_WARMUP, 3);
    queues_move(&q, &items[PRIO_WARMUP][2], PRIO_READER);
    queues_remove(&q, &items[PRIO_WARMUP][0]);
    cr_assert_eq(queues_pop(&q, QUEUES_ALL), &items[PRIO_WARMUP][2]);
    cr_assert_eq(queues_pop(&q, QUEUES_ALL), &items[PRIO_WARMUP][1]);
    cr_assert_not(queues_have(&q, QUEUES_ALL));
}

Test(queue, what_was_tried_goes_before_its_own_class_alone)
{
    struct queues q;
    queues_init(&q, 2);
    fill(&q, PRIO_READER, 2);
    fill(&q, PRIO_WARMUP, 2);
    struct queue_item *reader = queues_pop(&q, 1u << PRIO_READER);
    struct queue_item *warmup = queues_pop(&q, 1u << PRIO_WARMUP);
    cr_assert_eq(queues_push(&q, &items[PRIO_READER][2], PRIO_READER, NULL), 0);
    queues_push_tried(&q, warmup);
    queues_push_tried(&q, reader);
    cr_assert_eq(queues_pop(&q, QUEUES_ALL), reader, "not the warmup, which came before");
    queues_push_tried(&q, reader);
    cr_assert_eq(queues_pop_tried(&q, QUEUES_ALL), reader);
    cr_assert_eq(queues_pop(&q, 1u << PRIO_READER), &items[PRIO_READER][1]);
    queues_move(&q, warmup, PRIO_READER);
    cr_assert_eq(queues_pop(&q, QUEUES_ALL), warmup, "raised, before those not tried yet");
    cr_assert_null(queues_pop_tried(&q, QUEUES_ALL));
    cr_assert_eq(queues_pop(&q, QUEUES_ALL), &items[PRIO_READER][2]);
    cr_assert_eq(queues_pop(&q, QUEUES_ALL), &items[PRIO_WARMUP][1]);
    cr_assert_not(queues_have(&q, QUEUES_ALL));
}
