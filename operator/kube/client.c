/*
 * The client's thread: requests wait (`pending`, under the lock) until they are due, then are the
 * library's (`active`, the thread's alone) until they end.
 */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "clock.h"
#include "hash.h"
#include "kube-internal.h"
#include "mem.h"
#include "metrics.h"
#include "sync.h"

#define TIMEOUT_NS     (30 * NS_PER_S)
#define CONNECT_NS     (5 * NS_PER_S)
#define SILENCE_S      150L /* a watch brings a bookmark each minute */
#define UNHEARD_MS     8000 /* bytes that are not acknowledged end a connection */
#define CREDENTIALS_NS (60 * NS_PER_S)
#define REFRESH_NS     (2 * NS_PER_S) /* a refused token is read again, but not at once */
#define REFUSAL_MAX    65536u
#define PUT_OFF_MAX_S  60u
#define POLL_MAX_MS    600000
#define GRACE_NS       NS_PER_S /* the library ends what is late by itself, mostly */

struct call {
    struct call *next;
    const struct kube_calls *calls;
    void *arg;
    char *path, *what;
    const struct bytes *body;
    enum http_method method;
    bool watch, urgent, slotted;
    uint64_t due, began, timeout;
    /* --- while active --- */
    struct kube_client *client;
    CURL *easy;
    struct http_req http;
    struct curl_slist *headers;
    struct http_answer answer;
    struct bytes refusal;
    char detail[CURL_ERROR_SIZE];
};

struct numbers {
    counter reads, writes, watches, conflicts, throttled, refused, broken, fenced, in_flight;
    struct histogram latency;
};
#define ROW(name_, labels_, kind_, member, help_)                 \
    {                                                             \
        .name = name_, .labels = labels_, .kind = kind_,          \
        .offset = offsetof(struct numbers, member), .help = help_ \
    }
static const struct metric_row rows[] = {
    ROW("sampan_operator_api_requests_total", "verb=\"read\"", METRIC_COUNTER, reads,
        "Requests sent to the API server"),
    ROW("sampan_operator_api_requests_total", "verb=\"write\"", METRIC_COUNTER, writes,
        "Requests sent to the API server"),
    ROW("sampan_operator_api_requests_total", "verb=\"watch\"", METRIC_COUNTER, watches,
        "Requests sent to the API server"),
    ROW("sampan_operator_api_failures_total", "why=\"conflict\"", METRIC_COUNTER, conflicts,
        "Requests that failed"),
    ROW("sampan_operator_api_failures_total", "why=\"throttled\"", METRIC_COUNTER, throttled,
        "Requests that failed"),
    ROW("sampan_operator_api_failures_total", "why=\"refused\"", METRIC_COUNTER, refused,
        "Requests that failed"),
    ROW("sampan_operator_api_failures_total", "why=\"broken\"", METRIC_COUNTER, broken,
        "Requests that failed"),
    ROW("sampan_operator_api_failures_total", "why=\"fenced\"", METRIC_COUNTER, fenced,
        "Requests that failed"),
    ROW("sampan_operator_api_in_flight", NULL, METRIC_GAUGE, in_flight,
        "Requests under way, watches among them"),
    ROW("sampan_operator_api_seconds", NULL, METRIC_HISTOGRAM, latency,
        "How long requests took, watches aside"),
};

struct kube_client {
    struct kube_client_conf conf;
    pthread_t thread;
    CURLM *multi;
    struct numbers numbers;
    struct lock lock;
    /* --- under the lock --- */
    struct call *pending;
    bool closing;
    /* --- the thread's alone --- */
    struct call *active;
    struct secret token;
    char *ca_pem;
    uint64_t credentials_at; /* when they were read; 0: not yet */
    uint64_t turn, gate;     /* of the rate; nothing but urgent requests before `gate` */
    uint64_t dice;
};

/* --- credentials ------------------------------------------------------------------------------ */

