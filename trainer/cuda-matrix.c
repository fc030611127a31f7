/*
 * GPU backend: matrices by cuBLAS, which counts columns first: the transposed product of transposed
 * operands is the same memory.
 *
 * In bfloat16 both operands are: what is float (parameters) is converted first. Sums are kept in
 * float, and the result is whatever memory it goes to holds.
 */
#include "cuda-internal.h"

#define BLAS_ROOM ((size_t)32 << 20)

int cuda_matrix_init(struct cuda *c, struct err *err)
{
    int code = c->lib.cublasCreate(&c->blas);
    if (!code)
        code = c->lib.cublasSetStream(c->blas, c->streams[LANE_COMPUTE]);
    if (code)
        return err_set(err, ERR_FAILED,
                       "cuBLAS does not start: %d (is the GPU's memory full? " CUDA_CPU_INSTEAD ")",
                       code);
    /* Memory of its own: recordings need it, and results are the same bits each time. */
    if (cuda_alloc(&c->base, BLAS_ROOM / sizeof(float), &c->blas_room, err))
        return -1;
    code = c->lib.cublasSetWorkspace(c->blas, c->blas_room, BLAS_ROOM);
    if (code)
        return err_set(err, ERR_FAILED, "cuBLAS takes no memory: %d", code);
    if (c->lib.has[CUDA_CUDNN] && !c->o.no_cudnn &&
        (c->lib.cudnnCreate(&c->dnn) || c->lib.cudnnSetStream(c->dnn, c->streams[LANE_COMPUTE]))) {
        if (c->dnn)
            (void)c->lib.cudnnDestroy(c->dnn);
        c->dnn = NULL; /* convolutions as matrices */
    }
    return 0;
}

const void *cuda_as_values(struct cuda *c, enum room room, const float *x, size_t n)
{
    if (!c->half || cuda_is_value(c, x))
        return x;
    void *half = cuda_room(c, room, n * cuda_value_size(c));
    cuda_narrow(c, half, x, n);
    return half;
}

/* Rooms hold values, too. */
static bool holds_values(const struct cuda *c, const void *p)
{
    for (int i = ROOM_LEFT; i <= ROOM_WINDOWS; i++)
        if (p == c->rooms[i].at)
            return true;
    return cuda_is_value(c, p);
}

void cuda_gemm(struct backend *b, bool ta, bool tb, int m, int n, int k, const float *a,
               const float *bb, float beta, float *y)
{
    struct cuda *c = cuda_of(b);
    static const float one = 1;
    if (m == 0 || n == 0 || cuda_failed(c))
        return;
    if (k == 0) {
        if (beta == 0)
            cuda_ok(c,
                    c->lib.cudaMemsetAsync(
                        y, 0,
                        (size_t)m * (size_t)n *
                            (holds_values(c, y) ? cuda_value_size(c) : sizeof(float)),
                        cuda_stream(c)),
                    "zero");
        return;
    }
    int type = c->half ? CUDA_R_16BF : CUDA_R_32F;
    int out = c->half && holds_values(c, y) ? CUDA_R_16BF : CUDA_R_32F;
    const void *left = a, *right = bb;
    if (!holds_values(c, a))
        left = cuda_as_values(c, ROOM_LEFT, a, (size_t)m * (size_t)k);
    if (!holds_values(c, bb))
        right = cuda_as_values(c, ROOM_RIGHT, bb, (size_t)k * (size_t)n);
    if (cuda_failed(c))
        return;
    int code = c->lib.cublasGemmEx(c->blas, tb ? CUBLAS_T : CUBLAS_N, ta ? CUBLAS_T : CUBLAS_N, n,
                                   m, k, &one, right, type, tb ? k : n, left, type, ta ? m : k,
                                   &beta, y, out, n, c->compute, CUBLAS_HOW);
    if (code)
        cuda_fail(c, ERR_FAILED, "a product of matrices", "cuBLAS refuses it");
}
