/*
 * A rate limit that holds exactly: over any time T the bytes taken are at most rate * T plus the
 * burst plus the one take that emptied it. Kept as the moment up to which the past takes have used
 * the line; no rounding is lost. Pure; the caller locks.
 */
#ifndef SAMPAN_FETCH_RATE_INTERNAL_H
#define SAMPAN_FETCH_RATE_INTERNAL_H

#include <stdbool.h>
#include <stdint.h>

struct rate {
    uint64_t per_s; /* 0: no limit */
    uint64_t used_until_ns;
    uint64_t rest; /* of a division by per_s: a part of a nanosecond not yet counted */
};

#define RATE_BURST_NS 50000000ull /* what may be saved up while nothing flows */

void rate_set(struct rate *r, uint64_t per_s, uint64_t now_ns);
void rate_take(struct rate *r, uint64_t bytes, uint64_t now_ns);
/* How long to wait before more may be taken; 0: now. */
uint64_t rate_wait_ns(const struct rate *r, uint64_t now_ns);

#endif
