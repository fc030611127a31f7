/* SQLite finds no memory: whoever asked hears of it, and is never given less than there is. */
#include <criterion/criterion.h>
#include <sqlite3.h>
#include <string.h>

#include "err.h"
#include "mem.h"
#include "support.h"

#define ETAG    "0123456789abcdef0123456789abcdef"
#define SMALL   64 /* copies of bound values are; failing all others, too, would take minutes */
#define SAMPLES 5

static sqlite3_mem_methods real;
static unsigned small_ones, fails_at; /* 0: none does */

static bool fails(int size)
{
    return size <= SMALL && ++small_ones == fails_at;
}

static void *take(int size)
{
    return fails(size) ? NULL : real.xMalloc(size);
}

static void *take_again(void *p, int size)
{
    return fails(size) ? NULL : real.xRealloc(p, size);
}

static void begin(void)
{
    cr_assert_eq(sqlite3_config(SQLITE_CONFIG_LOOKASIDE, 0, 0), SQLITE_OK);
    cr_assert_eq(sqlite3_config(SQLITE_CONFIG_GETMALLOC, &real), SQLITE_OK);
    sqlite3_mem_methods ours = real;
    ours.xMalloc = take;
    ours.xRealloc = take_again;
    cr_assert_eq(sqlite3_config(SQLITE_CONFIG_MALLOC, &ours), SQLITE_OK);
    folder_make();
}

TestSuite(memory, .init = begin, .fini = folder_remove);

static const char rows[] = "a/b/x 1 1 " ETAG "\n"
                           "a/b/y 1 1 " ETAG "\n"
                           "a/c/x 1 1 " ETAG "\n"
                           "a/z 1 1 " ETAG "\n"
                           "z 1 1 " ETAG "\n";

static bool count(void *arg, const struct entry *e)
{
    cr_expect_str_eq(e->etag, ETAG);
    ++*(unsigned *)arg;
    return true;
}

/* The n-th small allocation from now on. */
static void fail_at(unsigned n)
{
    small_ones = 0;
    fails_at = n;
}

static bool has_failed(void)
{
    bool failed = small_ones >= fails_at;
    fails_at = 0;
    return failed;
}

Test(memory, a_walk_does_not_end_early)
{
    struct catalog *c = version(NULL, rows);
    for (unsigned n = 1; n < 10000; n++) {
        unsigned seen = 0;
        struct err err = {0};
        fail_at(n);
        int rc = catalog_walk_below(c, CATALOG_ROOT_ID, count, &seen, &err);
        if (!has_failed())
            break;
        cr_expect(rc < 0 || seen == SAMPLES, "n=%u: %u samples and no error", n, seen);
        cr_expect(rc == 0 || err.msg[0], "n=%u: an error without words", n);
    }
    catalog_unref(c);
}

static bool pass(void *arg, const struct entry *e, uint64_t cookie)
{
    (void)arg, (void)e, (void)cookie;
    return true;
}

/* "Stale" would say that the folder is another one by now. */
Test(memory, a_page_says_why_it_cannot_be_had)
{
    struct catalog *c = version(NULL, rows);
    uint64_t folder = id_of(c, "a"), after = id_of(c, "a/b");
    for (unsigned n = 1; n < 10000; n++) {
        struct err err = {0};
        fail_at(n);
        int rc = catalog_page(c, folder, after, pass, NULL, &err);
        if (!has_failed())
            break;
        cr_expect(rc == 0 || err.class != ERR_STALE, "n=%u: %s", n, err.msg);
    }
    catalog_unref(c);
}

Test(memory, a_version_has_what_it_was_given)
{
    for (unsigned n = 1; n < 10000; n++) {
        struct catalog_builder *b = builder(NULL);
        struct catalog *c;
        char *file = NULL;
        unsigned seen = 0;
        add_rows(b, rows);
        fail_at(n);
        int rc = catalog_builder_finish(b, NULL, &file, NULL, NULL);
        bool failed = has_failed();
        catalog_builder_free(b);
        if (rc == 0) {
            cr_assert_eq(catalog_open(&c, file, NULL), 0);
            cr_expect_eq(catalog_verify(c, NULL), 0, "n=%u: its rows are not those of its name", n);
            cr_assert_eq(catalog_walk(c, 0, count, &seen, NULL), 0);
            cr_expect_eq(seen, SAMPLES);
            catalog_unref(c);
        }
        free(file);
        if (!failed)
            break;
    }
}
