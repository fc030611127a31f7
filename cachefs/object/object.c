/*
 * A store: which scheme it is, its life, and the way from the public functions to the scheme's own.
 * A new store is a file with a `struct store_ops` and a row in `schemes`.
 */
#include <string.h>

#include "clock.h"
#include "hash.h"
#include "json.h"
#include "mem.h"
#include "object-internal.h"

static const struct {
    const char *name;
    const struct store_ops *ops;
} schemes[] = {
    {"file", &file_ops},        {"s3", &s3_ops},           {"minio", &s3_ops},
    {"minios", &s3_ops},        {"bos", &bos_ops},         {"http", &http_ops},
    {"https", &http_ops},       {"webhdfs", &webhdfs_ops}, {"hdfs", &webhdfs_ops},
    {"swebhdfs", &webhdfs_ops},
};

static const struct store_ops *find_scheme(const char *name)
{
    for (size_t i = 0; i < sizeof schemes / sizeof schemes[0]; i++)
        if (strcmp(schemes[i].name, name) == 0)
            return schemes[i].ops;
    return NULL;
}

/* --- life ------------------------------------------------------------------------------------ */

static struct store *store_new(const struct store_ops *ops, const struct store_conf *conf)
{
    struct store *s = xcalloc(1, sizeof *s);
    s->ops = ops;
    s->log = conf->log;
    s->ca_file = conf->ca_file ? xstrdup(conf->ca_file) : NULL;
    s->proxy = conf->proxy ? xstrdup(conf->proxy) : NULL;
    s->peer = (struct http_peer){.ca_file = s->ca_file, .proxy = s->proxy};
    s->requester_pays = conf->requester_pays;
    s->no_sums = conf->no_sums;
    s->path_style = conf->path_style;
    s->creds_conf = (struct creds_conf){
        .anonymous = conf->anonymous,
        .path = conf->credentials ? xstrdup(conf->credentials) : NULL,
        .peer = &s->peer,
    };
    if (conf->keys) {
        const struct store_keys *k = conf->keys;
        s->creds_conf.access_key = xstrdup(k->access_key);
        secret_set(&s->creds_conf.secret, k->secret_key, strlen(k->secret_key));
        if (k->session_token)
            secret_set(&s->creds_conf.token, k->session_token, strlen(k->session_token));
    }
    s->silent_since_ns = UINT64_MAX;
    lock_init(&s->lock, RANK_STORE_CREDS, "store-creds");
    cond_init(&s->refreshed);
    return s;
}

int store_check_uri(const char *uri, struct err *err)
{
    cleanup_uri struct uri u = {0};
    return uri_parse(&u, uri, err);
}

const char *store_uri_folder(const char *uri)
{
    static const char scheme[] = "file://";
    if (strncasecmp(uri, scheme, strlen(scheme)) != 0)
        return NULL;
    return strchrnul(uri + strlen(scheme), '/'); /* behind the host, which is this one or refused */
}

int store_open(struct store **ret, const char *uri, const struct store_conf *conf, struct err *err)
{
    static const struct store_conf no_conf;
    if (!conf)
        conf = &no_conf;
    cleanup_uri struct uri u = {0};
    if (uri_parse(&u, uri, err))
        return -1;
    const struct store_ops *ops = find_scheme(u.scheme);
    if (!ops)
        return err_set(
            err, ERR_USAGE,
            "unknown kind of store: %s://… (known: file, s3, minio, minios, bos, http, https, "
            "webhdfs, swebhdfs, hdfs)",
            u.scheme);
    struct store *s = store_new(ops, conf);
    int rc = ops->open(s, &u, conf, err);
    if (rc == 0 && strlen(s->uri) > URI_MAX)
        rc = err_set(err, ERR_USAGE, "not an address: longer than %d bytes as it is written here",
                     URI_MAX);
    if (rc) {
        store_close(s);
        return -1;
    }
    *ret = s;
    return 0;
}

