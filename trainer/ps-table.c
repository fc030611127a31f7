/* Tables of a parameter server: rows that come up to date when they are looked at. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "mem.h"
#include "net.h"
#include "ps-table.h"

#define DIM_MAX (1u << 28)
#define STILL   1e-30f /* a momentum that changes no number, and soon would be slow to multiply */

struct table {
    struct ps_shape shape;
    float *w, *v;
    uint32_t *seen; /* of each row: the clock up to which it is brought, plus 1; 0: untouched */
};

/* What one step did to all rows that had no gradient: v = momentum v, w -= rate v. */
struct tick {
    float rate, momentum; /* LARS' v holds steps: 1 */
};

struct ps_tables {
    struct backend *b;
    uint64_t seed;
    struct table *all;
    size_t n;
    struct tick *past;
    uint32_t clock; /* steps so far */
};

/* --- making ----------------------------------------------------------------------------------- */

static int check_shape(const struct ps_shape *s, struct err *err)
{
    if (memchr(s->name, '\0', sizeof s->name) == NULL || s->dim == 0 || s->dim > DIM_MAX ||
        s->rows > UINT32_MAX || s->stride == 0 || s->stride > UINT32_MAX ||
        s->offset > UINT32_MAX || s->kind > PARAM_STAT ||
        (s->kind != PARAM_ROWS && (s->rows > 1 || s->offset > 0)))
        return err_set(err, ERR_USAGE, "a table of no possible shape");
    return 0;
}

/* What it may grow to, whether or not it will. */
static int check_memory(const struct ps_shape *shapes, size_t n, struct err *err)
{
    double want = 0, have = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
    for (size_t i = 0; i < n; i++)
        want += ((double)shapes[i].rows + 1) * (8.0 * shapes[i].dim + 4); /* one to spare */
    if (want > have)
        return err_set(err, ERR_LIMIT,
                       "the tables take %.0f MiB, this machine has %.0f (more servers)",
                       want / (1 << 20), have / (1 << 20));
    return 0;
}

int ps_tables_new(struct ps_tables **ret, struct backend *b, uint64_t seed,
                  const struct ps_shape *shapes, size_t n, struct err *err)
{
    for (size_t i = 0; i < n; i++)
        if (check_shape(&shapes[i], err))
            return -1;
    if (check_memory(shapes, n, err))
        return -1;
    struct ps_tables *t = xcalloc(1, sizeof *t);
    *t = (struct ps_tables){.b = b, .seed = seed, .n = n};
    t->all = xcalloc(n ? n : 1, sizeof *t->all);
    for (size_t i = 0; i < n; i++) {
        struct table *one = &t->all[i];
        size_t rows = (size_t)shapes[i].rows + 1, floats = rows * shapes[i].dim + 1;
        one->shape = shapes[i];
        one->w = calloc(floats, sizeof *one->w);
        one->v = calloc(floats, sizeof *one->v);
        one->seen = calloc(rows, sizeof *one->seen);
        if (!one->w || !one->v || !one->seen) {
            ps_tables_free(t);
            return err_set(err, ERR_LIMIT, "no memory for table %s", shapes[i].name);
        }
    }
    *ret = t;
    return 0;
}

void ps_tables_free(struct ps_tables *t)
{
    for (size_t i = 0; t && i < t->n; i++) {
        free(t->all[i].w);
        free(t->all[i].v);
        free(t->all[i].seen);
    }
    if (t)
        free(t->past);
    if (t)
        free(t->all);
    free(t);
}

static bool same_shape(const struct ps_shape *a, const struct ps_shape *b)
{
    return strncmp(a->name, b->name, sizeof a->name) == 0 && a->rows == b->rows &&
           a->offset == b->offset && a->stride == b->stride && a->dim == b->dim &&
           a->kind == b->kind && a->first == b->first && a->drawn == b->drawn;
}

/* What a trainer has to be given as all are. */
#define ALIKE "the same --model, data, and servers in the same order on all trainers"

int ps_tables_same(const struct ps_tables *t, uint64_t seed, const struct ps_shape *shapes,
                   size_t n, struct err *err)
{
    if (seed != t->seed)
        return err_set(err, ERR_USAGE,
                       "--seed is %" PRIu64 ", and %" PRIu64 " on the first trainer", seed,
                       t->seed);
    if (n != t->n)
        return err_set(err, ERR_USAGE,
                       "%zu tables for this server, and %zu on the first trainer (" ALIKE ")", n,
                       t->n);
    for (size_t i = 0; i < n; i++) {
        const struct ps_shape *own = &t->all[i].shape;
        if (!same_shape(own, &shapes[i]))
            return err_set(err, ERR_USAGE,
                           "table %.63s of %" PRIu64 " x %u numbers is not the first trainer's, "
                           "which has %.63s of %" PRIu64 " x %u for this server (" ALIKE ")",
                           shapes[i].name, shapes[i].rows, shapes[i].dim, own->name, own->rows,
                           own->dim);
    }
    return 0;
}

/* --- rows ------------------------------------------------------------------------------------- */

