/*
 * Names and attributes that change: setattr, mkdir, symlink, unlink, rmdir. What changes is written
 * to the journal in one transaction with the call's number, then to memory; with `--commit close`
 * the call then waits for the store.
 */
#include <errno.h>
#include <string.h>

#include "clock.h"
#include "mem.h"
#include "content-internal.h"
#include "owed-internal.h"
#include "undo-internal.h"

int refuse(int e, const char *name, struct err *err)
{
    err_sys(err, e, "%.255s", name ? name : "");
    return -1;
}

int not_there(const char *name, struct err *err)
{
    return refuse(ENOENT, name, err);
}

int unpinned(struct stage *s, struct node *n, const char *name, int result, struct err *err)
{
    n->pins--;
    if (result || !(n->row.flags & N_ORPHAN))
        return result;
    node_reap(s, n);
    return not_there(name, err);
}

int folder_of(struct stage *s, uint64_t ino, struct node **ret, struct err *err)
{
    struct node *n = node_of(s, ino);
    if (!n || n->row.flags & N_ORPHAN)
        return refuse(n ? ENOENT : ESTALE, "a folder", err);
    if (!node_is_folder(n))
        return refuse(ENOTDIR, n->row.name, err);
    *ret = n;
    return 0;
}

int child_now(struct stage *s, struct node *folder, const char *name, bool wait, struct node **ret,
              struct err *err)
{
    *ret = child_of(s, folder, name);
    if (*ret && node_is_ours(*ret))
        return 0;
    folder->pins++;
    int result = folder_refresh(s, folder, wait, false, err);
    folder->pins--;
    if (result)
        return result;
    if (folder->row.flags & N_ORPHAN)
        return not_there(name, err);
    *ret = child_of(s, folder, name);
    return 0;
}

/* --- new names ------------------------------------------------------------------------------- */

static int make_node(struct stage *s, const struct stage_call *c, struct node *folder,
                     const struct record *like, struct node **ret, struct err *err)
{
    if (name_check(s, folder, like->name, err))
        return -1;
    struct node *n = node_make(s, like->kind, like->name, err);
    if (!n)
        return -1;
    n->row.mode = like->mode;
    n->row.uid = c->uid;
    n->row.gid = c->gid;
    n->row.flags = like->flags | (like->kind == NODE_FOLDER ? N_LISTED : 0);
    n->row.parent = folder->row.ino;
    n->row.target = like->target ? xstrdup(like->target) : NULL;
    n->row.size = like->size;
    bool begun = journal_begin(s, err) == 0;
    if (!begun || journal_put(s, n, err) || journal_call(s, c, n->row.ino, err) ||
        journal_commit(s, err)) {
        if (begun)
            journal_rollback(s);
        n->row.flags = N_ORPHAN;
        node_reap(s, n);
        return -1;
    }
    node_link(s, folder, n);
    node_touch_names(folder, n);
    if (node_is_folder(n))
        n->listed_ns = clock_mono_ns();
    owed_add(s, n);
    *ret = n;
    return 0;
}

/* mkdir and symlink: s->lock held. */
static int make(struct stage *s, const struct stage_call *c, uint64_t parent,
                const struct record *like, struct stage_attr *ret, struct err *err)
{
    struct node *folder, *n;
    uint64_t ino;
    if (waits_for_store(s) && !c->wait)
        return STAGE_WAIT;
    if (!call_answered(s, c, &ino) || !(n = node_of(s, ino))) {
        if (folder_of(s, parent, &folder, err))
            return -1;
        int result = child_now(s, folder, like->name, c->wait, &n, err);
        if (result)
            return result;
        if (n)
            return refuse(EEXIST, like->name, err);
        if (make_node(s, c, folder, like, &n, err))
            return -1;
    }
    if (waits_for_store(s) && owed_wait(s, c, n, err)) {
        undo_make(s, c, n);
        return -1;
    }
    n->lookups++;
    node_attr(s, n, ret);
    return 0;
}

int stage_mkdir(struct stage *s, const struct stage_call *c, uint64_t parent, const char *name,
                mode_t mode, struct stage_attr *ret, struct err *err)
{
    ACQUIRE(&s->lock);
    const struct record like = {
        .name = (char *)name, .kind = NODE_FOLDER, .mode = mode & 07777, .flags = N_META | N_KNOWN};
    return make(s, c, parent, &like, ret, err);
}

