#define LOG_MODULE "http"
#include "http-serve.h"

#include <string.h>
#include <unistd.h>

#include "buf.h"
#include "clock.h"
#include "http-clients.h"
#include "http-host.h"
#include "http-reply.h"
#include "listen.h"
#include "mem.h"
#include "sync.h"

#define IDLE_S    60 /* a silent connection is closed */
#define REQUEST_S 60
#define END_S     20 /* for what is in hand at the end: less than a pod is given */

struct serving {
    const struct http_service *s;
    bool by_own_name;
    struct lock lock;
    struct cond turn;
    size_t here, answered;  /* bytes of bodies; under lock */
    uint64_t tickets, next; /* turns to answer a body: given out, and whose it is; under lock */
    size_t in_hand;         /* requests that came whole and whose answer has not gone; under lock */
    bool ending;            /* no other turn is given; under lock */
};

struct request {
    struct bytes body; /* counted in `here` */
    bool too_large, no_room;
    bool in_hand; /* counted there */
};

/* --- bodies ----------------------------------------------------------------------------------- */

static bool take_room(struct serving *v, size_t n)
{
    ACQUIRE(&v->lock);
    if (n > v->s->bodies_max - v->here)
        return false;
    v->here += n;
    return true;
}

static void drop_body(struct serving *v, struct request *r)
{
    ACQUIRE(&v->lock);
    v->here -= r->body.len;
    bytes_release(&r->body);
}

static void forget(struct serving *v, struct request *r)
{
    drop_body(v, r);
    ACQUIRE(&v->lock);
    v->in_hand -= r->in_hand;
    cond_broadcast(&v->turn);
}

static void take_body(struct serving *v, struct request *r, const char *upload, size_t n)
{
    r->too_large |= r->body.len + n > v->s->body_max;
    r->no_room |= !r->too_large && !take_room(v, n);
    if (r->too_large || r->no_room)
        drop_body(v, r);
    else
        bytes_add(&r->body, upload, n);
}

/* False: it ends, and what is not being answered yet will not be. */
static bool begin_turn(struct serving *v, struct request *r)
{
    size_t n = r->body.len;
    ACQUIRE(&v->lock);
    v->in_hand++;
    r->in_hand = true;
    uint64_t mine = v->tickets;
    v->tickets += n > 0;
    while (n && !v->ending && (mine != v->next || n > v->s->body_max - v->answered))
        cond_wait(&v->turn, &v->lock);
    if (v->ending)
        return false;
    v->next += n > 0;
    v->answered += n;
    cond_broadcast(&v->turn);
    return true;
}

static void end_turn(struct serving *v, size_t n)
{
    ACQUIRE(&v->lock);
    v->answered -= n;
    cond_broadcast(&v->turn);
}

/* What is being answered is answered to its end, and goes, if the clients take it in time. */
static void end_turns(struct serving *v)
{
    uint64_t end = clock_mono_ns() + END_S * NS_PER_S, now;
    ACQUIRE(&v->lock);
    v->ending = true;
    cond_broadcast(&v->turn);
    while (v->in_hand && (now = clock_mono_ns()) < end)
        cond_wait_for(&v->turn, &v->lock, end - now);
}

/* --- requests --------------------------------------------------------------------------------- */

static enum MHD_Result refuse(struct MHD_Connection *c, unsigned status, const char *why)
{
    return http_reply(c, status, HTTP_TEXT, why, strlen(why), NULL);
}

static bool by_other_name(const struct serving *v, struct MHD_Connection *c)
{
    const char *host = MHD_lookup_connection_value(c, MHD_HEADER_KIND, MHD_HTTP_HEADER_HOST);
    return v->by_own_name && host && !http_host_is_here(host);
}

static enum MHD_Result answer(struct serving *v, struct MHD_Connection *c,
                              const struct http_asked *q)
{
    if (by_other_name(v, c))
        return refuse(c, MHD_HTTP_FORBIDDEN,
                      "by another name: ask localhost or 127.0.0.1 (or have it --listen at an "
                      "address that others reach)\n");
    return v->s->answer(v->s->arg, c, q);
}

