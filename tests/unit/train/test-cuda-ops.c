/* The GPU backend's operations on values one by one, against plain sums in double: shapes that fill
 * packs of columns and shapes that do not, from addresses where a pack may begin and others. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>

#include "cuda.h"
#include "mem.h"

struct shape {
    size_t rows, cols, off; /* off: values before the first, so that it lies at no multiple of 16 */
};

static const struct shape shapes[] = {
    {1, 1, 0},   {2, 3, 0},    {3, 8, 1},    {7, 8, 0},     {130, 24, 0},
    {9, 257, 0}, {65, 264, 0}, {65, 264, 3}, {2100, 40, 0}, {40, 600, 0},
};

struct bench {
    struct backend *b;
    bool half;
    size_t n, off;
};

static float number(size_t i, unsigned salt)
{
    return (float)((i * 2654435761u + salt * 40503u) >> 7 & 1023) / 256 - 2;
}

/* What bfloat16 keeps of a number: these are short enough to be kept whole. */
static float *numbers(size_t n, unsigned salt)
{
    float *x = xmalloc(n * sizeof *x);
    for (size_t i = 0; i < n; i++)
        x[i] = roundf(number(i, salt) * 32) / 32;
    return x;
}

static float *values(const struct bench *t, const float *host)
{
    struct err err = {0};
    float *p;
    cr_assert_eq(t->b->ops->alloc_values(t->b, t->n + t->off, &p, &err), 0, "%s", err.msg);
    p = (float *)((char *)p + t->off * (t->half ? 2 : 4));
    t->b->ops->put(t->b, p, host, t->n * sizeof *host);
    return p;
}

static float *floats(const struct bench *t, const float *host, size_t n)
{
    struct err err = {0};
    void *p;
    cr_assert_eq(t->b->ops->alloc(t->b, n, &p, &err), 0, "%s", err.msg);
    if (host)
        t->b->ops->put(t->b, p, host, n * sizeof *host);
    return p;
}

static void expect(const struct bench *t, const char *what, const float *device, const double *want,
                   size_t n, double bound)
{
    struct err err = {0};
    float *got = xmalloc(n * sizeof *got);
    size_t wrong = 0, first = 0;
    t->b->ops->get(t->b, got, device, n * sizeof *got);
    cr_assert_eq(t->b->ops->sync(t->b, &err), 0, "%s", err.msg);
    for (size_t i = 0; i < n; i++)
        if (!(fabs(got[i] - want[i]) <= bound * (1 + fabs(want[i])))) {
            first = wrong++ ? first : i;
        }
    cr_expect_eq(wrong, 0, "%s of %zu values, off %zu, %s: %zu wrong, number %zu is %.7g, not %.7g",
                 what, t->n, t->off, t->half ? "bf16" : "fp32", wrong, first, got[first],
                 want[first]);
    free(got);
}

static void elementwise(const struct bench *t, const float *x, const float *y)
{
    const struct backend_ops *ops = t->b->ops;
    double *want = xmalloc(t->n * sizeof *want), bound = t->half ? 4e-3 : 1e-6;
    float *p = values(t, x), *q = values(t, y), *sum = values(t, x), *grad = values(t, y);
    for (int relu = 0; relu < 2; relu++) {
        ops->add(t->b, sum, p, q, t->n, relu);
        for (size_t i = 0; i < t->n; i++)
            want[i] = relu && x[i] + y[i] < 0 ? 0 : (double)x[i] + y[i];
        expect(t, relu ? "add and relu" : "add", sum, want, t->n, bound);
    }
    ops->axpy(t->b, q, 0.5f, p, t->n);
    for (size_t i = 0; i < t->n; i++)
        want[i] = y[i] + 0.5 * x[i];
    expect(t, "axpy", q, want, t->n, bound);
    ops->relu(t->b, p, t->n);
    for (size_t i = 0; i < t->n; i++)
        want[i] = x[i] < 0 ? 0 : x[i];
    expect(t, "relu", p, want, t->n, 0);
    ops->relu_grad(t->b, grad, p, t->n);
    for (size_t i = 0; i < t->n; i++)
        want[i] = x[i] > 0 ? y[i] : 0;
    expect(t, "relu_grad", grad, want, t->n, 0);
    free(want);
}

