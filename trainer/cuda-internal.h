/* The inside of the GPU backend, for backend-cuda.c and its cuda-*.c. */
#ifndef SAMPAN_TRAIN_CUDA_INTERNAL_H
#define SAMPAN_TRAIN_CUDA_INTERNAL_H

#include "backend.h"
#include "cuda-kernels.h"
#include "cuda-lib.h"

/* --- memory (cuda-memory.c) ------------------------------------------------------------------- */

/* A piece of the device's memory that the driver gave, and is dealt out from its begin. */
struct chunk {
    char *at;
    size_t size, used, live; /* live: allocations that were not released */
    bool values;
};

/* Memory that grows to what is asked of it; its content is of no worth between two operations. */
enum room {
    ROOM_LEFT, /* operands that are converted */
    ROOM_RIGHT,
    ROOM_OUT,
    ROOM_WINDOWS, /* convolutions as matrices */
    ROOM_PARTS,   /* sums of parts */
    ROOM_LINE,
    ROOM_LOSS,
    ROOM_CUDNN,
    ROOM_PUT, /* and ROOM_PUT + 1: floats of the host on their way, a stream each */
    N_ROOMS = ROOM_PUT + 2,
};

/* Pinned memory through which a stream's small or unpinned sources go. */
struct stage {
    char *at;
    size_t used;
};

struct pinned {
    char *at;
    size_t size;
};

/* --- streams ---------------------------------------------------------------------------------- */

enum lane { LANE_COMPUTE, LANE_FEED, N_LANES };

#define CUDA_RECORDINGS 16
struct recording {
    uint64_t key, used; /* used: when, to forget the oldest */
    bool never;         /* it cannot be recorded */
    struct CUgraphExec_st *graph;
};

struct cuda {
    struct backend base;
    struct cuda_lib lib;
    struct cuda_options o;
    char name[64];
    int processors, major, minor;
    bool half;   /* values are bfloat16 */
    int compute; /* how cuBLAS computes */
    struct cuda_code code;

    struct CUstream_st *streams[N_LANES];
    enum lane lane; /* where operations are queued */
    struct CUevent_st *fed[2], *unused[2];

    struct chunk *chunks;
    size_t n_chunks;
    struct pinned *pinned;
    size_t n_pinned;
    struct {
        void *at;
        size_t size;
    } rooms[N_ROOMS];
    struct stage stages[N_LANES];
    float *rates; /* of updates: RATE .. TRUST of the kernels */
    bool lars;

    struct recording recordings[CUDA_RECORDINGS], *now; /* now: being recorded */
    uint64_t clock;

    struct cublasContext *blas;
    void *blas_room;
    struct cudnnContext *dnn;
    struct conv_plan *plans;
    struct ncclComm *ranks;
    struct err err; /* the first failure; class ERR_NONE: none */
};

static inline struct cuda *cuda_of(struct backend *b)
{
    return (struct cuda *)b;
}

static inline struct CUstream_st *cuda_stream(const struct cuda *c)
{
    return c->streams[c->lane];
}

/* True if `code` is success; else the failure of `what` is kept, if it is the first. */
bool cuda_ok(struct cuda *c, int code, const char *what);
/* After a failure nothing more is queued. */
static inline bool cuda_failed(const struct cuda *c)
{
    return c->err.class != ERR_NONE;
}
void cuda_fail(struct cuda *c, enum err_class class, const char *what, const char *why);
/* After a code that is no failure, or was answered by another way. The runtime keeps it until it is
 * asked for, and NVIDIA's libraries, which ask after their own calls, would take it for theirs. */
static inline void cuda_handled(struct cuda *c)
{
    (void)c->lib.cudaGetLastError();
}

static inline size_t cuda_value_size(const struct cuda *c)
{
    return c->half ? 2 : sizeof(float);
}

int cuda_alloc(struct backend *b, size_t n, void **ret, struct err *err);
int cuda_alloc_values(struct backend *b, size_t n, float **ret, struct err *err);
void cuda_release(struct backend *b, void *p);
void *cuda_host_alloc(struct backend *b, size_t bytes, struct err *err);
void cuda_host_free(struct backend *b, void *p);
/* At least `bytes`, or NULL after a failure. */
void *cuda_room(struct cuda *c, enum room which, size_t bytes);
bool cuda_is_value(const struct cuda *c, const void *p);
int cuda_memory_init(struct cuda *c, struct err *err);
void cuda_memory_free(struct cuda *c);
void cuda_put(struct backend *b, void *to, const void *from, size_t bytes);
void cuda_get(struct backend *b, void *to, const void *from, size_t bytes);

/* --- kernels (cuda-ops.c) --------------------------------------------------------------------- */

struct grid {
    unsigned x, y, threads, lines; /* threads of a block; lines: its second dimension */
};
/* Enough blocks for n elements, each thread taking several where there are many. */
struct grid cuda_grid(const struct cuda *c, size_t n);
/* Values that a kernel moves at once. */
size_t cuda_pack(const struct cuda *c);
/* Do the rows of all of these begin where a pack may? */
int cuda_aligned_rows(const struct cuda *c, size_t cols, const void *p, const void *q,
                      const void *r);
void cuda_launch(struct cuda *c, enum cuda_kernel k, struct grid g, void **args);
/* The arguments must be of the kernel's own types. */
#define LAUNCH(c, kernel, grid, ...) cuda_launch(c, K_##kernel, grid, (void *[]){__VA_ARGS__})

void cuda_narrow(struct cuda *c, void *y, const float *x, size_t n);
void cuda_widen(struct cuda *c, float *y, const void *x, size_t n);

