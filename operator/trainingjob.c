/* The controller of TrainingJobs. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "mem.h"
#include "object.h"
#include "trainingjob-internal.h"

#define WALLTIME "walltime" /* annotation: seconds after the start */

static bool is_over(const char *phase)
{
    static const char *const over[] = {"Succeed", "Failed", "Timeout"};
    for (size_t i = 0; phase && i < 3; i++)
        if (strcmp(phase, over[i]) == 0)
            return true;
    return false;
}

/* --- the status ------------------------------------------------------------------------------- */

static void tell_phase(struct training *t)
{
    bool over = is_over(t->phase), well = strcmp(t->phase, "Succeed") == 0;
    const char *type = well ? "Completed" : over ? "Failed" : "PodsReady";
    bool holds = over || strcmp(t->phase, "Running") == 0;
    if (part_condition(&t->conditions, type, holds ? "True" : "False", t->phase,
                       "%" PRId64 " trainers run, %" PRId64 " have succeeded, %" PRId64
                       " have failed",
                       t->running, t->succeeded, t->failed) &&
        holds)
        act_event(t->out, over && !well, t->phase,
                  "%s%s%" PRId64 " trainers run, %" PRId64 " have succeeded, %" PRId64
                  " have failed",
                  t->message ? t->message : "", t->message ? ": " : "", t->running, t->succeeded,
                  t->failed);
}

static void write_status(struct training *t)
{
    cleanup_bytes struct bytes status = {0};
    char now[PART_TIME_BYTES];
    const char *started = part_text(&t->was, "startTime");
    struct json_writer w;
    part_time_text(view_now(t->v), now);
    tell_phase(t);
    jw_init(&w, &status);
    jw_object(&w, NULL);
    jw_str(&w, "phase", t->phase);
    if (t->message)
        jw_str(&w, "message", t->message);
    jw_int(&w, "running", t->running);
    jw_int(&w, "succeeded", t->succeeded);
    jw_int(&w, "failed", t->failed);
    jw_int(&w, "parallelism", t->parallelism);
    if (!started) /* else it may run while no operator does */
        started = strcmp(t->phase, "Running") == 0 ? now : t->begun;
    if (started)
        jw_str(&w, "startTime", started);
    if (is_over(t->phase))
        jw_str(&w, "completionTime", now);
    jw_int(&w, "observedGeneration", t->conditions.generation);
    part_conditions_write(&t->conditions, &w);
    jw_end(&w);
    part_status(t->v, KIND_TRAININGJOB, &status, t->out);
}

static void refuse(struct training *t, const char *why)
{
    cleanup_bytes struct bytes status = {0};
    struct json_writer w;
    part_condition_warn(&t->conditions, "Valid", "InvalidSpec",
                        "%s (correct it: kubectl explain trainingjob.spec says what it may be)",
                        why);
    jw_init(&w, &status);
    jw_object(&w, NULL);
    build_copy_members(&w, &t->was,
                       (const char *const[]){"message", "observedGeneration", "conditions", NULL});
    jw_str(&w, "message", why);
    jw_int(&w, "observedGeneration", t->conditions.generation);
    part_conditions_write(&t->conditions, &w);
    jw_end(&w);
    part_status(t->v, KIND_TRAININGJOB, &status, t->out);
}

/* --- the decision ----------------------------------------------------------------------------- */

static void check_walltime(struct training *t)
{
    const char *text = object_annotation(t->object, WALLTIME);
    int64_t started = part_time(part_text(&t->was, "startTime"));
    int64_t most = text ? strtoll(text, NULL, 10) : 0;
    if (most <= 0 || started < 0 || is_over(t->phase))
        return;
    int64_t left = started + most - view_now(t->v);
    if (left > 0) {
        act_again(&t->children, (unsigned)(left < 86400 ? left : 86400));
        return;
    }
    t->phase = "Timeout";
    t->message = xasprintf("it ran longer than its annotation walltime: %s allows", text);
}

/* Kubernetes ends the others of a Job in which one has failed. */
static bool still_trains(const struct json *job)
{
    return build_int(0, job, "status", "active", NULL) > 0 &&
           !build_int(0, job, "status", "failed", NULL);
}

