/*
 * Baidu Object Storage: S3's operations with another signature (bce-auth-v1) and JSON for XML.
 *
 * bos://BUCKET[.ENDPOINT]/PREFIX; without an endpoint it is REGION.bcebos.com (bj if no region is
 * given). Listings page by marker, which is a key. The bucket goes into the host's name, except for
 * an address, a port or --path-style.
 */
#include <string.h>

#include "json.h"
#include "mem.h"
#include "object-internal.h"

#define LIST_PAGE      1000
#define SIGNED_FOR_S   1800
#define DEFAULT_REGION "bj"
#define COPY_SOURCE    "x-bce-copy-source"

/* --- opening --------------------------------------------------------------------------------- */

static int take_base(struct store *s, const char *endpoint, bool path_style, struct err *err)
{
    cleanup_uri struct uri e = {0};
    cleanup_free char *host = xstrndup(endpoint, strcspn(endpoint, ":/"));
    cleanup_free char *whole =
        strstr(endpoint, "://")
            ? xstrdup(endpoint)
            : xasprintf("%s://%s", host_is_loopback(host) ? "http" : "https", endpoint);
    if (uri_parse(&e, whole, err))
        return err_wrap(err, "--endpoint");
    if (strcmp(e.scheme, "http") != 0 && strcmp(e.scheme, "https") != 0)
        return err_set(err, ERR_USAGE, "--endpoint: %s://…: want http:// or https://", e.scheme);
    bool in_host = !path_style && !e.port && !host_is_address(e.host) && !host_is_loopback(e.host);
    s->endpoint.bucket_in_host = in_host;
    cleanup_free char *port = e.port ? xasprintf(":%u", e.port) : xstrdup("");
    s->endpoint.base = xasprintf("%s://%s%s%s%s", e.scheme, in_host ? s->bucket : "",
                                 in_host ? "." : "", e.host, port);
    return 0;
}

static int bos_open(struct store *s, const struct uri *u, const struct store_conf *conf,
                    struct err *err)
{
    if (u->user)
        return err_set(
            err, ERR_USAGE,
            "a user in an address is refused: bos://…@%s (use --credentials or the environment)",
            u->host);
    const char *dot = strchr(u->host, '.');
    s->bucket = dot ? xstrndup(u->host, (size_t)(dot - u->host)) : xstrdup(u->host);
    s->prefix = prefix_from_path(u->path);
    s->creds_conf.kind = CREDS_BCE;
    const char *region = conf->region ? conf->region : DEFAULT_REGION;
    cleanup_free char *written = !dot      ? NULL
                                 : u->port ? xasprintf("%s:%u", dot + 1, u->port)
                                           : xstrdup(dot + 1);
    cleanup_free char *usual = xasprintf("%s.bcebos.com", region);
    const char *endpoint = conf->endpoint ? conf->endpoint : written ? written : usual;
    s->endpoint.region = xstrdup(region);
    s->uri = xasprintf("bos://%s%s%s/%s", s->bucket, written ? "." : "", written ? written : "",
                       s->prefix);
    return take_base(s, endpoint, s->path_style, err);
}

/* --- requests -------------------------------------------------------------------------------- */

struct bos_target {
    const char *key; /* relative; NULL: the bucket itself */
    size_t key_len;
    const char *query;
};

static int bos_finish(struct store *s, const struct bos_target *t, struct http_req *r,
                      struct err *err)
{
    ACQUIRE(&s->lock);
    url_of_bucket(&r->url, s, t->key, t->key_len);
    bytes_add_str(&r->url, t->query);
    if (s->creds_conf.anonymous)
        return 0;
    if (!s->creds.access_key)
        return err_set(err, ERR_DENIED,
                       "no credentials: %s: none were looked up yet (set BCE_ACCESS_KEY_ID and "
                       "BCE_SECRET_ACCESS_KEY or give --credentials)",
                       s->uri);
    struct bce_params p = {.access_key = s->creds.access_key,
                           .secret = &s->creds.secret,
                           .token = &s->creds.token,
                           .now_s = server_now_s(s),
                           .expire_s = SIGNED_FOR_S};
    bce_sign(r, &p);
    return 0;
}

static int bos_get(struct store *s, const char *key, size_t key_len, uint64_t off, uint64_t len,
                   struct http_req *r, struct err *err)
{
    add_range(r, off, len);
    return bos_finish(s, &(struct bos_target){key, key_len, ""}, r, err);
}

static int bos_head(struct store *s, const char *key, size_t key_len, struct http_req *r,
                    struct err *err)
{
    return bos_finish(s, &(struct bos_target){key, key_len, ""}, r, err);
}

