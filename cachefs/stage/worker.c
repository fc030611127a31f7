/*
 * The workers that pay what is owed. A worker takes one node (or a batch of keys that must go:
 * dooms.c), marks its keys as flying, works without the lock, and writes down what the store
 * has now.
 *
 * Who must wait for whom: two requests never work on one key; a key that still holds the object of
 * a node that moves away is not written before that node's move; a key is not deleted while a node
 * of that name is about to replace it, so that a rename over a file leaves no gap. Where moves wait
 * for each other in a circle (names swapped), one object is fetched and carried up anew.
 */
#define LOG_MODULE "stage"

#include <string.h>

#include "clock.h"
#include "log.h"
#include "mem.h"
#include "content-internal.h"
#include "task-internal.h"

#define LOOK_AT     64 /* nodes of the queue, for one that may go now */
#define CHAIN_LIMIT 16

struct object_meta node_meta(const struct node *n)
{
    mode_t kind = n->row.kind == NODE_FOLDER ? S_IFDIR
                  : n->row.kind == NODE_LINK ? S_IFLNK
                                             : S_IFREG;
    return (struct object_meta){.mode = kind | n->row.mode,
                                .uid = n->row.uid,
                                .gid = n->row.gid,
                                .mtime_ns = n->row.mtime_ns};
}

struct node *node_at(struct stage *s, const char *key)
{
    struct node *n = s->root;
    while (n && *key) {
        const char *slash = strchrnul(key, '/');
        cleanup_free char *name = xstrndup(key, (size_t)(slash - key));
        n = node_is_folder(n) ? child_of(s, n, name) : NULL;
        if (n && *slash && !slash[1])
            return node_is_folder(n) ? n : NULL;
        key = *slash ? slash + 1 : slash;
        if (n && !*slash && node_is_folder(n))
            return NULL; /* "a" is no folder's key */
    }
    return n;
}

/* --- keys in use ----------------------------------------------------------------------------- */

bool key_flies(const struct stage *s, const char *key)
{
    for (const struct flight *f = s->flying; f; f = f->next)
        if (strcmp(f->key, key) == 0)
            return true;
    return false;
}

void key_departs(struct stage *s, struct flight *f, const char *key)
{
    f->key = key;
    f->next = s->flying;
    s->flying = f;
}

void key_lands(struct stage *s, const struct flight *f)
{
    struct flight **p = &s->flying;
    while (*p != f)
        p = &(*p)->next;
    *p = f->next;
}

/* In stores with folders, something of another kind that must go first. */
static bool in_the_way(struct stage *s, const char *key)
{
    if (!(s->caps & STORE_FOLDERS) || !s->n_dooms)
        return false;
    cleanup_free char *part = xstrdup(key);
    for (char *p = part; (p = strchr(p, '/')); p++) {
        *p = '\0';
        if (doom_find(s, part))
            return true;
        *p = '/';
    }
    cleanup_free char *folder = xasprintf("%s/", key);
    return doom_find(s, folder) != NULL;
}

/* Whose object lies at that key, or may lie there. */
static struct node *holder_at(struct stage *s, const char *key)
{
    struct node *holder = holder_of(s, key);
    return holder ? holder : doom_holder(s, key);
}

/* Whose object must leave before the node's can come: it lies at that key, or (in stores with
 * folders) in its way. The node's own may be at that key already: that is no obstacle. */
static struct node *holder_before(struct stage *s, const struct node *n, const char *key)
{
    struct node *holder = holder_of(s, key);
    if (!holder && (holder = doom_holder(s, key)) == n)
        holder = NULL;
    if (holder || !(s->caps & STORE_FOLDERS))
        return holder;
    cleanup_free char *part = xstrdup(key);
    for (char *p = part; !holder && (p = strchr(p, '/')); p++) {
        *p = '\0';
        holder = holder_at(s, part);
        *p = '/';
    }
    cleanup_free char *folder = xasprintf("%s/", key);
    return holder ? holder : holder_of(s, folder);
}

