/* Making room while views are held; pins; leases; packs that shrink. */
#include "fixture.h"

#include <fcntl.h>
#include <string.h>

#include "clock.h"

Test(evict, clear_leaves_views_readable)
{
    struct rig r;
    struct call c;
    struct cache_stat st;
    rig_begin(&r, 100000, 64u << 20, false);
    rig_open(&r);
    rig_fill(&r, 1, 20);
    cr_assert_eq(call_start(&r, &c, 3, PRIO_READER), 0);
    cache_clear(r.cache);
    cache_stat(r.cache, &st);
    cr_assert_eq(st.units, 0);
    cr_assert(st.tiers[0].used > 2000000, "the view still holds the pack");
    cr_assert(unit_equal(&r.catalog, 3, 0, c.view.ptr, c.view.len));
    view_release(&c.view);
    cache_stat(r.cache, &st);
    cr_assert(st.tiers[0].used < 200000, "%llu", (unsigned long long)st.tiers[0].used);
    cr_assert(folder_size(r.dir) < 200000);
    cr_assert_eq(counter_get(&cache_counts(r.cache)->retired_packs), 1);
    rig_fill(&r, 1, 20);
    cr_assert(cache_has_all(r.cache, 1, 20));
    rig_end(&r);
}

Test(evict, another_lineage_empties_and_the_same_keeps)
{
    struct rig r;
    rig_begin(&r, 100000, 64u << 20, false);
    rig_open(&r);
    cr_assert_eq(cache_bind(r.cache, 7, NULL), 0);
    rig_fill(&r, 1, 20);
    rig_close(&r);
    uint64_t before = folder_size(r.dir);
    rig_open(&r);
    cr_assert_eq(cache_bind(r.cache, 7, NULL), 0);
    cr_assert(cache_has_all(r.cache, 1, 20));
    cr_assert_eq(cache_bind(r.cache, 0x7fffffffffffffff, NULL), 0);
    cr_assert(!cache_has_all(r.cache, 1, 1));
    rig_fill(&r, 1, 20);
    rig_close(&r);
    cr_assert_eq(folder_size(r.dir), before, "the marker keeps its size");
    rig_open(&r);
    cr_assert_eq(cache_bind(r.cache, 0x7fffffffffffffff, NULL), 0);
    cr_assert(cache_has_all(r.cache, 1, 20));
    rig_close(&r);

    /* A tier that is new beside it is no reason to begin anew. */
    char *more = xasprintf("%s-more", r.dir);
    r.conf.tiers[1] = (struct tier_conf){.kind = TIER_SSD, .dir = more, .limit = 64u << 20};
    r.conf.n_tiers = 2;
    rig_open(&r);
    cr_assert_eq(cache_bind(r.cache, 0x7fffffffffffffff, NULL), 0);
    cr_assert(cache_has_all(r.cache, 1, 20));
    more = xstrdup(more);
    rig_end(&r); /* frees the tiers' names */
    rig_remove(more);
    free(more);
}

Test(evict, to_a_size_keeps_the_pinned)
{
    struct rig r;
    struct cache_stat st;
    rig_begin(&r, 100000, 64u << 20, false);
    rig_open(&r);
    for (uint64_t u = 30; u < 35; u++)
        cache_pin(r.cache, u, 1, true);
    rig_fill(&r, 1, 50);
    uint64_t index = index_bytes(&r.cache->index);
    static const uint64_t sizes[] = {4000000, 2000000, 1000000, 550000};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        cache_evict_to(r.cache, sizes[i]);
        uint64_t packs = folder_size(r.dir) - index;
        cr_assert(packs <= sizes[i] + 200, "%llu", (unsigned long long)packs);
        cr_assert(packs >= sizes[i] - 210000, "%llu", (unsigned long long)packs);
        cr_assert(cache_has_all(r.cache, 30, 5));
    }
    for (uint64_t u = 1; u <= 50; u++)
        if (cache_where(r.cache, u) >= 0)
            cr_assert_eq(cache_verify(r.cache, u, NULL), 0);
    cache_evict_to(r.cache, 0);
    cache_stat(r.cache, &st);
    cr_assert_eq(st.units, 0);
    rig_end(&r);
}

