/* The fake's cuBLAS (products by OpenBLAS, operands widened to float) and cuDNN (the same products
 * over windows that are copied out one image at a time). */
#include <cblas.h>
#include <stdlib.h>
#include <string.h>

#include "parts.h"

#define EXECUTION_FAILED 13

static float widened(uint16_t x)
{
    uint32_t u = (uint32_t)x << 16;
    float f;
    memcpy(&f, &u, sizeof f);
    return f;
}

static uint16_t narrowed(float x)
{
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    if ((u & 0x7fffffffu) > 0x7f800000u)
        return (uint16_t)(u >> 16 | 0x40u);
    return (uint16_t)((u + 0x7fffu + (u >> 16 & 1u)) >> 16);
}

/* `n` numbers of memory of a type as floats: a copy. */
static float *as_floats(const void *p, bool half, size_t n)
{
    float *ret = malloc(n * sizeof *ret + 1);
    if (!half)
        memcpy(ret, p, n * sizeof *ret);
    for (size_t i = 0; half && i < n; i++)
        ret[i] = widened(((const uint16_t *)p)[i]);
    return ret;
}

static void store(void *p, bool half, const float *x, size_t n)
{
    if (!half)
        memcpy(p, x, n * sizeof *x);
    for (size_t i = 0; half && i < n; i++)
        ((uint16_t *)p)[i] = narrowed(x[i]);
}

/* --- cuBLAS ----------------------------------------------------------------------------------- */

struct cublasContext {
    struct CUstream_st *stream;
    bool room;
};

int cublasCreate_v2(struct cublasContext **ret)
{
    FAULT();
    *ret = calloc(1, sizeof **ret);
    return 0;
}

int cublasDestroy_v2(struct cublasContext *h)
{
    fake_drain_all();
    free(h);
    return 0;
}

int cublasSetStream_v2(struct cublasContext *h, struct CUstream_st *s)
{
    h->stream = s;
    return 0;
}

int cublasSetWorkspace_v2(struct cublasContext *h, void *p, size_t n)
{
    h->room = fake_is_device(p, n);
    return h->room ? 0 : 7;
}

struct gemm {
    int ta, tb, m, n, k, a_type, lda, b_type, ldb, c_type, ldc;
    float alpha, beta;
    const void *a, *b;
    void *c;
};

static bool run_gemm(void *payload)
{
    const struct gemm *g = payload;
    size_t a_n = (size_t)g->lda * (size_t)(g->ta ? g->m : g->k);
    size_t b_n = (size_t)g->ldb * (size_t)(g->tb ? g->k : g->n);
    size_t c_n = (size_t)g->ldc * (size_t)g->n;
    bool half = g->c_type == CUDA_R_16BF;
    float *a = as_floats(g->a, g->a_type == CUDA_R_16BF, a_n);
    float *b = as_floats(g->b, g->b_type == CUDA_R_16BF, b_n), *c = as_floats(g->c, half, c_n);
    if (g->beta == 0)
        memset(c, 0, c_n * sizeof *c); /* what lay there may be no number */
    cblas_sgemm(CblasColMajor, g->ta ? CblasTrans : CblasNoTrans, g->tb ? CblasTrans : CblasNoTrans,
                g->m, g->n, g->k, g->alpha, a, g->lda, b, g->ldb, g->beta, c, g->ldc);
    store(g->c, half, c, c_n);
    free(a);
    free(b);
    free(c);
    return true;
}

