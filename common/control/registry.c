/*
 * The register of mounts on this machine: one small JSON file a mount, named by a hash of the mount
 * point, written under a temporary name and renamed. A process is named by its pid and its start
 * time, so that a pid that was given again is not taken for the owner. Pids mean nothing in another
 * PID namespace, such as that of a pod: there a mount lives as long as its socket takes
 * connections, which its keeper listens on while there is no owner.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "control.h"
#include "hash.h"
#include "mem.h"
#include "mountinfo.h"

#define ENTRY_MAX  (64u << 10)
#define STATUS_MAX (4u << 20)

static int usable_dir(const char *path, struct err *err)
{
    if (mkdir(path, 0700) && errno != EEXIST)
        return err_sys(err, errno, "register of mounts: %s", path);
    struct stat st;
    if (stat(path, &st))
        return err_sys(err, errno, "register of mounts: %s", path);
    if (!S_ISDIR(st.st_mode) || st.st_uid != geteuid())
        return err_set(err, ERR_DENIED,
                       "register of mounts: %s: not a folder of this user (remove it, or set "
                       "SAMPAN_RUN_DIR)",
                       path);
    return 0;
}

/* Of a folder that `su` left of another user, or that nobody made, no register can be had. */
static bool is_own_folder(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode) && st.st_uid == geteuid();
}

/* Made if needed. */
static int registry_dir(struct bytes *ret, struct err *err)
{
    const char *set = getenv("SAMPAN_RUN_DIR");
    const char *xdg = getenv("XDG_RUNTIME_DIR");
    bytes_clear(ret);
    if (set && *set)
        bytes_add_str(ret, set);
    else if (geteuid() == 0)
        bytes_add_str(ret, "/run/sampan");
    else if (xdg && *xdg && is_own_folder(xdg))
        bytes_addf(ret, "%s/sampan", xdg);
    else
        bytes_addf(ret, "/tmp/sampan-%u", (unsigned)geteuid());
    return usable_dir(ret->data, err);
}

/* Field 22 of /proc/PID/stat, counted after the last ')': names may hold blanks and parentheses. */
static uint64_t start_ticks(int pid)
{
    char path[64], text[1024];
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    cleanup_close int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    ssize_t n = read(fd, text, sizeof text - 1);
    if (n <= 0)
        return 0;
    text[n] = '\0';
    const char *p = strrchr(text, ')');
    if (p && (strncmp(p, ") Z", 3) == 0 || strncmp(p, ") X", 3) == 0))
        return 0; /* ended, and only waiting for its parent to look */
    for (int field = 2; p && field < 22; field++)
        p = strchr(p + 1, ' ');
    return p ? strtoull(p, NULL, 10) : 0;
}

/* The number of our PID namespace; 0: it cannot be told. */
static uint64_t pid_namespace(void)
{
    struct stat st;
    return stat("/proc/self/ns/pid", &st) ? 0 : st.st_ino;
}

static int entry_path(const char *mountpoint, struct bytes *ret, struct err *err)
{
    if (registry_dir(ret, err))
        return -1;
    bytes_addf(ret, "/%016" PRIx64 ".json", hash64(mountpoint, strlen(mountpoint), 0));
    return 0;
}

/* Always the same name, so that what a killed process leaves is overwritten or removed by the next.
 */
static char *temporary_of(const char *path)
{
    return xasprintf("%s.new", path);
}

static int write_entry(const char *path, const struct bytes *text, struct err *err)
{
    cleanup_free char *temporary = temporary_of(path);
    cleanup_close int fd = open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0)
        return err_sys(err, errno, "register of mounts: %s", temporary);
    ssize_t n = write(fd, text->data, text->len);
    if (n != (ssize_t)text->len || rename(temporary, path)) {
        int e = n >= 0 && n != (ssize_t)text->len ? ENOSPC : errno;
        unlink(temporary);
        return err_sys(err, e, "register of mounts: %s", path);
    }
    return 0;
}

int control_register(const char *mountpoint, const char *uri, const char *socket_path,
                     int keeper_pid, struct err *err)
{
    cleanup_bytes struct bytes path = {0}, text = {0};
    if (entry_path(mountpoint, &path, err))
        return -1;
    struct json_writer w;
    jw_init(&w, &text);
    jw_object(&w, NULL);
    jw_name(&w, "mountpoint", mountpoint);
    jw_name(&w, "uri", uri);
    jw_name(&w, "socket", socket_path);
    jw_int(&w, "pid", getpid());
    jw_uint(&w, "pids", pid_namespace());
    jw_uint(&w, "start_ticks", start_ticks(getpid()));
    jw_int(&w, "keeper_pid", keeper_pid);
    jw_uint(&w, "keeper_ticks", keeper_pid ? start_ticks(keeper_pid) : 0);
    jw_int(&w, "started", (int64_t)time(NULL));
    jw_end(&w);
    return write_entry(path.data, &text, err);
}

