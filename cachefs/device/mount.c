/*
 * Making the mount: checks of the mount point, mount(2) as root, the set-uid helper fusermount3 for
 * everybody else. umount.c is the way back.
 */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cleanup.h"
#include "device-internal.h"
#include "dir.h"
#include "mem.h"
#include "program.h"

#define MAX_LINKS 40

extern char **environ;

/* --- the mount point --- */

static int cannot_look_up(const char *path, struct err *err)
{
    if (errno != ENOENT)
        return err_sys(err, errno, "look up %s", path);
    return err_set(err, ERR_NOT_FOUND, "look up %s: it does not exist (is the path right?)", path);
}

/* Only the parent is resolved: the last part may be a mount whose server is gone. */
static int resolve_parent(const char *path, char ret[4096], struct err *err)
{
    cleanup_free char *copy = xstrdup(path);
    size_t len = strlen(copy);
    char parent[PATH_MAX];
    char *slash;

    if (!len)
        return err_set(err, ERR_USAGE, "look up a mount: its name is empty (an unset variable?)");
    while (len > 1 && copy[len - 1] == '/')
        copy[--len] = '\0';
    slash = strrchr(copy, '/');
    if (!strcmp(copy, "/") || name_is_dots(slash ? slash + 1 : copy)) {
        if (!realpath(copy, ret))
            return cannot_look_up(path, err);
        return 0;
    }
    if (slash)
        *slash = '\0';
    if (!realpath(!slash ? "." : *copy ? copy : "/", parent))
        return cannot_look_up(path, err);
    if (snprintf(ret, 4096, "%s/%s", strcmp(parent, "/") ? parent : "", slash ? slash + 1 : copy) >=
        4096)
        return err_sys(err, ENAMETOOLONG, "look up %s", path);
    return 0;
}

int mount_real_path(const char *path, char ret[4096], struct err *err)
{
    char link[PATH_MAX];

    if (resolve_parent(path, ret, err))
        return -1;
    /* Looking at the root of a mount for a link asks no server. */
    for (unsigned i = 0; i < MAX_LINKS; i++) {
        ssize_t n = readlink(ret, link, sizeof(link) - 1);
        if (n < 0)
            return 0;
        link[n] = '\0';
        const char *slash = strrchr(ret, '/');
        cleanup_free char *next =
            *link == '/' ? xstrdup(link) : xasprintf("%.*s/%s", (int)(slash - ret), ret, link);
        if (resolve_parent(next, ret, err))
            return -1;
    }
    return err_sys(err, ELOOP, "look up %s", path);
}

static int check_empty(const char *path, struct err *err)
{
    cleanup_dir DIR *d = opendir(path);

    if (!d)
        return err_sys(err, errno, "mount point %s", path);
    const struct dirent *e = dir_next(d);
    if (e)
        return err_set(err, ERR_DENIED,
                       "mount point %s is not empty: it has '%s' (choose an empty folder)", path,
                       e->d_name);
    return errno ? err_sys(err, errno, "mount point %s", path) : 0;
}

int mount_check_point(const char *path, struct err *err)
{
    struct mount_row *row = xmalloc(sizeof(*row));
    cleanup_free char *word = shell_word(path);
    bool mounted = mount_find(path, row, NULL) == 0;
    struct stat st;
    int e = stat(path, &st) < 0 ? errno : 0;
    int rc;

    if (mounted && e == ENOTCONN)
        rc = err_set(err, ERR_DENIED,
                     "mount point %s holds a dead mount of %s (sampan umount %s, then try again)",
                     path, row->source, word);
    else if (mounted)
        rc = err_set(err, ERR_DENIED,
                     "mount point %s has %s mounted on it already (sampan umount %s, or choose "
                     "another folder)",
                     path, row->source, word);
    else if (e == ENOENT)
        rc = err_set(err, ERR_NOT_FOUND, "mount point %s does not exist (mkdir -p %s)", path, word);
    else if (e)
        rc = err_sys(err, e, "mount point %s", path);
    else if (!S_ISDIR(st.st_mode))
        rc = err_set(err, ERR_DENIED, "mount point %s is not a folder", path);
    else
        rc = check_empty(path, err);
    free(row);
    return rc;
}

/* --- mounting --- */

/* The helper splits its options at commas; a backslash protects one. */
static void add_escaped(struct bytes *out, const char *text)
{
    for (; *text; text++) {
        if (*text == ',' || *text == '\\')
            bytes_add_char(out, '\\');
        bytes_add_char(out, *text);
    }
}

void mount_options(const struct mount_conf *conf, bool helper, struct bytes *ret)
{
    if (helper) {
        bytes_addf(ret, "%s,nosuid,nodev,subtype=sampan,fsname=", conf->writable ? "rw" : "ro");
        add_escaped(ret, conf->source);
        bytes_add_char(ret, ',');
    }
    bytes_addf(ret, "default_permissions,max_read=%u", MOUNT_MAX_READ);
    if (conf->allow_other)
        bytes_add_str(ret, ",allow_other");
}

static int mount_directly(const struct mount_conf *conf, int *ret_dev, struct err *err)
{
    cleanup_close int dev = open("/dev/fuse", O_RDWR | O_CLOEXEC);
    cleanup_bytes struct bytes data = {0};

    if (dev < 0 && (errno == ENOENT || errno == ENXIO || errno == ENODEV))
        return err_set(err, ERR_FAILED,
                       "open /dev/fuse: %m (load the kernel's module: modprobe fuse)");
    if (dev < 0)
        return err_sys(err, errno, "open /dev/fuse");
    bytes_addf(&data, "fd=%d,rootmode=40000,user_id=%u,group_id=%u,", dev, geteuid(), getegid());
    mount_options(conf, /* helper= */ false, &data);
    if (mount(conf->source, conf->mountpoint, "fuse.sampan",
              MS_NOSUID | MS_NODEV | (conf->writable ? 0 : MS_RDONLY), data.data) < 0)
        return err_sys(err, errno, "mount on %s", conf->mountpoint);
    *ret_dev = take_fd(&dev);
    return 0;
}

