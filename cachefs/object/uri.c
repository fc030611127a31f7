/* URIs: bytes to parts. The rule for percent signs and passwords stands in object-internal.h. */
#include <string.h>

#include "mem.h"
#include "object-internal.h"

static bool is_scheme_char(char c, bool first)
{
    bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    return letter || (!first && ((c >= '0' && c <= '9') || c == '+' || c == '-' || c == '.'));
}

static size_t scheme_len(const char *text)
{
    size_t n = 0;
    while (is_scheme_char(text[n], n == 0))
        n++;
    return n && strncmp(text + n, "://", 3) == 0 ? n : 0;
}

static bool is_host(const char *host, size_t len)
{
    if (len == 0 || len > 255)
        return false;
    if (host[0] == '[')
        return len > 3 && host[len - 1] == ']' &&
               strspn(host + 1, "0123456789abcdefABCDEF:.") == len - 2;
    for (size_t i = 0; i < len; i++) {
        char c = host[i];
        bool ok = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                  c == '-' || c == '.' || c == '_';
        if (!ok)
            return false;
    }
    return true;
}

static int take_user(struct uri *u, const char **authority, size_t *len, struct err *err)
{
    const char *at = memrchr(*authority, '@', *len);
    if (!at)
        return 0;
    size_t user_len = (size_t)(at - *authority);
    if (memchr(*authority, ':', user_len))
        return err_set(
            err, ERR_USAGE,
            "a password in an address is refused: %s://…: it would end up in process lists "
            "and logs (use --credentials FILE or the environment)",
            u->scheme);
    if (user_len)
        u->user = xstrndup(*authority, user_len);
    *authority = at + 1;
    *len -= user_len + 1;
    return 0;
}

static int take_port(struct uri *u, const char *text, size_t len, struct err *err)
{
    unsigned port = 0;
    for (size_t i = 0; i < len; i++) {
        if (text[i] < '0' || text[i] > '9' || port > 65535) {
            port = 0;
            break;
        }
        port = port * 10 + (unsigned)(text[i] - '0');
    }
    /* Not repeated: "KEY:SECRET/with/slash@host" comes along here, too. */
    if (port == 0 || port > 65535)
        return err_set(
            err, ERR_USAGE,
            "not an address: %s://…: after the host's ':' must come a port from 1 to 65535",
            u->scheme);
    u->port = port;
    return 0;
}

/* Where a URI begins with a bucket, only an endpoint behind it has a port. Not repeated either: it
 * may be "KEY:7/rest-of-the-SECRET@bucket". */
static int check_bucket_port(const struct uri *u, struct err *err)
{
    bool begins_with_bucket = strcmp(u->scheme, "s3") == 0 || strcmp(u->scheme, "bos") == 0;
    if (!begins_with_bucket || !u->port || strpbrk(u->host, ".["))
        return 0;
    return err_set(err, ERR_USAGE,
                   "no bucket: %s://…: a port without a host: want %s://BUCKET.HOST:PORT/PREFIX",
                   u->scheme, u->scheme);
}

static int take_authority(struct uri *u, const char *authority, size_t len, struct err *err)
{
    if (take_user(u, &authority, &len, err))
        return -1;
    const char *colon = memrchr(authority, ':', len);
    const char *bracket = memrchr(authority, ']', len);
    if (colon && bracket && colon < bracket)
        colon = NULL; /* inside an IPv6 address */
    size_t host_len = colon ? (size_t)(colon - authority) : len;
    if (colon && take_port(u, colon + 1, len - host_len - 1, err))
        return -1;
    bool is_file = strcmp(u->scheme, "file") == 0;
    if (!is_host(authority, host_len) && !(is_file && len == 0))
        return err_set(err, ERR_USAGE,
                       "not an address: %s://…: '%.*s' is no name of a host or bucket", u->scheme,
                       (int)(host_len < 100 ? host_len : 100), authority);
    u->host = xstrndup(authority, host_len);
    return check_bucket_port(u, err);
}

int uri_parse(struct uri *ret, const char *text, struct err *err)
{
    *ret = (struct uri){0};
    size_t n = scheme_len(text);
    if (!n && text[0] == '/')
        return err_set(err, ERR_USAGE, "not an address: %.1000s (of a folder it is file://%.1000s)",
                       text, text);
    if (!n) /* as above, not repeated where it may hold a password */
        return err_set(err, ERR_USAGE,
                       "not an address: %.1000s%sit must begin with file://, s3://, minio://, "
                       "bos://, http://, "
                       "webhdfs:// or hdfs://",
                       strchr(text, '@') ? "" : text, strchr(text, '@') || !*text ? "" : ": ");
    if (strlen(text) > URI_MAX)
        return err_set(err, ERR_USAGE, "not an address: longer than %d bytes", URI_MAX);
    struct uri u = {.scheme = xstrndup(text, n)};
    for (char *p = u.scheme; *p; p++)
        *p = (char)(*p >= 'A' && *p <= 'Z' ? *p + 32 : *p);
    const char *authority = text + n + 3;
    size_t len = strcspn(authority, "/");
    if (take_authority(&u, authority, len, err)) {
        uri_release(&u);
        return -1;
    }
    const char *path = authority + len;
    u.path = xstrdup(*path == '/' ? path + 1 : path);
    *ret = u;
    return 0;
}

void uri_release(struct uri *u)
{
    free(u->scheme);
    free(u->user);
    free(u->host);
    free(u->path);
    *u = (struct uri){0};
}

bool host_is_address(const char *host)
{
    if (host[0] == '[')
        return true;
    unsigned dots = 0;
    for (const char *p = host; *p; p++) {
        if (*p == '.')
            dots++;
        else if (*p < '0' || *p > '9')
            return false;
    }
    return dots == 3;
}

bool host_is_loopback(const char *host)
{
    size_t len = strlen(host);
    return strcmp(host, "localhost") == 0 || strcmp(host, "[::1]") == 0 ||
           (len > 10 && strcmp(host + len - 10, ".localhost") == 0) ||
           (strncmp(host, "127.", 4) == 0 && host_is_address(host));
}

char *prefix_from_path(const char *path)
{
    while (*path == '/')
        path++;
    size_t len = strlen(path);
    while (len && path[len - 1] == '/')
        len--;
    return len ? xasprintf("%.*s/", (int)len, path) : xstrdup("");
}
