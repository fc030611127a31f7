/* Where the keeper's program is looked for, and what an environment that is not the keeper's does.
 */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cleanup.h"
#include "keeper.h"
#include "mem.h"

Test(find, the_variable_wins_and_must_name_a_program)
{
    cleanup_free char *path = NULL;
    struct err err = {0};
    setenv("SAMPAN_KEEPER", "/bin/sh", 1);
    cr_assert_eq(keeper_find(&path, &err), 0, "%s", err.msg);
    cr_expect_str_eq(path, "/bin/sh");
    setenv("SAMPAN_KEEPER", "/nowhere/at-all", 1);
    cr_expect_eq(keeper_find(&path, &err), -1);
    cr_expect_str_eq(err.msg,
                     "find the keeper: $SAMPAN_KEEPER: /nowhere/at-all: No such file or directory");
}

Test(find, none_is_not_found)
{
    char *path = NULL;
    struct err err = {0};
    unsetenv("SAMPAN_KEEPER"); /* none lies beside this test program */
    cr_expect_eq(keeper_find(&path, &err), -1);
    cr_expect_eq(err.class, ERR_NOT_FOUND);
}

Test(attach, nobody_started_us)
{
    struct keeper *k = (struct keeper *)1;
    unsetenv(KEEPER_ENV);
    cr_expect_eq(keeper_attach(&k, NULL), 0);
    cr_expect_null(k);
    keeper_detach(NULL);
}

Test(attach, what_no_keeper_wrote_is_refused)
{
    static const char *const texts[] = {
        "",
        "yes",
        "channel=3",
        "channel=900,state=901,dev=-1,listen=-1,report=-1,refuse=0",
        "channel=0,state=0,dev=5,listen=-1,report=-1,refuse=0",
        "channel=-1,state=-1,dev=-1,listen=-1,report=-1,refuse=0",
        "channel=0,state=0,dev=-1,listen=-1,report=-1,refuse=0", /* 0 is no memfd */
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        struct keeper *k = NULL;
        struct err err = {0};
        setenv(KEEPER_ENV, texts[i], 1);
        cr_expect_eq(keeper_attach(&k, &err), -1, "%s", texts[i]);
        cr_expect(err.msg[0], "%s", texts[i]);
        cr_expect_null(getenv(KEEPER_ENV), "taken out");
    }
}
