/* S3: what answers mean. Listings, errors, and what ends an upload in parts. */
#include <string.h>

#define LOG_MODULE "object"
#include "list-xml-internal.h"
#include "log.h"
#include "mem.h"
#include "s3-internal.h"

/* --- listings -------------------------------------------------------------------------------- */

struct list_state {
    struct store *s;
    const char *skip; /* the listed prefix */
    bool url_encoded;
    bool truncated;
    struct bytes key, etag, token;
    uint64_t size;
    int64_t mtime_ns;
    bool has_key, has_size;
};

static void list_state_release(struct list_state *st)
{
    bytes_release(&st->key);
    bytes_release(&st->etag);
    bytes_release(&st->token);
}

/* encoding-type=url: '+' is a blank, as in forms. */
void s3_take_key(const struct bytes *text, bool url_encoded, struct bytes *ret)
{
    bytes_clear(ret);
    bytes_add(ret, text->data ? text->data : "", text->len);
    if (!url_encoded)
        return;
    for (size_t i = 0; i < ret->len; i++)
        if (ret->data[i] == '+')
            ret->data[i] = ' ';
    ret->len = url_decode(ret->data, ret->data, ret->len);
    ret->data[ret->len] = '\0';
}

bool s3_take_size(const struct bytes *text, uint64_t *ret)
{
    uint64_t n = 0;
    if (text->len == 0 || text->len > 19)
        return false;
    for (size_t i = 0; i < text->len; i++) {
        if (text->data[i] < '0' || text->data[i] > '9')
            return false;
        n = n * 10 + (uint64_t)(text->data[i] - '0');
    }
    *ret = n;
    return true;
}

void s3_take_etag(const struct bytes *text, struct bytes *ret)
{
    const char *p = text->data ? text->data : "";
    size_t len = text->len;
    if (len >= 2 && memcmp(p, "W/", 2) == 0) {
        p += 2;
        len -= 2;
    }
    if (len >= 2 && p[0] == '"' && p[len - 1] == '"') {
        p++;
        len -= 2;
    }
    bytes_clear(ret);
    bytes_add(ret, p, len);
}

static void take_contents_field(struct list_state *st, const struct xml *x)
{
    if (xml_is(&x->name, "Key")) {
        s3_take_key(&x->text, st->url_encoded, &st->key);
        st->has_key = true;
    } else if (xml_is(&x->name, "Size")) {
        st->has_size = s3_take_size(&x->text, &st->size);
    } else if (xml_is(&x->name, "ETag")) {
        s3_take_etag(&x->text, &st->etag);
    } else if (xml_is(&x->name, "LastModified")) {
        st->mtime_ns = parse_iso8601_ns(x->text.data ? x->text.data : "");
    }
}

static void take_top_field(struct list_state *st, const struct xml *x)
{
    const char *text = x->text.data ? x->text.data : "";
    if (xml_is(&x->name, "IsTruncated")) {
        st->truncated = strcmp(text, "true") == 0;
    } else if (xml_is(&x->name, "NextContinuationToken")) {
        bytes_clear(&st->token);
        bytes_add(&st->token, text, x->text.len);
    }
}

static int emit_object(struct list_state *st, list_fn *fn, void *arg, struct err *err)
{
    if (!st->has_key || !st->has_size)
        return err_set(err, ERR_CORRUPT,
                       "list %s: an object without a key or size (is this an S3 server?)",
                       st->s->uri);
    struct list_item item = {.key = st->key.data ? st->key.data : "",
                             .key_len = st->key.len,
                             .size = st->size,
                             .mtime_ns = st->mtime_ns,
                             .etag = st->etag.data ? st->etag.data : ""};
    int result = emit_item(st->s, st->skip, &item, fn, arg, err);
    bytes_clear(&st->etag);
    st->has_key = st->has_size = false;
    st->mtime_ns = LIST_MTIME_UNKNOWN;
    return result;
}

static int emit_prefix(struct list_state *st, const struct xml *x, list_fn *fn, void *arg,
                       struct err *err)
{
    s3_take_key(&x->text, st->url_encoded, &st->key);
    struct list_item item = {.key = st->key.data ? st->key.data : "",
                             .key_len = st->key.len,
                             .mtime_ns = LIST_MTIME_UNKNOWN,
                             .etag = "",
                             .folder = true};
    return emit_item(st->s, st->skip, &item, fn, arg, err);
}

