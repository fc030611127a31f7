/* The servers of a set: their children, and the pods that there are. */
#include <stdlib.h>
#include <string.h>

#include "build-runtime.h"
#include "mem.h"
#include "object.h"
#include "sampleset-internal.h"

#define SERVERS "ServersReady"

/* --- pods ------------------------------------------------------------------------------------- */

/* The number behind the last '-' of a pod's name; -1: it is none of the StatefulSet's. */
static int64_t ordinal_of(const struct set_plan *p, const char *pod)
{
    size_t len = strlen(p->runtime);
    if (strncmp(pod, p->runtime, len) != 0 || pod[len] != '-')
        return -1;
    const char *digits = pod + len + 1;
    size_t n = strspn(digits, "0123456789");
    return n && n < 6 && !digits[n] ? strtol(digits, NULL, 10) : -1;
}

static void fill_row(struct set_plan *p, const struct json *pod)
{
    int64_t k = ordinal_of(p, object_name(pod));
    struct json spec = json_get(pod, "spec");
    if (k < 0 || (size_t)k >= p->n_rows || !part_is_child(pod, p->object))
        return;
    struct set_row *row = &p->rows[k];
    row->pod = pod;
    row->node = part_text(&spec, "nodeName");
    row->ready = row->node && !object_is_deleted(pod) && part_has_condition(pod, "Ready", "True");
    p->ready += row->ready;
}

void set_rows(struct set_plan *p)
{
    const struct json *sts = view_get(p->v, KIND_STATEFULSET, p->ns, p->runtime);
    struct json none = {0}, spec = json_get(sts ? sts : &none, "spec");
    if (sts && part_is_child(sts, p->object))
        p->replicas = part_int(&spec, "replicas");
    p->n_rows = (size_t)(p->replicas > p->spec->partitions ? p->replicas : p->spec->partitions);
    if (p->spec->autoscale && (size_t)p->spec->autoscale->max > p->n_rows)
        p->n_rows = (size_t)p->spec->autoscale->max;
    p->rows = xcalloc(p->n_rows, sizeof *p->rows);
    struct view_list pods = view_list(p->v, KIND_POD, p->ns, RUNTIME_POD_LABEL, p->runtime);
    for (size_t i = 0; i < pods.n; i++)
        fill_row(p, pods.items[i]);
    set_ask_servers(p);
}

void set_tell(struct set_plan *p, size_t k, const char *key, const char *value)
{
    cleanup_free char *url = part_server_url(p->ns, p->name, (int64_t)k, "/v1/settings");
    struct action *a = act_send(&p->late, "POST", url);
    struct json_writer w;
    jw_init(&w, &a->body);
    jw_object(&w, NULL);
    jw_str(&w, key, value);
    jw_end(&w);
}

/* --- children --------------------------------------------------------------------------------- */

static bool want(struct set_plan *p, enum kind kind, const char *name,
                 void (*build)(const struct set_plan *p, struct bytes *out))
{
    cleanup_free char *key = part_node_label(p->ns, p->name);
    cleanup_free char *set = xasprintf("%s/%s", p->ns, p->name);
    const struct part_pair labels[] = {{"app.kubernetes.io/name", "sampan-runtime"}, {key, "true"}};
    const struct part_pair notes[] = {{PART_SET_ANNOTATION, set}, {"sampan.io/scaled", p->scaled}};
    struct part_child child = {.kind = kind,
                               .ns = p->ns,
                               .name = name,
                               .labels = labels,
                               .n_labels = 2,
                               .annotations = notes,
                               .n_annotations = kind == KIND_STATEFULSET ? 2 : 1};
    build(p, &child.members);
    switch (part_want(p->v, &p->children, &child)) {
    case PART_CREATED:
    case PART_THERE:
        return true;
    case PART_GOING:
        plan_again(p, 5);
        part_condition(&p->conditions, SERVERS, "False", "Replacing",
                       "%s %s/%s is being deleted and will be made anew", kinds[kind].kind, p->ns,
                       name);
        return false;
    case PART_FOREIGN:
        part_condition_warn(&p->conditions, SERVERS, "NameTaken",
                            "%s %s/%s is not of this set (delete it, or give the set another name)",
                            kinds[kind].kind, p->ns, name);
        return false;
    case PART_BAD:
        part_condition_warn(&p->conditions, SERVERS, "InvalidSpec",
                            "nodeAffinity, tolerations or resources nest too deep");
        return false;
    }
    return false;
}

/* --- why they are not ready ------------------------------------------------------------------- */

#define REFUSED_S 10
#define SAID_MAX  300 /* bytes of what a server said at its end */

/* Its last end: the one that it is at, or the one before it waits. */
static struct json last_end(const struct json *container)
{
    struct json last = json_get(container, "lastState"), state = json_get(container, "state");
    struct json now = json_get(&state, "terminated"), before = json_get(&last, "terminated");
    return json_has(&now, "exitCode") ? now : before;
}

/* How it ended: " (exit code 1)". Shells and container runtimes count signals from 128 on. */
static void add_end(const struct json *end, struct bytes *out)
{
    const char *reason = part_text(end, "reason");
    long long code = part_int(end, "exitCode"), signal = part_int(end, "signal");
    signal = !signal && code > 128 && code < 128 + 65 ? code - 128 : signal;
    if (reason && strcmp(reason, "OOMKilled") == 0)
        bytes_add_str(out, " (OOMKilled: it needs more memory than its limit)");
    else if (signal)
        bytes_addf(out, " (killed by signal %lld)", signal);
    else if (json_has(end, "exitCode"))
        bytes_addf(out, " (exit code %lld)", code);
}