int cublasGemmEx(struct cublasContext *h, int ta, int tb, int m, int n, int k, const void *alpha,
                 const void *a, int a_type, int lda, const void *b, int b_type, int ldb,
                 const void *beta, void *c, int c_type, int ldc, int compute, int how)
{
    (void)compute;
    (void)how;
    FAULT();
    if (fake.last_error)
        return EXECUTION_FAILED;
    struct gemm g = {ta, tb, m, n, k, a_type, lda, b_type, ldb, c_type, ldc, 0, 0, a, b, c};
    memcpy(&g.alpha, alpha, sizeof g.alpha);
    memcpy(&g.beta, beta, sizeof g.beta);
    if (!h->room || a_type != b_type || lda < (ta ? k : m) || ldb < (tb ? n : k) || ldc < m ||
        !fake_is_device(a, 1) || !fake_is_device(b, 1) || !fake_is_device(c, 1)) {
        fake.wrong++;
        return 7;
    }
    fake.gemms++;
    return fake_queue(h->stream, run_gemm, NULL, &g, sizeof g);
}

/* --- cuDNN: descriptors ----------------------------------------------------------------------- */

struct cudnnContext {
    struct CUstream_st *stream;
};
struct cudnnTensorStruct {
    int type, n, c, h, w;
};
struct cudnnFilterStruct {
    int type, k, c, h, w;
};
struct cudnnConvolutionStruct {
    int pad, stride, math;
};

const char *cudnnGetErrorString(int code)
{
    return code ? "CUDNN_STATUS_FAKE" : "CUDNN_STATUS_SUCCESS";
}

int cudnnCreate(struct cudnnContext **ret)
{
    FAULT();
    if (fake.no_cudnn)
        return 1001;
    *ret = calloc(1, sizeof **ret);
    return 0;
}

int cudnnDestroy(struct cudnnContext *h)
{
    fake_drain_all();
    free(h);
    return 0;
}

int cudnnSetStream(struct cudnnContext *h, struct CUstream_st *s)
{
    h->stream = s;
    return 0;
}

#define DESCRIPTOR(Name)                                                 \
    int cudnnCreate##Name##Descriptor(struct cudnn##Name##Struct **ret); \
    int cudnnCreate##Name##Descriptor(struct cudnn##Name##Struct **ret)  \
    {                                                                    \
        *ret = calloc(1, sizeof **ret);                                  \
        return 0;                                                        \
    }                                                                    \
    int cudnnDestroy##Name##Descriptor(struct cudnn##Name##Struct *d);   \
    int cudnnDestroy##Name##Descriptor(struct cudnn##Name##Struct *d)    \
    {                                                                    \
        free(d);                                                         \
        return 0;                                                        \
    }
DESCRIPTOR(Tensor)
DESCRIPTOR(Filter)
DESCRIPTOR(Convolution)

int cudnnSetTensor4dDescriptor(struct cudnnTensorStruct *t, int format, int type, int n, int c,
                               int h, int w)
{
    *t = (struct cudnnTensorStruct){type, n, c, h, w};
    return format == CUDNN_NHWC ? 0 : 3;
}

int cudnnSetFilter4dDescriptor(struct cudnnFilterStruct *f, int type, int format, int k, int c,
                               int h, int w)
{
    *f = (struct cudnnFilterStruct){type, k, c, h, w};
    return format == CUDNN_NHWC ? 0 : 3;
}

int cudnnSetConvolution2dDescriptor(struct cudnnConvolutionStruct *c, int pad_h, int pad_w, int u,
                                    int v, int dh, int dw, int mode, int compute)
{
    *c = (struct cudnnConvolutionStruct){pad_h, u, 0};
    return pad_h == pad_w && u == v && dh == 1 && dw == 1 && mode == CUDNN_CROSS &&
                   compute == CUDNN_FLOAT
               ? 0
               : 3;
}

int cudnnSetConvolutionMathType(struct cudnnConvolutionStruct *c, int math)
{
    c->math = math;
    return 0;
}

/* --- cuDNN: ways ------------------------------------------------------------------------------ */

#define PLAIN 0 /* CUDNN_DEFAULT_MATH */
#define FAST  4096
#define SLOW  8192

/* The fastest way is one whose bits change from run to run: nobody here may take it. Tensor cores
 * may be used, and are not by the way that is slower and needs more memory: GRAD_X has only that.
 */
