/* Building a net: layers, the values between them, parameters and their first numbers. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hash.h"
#include "mem.h"
#include "net-internal.h"

static const char *const kind_names[N_LAYER_KINDS] = {
    [LAYER_IMAGE] = "data",
    [LAYER_EMBED] = "embedding",
    [LAYER_DENSE] = "fc_layer",
    [LAYER_CONV] = "conv",
    [LAYER_NORM] = "batch_norm",
    [LAYER_RELU] = "relu",
    [LAYER_ADD] = "addto",
    [LAYER_MAXPOOL] = "max_pool",
    [LAYER_MEANPOOL] = "avg_pool",
    [LAYER_CONCAT] = "concat",
    [LAYER_COSINE] = "cos_sim",
    [LAYER_SOFTMAX_LOSS] = "cross_entropy",
    [LAYER_SQUARE_LOSS] = "square_error",
};

struct net *net_new(struct backend *b, const char *model)
{
    struct net *n = xcalloc(1, sizeof *n);
    n->b = b;
    n->result = -1;
    snprintf(n->model, sizeof n->model, "%s", model);
    return n;
}

void net_free(struct net *n)
{
    if (!n)
        return;
    for (size_t i = 0; i < n->n_owned; i++)
        n->b->ops->release(n->b, n->owned[i]);
    free(n->owned);
    free(n->costs);
    free(n->layers);
    free(n->values);
    free(n->params);
    free(n);
}

/* --- layers ----------------------------------------------------------------------------------- */

static struct layer *add_layer(struct net *n, enum layer_kind kind)
{
    n->layers = xrealloc(n->layers, (n->n_layers + 1) * sizeof *n->layers);
    struct layer *l = &n->layers[n->n_layers++];
    *l = (struct layer){.kind = kind, .out = -1, .params = {-1, -1, -1, -1}};
    snprintf(l->name, sizeof l->name, "__%s_%u__", kind_names[kind], n->named[kind]++);
    return l;
}

static int add_value(struct net *n, struct layer *l, int h, int w, int c, bool learns)
{
    n->values = xrealloc(n->values, (n->n_values + 1) * sizeof *n->values);
    n->values[n->n_values] = (struct value){.h = h,
                                            .w = w,
                                            .c = c,
                                            .size = (size_t)h * (size_t)w * (size_t)c,
                                            .learns = learns,
                                            .maker = (int)(l - n->layers)};
    l->out = (int)n->n_values;
    return (int)n->n_values++;
}

static void add_param(struct net *n, struct layer *l, int slot, const char *suffix,
                      enum param_kind kind, const int *dims, int n_dims, float first, bool drawn)
{
    n->params = xrealloc(n->params, (n->n_params + 1) * sizeof *n->params);
    struct param *p = &n->params[n->n_params];
    *p = (struct param){.kind = kind, .n_dims = n_dims, .n = 1, .first = first, .drawn = drawn};
    for (int i = 0; i < n_dims; i++) {
        p->dims[i] = dims[i];
        p->n *= (size_t)dims[i];
    }
    snprintf(p->name, sizeof p->name, "_%.50s.%s", l->name, suffix);
    l->params[slot] = (int)n->n_params++;
}

static struct value *value_of(struct net *n, int v)
{
    return &n->values[v];
}

int net_image(struct net *n, int h, int w, int c)
{
    return add_value(n, add_layer(n, LAYER_IMAGE), h, w, c, false);
}

int net_embed(struct net *n, int rows, int width, int dim)
{
    struct layer *l = add_layer(n, LAYER_EMBED);
    l->width = width;
    l->ids = n->n_ids;
    n->ids_width[n->n_ids++] = width;
    add_param(n, l, 0, "w0", PARAM_ROWS, (int[]){rows, dim}, 2, 1 / sqrtf((float)dim), true);
    return add_value(n, l, 1, 1, dim, true);
}

