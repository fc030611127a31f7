/* The fake's devices, versions and errors; its NVRTC, which gives the text back as code. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "parts.h"

int cuInit(unsigned flags)
{
    (void)flags;
    return fake.init_code ? fake.init_code : fake.devices ? 0 : 100;
}

int cuDriverGetVersion(int *version)
{
    *version = fake.driver_version;
    return 0;
}

int cuDeviceGetCount(int *count)
{
    *count = fake.devices;
    return 0;
}

int cuDeviceGetName(char *name, int len, int device)
{
    snprintf(name, (size_t)len, "Fake %d", device);
    return 0;
}

static const char *text_of(int code)
{
    return code == OUT_OF_MEMORY ? "out of memory" : code == 999 ? "unknown error" : "a fault";
}

int cuGetErrorString(int code, const char **ret)
{
    *ret = text_of(code);
    return 0;
}

const char *cudaGetErrorString(int code)
{
    return text_of(code);
}

static _Thread_local bool has_context;

int cudaSetDevice(int device)
{
    FAULT();
    if (device >= fake.devices)
        return 101;
    has_context = true;
    return 0;
}

int cudaDeviceGetAttribute(int *ret, int what, int device)
{
    (void)device;
    *ret = what == CUDA_ATTR_MAJOR ? fake.major : what == CUDA_ATTR_MINOR ? fake.minor : 2;
    return 0;
}

/* --- NVRTC ------------------------------------------------------------------------------------ */

struct _nvrtcProgram {
    char *source;
    char image[64]; /* "sm_90 bf16" */
};

const char *nvrtcGetErrorString(int code)
{
    return code == 6 ? "NVRTC_ERROR_COMPILATION" : "NVRTC_ERROR";
}

int nvrtcCreateProgram(struct _nvrtcProgram **ret, const char *source, const char *name, int n,
                       const char *const *headers, const char *const *names)
{
    (void)name;
    (void)n;
    (void)headers;
    (void)names;
    FAULT();
    *ret = calloc(1, sizeof **ret);
    (*ret)->source = strdup(source);
    return 0;
}

int nvrtcCompileProgram(struct _nvrtcProgram *p, int n, const char *const *options)
{
    bool half = false;
    const char *arch = "?";
    FAULT();
    for (int i = 0; i < n; i++) {
        half |= strcmp(options[i], "-DACT_BF16") == 0;
        if (strncmp(options[i], "-arch=", 6) == 0)
            arch = options[i] + 6;
    }
    snprintf(p->image, sizeof p->image, "%s %s", arch, half ? "bf16" : "fp32");
    return strstr(p->source, "k_softmax_loss") ? 0 : 6;
}

int nvrtcGetCUBINSize(struct _nvrtcProgram *p, size_t *ret)
{
    *ret = sizeof p->image;
    return 0;
}

int nvrtcGetCUBIN(struct _nvrtcProgram *p, char *ret)
{
    memcpy(ret, p->image, sizeof p->image);
    return 0;
}

int nvrtcGetProgramLogSize(struct _nvrtcProgram *p, size_t *ret)
{
    (void)p;
    *ret = 6;
    return 0;
}

int nvrtcGetProgramLog(struct _nvrtcProgram *p, char *ret)
{
    (void)p;
    memcpy(ret, "wrong", 6);
    return 0;
}

int nvrtcDestroyProgram(struct _nvrtcProgram **p)
{
    free((*p)->source);
    free(*p);
    *p = NULL;
    return 0;
}

/* --- modules ---------------------------------------------------------------------------------- */

struct CUmod_st {
    const struct fake_kernel *kernels;
};
struct CUfunc_st {
    struct fake_kernel kernel;
};

int cuModuleLoadData(struct CUmod_st **ret, const void *image)
{
    char want[16];
    FAULT();
    if (!has_context)
        return NO_CONTEXT;
    snprintf(want, sizeof want, "sm_%d%d ", fake.major, fake.minor);
    if (strncmp(image, want, strlen(want)) != 0)
        return 209; /* no binary for this GPU */
    *ret = calloc(1, sizeof **ret);
    (*ret)->kernels = strstr(image, "bf16") ? fake_kernels_bf16 : fake_kernels_fp32;
    return 0;
}

int cuModuleUnload(struct CUmod_st *m)
{
    free(m);
    return 0;
}

int cuModuleGetFunction(struct CUfunc_st **ret, struct CUmod_st *m, const char *name)
{
    FAULT();
    for (const struct fake_kernel *k = m->kernels; k->name; k++)
        if (strcmp(k->name, name) == 0) {
            *ret = (struct CUfunc_st *)(uintptr_t)k; /* its first member */
            return 0;
        }
    return 500;
}

struct launch {
    const struct fake_kernel *kernel;
    struct fake_dim grid, block;
    size_t n;
    void *args[16];
    unsigned char bytes[256];
};

static bool run_launch(void *payload)
{
    struct launch *l = payload;
    size_t at = 0;
    for (size_t i = 0; i < l->n; i++) {
        l->args[i] = l->bytes + at;
        at += (l->kernel->sizes[i] + 7) / 8 * 8;
    }
    fake_run_kernel(l->kernel, l->grid, l->block, l->args);
    return true;
}

int cuLaunchKernel(struct CUfunc_st *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                   unsigned by, unsigned bz, unsigned shared, struct CUstream_st *s, void **args,
                   void **extra)
{
    (void)shared;
    (void)extra;
    FAULT();
    if (!has_context)
        return NO_CONTEXT;
    struct launch l = {.kernel = &f->kernel, .grid = {gx, gy, gz}, .block = {bx, by, bz}};
    if (!gx || !gy || !gz || bx * by * bz == 0 || bx * by * bz > 1024)
        return INVALID;
    for (size_t at = 0; l.kernel->sizes[l.n]; l.n++) {
        memcpy(l.bytes + at, args[l.n], l.kernel->sizes[l.n]);
        at += (l.kernel->sizes[l.n] + 7) / 8 * 8;
    }
    fake.kernels++;
    return fake_queue(s, run_launch, NULL, &l, sizeof l);
}