static int take_close(struct list_state *st, const struct xml *x, list_fn *fn, void *arg,
                      struct err *err)
{
    if (x->depth == 1 && xml_is(&x->name, "Contents"))
        return emit_object(st, fn, arg, err);
    if (x->depth == 1)
        take_top_field(st, x);
    else if (x->depth == 2 && xml_parent_is(x, "Contents"))
        take_contents_field(st, x);
    else if (x->depth == 2 && xml_parent_is(x, "CommonPrefixes") && xml_is(&x->name, "Prefix"))
        return emit_prefix(st, x, fn, arg, err);
    return 0;
}

/* Servers write EncodingType before or after the keys that it speaks of. */
bool s3_says_url_encoded(const void *body, size_t len)
{
    static const char begin[] = "<EncodingType>url<";
    return len && memmem(body, len, begin, sizeof begin - 1);
}

static int read_list(struct list_state *st, struct xml *x, list_fn *fn, void *arg, struct err *err)
{
    for (;;) {
        switch (xml_next(x)) {
        case XML_END:
            return 0;
        case XML_BAD:
            return xml_error(x, st->s->uri, err);
        case XML_OPEN:
            if (x->depth == 1 && !xml_is(&x->name, "ListBucketResult"))
                return err_set(
                    err, ERR_CORRUPT,
                    "list %s: the answer is no listing but <%.*s> (is this an S3 server?)",
                    st->s->uri, (int)(x->name.len < 60 ? x->name.len : 60), x->name.text);
            break;
        case XML_CLOSE:
            if (take_close(st, x, fn, arg, err))
                return -1;
            break;
        }
    }
}

int s3_parse_list(struct store *s, const char *prefix, const void *body, size_t len, list_fn *fn,
                  void *arg, struct bytes *ret_token, struct err *err)
{
    CLEANUP(list_state_release)
    struct list_state st = {.s = s,
                            .skip = prefix,
                            .url_encoded = s3_says_url_encoded(body, len),
                            .mtime_ns = LIST_MTIME_UNKNOWN};
    cleanup_xml struct xml x;
    xml_init(&x, body, len);
    if (read_list(&st, &x, fn, arg, err))
        return -1;
    bytes_clear(ret_token);
    if (!st.truncated)
        return 0;
    if (!st.token.len)
        return err_set(err, ERR_CORRUPT,
                       "list %s: cut off without a token to go on with: the server does not know "
                       "ListObjectsV2 (use one that does)",
                       s->uri);
    bytes_add(ret_token, st.token.data, st.token.len);
    return 0;
}

/* --- errors ---------------------------------------------------------------------------------- */

static const struct code_row codes[] = {
    {"AccessDenied", ERR_DENIED, AGAIN_NO,
     "check --credentials, and what they may do in this bucket; where readers pay: "
     "--requester-pays"},
    {"AllAccessDisabled", ERR_DENIED, AGAIN_NO, "the bucket's owner has closed it"},
    {"AccountProblem", ERR_DENIED, AGAIN_NO, "ask the provider about the account"},
    {"InvalidToken", ERR_DENIED, AGAIN_NO, "the session token is wrong: check --credentials"},
    {"ExpiredToken", ERR_DENIED, AGAIN_CREDS,
     "the session token is too old: renew the credentials"},
    {"ExpiredTokenException", ERR_DENIED, AGAIN_CREDS,
     "the session token is too old: renew the credentials"},
    {"XAdminUserNotFound", ERR_DENIED, AGAIN_NO, /* a 404 of versitygw */
     "this server does not know the access key: check --credentials and --endpoint"},
    {"TokenRefreshRequired", ERR_DENIED, AGAIN_CREDS, "renew the credentials"},
    {"RequestTimeTooSkewed", ERR_DENIED, AGAIN_NO, "set this machine's clock"},
    {"InvalidObjectState", ERR_DENIED, AGAIN_NO, "the object is archived: restore it first"},
    {"PermanentRedirect", ERR_FAILED, AGAIN_NO, "check --region and --endpoint"},
    {"TemporaryRedirect", ERR_FAILED, AGAIN_NO, "check --region and --endpoint"},
    {"AuthorizationHeaderMalformed", ERR_FAILED, AGAIN_NO, "check --region"},
    {"IllegalLocationConstraintException", ERR_FAILED, AGAIN_NO, "check --region"},
    {"ServiceUnavailable", ERR_TRANSIENT, AGAIN_BACKOFF, "it may work later"},
    {"InternalError", ERR_TRANSIENT, AGAIN_BACKOFF, "it may work later"},
    {"Throttling", ERR_TRANSIENT, AGAIN_BACKOFF, "lower --connections"},
    {"ThrottlingException", ERR_TRANSIENT, AGAIN_BACKOFF, "lower --connections"},
    {"RequestLimitExceeded", ERR_TRANSIENT, AGAIN_BACKOFF, "lower --connections"},
    {"OperationAborted", ERR_TRANSIENT, AGAIN_BACKOFF, "another change of the object is under way"},
    {"IncompleteBody", ERR_TRANSIENT, AGAIN_BACKOFF, "the bytes were cut off on their way"},
    {"QuotaExceeded", ERR_LIMIT, AGAIN_NO, "make room in the store"},
    {"XMinioStorageFull", ERR_LIMIT, AGAIN_NO, "make room in the store"},
};

