/* One flight a unit: leaders, waiters, errors, readers without memory. */
#include "fixture.h"

Test(flight, states_follow_the_table)
{
    struct rig r;
    enum origin from;
    rig_begin(&r, 115000, 64u << 20, false);
    rig_open(&r);
    cr_assert_eq(cache_where(r.cache, 7), -1);
    cr_assert_eq(rig_read(&r, 7, 0, UNIT_BYTES, &from, NULL), 0);
    cr_assert_eq(from, FROM_STORE);
    cr_assert_eq(cache_flush(r.cache, NULL), 0);
    cr_assert_eq(cache_where(r.cache, 7), 0);
    cr_assert_eq(rig_read(&r, 7, 100, 5000, &from, NULL), 0);
    cr_assert_eq(from, FROM_DISK);
    cr_assert_eq(rig_read(&r, 7, 114999, 5000, &from, NULL), 0);
    cr_assert_eq(rig_read(&r, 7, 200000, 5, &from, NULL), 0);
    cr_assert_eq(atomic_load(&r.fake.reads), 1);
    cr_assert(cache_has_all(r.cache, 7, 1));
    cr_assert_not(cache_has_all(r.cache, 7, 2));
    struct cache_stat st;
    cache_stat(r.cache, &st);
    cr_assert_eq(st.units, 1);
    cr_assert_eq(st.samples, 1);
    cr_assert_eq(st.bytes, 115000);
    cache_drop(r.cache, 7);
    cr_assert_eq(cache_where(r.cache, 7), -1);
    cache_stat(r.cache, &st);
    cr_assert_eq(st.units, 0);
    cr_assert_eq(rig_read(&r, 7, 0, UNIT_BYTES, &from, NULL), 0);
    cr_assert_eq(atomic_load(&r.fake.reads), 2);
    rig_end(&r);
}

Test(flight, sizes)
{
    static const uint32_t sizes[] = {0,      1,      63,     64,      4096,   131071,
                                     131072, 131073, 262144, 1000000, 4194304};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        struct rig r;
        rig_begin(&r, sizes[i], 64u << 20, false);
        rig_open(&r);
        rig_fill(&r, 5, 3);
        cr_assert(cache_has_all(r.cache, 5, 3), "%u bytes", sizes[i]);
        for (uint64_t u = 5; u < 8; u++) {
            cr_assert_eq(rig_read(&r, u, 0, UNIT_BYTES, NULL, NULL), 0);
            cr_assert_eq(rig_read(&r, u, sizes[i] / 2, 200000, NULL, NULL), 0);
        }
        cr_assert_eq(cache_counts(r.cache)->corrupt, 0);
        cr_assert_eq(atomic_load(&r.fake.reads), sizes[i] ? 3 : 0);
        rig_end(&r);
    }
}

Test(flight, many_readers_one_flight)
{
    struct rig r;
    struct call calls[32];
    rig_begin(&r, 115000, 64u << 20, true);
    rig_open(&r);
    rig_release(&r, true);
    for (int i = 0; i < 32; i++)
        cr_assert_eq(call_start(&r, &calls[i], 9, i ? PRIO_READER : PRIO_WARMUP), SOURCE_PENDING);
    cr_assert_eq(atomic_load(&r.fake.raised), 1);
    rig_release(&r, false);
    for (int i = 0; i < 32; i++) {
        call_wait(&calls[i]);
        cr_assert_eq(atomic_load(&calls[i].done), 1);
        cr_assert(unit_equal(&r.catalog, 9, 0, calls[i].view.ptr, 115000));
        view_release(&calls[i].view);
    }
    cr_assert_eq(atomic_load(&r.fake.reads), 1);
    cr_assert_eq(cache_counts(r.cache)->misses, 1);
    cr_assert_eq(cache_counts(r.cache)->waits, 31);
    rig_end(&r);
}

Test(flight, an_error_reaches_all_and_leaves_nothing)
{
    struct rig r;
    struct call calls[4];
    rig_begin(&r, 5000, 64u << 20, true);
    rig_open(&r);
    rig_release(&r, true);
    atomic_store(&r.fake.failing, true);
    for (int i = 0; i < 4; i++)
        call_start(&r, &calls[i], 1, PRIO_READER);
    rig_release(&r, false);
    for (int i = 0; i < 4; i++) {
        call_wait(&calls[i]);
        cr_assert_eq(atomic_load(&calls[i].done), -1);
        cr_assert_str_eq(calls[i].err.msg, "the store is down");
    }
    cr_assert_eq(cache_where(r.cache, 1), -1);
    atomic_store(&r.fake.failing, false);
    cr_assert_eq(rig_read(&r, 1, 0, UNIT_BYTES, NULL, NULL), 0);
    rig_end(&r);
}