/* A file that cannot be read now leaves what we have: it may be in the middle of being replaced. */
static void read_credentials(struct kube_client *c, uint64_t now)
{
    const struct kube_config *k = c->conf.config;
    struct bytes token = {0}, ca = {0};
    if (c->credentials_at && now - c->credentials_at < CREDENTIALS_NS)
        return;
    if (k->token_file && kube_read_file(k->token_file, &token, NULL) == 0)
        kube_trimmed(&c->token, token.data, token.len);
    if (!k->token_file && k->token.text && !c->token.text)
        secret_set(&c->token, k->token.text, k->token.len);
    if (k->ca_file && kube_read_file(k->ca_file, &ca, NULL) == 0) {
        free(c->ca_pem);
        c->ca_pem = bytes_take(&ca);
    }
    bytes_wipe(&token);
    bytes_release(&ca);
    c->credentials_at = now;
}

static void doubt_credentials(struct kube_client *c, uint64_t now)
{
    if (c->credentials_at && now - c->credentials_at > REFRESH_NS)
        c->credentials_at = 0;
}

/* --- a call's life ---------------------------------------------------------------------------- */

static bool is_write(const struct call *call)
{
    return call->method != HTTP_GET && call->method != HTTP_HEAD;
}

static void call_free(struct call *call)
{
    if (call->easy)
        curl_easy_cleanup(call->easy);
    for (struct curl_slist *h = call->headers; h; h = h->next)
        explicit_bzero(h->data, strlen(h->data)); /* the token is in one of them */
    curl_slist_free_all(call->headers);
    http_req_release(&call->http);
    bytes_release(&call->refusal);
    free(call->path);
    free(call->what);
    free(call);
}

static void end_call(struct call *call, const struct kube_answer *answer, const struct err *why)
{
    call->calls->end(call->arg, answer, why);
    call_free(call);
}

static size_t take_header(char *data, size_t size, size_t n, void *arg)
{
    struct call *call = arg;
    http_answer_line(&call->answer, data, size * n);
    return size * n;
}

static size_t take_body(char *data, size_t size, size_t n, void *arg)
{
    struct call *call = arg;
    size_t len = size * n;
    if (call->answer.status / 100 == 2)
        call->calls->data(call->arg, data, len);
    else if (call->refusal.len + len <= REFUSAL_MAX)
        bytes_add(&call->refusal, data, len);
    return len;
}

/* A peer that went away without a word is noticed while requests are under way. */
static int on_socket(void *arg, curl_socket_t fd, curlsocktype type)
{
    unsigned ms = UNHEARD_MS;
    (void)arg;
    (void)type;
    setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &ms, sizeof ms);
    return CURL_SOCKOPT_OK;
}

static void fill_http(struct kube_client *c, struct call *call)
{
    http_req_init(&call->http, call->method);
    bytes_addf(&call->http.url, "%s%s", c->conf.config->server, call->path);
    http_header(&call->http, "Accept", "%s", "application/json");
    if (c->token.text)
        http_header(&call->http, "Authorization", "Bearer %s", c->token.text);
    if (call->body) {
        bool patch = call->method == HTTP_PATCH;
        http_header(&call->http, "Content-Type", "application/%sjson", patch ? "merge-patch+" : "");
        call->http.body = call->body->data;
        call->http.body_len = call->body->len;
    }
}

