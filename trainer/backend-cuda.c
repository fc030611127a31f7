/*
 * The GPU backend: opening, streams, failures; the table of its operations.
 *
 * Two streams. Everything is queued on `compute`, in order, but for the input of the next step,
 * which is copied on `feed` meanwhile; events keep the two apart: a set of inputs is filled after
 * the step that used it (`unused`), and used after it was filled (`fed`).
 *
 * Files: cuda-lib (the vendor's libraries), cuda-kernels (our own code for the device),
 * cuda-memory, cuda-ops and cuda-ops-image (kernels' calls), cuda-matrix, cuda-conv and cuda-cudnn,
 * cuda-record (steps as graphs), cuda-ranks (sums over ranks).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda-internal.h"
#include "mem.h"

/* --- failures --------------------------------------------------------------------------------- */

void cuda_fail(struct cuda *c, enum err_class class, const char *what, const char *why)
{
    if (!cuda_failed(c))
        err_set(&c->err, class, "the GPU failed: %s: %s", what, why);
}

bool cuda_ok(struct cuda *c, int code, const char *what)
{
    if (code == 0)
        return true;
    if (cuda_failed(c))
        return false;
    const char *why = c->lib.cudaGetErrorString(code);
    if (code == CUDA_E_MEMORY)
        err_set(&c->err, ERR_LIMIT,
                "the GPU's memory: %s: %s (a smaller --batch_size needs less, --precision bf16 "
                "half; " CUDA_CPU_INSTEAD ")",
                what, why);
    else
        err_set(&c->err, ERR_FAILED,
                "the GPU failed: %s: %s (%d) (nvidia-smi and the kernel's log say more; start "
                "again: training goes on from the last checkpoint)",
                what, why, code);
    return false;
}

/* --- streams ---------------------------------------------------------------------------------- */

static int cuda_sync(struct backend *b, struct err *err)
{
    struct cuda *c = cuda_of(b);
    for (int i = 0; i < N_LANES; i++) {
        cuda_ok(c, c->lib.cudaStreamSynchronize(c->streams[i]), "a step");
        c->stages[i].used = 0;
    }
    if (!cuda_failed(c))
        return 0;
    if (err)
        *err = c->err;
    return -1;
}

static bool cuda_busy(struct backend *b)
{
    struct cuda *c = cuda_of(b);
    if (cuda_ranks_busy(c))
        return true;
    if (c->lib.cudaStreamQuery(c->streams[LANE_COMPUTE]) != CUDA_E_NOT_READY)
        return false;
    cuda_handled(c);
    return true;
}

static void after(struct cuda *c, enum lane lane, struct CUevent_st *e)
{
    cuda_ok(c, c->lib.cudaStreamWaitEvent(c->streams[lane], e, 0), "wait for an event");
}

static void mark(struct cuda *c, struct CUevent_st *e, enum lane lane)
{
    cuda_ok(c, c->lib.cudaEventRecord(e, c->streams[lane]), "record an event");
}

static void cuda_feed_begin(struct backend *b, int set)
{
    struct cuda *c = cuda_of(b);
    after(c, LANE_FEED, c->unused[set]);
    c->lane = LANE_FEED;
}

static void cuda_feed_end(struct backend *b, int set)
{
    struct cuda *c = cuda_of(b);
    mark(c, c->fed[set], LANE_FEED);
    c->lane = LANE_COMPUTE;
}

static void cuda_feed_wait(struct backend *b)
{
    struct cuda *c = cuda_of(b);
    cuda_ok(c, c->lib.cudaStreamSynchronize(c->streams[LANE_FEED]), "copy of a batch");
    c->stages[LANE_FEED].used = 0;
}

static void cuda_use_begin(struct backend *b, int set)
{
    struct cuda *c = cuda_of(b);
    after(c, LANE_COMPUTE, c->fed[set]);
}

static void cuda_use_end(struct backend *b, int set)
{
    struct cuda *c = cuda_of(b);
    mark(c, c->unused[set], LANE_COMPUTE);
}

/* --- opening ---------------------------------------------------------------------------------- */

