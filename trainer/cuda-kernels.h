/*
 * The GPU backend's own kernels: their text (trainer/kernels*.cu, part of the program), and the
 * machine code that NVRTC makes of it for one kind of device.
 */
#ifndef SAMPAN_TRAIN_CUDA_KERNELS_H
#define SAMPAN_TRAIN_CUDA_KERNELS_H

#include "cuda-lib.h"

/* Each is k_NAME in the text. */
#define CUDA_KERNELS(X) \
    X(fill)             \
    X(narrow)           \
    X(widen)            \
    X(axpy)             \
    X(axpy_act)         \
    X(add)              \
    X(blend)            \
    X(relu)             \
    X(relu_grad)        \
    X(columns)          \
    X(bias)             \
    X(column_sums)      \
    X(merge)            \
    X(norm_sums)        \
    X(norm_line)        \
    X(norm_eval_line)   \
    X(scale_shift)      \
    X(norm_grad_sums)   \
    X(norm_grad)        \
    X(maxpool)          \
    X(maxpool_grad)     \
    X(meanpool)         \
    X(meanpool_grad)    \
    X(windows)          \
    X(windows_grad)     \
    X(embed)            \
    X(embed_grad)       \
    X(cosine)           \
    X(cosine_grad)      \
    X(softmax_loss)     \
    X(square_loss)      \
    X(loss_sums)        \
    X(lars_sums)        \
    X(lars_ratio)       \
    X(update)           \
    X(track)

enum cuda_kernel {
#define X(name) K_##name,
    CUDA_KERNELS(X)
#undef X
        CUDA_N_KERNELS,
};

/* Dimensions that the text goes by, too. */
#define CUDA_THREADS 256 /* of a block */
#define CUDA_COLUMNS 32  /* of a block that sums rows, and the threads a column */
#define CUDA_LINES   16
#define CUDA_PACK    16 /* bytes of values that are moved at once */
#define CUDA_ACROSS  32 /* packs of columns that a block which normalises stands for */

/* The text, ended by a NUL. */
extern const char cuda_kernels_text[];

struct cuda_image {
    char *bytes; /* malloc'ed */
    size_t size;
};

/* Machine code of all kernels for `arch` ("sm_90"); `half`: values in bfloat16. */
int cuda_compile(const struct cuda_lib *l, const char *arch, bool half, struct cuda_image *ret,
                 struct err *err);

/* Makes the code of the device's own kind and loads it into the current context. */
struct cuda_code {
    struct CUmod_st *module;
    struct CUfunc_st *kernels[CUDA_N_KERNELS];
};
int cuda_code_load(struct cuda_code *ret, const struct cuda_lib *l, int major, int minor, bool half,
                   struct err *err);
void cuda_code_unload(struct cuda_code *c, const struct cuda_lib *l);

#endif
