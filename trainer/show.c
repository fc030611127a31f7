/* What a run tells of its steps: the report's lines, and the curves. */
#include <math.h>
#include <string.h>

#include "clock.h"
#include "mem.h"
#include "train-internal.h"

#define MEASURED_STEP 3 /* what each layer costs is taken in this step, which is warm */

void run_tell(struct run *r, const float sums[N_SUMS], uint64_t wait_ns, uint64_t step_ns)
{
    struct batch_figures b;
    r->batches->ops->figures(r->batches, &b);
    struct report_step s = {.pass = r->at.pass,
                            .batch = r->at.batch,
                            .pass_batches = r->longest_pass,
                            .step = r->at.step,
                            .samples = (uint64_t)sums[SUM_COUNT],
                            .wait_ns = wait_ns,
                            .step_ns = step_ns,
                            .loss = sums[SUM_LOSS],
                            .right = sums[SUM_RIGHT],
                            .rate = r->rate,
                            .read_ns = b.read,
                            .decode_ns = b.decoded,
                            .from_packs = b.direct,
                            .from_mount = b.mounted};
    struct report_figures f;
    if (!report_step(&r->report, &s, &f))
        return;
    events_scalar(r->events, "train/loss", s.step, f.loss);
    events_scalar(r->events, "train/accuracy", s.step, f.accuracy);
    events_scalar(r->events, "train/learning_rate", s.step, r->rate);
    events_scalar(r->events, "input/stall", s.step, f.stall);
    events_scalar(r->events, "input/samples_per_second", s.step, f.per_second);
    events_scalar(r->events, "input/read_seconds", s.step, (double)b.read / (double)NS_PER_S);
    events_scalar(r->events, "input/decode_seconds", s.step, (double)b.decoded / (double)NS_PER_S);
    events_scalar(r->events, "input/from_packs", s.step, (double)b.direct);
    events_scalar(r->events, "input/from_mount", s.step, (double)b.mounted);
}

void run_show_picture(struct run *r, const struct net_batch *in)
{
    const struct model_shape *s = &r->batches->shape;
    if (!r->events || r->at.step > 0 || !in->x || in->n == 0 || s->c != 3)
        return;
    size_t n = (size_t)s->h * (size_t)s->w * 3;
    cleanup_free uint8_t *rgb = xmalloc(n + 1);
    float low = INFINITY, high = -INFINITY;
    for (size_t i = 0; i < n; i++) {
        low = fminf(low, in->x[i]);
        high = fmaxf(high, in->x[i]);
    }
    for (size_t i = 0; i < n; i++)
        rgb[i] = (uint8_t)(high > low ? 255 * (in->x[i] - low) / (high - low) : 0);
    events_image(r->events, "input/first", 1, rgb, s->h, s->w);
}

void run_measure(struct run *r)
{
    if (r->events && r->at.step + 1 == MEASURED_STEP)
        net_measure(r->n);
}

void run_show_costs(struct run *r)
{
    if (r->at.step == MEASURED_STEP)
        events_costs(r->events, r->n, r->at.step);
}

void run_show_weights(struct run *r)
{
    int64_t every = r->o->histogram_period;
    if (!r->events || every == 0 || r->at.pass % (uint64_t)every)
        return;
    for (size_t i = 0; i < net_n_params(r->n); i++) {
        const struct param *p = net_param(r->n, i);
        if (r->ps && p->kind == PARAM_ROWS)
            continue; /* they are on the servers */
        cleanup_free float *host = xmalloc(p->n * sizeof *host);
        r->b->ops->get(r->b, host, net_weights(r->n) + p->at, p->n * sizeof *host);
        if (r->b->ops->sync(r->b, NULL) == 0)
            events_histogram(r->events, p->name, r->at.step, host, p->n);
    }
}
