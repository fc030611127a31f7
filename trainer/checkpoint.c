/* Writing checkpoints, and removing old ones. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <libgen.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "checkpoint-internal.h"
#include "crc.h"
#include "dir.h"
#include "file.h"
#include "json.h"
#include "mem.h"

/* Where one is written that takes another's place, and where that goes meanwhile. */
#define BESIDE   "saving.new"
#define REPLACED ".old" /* behind its name: of the same place, as long as there is no other */

/* The folder's name of a checkpoint. */
static void checkpoint_name(const struct checkpoint *c, char *out, size_t size)
{
    if (c->batch == 0 && c->pass > 0)
        snprintf(out, size, "pass-%05" PRIu64, c->pass - 1);
    else
        snprintf(out, size, "pass-%05" PRIu64 "-batch-%09" PRIu64, c->pass, c->batch);
}

void checkpoint_head(unsigned char out[CHECKPOINT_HEAD], uint64_t numbers)
{
    memset(out, 0, CHECKPOINT_HEAD);
    out[4] = sizeof(float);
    for (int i = 0; i < 8; i++)
        out[8 + i] = (unsigned char)(numbers >> 8 * i);
}

/* --- files ------------------------------------------------------------------------------------ */

struct writing {
    int dir;
    const char *path;  /* of the folder, for errors */
    const char *place; /* where it will be */
    struct json_writer *files;
};

static int failed(const struct writing *w, const char *name, int code, struct err *err)
{
    return err_sys(err, code, "checkpoint: write %s/%s", w->path, name);
}

/* Two parts, so that a header needs no copy of what it heads. */
static int write_file(struct writing *w, const char *name, const void *head, size_t head_len,
                      const void *data, size_t len, struct err *err)
{
    cleanup_close int fd =
        openat(w->dir, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0644);
    if (fd < 0)
        return failed(w, name, errno, err);
    if (file_write(fd, head, head_len, 0) || file_write(fd, data, len, head_len) || fsync(fd) ||
        close(take_fd(&fd)))
        return failed(w, name, errno, err);
    if (w->files) {
        jw_object(w->files, NULL);
        jw_str(w->files, "name", name);
        jw_uint(w->files, "size", head_len + len);
        jw_uint(w->files, "crc32c", crc32c(crc32c(0, head, head_len), data, len));
        jw_end(w->files);
    }
    return 0;
}

static int write_params(struct writing *w, const struct net *n, const float *host, struct err *err)
{
    for (size_t i = 0; i < net_n_params(n); i++) {
        const struct param *p = net_param(n, i);
        unsigned char head[CHECKPOINT_HEAD];
        for (size_t k = 0; k < p->n; k++)
            if (!isfinite(host[p->at + k]))
                return err_set(err, ERR_FAILED,
                               "%s is not saved: %s holds what is not a number (a smaller "
                               "--learning_rate often helps; the checkpoint before it stays)",
                               w->place, p->name);
        checkpoint_head(head, p->n);
        if (write_file(w, p->name, head, sizeof head, host + p->at, p->n * sizeof *host, err))
            return -1;
    }
    return 0;
}

static int fetch(const struct net *n, float *host, const float *from, struct err *err)
{
    struct backend *b = net_backend(n);
    b->ops->get(b, host, from, net_floats(n) * sizeof *host);
    return b->ops->sync(b, err);
}

static int write_numbers(struct writing *w, const struct net *n, struct err *err)
{
    size_t bytes = net_floats(n) * sizeof(float);
    cleanup_free float *host = xmalloc(bytes + 1);
    if (fetch(n, host, net_weights(n), err) || write_params(w, n, host, err) ||
        fetch(n, host, net_velocities(n), err) ||
        write_file(w, "momentum", NULL, 0, host, bytes, err))
        return -1;
    if (!net_mean(n))
        return 0;
    return fetch(n, host, net_mean(n), err) || write_file(w, "mean", NULL, 0, host, bytes, err);
}

/* Exact: what is read back is the same number. */
static void put_double(struct json_writer *w, const char *key, double value)
{
    char text[40];
    snprintf(text, sizeof text, "%.17g", value);
    jw_raw(w, key, strpbrk(text, "in") ? "null" : text);
}

/* `what`: a count that these sums have besides. */
static void put_sums(struct json_writer *w, const char *key, const struct checkpoint_sums *s,
                     const char *what, uint64_t count)
{
    jw_object(w, key);
    jw_uint(w, "samples", s->samples);
    jw_uint(w, what, count);
    put_double(w, "loss", s->loss);
    put_double(w, "right", s->right);
    jw_end(w);
}

