/* The store's client: one connection to rank 0, and a thread that reads all that comes over it. */
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "address.h"
#include "clock.h"
#include "mem.h"
#include "store-internal.h"
#include "sync.h"

#define RETRY_NS    (50 * NS_PER_MS)
#define GOODBYES_NS (5 * NS_PER_S)
#define NAMES_NS    (2 * NS_PER_S)
#define WAITS_NS    (NS_PER_S / 2) /* how often one who waits says so */
#define HOST        512
#define LOOK_MS     100 /* how often it is looked whether this rank is to stop */

enum answer { ANSWER_NONE, ANSWER_DONE, ANSWER_VALUE, ANSWER_WRONG };

struct store {
    struct rendezvous r;
    struct store_server *server; /* rank 0 alone */
    int fd;
    pthread_t thread;
    bool listening;
    char address[NI_MAXHOST];
    const atomic_int *stop; /* may be NULL */

    struct lock lock; /* of all below */
    struct cond news;
    enum answer answer;
    struct bytes value;
    bool absent_known;
    struct bytes absent; /* the ranks that are waited for, as text */
    uint32_t ranks;      /* that rank 0 counts on */
    bool dead_known, broken, leaving;
    uint32_t dead;
    bool still;        /* that one stands still */
    bool still_known;  /* rank 0 has answered whether one does */
    uint64_t waits_ns; /* 0: this rank waits in no call; since when, or when it last said so */
    bool stops;        /* a rank was asked to stop ... */
    uint64_t stops_ns; /* ... at this moment, as far as is known here */
};

/* --- where rank 0 is -------------------------------------------------------------------------- */

static const char *file_of(const struct rendezvous *r)
{
    return strncmp(r->where, "file:///", 8) == 0 ? r->where + 7 : NULL;
}

/* Rank 0 writes where it listens; written aside and renamed, so that nobody reads half of it. */
static int write_place(const char *path, int listener, struct err *err)
{
    struct sockaddr_in a = {0};
    socklen_t len = sizeof a;
    if (getsockname(listener, (struct sockaddr *)&a, &len))
        return err_sys(err, errno, "rendezvous");
    cleanup_free char *aside = xasprintf("%s.%d", path, (int)getpid());
    cleanup_file FILE *f = fopen(aside, "we");
    if (!f || fprintf(f, "127.0.0.1:%d\n", ntohs(a.sin_port)) < 0 || fflush(f) ||
        rename(aside, path))
        return err_sys(err, errno, "rendezvous: write %s", path);
    return 0;
}

static int read_place(const char *path, char *ret, size_t size)
{
    cleanup_file FILE *f = fopen(path, "re");
    if (!f || !fgets(ret, (int)size, f))
        return -1;
    ret[strcspn(ret, "\n")] = '\0';
    return 0;
}

static int split(const char *where, char host[HOST], char port[ADDRESS_PORT], struct err *err)
{
    return address_split(where, host, HOST, port)
               ? 0
               : err_set(err, ERR_USAGE, "rendezvous: %s: want HOST:PORT or file:///PATH", where);
}

static int listen_on(const struct rendezvous *r, int *ret, struct err *err)
{
    char host[HOST] = "127.0.0.1", port[ADDRESS_PORT] = "0";
    const char *file = file_of(r);
    if (!file && split(r->where, host, port, err))
        return -1;
    int fd = address_listen(file ? host : NULL, port, err);
    if (fd < 0)
        return err_wrap(err, "rendezvous: rank 0");
    if (file && write_place(file, fd, err)) {
        close(fd);
        return -1;
    }
    *ret = fd;
    return 0;
}

/* --- connecting ------------------------------------------------------------------------------- */

static int connect_to(struct store *s, struct err *err)
{
    uint64_t end = clock_mono_ns() + s->r.timeout_ns;
    char where[HOST], host[HOST], port[ADDRESS_PORT];
    char why[ADDRESS_WHY] = "rank 0 has not said where it is";
    const char *file = file_of(&s->r);
    snprintf(where, sizeof where, "%s", s->r.where);
    for (;;) {
        if (!file || read_place(file, where, sizeof where) == 0) {
            if (split(where, host, port, err))
                return -1;
            s->fd = address_connect(host, port, why);
            if (s->fd >= 0)
                return 0;
        }
        if (clock_mono_ns() >= end)
            return err_set(err, ERR_TRANSIENT,
                           "rendezvous: rank %u of %u does not reach rank 0 at %s: %s (is it "
                           "running, and the port open?)",
                           s->r.rank, s->r.ranks, s->r.where, why);
        struct timespec t = {.tv_nsec = RETRY_NS};
        nanosleep(&t, NULL);
    }
}

