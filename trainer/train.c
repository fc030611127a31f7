/* One rank's run: everything is opened in order, the newest checkpoint is taken up, passes run. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "mem.h"
#include "ps-secret.h"
#include "train-internal.h"

#define LOG_MODULE "train"
#define REST_NS    (3 * NS_PER_S)

/* --- opening ---------------------------------------------------------------------------------- */

static int open_backend(struct run *r, struct err *err)
{
    char why[1000], what[200];
    struct backend_options o = {.device = r->o->device,
                                .precision = r->o->precision,
                                .threads = (int)r->o->trainer_count,
                                .local_rank =
                                    rendezvous_local_rank((const char *(*)(const char *))getenv)};
    if (backend_open(&r->b, &o, why, sizeof why, err))
        return -1;
    if (why[0])
        log_info(r->log, "on the CPU: %s", why);
    backend_describe(r->b, what, sizeof what);
    log_info(r->log, "computes on %s", what);
    return 0;
}

/* The parameters are on servers, and so is the place where trainers agree. */
static int open_remote(struct run *r, const struct roles *roles, const struct rendezvous *where,
                       struct err *err)
{
    const struct remote_conf conf = {.dense = (const char *const *)roles->dense,
                                     .n_dense = roles->n_dense,
                                     .sparse = (const char *const *)roles->sparse,
                                     .n_sparse = roles->n_sparse,
                                     .job = r->o->comment,
                                     .secret = &r->secret,
                                     .rank = where->rank,
                                     .ranks = where->ranks,
                                     .is_async = r->o->async,
                                     .seed = (uint64_t)r->o->seed,
                                     .timeout_ns = where->timeout_ns,
                                     .answer_ns = where->answer_ns};
    if (r->o->ema_keep > 0)
        return err_set(err, ERR_USAGE, "--ema: not with parameter servers");
    if (ps_secret_read(&r->secret, r->o->ps_token_file, err))
        return -1;
    for (size_t i = 0; i < roles->n_dense; i++)
        log_info(r->log, "pserver %zu %s", i, roles->dense[i]);
    r->is_async = r->o->async;
    r->ps = remote_new(&conf);
    r->c = remote_collective(r->ps);
    r->c->stop = r->stop;
    return 0;
}

static int open_collective(struct run *r, const struct roles *roles, struct err *err)
{
    struct rendezvous where;
    int64_t rank = roles->rank >= 0 ? roles->rank : r->o->trainer_id,
            ranks = roles->ranks >= 0 ? roles->ranks : r->o->num_gradient_servers;
    const char *at = roles->role == ROLE_WORKER ? roles->dense[0] : r->o->rendezvous;
    if (rendezvous_find(&where, rank, ranks, at, (const char *(*)(const char *))getenv, err))
        return -1;
    where.timeout_ns = r->o->rendezvous_timeout;
    where.answer_ns = r->o->collective_timeout;
    if (roles->role == ROLE_WORKER)
        return open_remote(r, roles, &where, err);
    if (r->o->async)
        return err_set(err, ERR_USAGE, "--async: with parameter servers alone (--local=0)");
    if (r->o->pservers)
        log_warn(r->log, "--pservers is without effect: --local is 1");
    if (where.ranks > 1)
        log_info(r->log, "rank %u of %u meets the others at %s", where.rank, where.ranks,
                 where.where);
    return collective_open(&r->c, &where, r->stop, err);
}

/* Memory of the host that a device copies from by itself. */
static void *pinned_alloc(void *backend, size_t size, struct err *err)
{
    struct backend *b = backend;
    return b->ops->host_alloc(b, size, err);
}

static void pinned_free(void *backend, void *p, size_t size)
{
    struct backend *b = backend;
    (void)size;
    b->ops->host_free(b, p);
}

static struct loader_memory memory_of(struct backend *b)
{
    return b->ops->host ? (struct loader_memory){0}
                        : (struct loader_memory){pinned_alloc, pinned_free, b};
}

