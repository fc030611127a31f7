/* The GPU backend where the GPU is absent, too old, full or breaks: one line that says what is
 * wrong and what to do; and what it copies. */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "cuda-types.h"
#include "cuda.h"
#include "mem.h"
#include "net.h"

static int open_with(const char *libs, int device, enum precision precision, struct backend **b,
                     struct err *err)
{
    struct cuda_options o = {.libs = libs, .device = device, .precision = precision};
    return backend_cuda(b, &o, err);
}

static void expect_text(const struct err *err, enum err_class class, const char *a, const char *b)
{
    cr_expect_eq(err->class, class, "%s", err->msg);
    cr_expect(strstr(err->msg, a), "want '%s' in: %s", a, err->msg);
    cr_expect(strstr(err->msg, b), "want '%s' in: %s", b, err->msg);
}

#define CPU "--device cpu trains without a GPU"

Test(cuda_errors, at_the_start)
{
    static const struct {
        struct fake_state set; /* only what is not zero counts */
        bool no_device;
        int device;
        enum precision precision;
        enum err_class class;
        const char *what, *help;
    } rows[] = {
        {.no_device = true, .class = ERR_NOT_FOUND, .what = "no GPU", .help = CPU},
        {{.init_code = 999}, .class = ERR_NOT_FOUND, .what = "unknown error (999)", .help = CPU},
        {{.driver_version = 11040},
         .class = ERR_NOT_FOUND,
         .what = "too old: it serves CUDA 11.4, want 12.0",
         .help = CPU},
        {.device = 3, .class = ERR_NOT_FOUND, .what = "no GPU 3: this machine has 1", .help = CPU},
        {{.major = 7},
         .precision = PRECISION_BF16,
         .class = ERR_USAGE,
         .what = "neither in bf16",
         .help = "--precision fp32"},
        {{.memory = 1000}, .class = ERR_LIMIT, .what = "no room for", .help = CPU},
        {{.fail_name = "cudaSetDevice", .fail_at = 1, .fail_code = 46},
         .class = ERR_FAILED,
         .what = "GPU 0 (Fake 0): start",
         .help = CPU},
        {{.fail_name = "cudaStreamCreateWithFlags", .fail_at = 2, .fail_code = 2},
         .class = ERR_LIMIT,
         .what = "streams",
         .help = CPU},
        {{.fail_name = "cudaHostAlloc", .fail_at = 1, .fail_code = 2},
         .class = ERR_LIMIT,
         .what = "pinned memory",
         .help = "ulimit -l"},
        {{.fail_name = "nvrtcCompileProgram", .fail_at = 1, .fail_code = 6},
         .class = ERR_FAILED,
         .what = "kernels for sm_90: NVRTC: NVRTC_ERROR_COMPILATION: wrong",
         .help = ""},
        {{.fail_name = "cuModuleLoadData", .fail_at = 1, .fail_code = 222},
         .class = ERR_FAILED,
         .what = "does not take the kernels: load",
         .help = CPU},
        {{.fail_name = "cuModuleGetFunction", .fail_at = 5, .fail_code = 500},
         .class = ERR_FAILED,
         .what = "does not take the kernels: k_axpy_act",
         .help = CPU},
        {{.fail_name = "cublasCreate_v2", .fail_at = 1, .fail_code = 3},
         .class = ERR_FAILED,
         .what = "cuBLAS does not start: 3",
         .help = CPU},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const struct fake_state *set = &rows[i].set;
        struct fake_state *f = fake_state(), before = *f;
        struct backend *b;
        struct err err = {0};
        f->devices = rows[i].no_device ? 0 : 1;
        f->init_code = set->init_code;
        f->driver_version = set->driver_version ? set->driver_version : f->driver_version;
        f->major = set->major ? set->major : f->major;
        f->memory = set->memory ? set->memory : f->memory;
        memcpy(f->fail_name, set->fail_name, sizeof f->fail_name);
        f->fail_at = set->fail_at;
        f->fail_code = set->fail_code;
        cr_assert_eq(open_with(fake_path(), rows[i].device, rows[i].precision, &b, &err), -1,
                     "row %zu", i);
        expect_text(&err, rows[i].class, rows[i].what, rows[i].help);
        cr_expect_eq(f->used + f->pinned, 0, "row %zu: memory is left", i);
        *f = before;
    }
}

Test(cuda_errors, libraries_that_are_missing)
{
    struct backend *b;
    struct err err = {0};
    void *real = dlopen("libcuda.so.1", RTLD_NOW);
    if (real) { /* a machine with a driver: its own libraries would be found */
        dlclose(real);
        return;
    }
    cr_expect_eq(open_with("/nowhere:relative/fake.so", 0, PRECISION_AUTO, &b, &err), -1);
    expect_text(&err, ERR_NOT_FOUND, "libcuda.so.1 is not found", CPU);
}

