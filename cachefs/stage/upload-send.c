/*
 * The parts of an upload, sent and landed, and its end. Some parts fly together; each has a slot,
 * which the thread that called upload_parts() fills, and clears when its answer is there. A file
 * that is written faster than it goes up has its writers wait after a few rounds.
 */
#include <errno.h>
#include <string.h>

#include "mem.h"
#include "content-internal.h"
#include "owed-internal.h"
#include "upload-internal.h"

#define SLOTS          4 /* of one file */
#define COPY_MIN       (5u << 20)
#define OVERTAKEN_MOST 8 /* parts sent in vain before writers wait */

struct sending;

struct slot {
    struct sending *run;
    unsigned part;
    uint64_t len;
    uint64_t taken;  /* of the memory for bodies */
    struct buf *buf; /* NULL: a copy within the store */
    char sum[STORE_SUM_SIZE];
    struct store_copy copy;
    char *from, *if_match;
    bool busy, ended; /* run->lock */
    bool failed;
    struct err err;
    struct http_answer answer;
    struct bytes body;
};

struct sending {
    struct stage *s;
    struct content *c;
    struct uploading *up;
    bool finish;
    bool no_copy;     /* the object is not the one that the row says */
    struct lock lock; /* slots' `ended` */
    struct cond cond;
    struct slot slots[SLOTS];
    unsigned flying, overtaken;
};

static int build_part(void *arg, struct http_req *r, struct err *err)
{
    const struct slot *slot = arg;
    const struct sending *run = slot->run;
    if (!slot->buf)
        return store_req_copy_object(run->s->conf.store, &slot->copy, r, err);
    const struct store_put put = {.key = run->up->key,
                                  .body = slot->buf->data,
                                  .len = slot->len,
                                  .sum = slot->sum,
                                  .upload = run->up->id,
                                  .part = slot->part};
    return store_req_put_object(run->s->conf.store, &put, r, err);
}

static void on_part(void *arg, const struct err *err)
{
    struct slot *slot = arg;
    struct sending *run = slot->run;
    ACQUIRE(&run->lock);
    slot->failed = err != NULL;
    if (err)
        slot->err = *err;
    slot->ended = true;
    cond_signal(&run->cond);
}

/* Unchanged since it was stored: the store copies it. c->lock held. */
static bool fill_copy(struct sending *run, struct slot *slot)
{
    struct content *c = run->c;
    struct stage *s = run->s;
    uint64_t off = part_offset(slot->part);
    bool last = off + slot->len == c->size;
    ACQUIRE(&s->lock);
    if (run->no_copy || s->no_part_copy || !(s->caps & STORE_COPY) ||
        !(c->node->row.flags & N_STORED) || !*c->node->row.etag ||
        (slot->len < COPY_MIN && !last) || !content_same(c, off, slot->len))
        return false;
    slot->from = node_stored_key(c->node);
    slot->if_match = xstrdup(c->node->row.etag);
    slot->copy = (struct store_copy){.from = slot->from,
                                     .to = run->up->key,
                                     .if_match = slot->if_match,
                                     .upload = run->up->id,
                                     .part = slot->part,
                                     .off = off,
                                     .len = slot->len};
    return true;
}

/* c->lock held, given up while absent blocks come. 1: the part changed meanwhile: look again. */
static int fill_slot(struct sending *run, struct slot *slot, unsigned part, struct err *err)
{
    struct content *c = run->c;
    slot->run = run;
    slot->part = part;
    slot->len = upload_part_length(c, part);
    slot->failed = slot->ended = false;
    if (fill_copy(run, slot))
        return 0;
    if (content_need(c, part_offset(part), slot->len, true, err))
        return -1;
    if (slot->len != upload_part_length(c, part) || slot->len == 0)
        return 1;
    if (slot->taken > pool_limit(run->s->parts)) /* it is alone: see memory_take() */
        pool_set_limit(run->s->parts, slot->taken);
    slot->buf = pool_get(run->s->parts, slot->len);
    if (!slot->buf)
        return err_sys(err, errno, "read a part of %llu bytes", (unsigned long long)slot->len);
    return content_read(c, part_offset(part), slot->buf->data, slot->len, err);
}

static void slot_clear(struct sending *run, struct slot *slot)
{
    buf_unref(slot->buf);
    if (slot->taken)
        memory_give(run->s, &run->s->going_up, slot->taken);
    slot->taken = 0;
    free(slot->from);
    free(slot->if_match);
    bytes_release(&slot->body);
    slot->buf = NULL;
    slot->from = slot->if_match = NULL;
    slot->busy = false;
}

