/*
 * Style edl: masters and servers in ReplicaSets, trainers in a Job. It starts with the fewest
 * trainers; trainingjob-scale.c says how many there are later. A server that was started again too
 * often fails the job.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "mem.h"
#include "object.h"
#include "trainingjob-internal.h"

#define MASTER_PORT  8080
#define ETCD_PORT    2379
#define SERVER_LABEL "paddle-job-pserver"
#define RESTARTS     "sampan.io/pserver-restarts" /* annotation: how often a server may start again */
#define RESTARTS_OK  5                            /* without it */

static int64_t devices(const struct trainingjob_role *r)
{
    cleanup_json struct json_doc *doc = NULL;
    cleanup_free char *text = xasprintf("{\"spec\":{\"containers\":[{\"resources\":%s}]}}",
                                        r->resources ? r->resources : "{}");
    if (json_parse(&doc, "resources", text, strlen(text), NULL))
        return 0;
    struct json template = json_root(doc);
    return build_devices(&template);
}

static void common_env(const struct training *t, const struct trainingjob_role *r,
                       struct pairs *env)
{
    const struct trainingjob_spec *s = t->spec;
    int64_t gpus = devices(s->trainer);
    pairs_add(env, "PADDLE_JOB_NAME", "%s", t->name);
    pairs_add(env, "TRAINERS", "%" PRId64, s->trainer->min);
    pairs_add(env, "PSERVERS", "%" PRId64, s->pserver && !s->local ? s->pserver->min : 0);
    pairs_add(env, "ENTRY", "%s", r && r->entrypoint ? r->entrypoint : "");
    pairs_add(env, "PADDLE_INIT_PORT", "%" PRId64, s->port);
    pairs_add(env, "PADDLE_INIT_TRAINER_COUNT", "%" PRId64, gpus ? gpus : 1);
    pairs_add(env, "PADDLE_INIT_PORTS_NUM", "%" PRId64, s->ports);
    pairs_add(env, "PADDLE_INIT_PORTS_NUM_FOR_SPARSE", "%" PRId64, s->sparse_ports);
    pairs_add(env, "PADDLE_INIT_NUM_GRADIENT_SERVERS", "%" PRId64, s->trainer->min);
    pairs_add(env, "PADDLE_INIT_NUM_PASSES", "%" PRId64, s->passes);
    pairs_add(env, "PADDLE_INIT_USE_GPU", "%d", gpus > 0);
    pairs_add_field(env, "NAMESPACE", "metadata.namespace");
    pairs_add_field(env, "POD_IP", "status.podIP");
    pairs_add_field(env, "POD_NAME", "metadata.name");
    if (s->master && s->master->etcd)
        pairs_add(env, "ETCD_IP", "%s", s->master->etcd);
}

static char *etcd_beside(const struct training *t)
{
    const struct trainingjob_master *m = t->spec->master;
    struct bytes out = {0};
    struct json_writer w;
    jw_init(&w, &out);
    jw_object(&w, NULL);
    jw_str(&w, "name", "etcd");
    jw_str(&w, "image", m && m->image ? m->image : t->spec->image);
    jw_array(&w, "command");
    jw_str(&w, NULL, "etcd");
    jw_str(&w, NULL, "--listen-client-urls=http://0.0.0.0:2379");
    jw_str(&w, NULL, "--advertise-client-urls=http://$(POD_IP):2379");
    jw_end(&w);
    jw_array(&w, "env");
    jw_object(&w, NULL);
    jw_str(&w, "name", "POD_IP");
    jw_object(&w, "valueFrom");
    jw_object(&w, "fieldRef");
    jw_str(&w, "fieldPath", "status.podIP");
    jw_end(&w);
    jw_end(&w);
    jw_end(&w);
    jw_end(&w);
    jw_array(&w, "ports");
    jw_object(&w, NULL);
    jw_str(&w, "name", "etcd");
    jw_int(&w, "containerPort", ETCD_PORT);
    jw_end(&w);
    jw_end(&w);
    jw_end(&w);
    return bytes_take(&out);
}

static void want_master(struct training *t)
{
    const struct trainingjob_master *m = t->spec->master;
    cleanup_free char *name = part_name(57, "%s-master", t->name);
    cleanup_free char *value = part_name(PART_NAME_MAX, "%s", t->name);
    cleanup_free char *etcd = m && m->etcd ? NULL : etcd_beside(t);
    cleanup_pairs struct pairs env = {0};
    common_env(t, NULL, &env);
    training_want(t, &(struct training_child){.kind = KIND_REPLICASET,
                                              .name = name,
                                              .label = "paddle-job-master",
                                              .label_value = value,
                                              .image = t->spec->image,
                                              .container = "master",
                                              .command = "paddle_k8s start_master",
                                              .resources = m ? m->resources : NULL,
                                              .env = &env,
                                              .replicas = 1,
                                              .port = MASTER_PORT,
                                              .n_ports = 1,
                                              .sidecar = etcd});
}

