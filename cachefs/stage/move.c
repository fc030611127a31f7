/*
 * The move of one object to another key, or onto itself with other attributes, on condition that it
 * is the one that its node knows. Where it is another one, it was stored by a life whose journal
 * does not have it (the machine stopped, and the last commits with it), or by another writer: the
 * store is asked, and what it holds counts, unless all of the node's content is here.
 */
#define LOG_MODULE "stage"

#include <string.h>

#include "log.h"
#include "mem.h"
#include "content-internal.h"
#include "task-internal.h"

#define MOVE_TRIES 3 /* replaced again and again */

/* Its object vanished from where it was: what is here whole goes up again, the rest is lost. */
static int vanished(struct stage *s, struct task *t, const char *how)
{
    struct node *n = t->n;
    ACQUIRE(&s->lock);
    log_warn(s->conf.log, "%s before it could be moved path=%s", how, t->key);
    node_set_skey(s, n, NULL);
    n->row.flags &= ~(unsigned)N_STORED;
    if ((n->row.flags & (N_STAGED | N_MAP | N_ORPHAN)) == N_STAGED) {
        if (!(n->row.flags & N_DIRTY)) /* else whoever changes it has it stored */
            n->row.flags |= N_DIRTY | N_PUBLISH;
        dirty_add(s, n);
        return journal_save(s, n, NULL);
    }
    if (!(n->row.flags & (N_DIRTY | N_ORPHAN)))
        node_lose(s, n);
    return 0;
}

static bool is_object_of(const struct task *t, const struct seen *seen)
{
    const struct record *row = &t->n->row;
    if (*t->etag && *seen->etag)
        return strcmp(t->etag, seen->etag) == 0;
    return row->rsize == seen->size && row->rmtime_ns == seen->mtime_ns;
}

/* A life that ended between the store's answer and its journal has moved it. */
static bool is_there(struct stage *s, struct task *t, struct seen *ret)
{
    struct object_meta meta;
    bool known;
    return t->from && remote_look(s, t->key, &meta, &known, ret, NULL) == 0 && is_object_of(t, ret);
}

static bool lies_there(struct stage *s, struct task *t, const char *key)
{
    struct object_meta meta;
    struct seen seen;
    bool known;
    return remote_look(s, key, &meta, &known, &seen, NULL) == 0 && is_object_of(t, &seen);
}

static bool now_lies_at(struct stage *s, struct node *n, char *key)
{
    struct record row = n->row;
    row.skey = key;
    if (journal_begin(s, NULL))
        return false;
    if (journal_undoom(s, key, NULL, NULL) || journal_put_record(s, &row, NULL) ||
        journal_commit(s, NULL)) {
        journal_rollback(s);
        return false;
    }
    doom_forget(s, key);
    node_set_skey(s, n, xstrdup(key));
    return true;
}

bool move_from_left(struct stage *s, struct task *t)
{
    if (!t->from || !(s->caps & STORE_RENAME) || lies_there(s, t, t->from))
        return false;
    for (size_t nth = 0;; nth++) {
        cleanup_free char *key = NULL;
        {
            ACQUIRE(&s->lock);
            key = doom_key_of(s, t->n->row.ino, nth);
        }
        if (!key)
            return false;
        if (lies_there(s, t, key)) {
            ACQUIRE(&s->lock);
            return doom_find(s, key) && t->n->row.skey && now_lies_at(s, t->n, key);
        }
    }
}

/* No store copies so much by one request. */
static bool needs_parts(const struct stage *s, const struct task *t)
{
    return t->kind == NODE_FILE && !(s->caps & STORE_RENAME) && s->caps & STORE_MULTIPART &&
           t->n->row.rsize > s->conf.copy_max;
}

/* A store that renames by itself renames whatever has the name. */
static int expect_object(struct stage *s, struct task *t, struct err *err)
{
    struct object_meta meta;
    struct seen seen;
    bool known;
    if (!(s->caps & STORE_RENAME) || !t->from)
        return 0;
    if (remote_look(s, t->from, &meta, &known, &seen, err))
        return -1;
    return is_object_of(t, &seen)
               ? 0
               : err_set(err, ERR_STALE, "move \"%s\": the object was replaced", t->from);
}

static int move_once(struct stage *s, struct task *t, struct seen *ret, bool *ret_left,
                     struct err *err)
{
    *ret = (struct seen){.size = t->n->row.rsize,
                         .mtime_ns = *t->etag ? LIST_MTIME_UNKNOWN : t->n->row.rmtime_ns};
    *ret_left = false;
    if (expect_object(s, t, err))
        return -1;
    return remote_move(s, t->from ? t->from : t->key, t->key, &t->meta,
                       s->caps & STORE_LOCAL ? "" : t->etag, ret_left, ret, err);
}

static bool is_here_whole(struct stage *s, const struct node *n)
{
    ACQUIRE(&s->lock);
    return (n->row.flags & (N_STAGED | N_MAP | N_HELD)) == N_STAGED;
}

/* The node's object is the one that lies there now. What was written into the former one, and is
 * not here whole, can't be had without it: then `why` it could not be moved stays the answer. */
static int take_other(struct stage *s, struct task *t, const struct err *why, struct err *err)
{
    struct node *n = t->n;
    struct object_meta meta = t->meta;
    struct seen seen = {0};
    bool known;
    if (remote_look(s, t->from ? t->from : t->key, &meta, &known, &seen, err))
        return -1;
    ACQUIRE(&s->lock);
    if (n->row.flags & N_DIRTY && !(n->row.flags & N_HELD)) {
        *err = *why;
        return -1;
    }
    log_warn(s->conf.log, "replaced before it could be moved: what is there now moves path=%s",
             t->key);
    node_replaced(s, n, &seen, known && !(n->row.flags & N_META) ? &meta : NULL);
    if (journal_save(s, n, err))
        return -1;
    free(t->etag);
    t->etag = xstrdup(n->row.etag);
    t->meta = node_meta(n);
    return 0;
}

int move_from_other(struct stage *s, struct task *t, struct err *err)
{
    struct err why = *err;
    return why.class == ERR_STALE ? take_other(s, t, &why, err) : -1;
}

int do_move(struct stage *s, struct task *t, struct err *err)
{
    struct seen seen;
    bool left;
    struct err why;
    if (needs_parts(s, t)) /* written there anew, of parts that the store copies */
        return node_publish(s, t->n, t->key, /* wished= */ false, NULL, err);
    for (unsigned tries = 0;; tries++) {
        why = (struct err){0};
        if (move_once(s, t, &seen, &left, &why) == 0)
            return done_at(s, t->n, t->key, &seen, left, &t->meta, 0, err);
        if (why.class != ERR_STALE || tries == MOVE_TRIES)
            break;
        if (t->from && is_here_whole(s, t->n))
            return vanished(s, t, "replaced by another writer");
        struct err stale = why;
        if (take_other(s, t, &stale, &why) && why.class != ERR_NOT_FOUND)
            break;
    }
    if (why.class == ERR_NOT_FOUND && is_there(s, t, &seen))
        return done_at(s, t->n, t->key, &seen, /* left= */ false, &t->meta, 0, err);
    if (why.class == ERR_NOT_FOUND && move_from_left(s, t))
        return 0;
    if (why.class == ERR_NOT_FOUND)
        return vanished(s, t, "deleted by another writer");
    if (err)
        *err = why;
    return -1;
}
