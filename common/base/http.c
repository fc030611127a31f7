/* Requests as data, and the options of the HTTP library that they become. */
#include "http.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "clock.h"
#include "mem.h"

#define REDIRECTS_MAX    5L
#define CONNECT_TIMEOUT  (10 * NS_PER_S)
#define KEEPALIVE_IDLE_S 30L

void http_req_init(struct http_req *r, enum http_method method)
{
    *r = (struct http_req){.method = method};
}

void http_req_release(struct http_req *r)
{
    /* Headers and presigned URLs carry secrets. */
    for (size_t i = 0; i < r->n_headers; i++)
        bytes_wipe(&r->headers[i]);
    bytes_wipe(&r->url);
    *r = (struct http_req){.method = r->method};
}

static struct bytes *find_header(const struct http_req *r, const char *name)
{
    size_t len = strlen(name);
    for (size_t i = 0; i < r->n_headers; i++)
        if (strncasecmp(r->headers[i].data, name, len) == 0 && r->headers[i].data[len] == ':')
            return (struct bytes *)&r->headers[i];
    return NULL;
}

void http_header(struct http_req *r, const char *name, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    cleanup_free char *value = xvasprintf(fmt, ap);
    va_end(ap);
    for (char *p = value; *p; p++)
        if (*p == '\r' || *p == '\n')
            *p = ' '; /* a value never ends its header */
    struct bytes *b = find_header(r, name);
    if (!b) {
        if (r->n_headers == HTTP_MAX_HEADERS)
            abort(); /* our own requests: a bound that no request comes near */
        b = &r->headers[r->n_headers++];
    }
    bytes_clear(b);
    bytes_addf(b, "%s: %s", name, value);
    explicit_bzero(value, strlen(value));
}

const char *http_header_get(const struct http_req *r, const char *name)
{
    const struct bytes *b = find_header(r, name);
    return b ? b->data + strlen(name) + 2 : NULL;
}

/* --- options ---------------------------------------------------------------------------------- */

static int append(struct curl_slist **list, const char *line, struct err *err)
{
    struct curl_slist *longer = curl_slist_append(*list, line);
    if (!longer)
        return err_set(err, ERR_LIMIT, "out of memory: request headers");
    *list = longer;
    return 0;
}

static int build_headers(const struct http_req *r, struct curl_slist **list, struct err *err)
{
    for (size_t i = 0; i < r->n_headers; i++) {
        const struct bytes *h = &r->headers[i];
        if (h->len < 2 || h->data[h->len - 2] != ':') {
            if (append(list, h->data, err))
                return -1;
            continue;
        }
        /* The library drops "Name:"; "Name;" is how it is told to send an empty one. */
        cleanup_free char *empty = xasprintf("%.*s;", (int)h->len - 2, h->data);
        if (append(list, empty, err))
            return -1;
    }
    /* What the library would add by itself and a signature or a server would not expect. */
    if (append(list, "Expect:", err))
        return -1;
    if (!http_header_get(r, "Content-Type") && append(list, "Content-Type:", err))
        return -1;
    return 0;
}

static CURLcode set_method(CURL *easy, const struct http_req *r)
{
    /* The body first: setting it makes the request a POST, which the methods below take back. */
    bool sends = r->method == HTTP_PUT || r->method == HTTP_POST || r->method == HTTP_PATCH ||
                 (r->method == HTTP_DELETE && r->body_len);
    const char *body = sends ? (r->body_len ? r->body : "") : NULL;
    CURLcode c =
        curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)(sends ? r->body_len : 0));
    c = c ? c : curl_easy_setopt(easy, CURLOPT_POSTFIELDS, body);
    c = c ? c : curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, NULL);
    c = c ? c : curl_easy_setopt(easy, CURLOPT_HTTPGET, 1L);
    if (c)
        return c;
    switch (r->method) {
    case HTTP_HEAD:
        return curl_easy_setopt(easy, CURLOPT_NOBODY, 1L);
    case HTTP_DELETE:
        c = sends ? curl_easy_setopt(easy, CURLOPT_POST, 1L) : CURLE_OK;
        return c ? c : curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, "DELETE");
    case HTTP_PATCH:
        c = curl_easy_setopt(easy, CURLOPT_POST, 1L);
        return c ? c : curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, "PATCH");
    case HTTP_PUT:
        c = curl_easy_setopt(easy, CURLOPT_POST, 1L);
        return c ? c : curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, "PUT");
    case HTTP_POST:
        return curl_easy_setopt(easy, CURLOPT_POST, 1L);
    default:
        return CURLE_OK;
    }
}