static void cuda_close(struct backend *b)
{
    struct cuda *c = cuda_of(b);
    if (cuda_failed(c))
        cuda_abort_ranks(c);
    for (int i = 0; i < N_LANES; i++)
        if (c->streams[i])
            (void)c->lib.cudaStreamSynchronize(c->streams[i]);
    if (c->ranks)
        (void)c->lib.ncclCommDestroy(c->ranks);
    if (c->lib.has[CUDA_RUNTIME]) {
        cuda_forget_recordings(c);
        cuda_conv_free(c);
        if (c->blas)
            (void)c->lib.cublasDestroy(c->blas);
        cuda_memory_free(c);
        cuda_code_unload(&c->code, &c->lib);
    }
    for (int i = 0; i < 2; i++) {
        if (c->fed[i])
            (void)c->lib.cudaEventDestroy(c->fed[i]);
        if (c->unused[i])
            (void)c->lib.cudaEventDestroy(c->unused[i]);
    }
    for (int i = 0; i < N_LANES; i++)
        if (c->streams[i])
            (void)c->lib.cudaStreamDestroy(c->streams[i]);
    cuda_lib_close(&c->lib);
    free(c);
}

/* Kernels are started in the context of the calling thread, which has none at first. */
static void cuda_enter(struct backend *b)
{
    struct cuda *c = cuda_of(b);
    cuda_ok(c, c->lib.cudaSetDevice(c->o.device), "take the device");
}

static int refused(struct cuda *c, int code, const char *what, struct err *err)
{
    return err_set(err, code == CUDA_E_MEMORY ? ERR_LIMIT : ERR_FAILED,
                   "GPU %d (%s): %s: %s (%d) (does another program fill it? nvidia-smi "
                   "tells; " CUDA_CPU_INSTEAD ")",
                   c->o.device, c->name, what, c->lib.cudaGetErrorString(code), code);
}

static int take_device(struct cuda *c, struct err *err)
{
    int count = 0, code;
    (void)c->lib.cuDeviceGetCount(&count);
    if (c->o.device >= count)
        return err_set(err, ERR_NOT_FOUND,
                       "there is no GPU %d: this machine has %d, counted from 0 (--device "
                       "cuda:N; " CUDA_CPU_INSTEAD ")",
                       c->o.device, count);
    (void)c->lib.cuDeviceGetName(c->name, (int)sizeof c->name, c->o.device);
    code = c->lib.cudaSetDevice(c->o.device);
    if (!code) /* the first call that needs the device: its context is made here */
        code = c->lib.cudaFree(NULL);
    if (!code)
        code = c->lib.cudaDeviceGetAttribute(&c->major, CUDA_ATTR_MAJOR, c->o.device);
    if (!code)
        code = c->lib.cudaDeviceGetAttribute(&c->minor, CUDA_ATTR_MINOR, c->o.device);
    if (!code)
        code = c->lib.cudaDeviceGetAttribute(&c->processors, CUDA_ATTR_PROCESSORS, c->o.device);
    return code ? refused(c, code, "start", err) : 0;
}

/* bfloat16 begins with compute capability 8, as TF32 does. */
static int choose_precision(struct cuda *c, struct err *err)
{
    bool new = c->major >= 8;
    if (c->o.precision == PRECISION_AUTO)
        c->o.precision = new ? PRECISION_BF16 : PRECISION_FP32;
    if (!new && c->o.precision != PRECISION_FP32)
        return err_set(err, ERR_USAGE,
                       "GPU %d (%s) computes neither in bf16 nor in tf32: --precision fp32",
                       c->o.device, c->name);
    c->half = c->o.precision == PRECISION_BF16;
    c->compute = c->o.precision == PRECISION_TF32 ? CUBLAS_32F_TF32 : CUBLAS_32F;
    return 0;
}

static int make_streams(struct cuda *c, struct err *err)
{
    int code = 0;
    for (int i = 0; i < N_LANES && !code; i++)
        code = c->lib.cudaStreamCreateWithFlags(&c->streams[i], CUDA_STREAM_NON_BLOCKING);
    for (int i = 0; i < 2 && !code; i++) {
        code = c->lib.cudaEventCreateWithFlags(&c->fed[i], CUDA_EVENT_NO_TIMING);
        if (!code)
            code = c->lib.cudaEventCreateWithFlags(&c->unused[i], CUDA_EVENT_NO_TIMING);
    }
    return code ? refused(c, code, "streams", err) : 0;
}