static void want_role(struct training *t, bool servers)
{
    const struct trainingjob_spec *s = t->spec;
    const struct trainingjob_role *r = servers ? s->pserver : s->trainer;
    cleanup_free char *name = part_name(57, "%s-%s", t->name, servers ? "pserver" : "trainer");
    cleanup_free char *value = part_name(PART_NAME_MAX, "%s", t->name);
    cleanup_pairs struct pairs env = {0};
    common_env(t, r, &env);
    training_want(
        t, &(struct training_child){.kind = servers ? KIND_REPLICASET : KIND_JOB,
                                    .name = name,
                                    .label = servers ? SERVER_LABEL : "paddle-job",
                                    .label_value = value,
                                    .image = s->image,
                                    .container = servers ? "pserver" : "trainer",
                                    .command = r->entrypoint,
                                    .role = r,
                                    .env = &env,
                                    .replicas = r->min,
                                    .elastic = training_most(r) > r->min,
                                    .backoff = s->fault_tolerant ? training_most(r) : 0,
                                    .port = s->port,
                                    .n_ports = servers ? (size_t)(s->ports + s->sparse_ports) : 0});
}

/* Kubernetes starts no more trainers then, also where some have ended well. */
static void fail_with_job(struct training *t, const char *name)
{
    t->phase = "Failed";
    t->message = xasprintf("the Job %s has failed (kubectl describe job %s says why)", name, name);
}

static void see_trainers(struct training *t)
{
    const struct trainingjob_role *r = t->spec->trainer;
    cleanup_free char *name = part_name(57, "%s-trainer", t->name);
    const struct json *job = view_get(t->v, KIND_JOB, t->ns, name);
    t->parallelism = r->min;
    if (!job || !part_is_child(job, t->object)) {
        t->phase = "Creating";
        return;
    }
    int64_t active = build_int(0, job, "status", "active", NULL);
    t->parallelism = build_int(r->min, job, "spec", "parallelism", NULL);
    t->running = build_int(active, job, "status", "ready", NULL); /* not there before 1.24 */
    t->succeeded = build_int(0, job, "status", "succeeded", NULL);
    t->failed = build_int(0, job, "status", "failed", NULL);
    if (part_has_condition(job, "Complete", "True"))
        t->begun = build_text(job, "status", "startTime", NULL);
    bool all_failed = t->failed > 0 && !active && t->succeeded + t->failed >= t->parallelism;
    if (part_has_condition(job, "Complete", "True") ||
        (training_most(r) == r->min && t->succeeded >= r->min))
        t->phase = "Succeed";
    else if (part_has_condition(job, "Failed", "True"))
        fail_with_job(t, name);
    else if (t->spec->fault_tolerant ? all_failed && !t->succeeded : t->failed > 0)
        t->phase = "Failed";
    else if (t->running + t->succeeded >= t->parallelism)
        t->phase = "Running";
    else
        t->phase = json_has(&t->was, "startTime") ? "Scaling" : "Creating";
    t->job = job;
}

/* How often the containers of a pod were started again. */
static int64_t restarts_of(const struct json *pod)
{
    struct json all = build_at(pod, "status", "containerStatuses", NULL);
    int64_t n = 0;
    for (size_t i = 0; i < json_count(&all); i++) {
        struct json c = json_at(&all, i);
        int64_t restarts = part_int(&c, "restartCount");
        n += restarts > 0 ? restarts : 0;
    }
    return n;
}

/* A server that starts again and again keeps nothing, and its trainers wait for ever. */
static void see_servers(struct training *t)
{
    const char *text = object_annotation(t->object, RESTARTS);
    bool said = text && *text && strspn(text, "0123456789") == strlen(text);
    int64_t most = said ? strtoll(text, NULL, 10) : RESTARTS_OK;
    struct view_list pods = view_list(t->v, KIND_POD, t->ns, PART_OWNER_LABEL, t->uid);
    for (size_t i = 0; i < pods.n && strcmp(t->phase, "Succeed") != 0; i++) {
        int64_t n = restarts_of(pods.items[i]);
        if (!object_label(pods.items[i], SERVER_LABEL) || n <= most)
            continue;
        t->phase = "Failed";
        free(t->message); /* of a Job that failed, this is why */
        t->message = xasprintf("the server %s has started again too often: %" PRId64
                               " (kubectl logs --previous says why; annotation " RESTARTS
                               ": how often it may)",
                               object_name(pods.items[i]), n);
        return;
    }
}

void training_edl(struct training *t)
{
    if (t->spec->fault_tolerant)
        want_master(t);
    if (t->spec->pserver && !t->spec->local)
        want_role(t, true);
    want_role(t, false);
    see_trainers(t);
    see_servers(t);
}