int net_dense(struct net *n, int in, int outputs)
{
    struct layer *l = add_layer(n, LAYER_DENSE);
    int inputs = (int)value_of(n, in)->size;
    l->in[l->n_in++] = in;
    add_param(n, l, 0, "w0", PARAM_WEIGHT, (int[]){inputs, outputs}, 2, sqrtf(1.0f / (float)inputs),
              true);
    add_param(n, l, 1, "wbias", PARAM_PLAIN, &outputs, 1, 0, false);
    return add_value(n, l, 1, 1, outputs, true);
}

int net_conv(struct net *n, int in, int filters, int window, int stride, int pad)
{
    struct layer *l = add_layer(n, LAYER_CONV);
    const struct value *v = value_of(n, in);
    int dims[] = {filters, window, window, v->c};
    l->in[l->n_in++] = in;
    l->window = window;
    l->stride = stride;
    l->pad = pad;
    add_param(n, l, 0, "w0", PARAM_WEIGHT, dims, 4, sqrtf(2.0f / (float)(window * window * v->c)),
              true);
    return add_value(n, l, (v->h + 2 * pad - window) / stride + 1,
                     (v->w + 2 * pad - window) / stride + 1, filters, true);
}

int net_norm(struct net *n, int in, float gamma)
{
    struct layer *l = add_layer(n, LAYER_NORM);
    const struct value *v = value_of(n, in);
    int h = v->h, w = v->w, c = v->c;
    l->in[l->n_in++] = in;
    add_param(n, l, 0, "w0", PARAM_PLAIN, &c, 1, gamma, false);
    add_param(n, l, 1, "wbias", PARAM_PLAIN, &c, 1, 0, false);
    add_param(n, l, 2, "w1", PARAM_STAT, &c, 1, 0, false);
    add_param(n, l, 3, "w2", PARAM_STAT, &c, 1, 1, false);
    return add_value(n, l, h, w, c, true);
}

int net_relu(struct net *n, int in)
{
    struct layer *l = add_layer(n, LAYER_RELU), *before = l - 1;
    l->in[l->n_in++] = in;
    l->out = in;
    if (before->out == in && (before->kind == LAYER_NORM || before->kind == LAYER_ADD))
        l->relu = before->relu = true;
    return in;
}

int net_add(struct net *n, int p, int q)
{
    struct layer *l = add_layer(n, LAYER_ADD);
    const struct value *v = value_of(n, p);
    l->in[l->n_in++] = p;
    l->in[l->n_in++] = q;
    return add_value(n, l, v->h, v->w, v->c, v->learns || value_of(n, q)->learns);
}

int net_maxpool(struct net *n, int in, int window, int stride, int pad)
{
    struct layer *l = add_layer(n, LAYER_MAXPOOL);
    const struct value *v = value_of(n, in);
    l->in[l->n_in++] = in;
    l->window = window;
    l->stride = stride;
    l->pad = pad;
    return add_value(n, l, (v->h + 2 * pad - window) / stride + 1,
                     (v->w + 2 * pad - window) / stride + 1, v->c, v->learns);
}

int net_meanpool(struct net *n, int in)
{
    struct layer *l = add_layer(n, LAYER_MEANPOOL);
    const struct value *v = value_of(n, in);
    l->in[l->n_in++] = in;
    return add_value(n, l, 1, 1, v->c, v->learns);
}

int net_concat(struct net *n, const int *in, int count)
{
    struct layer *l = add_layer(n, LAYER_CONCAT);
    size_t size = 0;
    bool learns = false;
    for (int i = 0; i < count; i++) {
        l->in[l->n_in++] = in[i];
        size += value_of(n, in[i])->size;
        learns |= value_of(n, in[i])->learns;
    }
    return add_value(n, l, 1, 1, (int)size, learns);
}

int net_cosine(struct net *n, int p, int q, float scale)
{
    struct layer *l = add_layer(n, LAYER_COSINE);
    l->in[l->n_in++] = p;
    l->in[l->n_in++] = q;
    l->number = scale;
    return add_value(n, l, 1, 1, 1, true);
}

static void add_loss(struct net *n, enum layer_kind kind, int in, float number)
{
    struct layer *l = add_layer(n, kind);
    l->in[l->n_in++] = in;
    l->number = number;
    n->result = in;
}

