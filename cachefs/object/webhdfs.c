/*
 * HDFS over its REST interface. Reads are redirected to a data node by the HTTP library; a write
 * asks the name node first, without a body, and sends the bytes where its 307 points. Folders are
 * listed in pages (LISTSTATUS_BATCH), or whole by servers that do not know that (HttpFS,
 * before 2.8).
 */
#include <pwd.h>
#include <string.h>

#include "json.h"
#include "mem.h"
#include "object-internal.h"

#define DEFAULT_PORT     9870
#define DEFAULT_PORT_TLS 9871
#define PREFIX           "/webhdfs/v1"

static char *find_user(const struct uri *u, const struct store_conf *conf)
{
    if (conf->user)
        return xstrdup(conf->user);
    if (u->user)
        return xstrdup(u->user);
    if (env_get("HADOOP_USER_NAME"))
        return xstrdup(env_get("HADOOP_USER_NAME"));
    struct passwd entry, *found = NULL;
    char text[4096];
    if (getpwuid_r(geteuid(), &entry, text, sizeof text, &found) == 0 && found)
        return xstrdup(found->pw_name);
    return xasprintf("%u", (unsigned)geteuid());
}

static int webhdfs_open(struct store *s, const struct uri *u, const struct store_conf *conf,
                        struct err *err)
{
    (void)err;
    bool tls = strcmp(u->scheme, "swebhdfs") == 0;
    bool rpc = strcmp(u->scheme, "hdfs") == 0; /* its port is the RPC's, not ours */
    unsigned port = u->port && !rpc ? u->port : conf->webhdfs_port;
    port = port ? port : tls ? DEFAULT_PORT_TLS : DEFAULT_PORT;
    s->prefix = prefix_from_path(u->path);
    s->user = find_user(u, conf);
    s->endpoint.base = conf->endpoint && strstr(conf->endpoint, "://")
                           ? xstrdup(conf->endpoint)
                           : xasprintf("%s://%s:%u", tls ? "https" : "http", u->host, port);
    s->uri = u->port ? xasprintf("%s://%s:%u/%s", u->scheme, u->host, u->port, s->prefix)
                     : xasprintf("%s://%s/%s", u->scheme, u->host, s->prefix);
    return 0;
}

/* --- requests -------------------------------------------------------------------------------- */

static void begin(struct store *s, const char *path, size_t len, const char *op, struct http_req *r)
{
    bytes_addf(&r->url, "%s" PREFIX "/", s->endpoint.base);
    url_add_path(&r->url, s->prefix, strlen(s->prefix));
    url_add_path(&r->url, path, len);
    while (r->url.data[r->url.len - 1] == '/' && len == 0 && *s->prefix)
        r->url.data[--r->url.len] = '\0'; /* "/dir", not "/dir/" */
    url_add_param(&r->url, "op", op);
    url_add_param(&r->url, "user.name", s->user);
}

static int webhdfs_get(struct store *s, const char *key, size_t key_len, uint64_t off, uint64_t len,
                       struct http_req *r, struct err *err)
{
    (void)err;
    begin(s, key, key_len, "OPEN", r);
    if (off)
        bytes_addf(&r->url, "&offset=%llu", (unsigned long long)off);
    if (len)
        bytes_addf(&r->url, "&length=%llu", (unsigned long long)len);
    r->follow = true;
    return 0;
}

static int webhdfs_head(struct store *s, const char *key, size_t key_len, struct http_req *r,
                        struct err *err)
{
    (void)err;
    r->method = HTTP_GET; /* the answer is in the body: store_parse_head() */
    begin(s, key, key_len, "GETFILESTATUS", r);
    return 0;
}

static int webhdfs_list(struct store *s, const char *prefix, bool delimiter, const char *token,
                        const char *start_after, struct http_req *r, struct err *err)
{
    (void)delimiter; /* a listing has one level */
    (void)err;
    size_t len = strlen(prefix);
    while (len && prefix[len - 1] == '/')
        len--;
    bool batch = *token; /* a listing that has begun in pages goes on in pages */
    if (!batch) {
        ACQUIRE(&s->lock);
        batch = !s->no_batch_list;
    }
    begin(s, prefix, len, batch ? "LISTSTATUS_BATCH" : "LISTSTATUS", r);
    const char *after = *token ? token : start_after;
    const char *slash = strrchr(after, '/');
    if (batch && *after)
        url_add_param(&r->url, "startAfter", slash ? slash + 1 : after);
    return 0;
}

static int webhdfs_put(struct store *s, const char *key, size_t key_len, const void *body,
                       size_t len, struct http_req *r, struct err *err)
{
    (void)body; /* the second step's: webhdfs_follow() */
    (void)len;
    (void)err;
    begin(s, key, key_len, "CREATE", r);
    bytes_add_str(&r->url, "&overwrite=true");
    return 0;
}

