/*
 * Rename. Here it is one transaction: the new name, and for each object below that has no key of
 * its own yet, the key where it lies now. From then on the difference between path and key is what
 * is owed; nothing else has to be remembered, and a restart goes on where it ended. Where the store
 * refuses it to a caller who waits, it is undone: a rename back, by the same means.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "clock.h"
#include "mem.h"
#include "undo-internal.h"

struct moved {
    struct node *n;
    char *key;  /* where its object lies */
    char *left; /* where there may be one, too, that must go */
    uint64_t ino;
    bool marked; /* its marker is owed for this alone */
};

struct move {
    struct node *n, *folder, *target; /* target: what has the new name now, or NULL */
    const char *name;
    uint64_t since; /* the call began: no folder is listed for it twice */
    struct moved *all;
    size_t count, cap;
    struct stage *s;
    struct removed removed; /* target, while the caller waits for the store */
    bool kept;              /* the folder it left got a marker for that */
    struct move *undoes;    /* this one, which was refused; NULL: a caller's own */
};

static void move_release(struct move *m)
{
    removed_end(m->s, &m->removed);
    for (size_t i = 0; i < m->count; i++) {
        free(m->all[i].key);
        free(m->all[i].left);
    }
    free(m->all);
}

/* --- what is below --------------------------------------------------------------------------- */

/* What is in the folder is known here. 2: begin again, the lock was given up. */
static int know(struct stage *s, const struct stage_call *c, const struct move *m,
                struct node *folder, struct err *err)
{
    if (folder_is_fresh(s, folder) || folder_was_listed(folder, m->since))
        return 0;
    folder->pins++;
    int result = folder_refresh(s, folder, c->wait, false, err);
    folder->pins--;
    return result == 0 ? 2 : result == STAGE_WAIT ? STAGE_WAIT : -1;
}

/* Everything below a folder, which is pinned: what is not listed can't be moved. What is left to
 * list is listed before it is begun again, or a rename would cost the square of its folders. */
static int know_below(struct stage *s, const struct stage_call *c, const struct move *m,
                      struct node *folder, struct err *err)
{
    int result = know(s, c, m, folder, err);
    for (struct node *n = folder->first; n && (result == 0 || result == 2);) {
        if (result == 2 && is_given_up(c))
            return 2;
        n->pins++;
        int below = node_is_folder(n) ? know_below(s, c, m, n, err) : 0;
        n->pins--;
        struct node *next = n->parent == folder ? n->after : NULL; /* gone or moved meanwhile */
        node_reap(s, n);
        if (below)
            result = below;
        n = next;
    }
    return result;
}

static int know_child(struct stage *s, const struct stage_call *c, const struct move *m,
                      struct node *folder, const char *name, struct node **ret, struct err *err)
{
    *ret = child_of(s, folder, name);
    return *ret && node_is_ours(*ret) ? 0 : know(s, c, m, folder, err);
}

static void collect(struct stage *s, struct move *m, struct node *n)
{
    if (m->count == m->cap) {
        m->cap = m->cap ? 2 * m->cap : 16;
        m->all = xrealloc(m->all, m->cap * sizeof m->all[0]);
    }
    bool lies = node_is_stored(s, n) && !n->row.skey;
    /* What was refused has left nothing where it was to go. */
    bool left = node_maybe_at_path(n) && (!m->undoes || n->busy);
    m->all[m->count++] = (struct moved){.n = n,
                                        .key = lies ? node_key_new(n) : NULL,
                                        .left = left ? node_key_new(n) : NULL,
                                        .ino = n->row.ino};
    for (struct node *c = n->first; c; c = c->after)
        collect(s, m, c);
}

/* --- the transaction ------------------------------------------------------------------------- */

static int write_rows(struct stage *s, const struct stage_call *c, const struct move *m,
                      struct err *err)
{
    for (size_t i = 0; i < m->count; i++) {
        struct record row = m->all[i].n->row;
        if (m->all[i].left && journal_doom(s, m->all[i].left, NULL, row.ino, err))
            return -1;
        if (m->all[i].key)
            row.skey = m->all[i].key;
        if (m->all[i].key && node_is_folder(m->all[i].n))
            row.flags |= N_META;
        if (m->all[i].n == m->n) {
            row.name = (char *)m->name;
            row.parent = m->folder->row.ino;
        } else if (!m->all[i].key) {
            continue;
        }
        if (journal_put_record(s, &row, err))
            return -1;
    }
    if (m->target && orphan_journal(s, m->target, err))
        return -1;
    if (!m->undoes)
        return journal_call(s, c, m->n->row.ino, err);
    const struct move *was = m->undoes;
    if (was->removed.n && removed_return_journal(s, &was->removed, was->folder, err))
        return -1;
    return journal_call_drop(s, c, err);
}

