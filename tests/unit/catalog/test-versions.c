/* From version to version: what keeps its id, what is published, what is removed. */
#include <criterion/criterion.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "mem.h"
#include "support.h"

TestSuite(versions, .init = folder_make, .fini = folder_remove);

static char *in_folder(const char *name)
{
    return xasprintf("%s/%s", folder_name(), name);
}

static unsigned count_files(const char *end)
{
    unsigned n = 0;
    DIR *d = opendir(folder_name());
    for (struct dirent *e; (e = readdir(d));) {
        size_t len = strlen(e->d_name);
        n += len >= strlen(end) && strcmp(e->d_name + len - strlen(end), end) == 0;
    }
    closedir(d);
    return n;
}

Test(versions, unchanged_rows_keep_their_ids)
{
    struct catalog *a = version(NULL, "c/1.jpg 1 10 e1\nc/2.jpg 2 20 e2\nc/3.jpg 3 30 e3\n"
                                      "d/4.jpg 4 40 e4\n");
    struct catalog_builder *b = builder(a);
    struct catalog_diff_counts diff;
    /* 0 is new in front of all, 2 has another etag, 3 is gone, d became a file's name */
    add_rows(b, "c/0.jpg 9 5 e0\nc/1.jpg 1 10 e1\nc/2.jpg 2 20 changed\nd 4 40 e4\n");
    struct catalog *c = finish(b, &diff);
    uint64_t next = catalog_info(a)->next_id;
    cr_expect_eq(diff.added, 2);
    cr_expect_eq(diff.changed, 1);
    cr_expect_eq(diff.removed, 2);
    cr_expect_eq(id_of(c, "c"), id_of(a, "c"));
    cr_expect_eq(id_of(c, "c/1.jpg"), id_of(a, "c/1.jpg"));
    cr_expect_geq(id_of(c, "c/0.jpg"), next);
    cr_expect_geq(id_of(c, "c/2.jpg"), next);
    cr_expect_geq(id_of(c, "d"), next);
    cr_expect_eq(catalog_get(c, id_of(a, "c/3.jpg"), &(struct entry){0}, NULL), -1);
    cr_expect_str_eq(by_number(c), "c/0.jpg c/1.jpg c/2.jpg");
    cr_expect_str_eq(changes(a, c), "~c/ +c/0.jpg ~c/2.jpg -c/3.jpg -d/ +d -d/4.jpg");
    cr_expect_str_eq(changes(c, c), "");
    catalog_unref(a);
    catalog_unref(c);
}

Test(versions, each_field_of_a_row_counts)
{
    const char *const others[] = {"x 2 1 e", "x 1 2 e", "x 1 1 f", "x 1 1 -"};
    struct catalog *a = version(NULL, "x 1 1 e");
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        struct catalog *c = version(a, others[i]);
        cr_expect_neq(id_of(c, "x"), id_of(a, "x"), "%s", others[i]);
        catalog_unref(c);
    }
    catalog_unref(a);
}

Test(versions, another_store_s_rows_are_other_rows)
{
    struct catalog *a = version(NULL, "x 1 1 e");
    struct catalog_source_row moved = {"s3://elsewhere/set", ""};
    struct catalog_builder *b;
    cr_assert_eq(catalog_builder_new(&b, folder_name(), a, &moved, 1, NULL), 0);
    add_rows(b, "x 1 1 e");
    struct catalog *c = finish(b, NULL);
    cr_expect_neq(id_of(c, "x"), id_of(a, "x"));
    cr_expect_str_neq(catalog_info(c)->digest, catalog_info(a)->digest);
    catalog_unref(a);
    catalog_unref(c);
}

Test(versions, one_store_in_two_places)
{
    static const struct catalog_source_row twice[] = {{"s3://b/set", "one/"},
                                                      {"s3://b/set", "two/"}};
    struct catalog_builder *b;
    struct catalog_diff_counts diff;
    struct catalog *before = NULL;
    const char *const rows[] = {"x 1 1 e 0\nx 1 1 e 1\n", "x 1 1 e 0\nx 1 1 e 1\ny 1 1 e 1\n"};
    for (int i = 0; i < 2; i++) {
        cr_assert_eq(catalog_builder_new(&b, folder_name(), before, twice, 2, NULL), 0);
        add_rows(b, rows[i]);
        struct catalog *c = finish(b, &diff);
        if (before) {
            cr_expect_eq(id_of(c, "one/x"), id_of(before, "one/x"));
            cr_expect_eq(id_of(c, "two/x"), id_of(before, "two/x"));
            cr_expect(diff.added == 1 && diff.changed == 0);
        }
        catalog_unref(before);
        before = c;
    }
    catalog_unref(before);
}

