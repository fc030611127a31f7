/* Changes of objects that need no body: deletes, copies at the server, renames, folders, uploads
 * left behind; and reads that wait. */
#include <errno.h>
#include <string.h>

#include "do-internal.h"
#include "json.h"
#include "mem.h"

#define BATCH_MAX     1000 /* keys of one delete */
#define READ_PIECE    (2u << 20)
#define READ_PARALLEL 4

/* --- deletes ---------------------------------------------------------------------------------- */

struct batch {
    struct store *store;
    const char *const *keys;
    size_t n;
    struct bytes body;
};

static int build_batch(void *arg, struct http_req *r, struct err *err)
{
    struct batch *b = arg;
    return store_req_delete_many(b->store, b->keys, b->n, &b->body, r, err);
}

static int delete_batch(struct fetch *f, struct batch *b)
{
    cleanup_bytes struct bytes answer = {0};
    int result =
        whole_wait(f, b->store, PRIO_READER, build_batch, b, SMALL_BODY, NULL, &answer, NULL);
    bytes_release(&b->body);
    return result ? -1 : store_parse_delete_many(b->store, answer.data, answer.len, NULL);
}

void fetch_delete_many(struct fetch *f, struct store *s, const char *const *keys, size_t n,
                       fetch_failed_fn *failed, void *arg)
{
    bool batches = store_caps(s) & STORE_BATCH_DELETE;
    for (size_t at = 0; at < n;) {
        size_t some = !batches ? 1 : n - at < BATCH_MAX ? n - at : BATCH_MAX;
        struct batch b = {.store = s, .keys = keys + at, .n = some};
        if (some < 2 || delete_batch(f, &b)) {
            /* One by one, to learn which of them, and why. */
            for (size_t i = 0; i < some; i++) {
                struct err err = {0};
                if (fetch_delete(f, s, keys[at + i], &err))
                    failed(arg, keys[at + i], &err);
            }
        }
        at += some;
    }
}

/* --- copies, renames, folders ----------------------------------------------------------------- */

struct change {
    struct store *store, *other;
    const char *from, *to, *etag;
};

static int build_copy(void *arg, struct http_req *r, struct err *err)
{
    const struct change *c = arg;
    return store_req_copy_from(c->store, c->other, c->from, c->etag, c->to, r, err);
}

int fetch_copy(struct fetch *f, struct store *to_store, const char *to, struct store *from_store,
               const char *from, const char *etag, struct err *err)
{
    struct change c = {to_store, from_store, from, to, etag};
    if (whole_wait(f, to_store, PRIO_READER, build_copy, &c, SMALL_BODY, NULL, NULL, err))
        return err_wrap(err, "copy \"%s\"", from);
    return 0;
}

static int build_rename(void *arg, struct http_req *r, struct err *err)
{
    const struct change *c = arg;
    return store_req_rename(c->store, c->from, c->to, r, err);
}

/* A store that replaces says nothing; one that cannot says whether it renamed, and has not where
 * something of that name is there. */
static int try_rename(struct fetch *f, struct change *c, bool *ret_done, struct err *err)
{
    cleanup_bytes struct bytes body = {0};
    cleanup_json struct json_doc *doc = NULL;
    *ret_done = true;
    if (whole_wait(f, c->store, PRIO_READER, build_rename, c, SMALL_BODY, NULL, &body, err))
        return -1;
    if (body.len == 0)
        return 0;
    if (json_parse(&doc, "rename", body.data, body.len, err))
        return -1;
    struct json root = json_root(doc);
    return json_bool_or(&root, "boolean", false, ret_done, err);
}

/* A rename whose answer was lost is asked for again, and then it is refused: what is there is what
 * was renamed, and must stay. */
static bool may_replace(struct fetch *f, struct store *s, const char *from, const char *to)
{
    struct http_answer a;
    struct err err = {0};
    return fetch_head(f, s, from, &a, NULL) == 0 ||
           (fetch_head(f, s, to, &a, &err) && err.class == ERR_NOT_FOUND);
}

