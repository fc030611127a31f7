/*
 * What pods are told of each other, in the words of three launchers:
 *
 *   the operator's of 2021   PADDLE_TRAINER_ID, PADDLE_TRAINERS, PADDLE_PSERVERS_IP_PORT_LIST …
 *   paddle's launcher now    PADDLE_MASTER, PADDLE_NNODES, PADDLE_RANK, PADDLE_JOB_ID …
 *   torchrun, and no launcher at all
 *                            MASTER_ADDR, MASTER_PORT, WORLD_SIZE, RANK, NODE_RANK; PET_* for
 *                            torchrun's own options
 *
 * What differs from pod to pod is in its environment; what is known only when all have their
 * addresses is in the ConfigMap. A role's ports begin at job_port(): trainers and servers listen
 * from there on, and the last three are for rendezvous.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "mem.h"
#include "paddlejob-internal.h"

/* --- the environment of a pod ----------------------------------------------------------------- */

/* Elastic between bounds: who is missing leaves no gap, since the launcher counts through those
 * that are there. It takes PADDLE_TRAINER_ID for a rank, and one beyond their number ends it. */
static bool job_is_ranged(const struct job *j)
{
    const struct paddlejob_role *r = j->roles[job_deciding_role(j)].spec;
    return job_is_elastic(j) && (r->requests >= 0 || r->limits >= 0);
}

static void env_identity(const struct job *j, enum role role, size_t index, struct pairs *env)
{
    static const char *const words[ROLE_N] = {"PSERVER", "TRAINER", "HETER"};
    pairs_add_field(env, "POD_NAME", "metadata.name");
    if (j->net == NET_SERVICE)
        pairs_add(env, "POD_IP", "%s", j->roles[role].pods[index].name);
    else
        pairs_add_field(env, "POD_IP", "status.podIP");
    if (!job_is_ranged(j))
        pairs_add(env, "PADDLE_TRAINER_ID", "%zu", index);
    pairs_add(env, "TRAINING_ROLE", "%s", words[role]);
    pairs_add(env, "PADDLE_TRAINING_ROLE", "%s", words[role]);
    if (j->net == NET_HOST)
        pairs_add(env, "PADDLE_PORT", "%" PRId64, job_port(j, role));
    pairs_add(env, "PADDLE_CURRENT_ENDPOINT", "$(POD_IP):%" PRId64, job_port(j, role));
}

static void env_launcher(const struct job *j, enum role role, size_t index, struct pairs *env)
{
    if (j->mode == MODE_PS) {
        pairs_add(env, role == ROLE_PS ? "PADDLE_SERVER_NUM" : "PADDLE_TRAINER_NUM", "1");
        return;
    }
    if (!job_is_elastic(j))
        pairs_add(env, "PADDLE_RANK", "%zu", index);
    pairs_add(env, "PADDLE_GLOBAL_RANK", "%zu", index);
    pairs_add(env, "PADDLE_LOCAL_RANK", "0");
    pairs_add(env, "PADDLE_LOCAL_SIZE", "1");
}

static void env_torch(const struct job *j, enum role role, size_t index, struct pairs *env)
{
    int64_t devices = build_devices(&j->roles[role].template);
    if (role != ROLE_WORKER)
        return;
    pairs_add(env, "RANK", "%zu", index);
    pairs_add(env, "LOCAL_RANK", "0");
    pairs_add(env, "NODE_RANK", "%zu", index);
    pairs_add(env, "PET_NODE_RANK", "%zu", index);
    if (devices)
        pairs_add(env, "PET_NPROC_PER_NODE", "%" PRId64, devices);
}

/*
 * Without the ConfigMap: pods come and go, and find each other in etcd.
 *
 * Both launchers take one server, as HOST:PORT. The newer one removes, when it starts, all keys
 * that begin with /paddle/PADDLE_JOB_ID: "_", which no name has, ends it, so that it is not the
 * beginning of another job's. Without PADDLE_ELASTIC_LEVEL it ends at each change of size.
 */
static void env_elastic(const struct job *j, struct pairs *env)
{
    const struct job_role *r = &j->roles[job_deciding_role(j)];
    const char *servers = j->config->etcd_servers, *host = strstr(servers, "://");
    int64_t least = r->spec->requests, most = r->spec->limits, n = r->spec->replicas;
    host = host ? host + 3 : servers;
    cleanup_free char *server = xstrndup(host, strcspn(host, ",/"));
    pairs_add(env, "PADDLE_ELASTIC_JOB_ID", "%s-%s", j->ns, j->name);
    if (job_is_ranged(j))
        pairs_add(env, "PADDLE_ELASTIC_NP", "%" PRId64 ":%" PRId64, least >= 0 ? least : n,
                  most >= 0 ? most : n);
    else
        pairs_add(env, "PADDLE_ELASTIC_NP", "%" PRId64, n);
    pairs_add(env, "PADDLE_ELASTIC_TIMEOUT", "60");
    pairs_add(env, "PADDLE_ELASTIC_SERVER", "%s", server);
    pairs_add(env, "PADDLE_ELASTIC_LEVEL", "%" PRId64, j->spec->elastic);
    pairs_add(env, "PADDLE_JOB_ID", "%s-%s_", j->ns, j->name);
    pairs_add(env, "PADDLE_MASTER", "etcd://%s", server);
    pairs_add(env, "PADDLE_NNODES", "%s", pairs_get(env, "PADDLE_ELASTIC_NP"));
    pairs_add(env, "PADDLE_PORT", "%" PRId64, job_port(j, job_deciding_role(j)));
    pairs_add(env, "TRAINER_PORTS_NUM", "%d", POD_PORTS);
}