static int set_options(struct kube_client *c, struct call *call, struct err *err)
{
    const struct kube_config *k = c->conf.config;
    const struct http_peer peer = {.ca_pem = c->ca_pem ? c->ca_pem : k->ca_pem,
                                   .cert_pem = k->cert_pem,
                                   .key_pem = k->key.text,
                                   .proxy = k->proxy,
                                   .connect_timeout_ns = CONNECT_NS,
                                   .no_verify = k->no_verify};
    if (http_prepare(call->easy, err) ||
        http_apply(call->easy, &call->http, &peer, &call->headers, err))
        return -1;
    CURL *e = call->easy;
    curl_easy_setopt(e, CURLOPT_PRIVATE, call);
    /* Until a connection is known to carry several requests, or not. Without TLS the library keeps
     * those that wait for that waiting until another ends, and watches don't. */
    bool many = http_is_tls(k->server);
    curl_easy_setopt(e, CURLOPT_PIPEWAIT, many ? 1L : 0L);
    curl_easy_setopt(e, CURLOPT_SOCKOPTFUNCTION, on_socket);
    curl_easy_setopt(e, CURLOPT_WRITEFUNCTION, take_body);
    curl_easy_setopt(e, CURLOPT_WRITEDATA, call);
    curl_easy_setopt(e, CURLOPT_HEADERFUNCTION, take_header);
    curl_easy_setopt(e, CURLOPT_HEADERDATA, call);
    curl_easy_setopt(e, CURLOPT_ERRORBUFFER, call->detail);
    if (call->watch) {
        curl_easy_setopt(e, CURLOPT_LOW_SPEED_LIMIT, 1L);
        curl_easy_setopt(e, CURLOPT_LOW_SPEED_TIME, SILENCE_S);
    } else {
        curl_easy_setopt(e, CURLOPT_TIMEOUT_MS, (long)(call->timeout / NS_PER_MS + 1));
    }
    return 0;
}

/* A write has no more time than the right to write. */
static int pass_fence(struct kube_client *c, struct call *call, uint64_t now, struct err *err)
{
    if (!c->conf.write_until || call->urgent || !is_write(call))
        return 0;
    uint64_t until = c->conf.write_until(c->conf.arg);
    if (until <= now) {
        counter_add(&c->numbers.fenced, 1);
        return err_set(err, ERR_CANCELLED, "%s: not sent: another operator may lead now",
                       call->what);
    }
    if (call->timeout > until - now)
        call->timeout = until - now;
    return 0;
}

static int begin_call(struct kube_client *c, struct call *call, uint64_t now, struct err *err)
{
    if (pass_fence(c, call, now, err))
        return -1;
    read_credentials(c, now);
    call->client = c;
    call->began = now;
    call->easy = curl_easy_init();
    if (!call->easy)
        return err_set(err, ERR_LIMIT, "out of memory: a request");
    http_answer_init(&call->answer);
    fill_http(c, call);
    if (set_options(c, call, err))
        return -1;
    CURLMcode code = curl_multi_add_handle(c->multi, call->easy);
    if (code)
        return err_set(err, ERR_FAILED, "%s: %s", call->what, curl_multi_strerror(code));
    counter_add(call->watch      ? &c->numbers.watches
                : is_write(call) ? &c->numbers.writes
                                 : &c->numbers.reads,
                1);
    counter_add(&c->numbers.in_flight, 1);
    call->next = c->active;
    c->active = call;
    return 0;
}

static void count_failure(struct kube_client *c, int status)
{
    counter_add(status == 0 || status >= 500     ? &c->numbers.broken
                : status == 409 || status == 410 ? &c->numbers.conflicts
                : status == 429                  ? &c->numbers.throttled
                                                 : &c->numbers.refused,
                1);
}

/* Takes it off the library and the list. */
static void leave(struct kube_client *c, struct call *call)
{
    struct call **at = &c->active;
    while (*at && *at != call)
        at = &(*at)->next;
    if (*at)
        *at = call->next;
    curl_multi_remove_handle(c->multi, call->easy);
    counter_add(&c->numbers.in_flight, (uint64_t)-1);
}

static void put_off(struct kube_client *c, unsigned s, uint64_t now)
{
    if (now + s * NS_PER_S > c->gate)
        c->gate = now + s * NS_PER_S;
}

