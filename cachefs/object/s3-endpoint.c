/*
 * S3: where requests go. The rules, in words:
 *
 *   endpoint   --endpoint, else AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL or the profile's
 *              endpoint_url (that of s3 first), else what stands behind the bucket in
 *              s3://BUCKET.ENDPOINT/, else s3.REGION.amazonaws.com. Without a scheme it is https,
 *              but http on a loopback host. BUCKET.ENDPOINT is split before ".s3." or ".s3-" of an
 *              amazonaws.com name; else, if no endpoint was given, at the first dot when what
 *              follows has a dot, a port or is a loopback name.
 *   region     --region, AWS_REGION, AWS_DEFAULT_REGION, the profile's, the endpoint's, else
 *              us-east-1; a redirect corrects it.
 *   authorities  --ca-file, AWS_CA_BUNDLE, the profile's ca_bundle, else the system's.
 *   bucket     in the host's name for amazonaws.com, other clouds known to want it, and where the
 *              URI was written so; never for an address, a port, --path-style, or a bucket whose
 *              name is no host's (a dot would break the certificate's wildcard).
 */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "mem.h"
#include "s3-internal.h"

#define DEFAULT_REGION "us-east-1"

static bool ends_with(const char *text, const char *end)
{
    size_t n = strlen(text), m = strlen(end);
    return n >= m && strcasecmp(text + n - m, end) == 0;
}

static bool is_aws(const char *host)
{
    return ends_with(host, ".amazonaws.com") || ends_with(host, ".amazonaws.com.cn");
}

static bool wants_bucket_in_host(const char *host)
{
    static const char *const domains[] = {
        ".aliyuncs.com", ".myqcloud.com",           ".myhuaweicloud.com", ".volces.com",
        ".bcebos.com",   ".digitaloceanspaces.com", ".wasabisys.com",     ".ksyuncs.com",
    };
    if (is_aws(host))
        return true;
    for (size_t i = 0; i < sizeof domains / sizeof domains[0]; i++)
        if (ends_with(host, domains[i]))
            return true;
    return false;
}

static bool bucket_is_host_label(const char *bucket)
{
    size_t len = strlen(bucket);
    return len >= 3 && len <= 63 &&
           strspn(bucket, "abcdefghijklmnopqrstuvwxyz0123456789-") == len && bucket[0] != '-' &&
           bucket[len - 1] != '-';
}

bool s3_region_of_host(const char *host, char *ret, size_t size)
{
    const char *domain = strstr(host, ".amazonaws.com");
    const char *s3 = NULL;
    for (const char *p = host; domain && (p = strstr(p, "s3")) && p < domain; p += 2)
        if ((p == host || p[-1] == '.') && (p[2] == '.' || p[2] == '-'))
            s3 = p;
    if (!s3)
        return false;
    const char *region = s3 + 3;
    if (strncmp(region, "dualstack.", 10) == 0)
        region += 10;
    if (region >= domain)
        return false;
    size_t len = (size_t)(domain - region);
    if (len == 0 || len >= size || memchr(region, '.', len) || !memchr(region, '-', len))
        return false;
    memcpy(ret, region, len);
    ret[len] = '\0';
    return true;
}

static char *aws_base(const char *region)
{
    bool china = strncmp(region, "cn-", 3) == 0;
    return xasprintf("https://s3.%s.amazonaws.com%s", region, china ? ".cn" : "");
}

/* --- opening --------------------------------------------------------------------------------- */

/* "https://host:port/path" from what a person wrote. */
static int take_endpoint(const char *text, struct uri *ret, char **ret_base, struct err *err)
{
    cleanup_free char *whole = NULL;
    if (strstr(text, "://")) {
        whole = xstrdup(text);
    } else {
        const char *close = text[0] == '[' ? strchr(text, ']') : NULL; /* of an IPv6 address */
        size_t len = close ? (size_t)(close + 1 - text) : strcspn(text, ":/");
        cleanup_free char *host = xstrndup(text, len);
        whole = xasprintf("%s://%s", host_is_loopback(host) ? "http" : "https", text);
    }
    if (uri_parse(ret, whole, err))
        return err_wrap(err, "--endpoint");
    if (strcmp(ret->scheme, "http") != 0 && strcmp(ret->scheme, "https") != 0)
        return err_set(err, ERR_USAGE, "--endpoint: %s://…: want http:// or https://", ret->scheme);
    size_t len = strlen(ret->path);
    while (len && ret->path[len - 1] == '/')
        ret->path[--len] = '\0';
    *ret_base = ret->port
                    ? xasprintf("%s://%s:%u%s%s", ret->scheme, ret->host, ret->port, len ? "/" : "",
                                ret->path)
                    : xasprintf("%s://%s%s%s", ret->scheme, ret->host, len ? "/" : "", ret->path);
    return 0;
}