/* Mean and variance of a column. */
static void moments(const float *x, const struct shape *s, size_t col, double *mean, double *var)
{
    double sum = 0, square = 0;
    for (size_t r = 0; r < s->rows; r++)
        sum += x[r * s->cols + col];
    *mean = sum / (double)s->rows;
    for (size_t r = 0; r < s->rows; r++)
        square += pow(x[r * s->cols + col] - *mean, 2);
    *var = square / (double)s->rows;
}

static void normalised(const struct bench *t, const struct shape *s, const float *x,
                       const float *dy)
{
    const struct backend_ops *ops = t->b->ops;
    size_t c = s->cols;
    double *y = xmalloc(t->n * sizeof *y), *dx = xmalloc(t->n * sizeof *dx);
    double *dgamma = xcalloc(c, sizeof *dgamma), *dbeta = xcalloc(c, sizeof *dbeta);
    double *stats = xmalloc(2 * c * sizeof *stats), *biases = xcalloc(c, sizeof *biases);
    float *gamma = numbers(c, 5), *beta = numbers(c, 6);
    for (size_t k = 0; k < c; k++) {
        double mean, var, sum = 0, slope = 0;
        moments(x, s, k, &mean, &var);
        double inverse = 1 / sqrt(var + 1e-5);
        stats[k] = mean;
        stats[c + k] = s->rows > 1 ? var * (double)s->rows / (double)(s->rows - 1) : var;
        for (size_t i = k; i < t->n; i += c) {
            y[i] = gamma[k] * (x[i] - mean) * inverse + beta[k];
            sum += dy[i];
            slope += dy[i] * (x[i] - mean) * inverse;
        }
        dgamma[k] = slope;
        dbeta[k] = biases[k] = sum;
        for (size_t i = k; i < t->n; i += c)
            dx[i] = gamma[k] * inverse *
                    (dy[i] - (sum + (x[i] - mean) * inverse * slope) / (double)s->rows);
    }
    float *in = values(t, x), *out = values(t, x), *back = values(t, dy), *to = values(t, x);
    float *g = floats(t, gamma, c), *b = floats(t, beta, c), *saved = floats(t, NULL, 2 * c);
    float *seen = floats(t, NULL, 2 * c), *dg = floats(t, NULL, c), *db = floats(t, NULL, c);
    /* One row has no deviation: its gradient is what is left of numbers that cancel. */
    double bound = t->half ? 1.2e-2 : s->rows > 1 ? 1e-5 : 2e-3;
    ops->norm(t->b, in, g, b, s->rows, c, false, out, saved, seen);
    expect(t, "norm", out, y, t->n, bound);
    expect(t, "its mean and variance", seen, stats, 2 * c, 1e-5);
    for (size_t i = 0; i < t->n; i++)
        y[i] = gamma[i % c] * (x[i] - stats[i % c]) / sqrt(stats[c + i % c] + 1e-5) + beta[i % c];
    ops->norm_eval(t->b, in, g, b, seen, seen + c, s->rows, c, false, out);
    expect(t, "norm_eval", out, y, t->n, bound);
    for (size_t i = 0; i < t->n; i++)
        y[i] = y[i] < 0 ? 0 : y[i];
    ops->norm_eval(t->b, in, g, b, seen, seen + c, s->rows, c, true, out);
    expect(t, "norm_eval and relu", out, y, t->n, bound);
    ops->norm_grad(t->b, in, g, saved, back, s->rows, c, to, dg, db);
    expect(t, "norm_grad", to, dx, t->n, bound);
    expect(t, "gamma's gradient", dg, dgamma, c, 1e-4);
    expect(t, "beta's gradient", db, dbeta, c, 1e-4);
    ops->bias_grad(t->b, db, back, s->rows, c);
    expect(t, "bias_grad", db, biases, c, 1e-4);
    free(y);
    free(dx);
    free(dgamma);
    free(dbeta);
    free(stats);
    free(biases);
    free(gamma);
    free(beta);
}