void control_unregister(const char *mountpoint)
{
    cleanup_bytes struct bytes path = {0};
    if (entry_path(mountpoint, &path, NULL))
        return;
    cleanup_free char *temporary = temporary_of(path.data);
    unlink(temporary);
    unlink(path.data);
}

void control_forget(const char *mountpoint)
{
    struct control_mount m = {0};
    bool lives = false;
    if (control_find(mountpoint, &m, NULL) == 0) {
        lives = m.alive && strcmp(m.mountpoint, mountpoint) == 0;
        control_mount_release(&m);
    }
    if (!lives)
        control_unregister(mountpoint);
}

static bool is_mounted(const char *mountpoint)
{
    cleanup_free struct mount_row *row = xmalloc(sizeof *row);
    return mount_find(mountpoint, row, NULL) == 0;
}

struct process {
    int64_t pid, ticks;
};

static bool runs(const struct process *p)
{
    return p->pid > 0 && p->ticks > 0 && start_ticks((int)p->pid) == (uint64_t)p->ticks;
}

static bool answers(const char *socket_path)
{
    cleanup_close int sock = -1;
    return control_connect(socket_path, &sock, NULL) == 0;
}

static void find_processes(struct control_mount *m, const struct process *owner,
                           const struct process *keeper, int64_t pids)
{
    if (pids && (uint64_t)pids != pid_namespace()) {
        m->foreign = true;
        m->alive = answers(m->socket);
        return;
    }
    bool serves = runs(owner), kept = runs(keeper);
    m->pid = (int)owner->pid;
    m->keeper_pid = kept ? (int)keeper->pid : 0;
    m->alive = serves || kept;
    m->recovering = !serves && kept;
}

/* Programs of several versions share the register: keys that are not known are left alone. */
static int entry_parse(const struct bytes *text, struct control_mount *ret, struct err *err)
{
    cleanup_json struct json_doc *doc = NULL;
    if (json_parse(&doc, "register of mounts", text->data, text->len, err))
        return -1;
    struct json root = json_root(doc);
    struct control_mount m = {0};
    struct process owner, keeper;
    int64_t pids, started;
    if (json_want_object(&root, err) || json_name(&root, "mountpoint", &m.mountpoint, err) ||
        json_name(&root, "uri", &m.uri, err) || json_name(&root, "socket", &m.socket, err) ||
        json_int(&root, "pid", 1, INT32_MAX, &owner.pid, err) ||
        json_int(&root, "start_ticks", 0, INT64_MAX, &owner.ticks, err) ||
        json_int_or(&root, "pids", 0, INT64_MAX, 0, &pids, err) ||
        json_int_or(&root, "keeper_pid", 0, INT32_MAX, 0, &keeper.pid, err) ||
        json_int_or(&root, "keeper_ticks", 0, INT64_MAX, 0, &keeper.ticks, err) ||
        json_int(&root, "started", 0, INT64_MAX, &started, err)) {
        control_mount_release(&m);
        return -1;
    }
    m.started = started;
    m.mounted = is_mounted(m.mountpoint);
    find_processes(&m, &owner, &keeper, pids);
    *ret = m;
    return 0;
}

