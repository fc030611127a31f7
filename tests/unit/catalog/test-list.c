/* Numbers from a list file. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "support.h"

TestSuite(list, .init = folder_make, .fini = folder_remove);

static const char rows[] = "a/1.jpg 1\na/2.jpg 1\nb/3.jpg 1\nnotes.txt 1\n";

static struct catalog_builder *with_list(const char *text, size_t len)
{
    struct catalog_builder *b = builder(NULL);
    struct err e = {0};
    add_rows(b, rows);
    cr_assert_eq(catalog_builder_list(b, text, len, "train.txt", &e), 0, "%s", e.msg);
    return b;
}

Test(list, lines_give_the_numbers)
{
    const struct {
        const char *text, *want;
    } cases[] = {
        {"b/3.jpg\na/1.jpg\n", "b/3.jpg a/1.jpg"},
        {"b/3.jpg 7\na/1.jpg 0", "b/3.jpg a/1.jpg"},
        {"b/3.jpg\t7\r\n\r\n  \na/1.jpg   0  \r\n", "b/3.jpg a/1.jpg"},
        {"./b/3.jpg one two\nnotes.txt\n", "b/3.jpg notes.txt"},
        {"", ""},
        {"\n\n", ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct catalog *c = finish(with_list(cases[i].text, strlen(cases[i].text)), NULL);
        cr_expect_str_eq(by_number(c), cases[i].want, "case %zu", i);
        cr_expect_eq(catalog_info(c)->samples, 4);
        catalog_unref(c);
    }
}

static struct catalog_builder *blanks(const char *list)
{
    const char *const keys[] = {"my pic.jpg", "my", "pic 2", "pic 2 3"};
    struct catalog_builder *b = builder(NULL);
    struct err e = {0};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        struct row r = {.key = keys[i], .key_len = strlen(keys[i]), .size = 1};
        cr_assert_eq(catalog_builder_add(b, &r, &e), 0);
    }
    cr_assert_eq(catalog_builder_list(b, list, strlen(list), "l", &e), 0, "%s", e.msg);
    return b;
}

Test(list, paths_may_hold_blanks)
{
    struct catalog *c = finish(blanks("pic 2 3\nmy pic.jpg 4\nmy label\npic 2\n"), NULL);
    cr_expect_str_eq(by_number(c), "pic 2 3 my pic.jpg my pic 2");
    catalog_unref(c);
}

Test(list, lines_that_can_not_be_meant)
{
    const struct {
        const char *text, *want;
    } cases[] = {
        {"a/1.jpg\nnope.jpg 3\n", "train.txt line 2: the set has no sample \"nope.jpg 3\""},
        {"\n\n/a/1.jpg\n", "train.txt line 3: the set has no sample \"/a/1.jpg\""},
        {"a\n", "line 1: the set has no sample \"a\""},
        {"a/1.jpg\na/2.jpg\na/1.jpg 0\na/2.jpg 1\n",
         "train.txt line 3: the sample was named before"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct catalog_builder *b = with_list(cases[i].text, strlen(cases[i].text));
        struct err e = {0};
        char *file;
        cr_expect_eq(catalog_builder_finish(b, NULL, &file, NULL, &e), -1);
        cr_expect_eq(e.class, ERR_USAGE);
        cr_expect(strstr(e.msg, cases[i].want) != NULL, "%s", e.msg);
        catalog_builder_free(b);
    }
}

Test(list, nul_bytes_and_second_lists)
{
    struct catalog_builder *b = builder(NULL);
    struct err e = {0};
    cr_expect_eq(catalog_builder_list(b, "a\n\0b\n", 5, "l", &e), -1);
    cr_expect(strstr(e.msg, "l line 2") != NULL, "%s", e.msg);
    cr_expect_eq(catalog_builder_list(b, "a", 1, "m", &e), -1);
    cr_expect_eq(e.class, ERR_USAGE);
    catalog_builder_free(b);
}

Test(list, another_list_is_another_version)
{
    struct catalog *walk = version(NULL, rows);
    struct catalog *a = finish(with_list("a/1.jpg\nb/3.jpg", 15), NULL);
    struct catalog *b = finish(with_list("b/3.jpg\na/1.jpg", 15), NULL);
    cr_expect_str_neq(catalog_info(walk)->digest, catalog_info(a)->digest);
    cr_expect_str_neq(catalog_info(a)->digest, catalog_info(b)->digest);
    catalog_unref(walk);
    catalog_unref(a);
    catalog_unref(b);
}