Test(flight, a_wrong_length_is_never_delivered)
{
    struct rig r;
    struct err err = {0};
    rig_begin(&r, 5000, 64u << 20, false);
    rig_open(&r);
    atomic_store(&r.fake.short_answers, true);
    cr_assert_eq(rig_read(&r, 3, 0, UNIT_BYTES, NULL, &err), -1);
    cr_assert_eq(err.class, ERR_CORRUPT);
    cr_assert_str_eq(err.msg, "unit 3: the source gave 2500 bytes, want 5000");
    atomic_store(&r.fake.short_answers, false);
    atomic_store(&r.fake.refusing, true);
    cr_assert_eq(rig_read(&r, 3, 0, UNIT_BYTES, NULL, &err), -1);
    cr_assert_eq(err.class, ERR_LIMIT);
    atomic_store(&r.fake.refusing, false);
    cr_assert_eq(rig_read(&r, 3, 0, UNIT_BYTES, NULL, &err), 0);
    rig_end(&r);
}

Test(flight, readers_wait_for_memory_and_work_ahead_is_refused)
{
    struct rig r;
    struct call calls[40];
    struct err err = {0};
    rig_begin(&r, 200000, 64u << 20, true);
    pool_set_limit(r.pool, 1u << 20);
    rig_open(&r);
    rig_release(&r, true);
    for (int i = 0; i < 40; i++)
        cr_assert_eq(call_start(&r, &calls[i], (uint64_t)i, PRIO_READER), SOURCE_PENDING);
    cr_assert_eq(rig_ahead(&r, 100, &err), -1);
    cr_assert_eq(err.class, ERR_LIMIT);
    cr_assert(pool_used(r.pool) <= 1u << 20);
    rig_release(&r, false);
    for (int i = 0; i < 40; i++) {
        call_wait(&calls[i]);
        cr_assert_eq(atomic_load(&calls[i].done), 1, "%s", calls[i].err.msg);
        cr_assert(unit_equal(&r.catalog, (uint64_t)i, 0, calls[i].view.ptr, 200000));
        view_release(&calls[i].view);
    }
    cr_assert_eq(atomic_load(&r.fake.reads), 40);
    rig_end(&r);
}

Test(flight, a_unit_larger_than_the_pool_is_an_error)
{
    struct rig r;
    struct err err = {0};
    rig_begin(&r, 4u << 20, 64u << 20, false);
    pool_set_limit(r.pool, 1u << 20);
    rig_open(&r);
    cr_assert_eq(rig_read(&r, 1, 0, UNIT_BYTES, NULL, &err), -1);
    cr_assert_eq(err.class, ERR_LIMIT);
    rig_end(&r);
}

Test(flight, few_slots_serve_many_readers)
{
    struct rig r;
    struct call calls[64];
    rig_begin(&r, 3000, 64u << 20, true);
    r.conf.fills_max = 4;
    rig_open(&r);
    for (int i = 0; i < 64; i++)
        call_start(&r, &calls[i], (uint64_t)i / 2, PRIO_READER);
    for (int i = 0; i < 64; i++) {
        call_wait(&calls[i]);
        cr_assert_eq(atomic_load(&calls[i].done), 1, "%s", calls[i].err.msg);
        view_release(&calls[i].view);
    }
    cr_assert_eq(cache_flush(r.cache, NULL), 0); /* all slots are free again */
    cr_assert_eq(rig_ahead(&r, 200, NULL), 0);
    cr_assert_eq(cache_flush(r.cache, NULL), 0);
    cr_assert(cache_has_all(r.cache, 200, 1));
    rig_end(&r);
}

/* Its reader asks an older version then, which it can't do for an answer that comes later. */
Test(flight, a_unit_of_another_version_is_told_at_once_though_readers_wait_for_room)
{
    struct rig r;
    struct call calls[2], other;
    rig_begin(&r, 3000, 64u << 20, true);
    r.conf.fills_max = 1;
    r.catalog.end = 100;
    rig_open(&r);
    rig_release(&r, true);
    for (int i = 0; i < 2; i++)
        cr_assert_eq(call_start(&r, &calls[i], (uint64_t)i, PRIO_READER), SOURCE_PENDING);
    cr_assert_eq(call_start(&r, &other, 100, PRIO_READER), -1);
    cr_assert_eq(other.err.class, ERR_NOT_FOUND);
    rig_release(&r, false);
    for (int i = 0; i < 2; i++) {
        call_wait(&calls[i]);
        cr_assert_eq(atomic_load(&calls[i].done), 1, "%s", calls[i].err.msg);
        view_release(&calls[i].view);
    }
    rig_end(&r);
}

