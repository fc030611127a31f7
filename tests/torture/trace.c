/*
 * The loop that runs the program: each task (thread or process) of it stops where the filter says
 * so, and is looked at there before it goes on. The program sees nothing of it but time.
 *
 * x86-64 alone: skipping a call is done by its registers.
 */
#include "meddle.h"

#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <limits.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#define TASKS_MAX 512

struct task {
    pid_t tid; /* 0: free */
    bool in_call;
    struct call call; /* that it is in, to be recorded at its end */
    struct recorded recorded;
};

struct trace {
    struct meddling *m;
    pid_t first;
    struct task tasks[TASKS_MAX];
    struct outcome *outcome;
};

static volatile sig_atomic_t time_is_up;

static void on_alarm(int sig)
{
    (void)sig;
    time_is_up = 1;
}

/* --- the filter ----------------------------------------------------------------------------------
 */

static bool wanted(const struct meddling *m, const struct call_kind *k)
{
    if (m->action == ACT_RECORD)
        return k->class == CALL_OPEN || k->class == CALL_WRITE || k->class == CALL_SYNC ||
               k->class == CALL_MMAP || k->class == CALL_RENAME || k->class == CALL_UNLINK ||
               k->class == CALL_MAKE || k->class == CALL_SIZE || k->class == CALL_MARK ||
               k->class == CALL_UNMAP;
    if (k->class == CALL_MMAP && m->classes[CALL_MEMORY])
        return true;
    /* Opening arms the counting. */
    return m->classes[k->class] || (m->n_below && k->class == CALL_OPEN);
}

static int install_filter(const struct meddling *m)
{
    struct sock_filter code[128] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AUDIT_ARCH_X86_64, 1, 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
    };
    unsigned short n = 4;
    for (size_t i = 0; i < n_call_kinds && n < 125; i++) {
        if (!wanted(m, &call_kinds[i]))
            continue;
        code[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K,
                                                 (unsigned)call_kinds[i].nr, 0, 1);
        code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRACE);
    }
    code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    struct sock_fprog program = {n, code};
    /* Root may do without giving up setuid programs (fusermount3). */
    if (geteuid() != 0 && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
        return -1;
    return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

static pid_t start(const struct meddling *m, char **argv)
{
    pid_t pid = fork();
    if (pid != 0)
        return pid;
    if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) || raise(SIGSTOP) || install_filter(m)) {
        fprintf(stderr, "meddle: trace: %s\n", strerror(errno));
        _exit(125);
    }
    execvp(argv[0], argv);
    fprintf(stderr, "meddle: %s: %s\n", argv[0], strerror(errno));
    _exit(125);
}

/* --- tasks ---------------------------------------------------------------------------------------
 */

static struct task *task_of(struct trace *t, pid_t tid, bool make)
{
    struct task *free_one = NULL;
    for (size_t i = 0; i < TASKS_MAX; i++) {
        if (t->tasks[i].tid == tid)
            return &t->tasks[i];
        if (!t->tasks[i].tid && !free_one)
            free_one = &t->tasks[i];
    }
    if (!make || !free_one)
        return NULL;
    free_one->tid = tid;
    free_one->in_call = false;
    return free_one;
}

static void kill_all(struct trace *t)
{
    for (size_t i = 0; i < TASKS_MAX; i++)
        if (t->tasks[i].tid)
            kill(t->tasks[i].tid, SIGKILL);
}

/* --- a call --------------------------------------------------------------------------------------
 */

static void link_target(const char *link, char to[PATHS_BYTES])
{
    ssize_t n = readlink(link, to, PATHS_BYTES - 1);
    to[n > 0 ? n : 0] = '\0';
}

static void path_of_fd(pid_t tid, int fd, char to[PATHS_BYTES])
{
    char link[64];
    snprintf(link, sizeof link, "/proc/%d/fd/%d", (int)tid, fd);
    link_target(link, to);
}