static void find_address(struct store *s)
{
    struct sockaddr_storage a;
    socklen_t len = sizeof a;
    if (getsockname(s->fd, (struct sockaddr *)&a, &len) ||
        getnameinfo((struct sockaddr *)&a, len, s->address, sizeof s->address, NULL, 0,
                    NI_NUMERICHOST))
        snprintf(s->address, sizeof s->address, "127.0.0.1");
    if (strncmp(s->address, "::ffff:", 7) == 0)
        memmove(s->address, s->address + 7, strlen(s->address + 7) + 1);
}

/* --- listening -------------------------------------------------------------------------------- */

/* The lock is held. */
static void now_stops(struct store *s)
{
    if (!s->stops)
        s->stops_ns = clock_mono_ns();
    s->stops = true;
}

/* What this rank is asked to do all shall know. */
static void tell_stop(struct store *s)
{
    cleanup_bytes struct bytes out = {0};
    store_frame_add(&out, STORE_STOP, s->r.rank, NULL, 0, NULL, 0);
    ACQUIRE(&s->lock);
    if (s->stops || !s->stop || !*s->stop)
        return;
    (void)address_send(s->fd, out.data, out.len); /* if it fails, recv() sees it */
    now_stops(s);
}

static void tell_waiting(struct store *s)
{
    cleanup_bytes struct bytes out = {0};
    struct pollfd p = {.fd = s->fd, .events = POLLOUT};
    uint64_t now = clock_mono_ns();
    ACQUIRE(&s->lock);
    if (!s->waits_ns || now < s->waits_ns + WAITS_NS || poll(&p, 1, 0) <= 0)
        return; /* or rank 0 stands still, and has not taken what was sent before */
    store_frame_add(&out, STORE_WAITS, s->r.rank, NULL, 0, NULL, 0);
    (void)address_send(s->fd, out.data, out.len); /* if it fails, recv() sees it */
    s->waits_ns = now;
}

/* Until something comes from rank 0. */
static void wait_for_news(struct store *s)
{
    struct pollfd p = {.fd = s->fd, .events = POLLIN};
    while (poll(&p, 1, LOOK_MS) == 0) {
        tell_stop(s);
        tell_waiting(s);
    }
}

/* The lock is held. The first cause is kept: others end because of it. */
static void now_dead(struct store *s, uint32_t rank, bool still)
{
    if (s->dead_known)
        return;
    s->dead_known = true;
    s->dead = rank;
    s->still = still;
}

static void take_frame(struct store *s, const struct store_frame *f)
{
    ACQUIRE(&s->lock);
    s->still_known |= f->op == STORE_STILL;
    if ((f->op == STORE_DEAD || f->op == STORE_STILL) && f->rank != NOBODY) {
        now_dead(s, f->rank, f->op == STORE_STILL);
    } else if (f->op == STORE_STOP) {
        now_stops(s);
    } else if (f->op == STORE_ABSENT) {
        s->absent_known = true;
        bytes_add(&s->absent, f->value, f->value_len);
    } else if (f->op == STORE_VALUE) {
        bytes_clear(&s->value);
        bytes_add(&s->value, f->value, f->value_len);
        s->answer = ANSWER_VALUE;
    } else if (f->op == STORE_DONE || f->op == STORE_WRONG) {
        if (!s->ranks)
            s->ranks = f->rank; /* the answer to the first hello */
        s->answer = f->op == STORE_DONE ? ANSWER_DONE : ANSWER_WRONG;
    }
    cond_broadcast(&s->news);
}

