/* Which runs there are, and what was read of their files. */
#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "crc.h"
#include "mem.h"
#include "runs-internal.h"

#define DEPTH_MAX 16

struct runs *runs_new(const char *dir)
{
    struct runs *r = xcalloc(1, sizeof *r);
    r->dir = xstrdup(dir);
    lock_init(&r->lock, RANK_RUNS, "runs");
    cond_init(&r->idle);
    return r;
}

static void forget_series(struct run *run)
{
    for (size_t i = 0; i < run->n_series; i++) {
        free(run->series[i].tag);
        free(run->series[i].points);
    }
    free(run->series);
    run->series = NULL;
    run->n_series = 0;
}

static void forget_run(struct run *run)
{
    forget_series(run);
    for (size_t i = 0; i < run->n_files; i++)
        free(run->files[i].name);
    free(run->files);
    free(run->model);
    free(run->name);
    free(run);
}

void runs_free(struct runs *r)
{
    if (!r)
        return;
    for (size_t i = 0; i < r->n; i++)
        forget_run(r->run[i]);
    free(r->run);
    free(r->dir);
    cond_destroy(&r->idle);
    lock_destroy(&r->lock);
    free(r);
}

/* --- folders and files ------------------------------------------------------------------------ */

/* Where the run of this name stands, or would. */
static size_t place_by_name(const struct runs *r, const char *name, bool *ret_known)
{
    size_t at = 0;
    while (at < r->n && strcmp(r->run[at]->name, name) < 0)
        at++;
    *ret_known = at < r->n && strcmp(r->run[at]->name, name) == 0;
    return at;
}

/* The run of this name; a new one if need be. NULL: there are too many. */
static struct run *run_named(struct runs *r, const char *name)
{
    bool known;
    size_t at = place_by_name(r, name, &known);
    if (known)
        return r->run[at];
    if (r->n == RUNS_MAX)
        return NULL;
    r->run = xrealloc((void *)r->run, (r->n + 1) * sizeof *r->run);
    memmove(r->run + at + 1, r->run + at, (r->n - at) * sizeof *r->run);
    r->n++;
    r->run[at] = xcalloc(1, sizeof *r->run[at]);
    r->run[at]->name = xstrdup(name);
    return r->run[at];
}

static void note_file(struct run *run, const char *name, enum event_format format)
{
    for (size_t i = 0; i < run->n_files; i++)
        if (strcmp(run->files[i].name, name) == 0) {
            run->files[i].there = true;
            return;
        }
    run->files = xrealloc(run->files, (run->n_files + 1) * sizeof *run->files);
    run->files[run->n_files++] =
        (struct event_file){.name = xstrdup(name), .format = format, .there = true};
}

static bool ends_with(const char *name, const char *end)
{
    size_t len = strlen(name), n = strlen(end);
    return len > n && strcmp(name + len - n, end) == 0;
}

/* One plain file below the folder: of a run, or nothing to us. */
static void take_file(struct runs *r, const char *path, const char *name)
{
    enum event_format format = event_format_of(name);
    bool model = ends_with(name, ".onnx");
    const char *below = path + strlen(r->dir);
    while (*below == '/')
        below++;
    if ((format == EVENTS_FORMATS && !model) || !is_utf8(below, strlen(below)))
        return; /* what is no text the page could not name */
    size_t len = strlen(below) - strlen(name);
    cleanup_free char *run_name = len ? xstrndup(below, len - 1) : xstrdup(".");
    struct run *run = run_named(r, run_name);
    if (!run)
        return;
    run->there = true;
    if (format != EVENTS_FORMATS) {
        note_file(run, name, format);
    } else {
        free(run->model);
        run->model = xstrdup(name);
    }
}

static int by_name(const FTSENT **a, const FTSENT **b)
{
    return strcmp((*a)->fts_name, (*b)->fts_name);
}

/* Finds the runs in this folder (ours, or below it) and at most so deep below. */
static int look_through(struct runs *r, char *folder, int depth, struct err *err)
{
    char *const top[] = {folder, NULL};
    int follow = folder == r->dir ? FTS_COMFOLLOW : 0;
    FTS *fts = fts_open(top, follow | FTS_PHYSICAL | FTS_NOCHDIR, by_name);
    if (!fts)
        return err_sys(err, errno, "%s", folder);
    for (FTSENT *e; (e = fts_read(fts));) {
        if (e->fts_info == FTS_D && e->fts_level > depth)
            fts_set(fts, e, FTS_SKIP);
        else if (e->fts_info == FTS_F)
            take_file(r, e->fts_path, e->fts_name);
    }
    fts_close(fts);
    return 0;
}

static void look_anew(struct run *run)
{
    run->there = run->anew = false;
    free(take_ptr(&run->model));
    for (size_t i = 0; i < run->n_files; i++)
        run->files[i].there = false;
}

