/*
 * Changes of a file's content: write, allocate, punch, zero. All of them take room, make the staged
 * file ready (prepare_change), change it, and say what changed (conclude_change or broke_off).
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>

#include "clock.h"
#include "file.h"
#include "mem.h"
#include "content-internal.h"
#include "owed-internal.h"

/* --- writing --------------------------------------------------------------------------------- */

static int no_changes_now(struct content *c, bool wait)
{
    while (c->draining) {
        if (!wait)
            return STAGE_WAIT;
        cond_wait(&c->cond, &c->lock);
    }
    return 0;
}

/* The ends of a change that cover a block in part need that block's other bytes. */
static int need_edges(struct content *c, uint64_t off, uint64_t len, bool wait, struct err *err)
{
    uint64_t end = off + len, first = off % STAGE_BLOCK, last = end % STAGE_BLOCK;
    int result = first ? content_need(c, off - first, 1, wait, err) : 0;
    if (result == 0 && end < c->size && last)
        result = content_need(c, end - last, 1, wait, err);
    return result;
}

static void mark_dirty(struct content *c, uint64_t off, uint64_t len)
{
    for (uint64_t b = off / STAGE_BLOCK; c->map && len && b <= (off + len - 1) / STAGE_BLOCK; b++)
        c->map->blocks[b] = BLOCK_DIRTY;
}

/* What every change of content does before; 0: go on. */
static int prepare_change(struct content *c, uint64_t off, uint64_t len, bool wait, struct err *err)
{
    for (;;) {
        int result = content_load(c, err);
        if (result == 0)
            result = no_changes_now(c, wait);
        if (result == 0)
            result = need_edges(c, off, len, wait, err); /* may give the lock up ... */
        if (result)
            return result;
        if (!c->draining)
            break; /* ... and then look again */
    }
    int result = content_dirty(c, wait, err);
    if (result)
        return result;
    return upload_overtaken(c, off, len, err) || content_grow(c, off + len, err) ? -1 : 0;
}

/* What every change does after; a part that it has made complete is handed to the workers. */
static void conclude_change(struct content *c, uint64_t off, uint64_t len, uint64_t taken)
{
    struct stage *s = c->stage;
    struct node *n = c->node;
    if (off != c->size)
        c->appending = false;
    uint64_t end = off + len;
    bool crossed = end >= STAGE_MULTIPART && part_offset(part_at(off) + 1) <= end;
    if (end > c->size)
        c->size = end;
    bool parts = crossed && s->caps & STORE_MULTIPART && upload_has_work(c);
    ACQUIRE(&s->lock);
    n->seq++;
    n->row.size = c->size;
    n->row.mtime_ns = clock_wall_ns();
    n->explicit_mtime = false;
    room_settle(s, n, c->fd, taken);
    if (parts && !(n->row.flags & N_ORPHAN)) {
        n->parts_wanted = true;
        owed_add(s, n);
    }
}

static int write_all(const struct content *c, uint64_t off, const void *data, size_t len,
                     struct err *err)
{
    if (file_write(c->fd, data, len, off)) {
        int code = errno;
        err_sys(err, code, "write a staged file in %s", c->stage->dir);
        return disk_failed(c->stage, DISK_DATA, code, err);
    }
    disk_good(c->stage, DISK_DATA);
    return 0;
}

/* A full stage empties while the store takes what others wrote: a writer who may wait does. */
static bool room_may_come(struct stage *s, const struct node *n, uint64_t len)
{
    ACQUIRE(&s->lock);
    size_t ours = n->queued && !n->failed;
    bool ever = !s->conf.limit || len < s->conf.limit;
    return ever && !s->stopping && !s->pause_ns && s->owed.n > ours;
}

/* c->lock held, given up meanwhile. */
static int take_room(struct content *c, const struct stage_call *call, uint64_t len,
                     struct err *err)
{
    struct stage *s = c->stage;
    struct err why = {0};
    while (room_take(s, len, &why)) {
        if (why.class != ERR_LIMIT || !room_may_come(s, c->node, len)) {
            if (err)
                *err = why;
            return -1;
        }
        if (!call->wait)
            return STAGE_WAIT;
        if (is_given_up(call))
            return given_up(err);
        lock_drop(&c->lock);
        lock_take(&s->lock);
        cond_wait_for(&s->changed, &s->lock, LOOK_NS);
        lock_drop(&s->lock);
        lock_take(&c->lock);
    }
    return 0;
}

/* A change that broke off has changed what it has changed of what is here, and nothing of what is
 * only in the store; and the file is not longer for it. */
static void broke_off(struct content *c, uint64_t off, uint64_t len, uint64_t taken)
{
    struct stage *s = c->stage;
    struct stat st;
    if (fstat(c->fd, &st) == 0 && (uint64_t)st.st_size > c->size &&
        ftruncate(c->fd, (off_t)c->size))
        c->size = (uint64_t)st.st_size;
    content_clear_absent(c, off, len);
    uint64_t end = off + len < c->size ? off + len : c->size;
    for (uint64_t b = off / STAGE_BLOCK; c->map && b < content_blocks(end); b++)
        if (c->map->blocks[b] == BLOCK_CLEAN)
            c->map->blocks[b] = BLOCK_DIRTY;
    ACQUIRE(&s->lock);
    c->node->seq++;
    room_settle(s, c->node, c->fd, taken);
}

