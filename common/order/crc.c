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
