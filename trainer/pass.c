/* One pass over the data: steps that all ranks make together, checkpoints within it, the end that a
 * signal asks for. */
#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "clock.h"
#include "mem.h"
#include "train-internal.h"

#define LOG_MODULE "train"
#define POLL_US    200
#define MEET_US    50000
#define NAME_NS    (3 * NS_PER_S)

/* --- together --------------------------------------------------------------------------------- */

/* What ranks tell each other before a step: who has samples, who was asked to stop and would wait
 * for samples to make it, and how many samples were left out since the last time. */
enum { TALK_HAS, TALK_STOP, TALK_STUCK, TALK_SKIPPED, N_TALK };
struct talk {
    bool any, stop, stuck; /* of all ranks */
    uint64_t skipped;
};

int run_lacks_others(struct run *r, int got, struct err *err)
{
    return got == BATCH_STOPPED && !run_asked(r) ? r->c->ops->check(r->c, err) : 0;
}

/* `got`: what a source answered. */
static int talk(struct run *r, int got, struct talk *ret, struct err *err)
{
    struct batch_figures f;
    if (run_lacks_others(r, got, err))
        return -1;
    r->batches->ops->figures(r->batches, &f);
    float t[N_TALK] = {got == 1, run_asked(r), got == BATCH_STOPPED,
                       (float)(f.skipped - r->skipped_here)};
    r->skipped_here = f.skipped;
    if (!r->is_async && (r->c->ops->sum(r->c, t, N_TALK, err)))
        return -1;
    *ret = (struct talk){t[TALK_HAS] > 0, t[TALK_STOP] > 0, t[TALK_STUCK] > 0,
                         (uint64_t)t[TALK_SKIPPED]};
    tell_skips(r, r->batches, &r->skips_said);
    return 0;
}

/* What broke may have been the death of a rank, which is told by its number if it becomes known. */
static int name_death(struct run *r, struct err *err)
{
    uint64_t end = clock_mono_ns() + NAME_NS;
    while (r->c->ops->check(r->c, err) == 0 && clock_mono_ns() < end)
        usleep(POLL_US);
    return -1;
}

/* A rank that dies would be waited for for ever. */
int run_wait_for_ranks(struct run *r, struct err *err)
{
    const struct backend_ops *ops = r->b->ops;
    while (ops->busy(r->b)) {
        if (r->c->ops->check(r->c, err)) {
            ops->leave(r->b);
            return -1;
        }
        usleep(POLL_US);
    }
    return ops->sync(r->b, err) ? name_death(r, err) : 0;
}

/* `n` floats of the backend, summed over all ranks. */
static int sum_ranks(struct run *r, float *x, size_t n, struct err *err)
{
    const struct backend_ops *ops = r->b->ops;
    if (r->c->ranks == 1)
        return ops->sync(r->b, err);
    if (r->device_sums) {
        ops->sum(r->b, x, n);
        return run_wait_for_ranks(r, err);
    }
    float *host = ops->host ? x : r->sums;
    if (!ops->host)
        ops->get(r->b, host, x, n * sizeof *x);
    if (ops->sync(r->b, err) || r->c->ops->sum(r->c, host, n, err))
        return -1;
    if (!ops->host)
        ops->put(r->b, x, host, n * sizeof *x);
    return 0;
}

int run_read_sums(struct run *r, float ret[N_SUMS], struct err *err)
{
    r->b->ops->get(r->b, ret, net_grads(r->n) + net_floats(r->n), N_SUMS * sizeof *ret);
    return r->b->ops->sync(r->b, err);
}

/* --- checkpoints ------------------------------------------------------------------------------ */

static int write_checkpoint(struct run *r, struct err *err)
{
    const struct net *n = r->n;
    const struct report_sums *pass = &r->report.pass, *p = &r->report.period;
    r->at.learned = (struct checkpoint_sums){pass->samples, pass->loss, pass->right};
    r->at.skipped = r->skipped;
    r->at.data = r->batches->digest;
    r->at.period = (struct checkpoint_sums){p->samples, p->loss, p->right};
    r->at.period_batches = p->batches;
    cleanup_backend struct backend *b = NULL;
    cleanup_net struct net *whole = NULL;
    if (r->ps) {
        if (run_whole(r, &b, &whole, err) || remote_read(r->ps, whole, err))
            return -1;
        n = whole;
    }
    return checkpoint_save(r->o->save_dir, n, &r->at, &r->about, (unsigned)r->o->keep, r->saved,
                           sizeof r->saved, err);
}