/* Where the bucket ends in "BUCKET.ENDPOINT"; NULL: it is all bucket. */
static const char *bucket_end(const struct uri *u, bool has_endpoint)
{
    if (is_aws(u->host)) {
        const char *s3 = strstr(u->host, ".s3.");
        return s3 ? s3 : strstr(u->host, ".s3-");
    }
    const char *dot = strchr(u->host, '.');
    if (!dot || (has_endpoint && !u->port))
        return NULL;
    return strchr(dot + 1, '.') || u->port || host_is_loopback(dot + 1) ? dot : NULL;
}

static char *find_region(const struct store_conf *conf)
{
    if (conf->region)
        return xstrdup(conf->region);
    const char *env = env_get("AWS_REGION");
    env = env ? env : env_get("AWS_DEFAULT_REGION");
    if (env)
        return xstrdup(env);
    struct bytes value = {0};
    if (!conf->anonymous && profile_value("region", &value))
        return bytes_take(&value);
    bytes_release(&value);
    return NULL;
}

char *store_endpoint(const struct store_conf *conf)
{
    if (conf->endpoint)
        return xstrdup(conf->endpoint);
    const char *env = env_get("AWS_ENDPOINT_URL_S3");
    env = env ? env : env_get("AWS_ENDPOINT_URL");
    if (env)
        return xstrdup(env);
    struct bytes value = {0};
    if (!conf->anonymous && profile_endpoint("s3", &value))
        return bytes_take(&value);
    bytes_release(&value);
    return NULL;
}

/* Who signs certificates, where --ca-file does not say. */
static int find_authorities(struct store *s, const struct store_conf *conf, struct err *err)
{
    cleanup_bytes struct bytes value = {0};
    const char *path = env_get("AWS_CA_BUNDLE"), *from = path ? "AWS_CA_BUNDLE" : "ca_bundle";
    if (s->ca_file)
        return 0;
    if (!path && !conf->anonymous && profile_value("ca_bundle", &value))
        path = value.data;
    if (!path)
        return 0;
    if (access(path, R_OK))
        return err_sys(err, errno, "%s: %s", from, path);
    s->peer.ca_file = s->ca_file = xstrdup(path);
    return 0;
}

/* From "https://host" to "https://bucket.host". */
static void put_bucket_in_host(struct store *s)
{
    const char *host = strstr(s->endpoint.base, "://") + 3;
    char *base =
        xasprintf("%.*s%s.%s", (int)(host - s->endpoint.base), s->endpoint.base, s->bucket, host);
    free(s->endpoint.base);
    s->endpoint.base = base;
    s->endpoint.bucket_in_host = true;
}

static int open_minio(struct store *s, const struct uri *u, const char *region, struct err *err)
{
    const char *path = u->path + strspn(u->path, "/");
    size_t len = strcspn(path, "/");
    if (!len)
        return err_set(err, ERR_USAGE, "no bucket: %s://%s/: want %s://HOST:PORT/BUCKET/PREFIX",
                       u->scheme, u->host, u->scheme);
    s->bucket = xstrndup(path, len);
    s->prefix = prefix_from_path(path + len);
    const char *scheme = strcmp(u->scheme, "minios") == 0 ? "https" : "http";
    s->endpoint.base = u->port ? xasprintf("%s://%s:%u", scheme, u->host, u->port)
                               : xasprintf("%s://%s", scheme, u->host);
    s->endpoint.region = xstrdup(region ? region : DEFAULT_REGION);
    s->creds_conf.kind = CREDS_MINIO;
    s->uri = u->port
                 ? xasprintf("%s://%s:%u/%s/%s", u->scheme, u->host, u->port, s->bucket, s->prefix)
                 : xasprintf("%s://%s/%s/%s", u->scheme, u->host, s->bucket, s->prefix);
    return 0;
}

