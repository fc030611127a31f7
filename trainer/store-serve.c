/* The store's serving side: one thread, one poll loop, a table of keys. */
#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include "address.h"
#include "clock.h"
#include "mem.h"
#include "store-internal.h"
#include "sync.h"

#define PEERS    (RENDEZVOUS_MAX_RANKS + 64)
#define KEYS_MAX 65536
#define FRESH_NS \
    (5 * NS_PER_S) /* so old is word of one who waits at most, who sends it twice a second */
#define NAMED 200  /* bytes of text about ranks: where many are not there, some are enough */

struct peer {
    int fd;
    uint32_t rank; /* NOBODY until it said hello */
    bool bye;
    uint64_t waited_ns; /* when it last said that it waits in a call; 0: never */
    struct bytes in, out;
    char *waits; /* the key that it asked for and nobody set yet */
};
struct entry {
    char *key;
    struct bytes value;
};
struct store_server {
    int listener, wake;
    uint32_t ranks;
    bool ending;     /* set before `wake` is written, read after */
    uint64_t end_at; /* of the wait for good byes */
    struct peer *peers;
    size_t n_peers;
    struct entry *entries;
    size_t n_entries;
    unsigned char *gone; /* of each rank: it said good bye, or died */
    pthread_t thread;
    struct lock lock; /* of `ending` and `end_at` */
};

/* --- frames ----------------------------------------------------------------------------------- */

static void add_u32(struct bytes *out, uint32_t n)
{
    unsigned char b[4] = {n & 255, n >> 8 & 255, n >> 16 & 255, n >> 24};
    bytes_add(out, b, 4);
}

static uint32_t get_u32(const char *p)
{
    const unsigned char *b = (const unsigned char *)p;
    return b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
}

void store_frame_add(struct bytes *out, enum store_op op, uint32_t rank, const char *key,
                     size_t key_len, const void *value, size_t value_len)
{
    bytes_add_char(out, (char)op);
    add_u32(out, rank);
    add_u32(out, (uint32_t)key_len);
    add_u32(out, (uint32_t)value_len);
    bytes_add(out, key, key_len);
    bytes_add(out, value, value_len);
}

long store_frame_parse(const char *data, size_t len, struct store_frame *ret)
{
    if (len < STORE_HEAD)
        return 0;
    size_t key = get_u32(data + 5), value = get_u32(data + 9);
    if (data[0] < STORE_HELLO || data[0] > STORE_STILL || key > STORE_KEY_MAX ||
        value > STORE_VALUE_MAX)
        return -1;
    if (len < STORE_HEAD + key + value)
        return 0;
    *ret = (struct store_frame){.op = (enum store_op)data[0],
                                .rank = get_u32(data + 1),
                                .key = data + STORE_HEAD,
                                .value = data + STORE_HEAD + key,
                                .key_len = key,
                                .value_len = value};
    return (long)(STORE_HEAD + key + value);
}

/* --- peers ------------------------------------------------------------------------------------ */

static void send_out(struct peer *p)
{
    while (p->out.len > 0) {
        ssize_t n = send(p->fd, p->out.data, p->out.len, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n <= 0)
            return; /* later; a broken connection is seen by poll */
        memmove(p->out.data, p->out.data + n, p->out.len - (size_t)n);
        p->out.len -= (size_t)n;
    }
}

static void answer(struct peer *p, enum store_op op, uint32_t rank, const struct bytes *value)
{
    store_frame_add(&p->out, op, rank, NULL, 0, value ? value->data : NULL, value ? value->len : 0);
    send_out(p);
}

/* All ranks, something about this one. */
static void tell_all(struct store_server *s, enum store_op op, uint32_t rank)
{
    for (size_t i = 0; i < s->n_peers; i++)
        if (s->peers[i].rank != NOBODY)
            answer(&s->peers[i], op, rank, NULL);
}

static struct entry *find(struct store_server *s, const char *key, size_t len)
{
    for (size_t i = 0; i < s->n_entries; i++)
        if (strlen(s->entries[i].key) == len && memcmp(s->entries[i].key, key, len) == 0)
            return &s->entries[i];
    return NULL;
}