/* Whatever they have started may still run. */
Test(cuda_errors, libraries_stay)
{
    struct backend *b;
    struct err err = {0};
    cr_assert_eq(open_with(fake_path(), 0, PRECISION_FP32, &b, &err), 0, "%s", err.msg);
    backend_close(b);
    cr_expect(dlopen(fake_path(), RTLD_NOW | RTLD_NOLOAD), "it is gone");
}

Test(cuda_errors, device_names)
{
    static const struct {
        const char *device, *precision, *want; /* NULL: the CPU */
    } rows[] = {
        {"gpu", "auto", "--device: gpu: want auto, cpu, cuda or cuda:N"},
        {"cuda:", "auto", "--device: cuda:: want"},
        {"cuda:1x", "auto", "--device: cuda:1x: want"},
        {"cuda:-1", "auto", "--device: cuda:-1: want"},
        {"cuda:7", "auto", "--device cuda:7: there is no GPU 7"},
        {"auto", "fp8", "--device auto: --precision: fp8: want auto, fp32, tf32 or bf16"},
        {"cpu", "auto", NULL},
    };
    setenv("SAMPAN_CUDA_LIBS", fake_path(), 1);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct backend_options o = {
            .device = rows[i].device, .precision = rows[i].precision, .threads = 1};
        struct backend *b = NULL;
        struct err err = {0};
        int got = backend_open(&b, &o, NULL, 0, &err);
        cr_assert_eq(got == 0, !rows[i].want, "row %zu: %s", i, err.msg);
        if (rows[i].want)
            cr_expect(strncmp(err.msg, rows[i].want, strlen(rows[i].want)) == 0, "row %zu: %s", i,
                      err.msg);
        backend_close(b);
    }
}

static struct net *small_net(struct backend *b, size_t batch, struct err *err)
{
    struct net *n = net_new(b, "small");
    net_softmax_loss(n, net_dense(n, net_image(n, 8, 8, 3), 4), 0);
    if (net_finish(n, batch, 1, err) == 0)
        return n;
    net_free(n);
    return NULL;
}

/* The n-th call of something fails within steps: an error, never a wrong number unnoticed. */
Test(cuda_errors, within_steps)
{
    static const struct {
        const char *function;
        int code;
        enum err_class class;
        const char *what;
    } rows[] = {
        {"cuLaunchKernel", 719, ERR_FAILED, "the GPU failed: start a kernel: a fault"},
        {"cublasGemmEx", 14, ERR_FAILED, "a product of matrices"},
        {"cudaMemcpyAsync", 719, ERR_FAILED, "copy to the GPU: a fault (719)"},
        {"cudaStreamSynchronize", 719, ERR_FAILED, "a step: a fault (719)"},
        {"cudaGraphLaunch", 719, ERR_FAILED, "replay a step"},
        {"cudaGraphLaunch", 2, ERR_LIMIT, "--batch_size"},
        {"cudaEventRecord", 719, ERR_FAILED, "record an event"},
    };
    static float x[4 * 192];
    static int32_t labels[4];
    for (size_t i = 0; FIBERS && i < sizeof rows / sizeof rows[0]; i++) {
        struct fake_state *f = fake_state();
        struct err err = {0};
        struct backend *b;
        struct update u = {.rate = 0.1f};
        struct net_batch in = {.n = 4, .x = x, .labels = labels};
        cr_assert_eq(open_with(fake_path(), 0, PRECISION_FP32, &b, &err), 0, "%s", err.msg);
        struct net *n = small_net(b, 4, &err);
        fake_fail(rows[i].function, 1, rows[i].code);
        for (int k = 0; k < 8; k++) {
            net_step(n, &in, true);
            net_update(n, &u, 4);
        }
        cr_assert_eq(b->ops->sync(b, &err), -1, "row %zu", i);
        expect_text(&err, rows[i].class, rows[i].what, "");
        err = (struct err){0};
        cr_expect_eq(b->ops->sync(b, &err), -1, "row %zu: it stays", i);
        net_free(n);
        backend_close(b);
        cr_expect_eq(f->used + f->pinned, 0, "row %zu: memory is left", i);
        f->last_error = 0;
    }
}

/* What was no failure, or was answered by another way, is not found by the libraries, which look
 * for the last error. */
Test(cuda_errors, what_was_handled)
{
    static const struct {
        const char *function;
        int code;
    } rows[] = {{"cudaStreamQuery", CUDA_E_NOT_READY},
                {"cudaMalloc", CUDA_E_MEMORY},
                {"cudaStreamBeginCapture", 900}};
    static float x[4 * 192];
    static int32_t labels[4];
    for (size_t i = 0; FIBERS && i < sizeof rows / sizeof rows[0]; i++) {
        struct fake_state *f = fake_state();
        struct err err = {0};
        struct backend *b;
        struct net_batch in = {.n = 4, .x = x, .labels = labels};
        cr_assert_eq(open_with(fake_path(), 0, PRECISION_FP32, &b, &err), 0, "%s", err.msg);
        fake_fail(rows[i].function, 1, rows[i].code);
        struct net *n = small_net(b, 4, &err);
        cr_assert(n, "row %zu: %s", i, err.msg);
        for (int k = 0; k < 4; k++) {
            (void)b->ops->busy(b);
            net_step(n, &in, true);
        }
        cr_expect_eq(b->ops->sync(b, &err), 0, "row %zu: %s", i, err.msg);
        cr_expect_eq(f->fail_at, 0, "row %zu: it did not fail", i);
        cr_expect_eq(f->last_error, 0, "row %zu", i);
        net_free(n);
        backend_close(b);
    }
}

