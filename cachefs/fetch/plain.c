/*
 * Plain connections: HTTP/1.1 over TCP without TLS or proxy, spoken here instead of by the library.
 *
 * Only the everyday case: a GET, answered by a status, a Content-Length and a body, which goes from
 * the socket straight to where it is wanted; a HEAD, so that a scan leaves no connections of
 * the library's beside ours; and a PUT with a body, which goes to the socket from where it lies.
 * Everything else (an odd head, a chunked body, a redirect to follow)
 * closes the connection and is asked again through the library, which then serves that origin for a
 * while. An object is not written twice for that: PUTs go this way once one that the library
 * carried was answered plainly. Names are resolved and connections made by the library too.
 *
 * Why: of 10 000 bodies of 115 KB from a server on the same machine the library takes 0.70 CPU
 * seconds at the least, this 0.38 (a recv() a body less, no copy, no request object).
 *
 *     flight_start -> plain_go -> an idle connection, or the library connects -> plain_connected
 *         socket readable -> plain_event: head, then body -> flight_landed -> plain_leave: idle
 *
 * All of it runs on the engine's thread. Sockets are watched edge-triggered: one epoll_ctl() in the
 * life of a connection.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "clock.h"
#include "engine-internal.h"
#include "mem.h"

#define HEAD_BYTES  (16u << 10)
#define HEAD_STEP   1024u /* of the first recv(): most heads, and little of a body */
#define ASIDE_BYTES (64u << 10)
#define LIMITED     (64u << 10)     /* a recv() on a limited line */
#define SEND_STEP   (512u << 10)    /* of a body; then others have their turn */
#define IDLE_MAX_NS (60 * NS_PER_S) /* older ones may be gone without a word */
#define DECLINE_NS  (60 * NS_PER_S)

struct plain_origin {
    struct plain_origin *next;
    struct plain *idle;
    uint64_t declined_until; /* the library serves it until then */
    bool takes_puts;         /* it answers them plainly */
    char name[];             /* host:port */
};

struct plain {
    struct plain *next; /* among the idle ones of its origin, or the dead */
    struct plain_origin *origin;
    struct flight *flight; /* NULL: idle or dead */
    int fd;
    bool used;     /* an answer came over it before */
    bool in_body;  /* the head is parsed */
    bool keep;     /* it may be used again after this answer */
    bool hung_up;  /* the server sends no more than what is in the socket */
    uint64_t left; /* of the body */
    size_t unsent; /* of the request's body */
    uint64_t idle_ns;
    size_t head_len;
    char head[HEAD_BYTES];
};

static struct plain_origin *origin_of(struct fetch *f, const struct bytes *name)
{
    struct plain_origin *o = f->origins;
    while (o && strcmp(o->name, name->data) != 0)
        o = o->next;
    if (o)
        return o;
    o = xcalloc(1, sizeof *o + name->len + 1);
    memcpy(o->name, name->data, name->len);
    o->next = f->origins;
    f->origins = o;
    return o;
}

/* --- connections ----------------------------------------------------------------------------- */

static void shut(struct fetch *f, struct plain *c)
{
    close(c->fd);
    c->fd = -1;
    c->flight = NULL;
    c->next = f->dead; /* an event of this round may still name it */
    f->dead = c;
}

void plain_bury(struct fetch *f)
{
    while (f->dead) {
        struct plain *c = f->dead;
        f->dead = c->next;
        free(c);
    }
}

static struct plain *take_idle(struct fetch *f, struct plain_origin *o)
{
    struct plain *c = o->idle;
    if (!c)
        return NULL;
    o->idle = c->next;
    f->n_idle--;
    return c;
}

static void forget_idle(struct fetch *f, struct plain *c)
{
    struct plain **at = &c->origin->idle;
    while (*at != c)
        at = &(*at)->next;
    *at = c->next;
    f->n_idle--;
    shut(f, c);
}

void plain_leave(struct fetch *f, struct flight *fl)
{
    struct plain *c = take_ptr(&fl->plain);
    c->flight = NULL;
    if (!c->in_body || c->left || !c->keep || c->hung_up || f->n_idle >= f->cap_idle) {
        shut(f, c);
        return;
    }
    c->used = true;
    c->in_body = false;
    c->head_len = 0;
    c->idle_ns = f->now_ns;
    c->next = c->origin->idle;
    c->origin->idle = c;
    f->n_idle++;
}

void plain_free(struct fetch *f)
{
    while (f->origins) {
        struct plain_origin *o = f->origins;
        struct plain *c;
        while ((c = take_idle(f, o)))
            shut(f, c);
        f->origins = o->next;
        free(o);
    }
    plain_bury(f);
    free(f->aside);
}

/* --- take-off -------------------------------------------------------------------------------- */

static int watch(struct fetch *f, struct plain *c, int op)
{
    struct epoll_event e = {.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, .data.ptr = c};
    return epoll_ctl(f->epoll_fd, op, c->fd, &e);
}

