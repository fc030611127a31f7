/* Nets: gradients against differences of the loss, layer by layer and model by model; learning;
 * the same bits twice. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "batch.h"
#include "hash.h"
#include "mem.h"
#include "model.h"
#include "net.h"

static struct backend *cpu(int threads)
{
    struct backend *b;
    struct err err = {0};
    cr_assert_eq(backend_cpu(&b, threads, &err), 0, "%s", err.msg);
    return b;
}

static double loss_of(struct net *n, const struct net_batch *in, bool train)
{
    net_step(n, in, train);
    struct err err = {0};
    cr_assert_eq(net_backend(n)->ops->sync(net_backend(n), &err), 0, "%s", err.msg);
    return net_grads(n)[net_floats(n) + SUM_LOSS];
}

static float noise(uint64_t key, uint64_t i)
{
    return (float)(hash_mix64(key * 1000003 + i) >> 40) * 0x1p-23f - 1;
}

/* Along one direction a parameter, the loss must rise as the gradients say. */
static void check_gradients(struct net *n, const struct net_batch *in, double step, double bound)
{
    loss_of(n, in, true);
    size_t floats = net_floats(n);
    float *grads = xmalloc(floats * sizeof *grads), *w = net_weights(n);
    memcpy(grads, net_grads(n), floats * sizeof *grads);
    for (size_t i = 0; i < net_n_params(n); i++) {
        const struct param *p = net_param(n, i);
        if (p->kind == PARAM_STAT)
            continue;
        double want = 0, square = 0;
        float *before = xmalloc(p->n * sizeof *before);
        memcpy(before, w + p->at, p->n * sizeof *before);
        for (size_t k = 0; k < p->n; k++) { /* towards the gradient, and off it */
            double d = grads[p->at + k];
            square += d * d;
        }
        double unit = sqrt(square / (double)p->n) + 1e-9, reach = sqrt((double)p->n);
        float *d = xmalloc(p->n * sizeof *d);
        for (size_t k = 0; k < p->n; k++) {
            d[k] = (float)((grads[p->at + k] / unit + 0.5 * noise(i, k)) / reach);
            want += (double)d[k] * grads[p->at + k];
        }
        for (size_t k = 0; k < p->n; k++)
            w[p->at + k] = before[k] + (float)step * d[k];
        double up = loss_of(n, in, true);
        for (size_t k = 0; k < p->n; k++)
            w[p->at + k] = before[k] - (float)step * d[k];
        double down = loss_of(n, in, true);
        memcpy(w + p->at, before, p->n * sizeof *before);
        double got = (up - down) / (2 * step);
        cr_expect(fabs(got - want) <= bound * (fabs(want) + 0.02), "%s %s: rises by %g, want %g",
                  net_model(n), p->name, got, want);
        free(d);
        free(before);
    }
    free(grads);
}

/* By LARS velocities are steps, so that a rate that changes does not change the steps before it. */
Test(net, momentum_and_rates)
{
    struct backend *b = cpu(1);
    static const struct {
        float trust, want_w, want_v;
    } rows[] = {
        /* v: 0.5, then 0.25 + 0.5; w: 1 - 0.1 * 0.5, then - 0.01 * 0.75 */
        {0, 0.9425f, 0.75f},
        /* ratio 0.2 * 1 / 0.5, then 0.2 * 0.98 / 0.5; v: 0.1 * 0.4 * 0.5, then half of it + 0.01 *
           0.392 * 0.5 */
        {0.2f, 0.96804f, 0.01196f},
    };
    for (size_t i = 0; i < 2; i++) {
        float w = 1, g = 1, v = 0;
        struct update u = {.rate = 0.1f, .momentum = 0.5f, .trust = rows[i].trust};
        net_update_one(b, PARAM_WEIGHT, &w, &g, &v, 1, &u, 2);
        u.rate = 0.01f;
        net_update_one(b, PARAM_WEIGHT, &w, &g, &v, 1, &u, 2);
        cr_expect(fabsf(w - rows[i].want_w) < 1e-6f && fabsf(v - rows[i].want_v) < 1e-6f,
                  "trust %g: w %.7f v %.7f", rows[i].trust, w, v);
    }
    backend_close(b);
}

static struct batches *made_up(enum model_data kind, int side, size_t batch, uint64_t samples)
{
    char data[64];
    struct err err = {0};
    struct batches *b;
    snprintf(data, sizeof data, "synthetic:%llu,5", (unsigned long long)samples);
    struct batch_options o = {.data = data,
                              .batch = batch,
                              .seed = 3,
                              .ranks = 1,
                              .height = side,
                              .width = side,
                              .train = true};
    cr_assert_eq(batch_open(&b, kind, &o, &err), 0, "%s", err.msg);
    cr_assert_eq(b->ops->begin(b, 0, &err), 0, "%s", err.msg);
    b->shape.hidden = 24;
    return b;
}