Test(evict, packs_that_are_mostly_garbage_are_rewritten)
{
    struct rig r;
    struct call c;
    rig_begin(&r, 1u << 20, 256u << 20, false);
    rig_open(&r);
    rig_fill(&r, 1, 100); /* more than one pack */
    uint64_t before = folder_size(r.dir);
    cr_assert_eq(call_start(&r, &c, 2, PRIO_READER), 0);
    for (uint64_t u = 1; u <= 100; u++)
        if (u % 5)
            cache_drop(r.cache, u);
    writer_poke(r.cache->tiers[0]);
    for (int i = 0; i < 30000 && folder_size(r.dir) > before / 2 + (10u << 20); i++)
        usleep(10000);
    cr_assert(folder_size(r.dir) <= before * 6 / 10, "%llu",
              (unsigned long long)folder_size(r.dir));
    cr_assert(unit_equal(&r.catalog, 2, 0, c.view.ptr, c.view.len));
    view_release(&c.view);
    for (uint64_t u = 5; u <= 100; u += 5)
        cr_assert_eq(cache_verify(r.cache, u, NULL), 0);
    rig_close(&r);
    rig_open(&r);
    for (uint64_t u = 5; u <= 100; u += 5)
        cr_assert_eq(cache_verify(r.cache, u, NULL), 0);
    cr_assert_eq(atomic_load(&r.fake.reads), 100);
    rig_end(&r);
}

Test(evict, idle_units_go_for_pinned_newcomers)
{
    struct rig r;
    rig_begin(&r, 1000000, 64u << 20, false);
    rig_open(&r);
    rig_fill(&r, 1, 80);
    clock_advance(2 * 60 * 60 * NS_PER_S);
    cache_tick(r.cache);
    for (uint64_t u = 20; u <= 40; u++)
        cr_assert_eq(rig_read(&r, u, 0, 10, NULL, NULL), 0);
    cache_pin(r.cache, 500, 1, true);
    int i = 0;
    while (i++ < 60000 && cache_where(r.cache, 500) < 0) {
        rig_ahead(&r, 500, NULL);
        usleep(5000);
    }
    cr_assert_eq(cache_where(r.cache, 500), 0);
    int recent = 0;
    for (uint64_t u = 20; u <= 35; u++)
        recent += cache_where(r.cache, u) == 0;
    cr_assert(recent >= 10, "%d", recent);
    cr_assert(folder_size(r.dir) <= 64u << 20);
    rig_end(&r);
}

/* Pinned and not, side by side in every pack: what is pinned stays, and all else may go for it. */
static void pin_every_third(struct rig *r, uint64_t n)
{
    for (uint64_t u = 3; u <= n; u += 3)
        cache_pin(r->cache, u, 1, true);
    rig_fill(r, 1, n);
}

Test(evict, room_is_made_of_the_unpinned_alone)
{
    struct rig r;
    struct cache_stat st;
    rig_begin(&r, 500000, 256u << 20, false);
    rig_open(&r);
    pin_every_third(&r, 120); /* four packs of 16 MiB */
    cache_make_room(r.cache, UINT64_MAX / 2);
    for (uint64_t u = 3; u <= 120; u += 3)
        cr_expect_eq(cache_where(r.cache, u), 0, "%llu", (unsigned long long)u);
    cache_stat(r.cache, &st);
    cr_expect_eq(st.units, 40, "%llu", (unsigned long long)st.units);
    cr_expect(st.tiers[0].used < 41 * 500000, "%llu", (unsigned long long)st.tiers[0].used);
    uint64_t used = st.tiers[0].used;
    /* All that is left is pinned: there is nothing to be had. */
    cache_make_room(r.cache, UINT64_MAX / 2);
    cache_stat(r.cache, &st);
    cr_expect_eq(st.units, 40);
    cr_expect_eq(st.tiers[0].used, used);
    rig_end(&r);
}

