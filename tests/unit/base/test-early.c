/* Files that have their name before they are durable. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "early.h"
#include "mem.h"

static char folder[] = "/tmp/sampan-early-XXXXXX", file[64], mark[80];

static void make_folder(void)
{
    cr_assert_not_null(mkdtemp(folder));
    snprintf(file, sizeof file, "%s/file", folder);
    snprintf(mark, sizeof mark, "%s.early", file);
}

static void remove_folder(void)
{
    early_remove(file);
    cr_assert_eq(rmdir(folder), 0, "nothing else is left");
}

static void write_text(const char *path, const char *text)
{
    FILE *f = fopen(path, "we");
    cr_assert(f && fputs(text, f) >= 0 && fclose(f) == 0);
}

Test(early, marked_until_it_is_settled, .init = make_folder, .fini = remove_folder)
{
    cr_expect_not(early_is_marked(file));
    cr_expect_not(early_is_lost(file), "an ordinary file is what it is");
    cr_assert_eq(early_mark(file, NULL), 0);
    write_text(file, "x");
    cr_assert_eq(early_mark(file, NULL), 0, "another one marks it as well");
    cr_expect(early_is_marked(file));
    cr_expect_not(early_is_lost(file));
    cr_expect_eq(access(file, F_OK), 0, "and takes nothing away");
    cr_assert_eq(early_settle(file, NULL), 0);
    cr_expect_not(early_is_marked(file));
    cr_expect_eq(access(file, F_OK), 0);
}

static const char *const strange[] = {"00000000-0000-0000-0000-000000000000", "", "0000"};

Test(early, of_another_boot_it_is_lost, .init = make_folder, .fini = remove_folder)
{
    for (size_t i = 0; i < sizeof strange / sizeof strange[0]; i++) {
        write_text(file, "x");
        write_text(mark, strange[i]);
        cr_expect(early_is_lost(file), "'%s'", strange[i]);
        cr_assert_eq(early_mark(file, NULL), 0);
        cr_expect_not(early_is_lost(file));
        cr_expect_neq(access(file, F_OK), 0, "it is gone, and may be made again");
    }
}

Test(early, what_is_not_there_is_not_settled, .init = make_folder, .fini = remove_folder)
{
    struct err err = {0};
    cr_assert_eq(early_mark(file, NULL), 0);
    cr_expect_eq(early_settle(file, &err), -1);
    cr_expect_eq(err.class, ERR_NOT_FOUND);
    cr_expect(early_is_marked(file));
}

Test(early, no_folder_no_mark)
{
    struct err err = {0};
    cr_expect_eq(early_mark("/nowhere/at/all", &err), -1);
    cr_expect_not_null(strstr(err.msg, "/nowhere/at/all.early"));
    cr_expect_not(early_is_lost("/nowhere/at/all"));
}
