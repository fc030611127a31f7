/*
 * An upload in parts, while writing goes on.
 *
 * A part is read into memory under the content's lock and sent without it. A write into a part that
 * was sent, or is on its way, makes that part count no more (and the journal forgets it before the
 * bytes change): so at any moment the parts that count are those whose bytes are in the file now.
 * An object is made of them at a moment when all count, seen under the lock: it is the content at
 * that moment. A file that is written faster than it goes up has its writers wait after a few
 * rounds.
 *
 * The journal has the upload's name before the first part goes, and each part that arrived; the
 * intent to begin one is there before the store is asked, so that a restart can find an upload
 * whose name never came back.
 */
#include <assert.h>
#include <errno.h>
#include <string.h>
#include <sys/random.h>

#include "clock.h"
#include "hash.h"
#include "mem.h"
#include "content-internal.h"
#include "owed-internal.h"

#define SMALL_BODY     (1u << 20)
#define SLOTS          4 /* of one file */
#define COPY_MIN       (5u << 20)
#define OVERTAKEN_MOST 8 /* parts sent in vain before writers wait */

struct sent {
    uint64_t len; /* 0: not sent, or not any more */
    char *etag;
    bool flying, stale;
};

struct uploading {
    char *key, *id;
    struct object_meta meta;
    struct sent *parts; /* parts[0] is part 1 */
    unsigned n;
};

static struct sent *sent_of(struct uploading *up, unsigned part)
{
    if (part > up->n) {
        unsigned n = part + 64;
        up->parts = xrealloc(up->parts, n * sizeof up->parts[0]);
        memset(up->parts + up->n, 0, (n - up->n) * sizeof up->parts[0]);
        up->n = n;
    }
    return &up->parts[part - 1];
}

void uploading_free(struct uploading *up)
{
    if (!up)
        return;
    for (unsigned i = 0; i < up->n; i++)
        free(up->parts[i].etag);
    free(up->parts);
    free(up->key);
    free(up->id);
    free(up);
}

static unsigned parts_of(uint64_t size)
{
    return size ? part_at(size - 1) : 0;
}

static uint64_t length_now(const struct content *c, unsigned part)
{
    uint64_t off = part_offset(part), len = part_length(part);
    return off >= c->size ? 0 : c->size - off < len ? c->size - off : len;
}

static bool counts(const struct content *c, unsigned part)
{
    const struct uploading *up = c->up;
    return up && part <= up->n && up->parts[part - 1].len &&
           up->parts[part - 1].len == length_now(c, part);
}

int upload_overtaken(struct content *c, uint64_t off, uint64_t len, struct err *err)
{
    struct stage *s = c->stage;
    if (!c->up || len == 0)
        return 0;
    for (unsigned part = part_at(off); part <= part_at(off + len - 1) && part <= c->up->n; part++) {
        struct sent *sent = &c->up->parts[part - 1];
        sent->stale = sent->flying;
        if (!sent->len)
            continue;
        ACQUIRE(&s->lock);
        if (journal_part_drop(s, c->node->row.ino, part, err))
            return -1;
        sent->len = 0;
    }
    return 0;
}

/* The next part to send, or 0. Without `finish` only whole ones that nobody writes to any more. */
static unsigned next_part(const struct content *c, unsigned from, bool finish)
{
    if (!finish && !c->appending)
        return 0;
    for (unsigned part = from; part <= parts_of(c->size); part++) {
        if (!finish && part_offset(part) + part_length(part) > c->size)
            return 0;
        bool flying = c->up && part <= c->up->n && c->up->parts[part - 1].flying;
        if (!flying && !counts(c, part))
            return part;
    }
    return 0;
}

bool upload_has_work(const struct content *c)
{
    return c->size >= STAGE_MULTIPART && next_part(c, 1, false) != 0;
}

/* --- beginning and giving up ----------------------------------------------------------------- */

int upload_give_up(struct content *c, struct err *err)
{
    struct stage *s = c->stage;
    struct uploading *up = c->up;
    uint64_t ino = c->node->row.ino;
    if (!up)
        return 0;
    if (journal_begin(s, err))
        return -1;
    if (journal_doom(s, up->key, up->id, ino, err) || journal_upload_drop(s, ino, err)) {
        journal_rollback(s);
        return -1;
    }
    if (journal_commit(s, err))
        return -1;
    doom_add(s, up->key, up->id, 0);
    c->up = NULL;
    uploading_free(up);
    return 0;
}

static void take_mark(struct uploading *up, uint64_t mtime_ns, const char *mark)
{
    up->meta.mtime_ns = (int64_t)mtime_ns;
    snprintf(up->meta.mark, sizeof up->meta.mark, "%s", mark);
}

static void take_sent(void *arg, unsigned part, uint64_t len, const char *etag)
{
    if (part == PART_MARK && etag)
        take_mark(arg, len, etag);
    if (part == PART_WHOLE || part > PARTS_MAX || !etag)
        return;
    struct sent *sent = sent_of(arg, part);
    sent->len = len;
    free(sent->etag);
    sent->etag = xstrdup(etag);
}