/* The library reads HTTPS_PROXY, http_proxy and NO_PROXY itself, but not HTTP_PROXY (which a CGI
 * client could forge; nothing here is a CGI program). */
static const char *proxy_for(const struct http_req *r, const struct http_peer *peer)
{
    if (peer->proxy)
        return peer->proxy;
    if (strncasecmp(r->url.data, "http://", 7) == 0 && !getenv("http_proxy"))
        return getenv("HTTP_PROXY");
    return NULL;
}

/* Certificates that are given as text. The library copies them. */
static CURLcode set_pems(CURL *easy, const struct http_peer *peer)
{
    const struct {
        CURLoption option;
        const char *pem;
    } pems[] = {{CURLOPT_CAINFO_BLOB, peer->ca_pem},
                {CURLOPT_SSLCERT_BLOB, peer->cert_pem},
                {CURLOPT_SSLKEY_BLOB, peer->key_pem}};
    CURLcode c = CURLE_OK;
    for (size_t i = 0; i < sizeof pems / sizeof pems[0] && !c; i++) {
        if (!pems[i].pem)
            continue;
        struct curl_blob blob = {
            .data = (void *)pems[i].pem, .len = strlen(pems[i].pem), .flags = CURL_BLOB_COPY};
        c = curl_easy_setopt(easy, pems[i].option, &blob);
    }
    return c;
}

/* As OpenSSL's programs and curl take it from the environment; the library does not. */
static const char *authorities(const char *variable, const char *systems)
{
    const char *set = getenv(variable);
    return set && *set ? set : systems;
}

static CURLcode set_peer(CURL *easy, const struct http_req *r, const struct http_peer *peer)
{
    const curl_version_info_data *lib = curl_version_info(CURLVERSION_NOW);
    bool own = peer->ca_file || peer->ca_pem;
    const char *ca_file = own ? peer->ca_file : authorities("SSL_CERT_FILE", lib->cainfo);
    const char *ca_path = own ? NULL : authorities("SSL_CERT_DIR", lib->capath);
    uint64_t connect_ns = peer->connect_timeout_ns ? peer->connect_timeout_ns : CONNECT_TIMEOUT;
    CURLcode c = curl_easy_setopt(easy, CURLOPT_CAINFO, ca_file);
    c = c ? c : curl_easy_setopt(easy, CURLOPT_CAPATH, ca_path);
    c = c ? c : set_pems(easy, peer);
    c = c ? c : curl_easy_setopt(easy, CURLOPT_SSL_VERIFYPEER, peer->no_verify ? 0L : 1L);
    c = c ? c : curl_easy_setopt(easy, CURLOPT_SSL_VERIFYHOST, peer->no_verify ? 0L : 2L);
    c = c ? c : curl_easy_setopt(easy, CURLOPT_PROXY, proxy_for(r, peer));
    c = c ? c : curl_easy_setopt(easy, CURLOPT_UNIX_SOCKET_PATH, peer->unix_path);
    c = c ? c
          : curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS,
                             (long)((connect_ns + NS_PER_MS - 1) / NS_PER_MS));
    return c;
}