struct reader {
    struct rig *r;
    unsigned seed;
};

static void *read_random(void *arg)
{
    struct reader *me = arg;
    for (int i = 0; i < 3000; i++) {
        uint64_t unit = (uint64_t)rand_r(&me->seed) % 200;
        struct err err = {0};
        if (i % 50 == 0)
            cache_drop(me->r->cache, unit);
        else if (i % 7 == 0)
            rig_ahead(me->r, unit, &err);
        else
            cr_assert_eq(
                rig_read(me->r, unit, (uint32_t)rand_r(&me->seed) % 9000, 5000, NULL, &err), 0,
                "%s", err.msg);
    }
    return NULL;
}

Test(flight, eight_threads_read_and_drop)
{
    struct rig r;
    struct reader me[8];
    pthread_t threads[8];
    rig_begin(&r, 10000, 64u << 20, true);
    rig_open(&r);
    for (unsigned i = 0; i < 8; i++) {
        me[i] = (struct reader){&r, i + 1};
        thread_start(&threads[i], "reader", read_random, &me[i]);
    }
    for (int i = 0; i < 8; i++)
        pthread_join(threads[i], NULL);
    cr_assert_eq(cache_counts(r.cache)->corrupt, 0);
    rig_end(&r);
}

/* --- taking back ------------------------------------------------------------------------------ */

static void give_up(struct rig *r, atomic_bool *token)
{
    atomic_store(token, true);
    source_give_up(r->top);
}

static void expect_nothing_held(struct rig *r)
{
    cr_assert_eq(cache_flush(r->cache, NULL), 0);
    slots_drain(r->cache);
    cr_expect_eq(pool_used(r->pool), 0);
    cr_expect_eq(r->cache->slots.n_used, 0);
    cr_expect_eq(r->cache->tiers[0]->reserved, 0);
    cr_expect_eq(atomic_load(&r->catalog.refs), 0);
}

Test(flight, what_is_given_up_by_all_ends_and_leaves_nothing)
{
    enum { N = 20 };
    struct rig r;
    struct call calls[N];
    atomic_bool token = false;
    rig_begin(&r, 115000, 64u << 20, true);
    rig_open(&r);
    rig_release(&r, true);
    for (int i = 0; i < N; i++) /* two a unit */
        cr_assert_eq(call_ahead(&r, &calls[i], (uint64_t)i / 2, &token), SOURCE_PENDING);
    give_up(&r, &token);
    for (int i = 0; i < N; i++) {
        cr_assert_eq(atomic_load(&calls[i].done), -1);
        cr_assert_eq(calls[i].err.class, ERR_CANCELLED);
    }
    expect_nothing_held(&r);
    rig_release(&r, false);
    rig_fill(&r, 0, N / 2);
    cr_expect_eq(atomic_load(&r.fake.reads), N);
    expect_nothing_held(&r);
    rig_end(&r);
}

Test(flight, what_another_waits_for_goes_on)
{
    struct rig r;
    struct call ours, reader, theirs;
    atomic_bool token = false, other = false;
    rig_begin(&r, 115000, 64u << 20, true);
    rig_open(&r);
    rig_release(&r, true);
    call_ahead(&r, &ours, 3, &token);
    call_start(&r, &reader, 3, PRIO_READER);
    call_ahead(&r, &theirs, 3, &other);
    give_up(&r, &token);
    cr_assert_eq(atomic_load(&ours.done), -1);
    cr_assert_eq(atomic_load(&reader.done), 0);
    cr_assert_eq(atomic_load(&theirs.done), 0);
    rig_release(&r, false);
    call_wait(&reader);
    call_wait(&theirs);
    cr_assert_eq(atomic_load(&reader.done), 1);
    cr_assert_eq(atomic_load(&theirs.done), 1);
    cr_expect(unit_equal(&r.catalog, 3, 0, reader.view.ptr, 115000));
    view_release(&reader.view);
    cr_expect_eq(atomic_load(&r.fake.reads), 1);
    expect_nothing_held(&r);
    rig_end(&r);
}

