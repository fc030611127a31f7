/*
 * One run of a SampleJob.
 *
 * Its id with the servers follows from the job's uid, its options and the number of the try, so it
 * is posted once however often it is sent. Server 0 has it and gives the others their parts.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "hash.h"
#include "mem.h"
#include "object.h"
#include "samplejob-internal.h"

#define POLL_S        5
#define WAIT_S        10 /* for what cannot wake us: a set, another job */
#define SECRET_WAIT_S 15
#define RETRY_FIRST_S 10
#define RETRY_MOST_S  600
#define PARTS_SHOWN   1000

/* --- ids -------------------------------------------------------------------------------------- */

static char *base_of(const struct job_plan *p, const struct bytes *options)
{
    char hex[65];
    cleanup_free char *text = xasprintf("%s\n%s\n%s/%s\n%s", p->uid, p->spec->type, p->set_ns,
                                        p->set_name, options->data);
    sha256_hex(hex, text, strlen(text));
    return xasprintf("%s-%.12s", p->spec->type, hex);
}

/* The try that an id is of its base; 0: it is of another. */
static int64_t try_of(const char *id, const char *base)
{
    size_t len = strlen(base);
    if (!id || strncmp(id, base, len) != 0 || id[len] != '-' || !id[len + 1] ||
        id[len + 1 + strspn(id + len + 1, "0123456789")])
        return 0;
    return strtoll(id + len + 1, NULL, 10);
}

/* --- what it waits for ------------------------------------------------------------------------ */

static bool waits(struct job_plan *p, const char *reason, unsigned seconds, char *why)
{
    const char *was = part_condition_reason_was(&p->conditions, "Waiting");
    if (!was || strcmp(was, reason) != 0)
        act_event(p->out,
                  strcmp(reason, "DependencyRuns") != 0 && strcmp(reason, "SampleSetNotReady") != 0,
                  reason, "%s", why);
    part_condition(&p->conditions, "Waiting", "True", reason, "%s", why);
    job_text(&p->message, why);
    if (!strcmp(p->phase, "") || !strcmp(p->phase, "Waiting"))
        p->new_phase = "Waiting";
    job_again(p, seconds);
    return true;
}

static bool waits_for_jobs(struct job_plan *p)
{
    for (size_t i = 0; i < p->spec->depends_on.n; i++) {
        const char *name = p->spec->depends_on.items[i];
        const struct json *other = view_get(p->v, KIND_SAMPLEJOB, p->ns, name);
        struct json none = {0}, status = json_get(other ? other : &none, "status");
        const char *phase = part_text(&status, "phase");
        if (strcmp(name, p->name) == 0)
            return waits(p, "DependsOnItself", WAIT_S * 6,
                         xstrdup("dependsOn names the job itself (remove that)"));
        if (!other)
            return waits(p, "DependencyMissing", WAIT_S,
                         xasprintf("there is no SampleJob %s/%s (create it, or correct dependsOn)",
                                   p->ns, name));
        if (phase && (!strcmp(phase, "Failed") || !strcmp(phase, "Cancelled")))
            return waits(p, "DependencyFailed", WAIT_S,
                         xasprintf("SampleJob %s/%s did not succeed (mend it and make it anew, or "
                                   "delete this job)",
                                   p->ns, name));
        if (!phase || strcmp(phase, "Succeeded") != 0)
            return waits(p, "DependencyRuns", WAIT_S,
                         xasprintf("SampleJob %s/%s is not over yet", p->ns, name));
    }
    return false;
}

