/*
 * The partition-local sampler, our own: rank r reads a contiguous, equally long share of the set,
 * shuffled within itself anew each epoch; every `rotate` epochs (0: never) the shares move on by
 * one rank. It is not what DistributedSampler gives: a rank sees other ranks' samples only after a
 * rotation. The shuffle is numpy's, of a generator seeded with {seed, epoch, share}.
 */
#include "order-internal.h"

static uint64_t at_local(const struct order *o, uint64_t pos)
{
    uint64_t i = o->table ? o->table[pos] : pos;
    return (o->first + i) % o->n; /* the last share is padded from the beginning */
}

int order_init_local(struct order *o, struct err *err)
{
    const struct order_spec *s = &o->spec;
    uint64_t each = o->n / s->ranks + (o->n % s->ranks != 0);
    uint64_t turns = s->rotate ? s->epoch / s->rotate : 0;
    uint64_t share = (s->rank + turns) % s->ranks;
    o->first = share * each;
    o->length = s->drop_last ? each - each % s->batch_size : each;
    o->listed = o->n;
    o->total = each * s->ranks;
    o->at = at_local;
    if (!s->shuffle || o->n == 0)
        return 0;
    if (order_table_new(o, each, err))
        return -1;
    uint32_t key[] = {(uint32_t)s->seed, (uint32_t)(s->seed >> 32), (uint32_t)s->epoch,
                      (uint32_t)(s->epoch >> 32), (uint32_t)share};
    struct rng g;
    rng_seed_array(&g, key, sizeof key / sizeof key[0]);
    rng_shuffle(&g, o->table, each);
    return 0;
}

/* --- dealt anew: the rest of the shares one after the other, in runs of equal length -----------
 */

static uint64_t at_rest(const struct order *o, uint64_t pos)
{
    return order_entry(o, o->first + pos);
}

void order_deal_local(struct order *o)
{
    const struct order_spec *s = &o->spec;
    uint64_t each = o->listed / s->ranks + (o->listed % s->ranks != 0);
    o->first = s->rank * each;
    o->length = s->drop_last ? each - each % s->batch_size : each;
    o->total = each * s->ranks;
    o->at = at_rest;
}
