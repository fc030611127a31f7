/*
 * A net: layers in the order they run, the values between them and the parameters, on a backend.
 *
 * Built by calls that each add a layer and return the value it makes (a small number); layers run
 * in that order, and their gradients in the reverse one. All parameters lie in one run of memory,
 * their gradients in another, so that one collective call sums all of a step. Behind the gradients
 * stand the sums that ranks add up with them (enum net_sum).
 *
 * Parameters carry the names that Paddle's first trainer gave its files: ___fc_layer_0__.w0.
 */
#ifndef SAMPAN_TRAIN_NET_H
#define SAMPAN_TRAIN_NET_H

#include <stdint.h>

#include "backend.h"

#define NET_IDS       8 /* inputs that are ids of rows */
#define NET_NAME_LEN  64
#define NET_STAT_KEEP 0.9f /* of running statistics, a step */

enum param_kind {
    PARAM_WEIGHT, /* decays */
    PARAM_PLAIN,  /* biases and scales: no decay, no LARS */
    PARAM_ROWS,   /* an embedding's rows: no decay */
    PARAM_STAT,   /* running statistics: its "gradient" is the batch's, times the samples */
};

struct param {
    char name[NET_NAME_LEN];
    enum param_kind kind;
    int dims[4];
    int n_dims;
    size_t n, at; /* numbers, and the place of the first in each run of memory */
    float first;  /* what it starts from: this value, or (`drawn`) numbers with this deviation */
    bool drawn;
};

/* Sums over the samples of a step, behind the gradients. */
enum net_sum { SUM_LOSS, SUM_RIGHT, SUM_COUNT, N_SUMS };

struct net;

/* What a step is fed; unused members are NULL. All of host memory. */
struct net_batch {
    size_t n;
    const float *x;
    const int32_t *ids[NET_IDS];
    const int32_t *labels;
    const float *targets;
};

struct net *net_new(struct backend *b, const char *model);
void net_free(struct net *n);
static inline void cleanup_net_fn(struct net **n)
{
    net_free(*n);
}
#define cleanup_net CLEANUP(cleanup_net_fn)

/* --- building --------------------------------------------------------------------------------- */

int net_image(struct net *n, int h, int w, int c);          /* the input `x` */
int net_embed(struct net *n, int rows, int width, int dim); /* takes the next of `ids` */
int net_dense(struct net *n, int in, int outputs);
int net_conv(struct net *n, int in, int filters, int window, int stride, int pad);
int net_norm(struct net *n, int in, float gamma);
int net_relu(struct net *n, int in); /* in place: the same value */
int net_add(struct net *n, int p, int q);
int net_maxpool(struct net *n, int in, int window, int stride, int pad);
int net_meanpool(struct net *n, int in);
int net_concat(struct net *n, const int *in, int count);
int net_cosine(struct net *n, int p, int q, float scale);
void net_softmax_loss(struct net *n, int in, float smooth);
void net_square_loss(struct net *n, int in);

/* Allocates for batches of up to `batch` and draws the first parameters: from seed and name alone.
 */
int net_finish(struct net *n, size_t batch, uint64_t seed, struct err *err);

/* `n` of a parameter's first numbers, from the `from`-th on. Pure. */
void net_draw(const char *name, uint64_t seed, bool drawn, float first, uint64_t from, size_t n,
              float *out);

/* --- running ---------------------------------------------------------------------------------- */

/* Copies the batch of the next net_step() to the device while it still computes; nothing where the
 * host computes. Its memory must stay as put() says (backend.h). */
void net_ahead(struct net *n, const struct net_batch *in);
/* Forward, loss, and (train) all gradients. The sums are those of this rank's samples. */
void net_step(struct net *n, const struct net_batch *in, bool train);
/* The next net_step() waits after each layer and takes its time; what it makes is the same. */
void net_measure(struct net *n);
/* The result before the loss, per sample net_outputs() numbers. */
const float *net_result(const struct net *n);
size_t net_outputs(const struct net *n);
/* One update of all parameters from gradients summed over `count` samples. */
void net_update(struct net *n, const struct update *u, double count);
/* The same of one parameter, wherever its numbers are. */
void net_update_one(struct backend *b, enum param_kind kind, float *w, float *g, float *v, size_t n,
                    const struct update *u, double count);
/* After a loss that is not a number: the first layer whose result holds one, or NULL; the name
 * lives as long as the net. */
const char *net_find_bad(struct net *n, size_t batch);

/* --- what lies in it -------------------------------------------------------------------------- */

const char *net_model(const struct net *n);
struct backend *net_backend(const struct net *n);
size_t net_n_params(const struct net *n);
const struct param *net_param(const struct net *n, size_t i);
/* Inputs that are ids, and how many of a sample; the i-th PARAM_ROWS is the table of the i-th. */
int net_n_ids(const struct net *n);
int net_ids_width(const struct net *n, int i);
size_t net_floats(const struct net *n); /* of all parameters; N_SUMS more stand behind gradients */
float *net_weights(const struct net *n);
float *net_grads(const struct net *n);
float *net_velocities(const struct net *n);
/* The averaged weights, or NULL if net_track_mean() was not called. */
float *net_mean(const struct net *n);
int net_track_mean(struct net *n, struct err *err); /* starts as a copy of the weights */
void net_swap_mean(struct net *n);                  /* weights and their mean change places */
/* Layers in order, for the graph in logs: name, kind, inputs. */
size_t net_n_layers(const struct net *n);
struct net_layer {
    const char *name, *kind;
    const char *inputs[NET_IDS]; /* names of layers; NULL ends them */
    int h, w, c;                 /* of its result */
};
void net_layer(const struct net *n, size_t i, struct net_layer *ret);
/* What a layer took in the step that was measured, and what it holds on the device: its result of a
 * whole batch, what its gradient needs of it, its parameters with their gradients and velocities.
 * Gradients of results are shared between layers, and no layer's. */
struct net_cost {
    uint64_t forward_ns, backward_ns, bytes;
};
/* Of each layer. NULL: no step was measured. */
const struct net_cost *net_costs(const struct net *n);

#endif
