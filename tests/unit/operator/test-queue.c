#include <criterion/criterion.h>
#include <string.h>

#include "clock.h"
#include "queue.h"
#include "sync.h"

static void expect_next(struct queue *q, const char *want)
{
    char *got = queue_take(q);
    cr_assert_str_eq(got, want);
    free(got);
}

static struct queue *open_queue(void)
{
    struct queue *q = queue_new(NS_PER_S, 8 * NS_PER_S);
    queue_pause(q, false);
    return q;
}

Test(operator_queue, each_key_once_in_order)
{
    struct queue *q = open_queue();
    struct queue_numbers n;
    queue_add(q, "b");
    queue_add(q, "a");
    queue_add(q, "b");
    queue_numbers(q, &n);
    cr_assert_eq(n.waiting, 2);
    expect_next(q, "b");
    expect_next(q, "a");
    queue_done(q, "a", false);
    queue_done(q, "b", false);
    queue_numbers(q, &n);
    cr_assert_eq(n.waiting, 0);
    cr_assert_eq(n.taken, 2);
    queue_free(q);
}

Test(operator_queue, a_key_comes_again_when_it_was_added_meanwhile)
{
    struct queue *q = open_queue();
    queue_add(q, "a");
    expect_next(q, "a");
    queue_add(q, "a"); /* not before it is done */
    queue_add(q, "b");
    expect_next(q, "b");
    queue_done(q, "a", false);
    expect_next(q, "a");
    queue_done(q, "a", false);
    queue_done(q, "b", false);
    queue_free(q);
}

Test(operator_queue, delays_and_the_soonest_counts)
{
    struct queue *q = open_queue();
    queue_add_after(q, "late", 100 * NS_PER_S);
    queue_add_after(q, "soon", 50 * NS_PER_S);
    queue_add_after(q, "late", 200 * NS_PER_S); /* it waits for an earlier time already */
    queue_add(q, "now");
    expect_next(q, "now");
    queue_done(q, "now", false);
    clock_advance(60 * NS_PER_S);
    expect_next(q, "soon");
    queue_done(q, "soon", false);
    queue_add(q, "late");
    expect_next(q, "late");
    queue_done(q, "late", false);
    queue_free(q);
}

/* A failed key is due after 1, 2, 4, 8, 8 … seconds: two others, due half a second before and after
 * it, show where it stands. */
Test(operator_queue, failures_wait_longer_each_time)
{
    static const uint64_t waits[] = {1, 2, 4, 8, 8};
    for (size_t i = 0; i < sizeof waits / sizeof waits[0]; i++) {
        struct queue *q = open_queue();
        struct queue_numbers n;
        queue_add(q, "bad");
        for (size_t k = 0; k <= i; k++) {
            clock_advance(100 * NS_PER_S);
            expect_next(q, "bad");
            queue_done(q, "bad", true);
        }
        queue_add_after(q, "after", waits[i] * NS_PER_S + NS_PER_S / 2);
        queue_add_after(q, "before", waits[i] * NS_PER_S - NS_PER_S / 2);
        queue_numbers(q, &n);
        cr_assert_eq(n.failing, 1);
        cr_assert_eq(n.retried, i + 1);
        clock_advance(100 * NS_PER_S);
        expect_next(q, "before");
        expect_next(q, "bad");
        expect_next(q, "after");
        queue_done(q, "bad", false);
        queue_done(q, "after", false);
        queue_done(q, "before", false);
        queue_numbers(q, &n);
        cr_assert_eq(n.failing, 0);
        queue_free(q);
    }
}

Test(operator_queue, paused_and_ended)
{
    struct queue *q = queue_new(NS_PER_S, NS_PER_S);
    queue_add(q, "a");
    queue_end(q);
    cr_assert_null(queue_take(q));
    queue_add(q, "b"); /* nobody will ask */
    queue_free(q);
}

/* Whoever does not lead keeps no account of what others do, and tells of no failure of before. */
Test(operator_queue, paused_it_forgets)
{
    struct queue *q = open_queue();
    struct queue_numbers n;
    queue_add(q, "failed");
    expect_next(q, "failed");
    queue_done(q, "failed", true);
    queue_add(q, "fails");
    expect_next(q, "fails");
    queue_add(q, "fails");
    queue_add(q, "waits");
    queue_pause(q, true);
    queue_add(q, "later");
    queue_done(q, "fails", true);
    queue_numbers(q, &n);
    cr_expect_eq(n.waiting, 0);
    cr_expect_eq(n.failing, 0);
    queue_pause(q, false);
    queue_add(q, "next");
    expect_next(q, "next");
    queue_done(q, "next", false);
    queue_free(q);
}

/* --- workers ---------------------------------------------------------------------------------- */

struct crowd {
    struct queue *q;
    struct lock lock;
    unsigned at_work[8], worked[8], twice;
};

static void *worker(void *arg)
{
    struct crowd *c = arg;
    for (char *key; (key = queue_take(c->q)); free(key)) {
        unsigned k = (unsigned)(*key - '0');
        {
            ACQUIRE(&c->lock);
            c->twice += c->at_work[k]++;
        }
        {
            ACQUIRE(&c->lock);
            c->at_work[k]--;
            c->worked[k]++;
        }
        queue_done(c->q, key, false);
    }
    return NULL;
}

Test(operator_queue, one_worker_a_key)
{
    struct crowd c = {.q = open_queue()};
    pthread_t threads[4];
    lock_init(&c.lock, RANK_KUBE, "crowd");
    for (size_t i = 0; i < 4; i++)
        cr_assert_eq(thread_start(&threads[i], "worker", worker, &c), 0);
    for (unsigned i = 0; i < 4000; i++) {
        char key[] = {(char)('0' + i % 8), '\0'};
        queue_add(c.q, key);
    }
    for (struct queue_numbers n = {.waiting = 1}; n.waiting;)
        queue_numbers(c.q, &n);
    queue_end(c.q);
    for (size_t i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    cr_assert_eq(c.twice, 0);
    for (size_t k = 0; k < 8; k++)
        cr_assert(c.worked[k] > 0);
    lock_destroy(&c.lock);
    queue_free(c.q);
}