Test(versions, nothing_changed_nothing_published)
{
    struct catalog *a = version(NULL, "c/1.jpg 1 10 e1\nc/2.jpg 2 20 e2\n");
    struct catalog_builder *b = builder(a);
    struct catalog_diff_counts diff;
    struct err e = {0};
    char *file;
    add_rows(b, "c/2.jpg 2 20 e2\nc/1.jpg 1 10 e1\n");
    cr_assert_eq(catalog_builder_finish(b, NULL, &file, &diff, &e), 0, "%s", e.msg);
    cr_expect_str_eq(file, catalog_file(a));
    cr_expect_eq(diff.added + diff.changed + diff.removed, 0);
    cr_expect_eq(count_files(".catalog"), 1);
    cr_expect_eq(catalog_builder_finish(b, NULL, &file, &diff, &e), -1, "only once");
    free(file);
    catalog_builder_free(b);
    catalog_unref(a);
}

Test(versions, a_name_that_became_bad_is_a_new_version)
{
    struct catalog *a = version(NULL, "x 1");
    struct catalog *b = version(a, "x 1\ny//z 1");
    cr_expect_str_neq(catalog_info(a)->digest, catalog_info(b)->digest);
    cr_expect_str_eq(bad_names(b), "y//z: a part of the path is empty ('//')\n");
    catalog_unref(a);
    catalog_unref(b);
}

Test(versions, back_to_earlier_rows_gives_the_earlier_ids_and_no_id_twice)
{
    struct catalog *a = version(NULL, "x 1 1 old\ny 1");
    struct catalog *b = version(a, "x 1 1 new\ny 1");
    struct catalog *back = version(b, "x 1 1 old\ny 1");
    struct catalog *more = version(back, "x 1 1 old\ny 1\nz 1");
    cr_expect_str_eq(catalog_info(back)->digest, catalog_info(a)->digest);
    cr_expect_eq(id_of(back, "x"), id_of(a, "x"));
    cr_expect_geq(id_of(more, "z"), catalog_info(b)->next_id, "%llu is the id of b's x",
                  (unsigned long long)id_of(more, "z"));
    catalog_unref(a);
    catalog_unref(b);
    catalog_unref(back);
    catalog_unref(more);
}

/* Tables are made of ids: what their size is counted with must hold them. */
Test(versions, ids_end)
{
    struct catalog_builder *b = builder(NULL);
    cleanup_free char *path = in_folder("next-id");
    FILE *f = fopen(path, "we");
    cr_assert(f && fprintf(f, "%llu\n", (1ull << 56) - 1) > 0 && fclose(f) == 0);
    cleanup_free char *file = NULL;
    struct err err = {0};
    add_rows(b, "x 1\ny 1");
    cr_expect_eq(catalog_builder_finish(b, NULL, &file, NULL, &err), -1);
    cr_expect_eq(err.class, ERR_LIMIT, "%s", err.msg);
    catalog_builder_free(b);
}

Test(versions, ids_stay_used_when_next_id_is_lost)
{
    struct catalog *a = version(NULL, "x 1 1 a\ny 1");
    struct catalog *b = version(a, "x 1 1 b\ny 1");
    cleanup_free char *path = in_folder("next-id");
    cr_assert_eq(unlink(path), 0);
    struct catalog *c = version(NULL, "other 1");
    cr_expect_geq(id_of(c, "other"), catalog_info(b)->next_id);
    catalog_unref(a);
    catalog_unref(b);
    catalog_unref(c);
}

Test(versions, a_lineage_lasts_as_long_as_versions_build_on_each_other)
{
    struct catalog *a = version(NULL, "x 1");
    struct catalog *b = version(a, "x 1\ny 1");
    struct catalog *c = version(NULL, "other 1");
    cr_expect_gt(catalog_info(a)->lineage, 0);
    cr_expect_eq(catalog_info(b)->lineage, catalog_info(a)->lineage);
    cr_expect_neq(catalog_info(c)->lineage, catalog_info(a)->lineage);
    catalog_unref(a);
    catalog_unref(b);
    catalog_unref(c);
}

/* The digest does not know ids; the sum of them does, and catalog_verify() checks it. */
Test(versions, the_sum_of_ids_tells_catalogs_with_other_ids_apart)
{
    struct catalog *a = version(NULL, "x 1\ny 1");
    struct catalog *same = version(NULL, "x 1\ny 1");
    struct catalog *mid = version(a, "y 1");
    struct catalog *back = version(mid, "x 1\ny 1");
    cr_expect_gt(catalog_info(a)->ids, 0);
    cr_expect_str_eq(catalog_info(a)->digest, catalog_info(back)->digest);
    cr_expect_eq(id_of(a, "x") == id_of(back, "x"),
                 catalog_info(a)->ids == catalog_info(back)->ids);
    cr_expect_eq(id_of(a, "x") == id_of(same, "x"),
                 catalog_info(a)->ids == catalog_info(same)->ids);
    cr_expect_eq(catalog_verify(back, NULL), 0);
    catalog_unref(a);
    catalog_unref(same);
    catalog_unref(mid);
    catalog_unref(back);
}

