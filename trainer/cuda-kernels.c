/* The kernels' text and what NVRTC makes of it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda-kernels.h"
#include "mem.h"

/* The assembler puts the files in: they stay files that a compiler of kernels reads as well. */
__asm__(".section .rodata\n"
        ".global cuda_kernels_text\n"
        ".balign 16\n"
        "cuda_kernels_text:\n"
        ".incbin \"trainer/kernels.cu\"\n"
        ".incbin \"trainer/kernels-image.cu\"\n"
        ".incbin \"trainer/kernels-loss.cu\"\n"
        ".byte 0\n"
        ".previous\n");

/* --- compiling -------------------------------------------------------------------------------- */

/* What NVRTC says of the text, its first lines. */
static void read_log(const struct cuda_lib *l, struct _nvrtcProgram *p, char *out, size_t size)
{
    size_t n = 0;
    out[0] = '\0';
    if (l->nvrtcGetProgramLogSize(p, &n) || n < 2)
        return;
    cleanup_free char *log = xmalloc(n);
    if (l->nvrtcGetProgramLog(p, log) == 0)
        snprintf(out, size, ": %.*s", (int)(n - 1), log);
}

static int compile(const struct cuda_lib *l, struct _nvrtcProgram *p, const char *arch, bool half,
                   struct cuda_image *ret, struct err *err)
{
    char option[32], log[600] = "";
    const char *options[] = {option, "--std=c++17", "-DACT_BF16"};
    snprintf(option, sizeof option, "-arch=%s", arch);
    int code = l->nvrtcCompileProgram(p, half ? 3 : 2, options);
    if (code) {
        read_log(l, p, log, sizeof log);
        return err_set(err, ERR_FAILED, "kernels for %s: NVRTC: %s%s", arch,
                       l->nvrtcGetErrorString(code), log);
    }
    code = l->nvrtcGetCUBINSize(p, &ret->size);
    if (code == 0) {
        ret->bytes = xmalloc(ret->size + 1);
        code = l->nvrtcGetCUBIN(p, ret->bytes);
    }
    if (code == 0)
        return 0;
    free(ret->bytes);
    *ret = (struct cuda_image){0};
    return err_set(err, ERR_FAILED, "kernels for %s: NVRTC: no code: %s", arch,
                   l->nvrtcGetErrorString(code));
}

int cuda_compile(const struct cuda_lib *l, const char *arch, bool half, struct cuda_image *ret,
                 struct err *err)
{
    struct _nvrtcProgram *p = NULL;
    *ret = (struct cuda_image){0};
    int code = l->nvrtcCreateProgram(&p, cuda_kernels_text, "kernels.cu", 0, NULL, NULL);
    if (code)
        return err_set(err, ERR_FAILED, "kernels: NVRTC: %s", l->nvrtcGetErrorString(code));
    int failed = compile(l, p, arch, half, ret, err);
    (void)l->nvrtcDestroyProgram(&p);
    return failed;
}

/* --- loading ---------------------------------------------------------------------------------- */

static int refused(const struct cuda_lib *l, int code, const char *what, struct err *err)
{
    const char *why = NULL;
    (void)l->cuGetErrorString(code, &why);
    return err_set(err, ERR_FAILED,
                   "the GPU does not take the kernels: %s: %s (%d) (is the driver older than "
                   "NVRTC? " CUDA_CPU_INSTEAD ")",
                   what, why ? why : "unknown", code);
}

int cuda_code_load(struct cuda_code *ret, const struct cuda_lib *l, int major, int minor, bool half,
                   struct err *err)
{
    static const char *const names[] = {
#define X(name) "k_" #name,
        CUDA_KERNELS(X)
#undef X
    };
    char arch[16];
    struct cuda_image image;
    *ret = (struct cuda_code){0};
    snprintf(arch, sizeof arch, "sm_%d%d", major, minor);
    if (cuda_compile(l, arch, half, &image, err))
        return -1;
    int code = l->cuModuleLoadData(&ret->module, image.bytes);
    free(image.bytes);
    if (code)
        return refused(l, code, "load", err);
    for (int i = 0; i < CUDA_N_KERNELS; i++) {
        code = l->cuModuleGetFunction(&ret->kernels[i], ret->module, names[i]);
        if (code) {
            cuda_code_unload(ret, l);
            return refused(l, code, names[i], err);
        }
    }
    return 0;
}

void cuda_code_unload(struct cuda_code *c, const struct cuda_lib *l)
{
    if (c->module)
        (void)l->cuModuleUnload(c->module);
    *c = (struct cuda_code){0};
}