static int bos_list(struct store *s, const char *prefix, bool delimiter, const char *token,
                    const char *start_after, struct http_req *r, struct err *err)
{
    cleanup_bytes struct bytes query = {0};
    bytes_addf(&query, "?maxKeys=%d", LIST_PAGE);
    if (delimiter)
        bytes_add_str(&query, "&delimiter=%2F");
    if (*prefix || *s->prefix)
        url_add_key_param(&query, "prefix", s, prefix);
    if (*token) {
        bytes_add_str(&query, "&marker=");
        url_encode(&query, token, strlen(token), false);
    } else if (*start_after) {
        url_add_key_param(&query, "marker", s, start_after);
    }
    return bos_finish(s, &(struct bos_target){.query = query.data}, r, err);
}

static int bos_put(struct store *s, const char *key, size_t key_len, const void *body, size_t len,
                   struct http_req *r, struct err *err)
{
    http_header(r, "Content-Type", "application/octet-stream");
    r->body = body;
    r->body_len = len;
    return bos_finish(s, &(struct bos_target){key, key_len, ""}, r, err);
}

static int bos_put_object(struct store *s, const struct store_put *p, struct http_req *r,
                          struct err *err)
{
    cleanup_bytes struct bytes query = {0};
    add_put(r, "x-bce-meta", p, &query);
    r->body = p->body;
    r->body_len = p->len;
    return bos_finish(s, &(struct bos_target){p->key, strlen(p->key), query.data}, r, err);
}

static int bos_copy_object(struct store *s, const struct store_copy *c, struct http_req *r,
                           struct err *err)
{
    static const struct copy_names names = {.source = COPY_SOURCE,
                                            .if_match = "x-bce-copy-source-if-match",
                                            .quote = "",
                                            .range = "x-bce-copy-source-range",
                                            .directive = "x-bce-metadata-directive",
                                            .replace = "replace",
                                            .meta = "x-bce-meta"};
    cleanup_bytes struct bytes query = {0};
    add_copy(r, &names, s, c, &query);
    return bos_finish(s, &(struct bos_target){c->to, strlen(c->to), query.data}, r, err);
}

static int bos_part_begin_as(struct store *s, const char *key, const struct object_meta *meta,
                             struct http_req *r, struct err *err)
{
    (void)meta; /* taken when it is ended */
    http_header(r, "Content-Type", "application/octet-stream");
    return bos_finish(s, &(struct bos_target){key, strlen(key), "?uploads="}, r, err);
}

static int send_json(struct store *s, const struct bos_target *t, const struct bytes *body,
                     struct http_req *r, struct err *err)
{
    char md5[25];
    md5_base64(md5, body->data, body->len);
    http_header(r, "Content-Type", "application/json; charset=utf-8");
    http_header(r, "Content-MD5", "%s", md5);
    r->body = body->data;
    r->body_len = body->len;
    return bos_finish(s, t, r, err);
}

static int bos_delete_many(struct store *s, const char *const *keys, size_t n, struct bytes *body,
                           struct http_req *r, struct err *err)
{
    bytes_clear(body);
    struct json_writer w;
    jw_init(&w, body);
    jw_object(&w, NULL);
    jw_array(&w, "objects");
    for (size_t i = 0; i < n; i++) {
        cleanup_free char *key = xasprintf("%s%s", s->prefix, keys[i]);
        jw_object(&w, NULL);
        jw_str(&w, "key", key);
        jw_end(&w);
    }
    jw_end(&w);
    jw_end(&w);
    return send_json(s, &(struct bos_target){.query = "?delete="}, body, r, err);
}

static int bos_copy_from(struct store *s, const struct store *from_store, const char *from,
                         const char *if_match, const char *to, struct http_req *r, struct err *err)
{
    cleanup_bytes struct bytes source = {0};
    url_add_copy_source(&source, from_store, from);
    http_header(r, COPY_SOURCE, "%s", source.data);
    if (*if_match && !store_etag_is_sum(if_match))
        http_header(r, "x-bce-copy-source-if-match", "%s", if_match);
    return bos_finish(s, &(struct bos_target){to, strlen(to), ""}, r, err);
}

static int bos_uploads(struct store *s, const char *prefix, const char *token, struct http_req *r,
                       struct err *err)
{
    cleanup_bytes struct bytes query = {0};
    add_uploads(s, prefix, token, &query);
    return bos_finish(s, &(struct bos_target){.query = query.data}, r, err);
}

