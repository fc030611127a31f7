/* CPU backend: batch normalisation and pooling over NHWC. */
#include <math.h>
#include <string.h>

#include "cpu-internal.h"
#include "mem.h"

#define EPSILON 1e-5f

/* out[c] = the parts' sums times `scale`. */
static void merge(const float *parts, size_t c, float scale, float *out)
{
    for (size_t i = 0; i < c; i++) {
        double sum = 0;
        for (int p = 0; p < CPU_PARTS; p++)
            sum += parts[(size_t)p * c + i];
        out[i] = (float)sum * scale;
    }
}

static void channel_means(struct cpu *cpu, const float *x, size_t rows, size_t c, float *mean)
{
    float *parts = cpu_parts(cpu, c);
#pragma omp parallel for
    for (int p = 0; p < CPU_PARTS; p++) {
        size_t r, end;
        float *part = parts + (size_t)p * c;
        for (cpu_part(rows, p, &r, &end); r < end; r++)
            for (size_t i = 0; i < c; i++)
                part[i] += x[r * c + i];
    }
    merge(parts, c, 1.0f / (float)rows, mean);
}

static void channel_variances(struct cpu *cpu, const float *x, const float *mean, size_t rows,
                              size_t c, float *variance)
{
    float *parts = cpu_parts(cpu, c);
#pragma omp parallel for
    for (int p = 0; p < CPU_PARTS; p++) {
        size_t r, end;
        float *part = parts + (size_t)p * c;
        for (cpu_part(rows, p, &r, &end); r < end; r++)
            for (size_t i = 0; i < c; i++) {
                float d = x[r * c + i] - mean[i];
                part[i] += d * d;
            }
    }
    merge(parts, c, 1.0f / (float)rows, variance);
}

/* y = x * a + b, each channel its own. */
static void scale_shift(const float *x, const float *a, const float *b, size_t rows, size_t c,
                        bool relu, float *y)
{
    float least = relu_least(relu);
#pragma omp parallel for
    for (size_t r = 0; r < rows; r++)
        for (size_t i = 0; i < c; i++) {
            float v = x[r * c + i] * a[i] + b[i];
            y[r * c + i] = v < least ? least : v;
        }
}

void cpu_norm(struct backend *b, const float *x, const float *gamma, const float *beta, size_t rows,
              size_t c, bool relu, float *y, float *saved, float *stats)
{
    if (rows == 0)
        return;
    float *mean = saved, *inverse = saved + c, *variance = stats + c;
    cleanup_free float *line = xmalloc(2 * c * sizeof *line);
    channel_means(cpu_of(b), x, rows, c, mean);
    channel_variances(cpu_of(b), x, mean, rows, c, variance);
    for (size_t i = 0; i < c; i++) {
        inverse[i] = 1.0f / sqrtf(variance[i] + EPSILON);
        line[i] = gamma[i] * inverse[i];
        line[c + i] = beta[i] - mean[i] * line[i];
        stats[i] = mean[i];
        variance[i] *= rows > 1 ? (float)rows / (float)(rows - 1) : 1;
    }
    scale_shift(x, line, line + c, rows, c, relu, y);
}

void cpu_norm_eval(struct backend *b, const float *x, const float *gamma, const float *beta,
                   const float *mean, const float *variance, size_t rows, size_t c, bool relu,
                   float *y)
{
    (void)b;
    cleanup_free float *line = xmalloc(2 * c * sizeof *line);
    for (size_t i = 0; i < c; i++) {
        line[i] = gamma[i] / sqrtf(variance[i] + EPSILON);
        line[c + i] = beta[i] - mean[i] * line[i];
    }
    scale_shift(x, line, line + c, rows, c, relu, y);
}

/* dgamma = sum dy (x - mean) / deviation, dbeta = sum dy. */
static void norm_sums(struct cpu *cpu, const float *x, const float *saved, const float *dy,
                      size_t rows, size_t c, float *dgamma, float *dbeta)
{
    const float *mean = saved, *inverse = saved + c;
    float *parts = cpu_parts(cpu, 2 * c);
#pragma omp parallel for
    for (int p = 0; p < CPU_PARTS; p++) {
        size_t r, end;
        float *pg = parts + (size_t)p * c, *pb = parts + (size_t)(CPU_PARTS + p) * c;
        for (cpu_part(rows, p, &r, &end); r < end; r++)
            for (size_t i = 0; i < c; i++) {
                float d = dy[r * c + i];
                pg[i] += d * (x[r * c + i] - mean[i]) * inverse[i];
                pb[i] += d;
            }
    }
    merge(parts, c, 1, dgamma);
    merge(parts + CPU_PARTS * c, c, 1, dbeta);
}