/* What a step does to a row without a gradient. False: nor will any later one. */
static bool coast(float *w, float *v, uint32_t dim, const struct tick *t)
{
    int moves = 0;
    for (uint32_t k = 0; k < dim; k++) {
        float next = t->momentum * v[k];
        v[k] = fabsf(next) < STILL ? 0 : next;
        w[k] -= t->rate * v[k];
        moves |= v[k] != 0;
    }
    return moves;
}

/* Step by step, as a process that trains alone: so that the bits do not depend on when a row is
 * looked at. */
static void catch_up(const struct ps_tables *t, struct table *one, uint64_t row)
{
    uint32_t dim = one->shape.dim;
    float *w = one->w + row * dim, *v = one->v + row * dim;
    for (uint32_t i = one->seen[row] - 1; i < t->clock; i++)
        if (!coast(w, v, dim, &t->past[i]))
            break;
}

static float *row_of(const struct ps_tables *t, struct table *one, uint64_t row)
{
    const struct ps_shape *s = &one->shape;
    float *w = one->w + row * s->dim;
    if (one->seen[row] == 0)
        net_draw(s->name, t->seed, s->drawn, s->first, (row * s->stride + s->offset) * s->dim,
                 s->dim, w);
    else if (s->kind == PARAM_ROWS && one->seen[row] <= t->clock)
        catch_up(t, one, row);
    one->seen[row] = t->clock + 1;
    return w;
}

/* {table, n, rows}: NULL where it is none of ours. */
static struct table *take_rows(struct ps_tables *t, struct ps_in *in, const uint32_t **rows,
                               uint32_t *n, struct err *err)
{
    uint32_t i = ps_u32(in);
    *n = ps_u32(in);
    *rows = ps_take(in, (size_t)*n * sizeof **rows);
    if (in->bad || i >= t->n) {
        err_set(err, ERR_CORRUPT, "a request that ends early, or a table that is not here");
        return NULL;
    }
    for (uint32_t k = 0; k < *n; k++)
        if ((*rows)[k] >= t->all[i].shape.rows) {
            err_set(err, ERR_CORRUPT, "row %u of table %s: it has %" PRIu64, (*rows)[k],
                    t->all[i].shape.name, t->all[i].shape.rows);
            return NULL;
        }
    return &t->all[i];
}

static int room(const struct bytes *reply, size_t more, struct err *err)
{
    return reply->len + more > PS_MAX
               ? err_set(err, ERR_LIMIT, "more than %u MiB at once", PS_MAX >> 20)
               : 0;
}

int ps_tables_pull(struct ps_tables *t, struct ps_in *in, struct bytes *reply, struct err *err)
{
    while (in->left) {
        const uint32_t *rows;
        uint32_t n;
        struct table *one = take_rows(t, in, &rows, &n, err);
        if (!one)
            return -1;
        size_t bytes = one->shape.dim * sizeof(float);
        if (room(reply, n * bytes, err))
            return -1;
        for (uint32_t k = 0; k < n; k++)
            bytes_add(reply, row_of(t, one, rows[k]), bytes);
    }
    return 0;
}

/* --- whole tables ----------------------------------------------------------------------------- */

static struct table *take_part(struct ps_tables *t, struct ps_in *in, struct ps_part *ret,
                               struct err *err)
{
    ps_copy(in, ret, sizeof *ret);
    if (in->bad || ret->table >= t->n || ret->which > PS_VELOCITIES ||
        ret->from > t->all[ret->table].shape.rows ||
        ret->rows > t->all[ret->table].shape.rows - ret->from) {
        err_set(err, ERR_CORRUPT, "a part of no table that is here");
        return NULL;
    }
    return &t->all[ret->table];
}

int ps_tables_fetch(struct ps_tables *t, struct ps_in *in, struct bytes *reply, struct err *err)
{
    struct ps_part part;
    struct table *one = take_part(t, in, &part, err);
    if (!one || room(reply, part.rows * one->shape.dim * sizeof(float), err))
        return -1;
    for (uint64_t row = part.from; row < part.from + part.rows; row++) {
        const float *w = row_of(t, one, row);
        bytes_add(reply, part.which == PS_WEIGHTS ? w : one->v + row * one->shape.dim,
                  one->shape.dim * sizeof(float));
    }
    return 0;
}

int ps_tables_store(struct ps_tables *t, struct ps_in *in, struct err *err)
{
    struct ps_part part;
    struct table *one = take_part(t, in, &part, err);
    if (!one)
        return -1;
    size_t dim = one->shape.dim;
    if (in->left != part.rows * dim * sizeof(float))
        return err_set(err, ERR_CORRUPT, "a part that ends early");
    for (uint64_t row = part.from; row < part.from + part.rows; row++) {
        float *w = row_of(t, one, row);
        ps_copy(in, part.which == PS_WEIGHTS ? w : one->v + row * dim, dim * sizeof(float));
    }
    return 0;
}

/* --- a step ----------------------------------------------------------------------------------- */