/* Work that makes a set listed may begin before it is. */
static bool waits_for_set(struct job_plan *p)
{
    struct json status = json_get(p->set, "status"), servers = json_get(&status, "runtimeStatus");
    const char *phase = part_text(&status, "phase");
    bool early = !strcmp(p->spec->type, "sync") || !strcmp(p->spec->type, "scan");
    bool ready = phase && (!strcmp(phase, "Ready") || !strcmp(phase, "PartialReady"));
    if (object_is_deleted(p->set))
        return waits(p, "SampleSetGoing", WAIT_S,
                     xasprintf("SampleSet %s/%s is being deleted", p->set_ns, p->set_name));
    if (!strcmp(p->spec->type, "scan") && p->set_spec->version && *p->set_spec->version)
        return waits(p, "VersionPinned", WAIT_S,
                     xasprintf("SampleSet %s/%s stays at version %.12s: nobody would see what a "
                               "scan finds (remove its spec.version)",
                               p->set_ns, p->set_name, p->set_spec->version));
    if (ready || (early && part_int(&servers, "readyReplicas") > 0))
        return false;
    return waits(p, "SampleSetNotReady", WAIT_S,
                 xasprintf("SampleSet %s/%s is not ready yet (kubectl describe sampleset -n %s %s "
                           "says what is missing)",
                           p->set_ns, p->set_name, p->set_ns, p->set_name));
}

const char *job_set_name(const struct job_plan *p)
{
    return !p->spec ? NULL : p->spec->set ? p->spec->set->name : p->spec->sample_set;
}

static const struct json *look_up(struct job_plan *p, char **why)
{
    const struct api_ref *ref = p->spec->set;
    const char *name = job_set_name(p);
    p->set = name ? part_find_set(p->v, p->ns, ref ? ref->namespace : NULL, name, why) : NULL;
    p->set_ns = p->set ? object_namespace(p->set) : NULL;
    p->set_name = p->set ? object_name(p->set) : NULL;
    return p->set;
}

static bool find_set(struct job_plan *p)
{
    char *why = NULL;
    if (!job_set_name(p))
        return waits(p, "NoSampleSet", WAIT_S * 6,
                     xstrdup("no set is named (set spec.sampleSetRef.name)")),
               false;
    if (!look_up(p, &why)) {
        if (part_is_new(p->v)) {
            free(why);
            job_again(p, 2);
            return false;
        }
        waits(p, "SampleSetMissing", WAIT_S, why ? why : xstrdup(""));
        return false;
    }
    free(why);
    struct json spec = json_get(p->set, "spec");
    void *read = NULL;
    if (api_read(api_sampleset.spec, &spec, &read, NULL)) {
        waits(p, "SampleSetInvalid", WAIT_S,
              xasprintf("the spec of SampleSet %s/%s cannot be used (its conditions say why)",
                        p->set_ns, p->set_name));
        return false;
    }
    p->set_spec = read;
    return true;
}

/* A set of another namespace is told of us, so that it knows who uses it. */
static void mark_set(struct job_plan *p)
{
    cleanup_free char *key = xasprintf("%s/%s", p->set_ns, p->set_name);
    const char *have = object_annotation(p->object, PART_SET_ANNOTATION);
    if (strcmp(p->set_ns, p->ns) == 0 || (have && strcmp(have, key) == 0))
        return;
    struct action *a = act_patch(p->out, KIND_SAMPLEJOB, p->ns, p->name, NULL);
    struct json_writer w;
    jw_init(&w, &a->body);
    jw_object(&w, NULL);
    jw_object(&w, "metadata");
    jw_object(&w, "annotations");
    jw_str(&w, PART_SET_ANNOTATION, key);
    jw_end(&w);
    jw_end(&w);
    jw_end(&w);
}

/* --- the servers' answer ---------------------------------------------------------------------- */

static void write_part(struct bytes *out, const struct json *row)
{
    struct json progress = json_get(row, "progress");
    const char *state = part_text(row, "state"), *error = part_text(row, "error");
    cleanup_free char *bytes = xasprintf("%" PRId64, part_int(&progress, "bytes"));
    struct json_writer w;
    if (out->len)
        bytes_add_char(out, ',');
    jw_init(&w, out);
    jw_object(&w, NULL);
    jw_int(&w, "partition", part_int(row, "partition"));
    if (state)
        jw_str(&w, "state", state);
    if (error && *error)
        jw_str(&w, "message", error);
    jw_int(&w, "items", part_int(&progress, "items"));
    jw_int(&w, "total", part_int(&progress, "total"));
    if (part_int(&progress, "bytes"))
        jw_str(&w, "bytes", bytes);
    jw_end(&w);
}

