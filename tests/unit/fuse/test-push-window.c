#include <criterion/criterion.h>

#include "frontend-internal.h"

/* Takes all that can be taken now; returns how many, checks that they rise and skip tripwires. */
static uint64_t drain(struct push_window *w)
{
    uint64_t n = 0, last = 0, pos;

    while ((pos = push_window_take(w)) != UINT64_MAX) {
        cr_assert(!n || pos > last);
        cr_assert_neq(pos % w->tripwire, w->tripwire - 1);
        cr_assert_lt(pos, w->length);
        cr_assert_lt(pos, w->reader + w->window);
        last = pos;
        n++;
    }
    return n;
}

Test(push_window, fills_the_window_and_waits)
{
    struct push_window w = {0};

    push_window_reset(&w, 100000, 1000);
    cr_assert_eq(w.tripwire, 250);
    cr_assert_eq(drain(&w), 1000 - 4);
    cr_assert_eq(push_window_take(&w), UINT64_MAX);
    push_window_seen(&w, 249, 0); /* the reader met the first tripwire */
    cr_assert_eq(w.reader, 250);
    cr_assert_eq(drain(&w), 250 - 1);
}

Test(push_window, tripwires_cost_less_than_one_percent)
{
    struct push_window w = {0};

    for (uint64_t window = 512; window < 100000; window *= 3) {
        push_window_reset(&w, 10, window);
        cr_assert_geq(w.tripwire, 128);
        cr_assert_eq(w.window, window);
    }
}

/* All of it was in the page cache, or the reader takes bytes from packs. */
Test(push_window, what_nobody_reads_is_pushed_twice_and_then_when_somebody_does)
{
    struct push_window w = {0};

    for (int order = 0; order < 5; order++) {
        push_window_reset(&w, 100000, 1000);
        cr_assert_eq(drain(&w), order < PUSH_UNREAD ? 1000 - 4 : 0, "order %d", order);
    }
    push_window_seen(&w, 0, 0);
    cr_assert(push_window_is_worth(&w));
    cr_assert_gt(drain(&w), 900);
    push_window_reset(&w, 100000, 1000); /* there are readers again */
    cr_assert_eq(drain(&w), 1000 - 4);
}

/* Few of large samples fit: a reader is seen before it has used up what was pushed for it. */
Test(push_window, a_small_window_does_not_run_dry)
{
    struct push_window w = {0};

    for (uint64_t window = 4; window < 600; window++) {
        bool there[2000] = {false};
        uint64_t reads = 0, next;

        push_window_reset(&w, 2000, window);
        for (uint64_t pos = 0; pos < 2000; pos++) {
            while ((next = push_window_take(&w)) != UINT64_MAX) {
                cr_assert_lt(next, w.reader + window);
                there[next] = true;
            }
            if (there[pos])
                continue;
            cr_assert_eq(pos % w.tripwire, w.tripwire - 1, "window %d, position %d", (int)window,
                         (int)pos);
            push_window_seen(&w, pos, 0);
            reads++;
        }
        cr_assert_eq(reads, 2000 / w.tripwire);
    }
}

Test(push_window, samples_that_hardly_fit_are_not_pushed)
{
    struct push_window w = {0};

    for (uint64_t window = 0; window < 4; window++) {
        push_window_reset(&w, 100, window);
        cr_assert_eq(push_window_take(&w), UINT64_MAX);
        push_window_seen(&w, 10, 0);
        cr_assert_eq(push_window_take(&w), UINT64_MAX);
        cr_expect_not(push_window_is_worth(&w));
    }
}

