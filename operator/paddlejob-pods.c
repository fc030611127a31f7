/*
 * Services, the ConfigMap and pods.
 *
 * The start barrier: pods are made at once, and each waits in an init container. When all have
 * their addresses the ConfigMap is made, with a sum of the addresses in it, and every waiting pod
 * is told that sum by an annotation; the kubelet brings both into the init container, which ends
 * when they are equal. A pod that is made anew later waits in the same way for a ConfigMap that
 * knows it.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "hash.h"
#include "mem.h"
#include "object.h"
#include "paddlejob-internal.h"

#define SUM_CHARS 12

/* --- services --------------------------------------------------------------------------------- */

/* A name in the cluster's DNS for one pod, whether it is ready or not. */
static void want_service(struct job *j, enum role role, const struct job_pod *p)
{
    const struct part_pair labels[] = {{NAME_LABEL, p->name}, {ROLE_LABEL, role_names[role]}};
    struct part_child child = {.kind = KIND_SERVICE,
                               .ns = j->ns,
                               .name = p->name,
                               .labels = labels,
                               .n_labels = 2,
                               .fixed = true};
    struct json_writer w;
    jw_init(&w, &child.members);
    jw_object(&w, NULL);
    jw_object(&w, "spec");
    jw_str(&w, "clusterIP", "None");
    jw_bool(&w, "publishNotReadyAddresses", true);
    jw_object(&w, "selector");
    jw_str(&w, NAME_LABEL, p->name);
    jw_str(&w, PART_OWNER_LABEL, j->uid);
    jw_end(&w);
    jw_array(&w, "ports");
    for (int i = 0; i < POD_PORTS; i++) {
        char name[16];
        snprintf(name, sizeof name, "p-%d", i);
        jw_object(&w, NULL);
        jw_str(&w, "name", name);
        jw_int(&w, "port", POD_PORT + i);
        jw_end(&w);
    }
    jw_end(&w);
    jw_end(&w);
    jw_end(&w);
    if (part_want(j->v, &j->children, &child) == PART_FOREIGN) {
        part_condition_warn(&j->conditions, "Valid", "NameTaken",
                            "the Service %s is somebody else's (delete it, or rename the job)",
                            p->name);
        job_says(j, "the Service %s is somebody else's", p->name);
    }
}

static void drop_extra_services(struct job *j)
{
    struct view_list all = view_list(j->v, KIND_SERVICE, j->ns, PART_OWNER_LABEL, j->uid);
    for (size_t i = 0; i < all.n; i++) {
        const char *name = object_name(all.items[i]);
        bool wanted = false;
        for (int r = 0; r < ROLE_N && j->net == NET_SERVICE; r++)
            for (size_t k = 0; k < j->roles[r].n; k++)
                wanted = wanted || strcmp(j->roles[r].pods[k].name, name) == 0;
        if (!wanted && !object_is_deleted(all.items[i]))
            act_delete(&j->children, KIND_SERVICE, j->ns, name, object_uid(all.items[i]));
    }
}

/* --- pods ------------------------------------------------------------------------------------- */

static const char *restart_policy(const struct job *j, enum role role)
{
    const char *user = build_text(&j->roles[role].template, "spec", "restartPolicy", NULL);
    if (job_is_elastic(j))
        return "OnFailure";
    if (user)
        return user;
    return role == ROLE_WORKER && j->net == NET_SERVICE ? "OnFailure" : "Never";
}

struct pair_list {
    struct part_pair *items;
    size_t n;
};

static void push(struct pair_list *l, const char *key, const char *value)
{
    for (size_t i = 0; i < l->n; i++)
        if (strcmp(l->items[i].key, key) == 0) {
            l->items[i].value = value;
            return;
        }
    l->items = xrealloc(l->items, (l->n + 1) * sizeof *l->items);
    l->items[l->n++] = (struct part_pair){key, value};
}

static void push_user(struct pair_list *l, const struct json *template, const char *what)
{
    struct json map = build_at(template, "metadata", what, NULL);
    for (size_t i = 0; i < json_count(&map); i++) {
        struct json m = json_member(&map, i);
        const char *text;
        if (!json_as_str(&m, &text, NULL) && strcmp(m.key, MANAGED_KEY) != 0)
            push(l, m.key, text);
    }
}

