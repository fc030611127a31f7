/*
 * Samplers of which every rank reads the whole set: sequence, the random samplers and the loaders.
 *
 * What makes them delicate is the stream: one generator is seeded once and each epoch goes on where
 * the epoch before ended. So an epoch is reached by drawing, without shuffling, all that came
 * before it.
 */
#include "order-internal.h"

static uint64_t at_table(const struct order *o, uint64_t pos)
{
    return o->table ? o->table[pos] : pos;
}

/* A batch sampler with drop_last leaves the short last batch out. */
static uint64_t whole_batches(const struct order *o)
{
    return o->spec.drop_last ? o->n - o->n % o->spec.batch_size : o->n;
}

/* The workers' base seed that Paddle's loader draws from numpy's stream: randint(0, 2^63 - 1). */
static void paddle_base_seed(struct rng *g)
{
    rng_interval(g, INT64_MAX - 1);
}

static void draw_paddle(struct order *o)
{
    const struct order_spec *s = &o->spec;
    bool loader = s->kind == ORDER_PADDLE_LOADER && s->workers > 0;
    struct rng g;
    rng_seed(&g, (uint32_t)s->seed);
    for (uint64_t e = 0; e <= s->epoch; e++) {
        if (loader && (e == 0 || !s->persistent))
            paddle_base_seed(&g);
        if (e < s->epoch)
            rng_shuffle_skip(&g, o->n);
    }
    rng_shuffle(&g, o->table, o->n);
}

/* torch without a generator of its own: the global one gives each epoch a seed. */
static void draw_torch_global(struct order *o)
{
    const struct order_spec *s = &o->spec;
    uint64_t before = s->epoch; /* 64-bit draws before this epoch's seed */
    if (s->kind == ORDER_TORCH_LOADER)
        before = s->persistent ? s->epoch + 1 : 2 * s->epoch + 1;
    struct rng g;
    rng_seed(&g, (uint32_t)s->seed);
    rng_skip(&g, 2 * before);
    uint64_t seed = rng_u64(&g) & INT64_MAX;
    rng_seed(&g, (uint32_t)seed);
    rng_randperm(&g, o->table, o->n);
}

/* torch with a generator: the permutation, then one more that is thrown away, epoch after epoch. */
static void draw_torch_generator(struct order *o)
{
    const struct order_spec *s = &o->spec;
    bool loader = s->kind == ORDER_TORCH_LOADER;
    struct rng g;
    rng_seed(&g, (uint32_t)s->seed);
    for (uint64_t e = 0; e <= s->epoch; e++) {
        if (loader && (e == 0 || !s->persistent))
            rng_skip(&g, 2);
        if (e < s->epoch) {
            rng_randperm_skip(&g, o->n);
            rng_randperm_skip(&g, o->n);
        }
    }
    rng_randperm(&g, o->table, o->n);
}

/* Half a minute of drawing at most: who waits for an order can't end it. */
#define STEPS_MAX (1ull << 36)

/* Those that are taken for each epoch before this one. numpy's draws must be looked at, for some
 * are rejected; that takes as long as to step over sixteen. */
static uint64_t steps_an_epoch(const struct order *o)
{
    const struct order_spec *s = &o->spec;
    if (s->kind == ORDER_PADDLE_RANDOM || s->kind == ORDER_PADDLE_LOADER)
        return 16 * (o->n + 2);
    return s->generator ? 4 * o->n + 2 : 4;
}

static int check_reach(const struct order *o, struct err *err)
{
    uint64_t last = STEPS_MAX / steps_an_epoch(o);
    if (o->spec.epoch <= last)
        return 0;
    return err_set(err, ERR_USAGE,
                   "sampler %s: epoch=%llu: out of reach, since each epoch is drawn from where the "
                   "one before ended: of %llu samples the last is %llu",
                   order_kind_name(o->spec.kind), (unsigned long long)o->spec.epoch,
                   (unsigned long long)o->n, (unsigned long long)last);
}

int order_init_whole(struct order *o, struct err *err)
{
    const struct order_spec *s = &o->spec;
    o->length = whole_batches(o);
    o->at = at_table;
    if (s->kind == ORDER_SEQUENCE || !s->shuffle)
        return 0;
    if (o->n == 0)
        return err_set(err, ERR_USAGE, "sampler %s: the set is empty: the library refuses that too",
                       order_kind_name(s->kind));
    if (check_reach(o, err) || order_table_new(o, o->n, err))
        return -1;
    if (s->kind == ORDER_PADDLE_RANDOM || s->kind == ORDER_PADDLE_LOADER)
        draw_paddle(o);
    else if (s->generator)
        draw_torch_generator(o);
    else
        draw_torch_global(o);
    return 0;
}
