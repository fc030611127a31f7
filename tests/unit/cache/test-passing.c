/* A unit that no tier keeps is fetched once for who reads it piece by piece. */
#include "fixture.h"

#include "clock.h"

#define UNIT  1000000u
#define PIECE 131072u
#define TINY  65536u /* a tier that keeps no such unit */

static void begin(struct rig *r, size_t pool, bool threaded)
{
    rig_begin(r, UNIT, TINY, threaded);
    pool_set_limit(r->pool, pool);
    rig_open(r);
}

static void call_ended(struct source_wait *wait, struct view *view, const struct err *err)
{
    struct call *c = (struct call *)(void *)wait;
    (void)view; /* ahead() hands out nothing */
    atomic_store(&c->done, err ? -1 : 1);
}

static void read_whole(struct rig *r, uint64_t unit)
{
    struct err err = {0};
    for (uint32_t off = 0; off < UNIT; off += PIECE)
        cr_assert_eq(rig_read(r, unit, off, PIECE, NULL, &err), 0, "%s", err.msg);
}

Test(passing, read_in_pieces_it_is_fetched_once)
{
    struct rig r;
    begin(&r, 64u << 20, false);
    for (int i = 1; i <= 3; i++) {
        read_whole(&r, 5);
        cr_expect_eq(atomic_load(&r.fake.reads), i, "once a time");
        cr_expect_eq(pool_used(r.pool), 0, "nothing is held when all of it was read");
        cr_expect_eq(cache_where(r.cache, 5), -1, "and it was never said to be cached");
    }
    cr_expect_eq(cache_counts(r.cache)->not_kept, 3);
    rig_end(&r);
}

Test(passing, read_at_once_it_is_not_held)
{
    struct rig r;
    begin(&r, 64u << 20, false);
    cr_assert_eq(rig_read(&r, 5, 0, UNIT_BYTES, NULL, NULL), 0);
    cr_expect_eq(pool_used(r.pool), 0);
    rig_end(&r);
}

Test(passing, pieces_that_waited_together_count)
{
    struct rig r;
    struct call calls[8];
    begin(&r, 64u << 20, true);
    rig_release(&r, true);
    for (int i = 0; i < 8; i++)
        cr_assert_eq(call_piece(&r, &calls[i], 5, (uint32_t)i * PIECE, PIECE), SOURCE_PENDING);
    rig_release(&r, false);
    for (int i = 0; i < 8; i++) {
        call_wait(&calls[i]);
        cr_assert(
            unit_equal(&r.catalog, 5, (uint32_t)i * PIECE, calls[i].view.ptr, calls[i].view.len));
        view_release(&calls[i].view);
    }
    cr_expect_eq(atomic_load(&r.fake.reads), 1);
    rig_close(&r); /* waits for the flight's own end */
    cr_expect_eq(pool_used(r.pool), 0);
    rig_end(&r);
}

Test(passing, the_oldest_makes_way)
{
    struct rig r;
    begin(&r, 6u << 20, false); /* a half is 3 MiB: three units */
    for (uint64_t unit = 0; unit < 4; unit++)
        cr_assert_eq(rig_read(&r, unit, 0, PIECE, NULL, NULL), 0);
    cr_expect(pool_used(r.pool) <= 3 * (UNIT + UNIT / 8), "%zu", pool_used(r.pool));
    for (uint64_t unit = 1; unit < 4; unit++)
        cr_assert_eq(rig_read(&r, unit, PIECE, PIECE, NULL, NULL), 0);
    cr_expect_eq(atomic_load(&r.fake.reads), 4);
    cr_assert_eq(rig_read(&r, 0, PIECE, PIECE, NULL, NULL), 0);
    cr_expect_eq(atomic_load(&r.fake.reads), 5);
    cr_assert_eq(rig_read(&r, 2, 0, PIECE, NULL, NULL), 0);
    cr_expect_eq(atomic_load(&r.fake.reads), 5, "1 was used before it");
    rig_end(&r);
}

