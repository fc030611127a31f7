/*
 * The HTTP library's side: one thread a connection, so that a handler may wait for an owner and
 * nobody else notices. Who may ask is decided before a byte of the body is taken; a body has a
 * limit; a connection that says nothing ends.
 */
#define LOG_MODULE "server"
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "clock.h"
#include "log.h"
#include "mem.h"
#include "server-internal.h"

#define STACK_BYTES      (256u << 10)
#define CONNECTION_BYTES (32u << 10) /* headers of a request at most */
#define PEM_MAX          (256u << 10)
#define CERT_LOOK_S      5   /* how soon a renewed certificate is taken over */
#define CERT_AGAIN       60  /* looks until a pair that was of no use is tried again as it is */
#define RETIRE_TRIES     100 /* tenths of a second */

const char *request_header(const struct request *r, const char *name)
{
    return MHD_lookup_connection_value(r->connection, MHD_HEADER_KIND, name);
}

const char *request_query(const struct request *r, const char *name)
{
    return MHD_lookup_connection_value(r->connection, MHD_GET_ARGUMENT_KIND, name);
}

/* --- answers ---------------------------------------------------------------------------------- */

static unsigned status_of_error(const struct err *err)
{
    if (err_errno(err) == EEXIST)
        return MHD_HTTP_CONFLICT;
    switch (err->class) {
    case ERR_USAGE:
        return MHD_HTTP_BAD_REQUEST;
    case ERR_NOT_FOUND:
        return MHD_HTTP_NOT_FOUND;
    case ERR_DENIED:
        return MHD_HTTP_FORBIDDEN;
    case ERR_STALE:
        return MHD_HTTP_CONFLICT;
    case ERR_LIMIT:
        return MHD_HTTP_INSUFFICIENT_STORAGE;
    case ERR_TRANSIENT:
        return MHD_HTTP_SERVICE_UNAVAILABLE;
    default:
        return MHD_HTTP_INTERNAL_SERVER_ERROR;
    }
}

static void answer_text(struct answer *a, unsigned status, const char *class, const char *text)
{
    struct json_writer w;
    bytes_clear(&a->body);
    jw_init(&w, &a->body);
    jw_object(&w, NULL);
    jw_str(&w, "error", text);
    jw_str(&w, "class", class);
    jw_end(&w);
    a->status = status;
    a->type = NULL;
}

int request_json(const struct request *r, struct json_doc **ret, struct err *err)
{
    if (json_parse(ret, "body", r->body.data ? r->body.data : "", r->body.len, err) == 0)
        return 0;
    if (err)
        err->class = ERR_USAGE; /* the client's, not ours */
    return -1;
}

void answer_error(struct answer *a, const struct err *err)
{
    answer_text(a, status_of_error(err), err_class_name(err->class), err->msg);
}

void answer_json(struct answer *a, struct json_writer *w)
{
    a->status = MHD_HTTP_OK;
    jw_init(w, &a->body);
}

static enum MHD_Result send_answer(struct MHD_Connection *c, struct answer *a)
{
    const struct reply_header more[] = {
        {MHD_HTTP_HEADER_CACHE_CONTROL, "no-store"},
        {"X-Content-Type-Options", "nosniff"},
        {MHD_HTTP_HEADER_ALLOW, a->allow},
        {MHD_HTTP_HEADER_RETRY_AFTER, a->status == MHD_HTTP_TOO_MANY_REQUESTS ? "1" : NULL},
        {MHD_HTTP_HEADER_LOCATION, a->location[0] ? a->location : NULL},
        {MHD_HTTP_HEADER_WWW_AUTHENTICATE, a->status == MHD_HTTP_UNAUTHORIZED ? "Bearer" : NULL},
        {NULL, NULL},
    };
    return http_reply(c, a->status, a->type ? a->type : HTTP_JSON, a->body.data, a->body.len, more);
}

static enum MHD_Result send_refusal(struct request *r, unsigned status, const char *class,
                                    const char *text, const char *allow)
{
    struct answer a = {.allow = allow};
    counter_add(&r->server->refused, 1);
    answer_text(&a, status, class, text);
    enum MHD_Result rc = send_answer(r->connection, &a);
    bytes_release(&a.body);
    return rc;
}

static enum MHD_Result refuse(struct request *r, unsigned status, const char *class,
                              const char *text)
{
    return send_refusal(r, status, class, text, NULL);
}

/* --- a request -------------------------------------------------------------------------------- */

static const struct sockaddr *peer_of(const struct request *r)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(r->connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    return info ? info->client_addr : NULL;
}

static bool may_ask(const struct request *r)
{
    struct auth *auth = &r->server->auth;
    if (r->route->guard == OPEN ||
        auth_token_is(auth, request_header(r, MHD_HTTP_HEADER_AUTHORIZATION)))
        return true;
    const struct sockaddr *peer = peer_of(r);
    return r->route->guard == COMPAT && peer && auth_is_compat_peer(auth, peer);
}

