/* GPU backend: sums over ranks by NCCL, on the stream of the step. */
#include <string.h>

#include "cuda-internal.h"

int cuda_join_id(struct backend *b, char *id, struct err *err)
{
    struct cuda *c = cuda_of(b);
    ncclUniqueId unique;
    _Static_assert(sizeof unique == BACKEND_ID_LEN, "NCCL's id is what ranks share");
    if (!c->lib.has[CUDA_NCCL])
        return err_set(err, ERR_NOT_FOUND, "libnccl.so.2 is not found: sums go through the host");
    if (!id)
        return 0;
    int code = c->lib.ncclGetUniqueId(&unique);
    if (code)
        return err_set(err, ERR_FAILED, "NCCL: %s", c->lib.ncclGetErrorString(code));
    memcpy(id, &unique, sizeof unique);
    return 0;
}

int cuda_join(struct backend *b, const char id[BACKEND_ID_LEN], uint32_t ranks, uint32_t rank,
              struct err *err)
{
    struct cuda *c = cuda_of(b);
    ncclUniqueId unique;
    memcpy(&unique, id, sizeof unique);
    int code = c->lib.ncclCommInitRank(&c->ranks, (int)ranks, unique, (int)rank);
    if (code == 0)
        return 0;
    c->ranks = NULL;
    return err_set(err, ERR_FAILED,
                   "NCCL: rank %u of %u does not meet the others: %s (each rank needs a GPU of its "
                   "own: --device cuda:N; NCCL_DEBUG=INFO says more)",
                   rank, ranks, c->lib.ncclGetErrorString(code));
}

void cuda_sum(struct backend *b, float *y, size_t n)
{
    struct cuda *c = cuda_of(b);
    if (cuda_failed(c) || n == 0)
        return;
    int code = c->lib.ncclAllReduce(y, y, n, NCCL_FLOAT, NCCL_SUM, c->ranks, cuda_stream(c));
    if (code && code != NCCL_BUSY)
        cuda_fail(c, ERR_FAILED, "the sum over ranks", c->lib.ncclGetErrorString(code));
}

void cuda_leave(struct backend *b)
{
    struct cuda *c = cuda_of(b);
    if (c->ranks)
        (void)c->lib.ncclCommAbort(c->ranks);
    c->ranks = NULL;
    cuda_fail(c, ERR_FAILED, "the sum over ranks", "a rank has died");
}
