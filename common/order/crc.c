/* CRC-32 as zlib has it, eight bytes a step: one number is one step. */
#include "order.h"

void order_crc_init(struct order_crc *c)
{
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t v = i;
        for (int bit = 0; bit < 8; bit++)
            v = (v >> 1) ^ (v & 1 ? 0xedb88320u : 0);
        c->table[0][i] = v;
    }
    for (uint32_t i = 0; i < 256; i++)
        for (int k = 1; k < 8; k++)
            c->table[k][i] = (c->table[k - 1][i] >> 8) ^ c->table[0][c->table[k - 1][i] & 0xff];
    c->crc = ~0u;
}

void order_crc_add(struct order_crc *c, uint64_t number)
{
    uint64_t x = number ^ c->crc;
    uint32_t crc = 0;
    for (int k = 0; k < 8; k++)
        crc ^= c->table[7 - k][(x >> (8 * k)) & 0xff];
    c->crc = crc;
}

void order_crc_bytes(struct order_crc *c, const void *data, size_t len)
{
    const unsigned char *p = data;
    for (size_t i = 0; i < len; i++)
        c->crc = (c->crc >> 8) ^ c->table[0][(c->crc ^ p[i]) & 0xff];
}

/* --- ranges -------------------------------------------------------------------------------------
 *
 * All of it is linear over bits. After the 2^k numbers whose upper bits are those of y (a multiple
 * of 2^k), what was `crc` is advance[k](crc) ^ upper[k](y) ^ lower[k]; a block of 2^(k+1) is one of
 * 2^k and then another, whose y has one bit more.
 */
#define LEVELS 40

struct linear { /* the image of each bit */
    uint32_t of[64];
};

struct blocks {
    struct linear advance[LEVELS], upper[LEVELS];
    uint32_t lower[LEVELS];
};

static uint32_t apply(const struct linear *m, uint64_t x)
{
    uint32_t sum = 0;
    for (; x; x &= x - 1)
        sum ^= m->of[__builtin_ctzll(x)];
    return sum;
}

static uint32_t crc_of_one(struct order_crc c, uint32_t crc, uint64_t number)
{
    c.crc = crc;
    order_crc_add(&c, number);
    return c.crc;
}

static void blocks_init(struct blocks *b, const struct order_crc *tables, unsigned levels)
{
    for (unsigned bit = 0; bit < 64; bit++) {
        b->advance[0].of[bit] = bit < 32 ? crc_of_one(*tables, 1u << bit, 0) : 0;
        b->upper[0].of[bit] = crc_of_one(*tables, 0, 1ull << bit);
    }
    b->lower[0] = 0;
    for (unsigned k = 0; k + 1 < levels; k++) {
        for (unsigned bit = 0; bit < 64; bit++) {
            uint32_t first = b->upper[k].of[bit];
            b->advance[k + 1].of[bit] = apply(&b->advance[k], b->advance[k].of[bit]);
            b->upper[k + 1].of[bit] = apply(&b->advance[k], first) ^ first;
        }
        b->lower[k + 1] =
            apply(&b->advance[k], b->lower[k]) ^ apply(&b->upper[k], 1ull << k) ^ b->lower[k];
    }
}

void order_crc_range(struct order_crc *c, uint64_t first, uint64_t end)
{
    struct blocks b;
    unsigned levels = 1;
    while (levels < LEVELS && end >> levels)
        levels++;
    blocks_init(&b, c, levels);
    while (first < end) {
        unsigned k = 0; /* the largest block that begins here and ends in time */
        while (k + 1 < levels && first % (2ull << k) == 0 && end - first >= 2ull << k)
            k++;
        c->crc = apply(&b.advance[k], c->crc) ^ apply(&b.upper[k], first) ^ b.lower[k];
        first += 1ull << k;
    }
}
