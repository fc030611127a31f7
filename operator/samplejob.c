/*
 * SampleJob: one piece of work at a set's servers, or one that comes again by the clock.
 *
 *   "" -> Waiting (for its set, its keys, other jobs) -> Pending (with the servers) -> Running
 *      -> Succeeded | Failed | Cancelled         Failed begins anew when its options are changed
 */
#include <stdlib.h>
#include <string.h>

#include "mem.h"
#include "object.h"
#include "samplejob-internal.h"

#define FINALIZER_MAX 63
#define STOP_WAIT_S   60 /* servers that do not answer keep a deleted job no longer */

bool job_is_over(const char *phase)
{
    return !strcmp(phase, "Succeeded") || !strcmp(phase, "Failed") || !strcmp(phase, "Cancelled");
}

/* --- the plan --------------------------------------------------------------------------------- */

static char *kept(const struct job_plan *p, const char *key)
{
    const char *text = part_text(&p->status, key);
    return text ? xstrdup(text) : NULL;
}

static void keep_items(const struct json *status, const char *key, struct bytes *out)
{
    struct json list = json_get(status, key);
    for (size_t i = 0; i < json_count(&list); i++) {
        struct json item = json_at(&list, i);
        if (i)
            bytes_add_char(out, ',');
        json_text(&item, out);
    }
}

static void plan_begin(struct job_plan *p, struct view *v, struct actions *out)
{
    const struct json *o = view_object(v);
    *p = (struct job_plan){.v = v, .out = out, .object = o};
    p->status = json_get(o, "status");
    p->ns = object_namespace(o);
    p->name = object_name(o);
    p->uid = object_uid(o) ? object_uid(o) : "";
    p->phase = part_phase(o);
    p->new_phase = p->phase;
    cleanup_free char *name = part_name(FINALIZER_MAX, "samplejob-%s", p->name);
    p->finalizer = xasprintf("paddlepaddle.org/%s", name);
    part_conditions_begin(&p->conditions, v, out);
    p->job = kept(p, "jobName");
    p->message = NULL;
    p->progress = kept(p, "progress");
    p->started = kept(p, "startTime");
    p->ended = kept(p, "completionTime");
    p->last_run = kept(p, "lastScheduleTime");
    p->last_success = kept(p, "lastSuccessfulTime");
    keep_items(&p->status, "partitions", &p->parts);
}

static void plan_end(struct job_plan *p)
{
    char *texts[] = {p->job,   p->message, p->progress, p->started,
                     p->ended, p->next,    p->last_run, p->last_success};
    actions_move(p->out, &p->late);
    if (p->again)
        act_again(p->out, p->again);
    for (size_t i = 0; i < API_COUNT(texts); i++)
        free(texts[i]);
    bytes_release(&p->parts);
    bytes_release(&p->runs);
    free(p->finalizer);
    part_conditions_release(&p->conditions);
    api_free(api_samplejob.spec, p->spec);
    api_free(api_sampleset.spec, p->set_spec);
}

/* --- status ----------------------------------------------------------------------------------- */

static void write_items(struct json_writer *w, const char *key, const struct bytes *items)
{
    if (!items->len)
        return;
    cleanup_free char *list = xasprintf("[%s]", items->data);
    jw_raw(w, key, list);
}

static void write_status(struct job_plan *p)
{
    const struct part_pair texts[] = {
        {"phase", *p->new_phase ? p->new_phase : NULL},
        {"sampleSet", job_set_name(p)},
        {"jobName", p->job},
        {"progress", p->progress},
        {"message", p->message},
        {"startTime", p->started},
        {"completionTime", p->ended},
        {"nextScheduleTime", p->next},
        {"lastScheduleTime", p->last_run},
        {"lastSuccessfulTime", p->last_success},
    };
    cleanup_bytes struct bytes text = {0};
    struct json_writer w;
    jw_init(&w, &text);
    jw_object(&w, NULL);
    for (size_t i = 0; i < API_COUNT(texts); i++)
        if (texts[i].value)
            jw_str(&w, texts[i].key, texts[i].value);
    write_items(&w, "partitions", &p->parts);
    write_items(&w, "runs", &p->runs);
    jw_int(&w, "observedGeneration", p->conditions.generation);
    part_conditions_write(&p->conditions, &w);
    jw_end(&w);
    part_status(p->v, KIND_SAMPLEJOB, &text, p->out);
}

