/* fork, namespaces, exec; pipes read until both ends are closed or the time is over. */
#include "spawn.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "clock.h"
#include "mem.h"

#define OUTPUT_MAX    (1u << 20)
#define KILL_AFTER_MS 10000
#define N_SPACES      6
#define CGROUPS_MOST  24

/* All that the new process needs, opened before it is made: between fork and exec only system
 * calls. */
struct plan {
    const struct spawn *s;
    int out[2], errors[2], null;
    pid_t parent;
    int spaces[N_SPACES]; /* namespaces of the host; -1 */
    int cgroups[CGROUPS_MOST];
    size_t n_cgroups;
    char **environment;
    char *run_dir; /* one of its strings */
};

static void drop(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

static void plan_release(struct plan *p)
{
    free(p->environment);
    free(p->run_dir);
    for (int i = 0; i < 2; i++) {
        drop(&p->out[i]);
        drop(&p->errors[i]);
    }
    drop(&p->null);
    for (int i = 0; i < N_SPACES; i++)
        drop(&p->spaces[i]);
    for (size_t i = 0; i < p->n_cgroups; i++)
        drop(&p->cgroups[i]);
}

/* --- the host --------------------------------------------------------------------------------- */

static int open_spaces(struct plan *p, struct err *err)
{
    /* The mount namespace comes last: the others are opened by paths of ours. */
    static const char *const names[N_SPACES] = {"net", "ipc", "uts", "cgroup", NULL, "mnt"};
    for (int i = 0; i < N_SPACES; i++) {
        if (!names[i])
            continue;
        cleanup_free char *path = xasprintf("/proc/1/ns/%s", names[i]);
        p->spaces[i] = open(path, O_RDONLY | O_CLOEXEC);
        if (p->spaces[i] < 0 && errno != ENOENT)
            return err_sys(err, errno, "enter the host: %s (hostPID: true, privileged: true)",
                           path);
    }
    return 0;
}

/* A cpuset without processors and memory takes no process: a new one gets its parent's. */
static void copy_up(const char *folder, const char *name)
{
    cleanup_free char *from = xasprintf("%s/../%s", folder, name);
    cleanup_free char *to = xasprintf("%s/%s", folder, name);
    char text[1024];
    cleanup_close int in = open(from, O_RDONLY | O_CLOEXEC);
    ssize_t n = in < 0 ? -1 : read(in, text, sizeof text);
    cleanup_close int out = n > 0 ? open(to, O_WRONLY | O_CLOEXEC) : -1;
    if (out >= 0 && write(out, text, (size_t)n) != n)
        return; /* it will not take processes; then that one hierarchy stays as it is */
}

static void add_cgroup(struct plan *p, const char *top)
{
    cleanup_free char *folder = xasprintf("%s/%s", top, p->s->cgroup);
    cleanup_free char *procs = xasprintf("%s/cgroup.procs", folder);
    if (p->n_cgroups == CGROUPS_MOST || (mkdir(folder, 0755) && errno != EEXIST))
        return;
    copy_up(folder, "cpuset.cpus");
    copy_up(folder, "cpuset.mems");
    int fd = open(procs, O_WRONLY | O_CLOEXEC);
    if (fd >= 0)
        p->cgroups[p->n_cgroups++] = fd;
}

/* Version 2 has one tree, version 1 a tree a controller. */
static void open_cgroups(struct plan *p)
{
    cleanup_free char *top = xasprintf("%s/sys/fs/cgroup", p->s->host_root);
    cleanup_free char *unified = xasprintf("%s/cgroup.controllers", top);
    if (access(unified, F_OK) == 0) {
        add_cgroup(p, top);
        return;
    }
    cleanup_dir DIR *d = opendir(top);
    for (const struct dirent *e; d && (e = readdir(d));) {
        if (e->d_name[0] == '.' || e->d_type != DT_DIR)
            continue;
        cleanup_free char *tree = xasprintf("%s/%s", top, e->d_name);
        add_cgroup(p, tree);
    }
}

/* On the host its folders have their own names: SAMPAN_RUN_DIR loses the host's root. */
static void make_environment(struct plan *p)
{
    static const char name[] = "SAMPAN_RUN_DIR=";
    size_t n = 0, root = strlen(p->s->host_root);
    while (environ[n])
        n++;
    p->environment = xcalloc(n + 1, sizeof *p->environment);
    for (size_t i = 0; i < n; i++) {
        const char *value = environ[i] + sizeof name - 1;
        p->environment[i] = environ[i];
        if (root && strncmp(environ[i], name, sizeof name - 1) == 0 &&
            strncmp(value, p->s->host_root, root) == 0)
            p->environment[i] = p->run_dir = xasprintf("%s%s", name, value + root);
    }
}

static int prepare(struct plan *p, struct err *err)
{
    make_environment(p);
    p->null = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (p->null < 0 || pipe2(p->out, O_CLOEXEC) || pipe2(p->errors, O_CLOEXEC))
        return err_sys(err, errno, "start %s", p->s->program);
    if (!*p->s->host_root)
        return 0;
    open_cgroups(p);
    return open_spaces(p, err);
}

/* --- the new process -------------------------------------------------------------------------- */

static _Noreturn void say_and_end(const char *what)
{
    char text[160];
    int n = snprintf(text, sizeof text, "sampan-csi: %s: error %d\n", what, errno);
    ssize_t ignored = write(2, text, n > 0 ? (size_t)n : 0);
    (void)ignored;
    _exit(127);
}

static _Noreturn void become(const struct plan *p)
{
    const struct spawn *s = p->s;
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    signal(SIGPIPE, SIG_DFL);
    if (dup2(p->null, 0) < 0 || dup2(p->out[1], 1) < 0 || dup2(p->errors[1], 2) < 0)
        _exit(127);
    for (size_t i = 0; i < p->n_cgroups; i++)
        if (write(p->cgroups[i], "0", 1) != 1)
            continue; /* a hierarchy that takes nobody: the others count */
    for (int i = 0; i < N_SPACES; i++)
        if (p->spaces[i] >= 0 && setns(p->spaces[i], 0))
            say_and_end("enter the host's namespaces");
    if (chdir("/"))
        say_and_end("change to /");
    if (s->ends_with_us && (prctl(PR_SET_PDEATHSIG, SIGTERM) || getppid() != p->parent))
        _exit(127);
    for (size_t i = 0; i < s->n_keep; i++)
        fcntl(s->keep[i], F_SETFD, 0);
    execve(s->program, (char *const *)(uintptr_t)s->argv, p->environment);
    say_and_end(s->program);
}

/* --- waiting ---------------------------------------------------------------------------------- */

/* Takes what is there. False: the other side is closed. */
static bool take(int fd, struct bytes *to)
{
    char chunk[16384];
    ssize_t n = read(fd, chunk, sizeof chunk);
    if (n > 0 && to && to->len < OUTPUT_MAX)
        bytes_add(to, chunk, (size_t)n);
    return n > 0 || (n < 0 && errno == EINTR);
}

static int ms_left(uint64_t deadline_ns)
{
    uint64_t now = clock_mono_ns();
    if (now >= deadline_ns)
        return 0;
    uint64_t ms = (deadline_ns - now) / NS_PER_MS + 1;
    return ms > INT32_MAX ? INT32_MAX : (int)ms;
}

/* Until the process has ended; what its descendants still hold open is not waited for. */
static bool listen_until(struct plan *p, int process, uint64_t deadline_ns, struct bytes *out,
                         struct bytes *errors)
{
    struct pollfd fds[3] = {
        {p->out[0], POLLIN, 0}, {p->errors[0], POLLIN, 0}, {process, POLLIN, 0}};
    for (;;) {
        int n = poll(fds, 3, ms_left(deadline_ns));
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        if (fds[0].revents && !take(fds[0].fd, out))
            fds[0].fd = -1;
        if (fds[1].revents && !take(fds[1].fd, errors))
            fds[1].fd = -1;
        if (!fds[2].revents || (fds[0].revents & POLLIN) || (fds[1].revents & POLLIN))
            continue;
        return true;
    }
}

static int reap(pid_t pid)
{
    int status = 0;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

static int wait_for(struct plan *p, pid_t pid, int *ret_code, struct bytes *out,
                    struct bytes *errors, struct err *err)
{
    cleanup_close int process = pidfd_open(pid, 0);
    drop(&p->out[1]);
    drop(&p->errors[1]);
    bool ended = process >= 0 && listen_until(p, process, p->s->deadline_ns, out, errors);
    if (!ended) {
        kill(pid, SIGTERM);
        uint64_t then = clock_mono_ns() + KILL_AFTER_MS * NS_PER_MS;
        if (process < 0 || !listen_until(p, process, then, out, errors))
            kill(pid, SIGKILL);
    }
    *ret_code = reap(pid);
    if (ended)
        return 0;
    return err_sys(err, ETIMEDOUT, "%s %s: it did not end in time", p->s->argv[0],
                   p->s->argv[1] ? p->s->argv[1] : "");
}

int spawn_run(const struct spawn *s, int *ret_code, struct bytes *out, struct bytes *errors,
              struct err *err)
{
    struct plan p = {.s = s, .out = {-1, -1}, .errors = {-1, -1}, .null = -1};
    memset(p.spaces, -1, sizeof p.spaces);
    int result = prepare(&p, err);
    if (!result) {
        p.parent = getpid();
        pid_t pid = fork();
        if (pid == 0)
            become(&p);
        result = pid < 0 ? err_sys(err, errno, "start %s", s->program)
                         : wait_for(&p, pid, ret_code, out, errors, err);
    }
    plan_release(&p);
    return result;
}