/* A row's gradient from one trainer. */
struct share {
    uint32_t table, row, rank;
    const float *grad;
};
struct shares {
    struct share *all;
    size_t n;
};

static int by_row(const void *a, const void *b)
{
    const struct share *p = a, *q = b;
    if (p->table != q->table)
        return p->table < q->table ? -1 : 1;
    if (p->row != q->row)
        return p->row < q->row ? -1 : 1;
    return p->rank < q->rank ? -1 : p->rank > q->rank;
}

static int take_shares(struct ps_tables *t, struct ps_in *in, uint32_t rank, struct shares *s,
                       struct err *err)
{
    while (in->left) {
        const uint32_t *rows;
        uint32_t n;
        const struct table *one = take_rows(t, in, &rows, &n, err);
        if (!one)
            return -1;
        size_t dim = one->shape.dim;
        const float *grads = ps_take(in, n * dim * sizeof *grads);
        if (!grads)
            return err_set(err, ERR_CORRUPT, "gradients that end early");
        s->all = xrealloc(s->all, (s->n + n + 1) * sizeof *s->all);
        for (uint32_t k = 0; k < n; k++)
            s->all[s->n++] =
                (struct share){(uint32_t)(one - t->all), rows[k], rank, grads + k * dim};
    }
    return 0;
}

/* All must speak of one step; its sums are added up in `sum`. */
static int take_heads(struct ps_in *in, size_t ranks, struct ps_push *sum, struct err *err)
{
    for (size_t i = 0; i < ranks; i++) {
        struct ps_push one;
        ps_copy(&in[i], &one, sizeof one);
        if (in[i].bad)
            return err_set(err, ERR_CORRUPT, "a step that ends early");
        if (i == 0)
            *sum = one;
        else if (one.step != sum->step || one.rate != sum->rate)
            return err_set(err, ERR_FAILED,
                           "trainer %zu is at step %" PRIu64 " with rate %g, trainer 0 at %" PRIu64
                           " with %g (the same options on all?)",
                           i, one.step, (double)one.rate, sum->step, (double)sum->rate);
        for (int k = 0; i > 0 && k < 3; k++)
            sum->sums[k] += one.sums[k];
    }
    return 0;
}

static void update_row(struct ps_tables *t, const struct share *s, size_t n, float *grad,
                       const struct update *u, double count)
{
    struct table *one = &t->all[s->table];
    size_t dim = one->shape.dim;
    memcpy(grad, s[0].grad, dim * sizeof *grad);
    for (size_t i = 1; i < n; i++)
        t->b->ops->axpy(t->b, grad, 1, s[i].grad, dim);
    float *w = row_of(t, one, s->row);
    net_update_one(t->b, (enum param_kind)one->shape.kind, w, grad, one->v + (size_t)s->row * dim,
                   dim, u, count);
    one->seen[s->row]++; /* this step is in it */
}

static void step(struct ps_tables *t, struct shares *s, const struct ps_push *p)
{
    struct update u = {
        .rate = p->rate, .momentum = p->momentum, .decay = p->decay, .trust = p->trust};
    size_t widest = 1;
    for (size_t i = 0; i < t->n; i++)
        widest = t->all[i].shape.dim > widest ? t->all[i].shape.dim : widest;
    cleanup_free float *grad = xmalloc(widest * sizeof *grad);
    if (s->n)
        qsort(s->all, s->n, sizeof *s->all, by_row);
    for (size_t i = 0, n; i < s->n; i += n) {
        for (n = 1; i + n < s->n && s->all[i + n].table == s->all[i].table &&
                    s->all[i + n].row == s->all[i].row;)
            n++;
        update_row(t, &s->all[i], n, grad, &u, (double)p->sums[SUM_COUNT]);
    }
    if ((t->clock & (t->clock + 1)) == 0) /* all ones: the room is full */
        t->past = xrealloc(t->past, (2 * (size_t)t->clock + 2) * sizeof *t->past);
    t->past[t->clock++] = (struct tick){u.trust > 0 ? 1 : u.rate, u.momentum};
}

int ps_tables_push(struct ps_tables *t, const struct bytes *pushed, size_t ranks,
                   struct bytes *reply, struct err *err)
{
    struct ps_push sum = {0};
    struct shares s = {0};
    cleanup_free struct ps_in *in = xcalloc(ranks, sizeof *in);
    for (size_t i = 0; i < ranks; i++)
        in[i] = (struct ps_in){(const unsigned char *)pushed[i].data, pushed[i].len, 0};
    int failed = take_heads(in, ranks, &sum, err);
    for (size_t i = 0; i < ranks && !failed; i++)
        failed = take_shares(t, &in[i], (uint32_t)i, &s, err);
    if (!failed && t->clock == UINT32_MAX - 1)
        failed = err_set(err, ERR_LIMIT, "so many steps are not kept");
    if (!failed) {
        if (isfinite(sum.sums[SUM_LOSS]) && sum.sums[SUM_COUNT] > 0)
            step(t, &s, &sum);
        bytes_add(reply, sum.sums, sizeof sum.sums);
    }
    free(s.all);
    return failed;
}
