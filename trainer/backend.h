/*
 * Backend: where the numbers of a training step live and who computes them.
 *
 * One vtable, so that models, optimisers and checkpoints know no device. Memory comes from alloc()
 * and is the device's: only put() and get() move bytes between it and the host (on the CPU both are
 * a memcpy and a buffer may be read directly after sync()). Operations are queued in order and
 * return nothing: the first failure stays with the backend, and the next sync() returns it; what
 * was queued after it has no meaning. One thread calls a backend.
 *
 * Layouts: matrices are row-major; images are NHWC; filters are [K][R][S][C]. No operation adds to
 * its output unless it says so. All are deterministic: the same inputs, the same number of threads
 * and the same machine give the same bits.
 */
#ifndef SAMPAN_TRAIN_BACKEND_H
#define SAMPAN_TRAIN_BACKEND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "err.h"

struct conv_shape {
    int n, h, w, c; /* the input */
    int k, r, s;    /* filters: number, height, width */
    int stride, pad, out_h, out_w;
};

struct pool_shape {
    int n, h, w, c;
    int window, stride, pad, out_h, out_w;
};

/* Options of one update; `scale` turns a sum of gradients into their mean. */
struct update {
    float rate, momentum, decay, scale;
    float trust; /* LARS' coefficient; 0: plain SGD */
};

struct backend {
    const struct backend_ops *ops;
};

struct conv_plan; /* what a backend prepares for one shape */

struct backend_ops {
    const char *name;
    bool host; /* its memory is the host's: pointers may be read and written after sync() */
    void (*close)(struct backend *b);

    /* Zeroed memory for `n` floats (or 32-bit integers). ERR_LIMIT: the device has no room. */
    int (*alloc)(struct backend *b, size_t n, void **ret, struct err *err);
    void (*release)(struct backend *b, void *p);
    void (*put)(struct backend *b, void *to, const void *from_host, size_t bytes);
    void (*get)(struct backend *b, void *to_host, const void *from, size_t bytes);
    /* Waits for all that was queued, and returns the first failure among it. */
    int (*sync)(struct backend *b, struct err *err);

    void (*fill)(struct backend *b, float *y, size_t n, float value);
    void (*copy)(struct backend *b, float *y, const float *x, size_t n);
    void (*axpy)(struct backend *b, float *y, float a, const float *x, size_t n); /* y += a x */
    void (*add)(struct backend *b, float *y, const float *p, const float *q, size_t n);

    /* c[m][n] = op(a) op(b) + beta c, where op transposes if asked to. */
    void (*gemm)(struct backend *b, bool ta, bool tb, int m, int n, int k, const float *a,
                 const float *bb, float beta, float *c);
    void (*bias)(struct backend *b, float *y, const float *bias, size_t rows, size_t cols);
    void (*bias_grad)(struct backend *b, float *db, const float *dy, size_t rows, size_t cols);
    void (*relu)(struct backend *b, float *y, size_t n);                       /* in place */
    void (*relu_grad)(struct backend *b, float *dy, const float *y, size_t n); /* in place */

    /* A plan serves one shape and lives as long as the backend. NULL: the error is the backend's.
     */
    struct conv_plan *(*conv_plan)(struct backend *b, const struct conv_shape *s);
    void (*conv)(struct backend *b, struct conv_plan *p, const float *x, const float *w, float *y);
    void (*conv_grad_x)(struct backend *b, struct conv_plan *p, const float *w, const float *dy,
                        float *dx);
    void (*conv_grad_w)(struct backend *b, struct conv_plan *p, const float *x, const float *dy,
                        float *dw);

    /* Batch normalisation over rows of c channels. `saved`: 2 c floats (mean, 1/deviation) that
     * the gradient needs; `stats`: 2 c floats, this batch's mean and unbiased variance. */
    void (*norm)(struct backend *b, const float *x, const float *gamma, const float *beta,
                 size_t rows, size_t c, float *y, float *saved, float *stats);
    void (*norm_eval)(struct backend *b, const float *x, const float *gamma, const float *beta,
                      const float *mean, const float *variance, size_t rows, size_t c, float *y);
    void (*norm_grad)(struct backend *b, const float *x, const float *gamma, const float *saved,
                      const float *dy, size_t rows, size_t c, float *dx, float *dgamma,
                      float *dbeta);

    /* `from`: for each output the place of its maximum in the input. */
    void (*maxpool)(struct backend *b, const struct pool_shape *s, const float *x, float *y,
                    int32_t *from);
    void (*maxpool_grad)(struct backend *b, const struct pool_shape *s, const float *dy,
                         const int32_t *from, float *dx);
    void (*meanpool)(struct backend *b, int n, int pixels, int c, const float *x, float *y);
    void (*meanpool_grad)(struct backend *b, int n, int pixels, int c, const float *dy, float *dx);

    /* Row i of y: the sum of the table's rows ids[i][0..width), of which negative ones are none. */
    void (*embed)(struct backend *b, const float *table, const int32_t *ids, size_t n, int width,
                  int dim, float *y);
    /* Adds to dtable. */
    void (*embed_grad)(struct backend *b, const float *dy, const int32_t *ids, size_t n, int width,
                       int dim, float *dtable);
    /* Copies columns: y[r][to..to+cols) = x[r][from..from+cols). */
    void (*columns)(struct backend *b, float *y, int y_cols, int to, const float *x, int x_cols,
                    int from, int cols, size_t rows);
    /* y[i] = scale * cos(p[i], q[i]), and its gradients. */
    void (*cosine)(struct backend *b, const float *p, const float *q, size_t rows, int cols,
                   float scale, float *y);
    void (*cosine_grad)(struct backend *b, const float *p, const float *q, const float *dy,
                        size_t rows, int cols, float scale, float *dp, float *dq);

    /* The loss summed over the rows in sums[0], the rows judged right in sums[1], and the gradient
     * of that sum. `smooth`: the share of a label that is spread over all classes. */
    void (*softmax_loss)(struct backend *b, const float *x, const int32_t *labels, size_t rows,
                         int classes, float smooth, float *dx, float *sums);
    /* Half the square of x - target, summed; sums[1]: rows nearer than 0.5. */
    void (*square_loss)(struct backend *b, const float *x, const float *target, size_t rows,
                        float *dx, float *sums);

    /* v = momentum v + (scale g + decay w) [times LARS' ratio]; w -= rate v */
    void (*update)(struct backend *b, float *w, const float *g, float *v, size_t n,
                   const struct update *u);
    void (*blend)(struct backend *b, float *y, const float *x, size_t n, float keep);
    /* y = keep y + (1 - keep) x */
};

/* The CPU: OpenBLAS for matrices, oneDNN for convolutions, loops on `threads` threads. */
int backend_cpu(struct backend **ret, int threads, struct err *err);
/* A GPU of NVIDIA, whose libraries are looked for at run time. ERR_NOT_FOUND says which is missing
 * and what to do. */
int backend_cuda(struct backend **ret, int device, struct err *err);

/* "auto", "cpu" or "cuda"; `why` (may be NULL) gets the reason when auto chose the CPU. */
int backend_open(struct backend **ret, const char *device, int threads, char *why, size_t why_len,
                 struct err *err);
void backend_close(struct backend *b);
static inline void cleanup_backend_fn(struct backend **b)
{
    backend_close(*b);
}
#define cleanup_backend CLEANUP(cleanup_backend_fn)

#endif
