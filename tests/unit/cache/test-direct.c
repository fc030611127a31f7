/* Large units are read and written past the page cache, and as they are otherwise where that can't
 * be. */
#include "fixture.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

TestSuite(direct, .timeout = 100);

#define LARGE 3000001u
#define UNITS 2u /* of one pack */
#define PACK  "00000000.pack"

/* Pages of the pack that are in memory. */
static size_t resident(struct rig *r)
{
    int fd = open(rig_path(r, PACK), O_RDONLY);
    struct stat st;
    cr_assert(fd >= 0 && fstat(fd, &st) == 0);
    size_t n = ((size_t)st.st_size + PAGE_BYTES - 1) / PAGE_BYTES, there = 0;
    unsigned char *in_memory = xmalloc(n);
    void *at = mmap(NULL, n * PAGE_BYTES, PROT_READ, MAP_SHARED, fd, 0);
    cr_assert(at != MAP_FAILED);
    cr_assert_eq(mincore(at, n * PAGE_BYTES, in_memory), 0);
    for (size_t i = 0; i < n; i++)
        there += in_memory[i] & 1;
    munmap(at, n * PAGE_BYTES);
    free(in_memory);
    close(fd);
    return there;
}

/* A cache that an earlier life left on the disk, and nothing of it in memory. */
static void begin(struct rig *r, uint32_t len, bool paged, bool lz4)
{
    rig_begin(r, len, 1u << 30, false);
    r->catalog.compressible = r->catalog.half = lz4;
    rig_open(r);
    atomic_store(&r->cache->trial.verdict, lz4 ? 1 : -1);
    if (paged)
        cache_set_size(r->cache, UNITS, (uint64_t)UNITS * len);
    rig_fill(r, 1, UNITS);
    rig_close(r);
    int fd = open(rig_path(r, PACK), O_RDWR);
    cr_assert(fd >= 0);
    cr_assert_eq(fsync(fd), 0);
    cr_assert_neq(access(rig_path(r, "00000001.pack"), F_OK), 0);
    posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    close(fd);
    rig_open(r);
    if (resident(r) > 0) {
        rig_end(r);
        cr_skip_test("files of /tmp stay in memory");
    }
}

static void check(struct rig *r, uint64_t unit, uint32_t off, uint32_t len)
{
    struct err err = {0};
    enum origin from;
    int reads = atomic_load(&r->fake.reads);
    cr_assert_eq(rig_read(r, unit, off, len, &from, &err), 0, "%s", err.msg);
    cr_assert_eq(from, FROM_DISK);
    cr_assert_eq(atomic_load(&r->fake.reads), reads);
}

Test(direct, large_units_stay_out_of_the_page_cache)
{
    for (int kind = 0; kind < 3; kind++) {
        struct rig r;
        begin(&r, LARGE, kind == 1, kind == 2);
        for (uint64_t unit = 1; unit <= UNITS; unit++) {
            check(&r, unit, 0, UNIT_BYTES);
            check(&r, unit, 0, 1u << 20);
            check(&r, unit, 1u << 20, 1u << 20);
            check(&r, unit, 100001, 700000);
            check(&r, unit, LARGE - 600000, UNIT_BYTES);
        }
        cr_expect_leq(resident(&r), UNITS * 2, "heads alone; kind %d", kind);
        cr_expect_eq(counter_get(&cache_counts(r.cache)->corrupt), 0);
        cr_expect_eq(pool_used(r.pool), 0);
        rig_end(&r);
    }
}

Test(direct, what_is_asked_for_ahead_is_the_head)
{
    const uint64_t units[] = {1, 2};
    struct rig r;
    begin(&r, LARGE, false, false);
    cache_will_need(r.cache, units, UNITS);
    for (uint64_t unit = 1; unit <= UNITS; unit++)
        check(&r, unit, 0, UNIT_BYTES);
    cr_expect_leq(resident(&r), UNITS * 2);
    rig_end(&r);
}

/* Slices that are read again and again, and units around which the next ones lie. */
Test(direct, the_rest_is_kept_in_memory)
{
    struct rig r;
    begin(&r, LARGE, false, false);
    check(&r, 1, 1u << 20, 100000);
    size_t pages = resident(&r);
    cr_expect_geq(pages, 100000 / PAGE_BYTES);
    rig_end(&r);
    begin(&r, 300000, false, false);
    check(&r, 1, 0, UNIT_BYTES);
    cr_expect_geq(resident(&r), 300000 / PAGE_BYTES);
    rig_end(&r);
}

