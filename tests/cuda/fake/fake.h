/*
 * A stand-in for NVIDIA's libraries that computes on the host: one shared object (fake-cuda.so)
 * with all symbols of trainer/cuda-lib.def, given by its path. It is as unkind as a GPU may be:
 *
 *  - nothing runs when it is queued. A stream runs when somebody waits for it, and another stream
 *    only as far as an event demands: what was not ordered is not done. (`eager_feeds`: all streams
 *    but the first made run at once as far as events let them: what ran too early shows.)
 *  - pinned sources are read when the copy runs, not when it is queued;
 *  - a thread that has not taken the device cannot start kernels;
 *  - new memory is full of 0xA5, and its sum is bounded;
 *  - calls that a recording forbids fail;
 *  - what a call of the runtime answered stays its last error, and the next product or convolution
 *    takes that for its own.
 *
 * Kernels are trainer/kernels*.cu, compiled as C, a fiber for each thread of a block that has
 * barriers. Tests see and set `struct fake_state` by fake_cuda_state().
 */
#ifndef SAMPAN_TESTS_FAKE_CUDA_H
#define SAMPAN_TESTS_FAKE_CUDA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct fake_state {
    /* set by tests, or by the environment when it is loaded: FAKE_CUDA_MEMORY (bytes),
     * FAKE_CUDA_FAIL (FUNCTION:N:CODE, the n-th call of it) */
    int devices, init_code, driver_version, major, minor;
    size_t memory;
    bool eager_feeds, no_cudnn;
    int nccl_error; /* what NCCL finds wrong while it waits for the others */
    char fail_name[64];
    long fail_at; /* calls until it fails; 0: never */
    int fail_code;
    int last_error; /* that cudaGetLastError() has not taken yet */

    /* counted */
    size_t used, most_used, allocations, pinned;
    uint64_t pinned_copies, pageable_copies, pinned_bytes, pageable_bytes, device_copies,
        host_copies;
    uint64_t kernels, graphs, replays, gemms, convolutions, sums;
    uint64_t wrong; /* calls with addresses that are not what they must be */
};

struct fake_state *fake_cuda_state(void);

#endif
