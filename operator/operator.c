/*
 * Departments: a controller, its queue, its workers. A change in the cache wakes the keys that its
 * controllers name; a worker takes a key, decides, carries out, and gives the key back.
 */
#define LOG_MODULE "operator"
#include "operator.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "clock.h"
#include "log.h"
#include "mem.h"
#include "object.h"
#include "operator-internal.h"

#define BACK_OFF_NS   (200 * NS_PER_MS)
#define BACK_OFF_CAP  (30 * NS_PER_S)
#define PASSES_MAX    16
#define FOREIGN_S     60u /* a name that somebody else holds is looked at again */
#define ACTION_LABELS (ACTION_AGAIN + 1)

const enum watch watch_of[KIND_N] = {
    [KIND_SAMPLESET] = WATCH_ALL,   [KIND_SAMPLEJOB] = WATCH_ALL,
    [KIND_PADDLEJOB] = WATCH_ALL,   [KIND_TRAININGJOB] = WATCH_ALL,
    [KIND_POD] = WATCH_OURS,        [KIND_SERVICE] = WATCH_OURS,
    [KIND_CONFIGMAP] = WATCH_OURS,  [KIND_PVC] = WATCH_ALL,
    [KIND_PV] = WATCH_ALL,          [KIND_STATEFULSET] = WATCH_OURS,
    [KIND_REPLICASET] = WATCH_OURS, [KIND_JOB] = WATCH_OURS,
    [KIND_NODE] = WATCH_ALL,        [KIND_PODGROUP] = WATCH_OURS_WITH_VOLCANO,
};

bool operator_watches(const struct operator* op, enum kind kind)
{
    return watch_of[kind] == WATCH_OURS_WITH_VOLCANO ? op->conf.config.volcano
                                                     : watch_of[kind] != WATCH_NOT;
}

/* --- wakes ------------------------------------------------------------------------------------ */

static void add_key(void *arg, const char *key)
{
    struct department *d = arg;
    queue_add(d->queue, key);
}

static void add_object(struct department *d, const struct json *o)
{
    const char *ns = object_namespace(o), *name = object_name(o);
    cleanup_free char *key = ns ? xasprintf("%s/%s", ns, name) : xstrdup(name);
    queue_add(d->queue, key);
}

static void on_change(void *arg, enum kind kind, const struct json *before,
                      const struct json *after)
{
    struct operator* op = arg;
    for (size_t i = 0; i < op->conf.n_controllers; i++) {
        struct department *d = &op->departments[i];
        const struct controller *c = d->controller;
        if (c->kind == kind)
            add_object(d, after ? after : before);
        for (size_t w = 0; w < c->n_wakes; w++) {
            if (c->wakes[w].kind != kind)
                continue;
            if (before)
                c->wakes[w].keys(before, add_key, d);
            if (after)
                c->wakes[w].keys(after, add_key, d);
        }
    }
}

/* --- one key ---------------------------------------------------------------------------------- */

/* A decision waits for nothing but locks and its turn on a core; this is what it costs itself. */
static uint64_t cpu_ns(void)
{
    struct timespec t = {0};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * NS_PER_S + (uint64_t)t.tv_nsec;
}

/* Decides until all that it asks for is there. */
static int decide(struct department *d, struct round *round, const struct json *object,
                  struct actions *actions, struct err *err)
{
    for (int pass = 0; pass < PASSES_MAX; pass++) {
        struct view *v = round_view(round, d->controller->kind, object);
        uint64_t began = clock_mono_ns(), cpu = cpu_ns();
        int result = d->controller->decide(v, &d->op->conf.config, actions, err);
        bool incomplete = view_incomplete(v);
        histogram_add(&d->numbers.decide, clock_mono_ns() - began);
        histogram_add(&d->numbers.decide_cpu, cpu_ns() - cpu);
        counter_add(&d->numbers.passes, 1);
        view_free(v);
        if (!incomplete)
            return result;
        actions_release(actions);
        err_clear(err);
        if (round_fetch(round, err))
            return -1;
    }
    return err_set(err, ERR_BUG, "it asks for something new each time");
}

