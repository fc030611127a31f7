/* A trainer's connections to the parameter servers: who keeps what, requests and their answers. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "address.h"
#include "clock.h"
#include "mem.h"
#include "remote-internal.h"
#include "store.h"

#define RETRY_NS (50 * NS_PER_MS)
#define CAUSE_MS 900            /* for the last word of a server, when another told of an end */
#define WHO_NS   (5 * NS_PER_S) /* for a server to say which trainer it waits for */
#define LOOK_MS  100            /* how often it is looked whether this trainer is to stop */
#define NOT_YET  1              /* word of a stop came, and the answer is still to come */

/* --- who keeps what --------------------------------------------------------------------------- */

static size_t server_of(struct remote *r, const char *where)
{
    for (size_t i = 0; i < r->n_servers; i++)
        if (strcmp(r->servers[i].where, where) == 0)
            return i;
    struct remote_server *s = &r->servers[r->n_servers];
    s->where = xstrdup(where);
    s->fd = -1;
    return r->n_servers++;
}

struct remote *remote_new(const struct remote_conf *conf)
{
    struct remote *r = xcalloc(1, sizeof *r);
    r->conf = *conf;
    r->job = xstrdup(conf->job);
    r->servers = xcalloc(conf->n_dense + conf->n_sparse, sizeof *r->servers);
    r->dense = xcalloc(conf->n_dense, sizeof *r->dense);
    r->sparse = xcalloc(conf->n_sparse, sizeof *r->sparse);
    for (size_t i = 0; i < conf->n_dense; i++)
        r->dense[i] = server_of(r, conf->dense[i]);
    for (size_t i = 0; i < conf->n_sparse; i++)
        r->sparse[i] = server_of(r, conf->sparse[i]);
    r->base = (struct collective){
        .ops = &remote_collective_ops, .ranks = conf->ranks, .rank = conf->rank};
    return r;
}

int remote_room(int rows, size_t batch, int width)
{
    size_t most = batch * (size_t)width;
    return (size_t)rows < most ? rows : (int)most;
}

static void add_table(struct remote *r, size_t server, size_t param, const struct ps_shape *shape)
{
    struct remote_server *s = &r->servers[server];
    s->tables = xrealloc(s->tables, (s->n_tables + 1) * sizeof *s->tables);
    s->tables[s->n_tables++] = (struct remote_table){param, *shape};
}

static void deal(struct remote *r)
{
    cleanup_free size_t *load = xcalloc(r->conf.n_dense, sizeof *load);
    for (size_t i = 0; i < net_n_params(r->shape); i++) {
        const struct param *p = net_param(r->shape, i);
        struct ps_shape s = {.rows = 1,
                             .stride = 1,
                             .dim = (uint32_t)p->n,
                             .kind = p->kind,
                             .first = p->first,
                             .drawn = p->drawn};
        snprintf(s.name, sizeof s.name, "%s", p->name);
        if (p->kind == PARAM_ROWS) {
            s.dim = (uint32_t)p->dims[1];
            s.stride = r->conf.n_sparse;
            for (size_t k = 0; k < r->conf.n_sparse; k++) {
                s.offset = k;
                s.rows = ((uint64_t)p->dims[0] + s.stride - 1 - k) / s.stride;
                add_table(r, r->sparse[k], i, &s);
            }
            continue;
        }
        size_t least = 0;
        for (size_t k = 1; k < r->conf.n_dense; k++)
            if (load[k] < load[least])
                least = k;
        load[least] += p->n;
        add_table(r, r->dense[least], i, &s);
    }
}

/* --- asking ----------------------------------------------------------------------------------- */

static int died(const struct remote_server *s, const char *why, struct err *err)
{
    return err_set(err, ERR_FAILED,
                   "pserver %s has died or ended%s%s (see its log; start again: training goes on "
                   "from the last checkpoint)",
                   s->where, why ? ": " : "", why ? why : "");
}

static int silent(const struct remote_server *s, struct err *err)
{
    return err_set(err, ERR_TRANSIENT,
                   "pserver %s does not answer (does it stand still, or is the network cut?)",
                   s->where);
}

