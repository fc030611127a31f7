/* The CPU backend: memory, matrices by OpenBLAS, element-wise loops, updates. */
#include <cblas.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#ifdef _OPENMP
#include <omp.h>
#endif

#include "conf.h"
#include "cpu-internal.h"
#include "mem.h"

#define ALIGN 64
/* Below this many elements a loop is not worth waking other threads. */
#define WORTH 16384

static void cpu_close(struct backend *b)
{
    struct cpu *c = cpu_of(b);
    cpu_conv_free(c->conv);
    free(c->parts);
    free(c);
}

/* Of OpenMP's settings each thread has its own. */
static void cpu_enter(struct backend *b)
{
#ifdef _OPENMP
    omp_set_num_threads(cpu_of(b)->threads);
#else
    (void)b;
#endif
}

static void cpu_place(const struct backend *b, char *out, size_t size)
{
    (void)b;
    snprintf(out, size, "/device:CPU:0");
}

static size_t cpu_value_size(const struct backend *b)
{
    (void)b;
    return sizeof(float);
}

static int cpu_alloc(struct backend *b, size_t n, void **ret, struct err *err)
{
    (void)b;
    size_t bytes = (n * sizeof(float) + ALIGN - 1) / ALIGN * ALIGN;
    if (n > SIZE_MAX / sizeof(float) / 2)
        return err_set(err, ERR_LIMIT, "memory: %zu numbers are more than there can be", n);
    void *p = aligned_alloc(ALIGN, bytes ? bytes : ALIGN);
    if (!p) {
        char size[32];
        conf_format_size(bytes, size);
        return err_set(err, ERR_LIMIT, "memory: no room for %s (a smaller --batch_size needs less)",
                       size);
    }
    memset(p, 0, bytes ? bytes : ALIGN);
    *ret = p;
    return 0;
}

static int cpu_alloc_values(struct backend *b, size_t n, float **ret, struct err *err)
{
    void *p = NULL;
    if (cpu_alloc(b, n, &p, err))
        return -1;
    *ret = p;
    return 0;
}

static void cpu_describe(const struct backend *b, char *out, size_t size)
{
    int threads = ((const struct cpu *)b)->threads;
    snprintf(out, size, "cpu: %d thread%s, fp32", threads, threads == 1 ? "" : "s");
}

static void cpu_release(struct backend *b, void *p)
{
    (void)b;
    free(p);
}

static void cpu_put(struct backend *b, void *to, const void *from, size_t bytes)
{
    (void)b;
    if (bytes)
        memcpy(to, from, bytes);
}

static int cpu_sync(struct backend *b, struct err *err)
{
    struct cpu *c = cpu_of(b);
    if (c->err.class == ERR_NONE)
        return 0;
    if (err)
        *err = c->err;
    return -1;
}

float *cpu_parts(struct cpu *c, size_t cols)
{
    if (cols > c->parts_cols) {
        free(c->parts);
        c->parts = xmalloc(CPU_PARTS * cols * sizeof *c->parts);
        c->parts_cols = cols;
    }
    memset(c->parts, 0, CPU_PARTS * cols * sizeof *c->parts);
    return c->parts;
}

/* --- element-wise ----------------------------------------------------------------------------- */

static void cpu_fill(struct backend *b, float *y, size_t n, float value)
{
    (void)b;
    for (size_t i = 0; i < n; i++)
        y[i] = value;
}

static void cpu_copy(struct backend *b, float *y, const float *x, size_t n)
{
    cpu_put(b, y, x, n * sizeof *y);
}

static void cpu_axpy(struct backend *b, float *y, float a, const float *x, size_t n)
{
    (void)b;
#pragma omp parallel for simd if (n > WORTH)
    for (size_t i = 0; i < n; i++)
        y[i] += a * x[i];
}

static void cpu_add(struct backend *b, float *y, const float *p, const float *q, size_t n,
                    bool relu)
{
    (void)b;
    float least = relu_least(relu);
#pragma omp parallel for simd if (n > WORTH)
    for (size_t i = 0; i < n; i++) {
        float sum = p[i] + q[i];
        y[i] = sum < least ? least : sum;
    }
}

static void cpu_relu(struct backend *b, float *y, size_t n)
{
    (void)b;
#pragma omp parallel for simd if (n > WORTH)
    for (size_t i = 0; i < n; i++)
        y[i] = y[i] < 0 ? 0 : y[i]; /* a NaN stays one */
}

static void cpu_relu_grad(struct backend *b, float *dy, const float *y, size_t n)
{
    (void)b;
#pragma omp parallel for simd if (n > WORTH)
    for (size_t i = 0; i < n; i++)
        dy[i] = y[i] > 0 ? dy[i] : 0;
}

static void cpu_blend(struct backend *b, float *y, const float *x, size_t n, float keep)
{
    (void)b;
#pragma omp parallel for simd if (n > WORTH)
    for (size_t i = 0; i < n; i++)
        y[i] = keep * y[i] + (1 - keep) * x[i];
}

static void cpu_columns(struct backend *b, float *y, int y_cols, int to, const float *x, int x_cols,
                        int from, int cols, size_t rows)
{
    (void)b;
    for (size_t r = 0; r < rows; r++)
        memcpy(y + r * (size_t)y_cols + to, x + r * (size_t)x_cols + from,
               (size_t)cols * sizeof *y);
}

/* --- matrices --------------------------------------------------------------------------------- */