/* Starts `argv` with `comm_fd` as descriptor 3 (or none, -1) and its stderr going to `ret_stderr`.
 */
static int spawn_helper(const char *const argv[], int comm_fd, pid_t *ret_pid, int *ret_stderr,
                        struct err *err)
{
    static const char comm[] = "_FUSE_COMMFD=3";
    posix_spawn_file_actions_t actions;
    cleanup_free char **env = NULL;
    int pipes[2];
    size_t n = 0;
    int e;

    if (pipe2(pipes, O_CLOEXEC) < 0)
        return err_sys(err, errno, "pipe");
    while (environ[n])
        n++;
    env = xcalloc(n + 2, sizeof(*env));
    memcpy(env, environ, n * sizeof(*env));
    if (comm_fd >= 0)
        env[n] = (char *)comm;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, pipes[1], 2);
    if (comm_fd >= 0)
        posix_spawn_file_actions_adddup2(&actions, comm_fd, 3);
    e = posix_spawnp(ret_pid, argv[0], &actions, NULL, (char *const *)argv, env);
    posix_spawn_file_actions_destroy(&actions);
    close(pipes[1]);
    if (e) {
        close(pipes[0]);
        return err_set(err, ERR_FAILED, "%s: %s (install the package fuse3)", argv[0], strerror(e));
    }
    *ret_stderr = pipes[0];
    return 0;
}

/* Waits for the helper; what it printed becomes the error. */
static int reap_helper(pid_t pid, int from_stderr, const char *what, struct err *err)
{
    char text[600];
    size_t len = 0;
    ssize_t n;
    int status;

    while (len < sizeof(text) - 1 &&
           ((n = read(from_stderr, text + len, sizeof(text) - 1 - len)) > 0 ||
            (n < 0 && errno == EINTR)))
        len += n > 0 ? (size_t)n : 0;
    close(from_stderr);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    while (len && isspace((unsigned char)text[len - 1]))
        len--;
    text[len] = '\0';
    for (char *c = text; *c; c++)
        if (*c == '\n')
            *c = ' ';
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return 0;
    return err_set(err, ERR_DENIED, "%s: %s", what, len ? text : "fusermount3 failed");
}

static int receive_fd(int sock, int *ret)
{
    union {
        struct cmsghdr header;
        char room[CMSG_SPACE(sizeof(int))];
    } control;
    char byte;
    struct iovec iov = {.iov_base = &byte, .iov_len = 1};
    struct msghdr msg = {.msg_iov = &iov,
                         .msg_iovlen = 1,
                         .msg_control = &control,
                         .msg_controllen = sizeof(control)};
    const struct cmsghdr *c;
    ssize_t n;

    do {
        n = recvmsg(sock, &msg, MSG_CMSG_CLOEXEC);
    } while (n < 0 && errno == EINTR);
    if (n <= 0 || !(c = CMSG_FIRSTHDR(&msg)) || c->cmsg_type != SCM_RIGHTS ||
        c->cmsg_len != CMSG_LEN(sizeof(int)))
        return -1;
    memcpy(ret, CMSG_DATA(c), sizeof(int));
    return 0;
}

static int mount_by_helper(const struct mount_conf *conf, int *ret_dev, struct err *err)
{
    cleanup_bytes struct bytes options = {0};
    cleanup_close int dev = -1;
    int socks[2];
    int from_stderr;
    pid_t pid;

    if (access("/dev/fuse", R_OK | W_OK) < 0)
        return err_set(
            err, ERR_DENIED,
            "open /dev/fuse: %s (let all users open it: chmod 666 /dev/fuse; or mount as "
            "root)",
            strerror(errno));
    mount_options(conf, /* helper= */ true, &options);
    const char *const argv[] = {"fusermount3", "-o", options.data, "--", conf->mountpoint, NULL};
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, socks) < 0)
        return err_sys(err, errno, "socketpair");
    if (spawn_helper(argv, socks[1], &pid, &from_stderr, err) < 0) {
        close(socks[0]);
        close(socks[1]);
        return -1;
    }
    close(socks[1]);
    int received = receive_fd(socks[0], &dev);
    close(socks[0]);
    if (reap_helper(pid, from_stderr, "mount", err) < 0)
        return -1;
    if (received < 0)
        return err_set(err, ERR_FAILED, "mount on %s: fusermount3 handed out no device",
                       conf->mountpoint);
    *ret_dev = take_fd(&dev);
    return 0;
}

int mount_fuse(const struct mount_conf *conf, int *ret_dev, struct err *err)
{
    if (geteuid() != 0)
        return mount_by_helper(conf, ret_dev, err);
    return mount_directly(conf, ret_dev, err);
}

int mount_run_helper(const char *const argv[], const char *what, struct err *err)
{
    int from_stderr = -1;
    pid_t pid = -1;

    if (spawn_helper(argv, -1, &pid, &from_stderr, err) < 0)
        return -1;
    return reap_helper(pid, from_stderr, what, err);
}

void mount_readahead(const struct mount_row *row, unsigned kib)
{
    char path[96];
    char text[16];
    cleanup_close int fd = -1;

    snprintf(path, sizeof(path), "/sys/class/bdi/%u:%u/read_ahead_kb", row->major, row->minor);
    snprintf(text, sizeof(text), "%u", kib);
    fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd >= 0 && write(fd, text, strlen(text)) < 0)
        return; /* without it large files are merely read in smaller pieces */
}
