/* The pure parts of a sync: patterns, rules, decisions, shares. */
#include <criterion/criterion.h>
#include <string.h>

#include "transfer.h"

Test(patterns, fit_as_rsync_s)
{
    static const struct {
        const char *pattern, *path;
        bool fits;
    } rows[] = {
        {"*.jpg", "a/b/c.jpg", true},
        {"*.jpg", "c.jpg", true},
        {"*.jpg", "c.jpeg", false},
        {"*.jpg", "c.jpg/", true},
        {"c.jpg", "a/c.jpg", true},
        {"c.jpg", "a/xc.jpg", false},
        {"b/", "a/b/", true},
        {"b/", "a/b", false},
        {"b", "a/b/", true},
        {"/b", "b", true},
        {"/b", "a/b", false},
        {"/b/", "b/", true},
        {"a/b", "x/a/b", true},
        {"a/b", "xa/b", false},
        {"a/b", "a/b/c", false},
        {"a/*", "a/b", true},
        {"a/*", "a/b/c", false},
        {"/a/*", "a/b", true},
        {"a/**", "a/b/c", true},
        {"/a/**", "a/b/c", true},
        {"/a/**", "x/a/b/c", false},
        {"a/**/c", "a/b/x/c", true},
        {"a/**/c", "a/c", false},
        {"**/c", "a/b/c", true},
        {"**/c", "c", true},
        {"**/b/c", "b/c/", true},
        {"**/c", "ac", false},
        {"/**/c", "c", false},
        {"**/", "c/", true},
        {"**/", "c", false},
        {"**.jpg", "a/b.jpg", true},
        {"a?c", "abc", true},
        {"a?c", "a/c", false},
        {"a*c", "a/c", false},
        {"a*c", "abbbc", true},
        {"a*b*c", "aXbYbZc", true},
        {"a**c*e", "a/b/c/d/e", false},
        {"a**c*e", "a/b/cd/cde", true},
        {"[a-c]x", "bx", true},
        {"[a-c]x", "dx", false},
        {"[!a-c]x", "dx", true},
        {"[!a-c]x", "ax", false},
        {"[^a]x", "bx", true},
        {"[]]x", "]x", true},
        {"[x", "[x", true},
        {"[[:digit:]]x", "7x", true},
        {"[[:digit:]]x", "ax", false},
        {"[![:alpha:]_]x", "7x", true},
        {"[![:alpha:]_]x", "_x", false},
        {"[[:alpha:]]", "\xc3", false},
        {"[[:upper:][:space:]-]", "-", true},
        {"[z-a]", "z", true},
        {"[z-a]", "m", false},
        {"\\*", "*", true},
        {"\\*", "a", false},
        {"a\\b", "a\\b", true}, /* no wildcard: the backslash is one */
        {"a\\b", "ab", false},
        {"a\\b*", "ab", true},
        {"d\\r/***", "dr/a", true},
        {"d\\r/***", "dr/", true},
        {"dir/***", "dir/", true},
        {"dir/***", "dir/a/b", true},
        {"dir/***", "x/dir/a", true},
        {"/dir/***", "x/dir/a", false},
        {"/dir/***", "dir/a", true},
        {"dir/***", "dir", false},
        {"\xc3\xa9*", "\xc3\xa9t\xc3\xa9", true},
        {"*", "anything", true},
        {"*", "", true},
        {"?", "", false},
        {"**", "a/b/c", true},
        {"%", "%", true},
        {" ", " ", true},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        cr_expect_eq(sync_pattern_fits(rows[i].pattern, rows[i].path, strlen(rows[i].path)),
                     rows[i].fits, "%s on %s", rows[i].pattern, rows[i].path);
}

Test(patterns, many_stars_end)
{
    char text[400];
    memset(text, 'a', sizeof text);
    cr_expect_not(sync_pattern_fits("*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*b", text, sizeof text));
    cr_expect_not(sync_pattern_fits("**a**a**a**a**a**a**a**a**a**a*a*a*b", text, sizeof text));
}

Test(rules, first_that_fits_decides_from_the_top)
{
    static const struct {
        struct sync_rule rules[4];
        size_t n;
        bool full;
        const char *key;
        bool passes;
    } rows[] = {
        {{{0}}, 0, false, "a", true},
        {{{false, "*.tmp"}}, 1, false, "a/b.tmp", false},
        {{{false, "*.tmp"}}, 1, false, "a/b", true},
        {{{true, "keep.tmp"}, {false, "*.tmp"}}, 2, false, "keep.tmp", true},
        {{{false, "*.tmp"}, {true, "keep.tmp"}}, 2, false, "keep.tmp", false},
        {{{false, "a/"}}, 1, false, "a/b/c", false},
        {{{false, "a"}}, 1, false, "a/b/c", false},
        {{{false, "a/"}}, 1, false, "b/a", true},
        {{{true, "*.jpg"}, {false, "*"}}, 2, false, "x.jpg", true},
        {{{true, "*.jpg"}, {false, "*"}}, 2, false, "d/x.jpg", false}, /* d/ is excluded */
        {{{true, "*/"}, {true, "*.jpg"}, {false, "*"}}, 3, false, "d/x.jpg", true},
        {{{true, "*/"}, {true, "*.jpg"}, {false, "*"}}, 3, false, "d/x.txt", false},
        {{{true, "*.jpg"}, {false, "*"}}, 2, true, "d/x.jpg", true},
        {{{false, "d/"}}, 1, true, "d/x.jpg", true},
        {{{true, "d/***"}, {false, "*"}}, 2, false, "d/e/x", true},
        {{{true, "d/***"}, {false, "*"}}, 2, false, "e/x", false},
        {{{false, "a/**/z"}}, 1, false, "a/b/z/f", false},
        {{{false, "d/"}}, 1, false, "d/", false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        cr_expect_eq(sync_rules_pass(rows[i].rules, rows[i].n, rows[i].full, rows[i].key,
                                     strlen(rows[i].key)),
                     rows[i].passes, "row %zu: %s", i, rows[i].key);
}

Test(rules, that_can_fit_nothing_are_refused)
{
    struct err err = {0};
    const struct sync_rule bad[] = {{true, ""}, {false, "/"}, {false, "//"}};
    for (size_t i = 0; i < 3; i++) {
        err_clear(&err);
        cr_expect_eq(sync_rules_check(&bad[i], 1, &err), -1);
        cr_expect_eq(err.class, ERR_USAGE);
    }
    cr_expect_str_eq(err.msg, "--exclude: \"//\" is no pattern (like *.jpg or /train/)");
}

#define S 1000000000ll
enum { U = 1, F = 2, E = 4, I = 8, A = 16, DS = 32, DD = 64, L = 128 };

Test(decide, table)
{
    static const struct sync_seen none = {.etag = ""};
    static const struct sync_seen old3 = {true, SYNC_OBJECT, 3, 100 * S, "x"};
    static const struct sync_seen new3 = {true, SYNC_OBJECT, 3, 200 * S, "y"};
    static const struct sync_seen also3 = {true, SYNC_OBJECT, 3, 200 * S, "x"};
    static const struct sync_seen late3 = {true, SYNC_OBJECT, 3, 100 * S + 999, "x"};
    static const struct sync_seen old4 = {true, SYNC_OBJECT, 4, 100 * S, "z"};
    static const struct sync_seen when3 = {true, SYNC_OBJECT, 3, LIST_MTIME_UNKNOWN, ""};
    static const struct sync_seen folder = {true, SYNC_FOLDER, 0, 1, ""};
    static const struct sync_seen link = {true, SYNC_LINK, 3, 100 * S, ""};
    static const struct {
        unsigned flags;
        const struct sync_seen *src, *dst;
        enum sync_act act;
    } rows[] = {
        {0, &old3, &none, SYNC_COPY},        {E, &old3, &none, SYNC_SKIP},
        {I, &old3, &none, SYNC_COPY},        {F, &old3, &none, SYNC_COPY},
        {0, &none, &old3, SYNC_EXTRA},       {DD, &none, &old3, SYNC_DELETE},
        {E | DD, &none, &old3, SYNC_DELETE}, {0, &old3, &new3, SYNC_SKIP},
        {0, &new3, &old3, SYNC_SKIP},        {0, &old3, &old4, SYNC_COPY},
        {E, &old3, &old4, SYNC_COPY},        {I, &old3, &old4, SYNC_SKIP},
        {I | F, &old3, &old4, SYNC_SKIP},    {F, &old3, &new3, SYNC_COPY},
        {U, &new3, &old3, SYNC_COPY},        {U, &new3, &old4, SYNC_COPY},
        {U, &old3, &new3, SYNC_SKIP},        {U, &old4, &new3, SYNC_SKIP},
        {U, &late3, &old3, SYNC_SKIP},       {U, &late3, &old4, SYNC_COPY},
        {U, &when3, &old3, SYNC_SKIP},       {U, &when3, &old4, SYNC_COPY},
        {A, &old3, &new3, SYNC_COMPARE},     {A, &old3, &old4, SYNC_COPY},
        {A | U, &old3, &new3, SYNC_SKIP},    {DS, &old3, &also3, SYNC_DELETE_SRC},
        {DS, &old3, &new3, SYNC_COMPARE},    {DS, &when3, &when3, SYNC_COMPARE},
        {DS | I, &old3, &also3, SYNC_SKIP},  {DS | U, &old3, &new3, SYNC_SKIP},
        {0, &folder, &folder, SYNC_SKIP},    {F, &folder, &folder, SYNC_SKIP},
        {0, &folder, &none, SYNC_COPY},      {0, &link, &old3, SYNC_COPY},
        {0, &old3, &link, SYNC_COPY},        {0, &link, &link, SYNC_COMPARE},
        {U, &link, &link, SYNC_COMPARE},     {I, &link, &old3, SYNC_SKIP},
        {L, &link, &old3, SYNC_COMPARE},     {L, &old3, &link, SYNC_COMPARE},
        {L, &link, &old4, SYNC_COPY},        {L, &link, &folder, SYNC_COPY},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        unsigned f = rows[i].flags;
        const struct sync_conf c = {.update = f & U,
                                    .force_update = f & F,
                                    .existing = f & E,
                                    .ignore_existing = f & I,
                                    .check_all = f & A,
                                    .delete_src = f & DS,
                                    .delete_dst = f & DD,
                                    .links = f & L};
        cr_expect_eq(sync_decide(&c, rows[i].src, rows[i].dst), rows[i].act, "row %zu", i);
    }
}

Test(share, is_even_and_every_key_has_one)
{
    unsigned n[7] = {0};
    char key[32];
    for (int i = 0; i < 7000; i++) {
        int len = snprintf(key, sizeof key, "train/%06d.jpg", i);
        uint32_t share = sync_share(key, (size_t)len, 7);
        cr_assert_lt(share, 7);
        n[share]++;
    }
    for (int i = 0; i < 7; i++)
        cr_expect(n[i] > 850 && n[i] < 1150, "share %d has %u", i, n[i]);
}
