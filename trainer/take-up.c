/* Going on: rank 0 reads the newest checkpoint, all take up what it says, and rates know where
 * among the steps of this run that is. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "mem.h"
#include "order.h"
#include "train-internal.h"

#define LOG_MODULE "train"

/* --- the checkpoint --------------------------------------------------------------------------- */

static int share_floats(struct run *r, float *x, struct err *err)
{
    size_t bytes = net_floats(r->n) * sizeof *x;
    cleanup_free float *host = xmalloc(bytes + 1);
    if (!x || r->c->ranks == 1)
        return 0;
    r->b->ops->get(r->b, host, x, bytes);
    if (r->b->ops->sync(r->b, err) || r->c->ops->share(r->c, host, bytes, err))
        return -1;
    r->b->ops->put(r->b, x, host, bytes);
    return r->b->ops->sync(r->b, err);
}

static bool goes_on(const struct options *o)
{
    return strcmp(o->resume, "auto") == 0;
}

/* Momentum means something else to another optimizer. */
static int own_momentum(struct run *r, struct net *n, struct err *err)
{
    struct backend *b = net_backend(n);
    if (strcmp(r->at.optimizer, r->o->optimizer) == 0)
        return 0;
    log_warn(r->log, "the checkpoint was made with --optimizer %s: momentum begins anew",
             r->at.optimizer);
    snprintf(r->at.optimizer, sizeof r->at.optimizer, "%s", r->o->optimizer);
    b->ops->fill(b, net_velocities(n), net_floats(n), 0);
    return b->ops->sync(b, err);
}

/* 1: loaded. 0: training begins anew. */
static int load_net(struct run *r, struct net *n, struct err *err)
{
    const struct checkpoint_about *about = r->o->accept_classes ? NULL : &r->about;
    int got = goes_on(r->o) ? checkpoint_load(r->o->save_dir, n, about, &r->at, r->log, err)
                            : checkpoint_load_named(r->o->resume, n, about, &r->at, r->log, err);
    if (got < 0)
        return goes_on(r->o) ? -1 : err_wrap(err, "--resume");
    return got > 0 && own_momentum(r, n, err) ? -1 : got;
}

/* This run may save there, and no other one does. */
static int claim_saves(struct run *r, struct err *err)
{
    if (checkpoint_may_save(r->o->save_dir, err))
        return -1;
    return claim_take(&r->saves, r->o->save_dir, "saving.lock", r->log, err)
               ? err_wrap(err, "--save_dir")
               : 0;
}

static int load(struct run *r, struct err *err)
{
    cleanup_backend struct backend *b = NULL;
    cleanup_net struct net *whole = NULL;
    if (r->o->save_dir && claim_saves(r, err))
        return -1;
    if (strcmp(r->o->resume, "never") == 0 || (goes_on(r->o) && !r->o->save_dir))
        return 0;
    if (!r->ps)
        return load_net(r, r->n, err);
    if (run_whole(r, &b, &whole, err))
        return -1;
    int got = load_net(r, whole, err);
    return got > 0 && remote_write(r->ps, whole, err) ? -1 : got;
}

/* The token is of rank 0's samples; this rank has others, and has made as many batches of them. */
static int own_place(struct run *r, struct err *err)
{
    struct batch_options o = run_source(r, r->o->data, true);
    struct order_token t;
    if (order_token_parse(&t, r->at.token, err))
        return -1;
    if (t.spec.batch_size != o.batch)
        return err_set(err, ERR_USAGE,
                       "--own_data: %s is within a pass with --batch_size %u: go on with that, or "
                       "from the end of a pass (--resume)",
                       r->at.from, t.spec.batch_size);
    return batch_place(&o, r->batches->samples, r->at.pass, r->at.batch, r->at.token, err);
}

int run_lacks_place(struct run *r, struct err *err)
{
    if (!err || err->class != ERR_USAGE)
        return -1;
    cleanup_free char *end = checkpoint_pass_end(r->at.from, r->at.pass);
    return err_set(err, ERR_USAGE,
                   "%.400s (%s is within a pass, and goes on with the --data and --sampler of "
                   "before: with others, %s%s%s--resume never)",
                   err->msg, r->at.from, end ? "from the end of a pass: --resume " : "",
                   end ? end : "", end ? ", or " : "");
}

/* Whoever goes on with --save_dir later takes the newest that is there, whichever run made it. */
static void tell_others_saved(const struct run *r)
{
    const char *dir = goes_on(r->o) ? NULL : r->o->save_dir;
    cleanup_free char *newest = dir ? checkpoint_newest(dir) : NULL;
    if (newest && strcmp(newest, r->at.from) != 0)
        log_warn(r->log,
                 "--save_dir: %s is of another run, and what --resume auto takes until this one "
                 "has saved a later one; those of the same names are written over (another "
                 "--save_dir?)",
                 newest);
}

