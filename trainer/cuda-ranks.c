/* GPU backend: sums over ranks by NCCL, on the stream of the step. */
#include <string.h>

#include "cuda-internal.h"

#define NCCL_HELP \
    "%s (each rank needs a GPU of its own: --device cuda:N; NCCL_DEBUG=INFO says more)"

int cuda_join_id(struct backend *b, char *id, struct err *err)
{
    struct cuda *c = cuda_of(b);
    ncclUniqueId unique;
    _Static_assert(sizeof unique == BACKEND_ID_LEN, "NCCL's id is what ranks share");
    if (!c->lib.has[CUDA_NCCL])
        return err_set(err, ERR_NOT_FOUND,
                       "libnccl.so.2 of NCCL 2.14 or later is not found: sums go through the host");
    if (!id)
        return 0;
    int code = c->lib.ncclGetUniqueId(&unique);
    if (code)
        return err_set(err, ERR_FAILED, "NCCL: %s", c->lib.ncclGetErrorString(code));
    memcpy(id, &unique, sizeof unique);
    return 0;
}

/* It does not wait for the others, as NCCL may for ever where one of them does not come: busy()
 * tells when all have. */
int cuda_join(struct backend *b, const char id[BACKEND_ID_LEN], uint32_t ranks, uint32_t rank,
              struct err *err)
{
    struct cuda *c = cuda_of(b);
    ncclUniqueId unique;
    ncclConfig_t config = {
        .size = sizeof config, .magic = 0xcafebeef, .version = NCCL_CONFIG_VERSION};
    memcpy(&unique, id, sizeof unique);
    int code = c->lib.ncclCommInitRankConfig(&c->ranks, (int)ranks, unique, (int)rank, &config);
    if (code == 0 || code == NCCL_BUSY)
        return 0;
    c->ranks = NULL;
    return err_set(err, ERR_FAILED, "NCCL: rank %u of %u does not meet the others: " NCCL_HELP,
                   rank, ranks, c->lib.ncclGetErrorString(code));
}

void cuda_sum(struct backend *b, float *y, size_t n)
{
    struct cuda *c = cuda_of(b);
    if (cuda_failed(c) || n == 0)
        return;
    if (!c->ranks) {
        cuda_fail(c, ERR_BUG, "the sum over ranks", "they were left");
        return;
    }
    int code = c->lib.ncclAllReduce(y, y, n, NCCL_FLOAT, NCCL_SUM, c->ranks, cuda_stream(c));
    if (code && code != NCCL_BUSY)
        cuda_fail(c, ERR_FAILED, "the sum over ranks", c->lib.ncclGetErrorString(code));
}

void cuda_abort_ranks(struct cuda *c)
{
    if (c->ranks)
        (void)c->lib.ncclCommAbort(c->ranks);
    c->ranks = NULL;
}

bool cuda_ranks_busy(struct cuda *c)
{
    int state = 0;
    if (!c->ranks || cuda_failed(c))
        return false;
    int code = c->lib.ncclCommGetAsyncError(c->ranks, &state);
    code = code ? code : state;
    if (code == NCCL_BUSY)
        return true;
    if (code) { /* a sum that was begun would not end */
        err_set(&c->err, ERR_FAILED, "NCCL: " NCCL_HELP, c->lib.ncclGetErrorString(code));
        cuda_abort_ranks(c);
    }
    return false;
}

void cuda_leave(struct backend *b)
{
    cuda_abort_ranks(cuda_of(b));
}
