/* The folder of curves: its two files, cut back and gone on with. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "clock.h"
#include "events-internal.h"
#include "file.h"
#include "mem.h"

#define N_FORMATS 2

static const struct events_format *const formats[N_FORMATS] = {&events_tensorboard,
                                                               &events_visualdl};

struct events {
    char *dir;
    int fds[N_FORMATS];
    struct err err; /* the first failure */
};

/* --- opening ---------------------------------------------------------------------------------- */

/* The newest file of a format, by its name, which holds the seconds; false: none. */
static bool newest(const char *dir, const struct events_format *f, char *ret, size_t size)
{
    cleanup_dir DIR *d = opendir(dir);
    ret[0] = '\0';
    for (struct dirent *e; d && (e = readdir(d));)
        if (strncmp(e->d_name, f->marker, strlen(f->marker)) == 0 && strcmp(e->d_name, ret) > 0)
            snprintf(ret, size, "%s", e->d_name);
    return ret[0] != '\0';
}

/* Is it told when a pass is over? The graph and its costs have no tag. */
static bool is_of_pass(const struct pb_field *tag)
{
    return tag->len >= 6 && memcmp(tag->data, "train/", 6) != 0 &&
           memcmp(tag->data, "input/", 6) != 0;
}

/* How much of a file holds whole records of before the checkpoint. The first one after it ends it:
 * steps only grow. */
static size_t whole(const struct events_format *f, const char *data, size_t len, uint64_t step,
                    bool within)
{
    size_t at = 0;
    uint64_t of;
    struct pb_field tag;
    for (size_t n; (n = f->first(data + at, len - at, &of, &tag)) != 0; at += n)
        if (of > step || (within && of == step && is_of_pass(&tag)))
            break;
    return at;
}

static int cut(const struct events_format *f, int fd, uint64_t step, bool within)
{
    struct stat st;
    if (fstat(fd, &st))
        return -1;
    cleanup_free char *data = xmalloc((size_t)st.st_size + 1);
    ssize_t len = file_read(fd, data, (size_t)st.st_size, 0);
    if (len < 0)
        return -1;
    size_t keep = whole(f, data, (size_t)len, step, within);
    return keep < (size_t)len ? ftruncate(fd, (off_t)keep) : 0;
}

static bool is_of_run(const char *name)
{
    for (int i = 0; i < N_FORMATS; i++)
        if (strncmp(name, formats[i]->marker, strlen(formats[i]->marker)) == 0)
            return true;
    return strcmp(name, EVENTS_LINES) == 0;
}

/* The first of earlier-1, earlier-2 … that is not there. */
static char *make_aside(const char *dir, struct err *err)
{
    for (int n = 1; n < INT_MAX; n++) {
        cleanup_free char *path = xasprintf("%s/earlier-%d", dir, n);
        if (mkdir(path, 0755) == 0)
            return xstrdup(path);
        if (errno != EEXIST)
            break;
    }
    err_sys(err, errno, "curves: set aside what is in %s", dir);
    return NULL;
}

int events_set_aside(const char *dir, char **ret, struct err *err)
{
    cleanup_dir DIR *d = opendir(dir);
    *ret = NULL;
    for (struct dirent *e; d && (e = readdir(d));) {
        if (!is_of_run(e->d_name))
            continue;
        if (!*ret && !(*ret = make_aside(dir, err)))
            return -1;
        cleanup_free char *from = xasprintf("%s/%s", dir, e->d_name);
        cleanup_free char *to = xasprintf("%s/%s", *ret, e->d_name);
        if (rename(from, to))
            return err_sys(err, errno, "curves: move %s to %s", from, *ret);
    }
    return 0;
}

static void put(struct events *e, int i, const struct bytes *record)
{
    if (e->err.class != ERR_NONE)
        return;
    off_t end = lseek(e->fds[i], 0, SEEK_END);
    ssize_t n = write(e->fds[i], record->data, record->len);
    if (n == (ssize_t)record->len)
        return;
    err_sys(&e->err, n < 0 ? errno : ENOSPC, "curves: write in %s", e->dir);
    if (n > 0 && end >= 0)
        (void)!ftruncate(e->fds[i], end); /* a disk that is full takes a part of it */
}