static int ways(int want, int *got, struct cudnn_way *ret, const struct cudnnConvolutionStruct *c,
                bool slow)
{
    int math = c->math == CUDNN_TENSOR_MATH && slow ? PLAIN : c->math;
    struct cudnn_way all[] = {
        {.how = 7, .same_bits = 0, .memory = 64, .math = c->math},
        {.how = 1, .same_bits = CUDNN_SAME_BITS, .memory = slow ? SLOW : FAST, .math = math}};
    *got = want < 2 ? want : 2;
    memcpy(ret, all, (size_t)*got * sizeof *ret);
    return 0;
}

int cudnnGetConvolutionForwardAlgorithm_v7(struct cudnnContext *h, struct cudnnTensorStruct *x,
                                           struct cudnnFilterStruct *w,
                                           struct cudnnConvolutionStruct *c,
                                           struct cudnnTensorStruct *y, int want, int *got,
                                           struct cudnn_way *ret)
{
    (void)h, (void)x, (void)w, (void)y;
    return ways(want, got, ret, c, false);
}

int cudnnGetConvolutionBackwardDataAlgorithm_v7(struct cudnnContext *h, struct cudnnFilterStruct *w,
                                                struct cudnnTensorStruct *dy,
                                                struct cudnnConvolutionStruct *c,
                                                struct cudnnTensorStruct *dx, int want, int *got,
                                                struct cudnn_way *ret)
{
    (void)h, (void)w, (void)dy, (void)dx;
    return ways(want, got, ret, c, true);
}

int cudnnGetConvolutionBackwardFilterAlgorithm_v7(struct cudnnContext *h,
                                                  struct cudnnTensorStruct *x,
                                                  struct cudnnTensorStruct *dy,
                                                  struct cudnnConvolutionStruct *c,
                                                  struct cudnnFilterStruct *dw, int want, int *got,
                                                  struct cudnn_way *ret)
{
    (void)h, (void)x, (void)dy, (void)dw;
    return ways(want, got, ret, c, false);
}

/* --- cuDNN: computing ------------------------------------------------------------------------- */

enum direction { FORWARD, GRAD_X, GRAD_W };
struct convolution {
    enum direction direction;
    struct cudnnTensorStruct x, y;
    struct cudnnFilterStruct w;
    struct cudnnConvolutionStruct c;
    const void *xp, *wp, *yp; /* one of them is written */
};

/* Windows of one image: out, or (back) added into it. */
static void windows(const struct convolution *v, float *image, float *rows, bool back)
{
    size_t width = (size_t)v->w.h * (size_t)v->w.w * (size_t)v->x.c;
    for (int oh = 0; oh < v->y.h; oh++)
        for (int ow = 0; ow < v->y.w; ow++)
            for (int r = 0; r < v->w.h; r++)
                for (int s = 0; s < v->w.w; s++) {
                    int h = oh * v->c.stride - v->c.pad + r, w = ow * v->c.stride - v->c.pad + s;
                    float *row = rows + (size_t)(oh * v->y.w + ow) * width +
                                 (size_t)(r * v->w.w + s) * (size_t)v->x.c;
                    bool inside = h >= 0 && h < v->x.h && w >= 0 && w < v->x.w;
                    float *at = inside ? image + (size_t)(h * v->x.w + w) * (size_t)v->x.c : NULL;
                    for (int i = 0; i < v->x.c; i++) {
                        if (!back)
                            row[i] = at ? at[i] : 0;
                        else if (at)
                            at[i] += row[i];
                    }
                }
}