/* All of it. ERR_FAILED: the server hung up. */
static int receive(struct remote_server *s, void *to, size_t len, struct err *err)
{
    char *p = to;
    while (len) {
        ssize_t n = recv(s->fd, p, len, 0);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            return silent(s, err);
        if (n <= 0)
            return died(s, NULL, err);
        p += n;
        len -= (size_t)n;
    }
    return 0;
}

/* Reads on to the last word of a server: does it hang up without one? */
static bool ends_silently(struct remote_server *s)
{
    struct err why = {0};
    unsigned char head[PS_HEAD];
    char rest[4096];
    enum ps_kind kind = PS_VALUES;
    struct timeval t = {.tv_usec = CAUSE_MS * 1000};
    setsockopt(s->fd, SOL_SOCKET, SO_RCVTIMEO, &t, sizeof t);
    while (kind != PS_ERROR) {
        if (receive(s, head, sizeof head, &why))
            return why.class == ERR_FAILED;
        int64_t left = ps_head(head, PS_MAX, &kind);
        for (size_t n; left > 0; left -= (int64_t)n) {
            n = left < (int64_t)sizeof rest ? (size_t)left : sizeof rest;
            if (receive(s, rest, n, &why))
                return why.class == ERR_FAILED;
        }
        if (left < 0)
            break;
    }
    return false;
}

/* When a server dies, trainers end one after the other, and the servers that are left tell of
 * those: the first cause is to be named. Where a trainer died, each server says so. */
static const struct remote_server *find_dead(struct remote *r, const struct remote_server *told)
{
    for (size_t i = 0; i < r->n_servers; i++)
        if (&r->servers[i] != told && r->servers[i].fd >= 0 && ends_silently(&r->servers[i]))
            return &r->servers[i];
    return NULL;
}

void remote_now_stops(struct remote *r)
{
    if (!r->stops)
        r->stops_ns = clock_mono_ns();
    r->stops = true;
}

/* What this trainer is asked to do all shall know. */
static void tell_stop(struct remote *r)
{
    cleanup_bytes struct bytes out = {0};
    if (r->stops || !r->base.stop || !*r->base.stop)
        return;
    ps_frame(&out, PS_STOP, NULL, 0);
    (void)address_send(r->servers[0].fd, out.data, out.len); /* if it fails, the answer says why */
    remote_now_stops(r);
}

/* Whoever it waits for, the server knows. False: not even so much can be sent to it. */
static bool ask_who_is_late(const struct remote_server *s)
{
    cleanup_bytes struct bytes out = {0};
    ps_frame(&out, PS_LATE, NULL, 0);
    return send(s->fd, out.data, out.len, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)out.len;
}

int remote_give_up(const struct remote *r, struct err *err)
{
    return err_set(err, ERR_CANCELLED,
                   "asked to stop, and not all of %u trainers have answered %llu s later",
                   r->conf.ranks, (unsigned long long)(STORE_STOP_NS / NS_PER_S));
}

/* Until the server says something: for as long as other trainers may take, but not long once one of
 * them was asked to stop. */
static int wait_for(struct remote *r, const struct remote_server *s, struct err *err)
{
    uint64_t end = clock_mono_ns() + r->conf.answer_ns;
    bool asked = false;
    struct pollfd p = {.fd = s->fd, .events = POLLIN};
    while (poll(&p, 1, LOOK_MS) <= 0) {
        uint64_t now = clock_mono_ns();
        tell_stop(r);
        if (r->stops && !r->base.broken && now >= r->stops_ns + STORE_STOP_NS)
            return remote_give_up(r, err);
        if (now < end)
            continue;
        if (asked || !ask_who_is_late(s))
            return silent(s, err);
        asked = true;
        end = now + WHO_NS;
    }
    return 0;
}