static bool is_foreign_page(const struct request *r)
{
    return r->route->guard != OPEN &&
           auth_is_foreign_page(r->server->conf.no_auth, request_header(r, "Sec-Fetch-Site"),
                                request_header(r, MHD_HTTP_HEADER_ORIGIN),
                                request_header(r, MHD_HTTP_HEADER_HOST));
}

/* What a client should not have asked weighs more than what it may. */
static enum MHD_Result refuse_client(struct request *r, unsigned status, const char *class,
                                     const char *text)
{
    limits_refused(&r->server->limits, peer_of(r), clock_mono_ns());
    return refuse(r, status, class, text);
}

static enum MHD_Result refuse_method(struct request *r, const char *methods)
{
    limits_refused(&r->server->limits, peer_of(r), clock_mono_ns());
    return send_refusal(r, MHD_HTTP_METHOD_NOT_ALLOWED, "usage",
                        "this path does not take this method (docs/openapi.yaml)", methods);
}

static bool is_end(const char *key, const char *name)
{
    size_t len = strlen(name);
    return strncasecmp(key, name, len) == 0 && (!key[len] || key[len] == ' ' || key[len] == '\t');
}

static enum MHD_Result count_ends(void *arg, enum MHD_ValueKind kind, const char *key,
                                  const char *value)
{
    unsigned *n = arg;
    (void)kind, (void)value;
    if (is_end(key, MHD_HTTP_HEADER_CONTENT_LENGTH) ||
        is_end(key, MHD_HTTP_HEADER_TRANSFER_ENCODING))
        *n += strpbrk(key, " \t") ? 2 : 1; /* with a blank it is none to the library */
    return MHD_YES;
}

/* A proxy before us might see the request's end elsewhere than the library does. */
static bool has_two_ends(const struct request *r)
{
    unsigned n = 0;
    MHD_get_connection_values(r->connection, MHD_HEADER_KIND, count_ends, &n);
    return n > 1;
}

/* By its length, which the library has checked; of one in chunks it shows as it comes. */
static bool says_too_large(const struct request *r)
{
    const char *length = request_header(r, MHD_HTTP_HEADER_CONTENT_LENGTH);
    return length && strtoull(length, NULL, 10) > route_body_max(r->route);
}

static enum MHD_Result refuse_body(struct request *r)
{
    return refuse(r, MHD_HTTP_CONTENT_TOO_LARGE, "limit",
                  route_body_max(r->route) > BODY_MAX
                      ? "the body is larger than 64 MiB (send it in parts)"
                      : "the body is larger than 1 MiB (POST a long list of "
                        "paths to /v1/lists and name its digest)");
}

/* The head is here: is there such a route, may this client use it, and has its body room? If not,
 * the answer is queued, and the library takes no body. */
static enum MHD_Result begin(struct request *r, const char *method, const char *url)
{
    struct server *s = r->server;
    char methods[METHODS_MAX];
    counter_add(&s->requests, 1);
    http_clients_step(r->connection, STEP_REQUEST);
    if (!limits_take(&s->limits, peer_of(r), r->began_ns)) {
        counter_add(&s->limited, 1);
        return refuse(r, MHD_HTTP_TOO_MANY_REQUESTS, "limit",
                      "too many requests from this address (wait a second)");
    }
    if (has_two_ends(r))
        return refuse_client(r, MHD_HTTP_BAD_REQUEST, "usage",
                             "the request says twice, or with a blank behind the name, how long it "
                             "is (Content-Length, Transfer-Encoding)");
    r->route = route_find(method, url, r->id, methods);
    if (!r->route)
        return *methods ? refuse_method(r, methods)
                        : refuse_client(r, MHD_HTTP_NOT_FOUND, "not-found",
                                        "there is no such path (docs/openapi.yaml lists them)");
    if (is_foreign_page(r))
        return refuse_client(r, MHD_HTTP_FORBIDDEN, "denied",
                             "a page of another site asks (open this server by its own address)");
    if (!may_ask(r))
        return refuse_client(r, MHD_HTTP_UNAUTHORIZED, "denied",
                             "want the header \"Authorization: Bearer TOKEN\" with the server's "
                             "token");
    return says_too_large(r) ? refuse_body(r) : MHD_YES;
}

static enum MHD_Result finish(struct request *r)
{
    struct answer a = {.status = MHD_HTTP_INTERNAL_SERVER_ERROR};
    if (r->too_large)
        return refuse_body(r);
    http_clients_step(r->connection, STEP_UNLIMITED); /* the time is ours now */
    r->route->serve(r, &a);
    if (r->route->serve != serve_events)
        http_clients_step(r->connection, STEP_ANSWER);
    histogram_add(&r->server->latency, clock_mono_ns() - r->began_ns);
    enum MHD_Result rc = a.status ? send_answer(r->connection, &a) : MHD_YES;
    if (a.status >= 500)
        counter_add(&r->server->failed, 1);
    bytes_release(&a.body);
    return rc;
}

