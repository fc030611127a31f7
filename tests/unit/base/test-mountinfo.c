#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "mountinfo.h"

Test(mountinfo, lines)
{
    struct mount_row *r = calloc(1, sizeof(*r));

    cr_assert(mountinfo_line("43 27 0:39 / /mnt/a\\040b\\134c ro,nosuid,nodev,relatime shared:5 "
                             "master:1 - fuse.sampan s3://b/p\\011x ro,user_id=1000,group_id=7\n",
                             r));
    cr_assert_eq(r->user, 1000);
    cr_assert_str_eq(r->mountpoint, "/mnt/a b\\c");
    cr_assert_str_eq(r->type, "fuse.sampan");
    cr_assert_str_eq(r->source, "s3://b/p\tx");
    cr_assert_eq(r->major, 0);
    cr_assert_eq(r->minor, 39);
    cr_assert(mountinfo_line("1 0 254:0 / / rw - ext4 /dev/vda rw", r));
    cr_assert_str_eq(r->mountpoint, "/");
    cr_assert_eq(r->user, 0);
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
