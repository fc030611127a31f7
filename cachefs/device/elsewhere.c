/*
 * Where else a file system is mounted. A mount namespace that somebody makes (a container, a
 * service with mounts of its own) begins with copies of all mounts there are; one that hears
 * nothing of what is unmounted outside holds our file system up until it ends itself.
 */
#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "cleanup.h"
#include "device.h"
#include "mem.h"

#define MAX_NAMED 8

struct looking {
    dev_t dev;
    ino_t own, *seen; /* mount namespaces */
    size_t n_seen;
    unsigned found;
    struct bytes *ret;
};

/* The first place it is mounted at, as the process sees it. */
static bool find_mount(int proc, dev_t dev, struct mount_row *row)
{
    int fd = openat(proc, "mountinfo", O_RDONLY | O_CLOEXEC);
    cleanup_file FILE *f = fd < 0 ? NULL : fdopen(fd, "r");
    cleanup_free char *line = NULL;
    size_t size = 0;

    if (!f) {
        if (fd >= 0)
            close(fd);
        return false;
    }
    while (getline(&line, &size, f) > 0)
        if (mountinfo_line(line, row) && makedev(row->major, row->minor) == dev)
            return true;
    return false;
}

/* Is this process the first we meet of its namespace? */
static bool is_new(struct looking *l, int proc, ino_t *ret)
{
    struct stat st;

    if (fstatat(proc, "ns/mnt", &st, 0))
        return false;
    for (size_t i = 0; i < l->n_seen; i++)
        if (l->seen[i] == st.st_ino)
            return false;
    l->seen = xrealloc(l->seen, (l->n_seen + 1) * sizeof(*l->seen));
    l->seen[l->n_seen++] = st.st_ino;
    *ret = st.st_ino;
    return true;
}

static void name_process(int proc, const char *pid, struct bytes *ret)
{
    char comm[64] = "?";
    cleanup_close int fd = openat(proc, "comm", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, comm, sizeof(comm) - 1);

    if (n > 0)
        comm[comm[n - 1] == '\n' ? n - 1 : n] = '\0';
    bytes_addf(ret, " for %.40s (pid %.20s)", comm, pid);
}

static void look(struct looking *l, const char *pid)
{
    cleanup_free struct mount_row *row = xmalloc(sizeof(*row));
    char dir[64];
    ino_t space;

    snprintf(dir, sizeof(dir), "/proc/%.20s", pid);
    cleanup_close int proc = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (proc < 0 || !is_new(l, proc, &space) || !find_mount(proc, l->dev, row))
        return;
    if (l->found++ >= MAX_NAMED)
        return;
    bytes_addf(l->ret, "%sat %.200s", l->found > 1 ? "; " : "", row->mountpoint);
    if (space != l->own)
        name_process(proc, pid, l->ret);
}

bool mount_elsewhere(dev_t dev, struct bytes *ret)
{
    cleanup_dir DIR *d = opendir("/proc");
    struct looking l = {.dev = dev, .ret = ret};
    const struct dirent *e;
    struct stat own;

    if (!d || !dev || stat("/proc/self/ns/mnt", &own))
        return false;
    l.own = own.st_ino;
    while ((e = readdir(d)))
        if (isdigit((unsigned char)e->d_name[0]))
            look(&l, e->d_name);
    free(l.seen);
    if (l.found > MAX_NAMED)
        bytes_addf(ret, "; and in %u more", l.found - MAX_NAMED);
    return l.found > 0;
}
