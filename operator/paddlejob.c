/* The controller of PaddleJobs. paddlejob-internal.h says which file decides what. */
#include <stdlib.h>
#include <string.h>

#include "object.h"
#include "paddlejob-internal.h"

/* --- phases ----------------------------------------------------------------------------------- */

/* Of a job that is neither over nor suspended, nor fails now. */
static const char *phase_of(const struct job *j, bool restarting)
{
    size_t n = job_pods(j), up = job_count(j, POD_RUNNING) + job_count(j, POD_SUCCEEDED);
    if (up == n)
        return "Running";
    if (restarting)
        return "Restarting";
    if (job_count(j, POD_MISSING) + job_count(j, POD_PENDING) + job_count(j, POD_UNKNOWN) == 0)
        return "Starting";
    if (!j->started)
        return j->restarts ? "Restarting" : "Pending";
    return job_is_elastic(j) ? "Scaling" : "Restarting";
}

static void decide_running(struct job *j)
{
    enum job_verdict verdict = job_failures(j);
    if (job_is_complete(j)) {
        free(take_ptr(&j->message));
        j->phase = "Completed";
        return;
    }
    if (verdict == VERDICT_FAILED) {
        j->phase = "Failed";
        return;
    }
    job_sum_addresses(j);
    job_remove_obsolete(j);
    bool more = job_gates(j);
    job_want_pods(j, more);
    j->phase = phase_of(j, verdict == VERDICT_WAIT);
}

static void decide_suspended(struct job *j)
{
    job_remove_pods(j, false);
    job_drop_group(j);
    j->phase = "Suspended";
}

static void decide_live(struct job *j)
{
    if (!job_check(j))
        j->phase = j->started ? "Running" : "Pending";
    else if (j->spec->suspend)
        decide_suspended(j);
    else
        decide_running(j);
    if (!view_incomplete(j->v))
        job_status(j);
}

/* --- the end ---------------------------------------------------------------------------------- */

/* How long servers may outlive a training that ended well and whose pods are kept: those that end
 * with their last trainer leave a log. */
#define LAST_WORDS_S 30

/* Servers never end by themselves, mostly, and what is left of a failed training holds its devices:
 * what runs is stopped, unless the user wants to look at a failure with all its pods. */
static void decide_over(struct job *j, bool completed)
{
    const char *policy = j->spec->clean;
    bool always = policy && strcmp(policy, "Always") == 0;
    bool never = policy && strcmp(policy, "Never") == 0;
    bool on_failure = policy && strcmp(policy, "OnFailure") == 0;
    bool all = always || (completed ? !never && !on_failure : on_failure);
    int64_t ended = part_time(part_text(&j->was, "completionTime"));
    int64_t since = ended < 0 ? INT64_MAX : view_now(j->v) - ended;
    if (completed && !all && since < LAST_WORDS_S)
        job_again(j, LAST_WORDS_S - since);
    else if (all || completed || !never)
        job_remove_pods(j, !all);
    job_drop_group(j);
    if (j->spec->ttl_s < 0 || ended < 0)
        return;
    if (since < j->spec->ttl_s)
        job_again(j, j->spec->ttl_s - since);
    else
        act_delete(&j->children, KIND_PADDLEJOB, j->ns, j->name, j->uid);
}

static void say_terminating(struct job *j)
{
    struct view_list pods = view_list(j->v, KIND_POD, j->ns, PART_OWNER_LABEL, j->uid);
    struct action *a = act_status(j->out, KIND_PADDLEJOB, j->ns, j->name, NULL);
    bytes_add_str(&a->body, "{\"status\":{\"phase\":\"Terminating\"}}");
    for (size_t i = 0; i < pods.n; i++)
        if (!object_is_deleted(pods.items[i]))
            act_delete(&j->children, KIND_POD, j->ns, object_name(pods.items[i]),
                       object_uid(pods.items[i]));
}

/* Nothing here waits for pods: claims stay until the last pod that mounts them has gone, and the
 * rest goes with its owner. */
