/*
 * Weighted rendezvous: each partition draws a number for the key, the best draw wins. When a
 * partition comes or goes, or changes its weight, only keys move that it wins or loses.
 *
 * All in whole numbers: every node must come to the same answer, whatever its processor and C
 * library do with fractions.
 */
#include "owner-internal.h"

#include <stdbool.h>

#include "owner.h"

#define FRACTION_BITS 24

static uint64_t mix(uint64_t x)
{
    x ^= x >> 30;
    x *= 0xbf58476d1ce4e5b9ull;
    x ^= x >> 27;
    x *= 0x94d049bb133111ebull;
    return x ^ x >> 31;
}

uint64_t owner_key(uint64_t number)
{
    return mix(number + 0x9e3779b97f4a7c15ull);
}

static uint64_t draw(uint64_t key, uint32_t partition)
{
    return mix(key ^ mix(partition * 0x9e3779b97f4a7c15ull + 0x632be59bd9b4e019ull));
}

/* -log2((draw + 1) / 2^64) with FRACTION_BITS: what is smallest wins. It is exponentially
 * distributed, so dividing it by a weight makes the chance of the least proportional to the weight.
 */
static uint64_t cost(uint64_t draw)
{
    if (draw == UINT64_MAX)
        return 0;
    uint64_t x = draw + 1;
    unsigned zeros = (unsigned)__builtin_clzll(x);
    uint64_t log = (63 - zeros) << FRACTION_BITS;
    x <<= zeros; /* 1.0 <= x < 2.0, in 63 bits after the point */
    for (uint64_t bit = 1ull << (FRACTION_BITS - 1); bit; bit >>= 1) {
        unsigned __int128 square = (unsigned __int128)x * x;
        if (square >> 127) {
            log |= bit;
            x = (uint64_t)(square >> 64);
        } else {
            x = (uint64_t)(square >> 63);
        }
    }
    return (64ull << FRACTION_BITS) - log;
}

static uint32_t unweighted(uint64_t key, uint32_t partitions)
{
    uint64_t best = 0;
    uint32_t winner = 0;
    for (uint32_t p = 0; p < partitions; p++) {
        uint64_t d = draw(key, p);
        if (d > best) {
            best = d;
            winner = p;
        }
    }
    return winner;
}

uint32_t owner_rendezvous(uint64_t key, uint32_t partitions, const uint64_t *weights)
{
    if (partitions <= 1)
        return 0;
    if (!weights)
        return unweighted(key, partitions);
    uint64_t best_cost = 0, best_draw = 0, best_weight = 0;
    uint32_t winner = 0;
    for (uint32_t p = 0; p < partitions; p++) {
        uint64_t d = draw(key, p), w = weights[p];
        if (w == 0)
            continue;
        uint64_t c = cost(d);
        unsigned __int128 here = (unsigned __int128)c * best_weight;
        unsigned __int128 there = (unsigned __int128)best_cost * w;
        if (best_weight == 0 || here < there || (here == there && d > best_draw)) {
            best_cost = c;
            best_draw = d;
            best_weight = w;
            winner = p;
        }
    }
    return best_weight ? winner : unweighted(key, partitions);
}