Test(flight, who_joins_what_is_given_up_begins_anew)
{
    struct rig r;
    struct call ours, reader, ahead;
    atomic_bool token = false;
    rig_begin(&r, 115000, 64u << 20, true);
    rig_open(&r);
    rig_release(&r, true);
    atomic_store(&r.fake.stubborn, true);
    call_ahead(&r, &ours, 3, &token);
    give_up(&r, &token);
    cr_assert_eq(atomic_load(&ours.done), -1);
    call_start(&r, &reader, 3, PRIO_READER);
    call_ahead(&r, &ahead, 3, NULL);
    cr_assert_eq(fake_end_unwanted(&r.fake), 1);
    cr_expect_eq(atomic_load(&ahead.done), -1);
    cr_expect_eq(ahead.err.class, ERR_LIMIT, "work ahead is to be tried again");
    cr_assert_eq(atomic_load(&reader.done), 0);
    rig_release(&r, false);
    call_wait(&reader);
    cr_assert_eq(atomic_load(&reader.done), 1, "%s", reader.err.msg);
    cr_expect(unit_equal(&r.catalog, 3, 0, reader.view.ptr, 115000));
    view_release(&reader.view);
    cr_expect_eq(atomic_load(&r.fake.reads), 2);
    expect_nothing_held(&r);
    rig_end(&r);
}

Test(flight, bytes_that_come_all_the_same_are_kept)
{
    struct rig r;
    struct call ours;
    atomic_bool token = false;
    rig_begin(&r, 115000, 64u << 20, true);
    rig_open(&r);
    rig_release(&r, true);
    atomic_store(&r.fake.stubborn, true);
    call_ahead(&r, &ours, 3, &token);
    give_up(&r, &token);
    cr_assert_eq(atomic_load(&ours.done), -1);
    rig_release(&r, false);
    rig_fill(&r, 3, 1);
    cr_expect_eq(atomic_load(&r.fake.reads), 1);
    expect_nothing_held(&r);
    rig_end(&r);
}

struct taker {
    struct rig *r;
    atomic_bool token;
};

static void take_back(void *arg)
{
    struct taker *t = arg;
    give_up(t->r, &t->token);
}

Test(flight, who_is_given_up_while_the_source_refuses_is_answered_once)
{
    struct rig r;
    struct call ours;
    struct taker taker = {.r = &r};
    rig_begin(&r, 115000, 64u << 20, true);
    rig_open(&r);
    r.fake.on_refusal = take_back;
    r.fake.on_refusal_arg = &taker;
    atomic_store(&r.fake.refusing, true);
    cr_expect_eq(call_ahead(&r, &ours, 3, &taker.token), SOURCE_PENDING);
    cr_expect_eq(atomic_load(&ours.done), -1);
    cr_expect_eq(ours.err.class, ERR_CANCELLED);
    expect_nothing_held(&r);
    rig_end(&r);
}

/* It may lie in memory still, on its way to a pack. */
Test(flight, what_was_dropped_and_is_asked_for_ahead_again_is_kept)
{
    struct rig r;
    rig_begin(&r, 115000, 64u << 20, true);
    rig_open(&r);
    for (uint64_t unit = 0; unit < 64; unit++) {
        cr_assert_eq(rig_ahead(&r, unit, NULL), 0);
        cache_drop(r.cache, unit);
        cr_assert_eq(rig_ahead(&r, unit, NULL), 0);
    }
    cr_assert_eq(cache_flush(r.cache, NULL), 0);
    cr_expect(cache_has_all(r.cache, 0, 64));
    rig_end(&r);
}

/* And so may be what was dropped while it came. */
Test(flight, what_was_dropped_on_its_way_and_is_asked_for_again_is_kept)
{
    struct rig r;
    struct call calls[2];
    rig_begin(&r, 115000, 64u << 20, true);
    rig_open(&r);
    rig_release(&r, true);
    cr_assert_eq(call_if_kept(&r, &calls[0], 7), SOURCE_PENDING);
    cache_drop(r.cache, 7);
    cr_assert_eq(call_if_kept(&r, &calls[1], 7), SOURCE_PENDING);
    rig_release(&r, false);
    call_wait(&calls[0]);
    call_wait(&calls[1]);
    cr_assert_eq(cache_flush(r.cache, NULL), 0);
    cr_expect(cache_has_all(r.cache, 7, 1));
    cr_expect_eq(atomic_load(&r.fake.reads), 1);
    rig_end(&r);
}
