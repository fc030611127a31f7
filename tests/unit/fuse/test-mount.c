#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "frontend-internal.h"

Test(mountinfo, lines)
{
    struct mount_row *r = calloc(1, sizeof(*r));

    cr_assert(mountinfo_line("43 27 0:39 / /mnt/a\\040b\\134c ro,nosuid,nodev,relatime shared:5 "
                             "master:1 - fuse.sampan s3://b/p\\011x ro,user_id=0\n",
                             r));
    cr_assert_str_eq(r->mountpoint, "/mnt/a b\\c");
    cr_assert_str_eq(r->type, "fuse.sampan");
    cr_assert_str_eq(r->source, "s3://b/p\tx");
    cr_assert_eq(r->major, 0);
    cr_assert_eq(r->minor, 39);
    cr_assert(mountinfo_line("1 0 254:0 / / rw - ext4 /dev/vda rw", r));
    cr_assert_str_eq(r->mountpoint, "/");
    cr_assert_eq(r->major, 254);
    /* A backslash that begins no escape stays. */
    cr_assert(mountinfo_line("1 0 0:1 / /a\\9 rw - t s rw", r));
    cr_assert_str_eq(r->mountpoint, "/a\\9");
    static const char *const bad[] = {"",
                                      "\n",
                                      "1 2 3",
                                      "1 0 0:1 / /a rw",
                                      "1 0 x:y / /a rw - t s",
                                      "1 0 0:1 / /a rw shared:1 t s",
                                      "1 0 0:1 / /a rw -",
                                      "1 0 0:1 / /a rw - t"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        cr_assert(!mountinfo_line(bad[i], r), "%s", bad[i]);
    free(r);
}

Test(mountinfo, a_field_that_does_not_fit)
{
    struct mount_row *r = calloc(1, sizeof(*r));
    char *line = malloc(9000);

    memset(line, 'a', 9000);
    memcpy(line, "1 0 0:1 / /", 11);
    memcpy(line + 8980, " rw - t s rw", 13);
    cr_assert(!mountinfo_line(line, r));
    free(line);
    free(r);
}

Test(mount, options)
{
    struct frontend_conf conf = {.allow_other = true};
    struct bytes text = {0};

    mount_options(&conf, "s3://b/a,b\\c", true, &text);
    cr_assert_str_eq(text.data, "ro,nosuid,nodev,subtype=sampan,fsname=s3://b/a\\,b\\\\c,"
                                "default_permissions,max_read=1048576,allow_other");
    bytes_clear(&text);
    conf.allow_other = false;
    mount_options(&conf, "x", false, &text);
    cr_assert_str_eq(text.data, "default_permissions,max_read=1048576");
    bytes_release(&text);
}

Test(mount, points_that_are_refused)
{
    char dir[] = "/tmp/fuse-test-XXXXXX";
    char path[64], real[4096];
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
    cr_assert_eq(frontend_umount(dir, false, &err), -1);
    cr_assert_eq(err.class, ERR_NOT_FOUND);
    cr_assert_eq(frontend_umount("/proc", false, &err), -1);
    cr_assert_eq(err.class, ERR_USAGE);
    rmdir(dir);
}