static void put_about(struct json_writer *w, const struct checkpoint_about *a)
{
    const struct model_shape *s = &a->shape;
    jw_object(w, "shape");
    jw_int(w, "height", s->h);
    jw_int(w, "width", s->w);
    jw_int(w, "channels", s->c);
    jw_int(w, "classes", s->classes);
    jw_int(w, "hidden", s->hidden);
    jw_array(w, "rows");
    for (int i = 0; i < N_MOVIE_IDS; i++)
        jw_int(w, NULL, s->rows[i]);
    jw_end(w);
    jw_end(w);
    jw_array(w, "classes");
    for (size_t i = 0; i < a->n_classes; i++)
        jw_name(w, NULL, a->classes[i]); /* a folder's: of any bytes */
    jw_end(w);
}

void checkpoint_about_release(struct checkpoint_about *a)
{
    for (size_t i = 0; i < a->n_classes; i++)
        free(a->classes[i]);
    free(a->classes);
    a->classes = NULL;
    a->n_classes = 0;
}

/* In JSON a number has not as many digits. */
static void put_digest(struct json_writer *w, const char *key, uint64_t digest)
{
    char text[17];
    snprintf(text, sizeof text, "%016" PRIx64, digest);
    jw_str(w, key, text);
}

static int write_state(struct writing *w, const struct net *n, const struct checkpoint *c,
                       const struct checkpoint_about *about, struct err *err)
{
    cleanup_bytes struct bytes text = {0};
    struct json_writer out;
    jw_init(&out, &text);
    jw_object(&out, NULL);
    jw_int(&out, "format", CHECKPOINT_FORMAT);
    jw_str(&out, "model", net_model(n));
    jw_uint(&out, "pass", c->pass);
    jw_uint(&out, "batch", c->batch);
    jw_uint(&out, "step", c->step);
    jw_uint(&out, "seed", c->seed);
    jw_str(&out, "optimizer", c->optimizer);
    jw_str(&out, "token", c->token);
    put_digest(&out, "data", c->data);
    put_double(&out, "loss", c->loss);
    put_double(&out, "rate", c->rate);
    put_sums(&out, "learned", &c->learned, "skipped", c->skipped);
    put_sums(&out, "period", &c->period, "batches", c->period_batches);
    if (about)
        put_about(&out, about);
    jw_array(&out, "files");
    w->files = &out;
    int code = write_numbers(w, n, err);
    w->files = NULL;
    if (code)
        return -1;
    jw_end(&out);
    jw_end(&out);
    bytes_add_char(&text, '\n');
    if (write_file(w, "state.json", NULL, 0, text.data, text.len, err))
        return -1;
    char done[64];
    snprintf(done, sizeof done, CHECKPOINT_DONE "%08x\n", crc32c(0, text.data, text.len));
    if (write_file(w, "done.new", NULL, 0, done, strlen(done), err))
        return -1;
    return renameat(w->dir, "done.new", w->dir, "done") ? failed(w, "done", errno, err) : 0;
}

/* --- folders ---------------------------------------------------------------------------------- */

/* A folder's own names; `done` goes first, so that what is left of it is not taken for whole. */
static void remove_place(const char *dir, const char *name)
{
    cleanup_free char *path = xasprintf("%s/%s", dir, name);
    cleanup_dir DIR *d = opendir(path);
    if (!d)
        return;
    unlinkat(dirfd(d), "done", 0);
    for (const struct dirent *e; (e = dir_next(d));)
        unlinkat(dirfd(d), e->d_name, 0);
    rmdir(path);
}

static int by_age(const void *a, const void *b)
{
    const struct checkpoint_place *p = a, *q = b;
    if (p->pass != q->pass)
        return p->pass < q->pass ? 1 : -1;
    if (p->batch != q->batch)
        return p->batch < q->batch ? 1 : -1;
    return strcmp(p->name, q->name); /* what took the place of a replaced one comes first */
}

static bool ends_name(const char *rest)
{
    return !*rest || strcmp(rest, REPLACED) == 0;
}

static bool parse_name(const char *name, struct checkpoint_place *ret)
{
    int end = 0;
    ret->batch = CHECKPOINT_OF_PASS;
    if (strlen(name) >= sizeof ret->name)
        return false;
    if (sscanf(name, "pass-%5" SCNu64 "%n", &ret->pass, &end) == 1 && end == 10 &&
        ends_name(name + end))
        return true;
    end = 0;
    return sscanf(name, "pass-%5" SCNu64 "-batch-%9" SCNu64 "%n", &ret->pass, &ret->batch, &end) ==
               2 &&
           end == 26 && ends_name(name + end);
}

/* Was it ever finished? That it cannot be known is not that it was not. */
static int is_done(int dir, const char *name, bool *ret, struct err *err)
{
    cleanup_free char *done = xasprintf("%s/done", name);
    *ret = faccessat(dir, done, F_OK, 0) == 0;
    return *ret || errno == ENOENT || errno == ENOTDIR ? 0 : err_sys(err, errno, "%s", done);
}

