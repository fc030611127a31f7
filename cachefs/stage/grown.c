/*
 * Files of others that grow while they are read here: logs. A listing shows another object; where
 * somebody has the old one open, it is longer, and it has the same bytes just before the old end,
 * it is taken for the same file grown, and the reader goes on in it. Otherwise the reader gets
 * ESTALE: bytes of two contents are never mixed.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "mem.h"
#include "content-internal.h"

#define TAIL (64u << 10) /* compared */

/* The last bytes of what is staged, if they are here. The content's own lock is not ours to take
 * under s->lock, so the files are read by themselves; what changes meanwhile compares as other. */
static bool read_tail(struct stage *s, const struct node *n, uint64_t off, void *buf, size_t len)
{
    char name[32];
    content_name(n->row.ino, false, name);
    cleanup_close int fd = openat(s->data_fd, name, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || pread(fd, buf, len, (off_t)off) != (ssize_t)len)
        return false;
    if (!(n->row.flags & N_MAP))
        return true;
    content_name(n->row.ino, true, name);
    cleanup_close int map = openat(s->data_fd, name, O_RDONLY | O_CLOEXEC);
    for (uint64_t b = off / STAGE_BLOCK; b <= (off + len - 1) / STAGE_BLOCK; b++) {
        unsigned char state;
        off_t at = (off_t)(sizeof(struct map) + b);
        if (map < 0 || pread(map, &state, 1, at) != 1 || state != BLOCK_CLEAN)
            return false;
    }
    return true;
}

/* s->lock held, given up while the store is asked. */
static bool same_tail(struct stage *s, struct node *n, const struct seen *seen)
{
    size_t len = n->row.size < TAIL ? (size_t)n->row.size : TAIL;
    uint64_t off = n->row.size - len;
    if (len == 0)
        return true;
    cleanup_free unsigned char *here = xmalloc(len), *there = xmalloc(len);
    if (!read_tail(s, n, off, here, len))
        return false;
    cleanup_free char *key = node_stored_key(n);
    const struct record row = {
        .etag = (char *)seen->etag, .rsize = seen->size, .rmtime_ns = seen->mtime_ns};
    n->pins++;
    lock_drop(&s->lock);
    int result = remote_read(s, key, &row, off, there, (uint32_t)len, NULL);
    lock_take(&s->lock);
    n->pins--;
    return result == 0 && memcmp(here, there, len) == 0;
}

bool node_has_grown(struct stage *s, struct node *n, const struct seen *seen, uint64_t *ret_gen)
{
    const unsigned wanted = N_STORED | N_STAGED, unwanted = N_DIRTY | N_ORPHAN;
    if (n->row.kind != NODE_FILE || !n->opens || (n->row.flags & wanted) != wanted ||
        n->row.flags & unwanted || n->row.skey || n->busy || seen->size <= n->row.size ||
        strcmp(n->row.etag, seen->etag) == 0)
        return false;
    *ret_gen = n->row.gen;
    return same_tail(s, n, seen);
}
