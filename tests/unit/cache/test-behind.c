/* Pages of packs behind a reader: when they are dropped, and that they are. */
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/vfs.h>
#include <linux/magic.h>

#include "fixture.h"

Test(behind, what_memory_is_ours)
{
    cr_expect_eq(behind_available("MemTotal: 10 kB\nMemAvailable:    2048 kB\nX: 1 kB\n"),
                 2u << 20);
    cr_expect_eq(behind_available("MemTotal: 10 kB\n"), UINT64_MAX);
    cr_expect_eq(behind_available(""), UINT64_MAX);
    cr_expect_eq(behind_limit("1073741824\n"), 1u << 30);
    cr_expect_eq(behind_limit("max\n"), UINT64_MAX);
    cr_expect_eq(behind_limit(""), UINT64_MAX);
}

Test(behind, a_third_of_the_smaller_one)
{
    cr_expect_eq(behind_threshold(3000, 9000), 1000);
    cr_expect_eq(behind_threshold(9000, 3000), 1000);
    cr_expect_eq(behind_threshold(3000, UINT64_MAX), 1000);
    cr_expect_eq(behind_threshold(UINT64_MAX, UINT64_MAX), UINT64_MAX);
    cr_expect_gt(behind_measure(), 1u << 20);
}

static unsigned resident_pages(const void *at, size_t len)
{
    unsigned char in_memory[64];
    uintptr_t from = ((uintptr_t)at + 4095) & ~(uintptr_t)4095;
    uintptr_t to = ((uintptr_t)at + len) & ~(uintptr_t)4095;
    unsigned n = 0;
    cr_assert_leq((to - from) / 4096, sizeof in_memory);
    cr_assert_eq(mincore((void *)from, to - from, in_memory), 0);
    for (size_t i = 0; i < (to - from) / 4096; i++)
        n += in_memory[i] & 1;
    return n;
}

/* Pages of unit 1 that are in memory after it was read. */
static unsigned left_behind(struct rig *r, uint64_t above)
{
    struct call c;
    r->cache->behind_above = above;
    cr_assert_eq(call_start(r, &c, 1, PRIO_READER), 0);
    call_wait(&c);
    cr_assert_eq(c.view.origin, FROM_DISK);
    const void *at = c.view.ptr;
    size_t len = c.view.len;
    view_release(&c.view);
    return resident_pages(at, len);
}

/* The kernel reads the pack from the disk again: what it wrote a moment ago it rather keeps. */
static void forget_pages(struct rig *r)
{
    rig_close(r);
    cleanup_close int fd = open(rig_path(r, "00000000.pack"), O_RDONLY | O_CLOEXEC);
    cr_assert_geq(fd, 0);
    cr_assert_eq(posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED), 0);
    rig_open(r);
}

Test(behind, pages_go_only_where_the_set_is_large)
{
    const unsigned all = 100000 / 4096 - 1; /* whole pages, wherever the unit begins */
    struct rig r;
    struct statfs fs;
    rig_begin(&r, 100000, 64u << 20, false);
    rig_open(&r);
    rig_fill(&r, 1, 10);
    forget_pages(&r);
    cr_expect_geq(left_behind(&r, 10 * 100000), all, "the set is not larger than that");
    forget_pages(&r);
    cr_assert_eq(statfs(r.dir, &fs), 0);
    if (fs.f_type == TMPFS_MAGIC)
        cr_log_warn("not looked at: %s is in memory only", r.dir);
    else
        cr_expect_leq(left_behind(&r, 10 * 100000 - 1), all / 2);
    cr_expect_geq(left_behind(&r, UINT64_MAX), all, "and it is read again");
    rig_end(&r);
}
