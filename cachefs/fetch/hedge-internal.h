/*
 * When a request is so late that a second one is worth sending. Pure.
 *
 * Times are kept in classes of length (a 4 MiB block is not late where a small sample would be),
 * each a log-linear histogram that forgets by halving. A reader's second request goes out once the
 * first has taken longer than its class's 95th percentile. Of those below readers only stragglers
 * get one: when nothing else waits for the line, and what is left of them would take longer than
 * the whole of another, that is at the pace so far, or as long again as nothing has come. How long
 * another would take depends on how many share the line now. Either for at most 5 % of their
 * requests; readers and those below have a `struct hedge` each.
 */
#ifndef SAMPAN_FETCH_HEDGE_INTERNAL_H
#define SAMPAN_FETCH_HEDGE_INTERNAL_H

#include <stdbool.h>
#include <stdint.h>

#define HEDGE_CLASSES 4
#define HEDGE_BUCKETS 320          /* 8 for each power of two of nanoseconds */
#define HEDGE_ENOUGH  64           /* samples before a percentile means anything */
#define HEDGE_WINDOW  1024         /* samples after which half is forgotten */
#define HEDGE_MIN_NS  10000000ull  /* never earlier: below, scheduling noise is the tail */
#define HEDGE_LOOK_NS 250000000ull /* nobody waits for a straggler: half of that helps nobody */

struct hedge {
    struct hedge_class {
        uint32_t buckets[HEDGE_BUCKETS];
        uint32_t count;
        uint64_t after_ns; /* the 95th percentile now; 0: unknown */
        uint64_t half_ns;  /* the median, */
        uint32_t crowd;    /* with about so many at once, in sixteenths */
    } classes[HEDGE_CLASSES];
    unsigned
        allowed; /* hundredths of a second request: each request adds 5, each hedge takes 100 */
};

void hedge_request(struct hedge *h); /* a first request was sent */
/* `crowd` requests shared the line at its end. */
void hedge_learn(struct hedge *h, uint32_t len, uint64_t took_ns, uint32_t crowd);
/* After how long a request of `len` bytes is late; UINT64_MAX: unknown. */
uint64_t hedge_after_ns(const struct hedge *h, uint32_t len);
/* A request of `len` bytes under way: `got` of them came in `took_ns`, none in the last
 * `silent_ns`; `crowd` requests share the line. */
struct hedge_look {
    uint32_t len;
    uint64_t got, took_ns, silent_ns;
    uint32_t crowd;
};
/* Whether it will be far later than another one. */
bool hedge_straggles(const struct hedge *h, const struct hedge_look *l);
/* Takes the permission for one second request; false: 5 % are used up. */
bool hedge_take(struct hedge *h);

#endif