/* The devices of all ranks meet, if all have an engine for it; else sums go through the host. */
static int join_devices(struct run *r, struct err *err)
{
    const struct backend_ops *ops = r->b->ops;
    struct err why = {0};
    char id[BACKEND_ID_LEN] = "";
    float can = ops->join_id != NULL;
    if (r->c->ranks == 1 || r->ps)
        return 0;
    if (ops->join_id && ops->join_id(r->b, is_first(r) ? id : NULL, &why)) {
        log_warn(r->log, "%s", why.msg);
        can = 0;
    }
    if (r->c->ops->sum(r->c, &can, 1, err) || r->c->ops->share(r->c, id, sizeof id, err))
        return -1;
    r->device_sums = ops->join && can == (float)r->c->ranks;
    if (!ops->join || !r->device_sums)
        return 0;
    return ops->join(r->b, id, r->c->ranks, r->c->rank, err) || run_wait_for_ranks(r, err) ? -1 : 0;
}

bool run_asked(const struct run *r)
{
    return r->c->ops->stops(r->c);
}

/* Samples are not waited for by who was asked to stop, nor where a rank has died. */
static bool waits_no_more(void *arg)
{
    const struct run *r = arg;
    return run_asked(r) || r->c->ops->check(r->c, NULL);
}

struct batch_options run_source(struct run *r, const char *data, bool train)
{
    /* Who judges alone judges by all samples. */
    bool whole = r->o->own_data || (r->is_async && !train);
    return (struct batch_options){.data = data,
                                  .sampler = train ? r->o->sampler : NULL,
                                  .batch = (size_t)r->o->batch_size,
                                  .seed = (uint64_t)r->o->seed,
                                  .ranks = whole ? 1 : r->c->ranks,
                                  .rank = whole ? 0 : r->c->rank,
                                  .height = (int)r->o->image,
                                  .width = (int)r->o->image,
                                  .threads = (uint32_t)r->o->loader_threads,
                                  .train = train,
                                  /* every test is the same one: none is read ahead */
                                  .passes = train ? (uint32_t)r->o->num_passes : 1,
                                  .skip_bad = r->o->skip_bad,
                                  .ends = waits_no_more,
                                  .arg = r,
                                  .memory = memory_of(r->b)};
}

/* Of each table the rows that a batch can name, the rest stays on the servers. */
static struct model_shape small_shape(const struct run *r)
{
    struct model_shape s = r->about.shape;
    for (int i = 0; i < net_n_ids(r->shape) && i < N_MOVIE_IDS; i++)
        s.rows[i] = remote_room(s.rows[i], (size_t)r->o->batch_size, net_ids_width(r->shape, i));
    return s;
}

int run_whole(struct run *r, struct backend **ret_backend, struct net **ret, struct err *err)
{
    if (backend_cpu(ret_backend, (int)r->o->trainer_count, err))
        return -1;
    *ret = net_new(*ret_backend, r->o->model);
    return model_build(*ret, r->o->model, &r->about.shape, err) ||
                   net_finish(*ret, 1, (uint64_t)r->o->seed, err)
               ? err_wrap(err, "all parameters on one trainer")
               : 0;
}

static void name_classes(struct run *r)
{
    const struct batches_ops *ops = r->batches->ops;
    struct checkpoint_about *a = &r->about;
    if (!ops->class_name)
        return;
    a->classes = xcalloc((size_t)a->shape.classes + 1, sizeof *a->classes);
    for (int i = 0; i < a->shape.classes; i++) {
        const char *name = ops->class_name(r->batches, i);
        a->classes[a->n_classes++] = xstrdup(name ? name : "");
    }
}

static int open_net(struct run *r, const struct model_shape *found, struct err *err)
{
    struct model_shape s = *found;
    s.smooth = (float)r->o->smoothing;
    s.hidden = (int)r->o->hidden;
    r->about.shape = s;
    name_classes(r);
    if (r->ps) {
        r->shape = net_new(r->b, r->o->model);
        if (model_build(r->shape, r->o->model, &s, err))
            return -1;
        s = small_shape(r);
    }
    r->n = net_new(r->b, r->o->model);
    if (model_build(r->n, r->o->model, &s, err) ||
        net_finish(r->n, (size_t)r->o->batch_size, (uint64_t)r->o->seed, err))
        return -1;
    if (r->ps)
        return remote_meet(r->ps, r->shape, r->n, err);
    if (!r->b->ops->host)
        r->sums = xmalloc((net_floats(r->n) + N_SUMS) * sizeof *r->sums);
    return r->o->ema_keep > 0 ? net_track_mean(r->n, err) : 0;
}