static void take_answer(struct job_plan *p, const struct json *job)
{
    struct json progress = json_get(job, "progress"), rows = json_get(job, "partitions");
    const char *started = part_text(job, "started"), *ended = part_text(job, "ended");
    double percent = 0;
    json_num(&progress, "percent", &percent, NULL);
    job_text(&p->progress, xasprintf("%.1f%% (%" PRId64 "/%" PRId64 ")", percent,
                                     part_int(&progress, "items"), part_int(&progress, "total")));
    if (started)
        job_text(&p->started, xstrdup(started));
    if (ended)
        job_text(&p->ended, xstrdup(ended));
    bytes_clear(&p->parts);
    for (size_t i = 0; i < json_count(&rows) && i < PARTS_SHOWN; i++) {
        struct json row = json_at(&rows, i);
        write_part(&p->parts, &row);
    }
}

/* --- posting and polling ---------------------------------------------------------------------- */

static char *job_url(const struct job_plan *p, const char *id)
{
    cleanup_free char *path = xasprintf("/v1/jobs%s%s", *id ? "/" : "", id);
    return part_server_url(p->set_ns, p->set_name, 0, path);
}

static void post(struct job_plan *p, const char *id)
{
    cleanup_wiped struct bytes options = {0};
    cleanup_free char *url = job_url(p, "");
    bool wait;
    if (!job_options(p, true, &options, &wait))
        return;
    struct action *a = act_send(&p->late, "POST", url);
    struct json_writer w;
    jw_init(&w, &a->body);
    jw_object(&w, NULL);
    jw_str(&w, "id", id);
    jw_str(&w, "type", job_wire_type(p));
    jw_raw(&w, "options", options.data);
    jw_end(&w);
    job_text(&p->job, xstrdup(id));
    job_text(&p->message, NULL);
    p->new_phase = "Pending";
    job_again(p, 1);
}

static void end_as(struct job_plan *p, const char *phase, const char *message)
{
    p->new_phase = phase;
    job_text(&p->message, message && *message ? xstrdup(message) : NULL);
    if (!p->ended) {
        p->ended = xmalloc(PART_TIME_BYTES);
        part_time_text(view_now(p->v), p->ended);
    }
    if (strcmp(phase, p->phase) == 0)
        return;
    if (strcmp(phase, "Failed") == 0)
        act_event(p->out, true, "JobFailed", "%s: %s", p->spec->type,
                  message && *message ? message : "it failed");
    else
        act_event(p->out, false, strcmp(phase, "Succeeded") ? "JobCancelled" : "JobSucceeded", "%s",
                  p->spec->type);
}

static void failed(struct job_plan *p, const char *base, int64_t tries, const struct json *job)
{
    const char *why = part_text(job, "error");
    int64_t wait = RETRY_FIRST_S, ended = part_time(part_text(job, "ended"));
    if (tries > p->spec->retries) {
        end_as(p, "Failed", why);
        return;
    }
    for (int64_t n = 1; n < tries && wait < RETRY_MOST_S; n++)
        wait *= 2;
    wait = wait < RETRY_MOST_S ? wait : RETRY_MOST_S;
    int64_t left = ended >= 0 ? ended + wait - view_now(p->v) : 0;
    p->new_phase = "Running";
    if (left > 0) {
        job_text(&p->message,
                 xasprintf("try %" PRId64 " failed, the next follows: %s", tries, why ? why : ""));
        job_text(&p->ended, NULL);
        job_again(p, (unsigned)left);
        return;
    }
    cleanup_free char *id = xasprintf("%s-%" PRId64, base, tries + 1);
    job_text(&p->ended, NULL);
    post(p, id);
}

/* No answer: the phase stays. */
static void unanswered(struct job_plan *p, const struct view_answer *a)
{
    const char *said = part_text(&a->body, "error");
    const char *was = part_condition_reason_was(&p->conditions, "ServerAnswers");
    if (a->status)
        part_condition(&p->conditions, "ServerAnswers", "False", "Refused", "server 0: %d: %s",
                       a->status, said ? said : "");
    else if (was && strcmp(was, "Unreachable") == 0)
        part_condition_keep(&p->conditions, "ServerAnswers"); /* why differs from try to try */
    else
        part_condition(&p->conditions, "ServerAnswers", "False", "Unreachable", "server 0: %s",
                       a->error ? a->error : "no answer");
    job_again(p, POLL_S);
}

