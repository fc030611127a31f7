/*
 * Writing objects. Small ones go whole; longer ones in parts, some at a time, each read into a
 * buffer of its own just before it is sent, so memory is bounded by UPLOAD_MEMORY. A failed upload
 * is aborted at the store, so that it costs nothing there. Stores without parts get a temporary
 * object that grows and is renamed (WebHDFS), or a file without a name (upload-grow.c).
 */
#include <assert.h>
#include <errno.h>
#include <string.h>

#include "do-internal.h"
#include "file.h"
#include "mem.h"
#include "upload-internal.h"

#define PART_MIN        (8u << 20)
#define PARTS_MAX       10000
#define UPLOAD_PARALLEL 4
#define UPLOAD_MEMORY   (UPLOAD_PARALLEL * (size_t)PART_MIN)

/* --- whole objects ---------------------------------------------------------------------------- */

struct put {
    struct store *store;
    const char *key;
    const void *body;
    size_t len;
    bool append;
    const struct object_meta *meta;
    const struct http_answer *first; /* of a write in two steps: where the bytes go */
};

static int build_put(void *arg, struct http_req *r, struct err *err)
{
    const struct put *p = arg;
    if (p->first)
        return store_req_follow(p->store, p->first, p->body, p->len, r, err);
    if (p->append)
        return store_req_append(p->store, p->key, p->body, p->len, r, err);
    if (p->meta)
        return store_req_put_object(
            p->store,
            &(struct store_put){.key = p->key, .body = p->body, .len = p->len, .meta = p->meta}, r,
            err);
    return store_req_put(p->store, p->key, strlen(p->key), p->body, p->len, r, err);
}

static int put_whole(struct fetch *f, struct put *p, char ret_etag[160], struct err *err)
{
    struct http_answer a, second;
    int result = whole_wait(f, p->store, PRIO_READER, build_put, p, SMALL_BODY, &a, NULL, err);
    if (result == 0 && a.status / 100 == 3) {
        p->first = &a;
        result = whole_wait(f, p->store, PRIO_READER, build_put, p, SMALL_BODY, &second, NULL, err);
    } else if (result == 0 && p->len && (store_caps(p->store) & STORE_APPENDS)) {
        return err_set(err, ERR_TRANSIENT,
                       "HTTP %d, and not where the bytes go: none were sent (is there a proxy on "
                       "the way that answers by itself?)",
                       a.status);
    }
    if (result == 0 && ret_etag)
        snprintf(ret_etag, 160, "%s", p->first ? second.etag : a.etag);
    return result;
}

int put_piece(struct fetch *f, struct store *s, const char *key, const void *body, size_t len,
              bool append, struct err *err)
{
    struct put p = {.store = s, .key = key, .body = body, .len = len, .append = append};
    return put_whole(f, &p, NULL, err);
}

static int read_memory(void *arg, uint64_t off, void *buf, size_t len, struct err *err)
{
    const void *const *body = arg;
    (void)err;
    memcpy(buf, (const char *)*body + off, len);
    return 0;
}

static int put_local(struct store *s, const char *key, const void *body, size_t len,
                     const struct fetch_put_opts *opts, struct err *err)
{
    struct local_file *file;
    if (store_local_begin(s, key, &file, err))
        return -1;
    if (store_local_append(file, body, len, err)) {
        store_local_abort(file);
        return -1;
    }
    return store_local_commit(file, opts ? opts->attrs : NULL, !opts || !opts->hasty, err);
}

int fetch_put_bytes(struct fetch *f, struct store *s, const char *key, const void *body, size_t len,
                    const struct fetch_put_opts *opts, char ret_etag[160], struct err *err)
{
    if (ret_etag)
        ret_etag[0] = '\0';
    if (store_caps(s) & STORE_LOCAL)
        return put_local(s, key, body, len, opts, err);
    if (store_caps(s) & STORE_APPENDS) {
        const struct fetch_stream from = {
            .store = s, .key = key, .len = len, .read = read_memory, .arg = &body};
        return stream_by_appending(f, &from, err);
    }
    struct put p = {
        .store = s, .key = key, .body = body, .len = len, .meta = opts ? opts->meta : NULL};
    return put_whole(f, &p, ret_etag, err) ? err_wrap(err, "write \"%s\"", key) : 0;
}

