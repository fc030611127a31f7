/* CPU backend: embeddings, the cosine of two rows, losses. */
#include <math.h>
#include <string.h>

#include "cpu-internal.h"

void cpu_embed(struct backend *b, const float *table, const int32_t *ids, size_t n, int width,
               int dim, float *y)
{
    (void)b;
    memset(y, 0, n * (size_t)dim * sizeof *y);
    for (size_t r = 0; r < n; r++)
        for (int k = 0; k < width; k++) {
            int32_t id = ids[r * (size_t)width + (size_t)k];
            for (int d = 0; id >= 0 && d < dim; d++)
                y[r * (size_t)dim + (size_t)d] += table[(size_t)id * (size_t)dim + (size_t)d];
        }
}

/* Rows that share an id add up in the order of the batch: one thread. */
void cpu_embed_grad(struct backend *b, const float *dy, const int32_t *ids, size_t n, int width,
                    int dim, float *dtable)
{
    (void)b;
    for (size_t r = 0; r < n; r++)
        for (int k = 0; k < width; k++) {
            int32_t id = ids[r * (size_t)width + (size_t)k];
            for (int d = 0; id >= 0 && d < dim; d++)
                dtable[(size_t)id * (size_t)dim + (size_t)d] += dy[r * (size_t)dim + (size_t)d];
        }
}

struct cosine {
    float dot, p, q; /* p, q: lengths, never 0 */
};

static struct cosine cosine_of(const float *p, const float *q, int cols)
{
    double dot = 0, pp = 1e-12, qq = 1e-12;
    for (int i = 0; i < cols; i++) {
        dot += (double)p[i] * q[i];
        pp += (double)p[i] * p[i];
        qq += (double)q[i] * q[i];
    }
    return (struct cosine){(float)dot, (float)sqrt(pp), (float)sqrt(qq)};
}

void cpu_cosine(struct backend *b, const float *p, const float *q, size_t rows, int cols,
                float scale, float *y)
{
    (void)b;
    for (size_t r = 0; r < rows; r++) {
        struct cosine c = cosine_of(p + r * (size_t)cols, q + r * (size_t)cols, cols);
        y[r] = scale * c.dot / (c.p * c.q);
    }
}

void cpu_cosine_grad(struct backend *b, const float *p, const float *q, const float *dy,
                     size_t rows, int cols, float scale, float *dp, float *dq)
{
    (void)b;
    for (size_t r = 0; r < rows; r++) {
        size_t at = r * (size_t)cols;
        struct cosine c = cosine_of(p + at, q + at, cols);
        float cos = c.dot / (c.p * c.q), g = scale * dy[r];
        for (int i = 0; i < cols; i++, at++) {
            float u = p[at], v = q[at];
            dp[at] = g * (v / (c.p * c.q) - cos * u / (c.p * c.p));
            dq[at] = g * (u / (c.p * c.q) - cos * v / (c.q * c.q));
        }
    }
}

/* One row: its loss, its gradient, and whether the largest is the label's. */
static double softmax_row(const float *x, int label, int classes, float smooth, float *dx,
                          float *right)
{
    int best = 0;
    for (int i = 1; i < classes; i++)
        if (x[i] > x[best])
            best = i;
    double sum = 0, mean = 0;
    for (int i = 0; i < classes; i++) {
        sum += exp((double)x[i] - x[best]);
        mean += (double)x[i] - x[best];
    }
    double log_sum = log(sum), spread = (double)smooth / classes;
    for (int i = 0; i < classes; i++) {
        double target = spread + (i == label ? 1 - smooth : 0);
        dx[i] = (float)(exp((double)x[i] - x[best] - log_sum) - target);
    }
    *right = best == label ? 1 : 0;
    return log_sum - (1 - smooth) * ((double)x[label] - x[best]) - spread * mean;
}

void cpu_softmax_loss(struct backend *b, const float *x, const int32_t *labels, size_t rows,
                      int classes, float smooth, float *dx, float *sums)
{
    (void)b;
    double loss = 0;
    float right = 0;
    for (size_t r = 0; r < rows; r++) {
        float one;
        size_t at = r * (size_t)classes;
        loss += softmax_row(x + at, labels[r], classes, smooth, dx + at, &one);
        right += one;
    }
    sums[0] = (float)loss;
    sums[1] = right;
}

void cpu_square_loss(struct backend *b, const float *x, const float *target, size_t rows, float *dx,
                     float *sums)
{
    (void)b;
    double loss = 0;
    float right = 0;
    for (size_t r = 0; r < rows; r++) {
        dx[r] = x[r] - target[r];
        loss += 0.5 * (double)dx[r] * dx[r];
        right += fabsf(dx[r]) < 0.5f;
    }
    sums[0] = (float)loss;
    sums[1] = right;
}
