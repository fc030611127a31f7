/* The GPU backend on the fake driver: it learns what the CPU learns, in any order that the driver
 * is free to choose, from recordings as without them, without a copy too many. */
#include <criterion/criterion.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/wait.h>

#include "batch.h"
#include "cuda.h"
#include "mem.h"
#include "model.h"
#include "net.h"

#define STEPS 6 /* at most */

struct way {
    const char *model;
    int side;
    size_t batch;
    enum precision precision;
    bool no_cudnn, lars, ahead, eager_feeds, no_recording;
    bool measured;      /* times are taken in one step, which others would replay */
    size_t convolution; /* bytes for windows: small ones make several groups of images */
    int steps;
    const char *refuses; /* this function of cuDNN is refused when it is called again */
};

#define MEASURED 2

static int steps_of(const struct way *w)
{
    return w->steps ? w->steps : STEPS;
}

struct end {
    double loss[STEPS];
    double judged; /* the loss of the last batch without training, by the averaged weights */
    float *first, *weights;
    size_t n;
};

static void free_end(struct end *e)
{
    free(e->first);
    free(e->weights);
}

static struct backend *cuda(const struct way *w)
{
    struct err err = {0};
    struct backend *b;
    struct cuda_options o = {.libs = fake_path(),
                             .precision = w->precision,
                             .no_cudnn = w->no_cudnn,
                             .no_recording = w->no_recording,
                             .convolution = w->convolution};
    fake_state()->eager_feeds = w->eager_feeds;
    if (w->refuses)
        fake_fail(w->refuses, 2, 3000); /* CUDNN_STATUS_NOT_SUPPORTED */
    cr_assert_eq(backend_cuda(&b, &o, &err), 0, "%s", err.msg);
    return b;
}

static struct backend *cpu(void)
{
    struct backend *b;
    struct err err = {0};
    cr_assert_eq(backend_cpu(&b, 1, &err), 0, "%s", err.msg);
    return b;
}

static struct batches *made_up(const struct way *w)
{
    struct err err = {0};
    struct batches *b;
    struct batch_options o = {.data = "synthetic:1000,5",
                              .batch = w->batch,
                              .seed = 3,
                              .ranks = 1,
                              .height = w->side,
                              .width = w->side,
                              .train = true};
    enum model_data kind = strcmp(w->model, "convs") == 0
                               ? MODEL_PICTURES
                               : (enum model_data)model_data(w->model, &err);
    cr_assert_eq(batch_open(&b, kind, &o, &err), 0, "%s", err.msg);
    cr_assert_eq(b->ops->begin(b, 0, &err), 0, "%s", err.msg);
    b->shape.hidden = 24;
    b->shape.smooth = 0.1f;
    return b;
}

static float *copy_of(struct backend *b, const float *from, size_t n)
{
    struct err err = {0};
    float *ret = xmalloc(n * sizeof *ret);
    b->ops->get(b, ret, from, n * sizeof *ret);
    cr_assert_eq(b->ops->sync(b, &err), 0, "%s", err.msg);
    return ret;
}

static double loss_of(struct net *n, size_t count)
{
    struct backend *b = net_backend(n);
    float *sums = copy_of(b, net_grads(n) + net_floats(n), N_SUMS);
    double loss = sums[SUM_LOSS] / sums[SUM_COUNT];
    cr_assert_eq(sums[SUM_COUNT], (float)count);
    free(sums);
    return loss;
}

/* Each layer of a ResNet once: odd sizes, both strides, a value used twice. */
static void build_convs(struct net *n, const struct model_shape *s)
{
    int v = net_image(n, s->h, s->w, 3);
    v = net_relu(n, net_norm(n, net_conv(n, v, 8, 3, 2, 1), 1));
    v = net_maxpool(n, v, 3, 2, 1);
    int shortcut = net_norm(n, net_conv(n, v, 40, 1, 1, 0), 1);
    int body = net_norm(n, net_conv(n, v, 40, 3, 1, 1), 0.5f);
    v = net_relu(n, net_add(n, body, shortcut));
    net_softmax_loss(n, net_dense(n, net_meanpool(n, v), s->classes), s->smooth);
}

static void build(struct net *n, const struct way *w, const struct model_shape *s)
{
    struct err err = {0};
    if (strcmp(w->model, "convs") == 0)
        build_convs(n, s);
    else
        cr_assert_eq(model_build(n, w->model, s, &err), 0, "%s", err.msg);
}

