#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "walk.h"

/* A folder with a/real.jpg, a/gone.jpg that leads nowhere, a/shut.jpg into a folder of `mode`. */
static void make_set(const char *top, mode_t mode)
{
    char path[256], to[256];
    snprintf(path, sizeof path, "%s/a", top);
    cr_assert_eq(mkdir(path, 0755), 0);
    snprintf(path, sizeof path, "%s-else", top);
    cr_assert_eq(mkdir(path, 0755), 0);
    snprintf(to, sizeof to, "%s-else/x.jpg", top);
    close(open(to, O_WRONLY | O_CREAT | O_CLOEXEC, 0644));
    snprintf(to, sizeof to, "%s/a/real.jpg", top);
    close(open(to, O_WRONLY | O_CREAT | O_CLOEXEC, 0644));
    snprintf(path, sizeof path, "%s/a/gone.jpg", top);
    cr_assert_eq(symlink("/nowhere/x.jpg", path), 0);
    snprintf(path, sizeof path, "%s/a/shut.jpg", top);
    snprintf(to, sizeof to, "%s-else/x.jpg", top);
    cr_assert_eq(symlink(to, path), 0);
    snprintf(path, sizeof path, "%s-else", top);
    cr_assert(chmod(path, mode) == 0 && chmod(top, 0755) == 0);
}

static void remove_set(const char *top)
{
    static const char *const names[] = {
        "/a/real.jpg", "/a/gone.jpg", "/a/shut.jpg", "-else/x.jpg", "/a", "-else", ""};
    char path[256];
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        snprintf(path, sizeof path, "%s%s", top, names[i]);
        cr_expect_eq(remove(path), 0, "%s: %m", path);
    }
}

/* root may look anywhere: another user does it. */
static int walk_as_nobody(const char *top, struct file_list *ret, struct err *err)
{
    bool root = geteuid() == 0;
    cr_assert(!root || seteuid(65534) == 0);
    int result = file_list_walk(ret, top, err);
    cr_assert(!root || seteuid(0) == 0);
    return result;
}

Test(walk, links_are_what_they_lead_to)
{
    char top[] = "/tmp/sampan-walk-XXXXXX";
    cleanup_file_list struct file_list files = {0};
    struct err err = {0};
    cr_assert(mkdtemp(top));
    make_set(top, 0755);
    cr_expect_eq(walk_as_nobody(top, &files, &err), 0, "%s", err.msg);
    cr_expect_eq(files.n, 2);
    remove_set(top);
}

Test(walk, what_cannot_be_looked_at_is_not_left_out)
{
    char top[] = "/tmp/sampan-walk-XXXXXX";
    cleanup_file_list struct file_list files = {0};
    struct err err = {0};
    cr_assert(mkdtemp(top));
    make_set(top, 0);
    cr_expect_eq(walk_as_nobody(top, &files, &err), -1);
    cr_expect_eq(err.sys, EACCES, "%s", err.msg);
    char other[256];
    snprintf(other, sizeof other, "%s-else", top);
    cr_assert_eq(chmod(other, 0700), 0);
    remove_set(top);
}