static void decide_deleted(struct job *j)
{
    const char *phase = part_text(&j->was, "phase");
    if (!part_has_finalizer(j->object, JOB_FINALIZER))
        return;
    if (!phase || strcmp(phase, "Terminating") != 0) {
        say_terminating(j);
        return;
    }
    job_drop_group(j);
    job_drop_claims(j);
    part_drop_finalizer(j->v, KIND_PADDLEJOB, JOB_FINALIZER, &j->children);
}

/* --- the decision ----------------------------------------------------------------------------- */

/* Children follow the status: what cannot be made does not keep the user from seeing why. */
static void append_children(struct job *j)
{
    actions_move(j->out, &j->children);
    if (j->again_s)
        act_again(j->out, j->again_s);
}

static void decide_unreadable(struct job *j, const struct err *why)
{
    cleanup_bytes struct bytes status = {0};
    struct json_writer w;
    part_condition_warn(&j->conditions, "Valid", "InvalidSpec",
                        "%s (correct it: kubectl explain "
                        "paddlejob.spec says what it may be)",
                        why->msg);
    jw_init(&w, &status);
    jw_object(&w, NULL);
    build_copy_members(&w, &j->was,
                       (const char *const[]){"message", "observedGeneration", "conditions", NULL});
    if (!json_has(&j->was, "phase"))
        jw_str(&w, "phase", "Pending");
    jw_str(&w, "message", why->msg);
    jw_int(&w, "observedGeneration", j->conditions.generation);
    part_conditions_write(&j->conditions, &w);
    jw_end(&w);
    part_status(j->v, KIND_PADDLEJOB, &status, j->out);
}

static void decide_any(struct job *j)
{
    struct err why = {0};
    const char *phase = part_text(&j->was, "phase");
    bool completed = phase && strcmp(phase, "Completed") == 0,
         failed = phase && strcmp(phase, "Failed") == 0;
    if (object_is_deleted(j->object))
        decide_deleted(j);
    else if (job_observe(j, &why))
        decide_unreadable(j, &why);
    else if (!part_has_finalizer(j->object, JOB_FINALIZER))
        part_add_finalizer(j->v, KIND_PADDLEJOB, JOB_FINALIZER, j->out);
    else if (completed || failed)
        decide_over(j, completed);
    else
        decide_live(j);
}

static int decide(struct view *v, const struct operator_config *config, struct actions *out,
                  struct err *err)
{
    const struct json *object = view_object(v);
    struct job j = {.v = v,
                    .config = config,
                    .out = out,
                    .object = object,
                    .ns = object_namespace(object),
                    .name = object_name(object),
                    .uid = object_uid(object),
                    .was = json_get(object, "status")};
    if (!j.ns || !j.name || !j.uid)
        return err_set(err, ERR_BUG, "PaddleJob: the API server gave no namespace, name or uid");
    part_conditions_begin(&j.conditions, v, out);
    decide_any(&j);
    append_children(&j);
    job_release(&j);
    return 0;
}

/* --- who wakes it ----------------------------------------------------------------------------- */

static void keys_of_owner(const struct json *changed, void (*add)(void *arg, const char *key),
                          void *arg)
{
    build_owner_keys(changed, "PaddleJob", add, arg);
}

/* Jobs that the set knows of; one that it does not know yet looks again by itself. */
static void keys_of_set(const struct json *changed, void (*add)(void *arg, const char *key),
                        void *arg)
{
    struct json users = build_at(changed, "status", "usedBy", NULL);
    for (size_t i = 0; i < json_count(&users); i++) {
        struct json u = json_at(&users, i);
        const char *key;
        if (!json_as_str(&u, &key, NULL))
            add(arg, key);
    }
}

static const struct wake wakes[] = {
    {KIND_POD, keys_of_owner},      {KIND_SERVICE, keys_of_owner}, {KIND_CONFIGMAP, keys_of_owner},
    {KIND_PODGROUP, keys_of_owner}, {KIND_SAMPLESET, keys_of_set},
};

const struct controller paddlejob_controller = {
    .name = "paddlejob",
    .kind = KIND_PADDLEJOB,
    .wakes = wakes,
    .n_wakes = sizeof wakes / sizeof wakes[0],
    .decide = decide,
};
