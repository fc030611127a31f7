/* NVIDIA's libraries: where they are, whether they fit the driver, their functions. */
#include <dirent.h>
#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda-lib.h"
#include "mem.h"

#define OLDEST_DRIVER 12000 /* of CUDA: driver 525 */
/* Closed they stay where they are: threads that they have started may still run. */
#define STAYING (RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE)

static const struct {
    const char *name, *get; /* what to do where it is missing */
    bool optional;
    const char *sonames[3]; /* newest first */
    int drivers[2];         /* the oldest driver that serves each */
} libraries[CUDA_N_LIBRARIES] = {
    [CUDA_DRIVER] = {"libcuda.so.1",
                     "install NVIDIA's driver; in a pod ask for nvidia.com/gpu",
                     false,
                     {"libcuda.so.1"},
                     {0}},
    [CUDA_RUNTIME] = {"libcudart",
                      "install the CUDA runtime, or name its folder in " CUDA_LIBS_ENV,
                      false,
                      {"libcudart.so.13", "libcudart.so.12"},
                      {13000, 12000}},
    [CUDA_NVRTC] = {"libnvrtc",
                    "install NVRTC, or name its folder in " CUDA_LIBS_ENV,
                    false,
                    {"libnvrtc.so.13", "libnvrtc.so.12"},
                    {13000, 12000}},
    [CUDA_CUBLAS] = {"libcublas",
                     "install cuBLAS, or name its folder in " CUDA_LIBS_ENV,
                     false,
                     {"libcublas.so.13", "libcublas.so.12"},
                     {13000, 12000}},
    [CUDA_CUDNN] = {"libcudnn", "", true, {"libcudnn.so.9"}, {0}},
    [CUDA_NCCL] = {"libnccl", "", true, {"libnccl.so.2"}, {0}},
};

#define DRIVER  CUDA_DRIVER
#define RUNTIME CUDA_RUNTIME
#define NVRTC   CUDA_NVRTC
#define CUBLAS  CUDA_CUBLAS
#define CUDNN   CUDA_CUDNN
#define NCCL    CUDA_NCCL

static const struct {
    enum cuda_library library;
    const char *symbol;
    size_t offset; /* in struct cuda_lib */
} functions[] = {
#define FN(library, type, name, symbol, args) {library, #symbol, offsetof(struct cuda_lib, name)},
#include "cuda-lib.def"
#undef FN
};

/* --- finding ---------------------------------------------------------------------------------- */

/* NVRTC finds the file of its built-in functions by the loader's path alone: it is loaded before,
 * from the same folder. */
static void load_builtins(const char *folder)
{
    DIR *d = opendir(folder);
    struct dirent *e;
    while (d && (e = readdir(d))) {
        if (strncmp(e->d_name, "libnvrtc-builtins.so.", 21) != 0 || strstr(e->d_name, "alt"))
            continue;
        cleanup_free char *path = xasprintf("%s/%s", folder, e->d_name);
        (void)dlopen(path, RTLD_NOW | RTLD_GLOBAL);
    }
    if (d)
        closedir(d);
}

static bool is_file(const char *entry)
{
    size_t n = strlen(entry);
    return n > 3 && strcmp(entry + n - 3, ".so") == 0;
}

/* One library from one entry of the list. */
static void *from_entry(const char *entry, enum cuda_library id, const char *soname)
{
    if (entry[0] != '/')
        return NULL; /* a name relative to the current folder is nobody's intention */
    if (is_file(entry))
        return dlopen(entry, STAYING);
    if (id == CUDA_DRIVER)
        return NULL; /* it is the system's: one beside the others would be a stub */
    if (id == CUDA_NVRTC)
        load_builtins(entry);
    cleanup_free char *path = xasprintf("%s/%s", entry, soname);
    return dlopen(path, STAYING);
}

static void *find_one(const char *where, enum cuda_library id, const char *soname)
{
    cleanup_free char *list = xstrdup(where ? where : "");
    char *rest = list, *entry;
    while ((entry = strsep(&rest, ":"))) {
        void *found = from_entry(entry, id, soname);
        if (found)
            return found;
    }
    return dlopen(soname, STAYING);
}

