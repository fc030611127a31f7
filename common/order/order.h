/*
 * The order of training: which sample number is read at which position, bit for bit as the
 * framework would. Pure: no I/O, no clock, no allocation beyond the tables of the epochs asked for
 * (two of them at most: 8 bytes a sample). Algorithms and vectors: the frameworks' own, documented
 * in docs/formats/order.md.
 */
#ifndef SAMPAN_ORDER_H
#define SAMPAN_ORDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "err.h"

#ifdef __cplusplus
extern "C" {
#endif

enum order_kind {
    ORDER_SEQUENCE,
    ORDER_PADDLE_RANDOM,
    ORDER_PADDLE_LOADER,
    ORDER_PADDLE_DISTRIBUTED,
    ORDER_TORCH_RANDOM,
    ORDER_TORCH_LOADER,
    ORDER_TORCH_DISTRIBUTED,
    ORDER_LOCAL,
};

/* A parsed SPEC: "NAME[,key=value]…" (docs: sampan help mount, --sampler). */
struct order_spec {
    enum order_kind kind;
    uint32_t ranks, rank, ranks_per_node;
    uint32_t batch_size;
    uint64_t epoch;
    uint32_t epochs;
    uint64_t seed;
    bool shuffle, drop_last;
    uint32_t workers;
    bool generator, persistent;
    uint32_t rotate;
    char list[512]; /* SPEC keys list= and root=; "" if absent */
    char root[512];
    bool has_rank;           /* rank= was given */
    bool has_ranks;          /* ranks= was given */
    bool has_ranks_per_node; /* ranks-per-node= was given */
};

/* An unknown name or key, or a value out of bounds, is ERR_USAGE and lists those known. */
int order_spec_parse(struct order_spec *ret, const char *text, struct err *err);
/* The same, among so many ranks where it does not say ranks=. */
int order_spec_parse_among(struct order_spec *ret, const char *text, uint32_t ranks,
                           struct err *err);
void order_spec_print(const struct order_spec *s, char *out, size_t size);
const char *order_kind_name(enum order_kind k);
/* Do both give every rank the same order, and each node the same ranks? */
bool order_spec_same(const struct order_spec *a, const struct order_spec *b);
/* Does each rank read a share of its own (false: every rank reads the whole set)? */
bool order_spec_deals(const struct order_spec *s);

/* One epoch of one rank: a table of sample numbers. At most two epochs are ever in memory. */
struct order;
/* Prepares the order over `n` samples for s->epoch and s->rank. */
int order_new(struct order **ret, const struct order_spec *s, uint64_t n, struct err *err);
void order_free(struct order *o); /* NULL is fine */
/* The same epoch for another rank: at no cost where all ranks share one list. */
int order_set_rank(struct order *o, uint32_t rank, struct err *err);
uint64_t order_length(const struct order *o);
/* The number of the sample at position `pos` (< order_length). */
uint64_t order_at(const struct order *o, uint64_t pos);
/* Are they *ret_first, *ret_first + 1 and so on? (Where it cannot be seen at once: false.) */
bool order_is_range(const struct order *o, uint64_t *ret_first);

/* --- going on in the middle of an epoch ------------------------------------------------------- */

/*
 * A resume token is what a checkpoint has to keep: set, sampler, seed, epoch, and how far each of
 * how many ranks has read. As text it is one short printable line, with a version and a sum:
 *
 *   sampan-order-1:SAMPLES:RANKS@POSITION[,RANKS@POSITION]…:SPEC:CRC
 *
 * With as many ranks as before the epoch goes on exactly where it was. With another number the rest
 * of the epoch (all samples that no rank has read yet, in the epoch's order) is dealt anew, in the
 * sampler's manner: each sample of the rest is read once, except that fewer than `ranks` repeats
 * make the ranks equally long (drop-last: as the sampler leaves samples out). That may happen again
 * and again within an epoch: each deal adds a part. A sampler that gives every rank the whole set
 * just goes on at its position, for any number of ranks.
 */
#define ORDER_PARTS      16
#define ORDER_TOKEN_TEXT 1600
struct order_part {
    uint32_t ranks;
    uint64_t position; /* samples that each rank had read when it ended */
};
struct order_token {
    uint64_t n;
    struct order_spec spec; /* rank and ranks of it mean nothing here */
    size_t n_parts;         /* at least 1 */
    struct order_part parts[ORDER_PARTS];
};
/* That of an epoch's begin. */
void order_token_begin(const struct order_spec *spec, uint64_t samples, struct order_token *ret);
/* The token of `o` when each of its ranks has read `pos` samples of it. ERR_LIMIT: dealt anew too
 * often within one epoch. */
int order_token_of(const struct order *o, uint64_t pos, struct order_token *ret, struct err *err);
/* `out` has ORDER_TOKEN_TEXT bytes. */
void order_token_print(const struct order_token *t, char *out);
/* Text that is no token, of another version, or damaged is ERR_USAGE and says which. */
int order_token_parse(struct order_token *ret, const char *text, struct err *err);
/* What rank `rank` of `ranks` reads from there on. */
int order_resume(struct order **ret, const struct order_token *t, uint32_t ranks, uint32_t rank,
                 struct err *err);

/* --- sums --------------------------------------------------------------------------------------
 */

/* CRC-32 (zlib's) over numbers as little-endian int64: one figure for a whole order. */
struct order_crc {
    uint32_t table[8][256];
    uint32_t crc;
};
void order_crc_init(struct order_crc *c);
void order_crc_add(struct order_crc *c, uint64_t number);
void order_crc_bytes(struct order_crc *c, const void *data, size_t len);
/* As order_crc_add() of all numbers from `first` to below `end`, however many, in microseconds. */
void order_crc_range(struct order_crc *c, uint64_t first, uint64_t end);
static inline uint32_t order_crc_value(const struct order_crc *c)
{
    return ~c->crc;
}

#ifdef __cplusplus
}
#endif

#endif
