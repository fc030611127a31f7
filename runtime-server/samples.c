/*
 * What other machines' mounts ask for: samples that are here, many in one request
 * (docs/formats/peer.md has the bytes).
 *
 *   POST /v1/samples:batch -> `share` of the owner: places in packs, as descriptors under leases
 *                          -> one answer over all of them, which the library takes piece by
 *                             piece into a buffer that stays in the processor's cache
 *
 * Bytes are read, not mapped: a mapping of what is sent once costs more to make, to fill and to end
 * than the copy, and with TLS a disk that fails would be a signal there.
 *
 * Nothing is fetched for anybody: what is not here is answered so. Lock: `peers.lock`
 * (RANK_METRICS), never held while anything is asked or sent.
 */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <microhttpd.h>
#include <string.h>
#include <sys/uio.h>

#include "clock.h"
#include "control.h"
#include "file.h"
#include "crc.h"
#include "mem.h"
#include "peer-frames.h"
#include "server-internal.h"

#define SEND_BYTES (512u << 10)  /* handed to the library at a time */
#define MEMORY_MAX (64ull << 20) /* of all answers that are being sent */
#define IN_MEMORY  (-1)

struct piece {
    int file;        /* or IN_MEMORY */
    uint64_t offset; /* in the file, or in the block */
    size_t len;
};

/* An answer while it is sent. */
struct batch {
    struct server *server;
    struct link *link;
    struct bytes leases; /* as in link.returning */
    int fds[CONTROL_FDS_MAX];
    size_t n_fds;
    struct piece *pieces; /* the answer, in order */
    size_t n_pieces, cap_pieces;
    uint64_t len;
    struct bytes block; /* heads, and why some are not sent */
    uint64_t charged;
    /* While it is sent: */
    size_t at;    /* this piece … */
    size_t done;  /* … of which so much is sent */
    bool ordered; /* the disk was asked for all that follows */
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
    for (size_t i = 0; i < b->n_fds; i++)
        close(b->fds[i]);
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
    bytes_release(&b->block);
    free(b->pieces);
    free(b);
}

/* --- the answer's bytes ----------------------------------------------------------------------- */

static void add_piece(struct batch *b, const struct piece *p)
{
    if (b->n_pieces == b->cap_pieces) {
        b->cap_pieces = b->cap_pieces ? 2 * b->cap_pieces : 64;
        b->pieces = xrealloc(b->pieces, b->cap_pieces * sizeof *b->pieces);
    }
    assert(b->pieces);
    b->pieces[b->n_pieces++] = *p;
    b->len += p->len;
}

static void add_bytes(struct batch *b, const void *data, size_t len)
{
    add_piece(b, &(struct piece){IN_MEMORY, b->block.len, len});
    bytes_add(&b->block, data, len);
}

static void add_frame(struct batch *b, const struct peer_frame *f)
{
    unsigned char head[PEER_HEAD];
    peer_frame_head(head, f);
    add_bytes(b, head, sizeof head);
}

static int read_piece(const struct batch *b, const struct json *j, struct piece *ret,
                      struct err *err)
{
    struct json f = json_at(j, 0), o = json_at(j, 1), l = json_at(j, 2);
    int64_t file, offset, len;
    if (json_as_int(&f, 0, (int64_t)b->n_fds - 1, &file, err) ||
        json_as_int(&o, 0, INT64_MAX, &offset, err) || json_as_int(&l, 1, UINT32_MAX, &len, err))
        return -1;
    *ret = (struct piece){(int)file, (uint64_t)offset, (size_t)len};
    return 0;
}

static int add_parts(struct batch *b, const struct json *parts, struct err *err)
{
    for (size_t i = 0, n = json_count(parts); i < n; i++) {
        struct json one = json_at(parts, i);
        struct piece p;
        if (read_piece(b, &one, &p, err))
            return -1;
        add_piece(b, &p);
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
        add_bytes(b, why, n);
        return 0;
    }
    if (json_int(j, "length", 0, UINT32_MAX, &len, err) ||
        json_int(j, "crc", 0, UINT32_MAX, &crc, err))
        return -1;
    struct json parts = json_get(j, "parts");
    add_frame(b, &(struct peer_frame){PEER_HERE, (uint32_t)len, (uint32_t)crc, index});
    counter_add(&b->server->peers.samples, 1);
    counter_add(&b->server->peers.bytes, (uint64_t)len);
    return add_parts(b, &parts, err);
}

/* What the library needs for sending it. */
static size_t at_a_time(const struct batch *b)
{
    return b->len < SEND_BYTES ? (size_t)b->len : SEND_BYTES;
}

static int fill(struct batch *b, const struct json *root, struct err *err)
{
    struct json samples = json_get(root, "samples");
    unsigned char head[PEER_HEAD];
    size_t n = json_count(&samples);
    peer_stream_head(head, (uint32_t)n);
    add_bytes(b, head, sizeof head);
    for (size_t i = 0; i < n; i++) {
        struct json one = json_at(&samples, i);
        if (add_sample(b, &one, (uint32_t)i, err))
            return -1;
    }
    return charge(b, at_a_time(b), err);
}

/* --- sending ---------------------------------------------------------------------------------- */

/* What is not in memory is asked for together, not when each of them is read. */
static void order_the_rest(struct batch *b)
{
    for (size_t i = b->at; i < b->n_pieces && !b->ordered; i++) {
        const struct piece *p = &b->pieces[i];
        if (p->file != IN_MEMORY)
            posix_fadvise(b->fds[p->file], (off_t)p->offset, (off_t)p->len, POSIX_FADV_WILLNEED);
    }
    b->ordered = true;
}

static bool read_some(struct batch *b, const struct piece *p, char *to, size_t len)
{
    uint64_t offset = p->offset + b->done;
    if (p->file == IN_MEMORY) {
        memcpy(to, b->block.data + offset, len);
        return true;
    }
    int fd = b->fds[p->file];
    if (!b->ordered) {
        struct iovec iov = {to, len};
        if (preadv2(fd, &iov, 1, (off_t)offset, RWF_NOWAIT) == (ssize_t)len)
            return true;
        order_the_rest(b);
    }
    return file_read(fd, to, len, offset) == (ssize_t)len;
}

/* The next bytes of the answer (an MHD_ContentReaderCallback). A disk that fails ends the
 * connection: the head has promised what can't be sent. */
static ssize_t send_some(void *arg, uint64_t pos, char *to, size_t max)
{
    struct batch *b = arg;
    size_t n = 0;
    (void)pos; /* they are asked for in order */
    while (n < max && b->at < b->n_pieces) {
        const struct piece *p = &b->pieces[b->at];
        size_t left = p->len - b->done, len = left < max - n ? left : max - n;
        if (!read_some(b, p, to + n, len))
            return MHD_CONTENT_READER_END_WITH_ERROR;
        n += len;
        b->done += len;
        if (b->done == p->len) {
            b->at++;
            b->done = 0;
        }
    }
    return (ssize_t)n;
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
        MHD_create_response_from_callback(b->len, at_a_time(b), send_some, b, batch_free);
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