/* What an earlier life, or an earlier user of the content, began. c->lock held. */
static void take_up(struct content *c)
{
    struct stage *s = c->stage;
    if (c->up)
        return;
    struct uploading *up = xcalloc(1, sizeof *up);
    ACQUIRE(&s->lock);
    up->meta = node_meta(c->node);
    up->meta.mtime_ns = 0; /* if the journal does not say it, it is set again at the end */
    if (!journal_find_upload(s, c->node->row.ino, &up->key, &up->id, take_sent, up) || !*up->id) {
        uploading_free(up);
        return;
    }
    c->up = up;
}

struct begin {
    struct stage *s;
    const char *key;
    const struct object_meta *meta;
};

static int build_begin(void *arg, struct http_req *r, struct err *err)
{
    const struct begin *b = arg;
    return store_req_multipart_begin_as(b->s->conf.store, b->key, b->meta, r, err);
}

static int ask_for_upload(struct stage *s, struct uploading *up, struct err *err)
{
    struct begin b = {s, up->key, &up->meta};
    cleanup_bytes struct bytes body = {0}, id = {0};
    if (fetch_do(s->conf.fetch, s->conf.store, build_begin, &b, SMALL_BODY, NULL, &body, err) ||
        store_parse_multipart_begin(s->conf.store, body.data, body.len, &id, err))
        return -1;
    up->id = bytes_take(&id);
    return 0;
}

static int draw_mark(char ret[STORE_MARK_SIZE], struct err *err)
{
    unsigned char random[STORE_MARK_SIZE / 2];
    if (getrandom(random, sizeof random, 0) != sizeof random)
        return err_sys(err, errno, "draw random bytes");
    hex_encode(ret, random, sizeof random);
    return 0;
}

/* c->lock held, given up meanwhile. */
static int begin_upload(struct content *c, const char *key, struct err *err)
{
    struct stage *s = c->stage;
    struct uploading *up = xcalloc(1, sizeof *up);
    up->key = xstrdup(key);
    int result;
    {
        ACQUIRE(&s->lock);
        uint64_t ino = c->node->row.ino;
        up->meta = node_meta(c->node);
        result =
            draw_mark(up->meta.mark, err) || journal_upload(s, ino, key, "", err) ||
                    journal_part(s, ino, PART_MARK, (uint64_t)up->meta.mtime_ns, up->meta.mark, err)
                ? -1
                : 0;
    }
    if (result == 0) {
        lock_drop(&c->lock);
        /* A machine that stops must know of it, too: else nobody would abort it. */
        result = journal_sync(s, err) || ask_for_upload(s, up, err) ? -1 : 0;
        lock_take(&c->lock);
    }
    if (result == 0) {
        ACQUIRE(&s->lock);
        result = journal_upload(s, c->node->row.ino, key, up->id, err);
    }
    if (result) {
        uploading_free(up);
        return err_wrap(err, "write \"%s\" in parts", key);
    }
    c->up = up;
    return 0;
}

/* The upload for this key, begun if there is none. c->lock held. */
static int have_upload(struct content *c, const char *key, struct err *err)
{
    struct stage *s = c->stage;
    take_up(c);
    if (c->up && strcmp(c->up->key, key) != 0) { /* renamed since */
        ours_adopt(c);
        ACQUIRE(&s->lock);
        if (upload_give_up(c, err))
            return -1;
    }
    return c->up ? 0 : begin_upload(c, key, err);
}

/* --- sending --------------------------------------------------------------------------------- */

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
    slot->len = length_now(c, part);
    slot->failed = slot->ended = false;
    if (fill_copy(run, slot))
        return 0;
    if (content_need(c, part_offset(part), slot->len, true, err))
        return -1;
    if (slot->len != length_now(c, part) || slot->len == 0)
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
    struct sent *sent = sent_of(run->up, slot->part);
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
    return next_part(run->c, 1, run->finish);
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
            part = next_part(c, 1, run->finish);
        while (part && (result = fill_slot(run, slot, part, err)) == 1);
        if (part && result == 0)
            sent_of(run->up, part)->flying = true;
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
    sent_of(run->up, part)->flying = false;
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
    e->n = parts_of(c->size);
    for (unsigned part = 1; part <= e->n; part++)
        if (!counts(c, part))
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

static void forget(struct content *c)
{
    struct stage *s = c->stage;
    ACQUIRE(&s->lock);
    if (journal_upload_drop(s, c->node->row.ino, NULL))
        return;
    uploading_free(c->up);
    c->up = NULL;
}

void upload_forget(struct content *c)
{
    ACQUIRE(&c->lock);
    forget(c);
}

/* The store knows the upload no more: it was ended, by a life that was killed before it heard so or
 * by a request whose answer was lost, or all that was sent is lost. The next try begins anew. */
static void upload_is_gone(struct content *c)
{
    ACQUIRE(&c->lock);
    ours_adopt(c);
    forget(c);
}

int upload_parts(struct content *c, const char *key, bool finish, struct snapshot *ret,
                 struct err *err)
{
    struct sending run = {.s = c->stage, .c = c, .finish = finish};
    {
        ACQUIRE(&c->lock);
        if (have_upload(c, key, err))
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
