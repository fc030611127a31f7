/*
 * The place of the GPU backend: its libraries are looked for at run time, none is needed to build.
 *
 * This build computes on CPUs only, and says what is missing on the way to a GPU.
 */
#include <stdlib.h>

#include "backend.h"
#include "cuda-lib.h"

int backend_cuda(struct backend **ret, int device, struct err *err)
{
    struct cuda_lib lib;
    (void)ret;
    (void)device;
    if (cuda_lib_open(&lib, getenv(CUDA_LIBS_ENV), err))
        return -1;
    cuda_lib_close(&lib);
    return err_set(err, ERR_NOT_FOUND,
                   "a GPU is here, but this build has no code for it (" CUDA_CPU_INSTEAD ")");
}