static int bos_parts(struct store *s, const char *key, const char *upload, const char *token,
                     struct http_req *r, struct err *err)
{
    cleanup_bytes struct bytes query = {0};
    url_add_param(&query, "uploadId", upload);
    bytes_add_str(&query, token);
    return bos_finish(s, &(struct bos_target){key, strlen(key), query.data}, r, err);
}

static int bos_part_begin(struct store *s, const char *key, struct http_req *r, struct err *err)
{
    http_header(r, "Content-Type", "application/octet-stream");
    return bos_finish(s, &(struct bos_target){key, strlen(key), "?uploads="}, r, err);
}

static int bos_part_put(struct store *s, const char *key, const char *upload, unsigned part,
                        const void *body, size_t len, struct http_req *r, struct err *err)
{
    cleanup_bytes struct bytes query = {0};
    bytes_addf(&query, "?partNumber=%u", part);
    url_add_param(&query, "uploadId", upload);
    r->body = body;
    r->body_len = len;
    return bos_finish(s, &(struct bos_target){key, strlen(key), query.data}, r, err);
}

static int bos_part_end(struct store *s, const char *key, const char *upload,
                        const struct part_tag *parts, size_t n, const struct object_meta *meta,
                        struct bytes *body, struct http_req *r, struct err *err)
{
    bytes_clear(body);
    struct json_writer w;
    jw_init(&w, body);
    jw_object(&w, NULL);
    jw_array(&w, "parts");
    for (size_t i = 0; i < n; i++) {
        jw_object(&w, NULL);
        jw_uint(&w, "partNumber", parts[i].part);
        jw_str(&w, "eTag", parts[i].etag);
        jw_end(&w);
    }
    jw_end(&w);
    jw_end(&w);
    add_meta(r, "x-bce-meta", meta);
    cleanup_bytes struct bytes query = {0};
    bytes_add_str(&query, "?uploadId=");
    url_encode(&query, upload, strlen(upload), false);
    return send_json(s, &(struct bos_target){key, strlen(key), query.data}, body, r, err);
}

static int bos_part_abort(struct store *s, const char *key, const char *upload, struct http_req *r,
                          struct err *err)
{
    cleanup_bytes struct bytes query = {0};
    bytes_add_str(&query, "?uploadId=");
    url_encode(&query, upload, strlen(upload), false);
    return bos_finish(s, &(struct bos_target){key, strlen(key), query.data}, r, err);
}

/* --- answers --------------------------------------------------------------------------------- */

static const char *bare_etag(const char *etag, char *out, size_t size)
{
    size_t len = strlen(etag);
    if (len >= 2 && etag[0] == '"' && etag[len - 1] == '"') {
        etag++;
        len -= 2;
    }
    if (len >= size)
        return "";
    memcpy(out, etag, len);
    out[len] = '\0';
    return out;
}

static int emit_object(struct store *s, const char *skip, const struct json *object, list_fn *fn,
                       void *arg, struct err *err)
{
    const char *key, *modified, *etag;
    int64_t size;
    char bare[160];
    if (json_str(object, "key", &key, err) || json_int(object, "size", 0, INT64_MAX, &size, err) ||
        json_str_or(object, "lastModified", "", &modified, err) ||
        json_str_or(object, "eTag", "", &etag, err))
        return -1;
    struct list_item item = {.key = key,
                             .key_len = strlen(key),
                             .size = (uint64_t)size,
                             .mtime_ns = parse_iso8601_ns(modified),
                             .etag = bare_etag(etag, bare, sizeof bare)};
    return emit_item(s, skip, &item, fn, arg, err);
}

static int emit_prefix(struct store *s, const char *skip, const struct json *entry, list_fn *fn,
                       void *arg, struct err *err)
{
    const char *key;
    if (json_str(entry, "prefix", &key, err))
        return -1;
    struct list_item item = {.key = key,
                             .key_len = strlen(key),
                             .mtime_ns = LIST_MTIME_UNKNOWN,
                             .etag = "",
                             .folder = true};
    return emit_item(s, skip, &item, fn, arg, err);
}

static int take_token(const struct store *s, const struct json *root, const struct json *contents,
                      struct bytes *ret_token, struct err *err)
{
    bool truncated;
    const char *next;
    if (json_bool_or(root, "isTruncated", false, &truncated, err) ||
        json_str_or(root, "nextMarker", "", &next, err))
        return -1;
    if (!truncated)
        return 0;
    size_t n = json_count(contents);
    if (!*next && n) { /* pages without a marker go on after their last key */
        struct json last = json_at(contents, n - 1);
        if (json_str(&last, "key", &next, err))
            return -1;
    }
    if (!*next)
        return err_set(err, ERR_CORRUPT, "list %s: cut off without a marker to go on with", s->uri);
    bytes_add_str(ret_token, next);
    return 0;
}