/* The last batch is a short one. */
static void train(struct backend *b, const struct way *w, struct end *ret)
{
    struct err err = {0};
    struct batches *source = made_up(w);
    struct net *n = net_new(b, w->model);
    struct update u = {
        .rate = 0.02f, .momentum = 0.9f, .decay = 1e-3f, .trust = w->lars ? 0.1f : 0};
    struct net_batch in;
    int steps = steps_of(w);
    build(n, w, &source->shape);
    cr_assert_eq(net_finish(n, w->batch, 1, &err), 0, "%s", err.msg);
    cr_assert_eq(net_track_mean(n, &err), 0, "%s", err.msg);
    ret->n = net_floats(n);
    ret->first = copy_of(b, net_weights(n), ret->n);
    cr_assert_eq(source->ops->next(source, &in, &err), 1);
    for (int i = 0; i < steps; i++) {
        size_t count = in.n;
        if (w->measured && i == MEASURED)
            net_measure(n);
        net_step(n, &in, true);
        if (!w->ahead)
            ret->loss[i] = loss_of(n, count);
        if (i + 1 < steps)
            cr_assert_eq(source->ops->next(source, &in, &err), 1);
        if (i + 2 == steps)
            in.n = w->batch / 2 + 1;
        if (w->ahead && i + 1 < steps)
            net_ahead(n, &in);
        if (w->ahead)
            ret->loss[i] = loss_of(n, count);
        net_update(n, &u, (double)count);
        b->ops->blend(b, net_mean(n), net_weights(n), ret->n, 0.9f);
    }
    net_swap_mean(n);
    net_step(n, &in, false);
    ret->judged = loss_of(n, in.n);
    net_swap_mean(n);
    cr_expect_eq(net_costs(n) != NULL, w->measured);
    ret->weights = copy_of(b, net_weights(n), ret->n);
    net_free(n);
    batch_close(source);
}

/* |a - b| beside the way that training went. */
static double apart(const struct end *a, const struct end *b)
{
    double off = 0, way = 0;
    for (size_t i = 0; i < a->n; i++) {
        double d = a->weights[i] - b->weights[i], w = b->weights[i] - b->first[i];
        off += d * d;
        way += w * w;
    }
    return sqrt(off / way);
}

Test(cuda, learns_as_the_cpu_does)
{
    static const struct {
        struct way way;
        double loss, weights; /* bounds: of a loss, and of weights beside their way */
    } rows[] = {
        {{"softmax", 5, 7, .precision = PRECISION_FP32}, 1e-5, 1e-5},
        {{"mlp", 6, 9, .precision = PRECISION_FP32}, 1e-5, 1e-5},
        {{"mlp", 6, 150, .precision = PRECISION_FP32, .lars = true, .ahead = true}, 1e-5, 1e-5},
        {{"mlp", 6, 9, .precision = PRECISION_BF16, .ahead = true}, 2e-2, 5e-2},
        {{"movie", 1, 11, .precision = PRECISION_FP32}, 1e-5, 1e-5},
        {{"movie", 1, 11, .precision = PRECISION_BF16, .ahead = true}, 5e-2, 1e-1},
        {{"convs", 11, 5, .precision = PRECISION_FP32, .ahead = true}, 1e-5, 1e-4},
        {{"convs", 11, 5, .precision = PRECISION_FP32, .no_cudnn = true, .convolution = 9000},
         1e-5,
         1e-4},
        {{"convs", 11, 5, .precision = PRECISION_FP32, .refuses = "cudnnConvolutionForward"},
         1e-5,
         1e-4},
        {{"convs", 11, 5, .precision = PRECISION_FP32, .refuses = "cudnnConvolutionBackwardData"},
         1e-5,
         1e-4},
        {{"convs", 11, 5, .precision = PRECISION_BF16, .refuses = "cudnnConvolutionBackwardFilter"},
         2e-2,
         1e-1},
        {{"convs", 11, 5, .precision = PRECISION_BF16}, 2e-2, 1e-1},
        {{"convs", 11, 5, .precision = PRECISION_BF16, .no_cudnn = true}, 2e-2, 1e-1},
        {{"resnet18", 32, 4, .precision = PRECISION_FP32, .steps = 2}, 1e-3, 1e-2},
    };
    for (size_t i = 0; FIBERS && i < sizeof rows / sizeof rows[0]; i++) {
        struct end want = {0}, got = {0};
        const struct way *w = &rows[i].way;
        struct backend *b = cpu();
        train(b, w, &want);
        backend_close(b);
        b = cuda(w);
        train(b, w, &got);
        backend_close(b);
        for (int k = 0; k < steps_of(w); k++)
            cr_expect(fabs(got.loss[k] - want.loss[k]) <= rows[i].loss * want.loss[k],
                      "row %zu %s: step %d: loss %.7g, on the CPU %.7g", i, w->model, k,
                      got.loss[k], want.loss[k]);
        cr_expect(fabs(got.judged - want.judged) <= rows[i].loss * want.judged,
                  "row %zu %s: judged %.7g, on the CPU %.7g", i, w->model, got.judged, want.judged);
        double off = apart(&got, &want);
        cr_expect(off <= rows[i].weights, "row %zu %s: weights %g apart", i, w->model, off);
        cr_expect_eq(fake_state()->fail_at, 0, "row %zu: nothing was refused", i);
        cr_expect_eq(fake_state()->wrong, 0, "row %zu: a call with a wrong address", i);
        cr_expect_eq(fake_state()->used, 0, "row %zu: memory left", i);
        if (getenv("SHOW_APART"))
            fprintf(stderr, "row %zu %s: loss %.2e weights %.2e\n", i, w->model,
                    fabs(got.loss[steps_of(w) - 1] / want.loss[steps_of(w) - 1] - 1), off);
        free_end(&want);
        free_end(&got);
    }
}