Test(push_queue, is_bounded_by_bytes_that_have_not_come)
{
    struct push_queue q = {0};

    q.asked = PUSH_QUEUE_BYTES - 1;
    cr_assert_not(push_queue_is_full(&q, 0, false));
    q.asked = PUSH_QUEUE_BYTES;
    cr_assert(push_queue_is_full(&q, 0, true));
    cr_assert_not(push_queue_is_full(&q, 4096, true));
    q.asked += 4096;
    cr_assert(push_queue_is_full(&q, 4096, true));
    /* The last page of a file is read whole: that is no credit for the next. */
    cr_assert_not(push_queue_is_full(&q, 2 * PUSH_QUEUE_BYTES, false));
    q.asked += PUSH_QUEUE_BYTES;
    cr_assert(push_queue_is_full(&q, 2 * PUSH_QUEUE_BYTES, false));
}

Test(push_queue, what_was_there_already_is_not_waited_for)
{
    struct push_queue q = {.asked = 2 * PUSH_QUEUE_BYTES};

    for (int i = 0; i < 10; i++)
        cr_assert(push_queue_is_full(&q, 0, true), "READs are being answered");
    cr_assert(push_queue_is_full(&q, 1, false), "one came");
    for (int i = 1; i < PUSH_QUEUE_IDLE; i++)
        cr_assert(push_queue_is_full(&q, 1, false));
    cr_assert_not(push_queue_is_full(&q, 1, false));
    cr_assert_eq(q.asked, 1);
}

Test(push_window, a_steady_reader_is_always_ahead_served)
{
    struct push_window w = {0};
    uint64_t reads = 0, pushed = 0;
    static bool there[50000];

    push_window_reset(&w, 50000, 1200);
    for (uint64_t pos = 0; pos < 50000; pos++) {
        uint64_t p;

        for (int burst = 0; burst < 2 && (p = push_window_take(&w)) != UINT64_MAX; burst++) {
            there[p] = true;
            pushed++;
        }
        if (!there[pos]) {
            reads++;
            push_window_seen(&w, pos, 0);
        }
    }
    cr_assert_leq(reads * 100, 50000); /* 1 % */
    cr_assert_eq(pushed + reads, 50000);
    cr_assert_eq(w.paused_until, 0);
}

Test(push_window, nobody_is_woken_for_little)
{
    struct push_window w = {0};

    push_window_reset(&w, 100000, 1000);
    cr_expect(push_window_is_worth(&w));
    drain(&w);
    cr_expect_not(push_window_is_worth(&w));
    push_window_seen(&w, 14, 0);
    cr_expect_not(push_window_is_worth(&w), "15 positions");
    push_window_seen(&w, 15, 0);
    cr_expect(push_window_is_worth(&w), "16 positions");
    push_window_seen(&w, 99500, 0);
    drain(&w);
    cr_expect_not(push_window_is_worth(&w), "the end is pushed");
    push_window_reset(&w, 20, 16);
    drain(&w);
    push_window_seen(&w, 4, 0);
    cr_expect(push_window_is_worth(&w), "the last ones are worth it however few");
}

/* Readers do it all by themselves, one position every `ns`, while the pusher may push (`pushing`)
 * and while it pauses, up to position `end`. Their clock goes on. */
static void read_all(struct push_window *w, uint64_t end, uint64_t pushing, uint64_t paused)
{
    static uint64_t now = 1;

    while (w->reader < end) {
        now += w->reader < w->paused_until ? paused : pushing;
        push_window_seen(w, w->reader, now);
    }
}

/* Up to where the pusher pauses, or no more. */
static void read_until(struct push_window *w, bool paused, uint64_t pushing_ns, uint64_t paused_ns)
{
    while ((w->reader < w->paused_until) != paused && w->reader < w->length)
        read_all(w, w->reader + 1, pushing_ns, paused_ns);
}

Test(push_window, pauses_where_readers_are_as_fast_without)
{
    struct push_window w = {0};

    push_window_reset(&w, 100000, 1000);
    read_all(&w, PUSH_STRETCH, 45000, 42000);
    cr_assert_eq(w.paused_until, w.reader + PUSH_TRIAL);
    cr_expect_not(push_window_is_worth(&w));
    cr_assert_eq(push_window_take(&w), UINT64_MAX);
    read_all(&w, w.paused_until, 45000, 42000);
    cr_assert_gt(w.paused_until, w.reader + PUSH_TRIAL, "the trial is won: a long pause");
    read_until(&w, false, 45000, 42000);
    cr_assert_neq(push_window_take(&w), UINT64_MAX, "tried again later, ahead of the reader");
}

