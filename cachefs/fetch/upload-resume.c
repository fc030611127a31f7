/* Uploads in parts that were broken off: which parts they have got. */
#include <string.h>

#include "do-internal.h"
#include "hash.h"
#include "upload-internal.h"

struct got {
    const struct fetch_stream *from;
    const char *token;
    size_t part_len;
    unsigned n_parts;
    struct part_tag *tags;
};

static int build_parts(void *arg, struct http_req *r, struct err *err)
{
    const struct got *g = arg;
    return store_req_parts(g->from->store, g->from->key, g->from->resume, g->token, r, err);
}

static int on_listed_part(void *arg, unsigned part, uint64_t size, const char *etag,
                          struct err *err)
{
    const struct got *g = arg;
    uint64_t off = (uint64_t)(part - 1) * g->part_len;
    uint64_t want = g->from->len - off < g->part_len ? g->from->len - off : g->part_len;
    if (part == 0 || part > g->n_parts || size != want || !hex_is(etag, MD5_DIGITS))
        return err_set(err, ERR_STALE, "part %u of the upload is of something else", part);
    g->tags[part - 1].part = part;
    snprintf(g->tags[part - 1].etag, sizeof g->tags[0].etag, "%s", etag);
    return 0;
}

int upload_parts_got(struct fetch *f, const struct fetch_stream *p, size_t part_len,
                     unsigned n_parts, struct part_tag *ret, struct err *err)
{
    cleanup_bytes struct bytes token = {0}, next = {0}, body = {0};
    do {
        struct got g = {p, token.len ? token.data : "", part_len, n_parts, ret};
        if (whole_wait(f, p->store, PRIO_READER, build_parts, &g, 16 * SMALL_BODY, NULL, &body,
                       err) ||
            store_parse_parts(p->store, body.data, body.len, on_listed_part, &g, &next, err) ||
            page_turn(p->store, &token, &next, err))
            return -1;
    } while (token.len);
    return 0;
}
