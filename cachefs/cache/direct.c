/*
 * Large units past the page cache.
 *
 * What a reader of a mount was given stays in the page cache as the mount's file. On its way there
 * the pack's own pages would be a second copy, and a dear one: made and charged one by one, which
 * takes the processor as long as all the rest of the answer, and given to the disk one by one,
 * which makes a virtual disk three times as slow. So the disk writes them into a buffer, and that
 * buffer lies in huge pages where there are some (mem.c).
 */
#include "cache-internal.h"

#include <fcntl.h>
#include <unistd.h>

#define BUFFER_BYTES (2u << 20) /* at least: a huge page */

struct buf *direct_read(struct pool *pool, const struct pack *p, uint64_t offset, uint32_t len,
                        const unsigned char **ret)
{
    /* Whole blocks of whatever disk: pages are multiples of them. */
    uint64_t from = offset & ~(uint64_t)(PAGE_BYTES - 1);
    size_t skip = (size_t)(offset - from);
    size_t want = (skip + len + PAGE_BYTES - 1) & ~(size_t)(PAGE_BYTES - 1);
    size_t room = want < BUFFER_BYTES ? BUFFER_BYTES : want;
    if (pool_used(pool) + room > pool_limit(pool) / 2)
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
