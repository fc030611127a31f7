/*
 * Open files: create, open, write, allocate, flush, sync, release. A handle is a number that
 * says which inode and which generation of its content; what a life of the daemon knows more of it
 * (that it is open) is learned anew by the next life from the first call that names it.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <string.h>

#include "clock.h"
#include "file.h"
#include "mem.h"
#include "content-internal.h"
#include "owed-internal.h"

/* --- handles --------------------------------------------------------------------------------- */

/* While it is open its content stays in memory. s->lock held. */
static void hold(struct stage *s, struct node *n)
{
    if (n->held)
        return;
    content_ref(s, n);
    n->held = true;
}

struct content *handle_content(struct stage *s, uint64_t fh, struct err *err)
{
    ACQUIRE(&s->lock);
    struct node *n = handle_node(s, fh, err);
    if (!n)
        return NULL;
    if (handle_is_stale(n, fh)) {
        err_set(err, ERR_STALE, "replaced by another writer since it was opened (open it again)");
        return NULL;
    }
    if (!n->opens)
        n->opens = 1; /* opened in an earlier life */
    hold(s, n);
    return content_ref(s, n);
}

struct content *content_take(struct stage *s, struct node *n)
{
    ACQUIRE(&s->lock);
    return content_ref(s, n);
}

void content_done(struct content *c)
{
    struct stage *s = c->stage;
    ACQUIRE(&s->lock);
    content_unref(s, c);
}

static void opened(struct stage *s, struct node *n, int flags, uint64_t *ret_fh)
{
    n->opens++;
    hold(s, n);
    *ret_fh = handle_make(n, flags);
}

/* --- create and open ------------------------------------------------------------------------- */

