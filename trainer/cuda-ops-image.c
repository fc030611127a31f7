/* GPU backend: calls of the kernels for pooling. */
#include "cuda-internal.h"

typedef unsigned long long u64;

static u64 packs_of(const struct cuda *c, int n, int h, int w, int channels)
{
    size_t pack = cuda_pack(c);
    return (u64)n * (u64)h * (u64)w * (((u64)channels + pack - 1) / pack);
}

void cuda_maxpool(struct backend *b, const struct pool_shape *s, const float *x, float *y,
                  int32_t *from)
{
    struct cuda *c = cuda_of(b);
    struct pool_shape shape = *s; /* the kernel's struct pool has the same members */
    u64 packs = packs_of(c, s->n, s->out_h, s->out_w, s->c);
    int whole = cuda_aligned_rows(c, (size_t)s->c, x, y, NULL);
    if (packs)
        LAUNCH(c, maxpool, cuda_grid(c, packs), &shape, &x, &packs, &whole, &y, &from);
}

void cuda_maxpool_grad(struct backend *b, const struct pool_shape *s, const float *dy,
                       const int32_t *from, float *dx)
{
    struct cuda *c = cuda_of(b);
    struct pool_shape shape = *s;
    u64 packs = packs_of(c, s->n, s->h, s->w, s->c);
    int whole = cuda_aligned_rows(c, (size_t)s->c, dy, dx, NULL);
    if (packs)
        LAUNCH(c, maxpool_grad, cuda_grid(c, packs), &shape, &dy, &from, &packs, &whole, &dx);
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