int stage_symlink(struct stage *s, const struct stage_call *c, uint64_t parent, const char *name,
                  const char *target, struct stage_attr *ret, struct err *err)
{
    ACQUIRE(&s->lock);
    size_t len = strlen(target);
    if (len == 0 || len >= PATH_MAX)
        return refuse(len ? ENAMETOOLONG : ENOENT, name, err);
    if (!(s->caps & STORE_META))
        return refuse(EPERM, name, err); /* nothing could tell a link from a file */
    const struct record like = {.name = (char *)name,
                                .kind = NODE_LINK,
                                .mode = 0777,
                                .size = len,
                                .target = (char *)target,
                                .flags = N_DIRTY | N_PUBLISH | N_KNOWN};
    return make(s, c, parent, &like, ret, err);
}

/* --- attributes ------------------------------------------------------------------------------ */

void node_stamp(struct stage *s, const struct node *n)
{
    char name[32];
    const struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, clock_timespec(n->row.mtime_ns)};
    content_name(n->row.ino, false, name);
    if (n->row.flags & N_DIRTY && n->row.flags & N_STAGED)
        utimensat(s->data_fd, name, times, 0);
}

static int set_attributes(struct stage *s, const struct stage_call *c, struct node *n,
                          const struct stat *st, unsigned what, struct err *err)
{
    struct record old = n->row;
    if (what & STAGE_SET_MODE)
        n->row.mode = st->st_mode & 07777;
    if (what & STAGE_SET_UID)
        n->row.uid = st->st_uid;
    if (what & STAGE_SET_GID)
        n->row.gid = st->st_gid;
    if (what & STAGE_SET_MTIME)
        n->row.mtime_ns = clock_ns_of(&st->st_mtim);
    bool kept = s->caps & STORE_META && n->parent;
    if (kept)
        n->row.flags |= N_META | N_KNOWN;
    bool begun = journal_begin(s, err) == 0;
    if (!begun || journal_put(s, n, err) || journal_call(s, c, n->row.ino, err) ||
        journal_commit(s, err)) {
        if (begun)
            journal_rollback(s);
        n->row = old;
        return -1;
    }
    n->touched_ns = clock_wall_ns();
    if (what & STAGE_SET_MTIME) {
        n->names_ns = 0;
        n->explicit_mtime = true;
        node_stamp(s, n);
    }
    owed_add(s, n);
    return 0;
}

/* s->lock held, given up meanwhile. */
static int set_size(struct stage *s, const struct stage_call *c, struct node *n, uint64_t size,
                    struct err *err)
{
    if (n->row.kind != NODE_FILE)
        return refuse(node_is_folder(n) ? EISDIR : EINVAL, n->row.name, err);
    struct content *content = content_ref(s, n);
    lock_drop(&s->lock);
    int result;
    {
        ACQUIRE(&content->lock);
        result = content_load(content, err);
        if (result == 0)
            result = content_truncate(content, size, c->wait, err);
    }
    lock_take(&s->lock);
    content_unref(s, content);
    if (result == 0 && !n->opens) /* nobody will close it */
        result = owed_publish(s, n, err);
    return result;
}

#define SET_META (STAGE_SET_MODE | STAGE_SET_UID | STAGE_SET_GID | STAGE_SET_MTIME)

static int set(struct stage *s, const struct stage_call *c, struct node *n, const struct stat *st,
               unsigned what, struct err *err)
{
    uint64_t ino;
    if (call_answered(s, c, &ino))
        what &= ~(unsigned)SET_META; /* cutting again changes nothing */
    int result = 0;
    const struct attributes before = attributes_of(n);
    if (what & STAGE_SET_ATIME)
        n->atime_ns = clock_ns_of(&st->st_atim);
    if (what & STAGE_SET_SIZE)
        result = set_size(s, c, n, (uint64_t)st->st_size, err);
    if (result == 0 && what & SET_META)
        result = set_attributes(s, c, n, st, what, err);
    if (result)
        return result;
    /* An open file's attributes go with its content, and its size is content. */
    bool size_alone = n->opens && !(what & SET_META);
    bool later = n->row.flags & N_DIRTY && (size_alone || !(n->row.flags & N_PUBLISH));
    const struct attributes made = attributes_of(n);
    if (!waits_for_store(s) || later || owed_wait(s, c, n, err) == 0)
        return 0;
    if (what & SET_META)
        undo_attributes(s, c, n, &before, &made);
    if (what & STAGE_SET_SIZE) /* that stays, and is still owed */
        tell_change(s, n->row.ino, NULL);
    return -1;
}

