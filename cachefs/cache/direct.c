/*
 * Large units past the page cache, in and out.
 *
 * What a reader of a mount was given stays in the page cache as the mount's file. Beside it the
 * pack's own pages would be a second copy, and a dear one: made and charged one by one, which takes
 * the processor as long as all the rest of the answer, and given to the disk one by one, which
 * makes a virtual disk three times as slow. So the disk writes them into a buffer, and takes them
 * from one, which lies in huge pages where there are some (mem.c).
 */
#include "cache-internal.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "clock.h"

#define BUFFER_BYTES (2u << 20) /* at least: a huge page */

struct buf *direct_read(struct pool *pool, const struct pack *p, uint64_t offset, uint32_t len,
                        const unsigned char **ret)
{
    /* Whole blocks of whatever disk: pages are multiples of them. */
    uint64_t from = offset & ~(uint64_t)(PAGE_BYTES - 1);
    size_t skip = (size_t)(offset - from);
    size_t want = (skip + len + PAGE_BYTES - 1) & ~(size_t)(PAGE_BYTES - 1);
    size_t room = want < BUFFER_BYTES ? BUFFER_BYTES : want;
    if (cache_in_flight(p->tier->c) + room > pool_limit(pool) / 2)
        return NULL; /* what is to be fetched needs buffers, too, and has no other way */
    cleanup_buf struct buf *buf = pool_get(pool, room);
    if (!buf)
        return NULL;
    char name[32];
    pack_name(name, p->number, "pack");
    cleanup_close int fd = openat(p->tier->dir_fd, name, O_RDONLY | O_DIRECT | O_CLOEXEC);
    /* The last block of the file may be short. */
    if (fd < 0 || pread(fd, buf->data, want, (off_t)from) < (ssize_t)(skip + len))
        return NULL;
    *ret = buf->data + skip;
    return take_ptr(&buf);
}

/* --- out -------------------------------------------------------------------------------------- */

/*
 * Which way out is quicker is up to the machine: past the page cache the disk's time is waited for;
 * through it, that of making pages, and of the disk once too many are dirty. It matters only while
 * those who fetch want their buffers back. Then the quicker way is taken, by what the last units
 * took, and now and then the other one. The page cache must be half as quick again: it takes the
 * processor, which others want.
 */
#define TRY_OTHER 64u
#define WEIGHT    8u /* a new unit's part of the mean, one in so many */

static bool go_direct(struct tier *t, const struct pool *pool)
{
    struct ways_out *w = &t->ways;
    if (w->refused)
        return false;
    if (cache_in_flight(t->c) <= pool_limit(pool) / 2)
        return true;
    bool direct = w->ns[true] / 3 <= w->ns[false] / 2; /* 0: not known */
    return w->turns++ % TRY_OTHER ? direct : !direct;
}

static void note_time(uint64_t *mean, uint64_t now)
{
    *mean = *mean ? *mean - *mean / WEIGHT + now / WEIGHT : now;
}

static int direct_fd(struct pack *p)
{
    if (p->direct_fd < 0) {
        char name[32];
        pack_name(name, p->number, "pack");
        p->direct_fd = openat(p->tier->dir_fd, name, O_WRONLY | O_DIRECT | O_CLOEXEC);
    }
    return p->direct_fd;
}

size_t direct_write(struct pool *pool, struct pack *p, const void *data, size_t len,
                    uint64_t offset)
{
    struct ways_out *w = &p->tier->ways;
    size_t whole = len & ~(size_t)(PAGE_BYTES - 1);
    if (p->tier->kind == TIER_MEM || (uintptr_t)data % PAGE_BYTES || offset % PAGE_BYTES)
        return 0;
    bool direct = go_direct(p->tier, pool);
    uint64_t began = clock_mono_ns();
    int fd = direct ? direct_fd(p) : p->fd;
    ssize_t n = fd < 0 ? -1 : pwrite(fd, data, whole, (off_t)offset);
    if (n <= 0) {
        w->refused = direct && n < 0 && (errno == EINVAL || errno == EOPNOTSUPP);
        return 0;
    }
    note_time(&w->ns[direct], (clock_mono_ns() - began) * UNIT_BYTES / (size_t)n);
    return (size_t)n;
}