/* Moves wait for each other in a circle, or for one that failed. */
static bool is_stuck(struct stage *s, const struct node *n, const struct node *holder)
{
    for (unsigned i = 0; i < CHAIN_LIMIT; i++) {
        if (holder->failed)
            return true;
        cleanup_free char *key = node_key_new(holder);
        holder = holder_before(s, holder, key);
        if (!holder)
            return false;
        if (holder == n)
            return true;
    }
    return true;
}

enum may { MAY_GO, MAY_NOT, MAY_FETCH };

static enum may may_go(struct stage *s, struct node *n, const char *key, struct node **ret_holder)
{
    if (key_flies(s, key) || (n->row.skey && key_flies(s, n->row.skey)))
        return MAY_NOT;
    struct node *holder = holder_before(s, n, key);
    if (!holder || (holder == n && n->fetch_first)) /* else it lies in its own way */
        return in_the_way(s, key) ? MAY_NOT : MAY_GO;
    *ret_holder = holder;
    return !holder->busy && !holder->unfetched && !holder->fetch_first && !node_is_folder(holder) &&
                   is_stuck(s, n, holder)
               ? MAY_FETCH
               : MAY_NOT;
}

/* --- what is done for a node: no lock held --------------------------------------------------- */

int done_at(struct stage *s, struct node *n, const char *key, const struct seen *seen, bool left,
            const struct object_meta *meta, unsigned clear, struct err *err)
{
    ACQUIRE(&s->lock);
    unsigned flags = n->row.flags;
    struct object_meta now = node_meta(n);
    n->row.flags &= ~(clear | N_META);
    if (now.mode != meta->mode || now.uid != meta->uid || now.gid != meta->gid ||
        (!(flags & N_DIRTY) && now.mtime_ns != meta->mtime_ns))
        n->row.flags |= N_META;
    n->row.flags |= N_KNOWN;
    if (node_stored(s, n, key, seen, left, err) == 0)
        return 0;
    n->row.flags = flags;
    return -1;
}

/* On a disk each name that comes or goes moves the mtime of its folder. One that a call has set is
 * set again once nothing else is owed in there: returns that folder, or NULL. */
static struct node *stirred_folder(const struct stage *s, const struct node *n)
{
    struct node *folder = n->parent;
    if (!(s->caps & STORE_LOCAL) || !folder || !folder->parent || !folder->explicit_mtime)
        return NULL;
    for (const struct node *c = folder->first; c; c = c->after)
        if (c != n && node_owes(c))
            return NULL;
    return folder;
}

int node_stored(struct stage *s, struct node *n, const char *key, const struct seen *seen,
                bool left, struct err *err)
{
    struct record old = n->row;
    struct node *stirred = stirred_folder(s, n);
    unsigned stirred_flags = stirred ? stirred->row.flags : 0;
    bool orphan = old.flags & N_ORPHAN;
    cleanup_free char *path = orphan ? NULL : node_key_new(n);
    bool moved_on = !orphan && strcmp(path, key) != 0; /* renamed while the store worked */
    cleanup_free char *was = old.skey ? xstrdup(old.skey) : NULL;
    bool gone = was && left && strcmp(was, key) != 0;
    node_set_skey(s, n, moved_on ? xstrdup(key) : NULL);
    cleanup_free char *etag = n->row.etag;
    n->row.etag = xstrdup(seen->etag);
    n->row.rsize = seen->size;
    n->row.rmtime_ns = seen->mtime_ns;
    n->row.flags |= N_STORED | (n->opens && n->row.size >= NOTED_BYTES ? N_OPEN : 0);
    if (stirred)
        stirred->row.flags |= N_META | N_KNOWN;
    bool begun = journal_begin(s, err) == 0;
    if (!begun || (gone && journal_doom(s, was, NULL, n->row.ino, err)) ||
        (orphan ? journal_doom(s, key, NULL, n->row.ino, err)
                : journal_undoom(s, key, NULL, err)) ||
        journal_put(s, n, err) || (stirred && journal_put(s, stirred, err)) ||
        journal_commit(s, err)) {
        if (begun)
            journal_rollback(s);
        if (stirred)
            stirred->row.flags = stirred_flags;
        node_set_skey(s, n, was ? xstrdup(was) : NULL);
        free(n->row.etag);
        n->row.etag = take_ptr(&etag);
        n->row.rsize = old.rsize;
        n->row.rmtime_ns = old.rmtime_ns;
        n->row.flags = old.flags;
        return -1;
    }
    n->moment = ++s->moment;
    if (stirred)
        owed_add(s, stirred);
    if (was || (!orphan && doom_find(s, key)))
        s->resolved++;
    if (gone)
        doom_add(s, was, NULL, n->row.ino);
    else if (was)
        gone_add(s, was);
    if (orphan)
        doom_add(s, key, NULL, n->row.ino);
    else
        doom_forget(s, key);
    return 0;
}

