/* Which backend: what the user asked for, or the best that is here. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend.h"
#include "cuda-lib.h"

int precision_parse(enum precision *ret, const char *text, struct err *err)
{
    static const char *const names[] = {"auto", "fp32", "tf32", "bf16"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(text, names[i]) == 0) {
            *ret = (enum precision)i;
            return 0;
        }
    return err_set(err, ERR_USAGE, "--precision: %s: want auto, fp32, tf32 or bf16", text);
}

/* "cuda" or "cuda:N": the number, -1 for none; -2: neither. */
static int cuda_number(const char *device)
{
    int n = -1, end = 0;
    if (strcmp(device, "cuda") == 0)
        return -1;
    if (sscanf(device, "cuda:%4d%n", &n, &end) == 1 && n >= 0 && !device[end])
        return n;
    return -2;
}

static int open_cuda(struct backend **ret, const struct backend_options *o, struct err *err)
{
    int number = cuda_number(o->device);
    struct cuda_options c = {.device = number >= 0 ? number : o->local_rank,
                             .libs = getenv(CUDA_LIBS_ENV)};
    if (o->precision && precision_parse(&c.precision, o->precision, err))
        return -1;
    return backend_cuda(ret, &c, err);
}

int backend_open(struct backend **ret, const struct backend_options *o, char *why, size_t why_len,
                 struct err *err)
{
    struct err gpu = {0};
    bool any = strcmp(o->device, "auto") == 0;
    if (why)
        why[0] = '\0';
    if (strcmp(o->device, "cpu") == 0)
        return backend_cpu(ret, o->threads, err);
    if (!any && cuda_number(o->device) < -1)
        return err_set(err, ERR_USAGE, "--device: %s: want auto, cpu, cuda or cuda:N", o->device);
    if (open_cuda(ret, o, &gpu) == 0)
        return 0;
    if (!any || gpu.class == ERR_USAGE) {
        if (err)
            *err = gpu;
        return err_wrap(err, "--device %s", o->device);
    }
    if (why)
        snprintf(why, why_len, "%s", gpu.msg);
    return backend_cpu(ret, o->threads, err);
}

void backend_describe(const struct backend *b, char *out, size_t size)
{
    b->ops->describe(b, out, size);
}

void backend_close(struct backend *b)
{
    if (b)
        b->ops->close(b);
}
