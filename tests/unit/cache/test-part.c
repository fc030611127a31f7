/* Parts: what is here, for another machine. */
#include <fcntl.h>

#include "fixture.h"

#include "clock.h"
#include "crc.h"

/* The bytes of a part, wherever they are. */
static void part_bytes(struct rig *r, const struct cache_part *p, unsigned char *out)
{
    int fd;
    uint64_t lease;
    if (!p->pack) {
        memcpy(out, p->view.ptr, p->view.len);
        return;
    }
    cr_assert_eq(cache_part_lease(r->cache, p, &fd, &lease, NULL), 0);
    cr_assert_eq(pread(fd, out, p->len, (off_t)p->offset), p->len);
    cr_assert(cache_extent_valid(r->cache, lease));
    cache_extent_return(r->cache, lease);
    close(fd);
}

static void check_part(struct rig *r, uint64_t unit, uint32_t off, uint32_t len, uint32_t want)
{
    static unsigned char bytes[UNIT_BYTES];
    struct cache_part p;
    struct err err = {0};
    cr_assert_eq(cache_part_find(r->cache, unit, off, len, &p, &err), 0, "%s", err.msg);
    cr_assert_eq(p.len, want);
    part_bytes(r, &p, bytes);
    cr_expect(unit_equal(&r->catalog, unit, off, bytes, want));
    cr_expect_eq(p.crc, crc32c(0, bytes, want), "unit %llu [%u, +%u)", (unsigned long long)unit,
                 off, len);
    cache_part_release(&p);
}

static void check_parts(uint32_t len, bool compressible)
{
    struct rig r;
    struct cache_part p;
    struct err err = {0};
    int reads;
    rig_begin(&r, len, 64u << 20, false);
    r.catalog.compressible = compressible;
    rig_open(&r);
    rig_fill(&r, 1, 3);
    reads = atomic_load(&r.fake.reads);
    check_part(&r, 2, 0, len, len);
    check_part(&r, 2, 0, UINT32_MAX, len);
    check_part(&r, 3, 10, 20, 20);
    check_part(&r, 3, len - 5, 20, 5);
    cr_expect_eq(cache_part_find(r.cache, 9, 0, len, &p, &err), -1);
    cr_expect_eq(err.class, ERR_NOT_FOUND);
    cr_expect_eq(atomic_load(&r.fake.reads), reads, "something was fetched");
    rig_end(&r);
}

Test(part, of_one_chunk)
{
    check_parts(5000, false);
}

Test(part, of_many_chunks)
{
    check_parts(1000003, false);
}

Test(part, that_is_compressed)
{
    check_parts(300000, true);
}

Test(part, of_a_damaged_record_is_not_here_and_is_forgotten)
{
    struct rig r;
    struct extent x;
    struct cache_part p;
    struct err err = {0};
    rig_begin(&r, 5000, 64u << 20, false);
    rig_open(&r);
    rig_fill(&r, 1, 2);
    cr_assert_eq(cache_extent_lease(r.cache, 1, &x, &err), 0);
    int fd = open(rig_path(&r, "00000001.pack"), O_WRONLY);
    if (fd < 0)
        fd = open(rig_path(&r, "00000000.pack"), O_WRONLY);
    cr_assert_geq(fd, 0);
    cr_assert_eq(pwrite(fd, "xx", 2, (off_t)(x.offset - x.head + 16)), 2);
    close(fd);
    close(x.fd);
    cache_extent_return(r.cache, x.lease);
    cr_expect_eq(cache_part_find(r.cache, 1, 0, 5000, &p, &err), -1);
    cr_expect_eq(err.class, ERR_NOT_FOUND);
    cr_expect_eq(cache_where(r.cache, 1), -1);
    cr_expect_eq(counter_get(&cache_counts(r.cache)->corrupt), 1);
    rig_end(&r);
}

/* The bytes after it would be another record's, and past the end of the pack's mapping. */
Test(part, of_a_record_that_claims_more_than_it_holds_is_not_here)
{
    struct rig r;
    struct cache_part p;
    struct err err = {0};
    struct record_head head;
    struct chunk table;
    rig_begin(&r, 5000, 64u << 20, false);
    rig_open(&r);
    rig_fill(&r, 1, 2);
    rig_close(&r);
    int fd = open(rig_path(&r, "00000000.pack"), O_RDWR);
    cr_assert_geq(fd, 0);
    cr_assert_eq(pread(fd, &head, sizeof head, sizeof(struct pack_head)), sizeof head);
    cr_assert_eq(pread(fd, &table, sizeof table, sizeof(struct pack_head) + sizeof head),
                 sizeof table);
    head.raw = CHUNK_BYTES; /* still one chunk */
    record_seal(&head, &table);
    cr_assert_eq(pwrite(fd, &head, sizeof head, sizeof(struct pack_head)), sizeof head);
    close(fd);
    cr_assert_eq(unlink(rig_path(&r, "00000000.idx")), 0);
    cr_assert_eq(unlink(rig_path(&r, "own/index")), 0);
    rig_open(&r);
    cr_expect_eq(cache_part_find(r.cache, head.unit, 0, UNIT_BYTES, &p, &err), -1);
    cr_expect_eq(err.class, ERR_NOT_FOUND, "%s", err.msg);
    cr_expect_eq(rig_read(&r, head.unit, 0, UNIT_BYTES, NULL, &err), 0, "%s", err.msg);
    rig_end(&r);
}
