/* The model of a checkpoint, to be asked. */
#define LOG_MODULE "predict"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "mem.h"
#include "predict-internal.h"

static int build(struct predictor *p, struct err *err)
{
    struct checkpoint_about *a = &p->about;
    int kind = model_data(a->model, err);
    if (kind < 0)
        return err_wrap(err, "checkpoint %s", p->place);
    p->kind = (enum model_data)kind;
    p->n = net_new(p->b, a->model);
    return model_build(p->n, a->model, &a->shape, err) || net_finish(p->n, p->batch, 0, err) ||
                   (a->mean && net_track_mean(p->n, err))
               ? -1
               : 0;
}

static void forget(struct predictor *p)
{
    if (p->n)
        net_free(take_ptr(&p->n));
    checkpoint_about_release(&p->about);
    p->about = (struct checkpoint_about){0};
    free(take_ptr(&p->place));
}

/* Replicas that find the same folder answer alike: one that cannot read its newest just now does
 * not answer by an older one. */
static int passes_over(const struct predictor *p, struct err *err)
{
    if (!p->place || err->class == ERR_USAGE)
        return -1;
    return checkpoint_is_bad(err) ? 1
                                  : err_wrap(err,
                                             "%s cannot be read, though it may be whole "
                                             "(mend that, or --checkpoint with another one)",
                                             p->place);
}

/* The newest of them, but for `skip`. 1: it is torn or damaged, as `err` says; another may do. */
static int load(struct predictor *p, const struct predict_options *o, size_t skip, struct log *log,
                struct err *err)
{
    struct checkpoint found;
    if (checkpoint_look(o->checkpoint, skip, &p->about, &p->place, err))
        return passes_over(p, err);
    if (build(p, err))
        return -1;
    if (checkpoint_load_named(p->place, p->n, NULL, &found, log, err) < 0)
        return passes_over(p, err);
    if (p->about.mean)
        net_swap_mean(p->n);
    log_info(log, "%s of %s: step=%llu mean=%s listen=%s", p->about.model, p->place,
             (unsigned long long)found.step, p->about.mean ? "yes" : "no", o->listen);
    return 0;
}

/* The newest that is whole, as training goes on from. If none is, the newest one's error counts. */
static int load_newest(struct predictor *p, const struct predict_options *o, struct log *log,
                       struct err *err)
{
    struct err first = {0}, why = {0};
    int got;
    for (size_t skip = 0; (got = load(p, o, skip, log, &why)) > 0; skip++) {
        if (skip == 0)
            first = why;
        log_warn(log, "%s is passed over: %s", p->place, why.msg);
        forget(p);
        why = (struct err){0};
    }
    if (got && err)
        *err = first.class != ERR_NONE && !p->place ? first : why;
    return got;
}

int predictor_open(struct predictor **ret, const struct predict_options *o, struct log *log,
                   struct err *err)
{
    char why[160] = "", what[160];
    const struct backend_options bo = {.device = o->device,
                                       .precision = o->precision,
                                       .threads = o->threads ? (int)o->threads
                                                             : (int)sysconf(_SC_NPROCESSORS_ONLN)};
    struct predictor *p = xcalloc(1, sizeof *p);
    lock_init(&p->lock, RANK_TRAIN, "predictor");
    p->batch = (size_t)o->batch;
    if (backend_open(&p->b, &bo, why, sizeof why, err) || load_newest(p, o, log, err)) {
        predictor_close(p);
        return -1;
    }
    if (why[0])
        log_info(log, "on the CPU: %s", why);
    backend_describe(p->b, what, sizeof what);
    log_info(log, "computes on %s", what);
    *ret = p;
    return 0;
}

void predictor_close(struct predictor *p)
{
    if (!p)
        return;
    forget(p);
    if (p->b)
        backend_close(p->b);
    lock_destroy(&p->lock);
    free(p);
}

size_t predictor_outputs(const struct predictor *p)
{
    return net_outputs(p->n);
}

size_t predictor_floats(const struct predictor *p)
{
    const struct model_shape *s = &p->about.shape;
    return (size_t)s->h * (size_t)s->w * (size_t)s->c;
}

/* Samples [at, at + n) of a larger batch. Labels and targets only make a loss, which nobody reads.
 */
static struct net_batch part(const struct predictor *p, const struct net_batch *in, size_t at,
                             size_t n)
{
    struct net_batch some = {.n = n, .labels = in->labels, .targets = in->targets};
    if (in->x)
        some.x = in->x + at * predictor_floats(p);
    for (int i = 0; i < net_n_ids(p->n); i++)
        some.ids[i] = in->ids[i] + at * (size_t)net_ids_width(p->n, i);
    return some;
}

int predictor_run(struct predictor *p, const struct net_batch *in, float *out, struct err *err)
{
    const struct backend_ops *ops = p->b->ops;
    size_t each = net_outputs(p->n);
    cleanup_free int32_t *labels = xcalloc(p->batch, sizeof *labels);
    cleanup_free float *targets = xcalloc(p->batch, sizeof *targets);
    struct net_batch all = *in;
    all.labels = labels;
    all.targets = targets;
    ACQUIRE(&p->lock);
    ops->enter(p->b); /* requests come on threads of the server's */
    for (size_t at = 0; at < in->n; at += p->batch) {
        size_t n = in->n - at < p->batch ? in->n - at : p->batch;
        const struct net_batch some = part(p, &all, at, n);
        net_step(p->n, &some, /* train= */ false);
        ops->get(p->b, out + at * each, net_result(p->n), n * each * sizeof *out);
        if (ops->sync(p->b, err))
            return -1;
    }
    counter_add(&p->predictions, in->n);
    return 0;
}
