/*
 * Backend: where the numbers of a training step live and who computes them.
 *
 * One vtable, so that models, optimisers and checkpoints know no device. Memory comes from alloc()
 * and is the device's: only put() and get() move bytes between it and the host (on the CPU both are
 * a memcpy and a buffer may be read directly after sync()). Operations are queued in order and
 * return nothing: the first failure stays with the backend, and the next sync() returns it; what
 * was queued after it has no meaning. One thread at a time calls a backend; one that did not open
 * it begins with enter().
 *
 * Layouts: matrices are row-major; images are NHWC; filters are [K][R][S][C]. No operation adds to
 * its output unless it says so. All are deterministic: the same inputs, the same number of threads
 * and the same machine give the same bits.
 */
#ifndef SAMPAN_TRAIN_BACKEND_H
#define SAMPAN_TRAIN_BACKEND_H

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "err.h"

#define BACKEND_ID_LEN 128

struct conv_shape {
    int n, h, w, c; /* the input */
    int k, r, s;    /* filters: number, height, width */
    int stride, pad, out_h, out_w;
};

struct pool_shape {
    int n, h, w, c;
    int window, stride, pad, out_h, out_w;
};

/* Options of updates; `scale` turns a sum of gradients into their mean. */
struct update {
    float rate, momentum, decay, scale;
    float trust; /* LARS' coefficient; 0: plain SGD */
};

/* What kind of work a backend may record, to queue it at once the next time. */
enum backend_work { WORK_QUEUED, WORK_WANTED, WORK_RECORDING };

struct backend {
    const struct backend_ops *ops;
};

struct conv_plan; /* what a backend prepares for one shape */

struct backend_ops {
    const char *name;
    bool host; /* its memory is the host's: pointers may be read and written after sync() */
    void (*close)(struct backend *b);
    /* What is a thread's own is made this one's, too: the device, how many threads compute. */
    void (*enter)(struct backend *b);
    void (*describe)(const struct backend *b, char *out, size_t size);
    /* The device as graphs name it: "/device:CPU:0". */
    void (*place)(const struct backend *b, char *out, size_t size);

    /* Zeroed memory for `n` floats (or 32-bit integers). ERR_LIMIT: the device has no room. */
    int (*alloc)(struct backend *b, size_t n, void **ret, struct err *err);
    /* The same for values of samples and their gradients, which a backend may keep in fewer bits:
     * x, y, dx, dy and p, q below are such memory, put() and get() convert them. Everything else
     * (parameters, their gradients, sums) is float. */
    int (*alloc_values)(struct backend *b, size_t n, float **ret, struct err *err);
    size_t (*value_size)(const struct backend *b); /* bytes of one of these */
    void (*release)(struct backend *b, void *p);
    /* put() has read `from_host` when it returns, unless that came from host_alloc(): then it must
     * stay as it is until the next sync() or feed_wait(). */
    void (*put)(struct backend *b, void *to, const void *from_host, size_t bytes);
    void (*get)(struct backend *b, void *to_host, const void *from, size_t bytes);
    /* Waits for all that was queued, and returns the first failure among it. */
    int (*sync)(struct backend *b, struct err *err);

    /*
     * What only a device has; all NULL where `host`.
     *
     * host_alloc: memory of the host that the device copies from by itself.
     * feed_begin .. feed_end: the put()s between them fill set 0 or 1 of a step's input while
     * another step is computed; they wait until the step that used the set last is done with it
     * (use_begin .. use_end around what reads the set). feed_wait: until what was fed is copied.
     * busy: is there work that is not done? Never waits.
     */
    void *(*host_alloc)(struct backend *b, size_t bytes, struct err *err);
    void (*host_free)(struct backend *b, void *p);
    void (*feed_begin)(struct backend *b, int set);
    void (*feed_end)(struct backend *b, int set);
    void (*feed_wait)(struct backend *b);
    void (*use_begin)(struct backend *b, int set);
    void (*use_end)(struct backend *b, int set);
    bool (*busy)(struct backend *b);
    /*
     * Work that is queued again and again with the same shapes and memory, named by `key`. QUEUED:
     * it was, from a recording. Else the caller queues it and calls work_end() with the answer;
     * if that returns false, the caller queues it once more.
     */
    enum backend_work (*work_begin)(struct backend *b, uint64_t key);
    bool (*work_end)(struct backend *b, enum backend_work answer);
    /*
     * Sums over ranks by the device's own engine. join_id: rank 0 makes what the others need to
     * meet it (`id` NULL: only whether there is an engine). join: meets them. sum: y = the sum over
     * all ranks. Neither waits: it is done, or has failed (sync), when nothing is busy any more,
     * and nothing is queued before. leave: where others are waited for no longer, so that what was
     * begun ends; its numbers have no meaning, all others have. join_id NULL or ERR_NOT_FOUND:
     * there is no such engine.
     */
    int (*join_id)(struct backend *b, char *id, struct err *err); /* BACKEND_ID_LEN bytes */
    int (*join)(struct backend *b, const char id[BACKEND_ID_LEN], uint32_t ranks, uint32_t rank,
                struct err *err);
    void (*sum)(struct backend *b, float *y, size_t n);
    void (*leave)(struct backend *b);

