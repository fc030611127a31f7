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

/* The i-th entry of Paddle's padded, perhaps shuffled list. */
static uint64_t paddle_entry(const struct order *o, uint64_t i)
{
    if (o->table)
        return o->table[i];
    return i < o->n ? i : (i - o->n) % o->n;
}

static uint64_t at_paddle(const struct order *o, uint64_t pos)
{
    uint64_t ranks = o->spec.ranks, batch = o->spec.batch_size, rank = o->spec.rank;
    uint64_t last = ranks > 1 ? o->total % (batch * ranks) : 0;
    uint64_t dealt = (o->total - last) / ranks; /* positions in whole rounds of batches */
    if (ranks == 1)
        return paddle_entry(o, pos);
    if (pos < dealt)
        return paddle_entry(o, pos / batch * batch * ranks + rank * batch + pos % batch);
    return paddle_entry(o, o->total - last + rank * (last / ranks) + (pos - dealt));
}

static int init_paddle(struct order *o, struct err *err)
{
    const struct order_spec *s = &o->spec;
    uint64_t each = ceil_div(o->n, s->ranks);
    o->total = each * s->ranks;
    o->length = s->drop_last ? each - each % s->batch_size : each;
    o->at = at_paddle;
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
    return 0;
}

static uint64_t at_torch(const struct order *o, uint64_t pos)
{
    uint64_t i = (o->spec.rank + pos * o->spec.ranks) % o->n;
    return o->table ? o->table[i] : i;
}

static int init_torch(struct order *o, struct err *err)
{
    const struct order_spec *s = &o->spec;
    o->length = s->drop_last ? o->n / s->ranks : ceil_div(o->n, s->ranks);
    o->total = o->length * s->ranks;
    o->at = at_torch;
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