static int find(struct cuda_lib *l, enum cuda_library id, const char *where, struct err *err)
{
    for (int i = 0; libraries[id].sonames[i] && !l->handles[id]; i++)
        if (id == CUDA_DRIVER || l->driver_version >= libraries[id].drivers[i])
            l->handles[id] = find_one(where, id, libraries[id].sonames[i]);
    if (l->handles[id])
        return 0;
    return err_set(err, ERR_NOT_FOUND, "%s is not found (%s; " CUDA_CPU_INSTEAD ")",
                   libraries[id].name, libraries[id].get);
}

static int resolve(struct cuda_lib *l, enum cuda_library id, struct err *err)
{
    for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++) {
        if (functions[i].library != id)
            continue;
        void *p = dlsym(l->handles[id], functions[i].symbol);
        if (!p)
            return err_set(
                err, ERR_NOT_FOUND,
                "%s: has no %s: too old or another library (install a newer one; " CUDA_CPU_INSTEAD
                ")",
                libraries[id].name, functions[i].symbol);
        memcpy((char *)l + functions[i].offset, &p, sizeof p);
    }
    l->has[id] = true;
    return 0;
}

/* --- the driver ------------------------------------------------------------------------------- */

static int start_driver(struct cuda_lib *l, struct err *err)
{
    const char *why = NULL;
    int devices = 0, code = l->cuInit(0);
    if (code == 0)
        code = l->cuDeviceGetCount(&devices);
    if (code && code != CUDA_E_INIT_NO_DEVICE) {
        (void)l->cuGetErrorString(code, &why);
        return err_set(err, ERR_NOT_FOUND,
                       "the GPU driver does not start: %s (%d) (nvidia-smi says more; after an "
                       "update of the driver the machine must start again; " CUDA_CPU_INSTEAD ")",
                       why ? why : "unknown", code);
    }
    if (devices == 0)
        return err_set(
            err, ERR_NOT_FOUND,
            "no GPU: the driver knows none (in a pod: ask for nvidia.com/gpu; " CUDA_CPU_INSTEAD
            ")");
    if (l->cuDriverGetVersion(&l->driver_version) || l->driver_version < OLDEST_DRIVER)
        return err_set(err, ERR_NOT_FOUND,
                       "the GPU driver is too old: it serves CUDA %d.%d, want %d.%d (install "
                       "NVIDIA's driver 525 or newer; " CUDA_CPU_INSTEAD ")",
                       l->driver_version / 1000, l->driver_version % 1000 / 10,
                       OLDEST_DRIVER / 1000, OLDEST_DRIVER % 1000 / 10);
    return 0;
}

static int open_all(struct cuda_lib *l, const char *where, struct err *err)
{
    for (enum cuda_library id = 0; id < CUDA_N_LIBRARIES; id++) {
        struct err *e = libraries[id].optional ? NULL : err;
        bool failed = find(l, id, where, e) || resolve(l, id, e);
        if (failed && !libraries[id].optional)
            return -1;
        if (id == CUDA_DRIVER && start_driver(l, err))
            return -1;
    }
    return 0;
}

int cuda_lib_open(struct cuda_lib *l, const char *where, struct err *err)
{
    *l = (struct cuda_lib){0};
    if (open_all(l, where, err) == 0)
        return 0;
    cuda_lib_close(l);
    return -1;
}

int cuda_lib_compiler(struct cuda_lib *l, const char *where, struct err *err)
{
    *l = (struct cuda_lib){.driver_version = INT_MAX};
    if (find(l, CUDA_NVRTC, where, err) == 0 && resolve(l, CUDA_NVRTC, err) == 0)
        return 0;
    cuda_lib_close(l);
    return -1;
}

void cuda_lib_close(struct cuda_lib *l)
{
    for (enum cuda_library id = CUDA_N_LIBRARIES; id-- > 0;)
        if (l->handles[id])
            dlclose(l->handles[id]);
    *l = (struct cuda_lib){0};
}
