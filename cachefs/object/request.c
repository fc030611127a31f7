/* Helpers that several stores build their requests and read their answers with. Pure, except for
 * the clock's offset. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "clock.h"
#include "json.h"
#include "mem.h"
#include "object-internal.h"
#include "zone.h"

#define SKEW_ALLOWED_S 240 /* S3 allows 15 minutes, Baidu 30; less is not what was refused */

/* --- building -------------------------------------------------------------------------------- */

void url_add_path(struct bytes *url, const char *path, size_t len)
{
    url_encode(url, path, len, true);
}

void url_add_param(struct bytes *url, const char *name, const char *value)
{
    bool goes_on = url->len && memchr(url->data, '?', url->len);
    bytes_addf(url, "%c%s=", goes_on ? '&' : '?', name);
    if (value)
        url_encode(url, value, strlen(value), false);
}

void url_of_bucket(struct bytes *url, const struct store *s, const char *key, size_t key_len)
{
    bytes_add_str(url, s->endpoint.base);
    bytes_add_char(url, '/');
    if (!s->endpoint.bucket_in_host) {
        url_add_path(url, s->bucket, strlen(s->bucket));
        if (key)
            bytes_add_char(url, '/');
    }
    if (key) {
        url_add_path(url, s->prefix, strlen(s->prefix));
        url_add_path(url, key, key_len);
    }
}

void url_add_copy_source(struct bytes *out, const struct store *s, const char *key)
{
    bytes_add_char(out, '/');
    url_add_path(out, s->bucket, strlen(s->bucket));
    bytes_add_char(out, '/');
    url_add_path(out, s->prefix, strlen(s->prefix));
    url_add_path(out, key, strlen(key));
}

void url_add_key_param(struct bytes *query, const char *name, const struct store *s,
                       const char *key)
{
    bytes_addf(query, "&%s=", name);
    url_encode(query, s->prefix, strlen(s->prefix), false);
    url_encode(query, key, strlen(key), false);
}

void url_add_marker(struct bytes *token, const char *name, const char *value)
{
    bytes_addf(token, "&%s=", name);
    url_encode(token, value, strlen(value), false);
}

void add_meta(struct http_req *r, const char *prefix, const struct object_meta *m)
{
    if (!m)
        return;
    char name[64];
    snprintf(name, sizeof name, "%s-mode", prefix);
    http_header(r, name, "%u", (unsigned)m->mode);
    snprintf(name, sizeof name, "%s-uid", prefix);
    http_header(r, name, "%u", (unsigned)m->uid);
    snprintf(name, sizeof name, "%s-gid", prefix);
    http_header(r, name, "%u", (unsigned)m->gid);
    snprintf(name, sizeof name, "%s-mtime", prefix);
    struct timespec t = clock_timespec(m->mtime_ns);
    http_header(r, name, "%lld.%09ld", (long long)t.tv_sec, t.tv_nsec);
    snprintf(name, sizeof name, "%s-sampan-upload", prefix);
    if (*m->mark)
        http_header(r, name, "%s", m->mark);
}

/* "application/x-directory" for a folder's marker. */
static const char *content_type_of(const char *key)
{
    size_t len = strlen(key);
    return len && key[len - 1] == '/' ? "application/x-directory" : "application/octet-stream";
}

static bool take_decimal(const char *text, uint64_t max, uint64_t *ret)
{
    char *end;
    if (*text < '0' || *text > '9')
        return false;
    errno = 0;
    unsigned long long n = strtoull(text, &end, 10);
    if (*end || errno || n > max)
        return false;
    *ret = n;
    return true;
}

/* "1700000000", "1700000000.123", "-1.5": s3fs wrote whole seconds once. */
static bool take_time(const char *text, int64_t *ret)
{
    char *end;
    if (!*text)
        return false;
    errno = 0;
    long long s = strtoll(text, &end, 10);
    if (end == text || errno || s > INT64_MAX / (int64_t)NS_PER_S - 1 ||
        s < INT64_MIN / (int64_t)NS_PER_S + 1)
        return false;
    int64_t ns = 0, unit = 100000000;
    if (*end == '.')
        for (end++; *end >= '0' && *end <= '9'; end++, unit /= 10)
            ns += (*end - '0') * unit;
    if (*end)
        return false;
    *ret = s * (int64_t)NS_PER_S + ns;
    return true;
}

bool store_meta_of(const struct http_answer *a, struct object_meta *ret)
{
    uint64_t n;
    if (take_decimal(a->meta_uid, UINT32_MAX - 1, &n))
        ret->uid = (uid_t)n;
    if (take_decimal(a->meta_gid, UINT32_MAX - 1, &n))
        ret->gid = (gid_t)n;
    if (!take_time(a->meta_mtime, &ret->mtime_ns) && a->last_modified >= 0)
        ret->mtime_ns = a->last_modified * (int64_t)NS_PER_S;
    if (!take_decimal(a->meta_mode, 0177777, &n))
        return false;
    ret->mode = (mode_t)n;
    return true;
}

