/* GPU backend: calls of the kernels for pooling. */
#include "cuda-internal.h"

static size_t inputs(const struct pool_shape *s)
{
    return (size_t)s->n * (size_t)s->h * (size_t)s->w * (size_t)s->c;
}

static size_t outputs(const struct pool_shape *s)
{
    return (size_t)s->n * (size_t)s->out_h * (size_t)s->out_w * (size_t)s->c;
}

void cuda_maxpool(struct backend *b, const struct pool_shape *s, const float *x, float *y,
                  int32_t *from)
{
    struct pool_shape shape = *s; /* the kernel's struct pool has the same members */
    if (outputs(s))
        LAUNCH(cuda_of(b), maxpool, cuda_grid(cuda_of(b), outputs(s)), &shape, &x, &y, &from);
}

void cuda_maxpool_grad(struct backend *b, const struct pool_shape *s, const float *dy,
                       const int32_t *from, float *dx)
{
    struct pool_shape shape = *s;
    if (inputs(s))
        LAUNCH(cuda_of(b), maxpool_grad, cuda_grid(cuda_of(b), inputs(s)), &shape, &dy, &from, &dx);
}

void cuda_meanpool(struct backend *b, int n, int pixels, int cols, const float *x, float *y)
{
    size_t all = (size_t)n * (size_t)cols;
    if (all)
        LAUNCH(cuda_of(b), meanpool, cuda_grid(cuda_of(b), all), &x, &y, &n, &pixels, &cols);
}

void cuda_meanpool_grad(struct backend *b, int n, int pixels, int cols, const float *dy, float *dx)
{
    size_t all = (size_t)n * (size_t)pixels * (size_t)cols;
    if (all)
        LAUNCH(cuda_of(b), meanpool_grad, cuda_grid(cuda_of(b), all), &dy, &dx, &n, &pixels, &cols);
}