/* The name of the set, where it can be a volume's and the user has no volume of that name. */
static const char *samples_volume(const struct job *j, enum role role)
{
    const char *name = j->spec->set->name;
    struct json all = build_at(&j->roles[role].template, "spec", "volumes", NULL);
    bool usable = strlen(name) <= PART_NAME_MAX && !strchr(name, '.');
    for (size_t i = 0; i < json_count(&all); i++) {
        struct json volume = json_at(&all, i);
        const char *there = part_text(&volume, "name");
        usable = usable && !(there && strcmp(there, name) == 0);
    }
    return usable ? name : "sampan-samples";
}

static size_t add_mounts(const struct job *j, enum role role, struct build_mount mounts[2])
{
    size_t n = 0;
    if (j->claim)
        mounts[n++] =
            (struct build_mount){samples_volume(j, role), j->claim, j->spec->set->mount_path};
    if (j->output_claim)
        mounts[n++] =
            (struct build_mount){"sampan-output", j->output_claim, j->spec->output->mount_path};
    return n;
}

static void write_pod(struct job *j, enum role role, size_t index, struct bytes *out)
{
    cleanup_pairs struct pairs env = {0};
    struct build_mount mounts[2];
    struct build_place place = job_place(j, role, index);
    bool elastic = job_is_elastic(j);
    struct json_writer w;
    job_env(j, role, index, &env);
    struct build_pod b = {
        .template = &j->roles[role].template,
        .env = &env,
        .env_from = elastic ? NULL : j->name,
        .mounts = mounts,
        .n_mounts = add_mounts(j, role, mounts),
        .place = place,
        .restart_policy = restart_policy(j, role),
        .scheduler = j->grouped ? "volcano" : NULL,
        .host_network = j->net == NET_HOST,
        .port = job_port(j, role),
        .n_ports = j->net == NET_SERVICE ? POD_PORTS
                   : j->net == NET_HOST  ? 1
                                         : 0,
    };
    if (!elastic)
        b.barrier = (struct build_barrier){j->config->image, PEERS_NOTE, j->name, PEERS_KEY};
    jw_init(&w, out);
    jw_object(&w, NULL);
    build_pod_spec(&w, &b);
    jw_end(&w);
    free((char *)place.label);
    free((char *)place.value);
}

static void want_pod(struct job *j, enum role role, size_t index)
{
    const struct job_pod *p = &j->roles[role].pods[index];
    struct pair_list labels = {0}, notes = {0};
    char number[24], attempt[24], np[24];
    snprintf(number, sizeof number, "%zu", index);
    snprintf(attempt, sizeof attempt, "%" PRId64, j->restarts_was);
    push_user(&labels, &j->roles[role].template, "labels");
    push(&labels, NAME_LABEL, p->name);
    push(&labels, ROLE_LABEL, role_names[role]);
    push(&labels, INDEX_LABEL, number);
    push_user(&notes, &j->roles[role].template, "annotations");
    push(&notes, ROLE_NOTE, role_names[role]);
    push(&notes, ATTEMPT_NOTE, attempt);
    snprintf(np, sizeof np, "%zu", j->roles[job_deciding_role(j)].n);
    if (job_is_elastic(j))
        push(&notes, NP_NOTE, np);
    if (j->grouped) {
        const struct paddlejob_scheduling *s = j->spec->scheduling;
        push(&notes, "scheduling.k8s.io/group-name", j->name);
        push(&notes, "volcano.sh/task-spec", role_names[role]);
        push(&notes, "volcano.sh/job-name", j->name);
        push(&notes, "volcano.sh/job-version", "0");
        if (s && s->queue)
            push(&notes, "volcano.sh/queue-name", s->queue);
    }
    struct part_child child = {.kind = KIND_POD,
                               .ns = j->ns,
                               .name = p->name,
                               .labels = labels.items,
                               .n_labels = labels.n,
                               .annotations = notes.items,
                               .n_annotations = notes.n,
                               .fixed = true};
    write_pod(j, role, index, &child.members);
    if (part_want(j->v, &j->children, &child) == PART_FOREIGN) {
        job_says(j, "waits until the pod %s, which is not of this job, has gone", p->name);
        job_again(j, 5);
    }
    free(labels.items);
    free(notes.items);
}

