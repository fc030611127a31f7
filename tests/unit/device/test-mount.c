#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "device-internal.h"

Test(mount, options)
{
    struct mount_conf conf = {.source = "s3://b/a,b\\c", .allow_other = true};
    struct bytes text = {0};

    mount_options(&conf, true, &text);
    cr_assert_str_eq(text.data, "ro,nosuid,nodev,subtype=sampan,fsname=s3://b/a\\,b\\\\c,"
                                "default_permissions,max_read=1048576,allow_other");
    bytes_clear(&text);
    conf.allow_other = false;
    mount_options(&conf, false, &text);
    cr_assert_str_eq(text.data, "default_permissions,max_read=1048576");
    bytes_release(&text);
}

Test(mount, points_that_are_refused)
{
    char dir[] = "/tmp/fuse-test-XXXXXX";
    char path[64], link[64], real[4096];
    struct err err = {0};

    cr_assert(mkdtemp(dir));
    cr_assert_eq(mount_check_point(dir, &err), 0);
    snprintf(path, sizeof(path), "%s/absent", dir);
    cr_assert_eq(mount_check_point(path, &err), -1);
    cr_assert_eq(err.class, ERR_NOT_FOUND);
    cr_assert(strstr(err.msg, "does not exist (mkdir -p "));
    FILE *f = fopen(path, "w");
    fclose(f);
    cr_assert_eq(mount_check_point(path, &err), -1);
    cr_assert(strstr(err.msg, "is not a folder"));
    cr_assert_eq(mount_check_point(dir, &err), -1);
    cr_assert_eq(err.class, ERR_DENIED);
    cr_assert(strstr(err.msg, "is not empty: it has 'absent'"));
    cr_assert_eq(mount_check_point("/proc", &err), -1);
    cr_assert(strstr(err.msg, "mounted on it already"));
    unlink(path);
    /* The last part need not exist, the parent is resolved. */
    snprintf(path, sizeof(path), "%s/./x/", dir);
    cr_assert_eq(mount_real_path(path, real, &err), 0);
    snprintf(path, sizeof(path), "%s/x", dir);
    cr_assert_str_eq(real, path);
    cr_assert_eq(mount_real_path("/", real, &err), 0);
    cr_assert_str_eq(real, "/");
    cr_assert_eq(mount_real_path("/proc", real, &err), 0);
    cr_assert_str_eq(real, "/proc");
    cr_assert_eq(mount_real_path("", real, &err), -1);
    /* A link in its place is followed, also to what does not exist; not for ever. */
    snprintf(link, sizeof(link), "%s/link", dir);
    cr_assert_eq(symlink("./x", link), 0);
    cr_assert_eq(mount_real_path(link, real, &err), 0);
    cr_assert_str_eq(real, path);
    unlink(link);
    cr_assert_eq(symlink("link", link), 0);
    cr_assert_eq(mount_real_path(link, real, &err), -1);
    unlink(link);
    cr_assert_eq(mount_end(dir, false, &err), -1);
    cr_assert_eq(err.class, ERR_NOT_FOUND);
    cr_assert_eq(mount_end("/proc", false, &err), -1);
    cr_assert_eq(err.class, ERR_USAGE);
    rmdir(dir);
}
