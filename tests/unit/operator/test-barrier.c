/* The program that pods of a job wait in. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "mem.h"

static char folder[] = "/tmp/sampan-barrier-XXXXXX";
static char *want, *have;

static void begin(void)
{
    cr_assert(mkdtemp(folder));
    want = xasprintf("%s/want", folder);
    have = xasprintf("%s/have", folder);
}

static void end(void)
{
    unlink(want);
    unlink(have);
    cr_assert_eq(rmdir(folder), 0);
    free(want);
    free(have);
}

static void write_text(const char *path, const char *text)
{
    FILE *f = fopen(path, "we");
    cr_assert(f && fputs(text, f) >= 0 && fclose(f) == 0);
}

static pid_t start(void)
{
    char self[4096];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    cr_assert_gt(n, 0);
    self[n] = '\0';
    cleanup_free char *program =
        xasprintf("%.*s/../bin/sampan-barrier", (int)(strrchr(self, '/') - self), self);
    pid_t pid = fork();
    if (pid == 0) {
        execl(program, "sampan-barrier", want, have, (char *)NULL);
        _exit(127);
    }
    cr_assert_gt(pid, 0);
    return pid;
}

static int code_of(pid_t pid)
{
    int status;
    cr_assert_eq(waitpid(pid, &status, 0), pid);
    cr_assert(WIFEXITED(status));
    return WEXITSTATUS(status);
}

TestSuite(operator_barrier, .init = begin, .fini = end);

Test(operator_barrier, opens_when_both_say_the_same)
{
    pid_t pid = start();
    write_text(want, "a:1,b:2");
    write_text(have, "a:1");
    cr_assert_eq(waitpid(pid, NULL, WNOHANG), 0);
    write_text(have, "a:1,b:2");
    cr_assert_eq(code_of(pid), 0);
}

Test(operator_barrier, ends_when_it_is_told_to)
{
    write_text(want, "");
    write_text(have, "");
    pid_t pid = start();
    cr_assert_eq(kill(pid, SIGTERM), 0);
    int status;
    cr_assert_eq(waitpid(pid, &status, 0), pid);
    /* Before or after it has asked for the signal: it ends by it. */
    cr_assert(WIFEXITED(status) ? WEXITSTATUS(status) == 128 + SIGTERM
                                : WTERMSIG(status) == SIGTERM);
}
