/* Before there is a link: finding the keeper's program, making the state, starting the keeper. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cleanup.h"
#include "keeper.h"
#include "mem.h"

#define NAME "sampan-keeper"

int keeper_beside(const char *program, char **ret_path, struct err *err)
{
    static const char *const places[] = {"", "/../libexec/sampan"};
    const char *slash = strrchr(program, '/');
    for (size_t i = 0; slash && i < sizeof places / sizeof places[0]; i++) {
        cleanup_free char *path =
            xasprintf("%.*s%s/" NAME, (int)(slash - program), program, places[i]);
        if (access(path, X_OK) == 0) {
            *ret_path = take_ptr(&path);
            return 0;
        }
    }
    return err_set(err, ERR_NOT_FOUND,
                   "find the keeper: " NAME " is neither beside %s nor in ../libexec/sampan",
                   program);
}

int keeper_find(char **ret_path, struct err *err)
{
    const char *given = getenv("SAMPAN_KEEPER");
    char self[PATH_MAX];
    if (given && *given) {
        if (access(given, X_OK))
            return err_sys(err, errno, "find the keeper: $SAMPAN_KEEPER: %s", given);
        *ret_path = xstrdup(given);
        return 0;
    }
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    if (n <= 0)
        return err_sys(err, n ? errno : ENOENT, "find the keeper: /proc/self/exe");
    self[n] = '\0';
    return keeper_beside(self, ret_path, err);
}

/* --- the state -------------------------------------------------------------------------------- */

int keeper_state_make(uint32_t n_desks, uint64_t desk_bytes, int *ret_fd, struct err *err)
{
    uint64_t bytes = keeper_state_bytes(n_desks, desk_bytes);
    cleanup_close int fd = memfd_create("sampan-state", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0 || ftruncate(fd, (off_t)bytes) ||
        fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL))
        return err_sys(err, errno, "make the keeper's state");
    struct keeper_state *s = mmap(NULL, sizeof *s, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (s == MAP_FAILED)
        return err_sys(err, errno, "map the keeper's state");
    keeper_state_init(s, n_desks, desk_bytes);
    munmap(s, sizeof *s);
    if (keeper_state_claim(fd, err))
        return -1;
    *ret_fd = take_fd(&fd);
    return 0;
}

int keeper_state_reopen(int fd, int *ret_fd, struct err *err)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    *ret_fd = open(path, O_RDWR | O_CLOEXEC);
    return *ret_fd < 0 ? err_sys(err, errno, "open the keeper's state once more") : 0;
}

int keeper_state_claim(int fd, struct err *err)
{
    struct flock all = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    if (fcntl(fd, F_OFD_SETLK, &all) == 0)
        return 0;
    if (errno == EAGAIN || errno == EACCES)
        return err_set(err, ERR_LIMIT, "the mount has a keeper or a daemon");
    return err_sys(err, errno, "lock the keeper's state");
}

void keeper_state_claim_older(int *state)
{
    cleanup_close int own = -1;
    if (keeper_state_reopen(*state, &own, NULL) || keeper_state_claim(own, NULL))
        return; /* who started us has it */
    close(*state);
    *state = take_fd(&own);
}

int keeper_state_map(int fd, struct keeper_state **ret, struct err *err)
{
    struct stat st;
    int seals = fcntl(fd, F_GET_SEALS);
    if (seals < 0 || !(seals & F_SEAL_SHRINK) || fstat(fd, &st))
        return err_set(err, ERR_CORRUPT, "take over the mount: the state is not a sealed memfd");
    uint64_t bytes = (uint64_t)st.st_size;
    if (bytes < sizeof(struct keeper_state))
        return err_set(err, ERR_CORRUPT, "take over the mount: %llu bytes are no state",
                       (unsigned long long)bytes);
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
    if (p == MAP_FAILED)
        return err_sys(err, errno, "take over the mount: map the state");
    const char *why = keeper_state_check(p, bytes);
    if (why) {
        munmap(p, bytes);
        return err_set(err, ERR_CORRUPT, "take over the mount: %s", why);
    }
    *ret = p;
    return 0;
}

int keeper_state_own(uint32_t n_desks, uint64_t desk_bytes, struct keeper_state **ret,
                     struct err *err)
{
    void *p = mmap(NULL, keeper_state_bytes(n_desks, desk_bytes), PROT_READ | PROT_WRITE,
                   MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED)
        return err_sys(err, errno, "map memory for requests");
    keeper_state_init(p, n_desks, desk_bytes);
    *ret = p;
    return 0;
}

void keeper_state_unmap(struct keeper_state *s)
{
    if (s)
        munmap(s, s->bytes);
}