/* Whatever the driver runs first, and recorded or not: the same bits. */
Test(cuda, same_bits_in_every_order)
{
    static const struct way rows[] = {
        {"mlp", 6, 9, .precision = PRECISION_FP32, .no_recording = true},
        {"mlp", 6, 9, .precision = PRECISION_FP32},
        {"mlp", 6, 9, .precision = PRECISION_FP32, .ahead = true},
        {"mlp", 6, 9, .precision = PRECISION_FP32, .ahead = true, .eager_feeds = true},
        {"mlp", 6, 9, .precision = PRECISION_FP32, .ahead = true, .eager_feeds = true,
         .no_recording = true},
        {"mlp", 6, 9, .precision = PRECISION_FP32, .measured = true},
        {"mlp", 6, 9, .precision = PRECISION_FP32, .ahead = true, .measured = true},
    };
    struct end want = {0};
    for (size_t i = 0; FIBERS && i < sizeof rows / sizeof rows[0]; i++) {
        struct end got = {0};
        struct backend *b = cuda(&rows[i]);
        uint64_t replays = fake_state()->replays;
        train(b, &rows[i], &got);
        backend_close(b);
        cr_expect_eq(fake_state()->replays > replays, !rows[i].no_recording, "row %zu", i);
        if (i == 0) {
            want = got;
            continue;
        }
        cr_expect(memcmp(got.weights, want.weights, got.n * sizeof(float)) == 0, "row %zu", i);
        free_end(&got);
    }
    free_end(&want);
}

/* --- threads ---------------------------------------------------------------------------------- */

struct turn {
    struct backend *b;
    float *y;
};

static void *take_turn(void *arg)
{
    const struct turn *t = arg;
    t->b->ops->enter(t->b);
    t->b->ops->fill(t->b, t->y, 1000, 3);
    return NULL;
}

/* A predictor's requests come on any thread. */
Test(cuda, threads_take_turns)
{
    static const struct way way = {.precision = PRECISION_FP32};
    struct backend *b = cuda(&way);
    struct err err = {0};
    void *y = NULL;
    pthread_t other;
    cr_assert_eq(b->ops->alloc(b, 1000, &y, &err), 0, "%s", err.msg);
    struct turn turn = {b, y};
    cr_assert_eq(pthread_create(&other, NULL, take_turn, &turn), 0);
    pthread_join(other, NULL);
    float *got = copy_of(b, y, 1000);
    cr_expect(got[0] == 3 && got[999] == 3, "%g", (double)got[0]);
    free(got);
    b->ops->release(b, y);
    backend_close(b);
}

/* --- ranks ------------------------------------------------------------------------------------ */

static bool wait_for_ranks(struct backend *b)
{
    while (b->ops->busy(b))
        usleep(100);
    return b->ops->sync(b, NULL) == 0;
}

/* What a device has learned is kept although others do not answer. */
static bool reads_back(struct backend *b)
{
    struct err err = {0};
    void *y = NULL;
    float got = 0;
    cr_assert_eq(b->ops->alloc(b, 1, &y, &err), 0, "%s", err.msg);
    b->ops->fill(b, y, 1, 7);
    b->ops->get(b, &got, y, sizeof got);
    return b->ops->sync(b, &err) == 0 && got == 7;
}