static int write_ours(struct run *r, struct err *err)
{
    if (claim_keep(r->saves, err))
        return err_wrap(err, "--save_dir");
    if (!write_checkpoint(r, err))
        return 0;
    /* Who has taken the folder over meanwhile removes what it takes for rubbish. */
    struct err taken = {0};
    if (claim_keep(r->saves, &taken) && taken.sys == 0) {
        *err = taken;
        return err_wrap(err, "--save_dir");
    }
    return err_wrap(err, "pass %" PRIu64 " batch %" PRIu64, r->at.pass, r->at.batch);
}

/* A signal that asks for the end comes after it: on a mount it would break a call off (EINTR). */
static int write_and_tell(struct run *r, struct err *err)
{
    sigset_t ends, before;
    sigemptyset(&ends);
    sigaddset(&ends, SIGTERM);
    sigaddset(&ends, SIGINT);
    pthread_sigmask(SIG_BLOCK, &ends, &before);
    int failed = write_ours(r, err);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (failed)
        return -1;
    r->saved_at = r->at.step;
    report_break(&r->report);
    log_info(r->log, "Saving parameters to %s", r->saved);
    return 0;
}

int run_save_alone(struct run *r, struct err *err)
{
    bool is_new = r->is_async || r->saved_at != r->at.step; /* others' steps count, too */
    return r->o->save_dir && is_new ? write_and_tell(r, err) : 0;
}

int run_save(struct run *r, struct err *err)
{
    struct err why = {0};
    float failed = 0;
    bool together = !r->is_async || r->met;
    if (!r->o->save_dir || (!together && !is_first(r)))
        return 0;
    if (is_first(r))
        failed = write_and_tell(r, &why) != 0;
    if (together && r->c->ops->sum(r->c, &failed, 1, err))
        return -1;
    if (failed > 0 && !is_first(r))
        return err_set(err, ERR_FAILED, "rank 0 could not write the checkpoint (see its log)");
    if (failed > 0) {
        if (err)
            *err = why;
        return -1;
    }
    r->saved_at = r->at.step;
    return 0;
}

int run_meet(struct run *r, struct err *err)
{
    for (bool stop = r->stopped; !r->met;) {
        stop |= run_asked(r);
        if (remote_done(r->ps, &stop, &r->met, err))
            return -1;
        r->stopped |= stop;
        if (!r->met)
            usleep(MEET_US);
    }
    return run_save(r, err);
}

static int save_within(struct run *r, struct err *err)
{
    uint64_t every = (uint64_t)r->o->saving_period_by_batches;
    return every && r->at.batch % every == 0 ? run_save(r, err) : 0;
}

/* --- a step ----------------------------------------------------------------------------------- */

static int not_a_number(struct run *r, size_t batch, struct err *err)
{
    const char *layer = net_find_bad(r->n, batch);
    char where[160];
    if (layer)
        snprintf(where, sizeof where, "rank %u, layer %s", r->c->rank, layer);
    else if (r->c->ranks == 1)
        snprintf(where, sizeof where, "the loss itself, of results that are numbers, too large");
    else
        snprintf(where, sizeof where, "another rank than %u, or the loss of one", r->c->rank);
    return err_set(err, ERR_FAILED,
                   "the loss is not a number: pass %" PRIu64 " batch %" PRIu64 " (step %" PRIu64
                   "): first in: %s (a smaller --learning_rate often helps; the last good "
                   "checkpoint: %s)",
                   r->at.pass, r->at.batch + 1, r->at.step + 1, where,
                   r->saved[0] ? r->saved : "none");
}