/* A pack with one small unit gets no smaller by being copied, as often as it may be. */
Test(evict, what_is_reclaimed_comes_to_an_end)
{
    struct rig r;
    rig_begin(&r, 100, 64u << 20, false);
    rig_open(&r);
    rig_fill(&r, 1, 3);
    cache_reclaim(r.cache, UINT64_MAX / 2);
    cache_drop(r.cache, 1);
    cache_drop(r.cache, 2);
    cache_reclaim(r.cache, UINT64_MAX / 2);
    cr_expect_eq(cache_where(r.cache, 3), 0);
    cache_drop(r.cache, 3);
    cache_reclaim(r.cache, UINT64_MAX / 2);
    struct cache_stat st;
    cache_stat(r.cache, &st);
    cr_expect_eq(st.units, 0);
    rig_end(&r);
}

/* In a full tier no pack can be copied: what stays goes through memory. */
Test(evict, a_full_tier_spares_the_pinned)
{
    struct rig r;
    int lost = 0, pinned = 0;
    rig_begin(&r, 500000, 128u << 20, false);
    rig_open(&r);
    pin_every_third(&r, 400);
    for (uint64_t u = 3; u <= 400; u += 3)
        pinned += cache_where(r.cache, u) == 0;
    cr_assert(pinned > 80, "%d", pinned);
    cache_make_room(r.cache, 60u << 20);
    for (uint64_t u = 3; u <= 3 * (uint64_t)pinned; u += 3)
        lost += cache_where(r.cache, u) != 0;
    cr_expect_eq(lost, 0, "%d of %d", lost, pinned);
    cr_expect(cache_room(r.cache) > 40u << 20, "%llu", (unsigned long long)cache_room(r.cache));
    rig_end(&r);
}

/* Fills the tier to its limit and drops four of five: garbage in every pack. How many stay. */
static uint64_t full_of_garbage(struct rig *r, uint64_t *ret_last)
{
    uint64_t stay = 0, last = 0;
    rig_fill(r, 1, 400);
    for (uint64_t u = 1; u <= 400; u++)
        last = cache_where(r->cache, u) == 0 ? u : last;
    for (uint64_t u = 1; u <= last; u++) {
        if (u % 5)
            cache_drop(r->cache, u);
        else
            stay += cache_where(r->cache, u) == 0;
    }
    *ret_last = last;
    return stay;
}

Test(evict, garbage_of_a_full_tier_is_got_back_without_loss)
{
    struct rig r;
    struct cache_stat st;
    uint64_t last;
    rig_begin(&r, 500000, 128u << 20, false);
    rig_open(&r);
    uint64_t stay = full_of_garbage(&r, &last);
    cr_assert(stay > 40, "%llu", (unsigned long long)stay);
    cache_reclaim(r.cache, UINT64_MAX / 2);
    cr_assert_eq(cache_flush(r.cache, NULL), 0);
    for (uint64_t u = 5; u <= last; u += 5) {
        enum origin from;
        cr_assert_eq(rig_read(&r, u, 0, 500000, &from, NULL), 0);
        cr_expect_eq(from, FROM_DISK, "%llu", (unsigned long long)u);
    }
    cache_stat(r.cache, &st);
    cr_expect_eq(st.units, stay, "%llu of %llu", (unsigned long long)st.units,
                 (unsigned long long)stay);
    cr_expect(st.tiers[0].used < (stay + 20) * 500400, "%llu",
              (unsigned long long)st.tiers[0].used);
    cr_expect(folder_size(r.dir) <= 128u << 20);
    rig_end(&r);
}

/* A byte of the record of each unit that stays first in its pack. How many. */
static uint64_t damage_each_pack(struct rig *r, uint64_t last)
{
    uint64_t n = 0;
    struct place e, before = {.pack = UINT32_MAX};
    for (uint64_t u = 5; u <= last; u += 5, before = e) {
        char name[32];
        cr_assert(index_load(&r->cache->index, u, &e));
        if (e.pack == before.pack)
            continue;
        pack_name(name, e.pack, "pack");
        cleanup_close int fd = open(rig_path(r, name), O_WRONLY);
        cr_assert_eq(pwrite(fd, "\x55\xaa", 2, (off_t)(place_offset(&e) + e.stored / 2)), 2);
        n++;
    }
    return n;
}

