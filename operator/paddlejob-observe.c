/* What is there: the job as its user wrote it, and its pods. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mem.h"
#include "object.h"
#include "paddlejob-internal.h"

const char *const role_names[ROLE_N] = {"ps", "worker", "heter"};

/* --- a pod ------------------------------------------------------------------------------------ */

/* Every container is ready, and there is one. */
static bool is_ready(const struct json *pod)
{
    struct json all = build_at(pod, "status", "containerStatuses", NULL);
    for (size_t i = 0; i < json_count(&all); i++) {
        struct json c = json_at(&all, i);
        if (!part_flag(&c, "ready"))
            return false;
    }
    return json_count(&all) > 0;
}

static enum pod_state state_of(const struct json *pod)
{
    const char *phase = build_text(pod, "status", "phase", NULL);
    const char *reason = build_text(pod, "status", "reason", NULL);
    if (!phase || strcmp(phase, "Pending") == 0)
        return build_text(pod, "spec", "nodeName", NULL) ? POD_STARTING : POD_PENDING;
    if (strcmp(phase, "Succeeded") == 0)
        return POD_SUCCEEDED;
    if (strcmp(phase, "Failed") == 0)
        return POD_FAILED;
    if (strcmp(phase, "Running") != 0 || (reason && strcmp(reason, "NodeLost") == 0) ||
        part_has_condition(pod, "Ready", "Unknown"))
        return POD_UNKNOWN;
    if (!is_ready(pod))
        return POD_STARTING;
    /* Said of a pod whose containers were ready when its node was heard of last. */
    return part_has_condition(pod, "Ready", "False") ? POD_UNKNOWN : POD_RUNNING;
}

/* Has the barrier let it go? Its own containers have what was in the ConfigMap then. */
static bool passed_barrier(const struct json *pod)
{
    struct json all = build_at(pod, "status", "initContainerStatuses", NULL);
    for (size_t i = 0; i < json_count(&all); i++) {
        struct json c = json_at(&all, i);
        const char *name = part_text(&c, "name");
        if (name && strcmp(name, BUILD_BARRIER) == 0)
            return build_int(-1, &c, "state", "terminated", "exitCode", NULL) == 0;
    }
    return false;
}

static int64_t note(const struct json *pod, const char *key)
{
    const char *text = object_annotation(pod, key);
    return text ? strtoll(text, NULL, 10) : 0;
}

static void see_pod(struct job_pod *p, const struct json *pod)
{
    p->object = pod;
    p->going = object_is_deleted(pod);
    p->state = p->going ? POD_MISSING : state_of(pod);
    p->attempt = note(pod, ATTEMPT_NOTE);
    p->counted = note(pod, COUNTED_NOTE);
    p->np = note(pod, NP_NOTE);
    p->ip = build_text(pod, "status", "podIP", NULL);
    p->peers = object_annotation(pod, PEERS_NOTE);
    p->waits = (p->state == POD_PENDING || p->state == POD_STARTING) && !passed_barrier(pod);
}

/* --- the roles -------------------------------------------------------------------------------- */

static int read_template(struct job_role *r, enum role role, struct err *err)
{
    if (!r->spec->template)
        return 0;
    cleanup_free char *what = xasprintf("spec.%s.template", role_names[role]);
    if (json_parse(&r->doc, what, r->spec->template, strlen(r->spec->template), err))
        return -1;
    r->template = json_root(r->doc);
    return 0;
}

static int see_role(struct job *j, enum role role, const struct paddlejob_role *spec,
                    struct err *err)
{
    struct job_role *r = &j->roles[role];
    if (!spec)
        return 0;
    r->spec = spec;
    r->n = (size_t)spec->replicas;
    r->pods = xcalloc(r->n + 1, sizeof *r->pods);
    for (size_t i = 0; i < r->n; i++)
        r->pods[i].name = part_name(PART_NAME_MAX, "%s-%s-%zu", j->name, role_names[role], i);
    return read_template(r, role, err);
}

/* Its place by its labels; NULL: the spec has none for it. */
static struct job_pod *place_of(struct job *j, const struct json *pod)
{
    const char *role = object_label(pod, ROLE_LABEL), *index = object_label(pod, INDEX_LABEL);
    for (int r = 0; role && index && r < ROLE_N; r++) {
        size_t i = strtoul(index, NULL, 10);
        if (strcmp(role, role_names[r]) == 0 && i < j->roles[r].n)
            return &j->roles[r].pods[i];
    }
    return NULL;
}

static void see_pods(struct job *j)
{
    struct view_list all = view_list(j->v, KIND_POD, j->ns, PART_OWNER_LABEL, j->uid);
    j->extra = xcalloc(all.n + 1, sizeof(*j->extra));
    for (size_t i = 0; i < all.n; i++) {
        struct job_pod *p = place_of(j, all.items[i]);
        if (p)
            see_pod(p, all.items[i]);
        else
            j->extra[j->n_extra++] = all.items[i];
    }
    for (int r = 0; r < ROLE_N; r++)
        for (size_t i = 0; j->roles[r].pods && i < j->roles[r].n; i++)
            j->roles[r].count[j->roles[r].pods[i].state]++;
}