void store_close(struct store *s)
{
    if (!s)
        return;
    creds_release(&s->creds);
    secret_release(&s->creds_conf.secret);
    secret_release(&s->creds_conf.token);
    explicit_bzero(&s->key, sizeof s->key);
    cond_destroy(&s->refreshed);
    lock_destroy(&s->lock);
    char *strings[] = {s->uri,
                       s->bucket,
                       s->prefix,
                       s->dir,
                       s->user,
                       s->page,
                       s->ca_file,
                       s->proxy,
                       s->creds_conf.path,
                       s->creds_conf.access_key,
                       s->creds_conf.region,
                       s->endpoint.base,
                       s->endpoint.region};
    for (size_t i = 0; i < sizeof strings / sizeof strings[0]; i++)
        free(strings[i]);
    free(s);
}

const char *store_uri(const struct store *s)
{
    return s->uri;
}

void store_add_object_uri(struct bytes *out, const char *uri, const char *key, size_t key_len)
{
    size_t len = strlen(uri);
    if (strncmp(uri, "http://", 7) == 0 || strncmp(uri, "https://", 8) == 0)
        while (len && uri[len - 1] != '/') /* what follows the last one is a manifest's name */
            len--;
    bytes_add(out, uri, len);
    if (len && uri[len - 1] != '/')
        bytes_add_char(out, '/');
    bytes_add(out, key, key_len);
}

void store_answered(struct store *s)
{
    if (atomic_load_explicit(&s->silent_since_ns, memory_order_relaxed))
        atomic_store_explicit(&s->silent_since_ns, 0, memory_order_relaxed);
}

uint64_t store_silent_since_ns(struct store *s, uint64_t now_ns)
{
    uint64_t since = 0;
    atomic_compare_exchange_strong(&s->silent_since_ns, &since, now_ns);
    return since ? since : now_ns;
}

unsigned store_caps(const struct store *s)
{
    unsigned caps = s->ops->caps;
    if (s->page)
        caps |= STORE_FLAT_LIST;
    return caps;
}

const struct http_peer *store_peer(const struct store *s)
{
    return &s->peer;
}

void store_identity(const struct store *s, struct bytes *out)
{
    struct lock *lock = (struct lock *)&s->lock;
    ACQUIRE(lock);
    if (s->endpoint.base)
        bytes_addf(out, "endpoint=%s", s->endpoint.base);
    if (s->user)
        bytes_addf(out, " user=%s", s->user);
    if (s->creds.access_key)
        bytes_addf(out, " key=%016llx",
                   (unsigned long long)hash64(s->creds.access_key, strlen(s->creds.access_key), 0));
}

const char *store_local_dir(const struct store *s)
{
    return s->dir;
}

bool store_can_name(const struct store *s, const char *text)
{
    return (store_caps(s) & STORE_LOCAL) || is_utf8(text, strlen(text));
}

/* --- to the scheme's own functions ----------------------------------------------------------- */

static int cannot(const struct store *s, const char *what, struct err *err)
{
    return err_set(err, ERR_USAGE, "cannot %s: %s: %s stores do not offer it", what, s->uri,
                   s->ops->name);
}

static int done(int result, struct http_req *r)
{
    if (result)
        http_req_release(r);
    return result;
}

int store_req_get(struct store *s, const char *key, size_t key_len, uint64_t off, uint64_t len,
                  struct http_req *ret, struct err *err)
{
    if (!s->ops->get)
        return cannot(s, "send a GET", err);
    http_req_init(ret, HTTP_GET);
    return done(s->ops->get(s, key, key_len, off, len, ret, err), ret);
}

int store_req_get_version(struct store *s, const char *key, size_t key_len, const char *version,
                          uint64_t off, uint64_t len, struct http_req *ret, struct err *err)
{
    if (!s->ops->get_version)
        return cannot(s, "give an older version", err);
    http_req_init(ret, HTTP_GET);
    return done(s->ops->get_version(s, key, key_len, version, off, len, ret, err), ret);
}