    void (*fill)(struct backend *b, float *y, size_t n, float value);
    /* x and y are both values or both are not. */
    void (*copy)(struct backend *b, float *y, const float *x, size_t n);
    void (*axpy)(struct backend *b, float *y, float a, const float *x, size_t n); /* y += a x */
    /* `relu`: what is negative in y becomes 0, as relu() does. */
    void (*add)(struct backend *b, float *y, const float *p, const float *q, size_t n, bool relu);

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
     * the gradient needs; `stats`: 2 c floats, this batch's mean and unbiased variance; `relu`: as
     * for add. */
    void (*norm)(struct backend *b, const float *x, const float *gamma, const float *beta,
                 size_t rows, size_t c, bool relu, float *y, float *saved, float *stats);
    void (*norm_eval)(struct backend *b, const float *x, const float *gamma, const float *beta,
                      const float *mean, const float *variance, size_t rows, size_t c, bool relu,
                      float *y);
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

    /* What the updates queued from here on go by. */
    void (*rates)(struct backend *b, const struct update *u);
    /* v = momentum v + (scale g + decay w); w -= rate v. With LARS (trust > 0) v holds steps, as it
     * was published: v = momentum v + rate ratio (scale g + decay w); w -= v. `plain`: without
     * decay, and the ratio is 1. */
    void (*update)(struct backend *b, float *w, const float *g, float *v, size_t n, bool plain);
    /* y = keep y + (1 - keep) scale g */
    void (*track)(struct backend *b, float *y, const float *g, size_t n, float keep);
    void (*blend)(struct backend *b, float *y, const float *x, size_t n, float keep);
    /* y = keep y + (1 - keep) x */
};

/* What results are at least where a relu may be made with them; a NaN is below nothing. */
static inline float relu_least(bool relu)
{
    return relu ? 0 : -INFINITY;
}

/* The CPU: OpenBLAS for matrices, oneDNN for convolutions, loops on `threads` threads. */
int backend_cpu(struct backend **ret, int threads, struct err *err);

enum precision {
    PRECISION_AUTO, /* bfloat16 where the device computes in it, else float */
    PRECISION_FP32,
    PRECISION_TF32, /* values are float, products of matrices have 10 bits */
    PRECISION_BF16, /* values and products are bfloat16; parameters and sums stay float */
};
/* "auto", "fp32", "tf32" or "bf16". */
int precision_parse(enum precision *ret, const char *text, struct err *err);

struct cuda_options {
    int device;       /* its number, from 0 */
    const char *libs; /* folders of libraries (cuda-lib.h), or NULL */
    enum precision precision;
    bool no_recording;  /* every step is queued anew */
    bool no_cudnn;      /* convolutions as matrices, even where cuDNN is */
    size_t convolution; /* bytes for convolutions as matrices (0: 512 MiB) */
};
/* A GPU of NVIDIA, whose libraries are looked for at run time. ERR_NOT_FOUND says what is missing
 * or too old, ERR_LIMIT that its memory is full, and what to do. */
int backend_cuda(struct backend **ret, const struct cuda_options *o, struct err *err);

/* `device`: "auto", "cpu", "cuda" (of several ranks on a host, each takes its own) or "cuda:N";
 * `why` (may be NULL) gets the reason when auto chose the CPU. */
struct backend_options {
    const char *device, *precision;
    int threads;
    int local_rank; /* this rank among those of this host */
};
int backend_open(struct backend **ret, const struct backend_options *o, char *why, size_t why_len,
                 struct err *err);
/* One line for people: name, and what computes. */
void backend_describe(const struct backend *b, char *out, size_t size);
void backend_close(struct backend *b);
static inline void cleanup_backend_fn(struct backend **b)
{
    backend_close(*b);
}
#define cleanup_backend CLEANUP(cleanup_backend_fn)

#endif
