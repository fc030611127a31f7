/* A version that another folder made becomes one of ours: the same name, ids of our own. */
#include <criterion/criterion.h>
#include <string.h>
#include <unistd.h>

#include "mem.h"
#include "support.h"

TestSuite(take, .init = folder_make, .fini = folder_remove);

/* What was made in the folder, as a file that another folder made: nothing here knows of it. */
static struct catalog *as_theirs(struct catalog_builder *b)
{
    struct catalog *c;
    struct err e = {0};
    cleanup_free char *file = NULL;
    cleanup_free char *theirs = xasprintf("%s/theirs", folder_name());
    cleanup_free char *current = xasprintf("%s/current", folder_name());
    cleanup_free char *next_id = xasprintf("%s/next-id", folder_name());
    cr_assert_eq(catalog_builder_finish(b, theirs, &file, NULL, &e), 0, "%s", e.msg);
    catalog_builder_free(b);
    cr_assert(!unlink(file) && !unlink(current) && !unlink(next_id));
    cr_assert_eq(catalog_open(&c, theirs, &e), 0, "%s", e.msg);
    return c;
}

static struct catalog_builder *ours(struct catalog *previous)
{
    static const struct catalog_source_row sources[] = {{"s3://b/one", ""}, {"s3://b/two", "val/"}};
    struct catalog_builder *b;
    struct err e = {0};
    cr_assert_eq(catalog_builder_new(&b, folder_name(), previous, sources, 2, &e), 0, "%s", e.msg);
    return b;
}

/* Files that no walk of rows alone would give again: folders that are empty, or newer than what is
 * in them, names that are refused, samples in packs. */
static struct catalog *odd_version(void)
{
    struct catalog_builder *b = ours(NULL);
    struct err e = {0};
    const struct row packed = {.key = "z/packed.jpg",
                               .key_len = 12,
                               .size = 9,
                               .mtime_ns = 5,
                               .object = "packs/1",
                               .pack_offset = 512};
    add_rows(b, "a/1.jpg 10 1 abc\na/2.jpg 5000000 2 0123456789abcdef0123456789abcdef\n"
                "a/ 0 99\nempty/ 0 7\nb/x 3 3\nb 4 4\nb//y 5\nc.jpg 1 1 e 1\nval/c.jpg 1 2 f\n");
    cr_assert_eq(catalog_builder_add(b, &packed, &e), 0, "%s", e.msg);
    struct catalog *c = as_theirs(b);
    cr_assert_gt(catalog_info(c)->bad_names, 1);
    return c;
}

Test(take, the_same_rows_by_ids_of_our_own)
{
    struct err e = {0};
    struct catalog *theirs = odd_version(), *current;
    struct catalog_builder *b = ours(NULL);
    add_rows(b, "0/first.jpg 1\na/1.jpg 10 1 abc\n");
    struct catalog *before = finish(b, NULL);
    b = ours(before);
    cr_assert_eq(catalog_builder_take(b, theirs, &e), 0, "%s", e.msg);
    struct catalog *c = finish(b, NULL); /* verified */
    cr_expect_str_eq(catalog_info(c)->digest, catalog_info(theirs)->digest);
    cr_expect_eq(catalog_info(c)->lineage, catalog_info(before)->lineage);
    cr_expect_eq(id_of(c, "a/1.jpg"), id_of(before, "a/1.jpg"), "what we know keeps its id");
    cr_expect_geq(id_of(c, "a/2.jpg"), catalog_info(before)->next_id);
    cr_expect_null(strpbrk(changes(theirs, c), "+-"), "%s", changes(theirs, c));
    cr_expect_str_eq(bad_names(c), bad_names(theirs));
    cr_assert_eq(catalog_current(&current, folder_name(), &e), 0, "%s", e.msg);
    cr_expect_str_eq(catalog_info(current)->digest, catalog_info(before)->digest,
                     "it is not published");
    catalog_unref(current);
    catalog_unref(c);
    catalog_unref(before);
    catalog_unref(theirs);
}

Test(take, what_a_list_numbered_is_refused_and_leaves_nothing)
{
    struct err e = {0};
    static const char list[] = "b.jpg\na.jpg\n";
    static const struct catalog_source_row source = {"s3://b/p", ""};
    struct catalog_builder *b;
    struct catalog *theirs;
    cleanup_free char *mine = NULL;
    cr_assert_eq(catalog_builder_new(&b, folder_name(), NULL, &source, 1, &e), 0, "%s", e.msg);
    add_rows(b, "a.jpg 1\nb.jpg 2\n");
    cr_assert_eq(catalog_builder_list(b, list, sizeof list - 1, "list", &e), 0, "%s", e.msg);
    theirs = as_theirs(b);
    cr_assert_eq(catalog_builder_new(&b, folder_name(), NULL, &source, 1, &e), 0, "%s", e.msg);
    cr_assert_eq(catalog_builder_take(b, theirs, &e), 0, "%s", e.msg);
    cr_expect_eq(catalog_builder_finish(b, NULL, &mine, NULL, &e), -1);
    cr_expect(strstr(e.msg, "cannot be made here") != NULL, "%s", e.msg);
    catalog_builder_free(b);
    catalog_unref(theirs);
    cleanup_free char *current = xasprintf("%s/current", folder_name());
    cr_expect_eq(access(current, F_OK), -1);
}