int stage_setattr(struct stage *s, const struct stage_call *c, uint64_t ino, const struct stat *st,
                  unsigned what, struct stage_attr *ret, struct err *err)
{
    ACQUIRE(&s->lock);
    struct node *n = node_of(s, ino);
    if (!n)
        return refuse(ESTALE, "a file", err);
    n->pins++;
    int result = node_look(s, n, c->wait, err); /* what is not set stays as it is there */
    bool clean = !(n->row.flags & N_DIRTY) && !(n->row.flags & N_ORPHAN);
    if (result == 0 && n->row.flags & N_ORPHAN && n->told_gen != n->row.gen)
        result = refuse(ESTALE, "removed or replaced by another writer", err);
    if (result == 0 && waits_for_store(s) && !c->wait && clean && what & ~STAGE_SET_ATIME)
        result = STAGE_WAIT;
    if (result == 0)
        result = set(s, c, n, st, what, err);
    n->pins--;
    if (result == 0)
        node_attr(s, n, ret);
    node_reap(s, n);
    return result;
}

/* --- names that go --------------------------------------------------------------------------- */

bool node_is_stored(const struct stage *s, const struct node *n)
{
    bool implied = !(s->caps & STORE_FOLDERS); /* a folder may be there without a marker */
    unsigned asked = implied ? N_META | N_KNOWN : N_META;
    if (node_is_folder(n) && !(n->row.flags & asked))
        return true; /* nobody asked for its marker yet, or the listing was the answer */
    return n->row.flags & N_STORED;
}

bool node_maybe_at_path(const struct node *n)
{
    if (n->row.flags & N_STORED && !n->row.skey)
        return false;
    return n->row.skey || n->row.flags & (N_PUBLISH | N_META);
}

static void no_part(void *arg, unsigned part, uint64_t len, const char *etag)
{
    (void)arg;
    (void)part;
    (void)len;
    (void)etag;
}

int orphan_upload(struct stage *s, const struct node *n, struct err *err)
{
    cleanup_free char *key = NULL, *id = NULL;
    if (!(n->row.flags & N_DIRTY) || !(s->caps & STORE_MULTIPART) ||
        !journal_find_upload(s, n->row.ino, &key, &id, no_part, NULL) || n->busy)
        return 0; /* a busy one is seen to when it lands */
    if (journal_doom(s, key, id, n->row.ino, err) || journal_upload_drop(s, n->row.ino, err))
        return -1;
    doom_add(s, key, id, 0); /* should the transaction fail, an abort too many harms nobody */
    return 0;
}

int orphan_journal(struct stage *s, const struct node *n, struct err *err)
{
    struct record row = n->row;
    row.flags |= N_ORPHAN;
    cleanup_free char *key = node_stored_key(n), *path = node_key_new(n);
    if (node_is_stored(s, n) && journal_doom(s, key, NULL, n->row.ino, err))
        return -1;
    if (node_maybe_at_path(n) && journal_doom(s, path, NULL, n->row.ino, err))
        return -1;
    return orphan_upload(s, n, err) || journal_put_record(s, &row, err) ? -1 : 0;
}

void orphan_apply(struct stage *s, struct node *n)
{
    cleanup_free char *key = node_stored_key(n), *path = node_key_new(n);
    bool stored = node_is_stored(s, n), maybe = node_maybe_at_path(n);
    /* What an earlier life had open shows itself by its first call, which may come later. */
    bool open = n->opens || (n->known_before && n->row.flags & N_OPEN);
    /* As long as it holds its key, that is neither deleted nor written over. */
    bool absent = stored && open && node_is_absent(n);
    /* It may be open since an earlier life; the kernel will say when it forgets it. */
    if (n->known_before && !n->lookups)
        n->lookups = 1;
    node_touch_names(n->parent, n);
    node_unlink(s, n);
    node_set_skey(s, n, absent ? xstrdup(key) : NULL);
    n->fetch_first = absent;
    n->row.flags |= N_ORPHAN;
    n->row.flags &= ~(unsigned)N_PUBLISH;
    dirty_remove(s, n);
    if (stored)
        doom_add(s, key, NULL, n->row.ino);
    if (maybe)
        doom_add(s, path, NULL, n->row.ino);
    if (absent) {
        owed_add(s, n);
    } else if (!n->busy) {
        owed_remove(s, n);
        node_reap(s, n);
    }
}

