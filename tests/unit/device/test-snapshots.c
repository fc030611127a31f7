#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "snapshots.h"

Test(snapshots, each_keeps_its_text)
{
    struct snapshots *s = calloc(1, sizeof(*s));
    struct snapshot about;
    char buf[8] = "";

    snapshots_init(s);
    uint64_t a = snapshots_add(s, strdup("first"), 5, 1);
    uint64_t b = snapshots_add(s, strdup("second"), 6, 1);
    cr_assert_neq(a, b);
    cr_assert_eq(snapshots_read(s, a, 0, buf, 8, &about), 5);
    cr_assert_eq(memcmp(buf, "first", 5), 0);
    cr_assert_eq(about.len, 5);
    cr_assert_eq(about.ino, a);
    cr_assert_eq(snapshots_read(s, b, 4, buf, 8, NULL), 2);
    cr_assert_eq(memcmp(buf, "nd", 2), 0);
    cr_assert_eq(snapshots_read(s, b, 6, buf, 8, NULL), 0);
    cr_assert_eq(snapshots_read(s, b, UINT64_MAX, buf, 8, NULL), 0);
    snapshots_forget(s, a, 1);
    cr_assert_eq(snapshots_read(s, a, 0, buf, 8, NULL), -1);
    snapshots_destroy(s);
    free(s);
}

Test(snapshots, the_table_is_bounded)
{
    struct snapshots *s = calloc(1, sizeof(*s));
    char buf[1];

    snapshots_init(s);
    uint64_t first = snapshots_add(s, strdup("x"), 1, 1);
    for (int i = 0; i < SNAPSHOTS_MAX - 1; i++)
        snapshots_add(s, strdup("y"), 1, 1);
    cr_assert_eq(snapshots_read(s, first, 0, buf, 1, NULL), 1);
    uint64_t last = snapshots_add(s, strdup("z"), 1, 1);
    cr_assert_eq(snapshots_read(s, first, 0, buf, 1, NULL), -1);
    /* Forgetting what is gone touches nobody else. */
    snapshots_forget(s, first, 1);
    cr_assert_eq(snapshots_read(s, last, 0, buf, 1, NULL), 1);
    cr_assert_eq(buf[0], 'z');
    snapshots_destroy(s);
    free(s);
}

Test(snapshots, a_held_one_outlives_any_number_of_others)
{
    struct snapshots *s = calloc(1, sizeof(*s));
    char buf[1];

    snapshots_init(s);
    uint64_t held = snapshots_add(s, strdup("h"), 1, 1);
    for (int i = 0; i < 3 * SNAPSHOTS_MAX; i++)
        snapshots_forget(s, snapshots_add(s, strdup("y"), 1, 2), 1);
    cr_assert_eq(snapshots_read(s, held, 0, buf, 1, NULL), 1);
    cr_assert_eq(buf[0], 'h');
    snapshots_destroy(s);
    free(s);
}

Test(snapshots, who_looks_twice_before_reading_gets_the_same)
{
    struct snapshots *s = calloc(1, sizeof(*s));
    char buf[1];

    snapshots_init(s);
    cr_assert_eq(snapshots_again(s, 5), 0);
    uint64_t a = snapshots_add(s, strdup("a"), 1, 5);
    cr_assert_eq(snapshots_again(s, 5), a);
    cr_assert_eq(snapshots_again(s, 6), 0);
    snapshots_forget(s, a, 1);
    cr_assert_eq(snapshots_read(s, a, 0, NULL, 0, NULL), 0); /* still looked up once */
    cr_assert_eq(snapshots_read(s, a, 0, buf, 1, NULL), 1);
    cr_assert_eq(snapshots_again(s, 5), 0); /* it was read */
    uint64_t b = snapshots_add(s, strdup("b"), 1, 5);
    clock_advance(2 * NS_PER_S);
    cr_assert_eq(snapshots_again(s, 5), 0); /* too old */
    cr_assert_neq(a, b);
    snapshots_destroy(s);
    free(s);
}

