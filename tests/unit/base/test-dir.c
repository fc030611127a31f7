/* Folders read entry by entry, and dots in paths. */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "dir.h"

Test(dir, its_entries_come_without_dots_and_end_with_errno_0)
{
    char at[] = "/tmp/dir-XXXXXX";
    cr_assert(mkdtemp(at));
    cleanup_dir DIR *d = dir_open(AT_FDCWD, at, 0);
    cr_assert(d);
    cr_assert_eq(mkdirat(dirfd(d), "...", 0700), 0);
    cr_assert_eq(mkdirat(dirfd(d), ".hidden", 0700), 0);
    int n = 0;
    for (const struct dirent *e; (e = dir_next(d)); n++)
        cr_assert(strcmp(e->d_name, "...") == 0 || strcmp(e->d_name, ".hidden") == 0, "%s",
                  e->d_name);
    cr_assert_eq(errno, 0);
    cr_assert_eq(n, 2);
    unlinkat(dirfd(d), "...", AT_REMOVEDIR);
    unlinkat(dirfd(d), ".hidden", AT_REMOVEDIR);
    rmdir(at);
}

Test(dir, what_is_no_folder_is_not_opened_and_leaves_no_descriptor)
{
    int next = dup(0);
    close(next);
    cr_assert_null(dir_open(AT_FDCWD, "/proc/self/status", 0));
    cr_assert_eq(errno, ENOTDIR);
    cr_assert_null(dir_open(AT_FDCWD, "/proc/self/cwd", O_NOFOLLOW));
    cr_assert_null(dir_of(open("/proc/self/status", O_RDONLY | O_CLOEXEC)));
    cr_assert_eq(errno, ENOTDIR, "that of fdopendir(), not of close()");
    errno = EMFILE;
    cr_assert_null(dir_of(-1));
    cr_assert_eq(errno, EMFILE);
    int again = dup(0);
    cr_assert_eq(again, next);
    close(again);
}

Test(dir, dots_are_parts_of_their_own)
{
    static const char *const up[] = {"..", "../a", "a/..", "a//../b", "/..", "/a/../b"};
    static const char *const in[] = {"", "/", "...", "a..b", "..a/b", "a/b..", "./a/.", "a/...//"};
    for (size_t i = 0; i < sizeof up / sizeof *up; i++)
        cr_assert(path_leads_up(up[i]), "%s", up[i]);
    for (size_t i = 0; i < sizeof in / sizeof *in; i++)
        cr_assert_not(path_leads_up(in[i]), "%s", in[i]);
    cr_assert(name_is_dots(".") && name_is_dots("..") && part_is_dots("../a", 2));
    cr_assert_not(name_is_dots("") || name_is_dots("...") || name_is_dots(".a"));
    cr_assert_not(part_is_dots("..", 0) || part_is_dots("a", 1) || part_is_dots("..a", 3));
}

Test(dir, an_image_is_told_by_how_its_name_ends)
{
    static const char *const images[] = {"a/1.JPG", "b.jpeg", ".webp", "x.tar.TiFf"};
    static const char *const others[] = {"", "jpg", "a.jpg.gz", "a.jpg/1", "a.gif"};
    for (size_t i = 0; i < sizeof images / sizeof *images; i++)
        cr_expect(name_is_image(images[i], strlen(images[i])), "%s", images[i]);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        cr_expect(!name_is_image(others[i], strlen(others[i])), "%s", others[i]);
    cr_expect(!name_is_image("a.jpg", 4), "what lies past the length is not the name's");
}