static struct update update_of(const struct run *r)
{
    return (struct update){.rate = (float)r->rate,
                           .momentum = (float)r->o->momentum_number,
                           .decay = (float)r->o->decay,
                           .trust = strcmp(r->o->optimizer, "lars") == 0 ? 0.001f : 0};
}

/* The batch after this one is copied to a device that still computes with this one. */
static int look_ahead(struct run *r, struct err *err)
{
    const struct backend_ops *ops = r->b->ops;
    if (!ops->feed_begin)
        return 0;
    if (r->o->save_dir && r->batches->ops->token(r->batches, r->place, err))
        return -1;
    ops->feed_wait(r->b); /* the source takes the memory of this batch back */
    uint64_t start = clock_mono_ns();
    r->ahead_got = r->batches->ops->next(r->batches, &r->ahead, &r->ahead_err);
    uint64_t waited = clock_mono_ns() - start; /* without what busy() takes */
    r->ahead_wait = ops->busy(r->b) ? 0 : waited;
    if (r->ahead_got == 1)
        net_ahead(r->n, &r->ahead);
    r->looked = true;
    return 0;
}

/* The next batch, looked at before or now; as the source's next() answers. */
static int take_batch(struct run *r, struct net_batch *in, uint64_t *wait, struct err *err)
{
    uint64_t start = clock_mono_ns();
    if (!r->looked) {
        int got = r->batches->ops->next(r->batches, in, err);
        *wait = clock_mono_ns() - start;
        return got;
    }
    r->looked = false;
    *in = r->ahead;
    *wait = 0; /* it was waited for in the step before */
    if (r->ahead_got < 0 && err)
        *err = r->ahead_err;
    return r->ahead_got;
}

static int push(struct run *r, const struct update *u, float sums[N_SUMS], struct err *err)
{
    bool stop = r->stopped;
    if (remote_push(r->ps, u, r->at.step, sums, &stop, err))
        return -1;
    r->stopped |= stop; /* another one was asked to */
    return 0;
}

/* Gradients and sums of all ranks; where servers keep the parameters, they learn, too. */
static int learn(struct run *r, const struct net_batch *in, float sums[N_SUMS], struct err *err)
{
    struct update u = update_of(r);
    struct net_batch renamed;
    if (r->ps) {
        if (remote_pull(r->ps, in, &renamed, err))
            return -1;
        net_step(r->n, &renamed, true);
        return push(r, &u, sums, err);
    }
    net_step(r->n, in, true);
    if (look_ahead(r, err) || sum_ranks(r, net_grads(r->n), net_floats(r->n) + N_SUMS, err) ||
        run_read_sums(r, sums, err))
        return -1;
    if (isfinite(sums[SUM_LOSS]) && sums[SUM_COUNT] > 0) /* all of it may have been left out */
        net_update(r->n, &u, sums[SUM_COUNT]);
    return 0;
}

/* Kept after each step, for a stop may find the batch that follows taken already. */
static int keep_place(struct run *r, struct err *err)
{
    if (!r->o->save_dir || !is_first(r))
        return 0;
    if (!r->looked)
        return r->batches->ops->token(r->batches, r->at.token, err);
    memcpy(r->at.token, r->place, sizeof r->at.token);
    return 0;
}

static int step(struct run *r, const struct net_batch *in, float sums[N_SUMS], struct err *err)
{
    r->rate = schedule_rate(&r->schedule, r->at.step + (uint64_t)r->rates_ahead);
    if (learn(r, in, sums, err))
        return -1;
    if (!isfinite(sums[SUM_LOSS]))
        return not_a_number(r, in->n, err);
    if (net_mean(r->n))
        r->b->ops->blend(r->b, net_mean(r->n), net_weights(r->n), net_floats(r->n),
                         (float)r->o->ema_keep);
    r->at.step++;
    r->at.batch++;
    if (sums[SUM_COUNT] > 0)
        r->at.loss = sums[SUM_LOSS] / sums[SUM_COUNT];
    r->at.rate = r->rate;
    if (keep_place(r, err))
        return -1;
    return r->b->ops->host ? r->b->ops->sync(r->b, err) : 0; /* a device goes on meanwhile */
}