static int entry_read(int dir, const char *name, struct control_mount *ret, struct err *err)
{
    cleanup_close int fd = openat(dir, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return err_sys(err, errno, "register of mounts: %s", name);
    cleanup_bytes struct bytes text = {0};
    bytes_reserve(&text, ENTRY_MAX);
    ssize_t n = read(fd, text.data, ENTRY_MAX);
    if (n < 0)
        return err_sys(err, errno, "register of mounts: %s", name);
    text.len = (size_t)n;
    return entry_parse(&text, ret, err);
}

static int by_mountpoint(const void *a, const void *b)
{
    return strcmp(((const struct control_mount *)a)->mountpoint,
                  ((const struct control_mount *)b)->mountpoint);
}

/* A file that cannot be read as an entry is somebody else's, or half removed: it is left alone. */
int control_mounts(struct control_mount **ret, size_t *n, struct err *err)
{
    cleanup_bytes struct bytes path = {0};
    if (registry_dir(&path, err))
        return -1;
    cleanup_dir DIR *dir = opendir(path.data);
    if (!dir)
        return err_sys(err, errno, "register of mounts: %s", path.data);
    struct control_mount *list = NULL;
    size_t count = 0;
    for (struct dirent *d; (d = readdir(dir));) {
        size_t len = strlen(d->d_name);
        if (len < 5 || strcmp(d->d_name + len - 5, ".json") != 0)
            continue;
        struct control_mount m;
        if (entry_read(dirfd(dir), d->d_name, &m, NULL))
            continue;
        list = xrealloc(list, (count + 1) * sizeof *list);
        list[count++] = m;
    }
    if (count)
        qsort(list, count, sizeof *list, by_mountpoint);
    *ret = list;
    *n = count;
    return 0;
}

static bool holds(const char *mountpoint, const char *path)
{
    size_t len = strlen(mountpoint);
    return strncmp(mountpoint, path, len) == 0 && (path[len] == '\0' || path[len] == '/');
}

/* A pod sees a mount at a path of its own: what is shown there says where the owner has it. */
static int real_mountpoint(const char *path, struct bytes *ret)
{
    cleanup_free char *name = xasprintf("%s/.sampan/status.json", path);
    cleanup_close int fd = open(name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    cleanup_json struct json_doc *doc = NULL;
    cleanup_bytes struct bytes text = {0};
    const char *mountpoint;
    if (fd < 0)
        return -1;
    for (ssize_t n = 1; n > 0 && text.len < STATUS_MAX; text.len += (size_t)(n > 0 ? n : 0)) {
        bytes_reserve(&text, ENTRY_MAX);
        n = read(fd, text.data + text.len, ENTRY_MAX);
    }
    if (!text.len || json_parse(&doc, "status", text.data, text.len, NULL))
        return -1;
    struct json root = json_root(doc);
    if (json_str(&root, "mountpoint", &mountpoint, NULL))
        return -1;
    bytes_add_str(ret, mountpoint);
    return 0;
}

static struct control_mount *best_of(struct control_mount *list, size_t n, const char *path)
{
    struct control_mount *best = NULL;
    for (size_t i = 0; i < n; i++)
        if (holds(list[i].mountpoint, path) &&
            (!best || strlen(list[i].mountpoint) > strlen(best->mountpoint)))
            best = &list[i];
    return best;
}

static struct control_mount *elsewhere(struct control_mount *list, size_t n, const char *path)
{
    cleanup_bytes struct bytes mountpoint = {0};
    if (real_mountpoint(path, &mountpoint))
        return NULL;
    for (size_t i = 0; i < n; i++)
        if (strcmp(list[i].mountpoint, mountpoint.data) == 0) {
            list[i].mounted = true;
            return &list[i];
        }
    return NULL;
}

/* A mount of ours, but not in our register. */
static int not_registered(const char *path, struct err *err)
{
    cleanup_free struct mount_row *row = xmalloc(sizeof *row);
    if (mount_find(path, row, NULL) || strcmp(row->type, "fuse.sampan") != 0)
        return err_set(err, ERR_NOT_FOUND,
                       "%s: no mount of ours is here (sampan status lists them)", path);
    return err_set(err, ERR_NOT_FOUND,
                   "%s: no mount of this register: user %u made the one that is there (ask as that "
                   "user, in the same SAMPAN_RUN_DIR or XDG_RUNTIME_DIR, or read its "
                   ".sampan/status.json)",
                   path, row->user);
}

int control_find(const char *path, struct control_mount *ret, struct err *err)
{
    struct control_mount *list = NULL;
    size_t n = 0;
    if (control_mounts(&list, &n, err))
        return -1;
    struct control_mount *best = best_of(list, n, path);
    if (!best && n)
        best = elsewhere(list, n, path);
    if (best) {
        *ret = *best;
        *best = (struct control_mount){0};
    }
    control_mounts_free(list, n);
    return best ? 0 : not_registered(path, err);
}

bool control_is_abandoned(const struct control_mount *m)
{
    return m->mounted && !m->alive && !m->foreign && !answers(m->socket);
}

void control_mount_release(struct control_mount *m)
{
    free(m->mountpoint);
    free(m->uri);
    free(m->socket);
    *m = (struct control_mount){0};
}

void control_mounts_free(struct control_mount *m, size_t n)
{
    for (size_t i = 0; i < n; i++)
        control_mount_release(&m[i]);
    free(m);
}