void cpu_norm_grad(struct backend *b, const float *x, const float *gamma, const float *saved,
                   const float *dy, size_t rows, size_t c, float *dx, float *dgamma, float *dbeta)
{
    const float *mean = saved, *inverse = saved + c;
    norm_sums(cpu_of(b), x, saved, dy, rows, c, dgamma, dbeta);
    float n = 1.0f / (float)(rows ? rows : 1);
#pragma omp parallel for
    for (size_t r = 0; r < rows; r++)
        for (size_t i = 0; i < c; i++) {
            float xhat = (x[r * c + i] - mean[i]) * inverse[i];
            dx[r * c + i] =
                gamma[i] * inverse[i] * (dy[r * c + i] - n * (dbeta[i] + xhat * dgamma[i]));
        }
}

/* --- pooling ---------------------------------------------------------------------------------- */

/* The maximum of one window, all channels. */
static void pool_window(const struct pool_shape *s, const float *x, int image, int oh, int ow,
                        float *y, int32_t *from)
{
    int h0 = oh * s->stride - s->pad, w0 = ow * s->stride - s->pad;
    for (int i = 0; i < s->c; i++)
        from[i] = -1;
    for (int h = h0 < 0 ? 0 : h0; h < h0 + s->window && h < s->h; h++)
        for (int w = w0 < 0 ? 0 : w0; w < w0 + s->window && w < s->w; w++) {
            int32_t at = ((image * s->h + h) * s->w + w) * s->c;
            for (int i = 0; i < s->c; i++)
                if (from[i] < 0 || !(x[at + i] <= y[i])) {
                    y[i] = x[at + i];
                    from[i] = at + i;
                }
        }
}

void cpu_maxpool(struct backend *b, const struct pool_shape *s, const float *x, float *y,
                 int32_t *from)
{
    (void)b;
#pragma omp parallel for
    for (int row = 0; row < s->n * s->out_h; row++)
        for (int ow = 0; ow < s->out_w; ow++) {
            size_t at = ((size_t)row * (size_t)s->out_w + (size_t)ow) * (size_t)s->c;
            pool_window(s, x, row / s->out_h, row % s->out_h, ow, y + at, from + at);
        }
}

void cpu_maxpool_grad(struct backend *b, const struct pool_shape *s, const float *dy,
                      const int32_t *from, float *dx)
{
    (void)b;
    size_t per_image = (size_t)s->out_h * (size_t)s->out_w * (size_t)s->c;
    memset(dx, 0, (size_t)s->n * (size_t)s->h * (size_t)s->w * (size_t)s->c * sizeof *dx);
#pragma omp parallel for
    for (int image = 0; image < s->n; image++)
        for (size_t i = (size_t)image * per_image; i < (size_t)(image + 1) * per_image; i++)
            dx[from[i]] += dy[i];
}

void cpu_meanpool(struct backend *b, int n, int pixels, int c, const float *x, float *y)
{
    (void)b;
    float scale = 1.0f / (float)pixels;
#pragma omp parallel for
    for (int image = 0; image < n; image++) {
        float *out = y + (size_t)image * (size_t)c;
        const float *in = x + (size_t)image * (size_t)pixels * (size_t)c;
        memset(out, 0, (size_t)c * sizeof *out);
        for (int p = 0; p < pixels; p++)
            for (int i = 0; i < c; i++)
                out[i] += in[(size_t)p * (size_t)c + (size_t)i];
        for (int i = 0; i < c; i++)
            out[i] *= scale;
    }
}

void cpu_meanpool_grad(struct backend *b, int n, int pixels, int c, const float *dy, float *dx)
{
    (void)b;
    float scale = 1.0f / (float)pixels;
#pragma omp parallel for
    for (int image = 0; image < n; image++)
        for (int p = 0; p < pixels; p++)
            for (int i = 0; i < c; i++)
                dx[((size_t)image * (size_t)pixels + (size_t)p) * (size_t)c + (size_t)i] =
                    scale * dy[(size_t)image * (size_t)c + (size_t)i];
}