void add_range(struct http_req *r, uint64_t off, uint64_t len)
{
    if (len)
        http_header(r, "Range", "bytes=%llu-%llu", (unsigned long long)off,
                    (unsigned long long)(off + len - 1));
    else if (off)
        http_header(r, "Range", "bytes=%llu-", (unsigned long long)off);
}

int64_t server_now_s(const struct store *s)
{
    return clock_wall_ns() / (int64_t)NS_PER_S + s->clock_offset_s;
}

/* --- times ----------------------------------------------------------------------------------- */

static bool digits(const char *text, size_t n, unsigned *ret)
{
    unsigned value = 0;
    for (size_t i = 0; i < n; i++) {
        if (text[i] < '0' || text[i] > '9')
            return false;
        value = value * 10 + (unsigned)(text[i] - '0');
    }
    *ret = value;
    return true;
}

/* Seconds that "+02:00", "-0530" or "+01" is ahead of UTC; 0 for "Z" and what is none of these. */
static int64_t zone_offset_s(const char *text)
{
    unsigned hours, minutes = 0;
    if ((*text != '+' && *text != '-') || strlen(text) < 3 || !digits(text + 1, 2, &hours))
        return 0;
    const char *rest = text + 3 + (text[3] == ':');
    if (strlen(rest) >= 2 && !digits(rest, 2, &minutes))
        return 0;
    int64_t seconds = hours * 3600 + minutes * 60;
    return *text == '-' ? -seconds : seconds;
}

int64_t parse_iso8601_ns(const char *text)
{
    unsigned year, month, day, hour, minute, second;
    if (strlen(text) < 19 || text[4] != '-' || text[7] != '-' ||
        (text[10] != 'T' && text[10] != ' ') || text[13] != ':' || text[16] != ':')
        return LIST_MTIME_UNKNOWN;
    if (!digits(text, 4, &year) || !digits(text + 5, 2, &month) || !digits(text + 8, 2, &day) ||
        !digits(text + 11, 2, &hour) || !digits(text + 14, 2, &minute) ||
        !digits(text + 17, 2, &second))
        return LIST_MTIME_UNKNOWN;
    if (month < 1 || month > 12 || day < 1 || day > 31 || hour > 23 || minute > 59 || second > 60 ||
        year < 1700 || year > 2200)
        return LIST_MTIME_UNKNOWN;
    int64_t ns = 0;
    const char *rest = text + 19;
    if (*rest == '.') {
        int64_t unit = 100000000;
        for (rest++; *rest >= '0' && *rest <= '9'; rest++, unit /= 10)
            ns += (*rest - '0') * unit;
    }
    int64_t s = civil_days(year, month, day) * 86400 + hour * 3600 + minute * 60 + second;
    return (s - zone_offset_s(rest)) * (int64_t)NS_PER_S + ns;
}

/* When the request was signed, by the clock that the store went by then; -1: it is not signed. */
static time_t signed_at(const struct http_req *r)
{
    struct tm tm = {0};
    const char *v4 = http_header_get(r, "X-Amz-Date"), *bce = http_header_get(r, "x-bce-date");
    const char *end = v4    ? strptime(v4, "%Y%m%dT%H%M%SZ", &tm)
                      : bce ? strptime(bce, "%Y-%m-%dT%H:%M:%SZ", &tm)
                            : NULL;
    return end ? timegm(&tm) : -1;
}

bool is_skewed(int64_t ahead)
{
    return ahead <= -SKEW_ALLOWED_S || ahead >= SKEW_ALLOWED_S;
}

/* The request's own time counts: of those that were under way together, the first that is refused
 * puts the store's clock right, and the others have to be built anew all the same. */
bool take_server_clock(struct store *s, const struct http_req *r, const struct http_answer *a)
{
    time_t theirs = a->date[0] ? curl_getdate(a->date, NULL) : -1, ours = signed_at(r);
    if (theirs == -1 || ours == -1 || !is_skewed((int64_t)theirs - ours))
        return false; /* it was not that */
    ACQUIRE(&s->lock);
    int64_t ahead = (int64_t)theirs - server_now_s(s);
    if (is_skewed(ahead))
        s->clock_offset_s += ahead;
    return true;
}

/* --- words ----------------------------------------------------------------------------------- */

void tame(char *out, size_t size, const char *text, size_t len)
{
    size_t n = 0;
    for (size_t i = 0; i < len && n + 1 < size; i++) {
        unsigned char c = (unsigned char)text[i];
        out[n++] = c < 0x20 || c == 0x7f ? ' ' : text[i];
    }
    out[n] = '\0';
}