static void set(struct store_server *s, const struct store_frame *f)
{
    struct entry *e = find(s, f->key, f->key_len);
    if (!e) {
        if (s->n_entries == KEYS_MAX)
            return;
        s->entries = xrealloc(s->entries, (s->n_entries + 1) * sizeof *s->entries);
        e = &s->entries[s->n_entries++];
        *e = (struct entry){.key = xstrndup(f->key, f->key_len)};
    }
    bytes_clear(&e->value);
    bytes_add(&e->value, f->value, f->value_len);
    for (size_t i = 0; i < s->n_peers; i++) {
        struct peer *p = &s->peers[i];
        if (p->waits && strcmp(p->waits, e->key) == 0) {
            free(take_ptr(&p->waits));
            answer(p, STORE_VALUE, 0, &e->value);
        }
    }
}

static void get(struct store_server *s, struct peer *p, const struct store_frame *f)
{
    struct entry *e = find(s, f->key, f->key_len);
    free(p->waits);
    p->waits = e ? NULL : xstrndup(f->key, f->key_len);
    if (e)
        answer(p, STORE_VALUE, 0, &e->value);
}

/* Whom `p` waits for: who came waits for a key, as `p` does, or runs no more. */
static void tell_absent(struct store_server *s, struct peer *p)
{
    cleanup_bytes struct bytes absent = {0};
    cleanup_free bool *here = xcalloc(s->ranks, sizeof *here);
    for (size_t i = 0; i < s->n_peers; i++)
        if (s->peers[i].rank != NOBODY)
            here[s->peers[i].rank] = s->peers[i].waits || &s->peers[i] == p;
    for (uint32_t r = 0; r < s->ranks && absent.len < NAMED; r++)
        if (!here[r] && !s->gone[r])
            bytes_addf(&absent, "%s%u", absent.len ? ", " : "", r);
    if (absent.len >= NAMED)
        bytes_add_str(&absent, " ...");
    answer(p, STORE_ABSENT, 0, &absent);
}

/* All that are in a call and run say so: who does not is named to all, as if it had died. */
static void tell_still(struct store_server *s, struct peer *p)
{
    uint32_t still = NOBODY;
    uint64_t now = clock_mono_ns();
    for (size_t i = 0; i < s->n_peers; i++) {
        const struct peer *other = &s->peers[i];
        bool waits = other->waited_ns && now - other->waited_ns < FRESH_NS;
        if (other != p && other->rank != NOBODY && !waits && other->rank < still)
            still = other->rank;
    }
    if (still == NOBODY)
        answer(p, STORE_STILL, NOBODY, NULL);
    else
        tell_all(s, STORE_STILL, still);
}

/* A rank's second connection, or one of another job, is refused. */
static int hello(struct store_server *s, struct peer *p, uint32_t rank)
{
    bool taken = rank >= s->ranks || s->gone[rank];
    for (size_t i = 0; i < s->n_peers; i++)
        taken |= s->peers[i].rank == rank;
    answer(p, taken ? STORE_WRONG : STORE_DONE, s->ranks, NULL);
    if (taken)
        return -1;
    p->rank = rank;
    return 0;
}

static int take_frame(struct store_server *s, struct peer *p, const struct store_frame *f)
{
    if (f->op == STORE_HELLO)
        return p->rank == NOBODY ? hello(s, p, f->rank) : -1;
    if (p->rank == NOBODY)
        return -1;
    switch (f->op) {
    case STORE_SET:
        set(s, f);
        answer(p, STORE_DONE, 0, NULL);
        return 0;
    case STORE_GET:
        get(s, p, f);
        return 0;
    case STORE_STOP:
        tell_all(s, STORE_STOP, p->rank);
        return 0;
    case STORE_ABSENT:
        tell_absent(s, p);
        return 0;
    case STORE_WAITS:
        p->waited_ns = clock_mono_ns();
        return 0;
    case STORE_STILL:
        tell_still(s, p);
        return 0;
    case STORE_BYE:
        p->bye = true;
        return 0;
    default:
        return -1;
    }
}