/* So much of the body was offered to the socket, and so much it took. */
static void sent(struct fetch *f, struct plain *c, size_t offered, size_t took)
{
    struct flight *fl = c->flight;
    c->unsent -= took;
    fl->last_ns = f->now_ns;
    if (c->unsent && took == offered)
        watch(f, c, EPOLL_CTL_MOD); /* not full: an edge all the same */
}

size_t plain_sent(const struct flight *fl, int *ret_fd)
{
    *ret_fd = fl->plain->fd;
    return fl->req.body_len - fl->plain->unsent;
}

static size_t next_step(const struct plain *c)
{
    return c->unsent < SEND_STEP ? c->unsent : SEND_STEP;
}

static bool send_request(struct fetch *f, struct plain *c, struct flight *fl,
                         const struct bytes *text)
{
    c->unsent = fl->req.body_len;
    struct iovec parts[] = {{text->data, text->len}, {(void *)fl->req.body, next_step(c)}};
    const struct msghdr message = {.msg_iov = parts, .msg_iovlen = c->unsent ? 2 : 1};
    ssize_t n = sendmsg(c->fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < (ssize_t)text->len) /* a head is far smaller than an empty socket's buffer */
        return false;
    c->flight = fl;
    fl->plain = c;
    if (c->unsent)
        sent(f, c, parts[1].iov_len, (size_t)n - text->len);
    return true;
}

static void send_more(struct fetch *f, struct plain *c)
{
    const struct http_req *r = &c->flight->req;
    const char *from = (const char *)r->body + (r->body_len - c->unsent);
    size_t step = next_step(c);
    ssize_t n = send(c->fd, from, step, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n >= 0)
        sent(f, c, step, (size_t)n);
    if (n >= 0 || errno == EAGAIN || errno == EINTR)
        return;
    c->unsent = 0; /* it hung up; perhaps it said why */
    c->hung_up = true;
}

/* What an idle connection has to say is no answer: the rest of a body that is longer than its
 * length says, or that the server closes it. */