Test(versions, current_follows_and_copies_are_whole)
{
    struct catalog *c = NULL;
    struct err e = {0};
    cr_expect_eq(catalog_current(&c, folder_name(), &e), -1);
    cr_expect_eq(e.class, ERR_NOT_FOUND);
    struct catalog *a = version(NULL, "x 1");
    cr_assert_eq(catalog_current(&c, folder_name(), &e), 0, "%s", e.msg);
    cr_expect_str_eq(catalog_info(c)->digest, catalog_info(a)->digest);
    catalog_unref(c);

    cleanup_free char *copy = in_folder("copy.catalog");
    struct catalog_builder *b = builder(a);
    char *file;
    add_rows(b, "x 1\ny 2");
    cr_assert_eq(catalog_builder_finish(b, copy, &file, NULL, &e), 0, "%s", e.msg);
    catalog_builder_free(b);
    cr_assert_eq(catalog_current(&c, folder_name(), &e), 0, "%s", e.msg);
    cr_expect_str_eq(catalog_file(c), file);
    catalog_unref(c);
    cr_assert_eq(catalog_open(&c, copy, &e), 0, "%s", e.msg);
    cr_expect_eq(catalog_verify(c, &e), 0, "%s", e.msg);
    catalog_unref(c);
    free(file);

    b = builder(a);
    cr_expect_eq(catalog_builder_finish(b, "/nonexistent/copy", &file, NULL, &e), -1);
    cr_expect(strstr(e.msg, "/nonexistent/copy") != NULL, "%s", e.msg);
    catalog_builder_free(b);
    catalog_unref(a);
}

Test(versions, a_builder_that_is_given_up_leaves_nothing)
{
    struct catalog_builder *b = builder(NULL);
    struct err e = {0};
    add_rows(b, "x 1\ny 1");
    cr_assert_eq(catalog_builder_list(b, "no-such\n", 8, "list.txt", &e), 0);
    cr_expect_eq(catalog_builder_finish(b, NULL, &(char *){NULL}, NULL, &e), -1);
    catalog_builder_free(b);
    catalog_builder_free(builder(NULL));
    cr_expect_eq(count_files(""), 2, "only . and ..");
}

static bool stop_at_last(void *arg)
{
    int *left = arg;
    return --*left == 0;
}

Test(versions, one_that_is_told_to_stop_is_not_made)
{
    struct catalog *before = version(NULL, "a/1 1 10 e1\n");
    int stopped = 0;
    for (bool made = false; !made;) {
        struct err e = {0};
        struct catalog *now;
        struct catalog_builder *b = builder(before);
        cleanup_free char *file = NULL;
        int left = stopped + 1;
        catalog_builder_stop(b, stop_at_last, &left);
        add_rows(b, "a/1 1 10 e1\na/2 2 20 e2\n");
        made = catalog_builder_finish(b, NULL, &file, NULL, &e) == 0;
        catalog_builder_free(b);
        stopped += !made;
        cr_expect(made || e.class == ERR_CANCELLED, "%s", e.msg);
        cr_expect_eq(count_files(".catalog"), made ? 2 : 1);
        cr_expect_eq(count_files("-catalog"), 0);
        cr_assert_eq(catalog_current(&now, folder_name(), NULL), 0);
        cr_expect_eq(catalog_info(now)->samples, made ? 2 : 1);
        catalog_unref(now);
    }
    cr_expect_geq(stopped, 2, "planning and writing were told");
    catalog_unref(before);
}

Test(versions, tidying_takes_what_was_being_built)
{
    static const char *const names[] = {".build-1-catalog", ".build-999999-next-id",
                                        ".build-7-current"};
    struct catalog *c = version(NULL, "a 1 10 e1\n");
    for (size_t i = 0; i < 3; i++) {
        cleanup_free char *path = in_folder(names[i]);
        cr_assert_eq(symlink("somewhere", path), 0);
    }
    catalog_tidy(folder_name());
    for (size_t i = 0; i < 3; i++) {
        struct stat st;
        cleanup_free char *path = in_folder(names[i]);
        cr_expect_eq(lstat(path, &st), -1, "%s", names[i]);
    }
    cr_expect_eq(count_files(".catalog"), 1);
    catalog_tidy("/nowhere");
    catalog_unref(c);
}

