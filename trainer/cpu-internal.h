/* Parts of the CPU backend that stand in files of their own. */
#ifndef SAMPAN_TRAIN_CPU_INTERNAL_H
#define SAMPAN_TRAIN_CPU_INTERNAL_H

#include "backend.h"

/* A reduction over rows is done in this many parts whatever the number of threads, so that its
 * rounding never depends on that. */
#define CPU_PARTS 32

struct cpu_conv; /* cpu-conv.c: the engine, and the plans made so far */

struct cpu {
    struct backend base;
    int threads;
    struct cpu_conv *conv;
    float *parts; /* CPU_PARTS rows of partial sums */
    size_t parts_cols;
    struct update rates;
    struct err err; /* the first failure; class ERR_NONE: none */
};

static inline struct cpu *cpu_of(struct backend *b)
{
    return (struct cpu *)b;
}

/* CPU_PARTS * cols zeroed floats, the same memory each time. */
float *cpu_parts(struct cpu *c, size_t cols);
/* The rows of part `i` of all. */
static inline void cpu_part(size_t rows, int i, size_t *first, size_t *end)
{
    *first = rows * (size_t)i / CPU_PARTS;
    *end = rows * (size_t)(i + 1) / CPU_PARTS;
}

struct conv_plan *cpu_conv_plan(struct backend *b, const struct conv_shape *s);
void cpu_conv(struct backend *b, struct conv_plan *p, const float *x, const float *w, float *y);
void cpu_conv_grad_x(struct backend *b, struct conv_plan *p, const float *w, const float *dy,
                     float *dx);
void cpu_conv_grad_w(struct backend *b, struct conv_plan *p, const float *x, const float *dy,
                     float *dw);
void cpu_conv_free(struct cpu_conv *c);

void cpu_norm(struct backend *b, const float *x, const float *gamma, const float *beta, size_t rows,
              size_t c, bool relu, float *y, float *saved, float *stats);
void cpu_norm_eval(struct backend *b, const float *x, const float *gamma, const float *beta,
                   const float *mean, const float *variance, size_t rows, size_t c, bool relu,
                   float *y);
void cpu_norm_grad(struct backend *b, const float *x, const float *gamma, const float *saved,
                   const float *dy, size_t rows, size_t c, float *dx, float *dgamma, float *dbeta);
void cpu_maxpool(struct backend *b, const struct pool_shape *s, const float *x, float *y,
                 int32_t *from);
void cpu_maxpool_grad(struct backend *b, const struct pool_shape *s, const float *dy,
                      const int32_t *from, float *dx);
void cpu_meanpool(struct backend *b, int n, int pixels, int c, const float *x, float *y);
void cpu_meanpool_grad(struct backend *b, int n, int pixels, int c, const float *dy, float *dx);

void cpu_embed(struct backend *b, const float *table, const int32_t *ids, size_t n, int width,
               int dim, float *y);
void cpu_embed_grad(struct backend *b, const float *dy, const int32_t *ids, size_t n, int width,
                    int dim, float *dtable);
void cpu_cosine(struct backend *b, const float *p, const float *q, size_t rows, int cols,
                float scale, float *y);
void cpu_cosine_grad(struct backend *b, const float *p, const float *q, const float *dy,
                     size_t rows, int cols, float scale, float *dp, float *dq);
void cpu_softmax_loss(struct backend *b, const float *x, const int32_t *labels, size_t rows,
                      int classes, float smooth, float *dx, float *sums);
void cpu_square_loss(struct backend *b, const float *x, const float *target, size_t rows, float *dx,
                     float *sums);

#endif
