/*
 * An upload in parts, while writing goes on: which parts count, and what the journal knows of it.
 * (upload-send.c sends them.)
 *
 * A part is read into memory under the content's lock and sent without it. A write into a part that
 * was sent, or is on its way, makes that part count no more (and the journal forgets it before the
 * bytes change): so at any moment the parts that count are those whose bytes are in the file now.
 * An object is made of them at a moment when all count, seen under the lock: it is the content at
 * that moment.
 *
 * The journal has the upload's name before the first part goes, and each part that arrived; the
 * intent to begin one is there before the store is asked, so that a restart can find an upload
 * whose name never came back.
 */
#include <errno.h>
#include <string.h>
#include <sys/random.h>

#include "hash.h"
#include "mem.h"
#include "content-internal.h"
#include "owed-internal.h"
#include "upload-internal.h"

struct sent *upload_part(struct uploading *up, unsigned part)
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

unsigned upload_n_parts(uint64_t size)
{
    return size ? part_at(size - 1) : 0;
}

uint64_t upload_part_length(const struct content *c, unsigned part)
{
    uint64_t off = part_offset(part), len = part_length(part);
    return off >= c->size ? 0 : c->size - off < len ? c->size - off : len;
}

bool upload_part_counts(const struct content *c, unsigned part)
{
    const struct uploading *up = c->up;
    return up && part <= up->n && up->parts[part - 1].len &&
           up->parts[part - 1].len == upload_part_length(c, part);
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

unsigned upload_next_part(const struct content *c, bool finish)
{
    if (!finish && !c->appending)
        return 0;
    for (unsigned part = 1; part <= upload_n_parts(c->size); part++) {
        if (!finish && part_offset(part) + part_length(part) > c->size)
            return 0;
        bool flying = c->up && part <= c->up->n && c->up->parts[part - 1].flying;
        if (!flying && !upload_part_counts(c, part))
            return part;
    }
    return 0;
}

bool upload_has_work(const struct content *c)
{
    return c->size >= STAGE_MULTIPART && upload_next_part(c, false) != 0;
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
    struct sent *sent = upload_part(arg, part);
    sent->len = len;
    free(sent->etag);
    sent->etag = xstrdup(etag);
}

void upload_take_up(struct content *c)
{
    struct stage *s = c->stage;
    ACQUIRE(&s->lock);
    if (c->up || !c->node->has_upload || !(s->caps & STORE_MULTIPART))
        return;
    struct uploading *up = xcalloc(1, sizeof *up);
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
    unsigned tries;
};

static int build_begin(void *arg, struct http_req *r, struct err *err)
{
    struct begin *b = arg;
    b->tries++;
    return store_req_multipart_begin_as(b->s->conf.store, b->key, b->meta, r, err);
}

/* A request whose answer was lost may have begun an upload that nobody knows: where one was asked
 * for before, all others of that key are aborted. `ret_asked`: it was, and nobody knows yet. */
static int ask_for_upload(struct stage *s, struct uploading *up, bool *ret_asked, struct err *err)
{
    struct begin b = {s, up->key, &up->meta, *ret_asked};
    cleanup_bytes struct bytes body = {0}, id = {0};
    *ret_asked = true;
    if (fetch_do(s->conf.fetch, s->conf.store, build_begin, &b, SMALL_BODY, NULL, &body, err) ||
        store_parse_multipart_begin(s->conf.store, body.data, body.len, &id, err))
        return -1;
    up->id = bytes_take(&id);
    *ret_asked = b.tries > 1 && remote_abort_others(s, up->key, up->id, NULL);
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
    bool asked;
    int result;
    {
        ACQUIRE(&s->lock);
        uint64_t ino = c->node->row.ino;
        up->meta = node_meta(c->node);
        asked = c->node->upload_asked;
        result =
            draw_mark(up->meta.mark, err) || journal_upload(s, ino, key, "", err) ||
                    journal_part(s, ino, PART_MARK, (uint64_t)up->meta.mtime_ns, up->meta.mark, err)
                ? -1
                : 0;
    }
    if (result == 0) {
        lock_drop(&c->lock);
        /* A machine that stops must know of it, too: else nobody would abort it. */
        result = journal_sync(s, err) || ask_for_upload(s, up, &asked, err) ? -1 : 0;
        lock_take(&c->lock);
        ACQUIRE(&s->lock);
        c->node->upload_asked = asked;
        if (result == 0)
            result = journal_upload(s, c->node->row.ino, key, up->id, err);
    }
    if (result) {
        uploading_free(up);
        return err_wrap(err, "write \"%s\" in parts", key);
    }
    c->up = up;
    return 0;
}

int upload_have(struct content *c, const char *key, struct err *err)
{
    struct stage *s = c->stage;
    if (c->up && strcmp(c->up->key, key) != 0) { /* renamed since */
        ours_adopt(c);
        ACQUIRE(&s->lock);
        if (upload_give_up(c, err))
            return -1;
    }
    return c->up ? 0 : begin_upload(c, key, err);
}

void upload_drop(struct content *c)
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
    upload_drop(c);
}