/* A line of our log that tells of no trouble: what goes on before a program is killed is no reason.
 * Text: "2026-11-22T15:49:53.123Z info serve: …". */
static bool is_no_trouble(const char *line, size_t len)
{
    static const char *const marks[] = {"Z info ", "Z debug ", "\"level\":\"info\"",
                                        "\"level\":\"debug\""};
    for (size_t i = 0; i < API_COUNT(marks); i++) {
        const char *at = memmem(line, len, marks[i], strlen(marks[i]));
        if (at && at - line < 64)
            return true;
    }
    return len == 0;
}

/* The last line that may say why, of the end of its log (terminationMessagePolicy). */
static void add_last_words(const struct json *end, struct bytes *out)
{
    const char *said = part_text(end, "message"), *line = NULL;
    size_t left = said ? strlen(said) : 0, len = 0;
    while (left) {
        const char *newline = memrchr(said, '\n', left);
        line = newline ? newline + 1 : said;
        len = left - (size_t)(line - said);
        while (len && line[len - 1] == ' ')
            len--;
        if (!is_no_trouble(line, len))
            break;
        left = newline ? (size_t)(newline - said) : 0;
    }
    if (!left)
        return;
    size_t past = len > SAID_MAX ? len - SAID_MAX : 0;
    while (((unsigned char)line[past] & 0xc0) == 0x80)
        past++; /* no half of a character */
    bytes_addf(out, ": %.*s", (int)(len - past), line + past);
}

/* What keeps a container from running, if it is more than that it has just been placed. */
static const char *held_by(const struct json *container)
{
    struct json state = json_get(container, "state"), waiting = json_get(&state, "waiting");
    const char *reason = part_text(&waiting, "reason");
    if (json_has(&state, "terminated"))
        return "CrashLoopBackOff"; /* about to be: one reason for both, so that it does not change
                                    */
    if (!reason || !strcmp(reason, "ContainerCreating") || !strcmp(reason, "PodInitializing"))
        return NULL;
    return reason;
}

static bool add_trouble(const struct json *pod, struct bytes *out)
{
    struct json status = json_get(pod, "status"), all = json_get(&status, "containerStatuses");
    for (size_t i = 0; i < json_count(&all); i++) {
        struct json container = json_at(&all, i);
        const char *reason = held_by(&container);
        if (!reason)
            continue;
        struct json end = last_end(&container);
        bytes_addf(out, "%s: %s", object_name(pod), reason);
        add_end(&end, out);
        add_last_words(&end, out);
        return true;
    }
    return false;
}

/* Made with this very decision, unless the API server refuses it: that is among our own events. */
static bool are_refused(const struct set_plan *p)
{
    return p->bound && !view_get(p->v, KIND_STATEFULSET, p->ns, p->runtime) &&
           view_now(p->v) - part_condition_since(&p->conditions, SERVERS, "False") > REFUSED_S;
}

/* Those that only start are told as well: what keeps them is among the events of the pod, or, where
 * none may be made (a quota, the level of the namespace), of the StatefulSet. */
static void tell_servers(struct set_plan *p)
{
    cleanup_bytes struct bytes why = {0};
    const char *kind = "pod", *waits = NULL;
    bool trouble = false;
    for (size_t k = 0; k < p->n_rows && (int64_t)k < p->partitions && !trouble; k++) {
        const struct set_row *row = &p->rows[k];
        /* One that is being replaced ends because it was told to. */
        trouble =
            row->pod && !row->ready && !object_is_deleted(row->pod) && add_trouble(row->pod, &why);
        if (!waits && row->node && !row->ready)
            waits = object_name(row->pod);
        if (!waits && !row->pod && (int64_t)k < p->replicas) {
            kind = "statefulset";
            waits = p->runtime;
        }
    }
    if (!waits && are_refused(p)) {
        kind = "sampleset";
        waits = p->name;
    }
    if (p->ready == p->partitions && p->replicas == p->partitions)
        part_condition(&p->conditions, SERVERS, "True", "Ready", "%lld of %lld servers are ready",
                       (long long)p->ready, (long long)p->partitions);
    else if (trouble)
        part_condition_warn(&p->conditions, SERVERS, "ServerFails", "%s", why.data);
    else
        part_condition(&p->conditions, SERVERS, "False", "Starting",
                       "%lld of %lld servers are ready%s%s%s%s%s", (long long)p->ready,
                       (long long)p->partitions, waits ? " (kubectl describe " : "",
                       waits ? kind : "", waits ? " " : "", waits ? waits : "",
                       waits ? " tells what one waits for)" : "");
}

/* Pods that come before their claim is bound would be told to be unschedulable. */
static bool want_pods(struct set_plan *p)
{
    if (!p->bound && !view_get(p->v, KIND_STATEFULSET, p->ns, p->runtime))
        return true;
    return want(p, KIND_STATEFULSET, p->runtime, build_statefulset);
}

/* Their token is not ours: the operator's key is not the one that it was made of. */
static bool token_is_refused(const struct set_plan *p)
{
    for (size_t k = 0; k < p->n_rows; k++)
        if (p->rows[k].answer && p->rows[k].answer->status == 401)
            return true;
    return false;
}

/* Secrets are not watched, so each look is a request: servers that all run and take our token need
 * none of theirs. One that starts anew without it is not ready, and then it is made. */
static bool want_token(struct set_plan *p)
{
    cleanup_free char *token = build_token_name(p);
    if (p->ready == p->partitions && p->replicas == p->partitions && !token_is_refused(p))
        return true;
    return want(p, KIND_SECRET, token, build_token);
}

void set_servers(struct set_plan *p)
{
    if (!want_token(p) || !want(p, KIND_SERVICE, p->service, build_service) || !want_pods(p))
        return;
    tell_servers(p);
}
