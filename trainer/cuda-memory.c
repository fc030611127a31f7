/*
 * The GPU's memory, and copies between it and the host.
 *
 * Memory comes from the driver in chunks that are dealt out from their begin: values of samples in
 * chunks of their own, so that an address tells what lies there. A chunk goes back when all in it
 * was released. Sources that are not pinned go through a small pinned stage of their stream, so
 * that no copy waits for the device; what is pinned is copied from where it lies.
 */
#include <stdlib.h>
#include <string.h>

#include "conf.h"
#include "cuda-internal.h"
#include "mem.h"

#define CHUNK (32u << 20)
#define ALIGN 256
#define STAGE (8u << 20)

static size_t aligned(size_t bytes)
{
    return (bytes + ALIGN - 1) / ALIGN * ALIGN;
}

static int no_room(struct cuda *c, size_t bytes, struct err *err)
{
    size_t unused = 0, total = 0;
    char size[32], left[32], all[32];
    (void)c->lib.cudaMemGetInfo(&unused, &total);
    conf_format_size(bytes, size);
    conf_format_size(unused, left);
    conf_format_size(total, all);
    return err_set(err, ERR_LIMIT,
                   "the GPU's memory: no room for %s: %s of %s are free (a smaller --batch_size "
                   "needs less, --precision bf16 half; " CUDA_CPU_INSTEAD ")",
                   size, left, all);
}

/* --- chunks ----------------------------------------------------------------------------------- */

static struct chunk *chunk_of(const struct cuda *c, const void *p)
{
    for (size_t i = 0; i < c->n_chunks; i++) {
        struct chunk *k = &c->chunks[i];
        if ((const char *)p >= k->at && (const char *)p < k->at + k->size)
            return k;
    }
    return NULL;
}

bool cuda_is_value(const struct cuda *c, const void *p)
{
    const struct chunk *k = chunk_of(c, p);
    return k && k->values;
}

static struct chunk *chunk_with_room(struct cuda *c, size_t bytes, bool values, struct err *err)
{
    for (size_t i = 0; i < c->n_chunks; i++) {
        struct chunk *k = &c->chunks[i];
        if (k->values == values && k->size - k->used >= bytes)
            return k;
    }
    struct chunk k = {.size = bytes > CHUNK ? bytes : CHUNK, .values = values};
    void *at = NULL;
    int code = c->lib.cudaMalloc(&at, k.size);
    if (code == CUDA_E_MEMORY && k.size > bytes) { /* a whole chunk may be too much, this not */
        cuda_handled(c);
        k.size = bytes;
        code = c->lib.cudaMalloc(&at, k.size);
    }
    if (code == CUDA_E_MEMORY) {
        (void)no_room(c, bytes, err);
        return NULL;
    }
    if (code) {
        err_set(err, ERR_FAILED, "the GPU's memory: %s", c->lib.cudaGetErrorString(code));
        return NULL;
    }
    k.at = at;
    c->chunks = xrealloc(c->chunks, (c->n_chunks + 1) * sizeof *c->chunks);
    c->chunks[c->n_chunks] = k;
    return &c->chunks[c->n_chunks++];
}

static int alloc(struct cuda *c, size_t bytes, bool values, void **ret, struct err *err)
{
    bytes = aligned(bytes ? bytes : 1);
    struct chunk *k = chunk_with_room(c, bytes, values, err);
    if (!k)
        return -1;
    *ret = k->at + k->used;
    k->used += bytes;
    k->live++;
    cuda_ok(c, c->lib.cudaMemsetAsync(*ret, 0, bytes, cuda_stream(c)), "zero");
    return 0;
}

int cuda_alloc(struct backend *b, size_t n, void **ret, struct err *err)
{
    if (n > SIZE_MAX / sizeof(float) / 2)
        return err_set(err, ERR_LIMIT, "memory: %zu numbers are more than there can be", n);
    return alloc(cuda_of(b), n * sizeof(float), false, ret, err);
}

int cuda_alloc_values(struct backend *b, size_t n, float **ret, struct err *err)
{
    void *p = NULL;
    if (n > SIZE_MAX / sizeof(float) / 2)
        return err_set(err, ERR_LIMIT, "memory: %zu numbers are more than there can be", n);
    if (alloc(cuda_of(b), n * cuda_value_size(cuda_of(b)), true, &p, err))
        return -1;
    *ret = p;
    return 0;
}

void cuda_release(struct backend *b, void *p)
{
    struct cuda *c = cuda_of(b);
    struct chunk *k = chunk_of(c, p);
    if (!k || --k->live > 0)
        return;
    cuda_forget_recordings(c);
    (void)c->lib.cudaFree(k->at); /* waits for what still uses it */
    *k = c->chunks[--c->n_chunks];
}

void *cuda_room(struct cuda *c, enum room which, size_t bytes)
{
    struct err err = {0};
    if (cuda_failed(c))
        return NULL;
    if (bytes <= c->rooms[which].size)
        return c->rooms[which].at;
    if (c->now) { /* a first run, which is not recorded, has made all rooms large enough */
        cuda_fail(c, ERR_BUG, "memory", "a recording needs more than its first run did");
        return NULL;
    }
    cuda_forget_recordings(c);
    bytes = aligned(bytes);
    (void)c->lib.cudaFree(c->rooms[which].at);
    c->rooms[which].at = NULL;
    c->rooms[which].size = 0;
    int code = c->lib.cudaMalloc(&c->rooms[which].at, bytes);
    if (code == CUDA_E_MEMORY) {
        (void)no_room(c, bytes, &err);
        c->err = err;
        return NULL;
    }
    if (!cuda_ok(c, code, "memory"))
        return NULL;
    c->rooms[which].size = bytes;
    return c->rooms[which].at;
}