static int open_s3(struct store *s, const struct uri *u, const char *endpoint, const char *region,
                   struct err *err)
{
    cleanup_uri struct uri e = {0};
    cleanup_free char *written = NULL; /* the endpoint that the URI names */
    char found[64];
    const char *end = bucket_end(u, endpoint != NULL);
    s->bucket = end ? xstrndup(u->host, (size_t)(end - u->host)) : xstrdup(u->host);
    s->prefix = prefix_from_path(u->path);
    if (end && !endpoint)
        endpoint = written = u->port ? xasprintf("%s:%u", end + 1, u->port) : xstrdup(end + 1);
    else if (u->port && !end)
        return err_set(err, ERR_USAGE, "no bucket: %s://%s:%u/: want s3://BUCKET.HOST:PORT/PREFIX",
                       u->scheme, u->host, u->port);
    if (endpoint && take_endpoint(endpoint, &e, &s->endpoint.base, err))
        return -1;
    if (!region && endpoint && s3_region_of_host(e.host, found, sizeof found))
        region = found;
    s->endpoint.region = xstrdup(region ? region : DEFAULT_REGION);
    if (!endpoint)
        s->endpoint.base = aws_base(s->endpoint.region);
    s->endpoint.region_in_host = !endpoint || is_aws(e.host);
    bool in_host = !endpoint || wants_bucket_in_host(e.host) || written;
    if (endpoint && (e.port || host_is_address(e.host) || host_is_loopback(e.host) || *e.path))
        in_host = false;
    if (in_host && !s->path_style && bucket_is_host_label(s->bucket))
        put_bucket_in_host(s);
    s->uri = written ? xasprintf("s3://%s.%s/%s", s->bucket, written, s->prefix)
                     : xasprintf("s3://%s/%s", s->bucket, s->prefix);
    return 0;
}

int s3_open(struct store *s, const struct uri *u, const struct store_conf *conf, struct err *err)
{
    if (u->user)
        return err_set(err, ERR_USAGE,
                       "a user in an address is refused: %s://…@%s (use --credentials or the "
                       "environment)",
                       u->scheme, u->host);
    if (find_authorities(s, conf, err))
        return -1;
    cleanup_free char *region = find_region(conf);
    if (strcmp(u->scheme, "s3") != 0)
        return open_minio(s, u, region, err);
    cleanup_free char *endpoint = store_endpoint(conf);
    s->creds_conf.region = region ? xstrdup(region) : NULL;
    return open_s3(s, u, endpoint, region, err);
}

/* --- learning from answers ------------------------------------------------------------------- */

/* The region in "Credential=AK/DATE/REGION/s3/aws4_request" of a request. */
static bool signed_for(const struct http_req *r, const char *region)
{
    const char *auth = http_header_get(r, "Authorization");
    const char *p = auth ? strstr(auth, "Credential=") : NULL;
    for (int slashes = 0; p && slashes < 2; slashes++) {
        p = strchr(p, '/');
        p = p ? p + 1 : NULL;
    }
    size_t len = strlen(region);
    return p && strncmp(p, region, len) == 0 && p[len] == '/';
}

static bool is_region(const char *text)
{
    size_t len = strlen(text);
    return len > 0 && len < 64 && strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789-_") == len;
}

bool s3_learn_region(struct store *s, const struct http_req *used, const char *region)
{
    if (!is_region(region))
        return false;
    ACQUIRE(&s->lock);
    bool same = strcmp(s->endpoint.region, region) == 0;
    if (same && s->endpoint.region_in_host && !strstr(request_url(used), region))
        return true; /* learned meanwhile: this request went to the old host */
    if (same)
        return !s->creds_conf.anonymous && !signed_for(used, region);
    free(s->endpoint.region);
    s->endpoint.region = xstrdup(region);
    if (s->endpoint.region_in_host) {
        free(s->endpoint.base);
        s->endpoint.base = aws_base(region);
        if (s->endpoint.bucket_in_host)
            put_bucket_in_host(s);
    }
    return true;
}

/* "scheme://authority" of both must differ, and TLS is never given up. */
bool s3_learn_host(struct store *s, const struct http_req *used, const char *location)
{
    const char *host = strstr(location, "://");
    bool tls = strncasecmp(location, "https://", 8) == 0;
    if (!host || (!tls && strncasecmp(location, "http://", 7) != 0))
        return false;
    host += 3;
    size_t len = (size_t)(host - location) + strcspn(host, "/?#");
    if (memchr(location, '@', len) ||
        (strncmp(request_url(used), location, len) == 0 && strchr("/?#", request_url(used)[len])))
        return false;
    ACQUIRE(&s->lock);
    if (!tls && strncmp(s->endpoint.base, "https:", 6) == 0)
        return false;
    cleanup_free char *base = xstrndup(location, len);
    size_t bucket_len = strlen(s->bucket);
    bool in_host = strncmp(host, s->bucket, bucket_len) == 0 && host[bucket_len] == '.';
    char region[64];
    if (s3_region_of_host(host, region, sizeof region)) {
        free(s->endpoint.region);
        s->endpoint.region = xstrdup(region);
    }
    free(s->endpoint.base);
    s->endpoint.base = take_ptr(&base);
    s->endpoint.bucket_in_host = in_host;
    return true;
}
