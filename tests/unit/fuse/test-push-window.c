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
    struct push_window w;

    push_window_reset(&w, 100000, 1000);
    cr_assert_eq(w.tripwire, 250);
    cr_assert_eq(drain(&w), 1000 - 4);
    cr_assert_eq(push_window_take(&w), UINT64_MAX);
    push_window_seen(&w, 249); /* the reader met the first tripwire */
    cr_assert_eq(w.reader, 250);
    cr_assert_eq(drain(&w), 250 - 1);
}

Test(push_window, tripwires_cost_less_than_one_percent)
{
    struct push_window w;

    for (uint64_t window = 1; window < 100000; window *= 3) {
        push_window_reset(&w, 10, window);
        cr_assert_geq(w.tripwire, 128);
        cr_assert_geq(w.window, 16);
    }
}

Test(push_window, a_steady_reader_is_always_ahead_served)
{
    struct push_window w;
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
            push_window_seen(&w, pos);
        }
    }
    cr_assert_leq(reads * 100, 50000); /* 1 % */
    cr_assert_eq(pushed + reads, 50000);
    cr_assert_eq(w.paused_until, 0);
}

Test(push_window, nobody_is_woken_for_little)
{
    struct push_window w;

    push_window_reset(&w, 100000, 1000);
    cr_expect(push_window_is_worth(&w));
    drain(&w);
    cr_expect_not(push_window_is_worth(&w));
    push_window_seen(&w, 14);
    cr_expect_not(push_window_is_worth(&w), "15 positions");
    push_window_seen(&w, 15);
    cr_expect(push_window_is_worth(&w), "16 positions");
    push_window_seen(&w, 99500);
    drain(&w);
    cr_expect_not(push_window_is_worth(&w), "the end is pushed");
    push_window_reset(&w, 20, 16);
    drain(&w);
    push_window_seen(&w, 4);
    cr_expect(push_window_is_worth(&w), "the last ones are worth it however few");
}

Test(push_window, pauses_when_readers_do_it_all)
{
    struct push_window w;
    uint64_t pos = 0;

    push_window_reset(&w, 100000, 1000);
    for (; pos < PUSH_STRETCH; pos++)
        push_window_seen(&w, pos);
    cr_assert_gt(w.paused_until, w.reader);
    cr_expect_not(push_window_is_worth(&w));
    cr_assert_eq(push_window_take(&w), UINT64_MAX);
    while (w.reader < w.paused_until)
        push_window_seen(&w, pos++);
    /* Tried again later, ahead of the reader. */
    cr_assert_neq(push_window_take(&w), UINT64_MAX);
}

Test(push_window, tries_ever_more_seldom_in_vain)
{
    struct push_window w;
    uint64_t pos = 0, pauses[3];

    push_window_reset(&w, 1000000, 1000);
    for (size_t i = 0; i < 3; i++) {
        while (w.reader >= w.paused_until)
            push_window_seen(&w, pos++);
        pauses[i] = w.paused_until - w.reader;
        while (w.reader < w.paused_until)
            push_window_seen(&w, pos++);
    }
    cr_assert_eq(pauses[1], 2 * pauses[0]);
    cr_assert_eq(pauses[2], 4 * pauses[0]);
    /* Once it has paid, a pause is short again. */
    pos += 4 * PUSH_STRETCH;
    push_window_seen(&w, pos++);
    while (w.reader >= w.paused_until)
        push_window_seen(&w, pos++);
    cr_assert_eq(w.paused_until - w.reader, pauses[0]);
}

Test(push_window, jumps_with_the_reader)
{
    struct push_window w;
    uint64_t p;

    push_window_reset(&w, 100000, 1000);
    push_window_seen(&w, 50000);
    p = push_window_take(&w);
    cr_assert(p > 50000 && p < 50100);
    /* A second reader a little behind moves nothing … */
    push_window_seen(&w, 49900);
    cr_assert_eq(w.reader, 50001);
    /* … one that begins again does. */
    push_window_seen(&w, 0);
    cr_assert_eq(w.reader, 1);
    cr_assert_eq(push_window_take(&w), 1);
}

Test(push_window, ends)
{
    struct push_window w;

    push_window_reset(&w, 0, 1000);
    cr_assert_eq(push_window_take(&w), UINT64_MAX);
    push_window_seen(&w, 5);
    cr_assert_eq(w.reader, 0);
    push_window_reset(&w, 10, 1000);
    cr_assert_eq(drain(&w), 10);
    push_window_seen(&w, 9);
    cr_assert_eq(push_window_take(&w), UINT64_MAX);
    push_window_seen(&w, 10);
    push_window_seen(&w, UINT64_MAX);
    cr_assert_eq(w.reader, 10);
}