Test(passing, a_smaller_pool_holds_less)
{
    struct rig r;
    begin(&r, 24u << 20, false);
    for (uint64_t unit = 0; unit < 10; unit++)
        cr_assert_eq(rig_read(&r, unit, 0, PIECE, NULL, NULL), 0);
    cr_expect(pool_used(r.pool) > 10 * UNIT);
    pool_set_limit(r.pool, 6u << 20);
    cache_pool_shrank(r.cache);
    cr_expect(pool_used(r.pool) <= 3 * (UNIT + UNIT / 8), "%zu", pool_used(r.pool));
    cr_assert_eq(rig_read(&r, 9, PIECE, PIECE, NULL, NULL), 0);
    cr_expect_eq(atomic_load(&r.fake.reads), 10, "the newest stay");
    rig_end(&r);
}

Test(passing, what_was_dropped_or_left_is_fetched_anew)
{
    struct rig r;
    begin(&r, 64u << 20, false);
    for (int i = 0; i < 3; i++) {
        cr_assert_eq(rig_read(&r, 5, 0, PIECE, NULL, NULL), 0);
        cr_expect_eq(atomic_load(&r.fake.reads), i + 1);
        if (i == 0) {
            cache_drop(r.cache, 5);
        } else if (i == 1) {
            cache_clear(r.cache);
        } else {
            clock_advance(NS_PER_S);
            passing_expire(r.cache);
            cr_expect_neq(pool_used(r.pool), 0, "it was read a moment ago");
            clock_advance(100 * NS_PER_S);
            passing_expire(r.cache);
        }
        cr_expect_eq(pool_used(r.pool), 0);
    }
    cr_assert_eq(rig_read(&r, 5, 0, PIECE, NULL, NULL), 0);
    cr_expect_eq(atomic_load(&r.fake.reads), 4);
    rig_end(&r);
}

Test(passing, a_drop_during_the_flight_holds_nothing)
{
    struct rig r;
    struct call call;
    begin(&r, 64u << 20, true);
    rig_release(&r, true);
    cr_assert_eq(call_piece(&r, &call, 5, 0, PIECE), SOURCE_PENDING);
    cache_drop(r.cache, 5);
    rig_release(&r, false);
    call_wait(&call);
    view_release(&call.view);
    slots_drain(r.cache);
    cr_expect_eq(pool_used(r.pool), 0);
    rig_end(&r);
}

static uint64_t unit_between(const struct rig *r, uint32_t least, uint32_t most)
{
    uint64_t unit = 0;
    while (unit_len(&r->catalog, unit) < least || unit_len(&r->catalog, unit) > most)
        unit++;
    return unit;
}

/* What is held leaves no memory for the large unit, whichever of the two comes first. */
static void large_after_held(bool held_first)
{
    struct rig r;
    struct call calls[2];
    rig_begin(&r, UNIT_BYTES, TINY, true);
    r.catalog.vary = true;
    pool_set_limit(r.pool, 5u << 20);
    rig_open(&r);
    writer_stop(r.cache->tiers[0]); /* whose upkeep would let it go after a while */
    rig_release(&r, true);
    uint64_t small = unit_between(&r, 1200000, 5u << 18);
    uint64_t large = unit_between(&r, UNIT_BYTES - 100000, UNIT_BYTES);
    cr_assert_eq(call_piece(&r, &calls[0], small, 0, PIECE), SOURCE_PENDING);
    if (held_first) {
        rig_release(&r, false);
        call_wait(&calls[0]);
    }
    cr_assert_eq(call_piece(&r, &calls[1], large, 0, PIECE), SOURCE_PENDING);
    rig_release(&r, false);
    for (int i = 0; i < 2; i++) {
        call_wait(&calls[i]);
        cr_assert_eq(atomic_load(&calls[i].done), 1, "%s", calls[i].err.msg);
        view_release(&calls[i].view);
    }
    rig_end(&r);
}

Test(passing, who_finds_no_memory_gets_what_is_held, .timeout = 60)
{
    large_after_held(true);
}

Test(passing, who_waits_for_memory_is_not_passed_by, .timeout = 60)
{
    large_after_held(false);
}