static enum MHD_Result on_request(void *cls, struct MHD_Connection *connection, const char *url,
                                  const char *method, const char *version, const char *upload,
                                  size_t *upload_len, void **state)
{
    struct request *r = *state;
    (void)version;
    if (!r) {
        r = xcalloc(1, sizeof *r);
        r->server = cls;
        r->connection = connection;
        r->began_ns = clock_mono_ns();
        *state = r;
        return begin(r, method, url);
    }
    if (*upload_len) {
        size_t max = route_body_max(r->route);
        r->too_large = r->too_large || r->body.len + *upload_len > max;
        if (!r->too_large)
            bytes_add(&r->body, upload, *upload_len);
        *upload_len = 0;
        return MHD_YES;
    }
    return finish(r);
}

static void on_completed(void *cls, struct MHD_Connection *connection, void **state,
                         enum MHD_RequestTerminationCode why)
{
    struct request *r = *state;
    (void)cls;
    (void)why;
    http_clients_step(connection, STEP_REQUEST); /* the next one */
    if (!r)
        return;
    bytes_release(&r->body);
    free(r);
    *state = NULL;
}

/* --- the daemon ------------------------------------------------------------------------------- */

static int read_pem(const char *path, char **ret, struct err *err)
{
    cleanup_close int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    cleanup_free char *text = xmalloc(PEM_MAX + 1);
    ssize_t n = fd < 0 ? -1 : read(fd, text, PEM_MAX);
    if (n < 0)
        return err_sys(err, errno, "certificate or key %s", path);
    text[n] = '\0';
    *ret = xstrdup(text);
    explicit_bzero(text, (size_t)n);
    return 0;
}

static void free_secret(char *text)
{
    if (text)
        explicit_bzero(text, strlen(text));
    free(text);
}

static void swap_text(char **a, char **b)
{
    char *c = *a;
    *a = *b;
    *b = c;
}

static int read_certificate(struct server *s, struct err *err)
{
    char *cert = NULL, *key = NULL;
    if (read_pem(s->conf.tls_cert, &cert, err) || read_pem(s->conf.tls_key, &key, err)) {
        free(cert);
        return -1;
    }
    free_secret(s->cert);
    free_secret(s->key);
    s->cert = cert;
    s->key = key;
    return 0;
}

/* What is wrong goes to the log under our own words; the library's are of the connection. */
__attribute__((format(printf, 2, 0))) static void on_library_log(void *cls, const char *format,
                                                                 va_list ap)
{
    struct server *s = cls;
    char text[300];
    vsnprintf(text, sizeof text, format, ap);
    text[strcspn(text, "\n")] = '\0';
    log_debug(s->conf.log, "http: %s", text);
}

/* A zero byte would end a name, which is then another one: it becomes a byte that no name has. */
static size_t unescape(void *cls, struct MHD_Connection *connection, char *text)
{
    (void)cls, (void)connection;
    size_t n = MHD_http_unescape(text);
    for (char *zero; (zero = memchr(text, '\0', n));)
        *zero = '\1';
    return n;
}

/* The library closes the socket it is given, also when it fails: it gets one of its own. */
static struct MHD_Daemon *start_daemon(struct server *s)
{
    int listener = fcntl(s->listener, F_DUPFD_CLOEXEC, 3);
    if (listener < 0)
        return NULL; /* else it would listen on a port of its own choice */
    unsigned flags = MHD_USE_THREAD_PER_CONNECTION | MHD_USE_INTERNAL_POLLING_THREAD |
                     MHD_USE_POLL | MHD_USE_ITC | MHD_USE_ERROR_LOG;
    struct MHD_OptionItem tls[] = {{MHD_OPTION_HTTPS_MEM_CERT, 0, s->cert},
                                   {MHD_OPTION_HTTPS_MEM_KEY, 0, s->key},
                                   {MHD_OPTION_END, 0, NULL}};
    struct MHD_OptionItem plain[] = {{MHD_OPTION_END, 0, NULL}};
    if (s->cert)
        flags |= MHD_USE_TLS;
    return MHD_start_daemon(
        flags, 0, NULL, NULL, on_request, s, MHD_OPTION_EXTERNAL_LOGGER, on_library_log, s,
        MHD_OPTION_UNESCAPE_CALLBACK, unescape, NULL, MHD_OPTION_NOTIFY_CONNECTION,
        http_clients_on_connection, &s->clients, MHD_OPTION_LISTEN_SOCKET, listener,
        MHD_OPTION_NOTIFY_COMPLETED, on_completed, s, MHD_OPTION_CONNECTION_LIMIT,
        (unsigned)CONNECTIONS, MHD_OPTION_PER_IP_CONNECTION_LIMIT, (unsigned)PER_ADDRESS,
        MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)IDLE_S, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
        (size_t)CONNECTION_BYTES, MHD_OPTION_THREAD_STACK_SIZE, (size_t)STACK_BYTES,
        MHD_OPTION_STRICT_FOR_CLIENT, 1, MHD_OPTION_ARRAY, s->cert ? tls : plain, MHD_OPTION_END);
}