int fetch_put(struct fetch *f, struct store *s, const char *key, const void *body, size_t len,
              struct err *err)
{
    return fetch_put_bytes(f, s, key, body, len, NULL, NULL, err);
}

/* --- parts ------------------------------------------------------------------------------------ */

struct upload {
    struct fetch *fetch;
    const struct fetch_stream *from;
    struct store *store;
    const char *key;
    uint64_t len;
    size_t part_len;
    unsigned n_parts, parallel;
    struct bytes id;
    struct part_tag *tags; /* of all parts; each written by the slot that sent it */
    bool resumed;          /* `tags` says which parts were there */
    bool other;            /* one of them was of other bytes */
    uint64_t kept;         /* bytes not sent */
    struct lock lock;
    struct cond ended;
    unsigned under_way; /* lock */
    bool failed;        /* lock */
    struct err err;     /* lock; the first one */
};

struct slot {
    struct upload *up;
    unsigned part; /* from 1 */
    unsigned char *buf;
    size_t len;
    bool busy; /* up->lock */
    struct http_answer answer;
};

static int build_part(void *arg, struct http_req *r, struct err *err)
{
    const struct slot *s = arg;
    return store_req_multipart_part(s->up->store, s->up->key, s->up->id.data, s->part, s->buf,
                                    s->len, r, err);
}

static void on_part(void *arg, const struct err *err)
{
    struct slot *s = arg;
    struct upload *up = s->up;
    ACQUIRE(&up->lock);
    if (err && !up->failed) {
        up->failed = true;
        up->err = *err;
    }
    struct part_tag *tag = &up->tags[s->part - 1];
    tag->part = s->part;
    snprintf(tag->etag, sizeof tag->etag, "%s", s->answer.etag);
    s->busy = false;
    up->under_way--;
    cond_signal(&up->ended);
}

static int read_part(const struct upload *up, struct slot *s, struct err *err)
{
    uint64_t off = (uint64_t)(s->part - 1) * up->part_len;
    s->len = up->len - off < up->part_len ? (size_t)(up->len - off) : up->part_len;
    return up->from->read(up->from->arg, off, s->buf, s->len, err);
}

/* Waits for a free slot; NULL: a part has failed. */
static struct slot *free_slot(struct upload *up, struct slot *slots)
{
    ACQUIRE(&up->lock);
    while (!up->failed) {
        for (unsigned i = 0; i < up->parallel; i++)
            if (!slots[i].busy)
                return &slots[i];
        cond_wait(&up->ended, &up->lock);
    }
    return NULL;
}

/* 1: the store has that part already; 0: it has not; -1: what it has is of other bytes. */
static int has_part(struct upload *up, const struct slot *s, struct err *err)
{
    const struct part_tag *tag = &up->tags[s->part - 1];
    char sum[64];
    if (!up->resumed || tag->part == 0)
        return 0;
    snprintf(sum, sizeof sum, "sum:md5:%.32s", tag->etag);
    up->other = store_check_sum(sum, s->buf, s->len, NULL) != 0;
    if (up->other)
        return err_set(err, ERR_STALE, "part %u is of other bytes", s->part);
    up->kept += s->len;
    return 1;
}

static int send_part(struct upload *up, struct slot *s, unsigned part, struct err *err)
{
    s->part = part;
    s->up = up;
    if (!s->buf)
        s->buf = xmalloc(up->part_len);
    if (read_part(up, s, err))
        return -1;
    int has = has_part(up, s, err);
    if (has)
        return has < 0 ? -1 : 0;
    const struct whole w = {.store = up->store,
                            .build = build_part,
                            .build_arg = s,
                            .max_body = SMALL_BODY,
                            .answer = &s->answer,
                            .prio = PRIO_READER,
                            .done = on_part,
                            .arg = s};
    {
        ACQUIRE(&up->lock);
        s->busy = true;
        up->under_way++;
    }
    if (fetch_whole(up->fetch, &w, err) == 0)
        return 0;
    ACQUIRE(&up->lock);
    s->busy = false;
    up->under_way--;
    return -1;
}