int http_prepare(CURL *easy, struct err *err)
{
    static const struct {
        CURLoption option;
        long value;
    } longs[] = {
        {CURLOPT_NOSIGNAL, 1},
        {CURLOPT_NETRC, CURL_NETRC_IGNORED},
        {CURLOPT_TCP_NODELAY, 1},
        {CURLOPT_TCP_KEEPALIVE, 1},
        {CURLOPT_TCP_KEEPIDLE, KEEPALIVE_IDLE_S},
        {CURLOPT_MAXREDIRS, REDIRECTS_MAX},
        {CURLOPT_PATH_AS_IS, 1}, /* "a/../b" is a key like any other */
        {CURLOPT_DISALLOW_USERNAME_IN_URL, 1},
        {CURLOPT_SUPPRESS_CONNECT_HEADERS, 1},
        {CURLOPT_HTTP_VERSION, CURL_HTTP_VERSION_2TLS},
    };
    CURLcode c = CURLE_OK;
    for (size_t i = 0; i < sizeof longs / sizeof longs[0] && !c; i++)
        c = curl_easy_setopt(easy, longs[i].option, longs[i].value);
    c = c ? c : curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
    c = c ? c : curl_easy_setopt(easy, CURLOPT_ACCEPT_ENCODING, NULL);
    c = c ? c : curl_easy_setopt(easy, CURLOPT_USERAGENT, HTTP_AGENT);
    return c ? err_set(err, ERR_FAILED, "set up a request: %s", curl_easy_strerror(c)) : 0;
}

bool http_is_tls(const char *url)
{
    return strncasecmp(url, "https:", 6) == 0;
}

/* What was asked for over TLS comes over TLS, wherever it comes from. */
static CURLcode set_redirects(CURL *easy, const struct http_req *r)
{
    const char *allowed = http_is_tls(r->url.data) ? "https" : "http,https";
    CURLcode c = curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, r->follow ? 1L : 0L);
    return c ? c : curl_easy_setopt(easy, CURLOPT_REDIR_PROTOCOLS_STR, allowed);
}

int http_apply(CURL *easy, const struct http_req *r, const struct http_peer *peer,
               struct curl_slist **ret_list, struct err *err)
{
    struct curl_slist *list = NULL;
    if (build_headers(r, &list, err)) {
        curl_slist_free_all(list);
        return -1;
    }
    CURLcode c = set_peer(easy, r, peer);
    c = c ? c : set_redirects(easy, r);
    c = c ? c : curl_easy_setopt(easy, CURLOPT_URL, r->url.data);
    c = c ? c : set_method(easy, r);
    c = c ? c : curl_easy_setopt(easy, CURLOPT_HTTPHEADER, list);
    if (c) {
        curl_slist_free_all(list);
        return err_set(err, ERR_FAILED, "set up a request: %s", curl_easy_strerror(c));
    }
    *ret_list = list;
    return 0;
}

/* --- one request that waits ------------------------------------------------------------------- */

struct sink {
    struct bytes *body;
    size_t max;
    bool too_long;
    struct http_answer *answer;
};

static size_t take_body(char *data, size_t size, size_t n, void *arg)
{
    struct sink *sink = arg;
    size_t len = size * n;
    if (len > sink->max - sink->body->len) {
        sink->too_long = true;
        return CURL_WRITEFUNC_ERROR;
    }
    bytes_add(sink->body, data, len);
    return len;
}

static size_t take_header(char *data, size_t size, size_t n, void *arg)
{
    struct sink *sink = arg;
    http_answer_line(sink->answer, data, size * n);
    return size * n;
}

