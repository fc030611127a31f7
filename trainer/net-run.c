/* Running a net: each kind of layer forward and backward, the loss, the update. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "hash.h"
#include "mem.h"
#include "net-internal.h"

/* One pass over the layers. */
struct pass {
    struct net *n;
    const struct backend_ops *ops;
    size_t batch;
    bool train;
    struct net_cost *costs; /* NULL: no times are taken */
};

static struct value *in_of(const struct pass *p, const struct layer *l, int i)
{
    return &p->n->values[l->in[i]];
}

static struct value *out_of(const struct pass *p, const struct layer *l)
{
    return &p->n->values[l->out];
}

static const struct input *input(const struct pass *p)
{
    return &p->n->inputs[p->n->input];
}

static float *weight(const struct pass *p, const struct layer *l, int i)
{
    return p->n->weights + p->n->params[l->params[i]].at;
}

static float *grad(const struct pass *p, const struct layer *l, int i)
{
    return p->n->grads + p->n->params[l->params[i]].at;
}

/* Where a layer writes the gradient of its input: into it if it is the first to, else aside, and
 * grad_done() adds it. */
static float *grad_to(const struct pass *p, const struct value *v)
{
    return v->written ? p->n->scratch : v->grad;
}

static void grad_done(const struct pass *p, struct value *v)
{
    if (v->written)
        p->ops->axpy(p->n->b, v->grad, 1, p->n->scratch, v->size * p->batch);
    v->written = true;
}

/* --- layers ----------------------------------------------------------------------------------- */

static void embed(const struct pass *p, const struct layer *l)
{
    struct value *y = out_of(p, l);
    p->ops->embed(p->n->b, weight(p, l, 0), input(p)->ids[l->ids], p->batch, l->width, y->c,
                  y->data);
}

static void embed_back(const struct pass *p, const struct layer *l)
{
    struct value *y = out_of(p, l);
    p->ops->fill(p->n->b, grad(p, l, 0), p->n->params[l->params[0]].n, 0);
    p->ops->embed_grad(p->n->b, y->grad, input(p)->ids[l->ids], p->batch, l->width, y->c,
                       grad(p, l, 0));
}

static void dense(const struct pass *p, const struct layer *l)
{
    struct value *x = in_of(p, l, 0), *y = out_of(p, l);
    p->ops->gemm(p->n->b, false, false, (int)p->batch, y->c, (int)x->size, x->data, weight(p, l, 0),
                 0, y->data);
    p->ops->bias(p->n->b, y->data, weight(p, l, 1), p->batch, (size_t)y->c);
}

static void dense_back(const struct pass *p, const struct layer *l)
{
    struct value *x = in_of(p, l, 0), *y = out_of(p, l);
    p->ops->gemm(p->n->b, true, false, (int)x->size, y->c, (int)p->batch, x->data, y->grad, 0,
                 grad(p, l, 0));
    p->ops->bias_grad(p->n->b, grad(p, l, 1), y->grad, p->batch, (size_t)y->c);
    if (!x->learns)
        return;
    p->ops->gemm(p->n->b, false, true, (int)p->batch, (int)x->size, y->c, y->grad, weight(p, l, 0),
                 0, grad_to(p, x));
    grad_done(p, x);
}

static struct conv_plan *plan_of(const struct pass *p, const struct layer *l)
{
    struct value *x = in_of(p, l, 0), *y = out_of(p, l);
    struct conv_shape s = {.n = (int)p->batch,
                           .h = x->h,
                           .w = x->w,
                           .c = x->c,
                           .k = y->c,
                           .r = l->window,
                           .s = l->window,
                           .stride = l->stride,
                           .pad = l->pad,
                           .out_h = y->h,
                           .out_w = y->w};
    return p->ops->conv_plan(p->n->b, &s);
}

static void conv(const struct pass *p, const struct layer *l)
{
    p->ops->conv(p->n->b, plan_of(p, l), in_of(p, l, 0)->data, weight(p, l, 0), out_of(p, l)->data);
}

static void conv_back(const struct pass *p, const struct layer *l)
{
    struct value *x = in_of(p, l, 0), *y = out_of(p, l);
    struct conv_plan *plan = plan_of(p, l);
    p->ops->conv_grad_w(p->n->b, plan, x->data, y->grad, grad(p, l, 0));
    if (!x->learns)
        return;
    p->ops->conv_grad_x(p->n->b, plan, weight(p, l, 0), y->grad, grad_to(p, x));
    grad_done(p, x);
}

static size_t rows_of(const struct pass *p, const struct value *v)
{
    return p->batch * (size_t)v->h * (size_t)v->w;
}

