/* Each kind of layer, forward and backward. */
#include "net-internal.h"

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

const struct layer_ways net_ways[N_LAYER_KINDS] = {
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
