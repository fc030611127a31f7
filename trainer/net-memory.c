/* A net's memory. The gradient of a value is needed from the first layer that gives it until its
 * maker has used it; values whose gradients are never needed at one time share memory. */
#include <stdlib.h>
#include <string.h>

#include "mem.h"
#include "net-internal.h"

/* Memory of the backend that lives as long as the net. */
static void *own(struct net *n, void *p)
{
    n->owned = xrealloc(n->owned, (n->n_owned + 1) * sizeof *n->owned);
    return n->owned[n->n_owned++] = p;
}

static int own_floats(struct net *n, size_t count, float **ret, struct err *err)
{
    void *p;
    if (n->b->ops->alloc(n->b, count, &p, err))
        return -1;
    *ret = own(n, p);
    return 0;
}

/* Values of samples, or their gradients. */
static int own_values(struct net *n, size_t count, float **ret, struct err *err)
{
    float *p;
    if (n->b->ops->alloc_values(n->b, count, &p, err))
        return -1;
    *ret = own(n, p);
    return 0;
}

static int own_ids(struct net *n, size_t count, int32_t **ret, struct err *err)
{
    void *p;
    if (n->b->ops->alloc(n->b, count, &p, err))
        return -1;
    *ret = own(n, p);
    return 0;
}

/* --- gradients -------------------------------------------------------------------------------- */

struct room {
    size_t size;
    float *at;
    bool used;
};
struct rooms {
    struct room *all;
    size_t n;
};

static int take_room(struct net *n, struct rooms *r, size_t size, float **ret, struct err *err)
{
    struct room *best = NULL;
    for (size_t i = 0; i < r->n; i++) {
        struct room *one = &r->all[i];
        if (!one->used && one->size >= size && (!best || one->size < best->size))
            best = one;
    }
    if (!best) {
        r->all = xrealloc(r->all, (r->n + 1) * sizeof *r->all);
        best = &r->all[r->n++];
        *best = (struct room){.size = size};
        if (own_values(n, size * n->batch, &best->at, err))
            return -1;
    }
    best->used = true;
    *ret = best->at;
    return 0;
}

static void leave_room(struct rooms *r, const float *at)
{
    for (size_t i = 0; i < r->n; i++)
        if (r->all[i].at == at)
            r->all[i].used = false;
}

static int allocate_grads(struct net *n, struct err *err)
{
    struct rooms rooms = {0};
    int failed = 0;
    for (size_t i = n->n_layers; i-- > 0 && !failed;) {
        const struct layer *l = &n->layers[i];
        for (int k = 0; k < l->n_in && !failed; k++) {
            struct value *v = &n->values[l->in[k]];
            if (v->learns && !v->grad)
                failed = take_room(n, &rooms, v->size, &v->grad, err);
        }
        if (l->out >= 0 && n->values[l->out].maker == (int)i && n->values[l->out].grad)
            leave_room(&rooms, n->values[l->out].grad);
    }
    free(rooms.all);
    return failed;
}

/* --- all -------------------------------------------------------------------------------------- */

static int allocate_layer(struct net *n, struct layer *l, struct err *err)
{
    size_t c = l->out >= 0 ? (size_t)n->values[l->out].c : 0;
    if (l->kind == LAYER_NORM &&
        (own_floats(n, 2 * c, &l->saved, err) || own_floats(n, 2 * c, &l->stats, err)))
        return -1;
    if (l->kind == LAYER_MAXPOOL)
        return own_ids(n, n->values[l->out].size * n->batch, &l->from, err);
    return 0;
}

/* The first set's picture is the memory of its value. */
static int allocate_input(struct net *n, struct input *in, struct err *err)
{
    if (n->image >= 0 && !in->x && own_values(n, n->values[n->image].size * n->batch, &in->x, err))
        return -1;
    for (int i = 0; i < n->n_ids; i++)
        if (own_ids(n, n->batch * (size_t)n->ids_width[i], &in->ids[i], err))
            return -1;
    return own_ids(n, n->batch, &in->labels, err) || own_floats(n, n->batch, &in->targets, err);
}

/* Pooling keeps places within a value, and libraries of convolutions count in it, as int32_t. */
static int check_batch(const struct net *n, size_t largest, struct err *err)
{
    size_t most = INT32_MAX / (largest ? largest : 1);
    if (n->batch <= most)
        return 0;
    return err_set(err, ERR_LIMIT,
                   "a batch of %zu: a layer makes %zu numbers of each sample, of which at most %zu "
                   "samples fit (a smaller --batch_size, or --image)",
                   n->batch, largest, most);
}

int net_allocate(struct net *n, struct err *err)
{
    size_t largest = 0;
    for (size_t i = 0; i < n->n_values; i++)
        largest = n->values[i].size > largest ? n->values[i].size : largest;
    if (check_batch(n, largest, err))
        return -1;
    n->image = -1;
    for (size_t i = 0; i < n->n_values; i++) {
        struct value *v = &n->values[i];
        if (own_values(n, v->size * n->batch, &v->data, err))
            return -1;
        if (n->layers[v->maker].kind == LAYER_IMAGE) {
            n->image = (int)i;
            n->inputs[0].x = v->data;
        }
    }
    n->n_inputs = n->b->ops->feed_begin ? 2 : 1;
    for (int i = 0; i < n->n_inputs; i++)
        if (allocate_input(n, &n->inputs[i], err))
            return -1;
    for (size_t i = 0; i < n->n_layers; i++)
        if (allocate_layer(n, &n->layers[i], err))
            return -1;
    if (own_values(n, largest * n->batch, &n->scratch, err) ||
        own_floats(n, n->floats, &n->weights, err) ||
        own_floats(n, n->floats + N_SUMS, &n->grads, err) ||
        own_floats(n, n->floats, &n->velocities, err))
        return -1;
    return allocate_grads(n, err);
}

size_t net_layer_bytes(const struct net *n, const struct layer *l)
{
    const struct value *v = l->out >= 0 ? &n->values[l->out] : NULL;
    size_t bytes = 0, results = v ? v->size * n->batch : 0, kept_of_each = n->mean ? 4 : 3;
    if (v && &n->layers[v->maker] == l)
        bytes += results * n->b->ops->value_size(n->b);
    if (v && l->saved)
        bytes += 4 * (size_t)v->c * sizeof *l->saved; /* with stats */
    if (l->from)
        bytes += results * sizeof *l->from;
    for (size_t i = 0; i < sizeof l->params / sizeof l->params[0]; i++)
        if (l->params[i] >= 0)
            bytes += kept_of_each * n->params[l->params[i]].n * sizeof(float);
    return bytes;
}

int net_track_mean(struct net *n, struct err *err)
{
    if (n->mean)
        return 0;
    if (own_floats(n, n->floats, &n->mean, err))
        return -1;
    n->b->ops->copy(n->b, n->mean, n->weights, n->floats);
    return 0;
}

void net_swap_mean(struct net *n)
{
    float *weights = n->weights;
    n->weights = n->mean;
    n->mean = weights;
}