/* It lies where its path is: nothing is owed for that. */
static void back_home(struct stage *s, const struct move *m, struct node *n)
{
    node_set_skey(s, n, NULL);
    for (size_t i = 0; m->undoes && i < m->undoes->count; i++)
        if (m->undoes->all[i].ino == n->row.ino && m->undoes->all[i].marked)
            n->row.flags &= ~(unsigned)N_META;
    journal_save(s, n, NULL);
    if (!node_owes(n) && !n->busy)
        owed_remove(s, n);
}

static void apply(struct stage *s, struct move *m)
{
    struct node *old_folder = m->n->parent;
    if (m->target) {
        removed_begin(&m->removed, m->target);
        orphan_apply(s, m->target);
    }
    for (size_t i = 0; i < m->count; i++) {
        struct node *n = m->all[i].n;
        m->all[i].marked = m->all[i].key && node_is_folder(n) && !(n->row.flags & N_META);
        if (m->all[i].key && node_is_folder(n))
            n->row.flags |= N_META;
        if (m->all[i].key)
            node_set_skey(s, n, take_ptr(&m->all[i].key));
    }
    node_touch_names(m->n->parent, m->n);
    node_unlink(s, m->n);
    free(m->n->row.name);
    m->n->row.name = xstrdup(m->name);
    node_link(s, m->folder, m->n);
    node_touch_names(m->folder, m->n);
    for (size_t i = 0; i < m->count; i++) {
        struct node *n = m->all[i].n;
        cleanup_free char *path = n->row.skey ? node_key_new(n) : NULL;
        if (path && strcmp(path, n->row.skey) == 0)
            back_home(s, m, n);
        if (m->all[i].left)
            doom_add(s, m->all[i].left, NULL, n->row.ino);
        owed_add(s, n);
    }
    if (!m->undoes)
        m->kept = keep_folder(s, old_folder);
}

static int transact(struct stage *s, const struct stage_call *c, struct move *m, struct err *err)
{
    collect(s, m, m->n);
    if (journal_begin(s, err))
        return -1;
    if (write_rows(s, c, m, err) || journal_commit(s, err)) {
        journal_rollback(s);
        return -1;
    }
    apply(s, m);
    return 0;
}

/* --- the call -------------------------------------------------------------------------------- */

static int check_target(struct stage *s, const struct stage_call *c, const struct move *m,
                        unsigned flags, struct err *err)
{
    struct node *t = m->target;
    if (!t)
        return 0;
    if (flags & RENAME_NOREPLACE)
        return refuse(EEXIST, m->name, err);
    if (node_is_folder(t) && !node_is_folder(m->n))
        return refuse(EISDIR, m->name, err);
    if (!node_is_folder(t) && node_is_folder(m->n))
        return refuse(ENOTDIR, m->name, err);
    if (!node_is_folder(t))
        return 0;
    int result = t->first ? 0 : know(s, c, m, t, err);
    if (result)
        return result;
    return t->first ? refuse(ENOTEMPTY, m->name, err) : 0;
}

/* 2: the lock was given up: look at everything again. */
static int try_rename(struct stage *s, const struct stage_call *c, uint64_t parent,
                      const char *name, uint64_t new_parent, struct move *m, unsigned flags,
                      struct err *err)
{
    struct node *from;
    if (folder_of(s, parent, &from, err) || folder_of(s, new_parent, &m->folder, err))
        return -1;
    int result = know_child(s, c, m, from, name, &m->n, err);
    if (result == 0 && !m->n)
        result = not_there(name, err);
    if (result == 0)
        result = know_child(s, c, m, m->folder, m->name, &m->target, err);
    if (result)
        return result;
    if (m->n == m->target)
        return 0;
    if (name_check(s, m->folder, m->name, err))
        return -1;
    if (node_is_folder(m->n) && node_is_below(m->folder, m->n))
        return refuse(EINVAL, m->name, err);
    result = check_target(s, c, m, flags, err);
    if (result == 0 && node_is_folder(m->n)) {
        m->n->pins++;
        result = know_below(s, c, m, m->n, err);
        m->n->pins--;
        node_reap(s, m->n); /* not where nothing was waited for */
    }
    return result ? result : transact(s, c, m, err);
}

