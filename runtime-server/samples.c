/*
 * What other machines' mounts ask for: samples that are here, many in one request
 * (docs/formats/peer.md has the bytes).
 *
 *   POST /v1/samples:batch -> `share` of the owner: places in packs, as descriptors under leases
 *                          -> one answer over all of them: the library sends large parts from
 *                             mappings of the packs, small ones from one block of memory
 *
 * Nothing is fetched for anybody: what is not here is answered so. Lock: `peers.lock`
 * (RANK_METRICS), never held while anything is asked or sent.
 */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <microhttpd.h>
#include <string.h>
#include <sys/mman.h>

#include "clock.h"
#include "control.h"
#include "file.h"
#include "hash.h"
#include "mem.h"
#include "peer-frames.h"
#include "server-internal.h"

#define SMALL      (32u << 10)   /* below, a copy costs less than a mapping */
#define MEMORY_MAX (64ull << 20) /* of all answers that are being sent */

struct piece {
    int file;
    uint64_t offset;
    uint32_t len;
};

/* From the first to the last byte of a file that is sent from a mapping. */
struct span {
    uint64_t from, to;
    char *at; /* of `from`, once it is mapped */
};

/* An answer while it is sent. */
struct batch {
    struct server *server;
    struct link *link;
    struct bytes leases; /* as in link.returning */
    int fds[CONTROL_FDS_MAX];
    size_t n_fds;
    struct MHD_IoVec *iov;
    size_t n_iov, cap_iov;
    struct span spans[CONTROL_FDS_MAX]; /* of the files; empty: nothing of it is mapped */
    char *block;                        /* heads and small parts */
    size_t block_len, block_cap;
    uint64_t charged;
};

static void take_returning(struct peers *p, struct link *l, struct bytes *ret)
{
    ACQUIRE(&p->lock);
    bytes_addf(ret, ",\"return\":[%s]", l->returning.data ? l->returning.data : "");
    bytes_clear(&l->returning);
}

/* --- memory of all answers -------------------------------------------------------------------- */

static int charge(struct batch *b, uint64_t bytes, struct err *err)
{
    struct peers *p = &b->server->peers;
    uint64_t end = clock_mono_ns() + PEER_WAIT_NS;
    ACQUIRE(&p->lock);
    while (p->memory + bytes > MEMORY_MAX) {
        uint64_t now = clock_mono_ns();
        if (p->stopping || now >= end || cond_wait_for(&p->changed, &p->lock, end - now))
            return err_set(err, ERR_TRANSIENT, "too many samples are being sent (try again)");
    }
    p->memory += bytes;
    b->charged += bytes;
    return 0;
}

static void batch_free(void *arg)
{
    struct batch *b = arg;
    struct peers *p = &b->server->peers;
    for (size_t i = 0; i < b->n_fds; i++) {
        if (b->spans[i].at)
            munmap(b->spans[i].at, b->spans[i].to - b->spans[i].from);
        close(b->fds[i]);
    }
    {
        ACQUIRE(&p->lock);
        p->memory -= b->charged;
        if (b->link && b->leases.len) {
            bytes_addf(&b->link->returning, "%s%s", b->link->returning.len ? "," : "",
                       b->leases.data);
        }
        cond_broadcast(&p->changed);
    }
    if (b->link)
        link_unref(p, b->link);
    bytes_release(&b->leases);
    free(b->iov);
    free(b->block);
    free(b);
}

/* --- the answer's bytes ----------------------------------------------------------------------- */

/* Neighbours in the block go out as one. */
static void add_iov(struct batch *b, const void *at, size_t len)
{
    struct MHD_IoVec *last = b->n_iov ? &b->iov[b->n_iov - 1] : NULL;
    if (last && (const char *)last->iov_base + last->iov_len == at) {
        last->iov_len += len;
        return;
    }
    if (b->n_iov == b->cap_iov) {
        b->cap_iov = b->cap_iov ? 2 * b->cap_iov : 64;
        b->iov = xrealloc(b->iov, b->cap_iov * sizeof *b->iov);
    }
    assert(b->iov);
    b->iov[b->n_iov++] = (struct MHD_IoVec){at, len};
}

/* Room in the block, which was made large enough: its bytes never move. */
static char *take_block(struct batch *b, size_t len)
{
    assert(len <= b->block_cap - b->block_len);
    char *at = b->block + b->block_len;
    b->block_len += len;
    add_iov(b, at, len);
    return at;
}

static void add_frame(struct batch *b, const struct peer_frame *f)
{
    peer_frame_head((unsigned char *)take_block(b, PEER_HEAD), f);
}

static int copy_piece(struct batch *b, const struct piece *p, struct err *err)
{
    char *to = take_block(b, p->len);
    ssize_t n = file_read(b->fds[p->file], to, p->len, p->offset);
    return n == (ssize_t)p->len ? 0 : err_sys(err, n < 0 ? errno : EIO, "read a pack");
}

