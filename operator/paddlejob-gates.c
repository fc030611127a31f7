/*
 * What pods wait for before they are made: ports on nodes, the samples, their group's turn, and for
 * an elastic job a clean place in etcd (paddlejob-etcd.c).
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "hash.h"
#include "mem.h"
#include "object.h"
#include "paddlejob-internal.h"
#include "sampler.h"

void job_annotate(struct job *j, const char *key, const char *value)
{
    struct json_writer w;
    struct action *a = act_patch(&j->children, KIND_PADDLEJOB, j->ns, j->name, NULL);
    jw_init(&w, &a->body);
    jw_object(&w, NULL);
    jw_object(&w, "metadata");
    jw_object(&w, "annotations");
    jw_str(&w, key, value);
    jw_end(&w);
    jw_end(&w);
    jw_end(&w);
}

static bool has_pods(const struct job *j)
{
    return job_count(j, POD_MISSING) < job_pods(j);
}

/* --- ports on nodes --------------------------------------------------------------------------- */

/*
 * On the host's network each role has POD_PORTS ports, so a job has ROLE_N times as many in a row,
 * and no two jobs have the same. A job looks from a place that follows from its uid, takes the
 * first row that nobody has, and writes it down. Two that decided at once may have the same row:
 * whoever sees that and has no pods yet takes another. Pods of one role never share a node: they
 * declare their first port as one of the host, and the scheduler keeps them apart.
 */
#define JOB_PORTS (ROLE_N * POD_PORTS)

struct ports {
    int64_t *first; /* of each other job that is not over */
    size_t n;
};

static struct ports ports_of_others(struct job *j)
{
    struct view_list jobs = view_list(j->v, KIND_PADDLEJOB, NULL, NULL, NULL);
    struct ports p = {.first = xcalloc(jobs.n + 1, sizeof *p.first)};
    for (size_t i = 0; i < jobs.n; i++) {
        const char *uid = object_uid(jobs.items[i]),
                   *text = object_annotation(jobs.items[i], PORT_NOTE);
        const char *phase = build_text(jobs.items[i], "status", "phase", NULL);
        int64_t theirs = text ? strtoll(text, NULL, 10) : 0;
        bool ended = phase && (strcmp(phase, "Completed") == 0 || strcmp(phase, "Failed") == 0);
        if (theirs && !ended && (!uid || strcmp(uid, j->uid) != 0))
            p.first[p.n++] = theirs;
    }
    return p;
}

static bool is_taken(const struct ports *others, int64_t port)
{
    for (size_t i = 0; i < others->n; i++)
        if (llabs(others->first[i] - port) < JOB_PORTS)
            return true;
    return false;
}

/* 0: all are taken. */
static int64_t free_port(const struct job *j, const struct ports *others)
{
    int64_t rows = ((int64_t)j->config->port_to - j->config->port_from + 1) / JOB_PORTS;
    if (rows < 1)
        return 0;
    int64_t first = (int64_t)(hash64(j->uid, strlen(j->uid), 0) % (uint64_t)rows);
    for (int64_t i = 0; i < rows; i++) {
        int64_t port = j->config->port_from + (first + i) % rows * JOB_PORTS;
        if (!is_taken(others, port))
            return port;
    }
    return 0;
}

static bool gate_ports(struct job *j)
{
    const char *text = object_annotation(j->object, PORT_NOTE);
    if (j->net != NET_HOST)
        return true;
    j->port = text ? strtoll(text, NULL, 10) : 0;
    if (j->port && has_pods(j))
        return true;
    struct ports others = ports_of_others(j);
    bool mine = j->port && !is_taken(&others, j->port);
    int64_t port = mine ? j->port : free_port(j, &others);
    free(others.first);
    if (mine)
        return true;
    char number[24];
    snprintf(number, sizeof number, "%" PRId64, port);
    if (strcmp(number, "0") == 0) {
        part_condition_warn(
            &j->conditions, "PortsReady", "NoPorts",
            "all ports %u to %u are taken by jobs with intranet: Host (wait for one "
            "to end, use intranet: Service, or start the operator with --port-from and --port-to "
            "further apart)",
            j->config->port_from, j->config->port_to);
        job_says(j, "waits for free ports on nodes");
        job_again(j, 30);
        return false;
    }
    job_annotate(j, PORT_NOTE, number);
    job_says(j, "waits for its ports on nodes");
    return false;
}

int64_t job_port(const struct job *j, enum role role)
{
    return j->net == NET_HOST ? j->port + role * POD_PORTS : POD_PORT;
}

/* --- a group of Volcano's --------------------------------------------------------------------- */

/* A template that names another scheduler wants no group. */
static bool wants_group(const struct job *j)
{
    for (int r = 0; r < ROLE_N; r++) {
        const char *name = build_text(&j->roles[r].template, "spec", "schedulerName", NULL);
        if (name && *name && strcmp(name, "volcano") != 0)
            return false;
    }
    return j->config->volcano;
}

static void write_group(const struct job *j, struct bytes *out)
{
    const struct paddlejob_scheduling *s = j->spec->scheduling;
    struct build_sum sum = {0};
    struct json_writer w;
    int64_t least = s && s->min_available >= 0 ? s->min_available : (int64_t)job_pods(j);
    jw_init(&w, out);
    jw_object(&w, NULL);
    jw_object(&w, "spec");
    jw_int(&w, "minMember", least);
    if (s && s->queue)
        jw_str(&w, "queue", s->queue);
    if (s && s->priority)
        jw_str(&w, "priorityClassName", s->priority);
    for (int r = 0; r < ROLE_N; r++)
        build_sum_add(&sum, &j->roles[r].template, (int64_t)j->roles[r].n);
    if (s && s->min_resources)
        jw_raw(&w, "minResources", s->min_resources);
    else
        build_sum_write(&sum, &w, "minResources");
    build_sum_release(&sum);
    jw_end(&w);
    jw_end(&w);
}

