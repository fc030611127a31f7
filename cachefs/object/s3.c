/*
 * S3: requests. Each public operation sets its headers and body, says key and query, and
 * s3_finish() adds the address and the signature under the store's lock, so that both come from one
 * state of region, host and credentials.
 *
 * Payloads: over https the body of a PUT goes unsigned (TLS protects it, and hashing costs more
 * than sending); over http it is hashed. Small bodies (lists of keys, of parts) are always hashed.
 *
 * With a whole object comes the sum that its store keeps of it, if there is one: clients of today
 * send one along, and Amazon's S3 makes one where they don't. Of a range there is none.
 *
 * No If-Match goes with a GET: whoever reads compares the answer's ETag, which tells what the
 * object is now.
 */
#include <string.h>

#include "list-xml-internal.h"
#include "hash.h"
#include "mem.h"
#include "s3-internal.h"

#define LIST_PAGE     1000 /* the most that S3 gives at once */
#define VERSIONS_PAGE 100  /* few objects were replaced so often */

struct s3_target {
    const char *key; /* relative; NULL: the bucket itself */
    size_t key_len;
    const char *query; /* "?uploads=", encoded; or "" */
};

/* Lock held. */
static int sign(struct store *s, struct http_req *r, const char *payload, struct err *err)
{
    if (s->requester_pays)
        http_header(r, "X-Amz-Request-Payer", "requester");
    if (s->creds_conf.anonymous)
        return 0;
    if (!s->creds.access_key)
        return err_set(err, ERR_DENIED,
                       "no credentials: %s: none were looked up yet (set AWS_ACCESS_KEY_ID and "
                       "AWS_SECRET_ACCESS_KEY or give --credentials)",
                       s->uri);
    struct v4_params p = {
        .access_key = s->creds.access_key,
        .secret = &s->creds.secret,
        .token = &s->creds.token,
        .region = s->endpoint.region,
        .service = "s3",
        .now_s = server_now_s(s),
        .payload = payload,
        .payload_header = true,
        .cache = &s->key,
    };
    v4_sign(r, &p);
    return 0;
}

static int s3_finish(struct store *s, const struct s3_target *t, const char *payload,
                     struct http_req *r, struct err *err)
{
    ACQUIRE(&s->lock);
    url_of_bucket(&r->url, s, t->key, t->key_len);
    bytes_add_str(&r->url, t->query);
    return sign(s, r, payload, err);
}

/* --- reading --------------------------------------------------------------------------------- */

/* Which bytes; and of all of them, the sum that the store has kept. A range has none. */
static void add_wanted(const struct store *s, struct http_req *r, uint64_t off, uint64_t len)
{
    add_range(r, off, len);
    if (off == 0 && len == 0 && !s->no_sums)
        http_header(r, SUM_MODE, "ENABLED");
}

static int s3_get(struct store *s, const char *key, size_t key_len, uint64_t off, uint64_t len,
                  struct http_req *r, struct err *err)
{
    add_wanted(s, r, off, len);
    return s3_finish(s, &(struct s3_target){key, key_len, ""}, PAYLOAD_EMPTY, r, err);
}

static int s3_get_version(struct store *s, const char *key, size_t key_len, const char *version,
                          uint64_t off, uint64_t len, struct http_req *r, struct err *err)
{
    cleanup_bytes struct bytes query = {0};
    add_wanted(s, r, off, len);
    url_add_param(&query, "versionId", version);
    return s3_finish(s, &(struct s3_target){key, key_len, query.data}, PAYLOAD_EMPTY, r, err);
}

/* Keys that only begin like this one come after all of its versions. */
static int s3_versions(struct store *s, const char *key, const char *token, struct http_req *r,
                       struct err *err)
{
    cleanup_bytes struct bytes query = {0};
    bytes_addf(&query, "?versions=&encoding-type=url&max-keys=%d", VERSIONS_PAGE);
    url_add_key_param(&query, "prefix", s, key);
    bytes_add_str(&query, token);
    return s3_finish(s, &(struct s3_target){.query = query.data}, PAYLOAD_EMPTY, r, err);
}

static int s3_head(struct store *s, const char *key, size_t key_len, struct http_req *r,
                   struct err *err)
{
    return s3_finish(s, &(struct s3_target){key, key_len, ""}, PAYLOAD_EMPTY, r, err);
}

static int s3_list(struct store *s, const char *prefix, bool delimiter, const char *token,
                   const char *start_after, struct http_req *r, struct err *err)
{
    cleanup_bytes struct bytes query = {0};
    bytes_addf(&query, "?list-type=2&encoding-type=url&max-keys=%d", LIST_PAGE);
    if (*token) {
        bytes_add_str(&query, "&continuation-token=");
        url_encode(&query, token, strlen(token), false);
    }
    if (delimiter)
        bytes_add_str(&query, "&delimiter=%2F");
    if (*prefix || *s->prefix)
        url_add_key_param(&query, "prefix", s, prefix);
    if (*start_after && !*token)
        url_add_key_param(&query, "start-after", s, start_after);
    return s3_finish(s, &(struct s3_target){.query = query.data}, PAYLOAD_EMPTY, r, err);
}