static void *hear(void *arg)
{
    struct store *s = arg;
    cleanup_bytes struct bytes in = {0};
    char buf[8192];
    ssize_t n;
    for (;;) {
        wait_for_news(s);
        n = recv(s->fd, buf, sizeof buf, 0);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            break;
        bytes_add(&in, buf, (size_t)n);
        struct store_frame f;
        long used;
        while ((used = store_frame_parse(in.data, in.len, &f)) > 0) {
            take_frame(s, &f);
            memmove(in.data, in.data + used, in.len - (size_t)used);
            in.len -= (size_t)used;
        }
        if (used < 0)
            break;
    }
    ACQUIRE(&s->lock);
    s->broken = true;
    if (!s->leaving)
        now_dead(s, 0, false); /* rank 0 keeps the other end */
    cond_broadcast(&s->news);
    return NULL;
}

static int other_number(const struct store *s, struct err *err)
{
    return err_set(err, ERR_USAGE,
                   "rendezvous: rank %u is one of %u, and rank 0 at %s one of %u "
                   "(--num_gradient_servers, WORLD_SIZE or PADDLE_TRAINERS_NUM differ?)",
                   s->r.rank, s->r.ranks, s->r.where, s->ranks);
}

/* The lock is held. Rank 0 knows for whom. */
static int waits_in_vain(struct store *s, struct err *err)
{
    cleanup_bytes struct bytes out = {0};
    uint64_t end = clock_mono_ns() + NAMES_NS, now;
    store_frame_add(&out, STORE_ABSENT, s->r.rank, NULL, 0, NULL, 0);
    (void)address_send(s->fd, out.data, out.len); /* if it fails, recv() sees it */
    while (!s->absent_known && !s->broken && (now = clock_mono_ns()) < end)
        cond_wait_for(&s->news, &s->lock, end - now);
    if (!s->absent_known)
        return err_set(err, ERR_TRANSIENT,
                       "rendezvous: rank %u waits in vain: rank 0 at %s does not answer (does it "
                       "stand still, or is the network cut?)",
                       s->r.rank, s->r.where);
    if (s->absent.len)
        return err_set(
            err, ERR_TRANSIENT,
            "rendezvous: rank %u waits in vain: of %u ranks these did not come, or stand "
            "still: %.*s",
            s->r.rank, s->r.ranks, (int)s->absent.len, s->absent.data);
    return err_set(err, ERR_TRANSIENT,
                   "rendezvous: rank %u waits in vain for other ranks (are all %u running?)",
                   s->r.rank, s->r.ranks);
}

static int ask(struct store *s, enum store_op op, const char *key, const void *value, size_t len,
               struct err *err)
{
    cleanup_bytes struct bytes out = {0};
    store_frame_add(&out, op, s->r.rank, key, key ? strlen(key) : 0, value, len);
    ACQUIRE(&s->lock);
    s->answer = ANSWER_NONE;
    uint64_t end = clock_mono_ns() + s->r.timeout_ns;
    if (address_send(s->fd, out.data, out.len))
        return err_set(err, ERR_TRANSIENT, "rank 0 has died (its connection broke)");
    while (s->answer == ANSWER_NONE && !s->dead_known) {
        uint64_t now = clock_mono_ns();
        if (now >= end)
            return waits_in_vain(s, err);
        cond_wait_for(&s->news, &s->lock, end - now);
    }
    if (s->answer == ANSWER_WRONG && s->r.rank >= s->ranks)
        return other_number(s, err);
    if (s->answer == ANSWER_WRONG)
        return err_set(err, ERR_USAGE,
                       "rendezvous: rank 0 at %s refuses rank %u of %u (two processes with one "
                       "rank, or another job's port?)",
                       s->r.where, s->r.rank, s->r.ranks);
    if (s->answer == ANSWER_NONE)
        return err_set(err, ERR_TRANSIENT, "rank %u of %u has died or ended (see its log)", s->dead,
                       s->r.ranks);
    return 0;
}

/* Has rank 0 been told of as many? */
static int check_number(struct store *s, struct err *err)
{
    ACQUIRE(&s->lock);
    return s->ranks == s->r.ranks ? 0 : other_number(s, err);
}

/* --- the interface ---------------------------------------------------------------------------- */