static int write_content(struct content *c, const struct stage_call *call, uint64_t off,
                         const char *data, size_t len, struct err *err)
{
    struct stage *s = c->stage;
    if (len > INT64_MAX - off || off > INT64_MAX)
        return err_sys(err, EFBIG, "write past the largest file");
    int result = take_room(c, call, len, err);
    if (result)
        return result;
    result = prepare_change(c, off, len, call->wait, err);
    if (result) {
        room_give(s, len);
        return result;
    }
    result = write_all(c, off, data, len, err);
    if (result == 0) {
        mark_dirty(c, off, len);
        conclude_change(c, off, len, len);
        return 0;
    }
    broke_off(c, off, len, len);
    return -1;
}

int stage_write(struct stage *s, const struct stage_call *call, uint64_t fh, uint64_t off,
                const void *data, size_t len, struct err *err)
{
    struct content *c = handle_content(s, fh, err);
    if (!c)
        return -1;
    int result = 0;
    if (len) {
        ACQUIRE(&c->lock);
        result = write_content(c, call, off, data, len, err);
    }
    content_done(c);
    if (result == 0) {
        counter_add(&s->counts->writes, 1);
        counter_add(&s->counts->written_bytes, len);
    }
    return result;
}

/* --- allocate, punch, zero ------------------------------------------------------------------- */

static int change_range(struct content *c, int mode, uint64_t off, uint64_t len, struct err *err)
{
    if (fallocate(c->fd, mode, (off_t)off, (off_t)len) == 0)
        return 0;
    if (errno != EOPNOTSUPP || !(mode & (FALLOC_FL_PUNCH_HOLE | FALLOC_FL_ZERO_RANGE)))
        return err_sys(err, errno, "allocate in a staged file");
    cleanup_free char *zeros = xcalloc(1, STAGE_BLOCK);
    for (uint64_t done = 0; done < len;) {
        size_t n = len - done < STAGE_BLOCK ? (size_t)(len - done) : STAGE_BLOCK;
        if (write_all(c, off + done, zeros, n, err))
            return -1;
        done += n;
    }
    return 0;
}

static int fallocate_content(struct content *c, const struct stage_call *call, int mode,
                             uint64_t off, uint64_t len, struct err *err)
{
    struct stage *s = c->stage;
    bool keep = mode & FALLOC_FL_KEEP_SIZE, zeroes = mode & ~FALLOC_FL_KEEP_SIZE;
    bool inside = mode & FALLOC_FL_PUNCH_HOLE || (keep && zeroes); /* beyond the end is nothing */
    uint64_t taken = mode & FALLOC_FL_PUNCH_HOLE ? 0 : len;
    int result = take_room(c, call, taken, err);
    if (result)
        return result;
    result = content_load(c, err);
    if (result || (inside && off >= c->size)) {
        room_give(s, taken);
        return result;
    }
    if (inside && len > c->size - off)
        len = c->size - off;
    if (!zeroes && keep) { /* room alone: no byte changes */
        result = change_range(c, mode, off, len, err);
        ACQUIRE(&s->lock);
        room_settle(s, c->node, c->fd, taken);
        return result;
    }
    uint64_t end = off + len, from = zeroes ? off : c->size < off ? c->size : off;
    result = prepare_change(c, from, end - from, call->wait, err);
    if (result == 0 && !zeroes) /* bytes that are there stay as they are */
        result = content_need(c, off, len, call->wait, err);
    if (result) {
        room_give(s, taken);
        return result;
    }
    if (change_range(c, mode, off, len, err)) {
        broke_off(c, from, end - from, taken);
        return -1;
    }
    mark_dirty(c, from, end - from);
    conclude_change(c, from, end - from, taken);
    return 0;
}

int stage_fallocate(struct stage *s, const struct stage_call *call, uint64_t fh, int mode,
                    uint64_t off, uint64_t len, struct err *err)
{
    static const int known[] = {0, FALLOC_FL_KEEP_SIZE, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                                FALLOC_FL_ZERO_RANGE, FALLOC_FL_ZERO_RANGE | FALLOC_FL_KEEP_SIZE};
    bool ok = false;
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        ok |= mode == known[i];
    if (!ok)
        return refuse(EOPNOTSUPP, "this way of allocating", err);
    if (len == 0)
        return refuse(EINVAL, "nothing to allocate", err);
    if (off > INT64_MAX || len > INT64_MAX - off)
        return refuse(EFBIG, "past the largest file", err);
    struct content *c = handle_content(s, fh, err);
    if (!c)
        return -1;
    int result;
    {
        ACQUIRE(&c->lock);
        result = fallocate_content(c, call, mode, off, len, err);
    }
    content_done(c);
    return result;
}