static int do_link(struct stage *s, struct task *t, struct err *err)
{
    struct seen seen = {0};
    cleanup_bytes struct bytes target = {0};
    if (t->target)
        bytes_add_str(&target, t->target);
    else if (remote_target(s, t->from ? t->from : t->key, t->n->row.rsize, &target, err))
        return -1;
    if (remote_link(s, t->key, target.data ? target.data : "", &t->meta, &seen, err))
        return -1;
    return done_at(s, t->n, t->key, &seen, true, &t->meta, N_DIRTY | N_PUBLISH, err);
}

static int do_folder(struct stage *s, struct task *t, struct err *err)
{
    struct seen seen = {0};
    if (remote_marker(s, t->key, &t->meta, err))
        return -1;
    return done_at(s, t->n, t->key, &seen, true, &t->meta, 0, err);
}

/* Its object may be overwritten from now on: what is here is all there is. s->lock held. */
static int leave_object(struct stage *s, struct node *n, char *target, struct err *err)
{
    cleanup_free char *was = n->row.skey ? xstrdup(n->row.skey) : NULL;
    unsigned flags = n->row.flags;
    if (!was || journal_begin(s, err))
        return was ? -1 : 0;
    if (!n->row.target)
        n->row.target = target ? xstrdup(target) : NULL;
    node_set_skey(s, n, NULL);
    /* What was stored must outlive the machine's end, as it did there. */
    n->row.flags = (flags | N_DIRTY | N_PUBLISH | N_SYNCED | N_DURABLE) & ~(unsigned)N_STORED;
    if (journal_doom(s, was, NULL, n->row.ino, err) || journal_put(s, n, err) ||
        journal_commit(s, err)) {
        journal_rollback(s);
        node_set_skey(s, n, take_ptr(&was));
        n->row.flags = flags;
        return -1;
    }
    n->synced_seq = n->seq;
    s->resolved++;
    doom_add(s, was, NULL, n->row.ino);
    return 0;
}

static int fetch_content(struct stage *s, struct node *n, struct err *err)
{
    struct content *c = content_take(s, n);
    int result = -1;
    {
        ACQUIRE(&c->lock);
        if (content_load(c, err) == 0 && content_need(c, 0, c->size, true, err) == 0 &&
            content_dirty(c, /* wait= */ true, err) == 0 && content_sync(c, err) == 0) {
            ACQUIRE(&s->lock);
            result = leave_object(s, n, NULL, err);
        }
    }
    content_done(c);
    return result;
}

static int fetch_object(struct stage *s, struct task *t, struct err *err)
{
    cleanup_bytes struct bytes target = {0};
    if (t->kind != NODE_LINK)
        return fetch_content(s, t->n, err);
    if (!t->target && remote_target(s, t->from, t->n->row.rsize, &target, err))
        return -1;
    ACQUIRE(&s->lock);
    return leave_object(s, t->n, target.data, err);
}

