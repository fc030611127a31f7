/*
 * The status of a job, from what is there now. Completed and Failed are for good; a status that
 * says so is not written again, so it keeps the counts of the end.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "mem.h"
#include "object.h"
#include "paddlejob-internal.h"

#define OVERDUE_S 60
#define MISSING_S 10

static const char *const mode_names[] = {"PS", "Collective", "Single"};

/* --- what holds a pod up ---------------------------------------------------------------------- */

static const char *unscheduled(const struct json *pod)
{
    struct json all = build_at(pod, "status", "conditions", NULL);
    for (size_t i = 0; i < json_count(&all); i++) {
        struct json c = json_at(&all, i);
        const char *type = part_text(&c, "type"), *reason = part_text(&c, "reason");
        if (type && reason && strcmp(type, "PodScheduled") == 0 &&
            strcmp(reason, "Unschedulable") == 0)
            return part_text(&c, "message");
    }
    return NULL;
}

/* The reason of a container that waits because something is wrong. */
static const char *stuck_in(const struct json *pod, const char *list)
{
    static const char *const harmless[] = {"ContainerCreating", "PodInitializing"};
    struct json all = build_at(pod, "status", list, NULL);
    for (size_t i = 0; i < json_count(&all); i++) {
        struct json c = json_at(&all, i);
        const char *reason = build_text(&c, "state", "waiting", "reason", NULL);
        if (reason && strcmp(reason, harmless[0]) != 0 && strcmp(reason, harmless[1]) != 0)
            return reason;
    }
    return NULL;
}

static const char *stuck(const struct json *pod)
{
    const char *reason = stuck_in(pod, "initContainerStatuses");
    return reason ? reason : stuck_in(pod, "containerStatuses");
}

/* A pod is gone at its deletionTimestamp, if its node does as it is told. */
static bool is_overdue(const struct job *j, const struct job_pod *p)
{
    int64_t due = part_time(build_text(p->object, "metadata", "deletionTimestamp", NULL));
    return p->going && due >= 0 && view_now(j->v) > due + OVERDUE_S;
}

/* False: nothing. */
static bool holds_up(struct job *j, const struct job_pod *p)
{
    const char *why = p->state == POD_PENDING ? unscheduled(p->object) : NULL;
    const char *reason = p->state == POD_STARTING ? stuck(p->object) : NULL;
    if (why) {
        job_says(j, "no node takes pod %s: %s", p->name, why);
        part_condition_warn(&j->conditions, "PodsReady", "Unschedulable",
                            "no node takes pod %s (kubectl describe pod %s says why)", p->name,
                            p->name);
    } else if (reason) {
        job_says(j, "pod %s cannot start: %s", p->name, reason);
        part_condition_warn(&j->conditions, "PodsReady", reason,
                            "pod %s cannot start (kubectl describe pod %s says why)", p->name,
                            p->name);
    } else if (p->state == POD_UNKNOWN || is_overdue(j, p)) {
        const char *node = build_text(p->object, "spec", "nodeName", NULL);
        job_says(j, "node %s, where pod %s is, does not answer", node ? node : "?", p->name);
        part_condition_warn(&j->conditions, "PodsReady", "NodeLost",
                            "node %s does not answer (bring it back; or delete it, or its pod: "
                            "kubectl delete pod %s --force)",
                            node ? node : "?", p->name);
    } else if (p->going) {
        job_says(j, "waits until the former pod %s has gone", p->name);
        job_again(j, OVERDUE_S);
        return false;
    } else {
        return false;
    }
    return true;
}

/* The first pod that something holds up, by role and index. */
static bool say_what_holds_up(struct job *j)
{
    for (int r = 0; r < ROLE_N; r++)
        for (size_t i = 0; i < j->roles[r].n; i++)
            if (j->roles[r].pods[i].object && holds_up(j, &j->roles[r].pods[i]))
                return true;
    return false;
}

/* Where nothing else keeps a job from having its pods, they are made with this very decision. Those
 * that the API server refuses (a quota, the level of the namespace) are told in events; so is what
 * keeps a node from starting one, as a volume that cannot be mounted. */
static void say_what_is_missing(struct job *j)
{
    int64_t since = part_condition_since(&j->conditions, "PodsReady", "False");
    bool late = view_now(j->v) - since >= MISSING_S;
    for (int r = 0; r < ROLE_N; r++)
        for (size_t i = 0; i < j->roles[r].n; i++) {
            const struct job_pod *p = &j->roles[r].pods[i];
            bool waits = p->state == POD_STARTING && !p->ip;
            if (late && !p->object)
                job_says(j,
                         "pod %s is not there yet (kubectl describe pdj %s tells what is refused)",
                         p->name, j->name);
            else if (late && waits)
                job_says(j,
                         "pod %s has not started yet (kubectl describe pod %s tells what it waits "
                         "for)",
                         p->name, p->name);
            else if (waits)
                job_again(j, since + MISSING_S - view_now(j->v));
        }
}

/* --- conditions ------------------------------------------------------------------------------- */

static bool is_phase(const struct job *j, const char *phase)
{
    return strcmp(j->phase, phase) == 0;
}