static int create_node(struct stage *s, const struct stage_call *c, struct node *folder,
                       const char *name, mode_t mode, struct node **ret, struct err *err)
{
    char staged[32];
    if (name_check(s, folder, name, err))
        return -1;
    struct node *n = node_make(s, NODE_FILE, name, err);
    if (!n)
        return -1;
    n->row.mode = mode & 07777;
    n->row.uid = c->uid;
    n->row.gid = c->gid;
    n->row.parent = folder->row.ino;
    n->row.flags = N_STAGED | N_DIRTY | N_KNOWN;
    n->seq = 1;
    content_name(n->row.ino, false, staged);
    int fd = openat(s->data_fd, staged, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    int result = 0, code = errno;
    if (fd >= 0) {
        close(fd);
    } else {
        err_sys(err, code, "make a staged file: %s/data/%s", s->dir, staged);
        result = disk_failed(s, DISK_DATA, code, err);
    }
    bool begun = result == 0 && journal_begin(s, err) == 0;
    if (!begun || journal_put(s, n, err) || journal_call(s, c, n->row.ino, err) ||
        journal_commit(s, err)) {
        if (begun)
            journal_rollback(s);
        n->row.flags |= N_ORPHAN;
        node_reap(s, n);
        return -1;
    }
    node_link(s, folder, n);
    node_touch_names(folder, n);
    dirty_add(s, n);
    *ret = n;
    return 0;
}

/* Of what an earlier close wanted stored nothing is left, and whoever empties the file is about to
 * write it anew: halves of that are not to be stored before he closes it. c->lock held. */
static void withdraw(struct content *c)
{
    struct stage *s = c->stage;
    ACQUIRE(&s->lock);
    owed_withdraw(s, c->node);
}

static int truncate_now(struct stage *s, struct node *n, bool wait, struct err *err)
{
    struct content *c = content_take(s, n);
    int result;
    {
        ACQUIRE(&c->lock);
        result = content_load(c, err);
        if (result == 0)
            result = content_truncate(c, 0, wait, err);
        if (result == 0)
            withdraw(c);
    }
    content_done(c);
    return result;
}

/* s->lock held, given up while it is cut. */
static int open_node(struct stage *s, const struct stage_call *c, struct node *n, int flags,
                     uint64_t *ret_fh, struct err *err)
{
    if (node_is_folder(n))
        return refuse(EISDIR, n->row.name, err);
    if (n->row.kind == NODE_LINK)
        return refuse(ELOOP, n->row.name, err);
    if (flags & O_TRUNC && (flags & O_ACCMODE) != O_RDONLY &&
        (n->row.size || n->row.flags & N_PUBLISH)) {
        n->pins++;
        lock_drop(&s->lock);
        int result = truncate_now(s, n, c->wait, err);
        lock_take(&s->lock);
        n->pins--;
        if (result)
            return result;
    }
    opened(s, n, flags, ret_fh);
    return 0;
}

int stage_create(struct stage *s, const struct stage_call *c, uint64_t parent, const char *name,
                 mode_t mode, int flags, struct stage_attr *ret, uint64_t *ret_fh, struct err *err)
{
    ACQUIRE(&s->lock);
    struct node *folder, *n;
    uint64_t ino;
    int result = 0;
    if (call_answered(s, c, &ino) && (n = node_of(s, ino))) {
        opened(s, n, flags, ret_fh);
    } else {
        if (folder_of(s, parent, &folder, err))
            return -1;
        result = child_now(s, folder, name, c->wait, &n, err);
        if (result)
            return result;
        if (n && flags & O_EXCL)
            return refuse(EEXIST, name, err);
        if (n)
            result = open_node(s, c, n, flags, ret_fh, err);
        else if ((result = create_node(s, c, folder, name, mode, &n, err)) == 0)
            opened(s, n, flags, ret_fh);
    }
    if (result)
        return result;
    n->lookups++;
    node_attr(s, n, ret);
    return 0;
}

int stage_open_file(struct stage *s, const struct stage_call *c, uint64_t ino, int flags,
                    uint64_t *ret_fh, struct err *err)
{
    ACQUIRE(&s->lock);
    struct node *n = node_of(s, ino);
    if (!n)
        return refuse(ESTALE, "a file", err);
    return open_node(s, c, n, flags, ret_fh, err);
}

int stage_release(struct stage *s, const struct stage_call *c, uint64_t fh, struct err *err)
{
    (void)c;
    ACQUIRE(&s->lock);
    struct node *n = handle_node(s, fh, err);
    if (!n)
        return -1;
    if (n->opens)
        n->opens--;
    if (n->opens)
        return 0;
    /* Nobody is left who would: a life may have ended between flush and release. */
    if (!(n->row.flags & N_PUBLISH) || n->publish_seq != n->seq)
        owed_insist(s, n);
    if (n->held) {
        n->held = false;
        content_unref(s, n->content); /* may free the node */
    } else {
        node_reap(s, n);
    }
    return 0;
}

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

/* What every change does after: *ret tells whether a part is complete. */
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
static bool room_may_come(struct stage *s, const struct node *n)
{
    ACQUIRE(&s->lock);
    size_t ours = n->queued && !n->failed;
    return !s->stopping && !s->pause_ns && s->owed.n > ours;
}

/* c->lock held, given up meanwhile. */
static int take_room(struct content *c, const struct stage_call *call, uint64_t len,
                     struct err *err)
{
    struct stage *s = c->stage;
    struct err why = {0};
    while (room_take(s, len, &why)) {
        if (why.class != ERR_LIMIT || !room_may_come(s, c->node)) {
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

static int fallocate_content(struct content *c, bool wait, int mode, uint64_t off, uint64_t len,
                             struct err *err)
{
    struct stage *s = c->stage;
    bool keep = mode & FALLOC_FL_KEEP_SIZE, zeroes = mode & ~FALLOC_FL_KEEP_SIZE;
    int result = content_load(c, err);
    if (result)
        return -1;
    uint64_t end = off + len,
             change = keep && end > c->size ? c->size - (off < c->size ? off : c->size) : len;
    if (mode & FALLOC_FL_PUNCH_HOLE || (keep && zeroes)) { /* nothing beyond the end is kept */
        if (off >= c->size)
            return 0;
        len = change;
        end = off + len;
    }
    uint64_t taken = mode & FALLOC_FL_PUNCH_HOLE ? 0 : len;
    if (room_take(s, taken, err))
        return -1;
    if (!zeroes && keep) { /* room alone: no byte changes */
        result = change_range(c, mode, off, len, err);
        ACQUIRE(&s->lock);
        room_settle(s, c->node, c->fd, taken);
        return result;
    }
    uint64_t from = zeroes ? off : c->size < off ? c->size : off;
    result = prepare_change(c, from, end - from, wait, err);
    if (result == 0 && !zeroes) /* bytes that are there stay as they are */
        result = content_need(c, off, len, wait, err);
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
        result = fallocate_content(c, call->wait, mode, off, len, err);
    }
    content_done(c);
    return result;
}

/* --- to the store ---------------------------------------------------------------------------- */

int stage_flush(struct stage *s, const struct stage_call *call, uint64_t fh, struct err *err)
{
    ACQUIRE(&s->lock);
    struct node *n = handle_node(s, fh, err);
    if (!n)
        return -1;
    if (!(fh & FH_WRITES) || n->row.flags & N_ORPHAN)
        return 0;
    if (waits_for_store(s) && carry_is_light(s, n)) {
        int result = call->wait ? carry_up(s, call, n, err) : STAGE_WAIT;
        if (!call->wait || result != CARRY_NOT)
            return result;
    }
    if (owed_publish(s, n, err))
        return -1;
    if (!waits_for_store(s) || !node_owes(n))
        return 0;
    return call->wait ? owed_wait(s, call, n, err) : STAGE_WAIT;
}

bool stage_flush_is_light(struct stage *s, uint64_t fh)
{
    ACQUIRE(&s->lock);
    const struct node *n = handle_node(s, fh, NULL);
    return n && waits_for_store(s) && !work_is_paused(s) && carry_is_light(s, n);
}

/* What a machine that stops leaves of it is whole. */
static int say_synced(struct stage *s, struct node *n, struct err *err)
{
    ACQUIRE(&s->lock);
    if (!(n->row.flags & N_DIRTY) || n->row.flags & N_SYNCED)
        return 0;
    unsigned flags = n->row.flags;
    n->row.flags |= N_SYNCED | N_DURABLE;
    n->synced_seq = n->seq;
    if (journal_save(s, n, err) == 0)
        return 0;
    n->row.flags = flags;
    return -1;
}

static int sync_here(struct stage *s, struct node *n, struct err *err)
{
    struct content *c = content_take(s, n);
    int result;
    {
        ACQUIRE(&c->lock); /* nothing is written meanwhile */
        result = content_load(c, err);
        if (result == 0)
            result = content_sync(c, err);
        if (result == 0)
            result = say_synced(s, n, err);
    }
    content_done(c);
    return result ? -1 : journal_sync(s, err);
}

int stage_fsync(struct stage *s, const struct stage_call *call, uint64_t fh, bool data_only,
                struct err *err)
{
    (void)data_only; /* an object has both or neither */
    if (waits_for_store(s))
        return stage_flush(s, call, fh | FH_WRITES, err);
    struct node *n;
    {
        ACQUIRE(&s->lock);
        n = handle_node(s, fh, err);
        if (!n)
            return -1;
        if (!(n->row.flags & N_DIRTY))
            return journal_sync(s, err);
        if (!call->wait)
            return STAGE_WAIT; /* not the network, but the disk may take its time */
        if (owed_publish(s, n, err))
            return -1;
        n->pins++;
    }
    int result = sync_here(s, n, err);
    ACQUIRE(&s->lock);
    n->pins--;
    return result;
}
