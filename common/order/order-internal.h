/*
 * Inside the order library: the generators, and what a kind of sampler has to provide.
 */
#ifndef SAMPAN_ORDER_INTERNAL_H
#define SAMPAN_ORDER_INTERNAL_H

#include "order.h"

#define ORDER_MAX_SAMPLES UINT32_MAX /* sample numbers are kept as 32 bits */

/* --- rng.c: Mersenne Twister 19937, the engine of numpy's RandomState and of torch's CPU generator
 */

struct rng {
    uint32_t key[624];
    unsigned pos;
};
void rng_seed(struct rng *g, uint32_t seed); /* numpy RandomState(int), torch manual_seed */
void rng_seed_array(struct rng *g, const uint32_t *key, size_t len); /* RandomState([…]) */
uint32_t rng_u32(struct rng *g);
uint64_t rng_u64(struct rng *g);
void rng_skip(struct rng *g, uint64_t n); /* n draws of 32 bits */

/* A uniform draw from 0..max as numpy's legacy generator does it: masked rejection. */
uint64_t rng_interval(struct rng *g, uint64_t max);
/* numpy's shuffle: downwards, in place. */
void rng_shuffle(struct rng *g, uint32_t *a, uint64_t n);
/* The draws of such a shuffle without the shuffle. */
void rng_shuffle_skip(struct rng *g, uint64_t n);
/* torch.randperm(n) on the CPU: fills `a`; and its draws alone. */
void rng_randperm(struct rng *g, uint32_t *a, uint64_t n);
void rng_randperm_skip(struct rng *g, uint64_t n);

/* --- one epoch of one rank ------------------------------------------------------------------- */

/*
 * The order is `at(position)`: an arithmetic over `table`, the permutation drawn for the epoch
 * (NULL: the identity). So no rank's list is ever copied out of the epoch's.
 */
struct order {
    struct order_spec spec;
    uint64_t n;      /* samples of the set */
    uint64_t length; /* samples this rank reads */
    uint64_t total;  /* distributed: samples of all ranks with padding */
    uint32_t *table; /* of table_len entries */
    uint64_t table_len;
    uint64_t first; /* local: where this rank's share begins */
    uint64_t (*at)(const struct order *o, uint64_t pos);
};

/* Each fills `o` (spec and n are set) for one family of kinds. */
int order_init_whole(struct order *o, struct err *err); /* sequence, random samplers, loaders */
int order_init_distributed(struct order *o, struct err *err); /* Paddle's and torch's */
int order_init_local(struct order *o, struct err *err);

/* A table of n entries 0..n-1 (ERR_LIMIT without memory). */
int order_table_new(struct order *o, uint64_t n, struct err *err);

#endif