/* -1: this peer is at its end. */
static int receive(struct store_server *s, struct peer *p)
{
    char buf[8192];
    ssize_t n = recv(p->fd, buf, sizeof buf, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return 0;
    if (n <= 0)
        return -1;
    bytes_add(&p->in, buf, (size_t)n);
    struct store_frame f;
    long used;
    while ((used = store_frame_parse(p->in.data, p->in.len, &f)) > 0) {
        if (take_frame(s, p, &f))
            return -1;
        memmove(p->in.data, p->in.data + used, p->in.len - (size_t)used);
        p->in.len -= (size_t)used;
    }
    return used < 0 ? -1 : 0;
}

static void drop(struct store_server *s, size_t i)
{
    struct peer p = s->peers[i];
    s->peers[i] = s->peers[--s->n_peers];
    close(p.fd);
    free(p.waits);
    bytes_release(&p.in);
    bytes_release(&p.out);
    if (p.rank == NOBODY)
        return;
    s->gone[p.rank] = 1;
    if (!p.bye)
        tell_all(s, STORE_DEAD, p.rank);
}

/* False: nobody could be let in. */
static bool accept_peer(struct store_server *s)
{
    int fd = address_accept(s->listener);
    if (fd < 0)
        return false;
    if (s->n_peers == PEERS) {
        close(fd);
        return true;
    }
    s->peers = xrealloc(s->peers, (s->n_peers + 1) * sizeof *s->peers);
    s->peers[s->n_peers++] = (struct peer){.fd = fd, .rank = NOBODY};
    return true;
}

/* --- the thread ------------------------------------------------------------------------------- */

static bool all_gone(const struct store_server *s)
{
    for (uint32_t i = 0; i < s->ranks; i++)
        if (!s->gone[i])
            return false;
    return true;
}

/* Milliseconds to wait for something to happen, -1: for ever; or -2: the end. */
static int patience(struct store_server *s)
{
    ACQUIRE(&s->lock);
    if (!s->ending)
        return -1;
    uint64_t now = clock_mono_ns();
    if (all_gone(s) || now >= s->end_at)
        return -2;
    return (int)((s->end_at - now) / NS_PER_MS + 1);
}

static void *serve(void *arg)
{
    struct store_server *s = arg;
    struct pollfd *fds = NULL;
    bool is_deaf = false; /* the listener is left alone for a moment */
    int wait;
    while ((wait = patience(s)) != -2) {
        size_t n = s->n_peers;
        if (is_deaf && (wait < 0 || wait > ADDRESS_PAUSE_MS))
            wait = ADDRESS_PAUSE_MS;
        fds = xrealloc(fds, (n + 2) * sizeof *fds);
        fds[0] = (struct pollfd){.fd = is_deaf ? -1 : s->listener, .events = POLLIN};
        fds[1] = (struct pollfd){.fd = s->wake, .events = POLLIN};
        for (size_t i = 0; i < n; i++)
            fds[i + 2] =
                (struct pollfd){.fd = s->peers[i].fd,
                                .events = (short)(POLLIN | (s->peers[i].out.len ? POLLOUT : 0))};
        if (poll(fds, n + 2, wait) < 0)
            continue;
        if (fds[1].revents) {
            uint64_t count;
            (void)!read(s->wake, &count, sizeof count);
        }
        for (size_t i = n; i-- > 0;) { /* from the end: drop() moves the last into the place */
            if (fds[i + 2].revents & POLLOUT)
                send_out(&s->peers[i]);
            if (fds[i + 2].revents & ~POLLOUT && receive(s, &s->peers[i]))
                drop(s, i);
        }
        is_deaf = fds[0].revents && !accept_peer(s);
    }
    free(fds);
    return NULL;
}

int store_serve(struct store_server **ret, int listener, uint32_t ranks, struct err *err)
{
    struct store_server *s = xcalloc(1, sizeof *s);
    s->listener = listener;
    s->ranks = ranks;
    s->gone = xcalloc(ranks, 1);
    s->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    lock_init(&s->lock, RANK_TRAIN, "train-store");
    int code = s->wake < 0 ? errno : thread_start(&s->thread, "train-store", serve, s);
    if (code) {
        close(listener);
        if (s->wake >= 0)
            close(s->wake);
        lock_destroy(&s->lock);
        free(s->gone);
        free(s);
        return err_sys(err, code, "start the store of the ranks");
    }
    *ret = s;
    return 0;
}

void store_serve_end(struct store_server *s, uint64_t wait_ns)
{
    if (!s)
        return;
    lock_take(&s->lock);
    s->ending = true;
    s->end_at = clock_mono_ns() + wait_ns;
    lock_drop(&s->lock);
    uint64_t one = 1;
    (void)!write(s->wake, &one, sizeof one);
    pthread_join(s->thread, NULL);
    for (size_t i = 0; i < s->n_peers; i++) {
        close(s->peers[i].fd);
        free(s->peers[i].waits);
        bytes_release(&s->peers[i].in);
        bytes_release(&s->peers[i].out);
    }
    for (size_t i = 0; i < s->n_entries; i++) {
        free(s->entries[i].key);
        bytes_release(&s->entries[i].value);
    }
    free(s->peers);
    free(s->entries);
    free(s->gone);
    close(s->listener);
    close(s->wake);
    lock_destroy(&s->lock);
    free(s);
}