static int open_all(struct cuda *c, struct err *err)
{
    if (cuda_lib_open(&c->lib, c->o.libs, err) || take_device(c, err) || choose_precision(c, err) ||
        make_streams(c, err) ||
        cuda_code_load(&c->code, &c->lib, c->major, c->minor, c->half, err) ||
        cuda_memory_init(c, err) || cuda_matrix_init(c, err))
        return -1;
    return cuda_sync(&c->base, err);
}

static void cuda_describe(const struct backend *b, char *out, size_t size)
{
    static const char *const names[] = {"", "fp32", "tf32", "bf16"};
    const struct cuda *c = (const struct cuda *)b;
    snprintf(out, size, "GPU %d: %s (sm_%d%d), %s, %s, driver for CUDA %d.%d", c->o.device, c->name,
             c->major, c->minor, names[c->o.precision],
             c->dnn ? "convolutions by cuDNN" : "convolutions as matrices",
             c->lib.driver_version / 1000, c->lib.driver_version % 1000 / 10);
}

static void place(const struct backend *b, char *out, size_t size)
{
    snprintf(out, size, "/device:GPU:%d", ((const struct cuda *)b)->o.device);
}

static size_t value_size(const struct backend *b)
{
    return cuda_value_size((const struct cuda *)b);
}

static const struct backend_ops ops = {
    .name = "cuda",
    .close = cuda_close,
    .enter = cuda_enter,
    .describe = cuda_describe,
    .place = place,
    .alloc = cuda_alloc,
    .alloc_values = cuda_alloc_values,
    .value_size = value_size,
    .release = cuda_release,
    .put = cuda_put,
    .get = cuda_get,
    .sync = cuda_sync,
    .host_alloc = cuda_host_alloc,
    .host_free = cuda_host_free,
    .feed_begin = cuda_feed_begin,
    .feed_end = cuda_feed_end,
    .feed_wait = cuda_feed_wait,
    .use_begin = cuda_use_begin,
    .use_end = cuda_use_end,
    .busy = cuda_busy,
    .work_begin = cuda_work_begin,
    .work_end = cuda_work_end,
    .join_id = cuda_join_id,
    .join = cuda_join,
    .sum = cuda_sum,
    .leave = cuda_leave,
    .fill = cuda_fill,
    .copy = cuda_copy,
    .axpy = cuda_axpy,
    .add = cuda_add,
    .gemm = cuda_gemm,
    .bias = cuda_bias,
    .bias_grad = cuda_bias_grad,
    .relu = cuda_relu,
    .relu_grad = cuda_relu_grad,
    .conv_plan = cuda_conv_plan,
    .conv = cuda_conv,
    .conv_grad_x = cuda_conv_grad_x,
    .conv_grad_w = cuda_conv_grad_w,
    .norm = cuda_norm,
    .norm_eval = cuda_norm_eval,
    .norm_grad = cuda_norm_grad,
    .maxpool = cuda_maxpool,
    .maxpool_grad = cuda_maxpool_grad,
    .meanpool = cuda_meanpool,
    .meanpool_grad = cuda_meanpool_grad,
    .embed = cuda_embed,
    .embed_grad = cuda_embed_grad,
    .columns = cuda_columns,
    .cosine = cuda_cosine,
    .cosine_grad = cuda_cosine_grad,
    .softmax_loss = cuda_softmax_loss,
    .square_loss = cuda_square_loss,
    .rates = cuda_rates,
    .update = cuda_update,
    .track = cuda_track,
    .blend = cuda_blend,
};

int backend_cuda(struct backend **ret, const struct cuda_options *o, struct err *err)
{
    struct cuda *c = xcalloc(1, sizeof *c);
    c->base.ops = &ops;
    c->o = *o;
    if (c->o.convolution == 0)
        c->o.convolution = 512u << 20;
    if (open_all(c, err)) {
        cuda_close(&c->base);
        return -1;
    }
    *ret = &c->base;
    return 0;
}