Test(push_window, pushes_on_where_readers_are_slower_without)
{
    struct push_window w = {0};
    uint64_t trials = 0;

    push_window_reset(&w, 1000000, 1000);
    while (w.reader < w.length) {
        read_until(&w, true, 60000, 100000);
        uint64_t from = w.reader;
        read_until(&w, false, 60000, 100000);
        cr_assert_leq(w.reader - from, PUSH_TRIAL);
        trials += w.reader > from;
    }
    cr_expect_lt(trials, 40, "%lu trials", trials);
    cr_expect_geq(trials, 5);
}

Test(push_window, what_a_reader_does_between_reads_is_no_measure)
{
    struct push_window w = {0};
    uint64_t now = 1, second = 1000ull * 1000 * 1000;

    push_window_reset(&w, 100000, 1000);
    for (uint64_t pos = 0; pos < PUSH_STRETCH; pos++) /* it computes for a second, once */
        push_window_seen(&w, pos, now += pos == 64 ? second : 60000);
    cr_assert_lt(w.pushing_ns, 100000);
    for (uint64_t pos = PUSH_STRETCH; pos < PUSH_STRETCH + PUSH_TRIAL; pos++)
        push_window_seen(&w, pos, now += 100000);
    cr_expect_eq(w.paused_until, w.reader, "the trial is lost");
}

Test(push_window, tries_ever_more_seldom_in_vain)
{
    struct push_window w = {0};
    uint64_t pauses[3];

    push_window_reset(&w, 1000000, 1000);
    for (size_t i = 0; i < 3; i++) {
        read_until(&w, true, 45000, 42000);
        read_all(&w, w.paused_until, 45000, 42000); /* the trial */
        pauses[i] = w.paused_until - w.reader;
        read_until(&w, false, 45000, 42000);
    }
    cr_assert_eq(pauses[1], 2 * pauses[0]);
    cr_assert_eq(pauses[2], 4 * pauses[0]);
    /* Once it has paid, a pause is short again. */
    push_window_seen(&w, w.reader + 4 * PUSH_STRETCH, 0);
    read_until(&w, true, 45000, 42000);
    read_all(&w, w.paused_until, 45000, 42000);
    cr_assert_eq(w.paused_until - w.reader, pauses[0]);
}

Test(push_window, jumps_with_the_reader)
{
    struct push_window w = {0};
    uint64_t p;

    push_window_reset(&w, 100000, 1000);
    push_window_seen(&w, 50000, 0);
    p = push_window_take(&w);
    cr_assert(p > 50000 && p < 50100);
    /* A second reader a little behind moves nothing … */
    push_window_seen(&w, 49900, 0);
    cr_assert_eq(w.reader, 50001);
    /* … one that begins again does. */
    push_window_seen(&w, 0, 0);
    cr_assert_eq(w.reader, 1);
    cr_assert_eq(push_window_take(&w), 1);
}

Test(push_window, ends)
{
    struct push_window w = {0};

    push_window_reset(&w, 0, 1000);
    cr_assert_eq(push_window_take(&w), UINT64_MAX);
    push_window_seen(&w, 5, 0);
    cr_assert_eq(w.reader, 0);
    push_window_reset(&w, 10, 1000);
    cr_assert_eq(drain(&w), 10);
    push_window_seen(&w, 9, 0);
    cr_assert_eq(push_window_take(&w), UINT64_MAX);
    push_window_seen(&w, 10, 0);
    push_window_seen(&w, UINT64_MAX, 0);
    cr_assert_eq(w.reader, 10);
}
