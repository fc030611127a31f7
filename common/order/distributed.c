/*
 * The distributed samplers: each rank reads its own share of one epoch's order.
 *
 * Paddle pads first (the order's length becomes a multiple of the ranks), shuffles the padded list,
 * and deals it batch by batch. torch shuffles first, pads with the beginning of the permutation,
 * and deals it sample by sample.
 */
#include "order-internal.h"

static uint64_t ceil_div(uint64_t a, uint64_t b)
{
    return a / b + (a % b != 0);
}

/* Entries after the last whole round of batches: they are dealt in runs, one a rank. */
static uint64_t paddle_tail(const struct order *o)
{
    return o->total % ((uint64_t)o->spec.batch_size * o->spec.ranks);
}

static uint64_t at_paddle(const struct order *o, uint64_t pos)
{
    uint64_t ranks = o->spec.ranks, batch = o->spec.batch_size, rank = o->spec.rank;
    if (ranks == 1)
        return order_entry(o, pos);
    uint64_t tail = paddle_tail(o);
    uint64_t dealt = (o->total - tail) / ranks; /* positions in whole rounds of batches */
    if (pos < dealt)
        return order_entry(o, pos / batch * batch * ranks + rank * batch + pos % batch);
    return order_entry(o, o->total - tail + rank * (tail / ranks) + (pos - dealt));
}

static uint64_t paddle_position(const struct order *o, uint64_t i)
{
    uint64_t ranks = o->spec.ranks, batch = o->spec.batch_size;
    if (ranks == 1)
        return i;
    uint64_t tail = paddle_tail(o), whole = o->total - tail;
    if (i < whole)
        return i / (batch * ranks) * batch + i % batch;
    return whole / ranks + (i - whole) % (tail / ranks);
}

static void deal_paddle(struct order *o)
{
    const struct order_spec *s = &o->spec;
    uint64_t each = ceil_div(o->listed, s->ranks);
    o->total = each * s->ranks;
    o->length = s->drop_last ? each - each % s->batch_size : each;
    o->at = at_paddle;
}

static int init_paddle(struct order *o, struct err *err)
{
    const struct order_spec *s = &o->spec;
    o->listed = o->n;
    deal_paddle(o);
    if (!s->shuffle || o->n == 0)
        return 0;
    if (s->epoch > UINT32_MAX)
        return err_set(err, ERR_USAGE,
                       "sampler paddle-distributed: epoch=%llu: shuffling takes epochs up to %u",
                       (unsigned long long)s->epoch, UINT32_MAX);
    if (order_table_new(o, o->total, err))
        return -1;
    for (uint64_t i = o->n; i < o->total; i++)
        o->table[i] = (uint32_t)((i - o->n) % o->n);
    struct rng g;
    rng_seed(&g, (uint32_t)s->epoch);
    rng_shuffle(&g, o->table, o->total);
    o->listed = o->total;
    return 0;
}

static uint64_t at_torch(const struct order *o, uint64_t pos)
{
    return order_entry(o, o->spec.rank + pos * o->spec.ranks);
}

static void deal_torch(struct order *o)
{
    const struct order_spec *s = &o->spec;
    o->length = s->drop_last ? o->listed / s->ranks : ceil_div(o->listed, s->ranks);
    o->total = o->length * s->ranks;
    o->at = at_torch;
}

static int init_torch(struct order *o, struct err *err)
{
    const struct order_spec *s = &o->spec;
    o->listed = o->n;
    deal_torch(o);
    if (!s->shuffle || o->n == 0)
        return 0;
    if (order_table_new(o, o->n, err))
        return -1;
    struct rng g;
    rng_seed(&g, (uint32_t)(s->seed + s->epoch));
    rng_randperm(&g, o->table, o->n);
    return 0;
}

int order_init_distributed(struct order *o, struct err *err)
{
    if (o->spec.kind == ORDER_PADDLE_DISTRIBUTED)
        return init_paddle(o, err);
    return init_torch(o, err);
}

void order_deal_distributed(struct order *o)
{
    if (o->spec.kind == ORDER_PADDLE_DISTRIBUTED)
        deal_paddle(o);
    else
        deal_torch(o);
}

uint64_t order_entry_position(const struct order *o, uint64_t i)
{
    switch (o->spec.kind) {
    case ORDER_PADDLE_DISTRIBUTED:
        return paddle_position(o, i);
    case ORDER_TORCH_DISTRIBUTED:
        return i / o->spec.ranks;
    default: /* local, dealt anew: runs of equal length */
        return i % (o->total / o->spec.ranks);
    }
}
