/* The loader's list of samples: every path is below the folder, and all samples have a label or
 * none has one. */
#include <assert.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "loader-internal.h"

static int list = -1;
static char path[64];

static void check(const struct index *x)
{
    assert(x->files.n > 0);
    for (size_t i = 0; i < x->files.n; i++) {
        const char *name = file_list_get(&x->files, i);
        assert(name[0] != '/' && strncmp(name, "../", 3) != 0 && !strstr(name, "/../"));
        assert((x->labels[i] < 0) == (x->labels[0] < 0));
        assert(x->labels[i] < 0 || (uint32_t)x->labels[i] < x->n_classes);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct index x;
    struct err err = {0};
    if (list < 0) {
        list = memfd_create("list", MFD_CLOEXEC);
        snprintf(path, sizeof path, "/proc/self/fd/%d", list);
    }
    if (list < 0 || ftruncate(list, 0) || pwrite(list, data, size, 0) != (ssize_t)size)
        abort();
    if (index_open(&x, ".", path, &err)) {
        assert(err.msg[0] && err.class != ERR_BUG);
        return 0;
    }
    check(&x);
    index_release(&x);
    return 0;
}