static void widen_span(struct span *s, const struct piece *p)
{
    uint64_t from = p->offset & ~4095ull, to = p->offset + p->len;
    s->from = s->to && s->from < from ? s->from : from;
    s->to = s->to > to ? s->to : to;
}

/* One mapping a file, of which the kernel enters what it sends: a mapping made and filled for each
 * part took a quarter of the whole answer's time. */
static int map_spans(struct batch *b, struct err *err)
{
    for (size_t i = 0; i < b->n_fds; i++) {
        struct span *s = &b->spans[i];
        if (!s->to)
            continue;
        void *at = mmap(NULL, s->to - s->from, PROT_READ, MAP_SHARED, b->fds[i], (off_t)s->from);
        if (at == MAP_FAILED)
            return err_sys(err, errno, "map a pack");
        s->at = at;
    }
    return 0;
}

/* Pages that are not in memory are asked for together, not when each of them is sent. One says it
 * for all: asking costs more than the look. */
static void send_mapped(struct batch *b, const struct piece *p)
{
    const struct span *s = &b->spans[p->file];
    char *at = s->at + (p->offset - s->from);
    uintptr_t middle = ((uintptr_t)at + p->len / 2) & ~(uintptr_t)4095;
    unsigned char in_memory;
    if (mincore((void *)middle, 1, &in_memory) || !(in_memory & 1))
        posix_fadvise(b->fds[p->file], (off_t)p->offset, p->len, POSIX_FADV_WILLNEED);
    add_iov(b, at, p->len);
}

/* With TLS the library reads the bytes itself, and a mapping of a disk that fails would be a signal
 * there. */
static bool is_small(const struct batch *b, uint64_t len)
{
    return len <= SMALL || b->server->cert;
}

static int read_piece(const struct batch *b, const struct json *j, struct piece *ret,
                      struct err *err)
{
    struct json f = json_at(j, 0), o = json_at(j, 1), l = json_at(j, 2);
    int64_t file, offset, len;
    if (json_as_int(&f, 0, (int64_t)b->n_fds - 1, &file, err) ||
        json_as_int(&o, 0, INT64_MAX, &offset, err) || json_as_int(&l, 1, UINT32_MAX, &len, err))
        return -1;
    *ret = (struct piece){(int)file, (uint64_t)offset, (uint32_t)len};
    return 0;
}

static int add_pieces(struct batch *b, const struct json *parts, struct err *err)
{
    for (size_t i = 0, n = json_count(parts); i < n; i++) {
        struct json one = json_at(parts, i);
        struct piece p;
        if (read_piece(b, &one, &p, err) || (is_small(b, p.len) && copy_piece(b, &p, err)))
            return -1;
        if (!is_small(b, p.len))
            send_mapped(b, &p);
    }
    return 0;
}

static int add_sample(struct batch *b, const struct json *j, uint32_t index, struct err *err)
{
    const char *status, *why;
    int64_t len, crc;
    if (json_str(j, "status", &status, err))
        return -1;
    if (strcmp(status, "absent") == 0) {
        add_frame(b, &(struct peer_frame){.status = PEER_ABSENT, .index = index});
        return 0;
    }
    if (strcmp(status, "error") == 0) {
        if (json_str(j, "error", &why, err))
            return -1;
        uint32_t n = (uint32_t)strlen(why);
        add_frame(b, &(struct peer_frame){PEER_ERROR, n, crc32c(0, why, n), index});
        memcpy(take_block(b, n), why, n);
        return 0;
    }
    if (json_int(j, "length", 0, UINT32_MAX, &len, err) ||
        json_int(j, "crc", 0, UINT32_MAX, &crc, err))
        return -1;
    struct json parts = json_get(j, "parts");
    add_frame(b, &(struct peer_frame){PEER_HERE, (uint32_t)len, (uint32_t)crc, index});
    counter_add(&b->server->peers.samples, 1);
    counter_add(&b->server->peers.bytes, (uint64_t)len);
    return add_pieces(b, &parts, err);
}

/* What the block must hold, and what is to be mapped. */
static int measure(struct batch *b, const struct json *samples, struct err *err)
{
    uint64_t bytes = PEER_HEAD;
    for (size_t i = 0, n = json_count(samples); i < n; i++) {
        struct json one = json_at(samples, i), parts = json_get(&one, "parts");
        const char *why;
        if (json_str_or(&one, "error", "", &why, err))
            return -1;
        bytes += PEER_HEAD + strlen(why);
        for (size_t k = 0, n_parts = json_count(&parts); k < n_parts; k++) {
            struct json part = json_at(&parts, k);
            struct piece p;
            if (read_piece(b, &part, &p, err))
                return -1;
            if (is_small(b, p.len))
                bytes += p.len;
            else
                widen_span(&b->spans[p.file], &p);
        }
    }
    if (charge(b, bytes, err))
        return -1;
    b->block = xmalloc(bytes);
    b->block_cap = bytes;
    return 0;
}

