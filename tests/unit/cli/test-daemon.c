/* What a process in the background says of its start, and what its end says. */
#include <criterion/criterion.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli-internal.h"
#include "keeper.h"

/* A child that says so much and ends. */
static int start(const char *says, int killed_by, const struct err *failed, struct err *err)
{
    struct daemon_start *d = NULL;
    int who = daemon_fork(&d, err);
    if (who != 0)
        return who;
    if (failed)
        daemon_failed(d, failed);
    else if (write(daemon_pipe(d), says, strlen(says)) < 0)
        _exit(99);
    if (killed_by)
        kill(getpid(), killed_by);
    _exit(7);
}

Test(daemon, is_ready_if_it_says_so)
{
    struct err err = {0};
    cr_expect_eq(start(KEEPER_REPORT_READY, 0, NULL, &err), 1, "%s", err.msg);
    cr_expect_eq(start(KEEPER_REPORT_READY KEEPER_REPORT_READY, SIGKILL, NULL, &err), 1,
                 "twice, by a keeper that is killed and by its life: %s", err.msg);
    while (waitpid(-1, NULL, 0) > 0)
        ;
}

Test(daemon, gives_a_reason_or_its_end_is_one)
{
    struct err err = {0}, why = {.class = ERR_DENIED, .sys = 13};
    snprintf(why.msg, sizeof why.msg, "not allowed");
    cr_expect_eq(start(NULL, 0, &why, &err), -1);
    cr_expect_eq(err.class, ERR_DENIED);
    cr_expect_str_eq(err.msg, "not allowed");
    err = (struct err){0};
    cr_expect_eq(start("", 0, NULL, &err), -1);
    cr_expect(strstr(err.msg, "ended with code 7"), "%s", err.msg);
    err = (struct err){0};
    cr_expect_eq(start("", SIGKILL, NULL, &err), -1);
    cr_expect(strstr(err.msg, "died of signal 9"), "%s", err.msg);
    err = (struct err){0};
    cr_expect_eq(start("", SIGTERM, NULL, &err), -1);
    cr_expect_eq(err.class, ERR_CANCELLED);
}
