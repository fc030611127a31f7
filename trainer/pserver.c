/* A parameter server: one poll loop over all ports and all trainers. */
#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "address.h"
#include "clock.h"
#include "mem.h"
#include "pserver-internal.h"
#include "rendezvous.h"

#define LOG_MODULE  "pserver"
#define STRANGERS   16              /* connections of one port that have not said who they are */
#define GREETING_NS (10 * NS_PER_S) /* until they must */
#define LAST_NS     (5 * NS_PER_S)  /* for the last words to be taken */
#define READ_SIZE   (256u << 10)

/* --- peers ------------------------------------------------------------------------------------ */

static void peer_free(struct peer *p)
{
    close(p->fd);
    bytes_release(&p->in);
    bytes_release(&p->out);
    bytes_release(&p->hello);
    free(p);
}

static void send_out(struct peer *p)
{
    while (p->sent < p->out.len) {
        ssize_t n =
            send(p->fd, p->out.data + p->sent, p->out.len - p->sent, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n <= 0)
            return; /* later; a broken connection is seen when it is read */
        p->sent += (size_t)n;
    }
    bytes_clear(&p->out);
    p->sent = 0;
}

void pserver_answer(struct peer *p, enum ps_kind kind, const struct bytes *with)
{
    if (p->over)
        return;
    ps_frame(&p->out, kind, with ? with->data : NULL, with ? with->len : 0);
    send_out(p);
}

static void refuse(struct shard *s, struct peer *p, const char *why)
{
    if (p->rank == NOBODY)
        log_warn(s->server->conf->log, "port %s: %s is refused: %s", s->port, p->name, why);
    ps_frame(&p->out, PS_ERROR, why, strlen(why));
    p->over = true;
    send_out(p);
}

/* The job is over for all: each trainer hears why. */
static void fail(struct server *srv, const struct err *why)
{
    if (srv->failed)
        return;
    srv->failed = true;
    srv->why = *why;
    for (size_t i = 0; i < srv->conf->n_ports; i++)
        for (size_t k = 0; k < srv->shards[i].n_peers; k++)
            if (srv->shards[i].peers[k]->rank != NOBODY && !srv->shards[i].peers[k]->over)
                refuse(&srv->shards[i], srv->shards[i].peers[k], why->msg);
}

/* --- rounds ----------------------------------------------------------------------------------- */

/* Trainers that have greeted, and neither said good bye nor died. */
static size_t living(const struct shard *s)
{
    size_t n = 0;
    for (uint32_t r = 0; r < s->server->conf->ranks; r++)
        n += s->came[r] && !s->gone[r];
    return n;
}

/* All that are waited for have come: they are answered. */
static int finish_round(struct shard *s, struct err *err)
{
    cleanup_bytes struct bytes reply = {0};
    if (ps_round_finish(&s->round, s->tables, &reply, err))
        return -1;
    for (size_t i = 0; i < s->n_peers; i++)
        if (s->peers[i]->rank != NOBODY)
            pserver_answer(s->peers[i], PS_VALUES, &reply);
    return 0;
}

static size_t awaited(const struct shard *s)
{
    return s->is_async && s->server->complete ? living(s) : s->server->conf->ranks;
}

static int join_round(struct shard *s, const struct peer *p, enum ps_kind kind, const void *payload,
                      size_t len, struct err *err)
{
    if (ps_round_join(&s->round, p->rank, kind, payload, len, err))
        return -1;
    return s->round.came == awaited(s) ? finish_round(s, err) : 0;
}

/* A trainer that is gone is waited for no longer. */
static int leave_round(struct shard *s, uint32_t rank, struct err *err)
{
    s->gone[rank] = true;
    if (!s->is_async)
        return 0;
    ps_round_leave(&s->round, rank);
    return s->round.came && s->round.came == awaited(s) ? finish_round(s, err) : 0;
}

/* A trainer has no patience left: whom its round waits for is said, and nothing of it is counted.
 */
static int give_up_round(const struct shard *s, const struct peer *p, struct err *err)
{
    cleanup_bytes struct bytes late = {0};
    if (!s->round.has[p->rank])
        return 0; /* its answer is on its way */
    for (uint32_t r = 0; r < s->server->conf->ranks; r++)
        if (!s->round.has[r] && !s->gone[r])
            bytes_addf(&late, "%s%u", late.len ? ", " : "", r);
    return err_set(err, ERR_TRANSIENT,
                   "of %u trainers these stand still, or are cut off: %s (start again: training "
                   "goes on from the last checkpoint)",
                   s->server->conf->ranks, late.data);
}