/* Lets what is under way end, for a while. NULL: nothing is. */
static void retire(struct MHD_Daemon *daemon)
{
    if (!daemon)
        return;
    for (int i = 0; i < RETIRE_TRIES; i++) {
        const union MHD_DaemonInfo *info =
            MHD_get_daemon_info(daemon, MHD_DAEMON_INFO_CURRENT_CONNECTIONS);
        if (!info || info->num_connections == 0)
            break;
        usleep(100 * 1000);
    }
    MHD_stop_daemon(daemon);
}

/* A new daemon on the same socket: no connection is refused meanwhile, they wait in its queue.
 * False: the pair is of no use, as half of it is renewed; where the old pair did not get a daemon
 * either (no memory, no descriptors), there is none now. */
static bool renew(struct server *s)
{
    struct err err = {0};
    bool renewed = false;
    struct MHD_Daemon *old = s->daemon;
    char *cert = xstrdup(s->cert), *key = xstrdup(s->key);
    if (read_certificate(s, &err) == 0) {
        int left = old ? MHD_quiesce_daemon(old) : -1;
        if (left >= 0)
            close(left);
        s->daemon = start_daemon(s);
        renewed = s->daemon != NULL;
        if (renewed) {
            log_info(s->conf.log, "the certificate was renewed");
        } else {
            swap_text(&s->cert, &cert);
            swap_text(&s->key, &key);
            s->daemon = start_daemon(s);
            log_warn(s->conf.log, "the new certificate and key do not fit: the old ones go on");
        }
        retire(old);
    } else {
        log_warn(s->conf.log, "the certificate can't be renewed: %s", err.msg);
    }
    free_secret(cert);
    free_secret(key);
    return renewed;
}

/* 0: it is not there. Who may read it counts as well. */
static int64_t changed_at(const char *path)
{
    struct stat st;
    return stat(path, &st) ? 0 : clock_ns_of(&st.st_ctim);
}

/* A pair that was of no use is tried, and told of, once more when either half has changed: each try
 * ends what is under way for long. */
static void *watch_certificate(void *arg)
{
    struct server *s = arg;
    int64_t key_at = 0;
    unsigned failed_looks = 0; /* since a pair was of no use; 0: that in use is the newest */
    for (;;) {
        {
            ACQUIRE(&s->cert_lock);
            if (!s->stopping)
                cond_wait_for(&s->cert_stop, &s->cert_lock, CERT_LOOK_S * NS_PER_S);
            if (s->stopping)
                return NULL;
        }
        int64_t cert = changed_at(s->conf.tls_cert), key = changed_at(s->conf.tls_key);
        bool changed = cert != s->cert_at;
        if (failed_looks)
            changed |= key != key_at || failed_looks++ >= CERT_AGAIN || !s->daemon;
        if (!changed)
            continue;
        s->cert_at = cert; /* as before it is read: what changes meanwhile is seen then */
        key_at = key;
        failed_looks = renew(s) ? 0 : 1;
    }
}

int http_start(struct server *s, struct err *err)
{
    if (s->conf.tls_cert)
        s->cert_at = changed_at(s->conf.tls_cert);
    if (s->conf.tls_cert && read_certificate(s, err))
        return -1;
    s->daemon = start_daemon(s);
    if (!s->daemon)
        return err_set(err, ERR_FAILED, "start the HTTP server: %s",
                       s->cert ? "are certificate and key a pair, in PEM?" : strerror(errno));
    int e = s->cert ? thread_start(&s->cert_thread, "server-cert", watch_certificate, s) : 0;
    if (e)
        return err_thread(err, e, "start a thread");
    s->cert_thread_runs = s->cert != NULL;
    return 0;
}

static void stop_watching(struct server *s)
{
    if (!s->cert_thread_runs)
        return;
    {
        ACQUIRE(&s->cert_lock);
        s->stopping = true;
        cond_broadcast(&s->cert_stop);
    }
    pthread_join(s->cert_thread, NULL);
}

void http_stop(struct server *s)
{
    stop_watching(s);
    if (s->daemon)
        MHD_stop_daemon(s->daemon);
    if (s->listener >= 0)
        close(s->listener);
    free_secret(s->cert);
    free_secret(s->key);
}
