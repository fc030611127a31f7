/* Units that lie in files of guests: known, read from there, and in no pack besides. */
#include "fixture.h"

#include <string.h>
#include <sys/stat.h>

#include "cleanup.h"
#include "crc.h"

struct guest {
    const struct catalog *catalog;
    unsigned reads;
    bool broken;
};

static int64_t guest_read(void *arg, uint64_t unit, uint32_t off, void *buf, uint32_t len)
{
    struct guest *g = arg;
    uint32_t all = unit_len(g->catalog, unit);
    cleanup_free unsigned char *bytes = xmalloc(all);
    if (g->broken)
        return -1;
    g->reads++;
    unit_fill(g->catalog, unit, bytes);
    off = off < all ? off : all;
    len = len < all - off ? len : all - off;
    memcpy(buf, bytes + off, len);
    return len;
}

static int guest_verify(void *arg, uint64_t unit, struct err *err)
{
    const struct guest *g = arg;
    return g->broken ? err_set(err, ERR_CORRUPT, "unit %llu of a guest", (unsigned long long)unit)
                     : 0;
}

static const struct guests_ops guest_ops = {.read = guest_read, .verify = guest_verify};

static struct tier *begin(struct rig *r, struct guest *g, bool threaded)
{
    rig_begin(r, 115000, 64u << 20, threaded);
    cr_assert_eq(mkdir(rig_path(r, CACHE_GUESTS), 0700), 0);
    rig_open(r);
    *g = (struct guest){.catalog = &r->catalog};
    struct tier *t = cache_guests(r->cache, rig_path(r, CACHE_GUESTS), &guest_ops, g);
    cr_assert(t);
    return t;
}

static void expect_cached(struct rig *r, uint64_t samples, uint64_t bytes)
{
    struct cache_stat st;
    cache_stat(r->cache, &st);
    cr_expect_eq(st.samples, samples);
    cr_expect_eq(st.bytes, bytes);
}

Test(guests, a_unit_is_there_or_in_a_pack)
{
    struct rig r;
    struct guest g;
    enum origin from;
    struct tier *t = begin(&r, &g, false);
    rig_fill(&r, 7, 1);
    expect_cached(&r, 1, 115000);
    cache_guests_hold(t, 7, 115000, true, true);
    cache_guests_hold(t, 1000000, 115000, false, true);
    expect_cached(&r, 1, 230000);
    cr_expect(cache_has_all(r.cache, 7, 1));
    cr_expect_eq(cache_where(r.cache, 1000000), 0);
    cr_expect_eq(cache_where(r.cache, 8), -1);
    cr_expect_eq(rig_read(&r, 7, 100, 5000, &from, NULL), 0);
    cr_expect_eq(from, FROM_DISK);
    cr_expect_eq(rig_ahead(&r, 7, NULL), 0);
    cr_expect_eq(g.reads, 1);
    cr_expect_eq(atomic_load(&r.fake.reads), 1);
    cache_guests_hold(t, 7, 115000, true, false);
    expect_cached(&r, 0, 115000);
    cr_expect_eq(rig_read(&r, 7, 0, UNIT_BYTES, &from, NULL), 0);
    cr_expect_eq(atomic_load(&r.fake.reads), 2);
    rig_end(&r);
}

/* A guest takes a unit whose bytes are on their way: who waits gets them, and no pack keeps them.
 */
Test(guests, take_what_is_on_its_way)
{
    struct rig r;
    struct guest g;
    struct call call;
    struct tier *t = begin(&r, &g, true);
    rig_release(&r, true);
    cr_assert_eq(call_start(&r, &call, 9, PRIO_READER), SOURCE_PENDING);
    cache_guests_hold(t, 9, 115000, true, true);
    cr_expect_eq(cache_where(r.cache, 9), 0);
    rig_release(&r, false);
    call_wait(&call);
    cr_expect_eq(atomic_load(&call.done), 1);
    view_release(&call.view);
    cr_assert_eq(cache_flush(r.cache, NULL), 0);
    expect_cached(&r, 1, 115000);
    rig_end(&r);
}

