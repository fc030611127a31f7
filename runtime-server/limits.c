/*
 * What one client can take of the server: requests a second from one address. (The time that a
 * request may need: http-clients.h.)
 *
 * Each address has a bucket that fills with `rate` requests a second and holds those of one second.
 * A request takes one; one that is refused takes a hundredth of the bucket, so that tokens are not
 * guessed at the speed of those who have one. IPv6 clients own a /64, and share its bucket.
 */
#include <string.h>

#include "clock.h"
#include "mem.h"
#include "server-internal.h"

#define WAYS          4
#define REFUSED_SHARE 100

struct bucket {
    unsigned char address[16];
    double left;
    uint64_t at_ns; /* 0: not used yet */
};

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

void limits_init(struct limits *l, double rate)
{
    lock_init(&l->lock, RANK_METRICS, "server limits");
    l->rate = rate;
    l->buckets = xcalloc((size_t)LIMITS_SETS * WAYS, sizeof *l->buckets);
}

void limits_destroy(struct limits *l)
{
    free(l->buckets);
    lock_destroy(&l->lock);
}