static float left(const struct shard *s)
{
    size_t n = 0;
    for (uint32_t r = 0; r < s->server->conf->ranks; r++)
        n += s->came[r] && !s->gone[r] && !s->done[r];
    return (float)n;
}

/* One trainer was asked to stop: all hear of it. */
static void tell_stop(struct shard *s)
{
    for (size_t i = 0; i < s->n_peers && !s->stops; i++)
        if (s->peers[i]->rank != NOBODY)
            pserver_answer(s->peers[i], PS_STOP, NULL);
    s->stops = true;
}

/* One trainer's step, made as it comes. Who was asked to stop tells all others so with it. */
static int push_alone(struct shard *s, struct peer *p, const void *payload, size_t len,
                      struct err *err)
{
    cleanup_bytes struct bytes one = {0}, reply = {0};
    struct ps_in in = {payload, len, 0};
    struct ps_push head;
    ps_copy(&in, &head, sizeof head);
    if (head.flags & PS_STOPS)
        tell_stop(s);
    s->done[p->rank] |= (head.flags & PS_DONE) != 0;
    bytes_add(&one, payload, len);
    if (ps_tables_push(s->tables, &one, 1, &reply, err))
        return -1;
    struct ps_others others = {s->stops, left(s)};
    bytes_add(&reply, &others, sizeof others);
    pserver_answer(p, PS_VALUES, &reply);
    return 0;
}

/* --- requests --------------------------------------------------------------------------------- */

static int serve(struct shard *s, struct peer *p, enum ps_kind kind, const void *payload,
                 size_t len, struct err *err)
{
    struct ps_in in = {payload, len, 0};
    cleanup_bytes struct bytes reply = {0};
    if ((p->rank == NOBODY) != (kind == PS_HELLO || kind == PS_PROOF))
        return err_set(err, ERR_CORRUPT, "a request before the greeting, or a second greeting");
    switch (kind) {
    case PS_HELLO:
        return pserver_greet(s, p, &in, err);
    case PS_PROOF:
        return pserver_prove(s, p, &in, err);
    case PS_PUSH:
        if (s->is_async)
            return push_alone(s, p, payload, len, err);
        return join_round(s, p, kind, payload, len, err);
    case PS_SUM:
    case PS_SHARE:
        return join_round(s, p, kind, payload, len, err);
    case PS_PULL:
    case PS_FETCH:
        if (kind == PS_PULL ? ps_tables_pull(s->tables, &in, &reply, err)
                            : ps_tables_fetch(s->tables, &in, &reply, err))
            return -1;
        pserver_answer(p, PS_VALUES, &reply);
        return 0;
    case PS_STORE:
        if (ps_tables_store(s->tables, &in, err))
            return -1;
        pserver_answer(p, PS_OK, NULL);
        return 0;
    case PS_STOP:
        tell_stop(s);
        return 0;
    case PS_LATE:
        return give_up_round(s, p, err);
    case PS_BYE:
        p->over = true;
        return leave_round(s, p->rank, err);
    default:
        return err_set(err, ERR_CORRUPT, "an answer where a question belongs");
    }
}

/* Whole frames of what came, each at the begin of memory, so that its numbers lie as they must. -1:
 * this is no trainer of ours. */
static int serve_all(struct shard *s, struct peer *p, struct err *err)
{
    while (!p->over && p->in.len >= PS_HEAD) {
        enum ps_kind kind;
        const char *head = p->in.data;
        int64_t len = ps_head(head, p->rank == NOBODY ? PS_GREETING_MAX : PS_MAX, &kind);
        if (len < 0)
            return err_set(err, ERR_CORRUPT, "what it sends is not of this protocol");
        size_t whole = PS_HEAD + (size_t)len;
        if (p->in.len < whole)
            break;
        if (ps_check(head, head + PS_HEAD, (size_t)len))
            return err_set(err, ERR_CORRUPT, "a request that was damaged on its way");
        if (serve(s, p, kind, head + PS_HEAD, (size_t)len, err))
            return -1;
        p->in.len -= whole;
        memmove(p->in.data, p->in.data + whole, p->in.len);
    }
    return 0;
}

/* A trainer that breaks the protocol, or off, ends the job; a stranger only itself. So does one
 * that is awaited and refused, as the others would wait for it in vain. */