static enum MHD_Result on_request(void *arg, struct MHD_Connection *c, const char *url,
                                  const char *method, const char *version, const char *upload,
                                  size_t *upload_size, void **state)
{
    struct serving *v = arg;
    struct request *r = *state;
    (void)version;
    if (!r) { /* the head alone has come */
        http_clients_step(c, STEP_REQUEST);
        *state = xcalloc(1, sizeof *r);
        return MHD_YES;
    }
    if (*upload_size) {
        /* What has no room once stays without, whatever becomes free meanwhile. */
        if (!r->too_large && !r->no_room)
            take_body(v, r, upload, *upload_size);
        *upload_size = 0;
        return MHD_YES;
    }
    const struct http_asked q = {.method = method,
                                 .url = url,
                                 .body = r->body.data ? r->body.data : "",
                                 .len = r->body.len,
                                 .too_large = r->too_large,
                                 .no_room = r->no_room};
    http_clients_step(c, STEP_UNLIMITED); /* the time is ours now */
    bool answers = begin_turn(v, r);
    enum MHD_Result result =
        answers ? answer(v, c, &q)
                : refuse(c, MHD_HTTP_SERVICE_UNAVAILABLE, "it is ending: ask again\n");
    if (answers)
        end_turn(v, q.len);
    http_clients_step(c, STEP_ANSWER);
    return result;
}

static void on_completed(void *arg, struct MHD_Connection *c, void **state,
                         enum MHD_RequestTerminationCode why)
{
    struct request *r = *state;
    (void)why;
    http_clients_step(c, STEP_REQUEST); /* the next one */
    if (r)
        forget(arg, r);
    free(r);
    *state = NULL;
}

/* --- the server ------------------------------------------------------------------------------- */

static int serve(struct serving *v, struct http_clients *clients, const sigset_t *ends,
                 struct log *log, struct err *err)
{
    const struct http_service *s = v->s;
    int sock = address_listen_at(s->address, err), signal_number = 0;
    if (sock < 0)
        return err_wrap(err, "--listen");
    v->by_own_name = s->by_own_name && address_is_loopback(sock);
    struct MHD_Daemon *d = MHD_start_daemon(
        MHD_USE_THREAD_PER_CONNECTION | MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_POLL |
            MHD_USE_ITC,
        0, NULL, NULL, on_request, v, MHD_OPTION_LISTEN_SOCKET, sock, MHD_OPTION_NOTIFY_CONNECTION,
        http_clients_on_connection, clients, MHD_OPTION_NOTIFY_COMPLETED, on_completed, v,
        MHD_OPTION_CONNECTION_LIMIT, s->connections, MHD_OPTION_CONNECTION_TIMEOUT,
        (unsigned)IDLE_S, MHD_OPTION_END);
    if (!d) {
        close(sock);
        return err_set(err, ERR_FAILED, "--listen: cannot serve %s", s->address);
    }
    const union MHD_DaemonInfo *info = MHD_get_daemon_info(d, MHD_DAEMON_INFO_BIND_PORT);
    log_info(log, "ready port=%u", info ? info->port : 0u);
    while (sigwait(ends, &signal_number))
        ;
    log_info(log, "ending signal=%d", signal_number);
    pthread_sigmask(SIG_UNBLOCK, ends, NULL); /* a second one does not wait for what is in hand */
    int listener = MHD_quiesce_daemon(d);     /* nobody else comes */
    end_turns(v);
    MHD_stop_daemon(d); /* which cuts off everybody */
    if (listener >= 0)
        close(listener);
    return 0;
}

int http_serve(const struct http_service *s, const sigset_t *ends, struct log *log, struct err *err)
{
    struct http_clients clients = {0};
    struct serving v = {.s = s};
    lock_init(&v.lock, RANK_METRICS, "bodies of requests");
    cond_init(&v.turn);
    http_clients_init(&clients);
    int result =
        http_clients_start(&clients, s->request_ns ? s->request_ns : REQUEST_S * NS_PER_S, err) ||
                serve(&v, &clients, ends, log, err)
            ? -1
            : 0;
    http_clients_destroy(&clients);
    cond_destroy(&v.turn);
    lock_destroy(&v.lock);
    return result;
}