static void condition_pods(struct job *j)
{
    size_t n = job_pods(j), up = job_count(j, POD_RUNNING) + job_count(j, POD_SUCCEEDED);
    if (is_phase(j, "Suspended") || is_phase(j, "Failed") || is_phase(j, "Completed"))
        return;
    if (is_phase(j, "Running")) {
        if (part_condition(&j->conditions, "PodsReady", "True", "Running", "all %zu pods run", n))
            act_event(j->out, false, "Running", "all %zu pods run", n);
        return;
    }
    if (say_what_holds_up(j))
        return;
    say_what_is_missing(j);
    part_condition(&j->conditions, "PodsReady", "False", j->phase, "%zu of %zu pods run", up, n);
}

static void condition_end(struct job *j)
{
    if (is_phase(j, "Completed") &&
        part_condition(&j->conditions, "Completed", "True", "Completed", "all %ss have succeeded",
                       role_names[job_deciding_role(j)]))
        act_event(j->out, false, "Completed", "all %ss have succeeded",
                  role_names[job_deciding_role(j)]);
    if (is_phase(j, "Failed") && part_condition(&j->conditions, "Failed", "True", "PodFailed", "%s",
                                                j->message ? j->message : "a pod failed"))
        act_event(j->out, true, "Failed", "%s", j->message ? j->message : "a pod failed");
}

static void condition_suspended(struct job *j)
{
    const char *was = part_condition_was(&j->conditions, "Suspended");
    if (j->spec->suspend) {
        if (part_condition(&j->conditions, "Suspended", "True", "Suspended",
                           "spec.suspend is true: there are no pods until it is false"))
            act_event(j->out, false, "Suspended", "spec.suspend is true");
    } else if (was) {
        if (part_condition(&j->conditions, "Suspended", "False", "Resumed",
                           "spec.suspend is false"))
            act_event(j->out, false, "Resumed", "spec.suspend is false");
    }
}

static void condition_restarts(struct job *j)
{
    if (j->restarts > j->restarts_was)
        act_event(j->out, true, "Restarting",
                  "pods failed and are made anew (%" PRId64 " of %" PRId64 ")", j->restarts,
                  j->spec->backoff_limit);
}

/* --- the status, whole ------------------------------------------------------------------------ */

static void write_refs(const struct job_role *r, struct json_writer *w)
{
    jw_array(w, "refs");
    for (size_t i = 0; i < r->n; i++) {
        if (!r->pods[i].object)
            continue;
        jw_object(w, NULL);
        jw_str(w, "kind", "Pod");
        jw_str(w, "namespace", object_namespace(r->pods[i].object));
        jw_str(w, "name", object_name(r->pods[i].object));
        jw_str(w, "uid", object_uid(r->pods[i].object));
        jw_str(w, "apiVersion", "v1");
        jw_end(w);
    }
    jw_end(w);
}

static void write_role(const struct job *j, enum role role, struct json_writer *w)
{
    static const struct {
        const char *name;
        enum pod_state state;
    } rows[] = {{"pending", POD_PENDING}, {"starting", POD_STARTING},   {"running", POD_RUNNING},
                {"failed", POD_FAILED},   {"succeeded", POD_SUCCEEDED}, {"unknown", POD_UNKNOWN}};
    const struct job_role *r = &j->roles[role];
    if (!r->spec)
        return;
    jw_object(w, role_names[role]);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        jw_uint(w, rows[i].name, r->count[rows[i].state]);
    write_refs(r, w);
    jw_end(w);
}

static void write_status(struct job *j, struct bytes *out)
{
    struct json_writer w;
    jw_init(&w, out);
    jw_object(&w, NULL);
    jw_str(&w, "phase", j->phase);
    jw_str(&w, "mode", mode_names[j->mode]);
    if (j->message)
        jw_str(&w, "message", j->message);
    write_role(j, ROLE_PS, &w);
    write_role(j, ROLE_WORKER, &w);
    write_role(j, ROLE_HETER, &w);
    if (job_is_elastic(j))
        jw_str(&w, "elastic", j->elastic ? j->elastic : "NONE");
    jw_int(&w, "restarts", j->restarts);
    if (j->started_at)
        jw_str(&w, "startTime", j->started_at);
    if (j->ended_at)
        jw_str(&w, "completionTime", j->ended_at);
    jw_int(&w, "observedGeneration", j->conditions.generation);
    part_conditions_write(&j->conditions, &w);
    jw_end(&w);
}

/* When the first of its pods began, by the kubelet; NULL: nobody says so. */
static const char *first_begun(const struct job *j)
{
    const char *first = NULL;
    for (int r = 0; r < ROLE_N; r++)
        for (size_t i = 0; i < j->roles[r].n; i++) {
            const struct json *pod = j->roles[r].pods[i].object;
            const char *at = pod ? build_text(pod, "status", "startTime", NULL) : NULL;
            if (at && (!first || strcmp(at, first) < 0))
                first = at;
        }
    return first;
}

void job_status(struct job *j)
{
    cleanup_bytes struct bytes status = {0};
    part_time_text(view_now(j->v), j->now_text);
    if (is_phase(j, "Running") && !j->started_at)
        j->started_at = j->now_text;
    if (is_phase(j, "Completed") && !j->started_at) /* it ran while no operator did */
        j->started_at = first_begun(j);
    if (is_phase(j, "Suspended"))
        j->started_at = NULL; /* a queue counts from when it begins anew */
    if (is_phase(j, "Completed") || is_phase(j, "Failed"))
        j->ended_at = j->now_text;
    condition_suspended(j);
    condition_pods(j);
    condition_end(j);
    condition_restarts(j);
    write_status(j, &status);
    part_status(j->v, KIND_PADDLEJOB, &status, j->out);
}