static int read_answer(struct remote *r, struct remote_server *s, enum ps_kind want,
                       struct err *err)
{
    unsigned char head[PS_HEAD];
    enum ps_kind kind;
    bytes_clear(&s->in);
    if (wait_for(r, s, err) || receive(s, head, sizeof head, err))
        return -1;
    int64_t len = ps_head(head, PS_MAX, &kind);
    if (len < 0)
        return err_set(err, ERR_CORRUPT, "pserver %s: it is no parameter server", s->where);
    bytes_reserve(&s->in, (size_t)len);
    if (len > 0 && receive(s, s->in.data, (size_t)len, err))
        return -1;
    s->in.len = (size_t)len;
    if (ps_check(head, s->in.data, s->in.len))
        return err_set(err, ERR_CORRUPT, "pserver %s: an answer that was damaged on its way",
                       s->where);
    if (kind == PS_ERROR) {
        const struct remote_server *dead = find_dead(r, s);
        return dead ? died(dead, NULL, err)
                    : err_set(err, ERR_FAILED, "pserver %s: %.*s", s->where, (int)s->in.len,
                              s->in.data ? s->in.data : "");
    }
    if (kind == PS_STOP)
        return NOT_YET;
    if (kind != want)
        return err_set(err, ERR_CORRUPT, "pserver %s: an answer to another question", s->where);
    return 0;
}

int remote_answer(struct remote *r, struct remote_server *s, enum ps_kind want, struct err *err)
{
    int got;
    while ((got = read_answer(r, s, want, err)) == NOT_YET)
        remote_now_stops(r);
    return got;
}

int remote_send(struct remote *r, struct remote_server *s, struct err *err)
{
    struct err why = {0};
    int failed = address_send(s->fd, s->out.data, s->out.len) ? errno : 0;
    bytes_clear(&s->out);
    if (!failed)
        return 0;
    /* It may have said why before it hung up. */
    if (remote_answer(r, s, PS_ERROR, &why) && err && why.class == ERR_FAILED)
        *err = why;
    else
        died(s, strerrordesc_np(failed), err);
    return -1;
}

int remote_ask(struct remote *r, struct remote_server *s, enum ps_kind want, struct err *err)
{
    return remote_send(r, s, err) || remote_answer(r, s, want, err) ? -1 : 0;
}

/* --- meeting ---------------------------------------------------------------------------------- */

static int reach(struct remote *r, struct remote_server *s, uint64_t end, struct err *err)
{
    char host[256], port[ADDRESS_PORT], why[ADDRESS_WHY];
    struct timeval t = {.tv_sec = (time_t)(r->conf.answer_ns / NS_PER_S) + 1};
    struct timespec pause = {.tv_nsec = RETRY_NS};
    if (!address_split(s->where, host, sizeof host, port))
        return err_set(err, ERR_BUG, "a parameter server at %s", s->where);
    while ((s->fd = address_connect(host, port, why)) < 0) {
        if (clock_mono_ns() >= end)
            return err_set(err, ERR_TRANSIENT,
                           "trainer %u does not reach pserver %s: %s (is it running, and the port "
                           "open?)",
                           r->conf.rank, s->where, why);
        /* One that was greeted before may know that this one ends, and why. */
        for (size_t i = 0; i < r->n_servers; i++)
            if (remote_check(r, &r->servers[i], err))
                return -1;
        nanosleep(&pause, NULL);
    }
    setsockopt(s->fd, SOL_SOCKET, SO_RCVTIMEO, &t, sizeof t);
    setsockopt(s->fd, SOL_SOCKET, SO_SNDTIMEO, &t, sizeof t);
    return 0;
}

static int add_greeting(struct remote *r, struct remote_server *s, struct err *err)
{
    bool has_secret = r->conf.secret->text != NULL;
    struct ps_hello h = {.rank = r->conf.rank,
                         .ranks = r->conf.ranks,
                         .seed = r->conf.seed,
                         .n_tables = (uint32_t)s->n_tables,
                         .mode = (has_secret ? PS_MODE_SECRET : 0u) |
                                 (r->conf.is_async ? PS_MODE_ASYNC : 0u)};
    if (has_secret && ps_secret_draw(h.number, err))
        return -1;
    snprintf(h.job, sizeof h.job, "%s", r->job);
    size_t begun = ps_begin(&s->out, PS_HELLO);
    bytes_add(&s->out, &h, sizeof h);
    for (size_t i = 0; i < s->n_tables; i++)
        bytes_add(&s->out, &s->tables[i].shape, sizeof s->tables[i].shape);
    ps_end(&s->out, begun);
    bytes_clear(&s->hello);
    bytes_add(&s->hello, s->out.data + begun + PS_HEAD, s->out.len - begun - PS_HEAD);
    return 0;
}

