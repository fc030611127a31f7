/*
 * The content of one node becomes an object: whole, from memory (S3 and its like, small files),
 * from the staged file (a local folder, stores that take no parts), or in parts (upload.c). What is
 * published is the content at one moment: a small file is copied under its lock, the writers of a
 * staged file wait while it is read. A wish that was withdrawn meanwhile (owed_withdraw()) is seen
 * when the moment is taken: then nothing is stored.
 */
#include <string.h>

#include "clock.h"
#include "mem.h"
#include "content-internal.h"
#include "owed-internal.h"

/* c->lock held. */
static int take_snapshot(struct content *c, struct snapshot *ret)
{
    struct stage *s = c->stage;
    ACQUIRE(&s->lock);
    ret->seq = c->node->seq;
    ret->meta = node_meta(c->node);
    return snapshot_is_withdrawn(ret, c->node) ? PUBLISH_WITHDRAWN : 0;
}

/* All of it is here. Of what was synced, that is so on the disk, too: what came from the object
 * that is overwritten now can't come again. c->lock held, given up meanwhile. */
static int have_whole(struct content *c, struct err *err)
{
    if (content_need(c, 0, c->size, true, err))
        return -1;
    return c->map && content_is_synced(c) ? content_sync(c, err) : 0;
}

/* It was small when it was asked for, and is no more: it goes another way. */
#define PUBLISH_GREW 2

static int put_memory(struct content *c, const char *key, const struct stage_call *call,
                      struct snapshot *ret, struct err *err)
{
    struct carrier carrier = {.call = call};
    const struct fetch_watch watch = {carrier_look, &carrier, LOOK_NS};
    cleanup_free char *body = NULL;
    uint64_t size;
    {
        ACQUIRE(&c->lock);
        if (have_whole(c, err))
            return -1;
        size = c->size;
        if (size >= STAGE_MULTIPART)
            return PUBLISH_GREW;
        body = xmalloc(size + 1);
        if (content_read(c, 0, body, size, err))
            return -1;
        if (take_snapshot(c, ret))
            return PUBLISH_WITHDRAWN;
    }
    return remote_put(c->stage, key, body, size, &ret->meta, call && call->leave ? &watch : NULL,
                      &ret->seen, err);
}

/* `size` is what it was a moment ago; a file that grows meanwhile takes a little more than its due.
 */
static int publish_memory(struct content *c, uint64_t size, const char *key,
                          const struct stage_call *call, struct snapshot *ret, struct err *err)
{
    if (!memory_take(c->stage, &c->stage->going_up, size, false))
        return err_set(err, ERR_CANCELLED, "stopping");
    int result = put_memory(c, key, call, ret, err);
    memory_give(c->stage, &c->stage->going_up, size);
    return result;
}

static void drain_end(struct content *c)
{
    ACQUIRE(&c->lock);
    c->draining = false;
    cond_broadcast(&c->cond);
}

/* An object that grows under a name of its own (WebHDFS): the next life, or the next boot, must
 * know it to delete it. */
static int temp_begin(struct stage *s, const struct node *n, const char *temp, struct err *err)
{
    {
        ACQUIRE(&s->lock);
        if (journal_upload(s, n->row.ino, temp, UPLOAD_GROWS, err))
            return -1;
    }
    return journal_sync(s, err);
}

/* It has its own name now; or it could not be finished, and perhaps not be deleted either. */
static void temp_end(struct stage *s, const struct node *n, const char *temp, bool renamed)
{
    ACQUIRE(&s->lock);
    if (journal_begin(s, NULL))
        return;
    if ((!renamed && journal_doom(s, temp, NULL, 0, NULL)) ||
        journal_upload_drop(s, n->row.ino, NULL) || journal_commit(s, NULL)) {
        journal_rollback(s);
        return;
    }
    if (!renamed)
        doom_add(s, temp, NULL, 0);
}

static int publish_file(struct content *c, const char *key, struct snapshot *ret, struct err *err)
{
    struct stage *s = c->stage;
    uint64_t size;
    {
        ACQUIRE(&c->lock);
        if (have_whole(c, err))
            return -1;
        size = c->size;
        if (take_snapshot(c, ret))
            return PUBLISH_WITHDRAWN;
        c->draining = true; /* what a sender reads must neither change nor be cut under it */
    }
    cleanup_free char *temp = s->caps & STORE_APPENDS ? fetch_temp_name(key) : NULL;
    int result = temp ? temp_begin(s, c->node, temp, err) : 0;
    if (result == 0) {
        result = remote_put_file(s, key, temp, c->fd, size, &ret->meta, &ret->seen, err);
        if (temp)
            temp_end(s, c->node, temp, result == 0);
    }
    drain_end(c);
    return result;
}