/* --- all of it -------------------------------------------------------------------------------- */

/* The source begins where the checkpoint is, which is known only now. */
static int open_batches(struct run *r, struct err *err)
{
    struct batch_options o = run_source(r, r->o->data, true);
    enum model_data kind = (enum model_data)model_data(r->o->model, NULL);
    o.resume = r->at.token[0] ? r->at.token : NULL;
    return batch_open(&r->batches, kind, &o, err);
}

/* A run that begins anew draws a line of its own. */
static int set_curves_aside(const struct run *r, struct err *err)
{
    cleanup_free char *place = NULL;
    if (r->at.step > 0)
        return 0;
    int failed = events_set_aside(r->o->log_dir, &place, err);
    if (place)
        log_warn(r->log, "--log_dir: the curves of an earlier run are in %s now", place);
    return failed;
}

static struct report_sums sums_of(const struct checkpoint_sums *s, uint64_t batches)
{
    return (struct report_sums){
        .batches = batches, .samples = s->samples, .loss = s->loss, .right = s->right};
}

static int open_logs(struct run *r, struct err *err)
{
    cleanup_free char *jsonl = NULL;
    bool shows = strcmp(r->o->progress, "yes") == 0 ||
                 (strcmp(r->o->progress, "auto") == 0 && isatty(STDERR_FILENO));
    struct report_options o = {.log = is_first(r) ? r->log : NULL,
                               .terminal = is_first(r) ? stderr : NULL,
                               .line = shows && is_first(r),
                               .log_period = (uint64_t)r->o->log_period,
                               .dot_period = (uint64_t)r->o->dot_period,
                               .json = r->o->json && is_first(r) ? stdout : NULL,
                               .passes = (uint64_t)r->o->num_passes};
    if (r->o->log_dir && is_first(r)) {
        if (claim_take(&r->shows, r->o->log_dir, "curves.lock", r->log, err) ||
            set_curves_aside(r, err) ||
            events_open(&r->events, r->o->log_dir, r->at.step, r->at.batch > 0, err))
            return err_wrap(err, "--log_dir");
        if (r->at.step == 0)
            events_graph(r->events, r->n);
        jsonl = xasprintf("%s/" EVENTS_LINES, r->o->log_dir);
        o.jsonl = jsonl;
    }
    if (report_open(&r->report, &o, err))
        return -1;
    uint64_t pass =
        r->at.batch || !r->at.pass ? r->at.pass : r->at.pass - 1; /* the newest step's */
    const struct report_sums done = sums_of(&r->at.learned, r->at.batch),
                             period = sums_of(&r->at.period, r->at.period_batches);
    report_resume(&r->report, pass, &done, &period);
    r->skipped = r->at.skipped;
    return 0;
}

/* The token names samples by their numbers: of others, which are as many, some would be read twice
 * in the pass and some never. Where classes may have other names the samples have, too. */
static int check_data(const struct run *r, struct err *err)
{
    const bool knows = is_first(r) || !r->o->own_data; /* the checkpoint was rank 0's */
    if (!knows || r->o->accept_classes || !r->at.data || r->at.data == r->batches->digest)
        return 0;
    return err_set(err, ERR_USAGE, "--data: other samples than those of before, though as many");
}

/* A model's shape is that of its data, and a source begins at a place that only the checkpoint
 * knows: so the source is opened once to look, and again where training begins within a pass. */
static int open_all(struct run *r, const struct roles *roles, struct err *err)
{
    enum schedule_kind kind;
    if (model_data(r->o->model, err) < 0 || schedule_kind(r->o->schedule, &kind, err) ||
        open_backend(r, err) || open_collective(r, roles, err) || open_batches(r, err) ||
        open_net(r, &r->batches->shape, err) || run_agree(r, err) || check_ranks(r, err) ||
        join_devices(r, err) || run_find_longest_pass(r, err) || run_take_up(r, err))
        return -1;
    if (r->at.token[0]) {
        batch_close(r->batches);
        r->batches = NULL;
        if (open_batches(r, err) || check_data(r, err))
            return run_lacks_place(r, err);
    }
    if (r->o->test_data && (is_first(r) || !r->is_async)) {
        struct batch_options o = run_source(r, r->o->test_data, false);
        if (batch_open(&r->test, (enum model_data)model_data(r->o->model, NULL), &o, err) ||
            check_test(r, err))
            return -1;
    }
    tell_undealt(r);
    tell_empty_classes(r);
    return run_plan_rates(r, err) || open_logs(r, err) ? -1 : 0;
}