static int fill(struct batch *b, const struct json *root, struct err *err)
{
    struct json samples = json_get(root, "samples");
    size_t n = json_count(&samples);
    if (measure(b, &samples, err) || map_spans(b, err))
        return -1;
    peer_stream_head((unsigned char *)take_block(b, PEER_HEAD), (uint32_t)n);
    for (size_t i = 0; i < n; i++) {
        struct json one = json_at(&samples, i);
        if (add_sample(b, &one, (uint32_t)i, err))
            return -1;
    }
    return 0;
}

/* --- a batch ---------------------------------------------------------------------------------- */

static void note_leases(struct batch *b, const struct json *root)
{
    struct json leases = json_get(root, "leases");
    for (size_t i = 0, n = json_count(&leases); i < n; i++) {
        struct json one = json_at(&leases, i);
        int64_t lease;
        if (json_as_int(&one, 0, INT64_MAX, &lease, NULL) == 0)
            bytes_addf(&b->leases, "%s%lld", b->leases.len ? "," : "", (long long)lease);
    }
}

static int ask_owner(struct batch *b, size_t mount, const char *fields, struct json_doc **ret,
                     struct err *err)
{
    struct server *s = b->server;
    cleanup_bytes struct bytes request = {0};
    struct link *l = link_take(s, mount, err);
    if (!l)
        return -1;
    bytes_addf(&request, "{\"op\":\"share\"%s", fields);
    take_returning(&s->peers, l, &request);
    bytes_add_char(&request, '}');
    int rc = link_call(s, l, &request, b->fds, &b->n_fds, ret, err);
    if (!rc) {
        ACQUIRE(&s->peers.lock);
        b->link = l;
        l->refs++;
    }
    if (!rc) {
        struct json root = json_root(*ret);
        note_leases(b, &root);
    }
    link_give(&s->peers, l);
    return rc;
}

/* What the owner is asked: the fields of the body, and no others. */
static int read_body(const struct request *r, struct bytes *ret, struct err *err)
{
    static const char *const keys[] = {"version", "ids", "samples", NULL};
    cleanup_json struct json_doc *doc = NULL;
    if (request_json(r, &doc, err))
        return -1;
    struct json root = json_root(doc);
    if (json_want_object(&root, err) || json_only_keys(&root, keys, err)) {
        err->class = ERR_USAGE;
        return -1;
    }
    for (size_t i = 0; keys[i]; i++) {
        struct json value = json_get(&root, keys[i]);
        if (!value.node)
            return err_set(err, ERR_USAGE, "body: %s: missing", keys[i]);
        bytes_addf(ret, ",\"%s\":", keys[i]);
        json_text(&value, ret);
    }
    return 0;
}

/* The mount that serves the version; the refusal of the last, if none does. */
static int ask_mounts(struct batch *b, const char *fields, struct json_doc **ret, struct err *err)
{
    err_set(err, ERR_NOT_FOUND, "this server serves no mount");
    for (size_t i = 0; i < b->server->conf.n_mounts; i++) {
        if (ask_owner(b, i, fields, ret, err) == 0)
            return 0;
        if (err->class != ERR_STALE)
            return -1;
    }
    return -1;
}

static int send_batch(struct request *r, struct batch *b)
{
    struct MHD_Response *response =
        MHD_create_response_from_iovec(b->iov, (unsigned)b->n_iov, batch_free, b);
    if (!response) {
        batch_free(b);
        return -1;
    }
    MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, PEER_TYPE);
    MHD_add_response_header(response, MHD_HTTP_HEADER_CACHE_CONTROL, "no-store");
    MHD_queue_response(r->connection, MHD_HTTP_OK, response);
    MHD_destroy_response(response);
    return 0;
}

void serve_samples(struct request *r, struct answer *a)
{
    cleanup_bytes struct bytes fields = {0};
    cleanup_json struct json_doc *doc = NULL;
    struct err err = {0};
    struct batch *b = xcalloc(1, sizeof *b);
    b->server = r->server;
    counter_add(&r->server->peers.requests, 1);
    int rc = read_body(r, &fields, &err) || ask_mounts(b, fields.data, &doc, &err);
    if (!rc) {
        struct json root = json_root(doc);
        rc = fill(b, &root, &err);
    }
    if (rc) {
        batch_free(b);
        answer_error(a, &err);
    } else if (send_batch(r, b)) {
        a->status = MHD_HTTP_SERVICE_UNAVAILABLE;
    } else {
        a->status = 0;
    }
}