int fetch_rename(struct fetch *f, struct store *s, const char *from, const char *to,
                 struct err *err)
{
    if (store_caps(s) & STORE_LOCAL)
        return store_local_rename(s, from, to, err);
    struct change c = {.store = s, .from = from, .to = to};
    bool done;
    int result = try_rename(f, &c, &done, err);
    if (result == 0 && !done && may_replace(f, s, from, to) && fetch_delete(f, s, to, NULL) == 0)
        result = try_rename(f, &c, &done, err);
    if (result == 0 && !done)
        result = err_set(err, ERR_FAILED, "to \"%s\": the store did not", to);
    return result ? err_wrap(err, "rename \"%s\"", from) : 0;
}

/* Is what was refused what a former try has done already, whose answer was lost? */
static bool was_done(struct fetch *f, const struct change *c, int64_t size, const struct err *why)
{
    struct http_answer a;
    struct err err = {0};
    return (why->class == ERR_NOT_FOUND || why->class == ERR_FAILED) &&
           fetch_head(f, c->store, c->from, &a, &err) && err.class == ERR_NOT_FOUND &&
           fetch_head(f, c->store, c->to, &a, NULL) == 0 && (size < 0 || a.content_length == size);
}

int fetch_rename_own(struct fetch *f, struct store *s, const char *from, const char *to,
                     int64_t size, struct err *err)
{
    struct err why = {0};
    const struct change c = {.store = s, .from = from, .to = to};
    if (fetch_rename(f, s, from, to, &why) == 0)
        return 0;
    if (!(store_caps(s) & STORE_LOCAL) && was_done(f, &c, size, &why))
        return 0;
    if (err)
        *err = why;
    return -1;
}

static int build_folder(void *arg, struct http_req *r, struct err *err)
{
    const struct change *c = arg;
    return store_req_folder(c->store, c->to, r, err);
}

int fetch_folder(struct fetch *f, struct store *s, const char *key, struct err *err)
{
    if (store_caps(s) & STORE_LOCAL)
        return store_local_folder(s, key, err);
    struct change c = {.store = s, .to = key};
    if (whole_wait(f, s, PRIO_READER, build_folder, &c, SMALL_BODY, NULL, NULL, err))
        return err_wrap(err, "make the folder \"%s\"", key);
    return 0;
}

struct described {
    struct store *store;
    const char *key, *etag;
    const struct object_meta *meta;
};

static int build_marker(void *arg, struct http_req *r, struct err *err)
{
    const struct described *d = arg;
    return store_req_put_object(
        d->store, &(struct store_put){.key = d->key, .body = "", .meta = d->meta}, r, err);
}

int fetch_folder_as(struct fetch *f, struct store *s, const char *key,
                    const struct object_meta *meta, struct err *err)
{
    struct described d = {s, key, "", meta};
    if (whole_wait(f, s, PRIO_READER, build_marker, &d, SMALL_BODY, NULL, NULL, err))
        return err_wrap(err, "make the folder \"%s\"", key);
    return 0;
}

/* A copy of the object onto itself: its bytes stay at the server. */
static int build_set_meta(void *arg, struct http_req *r, struct err *err)
{
    const struct described *d = arg;
    const struct store_copy c = {
        .from = d->key, .to = d->key, .if_match = d->etag, .meta = d->meta};
    return store_req_copy_object(d->store, &c, r, err);
}

int fetch_set_meta(struct fetch *f, struct store *s, const char *key, const char *etag,
                   const struct object_meta *meta, struct err *err)
{
    struct described d = {s, key, etag, meta};
    if (whole_wait(f, s, PRIO_READER, build_set_meta, &d, SMALL_BODY, NULL, NULL, err))
        return err_wrap(err, "describe \"%s\"", key);
    return 0;
}

/* --- uploads left behind ---------------------------------------------------------------------- */

struct left {
    struct store *store;
    const char *prefix, *token, *key, *upload;
};

