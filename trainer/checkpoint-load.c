/* Reading checkpoints: all is checked before anything of it gets into the net. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <libgen.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "checkpoint-internal.h"
#include "crc.h"
#include "json.h"
#include "mem.h"

#define LOG_MODULE "checkpoint"
#define STATE_MAX  (64u << 20)

struct reading {
    int dir;
    struct net *n;
    const struct checkpoint_about *about; /* NULL: names of labels are not compared */
    float *weights, *velocities, *mean;   /* host memory; mean NULL: the net has none */
};

static int read_file(int dir, const char *name, size_t max, struct bytes *out, struct err *err)
{
    char buf[65536];
    cleanup_close int fd = openat(dir, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return err_sys(err, errno, "%s", name);
    bytes_clear(out);
    for (ssize_t n; (n = read(fd, buf, sizeof buf)) != 0;) {
        if (n < 0)
            return err_sys(err, errno, "%s", name);
        if (out->len + (size_t)n > max)
            return err_set(err, ERR_CORRUPT, "%s: longer than it can be", name);
        bytes_add(out, buf, (size_t)n);
    }
    return 0;
}

/* --- files ------------------------------------------------------------------------------------ */

static int foreign(struct err *err, const char *name)
{
    return err_set(err, ERR_USAGE, "it is of another model (%s does not fit)", name);
}

/* The row of a file, the first of its name. */
static bool find_row(const struct json *files, const char *name, struct json *ret)
{
    for (size_t i = 0; i < json_count(files); i++) {
        const char *its;
        *ret = json_at(files, i);
        if (json_str(ret, "name", &its, NULL) == 0 && strcmp(its, name) == 0)
            return true;
    }
    return false;
}

/* `head`: bytes before the numbers, Paddle's or none. */
static int take_file(const struct reading *r, const struct json *files, const char *name,
                     size_t head, float *to, size_t numbers, struct err *err)
{
    struct json row;
    int64_t size, sum;
    cleanup_bytes struct bytes data = {0};
    unsigned char want[CHECKPOINT_HEAD];
    if (!find_row(files, name, &row))
        return foreign(err, name);
    if (json_int(&row, "size", 0, INT64_MAX, &size, err) ||
        json_int(&row, "crc32c", 0, UINT32_MAX, &sum, err))
        return -1;
    if ((size_t)size != head + numbers * sizeof *to)
        return foreign(err, name);
    if (read_file(r->dir, name, (size_t)size, &data, err))
        return -1;
    if (data.len != (size_t)size || crc32c(0, data.data, data.len) != (uint32_t)sum)
        return err_set(err, ERR_CORRUPT, "%s: it is torn or damaged", name);
    checkpoint_head(want, numbers);
    if (head && memcmp(data.data, want, head) != 0)
        return foreign(err, name);
    memcpy(to, data.data + head, numbers * sizeof *to);
    return 0;
}

/* --- state.json ------------------------------------------------------------------------------- */

static int take_classes(const struct json *names, struct checkpoint_about *ret, struct err *err)
{
    size_t n = json_count(names);
    ret->classes = xcalloc(n + 1, sizeof *ret->classes);
    for (size_t i = 0; i < n; i++) {
        struct json one = json_at(names, i);
        if (json_as_name(&one, &ret->classes[i], err))
            return -1;
        ret->n_classes++;
    }
    return 0;
}

static const char *class_of(const struct checkpoint_about *a, size_t i)
{
    return i < a->n_classes ? a->classes[i] : "";
}

/* A label means the same as when the checkpoint was written, as far as names were known. */
static int check_classes(const struct reading *r, const struct json *root, struct err *err)
{
    cleanup_checkpoint_about struct checkpoint_about was = {0};
    struct json names = json_get(root, "classes");
    if (!r->about || !json_has(root, "classes"))
        return 0;
    if (take_classes(&names, &was, err))
        return -1;
    for (size_t i = 0; was.n_classes && i < r->about->n_classes; i++)
        if (strcmp(class_of(&was, i), r->about->classes[i]) != 0)
            return err_set(err, ERR_USAGE,
                           "it has other classes: class %zu of %zu was '%s', in --data it is '%s' "
                           "(--accept_classes goes on all the same)",
                           i, was.n_classes, class_of(&was, i), r->about->classes[i]);
    return 0;
}

/* NaN: it was none, or an older program did not write it. */
static double number_of(const struct json *root, const char *key)
{
    double n;
    return json_num(root, key, &n, NULL) ? NAN : n;
}

/* Nothing, where an older program did not write it. `what`: put_sums() in checkpoint.c. */
static int take_sums(const struct json *root, const char *key, struct checkpoint_sums *ret,
                     const char *what, uint64_t *ret_count, struct err *err)
{
    struct json sums = json_get(root, key);
    int64_t samples, count;
    if (!json_has(root, key))
        return 0;
    if (json_int(&sums, "samples", 0, INT64_MAX, &samples, err) ||
        json_int(&sums, what, 0, INT64_MAX, &count, err) ||
        json_num(&sums, "loss", &ret->loss, err) || json_num(&sums, "right", &ret->right, err))
        return -1;
    ret->samples = (uint64_t)samples;
    *ret_count = (uint64_t)count;
    return 0;
}

static int take_state(struct reading *r, const struct json *root, struct checkpoint *c,
                      struct err *err)
{
    /* The last two of before they were written. */
    const char *model = "", *token = "", *optimizer = "momentum", *data = "";
    int64_t format, pass, batch, step, seed;
    if (json_int(root, "format", 1, INT64_MAX, &format, err))
        return -1;
    if (format != CHECKPOINT_FORMAT)
        return err_set(err, ERR_USAGE, "it is of format %" PRId64 ", written by a newer program",
                       format);
    if (json_str(root, "model", &model, err) || json_str(root, "token", &token, err) ||
        json_int(root, "pass", 0, INT64_MAX, &pass, err) ||
        json_int(root, "batch", 0, INT64_MAX, &batch, err) ||
        json_int(root, "step", 0, INT64_MAX, &step, err) ||
        json_int(root, "seed", 0, INT64_MAX, &seed, err) ||
        (json_has(root, "optimizer") && json_str(root, "optimizer", &optimizer, err)) ||
        (json_has(root, "data") && json_str(root, "data", &data, err)))
        return -1;
    if (strcmp(model, net_model(r->n)) != 0)
        return err_set(err, ERR_USAGE, "it is of another model (%s)", model);
    *c = (struct checkpoint){.pass = (uint64_t)pass,
                             .batch = (uint64_t)batch,
                             .step = (uint64_t)step,
                             .seed = (uint64_t)seed,
                             .data = strtoull(data, NULL, 16),
                             .loss = number_of(root, "loss"),
                             .rate = number_of(root, "rate")};
    snprintf(c->token, sizeof c->token, "%s", token);
    snprintf(c->optimizer, sizeof c->optimizer, "%s", optimizer);
    if (take_sums(root, "learned", &c->learned, "skipped", &c->skipped, err) ||
        take_sums(root, "period", &c->period, "batches", &c->period_batches, err))
        return -1;
    return check_classes(r, root, err);
}

static bool has_mean(const struct json *root)
{
    struct json files = json_get(root, "files"), row;
    return find_row(&files, "mean", &row);
}

/* Each that the net has is there, and no other. */
static int take_files(struct reading *r, const struct json *root, struct err *err)
{
    struct json files = json_get(root, "files");
    const size_t floats = net_floats(r->n), params = net_n_params(r->n);
    const bool mean = has_mean(root);
    if (json_want_array(&files, err))
        return -1;
    if (json_count(&files) != params + 1 + mean)
        return foreign(err, "the number of parameters");
    for (size_t i = 0; i < params; i++) {
        const struct param *p = net_param(r->n, i);
        if (take_file(r, &files, p->name, CHECKPOINT_HEAD, r->weights + p->at, p->n, err))
            return -1;
    }
    if (take_file(r, &files, "momentum", 0, r->velocities, floats, err))
        return -1;
    if (r->mean && mean)
        return take_file(r, &files, "mean", 0, r->mean, floats, err);
    if (r->mean) /* written without --ema: an average begins where it is */
        memcpy(r->mean, r->weights, floats * sizeof *r->mean);
    return 0;
}

/* state.json of a folder that is whole. */
static int read_state(int dir, struct json_doc **ret, struct err *err)
{
    cleanup_bytes struct bytes done = {0}, text = {0};
    char want[64];
    if (read_file(dir, "state.json", STATE_MAX, &text, err) ||
        read_file(dir, "done", sizeof want, &done, err))
        return -1;
    snprintf(want, sizeof want, CHECKPOINT_DONE "%08x\n", crc32c(0, text.data, text.len));
    if (!done.data || done.len != strlen(want) || memcmp(done.data, want, done.len) != 0)
        return err_set(err, ERR_CORRUPT, "state.json: it is torn or damaged");
    return json_parse(ret, "state.json", text.data, text.len, err);
}

static int read_place(struct reading *r, struct checkpoint *c, struct err *err)
{
    cleanup_json struct json_doc *doc = NULL;
    if (read_state(r->dir, &doc, err))
        return -1;
    struct json root = json_root(doc);
    return take_state(r, &root, c, err) || take_files(r, &root, err);
}

static int load_place(const char *path, struct net *n, const struct checkpoint_about *about,
                      struct checkpoint *c, struct err *err)
{
    size_t bytes = net_floats(n) * sizeof(float);
    struct backend *b = net_backend(n);
    cleanup_close int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return err_sys(err, errno, "%s", path);
    cleanup_free float *weights = xcalloc(1, bytes + 1), *velocities = xcalloc(1, bytes + 1),
                       *mean = net_mean(n) ? xcalloc(1, bytes + 1) : NULL;
    struct reading r = {fd, n, about, weights, velocities, mean};
    if (read_place(&r, c, err))
        return -1;
    b->ops->put(b, net_weights(n), weights, bytes);
    b->ops->put(b, net_velocities(n), velocities, bytes);
    if (mean)
        b->ops->put(b, net_mean(n), mean, bytes);
    snprintf(c->from, sizeof c->from, "%s", path);
    return b->ops->sync(b, err);
}

bool checkpoint_is_bad(const struct err *e)
{
    return e->sys ? e->sys == ENOENT : e->class == ERR_CORRUPT || e->class == ERR_USAGE;
}

int checkpoint_load(const char *dir, struct net *n, const struct checkpoint_about *about,
                    struct checkpoint *ret, struct log *log, struct err *err)
{
    cleanup_free struct checkpoint_place *all = NULL;
    size_t count;
    bool others = false;
    struct err first = {0};
    if (checkpoint_list(dir, &all, &count, err))
        return -1;
    for (size_t i = 0; i < count; i++) {
        struct err e = {0};
        struct checkpoint c; /* *ret is set by a whole one alone: else training begins anew */
        if (!all[i].done) {
            log_warn(log, "%s/%s is passed over: it was never finished", dir, all[i].name);
            continue;
        }
        cleanup_free char *path = xasprintf("%s/%s", dir, all[i].name);
        if (load_place(path, n, about, &c, &e) == 0) {
            *ret = c;
            return 1;
        }
        if (!checkpoint_is_bad(&e)) /* going on from an older one would in the end remove it */
            return err_set(
                err, e.class,
                "checkpoints: %s: %.400s (it may be whole: mend that and start again, or "
                "--resume with another one, or --resume never)",
                path, e.msg);
        log_warn(log, "%s/%s is passed over: %s", dir, all[i].name, e.msg);
        others |= e.class == ERR_USAGE;
        if (first.class == ERR_NONE || e.class == ERR_USAGE)
            first = e;
    }
    if (!others)
        return 0;
    return err_set(err, ERR_USAGE,
                   "checkpoints: %s: none is of this model: %.400s (another --save_dir, or "
                   "--resume never, which writes over them)",
                   dir, first.msg);
}

int checkpoint_load_named(const char *path, struct net *n, const struct checkpoint_about *about,
                          struct checkpoint *ret, struct log *log, struct err *err)
{
    cleanup_free char *state = xasprintf("%s/state.json", path);
    if (access(path, F_OK))
        return err_sys(err, errno, "checkpoints: %s", path);
    if (access(state, F_OK) == 0)
        return load_place(path, n, about, ret, err) ? err_wrap(err, "checkpoint %s", path) : 1;
    if (errno != ENOENT && errno != ENOTDIR)
        return err_sys(err, errno, "checkpoints: %s", state);
    int got = checkpoint_load(path, n, about, ret, log, err);
    if (got == 0)
        return err_set(err, ERR_NOT_FOUND,
                       "checkpoints: %s: there is no whole one (look at its pass-… folders)", path);
    return got;
}

/* --- how it was built ------------------------------------------------------------------------- */

static int side(const struct json *shape, const char *key, int most, int *ret, struct err *err)
{
    int64_t n;
    if (json_int(shape, key, 0, most, &n, err))
        return -1;
    *ret = (int)n;
    return 0;
}

static int take_shape(const struct json *shape, struct model_shape *s, struct err *err)
{
    struct json rows = json_get(shape, "rows");
    if (json_want_object(shape, err) || side(shape, "height", MODEL_IMAGE_MAX, &s->h, err) ||
        side(shape, "width", MODEL_IMAGE_MAX, &s->w, err) ||
        side(shape, "channels", MODEL_CHANNELS, &s->c, err) ||
        side(shape, "classes", INT_MAX, &s->classes, err) ||
        side(shape, "hidden", MODEL_HIDDEN_MAX, &s->hidden, err) || json_want_array(&rows, err))
        return -1;
    for (size_t i = 0; i < json_count(&rows) && i < N_MOVIE_IDS; i++) {
        struct json row = json_at(&rows, i);
        int64_t n;
        if (json_as_int(&row, 0, INT_MAX, &n, err))
            return -1;
        s->rows[i] = (int)n;
    }
    return 0;
}

static int look_at(const char *place, struct checkpoint_about *ret, struct err *err)
{
    cleanup_close int fd = open(place, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    cleanup_json struct json_doc *doc = NULL;
    const char *model;
    if (fd < 0)
        return err_sys(err, errno, "%s", place);
    if (read_state(fd, &doc, err))
        return -1;
    struct json root = json_root(doc), shape = json_get(&root, "shape"),
                names = json_get(&root, "classes");
    if (!json_has(&root, "shape"))
        return err_set(err, ERR_USAGE,
                       "it does not say how its net was built (an older program wrote it: training "
                       "that goes on from it writes one that does)");
    if (json_str(&root, "model", &model, err) || take_shape(&shape, &ret->shape, err) ||
        take_classes(&names, ret, err))
        return -1;
    snprintf(ret->model, sizeof ret->model, "%s", model);
    ret->mean = has_mean(&root);
    return 0;
}

char *checkpoint_newest(const char *dir)
{
    cleanup_free struct checkpoint_place *all = NULL;
    size_t n;
    if (checkpoint_list(dir, &all, &n, NULL))
        return NULL;
    for (size_t i = 0; i < n; i++)
        if (all[i].done)
            return xasprintf("%s/%s", dir, all[i].name);
    return NULL;
}

char *checkpoint_pass_end(const char *place, uint64_t before)
{
    cleanup_free char *copy = xstrdup(place);
    cleanup_free struct checkpoint_place *all = NULL;
    const char *dir = dirname(copy);
    size_t n;
    if (checkpoint_list(dir, &all, &n, NULL))
        return NULL;
    for (size_t i = 0; i < n; i++)
        if (all[i].done && all[i].batch == CHECKPOINT_OF_PASS && all[i].pass < before)
            return xasprintf("%s/%s", dir, all[i].name);
    return NULL;
}

/* Of a folder of them, finished or not. */
static int look_past(const char *dir, size_t skip, struct checkpoint_about *ret, char **ret_place,
                     struct err *err)
{
    cleanup_free struct checkpoint_place *all = NULL;
    size_t n;
    if (checkpoint_list(dir, &all, &n, err))
        return -1;
    if (skip >= n)
        return err_set(err, ERR_NOT_FOUND, "there is no whole one (look for its pass-… folders)");
    *ret_place = xasprintf("%s/%s", dir, all[skip].name);
    return all[skip].done ? look_at(*ret_place, ret, err)
                          : err_set(err, ERR_CORRUPT, "it was never finished");
}

int checkpoint_look(const char *path, size_t skip, struct checkpoint_about *ret, char **ret_place,
                    struct err *err)
{
    cleanup_free char *state = xasprintf("%s/state.json", path);
    bool is_one = access(state, F_OK) == 0;
    *ret = (struct checkpoint_about){0};
    *ret_place = NULL;
    if (access(path, F_OK))
        return err_sys(err, errno, "checkpoints: %s", path);
    if (is_one && skip)
        return err_set(err, ERR_NOT_FOUND, "checkpoints: %s: there is no other", path);
    if (is_one)
        *ret_place = xstrdup(path);
    if ((is_one ? look_at(path, ret, err) : look_past(path, skip, ret, ret_place, err)) == 0)
        return 0;
    checkpoint_about_release(ret);
    return err_wrap(err, "checkpoints: %s", *ret_place ? *ret_place : path);
}