static void take_state(struct job_plan *p, const char *base, int64_t tries, const struct json *job)
{
    const char *state = part_text(job, "state"), *why = part_text(job, "error");
    take_answer(p, job);
    if (!state || strcmp(state, "pending") == 0) {
        p->new_phase = "Pending";
    } else if (strcmp(state, "succeeded") == 0) {
        end_as(p, "Succeeded", NULL);
        return;
    } else if (strcmp(state, "failed") == 0) {
        failed(p, base, tries, job);
        return;
    } else if (strcmp(state, "cancelled") == 0) {
        end_as(p, "Cancelled", why && *why ? why : "it was cancelled at a server");
        return;
    } else {
        p->new_phase = "Running";
    }
    job_again(p, POLL_S);
}

static void follow(struct job_plan *p, const char *base, int64_t tries, bool posted)
{
    cleanup_free char *id = xasprintf("%s-%" PRId64, base, tries);
    cleanup_free char *url = job_url(p, id);
    const struct view_answer *a = view_fetch(p->v, url);
    if (!a)
        return;
    part_condition(&p->conditions, "ServerAnswers", "True", "Answers", "server 0 answers");
    job_text(&p->job, xstrdup(id));
    if (a->status == 404)
        post(p, id);
    else if (a->status == 200)
        take_state(p, base, tries, &a->body);
    else
        unanswered(p, a);
    if (!posted && !strcmp(p->new_phase, p->phase) && a->status != 200 && a->status != 404)
        p->new_phase = "Pending";
}

void job_run(struct job_plan *p)
{
    cleanup_bytes struct bytes options = {0};
    const char *was = part_text(&p->status, "jobName");
    bool wait = false, begun = was && *was;
    if (!find_set(p) || view_incomplete(p->v))
        return;
    mark_set(p);
    if (!job_options(p, false, &options, &wait)) {
        if (view_incomplete(p->v))
            return;
        if (wait)
            waits(p, "SecretUnusable", SECRET_WAIT_S,
                  xstrdup("the keys of the store cannot be had (the condition says why)"));
        else
            end_as(p, "Failed", "the options cannot be used (the condition OptionsValid says why)");
        return;
    }
    cleanup_free char *base = base_of(p, &options);
    int64_t tries = try_of(was, base);
    if (tries && job_is_over(p->phase)) { /* something else in its spec has changed */
        const char *said = part_text(&p->status, "message");
        job_text(&p->message, said ? xstrdup(said) : NULL);
        return;
    }
    if (!tries) { /* new, or its options have changed after it failed */
        begun = false;
        job_text(&p->ended, NULL);
        job_text(&p->started, NULL);
        job_text(&p->progress, NULL);
        bytes_clear(&p->parts);
        if (job_is_over(p->phase))
            p->phase = "";
    }
    if (!begun && (waits_for_jobs(p) || waits_for_set(p)))
        return;
    part_condition(&p->conditions, "Waiting", "False", "Begun", "all that it needs is there");
    follow(p, base, tries ? tries : 1, begun);
}

bool job_stop(struct job_plan *p)
{
    const char *was = part_text(&p->status, "jobName");
    if (!was || !*was || job_is_over(p->phase) || !look_up(p, NULL))
        return !view_incomplete(p->v);
    cleanup_free char *url = job_url(p, was);
    const struct view_answer *a = view_fetch(p->v, url);
    if (!a)
        return false;
    const char *state = part_text(&a->body, "state");
    if (a->status == 404 || (a->status == 200 && state && strcmp(state, "pending") != 0 &&
                             strcmp(state, "running") != 0 && strcmp(state, "paused") != 0)) {
        if (a->status == 200)
            take_answer(p, &a->body);
        return true;
    }
    if (a->status == 200)
        act_send(&p->late, "DELETE", url);
    job_again(p, 2);
    return false;
}
