/* The inside of a net, for net.c (building), net-run.c and net-layers.c (running), and
 * net-memory.c. */
#ifndef SAMPAN_TRAIN_NET_INTERNAL_H
#define SAMPAN_TRAIN_NET_INTERNAL_H

#include "net.h"

enum layer_kind {
    LAYER_IMAGE,
    LAYER_EMBED,
    LAYER_DENSE,
    LAYER_CONV,
    LAYER_NORM,
    LAYER_RELU,
    LAYER_ADD,
    LAYER_MAXPOOL,
    LAYER_MEANPOOL,
    LAYER_CONCAT,
    LAYER_COSINE,
    LAYER_SOFTMAX_LOSS,
    LAYER_SQUARE_LOSS,
    N_LAYER_KINDS,
};

struct value {
    int h, w, c;
    size_t size;  /* numbers of one sample */
    bool learns;  /* something before it has parameters: its gradient is wanted */
    bool written; /* in this backward pass */
    float *data, *grad;
    int maker; /* the layer whose result it is */
};

struct layer {
    enum layer_kind kind;
    char name[NET_NAME_LEN];
    int in[NET_IDS], n_in, out; /* values; out -1: a loss */
    int params[4];              /* of the net; -1: none */
    int window, stride, pad;
    bool relu;      /* a norm or add makes the relu that follows it; that relu: it is made */
    int width, ids; /* embed: ids a row, and which of the batch's */
    float number;   /* smoothing or scale */
    float *saved, *stats;
    int32_t *from;
};

/* Where a batch lies on the device. */
struct input {
    float *x, *targets;
    int32_t *ids[NET_IDS], *labels;
};

struct net {
    struct backend *b;
    char model[NET_NAME_LEN];
    struct layer *layers;
    size_t n_layers;
    struct value *values;
    size_t n_values;
    struct param *params;
    size_t n_params;
    unsigned named[N_LAYER_KINDS];
    int n_ids, ids_width[NET_IDS];
    int result; /* the value that the loss is made from */

    size_t batch, floats;
    float *weights, *grads, *velocities, *mean;
    float *scratch;         /* a gradient that is added to another */
    struct input inputs[2]; /* a device is fed one while it computes with the other */
    int n_inputs, input;    /* input: that of the step in hand */
    int image;              /* the value that is the input `x`; -1: none */
    struct net_batch ahead; /* what lies in the other one; n 0: nothing */
    struct net_cost *costs; /* of each layer, in the step measured last; NULL: none was */
    bool measures;          /* the next step */
    void **owned;           /* all other memory of the backend */
    size_t n_owned;
};

/* One pass over the layers. */
struct pass {
    struct net *n;
    const struct backend_ops *ops;
    size_t batch;
    bool train;
    struct net_cost *costs; /* NULL: no times are taken */
};

/* What a layer of a kind does in a pass, and in its way back. */
typedef void layer_fn(const struct pass *p, const struct layer *l);
struct layer_ways {
    layer_fn *forward, *backward;
};
extern const struct layer_ways net_ways[N_LAYER_KINDS];

/* Values, gradients (shared between values that are not needed at one time), layers' own. */
int net_allocate(struct net *n, struct err *err);
/* net_cost.bytes */
size_t net_layer_bytes(const struct net *n, const struct layer *l);

#endif