/* The absolute path that `at` and `text` name; the last part need not be there. */
static void path_of_text(pid_t tid, int dirfd, uint64_t text, char to[PATHS_BYTES])
{
    char name[PATH_MAX], folder[PATHS_BYTES], link[64];
    to[0] = '\0';
    if (!text || !tracee_text(tid, text, name, sizeof name))
        return;
    if (name[0] == '/') {
        snprintf(to, PATHS_BYTES, "%s", name);
        return;
    }
    if (dirfd == AT_FDCWD) {
        snprintf(link, sizeof link, "/proc/%d/cwd", (int)tid);
        link_target(link, folder);
    } else {
        path_of_fd(tid, dirfd, folder);
    }
    if (strcmp(name, ".") == 0 || !name[0])
        memcpy(to, folder, PATHS_BYTES);
    else if (strlen(folder) + strlen(name) + 2 <= PATHS_BYTES)
        snprintf(to, PATHS_BYTES, "%.*s/%s", (int)strlen(folder), folder, name);
}

static bool call_read(pid_t tid, struct call *ret)
{
    struct __ptrace_syscall_info info;
    if (ptrace(PTRACE_GET_SYSCALL_INFO, tid, (void *)sizeof info, &info) <= 0 ||
        info.op != PTRACE_SYSCALL_INFO_SECCOMP)
        return false;
    ret->kind = call_find((int)info.seccomp.nr);
    ret->tid = tid;
    memcpy(ret->args, info.seccomp.args, sizeof ret->args);
    ret->path[0] = ret->path2[0] = '\0';
    const struct call_kind *k = ret->kind;
    if (!k)
        return false;
    if (k->fd >= 0 && (int)ret->args[k->fd] >= 0)
        path_of_fd(tid, (int)ret->args[k->fd], ret->path);
    if (k->path >= 0)
        path_of_text(tid, k->dirfd >= 0 ? (int)ret->args[k->dirfd] : AT_FDCWD, ret->args[k->path],
                     ret->path);
    if (k->path2 >= 0)
        path_of_text(tid, k->dirfd2 >= 0 ? (int)ret->args[k->dirfd2] : AT_FDCWD,
                     ret->args[k->path2], ret->path2);
    return true;
}

static bool is_meant(const struct meddling *m, const char *path)
{
    const char *last = strrchr(path, '/');
    if (m->name && (!last || fnmatch(m->name, last + 1, 0)))
        return false;
    for (size_t i = 0; i < m->n_below; i++)
        if (path_below(path, m->below[i]))
            return true;
    return false;
}

static bool is_below(const struct meddling *m, const struct call *c)
{
    return is_meant(m, c->path) || is_meant(m, c->path2);
}

/* Is it one of those that are counted? */
static bool counts(struct meddling *m, const struct call *c)
{
    enum call_class class = c->kind->class;
    bool below = is_below(m, c);
    if (below || !m->n_below)
        m->armed = true;
    if (class == CALL_MMAP && c->path[0] == '\0')
        class = CALL_MEMORY;
    if (!m->classes[class] || !m->armed)
        return false;
    return below || !m->n_below || class == CALL_MEMORY || class == CALL_THREAD;
}

static bool is_due(struct meddling *m)
{
    if (m->while_file && !m->nth)
        return true;
    return m->nth && (m->sticky ? m->seen >= m->nth : m->seen == m->nth);
}

static bool set_call(pid_t tid, bool skip, int error, bool halve)
{
    struct user_regs_struct r;
    if (ptrace(PTRACE_GETREGS, tid, NULL, &r))
        return false;
    if (skip) {
        r.orig_rax = (unsigned long long)-1;
        r.rax = (unsigned long long)-(long long)error;
    }
    if (halve && r.rdx > 1)
        r.rdx /= 2;
    return ptrace(PTRACE_SETREGS, tid, NULL, &r) == 0;
}

static void note_hit(struct meddling *m, const struct call *c)
{
    if (!m->hits++)
        snprintf(m->hit, sizeof m->hit, "%s %s%s%s", c->kind->name, c->path,
                 c->path2[0] ? " to " : "", c->path2);
}