/* Only Volcano gives a group its phase; where the kind is not known the group is never made. A job
 * that has pods does not wait: those that it lacks are made whatever the group's phase. */
static void say_group_waits(struct job *j, const char *phase)
{
    if (phase)
        part_condition(&j->conditions, "PodGroupReady", "False", "Waiting",
                       "the PodGroup %s is %s: its queue has no room yet", j->name, phase);
    else
        part_condition(&j->conditions, "PodGroupReady", "False", "Waiting",
                       "the PodGroup %s is new: Volcano has not looked at it yet (kubectl get "
                       "podgroup %s says whether it is there; does Volcano run?)",
                       j->name, j->name);
    if (!has_pods(j))
        job_says(j, phase ? "waits in the queue of its PodGroup"
                          : "waits for Volcano to look at its PodGroup");
}

static bool gate_group(struct job *j)
{
    j->grouped = wants_group(j);
    if (!j->grouped)
        return true;
    struct part_child child = {.kind = KIND_PODGROUP, .ns = j->ns, .name = j->name};
    write_group(j, &child.members);
    if (part_want(j->v, &j->children, &child) == PART_FOREIGN) {
        part_condition_warn(&j->conditions, "PodGroupReady", "NameTaken",
                            "the PodGroup %s is somebody else's (delete it, or rename the job)",
                            j->name);
        return false;
    }
    const struct json *group = view_get(j->v, KIND_PODGROUP, j->ns, j->name);
    const char *phase = group ? build_text(group, "status", "phase", NULL) : NULL;
    if (phase && (strcmp(phase, "Inqueue") == 0 || strcmp(phase, "Running") == 0)) {
        part_condition(&j->conditions, "PodGroupReady", "True", phase, "it is the group's turn");
        return true;
    }
    say_group_waits(j, phase);
    return has_pods(j);
}

void job_drop_group(struct job *j)
{
    const struct json *group =
        j->config->volcano ? view_get(j->v, KIND_PODGROUP, j->ns, j->name) : NULL;
    if (group && part_is_child(group, j->object) && !object_is_deleted(group))
        act_delete(&j->children, KIND_PODGROUP, j->ns, j->name, object_uid(group));
}

/* --- the hint of an order --------------------------------------------------------------------- */

static const char *made_at(const struct json *o)
{
    const char *text = build_text(o, "metadata", "creationTimestamp", NULL);
    return text ? text : "";
}

bool job_is_later(const struct json *a, const struct json *b)
{
    int made = strcmp(made_at(a), made_at(b));
    int ns = made ? made : strcmp(object_namespace(a), object_namespace(b));
    return (ns ? ns : strcmp(object_name(a), object_name(b))) > 0;
}

/* Will that job begin to read our set, by itself? */
static bool will_read(const struct job *j, const struct json *other)
{
    struct json spec = json_get(other, "spec"), status = json_get(other, "status");
    struct json ref = json_get(&spec, "sampleSetRef");
    const char *name = part_text(&ref, "name"), *ns = part_text(&ref, "namespace");
    if (!name || strcmp(name, object_name(j->set)) != 0 || object_is_deleted(other) ||
        part_flag(&spec, "suspend") || json_has(&status, "startTime") ||
        json_has(&status, "completionTime") || part_has_condition(other, "Valid", "False"))
        return false;
    const struct json *set =
        part_find_set(j->v, object_namespace(other), ns && *ns ? ns : NULL, name, NULL);
    return set && strcmp(object_uid(set), object_uid(j->set)) == 0;
}

/* Of several jobs that wait for one set the last one has the say: two would take turns for ever. */
static bool has_the_say(const struct job *j)
{
    struct view_list all = view_list(j->v, KIND_PADDLEJOB, NULL, MARK_USES, object_name(j->set));
    for (size_t i = 0; i < all.n; i++)
        if (strcmp(object_uid(all.items[i]), j->uid) != 0 && will_read(j, all.items[i]) &&
            job_is_later(all.items[i], j->object))
            return false;
    return true;
}

/* The set is told how the job will read it, once, before its first pod. */
static void hint_sampler(struct job *j)
{
    int64_t devices = build_devices(&j->roles[ROLE_WORKER].template);
    int64_t workers = (int64_t)j->roles[ROLE_WORKER].n;
    if (!j->set || !workers || has_pods(j) || j->started)
        return;
    cleanup_free char *hint = sampler_note(j->spec->sampler, workers, devices);
    const char *there = object_annotation(j->set, SAMPLER_NOTE);
    if ((there && strcmp(there, hint) == 0) || !has_the_say(j))
        return;
    struct json_writer w;
    struct action *a = act_patch(&j->children, KIND_SAMPLESET, object_namespace(j->set),
                                 object_name(j->set), NULL);
    jw_init(&w, &a->body);
    jw_object(&w, NULL);
    jw_object(&w, "metadata");
    jw_object(&w, "annotations");
    jw_str(&w, SAMPLER_NOTE, hint);
    jw_end(&w);
    jw_end(&w);
    jw_end(&w);
}

bool job_gates(struct job *j)
{
    bool claims = job_claims(j);
    if (claims)
        hint_sampler(j);
    /* Each says what it waits for, so that a user sees all at once. */
    bool samples = claims && job_samples_ready(j);
    bool ports = gate_ports(j);
    bool group = samples && ports && gate_group(j);
    return group && job_gate_etcd(j);
}