/* --- ends ------------------------------------------------------------------------------------- */

static void wind_up(struct job_plan *p)
{
    struct json meta = json_get(p->object, "metadata");
    int64_t since = part_time(part_text(&meta, "deletionTimestamp"));
    bool late = since >= 0 && view_now(p->v) - since > STOP_WAIT_S;
    if (!part_has_finalizer(p->object, p->finalizer))
        return;
    if (!p->spec || late || job_stop(p))
        if (!view_incomplete(p->v))
            part_drop_finalizer(p->v, KIND_SAMPLEJOB, p->finalizer, p->out);
}

static void forget_in_time(struct job_plan *p)
{
    int64_t ended = part_time(p->ended), left;
    if (p->spec->ttl_s < 0 || ended < 0)
        return;
    left = ended + p->spec->ttl_s - view_now(p->v);
    if (left <= 0)
        act_delete(p->out, KIND_SAMPLEJOB, p->ns, p->name, object_uid(p->object));
    else
        job_again(p, (unsigned)left);
}

static void terminate(struct job_plan *p)
{
    if (!job_stop(p))
        return;
    p->new_phase = "Cancelled";
    job_text(&p->message, xstrdup("spec.terminate"));
    if (!p->ended) {
        p->ended = xmalloc(PART_TIME_BYTES);
        part_time_text(view_now(p->v), p->ended);
    }
    part_condition(&p->conditions, "Waiting", "False", "Terminated", "it was told to end");
    act_event(p->out, false, "JobCancelled", "%s: spec.terminate", p->spec->type);
}

/* --- the decision ----------------------------------------------------------------------------- */

static bool spec_is_read(struct job_plan *p, struct err *err)
{
    struct json spec = json_get(p->object, "spec");
    void *read = NULL;
    if (api_read(api_samplejob.spec, &spec, &read, err))
        return false;
    p->spec = read;
    return true;
}

/* Nothing of a job that is over changes, until its spec does, and then only if it failed. */
static bool rests(const struct job_plan *p)
{
    return job_is_over(p->phase) &&
           (strcmp(p->phase, "Failed") != 0 ||
            part_int(&p->status, "observedGeneration") == p->conditions.generation);
}

static void work(struct job_plan *p)
{
    struct actions drops = {0};
    if (p->spec->schedule)
        job_schedule(p, &drops);
    else if (p->spec->terminate)
        terminate(p);
    else
        job_run(p);
    if (!view_incomplete(p->v))
        write_status(p);
    for (size_t i = 0; i < drops.n; i++)
        act_delete(p->out, drops.items[i].kind, drops.items[i].ns, drops.items[i].name,
                   drops.items[i].uid);
    actions_release(&drops);
}

static void decide_for(struct job_plan *p)
{
    struct err err = {0};
    if (!spec_is_read(p, &err)) {
        const char *at = strstr(err.msg, "spec");
        if (object_is_deleted(p->object)) {
            wind_up(p);
            return;
        }
        part_condition_warn(&p->conditions, "SpecValid", "InvalidSpec",
                            "%s (correct it; kubectl explain samplejob.spec tells what is known)",
                            at ? at : err.msg);
        write_status(p);
    } else if (object_is_deleted(p->object)) {
        wind_up(p);
    } else if (rests(p)) {
        forget_in_time(p);
    } else if (!p->spec->schedule && !part_has_finalizer(p->object, p->finalizer)) {
        part_add_finalizer(p->v, KIND_SAMPLEJOB, p->finalizer, p->out);
    } else {
        work(p);
    }
}

static int decide(struct view *v, const struct operator_config *config, struct actions *out,
                  struct err *err)
{
    struct job_plan p;
    (void)config, (void)err;
    plan_begin(&p, v, out);
    decide_for(&p);
    plan_end(&p);
    return 0;
}

static void by_parent(const struct json *o, void (*add)(void *arg, const char *key), void *arg)
{
    const char *parent = object_annotation(o, JOB_PARENT_ANNOTATION);
    if (parent)
        add(arg, parent);
}

static const struct wake wakes[] = {{KIND_SAMPLEJOB, by_parent}};

const struct controller samplejob_controller = {
    .name = "samplejob",
    .kind = KIND_SAMPLEJOB,
    .wakes = wakes,
    .n_wakes = 1,
    .decide = decide,
};