void read_json_error(const void *body, size_t len, const char *inside, const char *code_key,
                     char code[64], char why[200])
{
    cleanup_json struct json_doc *doc = NULL;
    const char *text;
    code[0] = why[0] = '\0';
    if (len == 0 || json_parse(&doc, "error", body, len, NULL))
        return;
    struct json root = json_root(doc), said = inside ? json_get(&root, inside) : root;
    if (json_str(&said, code_key, &text, NULL) == 0)
        tame(code, 64, text, strlen(text));
    if (json_str(&said, "message", &text, NULL) == 0)
        tame(why, 200, text, strcspn(text, "\n"));
}

const char *request_url(const struct http_req *r)
{
    return r->url.data ? r->url.data : "";
}

/* "GET https://host/path", without the query: it may be long, and says nothing to a person. */
static void request_name(const struct http_req *r, struct bytes *out)
{
    const char *url = request_url(r);
    size_t len = strcspn(url, "?");
    bytes_addf(out, "%s %.*s", method_name(r->method), (int)(len < 400 ? len : 400), url);
}

struct status_row {
    int status;
    enum err_class class;
    enum store_again again;
    const char *what;
    const char *todo;
};

static const struct status_row statuses[] = {
    {400, ERR_FAILED, AGAIN_NO, "the server does not understand the request",
     "is this the right kind of store for --endpoint?"},
    {401, ERR_DENIED, AGAIN_NO, "not allowed", "check --credentials"},
    {403, ERR_DENIED, AGAIN_NO, "not allowed", "check --credentials and what they may do there"},
    {404, ERR_NOT_FOUND, AGAIN_NO, "not found", "check the name"},
    {405, ERR_FAILED, AGAIN_NO, "the server does not offer this", "is this the right server?"},
    {407, ERR_DENIED, AGAIN_NO, "the proxy wants a password",
     "check --proxy, HTTPS_PROXY and HTTP_PROXY"},
    {408, ERR_TRANSIENT, AGAIN_BACKOFF, "the server waited too long for us",
     "is the network slow?"},
    {409, ERR_TRANSIENT, AGAIN_BACKOFF, "the server is busy with the same object", "try again"},
    {410, ERR_NOT_FOUND, AGAIN_NO, "gone", "check the name"},
    {412, ERR_STALE, AGAIN_NO, "the object was replaced", "scan the set again"},
    {416, ERR_STALE, AGAIN_NO, "the object is shorter than it was", "scan the set again"},
    {429, ERR_TRANSIENT, AGAIN_BACKOFF, "too many requests", "lower --connections"},
    {501, ERR_FAILED, AGAIN_NO, "the server does not offer this", "is this the right server?"},
};

static struct status_row row_of_status(int status)
{
    for (size_t i = 0; i < sizeof statuses / sizeof statuses[0]; i++)
        if (statuses[i].status == status)
            return statuses[i];
    if (status == 0)
        return (struct status_row){0, ERR_TRANSIENT, AGAIN_BACKOFF, "no answer", "is it running?"};
    if (status >= 500)
        return (struct status_row){status, ERR_TRANSIENT, AGAIN_BACKOFF, "the server has trouble",
                                   "it may work later"};
    if (status >= 300 && status < 400)
        return (struct status_row){status, ERR_FAILED, AGAIN_NO,
                                   "sent elsewhere without a usable address",
                                   "check --endpoint and --region"};
    return (struct status_row){status, ERR_FAILED, AGAIN_NO, "refused", "check the address"};
}

int status_error(const struct http_req *r, int status, const char *code, const char *why,
                 enum err_class class, const char *what, const char *todo, struct err *err)
{
    cleanup_bytes struct bytes name = {0};
    request_name(r, &name);
    return err_set(err, class, "%s%s%d: %s: %s (%s)", code, *code ? " " : "", status, name.data,
                   *why ? why : what, todo);
}

int classify_status(const struct store *s, const struct http_req *r, int status, const char *code,
                    const char *why, enum store_again *again, struct err *err)
{
    (void)s;
    struct status_row row = row_of_status(status);
    *again = row.again;
    return status_error(r, status, code, why, row.class, row.what, row.todo, err);
}