struct s3_error {
    char code[64];
    char message[200];
    char region[64];
    char endpoint[256];
};

static void read_error(const void *body, size_t len, struct s3_error *ret)
{
    *ret = (struct s3_error){0};
    static const struct {
        const char *name;
        size_t offset, size;
    } fields[] = {
        {"Code", offsetof(struct s3_error, code), sizeof ret->code},
        {"Message", offsetof(struct s3_error, message), sizeof ret->message},
        {"Region", offsetof(struct s3_error, region), sizeof ret->region},
        {"Endpoint", offsetof(struct s3_error, endpoint), sizeof ret->endpoint},
    };
    cleanup_xml struct xml x;
    xml_init(&x, body, len);
    for (;;) {
        enum xml_event e = xml_next(&x);
        if (e == XML_END || e == XML_BAD)
            return; /* what was read so far is better than nothing */
        if (e != XML_CLOSE || !xml_parent_is(&x, "Error"))
            continue;
        for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++)
            if (xml_is(&x.name, fields[i].name))
                tame((char *)ret + fields[i].offset, fields[i].size, x.text.data ? x.text.data : "",
                     x.text.len);
    }
}

static bool learned_place(struct store *s, const struct http_req *r, const struct http_answer *a,
                          const struct s3_error *e)
{
    char region[64];
    if (a->region[0] && s3_learn_region(s, r, a->region))
        return true;
    if (e->region[0] && s3_learn_region(s, r, e->region))
        return true;
    if (e->endpoint[0] && s3_region_of_host(e->endpoint, region, sizeof region) &&
        s3_learn_region(s, r, region))
        return true;
    return (a->status == 307 || a->status == 301 || a->status == 302 || a->status == 308) &&
           a->location[0] && s3_learn_host(s, r, a->location);
}

static bool is_code(const struct s3_error *e, const char *code)
{
    return strcmp(e->code, code) == 0;
}

/* Whether the answer says that we asked at the wrong place. HEAD answers have no body to say why.
 */
static bool is_elsewhere(const struct http_req *r, const struct http_answer *a,
                         const struct s3_error *e)
{
    bool redirect = a->status >= 300 && a->status < 400 && a->status != 304;
    return redirect || is_code(e, "AuthorizationHeaderMalformed") ||
           is_code(e, "IllegalLocationConstraintException") ||
           (a->status == 400 && r->method == HTTP_HEAD && a->region[0]);
}

/* Some servers refuse what they do not know ("Unsupported header 'x-amz-checksum-mode'"; a
 * NotImplemented that names none). */
static bool refuses_sums(const struct http_req *r, const struct http_answer *a,
                         const struct s3_error *e)
{
    return http_header_get(r, SUM_MODE) &&
           ((a->status == 400 && strcasestr(e->message, "checksum")) || a->status == 501);
}

static enum store_again how_again(struct store *s, const struct http_req *r,
                                  const struct http_answer *a, const struct s3_error *e)
{
    if (refuses_sums(r, a, e)) {
        if (!atomic_exchange(&s->no_sums, true))
            log_info(s->log, "%s: it refuses %s: objects are read without their sums", s->uri,
                     SUM_MODE);
        return AGAIN_REDIRECT;
    }
    if (is_elsewhere(r, a, e) && learned_place(s, r, a, e))
        return AGAIN_REDIRECT;
    if (s->creds_conf.anonymous || (a->status != 403 && a->status != 401 && a->status != 400))
        return AGAIN_NO;
    bool silent = r->method == HTTP_HEAD && a->status != 401; /* 400: of a token that is too old */
    if ((is_code(e, "RequestTimeTooSkewed") || is_code(e, "RequestExpired") || silent) &&
        take_server_clock(s, r, a))
        return AGAIN_CLOCK;
    bool about_key = is_code(e, "InvalidAccessKeyId") || is_code(e, "SignatureDoesNotMatch") ||
                     is_code(e, "InvalidToken") || is_code(e, "AccessDenied") || silent;
    return about_key && creds_changed_since(s, r) ? AGAIN_CREDS : AGAIN_NO;
}