static bool run_convolution(void *payload)
{
    const struct convolution *v = payload;
    bool half = v->x.type == CUDNN_BF16;
    int places = v->y.h * v->y.w, width = v->w.h * v->w.w * v->x.c, k = v->w.k;
    size_t image = (size_t)v->x.h * (size_t)v->x.w * (size_t)v->x.c,
           out = (size_t)places * (size_t)k, filters = (size_t)k * (size_t)width;
    float *x = as_floats(v->xp, half, (size_t)v->x.n * image);
    float *y = as_floats(v->yp, half, (size_t)v->x.n * out);
    float *w = as_floats(v->wp, half, filters);
    float *rows = malloc((size_t)places * (size_t)width * sizeof *rows);
    if (v->direction == GRAD_W)
        memset(w, 0, filters * sizeof *w);
    for (int i = 0; i < v->x.n; i++) {
        float *xi = x + (size_t)i * image, *yi = y + (size_t)i * out;
        if (v->direction == GRAD_X) {
            cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, places, width, k, 1, yi, k, w,
                        width, 0, rows, width);
            memset(xi, 0, image * sizeof *xi);
            windows(v, xi, rows, true);
            continue;
        }
        windows(v, xi, rows, false);
        if (v->direction == FORWARD)
            cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, places, k, width, 1, rows, width,
                        w, width, 0, yi, k);
        else
            cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, k, width, places, 1, yi, k, rows,
                        width, 1, w, width);
    }
    if (v->direction == FORWARD)
        store((void *)v->yp, half, y, (size_t)v->x.n * out);
    else if (v->direction == GRAD_X)
        store((void *)v->xp, half, x, (size_t)v->x.n * image);
    else
        store((void *)v->wp, half, w, filters);
    free(x);
    free(y);
    free(w);
    free(rows);
    return true;
}

static int convolve(struct cudnnContext *h, struct convolution *v, int how, const void *room,
                    size_t n)
{
    bool slow = v->direction == GRAD_X, plain = v->c.math == PLAIN;
    if (fake.last_error)
        return EXECUTION_FAILED;
    if (how != 1 || n < (slow ? SLOW : FAST) || (v->c.math != CUDNN_FMA && plain != slow) ||
        !fake_is_device(room, n) || !fake_is_device(v->xp, 1) || !fake_is_device(v->wp, 1) ||
        !fake_is_device(v->yp, 1) || v->x.type != v->w.type) {
        fake.wrong++;
        return 3;
    }
    fake.convolutions++;
    return fake_queue(h->stream, run_convolution, NULL, v, sizeof *v);
}

int cudnnConvolutionForward(struct cudnnContext *h, const void *alpha, struct cudnnTensorStruct *xd,
                            const void *x, struct cudnnFilterStruct *wd, const void *w,
                            struct cudnnConvolutionStruct *c, int how, void *room, size_t n,
                            const void *beta, struct cudnnTensorStruct *yd, void *y)
{
    (void)alpha, (void)beta;
    FAULT();
    struct convolution v = {FORWARD, *xd, *yd, *wd, *c, x, w, y};
    return convolve(h, &v, how, room, n);
}

int cudnnConvolutionBackwardData(struct cudnnContext *h, const void *alpha,
                                 struct cudnnFilterStruct *wd, const void *w,
                                 struct cudnnTensorStruct *dyd, const void *dy,
                                 struct cudnnConvolutionStruct *c, int how, void *room, size_t n,
                                 const void *beta, struct cudnnTensorStruct *dxd, void *dx)
{
    (void)alpha, (void)beta;
    FAULT();
    struct convolution v = {GRAD_X, *dxd, *dyd, *wd, *c, dx, w, dy};
    return convolve(h, &v, how, room, n);
}

int cudnnConvolutionBackwardFilter(struct cudnnContext *h, const void *alpha,
                                   struct cudnnTensorStruct *xd, const void *x,
                                   struct cudnnTensorStruct *dyd, const void *dy,
                                   struct cudnnConvolutionStruct *c, int how, void *room, size_t n,
                                   const void *beta, struct cudnnFilterStruct *dwd, void *dw)
{
    (void)alpha, (void)beta;
    FAULT();
    struct convolution v = {GRAD_W, *xd, *dyd, *dwd, *c, x, dw, dy};
    return convolve(h, &v, how, room, n);
}