int store_req_versions(struct store *s, const char *key, const char *token, struct http_req *ret,
                       struct err *err)
{
    if (!s->ops->versions)
        return cannot(s, "list versions", err);
    http_req_init(ret, HTTP_GET);
    return done(s->ops->versions(s, key, token, ret, err), ret);
}

int store_parse_versions(struct store *s, const char *key, const void *body, size_t len,
                         version_fn *fn, void *arg, struct bytes *ret_token, struct err *err)
{
    bytes_clear(ret_token);
    if (!s->ops->parse_versions)
        return cannot(s, "list versions", err);
    return s->ops->parse_versions(s, key, body, len, fn, arg, ret_token, err);
}

int store_req_head(struct store *s, const char *key, size_t key_len, struct http_req *ret,
                   struct err *err)
{
    if (!s->ops->head)
        return cannot(s, "send a HEAD", err);
    http_req_init(ret, HTTP_HEAD);
    return done(s->ops->head(s, key, key_len, ret, err), ret);
}

int store_req_list(struct store *s, const char *prefix, bool delimiter, const char *token,
                   const char *start_after, struct http_req *ret, struct err *err)
{
    if (!s->ops->list)
        return cannot(s, "list by HTTP", err);
    http_req_init(ret, HTTP_GET);
    return done(s->ops->list(s, prefix, delimiter, token ? token : "",
                             start_after ? start_after : "", ret, err),
                ret);
}

int store_req_put(struct store *s, const char *key, size_t key_len, const void *body, size_t len,
                  struct http_req *ret, struct err *err)
{
    if (!s->ops->put)
        return cannot(s, "write", err);
    http_req_init(ret, HTTP_PUT);
    return done(s->ops->put(s, key, key_len, body, len, ret, err), ret);
}

int store_req_delete(struct store *s, const char *key, size_t key_len, struct http_req *ret,
                     struct err *err)
{
    if (!s->ops->del)
        return cannot(s, "delete", err);
    http_req_init(ret, HTTP_DELETE);
    return done(s->ops->del(s, key, key_len, ret, err), ret);
}

int store_req_delete_many(struct store *s, const char *const *keys, size_t n, struct bytes *body,
                          struct http_req *ret, struct err *err)
{
    if (!s->ops->delete_many)
        return cannot(s, "delete many at once", err);
    http_req_init(ret, HTTP_POST);
    return done(s->ops->delete_many(s, keys, n, body, ret, err), ret);
}

int store_req_copy_from(struct store *s, const struct store *from_store, const char *from,
                        const char *if_match, const char *to, struct http_req *ret, struct err *err)
{
    if (!s->ops->copy_from || from_store->ops != s->ops)
        return cannot(s, "copy from another store", err);
    http_req_init(ret, HTTP_PUT);
    return done(s->ops->copy_from(s, from_store, from, if_match, to, ret, err), ret);
}

int store_req_append(struct store *s, const char *key, const void *body, size_t len,
                     struct http_req *ret, struct err *err)
{
    (void)body; /* the second step's: store_req_follow() */
    (void)len;
    if (!s->ops->append)
        return cannot(s, "append", err);
    http_req_init(ret, HTTP_POST);
    return done(s->ops->append(s, key, ret, err), ret);
}

int store_req_rename(struct store *s, const char *from, const char *to, struct http_req *ret,
                     struct err *err)
{
    if (!s->ops->rename)
        return cannot(s, "rename", err);
    http_req_init(ret, HTTP_PUT);
    return done(s->ops->rename(s, from, to, ret, err), ret);
}

int store_req_folder(struct store *s, const char *key, struct http_req *ret, struct err *err)
{
    if (!s->ops->folder)
        return store_req_put(s, key, strlen(key), "", 0, ret, err);
    http_req_init(ret, HTTP_PUT);
    return done(s->ops->folder(s, key, ret, err), ret);
}