Test(passing, ahead_of_readers_as_far_as_there_is_room)
{
    struct rig r;
    struct call call;
    begin(&r, 12u << 20, false); /* room for three */
    cr_expect_eq(call_if_kept(&r, &call, 0), SOURCE_NO_ROOM, "it would not be kept");
    for (uint64_t unit = 0; unit < 3; unit++)
        cr_assert_eq(rig_ahead(&r, unit, NULL), 0);
    cr_expect_eq(rig_ahead(&r, 3, NULL), SOURCE_NO_ROOM);
    cr_expect_eq(rig_ahead(&r, 2, NULL), 0, "it is there");
    cr_expect_eq(atomic_load(&r.fake.reads), 3);
    read_whole(&r, 0);
    cr_expect_eq(atomic_load(&r.fake.reads), 3, "it was there");
    cr_assert_eq(rig_ahead(&r, 3, NULL), 0);
    for (uint64_t unit = 1; unit < 4; unit++)
        read_whole(&r, unit);
    cr_expect_eq(atomic_load(&r.fake.reads), 4);
    cr_expect_eq(pool_used(r.pool), 0);

    atomic_store(&r.fake.failing, true);
    cr_expect_eq(rig_ahead(&r, 0, NULL), -1);
    atomic_store(&r.fake.failing, false);
    atomic_store(&r.fake.refusing, true);
    cr_expect_eq(rig_ahead(&r, 0, NULL), -1);
    atomic_store(&r.fake.refusing, false);
    for (uint64_t unit = 0; unit < 3; unit++) /* what failed has left its room */
        cr_assert_eq(rig_ahead(&r, unit, NULL), 0);
    rig_end(&r);
}

/* A warmup that finds a reader's fetch waits for it, and asks for nothing of its own. */
Test(passing, who_waits_for_a_readers_fetch_leads_none)
{
    struct rig r;
    struct call reader, ahead;
    struct piece p = {.unit = 5, .len = UNIT_BYTES, .prio = PRIO_WARMUP, .if_kept = true};
    begin(&r, 64u << 20, true);
    p.catalog = &r.catalog;
    rig_release(&r, true);
    cr_assert_eq(call_start(&r, &reader, 5, PRIO_READER), SOURCE_PENDING);
    cr_expect_eq(call_if_kept(&r, &ahead, 5), 0, "who does not wait goes on");
    p.waits = true;
    ahead = (struct call){.wait.done = call_ended};
    cr_assert_eq(source_ahead(r.top, &p, &ahead.wait, &ahead.err), SOURCE_PENDING);
    rig_release(&r, false);
    call_wait(&reader);
    call_wait(&ahead);
    view_release(&reader.view);
    cr_expect_eq(atomic_load(&ahead.done), 1, "%s", ahead.err.msg);
    cr_expect_eq(source_ahead(r.top, &p, &ahead.wait, &ahead.err), SOURCE_NO_ROOM);
    rig_close(&r);
    cr_expect_eq(atomic_load(&r.fake.reads), 1);
    cr_expect_eq(pool_used(r.pool), 0, "nothing is held for nobody");
    rig_end(&r);
}

/* Held bytes make way for readers: they are not what work ahead leaves a part of the pool for. */
Test(passing, what_is_held_does_not_stop_what_is_kept)
{
    struct rig r;
    struct call flights[2], ahead;
    rig_begin(&r, UNIT, 64u << 20, true);
    pool_set_limit(r.pool, 8u << 20);
    rig_open(&r);
    cache_expect(r.cache, 64, 64ull * UNIT); /* all of the tier: nothing else is kept */
    cache_pin(r.cache, 100, 1, true);
    for (uint64_t unit = 1; unit <= 4; unit++)
        cr_assert_eq(rig_read(&r, unit, 0, PIECE, NULL, NULL), 0);
    cr_expect_geq(pool_used(r.pool), 4 * UNIT);
    cr_expect_eq(cache_in_flight(r.cache), 0);
    rig_release(&r, true);
    for (int i = 0; i < 2; i++)
        cr_assert_eq(call_piece(&r, &flights[i], 10 + (uint64_t)i, 0, PIECE), SOURCE_PENDING);
    cr_expect_geq(cache_in_flight(r.cache), 2 * UNIT);
    cr_expect_eq(call_if_kept(&r, &ahead, 100), SOURCE_PENDING, "%s", ahead.err.msg);
    rig_release(&r, false);
    for (int i = 0; i < 2; i++) {
        call_wait(&flights[i]);
        view_release(&flights[i].view);
    }
    rig_close(&r);
    cr_expect_eq(pool_used(r.pool), 0);
    rig_end(&r);
}