void net_softmax_loss(struct net *n, int in, float smooth)
{
    add_loss(n, LAYER_SOFTMAX_LOSS, in, smooth);
}

void net_square_loss(struct net *n, int in)
{
    add_loss(n, LAYER_SQUARE_LOSS, in, 0);
}

/* --- first numbers ---------------------------------------------------------------------------- */

/* Nearly normal: the sum of four uniform draws, the pieces of one hash of (seed, name, place). The
 * same on every machine, which the library's logarithm is not. */
static float normal(uint64_t key, uint64_t i)
{
    uint64_t h = hash_mix64(key + i * 0x9e3779b97f4a7c15ull);
    uint32_t sum = (uint32_t)((h & 0xffff) + (h >> 16 & 0xffff) + (h >> 32 & 0xffff) + (h >> 48));
    return ((float)sum - 131070.0f) * (1.7320508f / 65536);
}

void net_draw(const char *name, uint64_t seed, bool drawn, float first, uint64_t from, size_t n,
              float *out)
{
    uint64_t key = hash64(name, strlen(name), hash_mix64(seed));
    for (size_t i = 0; i < n; i++)
        out[i] = drawn ? normal(key, from + i) * first : first;
}

int net_finish(struct net *n, size_t batch, uint64_t seed, struct err *err)
{
    n->batch = batch;
    n->floats = 0;
    for (size_t i = 0; i < n->n_params; i++) {
        n->params[i].at = n->floats;
        n->floats += (n->params[i].n + 15) / 16 * 16; /* each starts on a cache line */
    }
    if (net_allocate(n, err))
        return err_wrap(err, "model %s", n->model);
    for (size_t i = 0; i < n->n_params; i++) {
        const struct param *p = &n->params[i];
        cleanup_free float *first = xmalloc(p->n * sizeof *first);
        net_draw(p->name, seed, p->drawn, p->first, 0, p->n, first);
        n->b->ops->put(n->b, n->weights + p->at, first, p->n * sizeof *first);
    }
    return n->b->ops->sync(n->b, err);
}

/* --- what lies in it -------------------------------------------------------------------------- */

const char *net_model(const struct net *n)
{
    return n->model;
}

struct backend *net_backend(const struct net *n)
{
    return n->b;
}

size_t net_n_params(const struct net *n)
{
    return n->n_params;
}

const struct param *net_param(const struct net *n, size_t i)
{
    return &n->params[i];
}

size_t net_floats(const struct net *n)
{
    return n->floats;
}

float *net_weights(const struct net *n)
{
    return n->weights;
}

float *net_grads(const struct net *n)
{
    return n->grads;
}

float *net_velocities(const struct net *n)
{
    return n->velocities;
}

float *net_mean(const struct net *n)
{
    return n->mean;
}

int net_n_ids(const struct net *n)
{
    return n->n_ids;
}

int net_ids_width(const struct net *n, int i)
{
    return n->ids_width[i];
}

size_t net_n_layers(const struct net *n)
{
    return n->n_layers;
}

/* A relu changes its value in place, so a value's last maker before `layer` counts. */
static const char *maker_before(const struct net *n, int value, size_t layer)
{
    while (layer-- > 0)
        if (n->layers[layer].out == value)
            return n->layers[layer].name;
    return NULL;
}

void net_layer(const struct net *n, size_t i, struct net_layer *ret)
{
    const struct layer *l = &n->layers[i];
    const struct value *v = &n->values[l->out >= 0 ? l->out : l->in[0]];
    *ret = (struct net_layer){
        .name = l->name, .kind = kind_names[l->kind], .h = v->h, .w = v->w, .c = v->c};
    for (int k = 0; k < l->n_in && k < NET_IDS - 1; k++)
        ret->inputs[k] = maker_before(n, l->in[k], i);
}

void net_measure(struct net *n)
{
    n->measures = true;
}

const struct net_cost *net_costs(const struct net *n)
{
    return n->costs;
}