/* Later checkpoints are of this run's seed. */
static void tell_other_order(struct run *r)
{
    const struct batch_options o = run_source(r, r->o->data, true);
    const uint64_t mine = (uint64_t)r->o->seed;
    if (r->at.seed != mine)
        log_warn(r->log, "the checkpoint was made with --seed %" PRIu64 ", this run has %" PRIu64,
                 r->at.seed, mine);
    r->at.seed = mine;
    if (r->at.token[0] && batch_reorders(&o, r->at.token))
        log_warn(r->log,
                 "what is left of pass %" PRIu64 " is read in the order of before (--sampler, "
                 "--seed), the passes after it in that of this run",
                 r->at.pass);
}

int run_take_up(struct run *r, struct err *err)
{
    struct err why = {0};
    float found = 0;
    if (is_first(r))
        found = (float)load(r, &why);
    if (is_first(r) && found >= 0)
        tell_others_saved(r);
    if (r->c->ops->share(r->c, &found, sizeof found, err))
        return -1;
    if (found < 0)
        return is_first(r)
                   ? err_set(err, why.class, "%s", why.msg)
                   : err_set(err, ERR_FAILED, "rank 0 cannot use its checkpoints (see its log)");
    if (found == 0)
        return 0;
    if (r->c->ops->share(r->c, &r->at, sizeof r->at, err))
        return -1;
    if (!r->ps &&
        (share_floats(r, net_weights(r->n), err) || share_floats(r, net_velocities(r->n), err) ||
         share_floats(r, net_mean(r->n), err)))
        return -1;
    if (r->o->own_data && r->at.token[0] && own_place(r, err))
        return -1;
    snprintf(r->saved, sizeof r->saved, "%s", r->at.from);
    if (goes_on(r->o)) /* from elsewhere: --save_dir has nothing yet */
        r->saved_at = r->at.step;
    log_info(r->log, "going on from %s: pass %" PRIu64 " batch %" PRIu64 " step %" PRIu64, r->saved,
             r->at.pass, r->at.batch, r->at.step);
    tell_other_order(r);
    return 0;
}

/* --- rates ------------------------------------------------------------------------------------ */

/* Ranks with samples of their own may have more or fewer; rates are the same on all. */
static int longest_of(struct run *r, uint64_t mine, uint64_t *ret, struct err *err)
{
    cleanup_free float *each = xcalloc(r->c->ranks, sizeof *each);
    each[r->c->rank] = (float)mine;
    if (r->c->ops->sum(r->c, each, r->c->ranks, err))
        return -1;
    *ret = 0;
    for (uint32_t i = 0; i < r->c->ranks; i++)
        if ((uint64_t)each[i] > *ret)
            *ret = (uint64_t)each[i];
    return 0;
}

int run_find_longest_pass(struct run *r, struct err *err)
{
    if (longest_of(r, r->batches->pass_batches, &r->longest_pass, err))
        return -1;
    if (r->longest_pass > 0)
        return 0;
    return err_set(err, ERR_USAGE,
                   "--sampler: no batch in a pass over %" PRIu64 " samples (drop-last: a smaller "
                   "--batch_size)",
                   r->batches->samples);
}

/* Batches that this rank makes of what is left of the pass. */
static int left_of_pass(struct run *r, uint64_t *ret, struct err *err)
{
    const struct batch_options o = run_source(r, r->o->data, true);
    struct order_token t;
    struct order *order;
    *ret = r->longest_pass;
    if (!r->at.token[0])
        return 0;
    if (order_token_parse(&t, r->at.token, err) || order_resume(&order, &t, o.ranks, o.rank, err))
        return -1;
    *ret = (order_length(order) + (r->batches->whole_batches ? 0 : o.batch - 1)) / o.batch;
    order_free(order);
    return 0;
}

/* Rates go by passes. The steps of before may have been of other ranks or batches, so that their
 * number says nothing of the place among those of this run. */
static int place_rates(struct run *r, struct err *err)
{
    uint64_t mine, left;
    if (r->at.step == 0 || r->is_async) /* there, each trainer counts its own */
        return 0;
    if (left_of_pass(r, &mine, err) || longest_of(r, mine, &left, err))
        return -1;
    r->rates_ahead = (int64_t)((r->at.pass + 1) * r->longest_pass - left - r->at.step);
    return 0;
}

int run_plan_rates(struct run *r, struct err *err)
{
    uint64_t each = r->longest_pass;
    enum schedule_kind kind = SCHEDULE_CONSTANT;
    (void)schedule_kind(r->o->schedule, &kind, NULL);
    r->schedule = (struct schedule){.kind = kind,
                                    .base = r->o->rate,
                                    .warmup = (uint64_t)r->o->warmup_passes * each,
                                    .total = (uint64_t)r->o->num_passes * each,
                                    .every = (uint64_t)r->o->rate_passes * each,
                                    .factor = r->o->factor};
    return place_rates(r, err);
}
