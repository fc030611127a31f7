/* Parts of the fake driver. */
#ifndef SAMPAN_TESTS_FAKE_CUDA_PARTS_H
#define SAMPAN_TESTS_FAKE_CUDA_PARTS_H

#include "cuda-types.h"
#include "fake.h"

#define OUT_OF_MEMORY 2
#define NOT_READY     600
#define NOT_PERMITTED 800 /* in a recording */
#define INVALID       1
#define NO_CONTEXT    201 /* CUDA_ERROR_INVALID_CONTEXT */

extern struct fake_state fake;

/* Should this call fail? Its code, or 0. */
int fake_fault(const char *function);
#define FAULT()                            \
    do {                                   \
        int fault_ = fake_fault(__func__); \
        if (fault_)                        \
            return fault_;                 \
    } while (0)

/* Queues work: `run` gets a copy of `payload` and says whether it is done (else it is asked again).
 * `drop` (may be NULL) frees what the payload points to. */
int fake_queue(struct CUstream_st *s, bool (*run)(void *payload), void (*drop)(void *payload),
               const void *payload, size_t size);
/* Runs what is queued; false: it waits for something that is not there. */
bool fake_drain(struct CUstream_st *s);
void fake_drain_all(void);
bool fake_recording(void);
bool fake_is_device(const void *p, size_t n);

/* Kernels (fake-kernels.c and generated trampolines). */
struct fake_kernel {
    const char *name;
    bool sync;
    void (*call)(void **args);
    const size_t *sizes; /* of its arguments; 0 ends */
};
struct fake_dim {
    unsigned x, y, z;
};
extern const struct fake_kernel fake_kernels_fp32[], fake_kernels_bf16[];
void fake_run_kernel(const struct fake_kernel *k, struct fake_dim grid, struct fake_dim block,
                     void **args);
extern struct fake_dim fake_grid, fake_block, fake_block_at, fake_thread_at;
void fake_barrier(void);
/* The compiler of kernels' uint4. */
struct fake_words {
    unsigned x, y, z, w;
} __attribute__((aligned(16), may_alias));

#endif