int store_req_uploads(struct store *s, const char *prefix, const char *token, struct http_req *ret,
                      struct err *err)
{
    if (!s->ops->uploads)
        return cannot(s, "list uploads", err);
    http_req_init(ret, HTTP_GET);
    return done(s->ops->uploads(s, prefix, token, ret, err), ret);
}

int store_req_parts(struct store *s, const char *key, const char *upload, const char *token,
                    struct http_req *ret, struct err *err)
{
    if (!s->ops->parts)
        return cannot(s, "list the parts of an upload", err);
    http_req_init(ret, HTTP_GET);
    return done(s->ops->parts(s, key, upload, token, ret, err), ret);
}

int store_parse_parts(struct store *s, const void *body, size_t len, upload_part_fn *fn, void *arg,
                      struct bytes *ret_token, struct err *err)
{
    bytes_clear(ret_token);
    if (!s->ops->parse_parts)
        return cannot(s, "list the parts of an upload", err);
    return s->ops->parse_parts(s, body, len, fn, arg, ret_token, err);
}

int store_parse_uploads(struct store *s, const void *body, size_t len, upload_fn *fn, void *arg,
                        struct bytes *ret_token, struct err *err)
{
    bytes_clear(ret_token);
    if (!s->ops->parse_uploads)
        return cannot(s, "list uploads", err);
    return s->ops->parse_uploads(s, body, len, fn, arg, ret_token, err);
}

int store_req_multipart_begin(struct store *s, const char *key, struct http_req *ret,
                              struct err *err)
{
    if (!s->ops->part_begin)
        return cannot(s, "write in parts", err);
    http_req_init(ret, HTTP_POST);
    return done(s->ops->part_begin(s, key, ret, err), ret);
}

int store_req_multipart_part(struct store *s, const char *key, const char *upload, unsigned part,
                             const void *body, size_t len, struct http_req *ret, struct err *err)
{
    if (!s->ops->part_put)
        return cannot(s, "write in parts", err);
    http_req_init(ret, HTTP_PUT);
    return done(s->ops->part_put(s, key, upload, part, body, len, ret, err), ret);
}

int store_req_multipart_end(struct store *s, const char *key, const char *upload,
                            const struct part_tag *parts, size_t n, const struct object_meta *meta,
                            struct bytes *body, struct http_req *ret, struct err *err)
{
    if (!s->ops->part_end)
        return cannot(s, "write in parts", err);
    http_req_init(ret, HTTP_POST);
    return done(s->ops->part_end(s, key, upload, parts, n, meta, body, ret, err), ret);
}

int store_req_multipart_abort(struct store *s, const char *key, const char *upload,
                              struct http_req *ret, struct err *err)
{
    if (!s->ops->part_abort)
        return cannot(s, "write in parts", err);
    http_req_init(ret, HTTP_DELETE);
    return done(s->ops->part_abort(s, key, upload, ret, err), ret);
}

int store_req_put_object(struct store *s, const struct store_put *p, struct http_req *ret,
                         struct err *err)
{
    if (!s->ops->put_object)
        return cannot(s, "write with metadata", err);
    http_req_init(ret, HTTP_PUT);
    return done(s->ops->put_object(s, p, ret, err), ret);
}

int store_req_copy_object(struct store *s, const struct store_copy *c, struct http_req *ret,
                          struct err *err)
{
    if (!s->ops->copy_object)
        return cannot(s, "copy", err);
    http_req_init(ret, HTTP_PUT);
    return done(s->ops->copy_object(s, c, ret, err), ret);
}

int store_req_multipart_begin_as(struct store *s, const char *key, const struct object_meta *meta,
                                 struct http_req *ret, struct err *err)
{
    if (!s->ops->part_begin_as)
        return cannot(s, "write in parts", err);
    http_req_init(ret, HTTP_POST);
    return done(s->ops->part_begin_as(s, key, meta, ret, err), ret);
}