static int bos_parse_list(struct store *s, const char *prefix, const void *body, size_t len,
                          list_fn *fn, void *arg, struct bytes *ret_token, struct err *err)
{
    cleanup_json struct json_doc *doc = NULL;
    if (json_parse(&doc, s->uri, body, len, err))
        return err_wrap(err, "list");
    struct json root = json_root(doc);
    if (json_want_object(&root, err))
        return err_wrap(err, "list");
    struct json contents = json_get(&root, "contents");
    for (size_t i = 0; i < json_count(&contents); i++) {
        struct json object = json_at(&contents, i);
        if (emit_object(s, prefix, &object, fn, arg, err))
            return -1;
    }
    struct json prefixes = json_get(&root, "commonPrefixes");
    for (size_t i = 0; i < json_count(&prefixes); i++) {
        struct json entry = json_at(&prefixes, i);
        if (emit_prefix(s, prefix, &entry, fn, arg, err))
            return -1;
    }
    return take_token(s, &root, &contents, ret_token, err);
}

static const struct code_row codes[] = {
    {"InvalidSessionToken", ERR_DENIED, AGAIN_CREDS, "renew the credentials"},
    {"InvalidHTTPAuthHeader", ERR_DENIED, AGAIN_NO, "check --credentials"},
    {"TooManyRequests", ERR_TRANSIENT, AGAIN_BACKOFF, "lower --connections"},
};

static enum store_again how_again(struct store *s, const struct http_req *r,
                                  const struct http_answer *a, const char *code)
{
    if (s->creds_conf.anonymous || (a->status != 403 && a->status != 401 && a->status != 400))
        return AGAIN_NO;
    bool silent = r->method == HTTP_HEAD;
    if ((strcmp(code, "RequestExpired") == 0 || silent) && take_server_clock(s, r, a))
        return AGAIN_CLOCK;
    return a->status != 400 && creds_changed_since(s, r) ? AGAIN_CREDS : AGAIN_NO;
}

static int bos_classify(struct store *s, const struct http_req *r, const struct http_answer *a,
                        const void *body, size_t len, enum store_again *again, struct err *err)
{
    char code[64] = "", why[200];
    bool fine = a->status >= 200 && a->status < 300;
    /* A long copy may fail after "200" was sent: then the body has a code. */
    if (!fine || http_header_get(r, COPY_SOURCE))
        read_json_error(body, len, NULL, "code", code, why);
    if (fine && !*code)
        return 0;
    enum store_again how = how_again(s, r, a, code);
    classify_code(s, r, fine ? 500 : a->status, codes, sizeof codes / sizeof codes[0], code, why,
                  again, err);
    if (how != AGAIN_NO)
        *again = how;
    return -1;
}

static int bos_parse_part_begin(struct store *s, const void *body, size_t len, struct bytes *upload,
                                struct err *err)
{
    cleanup_json struct json_doc *doc = NULL;
    const char *id;
    if (json_parse(&doc, s->uri, body, len, err))
        return err_wrap(err, "begin an upload");
    struct json root = json_root(doc);
    if (json_str(&root, "uploadId", &id, err))
        return err_wrap(err, "begin an upload");
    bytes_clear(upload);
    bytes_add_str(upload, id);
    return 0;
}

static int bos_parse_uploads(struct store *s, const void *body, size_t len, upload_fn *fn,
                             void *arg, struct bytes *ret_token, struct err *err)
{
    cleanup_json struct json_doc *doc = NULL;
    const char *key, *id;
    bool more;
    size_t prefix = strlen(s->prefix);
    if (json_parse(&doc, s->uri, body, len, err))
        return err_wrap(err, "list uploads");
    struct json root = json_root(doc);
    struct json uploads = json_get(&root, "uploads");
    for (size_t i = 0; i < json_count(&uploads); i++) {
        struct json u = json_at(&uploads, i);
        if (json_str(&u, "key", &key, err) || json_str(&u, "uploadId", &id, err))
            return err_wrap(err, "list uploads");
        if (strncmp(key, s->prefix, prefix) == 0 && fn(arg, key + prefix, id, err))
            return -1;
    }
    if (json_bool_or(&root, "isTruncated", false, &more, err) ||
        json_str_or(&root, "nextKeyMarker", "", &key, err))
        return err_wrap(err, "list uploads");
    if (more && *key)
        url_add_marker(ret_token, "keyMarker", key);
    return 0;
}