Test(direct, what_is_in_memory_is_read_there)
{
    struct rig r;
    rig_begin(&r, LARGE, 64u << 20, false);
    rig_open(&r);
    cr_assert_eq(rig_ahead(&r, 1, NULL), 0); /* a warmup */
    cr_assert_eq(cache_flush(r.cache, NULL), 0);
    struct piece p = {.catalog = &r.catalog, .unit = 1, .len = 1u << 20};
    struct call c = {0};
    cr_assert_eq(source_read(r.top, &p, &c.view, &c.wait, &c.err), 0);
    cr_expect_eq(pool_used(r.pool), 0, "the view is of the mapping");
    view_release(&c.view);
    rig_end(&r);
}

/* Half of the pool is left to what must be fetched. */
Test(direct, without_a_buffer_it_goes_through_memory)
{
    struct rig r;
    begin(&r, LARGE, false, false);
    struct buf *taken = pool_get(r.pool, pool_limit(r.pool) / 2);
    cr_assert_not_null(taken);
    check(&r, 1, 0, UNIT_BYTES);
    cr_expect_geq(resident(&r), LARGE / PAGE_BYTES);
    buf_unref(taken);
    rig_end(&r);
}

Test(direct, a_pack_whose_name_is_gone_is_read_through_its_mapping)
{
    struct rig r;
    begin(&r, LARGE, false, false);
    check(&r, 1, 0, 4096); /* maps it */
    cr_assert_eq(unlink(rig_path(&r, PACK)), 0);
    for (uint64_t unit = 1; unit <= UNITS; unit++)
        check(&r, unit, 0, UNIT_BYTES);
    rig_end(&r);
}

Test(direct, damage_is_seen_and_healed)
{
    struct rig r;
    struct err err = {0};
    begin(&r, LARGE, false, false);
    int fd = open(rig_path(&r, PACK), O_RDWR), reads = atomic_load(&r.fake.reads);
    cr_assert(fd >= 0);
    /* Bytes that only the page cache has so far, and an end that is missing. */
    cr_assert_eq(pwrite(fd, "damage", 6, 2000000), 6);
    cr_assert_eq(ftruncate(fd, 5000000), 0);
    close(fd);
    for (uint64_t unit = 1; unit <= UNITS; unit++)
        cr_assert_eq(rig_read(&r, unit, 0, UNIT_BYTES, NULL, &err), 0, "%s", err.msg);
    cr_expect_eq(atomic_load(&r.fake.reads) - reads, 2);
    cr_expect_eq(counter_get(&cache_counts(r.cache)->corrupt), 2);
    cr_assert_eq(cache_flush(r.cache, NULL), 0);
    cr_expect_eq(pool_used(r.pool), 0);
    rig_end(&r);
}

/* --- out -------------------------------------------------------------------------------------- */

static struct tier *tier_of(struct rig *r)
{
    return r->cache->tiers[0];
}

/* By which way did the last unit go out? */
static bool went_direct(struct rig *r, uint64_t unit, bool warmup)
{
    struct err err = {0};
    cr_assert_eq(warmup ? rig_ahead(r, unit, &err) : rig_read(r, unit, 0, 1, NULL, &err), 0, "%s",
                 err.msg);
    cr_assert_eq(cache_flush(r->cache, &err), 0, "%s", err.msg);
    int fd = open(rig_path(r, PACK), O_RDWR);
    struct stat st;
    cr_assert(fd >= 0 && fstat(fd, &st) == 0);
    size_t pages = resident(r);
    posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    close(fd);
    return pages < LARGE / PAGE_BYTES / 2;
}

static void begin_empty(struct rig *r)
{
    rig_begin(r, LARGE, 1u << 30, false);
    rig_open(r);
    atomic_store(&r->cache->trial.verdict, -1);
    int fd = open(rig_path(r, "probe"), O_CREAT | O_WRONLY | O_DIRECT, 0600);
    bool can = fd >= 0;
    if (can)
        close(fd);
    unlink(rig_path(r, "probe"));
    if (!can || !went_direct(r, 100, false)) {
        rig_end(r);
        cr_skip_test("files of /tmp stay in memory");
    }
}