static int send_parts(struct upload *up, struct err *err)
{
    struct slot slots[UPLOAD_PARALLEL] = {0};
    int result = 0;
    for (unsigned part = 1; part <= up->n_parts && result == 0; part++) {
        struct slot *s = free_slot(up, slots);
        if (!s)
            break;
        result = send_part(up, s, part, err);
    }
    {
        ACQUIRE(&up->lock);
        while (up->under_way)
            cond_wait(&up->ended, &up->lock);
        if (result == 0 && up->failed) {
            result = -1;
            if (err)
                *err = up->err;
        }
    }
    for (unsigned i = 0; i < UPLOAD_PARALLEL; i++)
        free(slots[i].buf);
    return result;
}

struct step {
    struct upload *up;
    struct bytes body;
};

static int build_begin(void *arg, struct http_req *r, struct err *err)
{
    struct upload *up = arg;
    const struct object_meta *meta = up->from->opts.meta;
    return meta ? store_req_multipart_begin_as(up->store, up->key, meta, r, err)
                : store_req_multipart_begin(up->store, up->key, r, err);
}

static int build_end(void *arg, struct http_req *r, struct err *err)
{
    struct step *step = arg;
    struct upload *up = step->up;
    bytes_clear(&step->body);
    return store_req_multipart_end(up->store, up->key, up->id.data, up->tags, up->n_parts,
                                   up->from->opts.meta, &step->body, r, err);
}

static int build_abort(void *arg, struct http_req *r, struct err *err)
{
    struct upload *up = arg;
    return store_req_multipart_abort(up->store, up->key, up->id.data, r, err);
}

static int begin(struct upload *up, struct err *err)
{
    cleanup_bytes struct bytes body = {0};
    if (whole_wait(up->fetch, up->store, PRIO_READER, build_begin, up, SMALL_BODY, NULL, &body,
                   err))
        return -1;
    return store_parse_multipart_begin(up->store, body.data, body.len, &up->id, err);
}

/* Whose answer is lost has ended, and a second try finds no such upload. The ETag is that of all
 * its parts: other bytes under this key do not have it. */
static bool has_ended(const struct upload *up)
{
    char etag[160];
    struct http_answer a;
    return store_parts_etag(up->tags, up->n_parts, etag) &&
           head_wait(up->fetch, up->store, PRIO_READER, up->key, &a, NULL) == 0 &&
           a.content_length == (int64_t)up->len && strcmp(a.etag, etag) == 0;
}

static int end(struct upload *up, struct err *err)
{
    struct step step = {.up = up};
    cleanup_bytes struct bytes body = {0};
    int result = whole_wait(up->fetch, up->store, PRIO_READER, build_end, &step, SMALL_BODY, NULL,
                            &body, err) ||
                 store_parse_multipart_end(up->store, body.data, body.len, err);
    bytes_release(&step.body);
    if (result && !has_ended(up))
        return -1;
    err_clear(err);
    return 0;
}

static void part_sizes(struct upload *up)
{
    up->part_len = PART_MIN;
    if (up->len / PARTS_MAX >= PART_MIN)
        up->part_len = (size_t)(up->len / PARTS_MAX) + 1;
    up->n_parts = (unsigned)((up->len + up->part_len - 1) / up->part_len);
    up->parallel = up->part_len >= UPLOAD_MEMORY ? 1 : (unsigned)(UPLOAD_MEMORY / up->part_len);
}