int http_do(const struct http_req *r, const struct http_peer *peer, uint64_t timeout_ns,
            size_t max_body, struct http_answer *ret, struct bytes *body, struct err *err)
{
    CURL *easy = curl_easy_init();
    if (!easy)
        return err_set(err, ERR_LIMIT, "out of memory: a request");
    bytes_clear(body);
    struct http_answer answer;
    http_answer_init(&answer);
    struct sink sink = {.body = body, .max = max_body, .answer = &answer};
    struct curl_slist *list = NULL;
    char detail[CURL_ERROR_SIZE] = "";
    int result = http_prepare(easy, err);
    if (result == 0)
        result = http_apply(easy, r, peer, &list, err);
    if (result == 0) {
        long ms = (long)((timeout_ns + NS_PER_MS - 1) / NS_PER_MS);
        curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, ms);
        curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, take_body);
        curl_easy_setopt(easy, CURLOPT_WRITEDATA, &sink);
        curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, take_header);
        curl_easy_setopt(easy, CURLOPT_HEADERDATA, &sink);
        curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, detail);
        CURLcode code = curl_easy_perform(easy);
        if (sink.too_long)
            result = err_set(err, ERR_LIMIT, "answer longer than %zu bytes", max_body);
        else if (code)
            result = http_transport_error(code, detail, r->url.data, err);
        else
            *ret = answer;
    }
    curl_easy_cleanup(easy);
    curl_slist_free_all(list);
    return result;
}

/* --- words for failures ----------------------------------------------------------------------- */

struct failure {
    CURLcode code;
    enum err_class class;
    const char *what;
    const char *todo;
};

static const struct failure failures[] = {
    {CURLE_COULDNT_RESOLVE_HOST, ERR_TRANSIENT, "could not resolve the host's name",
     "check the name, --endpoint and the network's DNS"},
    {CURLE_COULDNT_RESOLVE_PROXY, ERR_TRANSIENT, "could not resolve the proxy's name",
     "check --proxy, HTTPS_PROXY and HTTP_PROXY, or add the host to NO_PROXY"},
    {CURLE_PROXY, ERR_TRANSIENT, "the proxy failed",
     "check --proxy, HTTPS_PROXY and HTTP_PROXY, or add the host to NO_PROXY"},
    {CURLE_COULDNT_CONNECT, ERR_TRANSIENT, "could not connect",
     "is the server running, are host and port right, does a firewall or a proxy stand between?"},
    {CURLE_OPERATION_TIMEDOUT, ERR_TRANSIENT, "no answer in time",
     "the server or the network is too slow or down"},
    {CURLE_PEER_FAILED_VERIFICATION, ERR_FAILED, "the server's certificate is not trusted",
     "give the authority that signed it with --ca-file"},
    {CURLE_SSL_CACERT_BADFILE, ERR_USAGE, "cannot read the certificate authorities",
     "check the file given with --ca-file or SSL_CERT_FILE"},
    {CURLE_SSL_CONNECT_ERROR, ERR_TRANSIENT, "TLS failed",
     "does the server speak https on this port? see --ca-file for a private authority"},
    {CURLE_URL_MALFORMAT, ERR_USAGE, "not a usable address", "check the URI and --endpoint"},
    {CURLE_UNSUPPORTED_PROTOCOL, ERR_USAGE, "not an http or https address",
     "check the URI and --endpoint"},
    {CURLE_TOO_MANY_REDIRECTS, ERR_FAILED, "redirected in circles", "check the URI"},
    {CURLE_LOGIN_DENIED, ERR_USAGE, "a password in an address is refused",
     "use --credentials or the environment"},
    {CURLE_ABORTED_BY_CALLBACK, ERR_CANCELLED, "cancelled", NULL},
    {CURLE_OUT_OF_MEMORY, ERR_LIMIT, "out of memory", NULL},
};

/* A certificate that its authority does not help. */
static const char *const cures[][2] = {
    {"has expired", "renew it; or is this machine's clock wrong?"},
    {"not yet valid", "is this machine's clock wrong?"},
    {"subject name", "call the server by a name that its certificate has"},
};

static const char *cure_of(const struct failure *f, const char *why)
{
    for (size_t i = 0; i < sizeof cures / sizeof cures[0]; i++)
        if (f->code == CURLE_PEER_FAILED_VERIFICATION && strstr(why, cures[i][0]))
            return cures[i][1];
    return f->todo;
}