bool keep_folder(struct stage *s, struct node *folder)
{
    if (!folder->parent || folder->first || s->caps & STORE_FOLDERS ||
        folder->row.flags & (N_STORED | N_META))
        return false;
    folder->row.flags |= N_META | N_KNOWN;
    if (journal_save(s, folder, NULL)) {
        folder->row.flags &= ~(unsigned)N_META;
        return false;
    }
    owed_add(s, folder);
    return true;
}

/* s->lock held. */
static int remove_node(struct stage *s, const struct stage_call *c, struct node *n,
                       struct removed *ret, struct err *err)
{
    struct node *folder = n->parent;
    bool begun = journal_begin(s, err) == 0;
    if (!begun || orphan_journal(s, n, err) || journal_call(s, c, n->row.ino, err) ||
        journal_commit(s, err)) {
        if (begun)
            journal_rollback(s);
        return -1;
    }
    removed_begin(ret, n);
    orphan_apply(s, n);
    ret->kept = keep_folder(s, folder);
    return 0;
}

/* 0, -1 or STAGE_WAIT. */
static int child_there(struct stage *s, const struct stage_call *c, uint64_t parent,
                       const char *name, struct node **ret, struct err *err)
{
    struct node *folder;
    if (folder_of(s, parent, &folder, err))
        return -1;
    int result = child_now(s, folder, name, c->wait, ret, err);
    return result || *ret ? result : not_there(name, err);
}

static int unlink_child(struct stage *s, const struct stage_call *c, uint64_t parent,
                        const char *name, struct removed *ret, struct err *err)
{
    struct node *n;
    int result = child_there(s, c, parent, name, &n, err);
    if (result)
        return result;
    if (node_is_folder(n))
        return refuse(EISDIR, name, err);
    return remove_node(s, c, n, ret, err);
}

static int rmdir_child(struct stage *s, const struct stage_call *c, uint64_t parent,
                       const char *name, struct removed *ret, struct err *err)
{
    struct node *n;
    int result = child_there(s, c, parent, name, &n, err);
    if (result)
        return result;
    if (!node_is_folder(n))
        return refuse(ENOTDIR, name, err);
    if (n->first)
        return refuse(ENOTEMPTY, name, err);
    n->pins++;
    result = folder_refresh(s, n, c->wait, false, err); /* others may have put something there */
    result = unpinned(s, n, name, result, err);
    if (result)
        return result;
    if (n->first)
        return refuse(ENOTEMPTY, name, err);
    return remove_node(s, c, n, ret, err);
}

typedef int remove_fn(struct stage *s, const struct stage_call *c, uint64_t parent,
                      const char *name, struct removed *ret, struct err *err);

static int remove_name(struct stage *s, const struct stage_call *c, uint64_t parent,
                       const char *name, remove_fn *fn, struct err *err)
{
    ACQUIRE(&s->lock);
    uint64_t ino;
    if (waits_for_store(s) && !c->wait)
        return STAGE_WAIT;
    if (call_answered(s, c, &ino))
        return waits_for_store(s) ? doom_wait(s, c, ino, err) : 0;
    struct removed removed = {0};
    int result = fn(s, c, parent, name, &removed, err);
    if (result)
        return result;
    if (waits_for_store(s) && doom_wait(s, c, removed.n->row.ino, err)) {
        undo_remove(s, c, &removed);
        result = -1;
    }
    removed_end(s, &removed);
    return result;
}

int stage_unlink(struct stage *s, const struct stage_call *c, uint64_t parent, const char *name,
                 struct err *err)
{
    return remove_name(s, c, parent, name, unlink_child, err);
}

int stage_rmdir(struct stage *s, const struct stage_call *c, uint64_t parent, const char *name,
                struct err *err)
{
    return remove_name(s, c, parent, name, rmdir_child, err);
}
