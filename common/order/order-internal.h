/*
 * Inside the order library: the generators, and what a kind of sampler has to provide.
 */
#ifndef SAMPAN_ORDER_INTERNAL_H
#define SAMPAN_ORDER_INTERNAL_H

#include "order.h"

#define ORDER_MAX_SAMPLES UINT32_MAX /* sample numbers are kept as 32 bits */
#define ORDER_MAX_EPOCH   INT64_MAX  /* what is added to one does not overflow */

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
 * The order is `at(position)`: an arithmetic over `table`, the epoch's list (NULL: 0, 1, 2, …). So
 * no rank's list is ever copied out of the epoch's.
 */
struct order {
    struct order_spec spec;
    uint64_t n;      /* samples of the set */
    uint64_t length; /* samples this rank reads, those skipped included */
    uint64_t listed; /* entries of the epoch's list that are dealt, before padding at its end */
    uint64_t total;  /* the same with padding, or without what drop-last leaves out */
    uint32_t *table; /* of table_len entries */
    uint64_t table_len;
    uint64_t first; /* local: where this rank's share begins */
    uint64_t (*at)(const struct order *o, uint64_t pos);

    /* Resumed epochs (resume.c). */
    bool redealt;  /* the list is the rest that other ranks have left */
    uint64_t skip; /* read already by these ranks */
    size_t n_parts;
    struct order_part parts[ORDER_PARTS]; /* what was read before the list was dealt anew */
};

/* Each fills `o` (spec and n are set) for one family of kinds. */
int order_init_whole(struct order *o, struct err *err); /* sequence, random samplers, loaders */
int order_init_distributed(struct order *o, struct err *err); /* Paddle's and torch's */
int order_init_local(struct order *o, struct err *err);

/* Deals o->table (o->listed entries, no more shuffling) to o->spec.ranks ranks. */
void order_deal_distributed(struct order *o);
void order_deal_local(struct order *o);

/* Does every rank read the whole set? */
bool order_kind_whole(enum order_kind k);
/* The entry `i` (< max(listed, total)) of the epoch's list, padding included. Not for `local`. */
static inline uint64_t order_entry(const struct order *o, uint64_t i)
{
    if (i >= o->listed)
        i = (i - o->listed) % o->listed;
    return o->table ? o->table[i] : i;
}
/* At which position its rank reads entry `i`. Not for `local` before it was dealt anew. */
uint64_t order_entry_position(const struct order *o, uint64_t i);

/* A table of n entries 0..n-1 (ERR_LIMIT without memory). */
int order_table_new(struct order *o, uint64_t n, struct err *err);

/* spec.c: the SPEC without ranks, rank and ranks-per-node, and without keys that have their
 * defaults. */
void order_spec_print_brief(const struct order_spec *s, char *out, size_t size);

#endif