static int build_uploads(void *arg, struct http_req *r, struct err *err)
{
    const struct left *l = arg;
    return store_req_uploads(l->store, l->prefix, l->token, r, err);
}

int fetch_uploads(struct fetch *f, struct store *s, const char *prefix, upload_fn *fn, void *arg,
                  struct err *err)
{
    cleanup_bytes struct bytes token = {0}, next = {0}, body = {0};
    do {
        struct left l = {.store = s, .prefix = prefix, .token = token.len ? token.data : ""};
        if (whole_wait(f, s, PRIO_READER, build_uploads, &l, 16 * SMALL_BODY, NULL, &body, err) ||
            store_parse_uploads(s, body.data, body.len, fn, arg, &next, err) ||
            page_turn(s, &token, &next, err))
            return err_wrap(err, "look for uploads that were broken off");
    } while (token.len);
    return 0;
}

static int build_left_abort(void *arg, struct http_req *r, struct err *err)
{
    const struct left *l = arg;
    return store_req_multipart_abort(l->store, l->key, l->upload, r, err);
}

int fetch_upload_abort(struct fetch *f, struct store *s, const char *key, const char *upload,
                       struct err *err)
{
    struct left l = {.store = s, .key = key, .upload = upload};
    struct err e = {0};
    if (whole_wait(f, s, PRIO_READER, build_left_abort, &l, SMALL_BODY, NULL, NULL, &e) == 0 ||
        e.class == ERR_NOT_FOUND)
        return 0;
    if (err)
        *err = e;
    return err_wrap(err, "abort the upload of \"%s\"", key);
}

/* --- reads that wait -------------------------------------------------------------------------- */

struct reading {
    struct lock lock;
    struct cond ended;
    unsigned under_way; /* lock */
    bool failed;        /* lock */
    struct err err;     /* lock; the first one */
};

static void on_piece(void *arg, const struct err *err)
{
    struct reading *r = arg;
    ACQUIRE(&r->lock);
    if (err && !r->failed) {
        r->failed = true;
        r->err = *err;
    }
    r->under_way--;
    cond_signal(&r->ended);
}

/* Waits until fewer than `most` pieces are under way; false: one has failed. */
static bool wait_below(struct reading *r, unsigned most)
{
    ACQUIRE(&r->lock);
    while (r->under_way >= most)
        cond_wait(&r->ended, &r->lock);
    return !r->failed;
}

static int start_piece(struct fetch *f, struct reading *r, const struct fetch_get *g,
                       struct err *err)
{
    {
        ACQUIRE(&r->lock);
        r->under_way++;
    }
    if (fetch_get(f, g, err) == 0)
        return 0;
    ACQUIRE(&r->lock);
    r->under_way--;
    return -1;
}

int fetch_read(struct fetch *f, const struct fetch_get *what, void *dest, uint64_t len,
               struct err *err)
{
    struct reading r = {0};
    lock_init(&r.lock, RANK_FETCH_QUEUE, "fetch-read");
    cond_init(&r.ended);
    int result = 0;
    /* A whole object goes in one request: its sum can be checked then. */
    bool whole = what->off == 0 && len == what->object_size && len <= FETCH_PUT_WHOLE;
    uint32_t piece = whole && len ? (uint32_t)len : READ_PIECE;
    for (uint64_t at = 0; at < len && result == 0 && wait_below(&r, READ_PARALLEL);) {
        struct fetch_get g = *what;
        g.off = what->off + at;
        g.len = len - at < piece ? (uint32_t)(len - at) : piece;
        g.dest = (char *)dest + at;
        g.done = on_piece;
        g.arg = &r;
        result = start_piece(f, &r, &g, err);
        at += g.len;
    }
    wait_below(&r, 1);
    if (result == 0 && r.failed) {
        result = -1;
        if (err)
            *err = r.err;
    }
    cond_destroy(&r.ended);
    lock_destroy(&r.lock);
    return result;
}
