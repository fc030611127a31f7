/*
 * Keys that must go from the store, and uploads that must be aborted: the list of them, and their
 * deletion, many by one request where the store can.
 *
 * A key goes only when nobody else needs it: no request is at work on it, no node's object is still
 * kept there, and none of that name is about to be stored (then the key is replaced, without a
 * gap). A folder of a store with folders goes after all that was below it. s->lock is held
 * throughout, given up while the store works.
 */
#include <errno.h>
#include <string.h>

#include "clock.h"
#include "hash.h"
#include "mem.h"
#include "owed-internal.h"

#define DOOM_BUCKETS 4096
#define BATCH        500 /* keys deleted by one request */

/* --- the list -------------------------------------------------------------------------------- */

static struct doom **doom_bucket(struct stage *s, const char *key)
{
    if (!s->doom_hash)
        s->doom_hash = xcalloc(DOOM_BUCKETS, sizeof(struct doom *));
    return &s->doom_hash[hash64(key, strlen(key), 2) % DOOM_BUCKETS];
}

static struct doom *find_doom(struct stage *s, const char *key, const char *upload)
{
    struct doom *d = *doom_bucket(s, key);
    while (d && (strcmp(d->key, key) != 0 || !d->upload != !upload ||
                 (upload && strcmp(d->upload, upload) != 0)))
        d = d->next_hash;
    return d;
}

struct doom *doom_find(struct stage *s, const char *key)
{
    return s->n_dooms ? find_doom(s, key, NULL) : NULL;
}

char *doom_key_of(const struct stage *s, uint64_t ino, size_t nth)
{
    for (const struct doom *d = s->dooms; d; d = d->next)
        if (d->ino == ino && !d->upload && !d->busy && nth-- == 0)
            return xstrdup(d->key);
    return NULL;
}

/* A life that ended may have renamed a node's object to this key, and not have written it down:
 * until the node is where it belongs, this may be the only one (move_from_left()). */
static struct node *may_hold(struct stage *s, const struct doom *d)
{
    struct node *n = s->caps & STORE_RENAME && !d->upload ? node_of(s, d->ino) : NULL;
    return n && n->row.skey ? n : NULL;
}

struct node *doom_holder(struct stage *s, const char *key)
{
    const struct doom *d = doom_find(s, key);
    struct node *n = d ? may_hold(s, d) : NULL;
    return n && !node_is_folder(n) && !(n->row.flags & N_ORPHAN) ? n : NULL;
}

uint64_t doom_owner(struct stage *s, const char *key, uint64_t ino)
{
    const struct node *n = doom_holder(s, key);
    return n ? n->row.ino : ino;
}

void doom_add(struct stage *s, const char *key, const char *upload, uint64_t ino)
{
    struct doom *d = find_doom(s, key, upload);
    if (d) {
        d->ino = !ino ? d->ino : upload ? ino : doom_owner(s, key, ino);
        d->failed = false;
        d->due_ns = 0;
        owed_wake(s);
        return;
    }
    d = xcalloc(1, sizeof *d);
    d->key = xstrdup(key);
    d->upload = upload ? xstrdup(upload) : NULL;
    d->ino = ino;
    d->owed_ns = clock_mono_ns();
    struct doom **b = doom_bucket(s, key);
    d->next_hash = *b;
    *b = d;
    d->prev = s->doom_last;
    *(s->doom_last ? &s->doom_last->next : &s->dooms) = d;
    s->doom_last = d;
    s->n_dooms++;
    if (!upload)
        going_add(s, key, 1);
    if (s->root)
        owed_wake(s);
}

void doom_remove(struct stage *s, struct doom *d)
{
    struct doom **b = doom_bucket(s, d->key);
    while (*b != d)
        b = &(*b)->next_hash;
    *b = d->next_hash;
    *(d->prev ? &d->prev->next : &s->dooms) = d->next;
    *(d->next ? &d->next->prev : &s->doom_last) = d->prev;
    s->n_dooms--;
    if (!d->upload)
        going_add(s, d->key, -1);
    free(d->key);
    free(d->upload);
    free(d->why);
    free(d);
}

void doom_forget(struct stage *s, const char *key)
{
    struct doom *d = doom_find(s, key);
    if (d && !d->busy)
        doom_remove(s, d);
}

static void doom_failed(struct stage *s, struct doom *d, const struct err *err)
{
    uint64_t now = clock_mono_ns(), pause = pause_of(s, err, now);
    why_keep(&d->why, err);
    d->tries++;
    bool again = d->again;
    d->again = false;
    if (again || err_passes(err))
        return;
    d->failed = true;
    d->due_ns = pause ? now + pause : UINT64_MAX;
    cond_signal(&s->clock);
}