void job_env(const struct job *j, enum role role, size_t index, struct pairs *env)
{
    env_identity(j, role, index, env);
    env_launcher(j, role, index, env);
    env_torch(j, role, index, env);
    if (job_is_elastic(j))
        env_elastic(j, env);
}

/* --- the ConfigMap ---------------------------------------------------------------------------- */

char *job_host(const struct job *j, const struct job_pod *pod)
{
    if (j->net == NET_SERVICE)
        return xstrdup(pod->name);
    return strchr(pod->ip, ':') ? xasprintf("[%s]", pod->ip) : xstrdup(pod->ip);
}

static char *hosts(const struct job *j, enum role role)
{
    struct bytes out = {0};
    for (size_t i = 0; i < j->roles[role].n; i++) {
        cleanup_free char *host = job_host(j, &j->roles[role].pods[i]);
        bytes_addf(&out, "%s%s", i ? "," : "", host);
    }
    return bytes_take(&out);
}

static char *endpoints(const struct job *j, enum role role)
{
    struct bytes out = {0};
    for (size_t i = 0; i < j->roles[role].n; i++) {
        cleanup_free char *host = job_host(j, &j->roles[role].pods[i]);
        bytes_addf(&out, "%s%s:%" PRId64, i ? "," : "", host, job_port(j, role));
    }
    return bytes_take(&out);
}

static void data_upstream(const struct job *j, struct pairs *data)
{
    cleanup_free char *workers = endpoints(j, ROLE_WORKER), *heter = endpoints(j, ROLE_HETER),
                      *trainers = hosts(j, ROLE_WORKER);
    pairs_add(data, "PADDLE_PORT", "%" PRId64, job_port(j, job_deciding_role(j)));
    pairs_add(data, "TRAINER_PORTS_NUM", "%d", POD_PORTS);
    pairs_add(data, "PADDLE_TRAINER_ENDPOINTS", "%s", workers);
    pairs_add(data, "PADDLE_TRAINERS", "%s", trainers);
    pairs_add(data, "PADDLE_TRAINERS_NUM", "%zu", j->roles[ROLE_WORKER].n);
    if (j->roles[ROLE_HETER].n)
        pairs_add(data, "PADDLE_HETER_ENDPOINTS", "%s", heter);
    if (j->spec->gloo > 0 && j->roles[ROLE_PS].n) {
        cleanup_free char *first = job_host(j, &j->roles[ROLE_PS].pods[0]);
        pairs_add(data, "PADDLE_WITH_GLOO", "%" PRId64, j->spec->gloo);
        pairs_add(data, "PADDLE_GLOO_RENDEZVOUS", "3");
        pairs_add(data, "PADDLE_GLOO_HTTP_ENDPOINT", "%s:%" PRId64, first,
                  job_port(j, ROLE_PS) + PORT_GLOO);
    }
}

/* By these lists a launcher knows whether its pod serves or trains. Who has none asks
 * PADDLE_MASTER, and makes both in each pod. */
static void data_servers(const struct job *j, struct pairs *data)
{
    cleanup_free char *ps = endpoints(j, ROLE_PS), *workers = endpoints(j, ROLE_WORKER);
    if (!j->roles[ROLE_PS].n)
        return;
    pairs_add(data, "PADDLE_PSERVERS_IP_PORT_LIST", "%s", ps);
    pairs_add(data, "PADDLE_SERVERS_ENDPOINTS", "%s", ps);
    pairs_add(data, "PADDLE_TRAINERS_ENDPOINTS", "%s", workers);
}

static void data_launcher(const struct job *j, struct pairs *data)
{
    enum role first = j->mode == MODE_PS ? ROLE_PS : ROLE_WORKER;
    cleanup_free char *host = job_host(j, &j->roles[first].pods[0]);
    size_t nodes = j->mode == MODE_PS ? job_pods(j) : j->roles[ROLE_WORKER].n;
    pairs_add(data, "PADDLE_JOB_ID", "%s", j->name);
    pairs_add(data, "PADDLE_NNODES", "%zu", nodes);
    if (nodes > 1)
        pairs_add(data, "PADDLE_MASTER", "%s:%" PRId64, host, job_port(j, first) + PORT_LAUNCHER);
    if (j->mode != MODE_PS)
        pairs_add(data, "PADDLE_GLOBAL_SIZE", "%zu", nodes);
}

static void data_torch(const struct job *j, struct pairs *data)
{
    const struct job_role *r = &j->roles[ROLE_WORKER];
    int64_t port = job_port(j, ROLE_WORKER) + PORT_TORCH;
    if (!r->n)
        return;
    cleanup_free char *host =
        j->net == NET_SERVICE ? xstrdup(r->pods[0].name) : xstrdup(r->pods[0].ip);
    pairs_add(data, "MASTER_ADDR", "%s", host);
    pairs_add(data, "MASTER_PORT", "%" PRId64, port);
    pairs_add(data, "WORLD_SIZE", "%zu", r->n);
    pairs_add(data, "PET_MASTER_ADDR", "%s", host);
    pairs_add(data, "PET_MASTER_PORT", "%" PRId64, port);
    pairs_add(data, "PET_NNODES", "%zu", r->n);
}

void job_data(const struct job *j, struct pairs *data)
{
    data_upstream(j, data);
    data_servers(j, data);
    data_launcher(j, data);
    data_torch(j, data);
}
