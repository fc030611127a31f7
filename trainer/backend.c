/* Which backend: what the user asked for, or the best that is here. */
#include <stdio.h>
#include <string.h>

#include "backend.h"

int backend_open(struct backend **ret, const char *device, int threads, char *why, size_t why_len,
                 struct err *err)
{
    struct err gpu = {0};
    if (why)
        why[0] = '\0';
    if (strcmp(device, "cpu") == 0)
        return backend_cpu(ret, threads, err);
    if (strcmp(device, "cuda") != 0 && strcmp(device, "auto") != 0)
        return err_set(err, ERR_USAGE, "--device: %s: want auto, cpu or cuda", device);
    if (backend_cuda(ret, 0, &gpu) == 0)
        return 0;
    if (strcmp(device, "cuda") == 0) {
        if (err)
            *err = gpu;
        return err_wrap(err, "--device cuda");
    }
    if (why)
        snprintf(why, why_len, "%s", gpu.msg);
    return backend_cpu(ret, threads, err);
}

void backend_close(struct backend *b)
{
    if (b)
        b->ops->close(b);
}