/* A copy or the end of an upload may fail after "200" was sent: then the root is <Error>. So may
 * any other write by way of a gateway that makes it known in the body alone. */
static bool failed_with_200(const struct http_req *r, const void *body, size_t len)
{
    if (len == 0 || (r->method != HTTP_POST && r->method != HTTP_PUT))
        return false;
    cleanup_xml struct xml x;
    xml_init(&x, body, len);
    return xml_next(&x) == XML_OPEN && xml_is(&x.name, "Error");
}

int s3_classify(struct store *s, const struct http_req *r, const struct http_answer *a,
                const void *body, size_t len, enum store_again *again, struct err *err)
{
    bool fine = a->status >= 200 && a->status < 300;
    if (fine && !failed_with_200(r, body, len))
        return 0;
    struct s3_error e;
    read_error(body, len, &e);
    int status = fine ? 500 : a->status;
    enum store_again how = how_again(s, r, a, &e);
    classify_code(s, r, status, codes, sizeof codes / sizeof codes[0], e.code, e.message, again,
                  err);
    if (how != AGAIN_NO)
        *again = how;
    return -1;
}

/* --- uploads and deletes --------------------------------------------------------------------- */

int s3_parse_part_begin(struct store *s, const void *body, size_t len, struct bytes *upload,
                        struct err *err)
{
    if (!xml_find(body, len, "UploadId", upload) || upload->len == 0)
        return err_set(err, ERR_CORRUPT,
                       "begin an upload: %s: the answer has no UploadId (is this an S3 server?)",
                       s->uri);
    return 0;
}

int s3_parse_part_end(struct store *s, const void *body, size_t len, struct err *err)
{
    struct s3_error e;
    cleanup_bytes struct bytes etag = {0};
    read_error(body, len, &e);
    if (e.code[0])
        return err_set(err, ERR_TRANSIENT, "end an upload: %s: %s %s (try again)", s->uri, e.code,
                       e.message);
    if (!xml_find(body, len, "ETag", &etag))
        return err_set(err, ERR_CORRUPT,
                       "end an upload: %s: the answer has no ETag (is this an S3 server?)", s->uri);
    return 0;
}

void s3_parse_etag(const void *body, size_t len, char ret[160])
{
    cleanup_bytes struct bytes text = {0}, etag = {0};
    ret[0] = '\0';
    if (!xml_find(body, len, "ETag", &text))
        return;
    s3_take_etag(&text, &etag);
    if (etag.len < 160)
        memcpy(ret, etag.data, etag.len + 1);
}

/* The keys that are still there: how many, and the first with what the store says of it. */
struct not_deleted {
    char key[256], why[80];
    size_t n;
};

static void take_not_deleted(struct not_deleted *d, const struct xml *x)
{
    const char *text = x->text.data ? x->text.data : "";
    if (xml_is(&x->name, "Error"))
        d->n++;
    else if (d->n == 0 && xml_parent_is(x, "Error") && xml_is(&x->name, "Key"))
        tame(d->key, sizeof d->key, text, x->text.len);
    else if (d->n == 0 && xml_parent_is(x, "Error") && xml_is(&x->name, "Code"))
        tame(d->why, sizeof d->why, text, x->text.len);
}

int s3_parse_delete_many(struct store *s, const void *body, size_t len, struct err *err)
{
    struct not_deleted left = {.key = "?", .why = "?"};
    cleanup_xml struct xml x;
    xml_init(&x, body, len);
    for (enum xml_event e; (e = xml_next(&x)) != XML_END;) {
        if (e == XML_BAD)
            return xml_error(&x, s->uri, err);
        if (e == XML_CLOSE)
            take_not_deleted(&left, &x);
    }
    if (!left.n)
        return 0;
    enum err_class class = strcmp(left.why, "AccessDenied") == 0 ? ERR_DENIED : ERR_TRANSIENT;
    return err_set(err, class, "not deleted: %s: %s, and %zu more (check what the key may do)",
                   left.key, left.why, left.n - 1);
}