Test(versions, pruning_keeps_the_newest_and_the_current)
{
    char rows[40];
    struct err e = {0};
    struct catalog *c[6];
    for (int i = 0; i < 6; i++) {
        struct timespec at[2] = {{.tv_sec = 1000 + i}, {.tv_sec = 1000 + i}};
        snprintf(rows, sizeof rows, "x %d", i);
        c[i] = version(i ? c[i - 1] : NULL, rows);
        cr_assert_eq(utimensat(AT_FDCWD, catalog_file(c[i]), at, 0), 0);
    }
    pid_t gone = fork();
    if (gone == 0)
        _exit(0);
    waitpid(gone, NULL, 0);
    cleanup_free char *rubbish = xasprintf("%s/.build-%d-catalog", folder_name(), (int)gone);
    cleanup_free char *running = xasprintf("%s/.build-%d-catalog", folder_name(), (int)getpid());
    close(open(rubbish, O_CREAT | O_WRONLY, 0600));
    close(open(running, O_CREAT | O_WRONLY, 0600));

    cr_assert_eq(catalog_prune(folder_name(), 3, &e), 0, "%s", e.msg);
    for (int i = 0; i < 6; i++)
        cr_expect_eq(access(catalog_file(c[i]), F_OK) == 0, i >= 3, "version %d", i);
    cr_expect_eq(access(rubbish, F_OK), -1);
    cr_expect_eq(access(running, F_OK), 0);
    cr_expect_str_eq(children(c[0], ""), "x", "an open version lives on");
    cr_assert_eq(catalog_prune(folder_name(), 0, &e), 0, "%s", e.msg);
    cr_expect_eq(count_files(".catalog"), 1, "the current one is always kept");
    for (int i = 0; i < 6; i++)
        catalog_unref(c[i]);
}

Test(versions, the_pinned_one_is_never_pruned)
{
    char rows[40], digest[CATALOG_DIGEST + 1];
    struct err e = {0};
    struct catalog *c[6], *pinned = NULL;
    for (int i = 0; i < 6; i++) {
        struct timespec at[2] = {{.tv_sec = 1000 + i}, {.tv_sec = 1000 + i}};
        snprintf(rows, sizeof rows, "x %d", i);
        c[i] = version(i ? c[i - 1] : NULL, rows);
        cr_assert_eq(utimensat(AT_FDCWD, catalog_file(c[i]), at, 0), 0);
    }
    snprintf(digest, sizeof digest, "%s", catalog_info(c[1])->digest);
    cr_expect_eq(catalog_pinned(&pinned, folder_name(), &e), -1);
    cr_expect_eq(e.class, ERR_NOT_FOUND, "%s", e.msg);
    cr_assert_eq(catalog_pin(folder_name(), digest, &e), 0, "%s", e.msg);
    cr_assert_eq(catalog_prune(folder_name(), 3, &e), 0, "%s", e.msg);
    for (int i = 0; i < 6; i++)
        cr_expect_eq(access(catalog_file(c[i]), F_OK) == 0, i == 1 || i >= 4, "version %d", i);
    cr_assert_eq(catalog_pinned(&pinned, folder_name(), &e), 0, "%s", e.msg);
    cr_expect_str_eq(catalog_info(pinned)->digest, digest);
    catalog_unref(pinned);
    cr_assert_eq(catalog_prune(folder_name(), 0, &e), 0, "%s", e.msg);
    cr_expect_eq(count_files(".catalog"), 2, "the current and the pinned one");

    cr_expect_eq(catalog_pin(folder_name(), catalog_info(c[0])->digest, &e), -1,
                 "a version whose file is gone");
    cr_expect_eq(e.class, ERR_NOT_FOUND, "%s", e.msg);
    cr_assert_eq(unlink(catalog_file(c[1])), 0);
    cr_expect_eq(catalog_pinned(&pinned, folder_name(), &e), -1);
    cr_expect_eq(e.class, ERR_CORRUPT, "%s", e.msg);
    cr_assert_eq(catalog_pin(folder_name(), "", &e), 0, "%s", e.msg);
    cr_assert_eq(catalog_pin(folder_name(), "", &e), 0, "%s", e.msg);
    cr_expect_eq(catalog_pinned(&pinned, folder_name(), &e), -1);
    cr_expect_eq(e.class, ERR_NOT_FOUND, "%s", e.msg);
    for (int i = 0; i < 6; i++)
        catalog_unref(c[i]);
}

Test(versions, the_folder_must_be_one)
{
    struct catalog_source_row s = {"s3://b", ""};
    struct catalog_builder *b;
    struct err e = {0};
    cr_expect_eq(catalog_builder_new(&b, "/nonexistent", NULL, &s, 1, &e), -1);
    cr_expect_eq(e.class, ERR_NOT_FOUND);
    cr_expect_eq(catalog_builder_new(&b, "/dev/null", NULL, &s, 1, &e), -1);
    cr_expect(strstr(e.msg, "/dev/null") != NULL, "%s", e.msg);
    cr_expect_eq(catalog_builder_new(&b, folder_name(), NULL, &s, 0, &e), -1);
}
