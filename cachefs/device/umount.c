/*
 * Ending a mount from any process, alive or dead behind it: the descriptor of the mount tells all
 * we need, so nothing here touches the mounted tree (a dead server would make that fail or hang).
 */
#define LOG_MODULE "fuse"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/pidfd.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cleanup.h"
#include "device-internal.h"
#include "dir.h"
#include "log.h"
#include "mem.h"
#include "sampan-ioctl.h"

#define MAX_USERS_NAMED 8
#define BUSY_TRIES      10
#define DEAD_ANSWER_MS  2000 /* a dead mount answers at once */

static bool is_below(const char *path, const char *top)
{
    size_t n = strlen(top);

    return !strncmp(path, top, n) && (path[n] == '\0' || path[n] == '/');
}

/* Does /proc/PID/NAME point into the mount? */
static bool link_is_below(int proc, const char *name, const char *top, char *ret, size_t size)
{
    ssize_t n = readlinkat(proc, name, ret, size - 1);

    if (n < 0)
        return false;
    ret[n] = '\0';
    return is_below(ret, top);
}

static bool fd_is_below(int proc, const char *top, char *ret, size_t size)
{
    cleanup_dir DIR *d = dir_open(proc, "fd", 0);
    const struct dirent *e;

    while (d && (e = dir_next(d)))
        if (link_is_below(dirfd(d), e->d_name, top, ret, size))
            return true;
    return false;
}

static bool map_is_below(int proc, const char *top, char *ret, size_t size)
{
    int fd = openat(proc, "maps", O_RDONLY | O_CLOEXEC);
    cleanup_file FILE *f = fd < 0 ? NULL : fdopen(fd, "r");
    cleanup_free char *line = NULL;
    size_t room = 0;
    ssize_t n;

    if (!f) {
        if (fd >= 0)
            close(fd);
        return false;
    }
    while ((n = getline(&line, &room, f)) > 0) {
        const char *path = strchr(line, '/');

        line[n - 1] = '\0';
        if (path && is_below(path, top)) {
            snprintf(ret, size, "%s", path);
            return true;
        }
    }
    return false;
}

/* A small file of /proc, without the end of its line; false: it cannot be read. */
static bool read_line(int dir, const char *name, char *ret, size_t size)
{
    cleanup_close int fd = openat(dir, name, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, ret, size - 1);

    if (n <= 0)
        return false;
    ret[ret[n - 1] == '\n' ? n - 1 : n] = '\0';
    return true;
}

