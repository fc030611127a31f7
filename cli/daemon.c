/* A process in the background whose start is waited for. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli-internal.h"
#include "keeper.h"
#include "mem.h"

/* Over the pipe goes either one byte (KEEPER_REPORT_READY; a keeper writes it too) or the reason,
 * whole and at once: smaller than PIPE_BUF. */
_Static_assert(sizeof(struct err) > 1 && sizeof(struct err) < 4096, "one atomic write");

struct daemon_start {
    int pipe; /* the writing end */
};

static volatile sig_atomic_t child_pid;

static void pass_on(int signal)
{
    if (child_pid > 0)
        kill(child_pid, signal);
}

/* The child has said nothing: its end tells why. */
static int describe_end(pid_t pid, struct err *err)
{
    int status = 0;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    if (WIFSIGNALED(status) && (WTERMSIG(status) == SIGTERM || WTERMSIG(status) == SIGINT))
        return err_set(err, ERR_CANCELLED, "interrupted");
    if (WIFSIGNALED(status))
        return err_set(err, ERR_BUG, "the daemon died of signal %d (%s)", WTERMSIG(status),
                       strsignal(WTERMSIG(status)));
    int code = WEXITSTATUS(status), killer = code - 128; /* a keeper ends as its child did */
    if (killer == SIGTERM || killer == SIGINT)
        return err_set(err, ERR_CANCELLED, "interrupted");
    if (killer > 0)
        return err_set(err, ERR_BUG, "the daemon died of signal %d (%s)", killer,
                       strsignal(killer));
    return err_set(err, ERR_BUG, "the daemon ended with code %d and gave no reason", code);
}

static int wait_for_child(int fd, pid_t pid, struct err *err)
{
    struct err why;
    ssize_t n;
    do
        n = read(fd, &why, sizeof why);
    while (n < 0 && errno == EINTR);
    if (n > 0 && n < (ssize_t)sizeof why)
        return 1; /* two bytes where the keeper was killed just after it had said so */
    if (n <= 0)
        return describe_end(pid, err);
    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        ; /* it cleans up before it ends */
    if (err) {
        *err = why;
        err->msg[sizeof err->msg - 1] = '\0';
    }
    return -1;
}

int daemon_fork(struct daemon_start **ret, struct err *err)
{
    int fds[2];
    if (pipe2(fds, O_CLOEXEC))
        return err_sys(err, errno, "make a pipe");
    struct sigaction act = {.sa_handler = pass_on};
    sigaction(SIGINT, &act, NULL);
    sigaction(SIGTERM, &act, NULL);
    fflush(NULL);
    pid_t pid = fork();
    if (pid < 0) {
        close(fds[0]);
        close(fds[1]);
        return err_sys(err, errno, "start a process");
    }
    if (pid > 0) {
        child_pid = pid;
        close(fds[1]);
        int result = wait_for_child(fds[0], pid, err);
        close(fds[0]);
        return result;
    }
    close(fds[0]);
    signal(SIGINT, SIG_DFL);
    signal(SIGTERM, SIG_DFL);
    setsid();
    *ret = daemon_resume(fds[1]);
    return 0;
}

struct daemon_start *daemon_resume(int pipe)
{
    struct daemon_start *d = xcalloc(1, sizeof *d);
    d->pipe = pipe;
    return d;
}

int daemon_pipe(const struct daemon_start *d)
{
    return d->pipe;
}

static int say(struct daemon_start *d, const void *report, size_t len)
{
    ssize_t n;
    do
        n = write(d->pipe, report, len);
    while (n < 0 && errno == EINTR);
    close(d->pipe);
    free(d);
    return n == (ssize_t)len ? 0 : -1;
}

int daemon_let_go(struct err *err)
{
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (null < 0 || dup2(null, 0) < 0 || dup2(null, 1) < 0 || dup2(null, 2) < 0)
        return err_sys(err, errno, "open /dev/null");
    if (null > 2)
        close(null);
    if (chdir("/"))
        return err_sys(err, errno, "change to /");
    return 0;
}

int daemon_ready(struct daemon_start *d, struct err *err)
{
    if (daemon_let_go(err))
        return -1;
    if (say(d, KEEPER_REPORT_READY, 1))
        return err_set(err, ERR_CANCELLED, "the command that started this daemon is gone");
    return 0;
}

void daemon_failed(struct daemon_start *d, const struct err *why)
{
    struct err report;
    memset(&report, 0, sizeof report); /* no stray byte of ours goes out */
    report.class = why->class;
    report.sys = why->sys;
    snprintf(report.msg, sizeof report.msg, "%s", why->msg);
    say(d, &report, sizeof report); /* nobody left to tell: nothing more to do */
}
