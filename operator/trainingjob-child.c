/* Replica sets, jobs and services of a TrainingJob. */
#include <stdlib.h>
#include <string.h>

#include "mem.h"
#include "object.h"
#include "trainingjob-internal.h"

/* --- the template of the pods ----------------------------------------------------------------- */

static void write_raw(struct json_writer *w, const char *key, const char *json)
{
    if (json)
        jw_raw(w, key, json);
}

static void write_envs(struct json_writer *w, const char *envs)
{
    cleanup_json struct json_doc *doc = NULL;
    if (!envs || json_parse(&doc, "envs", envs, strlen(envs), NULL))
        return;
    struct json map = json_root(doc);
    jw_array(w, "env");
    for (size_t i = 0; i < json_count(&map); i++) {
        struct json e = json_member(&map, i);
        const char *text;
        cleanup_bytes struct bytes other = {0};
        if (json_as_str(&e, &text, NULL)) {
            json_text(&e, &other);
            text = other.data;
        }
        jw_object(w, NULL);
        jw_str(w, "name", e.key);
        jw_str(w, "value", text);
        jw_end(w);
    }
    jw_end(w);
}

static void write_shell(struct json_writer *w, const char *key, const char *command)
{
    jw_array(w, key);
    jw_str(w, NULL, "sh");
    jw_str(w, NULL, "-c");
    jw_str(w, NULL, command);
    jw_end(w);
}

static void write_container(const struct training *t, const struct training_child *c,
                            struct json_writer *w)
{
    const struct trainingjob_role *r = c->role;
    jw_object(w, NULL);
    jw_str(w, "name", c->container);
    jw_str(w, "image", c->image);
    if (c->command)
        write_shell(w, "command", c->command);
    if (r && r->workspace)
        jw_str(w, "workingDir", r->workspace);
    write_envs(w, r ? r->envs : NULL);
    write_raw(w, "resources", c->resources ? c->resources : r ? r->resources : NULL);
    write_raw(w, "volumeMounts", t->spec->volume_mounts);
    write_raw(w, "livenessProbe", r ? r->liveness : NULL);
    write_raw(w, "readinessProbe", r ? r->readiness : NULL);
    if (r && r->pre_stop) {
        jw_object(w, "lifecycle");
        jw_object(w, "preStop");
        jw_object(w, "exec");
        write_shell(w, "command", r->pre_stop);
        jw_end(w);
        jw_end(w);
        jw_end(w);
    }
    jw_end(w);
}

/* As a user would have written it: the builder of all pods adds the rest. */
static void write_template(const struct training *t, const struct training_child *c,
                           struct bytes *out)
{
    const struct trainingjob_role *r = c->role;
    struct json_writer w;
    jw_init(&w, out);
    jw_object(&w, NULL);
    jw_object(&w, "spec");
    jw_array(&w, "containers");
    write_container(t, c, &w);
    if (c->sidecar)
        jw_raw(&w, NULL, c->sidecar);
    jw_end(&w);
    write_raw(&w, "volumes", t->spec->volumes);
    write_raw(&w, "imagePullSecrets", t->spec->image_pull_secrets);
    write_raw(&w, "tolerations", r ? r->tolerations : NULL);
    write_raw(&w, "nodeSelector", r ? r->node_selector : NULL);
    write_raw(&w, "affinity", r ? r->affinity : NULL);
    if (r && r->grace_s >= 0)
        jw_int(&w, "terminationGracePeriodSeconds", r->grace_s);
    jw_end(&w);
    jw_end(&w);
}

static void write_labels(const struct training *t, const char *label, const char *value, bool all,
                         struct json_writer *w, const char *key)
{
    jw_object(w, key);
    if (all)
        jw_str(w, MANAGED_KEY, MANAGED_BY);
    jw_str(w, PART_OWNER_LABEL, t->uid);
    jw_str(w, label, value);
    jw_end(w);
}