static int webhdfs_follow(struct store *s, const struct http_answer *a, const void *body,
                          size_t len, struct http_req *r, struct err *err)
{
    if (strncmp(a->location, "http://", 7) != 0 && strncmp(a->location, "https://", 8) != 0)
        return err_set(
            err, ERR_FAILED,
            "cannot write: %s: the name node's redirect names no address (is it WebHDFS?)", s->uri);
    if (http_is_tls(s->endpoint.base) && !http_is_tls(a->location))
        return err_set(err, ERR_FAILED,
                       "cannot write: %s: the name node redirects to a data node without TLS "
                       "(give webhdfs:// for a cluster without it)",
                       s->uri);
    bytes_add_str(&r->url, a->location);
    if (strstr(a->location, "op=APPEND"))
        r->method = HTTP_POST;
    http_header(r, "Content-Type", "application/octet-stream");
    r->body = body;
    r->body_len = len;
    return 0;
}

static int webhdfs_append(struct store *s, const char *key, struct http_req *r, struct err *err)
{
    (void)err;
    begin(s, key, strlen(key), "APPEND", r);
    return 0;
}

static int webhdfs_rename(struct store *s, const char *from, const char *to, struct http_req *r,
                          struct err *err)
{
    (void)err;
    begin(s, from, strlen(from), "RENAME", r);
    bytes_add_str(&r->url, "&destination=%2F");
    url_encode(&r->url, s->prefix, strlen(s->prefix), false);
    url_encode(&r->url, to, strlen(to), false);
    bytes_add_str(&r->url, "&renameoptions=OVERWRITE");
    return 0;
}

static int webhdfs_folder(struct store *s, const char *key, struct http_req *r, struct err *err)
{
    (void)err;
    size_t len = strlen(key);
    while (len && key[len - 1] == '/')
        len--;
    begin(s, key, len, "MKDIRS", r);
    return 0;
}

static int webhdfs_delete(struct store *s, const char *key, size_t key_len, struct http_req *r,
                          struct err *err)
{
    (void)err;
    while (key_len && key[key_len - 1] == '/')
        key_len--; /* an empty folder's name */
    begin(s, key, key_len, "DELETE", r);
    bytes_add_str(&r->url, "&recursive=false");
    return 0;
}

/* --- answers --------------------------------------------------------------------------------- */

/* One FileStatus: `folder` is where it lies, relative to the store, "" or ending in '/'. */
static int emit_status(const struct json *status, const char *folder, list_fn *fn, void *arg,
                       struct err *err)
{
    const char *name, *type;
    int64_t length, modified;
    if (json_str(status, "pathSuffix", &name, err) || json_str(status, "type", &type, err) ||
        json_int_or(status, "length", 0, INT64_MAX, 0, &length, err) ||
        json_int_or(status, "modificationTime", 0, INT64_MAX / 1000000, 0, &modified, err))
        return -1;
    if (!*name || strchr(name, '/'))
        return 0; /* the listed thing itself is a file */
    bool is_folder = strcmp(type, "DIRECTORY") == 0;
    if (!is_folder && strcmp(type, "FILE") != 0)
        return 0; /* a link: what it points to is listed where it lies */
    cleanup_bytes struct bytes key = {0};
    bytes_addf(&key, "%s%s%s", folder, name, is_folder ? "/" : "");
    struct list_item item = {.key = key.data,
                             .key_len = key.len,
                             .size = is_folder ? 0 : (uint64_t)length,
                             .mtime_ns = modified * 1000000,
                             .etag = "",
                             .folder = is_folder,
                             .unfinished = !is_folder && store_is_temp(name)};
    return fn(arg, &item, err);
}

static int emit_statuses(const struct json *outer, const char *folder, list_fn *fn, void *arg,
                         const char **ret_last, struct err *err)
{
    struct json statuses = json_get(outer, "FileStatuses");
    struct json list = json_get(&statuses, "FileStatus");
    if (json_want_object(&statuses, err) || json_want_array(&list, err))
        return -1;
    for (size_t i = 0; i < json_count(&list); i++) {
        struct json status = json_at(&list, i);
        if (json_str(&status, "pathSuffix", ret_last, err) ||
            emit_status(&status, folder, fn, arg, err))
            return -1;
    }
    return 0;
}

static int webhdfs_parse_list(struct store *s, const char *prefix, const void *body, size_t len,
                              list_fn *fn, void *arg, struct bytes *ret_token, struct err *err)
{
    cleanup_json struct json_doc *doc = NULL;
    bytes_clear(ret_token);
    if (json_parse(&doc, s->uri, body, len, err))
        return err_wrap(err, "list");
    size_t prefix_len = strlen(prefix);
    bool slash = prefix_len && prefix[prefix_len - 1] != '/';
    cleanup_free char *folder = xasprintf("%s%s", prefix, slash ? "/" : "");
    const char *last = "";
    struct json root = json_root(doc);
    if (json_want_object(&root, err))
        return err_wrap(err, "list");
    if (!json_has(&root, "DirectoryListing"))
        return emit_statuses(&root, folder, fn, arg, &last, err);
    struct json listing = json_get(&root, "DirectoryListing");
    struct json partial = json_get(&listing, "partialListing");
    int64_t remaining;
    if (json_want_object(&listing, err) || json_want_object(&partial, err) ||
        json_int_or(&listing, "remainingEntries", 0, INT64_MAX, 0, &remaining, err) ||
        emit_statuses(&partial, folder, fn, arg, &last, err))
        return -1;
    if (remaining && !*last)
        return err_set(err, ERR_CORRUPT, "list %s: an empty page, but %lld entries to come", s->uri,
                       (long long)remaining);
    if (remaining)
        bytes_add_str(ret_token, last);
    return 0;
}