/* What is to be done with the task after this: PTRACE_CONT or PTRACE_SYSCALL. */
static int on_call(struct trace *t, pid_t tid)
{
    struct meddling *m = t->m;
    struct task *task = task_of(t, tid, true);
    if (!task || !call_read(tid, &task->call))
        return PTRACE_CONT;
    if (m->action == ACT_RECORD) {
        record_entry(&task->call, &task->recorded);
        task->in_call = true;
        return PTRACE_SYSCALL;
    }
    if (!counts(m, &task->call) || (m->while_file && access(m->while_file, F_OK)))
        return PTRACE_CONT;
    m->seen++;
    if (!is_due(m))
        return PTRACE_CONT;
    note_hit(m, &task->call);
    if (m->action == ACT_KILL)
        kill_all(t);
    else if (m->action == ACT_SIGNAL)
        kill(tid, m->signal); /* its process: any of its threads may take it */
    else if (m->action == ACT_FAIL)
        set_call(tid, true, m->error, false);
    else if (m->action == ACT_SHORT)
        set_call(tid, false, 0, true);
    return PTRACE_CONT;
}

static void on_return(struct trace *t, pid_t tid)
{
    struct task *task = task_of(t, tid, false);
    struct __ptrace_syscall_info info;
    if (!task || !task->in_call)
        return;
    task->in_call = false;
    if (ptrace(PTRACE_GET_SYSCALL_INFO, tid, (void *)sizeof info, &info) > 0 &&
        info.op == PTRACE_SYSCALL_INFO_EXIT)
        record_exit(&task->call, &task->recorded, info.exit.rval);
}

/* --- the loop ------------------------------------------------------------------------------------
 */

static void on_stop(struct trace *t, pid_t tid, int status)
{
    int signal = WSTOPSIG(status), event = status >> 16, go_on = PTRACE_CONT;
    bool known = task_of(t, tid, false) != NULL;
    task_of(t, tid, true);
    if (event == PTRACE_EVENT_SECCOMP) {
        go_on = on_call(t, tid);
        signal = 0;
    } else if (signal == (SIGTRAP | 0x80)) {
        on_return(t, tid);
        signal = 0;
    } else if (event || signal == SIGTRAP || (signal == SIGSTOP && !known)) {
        signal = 0; /* a clone, an exec, a new task's first stop */
    }
    ptrace(go_on, tid, NULL, (void *)(intptr_t)signal);
}

static void on_end(struct trace *t, pid_t tid, int status)
{
    struct task *task = task_of(t, tid, false);
    if (task)
        task->tid = 0;
    if (tid != t->first || t->outcome->how == END_HANG)
        return;
    t->outcome->how = WIFEXITED(status) ? END_EXIT : END_SIGNAL;
    t->outcome->code = WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status);
}

static int loop(struct trace *t)
{
    for (;;) {
        int status;
        pid_t tid = waitpid(-1, &status, __WALL);
        if (time_is_up) {
            t->outcome->how = END_HANG;
            kill_all(t);
            time_is_up = 0;
        }
        if (tid < 0 && errno == ECHILD) {
            return 0;
        } else if (tid < 0 && errno != EINTR) {
            return -1;
        } else if (tid > 0 && WIFSTOPPED(status)) {
            on_stop(t, tid, status);
        } else if (tid > 0) {
            on_end(t, tid, status);
        }
    }
}

static void set_timer(double seconds)
{
    struct itimerval timer = {
        .it_value = {(time_t)seconds, (suseconds_t)(seconds * 1e6) % 1000000}};
    struct sigaction act = {.sa_handler = on_alarm}; /* no SA_RESTART: waitpid() must return */
    sigaction(SIGALRM, &act, NULL);
    setitimer(ITIMER_REAL, &timer, NULL);
}

int trace_run(struct meddling *m, char **argv, struct outcome *ret)
{
    struct trace *t = calloc(1, sizeof *t);
    int status, rc = -1;
    if (!t)
        return -1;
    t->m = m;
    t->outcome = ret;
    t->first = start(m, argv);
    if (t->first > 0 && waitpid(t->first, &status, 0) == t->first && WIFSTOPPED(status) &&
        ptrace(PTRACE_SETOPTIONS, t->first, NULL,
               (void *)(intptr_t)(PTRACE_O_TRACESECCOMP | PTRACE_O_TRACECLONE | PTRACE_O_TRACEFORK |
                                  PTRACE_O_TRACEVFORK | PTRACE_O_TRACEEXEC | PTRACE_O_EXITKILL |
                                  PTRACE_O_TRACESYSGOOD)) == 0) {
        task_of(t, t->first, true);
        set_timer(m->timeout_s);
        ptrace(PTRACE_CONT, t->first, NULL, NULL);
        rc = loop(t);
    }
    free(t);
    return rc;
}
