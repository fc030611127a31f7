#include <criterion/criterion.h>
#include <string.h>

#include "crc.h"
#include "hash.h"

/* Bit by bit, as the definition has it. */
static uint64_t slow_sum(uint64_t poly, unsigned bits, const unsigned char *p, size_t len)
{
    uint64_t ones = UINT64_MAX >> (64 - bits), sum = ones;
    while (len--) {
        sum ^= *p++;
        for (int i = 0; i < 8; i++)
            sum = (sum >> 1) ^ (sum & 1 ? poly : 0);
    }
    return sum ^ ones;
}

static const struct {
    uint64_t poly;
    unsigned bits;
} kinds[] = {[CRC_32] = {0xedb88320, 32}, [CRC_64_NVME] = {0x9a6c9329ac4bc9b5, 64}};

Test(crc, vectors)
{
    static const unsigned char zeros[4096];
    unsigned char ones[4096];
    memset(ones, 0xff, sizeof ones);
    /* The check values of the catalogue of CRCs; and NVM Express, command set specification, 5.2.1.
     */
    const struct {
        enum crc_kind kind;
        const void *data;
        size_t len;
        uint64_t sum;
    } rows[] = {
        {CRC_32, "123456789", 9, 0xcbf43926},
        {CRC_32, "", 0, 0},
        {CRC_64_NVME, "123456789", 9, 0xae8b14860a799888},
        {CRC_64_NVME, "", 0, 0},
        {CRC_64_NVME, zeros, sizeof zeros, 0x6482d367eb22b64e},
        {CRC_64_NVME, ones, sizeof ones, 0xc0ddba7302eca3ac},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        for (const struct crc_way *way = crc_ways; way->name; way++)
            cr_expect(!way->usable() ||
                          way->sum(rows[i].kind, rows[i].data, rows[i].len) == rows[i].sum,
                      "row %zu, %s", i, way->name);
}

Test(crc, is_the_same_in_all_ways_at_all_lengths_and_offsets)
{
    static unsigned char data[20000];
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (unsigned char)(hash_mix64(i) >> 8);
    for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++)
        for (size_t len = 0; len < sizeof data - 16; len += 1 + len / 300)
            for (size_t off = 0; off < 9; off += 4) {
                uint64_t want = slow_sum(kinds[k].poly, kinds[k].bits, data + off, len);
                cr_assert_eq(crc_sum((enum crc_kind)k, data + off, len), want, "%zu+%zu", off, len);
                for (const struct crc_way *way = crc_ways; way->name; way++)
                    cr_assert(!way->usable() || way->sum((enum crc_kind)k, data + off, len) == want,
                              "%s: %zu+%zu", way->name, off, len);
            }
}