static void give_up(struct shard *s, struct peer *p, struct err *why)
{
    if (p->rank == NOBODY) {
        refuse(s, p, why->msg);
        err_wrap(why, "trainer %u of %u is refused", p->claims, s->server->conf->ranks);
    }
    if (p->claims != NOBODY)
        fail(s->server, why);
}

/* Trainers that do not go in step go on without one that died: but for trainer 0, whose checkpoints
 * theirs are. */
static void died(struct shard *s, uint32_t rank)
{
    struct err err = {0};
    const struct pserver_conf *conf = s->server->conf;
    if (s->is_async && s->server->complete && rank > 0) {
        log_warn(conf->log, "port %s: trainer %u of %u has died; the others go on without it",
                 s->port, rank, conf->ranks);
        if (leave_round(s, rank, &err))
            fail(s->server, &err);
        return;
    }
    err_set(&err, ERR_FAILED,
            "trainer %u of %u has died or ended (see its log; start again: training goes on from "
            "the last checkpoint)",
            rank, conf->ranks);
    fail(s->server, &err);
}

static void receive(struct shard *s, struct peer *p)
{
    struct err err = {0};
    bytes_reserve(&p->in, READ_SIZE);
    ssize_t n = recv(p->fd, p->in.data + p->in.len, READ_SIZE, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n <= 0) {
        bool is_stranger = p->rank == NOBODY || p->over;
        p->over = true;
        bytes_clear(&p->out);
        p->sent = 0;
        if (!is_stranger)
            died(s, p->rank);
        return;
    }
    p->in.len += (size_t)n;
    if (serve_all(s, p, &err))
        give_up(s, p, &err);
}

static void accept_one(struct shard *s)
{
    int fd = address_accept(s->listener);
    size_t strangers = 0;
    s->is_deaf = fd < 0;
    if (fd < 0)
        return;
    for (size_t i = 0; i < s->n_peers; i++)
        strangers += s->peers[i]->rank == NOBODY;
    if (strangers >= STRANGERS) {
        close(fd);
        return;
    }
    struct peer *p = xcalloc(1, sizeof *p);
    *p = (struct peer){.fd = fd, .rank = NOBODY, .claims = NOBODY, .came_ns = clock_mono_ns()};
    address_peer(fd, p->name, sizeof p->name);
    s->peers = xrealloc(s->peers, (s->n_peers + 1) * sizeof *s->peers);
    s->peers[s->n_peers++] = p;
}

/* --- the loop --------------------------------------------------------------------------------- */

static void sweep(struct shard *s, uint64_t now)
{
    size_t kept = 0;
    for (size_t i = 0; i < s->n_peers; i++) {
        struct peer *p = s->peers[i];
        bool is_late = p->rank == NOBODY && now - p->came_ns > GREETING_NS;
        if ((p->over && p->out.len == 0) || is_late)
            peer_free(p);
        else
            s->peers[kept++] = p;
    }
    s->n_peers = kept;
}

static int look(struct server *srv, int wait_ms)
{
    size_t n = 0, max = srv->conf->n_ports;
    for (size_t i = 0; i < srv->conf->n_ports; i++)
        max += srv->shards[i].n_peers;
    cleanup_free struct pollfd *fds = xcalloc(max, sizeof *fds);
    for (size_t i = 0; i < srv->conf->n_ports; i++) {
        struct shard *s = &srv->shards[i];
        fds[n++] = (struct pollfd){.fd = s->is_deaf ? -1 : s->listener, .events = POLLIN};
        if (s->is_deaf && wait_ms > ADDRESS_PAUSE_MS)
            wait_ms = ADDRESS_PAUSE_MS;
        s->is_deaf = false;
        for (size_t k = 0; k < s->n_peers; k++) {
            const struct peer *p = s->peers[k];
            fds[n++] = (struct pollfd){.fd = p->fd,
                                       .events = (short)(POLLIN | (p->out.len ? POLLOUT : 0))};
        }
    }
    if (poll(fds, n, wait_ms) < 0 && errno != EINTR)
        return -1;
    n = 0;
    for (size_t i = 0; i < srv->conf->n_ports; i++) {
        struct shard *s = &srv->shards[i];
        short on_listener = fds[n++].revents;
        for (size_t k = 0, peers = s->n_peers; k < peers; k++, n++) {
            if (fds[n].revents & POLLOUT)
                send_out(s->peers[k]);
            if (fds[n].revents & (POLLIN | POLLHUP | POLLERR))
                receive(s, s->peers[k]);
        }
        if (on_listener & POLLIN)
            accept_one(s);
        sweep(s, clock_mono_ns());
    }
    return 0;
}