/* One of two ranks, a process each: 0 if all sums are right; the victim ends before the last. */
static int rank(int me, const int *ends, bool dies)
{
    enum { N = 3000, SUMS = 3 };
    static const struct way way = {.precision = PRECISION_FP32};
    struct backend *b = cuda(&way);
    struct err err = {0};
    char id[BACKEND_ID_LEN];
    float host[N];
    void *y;
    if (me == 0 && (b->ops->join_id(b, id, &err) || write(ends[1], id, sizeof id) != sizeof id))
        return 2;
    if (me == 1 && read(ends[0], id, sizeof id) != sizeof id)
        return 3;
    if (b->ops->join(b, id, 2, (uint32_t)me, &err) || !wait_for_ranks(b) ||
        b->ops->alloc(b, N, &y, &err))
        return 4;
    for (int k = 0; k < SUMS; k++) {
        for (int i = 0; i < N; i++)
            host[i] = (float)(i + k + 1000 * me);
        if (dies && me == 1 && k == SUMS - 1)
            _exit(0);
        b->ops->put(b, y, host, sizeof host);
        b->ops->sum(b, y, N);
        if (dies && me == 0 && k == SUMS - 1) {
            bool busy = b->ops->busy(b); /* for ever: nobody comes */
            b->ops->leave(b);
            return busy && !b->ops->busy(b) && reads_back(b) ? 0 : 5;
        }
        if (!wait_for_ranks(b))
            return 6;
        b->ops->get(b, host, y, sizeof host);
        if (b->ops->sync(b, &err))
            return 8;
        for (int i = 0; i < N; i++)
            if (host[i] != (float)(2 * (i + k) + 1000))
                return 7;
    }
    backend_close(b);
    return 0;
}

Test(cuda, sums_over_ranks)
{
    for (int dies = 0; FIBERS && dies < 2; dies++) {
        int ends[2], status;
        pid_t pids[2];
        cr_assert_eq(pipe(ends), 0);
        for (int i = 0; i < 2; i++) {
            pids[i] = fork();
            if (pids[i] == 0)
                _exit(rank(i, ends, dies));
        }
        for (int i = 0; i < 2; i++) {
            cr_assert_eq(waitpid(pids[i], &status, 0), pids[i]);
            cr_expect(WIFEXITED(status) && WEXITSTATUS(status) == 0, "rank %d: %d", i,
                      WEXITSTATUS(status));
        }
        close(ends[0]);
        close(ends[1]);
    }
}

/* Two ranks, of which one does not come, or whose network breaks: neither is waited for for ever.
 */
Test(cuda, ranks_that_do_not_answer)
{
    static const struct {
        uint32_t ranks;
        int error;
        const char *want;
    } rows[] = {
        {2, 0, NULL},
        {2, 6, "NCCL: unhandled system error (each rank needs a GPU of its own"},
        {1, 6, "NCCL: unhandled system error (each rank needs a GPU of its own"},
    };
    static const struct way way = {.precision = PRECISION_FP32};
    for (size_t i = 0; FIBERS && i < sizeof rows / sizeof rows[0]; i++) {
        struct backend *b = cuda(&way);
        struct err err = {0};
        char id[BACKEND_ID_LEN];
        void *y = NULL;
        cr_assert_eq(b->ops->alloc(b, 10, &y, &err), 0, "%s", err.msg);
        cr_assert_eq(b->ops->join_id(b, id, &err), 0, "%s", err.msg);
        cr_assert_eq(b->ops->join(b, id, rows[i].ranks, 0, &err), 0, "%s", err.msg);
        cr_expect_eq(b->ops->busy(b), rows[i].ranks == 2, "row %zu", i);
        if (rows[i].ranks == 1)
            b->ops->sum(b, y, 10);
        fake_state()->nccl_error = rows[i].error;
        cr_expect_eq(b->ops->busy(b), !rows[i].error, "row %zu", i);
        fake_state()->nccl_error = 0;
        if (!rows[i].error)
            b->ops->leave(b);
        if (rows[i].want) {
            cr_expect_eq(b->ops->sync(b, &err), -1, "row %zu", i);
            cr_expect(strstr(err.msg, rows[i].want), "row %zu: %s", i, err.msg);
        } else
            cr_expect(reads_back(b), "row %zu", i);
        b->ops->release(b, y);
        backend_close(b);
    }
}