static void norm(const struct pass *p, const struct layer *l)
{
    struct value *x = in_of(p, l, 0), *y = out_of(p, l);
    size_t c = (size_t)x->c;
    if (!p->train) {
        p->ops->norm_eval(p->n->b, x->data, weight(p, l, 0), weight(p, l, 1), weight(p, l, 2),
                          weight(p, l, 3), rows_of(p, x), c, l->relu, y->data);
        return;
    }
    p->ops->norm(p->n->b, x->data, weight(p, l, 0), weight(p, l, 1), rows_of(p, x), c, l->relu,
                 y->data, l->saved, l->stats);
    for (int i = 0; i < 2; i++) { /* weighted by samples, as gradients are sums over them */
        p->ops->fill(p->n->b, grad(p, l, 2 + i), c, 0);
        p->ops->axpy(p->n->b, grad(p, l, 2 + i), (float)p->batch, l->stats + (size_t)i * c, c);
    }
}

static void norm_back(const struct pass *p, const struct layer *l)
{
    struct value *x = in_of(p, l, 0), *y = out_of(p, l);
    p->ops->norm_grad(p->n->b, x->data, weight(p, l, 0), l->saved, y->grad, rows_of(p, x),
                      (size_t)x->c, grad_to(p, x), grad(p, l, 0), grad(p, l, 1));
    grad_done(p, x);
}

static void relu(const struct pass *p, const struct layer *l)
{
    struct value *y = out_of(p, l);
    if (!l->relu)
        p->ops->relu(p->n->b, y->data, y->size * p->batch);
}

static void relu_back(const struct pass *p, const struct layer *l)
{
    struct value *y = out_of(p, l);
    p->ops->relu_grad(p->n->b, y->grad, y->data, y->size * p->batch);
}

static void add(const struct pass *p, const struct layer *l)
{
    struct value *y = out_of(p, l);
    p->ops->add(p->n->b, y->data, in_of(p, l, 0)->data, in_of(p, l, 1)->data, y->size * p->batch,
                l->relu);
}

static void add_back(const struct pass *p, const struct layer *l)
{
    struct value *y = out_of(p, l);
    for (int i = 0; i < 2; i++) {
        struct value *x = in_of(p, l, i);
        if (!x->learns)
            continue;
        p->ops->copy(p->n->b, grad_to(p, x), y->grad, y->size * p->batch);
        grad_done(p, x);
    }
}

static struct pool_shape pool_of(const struct pass *p, const struct layer *l)
{
    struct value *x = in_of(p, l, 0), *y = out_of(p, l);
    return (struct pool_shape){.n = (int)p->batch,
                               .h = x->h,
                               .w = x->w,
                               .c = x->c,
                               .window = l->window,
                               .stride = l->stride,
                               .pad = l->pad,
                               .out_h = y->h,
                               .out_w = y->w};
}

static void maxpool(const struct pass *p, const struct layer *l)
{
    struct pool_shape s = pool_of(p, l);
    p->ops->maxpool(p->n->b, &s, in_of(p, l, 0)->data, out_of(p, l)->data, l->from);
}

static void maxpool_back(const struct pass *p, const struct layer *l)
{
    struct pool_shape s = pool_of(p, l);
    struct value *x = in_of(p, l, 0);
    if (!x->learns)
        return;
    p->ops->maxpool_grad(p->n->b, &s, out_of(p, l)->grad, l->from, grad_to(p, x));
    grad_done(p, x);
}

static void meanpool(const struct pass *p, const struct layer *l)
{
    struct value *x = in_of(p, l, 0);
    p->ops->meanpool(p->n->b, (int)p->batch, x->h * x->w, x->c, x->data, out_of(p, l)->data);
}

static void meanpool_back(const struct pass *p, const struct layer *l)
{
    struct value *x = in_of(p, l, 0);
    if (!x->learns)
        return;
    p->ops->meanpool_grad(p->n->b, (int)p->batch, x->h * x->w, x->c, out_of(p, l)->grad,
                          grad_to(p, x));
    grad_done(p, x);
}

static void concat(const struct pass *p, const struct layer *l)
{
    struct value *y = out_of(p, l);
    for (int i = 0, at = 0; i < l->n_in; i++) {
        struct value *x = in_of(p, l, i);
        int cols = (int)x->size;
        p->ops->columns(p->n->b, y->data, y->c, at, x->data, cols, 0, cols, p->batch);
        at += cols;
    }
}

static void concat_back(const struct pass *p, const struct layer *l)
{
    struct value *y = out_of(p, l);
    for (int i = 0, at = 0; i < l->n_in; i++) {
        struct value *x = in_of(p, l, i);
        int cols = (int)x->size;
        if (x->learns) {
            p->ops->columns(p->n->b, grad_to(p, x), cols, 0, y->grad, y->c, at, cols, p->batch);
            grad_done(p, x);
        }
        at += cols;
    }
}

