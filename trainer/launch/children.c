/* The two processes of a pod: a parameter server, then the trainer; logs that others may follow
 * while they grow. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "clock.h"
#include "launch.h"
#include "mem.h"
#include "program.h"

#define LOG_MODULE "launch"
#define SERVER_NS  (60 * NS_PER_S) /* for the other trainers to end, too */
#define PAUSE_NS   (20 * NS_PER_MS)

static int open_log(const struct launch_conf *c, int64_t id, const char *name, struct err *err)
{
    cleanup_free char *output = xasprintf("%s/%s/output", c->path, c->job);
    cleanup_free char *dir = xasprintf("%s/node_%lld", output, (long long)id);
    cleanup_free char *path = xasprintf("%s/%s", dir, name);
    if ((mkdir(output, 0755) && errno != EEXIST) || (mkdir(dir, 0755) && errno != EEXIST))
        return err_sys(err, errno, "launch: make %s", dir);
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    return fd < 0 ? err_sys(err, errno, "launch: %s", path) : fd;
}

static void print_words(struct log *log, char *const *words)
{
    cleanup_bytes struct bytes text = {0};
    for (char *const *w = words; *w; w++)
        bytes_addf(&text, "%s%s", w == words ? "" : " ", *w);
    log_info(log, "starting %s", text.data);
}

/* Between fork and exec only what is allowed there. It ends with this process. */
static pid_t start(char *const *words, const char *work, int out, struct err *err)
{
    pid_t parent = getpid(), pid = fork();
    if (pid < 0)
        return err_sys(err, errno, "launch: fork");
    if (pid > 0)
        return pid;
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent || chdir(work) || dup2(out, STDOUT_FILENO) < 0 ||
        dup2(out, STDERR_FILENO) < 0)
        _exit(127);
    execv(words[0], words);
    _exit(127);
}

/* -1: it has not ended within the time. */
static int wait_for(pid_t pid, uint64_t ns)
{
    uint64_t end = clock_mono_ns() + ns;
    int status;
    while (waitpid(pid, &status, WNOHANG) == 0) {
        struct timespec t = {.tv_nsec = PAUSE_NS};
        if (clock_mono_ns() >= end)
            return -1;
        nanosleep(&t, NULL);
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* The server ends by itself when all trainers have. */
static int end_server(pid_t pid, uint64_t wait_ns)
{
    int code = wait_for(pid, wait_ns);
    if (code >= 0)
        return code;
    kill(pid, SIGTERM);
    code = wait_for(pid, 5 * NS_PER_S);
    if (code >= 0)
        return code;
    kill(pid, SIGKILL);
    return wait_for(pid, SERVER_NS);
}

static void write_both(int file, const char *data, size_t len)
{
    int to[] = {file, STDOUT_FILENO};
    for (int i = 0; i < 2; i++)
        for (size_t done = 0; done < len;) {
            ssize_t n = write(to[i], data + done, len - done);
            if (n < 0 && errno != EINTR)
                break; /* a log that cannot be written does not end the training */
            done += n > 0 ? (size_t)n : 0;
        }
}

/* What the trainer says goes to its file and to the pod's own log; a signal goes to the trainer. */
static void follow(pid_t pid, int from, int file, const atomic_int *stop)
{
    char buf[8192];
    bool passed_on = false;
    for (;;) {
        struct pollfd p = {.fd = from, .events = POLLIN};
        if (*stop && !passed_on) {
            kill(pid, (int)*stop);
            passed_on = true;
        }
        if (poll(&p, 1, 200) <= 0)
            continue;
        ssize_t n = read(from, buf, sizeof buf);
        if (n == 0 || (n < 0 && errno != EINTR))
            return;
        if (n > 0)
            write_both(file, buf, (size_t)n);
    }
}

static int run_trainer(char *const *words, const struct launch_conf *c, int file,
                       const atomic_int *stop, struct err *err)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC))
        return err_sys(err, errno, "launch: pipe");
    cleanup_close int from = ends[0];
    pid_t pid = start(words, c->work, ends[1], err);
    close(ends[1]);
    if (pid < 0)
        return -1;
    follow(pid, from, file, stop);
    return wait_for(pid, UINT64_MAX / 2);
}

int launch_children(const struct launch_conf *c, const struct launch_nodes *n, int64_t id,
                    bool own_data, const atomic_int *stop, struct log *log, struct err *err)
{
    char trainers[24];
    cleanup_close int server_log = open_log(c, id, "server.log", err);
    cleanup_close int train_log = server_log < 0 ? -1 : open_log(c, id, "train.log", err);
    if (train_log < 0)
        return -1;
    snprintf(trainers, sizeof trainers, "%lld", (long long)c->nodes);
    /* What the article's command line does not say. */
    if (setenv("PADDLE_TRAINERS_NUM", trainers, 1) ||
        (own_data && setenv("SAMPAN_OWN_DATA", "true", 1)))
        return err_sys(err, errno, "launch: environment");
    program_hear_children();
    char **server = launch_server_words(c, n->ip[id]), **trainer = launch_trainer_words(c, n, id);
    print_words(log, server);
    int code = -1;
    pid_t pid = start(server, c->work, server_log, err);
    if (pid > 0) {
        print_words(log, trainer);
        code = run_trainer(trainer, c, train_log, stop, err);
        int server_code = end_server(pid, code == 0 ? SERVER_NS : 10 * NS_PER_S);
        log_info(log, "trainer %lld ended with %d, its parameter server with %d", (long long)id,
                 code, server_code);
    }
    launch_words_free(server);
    launch_words_free(trainer);
    return code;
}