/* What a failure is worth: conflicts are everyday; what ends with our lead is no failure. */
static void log_failure(const struct department *d, const char *key, bool conflict,
                        const struct err *err)
{
    struct log *log = d->op->conf.log;
    if (conflict || err->class == ERR_CANCELLED)
        log_debug(log, "%s %s: %s", d->controller->name, key, err->msg);
    else
        log_warn(log, "%s %s: %s", d->controller->name, key, err->msg);
}

static int work_on(struct department *d, const char *key, unsigned *again_s)
{
    const char *slash = strchr(key, '/');
    cleanup_free char *ns = slash ? xstrndup(key, (size_t)(slash - key)) : NULL;
    struct object *o = cache_get(d->op->cache, d->controller->kind, ns, slash ? slash + 1 : key);
    struct actions actions = {0};
    struct applied applied = {0};
    struct err err = {0};
    if (!o)
        return 0;
    struct round *round = round_new(d->op);
    counter_add(&d->numbers.rounds, 1);
    int result = decide(d, round, &o->root, &actions, &err);
    if (!result)
        result = apply_actions(d->op, d->controller, &o->root, &actions, &applied, &err);
    if (result) {
        counter_add(applied.conflict ? &d->numbers.conflicts : &d->numbers.failures, 1);
        log_failure(d, key, applied.conflict, &err);
    }
    *again_s = applied.again_s;
    if (round_met_foreign(round) && (!*again_s || *again_s > FOREIGN_S))
        *again_s = FOREIGN_S;
    actions_release(&actions);
    round_free(round);
    object_unref(o);
    return result;
}

static void *worker_main(void *arg)
{
    struct department *d = arg;
    char *key;
    while ((key = queue_take(d->queue))) {
        unsigned again_s = 0;
        int result = work_on(d, key, &again_s);
        queue_done(d->queue, key, result != 0);
        if (!result && again_s)
            queue_add_after(d->queue, key, again_s * NS_PER_S);
        free(key);
    }
    return NULL;
}

/* --- when work may begin ---------------------------------------------------------------------- */

static void add_listed(void *arg, struct object *o)
{
    add_object(arg, &o->root);
    object_unref(o);
}

/* Whoever begins to lead looks at everything once: another has acted meanwhile. The lock is held.
 */
static void begin_or_pause(struct operator* op)
{
    bool work = op->leads && op->n_synced == op->n_watched && !op->stopping;
    if (work == op->working)
        return;
    op->working = work;
    for (size_t i = 0; i < op->conf.n_controllers; i++) {
        struct department *d = &op->departments[i];
        queue_pause(d->queue, !work);
        if (work)
            cache_list(op->cache, d->controller->kind, NULL, NULL, NULL, add_listed, d);
    }
    log_info(op->conf.log, "%s", work ? "at work" : "pausing");
}

void operator_lead(struct operator* op, bool leads)
{
    ACQUIRE(&op->lock);
    op->leads = leads;
    begin_or_pause(op);
}

static void on_synced(void *arg)
{
    struct operator* op = arg;
    ACQUIRE(&op->lock);
    op->n_synced++;
    begin_or_pause(op);
}

bool operator_synced(struct operator* op, struct err *why)
{
    ACQUIRE(&op->lock);
    if (op->n_synced == op->n_watched)
        return true;
    err_set(why, ERR_TRANSIENT, "%zu of %zu kinds are listed", op->n_synced, op->n_watched);
    return false;
}

/* --- metrics ---------------------------------------------------------------------------------- */

#define ROW(name_, kind_, member, help_)                                                 \
    {                                                                                    \
        .name = name_, .kind = kind_, .offset = offsetof(struct worker_numbers, member), \
        .help = help_                                                                    \
    }
