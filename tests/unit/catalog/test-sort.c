/* The external sorter: order, stability, runs in a file, passes as often as asked for. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "sort.h"
#include "support.h"

TestSuite(sort, .init = folder_make, .fini = folder_remove);

static int compare_text(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* `n` pseudo-random keys with many repeats, in an arena of `arena` bytes, against qsort. */
static void check(size_t n, size_t arena)
{
    struct err e = {0};
    char dir[] = "/tmp";
    struct sorter *s = sorter_new(dir, arena);
    char **want = malloc((n + 1) * sizeof *want);
    unsigned x = 1;
    for (size_t i = 0; i < n; i++) {
        char key[32];
        x = x * 1103515245u + 12345u;
        int len = snprintf(key, sizeof key, "k%u", (x >> 8) % (unsigned)(n / 2 + 1));
        want[i] = strdup(key);
        cr_assert_eq(sorter_add(s, key, (size_t)len, &i, sizeof i, &e), 0, "%s", e.msg);
    }
    if (n)
        qsort(want, n, sizeof *want, compare_text);
    cr_assert_eq(sorter_count(s), n);
    for (int pass = 0; pass < 2; pass++) {
        struct sorted r;
        size_t before = 0;
        cr_assert_eq(sorter_rewind(s, &e), 0, "%s", e.msg);
        for (size_t i = 0; i < n; i++) {
            size_t order;
            cr_assert_eq(sorter_next(s, &r, &e), 1);
            cr_assert_eq(r.key_len, strlen(want[i]));
            cr_assert_eq(memcmp(r.key, want[i], r.key_len), 0, "pass %d record %zu", pass, i);
            memcpy(&order, r.data, sizeof order);
            cr_assert(i == 0 || strcmp(want[i], want[i - 1]) || order > before, "stable at %zu", i);
            before = order;
        }
        cr_assert_eq(sorter_next(s, &r, &e), 0);
        cr_assert_eq(sorter_next(s, &r, &e), 0);
    }
    for (size_t i = 0; i < n; i++)
        free(want[i]);
    free(want);
    sorter_free(s);
}

Test(sort, in_memory)
{
    const size_t sizes[] = {0, 1, 2, 3, 10, 1000};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        check(sizes[i], 1 << 20);
}

Test(sort, in_runs)
{
    const size_t sizes[] = {2, 5, 100, 20000};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        check(sizes[i], sizes[i] < 1000 ? 64 : 4096);
}

Test(sort, a_prefix_comes_first_and_bytes_are_unsigned)
{
    const char *const keys[] = {"b", "\xff", "a", "", "ab", "a\x80"};
    const char *const want[] = {"", "a", "ab", "a\x80", "b", "\xff"};
    struct sorter *s = sorter_new("/tmp", 1 << 20);
    struct sorted r;
    struct err e = {0};
    for (size_t i = 0; i < 6; i++)
        sorter_add(s, keys[i], strlen(keys[i]), NULL, 0, &e);
    cr_assert_eq(sorter_rewind(s, &e), 0);
    for (size_t i = 0; i < 6; i++) {
        cr_assert_eq(sorter_next(s, &r, &e), 1);
        cr_expect_eq(r.key_len, strlen(want[i]));
        cr_expect_eq(memcmp(r.key, want[i], r.key_len), 0, "%zu", i);
        cr_expect_eq(r.data_len, 0);
    }
    sorter_free(s);
}

Test(sort, a_record_larger_than_the_arena)
{
    struct sorter *s = sorter_new("/tmp", 100);
    struct sorted r;
    struct err e = {0};
    char *big = calloc(1, 300000);
    cr_assert_eq(sorter_add(s, "b", 1, big, 300000, &e), 0, "%s", e.msg);
    cr_assert_eq(sorter_add(s, "a", 1, "x", 1, &e), 0, "%s", e.msg);
    cr_assert_eq(sorter_rewind(s, &e), 0, "%s", e.msg);
    cr_assert_eq(sorter_next(s, &r, &e), 1);
    cr_expect_eq(r.data_len, 1);
    cr_assert_eq(sorter_next(s, &r, &e), 1);
    cr_expect_eq(r.data_len, 300000);
    cr_assert_eq(sorter_next(s, &r, &e), 0);
    free(big);
    sorter_free(s);
}

Test(sort, no_folder_for_runs)
{
    struct sorter *s = sorter_new("/nonexistent/folder", 64);
    struct err e = {0};
    int rc = 0;
    for (int i = 0; i < 10 && rc == 0; i++)
        rc = sorter_add(s, "0123456789", 10, NULL, 0, &e);
    cr_expect_eq(rc, -1);
    cr_expect(strstr(e.msg, "/nonexistent/folder") != NULL, "%s", e.msg);
    sorter_free(s);
}