static bool all_came(const struct server *srv, struct bytes *missing)
{
    bool all = true;
    for (uint32_t r = 0; r < srv->conf->ranks; r++) {
        bool here = true;
        for (size_t i = 0; i < srv->conf->n_ports; i++)
            here &= srv->shards[i].came[r];
        if (!here && missing)
            bytes_addf(missing, "%s%u", missing->len ? ", " : "", r);
        all &= here;
    }
    return all;
}

static bool all_gone(const struct server *srv)
{
    for (size_t i = 0; i < srv->conf->n_ports; i++)
        for (uint32_t r = 0; r < srv->conf->ranks; r++)
            if (!srv->shards[i].gone[r])
                return false;
    return true;
}

static int run(struct server *srv, struct err *err)
{
    const struct pserver_conf *conf = srv->conf;
    uint64_t end = clock_mono_ns() + conf->timeout_ns;
    while (!srv->failed && !*conf->stop && !all_gone(srv)) {
        if (look(srv, 200))
            return err_sys(err, errno, "poll");
        if (!srv->complete && all_came(srv, NULL)) {
            srv->complete = true;
            log_info(conf->log, "all %u trainers are here", conf->ranks);
        }
        if (!srv->complete && clock_mono_ns() > end) {
            cleanup_bytes struct bytes missing = {0};
            all_came(srv, &missing);
            err_set(err, ERR_TRANSIENT, "of %u trainers these did not come: %s", conf->ranks,
                    missing.data);
            fail(srv, err);
        }
    }
    /* The last words: why it ends. */
    for (uint64_t until = clock_mono_ns() + LAST_NS; srv->failed && clock_mono_ns() < until;) {
        size_t left = 0;
        for (size_t i = 0; i < conf->n_ports; i++)
            left += srv->shards[i].n_peers;
        if (left == 0 || look(srv, 50))
            break;
    }
    if (!srv->failed)
        return *conf->stop ? 1 : 0;
    if (err)
        *err = srv->why;
    return -1;
}

static int open_shards(struct server *srv, struct err *err)
{
    for (size_t i = 0; i < srv->conf->n_ports; i++) {
        struct shard *s = &srv->shards[i];
        uint32_t ranks = srv->conf->ranks;
        *s = (struct shard){.server = srv, .listener = -1, .port = srv->conf->ports[i]};
        s->came = xcalloc(ranks, sizeof *s->came);
        s->gone = xcalloc(ranks, sizeof *s->gone);
        s->done = xcalloc(ranks, sizeof *s->done);
        ps_round_init(&s->round, ranks);
        s->listener = address_listen(srv->conf->address, s->port, err);
        if (s->listener < 0)
            return -1;
    }
    return 0;
}

static void close_shard(struct shard *s)
{
    for (size_t i = 0; i < s->n_peers; i++)
        peer_free(s->peers[i]);
    if (s->round.from && s->listener >= 0)
        close(s->listener);
    ps_round_release(&s->round);
    ps_tables_free(s->tables);
    free(s->peers);
    free(s->came);
    free(s->gone);
    free(s->done);
}

int pserver_run(const struct pserver_conf *conf, struct err *err)
{
    struct server srv = {.conf = conf};
    if (conf->ranks < 1 || conf->ranks > RENDEZVOUS_MAX_RANKS)
        return err_set(err, ERR_USAGE, "%u trainers: want 1 to %d (--num_gradient_servers)",
                       conf->ranks, RENDEZVOUS_MAX_RANKS);
    if (backend_cpu(&srv.b, conf->threads, err))
        return -1;
    srv.shards = xcalloc(conf->n_ports, sizeof *srv.shards);
    int code = open_shards(&srv, err);
    if (code == 0) {
        for (size_t i = 0; i < conf->n_ports; i++)
            log_info(conf->log, "serving at %s:%s for %u trainers",
                     conf->address ? conf->address : "*", conf->ports[i], conf->ranks);
        code = run(&srv, err);
    }
    for (size_t i = 0; i < conf->n_ports; i++)
        close_shard(&srv.shards[i]);
    free(srv.shards);
    backend_close(srv.b);
    return code;
}
