/* compile-kernels NVRTC.so KERNELS.cu: the kernels by the real compiler, for devices that need not
 * be here. Prints a line a device and precision; exit 1 with the compiler's words. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda-lib.h"
#include "cuda-kernels.h"

static int one(const struct cuda_lib *l, const char *arch, bool bf16)
{
    struct err err = {0};
    struct cuda_image image;
    if (cuda_compile(l, arch, bf16, &image, &err)) {
        fprintf(stderr, "%s %s: %s\n", arch, bf16 ? "bf16" : "fp32", err.msg);
        return 1;
    }
    printf("%s %s: %zu bytes of machine code\n", arch, bf16 ? "bf16" : "fp32", image.size);
    free(image.bytes);
    return 0;
}

int main(int argc, char **argv)
{
    static const char *const archs[] = {"sm_80", "sm_90"};
    struct cuda_lib l = {0};
    struct err err = {0};
    int failed = 0;
    if (argc != 2 || cuda_lib_compiler(&l, argv[1], &err)) {
        fprintf(stderr, "%s\n", argc == 2 ? err.msg : "usage: compile-kernels FOLDERS");
        return 2;
    }
    for (size_t i = 0; i < sizeof archs / sizeof archs[0]; i++)
        failed |= one(&l, archs[i], false) | one(&l, archs[i], true);
    cuda_lib_close(&l);
    return failed;
}