Test(evict, garbage_of_a_full_tier_is_got_back_though_records_are_bad)
{
    struct rig r;
    struct cache_stat st;
    uint64_t last;
    rig_begin(&r, 500000, 128u << 20, false);
    rig_open(&r);
    uint64_t stay = full_of_garbage(&r, &last), bad = damage_each_pack(&r, last);
    cr_assert(bad > 10, "%llu packs", (unsigned long long)bad);
    cache_reclaim(r.cache, UINT64_MAX / 2);
    cr_assert_eq(cache_flush(r.cache, NULL), 0);
    cache_stat(r.cache, &st);
    cr_expect_eq(st.units, stay - bad, "%llu of %llu", (unsigned long long)st.units,
                 (unsigned long long)stay);
    cr_expect_eq(counter_get(&cache_counts(r.cache)->corrupt), bad);
    cr_expect(st.tiers[0].used < (stay + 20) * 500400, "%llu",
              (unsigned long long)st.tiers[0].used);
    rig_end(&r);
}

/* Others are read at the same time, and are kept only as far as the pinned will still fit. */
Test(evict, what_is_expected_finds_its_room)
{
    struct rig r;
    struct call c;
    int others = 0;
    rig_begin(&r, 1000000, 64u << 20, false);
    rig_open(&r);
    cache_expect(r.cache, 40, 40 * 1000400);
    for (uint64_t u = 100; u < 140; u++)
        cache_pin(r.cache, u, 1, true);
    for (uint64_t u = 1; u <= 80; u++)
        cr_assert_eq(rig_read(&r, u, 0, 10, NULL, NULL), 0);
    cr_assert_eq(cache_flush(r.cache, NULL), 0);
    for (uint64_t u = 1; u <= 80; u++)
        others += cache_where(r.cache, u) == 0;
    cr_expect(others >= 10 && others <= 24, "%d", others);
    int asked = atomic_load(&r.fake.reads);
    cr_expect_eq(call_if_kept(&r, &c, 90), SOURCE_NO_ROOM);
    cr_expect_eq(atomic_load(&r.fake.reads), asked);
    cr_expect_eq(call_if_kept(&r, &c, 100), SOURCE_PENDING);
    for (uint64_t u = 100; u < 140; u++)
        cr_assert_eq(rig_read(&r, u, 0, 10, NULL, NULL), 0);
    cr_assert_eq(cache_flush(r.cache, NULL), 0);
    cr_expect(cache_has_all(r.cache, 100, 40));
    rig_end(&r);
}

Test(evict, a_lease_reads_the_stored_bytes)
{
    struct rig r;
    struct extent x;
    struct cache_stat st;
    struct err err = {0};
    unsigned char bytes[5000];
    rig_begin(&r, 5000, 64u << 20, false);
    rig_open(&r);
    rig_fill(&r, 1, 3);
    cr_assert_eq(cache_extent_lease(r.cache, 9, &x, &err), -1);
    cr_assert_eq(err.class, ERR_NOT_FOUND);
    cr_assert_eq(cache_extent_lease(r.cache, 2, &x, &err), 0);
    cache_clear(r.cache);
    cr_assert_eq(pread(x.fd, bytes, x.stored, (off_t)x.offset), 5000);
    cr_assert(unit_equal(&r.catalog, 2, 0, bytes, 5000));
    cr_assert(pwrite(x.fd, bytes, 1, 0) < 0);
    cr_assert(cache_extent_valid(r.cache, x.lease));
    close(x.fd);
    clock_advance(31 * NS_PER_S);
    leases_expire(r.cache);
    cr_assert_not(cache_extent_valid(r.cache, x.lease));
    cache_extent_return(r.cache, x.lease);
    rig_fill(&r, 1, 1);
    cr_assert_eq(cache_extent_lease(r.cache, 1, &x, &err), 0);
    close(x.fd);
    cache_extent_return(r.cache, x.lease);
    cache_stat(r.cache, &st);
    cr_assert_eq(st.units, 1);
    rig_end(&r);
}