/* --- the host's side -------------------------------------------------------------------------- */

void *cuda_host_alloc(struct backend *b, size_t bytes, struct err *err)
{
    struct cuda *c = cuda_of(b);
    void *p = NULL;
    int code = c->lib.cudaHostAlloc(&p, bytes ? bytes : 1, 0);
    if (code) {
        char size[32];
        conf_format_size(bytes, size);
        err_set(err, ERR_LIMIT,
                "pinned memory: no room for %s: %s (is `ulimit -l` small? fewer --loader_threads "
                "and a smaller --batch_size need less)",
                size, c->lib.cudaGetErrorString(code));
        return NULL;
    }
    c->pinned = xrealloc(c->pinned, (c->n_pinned + 1) * sizeof *c->pinned);
    c->pinned[c->n_pinned++] = (struct pinned){p, bytes};
    return p;
}

void cuda_host_free(struct backend *b, void *p)
{
    struct cuda *c = cuda_of(b);
    for (size_t i = 0; i < c->n_pinned; i++)
        if (c->pinned[i].at == p) {
            c->pinned[i] = c->pinned[--c->n_pinned];
            (void)c->lib.cudaFreeHost(p);
            return;
        }
}

static bool cuda_is_pinned(const struct cuda *c, const void *p, size_t bytes)
{
    for (size_t i = 0; i < c->n_pinned; i++) {
        const struct pinned *k = &c->pinned[i];
        if ((const char *)p >= k->at && (const char *)p + bytes <= k->at + k->size)
            return true;
    }
    return false;
}

static void copy_in(struct cuda *c, void *to, const void *from, size_t bytes)
{
    cuda_ok(c, c->lib.cudaMemcpyAsync(to, from, bytes, CUDA_HOST_TO_DEVICE, cuda_stream(c)),
            "copy to the GPU");
}

/* Through the stage, in pieces; a stage that is full is waited for. */
static void copy_staged(struct cuda *c, char *to, const char *from, size_t bytes)
{
    struct stage *s = &c->stages[c->lane];
    while (bytes > 0 && !cuda_failed(c)) {
        if (s->used == STAGE) {
            cuda_ok(c, c->lib.cudaStreamSynchronize(cuda_stream(c)), "copy to the GPU");
            s->used = 0;
        }
        size_t room = STAGE - s->used, n = bytes < room ? bytes : room;
        memcpy(s->at + s->used, from, n);
        copy_in(c, to, s->at + s->used, n);
        s->used += aligned(n) < room ? aligned(n) : room;
        to += n;
        from += n;
        bytes -= n;
    }
}

void cuda_put(struct backend *b, void *to, const void *from, size_t bytes)
{
    struct cuda *c = cuda_of(b);
    bool narrow = c->half && cuda_is_value(c, to);
    void *target = narrow ? cuda_room(c, ROOM_PUT + c->lane, bytes) : to;
    if (bytes == 0 || cuda_failed(c))
        return;
    if (cuda_is_pinned(c, from, bytes))
        copy_in(c, target, from, bytes);
    else
        copy_staged(c, target, from, bytes);
    if (narrow)
        cuda_narrow(c, to, target, bytes / sizeof(float));
}

void cuda_get(struct backend *b, void *to, const void *from, size_t bytes)
{
    struct cuda *c = cuda_of(b);
    const void *source = from;
    if (c->half && cuda_is_value(c, from)) {
        void *wide = cuda_room(c, ROOM_PUT + c->lane, bytes);
        cuda_widen(c, wide, from, bytes / sizeof(float));
        source = wide;
    }
    if (bytes && !cuda_failed(c))
        cuda_ok(c, c->lib.cudaMemcpyAsync(to, source, bytes, CUDA_DEVICE_TO_HOST, cuda_stream(c)),
                "copy from the GPU");
}

/* --- begin and end ---------------------------------------------------------------------------- */

int cuda_memory_init(struct cuda *c, struct err *err)
{
    for (int i = 0; i < N_LANES; i++) {
        c->stages[i].at = cuda_host_alloc(&c->base, STAGE, err);
        if (!c->stages[i].at)
            return -1;
    }
    void *rates = NULL;
    if (cuda_alloc(&c->base, 8, &rates, err))
        return -1;
    c->rates = rates;
    return 0;
}

void cuda_memory_free(struct cuda *c)
{
    for (size_t i = 0; i < c->n_chunks; i++)
        (void)c->lib.cudaFree(c->chunks[i].at);
    for (int i = 0; i < N_ROOMS; i++)
        if (c->rooms[i].at)
            (void)c->lib.cudaFree(c->rooms[i].at);
    while (c->n_pinned > 0)
        (void)c->lib.cudaFreeHost(c->pinned[--c->n_pinned].at);
    free(c->chunks);
    free(c->pinned);
}