static struct bench open_bench(bool half)
{
    struct err err = {0};
    struct cuda_options o = {.libs = fake_path(),
                             .precision = half ? PRECISION_BF16 : PRECISION_FP32};
    struct bench t = {.half = half};
    cr_assert_eq(backend_cuda(&t.b, &o, &err), 0, "%s", err.msg);
    return t;
}

static void close_bench(struct bench *t)
{
    backend_close(t->b);
    cr_expect_eq(fake_state()->wrong, 0, "a call with a wrong address");
}

Test(cuda_ops, values_of_any_shape_and_place)
{
    for (int half = 0; FIBERS && half < 2; half++)
        for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
            const struct shape *s = &shapes[i];
            struct bench t = open_bench(half);
            t.n = s->rows * s->cols;
            t.off = s->off;
            float *x = numbers(t.n, 1), *y = numbers(t.n, 2);
            elementwise(&t, x, y);
            normalised(&t, s, x, y);
            close_bench(&t);
            free(x);
            free(y);
        }
}

/* --- pooling ---------------------------------------------------------------------------------- */

/* The first of the largest in each window; its gradient goes there. */
static void pooled(const struct pool_shape *s, const float *x, const float *dy, double *y,
                   double *dx)
{
    for (int i = 0; i < s->n * s->out_h * s->out_w * s->c; i++) {
        int c = i % s->c, ow = i / s->c % s->out_w, oh = i / s->c / s->out_w % s->out_h;
        int image = i / s->c / s->out_w / s->out_h, best = -1;
        for (int k = 0; k < s->window * s->window; k++) {
            int h = oh * s->stride - s->pad + k / s->window;
            int w = ow * s->stride - s->pad + k % s->window;
            int at = ((image * s->h + h) * s->w + w) * s->c + c;
            if (h >= 0 && w >= 0 && h < s->h && w < s->w && (best < 0 || x[at] > x[best]))
                best = at;
        }
        y[i] = x[best];
        dx[best] += dy[i];
    }
}

static void pool(bool half, int channels, size_t off)
{
    struct pool_shape s = {.n = 2,
                           .h = 7,
                           .w = 5,
                           .c = channels,
                           .window = 3,
                           .stride = 2,
                           .pad = 1,
                           .out_h = 4,
                           .out_w = 3};
    size_t n_in = (size_t)(s.n * s.h * s.w * s.c), n_out = (size_t)(s.n * s.out_h * s.out_w * s.c);
    struct bench t = open_bench(half);
    double *y = xmalloc(n_out * sizeof *y), *dx = xcalloc(n_in, sizeof *dx);
    float *x = numbers(n_in, 3), *dy = numbers(n_out, 4);
    pooled(&s, x, dy, y, dx);
    t.off = off;
    t.n = n_in;
    float *in = values(&t, x), *to = values(&t, x);
    t.n = n_out;
    float *out = values(&t, dy), *back = values(&t, dy);
    int32_t *from = (int32_t *)floats(&t, NULL, n_out);
    t.b->ops->maxpool(t.b, &s, in, out, from);
    expect(&t, "maxpool", out, y, n_out, 0);
    t.b->ops->maxpool_grad(t.b, &s, back, from, to);
    expect(&t, "maxpool_grad", to, dx, n_in, half ? 4e-3 : 1e-6);
    close_bench(&t);
    free(x);
    free(y);
    free(dx);
    free(dy);
}

Test(cuda_ops, pooling_of_any_number_of_channels)
{
    static const int channels[] = {1, 3, 8, 16, 20};
    for (int half = 0; FIBERS && half < 2; half++)
        for (size_t i = 0; i < sizeof channels / sizeof channels[0]; i++)
            for (size_t off = 0; off < 2; off++)
                pool(half, channels[i], off);
}
