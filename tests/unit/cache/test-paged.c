/* Large units begin with a page of their pack, wherever a record goes and by whatever it is found.
 */
#include "fixture.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "crc.h"

#define LARGE 115000u
#define UNITS 40u

/* A cache with more room than its set takes. */
static void open_roomy(struct rig *r)
{
    rig_open(r);
    cache_set_size(r->cache, UNITS, UNITS * LARGE);
}

static uint64_t place_of(struct rig *r, uint64_t unit)
{
    struct extent x;
    struct err err = {0};
    cr_assert_eq(cache_extent_lease(r->cache, unit, &x, &err), 0, "%s", err.msg);
    close(x.fd);
    cache_extent_return(r->cache, x.lease);
    return x.offset;
}

/* All bytes are right, begin with a page, and nothing is fetched for it. */
static void check(struct rig *r, uint64_t from, uint64_t step)
{
    int before = atomic_load(&r->fake.reads);
    struct err err = {0};
    for (uint64_t u = from; u <= UNITS; u += step) {
        cr_assert_eq(rig_read(r, u, 0, UNIT_BYTES, NULL, &err), 0, "%s", err.msg);
        cr_assert_eq(place_of(r, u) % 4096, 0, "unit %llu", (unsigned long long)u);
    }
    cr_assert_eq(atomic_load(&r->fake.reads), before);
    cr_assert_eq(counter_get(&cache_counts(r->cache)->corrupt), 0);
}

static uint64_t size_of(const char *path)
{
    struct stat st;
    return stat(path, &st) ? 0 : (uint64_t)st.st_size;
}

Test(paged, large_units_begin_with_a_page)
{
    const char *const lost[] = {NULL, "own/index", "00000000.idx"};
    for (size_t i = 0; i < 3; i++) {
        struct rig r;
        rig_begin(&r, LARGE, 64u << 20, false);
        open_roomy(&r);
        rig_fill(&r, 1, UNITS);
        check(&r, 1, 1);
        rig_close(&r);
        uint64_t size = size_of(rig_path(&r, "00000000.pack"));
        if (lost[i])
            cr_assert_eq(unlink(rig_path(&r, lost[i])), 0);
        if (lost[i])
            unlink(rig_path(&r, "own/index"));
        open_roomy(&r);
        check(&r, 1, 1);
        cr_assert_eq(size_of(rig_path(&r, "00000000.pack")), size, "what is whole is not cut off");
        rig_end(&r);
    }
}

Test(paged, small_and_compressed_units_are_not_padded)
{
    for (int lz4 = 0; lz4 < 2; lz4++) {
        struct rig r;
        uint32_t len = lz4 ? LARGE : PAGED_LEAST - 1;
        rig_begin(&r, len, 64u << 20, false);
        r.catalog.compressible = lz4;
        open_roomy(&r);
        atomic_store(&r.cache->trial.verdict, lz4 ? 1 : -1);
        rig_fill(&r, 1, UNITS);
        uint64_t size = size_of(rig_path(&r, "00000000.pack"));
        cr_assert(size <= 64 + UNITS * record_bytes(0, 0, len, lz4 ? len / 2 : len), "%llu bytes",
                  (unsigned long long)size);
        rig_end(&r);
    }
}

/* A page a unit is a part of the set that is not kept. */
Test(paged, a_cache_without_room_to_spare_is_not_padded)
{
    const uint64_t whole = UNITS * (LARGE + 128);
    const uint64_t sets[] = {0 /* not said */, 64u << 20, whole};
    const uint64_t limits[] = {64u << 20, 64u << 20, whole + (1u << 20)};
    for (size_t i = 0; i < 3; i++) {
        struct rig r;
        rig_begin(&r, LARGE, limits[i], false);
        rig_open(&r);
        if (sets[i])
            cache_set_size(r.cache, UNITS, sets[i]);
        rig_fill(&r, 1, UNITS);
        unsigned padded = 0;
        for (uint64_t u = 1; u <= UNITS; u++)
            padded += place_of(&r, u) % 4096 == 0;
        cr_expect_lt(padded, UNITS / 4, "set %zu: %u", i, padded); /* some lie so by chance */
        rig_end(&r);
    }
}

Test(paged, a_copied_record_begins_with_a_page_again)
{
    struct rig r;
    rig_begin(&r, LARGE, 64u << 20, false);
    open_roomy(&r);
    rig_fill(&r, 1, UNITS);
    for (uint64_t u = 1; u <= UNITS; u++)
        if (u % 3)
            cache_drop(r.cache, u);
    cache_evict_to(r.cache, UNITS / 3 * (LARGE + 8192u));
    cr_assert_eq(size_of(rig_path(&r, "00000000.pack")), 0, "it was rewritten");
    check(&r, 3, 3);
    rig_close(&r);
    open_roomy(&r);
    check(&r, 3, 3);
    rig_end(&r);
}

/* A pack as it was before: its one record has no padding and no flag. */
static void write_unpaged(const struct rig *r, uint64_t unit)
{
    unsigned char bytes[LARGE + 128] = {0};
    struct record_head head = {.magic = RECORD_MAGIC,
                               .flags = UNIT_FIRST,
                               .chunks = 1,
                               .unit = unit,
                               .raw = LARGE,
                               .stored = LARGE};
    struct chunk table = {.stored = LARGE};
    unsigned char *data = bytes + sizeof head + sizeof table;
    int fd = open(rig_path(r, "00000000.pack"), O_RDWR);
    unit_fill(&r->catalog, unit, data);
    table.crc = crc32c(0, data, LARGE);
    record_seal(&head, &table);
    memcpy(bytes, &head, sizeof head);
    memcpy(bytes + sizeof head, &table, sizeof table);
    cr_assert(fd >= 0);
    cr_assert_eq(ftruncate(fd, sizeof(struct pack_head)), 0);
    ssize_t n = (ssize_t)record_bytes(0, 0, LARGE, LARGE);
    cr_assert_eq(pwrite(fd, bytes, (size_t)n, sizeof(struct pack_head)), n);
    close(fd);
}

Test(paged, packs_of_earlier_caches_are_read)
{
    struct rig r;
    struct err err = {0};
    rig_begin(&r, LARGE, 64u << 20, false);
    open_roomy(&r);
    rig_fill(&r, 1, 1);
    rig_close(&r);
    write_unpaged(&r, 7);
    cr_assert_eq(unlink(rig_path(&r, "00000000.idx")), 0);
    cr_assert_eq(unlink(rig_path(&r, "own/index")), 0);
    open_roomy(&r);
    cr_assert_eq(rig_read(&r, 7, 0, UNIT_BYTES, NULL, &err), 0, "%s", err.msg);
    cr_assert_eq(place_of(&r, 7), sizeof(struct pack_head) + 40);
    cr_assert_eq(atomic_load(&r.fake.reads), 1);
    rig_end(&r);
}
