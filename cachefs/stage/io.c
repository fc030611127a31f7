/*
 * Open files: create, open, flush, sync, release; write.c changes what is in them. A handle is a
 * number that says which inode and which generation of its content; what a life of the daemon knows
 * more of it (that it is open) is learned anew by the next life from the first call that names it.
 */
#include <errno.h>
#include <fcntl.h>

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
    if (!n->opens) { /* opened in an earlier life */
        n->opens = 1;
        n->writers = fh & FH_WRITES ? 1 : 0;
    }
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

void node_note_open(struct stage *s, struct node *n, bool open)
{
    unsigned was = n->row.flags;
    n->row.flags = open ? was | N_OPEN : was & ~(unsigned)N_OPEN;
    if (n->row.flags != was && journal_save(s, n, NULL))
        n->row.flags = was;
}

static void opened(struct stage *s, struct node *n, int flags, uint64_t *ret_fh)
{
    n->opens++;
    n->writers += open_changes(flags);
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
        struct err why = {0};
        err_sys(&why, code, "make a staged file: %s/data/%s", s->dir, staged);
        result = disk_failed(s, DISK_DATA, code, &why);
        disk_lacks(s, &why);
        if (err)
            *err = why;
        room_want(s);
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

static int fetch_first(struct stage *s, struct node *n, bool wait, struct err *err)
{
    struct content *c = content_take(s, n);
    int result;
    {
        ACQUIRE(&c->lock);
        result = content_load(c, err);
        if (result == 0)
            result = content_need(c, 0, 1, wait, err);
    }
    content_done(c);
    return result;
}

/* The first block, which a reader wants anyway, shows that the store has no other content by now;
 * if it has, that one is looked for. s->lock held, given up meanwhile. */
static int look_at_store(struct stage *s, const struct stage_call *c, struct node *n,
                         struct err *err)
{
    struct err why = {0};
    if (!node_is_absent(n) || n->row.flags & (N_DIRTY | N_ORPHAN))
        return 0;
    n->pins++;
    lock_drop(&s->lock);
    int result = fetch_first(s, n, c->wait, &why);
    lock_take(&s->lock);
    if (result < 0 && why.class == ERR_STALE && n->parent) {
        struct node *folder = n->parent;
        folder->pins++;
        (void)folder_refresh(s, folder, c->wait, /* force= */ true, NULL);
        folder->pins--;
    }
    n->pins--;
    if (result >= 0 || why.class == ERR_LIMIT) /* what has no room here is read all the same */
        return result == STAGE_WAIT ? STAGE_WAIT : 0;
    if (err)
        *err = why;
    return -1;
}

/*
 * The kernel gives as many bytes of a file as it takes it to have, so what is opened must be the
 * content whose size it was told. If another writer replaced it since, ESTALE has the kernel ask
 * what the name stands for, and open that. s->lock held, given up meanwhile.
 */
static int open_node(struct stage *s, const struct stage_call *c, struct node *n, int flags,
                     uint64_t *ret_fh, struct err *err)
{
    bool reads = (flags & O_ACCMODE) != O_WRONLY && !(flags & O_TRUNC);
    if (node_is_folder(n))
        return refuse(EISDIR, n->row.name, err);
    if (n->row.kind == NODE_LINK)
        return refuse(ELOOP, n->row.name, err);
    int result = reads ? look_at_store(s, c, n, err) : 0;
    if (result)
        return result;
    if (n->told_gen != n->row.gen)
        return err_set(err, ERR_STALE, "replaced by another writer (open it again)");
    if (flags & O_TRUNC && (n->row.size || n->row.flags & N_PUBLISH)) {
        n->pins++;
        lock_drop(&s->lock);
        result = truncate_now(s, n, c->wait, err);
        lock_take(&s->lock);
        n->pins--;
        if (result)
            return result;
    }
    opened(s, n, flags, ret_fh);
    n->given |= reads; /* its pages and its size are with the kernel from now on */
    if (node_is_absent(n) || n->row.size >= NOTED_BYTES)
        node_note_open(s, n, true);
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
        if (n) {
            n->told_gen = n->row.gen; /* by the answer */
            result = open_node(s, c, n, flags, ret_fh, err);
        } else if ((result = create_node(s, c, folder, name, mode, &n, err)) == 0) {
            opened(s, n, flags, ret_fh);
        }
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
    if (n->writers && fh & FH_WRITES)
        n->writers--;
    if (n->opens)
        return 0;
    if (!n->known_before) /* else others may have it open since then */
        node_note_open(s, n, false);
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
    bool dirty;
    {
        ACQUIRE(&s->lock);
        n = handle_node(s, fh, err);
        if (!n)
            return -1;
        if (!call->wait)
            return STAGE_WAIT; /* not the network, but the disk may take its time */
        dirty = n->row.flags & N_DIRTY;
        if (dirty && owed_publish(s, n, err))
            return -1;
        n->pins += dirty;
    }
    if (!dirty)
        return journal_sync(s, err);
    int result = sync_here(s, n, err);
    ACQUIRE(&s->lock);
    n->pins--;
    return result;
}