static int webhdfs_parse_head(struct store *s, const void *body, size_t len, struct http_answer *a,
                              struct err *err)
{
    cleanup_json struct json_doc *doc = NULL;
    if (json_parse(&doc, s->uri, body, len, err))
        return err_wrap(err, "status");
    struct json root = json_root(doc);
    struct json status = json_get(&root, "FileStatus");
    const char *type;
    int64_t length, modified;
    if (json_want_object(&status, err) || json_str(&status, "type", &type, err) ||
        json_int(&status, "length", 0, INT64_MAX, &length, err) ||
        json_int_or(&status, "modificationTime", 0, INT64_MAX / 1000000, 0, &modified, err))
        return err_wrap(err, "status");
    if (strcmp(type, "DIRECTORY") == 0)
        return err_set(err, ERR_NOT_FOUND, "not a file: %s: it is a folder", s->uri);
    a->content_length = length;
    a->last_modified = modified / 1000;
    snprintf(a->meta_mtime, sizeof a->meta_mtime, "%lld.%03lld", (long long)modified / 1000,
             (long long)modified % 1000);
    return 0;
}

static const struct code_row codes[] = {
    {"FileNotFoundException", ERR_NOT_FOUND, AGAIN_NO, "is the name right, or was it deleted?"},
    {"AccessControlException", ERR_DENIED, AGAIN_NO,
     "what may this user do? HADOOP_USER_NAME says who asks"},
    {"SecurityException", ERR_DENIED, AGAIN_NO,
     "this cluster wants Kerberos, which is not spoken here: go through HttpFS or a gateway"},
    {"AuthenticationException", ERR_DENIED, AGAIN_NO,
     "this cluster wants Kerberos, which is not spoken here: go through HttpFS or a gateway"},
    {"StandbyException", ERR_TRANSIENT, AGAIN_BACKOFF, "this name node waits: name the active one"},
    {"RetriableException", ERR_TRANSIENT, AGAIN_BACKOFF, "it may work later"},
    {"SafeModeException", ERR_TRANSIENT, AGAIN_BACKOFF, "the name node is starting"},
    {"DSQuotaExceededException", ERR_LIMIT, AGAIN_NO, "make room in the store"},
    {"NSQuotaExceededException", ERR_LIMIT, AGAIN_NO, "make room in the store"},
    {"FileAlreadyExistsException", ERR_FAILED, AGAIN_NO, "there is a folder of that name"},
    {"PathIsNotEmptyDirectoryException", ERR_STALE, AGAIN_NO, "something is in it"},
    {"IOException", ERR_TRANSIENT, AGAIN_BACKOFF, "it may work later"},
};

/* An old server's answer to LISTSTATUS_BATCH: it does not know the word. Where a page was got
 * already it does, and has trouble: asked for the whole now, it would tell of that page again. */
static bool batch_unknown(struct store *s, const struct http_req *r, int status)
{
    const char *url = request_url(r);
    if ((status != 400 && status != 501 && status != 500) || !strstr(url, "op=LISTSTATUS_BATCH") ||
        strstr(url, "&startAfter="))
        return false;
    ACQUIRE(&s->lock);
    s->no_batch_list = true;
    return true;
}

static int webhdfs_classify(struct store *s, const struct http_req *r, const struct http_answer *a,
                            const void *body, size_t len, enum store_again *again, struct err *err)
{
    if ((a->status >= 200 && a->status < 300) || (a->status == 307 && a->location[0]))
        return 0;
    char code[64], why[200];
    read_json_error(body, len, "RemoteException", "exception", code, why);
    bool old = batch_unknown(s, r, a->status);
    classify_code(s, r, a->status, codes, sizeof codes / sizeof codes[0], code, why, again, err);
    if (old)
        *again = AGAIN_REDIRECT;
    return -1;
}

const struct store_ops webhdfs_ops = {
    .name = "WebHDFS",
    .caps = STORE_WRITES | STORE_RANGE_200 | STORE_APPENDS | STORE_BLIND_GETS,
    .open = webhdfs_open,
    .get = webhdfs_get,
    .head = webhdfs_head,
    .list = webhdfs_list,
    .put = webhdfs_put,
    .del = webhdfs_delete,
    .append = webhdfs_append,
    .rename = webhdfs_rename,
    .folder = webhdfs_folder,
    .follow = webhdfs_follow,
    .classify = webhdfs_classify,
    .parse_head = webhdfs_parse_head,
    .parse_list = webhdfs_parse_list,
};