static void cosine(const struct pass *p, const struct layer *l)
{
    struct value *u = in_of(p, l, 0), *v = in_of(p, l, 1);
    p->ops->cosine(p->n->b, u->data, v->data, p->batch, u->c, l->number, out_of(p, l)->data);
}

/* Its two inputs are two values, each used here alone. */
static void cosine_back(const struct pass *p, const struct layer *l)
{
    struct value *u = in_of(p, l, 0), *v = in_of(p, l, 1);
    p->ops->cosine_grad(p->n->b, u->data, v->data, out_of(p, l)->grad, p->batch, u->c, l->number,
                        u->grad, v->grad);
    u->written = v->written = true;
}

/* A loss writes the gradient of what it is made from at once; without training, that is waste. */
static void softmax_loss(const struct pass *p, const struct layer *l)
{
    struct value *x = in_of(p, l, 0);
    p->ops->softmax_loss(p->n->b, x->data, input(p)->labels, p->batch, x->c,
                         p->train ? l->number : 0, x->grad, p->n->grads + p->n->floats + SUM_LOSS);
    x->written = true;
}

static void square_loss(const struct pass *p, const struct layer *l)
{
    struct value *x = in_of(p, l, 0);
    p->ops->square_loss(p->n->b, x->data, input(p)->targets, p->batch, x->grad,
                        p->n->grads + p->n->floats + SUM_LOSS);
    x->written = true;
}

static void nothing(const struct pass *p, const struct layer *l)
{
    (void)p;
    (void)l;
}

typedef void layer_fn(const struct pass *p, const struct layer *l);
static const struct {
    layer_fn *forward, *backward;
} kinds[N_LAYER_KINDS] = {
    [LAYER_IMAGE] = {nothing, nothing},
    [LAYER_EMBED] = {embed, embed_back},
    [LAYER_DENSE] = {dense, dense_back},
    [LAYER_CONV] = {conv, conv_back},
    [LAYER_NORM] = {norm, norm_back},
    [LAYER_RELU] = {relu, relu_back},
    [LAYER_ADD] = {add, add_back},
    [LAYER_MAXPOOL] = {maxpool, maxpool_back},
    [LAYER_MEANPOOL] = {meanpool, meanpool_back},
    [LAYER_CONCAT] = {concat, concat_back},
    [LAYER_COSINE] = {cosine, cosine_back},
    [LAYER_SOFTMAX_LOSS] = {softmax_loss, nothing},
    [LAYER_SQUARE_LOSS] = {square_loss, nothing},
};

/* --- steps ------------------------------------------------------------------------------------ */

/* Puts a batch where the next step finds it. */
static void feed(struct net *n, const struct net_batch *in, int which)
{
    const struct backend_ops *ops = n->b->ops;
    struct input *to = &n->inputs[which];
    if (ops->feed_begin)
        ops->feed_begin(n->b, which);
    if (in->x && n->image >= 0)
        ops->put(n->b, to->x, in->x, in->n * n->values[n->image].size * sizeof(float));
    for (int i = 0; i < n->n_ids; i++)
        ops->put(n->b, to->ids[i], in->ids[i], in->n * (size_t)n->ids_width[i] * sizeof(int32_t));
    if (in->labels)
        ops->put(n->b, to->labels, in->labels, in->n * sizeof(int32_t));
    if (in->targets)
        ops->put(n->b, to->targets, in->targets, in->n * sizeof(float));
    if (ops->feed_end)
        ops->feed_end(n->b, which);
}

void net_ahead(struct net *n, const struct net_batch *in)
{
    if (n->n_inputs < 2 || in->n == 0)
        return;
    feed(n, in, 1 - n->input);
    n->ahead = *in;
}

/* The batch of this step becomes n->input, fed before or now. */
static void take_input(struct net *n, const struct net_batch *in)
{
    bool fed = n->ahead.n == in->n && n->ahead.x == in->x && n->ahead.labels == in->labels &&
               n->ahead.targets == in->targets;
    n->ahead.n = 0;
    n->input = n->n_inputs - 1 - n->input; /* one: stays; two: the other */
    if (!fed)
        feed(n, in, n->input);
    if (n->image >= 0)
        n->values[n->image].data = n->inputs[n->input].x;
    if (n->b->ops->use_begin)
        n->b->ops->use_begin(n->b, n->input);
}

/* Runs one layer, and (where times are taken) waits for it. A failure stays with the backend. */
static void run_layer(const struct pass *p, size_t i, layer_fn *fn, uint64_t *ret_ns)
{
    uint64_t begun = ret_ns ? clock_mono_ns() : 0;
    fn(p, &p->n->layers[i]);
    if (!ret_ns)
        return;
    p->ops->sync(p->n->b, NULL);
    *ret_ns = clock_mono_ns() - begun;
}