int checkpoint_list(const char *dir, struct checkpoint_place **ret, size_t *n, struct err *err)
{
    *ret = NULL;
    *n = 0;
    cleanup_dir DIR *d = opendir(dir);
    if (!d)
        return errno == ENOENT ? 0 : err_sys(err, errno, "checkpoints: %s", dir);
    for (const struct dirent *e; (e = dir_next(d));) {
        struct checkpoint_place p = {0};
        if (!parse_name(e->d_name, &p))
            continue;
        snprintf(p.name, sizeof p.name, "%s", e->d_name);
        if (is_done(dirfd(d), p.name, &p.done, err))
            return err_wrap(err, "checkpoints: %s", dir);
        *ret = xrealloc(*ret, (*n + 1) * sizeof **ret);
        (*ret)[(*n)++] = p;
    }
    if (errno)
        return err_sys(err, errno, "checkpoints: %s", dir);
    if (*n)
        qsort(*ret, *n, sizeof **ret, by_age);
    return 0;
}

/* Torn ones older than those that are kept go, too. */
static void prune(const char *dir, const char *newest, unsigned keep)
{
    cleanup_free struct checkpoint_place *all = NULL;
    size_t n, whole = 0;
    if (keep == 0 || checkpoint_list(dir, &all, &n, NULL))
        return;
    for (size_t i = 0; i < n; i++) {
        bool is_newest = strcmp(all[i].name, newest) == 0;
        if (whole >= keep && !is_newest)
            remove_place(dir, all[i].name);
        whole += all[i].done;
    }
}

int checkpoint_may_save(const char *dir, struct err *err)
{
    cleanup_free char *copy = xstrdup(dir);
    const char *place = access(dir, F_OK) == 0 ? dir : dirname(copy);
    cleanup_free char *inside = xasprintf("%s/.", place); /* a file is no place */
    return access(inside, W_OK | X_OK) ? err_sys(err, errno, "checkpoints: write to %s", place) : 0;
}

static int sync_names(const char *dir, struct err *err)
{
    cleanup_close int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return fd < 0 || fsync(fd) ? err_sys(err, errno, "checkpoint: %s", dir) : 0;
}

/* The whole one that was written beside takes the place of the whole one there. */
static int replace(const char *dir, const char *name, struct err *err)
{
    cleanup_free char *from = xasprintf("%s/" BESIDE, dir), *to = xasprintf("%s/%s", dir, name),
                      *replaced = xasprintf("%s" REPLACED, name),
                      *old = xasprintf("%s/%s", dir, replaced);
    if (renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_EXCHANGE)) { /* not every mount can */
        remove_place(dir, replaced);
        if (rename(to, old)) /* whoever is killed now leaves that one, which is listed, too */
            return err_sys(err, errno, "checkpoint: %s: make way", to);
        if (rename(from, to)) {
            err_sys(err, errno, "checkpoint: %s", to);
            rename(old, to);
            return -1;
        }
    }
    return 0;
}

/* In its place, or beside it. */
static int write_place(const char *dir, const char *as, const char *name, const struct net *n,
                       const struct checkpoint *c, const struct checkpoint_about *about,
                       struct err *err)
{
    cleanup_free char *path = xasprintf("%s/%s", dir, as), *place = xasprintf("%s/%s", dir, name);
    if (mkdir(path, 0755) && errno != EEXIST)
        return err_sys(err, errno, "checkpoint: make %s", path);
    cleanup_close int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return err_sys(err, errno, "checkpoint: %s", path);
    if (unlinkat(fd, "done", 0) && errno != ENOENT)
        return err_sys(err, errno, "checkpoint: %s/done", path);
    struct writing w = {.dir = fd, .path = path, .place = place};
    if (write_state(&w, n, c, about, err)) {
        remove_place(dir, as);
        return -1;
    }
    return fsync(fd) ? err_sys(err, errno, "checkpoint: %s", path) : 0;
}

int checkpoint_save(const char *dir, const struct net *n, const struct checkpoint *c,
                    const struct checkpoint_about *about, unsigned keep, char *ret, size_t ret_len,
                    struct err *err)
{
    char name[CHECKPOINT_NAME];
    bool whole;
    checkpoint_name(c, name, sizeof name);
    cleanup_free char *path = xasprintf("%s/%s", dir, name);
    cleanup_free char *replaced = xasprintf("%s" REPLACED, name);
    if (mkdir(dir, 0755) && errno != EEXIST)
        return err_sys(err, errno, "checkpoint: make %s", dir);
    if (is_done(AT_FDCWD, path, &whole, err))
        return err_wrap(err, "checkpoint");
    if (write_place(dir, whole ? BESIDE : name, name, n, c, about, err))
        return -1;
    if ((whole && replace(dir, name, err)) || sync_names(dir, err)) /* before others go */
        return -1;
    remove_place(dir, BESIDE); /* what it replaced, or a killed run has left */
    remove_place(dir, replaced);
    if (ret)
        snprintf(ret, ret_len, "%s", path);
    prune(dir, name, keep);
    return 0;
}
