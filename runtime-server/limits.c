/*
 * What one client can take of the server: requests a second from one address, and the time a
 * request may need to arrive. A client who sends a byte now and then, or reads one, holds a thread
 * no longer than that.
 *
 * Each address has a bucket that fills with `rate` requests a second and holds those of one second.
 * A request takes one; one that is refused takes a hundredth of the bucket, so that tokens are not
 * guessed at the speed of those who have one. IPv6 clients own a /64, and share its bucket.
 *
 * Each connection has a time by which its next step must be done. A thread ends those that are late
 * by shutting their sockets down; the library then closes them as if the client had gone.
 */
#include <microhttpd.h>
#include <string.h>

#include "clock.h"
#include "mem.h"
#include "server-internal.h"

#define WAYS          4
#define LOOK_NS       (NS_PER_S / 4)
#define ANSWER_TIMES  15 /* so many request times for taking the answer */
#define REFUSED_SHARE 100

struct bucket {
    unsigned char address[16];
    double left;
    uint64_t at_ns; /* 0: not used yet */
};

/* A client's connection, from accept to close; on the list under the lock. */
struct client {
    struct client *next, **at;
    struct limits *limits;
    int fd;
    uint64_t deadline_ns; /* UINT64_MAX: none */
};

/* --- requests a second ------------------------------------------------------------------------ */

static size_t set_of(const unsigned char address[16])
{
    uint64_t h = 14695981039346656037ull; /* FNV-1a */
    for (int i = 0; i < 16; i++)
        h = (h ^ address[i]) * 1099511628211ull;
    return (h ^ h >> 32) % LIMITS_SETS * WAYS;
}

/* How much is in it by now. Whoever came earlier may be counted later: it adds nothing. */
static double level(const struct limits *l, const struct bucket *b, uint64_t now)
{
    uint64_t since = now > b->at_ns ? now - b->at_ns : 0;
    double left = b->left + (double)since / NS_PER_S * l->rate;
    return !b->at_ns || left > l->rate ? l->rate : left;
}

/* The bucket of an address; a new one takes the place of that which is fullest. Lock held. */
static struct bucket *bucket_of(struct limits *l, const unsigned char address[16], uint64_t now)
{
    struct bucket *set = &l->buckets[set_of(address)], *best = set;
    for (int i = 0; i < WAYS; i++) {
        if (set[i].at_ns && memcmp(set[i].address, address, 16) == 0) {
            best = &set[i];
            best->left = level(l, best, now);
            best->at_ns = now > best->at_ns ? now : best->at_ns;
            return best;
        }
        if (level(l, &set[i], now) > level(l, best, now))
            best = &set[i];
    }
    memcpy(best->address, address, 16);
    best->left = l->rate;
    best->at_ns = now;
    return best;
}

static bool bucket_address(const struct sockaddr *peer, unsigned char ret[16])
{
    static const unsigned char mapped[12] = {[10] = 0xff, [11] = 0xff};
    if (!peer || !address_bytes(peer, ret))
        return false;
    if (memcmp(ret, mapped, 12) != 0)
        memset(ret + 8, 0, 8);
    return true;
}

bool limits_take(struct limits *l, const struct sockaddr *peer, uint64_t now)
{
    unsigned char address[16];
    if (l->rate <= 0 || !bucket_address(peer, address))
        return true;
    ACQUIRE(&l->lock);
    struct bucket *b = bucket_of(l, address, now);
    if (b->left < 1)
        return false;
    b->left -= 1;
    return true;
}

void limits_refused(struct limits *l, const struct sockaddr *peer, uint64_t now)
{
    unsigned char address[16];
    if (l->rate <= 0 || !bucket_address(peer, address))
        return;
    ACQUIRE(&l->lock);
    struct bucket *b = bucket_of(l, address, now);
    double cost = l->rate / REFUSED_SHARE - 1; /* one was taken when it came */
    b->left -= cost > b->left ? b->left : cost > 0 ? cost : 0;
}

/* --- time ------------------------------------------------------------------------------------- */

static struct client *client_of(struct MHD_Connection *connection)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    return info ? info->socket_context : NULL;
}

static void add_client(struct limits *l, struct MHD_Connection *connection, void **ret)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    if (!info)
        return;
    struct client *client = xcalloc(1, sizeof *client);
    client->limits = l;
    client->fd = info->connect_fd;
    client->deadline_ns = clock_mono_ns() + l->request_ns;
    *ret = client;
    ACQUIRE(&l->lock);
    client->next = l->clients;
    client->at = &l->clients;
    if (client->next)
        client->next->at = &client->next;
    l->clients = client;
    l->connections++;
    cond_signal(&l->wake);
}

static void remove_client(struct client *client)
{
    struct limits *l = client->limits;
    {
        ACQUIRE(&l->lock);
        *client->at = client->next;
        if (client->next)
            client->next->at = client->at;
        l->connections--;
    }
    free(client);
}

void limits_on_connection(void *cls, struct MHD_Connection *connection, void **context,
                          enum MHD_ConnectionNotificationCode what)
{
    if (what == MHD_CONNECTION_NOTIFY_STARTED) {
        add_client(cls, connection, context);
    } else if (*context) {
        remove_client(*context);
        *context = NULL;
    }
}

void limits_step(struct MHD_Connection *connection, enum limits_step step)
{
    struct client *client = client_of(connection);
    if (!client)
        return;
    struct limits *l = client->limits;
    const uint64_t most[] = {
        [STEP_REQUEST] = l->request_ns,
        [STEP_ANSWER] = l->request_ns * ANSWER_TIMES,
    };
    ACQUIRE(&l->lock);
    client->deadline_ns = step == STEP_UNLIMITED ? UINT64_MAX : clock_mono_ns() + most[step];
}

static void end_late_ones(struct limits *l)
{
    uint64_t now = clock_mono_ns();
    for (struct client *client = l->clients; client; client = client->next) {
        if (client->deadline_ns > now)
            continue;
        client->deadline_ns = UINT64_MAX;
        shutdown(client->fd, SHUT_RDWR);
        counter_add(&l->timed_out, 1);
    }
}

static void *watch(void *arg)
{
    struct limits *l = arg;
    ACQUIRE(&l->lock);
    while (!l->stopping) {
        if (l->clients)
            cond_wait_for(&l->wake, &l->lock, LOOK_NS);
        else
            cond_wait(&l->wake, &l->lock);
        end_late_ones(l);
    }
    return NULL;
}

/* --- life ------------------------------------------------------------------------------------- */

int limits_start(struct limits *l, double rate, uint64_t request_ns, struct err *err)
{
    l->rate = rate;
    l->request_ns = request_ns;
    l->buckets = xcalloc((size_t)LIMITS_SETS * WAYS, sizeof *l->buckets);
    int e = thread_start(&l->watcher, "server-limits", watch, l);
    if (e)
        return err_sys(err, e, "start a thread");
    l->watches = true;
    return 0;
}

void limits_init(struct limits *l)
{
    lock_init(&l->lock, RANK_METRICS, "server limits");
    cond_init(&l->wake);
}

void limits_destroy(struct limits *l)
{
    if (l->watches) {
        {
            ACQUIRE(&l->lock);
            l->stopping = true;
            cond_broadcast(&l->wake);
        }
        pthread_join(l->watcher, NULL);
    }
    free(l->buckets);
    cond_destroy(&l->wake);
    lock_destroy(&l->lock);
}