Test(direct, what_a_reader_brought_goes_past_memory_and_a_warmup_stays_in_it)
{
    struct rig r;
    begin_empty(&r);
    cr_expect(went_direct(&r, 1, false));
    cr_expect_not(went_direct(&r, 2, true));
    r.cache->behind_above = LARGE; /* a set that does not fit */
    cr_expect(went_direct(&r, 3, true));
    rig_end(&r);
}

Test(direct, whoever_wants_buffers_gets_them_the_quicker_way)
{
    struct rig r;
    begin_empty(&r);
    struct ways_out *w = &tier_of(&r)->ways;
    struct buf *taken = pool_get(r.pool, pool_limit(r.pool) / 2);
    cr_assert_not_null(taken);
    for (int direct = 0; direct < 2; direct++) {
        *w = (struct ways_out){.turns = 1};
        w->ns[!direct] = UINT64_MAX / 16;
        w->ns[direct] = 1;
        cr_expect_eq(went_direct(&r, 1 + (uint64_t)direct, false), direct);
        w->ns[direct] = 1;
        w->turns = 0;
        cr_expect_eq(went_direct(&r, 3 + (uint64_t)direct, false), !direct, "one in many is tried");
    }
    buf_unref(taken);
    *w = (struct ways_out){.ns = {1, UINT64_MAX / 16}, .turns = 1};
    cr_expect(went_direct(&r, 5, false), "nobody waits");
    *w = (struct ways_out){.refused = true};
    cr_expect_not(went_direct(&r, 6, false));
    rig_end(&r);
}

/* Whole pages go one way, what is before and behind them the other. */
Test(direct, all_of_a_record_is_there_whatever_its_length)
{
    const uint32_t lens[] = {LARGE_BYTES, LARGE_BYTES + 1, LARGE_BYTES + PAGE_BYTES - 1,
                             LARGE,       UNIT_BYTES - 1,  UNIT_BYTES};
    for (size_t i = 0; i < sizeof lens / sizeof *lens; i++)
        for (int lost = 0; lost < 2; lost++) {
            struct rig r;
            struct err err = {0};
            rig_begin(&r, lens[i], 1u << 30, false);
            rig_open(&r);
            atomic_store(&r.cache->trial.verdict, -1);
            rig_fill(&r, 1, 5);
            rig_close(&r);
            if (lost) { /* what is there is found in the pack itself */
                cr_assert_eq(unlink(rig_path(&r, "00000000.idx")), 0);
                cr_assert_eq(unlink(rig_path(&r, "own/index")), 0);
            }
            rig_open(&r);
            rig_fill(&r, 6, 1); /* to a pack that was opened again */
            for (uint64_t unit = 1; unit <= 6; unit++)
                cr_assert_eq(rig_read(&r, unit, 0, UNIT_BYTES, NULL, &err), 0, "%s", err.msg);
            cr_expect_eq(atomic_load(&r.fake.reads), 6, "%u bytes", lens[i]);
            cr_expect_eq(counter_get(&cache_counts(r.cache)->corrupt), 0);
            rig_end(&r);
        }
}

/* A full disk is one, whichever way it is written to. */
Test(direct, a_refused_write_is_told_by_the_common_way)
{
    struct rig r;
    begin_empty(&r);
    struct pack *p = tier_of(&r)->active;
    cr_assert_geq(p->direct_fd, 0);
    int none = open("/dev/full", O_WRONLY);
    cr_assert(none >= 0 && dup2(none, p->direct_fd) >= 0);
    cr_expect_not(went_direct(&r, 1, false), "the other way does it");
    cr_expect_eq(counter_get(&cache_counts(r.cache)->append_errors), 0);
    cr_assert_geq(dup2(none, p->fd), 0);
    struct err err = {0};
    cr_assert_eq(rig_read(&r, 2, 0, UNIT_BYTES, NULL, &err), 0, "%s", err.msg);
    cache_flush(r.cache, NULL);
    cr_expect_eq(counter_get(&cache_counts(r.cache)->append_errors), 1);
    close(none);
    rig_end(&r);
}