static struct net *net_of(struct backend *be, const char *model, const struct model_shape *s,
                          size_t batch)
{
    struct err err = {0};
    struct net *n = net_new(be, model);
    cr_assert_eq(model_build(n, model, s, &err), 0, "%s", err.msg);
    cr_assert_eq(net_finish(n, batch, 1, &err), 0, "%s", err.msg);
    return n;
}

Test(net, gradients_of_models)
{
    static const struct {
        const char *model;
        int side;
        size_t batch;
        double step, bound;
    } rows[] = {
        {"softmax", 6, 7, 1e-2, 0.02},
        {"mlp", 6, 9, 3e-3, 0.03},
        {"movie", 1, 11, 1e-2, 0.05},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct err err = {0};
        enum model_data kind = (enum model_data)model_data(rows[i].model, &err);
        struct backend *be = cpu(1);
        struct batches *b = made_up(kind, rows[i].side, rows[i].batch, 100);
        b->shape.smooth = 0.1f;
        struct net *n = net_of(be, rows[i].model, &b->shape, rows[i].batch);
        struct net_batch in;
        cr_assert_eq(b->ops->next(b, &in, &err), 1);
        check_gradients(n, &in, rows[i].step, rows[i].bound);
        net_free(n);
        batch_close(b);
        backend_close(be);
    }
}

/* Small nets around each layer of a ResNet: odd sizes, both strides, a value used twice. */
static int small_convs(struct net *n)
{
    int v = net_image(n, 9, 7, 3);
    v = net_relu(n, net_norm(n, net_conv(n, v, 8, 3, 2, 1), 1));
    int shortcut = net_norm(n, net_conv(n, v, 16, 1, 1, 0), 1);
    int body = net_norm(n, net_conv(n, v, 16, 3, 1, 1), 0.5f);
    return net_relu(n, net_add(n, body, shortcut));
}

static void whole(struct net *n)
{
    net_softmax_loss(n, net_dense(n, net_meanpool(n, small_convs(n)), 5), 0);
}

static void pooled(struct net *n)
{
    int v = net_image(n, 9, 7, 3);
    v = net_maxpool(n, net_norm(n, net_conv(n, v, 4, 7, 1, 3), 1), 3, 2, 1);
    net_softmax_loss(n, net_dense(n, v, 5), 0);
}

static void residual(struct net *n)
{
    int v = net_conv(n, net_image(n, 9, 7, 3), 4, 1, 1, 0);
    v = net_add(n, net_conv(n, v, 4, 3, 1, 1), v);
    net_softmax_loss(n, net_dense(n, v, 5), 0.2f);
}

Test(net, gradients_of_layers)
{
    static const struct {
        const char *name;
        void (*build)(struct net *n);
    } rows[] = {{"whole", whole}, {"pooled", pooled}, {"residual", residual}};
    float x[6 * 9 * 7 * 3];
    int32_t labels[6] = {0, 1, 2, 3, 4, 0};
    for (size_t i = 0; i < sizeof x / sizeof x[0]; i++)
        x[i] = noise(99, i);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct err err = {0};
        struct backend *be = cpu(1);
        struct net *n = net_new(be, rows[i].name);
        rows[i].build(n);
        cr_assert_eq(net_finish(n, 6, 5, &err), 0, "%s", err.msg);
        for (size_t count = 6; count >= 5; count--) { /* a short batch, too */
            struct net_batch in = {.n = count, .x = x, .labels = labels};
            check_gradients(n, &in, 1e-2, 0.05);
        }
        net_free(n);
        backend_close(be);
    }
}

/* Of each layer: all took some time together, and who has parameters holds them. */
static void check_costs(const struct net *n)
{
    const struct net_cost *costs = net_costs(n);
    uint64_t forward = 0, backward = 0, bytes = 0;
    cr_assert_not_null(costs);
    for (size_t i = 0; i < net_n_layers(n); i++) {
        forward += costs[i].forward_ns;
        backward += costs[i].backward_ns;
        bytes += costs[i].bytes;
    }
    cr_expect(forward > 0 && backward > 0);
    cr_expect_geq(bytes, 3 * net_floats(n) * sizeof(float));
}

/* Trains `steps` steps, and takes times in all of them or in none; the loss of each, and the
 * weights at the end. */
static uint64_t train(const char *model, int side, size_t batch, int steps, int threads,
                      bool measured, double *first, double *last)
{
    struct err err = {0};
    enum model_data kind = (enum model_data)model_data(model, &err);
    struct backend *be = cpu(threads);
    struct batches *b = made_up(kind, side, batch, 1000);
    struct net *n = net_of(be, model, &b->shape, batch);
    struct update u = {.rate = 0.02f, .momentum = 0.9f, .decay = 1e-4f};
    for (int i = 0; i < steps; i++) {
        struct net_batch in;
        if (b->ops->next(b, &in, &err) == 0) {
            cr_assert_eq(b->ops->begin(b, 1, &err), 0);
            cr_assert_eq(b->ops->next(b, &in, &err), 1);
        }
        if (measured)
            net_measure(n);
        double loss = loss_of(n, &in, true) / (double)in.n;
        if (i == 0)
            *first = loss;
        *last = loss;
        net_update(n, &u, (double)in.n);
    }
    uint64_t sum = hash64(net_weights(n), net_floats(n) * sizeof(float), 0);
    if (measured)
        check_costs(n);
    else
        cr_expect_null(net_costs(n));
    net_free(n);
    batch_close(b);
    backend_close(be);
    return sum;
}

