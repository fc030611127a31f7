/*
 * A web server as a read-only store: its index pages, or a manifest, say what there is. Redirects
 * are followed (nothing is signed). No If-Match is sent: many servers' ETags are weak, which it
 * never matches; the reader compares the answer's ETag.
 */
#include <string.h>

#include "http-internal.h"
#include "mem.h"

/* What a URL may hold bare stays as it was written ("%2F" is not "/"); the rest is encoded. */
static void add_as_written(struct bytes *out, const char *path, size_t len)
{
    static const char bare[] = "%/-._~!$&'()*+,;=:@";
    for (size_t i = 0; i < len; i++) {
        if (path[i] && strchr(bare, path[i]))
            bytes_add_char(out, path[i]);
        else
            url_encode(out, path + i, 1, false);
    }
}

/* The last part of a path, if it is a manifest's name; else NULL. */
static const char *manifest_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    const char *name = slash ? slash + 1 : path;
    size_t len = strlen(name);
    return len > 4 && memcmp(name + len - 4, ".tsv", 4) == 0 ? name : NULL;
}

static int http_open(struct store *s, const struct uri *u, const struct store_conf *conf,
                     struct err *err)
{
    (void)conf;
    if (u->user)
        return err_set(err, ERR_USAGE,
                       "a user in an address is refused: %s://…@%s (use a proxy that logs in)",
                       u->scheme, u->host);
    if (strpbrk(u->path, "?#"))
        return err_set(
            err, ERR_USAGE,
            "not a folder: %s://%s/…: an address with '?' or '#' names one page (write the "
            "folder's, or a manifest's ending in .tsv)",
            u->scheme, u->host);
    const char *name = manifest_name(u->path);
    if (name)
        s->page = xstrdup(name);
    size_t len = name ? (size_t)(name - u->path) : strlen(u->path);
    while (len && u->path[len - 1] == '/')
        len--;
    cleanup_bytes struct bytes base = {0};
    bytes_addf(&base, "%s://%s", u->scheme, u->host);
    if (u->port)
        bytes_addf(&base, ":%u", u->port);
    if (len) {
        bytes_add_char(&base, '/');
        add_as_written(&base, u->path, len);
    }
    s->endpoint.base = bytes_take(&base);
    s->prefix = xstrdup("");
    s->uri = xasprintf("%s/%s", s->endpoint.base, s->page ? s->page : "");
    return 0;
}

static int http_get(struct store *s, const char *key, size_t key_len, uint64_t off, uint64_t len,
                    struct http_req *r, struct err *err)
{
    (void)err;
    bytes_addf(&r->url, "%s/", s->endpoint.base);
    url_add_path(&r->url, key, key_len);
    add_range(r, off, len);
    r->follow = true;
    return 0;
}

static int http_head(struct store *s, const char *key, size_t key_len, struct http_req *r,
                     struct err *err)
{
    return http_get(s, key, key_len, 0, 0, r, err);
}

static int http_list(struct store *s, const char *prefix, bool delimiter, const char *token,
                     const char *start_after, struct http_req *r, struct err *err)
{
    (void)delimiter; /* an index shows one level, a manifest all of them */
    (void)token;
    (void)start_after;
    (void)err;
    bytes_addf(&r->url, "%s/", s->endpoint.base);
    if (s->page) {
        add_as_written(&r->url, s->page, strlen(s->page));
    } else {
        size_t len = strlen(prefix);
        url_add_path(&r->url, prefix, len);
        if (len && prefix[len - 1] != '/')
            bytes_add_char(&r->url, '/');
    }
    r->follow = true;
    return 0;
}

static int http_parse_list(struct store *s, const char *prefix, const void *body, size_t len,
                           list_fn *fn, void *arg, struct bytes *ret_token, struct err *err)
{
    bytes_clear(ret_token);
    return s->page ? http_parse_manifest(s, prefix, body, len, fn, arg, err)
                   : http_parse_index(s, prefix, body, len, fn, arg, err);
}

static int http_classify(struct store *s, const struct http_req *r, const struct http_answer *a,
                         const void *body, size_t len, enum store_again *again, struct err *err)
{
    (void)body;
    (void)len;
    const char *range = http_header_get(r, "Range");
    if (a->status == 200 && range && strncmp(range, "bytes=0-", 8) != 0)
        return err_set(
            err, ERR_FAILED,
            "cannot read a part: %s: the server ignores byte ranges (use one that knows them)",
            s->uri);
    if (a->status >= 200 && a->status < 300)
        return 0;
    if (a->status != 401 && a->status != 403)
        return classify_status(s, r, a->status, "", "", again, err);
    /* What is read from a web server is read without keys. */
    const char *url = request_url(r);
    bool is_folder = *url && url[strlen(url) - 1] == '/';
    *again = AGAIN_NO;
    return status_error(r, a->status, "", "", ERR_DENIED, "not allowed",
                        is_folder ? "turn the server's directory listing on, or write a "
                                    "manifest.tsv; sets of web servers are read without a password"
                                  : "sets of web servers are read without a password: is this "
                                    "open to all?",
                        err);
}

const struct store_ops http_ops = {
    .name = "HTTP",
    .caps = STORE_HEADS,
    .open = http_open,
    .get = http_get,
    .head = http_head,
    .list = http_list,
    .classify = http_classify,
    .parse_list = http_parse_list,
};