void keeper_desks_touch(struct keeper_state *s, uint32_t first, uint32_t n)
{
    volatile char *at = (char *)keeper_desk(s, first);
    size_t bytes = n * s->desk_bytes;
    mlock((const void *)at, bytes); /* refused: they are used all the time anyway */
    for (size_t i = 0; i < bytes; i += KEEPER_PAGE)
        at[i] = at[i];
}

/* --- starting it ------------------------------------------------------------------------------ */

struct words {
    char args[192];
    char **argv;
};

/* The keeper's words: its name, what it holds, then those of its lives. */
static void make_words(struct words *w, char *const argv[])
{
    size_t n = 0;
    while (argv[n])
        n++;
    w->argv = xcalloc(n + 3, sizeof *w->argv);
    w->argv[0] = xstrdup(NAME);
    w->argv[1] = w->args;
    memcpy(w->argv + 2, argv, n * sizeof *argv);
}

static void words_release(struct words *w)
{
    free(w->argv[0]);
    free(w->argv);
}

static void pass_on(const int *fds, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (fds[i] >= 0)
            fcntl(fds[i], F_SETFD, 0);
}

static int become(const char *program, char *const argv[], const struct keeper_fds *fds,
                  struct err *err)
{
    struct words w;
    cleanup_close int self = open("/proc/self/exe", O_PATH | O_CLOEXEC);
    if (self < 0)
        return err_sys(err, errno, "start the keeper: this program");
    const int given[] = {self, fds->state, fds->dev, fds->listen, fds->report};
    snprintf(w.args, sizeof w.args, KEEPER_ARGS_FORMAT, self, fds->state, fds->dev, fds->listen,
             fds->report, -1, -1, -1);
    make_words(&w, argv);
    pass_on(given, sizeof given / sizeof given[0]);
    execv(program, w.argv);
    int e = errno;
    for (size_t i = 0; i < sizeof given / sizeof given[0]; i++)
        if (given[i] >= 0)
            fcntl(given[i], F_SETFD, FD_CLOEXEC);
    words_release(&w);
    return err_sys(err, e, "start the keeper: %s", program);
}

/* Two forks, so that it is nobody's child here: this process may end before it. Between fork and
 * exec only what is safe there: other threads may have held any lock. */
static int spawn(const char *program, char *const argv[], const int *given, size_t n,
                 int *ret_pidfd, struct err *err)
{
    int told[2];
    if (pipe2(told, O_CLOEXEC))
        return err_sys(err, errno, "start the keeper");
    pid_t pid = fork();
    if (pid == 0) {
        sigset_t none;
        setsid();
        if (fork() != 0)
            _exit(0);
        sigemptyset(&none);
        sigprocmask(SIG_SETMASK, &none, NULL);
        pass_on(given, n);
        int e = getpid();
        if (write(told[1], &e, sizeof e) == sizeof e)
            execv(program, argv);
        e = errno;
        if (write(told[1], &e, sizeof e) < 0)
            _exit(126);
        _exit(127);
    }
    int forked = errno, e = 0, who = 0;
    close(told[1]);
    while (pid > 0 && waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        ;
    bool failed = pid < 0 || read(told[0], &who, sizeof who) != sizeof who;
    if (ret_pidfd && !failed)
        *ret_pidfd = pidfd_open(who, 0);
    failed = failed || read(told[0], &e, sizeof e) == sizeof e;
    close(told[0]);
    return failed ? err_sys(err, pid < 0 ? forked : e, "start the keeper: %s", program) : 0;
}

int keeper_follow(const char *program, char *const argv[], const struct keeper_fds *fds, int turn,
                  int *ret_channel, int *ret_pidfd, struct err *err)
{
    struct words w;
    int ends[2];
    cleanup_close int self = open("/proc/self/exe", O_PATH | O_CLOEXEC);
    cleanup_close int life = pidfd_open(getpid(), 0);
    if (self < 0 || life < 0 || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends))
        return err_sys(err, errno, "start the keeper");
    cleanup_close int theirs = ends[1];
    const int given[] = {self, fds->state, fds->dev, fds->listen, theirs, life, turn};
    snprintf(w.args, sizeof w.args, KEEPER_ARGS_FORMAT, self, fds->state, fds->dev, fds->listen, -1,
             theirs, life, turn);
    make_words(&w, argv);
    int rc = spawn(program, w.argv, given, sizeof given / sizeof given[0], ret_pidfd, err);
    words_release(&w);
    if (rc)
        close(ends[0]);
    else
        *ret_channel = ends[0];
    return rc;
}

int keeper_start(const char *program, char *const argv[], const struct keeper_fds *fds, bool adopt,
                 int *ret_channel, struct err *err)
{
    return adopt ? keeper_follow(program, argv, fds, /* turn= */ -1, ret_channel, NULL, err)
                 : become(program, argv, fds, err);
}
