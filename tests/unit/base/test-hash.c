#include <criterion/criterion.h>
#include <string.h>

#include "hash.h"

Test(hash, crc32c_vectors)
{
    /* RFC 3720, B.4, and the check value of the catalogue of CRCs. */
    unsigned char zeros[32] = {0}, ones[32], up[32], down[32];
    memset(ones, 0xff, sizeof ones);
    for (unsigned i = 0; i < 32; i++) {
        up[i] = (unsigned char)i;
        down[i] = (unsigned char)(31 - i);
    }
    const struct {
        const void *data;
        size_t len;
        uint32_t crc;
    } rows[] = {
        {"123456789", 9, 0xe3069283}, {"", 0, 0},           {zeros, 32, 0x8a9136aa},
        {ones, 32, 0x62a8ab43},       {up, 32, 0x46dd794e}, {down, 32, 0x113fdb5c},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        cr_expect_eq(crc32c(0, rows[i].data, rows[i].len), rows[i].crc, "row %zu", i);
        for (const struct crc32c_way *way = crc32c_ways; way->name; way++)
            cr_expect(!way->usable() || way->sum(0, rows[i].data, rows[i].len) == rows[i].crc,
                      "row %zu, %s", i, way->name);
    }
}

Test(hash, crc32c_is_the_same_in_all_ways_at_all_lengths_and_offsets)
{
    static unsigned char data[160000];
    const struct crc32c_way *table = crc32c_ways;
    while (strcmp(table->name, "table") != 0)
        table++;
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (unsigned char)(hash_mix64(i) >> 8);
    for (size_t len = 0; len < sizeof data - 16; len += 1 + len / 16)
        for (size_t off = 0; off < 9; off += 4) {
            uint32_t want = table->sum(7, data + off, len);
            cr_assert_eq(crc32c(7, data + off, len), want, "%zu+%zu", off, len);
            for (const struct crc32c_way *way = crc32c_ways; way != table; way++)
                cr_assert(!way->usable() || way->sum(7, data + off, len) == want, "%s: %zu+%zu",
                          way->name, off, len);
        }
}

Test(hash, crc32c_continues)
{
    const char *text = "the bytes of a sample, in two parts";
    uint32_t first = crc32c(0, text, 11);
    cr_expect_eq(crc32c(first, text + 11, strlen(text) - 11), crc32c(0, text, strlen(text)));
}

Test(hash, crc32c_of_two_texts_is_that_of_both)
{
    static unsigned char data[300000];
    static const size_t cuts[] = {0, 1, 7, 4096, 131072, 262144, sizeof data - 1, sizeof data};
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (unsigned char)(i * 7 ^ i >> 5);
    for (size_t i = 0; i < sizeof cuts / sizeof cuts[0]; i++) {
        size_t rest = sizeof data - cuts[i];
        cr_expect_eq(
            crc32c_combine(crc32c(0, data, cuts[i]), crc32c(0, data + cuts[i], rest), rest),
            crc32c(0, data, sizeof data), "cut at %zu", cuts[i]);
    }
}

Test(hash, hash64_depends_on_every_byte_and_the_length)
{
    char a[64] = {0};
    uint64_t h = hash64(a, sizeof a, 0);
    cr_expect_eq(hash64(a, sizeof a, 0), h);
    cr_expect_neq(hash64(a, sizeof a, 1), h);
    cr_expect_neq(hash64(a, sizeof a - 1, 0), h);
    for (size_t i = 0; i < sizeof a; i++) {
        a[i] = 1;
        cr_expect_neq(hash64(a, sizeof a, 0), h, "byte %zu", i);
        a[i] = 0;
    }
}

Test(hash, hex_round_trip_and_refusals)
{
    const unsigned char bytes[] = {0x00, 0x7f, 0xab, 0xff};
    char text[9];
    unsigned char back[4];
    hex_encode(text, bytes, sizeof bytes);
    cr_expect_str_eq(text, "007fabff");
    cr_expect_eq(hex_decode(back, sizeof back, "007FABff"), 0);
    cr_expect_eq(memcmp(back, bytes, 4), 0);
    cr_expect_eq(hex_decode(back, sizeof back, "007fabf"), -1);
    cr_expect_eq(hex_decode(back, sizeof back, "007fabfg"), -1);
    cr_expect_eq(hex_decode(back, sizeof back, "007fabff00"), -1);
}