/* --- blocks of large samples ------------------------------------------------------------------ */

#define BLOCK 1048576u /* so that a pool of 8 MiB has room for four */

static void begin_blocks(struct rig *r, uint64_t tier, bool threaded)
{
    rig_begin(r, BLOCK, tier, threaded);
    r->catalog.blocks = true;
    pool_set_limit(r->pool, 8u << 20);
    rig_open(r);
}

/* Each reads its own blocks, from `from` on, a piece at a time, in turns. */
static void read_in_turns(struct rig *r, unsigned readers, uint32_t from)
{
    for (uint64_t block = 0; block < 3; block++)
        for (uint32_t off = from; off < BLOCK; off += PIECE)
            for (uint64_t i = 0; i < readers; i++)
                cr_assert_eq(rig_read(r, i * 1000 + block, off, PIECE, NULL, NULL), 0);
}

Test(passing, blocks_of_more_readers_than_there_is_room_for_are_fetched_once)
{
    struct rig r;
    begin_blocks(&r, TINY, false);
    read_in_turns(&r, 12, 0);
    cr_expect_eq(atomic_load(&r.fake.bytes), 12ull * 3 * BLOCK);
    cr_expect_eq(pool_used(r.pool), 0);
    uint64_t reads = (uint64_t)atomic_load(&r.fake.reads);
    cr_expect(reads < 12ull * 3 * BLOCK / PIECE, "those that fit are fetched whole: %llu",
              (unsigned long long)reads);
    rig_end(&r);
}

Test(passing, a_block_is_fetched_in_one_way_to_its_end)
{
    struct rig r;
    begin_blocks(&r, TINY, false);
    for (uint64_t i = 0; i < 5; i++)
        cr_assert_eq(rig_read(&r, i * 1000, 0, PIECE, NULL, NULL), 0);
    cr_expect_eq(atomic_load(&r.fake.bytes), 4 * BLOCK + PIECE, "the fifth has no room");
    for (uint64_t i = 0; i < 4; i++)
        for (uint32_t off = PIECE; off < BLOCK; off += PIECE)
            cr_assert_eq(rig_read(&r, i * 1000, off, PIECE, NULL, NULL), 0);
    cr_expect_eq(pool_used(r.pool), 0, "there is room again");
    cr_expect_eq(rig_ahead(&r, 4000, NULL), SOURCE_NO_ROOM, "it is being read already");
    for (uint32_t off = PIECE; off < BLOCK; off += PIECE)
        cr_assert_eq(rig_read(&r, 4000, off, PIECE, NULL, NULL), 0);
    cr_expect_eq(atomic_load(&r.fake.bytes), 5 * BLOCK);
    cr_assert_eq(rig_read(&r, 4000, 0, PIECE, NULL, NULL), 0);
    cr_expect_eq(atomic_load(&r.fake.bytes), 6 * BLOCK, "from its end on it is like any other");
    rig_end(&r);
}

/* What ends at once is no block to be remembered in the place of one. */
Test(passing, ends_of_blocks_do_not_push_out_those_that_are_read)
{
    struct rig r;
    begin_blocks(&r, TINY, false);
    for (uint64_t i = 0; i < 5; i++) /* the last is fetched as it is read */
        cr_assert_eq(rig_read(&r, i * 1000, 0, PIECE, NULL, NULL), 0);
    for (uint64_t i = 0; i < PASSING_ALONE; i++)
        cr_assert_eq(rig_read(&r, 100000 + i, BLOCK - PIECE, PIECE, NULL, NULL), 0);
    passing_clear(r.cache);
    uint64_t before = atomic_load(&r.fake.bytes);
    cr_assert_eq(rig_read(&r, 4000, PIECE, PIECE, NULL, NULL), 0);
    cr_expect_eq(atomic_load(&r.fake.bytes) - before, PIECE);
    rig_end(&r);
}