/* The buffer was counted already. */
static int send_slot(struct sending *run, struct slot *slot, struct err *err)
{
    struct stage *s = run->s;
    if (slot->buf)
        store_payload_sum(s->conf.store, slot->buf->data, slot->len, slot->sum);
    const struct fetch_request r = {.store = s->conf.store,
                                    .build = build_part,
                                    .build_arg = slot,
                                    .max_body = SMALL_BODY,
                                    .answer = &slot->answer,
                                    .body = &slot->body,
                                    .done = on_part,
                                    .arg = slot};
    if (fetch_start(s->conf.fetch, &r, err))
        return -1;
    run->flying++;
    return 0;
}

/* --- landing --------------------------------------------------------------------------------- */

static int keep_part(struct sending *run, struct slot *slot, struct sent *sent, struct err *err)
{
    struct stage *s = run->s;
    char etag[160];
    snprintf(etag, sizeof etag, "%s", slot->answer.etag);
    if (!slot->buf)
        store_parse_etag(s->conf.store, slot->body.data, slot->body.len, etag);
    {
        ACQUIRE(&s->lock);
        if (journal_part(s, run->c->node->row.ino, slot->part, slot->len, etag, err))
            return -1;
    }
    free(sent->etag);
    sent->etag = xstrdup(etag);
    sent->len = slot->len;
    if (slot->buf) {
        count_upload(s, slot->len);
    } else {
        counter_add(&s->counts->copies, 1);
    }
    return 0;
}

/* A store without such copies gets the bytes; so does one whose object is another by now, or gone,
 * if they are all here. A copy that finds nothing does not tell whether the object is gone or the
 * upload: the bytes will. c->lock held, given up meanwhile. */
static bool copy_refused(struct sending *run, const struct slot *slot)
{
    if (slot->buf || !slot->failed)
        return false;
    if (slot->err.class == ERR_STALE) {
        ours_adopt(run->c);
        CLEANUP(record_release) struct record now;
        content_row(run->c, &now);
        run->no_copy |= strcmp(now.etag, slot->if_match) == 0;
        return true;
    }
    if (slot->err.class == ERR_NOT_FOUND) {
        if (ours_adopt(run->c)) /* the upload has ended */
            return false;
        run->no_copy = true;
        return true;
    }
    if (slot->err.class != ERR_FAILED && slot->err.class != ERR_USAGE)
        return false;
    ACQUIRE(&run->s->lock);
    run->s->no_part_copy = true;
    return true;
}

static int land(struct sending *run, struct slot *slot, struct err *err)
{
    struct content *c = run->c;
    ACQUIRE(&c->lock);
    struct sent *sent = upload_part(run->up, slot->part);
    int result = 0;
    if (sent->stale)
        run->overtaken++;
    else if (slot->failed && !copy_refused(run, slot))
        result = -1;
    else if (!slot->failed)
        result = keep_part(run, slot, sent, &slot->err);
    sent->flying = sent->stale = false;
    if (result && err)
        *err = slot->err;
    run->flying--;
    slot_clear(run, slot);
    if (run->finish && run->overtaken > OVERTAKEN_MOST)
        c->draining = true;
    return result;
}

/* Waits for one slot that ended; NULL: none is under way. */
static struct slot *wait_slot(struct sending *run)
{
    ACQUIRE(&run->lock);
    while (run->flying) {
        for (unsigned i = 0; i < SLOTS; i++)
            if (run->slots[i].busy && run->slots[i].ended)
                return &run->slots[i];
        cond_wait(&run->cond, &run->lock);
    }
    return NULL;
}

static struct slot *free_slot(struct sending *run)
{
    for (unsigned i = 0; i < SLOTS; i++)
        if (!run->slots[i].busy)
            return &run->slots[i];
    return NULL;
}

static unsigned part_to_send(const struct sending *run)
{
    ACQUIRE(&run->c->lock);
    return upload_next_part(run->c, run->finish);
}

/* 1: one was sent; 0: nothing to send now. */
static int send_one(struct sending *run, struct err *err)
{
    struct content *c = run->c;
    struct slot *slot = free_slot(run);
    int result = 0;
    unsigned part = slot ? part_to_send(run) : 0;
    if (!part || !memory_take(run->s, &run->s->going_up, part_length(part), run->flying > 0))
        return 0;
    slot->taken = part_length(part);
    {
        ACQUIRE(&c->lock);
        do
            part = upload_next_part(c, run->finish);
        while (part && (result = fill_slot(run, slot, part, err)) == 1);
        if (part && result == 0)
            upload_part(run->up, part)->flying = true;
    }
    if (!slot->buf) { /* nothing to send, a copy, or a failure: none was needed */
        memory_give(run->s, &run->s->going_up, slot->taken);
        slot->taken = 0;
    }
    if (!part)
        return 0;
    slot->busy = true;
    if (result == 0)
        result = send_slot(run, slot, err);
    if (result == 0)
        return 1;
    ACQUIRE(&c->lock);
    upload_part(run->up, part)->flying = false;
    slot_clear(run, slot);
    return -1;
}