/* Each end shows the other that it knows the secret: gradients are no stranger's either. */
static int prove(struct remote *r, struct remote_server *s, struct err *err)
{
    struct ps_hello h;
    struct ps_challenge c;
    uint8_t sum[PS_NUMBER];
    if (remote_answer(r, s, PS_CHALLENGE, err))
        return -1;
    if (s->in.len != sizeof c)
        return err_set(err, ERR_CORRUPT, "pserver %s: an answer of another length", s->where);
    memcpy(&c, s->in.data, sizeof c);
    memcpy(&h, s->hello.data, sizeof h);
    ps_secret_of_server(r->conf.secret, h.number, c.number, sum);
    if (!ps_secret_same(sum, c.sum))
        return err_set(err, ERR_DENIED,
                       "pserver %s does not know the token of --ps_token_file (another job's, or "
                       "another file there?)",
                       s->where);
    ps_secret_of_trainer(r->conf.secret, c.number, s->hello.data, s->hello.len, sum);
    ps_frame(&s->out, PS_PROOF, sum, sizeof sum);
    return remote_send(r, s, err);
}

/* Does it go without a word? Then it is no server yet: `launch` listens at the same place while it
 * looks whether all pods reach each other, and some get through with that before others. */
static bool says_nothing(struct remote_server *s)
{
    char c;
    ssize_t n;
    (void)address_send(s->fd, s->out.data, s->out.len); /* if it fails, it may have said why */
    do
        n = recv(s->fd, &c, 1, MSG_PEEK);
    while (n < 0 && errno == EINTR);
    return n == 0 || (n < 0 && errno == ECONNRESET);
}

static int meet(struct remote *r, struct remote_server *s, uint64_t end, struct err *err)
{
    struct timespec pause = {.tv_nsec = RETRY_NS};
    bytes_clear(&s->out);
    if (add_greeting(r, s, err))
        return -1;
    for (;;) {
        if (reach(r, s, end, err))
            return -1;
        if (!says_nothing(s))
            break;
        if (clock_mono_ns() >= end)
            return died(s, "it hangs up on a greeting", err);
        close(s->fd);
        s->fd = -1;
        nanosleep(&pause, NULL);
    }
    bytes_clear(&s->out);
    if (r->conf.secret->text && prove(r, s, err))
        return -1;
    return remote_answer(r, s, PS_OK, err);
}

int remote_meet(struct remote *r, const struct net *shape, struct net *n, struct err *err)
{
    uint64_t end = clock_mono_ns() + r->conf.timeout_ns;
    r->shape = shape;
    r->n = n;
    r->host = xcalloc(net_floats(n) + N_SUMS, sizeof *r->host);
    deal(r);
    for (size_t i = 0; i < r->n_servers; i++)
        if (r->servers[i].n_tables > PS_TABLES)
            return err_set(err, ERR_USAGE, "more than %u parameters on a server", PS_TABLES);
    /* Each is greeted at once: it hangs up on who says nothing, and the next may come much later.
     */
    for (size_t i = 0; i < r->n_servers; i++)
        if (meet(r, &r->servers[i], end, err))
            return -1;
    return 0;
}

void remote_free(struct remote *r, bool well)
{
    for (size_t i = 0; r && i < r->n_servers; i++) {
        struct remote_server *s = &r->servers[i];
        if (s->fd >= 0 && well) {
            bytes_clear(&s->out);
            ps_frame(&s->out, PS_BYE, NULL, 0);
            (void)address_send(s->fd, s->out.data, s->out.len);
        }
        if (s->fd >= 0)
            close(s->fd);
        bytes_release(&s->in);
        bytes_release(&s->out);
        bytes_release(&s->hello);
        free(s->tables);
        free(s->where);
    }
    if (!r)
        return;
    for (int i = 0; i < NET_IDS; i++) {
        free(r->batch[i].ids);
        free(r->batch[i].rows);
    }
    free(r->host);
    free(r->servers);
    free(r->dense);
    free(r->sparse);
    free(r->job);
    free(r);
}
