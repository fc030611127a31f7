/* See undo-internal.h; a refused rename is undone by rename.c. */
#include "mem.h"
#include "content-internal.h"
#include "undo-internal.h"

void removed_begin(struct removed *r, struct node *n)
{
    *r = (struct removed){.n = n, .flags = n->row.flags, .elsewhere = n->row.skey != NULL};
    n->pins++;
}

void removed_end(struct stage *s, struct removed *r)
{
    if (!r->n)
        return;
    r->n->pins--;
    node_reap(s, r->n);
}

bool removed_can_return(struct stage *s, const struct removed *r, const struct node *leaving,
                        struct node **ret_folder)
{
    struct node *folder = node_of(s, r->n->row.parent);
    if (r->elsewhere || !(r->n->row.flags & N_ORPHAN) || !folder || !node_is_folder(folder) ||
        folder->row.flags & N_ORPHAN)
        return false;
    const struct node *there = child_of(s, folder, r->n->row.name);
    *ret_folder = folder;
    return !there || there == leaving;
}

/* Without a name it has no path, which is its key. */
static char *key_in(const struct node *folder, const struct node *n)
{
    struct bytes key = {0};
    node_key(folder, &key);
    bytes_addf(&key, "%s%s", n->row.name, node_is_folder(n) ? "/" : "");
    return bytes_take(&key);
}

static unsigned flags_back(const struct removed *r)
{
    return (r->n->row.flags & ~(unsigned)N_ORPHAN) | (r->flags & N_PUBLISH);
}

int removed_return_journal(struct stage *s, const struct removed *r, const struct node *folder,
                           struct err *err)
{
    cleanup_free char *key = key_in(folder, r->n);
    struct record row = r->n->row;
    row.flags = flags_back(r);
    row.skey = NULL;
    return journal_undoom(s, key, NULL, err) || journal_put_record(s, &row, err) ? -1 : 0;
}

void removed_return(struct stage *s, struct removed *r, struct node *folder)
{
    struct node *n = r->n;
    cleanup_free char *key = key_in(folder, n);
    n->row.flags = flags_back(r);
    n->fetch_first = false;
    node_set_skey(s, n, NULL);
    node_link(s, folder, n);
    doom_forget(s, key);
    if (n->row.flags & N_DIRTY)
        dirty_add(s, n);
    if (node_owes(n))
        owed_add(s, n);
    else if (!n->busy)
        owed_remove(s, n);
    drop_list_add(s, n);
    tell_change(s, folder->row.ino, n->row.name);
}

void undo_make(struct stage *s, const struct stage_call *c, struct node *n)
{
    struct record row = n->row;
    struct node *folder = n->parent;
    row.flags |= N_ORPHAN;
    if (!n->failed || n->busy || n->first || !folder || row.flags & N_STORED ||
        journal_begin(s, NULL))
        return;
    if (journal_put_record(s, &row, NULL) || journal_call_drop(s, c, NULL) ||
        journal_commit(s, NULL)) {
        journal_rollback(s);
        return;
    }
    tell_change(s, folder->row.ino, n->row.name);
    node_unlink(s, n);
    n->row.flags = row.flags;
    dirty_remove(s, n);
    owed_remove(s, n);
    node_reap(s, n);
}

void undo_remove(struct stage *s, const struct stage_call *c, struct removed *r)
{
    struct node *folder;
    if (!removed_can_return(s, r, NULL, &folder))
        return;
    cleanup_free char *key = key_in(folder, r->n);
    const struct doom *d = doom_find(s, key);
    if (!d || !d->failed || journal_begin(s, NULL))
        return;
    if (removed_return_journal(s, r, folder, NULL) || journal_call_drop(s, c, NULL) ||
        journal_commit(s, NULL)) {
        journal_rollback(s);
        return;
    }
    removed_return(s, r, folder);
    if (r->kept)
        unkeep_folder(s, folder);
}

struct attributes attributes_of(const struct node *n)
{
    return (struct attributes){.mode = n->row.mode,
                               .uid = n->row.uid,
                               .gid = n->row.gid,
                               .mtime_ns = n->row.mtime_ns,
                               .explicit_mtime = n->explicit_mtime,
                               .owed = n->row.flags & N_META};
}

static bool are_still(const struct node *n, const struct attributes *a)
{
    return n->row.mode == a->mode && n->row.uid == a->uid && n->row.gid == a->gid &&
           n->row.mtime_ns == a->mtime_ns;
}

void undo_attributes(struct stage *s, const struct stage_call *c, struct node *n,
                     const struct attributes *before, const struct attributes *made)
{
    if (!n->failed || n->busy || !are_still(n, made) || journal_begin(s, NULL))
        return;
    struct record row = n->row;
    row.mode = before->mode;
    row.uid = before->uid;
    row.gid = before->gid;
    row.mtime_ns = before->mtime_ns;
    if (!before->owed)
        row.flags &= ~(unsigned)N_META;
    if (journal_put_record(s, &row, NULL) || journal_call_drop(s, c, NULL) ||
        journal_commit(s, NULL)) {
        journal_rollback(s);
        return;
    }
    n->row = row;
    n->explicit_mtime = before->explicit_mtime;
    node_stamp(s, n);
    if (!node_owes(n))
        owed_remove(s, n);
    drop_list_add(s, n);
    tell_change(s, n->row.ino, NULL);
}

void unkeep_folder(struct stage *s, struct node *folder)
{
    if (!folder->first || folder->busy || folder->row.flags & N_STORED)
        return;
    folder->row.flags &= ~(unsigned)N_META;
    journal_save(s, folder, NULL);
    owed_remove(s, folder);
}