static void queue(const struct pass *p)
{
    struct net *n = p->n;
    struct net_cost *costs = p->costs;
    if (costs)
        p->ops->sync(n->b, NULL); /* what was queued before is no layer's */
    for (size_t i = 0; i < n->n_values; i++)
        n->values[i].written = false;
    for (size_t i = 0; i < n->n_layers; i++)
        run_layer(p, i, kinds[n->layers[i].kind].forward, costs ? &costs[i].forward_ns : NULL);
    for (size_t i = n->n_layers; p->train && i-- > 0;)
        run_layer(p, i, kinds[n->layers[i].kind].backward, costs ? &costs[i].backward_ns : NULL);
}

/* Where the times of this step go, if it is measured. */
static struct net_cost *begin_costs(struct net *n)
{
    if (!n->measures)
        return NULL;
    n->measures = false;
    free(n->costs);
    n->costs = xcalloc(n->n_layers, sizeof *n->costs);
    for (size_t i = 0; i < n->n_layers; i++)
        n->costs[i].bytes = net_layer_bytes(n, &n->layers[i]);
    return n->costs;
}

/* Work with the same key touches the same memory in the same way. */
static uint64_t key_of(const struct net *n, char what, int input, size_t batch)
{
    const struct {
        const void *net, *weights;
        uint64_t batch;
        int64_t what;
    } all = {n, n->weights, batch, what * 2 + input};
    return hash64(&all, sizeof all, 0);
}

void net_step(struct net *n, const struct net_batch *in, bool train)
{
    const struct backend_ops *ops = n->b->ops;
    struct pass p = {.n = n, .ops = ops, .batch = in->n, .train = train};
    enum backend_work work = WORK_WANTED;
    ops->fill(n->b, n->grads + n->floats, N_SUMS, 0);
    ops->fill(n->b, n->grads + n->floats + SUM_COUNT, 1, (float)in->n);
    if (in->n == 0) { /* this rank has no more samples, and adds nothing */
        ops->fill(n->b, n->grads, n->floats, 0);
        return;
    }
    take_input(n, in);
    p.costs = begin_costs(n);
    if (ops->work_begin && !p.costs)
        work = ops->work_begin(n->b, key_of(n, train ? 't' : 'e', n->input, in->n));
    if (work != WORK_QUEUED)
        queue(&p);
    if (work == WORK_RECORDING && !ops->work_end(n->b, work))
        queue(&p);
    if (ops->use_end)
        ops->use_end(n->b, n->input);
}

const float *net_result(const struct net *n)
{
    return n->values[n->result].data;
}

size_t net_outputs(const struct net *n)
{
    return n->values[n->result].size;
}

static void update_param(struct backend *b, enum param_kind kind, float *w, float *g, float *v,
                         size_t n)
{
    if (kind == PARAM_STAT)
        b->ops->track(b, w, g, n, NET_STAT_KEEP);
    else
        b->ops->update(b, w, g, v, n, kind != PARAM_WEIGHT);
}

/* What the updates that follow go by: gradients are sums over `count` samples. */
static void set_rates(struct backend *b, const struct update *u, double count)
{
    struct update own = *u;
    own.scale = (float)(1 / count);
    b->ops->rates(b, &own);
}

void net_update_one(struct backend *b, enum param_kind kind, float *w, float *g, float *v, size_t n,
                    const struct update *u, double count)
{
    set_rates(b, u, count);
    update_param(b, kind, w, g, v, n);
}

static void update(struct net *n)
{
    for (size_t i = 0; i < n->n_params; i++) {
        const struct param *p = &n->params[i];
        update_param(n->b, p->kind, n->weights + p->at, n->grads + p->at, n->velocities + p->at,
                     p->n);
    }
}

void net_update(struct net *n, const struct update *u, double count)
{
    const struct backend_ops *ops = n->b->ops;
    enum backend_work work = WORK_WANTED;
    set_rates(n->b, u, count);
    if (ops->work_begin)
        work = ops->work_begin(n->b, key_of(n, u->trust > 0 ? 'l' : 'u', 0, 0));
    if (work != WORK_QUEUED)
        update(n);
    if (work == WORK_RECORDING && !ops->work_end(n->b, work))
        update(n);
}

const char *net_find_bad(struct net *n, size_t batch)
{
    for (size_t i = 0; i < n->n_layers; i++) {
        const struct layer *l = &n->layers[i];
        if (l->out < 0)
            continue;
        const struct value *v = &n->values[l->out];
        size_t count = v->size * batch;
        cleanup_free float *host = xmalloc((count + 1) * sizeof *host);
        n->b->ops->get(n->b, host, v->data, count * sizeof *host);
        if (n->b->ops->sync(n->b, NULL))
            return NULL;
        for (size_t k = 0; k < count; k++)
            if (!isfinite(host[k]))
                return l->name;
    }
    return NULL;
}