/* Fetches all of it, so that its object may be overwritten. */
static int do_fetch(struct stage *s, struct task *t, struct err *err)
{
    if (fetch_object(s, t, err) == 0 || move_from_left(s, t))
        return 0;
    return move_from_other(s, t, err);
}

static int do_parts(struct stage *s, struct task *t, struct err *err)
{
    struct content *c = content_take(s, t->n);
    struct snapshot unused;
    int result;
    {
        ACQUIRE(&c->lock);
        result = content_load(c, err);
    }
    if (result == 0)
        result = upload_parts(c, t->key, false, &unused, err);
    content_done(c);
    return result;
}

/* Whoever has it open goes on reading it. Its object waits while the store is in trouble; if it
 * can't be had for another reason, its readers get an error. */
static int do_orphan(struct stage *s, struct task *t, struct err *err)
{
    struct node *n = t->n;
    struct content *c = content_take(s, n);
    int result;
    {
        ACQUIRE(&c->lock);
        result = content_load(c, err);
        if (result == 0)
            result = content_need(c, 0, c->size, true, err);
    }
    ACQUIRE(&s->lock);
    content_unref(s, c);
    if (result && s->stopping)
        return 0; /* the next life goes on with it */
    if (result && err_passes(err))
        return -1;
    if (result)
        log_warn(s->conf.log,
                 "an open file was removed before it could be fetched: its readers "
                 "get errors why=%s",
                 err->msg);
    node_set_skey(s, n, NULL);
    n->fetch_first = false;
    return 0;
}

static int do_task(struct stage *s, struct task *t, struct err *err)
{
    if (journal_barrier(s, err))
        return -1;
    if (t->flags & N_ORPHAN)
        return do_orphan(s, t, err);
    if (t->fetch)
        return do_fetch(s, t, err);
    if (t->kind == NODE_FOLDER)
        return do_folder(s, t, err);
    if (t->kind == NODE_LINK)
        return t->flags & N_DIRTY || !t->from ? do_link(s, t, err) : do_move(s, t, err);
    if (t->flags & N_DIRTY && t->flags & N_PUBLISH && !(t->flags & N_HELD))
        return node_publish(s, t->n, t->key, /* wished= */ true, t->call, err);
    if (t->from || (t->flags & N_META && t->flags & N_STORED))
        return do_move(s, t, err);
    return do_parts(s, t, err);
}

/* --- one node: s->lock held ------------------------------------------------------------------ */

static void prepare(struct stage *s, struct task *t)
{
    struct node *n = t->n;
    t->flags = n->row.flags;
    t->kind = n->row.kind;
    t->meta = node_meta(n);
    t->from = n->row.skey ? xstrdup(n->row.skey) : NULL;
    t->target = n->row.target ? xstrdup(n->row.target) : NULL;
    t->etag = xstrdup(n->row.etag);
    n->busy = true;
    if (n->parent)
        n->parent->stirred = true;
    n->parts_wanted = false;
    n->pins++;
    s->n_busy++;
    key_departs(s, &t->to_flight, t->key);
    if (t->from)
        key_departs(s, &t->from_flight, t->from);
}

/* A denied request has left nothing under a name that the node has no more: nothing must go. */
static void pardon_denied(struct stage *s, const struct task *t)
{
    cleanup_free char *path = t->n->parent ? node_key_new(t->n) : NULL;
    struct doom *d = path && strcmp(path, t->key) != 0 ? doom_find(s, t->key) : NULL;
    if (d && d->ino == t->n->row.ino && !d->busy && journal_undoom(s, t->key, NULL, NULL) == 0)
        doom_remove(s, d);
}

