/*
 * Writing objects. Small ones go whole; a file above MULTIPART_MIN goes in parts, UPLOAD_PARALLEL
 * at a time, each read into a buffer of its own just before it is sent, so memory is bounded by
 * UPLOAD_PARALLEL parts. A failed upload is aborted at the store, so that it costs nothing there.
 */
#include <assert.h>
#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "do-internal.h"
#include "mem.h"

#define MULTIPART_MIN   (16u << 20)
#define PART_MIN        (8u << 20)
#define PARTS_MAX       10000
#define UPLOAD_PARALLEL 4

/* --- whole objects --------------------------------------------------------------------------- */

struct put {
    struct store *store;
    const char *key;
    const void *body;
    size_t len;
    const struct http_answer *first; /* of a write in two steps: where the bytes go */
};

static int build_put(void *arg, struct http_req *r, struct err *err)
{
    const struct put *p = arg;
    if (p->first)
        return store_req_follow(p->store, p->first, p->body, p->len, r, err);
    return store_req_put(p->store, p->key, strlen(p->key), p->body, p->len, r, err);
}

int fetch_put(struct fetch *f, struct store *s, const char *key, const void *body, size_t len,
              struct err *err)
{
    if (store_caps(s) & STORE_LOCAL)
        return store_local_put(s, key, body, len, err);
    struct put p = {s, key, body, len, NULL};
    struct http_answer a;
    int result = whole_wait(f, s, PRIO_READER, build_put, &p, SMALL_BODY, &a, NULL, err);
    if (result == 0 && a.status / 100 == 3) {
        p.first = &a;
        struct http_answer second;
        result = whole_wait(f, s, PRIO_READER, build_put, &p, SMALL_BODY, &second, NULL, err);
    }
    return result ? err_wrap(err, "write \"%s\"", key) : 0;
}

/* --- parts ----------------------------------------------------------------------------------- */

struct upload {
    struct fetch *fetch;
    struct store *store;
    const char *key;
    int fd;
    uint64_t len;
    size_t part_len;
    unsigned n_parts;
    struct bytes id;
    struct part_tag *tags; /* of all parts; each written by the slot that sent it */
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
    for (size_t done = 0; done < s->len;) {
        ssize_t n = pread(up->fd, s->buf + done, s->len - done, (off_t)(off + done));
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return err_sys(err, errno, "read what is to be written to \"%s\"", up->key);
        if (n == 0)
            return err_set(err, ERR_STALE, "write \"%s\": the local file became shorter meanwhile",
                           up->key);
        done += (size_t)n;
    }
    return 0;
}

/* Waits for a free slot; NULL: a part has failed. */
static struct slot *free_slot(struct upload *up, struct slot *slots)
{
    ACQUIRE(&up->lock);
    while (!up->failed) {
        for (unsigned i = 0; i < UPLOAD_PARALLEL; i++)
            if (!slots[i].busy)
                return &slots[i];
        cond_wait(&up->ended, &up->lock);
    }
    return NULL;
}

static int send_part(struct upload *up, struct slot *s, unsigned part, struct err *err)
{
    s->part = part;
    s->up = up;
    if (!s->buf)
        s->buf = xmalloc(up->part_len);
    if (read_part(up, s, err))
        return -1;
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
    return store_req_multipart_begin(up->store, up->key, r, err);
}

static int build_end(void *arg, struct http_req *r, struct err *err)
{
    struct step *step = arg;
    struct upload *up = step->up;
    bytes_clear(&step->body);
    return store_req_multipart_end(up->store, up->key, up->id.data, up->tags, up->n_parts,
                                   &step->body, r, err);
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

static int end(struct upload *up, struct err *err)
{
    struct step step = {.up = up};
    cleanup_bytes struct bytes body = {0};
    int result = whole_wait(up->fetch, up->store, PRIO_READER, build_end, &step, SMALL_BODY, NULL,
                            &body, err);
    bytes_release(&step.body);
    return result ? -1 : store_parse_multipart_end(up->store, body.data, body.len, err);
}

static int put_parts(struct fetch *f, struct store *s, const char *key, int fd, uint64_t len,
                     struct err *err)
{
    struct upload up = {.fetch = f, .store = s, .key = key, .fd = fd, .len = len};
    up.part_len = PART_MIN;
    if (len / PARTS_MAX >= PART_MIN)
        up.part_len = (size_t)(len / PARTS_MAX) + 1;
    up.n_parts = (unsigned)((len + up.part_len - 1) / up.part_len);
    if (begin(&up, err))
        return err_wrap(err, "write \"%s\" in parts", key);
    up.tags = xcalloc(up.n_parts, sizeof *up.tags);
    lock_init(&up.lock, RANK_FETCH_QUEUE, "fetch-upload");
    cond_init(&up.ended);
    int result = send_parts(&up, err);
    if (result == 0)
        result = end(&up, err);
    if (result) /* best effort: what failed is in `err` already */
        whole_wait(f, s, PRIO_READER, build_abort, &up, SMALL_BODY, NULL, NULL, NULL);
    cond_destroy(&up.ended);
    lock_destroy(&up.lock);
    free(up.tags);
    bytes_release(&up.id);
    return result ? err_wrap(err, "write \"%s\" in parts", key) : 0;
}

int fetch_put_file(struct fetch *f, struct store *s, const char *key, int fd, uint64_t len,
                   struct err *err)
{
    if (len >= MULTIPART_MIN && store_caps(s) & STORE_MULTIPART)
        return put_parts(f, s, key, fd, len, err);
    if (len == 0)
        return fetch_put(f, s, key, "", 0, err);
    void *body = mmap(NULL, len, PROT_READ, MAP_PRIVATE, fd, 0);
    if (body == MAP_FAILED)
        return err_sys(err, errno, "map what is to be written to \"%s\"", key);
    int result = fetch_put(f, s, key, body, len, err);
    munmap(body, len);
    return result;
}