static const struct metric_row per_controller[] = {
    ROW("sampan_operator_rounds_total", METRIC_COUNTER, rounds, "Objects decided about"),
    ROW("sampan_operator_failures_total", METRIC_COUNTER, failures,
        "Rounds that failed and are tried again"),
    ROW("sampan_operator_conflicts_total", METRIC_COUNTER, conflicts,
        "Rounds that met an object newer than the one decided about"),
    ROW("sampan_operator_decide_seconds", METRIC_HISTOGRAM, decide,
        "How long decisions took, requests aside"),
    ROW("sampan_operator_decide_cpu_seconds", METRIC_HISTOGRAM, decide_cpu,
        "Time on a core that decisions took, requests aside"),
};
#define PER_CONTROLLER (sizeof per_controller / sizeof per_controller[0])

/* A row for each metric of each controller, as offsets from the departments. */
static void make_rows(struct operator* op)
{
    size_t n = op->conf.n_controllers;
    op->rows = xcalloc(PER_CONTROLLER * n, sizeof *op->rows);
    op->labels = xcalloc(n, sizeof *op->labels);
    for (size_t i = 0; i < n; i++)
        op->labels[i] = xasprintf("controller=\"%s\"", op->conf.controllers[i]->name);
    for (size_t m = 0; m < PER_CONTROLLER; m++)
        for (size_t i = 0; i < n; i++) {
            struct metric_row *row = &op->rows[op->n_rows++];
            *row = per_controller[m];
            row->labels = op->labels[i];
            row->offset += i * sizeof(struct department) + offsetof(struct department, numbers);
        }
}