/* --- the pass --------------------------------------------------------------------------------- */

/* What would hold up the end that a signal asked for is left where it is. */
static void be_stuck(struct run *r)
{
    r->stuck = true;
    report_break(&r->report);
    log_warn(r->log,
             "step %" PRIu64 " is not made: samples that it needs have not come (does the storage "
             "behind %s answer?)",
             r->at.step + 1, r->o->data);
}

/* Are there samples for another step of the pass? None is waited for. */
static bool has_more(const struct run *r)
{
    struct batch_figures f;
    r->batches->ops->figures(r->batches, &f);
    return r->looked ? r->ahead_got != 0 : f.left > 0;
}

/* 1: a step was made. 0: no rank has samples left: the pass is over. BATCH_STOPPED: none was made,
 * for --max_steps are, or a rank would wait for its samples and was asked to stop. Else a stop
 * comes after the step, so that the place in the data is that of what was learnt. */
static int advance(struct run *r, struct err *err)
{
    struct net_batch in = {0};
    float sums[N_SUMS];
    struct talk all;
    uint64_t start = clock_mono_ns();
    uint64_t wait = 0;
    int got = run_at_end(r) ? has_more(r) : take_batch(r, &in, &wait, err);
    if (got < 0 || talk(r, got, &all, err))
        return -1;
    r->stopped = all.stop;
    if (got == BATCH_STOPPED)
        be_stuck(r);
    if (all.stuck)
        return BATCH_STOPPED;
    if (!all.any)
        return 0;
    if (run_at_end(r))
        return BATCH_STOPPED;
    r->skipped += all.skipped;
    run_show_picture(r, &in);
    run_measure(r);
    if (step(r, &in, sums, err))
        return -1;
    run_show_costs(r);
    run_tell(r, sums, wait + r->ahead_wait, clock_mono_ns() - start);
    return 1;
}

/* 0: the pass is over. BATCH_STOPPED: it is, but for its judging, which whoever goes on begins
 * anew.
 */
static int end_pass(struct run *r, struct err *err)
{
    struct report_figures f;
    if (r->skipped && r->report.pass.samples == 0)
        return err_set(err, ERR_CORRUPT,
                       "pass %" PRIu64 ": nothing to learn from: all %" PRIu64
                       " samples were left out (--skip_bad; the log names some)",
                       r->at.pass, r->skipped);
    report_pass(&r->report, r->at.pass, r->skipped, &f);
    if (r->test && (r->at.pass + 1) % (uint64_t)r->o->test_period == 0) {
        if (run_test(r, err))
            return -1;
        if (r->stopped)
            return BATCH_STOPPED;
    }
    r->skipped = 0;
    run_show_weights(r);
    events_scalar(r->events, "pass/loss", r->at.step, f.loss);
    events_scalar(r->events, "pass/stall", r->at.step, f.stall);
    report_epoch(&r->report, r->at.pass, r->at.step, &f);
    r->at.pass++;
    r->at.batch = 0;
    r->at.token[0] = '\0';
    bool last = r->at.pass == (uint64_t)r->o->num_passes;
    uint64_t every = (uint64_t)r->o->saving_period;
    if ((last || (every && r->at.pass % every == 0)) && run_save(r, err))
        return -1;
    return 0;
}

bool run_at_end(const struct run *r)
{
    return r->o->max_steps > 0 && r->at.step >= (uint64_t)r->o->max_steps;
}

int run_pass(struct run *r, struct err *err)
{
    int got = 1;
    if (r->batches->ops->begin(r->batches, r->at.pass, err))
        return -1;
    while (got == 1 && !r->stopped) {
        got = advance(r, err);
        if (got < 0 || (got == 1 && save_within(r, err)))
            return -1;
    }
    struct err lost = {0};
    if (events_flush(r->events, &lost)) {
        log_warn(r->log, "%s: no more curves are written", lost.msg);
        events_close(r->events);
        r->events = NULL;
    }
    return got == 0 ? end_pass(r, err) : BATCH_STOPPED;
}