/* --- writing --------------------------------------------------------------------------------- */

/* `sum`: of store_payload_sum(), or NULL. */
static int send_body(struct store *s, const struct s3_target *t, const void *body, size_t len,
                     const char *sum, struct http_req *r, struct err *err)
{
    r->body = body;
    r->body_len = len;
    bool tls;
    {
        ACQUIRE(&s->lock);
        tls = http_is_tls(s->endpoint.base);
    }
    char digest[2 * SHA256_LEN + 1] = PAYLOAD_UNSIGNED;
    if (!tls && !s->creds_conf.anonymous) {
        if (sum && *sum)
            snprintf(digest, sizeof digest, "%s", sum);
        else
            sha256_hex(digest, body, len);
    }
    return s3_finish(s, t, digest, r, err);
}

void store_payload_sum(struct store *s, const void *body, size_t len, char ret[STORE_SUM_SIZE])
{
    ret[0] = '\0';
    if (s->ops != &s3_ops || s->creds_conf.anonymous)
        return;
    bool tls;
    {
        ACQUIRE(&s->lock);
        tls = http_is_tls(s->endpoint.base);
    }
    if (!tls)
        sha256_hex(ret, body, len);
}

static int s3_put(struct store *s, const char *key, size_t key_len, const void *body, size_t len,
                  struct http_req *r, struct err *err)
{
    http_header(r, "Content-Type", "application/octet-stream");
    return send_body(s, &(struct s3_target){key, key_len, ""}, body, len, NULL, r, err);
}

static int s3_put_object(struct store *s, const struct store_put *p, struct http_req *r,
                         struct err *err)
{
    cleanup_bytes struct bytes query = {0};
    add_put(r, "x-amz-meta", p, &query);
    return send_body(s, &(struct s3_target){p->key, strlen(p->key), query.data}, p->body, p->len,
                     p->sum, r, err);
}

static int s3_delete(struct store *s, const char *key, size_t key_len, struct http_req *r,
                     struct err *err)
{
    return s3_finish(s, &(struct s3_target){key, key_len, ""}, PAYLOAD_EMPTY, r, err);
}

/* A POST of XML made here. */
static int send_xml(struct store *s, const struct s3_target *t, const struct bytes *body,
                    struct http_req *r, struct err *err)
{
    char digest[2 * SHA256_LEN + 1], md5[25];
    sha256_hex(digest, body->data, body->len);
    md5_base64(md5, body->data, body->len);
    http_header(r, "Content-Type", "application/xml");
    http_header(r, "Content-MD5", "%s", md5);
    r->body = body->data;
    r->body_len = body->len;
    return s3_finish(s, t, digest, r, err);
}

static int s3_delete_many(struct store *s, const char *const *keys, size_t n, struct bytes *body,
                          struct http_req *r, struct err *err)
{
    bytes_clear(body);
    bytes_add_str(body,
                  "<Delete xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><Quiet>true</Quiet>");
    for (size_t i = 0; i < n; i++) {
        bytes_add_str(body, "<Object><Key>");
        xml_escape(body, s->prefix, strlen(s->prefix));
        xml_escape(body, keys[i], strlen(keys[i]));
        bytes_add_str(body, "</Key></Object>");
    }
    bytes_add_str(body, "</Delete>");
    return send_xml(s, &(struct s3_target){.query = "?delete="}, body, r, err);
}

static int s3_copy_from(struct store *s, const struct store *from_store, const char *from,
                        const char *if_match, const char *to, struct http_req *r, struct err *err)
{
    cleanup_bytes struct bytes source = {0};
    url_add_copy_source(&source, from_store, from);
    http_header(r, "X-Amz-Copy-Source", "%s", source.data);
    if (*if_match && !store_etag_is_sum(if_match))
        http_header(r, "X-Amz-Copy-Source-If-Match", "\"%s\"", if_match);
    return s3_finish(s, &(struct s3_target){to, strlen(to), ""}, PAYLOAD_EMPTY, r, err);
}

static int s3_copy_object(struct store *s, const struct store_copy *c, struct http_req *r,
                          struct err *err)
{
    static const struct copy_names names = {.source = "X-Amz-Copy-Source",
                                            .if_match = "X-Amz-Copy-Source-If-Match",
                                            .quote = "\"",
                                            .range = "X-Amz-Copy-Source-Range",
                                            .directive = "X-Amz-Metadata-Directive",
                                            .replace = "REPLACE",
                                            .meta = "x-amz-meta"};
    cleanup_bytes struct bytes query = {0};
    add_copy(r, &names, s, c, &query);
    return s3_finish(s, &(struct s3_target){c->to, strlen(c->to), query.data}, PAYLOAD_EMPTY, r,
                     err);
}