static bool is_silent(const struct plain *c)
{
    char byte;
    return recv(c->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0 && errno == EAGAIN;
}

/* True: the request went out. */
static bool send_over_idle(struct fetch *f, struct flight *fl, struct bytes *text)
{
    struct plain *c;
    while ((c = take_idle(f, fl->origin))) {
        if (f->now_ns - c->idle_ns < IDLE_MAX_NS && is_silent(c) && send_request(f, c, fl, text))
            return true;
        shut(f, c);
    }
    return false;
}

static bool is_everyday(const struct flight *fl)
{
    const struct http_req *r = &fl->req;
    return fl->job->is_get || r->method == HTTP_HEAD || (r->method == HTTP_PUT && r->body_len);
}

bool plain_go(struct fetch *f, struct flight *fl, bool fresh)
{
    const struct http_peer *peer = store_peer(job_store(fl->job));
    cleanup_wiped struct bytes text = {0}; /* it may be signed */
    cleanup_bytes struct bytes name = {0};
    bool went = false;
    fl->origin = fl->first_put = NULL;
    if (!f->proxied && is_everyday(fl) && !peer->proxy && !peer->unix_path &&
        http_plain_request(&fl->req, &text, &name)) {
        struct plain_origin *o = origin_of(f, &name);
        if (fl->req.method == HTTP_PUT && !o->takes_puts)
            fl->first_put = o;
        else if (o->declined_until <= f->now_ns)
            fl->origin = o;
        went = fl->origin && !fresh && send_over_idle(f, fl, &text);
    }
    return went;
}

void plain_learn(struct flight *fl)
{
    long version = 0;
    curl_easy_getinfo(fl->easy, CURLINFO_HTTP_VERSION, &version);
    if (fl->first_put && version == CURL_HTTP_VERSION_1_1 && fl->answer.status != 204 &&
        fl->answer.content_length >= 0)
        fl->first_put->takes_puts = true;
}

static struct plain *adopt(struct fetch *f, struct flight *fl)
{
    curl_socket_t theirs = CURL_SOCKET_BAD;
    curl_easy_getinfo(fl->easy, CURLINFO_ACTIVESOCKET, &theirs);
    /* The library closes its own descriptor when the handle leaves. */
    int fd = theirs == CURL_SOCKET_BAD ? -1 : fcntl(theirs, F_DUPFD_CLOEXEC, 0);
    flight_leave_multi(f, fl);
    if (fd < 0)
        return NULL;
    struct plain *c = xmalloc(sizeof *c);
    memset(c, 0, offsetof(struct plain, head));
    c->fd = fd;
    c->origin = fl->origin;
    if (watch(f, c, EPOLL_CTL_ADD) == 0)
        return c;
    shut(f, c);
    return NULL;
}

void plain_connected(struct fetch *f, struct flight *fl)
{
    cleanup_wiped struct bytes text = {0};
    cleanup_bytes struct bytes name = {0};
    struct plain *c = adopt(f, fl);
    bool sent = false;
    http_plain_request(&fl->req, &text, &name);
    if (c)
        sent = send_request(f, c, fl, &text);
    if (c && !sent)
        shut(f, c);
    if (!sent)
        flight_landed(f, fl, CURLE_SEND_ERROR);
}

/* --- receiving ------------------------------------------------------------------------------- */

enum step { STEP_ON, STEP_WAIT, STEP_LANDED };

static enum step land(struct fetch *f, struct plain *c, CURLcode code)
{
    flight_landed(f, c->flight, code); /* `c` is idle, used again or dead now */
    return STEP_LANDED;
}

/* Nothing came, or the connection broke. */
static enum step no_bytes(struct fetch *f, struct plain *c, ssize_t n)
{
    struct flight *fl = c->flight;
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return STEP_WAIT;
    c->keep = false;
    if (c->used && c->head_len == 0 && !c->in_body) { /* it was closed while it was idle */
        plain_leave(f, fl);
        flight_go(f, fl);
        return STEP_LANDED;
    }
    snprintf(fl->detail, sizeof fl->detail, "%s",
             n < 0 ? strerror(errno) : "the server closed the connection in mid-answer");
    return land(f, c, n < 0 ? CURLE_RECV_ERROR : CURLE_PARTIAL_FILE);
}

/* An answer for the library: it asks again. */
static enum step decline(struct fetch *f, struct plain *c)
{
    struct flight *fl = c->flight;
    c->origin->declined_until = f->now_ns + DECLINE_NS;
    c->keep = false;
    plain_leave(f, fl);
    http_answer_init(&fl->answer);
    flight_go(f, fl);
    return STEP_LANDED;
}

static enum step took(struct fetch *f, struct plain *c, const char *data, size_t len)
{
    if (!flight_take(c->flight, data, len)) {
        c->keep = false;
        return land(f, c, CURLE_WRITE_ERROR);
    }
    c->left -= len;
    return c->left ? STEP_ON : land(f, c, CURLE_OK);
}

static enum step read_head(struct fetch *f, struct plain *c)
{
    struct flight *fl = c->flight;
    struct http_framing framing;
    size_t room = sizeof c->head - c->head_len;
    ssize_t n = recv(c->fd, c->head + c->head_len, room < HEAD_STEP ? room : HEAD_STEP, 0);
    if (n <= 0)
        return no_bytes(f, c, n);
    c->head_len += (size_t)n;
    enum http_head how = http_answer_head(c->head, c->head_len, &fl->answer, &framing);
    if (how == HEAD_MORE)
        return STEP_ON;
    if (how == HEAD_OTHER || (fl->req.follow && fl->answer.status / 100 == 3) ||
        (c->unsent && fl->answer.status / 100 == 2)) /* of a body that it has not got */
        return decline(f, c);
    size_t rest = c->head_len - framing.head_len;
    if (fl->req.method == HTTP_HEAD)
        framing.body_len = 0; /* the length is that of a GET's */
    c->in_body = true;
    c->left = framing.body_len;
    c->keep = framing.keep && rest <= framing.body_len && !c->unsent;
    c->unsent = 0;
    if (rest > framing.body_len)
        rest = framing.body_len;
    flight_note_bytes(fl, rest);
    if (!flight_check_head(fl)) {
        c->keep = false;
        return land(f, c, CURLE_WRITE_ERROR);
    }
    return took(f, c, c->head + framing.head_len, rest);
}

static enum step read_body(struct fetch *f, struct plain *c)
{
    struct flight *fl = c->flight;
    uint64_t wanted = fl->want - fl->got;
    bool direct = fl->data && !fl->skip && wanted;
    uint64_t most = direct ? wanted : ASIDE_BYTES;
    if (!direct && !f->aside)
        f->aside = xmalloc(ASIDE_BYTES);
    most = most < c->left ? most : c->left;
    if (flight_is_limited(f) && most > LIMITED)
        most = LIMITED;
    ssize_t n = recv(c->fd, direct ? (char *)fl->to + fl->got : f->aside, most, 0);
    if (n <= 0)
        return no_bytes(f, c, n);
    flight_note_bytes(fl, (size_t)n);
    if (!direct)
        return took(f, c, f->aside, (size_t)n);
    fl->got += (uint64_t)n;
    f->outstanding -= (uint64_t)n;
    c->left -= (uint64_t)n;
    if (!c->left)
        return land(f, c, CURLE_OK);
    /* A short read emptied the socket: what comes next is a new edge, and so is its end. */
    return (uint64_t)n < most && !c->hung_up ? STEP_WAIT : STEP_ON;
}

void plain_read(struct fetch *f, struct flight *fl)
{
    struct plain *c = fl->plain;
    enum step step;
    do
        step =
            flight_may_receive(fl) ? (c->in_body ? read_body(f, c) : read_head(f, c)) : STEP_WAIT;
    while (step == STEP_ON);
}

void plain_event(struct fetch *f, struct plain *c, uint32_t events)
{
    if (c->fd < 0)
        return;
    if (events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR))
        c->hung_up = true;
    if (c->flight && c->unsent)
        send_more(f, c);
    if (c->flight)
        plain_read(f, c->flight);
    else if (!is_silent(c))
        forget_idle(f, c);
}