/* What still holds nodes goes; what has ended stays to be looked at. */
static void release_all(struct training *t)
{
    struct view_list jobs = view_list(t->v, KIND_JOB, t->ns, PART_OWNER_LABEL, t->uid);
    const char *phase = part_text(&t->was, "phase");
    training_drop_others(t);
    for (size_t i = 0; i < jobs.n; i++)
        if (!object_is_deleted(jobs.items[i]) &&
            (!strcmp(phase, "Timeout") ||
             (!strcmp(phase, "Failed") && still_trains(jobs.items[i]))))
            act_delete(&t->children, KIND_JOB, t->ns, object_name(jobs.items[i]),
                       object_uid(jobs.items[i]));
}

static bool bounds_cross(const struct trainingjob_role *r)
{
    return r && r->max >= 0 && r->max < r->min;
}

static void decide_live(struct training *t)
{
    if (bounds_cross(t->spec->trainer) || bounds_cross(t->spec->pserver)) {
        refuse(t, bounds_cross(t->spec->trainer)
                      ? "spec.trainer: max-instance is below min-instance"
                      : "spec.pserver: max-instance is below min-instance");
        return;
    }
    if (strcmp(t->spec->style, "tensor") == 0)
        training_tensor(t);
    else
        training_edl(t);
    training_drop_others(t);
    check_walltime(t);
    if (!is_over(t->phase))
        training_scale(t);
    else
        actions_release(&t->children); /* nothing more is made; the rest is for the next decision */
    if (!view_incomplete(t->v))
        write_status(t);
}

/* Children follow the status: what cannot be made does not keep the user from seeing why. */
static void append_children(struct training *t)
{
    struct actions *from = &t->children, *to = t->out;
    if (!from->n)
        return;
    to->items = xrealloc(to->items, (to->n + from->n) * sizeof *to->items);
    memcpy(to->items + to->n, from->items, from->n * sizeof *from->items);
    to->n += from->n;
    to->room = to->n;
    from->n = 0; /* they are theirs now */
}

static void release(struct training *t)
{
    for (size_t i = 0; i < t->wanted; i++)
        free(t->names[i]);
    free(t->names);
    free(t->message);
    api_free(api_trainingjob.spec, t->spec);
    part_conditions_release(&t->conditions);
    actions_release(&t->children);
}

static int decide(struct view *v, const struct operator_config *config, struct actions *out,
                  struct err *err)
{
    const struct json *object = view_object(v);
    struct training t = {.v = v,
                         .out = out,
                         .object = object,
                         .ns = object_namespace(object),
                         .name = object_name(object),
                         .uid = object_uid(object),
                         .was = json_get(object, "status")};
    struct json spec = json_get(object, "spec");
    struct err why = {0};
    void *read = NULL;
    (void)config;
    if (!t.ns || !t.name || !t.uid)
        return err_set(err, ERR_BUG, "TrainingJob: the API server gave no namespace, name or uid");
    if (object_is_deleted(object))
        return 0; /* all children go with it */
    part_conditions_begin(&t.conditions, v, out);
    if (is_over(part_text(&t.was, "phase"))) {
        release_all(&t);
    } else if (api_read(api_trainingjob.spec, &spec, &read, &why)) {
        refuse(&t, why.msg);
    } else {
        t.spec = read;
        decide_live(&t);
    }
    append_children(&t);
    release(&t);
    return 0;
}

static void keys_of_owner(const struct json *changed, void (*add)(void *arg, const char *key),
                          void *arg)
{
    build_owner_keys(changed, "TrainingJob", add, arg);
}

static const struct wake wakes[] = {
    {KIND_REPLICASET, keys_of_owner}, {KIND_JOB, keys_of_owner}, {KIND_SERVICE, keys_of_owner}};

const struct controller trainingjob_controller = {
    .name = "trainingjob",
    .kind = KIND_TRAININGJOB,
    .wakes = wakes,
    .n_wakes = sizeof wakes / sizeof wakes[0],
    .decide = decide,
};