/* "scheme://host:port" alone: paths and queries may hold what is nobody's business. */
static void origin_of(const char *url, struct bytes *out)
{
    const char *host = strstr(url, "://");
    host = host ? host + 3 : url;
    size_t len = strcspn(host, "/?#");
    const char *at = memchr(host, '@', len);
    if (at) {
        len -= (size_t)(at + 1 - host);
        bytes_add(out, url, strstr(url, "://") ? (size_t)(strstr(url, "://") + 3 - url) : 0);
        bytes_add(out, at + 1, len);
        return;
    }
    bytes_add(out, url, (size_t)(host - url) + len);
}

/* What a proxy answered instead of leading us through to a TLS server; 0: it is not that. The
 * library tells it in words alone once the transfer has ended. */
static int tunnel_refusal(const char *why)
{
    const char *said = strstr(why, "CONNECT tunnel failed, response ");
    return said ? atoi(strrchr(said, ' ')) : 0;
}

static int tunnel_error(int status, const char *where, const char *why, struct err *err)
{
    if (status == 407 || status == 401)
        return err_set(err, ERR_DENIED,
                       "the proxy wants a password: %s: %s (check that of --proxy, HTTPS_PROXY and "
                       "HTTP_PROXY)",
                       where, why);
    return err_set(err, status >= 500 ? ERR_TRANSIENT : ERR_DENIED,
                   "the proxy does not lead there: %s: %s (check --proxy, HTTPS_PROXY and "
                   "HTTP_PROXY, or add the host to NO_PROXY)",
                   where, why);
}

int http_redirect_refused(const char *url, struct err *err)
{
    cleanup_bytes struct bytes origin = {0};
    origin_of(url, &origin);
    return err_set(err, ERR_FAILED,
                   "redirected to an address that is refused: %s: %s (give the address that serves "
                   "it in the URI)",
                   origin.data ? origin.data : "?",
                   http_is_tls(url) ? "what is asked for over TLS comes over TLS"
                                    : "neither http nor https");
}

/* The library says to the millisecond how long it waited. One failure is to have one text, whenever
 * it comes again (whoever tells it compares them): seconds are enough, if it was that long. */
static char *in_seconds(const char *why)
{
    static const char after[] = " after ";
    const char *at = strstr(why, after);
    char *unit = NULL;
    unsigned long ms = at ? strtoul(at + sizeof after - 1, &unit, 10) : 0;
    if (!at || (strncmp(unit, " ms", 3) != 0 && strncmp(unit, " milliseconds", 13) != 0))
        return xstrdup(why);
    int head = (int)(at - why);
    const char *rest = unit + (unit[2] == 's' ? 3 : 13);
    return ms < 1000 ? xasprintf("%.*s%s", head, why, rest)
                     : xasprintf("%.*s after %lu s%s", head, why, (ms + 500) / 1000, rest);
}

int http_transport_error(CURLcode code, const char *detail, const char *url, struct err *err)
{
    cleanup_bytes struct bytes origin = {0};
    origin_of(url, &origin);
    const char *where = origin.data ? origin.data : "?";
    cleanup_free char *why = in_seconds(detail && *detail ? detail : curl_easy_strerror(code));
    int refused = tunnel_refusal(why);
    if (refused)
        return tunnel_error(refused, where, why, err);
    for (size_t i = 0; i < sizeof failures / sizeof failures[0]; i++) {
        const struct failure *f = &failures[i];
        if (f->code != code)
            continue;
        if (!f->todo)
            return err_set(err, f->class, "%s: %s", f->what, where);
        return err_set(err, f->class, "%s: %s: %s (%s)", f->what, where, why, cure_of(f, why));
    }
    return err_set(err, ERR_TRANSIENT, "transfer failed: %s: %s", where, why);
}