static void read_anew(struct run *run)
{
    run->anew |= run->n_series > 0;
    forget_series(run);
    run->replaced = false;
    for (size_t i = 0; i < run->n_files; i++) {
        run->files[i].at = 0;
        run->files[i].damaged = false;
    }
}

/* Points name files by their number: what is left is read anew. */
static void forget_files_gone(struct run *run)
{
    size_t kept = 0, n = run->n_files;
    if (run->busy)
        return;
    for (size_t i = 0; i < n; i++)
        if (run->files[i].there)
            run->files[kept++] = run->files[i];
        else
            free(run->files[i].name);
    run->n_files = kept;
    if (kept < n)
        read_anew(run);
}

static void forget_what_is_gone(struct runs *r)
{
    size_t kept = 0;
    for (size_t i = 0; i < r->n; i++)
        if (r->run[i]->there || r->run[i]->busy) {
            forget_files_gone(r->run[i]);
            r->run[kept++] = r->run[i];
        } else {
            forget_run(r->run[i]);
        }
    r->n = kept;
}

/* What is new in a run's own folder alone. */
static int look_into(struct runs *r, struct run *run, struct err *err)
{
    bool own = strcmp(run->name, ".") == 0;
    cleanup_free char *path = own ? NULL : xasprintf("%s/%s", r->dir, run->name);
    look_anew(run);
    if (look_through(r, own ? r->dir : path, 0, err))
        return -1;
    forget_what_is_gone(r);
    return 0;
}

static int look_everywhere(struct runs *r, struct err *err)
{
    for (size_t i = 0; i < r->n; i++)
        look_anew(r->run[i]);
    if (look_through(r, r->dir, DEPTH_MAX, err))
        return -1;
    forget_what_is_gone(r);
    return 0;
}

int run_open(const struct runs *r, const struct run *run, const char *name, FILE **ret,
             struct err *err)
{
    cleanup_free char *path = xasprintf("%s/%s/%s", r->dir, run->name, name);
    cleanup_close int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    struct stat st;
    if (fd < 0 || fstat(fd, &st))
        return err_sys(err, errno, "%s", path);
    if (!S_ISREG(st.st_mode))
        return err_set(err, ERR_FAILED, "%s: no plain file", path);
    *ret = fdopen(fd, "r");
    if (!*ret)
        return err_sys(err, errno, "%s", path);
    take_fd(&fd);
    return 0;
}

/* --- what is read ----------------------------------------------------------------------------- */

const struct series *run_series(const struct run *r, enum value_kind kind, const char *tag,
                                size_t tag_len)
{
    for (size_t i = 0; i < r->n_series; i++) {
        const struct series *s = &r->series[i];
        if (s->kind == kind && strlen(s->tag) == tag_len && memcmp(s->tag, tag, tag_len) == 0)
            return s;
    }
    return NULL;
}

static struct series *series_of(struct run *r, const struct event_value *v)
{
    const struct series *found = run_series(r, v->kind, v->tag, v->tag_len);
    if (found)
        return &r->series[found - r->series];
    if (r->n_series == TAGS_MAX || memchr(v->tag, 0, v->tag_len) || !is_utf8(v->tag, v->tag_len))
        return NULL; /* which the page could not name */
    r->series = xrealloc(r->series, (r->n_series + 1) * sizeof *r->series);
    struct series *s = &r->series[r->n_series++];
    *s = (struct series){.kind = v->kind, .tag = xstrndup(v->tag, v->tag_len), .stride = 1};
    return s;
}

static void keep(struct series *s, const struct point *p)
{
    s->newest = *p;
    if (s->came++ % s->stride != 0)
        return;
    if (s->n == POINTS_KEPT) { /* every other one goes; this one stays, for the number is even */
        for (size_t i = 0; i < POINTS_KEPT / 2; i++)
            s->points[i] = s->points[2 * i];
        s->n = POINTS_KEPT / 2;
        s->stride *= 2;
    }
    if (s->n % 64 == 0)
        s->points = xrealloc(s->points, (s->n + 64) * sizeof *s->points);
    s->points[s->n++] = *p;
}

struct reading {
    struct run *run;
    uint64_t at;
    uint32_t file, nth;
};

static bool take_value(void *arg, const struct event_value *v)
{
    struct reading *r = arg;
    struct point p = {.step = v->step, .time = v->time};
    if (v->kind == VALUE_SCALAR) {
        p.scalar = v->scalar;
    } else {
        p.place.at = r->at;
        p.place.file = r->file;
        p.place.nth = r->nth;
    }
    r->nth++;
    struct series *s = series_of(r->run, v);
    if (s)
        keep(s, &p);
    return true;
}