/* --- the barrier ------------------------------------------------------------------------------ */

static bool has_address(const struct job_pod *p)
{
    return p->object && !p->going && !p->removed && p->ip && *p->ip && p->state != POD_FAILED;
}

static bool have_addresses(const struct job *j, bool servers_only)
{
    for (int r = 0; r < ROLE_N; r++)
        for (size_t i = 0; i < j->roles[r].n && (!servers_only || r == ROLE_PS); i++)
            if (!has_address(&j->roles[r].pods[i]))
                return false;
    return true;
}

static char *sum_of_addresses(const struct job *j, bool servers_only)
{
    cleanup_bytes struct bytes all = {0};
    char hex[65];
    for (int r = 0; r < ROLE_N; r++)
        for (size_t i = 0; i < j->roles[r].n && (!servers_only || r == ROLE_PS); i++) {
            cleanup_free char *host = job_host(j, &j->roles[r].pods[i]);
            bytes_addf(&all, "%s-%zu %s:%" PRId64 "\n", role_names[r], i, host,
                       job_port(j, (enum role)r));
        }
    sha256_hex(hex, all.data ? all.data : "", all.len);
    hex[SUM_CHARS] = '\0';
    return xstrdup(hex);
}

/* Workers beside servers train without each other, unless Gloo joins them. */
void job_sum_addresses(struct job *j)
{
    bool servers_only = j->mode == MODE_PS && j->spec->gloo == 0;
    if (have_addresses(j, servers_only))
        j->core = sum_of_addresses(j, servers_only);
    if (have_addresses(j, false))
        j->all = sum_of_addresses(j, false);
}

/* False: the name is somebody else's. */
static bool want_config_map(struct job *j, const char *peers)
{
    cleanup_pairs struct pairs data = {0};
    struct part_child child = {.kind = KIND_CONFIGMAP, .ns = j->ns, .name = j->name};
    struct json_writer w;
    job_data(j, &data);
    pairs_add(&data, PEERS_KEY, "%s", peers);
    jw_init(&w, &child.members);
    jw_object(&w, NULL);
    pairs_write(&data, &w, "data");
    jw_end(&w);
    if (part_want(j->v, &j->children, &child) != PART_FOREIGN)
        return true;
    part_condition_warn(&j->conditions, "Valid", "NameTaken",
                        "the ConfigMap %s is somebody else's (delete it, or rename the job)",
                        j->name);
    job_says(j, "the ConfigMap %s is somebody else's", j->name);
    return false;
}

static void let_go(struct job *j, const struct job_pod *p, const char *peers)
{
    if (!p->waits || p->removed || (p->peers && strcmp(p->peers, peers) == 0))
        return;
    struct action *a = act_patch(&j->children, KIND_POD, j->ns, p->name, NULL);
    bytes_addf(&a->body, "{\"metadata\":{\"annotations\":{\"" PEERS_NOTE "\":\"%s\"}}}", peers);
}

static void open_barrier(struct job *j)
{
    if (!j->all || !j->core || job_is_elastic(j) || !have_addresses(j, false))
        return;
    cleanup_free char *peers = xasprintf("%s.%s", j->all, j->core);
    if (!want_config_map(j, peers))
        return;
    for (int r = 0; r < ROLE_N; r++)
        for (size_t i = 0; i < j->roles[r].n; i++)
            let_go(j, &j->roles[r].pods[i], peers);
}

void job_want_pods(struct job *j, bool more)
{
    drop_extra_services(j);
    for (int r = 0; r < ROLE_N && more && j->net == NET_SERVICE; r++)
        for (size_t i = 0; i < j->roles[r].n; i++)
            want_service(j, (enum role)r, &j->roles[r].pods[i]);
    for (int r = 0; r < ROLE_N && more; r++)
        for (size_t i = 0; i < j->roles[r].n; i++)
            if (!j->roles[r].pods[i].object)
                want_pod(j, (enum role)r, i);
    open_barrier(j);
}
