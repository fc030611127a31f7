/*
 * The place of the GPU backend: libraries are looked for at run time, none is needed to build.
 *
 * This build computes on CPUs only, and says what is missing on the way to a GPU.
 */
#include <dlfcn.h>

#include "backend.h"

#define CPU_INSTEAD "--device cpu trains without a GPU"

typedef int init_fn(unsigned flags);
typedef int count_fn(int *count);

static int ask_driver(void *driver, struct err *err)
{
    init_fn *init;
    count_fn *count;
    int devices = 0;
    *(void **)&init = dlsym(driver, "cuInit");
    *(void **)&count = dlsym(driver, "cuDeviceGetCount");
    if (!init || !count)
        return err_set(err, ERR_NOT_FOUND, "libcuda.so.1: no CUDA driver (" CPU_INSTEAD ")");
    int code = init(0);
    if (code || count(&devices) || devices == 0)
        return err_set(err, ERR_NOT_FOUND,
                       "no GPU: the driver answers %d, %d devices (in a pod: ask for "
                       "nvidia.com/gpu; " CPU_INSTEAD ")",
                       code, devices);
    return 0;
}

int backend_cuda(struct backend **ret, int device, struct err *err)
{
    (void)ret;
    (void)device;
    void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!driver)
        return err_set(err, ERR_NOT_FOUND,
                       "no GPU driver: libcuda.so.1 is not found (install NVIDIA's driver, in a "
                       "pod ask for nvidia.com/gpu; " CPU_INSTEAD ")");
    int failed = ask_driver(driver, err);
    dlclose(driver);
    return failed ? -1
                  : err_set(err, ERR_NOT_FOUND,
                            "a GPU is here, but this build has no code for it (" CPU_INSTEAD ")");
}
