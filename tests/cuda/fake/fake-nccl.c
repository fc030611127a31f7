/*
 * The fake's NCCL: ranks are processes of one machine that meet in a file of shared memory. A sum
 * that runs waits for all ranks without blocking the stream's caller: it is "not done yet".
 */
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "parts.h"

#define RANKS 8
#define ROOM  ((size_t)1 << 20) /* floats of a rank */

struct meeting {
    atomic_uint here;             /* ranks that came */
    atomic_ulong written[RANKS];  /* sums that each rank has given its part of … */
    atomic_ulong finished[RANKS]; /* … and has read */
    float parts[RANKS][ROOM];
};

struct ncclComm {
    struct meeting *all;
    char id[128];
    int ranks, rank;
    unsigned long n; /* sums begun */
    bool wrote, aborted;
};

const char *ncclGetErrorString(int code)
{
    return code ? "unhandled system error" : "no error";
}

int ncclGetUniqueId(ncclUniqueId *ret)
{
    FAULT();
    memset(ret, 0, sizeof *ret);
    snprintf(ret->internal, sizeof ret->internal, "/tmp/fake-nccl-XXXXXX");
    int fd = mkstemp(ret->internal);
    if (fd < 0 || ftruncate(fd, sizeof(struct meeting)))
        return 2;
    close(fd);
    return 0;
}

/* Its state tells when all are here: nobody is waited for. */
int ncclCommInitRankConfig(struct ncclComm **ret, int ranks, ncclUniqueId id, int rank,
                           ncclConfig_t *config)
{
    FAULT();
    if (config->size != sizeof *config || config->magic != 0xcafebeef || config->blocking)
        return 4;
    int fd = open(id.internal, O_RDWR | O_CLOEXEC);
    if (fd < 0 || ranks > RANKS)
        return 2;
    struct ncclComm *c = calloc(1, sizeof *c);
    c->all = mmap(NULL, sizeof *c->all, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    c->ranks = ranks;
    c->rank = rank;
    memcpy(c->id, id.internal, sizeof c->id);
    atomic_fetch_add(&c->all->here, 1);
    *ret = c;
    return NCCL_BUSY;
}

static bool have_met(const struct ncclComm *c)
{
    if (atomic_load(&c->all->here) < (unsigned)c->ranks)
        return false;
    unlink(c->id);
    return true;
}

struct sum {
    struct ncclComm *comm;
    const float *from;
    float *to;
    size_t n;
};

static bool all_at(struct ncclComm *c, atomic_ulong *counts, unsigned long want)
{
    for (int i = 0; i < c->ranks; i++)
        if (atomic_load(&counts[i]) < want)
            return false;
    return true;
}

static bool run_sum(void *payload)
{
    struct sum *s = payload;
    struct ncclComm *c = s->comm;
    if (c->aborted)
        return true;
    if (!c->wrote) {
        if (!all_at(c, c->all->finished, c->n)) /* the parts of the last sum are still read */
            return false;
        memcpy(c->all->parts[c->rank], s->from, s->n * sizeof *s->from);
        c->wrote = true;
        atomic_store(&c->all->written[c->rank], c->n + 1);
    }
    if (!all_at(c, c->all->written, c->n + 1))
        return false;
    for (size_t i = 0; i < s->n; i++) {
        float sum = 0;
        for (int r = 0; r < c->ranks; r++)
            sum += c->all->parts[r][i];
        s->to[i] = sum;
    }
    c->wrote = false;
    atomic_store(&c->all->finished[c->rank], ++c->n);
    return true;
}

int ncclAllReduce(const void *from, void *to, size_t n, int type, int op, struct ncclComm *c,
                  struct CUstream_st *s)
{
    FAULT();
    struct sum sum = {c, from, to, n};
    if (type != NCCL_FLOAT || op != NCCL_SUM || n > ROOM || !fake_is_device(to, n * 4) ||
        !have_met(c)) {
        fake.wrong++;
        return 4;
    }
    fake.sums++;
    return fake_queue(s, run_sum, NULL, &sum, sizeof sum);
}

int ncclCommGetAsyncError(struct ncclComm *c, int *ret)
{
    *ret = fake.nccl_error ? fake.nccl_error : have_met(c) ? 0 : NCCL_BUSY;
    return 0;
}

int ncclCommAbort(struct ncclComm *c)
{
    c->aborted = true;
    unlink(c->id);
    fake_drain_all();
    munmap(c->all, sizeof *c->all);
    free(c);
    return 0;
}

int ncclCommDestroy(struct ncclComm *c)
{
    fake_drain_all();
    munmap(c->all, sizeof *c->all);
    free(c);
    return 0;
}