int store_open(struct store **ret, const struct rendezvous *r, const atomic_int *stop,
               struct err *err)
{
    int listener = -1;
    struct store *s = xcalloc(1, sizeof *s);
    s->r = *r;
    s->fd = -1;
    s->stop = stop;
    lock_init(&s->lock, RANK_TRAIN, "train-news");
    cond_init(&s->news);
    if (r->rank == 0 &&
        (listen_on(r, &listener, err) || store_serve(&s->server, listener, r->ranks, err)))
        goto failed;
    if (connect_to(s, err))
        goto failed;
    find_address(s);
    int code = thread_start(&s->thread, "train-news", hear, s);
    if (code) {
        err_thread(err, code, "start a thread");
        goto failed;
    }
    s->listening = true;
    if (ask(s, STORE_HELLO, NULL, NULL, 0, err) || check_number(s, err))
        goto failed;
    *ret = s;
    return 0;
failed:
    store_close(s, false);
    return -1;
}

/* Sends the good bye, and waits a little for rank 0 to hang up: an end that is closed with bytes
 * unread would take back what it sent. */
static void say_bye(struct store *s, bool well)
{
    cleanup_bytes struct bytes out = {0};
    store_frame_add(&out, STORE_BYE, s->r.rank, NULL, 0, NULL, 0);
    ACQUIRE(&s->lock);
    s->leaving = true;
    if (well)
        (void)address_send(s->fd, out.data, out.len);
    shutdown(s->fd, SHUT_WR);
    uint64_t end = clock_mono_ns() + GOODBYES_NS, now;
    while (!s->broken && (now = clock_mono_ns()) < end)
        cond_wait_for(&s->news, &s->lock, end - now);
    shutdown(s->fd, SHUT_RDWR);
}

void store_leave(struct store *s, bool well)
{
    if (s->listening) {
        say_bye(s, well);
        pthread_join(s->thread, NULL);
    }
    store_serve_end(s->server, well ? GOODBYES_NS : 0);
}

void store_close(struct store *s, bool well)
{
    if (!s)
        return;
    store_leave(s, well);
    if (s->fd >= 0)
        close(s->fd);
    bytes_release(&s->value);
    bytes_release(&s->absent);
    cond_destroy(&s->news);
    lock_destroy(&s->lock);
    free(s);
}

int store_set(struct store *s, const char *key, const void *value, size_t len, struct err *err)
{
    return ask(s, STORE_SET, key, value, len, err);
}

int store_get(struct store *s, const char *key, void **ret, size_t *len, struct err *err)
{
    if (ask(s, STORE_GET, key, NULL, 0, err))
        return -1;
    ACQUIRE(&s->lock);
    *len = s->value.len;
    *ret = bytes_take(&s->value);
    return 0;
}

int store_dead(struct store *s, uint64_t wait_ns, uint32_t *ret)
{
    uint64_t end = clock_mono_ns() + wait_ns, now;
    ACQUIRE(&s->lock);
    while (!s->dead_known && (now = clock_mono_ns()) < end)
        cond_wait_for(&s->news, &s->lock, end - now);
    if (!s->dead_known)
        return -1;
    *ret = s->dead;
    return 0;
}

void store_waits(struct store *s, bool does)
{
    ACQUIRE(&s->lock);
    s->waits_ns = does ? clock_mono_ns() : 0;
}

void store_find_still(struct store *s, uint64_t wait_ns)
{
    cleanup_bytes struct bytes out = {0};
    uint64_t end = clock_mono_ns() + wait_ns, now;
    store_frame_add(&out, STORE_STILL, s->r.rank, NULL, 0, NULL, 0);
    ACQUIRE(&s->lock);
    (void)address_send(s->fd, out.data, out.len); /* if it fails, recv() sees it */
    while (!s->still_known && !s->dead_known && (now = clock_mono_ns()) < end)
        cond_wait_for(&s->news, &s->lock, end - now);
    if (!s->still_known)
        now_dead(s, 0, true);
}

bool store_is_still(struct store *s)
{
    ACQUIRE(&s->lock);
    return s->still;
}

bool store_stops(struct store *s)
{
    ACQUIRE(&s->lock);
    return s->stops;
}

bool store_late(struct store *s)
{
    ACQUIRE(&s->lock);
    return s->stops && clock_mono_ns() - s->stops_ns >= STORE_STOP_NS;
}

const char *store_address(const struct store *s)
{
    return s->address;
}