Test(passing, what_nobody_has_read_for_some_time_makes_way_for_a_block)
{
    struct rig r;
    begin_blocks(&r, TINY, false);
    for (uint64_t i = 0; i < 4; i++)
        cr_assert_eq(rig_read(&r, i * 1000, 0, PIECE, NULL, NULL), 0);
    clock_advance(10 * NS_PER_S);
    cr_assert_eq(rig_read(&r, 1000, PIECE, PIECE, NULL, NULL), 0);
    cr_assert_eq(rig_read(&r, 4000, 0, PIECE, NULL, NULL), 0);
    cr_assert_eq(rig_read(&r, 4000, PIECE, PIECE, NULL, NULL), 0);
    cr_assert_eq(rig_read(&r, 1000, PIECE, PIECE, NULL, NULL), 0);
    cr_expect_eq(atomic_load(&r.fake.bytes), 5 * BLOCK);
    for (uint64_t i = 4; i < 8; i++) /* the last finds no more room */
        cr_assert_eq(rig_read(&r, i * 1000, 0, PIECE, NULL, NULL), 0);
    cr_expect_eq(atomic_load(&r.fake.bytes), 7 * BLOCK + PIECE);
    clock_advance(100 * NS_PER_S);
    cr_assert_eq(rig_read(&r, 7000, PIECE, PIECE, NULL, NULL), 0);
    cr_expect_eq(atomic_load(&r.fake.bytes), 8 * BLOCK + PIECE, "whole, after so long");
    rig_end(&r);
}

Test(passing, a_block_that_a_tier_keeps_is_fetched_whole)
{
    struct rig r;
    begin_blocks(&r, 64u << 20, false);
    for (int round = 0; round < 2; round++)
        read_in_turns(&r, 12, PIECE);
    cr_expect_eq(atomic_load(&r.fake.bytes), 12ull * 3 * BLOCK);
    cr_expect_eq(cache_counts(r.cache)->not_kept, 0);
    rig_end(&r);
}

Test(passing, more_blocks_under_way_than_may_pass_are_fetched_whole_for_a_tier)
{
    struct rig r;
    struct call calls[6];
    begin_blocks(&r, 64u << 20, true);
    rig_release(&r, true);
    for (uint64_t i = 0; i < 6; i++)
        cr_assert_eq(call_piece(&r, &calls[i], i * 1000, 0, PIECE), SOURCE_PENDING);
    rig_release(&r, false);
    for (int i = 0; i < 6; i++) {
        call_wait(&calls[i]);
        view_release(&calls[i].view);
    }
    cr_expect_eq(atomic_load(&r.fake.bytes), 6 * BLOCK);
    rig_end(&r);
}

Test(passing, a_piece_alone_that_fails_leaves_nothing)
{
    struct rig r;
    struct err err = {0};
    begin_blocks(&r, TINY, true);
    for (uint64_t i = 0; i < 4; i++)
        cr_assert_eq(rig_read(&r, i * 1000, 0, PIECE, NULL, NULL), 0);
    atomic_store(&r.fake.failing, true);
    cr_expect_eq(rig_read(&r, 4000, 0, PIECE, NULL, &err), -1);
    cr_expect_eq(err.class, ERR_TRANSIENT);
    atomic_store(&r.fake.failing, false);
    atomic_store(&r.fake.refusing, true);
    cr_expect_eq(rig_read(&r, 4000, 0, PIECE, NULL, NULL), -1);
    atomic_store(&r.fake.refusing, false);
    atomic_store(&r.fake.short_answers, true);
    cr_expect_eq(rig_read(&r, 4000, 0, PIECE, NULL, NULL), -1);
    atomic_store(&r.fake.short_answers, false);
    cr_assert_eq(rig_read(&r, 4000, PIECE, 1, NULL, NULL), 0);
    cr_expect_eq(atomic_load(&r.fake.bytes), 4 * BLOCK + PIECE + 1);
    passing_clear(r.cache);
    rig_close(&r);
    cr_expect_eq(pool_used(r.pool), 0);
    rig_end(&r);
    cr_expect_eq(atomic_load(&r.catalog.refs), 0);
}