static void add_help(struct bytes *out, const char *name, const char *type, const char *help)
{
    bytes_addf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static void add_queues(struct operator* op, struct bytes *out)
{
    static const char waiting[] = "sampan_operator_queue_keys";
    static const char failing[] = "sampan_operator_queue_failing";
    struct queue_numbers q;
    add_help(out, waiting, "gauge", "Keys that wait for their controller");
    for (size_t i = 0; i < op->conf.n_controllers; i++) {
        queue_numbers(op->departments[i].queue, &q);
        bytes_addf(out, "%s{%s} %zu\n", waiting, op->labels[i], q.waiting);
    }
    add_help(out, failing, "gauge", "Keys whose last round failed");
    for (size_t i = 0; i < op->conf.n_controllers; i++) {
        queue_numbers(op->departments[i].queue, &q);
        bytes_addf(out, "%s{%s} %zu\n", failing, op->labels[i], q.failing);
    }
}

static void add_caches(struct operator* op, struct bytes *out)
{
    static const char objects[] = "sampan_operator_objects",
                      lists[] = "sampan_operator_lists_total";
    struct cache_numbers n;
    struct informer_numbers of;
    cache_numbers(op->cache, &n);
    add_help(out, objects, "gauge", "Objects in the cache");
    for (int k = 0; k < KIND_N; k++)
        if (op->informers[k])
            bytes_addf(out, "%s{kind=\"%s\"} %zu\n", objects, kinds[k].kind, n.objects[k]);
    add_help(out, lists, "counter", "Times that all objects of a kind were listed");
    for (int k = 0; k < KIND_N; k++) {
        if (!op->informers[k])
            continue;
        informer_numbers(op->informers[k], &of);
        bytes_addf(out, "%s{kind=\"%s\"} %llu\n", lists, kinds[k].kind,
                   (unsigned long long)of.lists);
    }
}

static void add_actions(const struct operator* op, struct bytes *out)
{
    static const char name[] = "sampan_operator_actions_total";
    static const char *const types[] = {"create", "patch", "status", "delete",
                                        "event",  "send",  "again"};
    add_help(out, name, "counter", "Actions that controllers decided on");
    for (size_t i = 0; i < ACTION_LABELS; i++)
        bytes_addf(out, "%s{type=\"%s\"} %llu\n", name, types[i],
                   (unsigned long long)counter_get(&op->actions[i]));
}

void operator_metrics(struct operator* op, struct bytes *out)
{
    static const struct metric_row rows[] = {
        {"sampan_operator_unchanged_total", NULL, METRIC_COUNTER,
         offsetof(struct operator, unchanged),
         "Patches that were not sent: they would have changed nothing"},
    };
    metrics_text(out, op->rows, op->n_rows, op->departments);
    metrics_text(out, rows, 1, op);
    add_actions(op, out);
    add_queues(op, out);
    add_caches(op, out);
}

/* --- life ------------------------------------------------------------------------------------- */

static void start_informers(struct operator* op)
{
    for (int k = 0; k < KIND_N; k++)
        op->n_watched += operator_watches(op, (enum kind)k);
    for (int k = 0; k < KIND_N; k++) {
        if (!operator_watches(op, (enum kind)k))
            continue;
        bool ours = watch_of[k] != WATCH_ALL;
        const struct informer_conf conf = {
            .client = op->conf.client,
            .cache = op->cache,
            .log = op->conf.log,
            .kind = (enum kind)k,
            .selector = ours ? MANAGED_KEY "=" MANAGED_BY : NULL,
            .optional = strchr(kinds[k].group, '.') != NULL,
            .synced = on_synced,
            .arg = op,
        };
        op->informers[k] = informer_start(&conf);
    }
}

static int start_workers(struct operator* op, struct err *err)
{
    size_t n = op->conf.n_controllers * op->conf.workers;
    op->threads = xcalloc(n + 1, sizeof *op->threads);
    for (size_t i = 0; i < n; i++) {
        struct department *d = &op->departments[i % op->conf.n_controllers];
        char name[16];
        snprintf(name, sizeof name, "%s", d->controller->name);
        int error = thread_start(&op->threads[op->n_threads], name, worker_main, d);
        if (error)
            return err_thread(err, error, "start a thread");
        op->n_threads++;
    }
    return 0;
}

int operator_start(struct operator** ret, const struct operator_conf *conf, struct err *err)
{
    struct operator* op = xcalloc(1, sizeof *op);
    op->conf = *conf;
    lock_init(&op->lock, RANK_LEAD, "operator");
    op->cache = cache_new(on_change, op);
    op->events = events_new(conf->client, conf->identity);
    op->departments = xcalloc(conf->n_controllers + 1, sizeof *op->departments);
    for (size_t i = 0; i < conf->n_controllers; i++) {
        op->departments[i].op = op;
        op->departments[i].controller = conf->controllers[i];
        op->departments[i].queue = queue_new(BACK_OFF_NS, BACK_OFF_CAP);
    }
    make_rows(op);
    *ret = op; /* also where threads fail: the caller stops and frees it */
    start_informers(op);
    return start_workers(op, err);
}

void operator_stop(struct operator* op)
{
    if (!op)
        return;
    {
        ACQUIRE(&op->lock);
        op->stopping = true;
    }
    for (size_t i = 0; i < op->conf.n_controllers; i++)
        queue_end(op->departments[i].queue);
    for (size_t i = 0; i < op->n_threads; i++)
        pthread_join(op->threads[i], NULL);
    op->n_threads = 0;
}

void operator_free(struct operator* op)
{
    if (!op)
        return;
    for (int k = 0; k < KIND_N; k++)
        informer_free(op->informers[k]);
    cache_free(op->cache);
    events_free(op->events);
    for (size_t i = 0; i < op->conf.n_controllers; i++) {
        queue_free(op->departments[i].queue);
        free(op->labels[i]);
    }
    free(op->departments);
    free(op->labels);
    free(op->rows);
    free(op->threads);
    lock_destroy(&op->lock);
    free(op);
}