static void see_restarts(struct job *j)
{
    j->restarts_was = j->restarts = part_int(&j->was, "restarts");
    for (int r = 0; r < ROLE_N; r++)
        for (size_t i = 0; i < j->roles[r].n; i++)
            if (j->roles[r].pods[i].counted > j->restarts)
                j->restarts = j->roles[r].pods[i].counted;
}

/* --- the job ---------------------------------------------------------------------------------- */

static enum intranet intranet_of(const char *text)
{
    if (text && strcmp(text, "Service") == 0)
        return NET_SERVICE;
    return text && strcmp(text, "Host") == 0 ? NET_HOST : NET_POD_IP;
}

int job_observe(struct job *j, struct err *err)
{
    struct json spec = json_get(j->object, "spec");
    void *read = NULL;
    if (api_read(api_paddlejob.spec, &spec, &read, err))
        return -1;
    j->spec = read;
    j->net = intranet_of(j->spec->intranet);
    if (see_role(j, ROLE_PS, j->spec->ps, err) || see_role(j, ROLE_WORKER, j->spec->worker, err) ||
        see_role(j, ROLE_HETER, j->spec->heter, err))
        return -1;
    j->mode = j->roles[ROLE_PS].n           ? MODE_PS
              : j->roles[ROLE_WORKER].n > 1 ? MODE_COLLECTIVE
                                            : MODE_SINGLE;
    const char *started = part_text(&j->was, "startTime");
    j->started = started != NULL;
    j->started_at = started;
    see_pods(j);
    see_restarts(j);
    return 0;
}

void job_release(struct job *j)
{
    for (int r = 0; r < ROLE_N; r++) {
        for (size_t i = 0; i < j->roles[r].n && j->roles[r].pods; i++)
            free(j->roles[r].pods[i].name);
        free(j->roles[r].pods);
        json_doc_free(j->roles[r].doc);
    }
    api_free(api_paddlejob.spec, j->spec);
    part_conditions_release(&j->conditions);
    actions_release(&j->children);
    free(j->extra);
    free(j->claim);
    free(j->output_claim);
    free(j->all);
    free(j->core);
    free(j->message);
}

bool job_is_elastic(const struct job *j)
{
    return j->spec->elastic >= 0;
}

size_t job_pods(const struct job *j)
{
    size_t n = 0;
    for (int r = 0; r < ROLE_N; r++)
        n += j->roles[r].n;
    return n;
}

size_t job_count(const struct job *j, enum pod_state state)
{
    size_t n = 0;
    for (int r = 0; r < ROLE_N; r++)
        n += j->roles[r].count[state];
    return n;
}

enum role job_deciding_role(const struct job *j)
{
    return j->roles[ROLE_WORKER].n ? ROLE_WORKER : ROLE_PS;
}

/* Workers end by themselves; servers never do. */
bool job_is_complete(const struct job *j)
{
    const struct job_role *r = &j->roles[job_deciding_role(j)];
    return r->n > 0 && r->count[POD_SUCCEEDED] == r->n;
}

char *job_why_failed(const struct job *j, const struct job_pod *pod)
{
    const char *node = build_text(pod->object, "spec", "nodeName", NULL);
    const char *reason = build_text(pod->object, "status", "reason", NULL);
    struct json all = build_at(pod->object, "status", "containerStatuses", NULL);
    (void)j;
    for (size_t i = 0; i < json_count(&all); i++) {
        struct json c = json_at(&all, i);
        int64_t code = build_int(0, &c, "state", "terminated", "exitCode", NULL);
        const char *why = build_text(&c, "state", "terminated", "reason", NULL);
        if (code)
            return xasprintf("pod %s ended with %" PRId64 "%s%s%s%s%s", pod->name, code,
                             why ? " (" : "", why ? why : "", why ? ")" : "", node ? " on " : "",
                             node ? node : "");
    }
    return xasprintf("pod %s failed%s%s%s%s", pod->name, reason ? ": " : "", reason ? reason : "",
                     node ? " on " : "", node ? node : "");
}

void job_says(struct job *j, const char *fmt, ...)
{
    va_list ap;
    if (j->message)
        return;
    va_start(ap, fmt);
    j->message = xvasprintf(fmt, ap);
    va_end(ap);
}

void job_again(struct job *j, int64_t after_s)
{
    unsigned s = after_s < 1 ? 1 : after_s > 86400 ? 86400 : (unsigned)after_s;
    if (!j->again_s || s < j->again_s)
        j->again_s = s;
}