static void write_pods(const struct training *t, const struct training_child *c,
                       struct json_writer *w)
{
    cleanup_bytes struct bytes text = {0};
    cleanup_json struct json_doc *doc = NULL;
    struct json template = {0};
    write_template(t, c, &text);
    if (json_parse(&doc, c->name, text.data, text.len, NULL) == 0)
        template = json_root(doc);
    struct build_pod b = {.template = &template,
                          .env = c->env,
                          .restart_policy = c->kind == KIND_JOB ? "Never" : "Always",
                          .host_network = t->spec->host_network,
                          .port = c->port,
                          .n_ports = c->n_ports};
    jw_object(w, "template");
    jw_object(w, "metadata");
    write_labels(t, c->label, c->label_value, true, w, "labels");
    jw_end(w);
    build_pod_spec(w, &b);
    jw_end(w);
}

/* --- children --------------------------------------------------------------------------------- */

static void name_taken(struct training *t, const char *kind, const char *name)
{
    part_condition_warn(&t->conditions, "Valid", "NameTaken",
                        "the %s %s is somebody else's (delete it, or rename the job)", kind, name);
}

static void remember(struct training *t, const char *name)
{
    t->names = xrealloc(t->names, (t->wanted + 1) * sizeof *t->names);
    t->names[t->wanted++] = xstrdup(name);
}

static bool is_up(struct training *t, const struct training_child *c)
{
    const struct json *o = view_get(t->v, c->kind, t->ns, c->name);
    return o && build_int(0, o, "status", "readyReplicas", NULL) >= c->replicas;
}

void training_want(struct training *t, const struct training_child *c)
{
    bool job = c->kind == KIND_JOB;
    const struct part_pair labels[] = {{c->label, c->label_value}};
    struct part_child child = {.kind = c->kind,
                               .ns = t->ns,
                               .name = c->name,
                               .labels = labels,
                               .n_labels = 1,
                               .fixed = job};
    struct json_writer w;
    jw_init(&w, &child.members);
    jw_object(&w, NULL);
    jw_object(&w, "spec");
    if (job) {
        jw_int(&w, "parallelism", c->replicas);
        if (!c->elastic)
            jw_int(&w, "completions", c->replicas);
        jw_int(&w, "backoffLimit", c->backoff);
    } else {
        jw_int(&w, "replicas", c->replicas);
        jw_object(&w, "selector");
        write_labels(t, c->label, c->label_value, false, &w, "matchLabels");
        jw_end(&w);
    }
    write_pods(t, c, &w);
    jw_end(&w);
    jw_end(&w);
    if (part_want(t->v, &t->children, &child) == PART_FOREIGN)
        name_taken(t, kinds[c->kind].kind, c->name);
    if (!job) {
        remember(t, c->name);
        t->ready += is_up(t, c);
    }
}

void training_want_service(struct training *t, const char *name, const char *label,
                           const char *value, int64_t port, const char *type)
{
    const struct part_pair labels[] = {{label, value}};
    struct part_child child = {.kind = KIND_SERVICE,
                               .ns = t->ns,
                               .name = name,
                               .labels = labels,
                               .n_labels = 1,
                               .fixed = true};
    struct json_writer w;
    jw_init(&w, &child.members);
    jw_object(&w, NULL);
    jw_object(&w, "spec");
    if (type)
        jw_str(&w, "type", type);
    write_labels(t, label, value, false, &w, "selector");
    jw_array(&w, "ports");
    jw_object(&w, NULL);
    jw_str(&w, "name", "p-0");
    jw_int(&w, "port", port);
    jw_end(&w);
    jw_end(&w);
    jw_end(&w);
    jw_end(&w);
    if (part_want(t->v, &t->children, &child) == PART_FOREIGN)
        name_taken(t, "Service", name);
}

static bool is_wanted(const struct training *t, const char *name)
{
    for (size_t i = 0; i < t->wanted; i++)
        if (strcmp(t->names[i], name) == 0)
            return true;
    return false;
}

void training_drop_others(struct training *t)
{
    static const enum kind made[] = {KIND_REPLICASET, KIND_SERVICE};
    for (size_t k = 0; k < 2; k++) {
        struct view_list all = view_list(t->v, made[k], t->ns, PART_OWNER_LABEL, t->uid);
        for (size_t i = 0; i < all.n; i++) {
            const char *name = object_name(all.items[i]);
            if (!is_wanted(t, name) && !object_is_deleted(all.items[i]))
                act_delete(&t->children, made[k], t->ns, name, object_uid(all.items[i]));
        }
    }
}
