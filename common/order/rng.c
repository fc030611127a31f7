/* The generators, bit for bit: MT19937 and the shuffles that numpy and torch draw from it. */
#include "order-internal.h"

#define N       624
#define M       397
#define UPPER   0x80000000u
#define LOWER   0x7fffffffu
#define TWIST_A 0x9908b0dfu

/* From here on torch.randperm draws 64 bits a step and builds the permutation inside out. */
#define TORCH_WIDE_AT 214748364u

void rng_seed(struct rng *g, uint32_t seed)
{
    g->key[0] = seed;
    for (uint32_t i = 1; i < N; i++)
        g->key[i] = 1812433253u * (g->key[i - 1] ^ (g->key[i - 1] >> 30)) + i;
    g->pos = N;
}

static void wrap(struct rng *g, unsigned *i)
{
    if (++*i >= N) {
        g->key[0] = g->key[N - 1];
        *i = 1;
    }
}

void rng_seed_array(struct rng *g, const uint32_t *key, size_t len)
{
    uint32_t *k = g->key;
    unsigned i = 1;
    size_t j = 0;
    rng_seed(g, 19650218u);
    for (size_t step = N > len ? N : len; step; step--) {
        k[i] = (k[i] ^ ((k[i - 1] ^ (k[i - 1] >> 30)) * 1664525u)) + key[j] + (uint32_t)j;
        wrap(g, &i);
        if (++j >= len)
            j = 0;
    }
    for (unsigned step = N - 1; step; step--) {
        k[i] = (k[i] ^ ((k[i - 1] ^ (k[i - 1] >> 30)) * 1566083941u)) - i;
        wrap(g, &i);
    }
    k[0] = 0x80000000u;
}

static uint32_t twist(uint32_t high, uint32_t low)
{
    return (((high & UPPER) | (low & LOWER)) >> 1) ^ (low & 1 ? TWIST_A : 0);
}

static void refill(struct rng *g)
{
    uint32_t *k = g->key;
    unsigned i = 0;
    for (; i < N - M; i++)
        k[i] = k[i + M] ^ twist(k[i], k[i + 1]);
    for (; i < N - 1; i++)
        k[i] = k[i + M - N] ^ twist(k[i], k[i + 1]);
    k[N - 1] = k[M - 1] ^ twist(k[N - 1], k[0]);
    g->pos = 0;
}

uint32_t rng_u32(struct rng *g)
{
    if (g->pos == N)
        refill(g);
    uint32_t y = g->key[g->pos++];
    y ^= y >> 11;
    y ^= (y << 7) & 0x9d2c5680u;
    y ^= (y << 15) & 0xefc60000u;
    return y ^ (y >> 18);
}

uint64_t rng_u64(struct rng *g)
{
    uint64_t high = rng_u32(g);
    return high << 32 | rng_u32(g);
}

void rng_skip(struct rng *g, uint64_t n)
{
    while (n) {
        if (g->pos == N)
            refill(g);
        uint64_t step = N - g->pos < n ? N - g->pos : n;
        g->pos += (unsigned)step;
        n -= step;
    }
}

static uint64_t mask_of(uint64_t max)
{
    return UINT64_MAX >> __builtin_clzll(max);
}

uint64_t rng_interval(struct rng *g, uint64_t max)
{
    if (max == 0)
        return 0;
    uint64_t mask = mask_of(max), v;
    do
        v = (max <= UINT32_MAX ? rng_u32(g) : rng_u64(g)) & mask;
    while (v > max);
    return v;
}

/*
 * Draws come in batches, before the array is touched: then its random places are fetched from
 * memory side by side and not one after the other, which is what a large shuffle takes its time
 * for.
 */
#define BATCH 256

/* The draws for the places i, i-1, … (`n` of them, down to 1 at the lowest) of the downward loop.
 * Without a branch: every other draw or so is rejected, which no processor can foresee. */
static void draw_down(struct rng *g, uint32_t i, unsigned n, uint32_t *ret, const uint32_t *a)
{
    uint32_t mask = (uint32_t)mask_of(i);
    for (unsigned k = 0; k < n;) {
        uint32_t v = rng_u32(g) & mask;
        uint32_t good = v <= i;
        ret[k] = v;
        __builtin_prefetch(a + v, 1);
        k += good;
        i -= good;
        mask >>= i <= mask >> 1 && i > 0;
    }
}

void rng_shuffle(struct rng *g, uint32_t *a, uint64_t n)
{
    uint32_t j[BATCH + 1];
    for (uint64_t i = n ? n - 1 : 0; i > 0;) {
        unsigned batch = i < BATCH ? (unsigned)i : BATCH;
        draw_down(g, (uint32_t)i, batch, j, a);
        for (unsigned k = 0; k < batch; k++, i--) {
            uint32_t t = a[i];
            a[i] = a[j[k]];
            a[j[k]] = t;
        }
    }
}

void rng_shuffle_skip(struct rng *g, uint64_t n)
{
    uint32_t j[BATCH + 1];
    for (uint64_t i = n ? n - 1 : 0; i > 0;) {
        unsigned batch = i < BATCH ? (unsigned)i : BATCH;
        draw_down(g, (uint32_t)i, batch, j, j);
        i -= batch;
    }
}

static void randperm_wide(struct rng *g, uint32_t *a, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++) {
        uint64_t z = rng_u64(g) % (i + 1);
        a[i] = a[z];
        a[z] = (uint32_t)i;
    }
}

void rng_randperm(struct rng *g, uint32_t *a, uint64_t n)
{
    if (n >= TORCH_WIDE_AT) {
        randperm_wide(g, a, n);
        return;
    }
    for (uint64_t i = 0; i < n; i++)
        a[i] = (uint32_t)i;
    uint32_t j[BATCH];
    for (uint64_t i = 0; i + 1 < n;) {
        unsigned batch = n - 1 - i < BATCH ? (unsigned)(n - 1 - i) : BATCH;
        for (unsigned k = 0; k < batch; k++) {
            j[k] = (uint32_t)(i + k) + rng_u32(g) % (uint32_t)(n - i - k);
            __builtin_prefetch(a + j[k], 1);
        }
        for (unsigned k = 0; k < batch; k++, i++) {
            uint32_t t = a[i];
            a[i] = a[j[k]];
            a[j[k]] = t;
        }
    }
}

void rng_randperm_skip(struct rng *g, uint64_t n)
{
    rng_skip(g, n >= TORCH_WIDE_AT ? 2 * n : n ? n - 1 : 0);
}