/* Takes over what a run before has begun, if it can be gone on with. */
static void take_over(struct upload *up)
{
    const struct fetch_stream *p = up->from;
    if (!p->resume)
        return;
    bytes_add_str(&up->id, p->resume);
    up->resumed = upload_parts_got(up->fetch, p, up->part_len, up->n_parts, up->tags, NULL) == 0;
    if (up->resumed)
        return;
    fetch_upload_abort(up->fetch, up->store, up->key, up->id.data, NULL);
    bytes_clear(&up->id);
    memset(up->tags, 0, up->n_parts * sizeof *up->tags);
}

static int do_upload(struct upload *up, struct err *err)
{
    const struct fetch_stream *p = up->from;
    if (!up->id.len && begin(up, err))
        return -1;
    int result = send_parts(up, err);
    if (result == 0 && p->check)
        result = p->check(p->arg, err);
    if (result == 0)
        result = end(up, err);
    if (result) /* best effort: what failed is in `err` already */
        whole_wait(up->fetch, up->store, PRIO_READER, build_abort, up, SMALL_BODY, NULL, NULL,
                   NULL);
    return result;
}

static void begin_anew(struct upload *up)
{
    up->resumed = up->other = up->failed = false;
    up->kept = 0;
    bytes_clear(&up->id);
    memset(up->tags, 0, up->n_parts * sizeof *up->tags);
}

static int put_parts(struct fetch *f, const struct fetch_stream *p, struct err *err)
{
    struct upload up = {.fetch = f, .from = p, .store = p->store, .key = p->key, .len = p->len};
    part_sizes(&up);
    up.tags = xcalloc(up.n_parts, sizeof *up.tags);
    lock_init(&up.lock, RANK_FETCH_QUEUE, "fetch-upload");
    cond_init(&up.ended);
    take_over(&up);
    int result = do_upload(&up, err);
    if (result && up.other) {
        begin_anew(&up);
        result = do_upload(&up, err);
    }
    if (result == 0 && p->ret_kept)
        *p->ret_kept = up.kept;
    cond_destroy(&up.ended);
    lock_destroy(&up.lock);
    free(up.tags);
    bytes_release(&up.id);
    return result ? err_wrap(err, "write \"%s\" in parts", p->key) : 0;
}

/* --- streams ---------------------------------------------------------------------------------- */

static int put_small(struct fetch *f, const struct fetch_stream *p, struct err *err)
{
    cleanup_free void *body = xmalloc(p->len ? p->len : 1);
    if (p->len && p->read(p->arg, 0, body, p->len, err))
        return -1;
    if (p->check && p->check(p->arg, err))
        return -1;
    return fetch_put_bytes(f, p->store, p->key, body, p->len, &p->opts, NULL, err);
}

int fetch_put_stream(struct fetch *f, const struct fetch_stream *p, struct err *err)
{
    unsigned caps = store_caps(p->store);
    if (caps & STORE_APPENDS)
        return stream_by_appending(f, p, err);
    if (p->len < FETCH_PUT_WHOLE)
        return put_small(f, p, err);
    if (caps & STORE_LOCAL)
        return stream_to_file(p, err);
    if (caps & STORE_MULTIPART)
        return put_parts(f, p, err);
    return err_set(err, ERR_USAGE, "%s: such a store takes no object above %u MiB",
                   store_uri(p->store), FETCH_PUT_WHOLE >> 20);
}

struct fd_source {
    int fd;
    const char *key;
};

static int read_fd(void *arg, uint64_t off, void *buf, size_t len, struct err *err)
{
    const struct fd_source *s = arg;
    ssize_t n = file_read(s->fd, buf, len, off);
    if (n < 0)
        return err_sys(err, errno, "read what is to be written to \"%s\"", s->key);
    if ((size_t)n < len)
        return err_set(err, ERR_STALE, "write \"%s\": the local file became shorter meanwhile",
                       s->key);
    return 0;
}

int fetch_put_file(struct fetch *f, struct store *s, const char *key, int fd, uint64_t len,
                   struct err *err)
{
    struct fd_source source = {fd, key};
    const struct fetch_stream p = {
        .store = s, .key = key, .len = len, .read = read_fd, .arg = &source};
    return fetch_put_stream(f, &p, err);
}