/* --- in parts -------------------------------------------------------------------------------- */

static int s3_part_begin(struct store *s, const char *key, struct http_req *r, struct err *err)
{
    http_header(r, "Content-Type", "application/octet-stream");
    return s3_finish(s, &(struct s3_target){key, strlen(key), "?uploads="}, PAYLOAD_EMPTY, r, err);
}

static int s3_uploads(struct store *s, const char *prefix, const char *token, struct http_req *r,
                      struct err *err)
{
    cleanup_bytes struct bytes query = {0};
    add_uploads(s, prefix, token, &query);
    return s3_finish(s, &(struct s3_target){.query = query.data}, PAYLOAD_EMPTY, r, err);
}

static int s3_parts(struct store *s, const char *key, const char *upload, const char *token,
                    struct http_req *r, struct err *err)
{
    cleanup_bytes struct bytes query = {0};
    url_add_param(&query, "uploadId", upload);
    bytes_add_str(&query, token);
    return s3_finish(s, &(struct s3_target){key, strlen(key), query.data}, PAYLOAD_EMPTY, r, err);
}

static int s3_part_begin_as(struct store *s, const char *key, const struct object_meta *meta,
                            struct http_req *r, struct err *err)
{
    add_meta(r, "x-amz-meta", meta);
    return s3_part_begin(s, key, r, err);
}

static int s3_part_put(struct store *s, const char *key, const char *upload, unsigned part,
                       const void *body, size_t len, struct http_req *r, struct err *err)
{
    cleanup_bytes struct bytes query = {0};
    bytes_addf(&query, "?partNumber=%u", part);
    url_add_param(&query, "uploadId", upload);
    return send_body(s, &(struct s3_target){key, strlen(key), query.data}, body, len, NULL, r, err);
}

static int s3_part_end(struct store *s, const char *key, const char *upload,
                       const struct part_tag *parts, size_t n, const struct object_meta *meta,
                       struct bytes *body, struct http_req *r, struct err *err)
{
    (void)meta; /* taken when it was begun */
    bytes_clear(body);
    bytes_add_str(body,
                  "<CompleteMultipartUpload xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">");
    for (size_t i = 0; i < n; i++) {
        bytes_addf(body, "<Part><PartNumber>%u</PartNumber><ETag>&quot;", parts[i].part);
        xml_escape(body, parts[i].etag, strlen(parts[i].etag));
        bytes_add_str(body, "&quot;</ETag></Part>");
    }
    bytes_add_str(body, "</CompleteMultipartUpload>");
    cleanup_bytes struct bytes query = {0};
    bytes_add_str(&query, "?uploadId=");
    url_encode(&query, upload, strlen(upload), false);
    return send_xml(s, &(struct s3_target){key, strlen(key), query.data}, body, r, err);
}

static int s3_part_abort(struct store *s, const char *key, const char *upload, struct http_req *r,
                         struct err *err)
{
    cleanup_bytes struct bytes query = {0};
    bytes_add_str(&query, "?uploadId=");
    url_encode(&query, upload, strlen(upload), false);
    return s3_finish(s, &(struct s3_target){key, strlen(key), query.data}, PAYLOAD_EMPTY, r, err);
}

const struct store_ops s3_ops = {
    .name = "S3",
    .caps = STORE_WRITES | STORE_FLAT_LIST | STORE_MULTIPART | STORE_COPY | STORE_BATCH_DELETE |
            STORE_META | STORE_VERSIONS,
    .open = s3_open,
    .get = s3_get,
    .get_version = s3_get_version,
    .versions = s3_versions,
    .head = s3_head,
    .list = s3_list,
    .put = s3_put,
    .del = s3_delete,
    .delete_many = s3_delete_many,
    .copy_from = s3_copy_from,
    .uploads = s3_uploads,
    .parts = s3_parts,
    .part_begin = s3_part_begin,
    .part_put = s3_part_put,
    .part_end = s3_part_end,
    .part_abort = s3_part_abort,
    .put_object = s3_put_object,
    .copy_object = s3_copy_object,
    .part_begin_as = s3_part_begin_as,
    .parse_uploads = s3_parse_uploads,
    .parse_parts = s3_parse_parts,
    .parse_etag = s3_parse_etag,
    .classify = s3_classify,
    .parse_list = s3_parse_list,
    .parse_versions = s3_parse_versions,
    .parse_part_begin = s3_parse_part_begin,
    .parse_part_end = s3_parse_part_end,
    .parse_delete_many = s3_parse_delete_many,
};