/* Mode and owner went with the object; a time set by a call must be exactly that one. */
static bool same_meta(const struct node *n, const struct object_meta *m)
{
    struct object_meta now = node_meta(n);
    return now.mode == m->mode && now.uid == m->uid && now.gid == m->gid &&
           (!n->explicit_mtime || now.mtime_ns == m->mtime_ns);
}

/* c->lock held. */
static int note_published(struct content *c, const char *key, const struct snapshot *snap,
                          bool *ret_was_synced, struct err *err)
{
    struct stage *s = c->stage;
    struct node *n = c->node;
    ACQUIRE(&s->lock);
    unsigned flags = n->row.flags;
    bool unchanged = n->seq == snap->seq;
    if (unchanged)
        n->row.flags &= ~(unsigned)(N_DIRTY | N_SYNCED);
    if (n->synced_seq <= snap->seq)
        n->row.flags &= ~(unsigned)N_DURABLE;
    *ret_was_synced = unchanged && flags & N_SYNCED;
    if (unchanged)
        n->parts_wanted = false; /* they went with the whole */
    if (unchanged && content_published(c))
        n->row.flags |= N_MAP;
    if (n->publish_seq <= snap->seq)
        n->row.flags &= ~(unsigned)N_PUBLISH;
    n->row.flags &= ~(unsigned)N_META;
    if (!same_meta(n, &snap->meta))
        n->row.flags |= N_META;
    n->row.flags |= N_KNOWN;
    if (node_stored(s, n, key, &snap->seen, true, err)) {
        n->row.flags = flags | (n->row.flags & N_MAP);
        return -1;
    }
    n->stored_seq = snap->seq;
    n->foreign_told = false;
    if (unchanged)
        dirty_remove(s, n);
    return 0;
}

/* The disk must not go on saying that it is synced and owed when its bytes change again. */
static int published(struct content *c, const char *key, const struct snapshot *snap,
                     struct err *err)
{
    bool was_synced = false;
    ACQUIRE(&c->lock);
    if (note_published(c, key, snap, &was_synced, err))
        return -1;
    return was_synced ? journal_sync(c->stage, err) : 0;
}

/* c->lock not held. PUBLISH_GREW: nothing was done. */
static int publish_as_it_is(struct content *c, const char *key, const struct stage_call *call,
                            struct snapshot *ret, bool *ret_parts, struct err *err)
{
    struct stage *s = c->stage;
    uint64_t size;
    bool begun;
    {
        ACQUIRE(&c->lock);
        if (content_load(c, err))
            return -1;
        size = c->size;
        begun = c->up != NULL;
    }
    *ret_parts = s->caps & STORE_MULTIPART && size >= STAGE_MULTIPART;
    if (*ret_parts)
        return upload_parts(c, key, true, ret, err);
    if (begun) { /* it was longer once */
        ACQUIRE(&c->lock);
        ours_adopt(c);
        ACQUIRE(&s->lock);
        if (upload_give_up(c, err))
            return -1;
    }
    bool memory = !(s->caps & (STORE_LOCAL | STORE_APPENDS)) && size < STAGE_MULTIPART;
    return memory ? publish_memory(c, size, key, call, ret, err) : publish_file(c, key, ret, err);
}

static int publish_content(struct content *c, const char *key, bool wished,
                           const struct stage_call *call, struct err *err)
{
    struct snapshot snap = {.wished = wished};
    bool parts;
    int result;
    do
        result = publish_as_it_is(c, key, call, &snap, &parts, err);
    while (result == PUBLISH_GREW);
    if (result == PUBLISH_WITHDRAWN)
        return 0;
    if (result || published(c, key, &snap, err))
        return -1;
    if (parts) /* not before: if this life ends here, the next one must know what it made */
        upload_forget(c);
    return 0;
}

int node_publish(struct stage *s, struct node *n, const char *key, bool wished,
                 const struct stage_call *call, struct err *err)
{
    struct content *c = content_take(s, n);
    int result = publish_content(c, key, wished, call, err);
    if (result)
        counter_add(&s->counts->upload_failures, 1);
    content_done(c);
    return result;
}