/* The lock is let go while a record comes: others are answered meanwhile. */
static void read_on(struct runs *r, struct run *run, size_t i)
{
    struct event_file *f = &run->files[i];
    const enum event_format format = f->format;
    uint64_t at = f->at;
    cleanup_file FILE *file = NULL;
    cleanup_bytes struct bytes record = {0};
    if (f->damaged || run_open(r, run, f->name, &file, NULL) || fseeko(file, (off_t)at, SEEK_SET))
        return;
    for (int got = 1; got == 1;) {
        struct reading reading = {.run = run, .at = at, .file = (uint32_t)i};
        lock_drop(&r->lock);
        got = record_next(file, format, &at, &record);
        lock_take(&r->lock);
        f = &run->files[i]; /* it lies elsewhere where another one has come */
        f->damaged = got < 0 || (got == 1 && record_values(format, record.data, record.len,
                                                           take_value, &reading));
        if (f->damaged || got == 0)
            return;
        f->last = f->at;
        f->last_sum = crc32c(0, record.data, record.len);
        f->at = at;
    }
}

static bool has_tensorboard(const struct run *run)
{
    for (size_t i = 0; i < run->n_files; i++)
        if (run->files[i].format == EVENTS_TENSORBOARD)
            return true;
    return false;
}

/* The same values in both formats, as our own trainer writes them, are one run's. */
static bool is_read(const struct event_file *f, bool tensorboard)
{
    return f->format == EVENTS_TENSORBOARD || !tensorboard;
}

static bool ignore_value(void *arg, const struct event_value *v)
{
    (void)arg;
    (void)v;
    return true;
}

/* Is what was read last there still, and what was damaged so still? What is copied over a file, or
 * cut off and written anew, leaves its inode, and may be longer. What cannot be read says nothing.
 */
static bool reads_as_before(const struct runs *r, const struct run *run, const struct event_file *f)
{
    uint64_t at = f->last;
    cleanup_file FILE *file = NULL;
    cleanup_bytes struct bytes record = {0};
    if ((f->at == 0 && !f->damaged) || run_open(r, run, f->name, &file, NULL))
        return true;
    if (f->at > 0 &&
        (fseeko(file, (off_t)at, SEEK_SET) || record_next(file, f->format, &at, &record) != 1 ||
         at != f->at || crc32c(0, record.data, record.len) != f->last_sum))
        return ferror(file);
    if (!f->damaged)
        return true;
    int got = record_next(file, f->format, &at, &record);
    return got < 0 ||
           (got == 1 && record_values(f->format, record.data, record.len, ignore_value, NULL));
}

/* Are all files those that were read before, and at least as long? */
static bool files_grew(const struct runs *r, struct run *run, bool tensorboard)
{
    bool same = true;
    for (size_t i = 0; i < run->n_files; i++) {
        struct event_file *f = &run->files[i];
        cleanup_free char *path = xasprintf("%s/%s/%s", r->dir, run->name, f->name);
        struct stat st = {0};
        bool there = stat(path, &st) == 0;
        same = same && there && (f->inode == 0 || f->inode == st.st_ino) &&
               (uint64_t)st.st_size >= f->at && (f->at == 0 || is_read(f, tensorboard)) &&
               reads_as_before(r, run, f);
        f->inode = there ? st.st_ino : 0;
    }
    return same;
}

static void read_run(struct runs *r, struct run *run)
{
    bool tensorboard = has_tensorboard(run);
    if (!files_grew(r, run, tensorboard) || run->replaced)
        read_anew(run);
    run->busy = true;
    for (size_t i = 0; i < run->n_files; i++)
        if (is_read(&run->files[i], tensorboard))
            read_on(r, run, i);
    run->busy = false;
    cond_broadcast(&r->idle);
}

int runs_refresh(struct runs *r, struct err *err)
{
    bool known;
    if (look_everywhere(r, err))
        return -1;
    for (size_t i = 0; i < r->n; i++) {
        struct run *run = r->run[i];
        if (run->busy)
            continue;
        read_run(r, run);
        i = place_by_name(r, run->name, &known); /* others may have come and gone */
    }
    return 0;
}

/* NULL: there is none of this name, or no more. */
static struct run *idle_run(struct runs *r, const char *name)
{
    bool known;
    size_t at;
    while (at = place_by_name(r, name, &known), known && r->run[at]->busy)
        cond_wait(&r->idle, &r->lock);
    return known ? r->run[at] : NULL;
}

struct run *runs_find(struct runs *r, const char *name, struct err *err)
{
    struct run *run = idle_run(r, name);
    if (run ? look_into(r, run, err) : look_everywhere(r, err))
        return NULL;
    run = idle_run(r, name);
    if (!run)
        return err_set(err, ERR_NOT_FOUND, "no run of this name: %s", name), NULL;
    read_run(r, run);
    return run;
}