Test(guests, that_cannot_deliver_are_read_past)
{
    struct rig r;
    struct guest g;
    enum origin from;
    struct err err = {0};
    struct tier *t = begin(&r, &g, false);
    cache_guests_hold(t, 3, 115000, true, true);
    cr_expect_eq(cache_verify(r.cache, 3, &err), 0);
    g.broken = true;
    cr_expect_eq(cache_verify(r.cache, 3, &err), -1);
    cr_expect_eq(err.class, ERR_CORRUPT);
    cr_expect_eq(rig_read(&r, 3, 100, 5000, &from, NULL), 0);
    cr_expect_eq(from, FROM_STORE);
    expect_cached(&r, 1, 115000);
    rig_end(&r);
}

static void expect_part(struct rig *r, uint64_t unit, uint32_t off, uint32_t len, uint32_t want)
{
    struct cache_part p;
    struct err err = {0};
    cr_assert_eq(cache_part_find(r->cache, unit, off, len, &p, &err), 0, "%s", err.msg);
    cr_expect_eq(p.len, want);
    cr_assert_eq(p.view.len, want);
    cr_expect(unit_equal(&r->catalog, unit, off, p.view.ptr, want));
    cr_expect_eq(p.crc, crc32c(0, p.view.ptr, want));
    cache_part_release(&p);
}

Test(guests, have_parts_for_other_machines)
{
    struct rig r;
    struct guest g;
    struct cache_part p;
    struct err err = {0};
    struct tier *t = begin(&r, &g, false);
    cache_guests_hold(t, 3, 115000, true, true);
    expect_part(&r, 3, 0, UINT32_MAX, 115000);
    expect_part(&r, 3, 114000, 5000, 1000);
    g.broken = true;
    cr_expect_eq(cache_part_find(r.cache, 3, 0, 115000, &p, &err), -1);
    cr_expect_eq(err.class, ERR_NOT_FOUND);
    cr_expect_eq(cache_part_find(r.cache, 4, 0, 115000, &p, &err), -1);
    cr_expect_eq(atomic_load(&r.fake.reads), 0, "something was fetched");
    rig_end(&r);
}

static void expect_pinned(struct rig *r, uint64_t samples, uint64_t bytes)
{
    struct cache_stat st;
    cache_stat(r->cache, &st);
    cr_expect_eq(st.pinned_samples, samples, "%llu", (unsigned long long)st.pinned_samples);
    cr_expect_eq(st.pinned_bytes, bytes, "%llu", (unsigned long long)st.pinned_bytes);
}

/* Wherever its units lie, and whichever came first: the pin, or the unit. */
Test(guests, hold_what_is_pinned)
{
    struct rig r;
    struct guest g;
    struct tier *t = begin(&r, &g, false);
    rig_fill(&r, 7, 1);
    cache_pin(r.cache, 7, 115000, true);
    expect_pinned(&r, 1, 115000);
    cache_guests_hold(t, 7, 115000, true, true);
    expect_pinned(&r, 1, 115000);
    cache_guests_hold(t, 10, UNIT_BYTES, true, true);
    cache_guests_hold(t, 11, 5, false, true);
    expect_pinned(&r, 1, 115000);
    cache_pin(r.cache, 10, UNIT_BYTES + 5, true);
    cache_pin(r.cache, 10, UNIT_BYTES + 5, true);
    expect_pinned(&r, 2, 115000 + UNIT_BYTES + 5);
    cache_guests_hold(t, 11, 5, false, false);
    expect_pinned(&r, 2, 115000 + UNIT_BYTES);
    cache_pin(r.cache, 10, UNIT_BYTES + 5, false);
    cache_guests_hold(t, 7, 115000, true, false);
    expect_pinned(&r, 0, 0);
    rig_end(&r);
}