Test(net, models_learn)
{
    static const struct {
        const char *model;
        int side, steps;
        double to; /* of the first loss */
    } rows[] = {{"softmax", 8, 40, 0.5},
                {"mlp", 8, 40, 0.5},
                {"movie", 1, 150, 0.7},
                {"resnet18", 32, 4, 1}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        double first, last;
        train(rows[i].model, rows[i].side, 16, rows[i].steps, 1, false, &first, &last);
        cr_expect(last < rows[i].to * first, "%s: loss %g after %g", rows[i].model, last, first);
    }
}

/* Whether times are taken or not. */
Test(net, same_bits_twice)
{
    static const struct {
        const char *model;
        int steps, threads;
    } rows[] = {{"mlp", 3, 2}, {"movie", 3, 1}, {"resnet18", 1, 1}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        double first, last;
        uint64_t a =
            train(rows[i].model, 32, 8, rows[i].steps, rows[i].threads, false, &first, &last);
        uint64_t b =
            train(rows[i].model, 32, 8, rows[i].steps, rows[i].threads, true, &first, &last);
        cr_expect_eq(a, b, "%s", rows[i].model);
    }
}

/* Places in a value are int32_t: a batch beyond them is refused before memory is taken. */
Test(net, a_batch_of_too_many_numbers)
{
    struct backend *b = cpu(1);
    struct net *n = net_new(b, "wide");
    struct err err = {0};
    net_softmax_loss(n, net_dense(n, net_maxpool(n, net_image(n, 64, 64, 64), 2, 2, 0), 2), 0);
    cr_expect_eq(net_finish(n, 8192, 1, &err), -1); /* 2^31 */
    cr_expect_eq(err.class, ERR_LIMIT);
    cr_expect(strstr(err.msg, "a batch of 8192: ") && strstr(err.msg, "at most 8191 "), "%s",
              err.msg);
    net_free(n);
    backend_close(b);
}

Test(net, weights_start_from_seed_and_name)
{
    struct err err = {0};
    struct model_shape s = {.h = 4, .w = 4, .c = 3, .classes = 3, .hidden = 8};
    struct backend *be = cpu(1);
    struct net *n = net_of(be, "mlp", &s, 1);
    cr_expect_str_eq(net_param(n, 0)->name, "___fc_layer_0__.w0");
    cr_expect_str_eq(net_param(n, 5)->name, "___fc_layer_2__.wbias");
    double square = 0;
    const struct param *p = net_param(n, 0);
    for (size_t i = 0; i < p->n; i++)
        square += net_weights(n)[p->at + i] * net_weights(n)[p->at + i];
    cr_expect_float_eq(square / (double)p->n, 1.0 / 48, 0.2 / 48);
    struct net *other = net_new(be, "mlp");
    model_build(other, "mlp", &s, &err);
    cr_assert_eq(net_finish(other, 1, 2, &err), 0);
    cr_expect_neq(net_weights(n)[0], net_weights(other)[0], "another seed");
    net_free(other);
    net_free(n);
    backend_close(be);
}

Test(net, bad_number_is_found_where_it_arose)
{
    struct model_shape s = {.h = 4, .w = 4, .c = 3, .classes = 3, .hidden = 8};
    struct backend *be = cpu(1);
    struct net *n = net_of(be, "mlp", &s, 2);
    float x[2 * 48] = {0};
    int32_t labels[2] = {0, 1};
    struct net_batch in = {.n = 2, .x = x, .labels = labels};
    net_weights(n)[net_param(n, 2)->at] = NAN;
    cr_expect(isnan(loss_of(n, &in, true)));
    cr_expect_str_eq(net_find_bad(n, 2), "__fc_layer_1__");
    net_free(n);
    backend_close(be);
}

/* A checkpoint says how many there are; whoever decodes a picture writes three. */
Test(net, pictures_have_three_channels)
{
    static const char *const names[] = {"softmax", "mlp", "resnet18", "resnet50"};
    struct backend *be = cpu(1);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        for (int c = 0; c < 3; c++) {
            struct model_shape s = {.h = 32, .w = 32, .c = c, .classes = 3, .hidden = 8};
            struct err err = {0};
            struct net *n = net_new(be, names[i]);
            cr_expect(model_build(n, names[i], &s, &err) == -1 &&
                          strstr(err.msg, "want 3 (red, green and blue)"),
                      "%s of %d: %s", names[i], c, err.msg);
            net_free(n);
        }
    backend_close(be);
}