/* What S3 and the stores made after it agree in. */
static const struct code_row common_codes[] = {
    {"NoSuchKey", ERR_NOT_FOUND, AGAIN_NO, "is the name right, or was it deleted?"},
    {"NoSuchBucket", ERR_NOT_FOUND, AGAIN_NO, "check the bucket's name, --endpoint and --region"},
    {"NoSuchUpload", ERR_NOT_FOUND, AGAIN_NO, "the upload was ended or aborted: begin anew"},
    {"AccessDenied", ERR_DENIED, AGAIN_NO,
     "check --credentials, and what they may do in this bucket"},
    {"InvalidAccessKeyId", ERR_DENIED, AGAIN_NO,
     "this server does not know the access key: check --credentials and --endpoint"},
    {"SignatureDoesNotMatch", ERR_DENIED, AGAIN_NO,
     "the secret key is wrong: check --credentials (a blank or newline too many?)"},
    {"RequestExpired", ERR_DENIED, AGAIN_NO, "set this machine's clock"},
    {"PreconditionFailed", ERR_STALE, AGAIN_NO, "the object was replaced: scan the set again"},
    {"InvalidRange", ERR_STALE, AGAIN_NO, "the object is shorter than it was: scan the set again"},
    {"SlowDown", ERR_TRANSIENT, AGAIN_BACKOFF,
     "the store wants fewer requests: lower --connections"},
    {"RequestTimeout", ERR_TRANSIENT, AGAIN_BACKOFF, "is the network slow?"},
    {"BadDigest", ERR_TRANSIENT, AGAIN_BACKOFF, "the bytes changed on their way"},
    {"EntityTooLarge", ERR_LIMIT, AGAIN_NO, "too big for one PUT"},
};

static const struct code_row *find_code(const struct code_row *rows, size_t n, const char *code)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(rows[i].code, code) == 0)
            return &rows[i];
    return NULL;
}

int classify_code(const struct store *s, const struct http_req *r, int status,
                  const struct code_row *rows, size_t n, const char *code, const char *why,
                  enum store_again *again, struct err *err)
{
    const struct code_row *row = find_code(rows, n, code);
    if (!row)
        row = find_code(common_codes, sizeof common_codes / sizeof common_codes[0], code);
    if (!row)
        return classify_status(s, r, status, code, why, again, err);
    *again = row->again;
    return status_error(r, status, code, why, row->class, "refused", row->todo, err);
}

/* --- listings -------------------------------------------------------------------------------- */

int emit_item(struct store *s, const char *skip_key, struct list_item *item, list_fn *fn, void *arg,
              struct err *err)
{
    size_t prefix_len = strlen(s->prefix);
    if (item->key_len < prefix_len || memcmp(item->key, s->prefix, prefix_len) != 0)
        return 0; /* not below our prefix: a server that ignores it */
    item->key += prefix_len;
    item->key_len -= prefix_len;
    /* The object that marks the listed folder itself is not in it. One with bytes is no marker: no
     * file system can hold it, and whoever builds the catalog says so. */
    bool marks = item->folder || item->size == 0;
    bool listed = item->key_len == 0 || (skip_key && strlen(skip_key) == item->key_len &&
                                         item->key[item->key_len - 1] == '/' &&
                                         memcmp(item->key, skip_key, item->key_len) == 0);
    if (marks && listed)
        return 0;
    if (item->key_len && item->key[item->key_len - 1] == '/' && item->size == 0)
        item->folder = true;
    return fn(arg, item, err);
}

void add_put(struct http_req *r, const char *meta, const struct store_put *p, struct bytes *query)
{
    bytes_add_str(query, "");
    if (p->upload) {
        bytes_addf(query, "?partNumber=%u", p->part);
        url_add_param(query, "uploadId", p->upload);
    } else {
        http_header(r, "Content-Type", "%s", content_type_of(p->key));
        add_meta(r, meta, p->meta);
    }
}

void add_uploads(const struct store *s, const char *prefix, const char *token, struct bytes *query)
{
    bytes_add_str(query, "?uploads=");
    if (*prefix || *s->prefix)
        url_add_key_param(query, "prefix", s, prefix);
    bytes_add_str(query, token);
}

void add_copy(struct http_req *r, const struct copy_names *names, const struct store *s,
              const struct store_copy *c, struct bytes *query)
{
    cleanup_bytes struct bytes source = {0};
    bytes_add_str(query, "");
    url_add_copy_source(&source, s, c->from);
    http_header(r, names->source, "%s", source.data);
    if (c->if_match && *c->if_match)
        http_header(r, names->if_match, "%s%s%s", names->quote, c->if_match, names->quote);
    if (c->upload) {
        bytes_addf(query, "?partNumber=%u", c->part);
        url_add_param(query, "uploadId", c->upload);
        http_header(r, names->range, "bytes=%llu-%llu", (unsigned long long)c->off,
                    (unsigned long long)(c->off + c->len - 1));
    } else if (c->meta) {
        http_header(r, names->directive, "%s", names->replace);
        http_header(r, "Content-Type", "%s", content_type_of(c->to));
        add_meta(r, names->meta, c->meta);
    }
}