/* What cannot be recorded is queued step by step, with the same result. */
Test(cuda_errors, recording_fails)
{
    static float x[4 * 192];
    static int32_t labels[4] = {0, 1, 2, 3};
    static const struct {
        const char *function;
        long at; /* the fourth step is the first that is recorded: products 7 and 8 */
    } rows[] = {{"cudaStreamEndCapture", 0},
                {"cudaStreamEndCapture", 1},
                {"cudaGraphInstantiateWithFlags", 1},
                {"cublasGemmEx", 7}};
    float want[N_SUMS] = {0}, got[N_SUMS];
    for (size_t i = 0; FIBERS && i < sizeof rows / sizeof rows[0]; i++) {
        struct fake_state *f = fake_state();
        struct err err = {0};
        struct backend *b;
        struct update u = {.rate = 0.1f};
        struct net_batch in = {.n = 4, .x = x, .labels = labels};
        for (size_t k = 0; k < sizeof x / sizeof x[0]; k++)
            x[k] = (float)(k % 7);
        cr_assert_eq(open_with(fake_path(), 0, PRECISION_FP32, &b, &err), 0, "%s", err.msg);
        struct net *n = small_net(b, 4, &err);
        fake_fail(rows[i].function, rows[i].at, 901);
        for (int k = 0; k < 8; k++) {
            net_step(n, &in, true);
            b->ops->get(b, i ? got : want, net_grads(n) + net_floats(n), sizeof got);
            net_update(n, &u, 4);
        }
        cr_assert_eq(b->ops->sync(b, &err), 0, "row %zu: %s", i, err.msg);
        net_free(n);
        backend_close(b);
        cr_expect_eq(f->fail_at, 0, "row %zu: it did not fail", i);
        if (i)
            cr_expect(memcmp(got, want, sizeof got) == 0, "row %zu: %g, want %g", i, got[0],
                      want[0]);
    }
}

Test(cuda_errors, memory_is_full)
{
    struct fake_state *f = fake_state();
    struct backend *b;
    struct err err = {0};
    cr_assert_eq(open_with(fake_path(), 0, PRECISION_FP32, &b, &err), 0, "%s", err.msg);
    f->memory = f->used + (100u << 20);
    cr_expect_null(small_net(b, 1 << 20, &err));
    expect_text(&err, ERR_LIMIT, "no room for 768.0 MiB: ", "a smaller --batch_size needs less");
    err = (struct err){0};
    struct net *n = small_net(b, 64, &err);
    cr_expect_not_null(n, "what fits is given: %s", err.msg);
    net_free(n);
    backend_close(b);
    cr_expect_eq(f->used, 0);
}

/* A picture in pinned memory goes from there to the device, once and nowhere else; what is not
 * pinned goes through the stage. */
Test(cuda_errors, copies)
{
    enum { N = 16 };
    struct backend *b;
    struct err err = {0};
    if (!FIBERS)
        return;
    cr_assert_eq(open_with(fake_path(), 0, PRECISION_FP32, &b, &err), 0, "%s", err.msg);
    struct net *n = small_net(b, N, &err);
    size_t bytes = N * 192 * sizeof(float);
    float *x = b->ops->host_alloc(b, bytes, &err), *plain = xcalloc(1, bytes);
    int32_t *labels = b->ops->host_alloc(b, N * sizeof *labels, &err);
    memset(x, 0, bytes);
    memset(labels, 0, N * sizeof *labels);
    cr_assert_eq(b->ops->sync(b, &err), 0, "%s", err.msg);
    for (int i = 0; i < 6; i++) {
        struct fake_state before = *fake_state();
        struct net_batch in = {.n = N, .x = i < 5 ? x : plain, .labels = labels};
        net_step(n, &in, true);
        cr_assert_eq(b->ops->sync(b, &err), 0, "%s", err.msg);
        const struct fake_state *f = fake_state();
        cr_expect_eq(f->pinned_copies - before.pinned_copies, 2, "picture and labels");
        cr_expect_eq(f->pinned_bytes - before.pinned_bytes, bytes + N * sizeof *labels);
        cr_expect_eq(f->pageable_copies, 0);
        cr_expect_eq(f->device_copies, before.device_copies);
        cr_expect_eq(f->host_copies, before.host_copies);
    }
    free(plain);
    b->ops->host_free(b, x);
    b->ops->host_free(b, labels);
    net_free(n);
    backend_close(b);
}