/* A later process answers for what an earlier one was looked up for. */
Test(snapshots, outlive_their_process)
{
    struct kept_snapshots *kept = calloc(1, sizeof(*kept));
    char buf[8] = "", *big = calloc(1, SNAPSHOT_KEPT_TEXT + 1);
    struct snapshot about;
    struct snapshots *s = calloc(1, sizeof(*s));
    snapshots_init(s);
    snapshots_keep(s, kept);
    uint64_t a = snapshots_add(s, strdup("first"), 5, 1);
    cr_assert_eq(snapshots_again(s, 1), a);
    uint64_t gone = snapshots_add(s, strdup("gone"), 4, 2);
    uint64_t long_one = snapshots_add(s, big, SNAPSHOT_KEPT_TEXT + 1, 3);
    snapshots_forget(s, gone, 1);
    snapshots_destroy(s);

    memset(s, 0, sizeof(*s));
    snapshots_init(s);
    snapshots_keep(s, kept);
    cr_assert_eq(snapshots_read(s, a, 1, buf, 8, &about), 4);
    cr_assert_str_eq(buf, "irst");
    cr_assert_eq(about.len, 5);
    cr_assert_eq(snapshots_read(s, gone, 0, buf, 8, NULL), -1);
    cr_assert_eq(snapshots_read(s, long_one, 0, buf, 8, NULL), -1);
    cr_assert_eq(snapshots_again(s, 1), 0);
    cr_assert_gt(snapshots_add(s, strdup("new"), 3, 1), long_one);
    snapshots_forget(s, a, 1);
    cr_assert_eq(snapshots_read(s, a, 0, buf, 8, NULL), 5, "looked up twice");
    snapshots_forget(s, a, 1);
    cr_assert_eq(snapshots_read(s, a, 0, buf, 8, NULL), -1);
    snapshots_destroy(s);

    /* What was scribbled over is not believed. */
    for (size_t i = 0; i < SNAPSHOTS_KEPT; i++)
        kept->of[i] = (struct kept_snapshot){.ino = i * 7 + 1, .len = UINT64_MAX};
    kept->of[0] = (struct kept_snapshot){.ino = long_one, .len = SNAPSHOT_KEPT_TEXT + 1};
    kept->of[1] = (struct kept_snapshot){.ino = UINT64_MAX, .len = 1};
    atomic_store(&kept->next, UINT64_MAX);
    memset(s, 0, sizeof(*s));
    snapshots_init(s);
    snapshots_keep(s, kept);
    cr_assert_eq(snapshots_read(s, long_one, 0, buf, 8, NULL), -1);
    cr_assert_eq(snapshots_add(s, strdup("new"), 3, 1), INO_SNAPSHOTS);
    snapshots_destroy(s);
    free(s);
    free(kept);
}

/* The oldest of the kept ones makes room; this process still has it. */
Test(snapshots, only_the_newest_are_kept)
{
    struct kept_snapshots *kept = calloc(1, sizeof(*kept));
    struct snapshots *s = calloc(1, sizeof(*s));
    char buf[8] = "";
    snapshots_init(s);
    snapshots_keep(s, kept);
    uint64_t first = snapshots_add(s, strdup("0"), 1, 1), last = first;
    for (int i = 0; i < SNAPSHOTS_KEPT; i++)
        last = snapshots_add(s, strdup("x"), 1, 1);
    cr_assert_eq(snapshots_read(s, first, 0, buf, 1, NULL), 1);
    snapshots_destroy(s);
    memset(s, 0, sizeof(*s));
    snapshots_init(s);
    snapshots_keep(s, kept);
    cr_assert_eq(snapshots_read(s, first, 0, buf, 1, NULL), -1);
    cr_assert_eq(snapshots_read(s, first + 1, 0, buf, 1, NULL), 1);
    cr_assert_eq(snapshots_read(s, last, 0, buf, 1, NULL), 1);
    snapshots_destroy(s);
    free(s);
    free(kept);
}
