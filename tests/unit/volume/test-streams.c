/* What readers seem to do. */
#include <criterion/criterion.h>

#include "volume-internal.h"

#define DEPTH  64
#define BLOCKS 10

static struct ahead_job read_at(struct streams *s, uint64_t id, uint64_t off)
{
    return streams_seen(s, id, off, (struct reach){DEPTH, BLOCKS});
}

Test(streams, random_reads_ask_for_nothing)
{
    struct streams s = {0};
    uint64_t x = 1;
    for (int i = 0; i < 10000; i++) {
        x = x * 6364136223846793005u + 1442695040888963407u;
        struct ahead_job j = read_at(&s, 2 + (x >> 33) % 10000000, 0);
        cr_assert_eq(j.kind, AHEAD_NONE);
    }
}

Test(streams, a_walk_asks_for_more_and_more_siblings)
{
    struct streams s = {0};
    uint64_t asked = 0;
    for (uint64_t id = 100; id < 400; id++) {
        struct ahead_job j = read_at(&s, id, 0);
        if (id < 103)
            cr_assert_eq(j.kind, AHEAD_NONE, "at %d", (int)id);
        if (id == 103)
            cr_assert(j.kind == AHEAD_SIBLINGS && j.first == 104 && j.last == 107);
        if (j.kind == AHEAD_NONE)
            continue;
        cr_assert(j.kind == AHEAD_SIBLINGS && j.first > asked && j.last >= j.first, "at %d",
                  (int)id);
        cr_assert(asked == 0 || j.first == asked + 1, "a gap at %d", (int)id);
        asked = j.last;
        cr_assert_leq(asked, id + DEPTH);
    }
    cr_assert_geq(asked, 399 + DEPTH / 2);
}

Test(streams, a_walk_survives_reordering_and_folders_between)
{
    static const uint64_t ids[] = {10, 12, 11, 13, 16, 15, 14, 20, 21};
    struct streams s = {0};
    unsigned jobs = 0;
    for (size_t i = 0; i < sizeof ids / sizeof ids[0]; i++)
        jobs += read_at(&s, ids[i], 0).kind == AHEAD_SIBLINGS;
    cr_assert_geq(jobs, 1);
}

Test(streams, two_walks_at_once)
{
    struct streams s = {0};
    unsigned jobs[2] = {0};
    for (uint64_t i = 0; i < 40; i++) {
        jobs[0] += read_at(&s, 1000 + i, 0).kind == AHEAD_SIBLINGS;
        jobs[1] += read_at(&s, 90000 + i, 0).kind == AHEAD_SIBLINGS;
    }
    cr_assert_geq(jobs[0], 2);
    cr_assert_geq(jobs[1], 2);
}

Test(streams, no_siblings_at_depth_0)
{
    struct streams s = {0};
    for (uint64_t id = 5; id < 50; id++)
        cr_assert_eq(streams_seen(&s, id, 0, (struct reach){0, BLOCKS}).kind, AHEAD_NONE);
}

Test(streams, sequential_bytes_ask_for_the_next_blocks_without_gaps)
{
    struct streams s = {0};
    uint64_t asked = 0;
    const uint64_t step = 128 << 10, size = 100ull << 20;
    for (uint64_t off = 0; off < size; off += step) {
        struct ahead_job j = read_at(&s, 7, off);
        if (j.kind == AHEAD_NONE)
            continue;
        cr_assert_eq(j.kind, AHEAD_UNITS);
        cr_assert_eq(j.id, 7);
        cr_assert_eq(j.first, asked + 1);
        asked = j.last;
    }
    cr_assert_geq(asked, size / UNIT_BYTES);
}

Test(streams, what_lies_ahead_doubles_with_what_was_read)
{
    struct streams s = {0};
    uint64_t furthest = 0;
    for (uint64_t off = 0; off < 100ull << 20; off += 1 << 20) {
        struct ahead_job j = read_at(&s, 7, off);
        if (j.kind == AHEAD_NONE)
            continue;
        uint64_t ahead = j.last - off / UNIT_BYTES, read = off / UNIT_BYTES;
        cr_expect_leq(ahead, BLOCKS);
        cr_expect_leq(ahead, read ? 4 * read : 2, "%llu blocks ahead of %llu",
                      (unsigned long long)ahead, (unsigned long long)read);
        furthest = ahead > furthest ? ahead : furthest;
    }
    cr_expect_eq(furthest, BLOCKS);
}

Test(streams, streams_share_the_room_for_blocks)
{
    struct streams s = {0};
    uint64_t ahead[3] = {0};
    for (uint64_t off = 0; off < 100ull << 20; off += 1 << 20)
        for (unsigned i = 0; i < 3; i++) {
            struct ahead_job j = read_at(&s, 1000 * (i + 1), off);
            if (off > 8 << 20 && j.kind != AHEAD_NONE)
                ahead[i] = j.last - off / UNIT_BYTES;
        }
    for (unsigned i = 0; i < 3; i++)
        cr_expect_eq(ahead[i], BLOCKS / 3);
    /* Two have ended: all of it is the third's, but not at once. */
    for (uint64_t off = 100ull << 20; off < 400ull << 20; off += 1 << 20) {
        struct ahead_job j = read_at(&s, 1000, off);
        if (j.kind != AHEAD_NONE)
            ahead[0] = j.last - off / UNIT_BYTES;
    }
    cr_expect_eq(ahead[0], BLOCKS);
}

Test(streams, blocks_that_had_no_room_are_asked_for_again)
{
    struct streams s = {0};
    struct ahead_job j = {.kind = AHEAD_NONE};
    uint64_t off = 0;
    for (; j.kind == AHEAD_NONE; off += 131072)
        j = read_at(&s, 7, off);
    cr_assert(j.first == 1 && j.last == 2);
    cr_expect(streams_passed(&s, 7, 0) && !streams_passed(&s, 7, 1) && !streams_passed(&s, 8, 0));
    streams_no_room(&s, 7, 2);
    streams_no_room(&s, 8, 1); /* another sample */
    j = read_at(&s, 7, off);
    cr_expect(j.kind == AHEAD_UNITS && j.first == 2 && j.last == 2);
    j = read_at(&s, 7, off + 131072);
    cr_expect_eq(j.kind, AHEAD_NONE, "once");
}

Test(streams, a_sample_of_a_few_reads_asks_for_no_blocks)
{
    struct streams s = {0};
    for (uint64_t off = 0; off < 900 << 10; off += 128 << 10)
        cr_assert_eq(read_at(&s, 7, off).kind, AHEAD_NONE);
}

Test(streams, random_offsets_of_a_big_sample_ask_for_nothing)
{
    struct streams s = {0};
    uint64_t x = 1;
    for (int i = 0; i < 1000; i++) {
        x = x * 6364136223846793005u + 1442695040888963407u;
        cr_assert_eq(read_at(&s, 7, (x >> 20) % (1ull << 40)).kind, AHEAD_NONE);
    }
}

Test(streams, a_jump_ends_the_run)
{
    struct streams s = {0};
    for (uint64_t off = 0; off < 8 << 20; off += 1 << 20)
        read_at(&s, 7, off);
    cr_assert_eq(read_at(&s, 7, 1ull << 32).kind, AHEAD_NONE);
    cr_assert_eq(read_at(&s, 7, (1ull << 32) + (1 << 20)).kind, AHEAD_NONE);
    struct ahead_job j = read_at(&s, 7, (1ull << 32) + (2 << 20));
    cr_assert_eq(j.kind, AHEAD_UNITS);
    cr_assert_eq(j.first, (1ull << 32) / UNIT_BYTES + 1);
}
