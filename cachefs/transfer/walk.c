/* The walk that copies: key by key, what is to be done with it, and who does it. */
#include <string.h>

#include "sync-internal.h"

/* The pointer that makes packs a set comes after them (docs/formats/packed-set.md). */
static bool comes_last(const char *key)
{
    static const char pointer[] = FETCH_PACKED_POINTER;
    size_t len = strlen(key), n = sizeof pointer - 1;
    return len >= n && strcmp(key + len - n, pointer) == 0 && (len == n || key[len - n - 1] == '/');
}

static void skip(struct sync_run *r, const struct join *j)
{
    counter_add(&r->counts.skipped, 1);
    counter_add(&r->counts.skipped_bytes, j->s.row.size);
}

static void abort_uploads(const struct join *j, bool wanted)
{
    struct sync_run *r = j->run;
    const char *at = j->aborts.data;
    for (; wanted && at && at < j->aborts.data + j->aborts.len; at += strlen(at) + 1)
        if (fetch_upload_abort(r->fetch, r->to, j->key.data, at, NULL) == 0)
            counter_add(&r->counts.aborted_uploads, 1);
}

/* Of the uploads of a key that is about to be sent in parts the last one is gone on with. */
static void leave_one(struct join *j, struct task *t)
{
    struct sync_run *r = j->run;
    bool by_server = r->sources[j->s.row.source].same_server && j->s.row.size < FETCH_COPY_MAX;
    if (!j->aborts.len || t->kind != TASK_COPY || j->s.row.kind != SYNC_OBJECT || by_server ||
        j->s.row.size < FETCH_PUT_WHOLE)
        return;
    size_t last = j->aborts.len - 1; /* a NUL ends each */
    while (last && j->aborts.data[last - 1])
        last--;
    t->resume = xstrdup(j->aborts.data + last);
    j->aborts.len = last;
}

static void would(struct sync_run *r, enum sync_act act, const struct join *j)
{
    uint64_t size = j->s.there ? j->s.row.size : j->d.row.size;
    if (r->watch && r->watch->would)
        r->watch->would(r->watch->arg, act, j->key.data, size);
    if (act == SYNC_COPY) {
        counter_add(&r->counts.copied, 1);
        counter_add(&r->counts.copied_bytes, size);
    } else {
        skip(r, j);
    }
}

static struct task *task_of(const struct join *j, enum sync_act act)
{
    static const enum task_kind kinds[] = {[SYNC_COPY] = TASK_COPY,
                                           [SYNC_COMPARE] = TASK_COMPARE,
                                           [SYNC_DELETE_SRC] = TASK_DELETE_SRC,
                                           [SYNC_SKIP] = TASK_REFRESH};
    struct task *t = task_new(kinds[act], j->key.data, j->key.len);
    t->src = j->s;
    t->dst = j->d;
    return t;
}

static void handle_source(struct sync_run *r, struct join *j, struct task **held)
{
    const struct sync_seen s = seen_of(&j->s), d = seen_of(&j->d);
    enum sync_act act = sync_decide(r->conf, &s, &d);
    if (r->conf->dry && act != SYNC_SKIP) {
        would(r, act, j);
        return;
    }
    if (act == SYNC_SKIP)
        skip(r, j);
    bool refresh = r->conf->perms && j->d.there && s.kind == SYNC_OBJECT && !r->conf->dry;
    if (act == SYNC_SKIP && !refresh) {
        abort_uploads(j, true);
        return;
    }
    struct task *t = task_of(j, act);
    leave_one(j, t);
    abort_uploads(j, true);
    if (comes_last(j->key.data)) {
        t->next = *held;
        *held = t;
    } else {
        run_push(r, t);
    }
}

/* A link that is extra goes before what the source has in a folder of its name, which comes later
 * in the walk: a real one is made for that. */
static void delete_link(struct sync_run *r, const char *key)
{
    struct err err = {0};
    if (fetch_delete(r->fetch, r->to, key, &err))
        run_failed(r, key, &err);
    else
        counter_add(&r->counts.deleted, 1);
}

static void handle(struct sync_run *r, struct join *j, struct task **held)
{
    if (j->s.there) {
        handle_source(r, j, held);
    } else {
        bool deletes = r->deletes && !store_is_output(j->key.data);
        abort_uploads(j, deletes);
        if (!r->deletes)
            counter_add(&r->counts.extra, 1);
        if (deletes && j->d.row.kind == SYNC_LINK && !r->conf->dry)
            delete_link(r, j->key.data);
    }
}

int run_copies(struct sync_run *r, struct err *err)
{
    struct join j;
    struct task *held = NULL;
    int more = join_begin(&j, r, true, err) ? -1 : 1;
    r->phase = SYNC_COPYING;
    while (more > 0 && (more = join_next(&j, err)) > 0) {
        handle(r, &j, &held);
        if (run_is_over(r))
            break;
        run_tell(r, false);
    }
    join_end(&j);
    run_drain(r);
    run_later(r, &r->later);
    while (held) {
        struct task *t = held;
        held = t->next;
        t->next = NULL;
        bool lacks_some = more || counter_get(&r->counts.failed) || r->n_blocked;
        if (r->n_blocked)
            run_left_out(r, t->keys.data, "something is in the way of what it names");
        if (!lacks_some)
            run_push(r, t);
        else
            task_free(t); /* a set that lacks packs is not published */
    }
    run_drain(r);
    return more < 0 ? -1 : 0;
}
