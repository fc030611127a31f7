/* What the model is worth on the test data: --test_data, judged after a pass. */
#include <inttypes.h>
#include <math.h>

#include "mem.h"
#include "train-internal.h"

#define LOG_MODULE "train"

/* What ranks add up of a test, after the sums of their steps. */
enum { TEST_STOP = N_SUMS, TEST_SKIPPED, N_TEST };

static void judge(struct run *r, const struct net_batch *in, struct events_pr *pr)
{
    size_t classes = net_outputs(r->n);
    if (!in->labels || classes < 2 || !r->events)
        return;
    cleanup_free float *x = xmalloc(in->n * classes * sizeof *x + 1);
    r->b->ops->get(r->b, x, net_result(r->n), in->n * classes * sizeof *x);
    if (r->b->ops->sync(r->b, NULL))
        return;
    for (size_t i = 0; i < in->n; i++) {
        const float *row = x + i * classes;
        double top = row[0], sum = 0;
        for (size_t k = 1; k < classes; k++)
            top = fmax(top, row[k]);
        for (size_t k = 0; k < classes; k++)
            sum += exp(row[k] - top);
        for (size_t k = 0; k < classes; k++)
            events_pr_add(pr, exp(row[k] - top) / sum, in->labels[i] == (int32_t)k);
    }
}

/* So far, of the batches that were given. */
static uint64_t left_out(const struct run *r)
{
    struct batch_figures f;
    r->test->ops->figures(r->test, &f);
    return f.skipped;
}

/* A loss of nothing would be a perfect one. */
static void tell_nothing(struct run *r, uint64_t skipped)
{
    report_break(&r->report);
    log_warn(r->log,
             "pass %" PRIu64 ": nothing to judge by: all %" PRIu64 " samples of --test_data "
             "were left out (--skip_bad; the log names some)",
             r->at.pass, skipped);
}

/* `all`: the sums of all ranks. */
static void tell(struct run *r, const float *all, uint64_t skipped, const struct events_pr *pr)
{
    double n = all[SUM_COUNT];
    struct report_test t = {.pass = r->at.pass,
                            .step = r->at.step,
                            .samples = (uint64_t)n,
                            .skipped = skipped,
                            .loss = n > 0 ? all[SUM_LOSS] / n : NAN,
                            .accuracy = n > 0 ? all[SUM_RIGHT] / n : NAN};
    report_test(&r->report, &t);
    if (t.samples == 0) {
        tell_nothing(r, skipped);
        return;
    }
    events_scalar(r->events, "test/loss", r->at.step, t.loss);
    events_scalar(r->events, "test/accuracy", r->at.step, t.accuracy);
    events_pr_curve(r->events, "test/precision_recall", r->at.step, pr);
}

int run_test(struct run *r, struct err *err)
{
    struct net_batch in;
    struct events_pr pr = {0};
    double sums[N_SUMS] = {0};
    uint64_t skipped_before = left_out(r);
    int got = 0;
    if (!run_asked(r) && r->test->ops->begin(r->test, 0, err))
        return err_wrap(err, "test");
    if (net_mean(r->n))
        net_swap_mean(r->n);
    while (!run_asked(r) && (got = r->test->ops->next(r->test, &in, err)) == 1) {
        float part[N_SUMS];
        tell_skips(r, r->test, &r->test_skips_said);
        if ((got = check_ids(r, &in, err)) < 0)
            break;
        if (r->ps && (got = remote_pull(r->ps, &in, &in, err)) < 0)
            break;
        net_step(r->n, &in, false);
        judge(r, &in, &pr);
        got = run_read_sums(r, part, err);
        if (got)
            break;
        for (int i = 0; i < N_SUMS; i++)
            sums[i] += part[i];
    }
    if (net_mean(r->n))
        net_swap_mean(r->n);
    if (run_lacks_others(r, got, err))
        return err_wrap(err, "test");
    float all[N_TEST] = {(float)sums[0], (float)sums[1], (float)sums[2], run_asked(r),
                         (float)(left_out(r) - skipped_before)};
    if (got < 0 || (!r->is_async && r->c->ops->sum(r->c, all, N_TEST, err)))
        return err_wrap(err, "test");
    r->stuck = got == BATCH_STOPPED;
    r->stopped |= all[TEST_STOP] > 0;
    if (r->stopped) /* by a part of the samples nothing is judged */
        return 0;
    tell(r, all, (uint64_t)all[TEST_SKIPPED], &pr);
    return 0;
}