static int wait_below(struct stage *s, const struct stage_call *c, struct node *n, struct err *err)
{
    if (owed_wait(s, c, n, err) || doom_wait(s, c, n->row.ino, err))
        return -1;
    for (struct node *child = n->first; child;) {
        child->pins++;
        int result = wait_below(s, c, child, err);
        child->pins--;
        struct node *next = child->parent == n ? child->after : NULL; /* moved on: enough */
        node_reap(s, child);
        if (result)
            return -1;
        child = next;
    }
    return 0;
}

/* --- refused --------------------------------------------------------------------------------- */

static bool failed_below(const struct node *n)
{
    if (n->failed)
        return true;
    for (const struct node *c = n->first; c; c = c->after)
        if (failed_below(c))
            return true;
    return false;
}

/* Names that could not be deleted are there still. */
static void pardon_below(struct stage *s, const struct node *n)
{
    for (struct doom *d = s->dooms, *next; d; d = next) {
        next = d->next;
        if (d->ino == n->row.ino && d->failed && !d->upload &&
            journal_undoom(s, d->key, NULL, NULL) == 0)
            doom_remove(s, d);
    }
    for (const struct node *c = n->first; c; c = c->after)
        pardon_below(s, c);
}

/* Gives false where somebody made that impossible: then it stays owed. */
static bool rename_back(struct stage *s, const struct stage_call *c, struct move *m,
                        struct node *from, const char *name)
{
    struct node *n = m->n, *left = n->parent, *folder;
    if (child_of(s, from, name) ||
        (m->removed.n && !removed_can_return(s, &m->removed, n, &folder)))
        return false;
    CLEANUP(move_release)
    struct move back = {.s = s, .n = n, .folder = from, .name = name, .undoes = m};
    if (transact(s, c, &back, NULL))
        return false;
    if (m->removed.n)
        removed_return(s, &m->removed, left);
    if (m->kept)
        unkeep_folder(s, from);
    tell_change(s, left->row.ino, m->name);
    return true;
}

static void undo_rename(struct stage *s, const struct stage_call *c, struct move *m,
                        uint64_t parent, const char *name)
{
    struct node *n = m->n, *from = node_of(s, parent);
    if (!n->parent || n->parent != m->folder || strcmp(n->row.name, m->name) != 0 || !from ||
        from->row.flags & N_ORPHAN)
        return;
    if (failed_below(n) && !rename_back(s, c, m, from, name))
        return;
    pardon_below(s, n);
    from->listed_ns = 0;
    tell_change(s, from->row.ino, name);
}

static int wait_renamed(struct stage *s, const struct stage_call *c, struct node *n,
                        struct err *err)
{
    int result = wait_below(s, c, n, err);
    return result ? result : journal_barrier_held(s, err);
}

int stage_rename(struct stage *s, const struct stage_call *c, uint64_t parent, const char *name,
                 uint64_t new_parent, const char *new_name, unsigned flags, struct err *err)
{
    ACQUIRE(&s->lock);
    uint64_t ino;
    if (flags & ~(unsigned)RENAME_NOREPLACE)
        return refuse(EINVAL, name, err);
    if (waits_for_store(s) && !c->wait)
        return STAGE_WAIT;
    bool answered = call_answered(s, c, &ino);
    uint64_t since = clock_mono_ns();
    int result;
    do {
        CLEANUP(move_release) struct move m = {.s = s, .name = new_name, .since = since};
        result = answered ? 0 : try_rename(s, c, parent, name, new_parent, &m, flags, err);
        struct node *n = answered ? node_of(s, ino) : m.n;
        if (result || !n || !waits_for_store(s))
            continue;
        n->pins++;
        result = wait_renamed(s, c, n, err);
        if (result && m.count)
            undo_rename(s, c, &m, parent, name);
        n->pins--;
        node_reap(s, n);
    } while (result == 2 && !is_given_up(c));
    return result == 2 ? given_up(err) : result;
}
