/*
 * The order of training: which sample number is read at which position, bit for bit as the
 * framework would. Pure: no I/O, no clock, no allocation beyond the tables of the epochs asked for.
 * Algorithms and vectors: the frameworks' own, documented in docs/formats/order.md.
 */
#ifndef SAMPAN_ORDER_H
#define SAMPAN_ORDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "err.h"

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
    bool has_rank; /* rank= was given */
};

/* An unknown name or key, or a value out of bounds, is ERR_USAGE and lists those known. */
int order_spec_parse(struct order_spec *ret, const char *text, struct err *err);
void order_spec_print(const struct order_spec *s, char *out, size_t size);
const char *order_kind_name(enum order_kind k);

/* One epoch of one rank: a table of sample numbers. At most two epochs are ever in memory. */
struct order;
/* Prepares the order over `n` samples for s->epoch and s->rank. */
int order_new(struct order **ret, const struct order_spec *s, uint64_t n, struct err *err);
void order_free(struct order *o);
uint64_t order_length(const struct order *o);
/* The number of the sample at position `pos` (< order_length). */
uint64_t order_at(const struct order *o, uint64_t pos);

#endif
