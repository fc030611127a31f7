/* Running a net: steps over its layers, the update, a number that is none. */
#include <math.h>
#include <stdlib.h>

#include "clock.h"
#include "hash.h"
#include "mem.h"
#include "net-internal.h"

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
        run_layer(p, i, net_ways[n->layers[i].kind].forward, costs ? &costs[i].forward_ns : NULL);
    for (size_t i = n->n_layers; p->train && i-- > 0;)
        run_layer(p, i, net_ways[n->layers[i].kind].backward, costs ? &costs[i].backward_ns : NULL);
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
