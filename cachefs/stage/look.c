/*
 * Names and attributes that are only looked at: lookup, forget, getattr, readlink, readdir. What a
 * folder holds is asked of the store first where that was long ago (folder_refresh).
 */
#include <errno.h>
#include <string.h>

#include "mem.h"
#include "owed-internal.h"

/* Its name went meanwhile, or is another file's. */
static bool is_lost(struct stage *s, struct node *n)
{
    if (!(n->row.flags & N_ORPHAN))
        return false;
    node_reap(s, n);
    return true;
}

int stage_lookup(struct stage *s, const struct stage_call *c, uint64_t parent, const char *name,
                 struct stage_attr *ret, struct err *err)
{
    ACQUIRE(&s->lock);
    struct node *folder, *n;
    if (strlen(name) > NAME_MAX)
        return refuse(ENAMETOOLONG, name, err);
    if (folder_of(s, parent, &folder, err))
        return -1;
    do {
        int result = child_now(s, folder, name, c->wait, &n, err);
        if (result)
            return result;
        if (!n)
            return not_there(name, err);
        n->pins++;
        result = node_look(s, n, c->wait, err);
        n->pins--;
        if (result)
            return result;
    } while (is_lost(s, n));
    n->lookups++;
    n->told_gen = n->row.gen;
    node_attr(s, n, ret);
    return 0;
}

void stage_forget(struct stage *s, uint64_t ino, uint64_t lookups)
{
    ACQUIRE(&s->lock);
    struct node *n = node_of(s, ino);
    if (!n)
        return;
    n->lookups -= lookups < n->lookups ? lookups : n->lookups;
    if (!n->lookups) {
        n->known_before = false;
        if (!n->opens)
            node_note_open(s, n, false);
    }
    node_reap(s, n);
}

int stage_getattr(struct stage *s, const struct stage_call *c, uint64_t ino, struct stage_attr *ret,
                  struct err *err)
{
    ACQUIRE(&s->lock);
    struct node *n = node_of(s, ino);
    if (!n)
        return refuse(ESTALE, "a file", err);
    int result = 0;
    n->pins++;
    if (n->parent && n->row.flags & N_STORED && !(n->row.flags & (N_DIRTY | N_META)))
        result = folder_refresh(s, n->parent, c->wait, false, err);
    if (result == 0)
        result = node_look(s, n, c->wait, err);
    n->pins--;
    if (result)
        return result;
    if (c->unique && !(n->row.flags & N_ORPHAN))
        n->told_gen = n->row.gen;
    node_attr(s, n, ret);
    if (n->row.flags & N_ORPHAN)
        node_reap(s, n);
    return 0;
}

int stage_readlink(struct stage *s, const struct stage_call *c, uint64_t ino, struct bytes *ret,
                   struct err *err)
{
    cleanup_free char *key = NULL;
    uint64_t size, gen;
    {
        ACQUIRE(&s->lock);
        struct node *n = node_of(s, ino);
        if (!n || n->row.kind != NODE_LINK)
            return refuse(n ? EINVAL : ESTALE, "no link", err);
        bytes_clear(ret);
        if (n->row.target) {
            bytes_add_str(ret, n->row.target);
            return 0;
        }
        if (!c->wait)
            return STAGE_WAIT;
        key = node_stored_key(n);
        size = n->row.rsize;
        gen = n->row.gen;
    }
    if (remote_target(s, key, size, ret, err))
        return -1;
    ACQUIRE(&s->lock);
    struct node *n = node_of(s, ino);
    if (n && n->row.gen == gen && !n->row.target) {
        n->row.target = xstrdup(ret->data ? ret->data : "");
        journal_save(s, n, NULL);
    }
    return 0;
}

/* Some entries at a time, so that fn runs without the lock. */
#define ENTRIES_AT_ONCE 128
struct listed {
    char name[NAME_MAX + 1];
    struct stage_attr attr;
};

static size_t take_entries(struct stage *s, const struct node *folder, uint64_t after,
                           struct listed *out)
{
    const struct node *n = node_of(s, after);
    if (after && n && n->parent == folder)
        n = n->after;
    else
        for (n = folder->first; n && n->row.ino <= after; n = n->after)
            ;
    size_t count = 0;
    for (; n && count < ENTRIES_AT_ONCE; n = n->after, count++) {
        snprintf(out[count].name, sizeof out[count].name, "%s", n->row.name);
        node_attr(s, n, &out[count].attr);
    }
    return count;
}

int stage_readdir(struct stage *s, const struct stage_call *c, uint64_t ino, uint64_t after_cookie,
                  stage_dir_fn *fn, void *arg, struct err *err)
{
    struct listed *entries = NULL;
    int result = 0;
    size_t n;
    do {
        ACQUIRE(&s->lock);
        struct node *folder = node_of(s, ino);
        if (!folder || !node_is_folder(folder)) {
            result = refuse(folder ? ENOTDIR : ESTALE, "a folder", err);
            break;
        }
        if (after_cookie == 0 && !entries) {
            folder->pins++;
            result = folder_refresh(s, folder, c->wait, false, err);
            folder->pins--;
            if (result)
                break;
        }
        if (!entries)
            entries = xmalloc(ENTRIES_AT_ONCE * sizeof *entries);
        n = take_entries(s, folder, after_cookie, entries);
        lock_drop(&s->lock);
        bool more = true;
        for (size_t i = 0; i < n && more; i++) {
            after_cookie = entries[i].attr.st.st_ino;
            more = fn(arg, entries[i].name, &entries[i].attr, after_cookie);
        }
        lock_take(&s->lock);
        if (!more)
            break;
    } while (n == ENTRIES_AT_ONCE);
    free(entries);
    return result;
}
