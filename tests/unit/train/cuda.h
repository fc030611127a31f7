/* Tests of the GPU backend: the fake driver, found beside the test program (build/lib). */
#ifndef SAMPAN_TESTS_UNIT_TRAIN_CUDA_H
#define SAMPAN_TESTS_UNIT_TRAIN_CUDA_H

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "../../cuda/fake/fake.h"
#include "backend.h"

/* Threads of a kernel are fibers, which the thread sanitizer cannot follow. */
#if defined(__SANITIZE_THREAD__)
#define FIBERS 0
#else
#define FIBERS 1
#endif

static inline const char *fake_path(void)
{
    static char path[4200];
    char self[4096];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    self[n > 0 ? n : 0] = '\0';
    char *at = strstr(self, "/unit/train");
    snprintf(path, sizeof path, "%.*s/lib/fake-cuda.so", (int)(at ? at - self : 0), self);
    return path;
}

static inline struct fake_state *fake_state(void)
{
    static struct fake_state *(*get)(void);
    if (!get) {
        void *lib = dlopen(fake_path(), RTLD_NOW | RTLD_LOCAL);
        *(void **)&get = lib ? dlsym(lib, "fake_cuda_state") : NULL;
    }
    cr_assert(get, "%s: %s", fake_path(), dlerror());
    return get();
}

/* The n-th call of this function from now on fails; 0: none. */
static inline void fake_fail(const char *function, long at, int code)
{
    struct fake_state *f = fake_state();
    snprintf(f->fail_name, sizeof f->fail_name, "%s", function);
    f->fail_at = at;
    f->fail_code = code;
}

#endif
