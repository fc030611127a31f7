#include <criterion/criterion.h>
#include <string.h>

#include "hash.h"

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

Test(hash, hex_is_so_many_lower_case_digits)
{
    static const struct {
        const char *text;
        bool is;
    } rows[] = {{"00ff", true},  {"00f", false},  {"00ff0", false},
                {"00fF", false}, {"00f.", false}, {"", false}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        cr_expect_eq(hex_is(rows[i].text, 4), rows[i].is, "\"%s\"", rows[i].text);
}