static void finish(struct kube_client *c, struct call *call, CURLcode code)
{
    struct err why = {0};
    uint64_t now = clock_mono_ns();
    struct kube_answer a = {.status = call->answer.status,
                            .retry_after_s = call->answer.retry_after_s};
    if (a.retry_after_s > PUT_OFF_MAX_S) /* a proxy may name hours, and be back before */
        a.retry_after_s = PUT_OFF_MAX_S;
    leave(c, call);
    if (!call->watch)
        histogram_add(&c->numbers.latency, now - call->began);
    if (code) {
        a.status = a.status / 100 == 2 ? 0 : a.status; /* cut off in the middle */
        http_transport_error(code, call->detail, call->http.url.data, &why);
        err_wrap(&why, "%s", call->what);
    } else if (a.status / 100 != 2) {
        kube_refusal(&a, call->what, call->refusal.data, call->refusal.len, &why);
    }
    if (a.status == 401)
        doubt_credentials(c, now);
    if (a.status == 429)
        put_off(c, a.retry_after_s ? a.retry_after_s : 1, now);
    if (why.class)
        count_failure(c, code ? 0 : a.status);
    end_call(call, &a, why.class ? &why : NULL);
}

/* --- whose turn it is ------------------------------------------------------------------------- */

/* When this request may go: now, or the time to ask again. The rate is a clock that each request
 * moves on by its share, and that may run ahead of the real one by `burst` shares. */
static uint64_t turn_of(struct kube_client *c, struct call *call, uint64_t now)
{
    if (call->urgent)
        return now;
    if (c->gate > now) /* not all at once when it opens */
        return c->gate + hash_mix64(++c->dice ^ now) % (NS_PER_S / 4);
    if (call->watch || call->slotted || !c->conf.qps)
        return now;
    uint64_t share = NS_PER_S / c->conf.qps, ahead = share * c->conf.burst;
    uint64_t turn = c->turn > now ? c->turn : now;
    call->slotted = true;
    c->turn = turn + share;
    return turn > now + ahead ? turn - ahead : now;
}

/* Takes what is due off the pending list. *wake: when the next one is. */
static struct call *take_due(struct kube_client *c, uint64_t now, uint64_t *wake)
{
    ACQUIRE(&c->lock);
    struct call *due = NULL, **at = &c->pending, **tail = &due;
    *wake = UINT64_MAX;
    while (*at) {
        struct call *call = *at;
        if (call->due > now && !c->closing) {
            *wake = call->due < *wake ? call->due : *wake;
            at = &call->next;
            continue;
        }
        *at = call->next;
        call->next = NULL;
        *tail = call;
        tail = &call->next;
    }
    return due;
}

/* At its end: those that came first go first. */
static void append(struct kube_client *c, struct call *call)
{
    ACQUIRE(&c->lock);
    struct call **at = &c->pending;
    while (*at)
        at = &(*at)->next;
    call->next = NULL;
    *at = call;
}

static bool is_closing(struct kube_client *c)
{
    ACQUIRE(&c->lock);
    return c->closing;
}

static void cancel(struct call *call)
{
    static const struct kube_answer none = {0};
    struct err why = {0};
    err_set(&why, ERR_CANCELLED, "%s: the program ends", call->what);
    end_call(call, &none, &why);
}

/* True where something was started or ended: there may be more to do at once. */
static bool begin_due(struct kube_client *c, bool closing, uint64_t *wake)
{
    uint64_t now = clock_mono_ns();
    struct call *due = take_due(c, now, wake);
    bool any = due != NULL;
    while (due) {
        struct call *call = due;
        struct err why = {0};
        due = call->next;
        uint64_t turn = closing ? now : turn_of(c, call, now);
        if (closing) {
            cancel(call);
        } else if (turn > now) {
            call->due = turn;
            *wake = turn < *wake ? turn : *wake;
            append(c, call);
        } else if (begin_call(c, call, now, &why)) {
            static const struct kube_answer none = {0};
            end_call(call, &none, &why);
        }
    }
    while (closing && c->active) {
        struct call *call = c->active;
        leave(c, call);
        cancel(call);
        any = true;
    }
    return any;
}

static bool finish_done(struct kube_client *c)
{
    bool any = false;
    int left, running;
    curl_multi_perform(c->multi, &running);
    for (CURLMsg *m; (m = curl_multi_info_read(c->multi, &left));) {
        if (m->msg != CURLMSG_DONE)
            continue;
        struct call *call;
        CURLcode code = m->data.result;
        curl_easy_getinfo(m->easy_handle, CURLINFO_PRIVATE, &call);
        finish(c, call, code);
        any = true;
    }
    return any;
}