/* --- deleting -------------------------------------------------------------------------------- */

static bool dooms_below(const struct stage *s, const struct doom *folder)
{
    size_t len = strlen(folder->key);
    for (const struct doom *d = s->dooms; d; d = d->next)
        if (d != folder && strncmp(d->key, folder->key, len) == 0)
            return true;
    return false;
}

static bool doom_may_go(struct stage *s, const struct doom *d)
{
    if (key_flies(s, d->key))
        return false;
    if (d->upload)
        return true;
    if (holder_of(s, d->key) || may_hold(s, d))
        return false;
    const struct node *n = node_at(s, d->key);
    if (n && node_owes(n))
        return false;
    size_t len = strlen(d->key);
    if (s->caps & STORE_FOLDERS && len && d->key[len - 1] == '/') /* mostly nothing: told at once */
        return !goes_below(s, d->key) || (!dooms_below(s, d) && !holds_below(s, d->key));
    return true;
}

/* Those of one batch: a single one, or many first tries of objects. */
static size_t pick_dooms(struct stage *s, struct doom **ret, struct flight *flights)
{
    uint64_t now = clock_mono_ns();
    size_t n = 0;
    unsigned looked = 0;
    bool batches = s->caps & STORE_BATCH_DELETE;
    for (struct doom *d = s->dooms; d && n < BATCH && looked < 2 * BATCH; d = d->next) {
        bool alone = d->upload || d->tries || !batches;
        if (d->busy || d->failed || d->due_ns > now)
            continue;
        looked++;
        if ((n && alone) || !doom_may_go(s, d)) {
            s->passed_over = true;
            continue;
        }
        d->busy = true;
        key_departs(s, &flights[n], d->key);
        ret[n++] = d;
        if (alone)
            break;
    }
    return n;
}

static int pay_dooms(struct stage *s, struct doom *const *dooms, size_t n, struct err *err)
{
    if (dooms[0]->upload)
        return remote_abort(s, dooms[0]->key, dooms[0]->upload, err);
    if (n == 1)
        return remote_delete(s, dooms[0]->key, err);
    const char **keys = xcalloc(n, sizeof *keys);
    for (size_t i = 0; i < n; i++)
        keys[i] = dooms[i]->key;
    int result = remote_delete_many(s, keys, n, err);
    free(keys);
    return result;
}

/* A folder of a store with folders that is not empty: somebody else's files are in it. */
static bool is_kept_by_others(const struct stage *s, const struct doom *d, const struct err *err)
{
    size_t len = strlen(d->key);
    return s->caps & STORE_FOLDERS && len && d->key[len - 1] == '/' &&
           (err->sys == ENOTEMPTY || err->sys == EEXIST || err->sys == ENOTDIR ||
            err->class == ERR_FAILED);
}

static void forget_doom(struct stage *s, struct doom *d)
{
    struct err err = {0};
    struct node *n = node_at(s, d->key);
    if (n)
        n->moment = ++s->moment; /* a listing begun before still shows what went */
    else
        ++s->moment;
    if (!d->upload)
        gone_add(s, d->key);
    if (journal_undoom(s, d->key, d->upload, &err)) {
        doom_failed(s, d, &err);
        return;
    }
    s->resolved++;
    doom_remove(s, d);
}

bool dooms_run(struct stage *s)
{
    struct doom *dooms[BATCH];
    struct flight flights[BATCH];
    struct err err = {0};
    size_t n = pick_dooms(s, dooms, flights);
    if (n == 0)
        return false;
    s->n_busy++;
    lock_drop(&s->lock);
    int result = pay_dooms(s, dooms, n, &err);
    lock_take(&s->lock);
    s->n_busy--;
    if (result == 0)
        store_answers(s);
    for (size_t i = 0; i < n; i++) {
        key_lands(s, &flights[i]);
        dooms[i]->busy = false;
        if (result == 0 || is_kept_by_others(s, dooms[i], &err))
            forget_doom(s, dooms[i]);
        else if (n > 1)
            dooms[i]->tries++; /* each alone next time: the answer says who it is */
        else
            doom_failed(s, dooms[i], &err);
    }
    if (n > 1 && result && err.class == ERR_TRANSIENT)
        doom_failed(s, dooms[0], &err);
    cond_broadcast(&s->changed);
    if (s->passed_over || (n > 1 && result))
        owed_wake_all(s);
    return true;
}