int store_req_follow(struct store *s, const struct http_answer *a, const void *body, size_t len,
                     struct http_req *ret, struct err *err)
{
    if (!s->ops->follow)
        return cannot(s, "write in two steps", err);
    http_req_init(ret, HTTP_PUT);
    return done(s->ops->follow(s, a, body, len, ret, err), ret);
}

static void note_date(struct store *s, const struct http_answer *a)
{
    time_t theirs = a->status < 500 && a->date[0] ? curl_getdate(a->date, NULL) : -1;
    if (theirs != -1)
        atomic_store_explicit(&s->ahead_s, theirs - clock_wall_ns() / (int64_t)NS_PER_S,
                              memory_order_relaxed);
}

int64_t store_now_ns(const struct store *s)
{
    int64_t ahead = atomic_load_explicit(&s->ahead_s, memory_order_relaxed);
    return clock_wall_ns() + ahead * (int64_t)NS_PER_S;
}

/* Of a portal to log in at, or of a proxy: with "200" it would have a write taken for done. Told by
 * the page itself: some stores call all that they say text/html. */
static bool is_web_page(const struct http_req *r, const struct http_answer *a, const char *body,
                        size_t len)
{
    static const char *const begins[] = {"<!doctype html", "<html"};
    if (r->method == HTTP_GET || r->method == HTTP_HEAD || a->status / 100 != 2)
        return false;
    while (len && strchr(" \t\r\n", *body)) {
        body++;
        len--;
    }
    for (size_t i = 0; i < sizeof begins / sizeof begins[0]; i++)
        if (len >= strlen(begins[i]) && strncasecmp(body, begins[i], strlen(begins[i])) == 0)
            return true;
    return false;
}

int store_classify(struct store *s, const struct http_req *r, const struct http_answer *a,
                   const void *body, size_t body_len, enum store_again *again, struct err *err)
{
    enum store_again ignored;
    if (!again)
        again = &ignored;
    *again = AGAIN_NO;
    note_date(s, a);
    if (is_web_page(r, a, body, body_len)) {
        *again = AGAIN_BACKOFF;
        return err_set(err, ERR_TRANSIENT,
                       "the answer is a web page, and not the store's (is there a portal or a "
                       "proxy on the way? check --endpoint)");
    }
    if (!s->ops->classify)
        return cannot(s, "speak HTTP", err);
    return s->ops->classify(s, r, a, body, body_len, again, err);
}

int store_parse_head(struct store *s, const void *body, size_t len, struct http_answer *a,
                     struct err *err)
{
    return s->ops->parse_head ? s->ops->parse_head(s, body, len, a, err) : 0;
}

int store_parse_list(struct store *s, const char *prefix, const void *body, size_t len, list_fn *fn,
                     void *arg, struct bytes *ret_token, struct err *err)
{
    bytes_clear(ret_token);
    if (!s->ops->parse_list)
        return cannot(s, "list by HTTP", err);
    return s->ops->parse_list(s, prefix, body, len, fn, arg, ret_token, err);
}

int store_parse_multipart_begin(struct store *s, const void *body, size_t len, struct bytes *upload,
                                struct err *err)
{
    if (!s->ops->parse_part_begin)
        return cannot(s, "write in parts", err);
    return s->ops->parse_part_begin(s, body, len, upload, err);
}

int store_parse_multipart_end(struct store *s, const void *body, size_t len, struct err *err)
{
    if (!s->ops->parse_part_end)
        return cannot(s, "write in parts", err);
    return s->ops->parse_part_end(s, body, len, err);
}

void store_parse_etag(struct store *s, const void *body, size_t len, char ret[160])
{
    ret[0] = '\0';
    if (s->ops->parse_etag)
        s->ops->parse_etag(body, len, ret);
}

int store_parse_delete_many(struct store *s, const void *body, size_t len, struct err *err)
{
    if (!s->ops->parse_delete_many)
        return cannot(s, "delete many at once", err);
    return s->ops->parse_delete_many(s, body, len, err);
}