Test(evict, advice_harms_nothing)
{
    struct rig r;
    uint64_t units[200];
    rig_begin(&r, 30000, 64u << 20, false);
    rig_open(&r);
    rig_fill(&r, 1, 150);
    for (uint64_t i = 0; i < 200; i++)
        units[i] = 200 - i;
    cache_will_need(r.cache, units, 200);
    cache_will_need(r.cache, units, 1);
    for (uint64_t u = 1; u <= 150; u++)
        cr_assert_eq(rig_read(&r, u, 0, UNIT_BYTES, NULL, NULL), 0);
    cr_assert_eq(atomic_load(&r.fake.reads), 150);
    rig_end(&r);
}

struct churner {
    struct rig *r;
    atomic_bool *stop;
    unsigned seed;
};

static void *churn(void *arg)
{
    struct churner *me = arg;
    while (!atomic_load(me->stop))
        cr_assert_eq(rig_read(me->r, 1 + (uint64_t)rand_r(&me->seed) % 400, 0, 20000, NULL, NULL),
                     0);
    return NULL;
}

Test(evict, readers_go_on_while_all_is_evicted_again_and_again)
{
    struct rig r;
    struct churner me[4];
    pthread_t threads[4];
    atomic_bool stop = false;
    rig_begin(&r, 40000, 10u << 20, true);
    r.catalog.vary = true;
    rig_open(&r);
    for (unsigned i = 0; i < 4; i++) {
        me[i] = (struct churner){&r, &stop, i + 1};
        thread_start(&threads[i], "reader", churn, &me[i]);
    }
    for (int i = 0; i < 30; i++) {
        if (i % 3 == 2)
            cache_clear(r.cache);
        else
            cache_evict_to(r.cache, (uint64_t)(i % 5) << 20);
        usleep(10000);
        cr_assert(folder_size(r.dir) <= 10u << 20);
    }
    atomic_store(&stop, true);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    cr_assert_eq(cache_counts(r.cache)->corrupt, 0);
    rig_end(&r);
}

static void *evict_half(void *arg)
{
    struct churner *me = arg;
    while (!atomic_load(me->stop))
        cache_evict_to(me->r->cache, 12u << 20);
    return NULL;
}

Test(evict, all_is_cleared_whoever_wants_less_meanwhile)
{
    struct rig r;
    atomic_bool stop = false;
    struct churner me = {&r, &stop, 0};
    pthread_t threads[4];
    rig_begin(&r, 100000, 64u << 20, false);
    rig_open(&r);
    for (int i = 0; i < 4; i++)
        thread_start(&threads[i], "evictor", evict_half, &me);
    for (int i = 0; i < 40; i++) {
        rig_fill(&r, 1, 200);
        cache_clear(r.cache);
        cr_expect_eq(packs_bytes(r.cache->tiers[0]), 0);
    }
    atomic_store(&stop, true);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    rig_end(&r);
}

/* Reads the unit until the cache keeps it (or `left` is told to be over), at other times: upkeep
 * makes room now and then. */
static bool is_kept_at_last(struct rig *r, uint64_t unit, bool until_none_left)
{
    for (int i = 0; i < 300 && cache_where(r->cache, unit) < 0; i++) {
        if (until_none_left && !atomic_load(&r->cache->tiers[0]->left))
            return false;
        cr_assert_eq(rig_read(r, unit, 0, UNIT_BYTES, NULL, NULL), 0);
        cr_assert_eq(cache_flush(r->cache, NULL), 0);
        clock_advance(11 * NS_PER_S);
        usleep(10000);
    }
    return cache_where(r->cache, unit) >= 0;
}

Test(evict, what_was_unpinned_makes_room_for_any_newcomer)
{
    struct rig r;
    rig_begin(&r, 500000, 16u << 20, false);
    rig_open(&r);
    for (uint64_t u = 1; u <= 20; u++)
        cache_pin(r.cache, u, 1, true);
    rig_fill(&r, 1, 40);
    cr_assert_not(is_kept_at_last(&r, 100, true), "nothing is left, so nothing goes");
    cr_assert_not(atomic_load(&r.cache->tiers[0]->left));
    for (uint64_t u = 1; u <= 20; u++)
        cache_pin(r.cache, u, 1, false);
    cr_expect(is_kept_at_last(&r, 200, false));
    rig_end(&r);
}
