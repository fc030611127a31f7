/*
 * Whether a failed try is repeated, and when. Pure: the caller brings clock and randomness.
 *
 * The pause before try n+1 is drawn evenly from 0..min(cap, base * 2^(n-1)) ("full jitter"), never
 * less than what the server asked for. A budget shared by all transfers keeps a storm from
 * multiplying the load: a retry takes one token; each success brings one back and time brings ten a
 * second. With no token left a retry is put off until one will be there, not refused, so the
 * requests sent are at most twice those that succeed plus ten a second.
 */
#ifndef SAMPAN_FETCH_RETRY_INTERNAL_H
#define SAMPAN_FETCH_RETRY_INTERNAL_H

#include <stdbool.h>
#include <stdint.h>

#include "err.h"

struct retry_policy {
    unsigned max_tries;
    uint64_t base_ns, cap_ns; /* of the pause */
    uint64_t budget_ns;       /* of a transfer, pauses included */
};

#define RETRY_TOKENS       100 /* the most that are saved up */
#define RETRY_TOKENS_PER_S 10

struct retry_budget {
    int64_t milli; /* thousandths of a token; negative: promised to retries that wait */
    uint64_t at_ns;
};
void retry_budget_init(struct retry_budget *b, uint64_t now_ns);
void retry_budget_success(struct retry_budget *b);

enum retry_how {
    RETRY_NEVER,  /* the error is for good */
    RETRY_PAUSE,  /* after a pause */
    RETRY_AT_ONCE /* the request is built anew: another region, clock or key */
};
/* How an error class is answered when nobody knows better. */
enum retry_how retry_of_class(enum err_class class);

struct retry_ask {
    enum retry_how how;
    unsigned tries; /* done so far, >= 1 */
    uint64_t elapsed_ns;
    uint64_t server_asks_ns; /* Retry-After; 0: nothing */
    uint64_t now_ns;
    uint64_t random;  /* evenly drawn from all 64 bits */
    unsigned excused; /* tries that count for the pause alone */
};
/* True: try again after *ret_pause_ns. */
bool retry_decide(const struct retry_policy *p, struct retry_budget *b, const struct retry_ask *ask,
                  uint64_t *ret_pause_ns);

#endif
