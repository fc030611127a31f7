/* Large units are read past the page cache, and as they are otherwise where that can't be. */
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
    rig_fill(&r, 1, 1);
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