static int open_process(const char *pid)
{
    char dir[64];

    snprintf(dir, sizeof(dir), "/proc/%.20s", pid);
    return open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

/* How process `pid` uses the mount: a phrase in `ret`, or false. */
static bool use_of(const char *pid, const char *top, char *ret, size_t size)
{
    char path[4096];
    char comm[64] = "?";
    const char *how;

    cleanup_close int proc = open_process(pid);
    if (proc < 0)
        return false;
    if (link_is_below(proc, "cwd", top, path, sizeof(path)))
        how = "works in";
    else if (link_is_below(proc, "root", top, path, sizeof(path)))
        how = "has its root in";
    else if (fd_is_below(proc, top, path, sizeof(path)))
        how = "has open";
    else if (map_is_below(proc, top, path, sizeof(path)))
        how = "maps";
    else
        return false;
    read_line(proc, "comm", comm, sizeof(comm));
    snprintf(ret, size, "%.40s (pid %.20s) %s %.200s", comm, pid, how, path);
    return true;
}

/* Who waits in a call for the answer of a FUSE server has nothing open yet that would say of which:
 * the kernel tells where in it a thread sleeps. */
static bool wait_of(const char *pid, const char *top, char *ret, size_t size)
{
    char where[64];
    char comm[64] = "?";
    const struct dirent *e;

    (void)top;
    cleanup_close int proc = open_process(pid);
    cleanup_dir DIR *d = proc < 0 ? NULL : dir_open(proc, "task", 0);
    while (d && (e = dir_next(d))) {
        char name[300];
        snprintf(name, sizeof(name), "%s/wchan", e->d_name);
        if (!read_line(dirfd(d), name, where, sizeof(where)) ||
            strcmp(where, "request_wait_answer") != 0)
            continue;
        read_line(proc, "comm", comm, sizeof(comm));
        snprintf(ret, size, "%.40s (pid %.20s)", comm, pid);
        return true;
    }
    return false;
}

typedef bool look_fn(const char *pid, const char *top, char *ret, size_t size);

static unsigned list_processes(look_fn *look, const char *top, struct bytes *ret)
{
    cleanup_dir DIR *d = opendir("/proc");
    const struct dirent *e;
    unsigned n = 0;
    char use[400];

    while (d && (e = readdir(d))) {
        if (!isdigit((unsigned char)e->d_name[0]) || !look(e->d_name, top, use, sizeof(use)))
            continue;
        if (n < MAX_USERS_NAMED)
            bytes_addf(ret, "%s%s", n ? ", " : "", use);
        n++;
    }
    if (n > MAX_USERS_NAMED)
        bytes_addf(ret, " and %u more", n - MAX_USERS_NAMED);
    return n;
}

static int busy_error(const char *mountpoint, struct err *err)
{
    cleanup_bytes struct bytes users = {0}, waiting = {0};

    if (!list_processes(use_of, mountpoint, &users) &&
        list_processes(wait_of, mountpoint, &waiting))
        bytes_addf(&users,
                   "no process that this user may look at has anything of it open, but these wait "
                   "for the answer of a FUSE mount, perhaps of this one: %s",
                   waiting.data);
    else if (!users.len)
        bytes_add_str(&users, "no process that this user may look at (another user, a mount inside "
                              "it, or another mount namespace)");
    return err_set(err, ERR_LIMIT, "umount %s: busy: %s (end them, or use --lazy)", mountpoint,
                   users.data);
}

/* One attempt: 0, an errno, or -1 with what the helper says. It says so in English everywhere. */
static int umount_once(const char *mountpoint, bool lazy, struct err *err)
{
    struct err said = {0};

    if (umount2(mountpoint, UMOUNT_NOFOLLOW | (lazy ? MNT_DETACH : 0)) == 0)
        return 0;
    if (errno != EPERM)
        return errno;
    const char *const argv[] = {"fusermount3", "-u", lazy ? "-z" : "--", mountpoint, NULL};
    if (mount_run_helper(argv, mountpoint, &said) == 0)
        return 0;
    if (strstr(said.msg, "resource busy"))
        return EBUSY;
    bool no_table = strstr(said.msg, "/etc/mtab: No such file") != NULL;
    return err_set(err, said.class, "umount %s%s", said.msg,
                   no_table ? " (as root: ln -s /proc/self/mounts /etc/mtab)" : "");
}

/* Asks a server that is alive to open nothing for a while. A dead one makes this fail at once. */
static void hush(const char *mountpoint)
{
    cleanup_close int fd = open(mountpoint, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (fd >= 0)
        ioctl(fd, SAMPAN_IOC_HUSH);
}

/*
 * Names and attributes may be remembered for a day after the server's end; statfs() never is. But a
 * server that is merely slow, or stopped, lets it wait: so a process of its own asks.
 */
enum answer { ANSWER_NONE, ANSWER_DEAD, ANSWER_OTHER };

/* The second where the last that held the device went while the question waited there: a process
 * that helped the server ends a moment after it. */
static bool is_of_the_dead(int error)
{
    return error == ENOTCONN || error == ECONNABORTED;
}

static enum answer ask(const char *path)
{
    struct statfs fs;
    int status = 0;
    pid_t pid = fork();

    if (pid == 0)
        _exit(statfs(path, &fs) < 0 && is_of_the_dead(errno) ? ANSWER_DEAD : ANSWER_OTHER);
    if (pid < 0)
        return ANSWER_OTHER;
    cleanup_close int handle = pidfd_open(pid, 0);
    struct pollfd p = {.fd = handle, .events = POLLIN};
    if (handle < 0 || poll(&p, 1, DEAD_ANSWER_MS) != 1)
        kill(pid, SIGKILL);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    return WIFEXITED(status) ? (enum answer)WEXITSTATUS(status) : ANSWER_NONE;
}

static bool is_ours(const char *path)
{
    cleanup_free struct mount_row *row = xmalloc(sizeof(*row));

    return mount_find(path, row, NULL) == 0 && strcmp(row->type, "fuse.sampan") == 0;
}

bool mount_is_dead(const char *path)
{
    return is_ours(path) && ask(path) == ANSWER_DEAD;
}

/* Whoever mounted it may do so by a file, where the kernel's folder of them is mounted. Its name is
 * a number that the next mount gets as soon as this one is gone: but this one is still there when
 * the file is open, and a file of a connection that ended does nothing. */
static void abort_own(const char *path)
{
    cleanup_free struct mount_row *row = xmalloc(sizeof(*row));
    char name[64];

    if (mount_find(path, row, NULL) < 0)
        return;
    unsigned major = row->major, minor = row->minor;
    snprintf(name, sizeof(name), "/sys/fs/fuse/connections/%u/abort", minor);
    cleanup_close int fd = major ? -1 : open(name, O_WRONLY | O_CLOEXEC);
    if (fd < 0 || mount_find(path, row, NULL) < 0 || row->major != major || row->minor != minor)
        return;
    if (write(fd, "1", 1) < 0)
        return; /* it stays as it is */
}

/* A forced umount aborts the connection, and fails where somebody uses the mount: that is as well.
 */
void mount_make_dead(const char *path)
{
    if (is_ours(path) && ask(path) == ANSWER_NONE &&
        umount2(path, UMOUNT_NOFOLLOW | MNT_FORCE) < 0 && errno == EPERM)
        abort_own(path);
}

int mount_end(const char *mountpoint, bool lazy, struct err *err)
{
    cleanup_free struct mount_row *row = xmalloc(sizeof(*row));
    const struct timespec pause = {.tv_nsec = 20 * 1000 * 1000};
    char path[4096];
    int e = 0;

    if (mount_real_path(mountpoint, path, err) < 0 || mount_find(path, row, err) < 0)
        return err_wrap(err, "umount");
    if (strcmp(row->type, "fuse.sampan") != 0)
        return err_set(err, ERR_USAGE, "umount %s: that is a mount of type %s, not one of Sampan",
                       path, row->type);
    if (geteuid() && row->user != geteuid()) /* the helper says no more than that it failed */
        return err_set(err, ERR_DENIED,
                       "umount %s: user %u mounted it (that user and root alone may end it)", path,
                       row->user);
    /* The pusher opens a file for some microseconds at a time: try again before calling it busy. */
    for (int i = 0; i < BUSY_TRIES; i++) {
        e = umount_once(path, lazy, err);
        if (e != EBUSY)
            break;
        if (!i)
            hush(path);
        nanosleep(&pause, NULL);
    }
    if (e <= 0)
        return e;
    if (e == EBUSY)
        return busy_error(path, err);
    return err_sys(err, e, "umount %s", path);
}

/* --- a front end's own mount ------------------------------------------------------------------ */

dev_t mount_learn(const char *mountpoint, unsigned readahead_kib)
{
    cleanup_free struct mount_row *row = xmalloc(sizeof(*row));

    if (mount_find(mountpoint, row, NULL) < 0)
        return 0;
    mount_readahead(row, readahead_kib);
    return makedev(row->major, row->minor);
}

void mount_leave(bool *mounted, const char *mountpoint, dev_t dev, struct log *log)
{
    cleanup_free struct mount_row *row = xmalloc(sizeof(*row));
    struct err err = {0};
    bool was = *mounted;

    *mounted = false;
    if (!was || mount_find(mountpoint, row, NULL) < 0 ||
        (dev && makedev(row->major, row->minor) != dev))
        return;
    if (mount_end(mountpoint, /* lazy= */ true, &err) < 0)
        log_warn(log, "%s", err.msg);
}

void mount_hang_up(int dev)
{
    cleanup_close int null = open("/dev/null", O_RDWR | O_CLOEXEC);

    if (dev >= 0 && null >= 0)
        dup3(null, dev, O_CLOEXEC);
}