static void cpu_gemm(struct backend *b, bool ta, bool tb, int m, int n, int k, const float *a,
                     const float *bb, float beta, float *c)
{
    (void)b;
    if (m == 0 || n == 0)
        return;
    cblas_sgemm(CblasRowMajor, ta ? CblasTrans : CblasNoTrans, tb ? CblasTrans : CblasNoTrans, m, n,
                k, 1.0f, a, ta ? m : k, bb, tb ? k : n, beta, c, n);
}

static void cpu_bias(struct backend *b, float *y, const float *bias, size_t rows, size_t cols)
{
    (void)b;
#pragma omp parallel for if (rows * cols > WORTH)
    for (size_t r = 0; r < rows; r++)
        for (size_t i = 0; i < cols; i++)
            y[r * cols + i] += bias[i];
}

static void cpu_bias_grad(struct backend *b, float *db, const float *dy, size_t rows, size_t cols)
{
    float *parts = cpu_parts(cpu_of(b), cols);
#pragma omp parallel for if (rows * cols > WORTH)
    for (int p = 0; p < CPU_PARTS; p++) {
        size_t r, end;
        cpu_part(rows, p, &r, &end);
        for (; r < end; r++)
            for (size_t i = 0; i < cols; i++)
                parts[(size_t)p * cols + i] += dy[r * cols + i];
    }
    memset(db, 0, cols * sizeof *db);
    for (int p = 0; p < CPU_PARTS; p++)
        for (size_t i = 0; i < cols; i++)
            db[i] += parts[(size_t)p * cols + i];
}

/* --- updates ---------------------------------------------------------------------------------- */

/* The rate of one parameter by LARS: trust |w| / (|g| + decay |w|); 1 where either is nothing. */
static float lars_ratio(const float *w, const float *g, size_t n, const struct update *u)
{
    double ww = 0, gg = 0;
    for (size_t i = 0; i < n; i++) {
        double scaled = (double)u->scale * g[i];
        ww += (double)w[i] * w[i];
        gg += scaled * scaled;
    }
    ww = sqrt(ww);
    gg = sqrt(gg);
    return ww > 0 && gg > 0 ? (float)(u->trust * ww / (gg + u->decay * ww)) : 1;
}

static void cpu_rates(struct backend *b, const struct update *u)
{
    cpu_of(b)->rates = *u;
}

static void cpu_update(struct backend *b, float *w, const float *g, float *v, size_t n, bool plain)
{
    struct update u = cpu_of(b)->rates;
    bool steps = u.trust > 0;
    if (plain)
        u.decay = u.trust = 0;
    float by = u.trust > 0 ? lars_ratio(w, g, n, &u) : 1, rate = steps ? 1 : u.rate;
    float momentum = u.momentum, decay = u.decay, scale = u.scale;
    by *= steps ? u.rate : 1;
#pragma omp parallel for simd if (n > WORTH)
    for (size_t i = 0; i < n; i++) {
        v[i] = momentum * v[i] + by * (scale * g[i] + decay * w[i]);
        w[i] -= rate * v[i];
    }
}

static void cpu_track(struct backend *b, float *y, const float *g, size_t n, float keep)
{
    float scale = cpu_of(b)->rates.scale;
    for (size_t i = 0; i < n; i++)
        y[i] = keep * y[i] + (1 - keep) * (scale * g[i]);
}

static const struct backend_ops ops = {
    .name = "cpu",
    .host = true,
    .close = cpu_close,
    .enter = cpu_enter,
    .describe = cpu_describe,
    .place = cpu_place,
    .alloc = cpu_alloc,
    .alloc_values = cpu_alloc_values,
    .value_size = cpu_value_size,
    .release = cpu_release,
    .put = cpu_put,
    .get = cpu_put,
    .sync = cpu_sync,
    .fill = cpu_fill,
    .copy = cpu_copy,
    .axpy = cpu_axpy,
    .add = cpu_add,
    .gemm = cpu_gemm,
    .bias = cpu_bias,
    .bias_grad = cpu_bias_grad,
    .relu = cpu_relu,
    .relu_grad = cpu_relu_grad,
    .conv_plan = cpu_conv_plan,
    .conv = cpu_conv,
    .conv_grad_x = cpu_conv_grad_x,
    .conv_grad_w = cpu_conv_grad_w,
    .norm = cpu_norm,
    .norm_eval = cpu_norm_eval,
    .norm_grad = cpu_norm_grad,
    .maxpool = cpu_maxpool,
    .maxpool_grad = cpu_maxpool_grad,
    .meanpool = cpu_meanpool,
    .meanpool_grad = cpu_meanpool_grad,
    .embed = cpu_embed,
    .embed_grad = cpu_embed_grad,
    .columns = cpu_columns,
    .cosine = cpu_cosine,
    .cosine_grad = cpu_cosine_grad,
    .softmax_loss = cpu_softmax_loss,
    .square_loss = cpu_square_loss,
    .rates = cpu_rates,
    .update = cpu_update,
    .track = cpu_track,
    .blend = cpu_blend,
};

int backend_cpu(struct backend **ret, int threads, struct err *err)
{
    if (threads < 1 || threads > 1024)
        return err_set(err, ERR_USAGE, "--trainer_count: %d: want 1 to 1024 threads", threads);
    openblas_set_num_threads(threads);
    struct cpu *c = xcalloc(1, sizeof *c);
    c->base.ops = &ops;
    c->threads = threads;
    cpu_enter(&c->base);
    *ret = &c->base;
    return 0;
}
