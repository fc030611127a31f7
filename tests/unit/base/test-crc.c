#include <criterion/criterion.h>
#include <string.h>

#include "crc.h"
#include "hash.h"

/* Bit by bit, as the definition has it. */
static uint64_t slow_add(uint64_t poly, unsigned bits, uint64_t sum, const unsigned char *p,
                         size_t len)
{
    uint64_t ones = UINT64_MAX >> (64 - bits);
    sum ^= ones;
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
} kinds[] = {[CRC_32] = {0xedb88320, 32},
             [CRC_32C] = {0x82f63b78, 32},
             [CRC_64_NVME] = {0x9a6c9329ac4bc9b5, 64}};

/* In each way that can take it, and in the one that is chosen. */
static void expect_sum(enum crc_kind kind, uint64_t before, const void *data, size_t len,
                       uint64_t want)
{
    cr_assert_eq(crc_add(kind, before, data, len), want, "kind %d, %zu bytes", kind, len);
    for (const struct crc_way *way = crc_ways; way->name; way++)
        if (len >= way->least && way->usable(kind))
            cr_assert_eq(way->add(kind, before, data, len), want, "%s: kind %d, %zu bytes",
                         way->name, kind, len);
}

static unsigned char *noise(size_t len)
{
    unsigned char *data = malloc(len);
    cr_assert(data);
    for (size_t i = 0; i < len; i++)
        data[i] = (unsigned char)(hash_mix64(i) >> 8);
    return data;
}

Test(crc, vectors)
{
    static const unsigned char zeros[4096];
    unsigned char ones[4096], up[32], down[32];
    memset(ones, 0xff, sizeof ones);
    for (unsigned i = 0; i < 32; i++) {
        up[i] = (unsigned char)i;
        down[i] = (unsigned char)(31 - i);
    }
    /* The check values of the catalogue of CRCs; RFC 3720, B.4; NVM Express, command set
     * specification, 5.2.1. */
    const struct {
        enum crc_kind kind;
        const void *data;
        size_t len;
        uint64_t sum;
    } rows[] = {
        {CRC_32, "123456789", 9, 0xcbf43926},
        {CRC_32, "", 0, 0},
        {CRC_32C, "123456789", 9, 0xe3069283},
        {CRC_32C, "", 0, 0},
        {CRC_32C, zeros, 32, 0x8a9136aa},
        {CRC_32C, ones, 32, 0x62a8ab43},
        {CRC_32C, up, 32, 0x46dd794e},
        {CRC_32C, down, 32, 0x113fdb5c},
        {CRC_64_NVME, "123456789", 9, 0xae8b14860a799888},
        {CRC_64_NVME, "", 0, 0},
        {CRC_64_NVME, zeros, sizeof zeros, 0x6482d367eb22b64e},
        {CRC_64_NVME, ones, sizeof ones, 0xc0ddba7302eca3ac},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        expect_sum(rows[i].kind, 0, rows[i].data, rows[i].len, rows[i].sum);
}

Test(crc, is_the_same_in_all_ways_at_all_lengths_and_offsets)
{
    enum { MOST = 40000 };
    unsigned char *data = noise(MOST);
    for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++)
        for (size_t len = 0; len < MOST - 16; len += 1 + len / 100)
            for (size_t off = 0; off < 9; off += 4)
                expect_sum((enum crc_kind)k, 7, data + off, len,
                           slow_add(kinds[k].poly, kinds[k].bits, 7, data + off, len));
    free(data);
}

Test(crc, continues)
{
    const char *text = "the bytes of a sample, in two parts";
    for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
        enum crc_kind kind = (enum crc_kind)k;
        uint64_t first = crc_add(kind, 0, text, 11);
        cr_expect_eq(crc_add(kind, first, text + 11, strlen(text) - 11),
                     crc_add(kind, 0, text, strlen(text)));
    }
}

Test(crc, of_two_texts_is_that_of_both)
{
    enum { LEN = 300000 };
    static const size_t cuts[] = {0, 1, 7, 4096, 131072, 262144, LEN - 1, LEN};
    unsigned char *data = noise(LEN);
    for (size_t i = 0; i < sizeof cuts / sizeof cuts[0]; i++) {
        size_t rest = LEN - cuts[i];
        cr_expect_eq(
            crc32c_combine(crc32c(0, data, cuts[i]), crc32c(0, data + cuts[i], rest), rest),
            crc32c(0, data, LEN), "cut at %zu", cuts[i]);
    }
    free(data);
}