/* The library does not look at the clock of a request that it holds back until another's connection
 * is there. *wake: when the next one is late. */
static bool end_late(struct kube_client *c, uint64_t *wake)
{
    bool any = false;
    uint64_t now = clock_mono_ns();
    for (struct call *call = c->active, *next; call; call = next) {
        uint64_t end = call->began + call->timeout + GRACE_NS;
        next = call->next;
        if (call->watch)
            continue;
        if (now < end) {
            *wake = end < *wake ? end : *wake;
            continue;
        }
        finish(c, call, CURLE_OPERATION_TIMEDOUT);
        any = true;
    }
    return any;
}

static void *client_main(void *arg)
{
    struct kube_client *c = arg;
    for (;;) {
        uint64_t wake;
        bool closing = is_closing(c); /* first: what this round finds then has been ended */
        bool any = begin_due(c, closing, &wake);
        any |= finish_done(c);
        any |= end_late(c, &wake);
        if (any)
            continue;
        if (closing)
            return NULL;
        uint64_t now = clock_mono_ns();
        uint64_t ms = wake > now ? (wake - now) / NS_PER_MS + 1 : 0;
        curl_multi_poll(c->multi, NULL, 0, ms < POLL_MAX_MS ? (int)ms : POLL_MAX_MS, NULL);
    }
}

/* --- for everybody ---------------------------------------------------------------------------- */

void kube_start(struct kube_client *c, const struct kube_request *r, uint64_t delay_ns,
                const struct kube_calls *calls, void *arg)
{
    static const char *const names[] = {
        [HTTP_GET] = "GET",   [HTTP_HEAD] = "HEAD",     [HTTP_PUT] = "PUT",
        [HTTP_POST] = "POST", [HTTP_DELETE] = "DELETE", [HTTP_PATCH] = "PATCH"};
    struct call *call = xcalloc(1, sizeof *call);
    call->calls = calls;
    call->arg = arg;
    call->path = xstrdup(r->path);
    call->what = xasprintf("%s %.*s", r->watch ? "WATCH" : names[r->method],
                           (int)strcspn(r->path, "?"), r->path);
    call->body = r->body;
    call->method = r->method;
    call->watch = r->watch;
    call->urgent = r->urgent;
    call->timeout = r->timeout_ns ? r->timeout_ns : TIMEOUT_NS;
    call->due = delay_ns ? clock_mono_ns() + delay_ns : 0;
    append(c, call);
    curl_multi_wakeup(c->multi);
}

int kube_open(struct kube_client **ret, const struct kube_client_conf *conf, struct err *err)
{
    struct kube_client *c = xcalloc(1, sizeof *c);
    c->conf = *conf;
    lock_init(&c->lock, RANK_KUBE, "kube");
    c->multi = curl_multi_init();
    if (!c->multi) {
        free(c);
        return err_set(err, ERR_LIMIT, "out of memory: a client of the API server");
    }
    curl_multi_setopt(c->multi, CURLMOPT_PIPELINING, CURLPIPE_MULTIPLEX);
    int error = thread_start(&c->thread, "kube", client_main, c);
    if (error) {
        curl_multi_cleanup(c->multi);
        free(c);
        return err_thread(err, error, "start a thread");
    }
    *ret = c;
    return 0;
}

void kube_close(struct kube_client *c)
{
    if (!c)
        return;
    {
        ACQUIRE(&c->lock);
        c->closing = true;
    }
    curl_multi_wakeup(c->multi);
    pthread_join(c->thread, NULL);
    curl_multi_cleanup(c->multi);
    lock_destroy(&c->lock);
    secret_release(&c->token);
    free(c->ca_pem);
    free(c);
}

void kube_metrics(const struct kube_client *c, struct bytes *out)
{
    metrics_text(out, rows, sizeof rows / sizeof rows[0], &c->numbers);
}
