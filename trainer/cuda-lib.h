/*
 * NVIDIA's libraries, found at run time: none is needed to build, none stands in the program's list
 * of libraries. Declarations are our own (cuda-lib.def); `make cuda` compares them with the
 * vendor's headers.
 *
 *   driver   libcuda.so.1         comes with the driver; loads and starts kernels
 *   runtime  libcudart.so.13|12   memory, streams, events, graphs
 *   nvrtc    libnvrtc.so.13|12    compiles trainer/kernels.cu for the device that is there
 *   cublas   libcublas.so.13|12   matrices
 *   cudnn    libcudnn.so.9        convolutions; without it, im2col and cublas
 *   nccl     libnccl.so.2         sums over ranks; without it (2.14 or later), through the host by
 *                                 Gloo
 *
 * Where: first the folders of `where` (absolute, ':' between them; an entry that ends in .so serves
 * all libraries: tests have one), then wherever the system's loader looks. Of the versions of a
 * library those that the driver is too old for are passed over.
 */
#ifndef SAMPAN_TRAIN_CUDA_LIB_H
#define SAMPAN_TRAIN_CUDA_LIB_H

#include <stdbool.h>
#include <stddef.h>

#include "cuda-types.h"
#include "err.h"

/* What every error of the GPU's ends with. */
#define CUDA_CPU_INSTEAD "--device cpu trains without a GPU"
#define CUDA_LIBS_ENV    "SAMPAN_CUDA_LIBS"

enum cuda_library {
    CUDA_DRIVER,
    CUDA_RUNTIME,
    CUDA_NVRTC,
    CUDA_CUBLAS,
    CUDA_CUDNN,
    CUDA_NCCL,
    CUDA_N_LIBRARIES,
};

struct cuda_lib {
#define FN(library, type, name, symbol, args) type(*name) args;
#include "cuda-lib.def"
#undef FN
    void *handles[CUDA_N_LIBRARIES];
    bool has[CUDA_N_LIBRARIES];
    int driver_version; /* of CUDA that the driver serves: 13000 */
};

/* Finds all libraries and starts the driver. ERR_NOT_FOUND says what is missing or too old and what
 * to do. `where` may be NULL. cuDNN and NCCL may be absent: see `has`. */
int cuda_lib_open(struct cuda_lib *l, const char *where, struct err *err);
/* NVRTC alone, from the folders of `where`: it needs neither a driver nor a GPU. */
int cuda_lib_compiler(struct cuda_lib *l, const char *where, struct err *err);
void cuda_lib_close(struct cuda_lib *l);

#endif