void cuda_fill(struct backend *b, float *y, size_t n, float value);
void cuda_copy(struct backend *b, float *y, const float *x, size_t n);
void cuda_axpy(struct backend *b, float *y, float a, const float *x, size_t n);
void cuda_add(struct backend *b, float *y, const float *p, const float *q, size_t n, bool relu);
void cuda_blend(struct backend *b, float *y, const float *x, size_t n, float keep);
void cuda_bias(struct backend *b, float *y, const float *bias, size_t rows, size_t cols);
void cuda_bias_grad(struct backend *b, float *db, const float *dy, size_t rows, size_t cols);
void cuda_relu(struct backend *b, float *y, size_t n);
void cuda_relu_grad(struct backend *b, float *dy, const float *y, size_t n);
void cuda_columns(struct backend *b, float *y, int y_cols, int to, const float *x, int x_cols,
                  int from, int cols, size_t rows);
void cuda_norm(struct backend *b, const float *x, const float *gamma, const float *beta,
               size_t rows, size_t cols, bool relu, float *y, float *saved, float *stats);
void cuda_norm_eval(struct backend *b, const float *x, const float *gamma, const float *beta,
                    const float *mean, const float *variance, size_t rows, size_t cols, bool relu,
                    float *y);
void cuda_norm_grad(struct backend *b, const float *x, const float *gamma, const float *saved,
                    const float *dy, size_t rows, size_t cols, float *dx, float *dgamma,
                    float *dbeta);
void cuda_maxpool(struct backend *b, const struct pool_shape *s, const float *x, float *y,
                  int32_t *from);
void cuda_maxpool_grad(struct backend *b, const struct pool_shape *s, const float *dy,
                       const int32_t *from, float *dx);
void cuda_meanpool(struct backend *b, int n, int pixels, int cols, const float *x, float *y);
void cuda_meanpool_grad(struct backend *b, int n, int pixels, int cols, const float *dy, float *dx);
void cuda_embed(struct backend *b, const float *table, const int32_t *ids, size_t n, int width,
                int dim, float *y);
void cuda_embed_grad(struct backend *b, const float *dy, const int32_t *ids, size_t n, int width,
                     int dim, float *dtable);
void cuda_cosine(struct backend *b, const float *p, const float *q, size_t rows, int cols,
                 float scale, float *y);
void cuda_cosine_grad(struct backend *b, const float *p, const float *q, const float *dy,
                      size_t rows, int cols, float scale, float *dp, float *dq);
void cuda_softmax_loss(struct backend *b, const float *x, const int32_t *labels, size_t rows,
                       int classes, float smooth, float *dx, float *sums);
void cuda_square_loss(struct backend *b, const float *x, const float *target, size_t rows,
                      float *dx, float *sums);
void cuda_rates(struct backend *b, const struct update *u);
void cuda_update(struct backend *b, float *w, const float *g, float *v, size_t n, bool plain);
void cuda_track(struct backend *b, float *y, const float *g, size_t n, float keep);

/* --- matrices and convolutions (cuda-matrix.c, cuda-conv.c, cuda-cudnn.c) --------------------- */

int cuda_matrix_init(struct cuda *c, struct err *err);
void cuda_gemm(struct backend *b, bool ta, bool tb, int m, int n, int k, const float *a,
               const float *bb, float beta, float *y);
/* `n` numbers of `x` as values, converted into `room` unless they are. */
const void *cuda_as_values(struct cuda *c, enum room room, const float *x, size_t n);

struct conv_plan {
    struct conv_shape shape;
    struct conv_plan *next;
    struct cuda_dnn *dnn; /* NULL: as matrices */
};
struct conv_plan *cuda_conv_plan(struct backend *b, const struct conv_shape *s);
void cuda_conv(struct backend *b, struct conv_plan *p, const float *x, const float *w, float *y);
void cuda_conv_grad_x(struct backend *b, struct conv_plan *p, const float *w, const float *dy,
                      float *dx);
void cuda_conv_grad_w(struct backend *b, struct conv_plan *p, const float *x, const float *dy,
                      float *dw);
void cuda_conv_free(struct cuda *c);

/* One shape as cuDNN computes it. NULL: it cannot (with the same bits each time). */
struct cuda_dnn *cuda_dnn_new(struct cuda *c, const struct conv_shape *s);
void cuda_dnn_free(struct cuda *c, struct cuda_dnn *d);
/* cuDNN's status; not 0: it has queued nothing. */
int cuda_dnn_forward(struct cuda *c, struct cuda_dnn *d, const float *x, const float *w, float *y);
int cuda_dnn_grad_x(struct cuda *c, struct cuda_dnn *d, const float *w, const float *dy, float *dx);
int cuda_dnn_grad_w(struct cuda *c, struct cuda_dnn *d, const float *x, const float *dy, float *dw);

/* --- recordings (cuda-record.c), ranks (cuda-ranks.c) ----------------------------------------- */

enum backend_work cuda_work_begin(struct backend *b, uint64_t key);
bool cuda_work_end(struct backend *b, enum backend_work answer);
/* What was recorded has addresses in it that are good no longer. */
void cuda_forget_recordings(struct cuda *c);

int cuda_join_id(struct backend *b, char *id, struct err *err);
int cuda_join(struct backend *b, const char id[BACKEND_ID_LEN], uint32_t ranks, uint32_t rank,
              struct err *err);
/* NCCL has not finished what it was asked for. What it finds wrong meanwhile is the failure. */
bool cuda_ranks_busy(struct cuda *c);
void cuda_abort_ranks(struct cuda *c); /* what waits for other ranks in a stream ends */
void cuda_sum(struct backend *b, float *y, size_t n);
void cuda_leave(struct backend *b);

#endif