static void conclude(struct stage *s, struct task *t, int result, const struct err *err)
{
    struct node *n = t->n;
    key_lands(s, &t->to_flight);
    if (t->from)
        key_lands(s, &t->from_flight);
    n->busy = false;
    n->pins--;
    s->n_busy--;
    if (result == 0) {
        store_answers(s);
        n->tries = 0;
        n->again = false;
        free(n->why);
        n->why = NULL;
    } else {
        node_failed(s, n, err);
        n->unfetched = t->fetch && n->failed;
        if (err->class == ERR_DENIED)
            pardon_denied(s, t);
        log_warn(s->conf.log, "not stored yet path=%s why=%s", t->key, err->msg);
    }
    if (n->row.flags & N_ORPHAN)
        orphan_upload(s, n, NULL);
    if (!node_owes(n) && !n->parts_wanted) {
        owed_remove(s, n);
        drop_list_add(s, n);
        node_reap(s, n);
    }
    cond_broadcast(&s->changed);
    if (s->passed_over) /* perhaps for these keys */
        owed_wake_all(s);
}

static void task_release(struct task *t)
{
    free(t->key);
    free(t->from);
    free(t->target);
    free(t->etag);
}

static void run_task(struct stage *s, struct task *t)
{
    struct err err = {0};
    prepare(s, t);
    lock_drop(&s->lock);
    int result = do_task(s, t, &err);
    lock_take(&s->lock);
    conclude(s, t, result, &err);
    task_release(t);
}

bool worker_do_now(struct stage *s, const struct stage_call *c, struct node *n)
{
    struct node *holder = NULL;
    struct task t = {.n = n, .key = node_key_new(n), .call = c};
    if (may_go(s, n, t.key, &holder) != MAY_GO) {
        free(t.key);
        return false;
    }
    run_task(s, &t);
    return true;
}

/* The task of a node whose turn it is; or of the one that it waits for, which may stand so far
 * behind in the queue that nobody looks at it. */
static bool take_turn(struct stage *s, struct task *t, struct node *n)
{
    for (unsigned i = 0; i < CHAIN_LIMIT; i++) {
        struct node *holder = NULL;
        t->key = n->fetch_first ? xstrdup(n->row.skey) : node_key_new(n);
        enum may may = may_go(s, n, t->key, &holder);
        if (may != MAY_NOT) {
            t->n = may == MAY_GO ? n : holder;
            t->fetch = may == MAY_FETCH;
            if (t->fetch) {
                free(t->key);
                t->key = node_key_new(holder);
            }
            return true;
        }
        free(t->key);
        t->key = NULL;
        s->passed_over = true;
        if (!holder || holder->busy || holder->failed || !holder->queued)
            return false;
        n = holder;
    }
    return false;
}

static bool pick_node(struct stage *s, struct task *t)
{
    unsigned looked = 0;
    for (struct node *n = s->owed.first, *next; n && looked < LOOK_AT; n = next, looked++) {
        next = n->owed_next;
        if (n->busy) {
            looked--;
            continue;
        }
        if (!node_owes(n) && (!n->parts_wanted || n->row.flags & N_ORPHAN)) {
            n->parts_wanted = false;
            owed_remove(s, n);
            node_reap(s, n);
            continue;
        }
        if (take_turn(s, t, n))
            return true;
    }
    return false;
}

/* --- threads --------------------------------------------------------------------------------- */

bool work_is_paused(const struct stage *s)
{
    uint64_t now = clock_mono_ns();
    return now < s->paused_until_ns || now < s->grace_until_ns;
}

void *worker_main(void *arg)
{
    struct stage *s = arg;
    ACQUIRE(&s->lock);
    while (!s->stopping) {
        struct task t = {0};
        if (!work_is_paused(s)) {
            if (pick_node(s, &t)) {
                run_task(s, &t);
                continue;
            }
            if (dooms_run(s))
                continue;
        }
        s->idle_workers++;
        while (!s->wakes && !s->stopping)
            cond_wait(&s->work, &s->lock);
        s->wakes -= s->wakes > 0;
        s->idle_workers--;
    }
    return NULL;
}
