/* Which samples are old enough to be removed at their source. */
#include <criterion/criterion.h>
#include <ftw.h>
#include <string.h>

#include "mem.h"
#include "retire.h"

static char dir[] = "/tmp/sampan-retire-XXXXXX";
static struct catalog *set;

static void begin(void)
{
    static const struct catalog_source_row source = {"file:///nowhere", ""};
    static const struct {
        const char *key;
        int64_t mtime_ns;
    } rows[] = {{"early", 100}, {"late", 300}, {"before-1970", -100}, {"untold", CATALOG_NO_MTIME}};
    struct catalog_builder *b;
    struct err err = {0};
    cleanup_free char *file = NULL;
    cr_assert_not_null(mkdtemp(dir));
    cr_assert_eq(catalog_builder_new(&b, dir, NULL, &source, 1, &err), 0, "%s", err.msg);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const struct row row = {.key = rows[i].key,
                                .key_len = strlen(rows[i].key),
                                .size = 10,
                                .mtime_ns = rows[i].mtime_ns,
                                .etag = ""};
        cr_assert_eq(catalog_builder_add(b, &row, &err), 0, "%s", err.msg);
    }
    cr_assert_eq(catalog_builder_finish(b, NULL, &file, NULL, &err), 0, "%s", err.msg);
    catalog_builder_free(b);
    cr_assert_eq(catalog_open(&set, file, &err), 0, "%s", err.msg);
}

static int forget(const char *path, const struct stat *st, int type, struct FTW *at)
{
    (void)st, (void)type, (void)at;
    return remove(path);
}

static void finish(void)
{
    catalog_unref(set);
    nftw(dir, forget, 16, FTW_DEPTH | FTW_PHYS);
}

static void check(struct retire_conf conf, const char *want)
{
    struct retire *r;
    struct err err = {0};
    cleanup_bytes struct bytes names = {0};
    cr_assert_eq(retire_new(&r, set, &conf, &err), 0, "%s", err.msg);
    bytes_add_str(&names, "");
    for (uint64_t i = 0; i < retire_samples(r); i++) {
        bytes_add_str(&names, i ? " " : "");
        cr_assert_eq(retire_path(r, i, &names, &err), 0, "%s", err.msg);
    }
    cr_expect_str_eq(names.data, want);
    cr_expect_eq(retire_bytes(r), 10 * retire_samples(r));
    retire_free(r);
}

TestSuite(retire, .init = begin, .fini = finish);

Test(retire, by_age_what_is_known_to_be_old)
{
    check((struct retire_conf){.by_age = true, .before_ns = 200}, "before-1970 early");
    check((struct retire_conf){.by_age = true, .before_ns = 100}, "before-1970");
    check((struct retire_conf){.by_age = true, .before_ns = -100}, "");
}

Test(retire, to_a_size_what_tells_no_time_goes_last)
{
    check((struct retire_conf){.to = 25}, "before-1970 early");
    check((struct retire_conf){.to = 10}, "before-1970 early late");
    check((struct retire_conf){.to = 0}, "before-1970 early late untold");
}
