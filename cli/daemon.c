/* A process in the background whose start is waited for. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli-internal.h"
#include "mem.h"

/* What goes over the pipe, whole and at once: smaller than PIPE_BUF. */
struct report {
    bool ready;
    struct err why;
};
_Static_assert(sizeof(struct report) < 4096, "a report must fit into one atomic write");

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
    if (WEXITSTATUS(status) == 130)
        return err_set(err, ERR_CANCELLED, "interrupted");
    return err_set(err, ERR_BUG, "the daemon ended with code %d and gave no reason",
                   WEXITSTATUS(status));
}

static int wait_for_child(int fd, pid_t pid, struct err *err)
{
    struct report report;
    ssize_t n;
    do
        n = read(fd, &report, sizeof report);
    while (n < 0 && errno == EINTR);
    if (n != (ssize_t)sizeof report)
        return describe_end(pid, err);
    if (report.ready)
        return 1;
    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        ; /* it cleans up before it ends */
    if (err) {
        *err = report.why;
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
    struct daemon_start *d = xcalloc(1, sizeof *d);
    d->pipe = fds[1];
    *ret = d;
    return 0;
}

static int say(struct daemon_start *d, const struct report *report)
{
    ssize_t n;
    do
        n = write(d->pipe, report, sizeof *report);
    while (n < 0 && errno == EINTR);
    close(d->pipe);
    free(d);
    return n == (ssize_t)sizeof *report ? 0 : -1;
}

int daemon_ready(struct daemon_start *d, struct err *err)
{
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (null < 0 || dup2(null, 0) < 0 || dup2(null, 1) < 0 || dup2(null, 2) < 0)
        return err_sys(err, errno, "open /dev/null");
    if (null > 2)
        close(null);
    if (chdir("/"))
        return err_sys(err, errno, "change to /");
    struct report report;
    memset(&report, 0, sizeof report);
    report.ready = true;
    if (say(d, &report))
        return err_set(err, ERR_CANCELLED, "the command that started this daemon is gone");
    return 0;
}

void daemon_failed(struct daemon_start *d, const struct err *why)
{
    struct report report;
    memset(&report, 0, sizeof report);
    report.why = *why;
    say(d, &report); /* nobody left to tell: nothing more to do */
}