static int send_all(struct sending *run, struct err *err)
{
    int result = 0;
    for (;;) {
        int sent = 0;
        while (result == 0 && !atomic_load(&run->s->stopping) && (sent = send_one(run, err)) > 0)
            ;
        if (sent < 0)
            result = -1;
        struct slot *slot = wait_slot(run);
        if (!slot)
            return result;
        if (land(run, slot, result ? NULL : err))
            result = -1;
    }
}

/* --- the end --------------------------------------------------------------------------------- */

struct end {
    struct stage *s;
    struct uploading *up;
    struct part_tag *tags;
    unsigned n;
    struct object_meta meta;
    struct bytes body;
};

static int build_end(void *arg, struct http_req *r, struct err *err)
{
    struct end *e = arg;
    bytes_clear(&e->body);
    return store_req_multipart_end(e->s->conf.store, e->up->key, e->up->id, e->tags, e->n, &e->meta,
                                   &e->body, r, err);
}

/* All parts count now? Then what they are, and of which change. c->lock held. */
static bool snapshot(struct content *c, struct end *e, struct snapshot *ret)
{
    struct stage *s = c->stage;
    e->n = upload_n_parts(c->size);
    for (unsigned part = 1; part <= e->n; part++)
        if (!upload_part_counts(c, part))
            return false;
    e->tags = xcalloc(e->n, sizeof e->tags[0]);
    for (unsigned i = 0; i < e->n; i++) {
        e->tags[i].part = i + 1;
        snprintf(e->tags[i].etag, sizeof e->tags[i].etag, "%s", c->up->parts[i].etag);
    }
    ACQUIRE(&s->lock);
    ret->seq = c->node->seq;
    ret->meta = e->meta = c->up->meta;
    ret->seen = (struct seen){.size = c->size, .mtime_ns = LIST_MTIME_UNKNOWN};
    return true;
}

static int end_upload(struct sending *run, struct end *e, struct snapshot *ret, struct err *err)
{
    struct stage *s = run->s;
    cleanup_bytes struct bytes body = {0};
    if (ours_expect(run->c, e->up->key, e->tags, e->n, ret->seen.size, err) ||
        fetch_do(s->conf.fetch, s->conf.store, build_end, e, SMALL_BODY, NULL, &body, err) ||
        store_parse_multipart_end(s->conf.store, body.data, body.len, err))
        return -1;
    store_parse_etag(s->conf.store, body.data, body.len, ret->seen.etag);
    return 0;
}

static bool is_withdrawn(struct content *c, const struct snapshot *snap)
{
    struct stage *s = c->stage;
    ACQUIRE(&s->lock);
    return snapshot_is_withdrawn(snap, c->node);
}

static int finish_upload(struct sending *run, struct snapshot *ret, struct err *err)
{
    struct end e = {.s = run->s, .up = run->up};
    int result;
    do {
        result = send_all(run, err);
        if (result == 0 && atomic_load(&run->s->stopping))
            result = err_set(err, ERR_CANCELLED, "stopping");
        bool whole = false;
        if (result == 0) {
            ACQUIRE(&run->c->lock);
            if (is_withdrawn(run->c, ret))
                result = PUBLISH_WITHDRAWN;
            else if (run->c->size == 0)
                result = err_set(err, ERR_TRANSIENT, "cut to nothing while it went up");
            else
                whole = snapshot(run->c, &e, ret);
        }
        if (whole) {
            result = end_upload(run, &e, ret, err);
            break;
        }
    } while (result == 0);
    free(e.tags);
    bytes_release(&e.body);
    return result;
}

/* The store knows the upload no more: it was ended, by a life that was killed before it heard so or
 * by a request whose answer was lost, or all that was sent is lost. The next try begins anew. */
static void upload_is_gone(struct content *c)
{
    ACQUIRE(&c->lock);
    ours_adopt(c);
    upload_drop(c);
}

int upload_parts(struct content *c, const char *key, bool finish, struct snapshot *ret,
                 struct err *err)
{
    struct sending run = {.s = c->stage, .c = c, .finish = finish};
    {
        ACQUIRE(&c->lock);
        if (upload_have(c, key, err))
            return -1;
        run.up = c->up;
    }
    lock_init(&run.lock, RANK_FETCH_QUEUE, "stage-parts");
    cond_init(&run.cond);
    struct err why = {0};
    int result = finish ? finish_upload(&run, ret, &why) : send_all(&run, &why);
    if (finish) /* the next large file may be hours away */
        pool_trim(run.s->parts);
    cond_destroy(&run.cond);
    lock_destroy(&run.lock);
    {
        ACQUIRE(&c->lock);
        c->draining = false;
        cond_broadcast(&c->cond);
    }
    if (result >= 0)
        return result;
    if (why.class == ERR_NOT_FOUND) {
        upload_is_gone(c);
        why.class = ERR_TRANSIENT;
    }
    if (err)
        *err = why;
    return err_wrap(err, "write \"%s\" in parts", key);
}
