/* The real mounter: the program `sampan`, the kernel's mounts, the register and control sockets. */
#define LOG_MODULE "mounter"
#include "mounter.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>

#include "clock.h"
#include "control.h"
#include "mem.h"
#include "mountinfo.h"
#include "spawn.h"

struct real {
    struct mounter base;
    char *program, *host_root, *cgroup;
    struct log *log;
};

static struct real *real_of(struct mounter *m)
{
    return (struct real *)m;
}

/* --- programs --------------------------------------------------------------------------------- */

static bool speaks_of_keys(const char *text)
{
    static const char *const words[] = {
        "credential",         "access key", "AccessDenied", "Signature",
        "InvalidAccessKeyId", "401",        "403",          "enied"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (strstr(text, words[i]))
            return true;
    return false;
}

/* The exit codes are a promise of the command line. What umount does not find is no volume: callers
 * take one that is not found for ended. */
static enum err_class class_of(int code, const char *verb, const char *text)
{
    switch (code) {
    case 2:
        return ERR_USAGE;
    case 3:
        return strcmp(verb, "umount") == 0 ? ERR_FAILED : ERR_NOT_FOUND;
    case 4:
        return speaks_of_keys(text) ? ERR_DENIED : ERR_LIMIT;
    case 130:
    case 128 + 15:
        return ERR_CANCELLED;
    default:
        return ERR_FAILED;
    }
}

/* What works on a store for a call is of no use without the call; what mounts is for good. */
static bool is_for_a_call(const char *verb)
{
    return strcmp(verb, "sync") == 0 || strcmp(verb, "rmr") == 0 || strcmp(verb, "scan") == 0;
}

/* The last line, without the name of the program. */
static int say_why(int code, const char *verb, struct bytes *errors, struct err *err)
{
    while (errors->len && errors->data[errors->len - 1] == '\n')
        errors->data[--errors->len] = '\0';
    const char *text = errors->len ? errors->data : "it gave no reason";
    const char *line = strrchr(text, '\n');
    line = line ? line + 1 : text;
    cleanup_free char *prefix = xasprintf("sampan %s: ", verb);
    if (strncmp(line, prefix, strlen(prefix)) == 0)
        line += strlen(prefix);
    return err_set(err, class_of(code, verb, line), "%s: %s", verb, line);
}

static int run_with(struct real *r, const char *const *argv, const int *keep, size_t n_keep,
                    uint64_t deadline_ns, struct bytes *out, struct err *err)
{
    cleanup_bytes struct bytes errors = {0};
    int code = 0;
    struct spawn s = {.program = r->program,
                      .argv = argv,
                      .host_root = r->host_root,
                      .cgroup = r->cgroup,
                      .keep = keep,
                      .n_keep = n_keep,
                      .deadline_ns = deadline_ns,
                      .ends_with_us = is_for_a_call(argv[1])};
    if (spawn_run(&s, &code, out, &errors, err))
        return -1;
    return code ? say_why(code, argv[1], &errors, err) : 0;
}

static int real_run(struct mounter *m, const char *const *argv, uint64_t deadline_ns,
                    struct bytes *out, struct err *err)
{
    return run_with(real_of(m), argv, NULL, 0, deadline_ns, out, err);
}

/* --- looking ---------------------------------------------------------------------------------- */

static int real_look(struct mounter *m, const char *path, struct mount_look *ret, struct err *err)
{
    cleanup_free struct mount_row *row = xmalloc(sizeof *row);
    struct err why = {0};
    (void)m;
    *ret = (struct mount_look){0};
    if (mount_find(path, row, &why)) {
        if (why.class == ERR_NOT_FOUND)
            return 0;
        if (err)
            *err = why;
        return -1;
    }
    *ret = (struct mount_look){.mounted = true,
                               .ours = strcmp(row->type, "fuse.sampan") == 0,
                               .dev = makedev(row->major, row->minor)};
    return 0;
}

static void real_serving(struct mounter *m, const char *mountpoint, struct mount_serving *ret)
{
    struct control_mount c;
    (void)m;
    *ret = (struct mount_serving){0};
    if (control_find(mountpoint, &c, NULL))
        return;
    if (strcmp(c.mountpoint, mountpoint) == 0)
        *ret = (struct mount_serving){.alive = c.alive, .pid = c.pid, .keeper_pid = c.keeper_pid};
    control_mount_release(&c);
}

/* --- third holder ----------------------------------------------------------------------------- */

static const char *const fd_names[MOUNT_FDS] = {"dev", "state", "listen"};

static int ask_for(const char *socket_path, const char *which, int *ret, struct err *err)
{
    cleanup_bytes struct bytes request = {0};
    struct json_writer w;
    jw_init(&w, &request);
    jw_object(&w, NULL);
    jw_str(&w, "op", "descriptors");
    jw_str(&w, "which", which);
    jw_end(&w);
    cleanup_close int fd = -1;
    if (control_call_again(socket_path, &request, 3, NULL, NULL, NULL, &fd, err))
        return -1;
    if (fd < 0)
        return err_set(err, ERR_FAILED, "the owner sent no descriptor (%s)", which);
    *ret = take_fd(&fd);
    return 0;
}

static int real_hold(struct mounter *m, const char *mountpoint, int ret_fds[MOUNT_FDS],
                     struct err *err)
{
    struct control_mount c;
    int fds[MOUNT_FDS] = {-1, -1, -1}, result = 0;
    if (control_find(mountpoint, &c, err))
        return -1;
    cleanup_free char *path = xasprintf("%s%s", real_of(m)->host_root, c.socket);
    control_mount_release(&c);
    for (int i = 0; i < MOUNT_FDS && !result; i++)
        result = ask_for(path, fd_names[i], &fds[i], err);
    for (int i = 0; i < MOUNT_FDS && result; i++)
        if (fds[i] >= 0)
            close(fds[i]);
    if (!result)
        memcpy(ret_fds, fds, sizeof fds);
    return result;
}

static int real_revive(struct mounter *m, const int fds[MOUNT_FDS], uint64_t deadline_ns,
                       struct err *err)
{
    char numbers[MOUNT_FDS][16];
    for (int i = 0; i < MOUNT_FDS; i++)
        snprintf(numbers[i], sizeof numbers[i], "%d", fds[i]);
    const char *const argv[] = {"sampan",   "revive",   "--dev",    numbers[0], "--state",
                                numbers[1], "--listen", numbers[2], NULL};
    return run_with(real_of(m), argv, fds, MOUNT_FDS, deadline_ns, NULL, err);
}

/* --- binds ------------------------------------------------------------------------------------ */

#ifndef OPEN_TREE_CLONE
#error "this C library is too old: it knows no open_tree()"
#endif

/*
 * The copy is made read-only before anybody can see it, and belongs to no other's group: what is
 * mounted upon it later (after a loss) is to reach the containers that have this bind, and not the
 * set's other binds, which may be writable. Where the folder above is shared the kernel makes it
 * shared again, in a group of its own.
 */
static int bind_tree(const char *from, const char *to, bool read_only)
{
    struct mount_attr attr = {.attr_set = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV |
                                          (read_only ? MOUNT_ATTR_RDONLY : 0u),
                              .propagation = MS_PRIVATE};
    cleanup_close int tree = open_tree(AT_FDCWD, from, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
    if (tree < 0 || mount_setattr(tree, "", AT_EMPTY_PATH, &attr, sizeof attr))
        return errno;
    return move_mount(tree, "", AT_FDCWD, to, MOVE_MOUNT_F_EMPTY_PATH) ? errno : 0;
}

/* Kernels before 5.12 know no mount_setattr(). */
static int bind_old(const char *from, const char *to, bool read_only)
{
    unsigned long flags = MS_BIND | MS_REMOUNT | MS_NOSUID | MS_NODEV | (read_only ? MS_RDONLY : 0);
    if (mount(from, to, NULL, MS_BIND, NULL))
        return errno;
    if (mount(NULL, to, NULL, MS_PRIVATE, NULL) == 0 &&
        mount(NULL, to, NULL, MS_SHARED, NULL) == 0 && mount(NULL, to, NULL, flags, NULL) == 0)
        return 0;
    int e = errno;
    umount2(to, MNT_DETACH | UMOUNT_NOFOLLOW);
    return e;
}

static int real_bind(struct mounter *m, const char *from, const char *to, bool read_only,
                     struct err *err)
{
    (void)m;
    int e = bind_tree(from, to, read_only);
    if (e == ENOSYS)
        e = bind_old(from, to, read_only);
    return e ? err_sys(err, e, "show %s at %s", from, to) : 0;
}

static int real_unbind(struct mounter *m, const char *path, struct err *err)
{
    if (umount2(path, UMOUNT_NOFOLLOW) == 0 || errno == EINVAL || errno == ENOENT)
        return 0;
    if (errno == EBUSY && umount2(path, UMOUNT_NOFOLLOW | MNT_DETACH) == 0) {
        log_info(real_of(m)->log, "%s was in use: it ends with its last user", path);
        return 0;
    }
    return err_sys(err, errno, "unmount %s", path);
}

static int real_usage(struct mounter *m, const char *path, struct mount_usage *ret, struct err *err)
{
    struct statvfs fs;
    (void)m;
    if (statvfs(path, &fs))
        return err_sys(err, errno, "ask %s how much it holds", path);
    int64_t block = (int64_t)fs.f_frsize;
    *ret = (struct mount_usage){
        .bytes_total = (int64_t)fs.f_blocks * block,
        .bytes_free = (int64_t)fs.f_bavail * block,
        .bytes_used = ((int64_t)fs.f_blocks - (int64_t)fs.f_bfree) * block,
        .files_total = (int64_t)fs.f_files,
        .files_free = (int64_t)fs.f_ffree,
        .files_used = (int64_t)fs.f_files - (int64_t)fs.f_ffree,
    };
    return 0;
}

static int real_own(struct mounter *m, const char *path, int64_t gid, struct err *err)
{
    cleanup_close int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct stat st;
    (void)m;
    if (fd < 0 || fstat(fd, &st))
        return err_sys(err, errno, "look at %s", path);
    mode_t wanted = (st.st_mode & 07777) | S_ISGID | S_IRWXG;
    if (st.st_gid != (gid_t)gid && fchown(fd, (uid_t)-1, (gid_t)gid))
        return err_sys(err, errno, "give %s to group %lld", path, (long long)gid);
    if ((st.st_mode & 07777) != wanted && fchmod(fd, wanted))
        return err_sys(err, errno, "let group %lld write to %s", (long long)gid, path);
    return 0;
}

/* --- pods ------------------------------------------------------------------------------------- */

/* The fourth field of a line of mountinfo: what of its file system the mount shows. */
static const char *root_of(const char *line, size_t *ret_len)
{
    for (int i = 0; i < 3 && line; i++)
        line = (line = strchr(line, ' ')) ? line + 1 : NULL;
    *ret_len = line ? strcspn(line, " ") : 0;
    return line;
}

/* Mount points of one file system that no later mount covers, of a process. */
struct visible {
    char **paths;
    size_t n;
};

static void visible_release(struct visible *v)
{
    for (size_t i = 0; i < v->n; i++)
        free(v->paths[i]);
    free(v->paths);
}

static void visible_add(struct visible *v, const struct mount_row *row, uint64_t dev)
{
    for (size_t i = 0; i < v->n; i++)
        if (strcmp(v->paths[i], row->mountpoint) == 0) {
            free(v->paths[i]);
            v->paths[i--] = v->paths[--v->n];
        }
    if (strcmp(row->type, "fuse.sampan") != 0 || makedev(row->major, row->minor) != dev)
        return;
    v->paths = xrealloc(v->paths, (v->n + 1) * sizeof *v->paths);
    v->paths[v->n++] = xstrdup(row->mountpoint);
}

/* A pod's container has files of its pod's folder mounted (/etc/hosts, /dev/termination-log):
 * `folder` is "/pods/UID/". */
static bool process_sees(const char *pid, const char *folder, uint64_t dev)
{
    cleanup_free char *path = xasprintf("/proc/%s/mountinfo", pid);
    cleanup_file FILE *f = fopen(path, "re");
    cleanup_free struct mount_row *row = xmalloc(sizeof *row);
    cleanup_free char *line = NULL;
    CLEANUP(visible_release) struct visible visible = {0};
    size_t room = 0, len;
    bool of_pod = false;
    while (f && getline(&line, &room, f) > 0) {
        const char *root = root_of(line, &len);
        of_pod = of_pod || (root && memmem(root, len, folder, strlen(folder)));
        if (mountinfo_line(line, row))
            visible_add(&visible, row, dev);
    }
    return of_pod && visible.n > 0;
}

static bool pod_sees(struct mounter *m, const char *pod_uid, uint64_t dev)
{
    cleanup_free char *folder = xasprintf("/pods/%s/", pod_uid);
    cleanup_dir DIR *d = *pod_uid ? opendir("/proc") : NULL;
    (void)m;
    for (const struct dirent *e; d && (e = readdir(d));)
        if (isdigit((unsigned char)*e->d_name) && process_sees(e->d_name, folder, dev))
            return true;
    return false;
}

/* --- making ----------------------------------------------------------------------------------- */

static const struct mounter_ops ops = {
    .run = real_run,
    .look = real_look,
    .serving = real_serving,
    .hold = real_hold,
    .revive = real_revive,
    .bind = real_bind,
    .unbind = real_unbind,
    .usage = real_usage,
    .pod_sees = pod_sees,
    .own = real_own,
};

/* The register of mounts that the programs write is the host's: it is read through the host's root,
 * and so are the sockets that it names. */
static int use_register(const char *host_root, struct err *err)
{
    const char *own = getenv("SAMPAN_RUN_DIR");
    if (!*host_root)
        return 0;
    cleanup_free char *path = xasprintf("%s%s", host_root, own && *own ? own : "/run/sampan");
    if (mkdir(path, 0700) && errno != EEXIST)
        return err_sys(err, errno, "the host's register of mounts: %s (hostPID: true?)", path);
    if (setenv("SAMPAN_RUN_DIR", path, 1))
        return err_sys(err, errno, "set SAMPAN_RUN_DIR");
    return 0;
}

int mounter_real(struct mounter **ret, const struct mounter_conf *conf, struct err *err)
{
    if (use_register(conf->host_root, err))
        return -1;
    if (access(conf->program, X_OK))
        return err_sys(err, errno, "the program %s", conf->program);
    struct real *r = xcalloc(1, sizeof *r);
    r->base.ops = &ops;
    r->program = xstrdup(conf->program);
    r->host_root = xstrdup(conf->host_root);
    r->cgroup = xstrdup(conf->cgroup);
    r->log = conf->log;
    *ret = &r->base;
    return 0;
}

void mounter_free(struct mounter *m)
{
    struct real *r = real_of(m);
    if (!r)
        return;
    free(r->program);
    free(r->host_root);
    free(r->cgroup);
    free(r);
}