static int open_file(struct events *e, int i, uint64_t step, bool within, struct err *err)
{
    const struct events_format *f = formats[i];
    char name[NAME_MAX + 1], host[65] = "host";
    int64_t now = clock_wall_ns();
    gethostname(host, sizeof host - 1);
    if (!newest(e->dir, f, name, sizeof name)) {
        if (f == &events_tensorboard)
            snprintf(name, sizeof name, "%s%010lld.%s.%d.0", f->marker,
                     (long long)(now / (int64_t)NS_PER_S), host, (int)getpid());
        else
            snprintf(name, sizeof name, "%s%010lld.log", f->marker,
                     (long long)(now / (int64_t)NS_PER_S));
    }
    cleanup_free char *path = xasprintf("%s/%s", e->dir, name);
    e->fds[i] = open(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (e->fds[i] < 0 || cut(f, e->fds[i], step, within))
        return err_sys(err, errno, "curves: %s", path);
    struct stat st;
    if (fstat(e->fds[i], &st) == 0 && st.st_size == 0) {
        cleanup_bytes struct bytes record = {0};
        f->head(&record, now);
        put(e, i, &record);
    }
    return 0;
}

int events_open(struct events **ret, const char *dir, uint64_t step, bool within, struct err *err)
{
    struct events *e = xcalloc(1, sizeof *e);
    e->dir = xstrdup(dir);
    e->fds[0] = e->fds[1] = -1;
    if (mkdir(dir, 0755) && errno != EEXIST)
        err_sys(err, errno, "curves: make %s", dir);
    else if (open_file(e, 0, step, within, err) == 0 && open_file(e, 1, step, within, err) == 0) {
        *ret = e;
        return 0;
    }
    events_close(e);
    return -1;
}

void events_close(struct events *e)
{
    if (!e)
        return;
    for (int i = 0; i < N_FORMATS; i++)
        if (e->fds[i] >= 0)
            close(e->fds[i]);
    free(e->dir);
    free(e);
}

/* --- writing ---------------------------------------------------------------------------------- */

void events_scalar(struct events *e, const char *tag, uint64_t step, double value)
{
    for (int i = 0; e && i < N_FORMATS; i++) {
        cleanup_bytes struct bytes record = {0};
        formats[i]->scalar(&record, clock_wall_ns(), step, tag, value);
        put(e, i, &record);
    }
}

void events_histogram(struct events *e, const char *tag, uint64_t step, const float *x, size_t n)
{
    struct histogram h;
    if (!e)
        return;
    histogram_of(&h, x, n);
    for (int i = 0; i < N_FORMATS; i++) {
        cleanup_bytes struct bytes record = {0};
        formats[i]->histogram(&record, clock_wall_ns(), step, tag, &h);
        put(e, i, &record);
    }
}

void events_image(struct events *e, const char *tag, uint64_t step, const uint8_t *rgb, int height,
                  int width)
{
    cleanup_bytes struct bytes png = {0};
    if (!e)
        return;
    png_encode(&png, rgb, height, width);
    for (int i = 0; i < N_FORMATS; i++) {
        cleanup_bytes struct bytes record = {0};
        formats[i]->image(&record, clock_wall_ns(), step, tag, &png, height, width);
        put(e, i, &record);
    }
}

void events_pr_curve(struct events *e, const char *tag, uint64_t step, const struct events_pr *p)
{
    struct pr_curve curve;
    if (!e)
        return;
    pr_curve_of(&curve, p);
    for (int i = 0; i < N_FORMATS; i++) {
        cleanup_bytes struct bytes record = {0};
        formats[i]->pr(&record, clock_wall_ns(), step, tag, &curve);
        put(e, i, &record);
    }
}

void events_graph(struct events *e, const struct net *n)
{
    cleanup_bytes struct bytes record = {0};
    if (!e)
        return;
    tensorboard_graph(&record, clock_wall_ns(), n);
    put(e, 0, &record);
}

void events_costs(struct events *e, const struct net *n, uint64_t step)
{
    cleanup_bytes struct bytes record = {0};
    if (!e || !net_costs(n))
        return;
    tensorboard_costs(&record, clock_wall_ns(), step, n);
    put(e, 0, &record);
}

int events_flush(struct events *e, struct err *err)
{
    for (int i = 0; e && i < N_FORMATS; i++)
        if (e->err.class == ERR_NONE && fsync(e->fds[i]))
            err_sys(&e->err, errno, "curves: %s", e->dir);
    if (!e || e->err.class == ERR_NONE)
        return 0;
    if (err)
        *err = e->err;
    return -1;
}