static int bos_parse_parts(struct store *s, const void *body, size_t len, upload_part_fn *fn,
                           void *arg, struct bytes *ret_token, struct err *err)
{
    cleanup_json struct json_doc *doc = NULL;
    int64_t number, size, next;
    const char *etag;
    char bare[160];
    bool more;
    if (json_parse(&doc, s->uri, body, len, err))
        return err_wrap(err, "list parts");
    struct json root = json_root(doc);
    struct json parts = json_get(&root, "parts");
    for (size_t i = 0; i < json_count(&parts); i++) {
        struct json part = json_at(&parts, i);
        if (json_int(&part, "partNumber", 1, 10000, &number, err) ||
            json_int(&part, "size", 0, INT64_MAX, &size, err) ||
            json_str(&part, "eTag", &etag, err))
            return err_wrap(err, "list parts");
        if (fn(arg, (unsigned)number, (uint64_t)size, bare_etag(etag, bare, sizeof bare), err))
            return -1;
    }
    if (json_bool_or(&root, "isTruncated", false, &more, err) ||
        json_int_or(&root, "nextPartNumberMarker", 0, INT64_MAX, 0, &next, err))
        return err_wrap(err, "list parts");
    if (more && next)
        bytes_addf(ret_token, "&partNumberMarker=%lld", (long long)next);
    return 0;
}

static int bos_parse_part_end(struct store *s, const void *body, size_t len, struct err *err)
{
    cleanup_json struct json_doc *doc = NULL;
    const char *etag;
    if (json_parse(&doc, s->uri, body, len, err))
        return err_wrap(err, "end an upload");
    struct json root = json_root(doc);
    return json_str(&root, "eTag", &etag, err) ? err_wrap(err, "end an upload") : 0;
}

static void bos_parse_etag(const void *body, size_t len, char ret[160])
{
    cleanup_json struct json_doc *doc = NULL;
    const char *etag;
    ret[0] = '\0';
    if (json_parse(&doc, "answer", body, len, NULL))
        return;
    struct json root = json_root(doc);
    if (json_str(&root, "eTag", &etag, NULL) == 0)
        bare_etag(etag, ret, 160);
}

static int bos_parse_delete_many(struct store *s, const void *body, size_t len, struct err *err)
{
    if (len == 0)
        return 0; /* nothing to complain about */
    cleanup_json struct json_doc *doc = NULL;
    if (json_parse(&doc, s->uri, body, len, err))
        return err_wrap(err, "delete");
    struct json root = json_root(doc);
    struct json errors = json_get(&root, "errors");
    size_t n = json_count(&errors);
    if (n == 0)
        return 0;
    struct json first = json_at(&errors, 0);
    const char *key = "?", *code = "?";
    if (json_str(&first, "key", &key, err) || json_str_or(&first, "code", "?", &code, err))
        return err_wrap(err, "delete");
    enum err_class class = strcmp(code, "AccessDenied") == 0 ? ERR_DENIED : ERR_TRANSIENT;
    return err_set(err, class,
                   "not deleted: %.200s: %.80s, and %zu more (check what the key may do)", key,
                   code, n - 1);
}

const struct store_ops bos_ops = {
    .name = "BOS",
    .caps = STORE_WRITES | STORE_FLAT_LIST | STORE_MULTIPART | STORE_COPY | STORE_BATCH_DELETE |
            STORE_META,
    .open = bos_open,
    .get = bos_get,
    .head = bos_head,
    .list = bos_list,
    .put = bos_put,
    .del = bos_head, /* the request alone differs, and it is a DELETE already */
    .delete_many = bos_delete_many,
    .copy_from = bos_copy_from,
    .uploads = bos_uploads,
    .parse_uploads = bos_parse_uploads,
    .parts = bos_parts,
    .parse_parts = bos_parse_parts,
    .part_begin = bos_part_begin,
    .part_put = bos_part_put,
    .part_end = bos_part_end,
    .part_abort = bos_part_abort,
    .put_object = bos_put_object,
    .copy_object = bos_copy_object,
    .part_begin_as = bos_part_begin_as,
    .parse_etag = bos_parse_etag,
    .classify = bos_classify,
    .parse_list = bos_parse_list,
    .parse_part_begin = bos_parse_part_begin,
    .parse_part_end = bos_parse_part_end,
    .parse_delete_many = bos_parse_delete_many,
};