/* Who ends early does not wait for what was read ahead, which may hang. */
static bool rests(struct batches *b)
{
    return !b || !b->ops->rest || b->ops->rest(b, REST_NS);
}

static void close_all(struct run *r, bool failed)
{
    bool early = failed || *r->stop || (r->c && run_asked(r));
    if (early && (!rests(r->batches) || !rests(r->test)))
        r->stuck = true;
    if (r->c)
        r->c->failed = failed || r->c->broken;
    report_close(&r->report);
    events_close(r->events);
    claim_release(r->shows);
    claim_release(r->saves);
    collective_close(r->c); /* and with it r->ps */
    if (r->stuck) /* threads still read into its memory, for as long as their files hang */
        return;
    batch_close(r->batches);
    batch_close(r->test);
    net_free(r->shape);
    net_free(r->n);
    backend_close(r->b);
    checkpoint_about_release(&r->about);
    secret_release(&r->secret);
    free(r->sums);
}

/* --- running ---------------------------------------------------------------------------------- */

/* Who calls it again with what it has done already asks why no step was made. */
static void tell_idle(const struct run *r)
{
    if (r->at.pass >= (uint64_t)r->o->num_passes)
        log_info(r->log,
                 "nothing is left to do: %" PRIu64 " passes are made, --num_passes is %" PRId64,
                 r->at.pass, r->o->num_passes);
    else
        log_info(r->log,
                 "nothing is left to do: %" PRIu64 " steps are made, --max_steps is %" PRId64,
                 r->at.step, r->o->max_steps);
}

static int run_passes(struct run *r, struct err *err)
{
    const uint64_t from_pass = r->at.pass, from_step = r->at.step;
    int got = 0;
    while (got == 0 && !r->stopped && r->at.pass < (uint64_t)r->o->num_passes &&
           !(run_at_end(r) && r->at.batch == 0)) /* one that is begun may be at its end, too */
        got = run_pass(r, err);
    if (got < 0)
        return -1;
    if (!r->stopped && r->at.pass == from_pass && r->at.step == from_step)
        tell_idle(r);
    if (r->is_async)
        return run_meet(r, err);
    return r->saved_at != r->at.step ? run_save(r, err) : 0;
}

/* What this rank was asked for needs no other one: each has what all learned until the last whole
 * step, and rank 0 keeps it. */
static int stop_alone(struct run *r, struct err *err)
{
    report_break(&r->report);
    log_warn(r->log, "stops after step %" PRIu64 " without the others: %s%s", r->at.step, err->msg,
             is_first(r) ? "" : "; the checkpoint is rank 0's");
    *err = (struct err){0};
    r->stopped = true;
    return is_first(r) ? run_save_alone(r, err) : 0;
}

int train_run(const struct options *o, const struct roles *roles, struct log *log,
              const struct train_signals *signals, struct train_end *ret, struct err *err)
{
    struct run r = {.o = o, .log = log, .stop = signals->stop};
    r.at.seed = (uint64_t)o->seed;
    snprintf(r.at.optimizer, sizeof r.at.optimizer, "%s", o->optimizer);
    r.at.loss = NAN;
    *signals->at_once = 1;
    int failed = open_all(&r, roles, err);
    *signals->at_once = 0;
    bool opened = !failed;
    if (opened)
        failed = run_passes(&r, err);
    if (opened && failed && r.c->broken && run_asked(&r))
        failed = stop_alone(&r, err);
    if (ret)
        *ret = (struct train_end){r.at.step, r.at.loss};
    bool stopped = r.stopped;
    if (!failed)
        report_end(&r.report, r.at.step, stopped ? "stopped" : "done", r.saved);
    close_all(&r, failed != 0);
    return failed ? -1 : stopped ? TRAIN_STOPPED : 0;
}
