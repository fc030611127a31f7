/*
 * GPU backend: convolutions by cuDNN's v7 calls, which its version 9 still has: one call a
 * direction where the graph interface wants a plan of several hundred lines. cuDNN says which ways
 * it would take, the fastest first; the first that gives the same bits each time is ours.
 */
#include <stdlib.h>

#include "cuda-internal.h"
#include "mem.h"

struct cuda_dnn {
    struct cudnnTensorStruct *x, *y;
    struct cudnnFilterStruct *w;
    struct cudnnConvolutionStruct *conv;
    size_t filters; /* numbers in w */
    struct cudnn_way forward, grad_x, grad_w;
};

#define WAYS 16 /* at least as many as there are: each algorithm, with and without tensor cores */

static int describe(struct cuda *c, struct cuda_dnn *d, const struct conv_shape *s)
{
    const struct cuda_lib *l = &c->lib;
    int type = c->half ? CUDNN_BF16 : CUDNN_FLOAT;
    int code = l->cudnnCreateTensorDescriptor(&d->x);
    if (!code)
        code = l->cudnnCreateTensorDescriptor(&d->y);
    if (!code)
        code = l->cudnnCreateFilterDescriptor(&d->w);
    if (!code)
        code = l->cudnnCreateConvolutionDescriptor(&d->conv);
    if (!code)
        code = l->cudnnSetTensor4dDescriptor(d->x, CUDNN_NHWC, type, s->n, s->c, s->h, s->w);
    if (!code)
        code =
            l->cudnnSetTensor4dDescriptor(d->y, CUDNN_NHWC, type, s->n, s->k, s->out_h, s->out_w);
    if (!code)
        code = l->cudnnSetFilter4dDescriptor(d->w, type, CUDNN_NHWC, s->k, s->c, s->r, s->s);
    if (!code)
        code = l->cudnnSetConvolution2dDescriptor(d->conv, s->pad, s->pad, s->stride, s->stride, 1,
                                                  1, CUDNN_CROSS, CUDNN_FLOAT);
    if (!code) /* float stays float unless TF32 was asked for */
        code = l->cudnnSetConvolutionMathType(
            d->conv, c->o.precision == PRECISION_FP32 ? CUDNN_FMA : CUDNN_TENSOR_MATH);
    return code;
}

/* The first way that works and is exact from run to run; in floats, if nothing else was asked for.
 */
static bool choose(const struct cuda *c, const struct cudnn_way *ways, int n, struct cudnn_way *ret)
{
    bool exact = c->o.precision == PRECISION_FP32 && c->major >= 8; /* before, there is no TF32 */
    for (int i = 0; i < n; i++)
        if (ways[i].status == 0 && ways[i].same_bits == CUDNN_SAME_BITS &&
            (!exact || ways[i].math == CUDNN_FMA)) {
            *ret = ways[i];
            return true;
        }
    return false;
}

static bool choose_all(struct cuda *c, struct cuda_dnn *d)
{
    const struct cuda_lib *l = &c->lib;
    struct cudnn_way ways[WAYS];
    int n = 0;
    if (l->cudnnGetConvolutionForwardAlgorithm(c->dnn, d->x, d->w, d->conv, d->y, WAYS, &n, ways) ||
        !choose(c, ways, n, &d->forward))
        return false;
    if (l->cudnnGetConvolutionBackwardDataAlgorithm(c->dnn, d->w, d->y, d->conv, d->x, WAYS, &n,
                                                    ways) ||
        !choose(c, ways, n, &d->grad_x))
        return false;
    return l->cudnnGetConvolutionBackwardFilterAlgorithm(c->dnn, d->x, d->y, d->conv, d->w, WAYS,
                                                         &n, ways) == 0 &&
           choose(c, ways, n, &d->grad_w);
}

struct cuda_dnn *cuda_dnn_new(struct cuda *c, const struct conv_shape *s)
{
    struct cuda_dnn *d = xcalloc(1, sizeof *d);
    d->filters = (size_t)s->k * (size_t)s->r * (size_t)s->s * (size_t)s->c;
    if (describe(c, d, s) == 0 && choose_all(c, d))
        return d;
    cuda_dnn_free(c, d);
    return NULL;
}

void cuda_dnn_free(struct cuda *c, struct cuda_dnn *d)
{
    const struct cuda_lib *l = &c->lib;
    if (d->x)
        (void)l->cudnnDestroyTensorDescriptor(d->x);
    if (d->y)
        (void)l->cudnnDestroyTensorDescriptor(d->y);
    if (d->w)
        (void)l->cudnnDestroyFilterDescriptor(d->w);
    if (d->conv)
        (void)l->cudnnDestroyConvolutionDescriptor(d->conv);
    free(d);
}

/* --- running ---------------------------------------------------------------------------------- */

/* A way is one of computing (`how`) and of multiplying (`math`): the memory that it needs is known
 * of both together, and the three directions share a descriptor. */
static int take(struct cuda *c, struct cuda_dnn *d, const struct cudnn_way *way)
{
    return c->lib.cudnnSetConvolutionMathType(d->conv, way->math);
}

static const float one = 1, zero;

int cuda_dnn_forward(struct cuda *c, struct cuda_dnn *d, const float *x, const float *w, float *y)
{
    const void *filters = cuda_as_values(c, ROOM_RIGHT, w, d->filters);
    void *room = cuda_room(c, ROOM_CUDNN, d->forward.memory);
    if (cuda_failed(c))
        return 0;
    int code = take(c, d, &d->forward);
    return code ? code
                : c->lib.cudnnConvolutionForward(c->dnn, &one, d->x, x, d->w, filters, d->conv,
                                                 d->forward.how, room, d->forward.memory, &zero,
                                                 d->y, y);
}

int cuda_dnn_grad_x(struct cuda *c, struct cuda_dnn *d, const float *w, const float *dy, float *dx)
{
    const void *filters = cuda_as_values(c, ROOM_RIGHT, w, d->filters);
    void *room = cuda_room(c, ROOM_CUDNN, d->grad_x.memory);
    if (cuda_failed(c))
        return 0;
    int code = take(c, d, &d->grad_x);
    return code ? code
                : c->lib.cudnnConvolutionBackwardData(c->dnn, &one, d->w, filters, d->y, dy,
                                                      d->conv, d->grad_x.how, room,
                                                      d->grad_x.memory, &zero, d->x, dx);
}

/* cuDNN gives filters' gradients in the type of the filters: they are widened afterwards. */
int cuda_dnn_grad_w(struct cuda *c, struct cuda_dnn *d, const float *x, const float *dy, float *dw)
{
    void *out = c->half ? cuda_room(c, ROOM_OUT, d->filters * cuda_value_size(c)) : dw;
    void *room = cuda_room(c, ROOM_CUDNN, d->grad_w.memory);
    if (cuda_failed(c))
        return 0;
    int code = take(c, d, &d->grad_w);
    if (!code)
        code = c->lib.cudnnConvolutionBackwardFilter(c->dnn, &one, d->x, x, d->y, dy, d->conv,
                                                     d->grad_w.how, room, d->grad_w.memory, &zero,
                                                     d->w, out);
    if (!code && c->half)
        cuda_widen(c, dw, out, d->filters);
    return code;
}
