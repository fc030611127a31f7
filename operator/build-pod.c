/* The spec of a pod: the user's, and what is ours to add. */
#include "build-pod.h"

#include <string.h>

#include "mem.h"

/* --- the barrier ------------------------------------------------------------------------------ */

static void barrier_volume(struct json_writer *w, const struct build_barrier *b)
{
    cleanup_free char *path = xasprintf("metadata.annotations['%s']", b->annotation);
    jw_object(w, NULL);
    jw_str(w, "name", BUILD_BARRIER);
    jw_object(w, "projected");
    jw_array(w, "sources");
    jw_object(w, NULL);
    jw_object(w, "downwardAPI");
    jw_array(w, "items");
    jw_object(w, NULL);
    jw_str(w, "path", "want");
    jw_object(w, "fieldRef");
    jw_str(w, "fieldPath", path);
    jw_end(w);
    jw_end(w);
    jw_end(w);
    jw_end(w);
    jw_end(w);
    jw_object(w, NULL);
    jw_object(w, "configMap");
    jw_str(w, "name", b->config_map);
    jw_bool(w, "optional", true);
    jw_array(w, "items");
    jw_object(w, NULL);
    jw_str(w, "key", b->key);
    jw_str(w, "path", "have");
    jw_end(w);
    jw_end(w);
    jw_end(w);
    jw_end(w);
    jw_end(w);
    jw_end(w);
    jw_end(w);
}

/* It reads two files and needs no right. Who it is, it has from the user's container, so that a
 * namespace which takes the one (Pod Security "restricted") takes the other. */
static void barrier_rights(struct json_writer *w, const struct json *spec)
{
    static const char *const kept[] = {"runAsUser", "runAsGroup", "runAsNonRoot", "seccompProfile"};
    struct json all = json_get(spec, "containers"), first = json_at(&all, 0);
    struct json user = build_at(&first, "securityContext", NULL);
    jw_object(w, "securityContext");
    for (size_t i = 0; i < sizeof kept / sizeof kept[0]; i++) {
        struct json value = json_get(&user, kept[i]);
        build_copy(w, kept[i], &value);
    }
    jw_bool(w, "allowPrivilegeEscalation", false);
    jw_raw(w, "capabilities", "{\"drop\":[\"ALL\"]}");
    jw_end(w);
}

/* Limits and requests alike, so that a pod whose own containers have that is Guaranteed, and one of
 * a namespace whose quota wants both is taken. */
#define BARRIER_NEEDS "{\"cpu\":\"50m\",\"memory\":\"64Mi\"}"

/* The two files are never both empty: `have` is not there until the ConfigMap is. */
static void barrier_container(struct json_writer *w, const struct json *spec,
                              const struct build_barrier *b)
{
    jw_object(w, NULL);
    jw_str(w, "name", BUILD_BARRIER);
    jw_str(w, "image", b->image);
    jw_raw(w, "command",
           "[\"/usr/libexec/sampan/sampan-barrier\",\"/barrier/want\",\"/barrier/have\"]");
    jw_object(w, "resources");
    jw_raw(w, "limits", BARRIER_NEEDS);
    jw_raw(w, "requests", BARRIER_NEEDS);
    jw_end(w);
    barrier_rights(w, spec);
    jw_array(w, "volumeMounts");
    jw_object(w, NULL);
    jw_str(w, "name", BUILD_BARRIER);
    jw_str(w, "mountPath", "/barrier");
    jw_bool(w, "readOnly", true);
    jw_end(w);
    jw_end(w);
    jw_end(w);
}

/* --- the first container ---------------------------------------------------------------------- */

static bool has_named(const struct json *items, const char *name)
{
    for (size_t i = 0; i < json_count(items); i++) {
        struct json item = json_at(items, i);
        const char *there = build_text(&item, "name", NULL);
        if (there && strcmp(there, name) == 0)
            return true;
    }
    return false;
}

/* Ours stand first, so that the user's may refer to them as $(NAME). */
static void container_env(struct json_writer *w, const struct json *c, const struct pairs *env)
{
    struct json user = json_get(c, "env");
    if (!json_count(&user) && (!env || !env->n))
        return;
    jw_array(w, "env");
    for (size_t i = 0; env && i < env->n; i++) {
        const struct pair *p = &env->items[i];
        if (has_named(&user, p->key))
            continue;
        jw_object(w, NULL);
        jw_str(w, "name", p->key);
        if (p->field) {
            jw_object(w, "valueFrom");
            jw_object(w, "fieldRef");
            jw_str(w, "fieldPath", p->value);
            jw_end(w);
            jw_end(w);
        } else {
            jw_str(w, "value", p->value);
        }
        jw_end(w);
    }
    build_copy_items(w, &user);
    jw_end(w);
}

static void container_env_from(struct json_writer *w, const struct json *c, const char *config_map)
{
    struct json user = json_get(c, "envFrom");
    if (!json_count(&user) && !config_map)
        return;
    jw_array(w, "envFrom");
    if (config_map) {
        jw_object(w, NULL);
        jw_object(w, "configMapRef");
        jw_str(w, "name", config_map);
        jw_end(w);
        jw_end(w);
    }
    build_copy_items(w, &user);
    jw_end(w);
}

static void container_mounts(struct json_writer *w, const struct json *c, const struct build_pod *b)
{
    struct json user = json_get(c, "volumeMounts");
    if (!json_count(&user) && !b->n_mounts)
        return;
    jw_array(w, "volumeMounts");
    build_copy_items(w, &user);
    for (size_t i = 0; i < b->n_mounts; i++) {
        jw_object(w, NULL);
        jw_str(w, "name", b->mounts[i].volume);
        jw_str(w, "mountPath", b->mounts[i].path);
        /* A mount that had to be made anew on the node reaches a container that runs. */
        jw_str(w, "mountPropagation", "HostToContainer");
        jw_end(w);
    }
    jw_end(w);
}

static void container_ports(struct json_writer *w, const struct json *c, const struct build_pod *b)
{
    struct json user = json_get(c, "ports");
    if (!json_count(&user) && !b->n_ports)
        return;
    jw_array(w, "ports");
    build_copy_items(w, &user);
    for (size_t i = 0; i < b->n_ports; i++) {
        char name[24];
        snprintf(name, sizeof name, "p-%zu", i);
        jw_object(w, NULL);
        jw_str(w, "name", name);
        jw_int(w, "containerPort", b->port + (int64_t)i);
        if (b->host_network)
            jw_int(w, "hostPort", b->port + (int64_t)i);
        jw_end(w);
    }
    jw_end(w);
}

static void first_container(struct json_writer *w, const struct json *c, const struct build_pod *b)
{
    static const char *const ours[] = {"env", "envFrom", "volumeMounts", "ports", NULL};
    jw_object(w, NULL);
    build_copy_members(w, c, ours);
    container_env_from(w, c, b->env_from);
    container_env(w, c, b->env);
    container_mounts(w, c, b);
    container_ports(w, c, b);
    jw_end(w);
}

/* --- the pod ---------------------------------------------------------------------------------- */

static void containers(struct json_writer *w, const struct json *spec, const struct build_pod *b)
{
    struct json all = json_get(spec, "containers");
    jw_array(w, "containers");
    for (size_t i = 0; i < json_count(&all); i++) {
        struct json c = json_at(&all, i);
        if (i == 0)
            first_container(w, &c, b);
        else
            build_copy(w, NULL, &c);
    }
    jw_end(w);
}

/* The barrier is the last: what the user does first need not wait for the others. */
static void init_containers(struct json_writer *w, const struct json *spec,
                            const struct build_pod *b)
{
    struct json user = json_get(spec, "initContainers");
    if (!json_count(&user) && !b->barrier.image)
        return;
    jw_array(w, "initContainers");
    build_copy_items(w, &user);
    if (b->barrier.image)
        barrier_container(w, spec, &b->barrier);
    jw_end(w);
}

static void volumes(struct json_writer *w, const struct json *spec, const struct build_pod *b)
{
    struct json user = json_get(spec, "volumes");
    if (!json_count(&user) && !b->n_mounts && !b->barrier.image)
        return;
    jw_array(w, "volumes");
    build_copy_items(w, &user);
    for (size_t i = 0; i < b->n_mounts; i++) {
        jw_object(w, NULL);
        jw_str(w, "name", b->mounts[i].volume);
        jw_object(w, "persistentVolumeClaim");
        jw_str(w, "claimName", b->mounts[i].claim);
        jw_end(w);
        jw_end(w);
    }
    if (b->barrier.image)
        barrier_volume(w, &b->barrier);
    jw_end(w);
}

static void network(struct json_writer *w, const struct json *spec, const struct build_pod *b)
{
    struct json user = json_get(spec, "hostNetwork"), dns = json_get(spec, "dnsPolicy");
    if (!b->host_network) {
        build_copy(w, "hostNetwork", &user);
        build_copy(w, "dnsPolicy", &dns);
        return;
    }
    jw_bool(w, "hostNetwork", true);
    if (dns.node)
        build_copy(w, "dnsPolicy", &dns);
    else
        jw_str(w, "dnsPolicy", "ClusterFirstWithHostNet");
}

void build_pod_spec(struct json_writer *w, const struct build_pod *b)
{
    static const char *const ours[] = {"containers",    "initContainers", "volumes",
                                       "affinity",      "hostNetwork",    "dnsPolicy",
                                       "restartPolicy", "schedulerName",  NULL};
    struct json spec = build_at(b->template, "spec", NULL);
    struct json affinity = json_get(&spec, "affinity"), restart = json_get(&spec, "restartPolicy"),
                scheduler = json_get(&spec, "schedulerName");
    jw_object(w, "spec");
    build_copy_members(w, &spec, ours);
    if (b->restart_policy)
        jw_str(w, "restartPolicy", b->restart_policy);
    else
        build_copy(w, "restartPolicy", &restart);
    if (b->scheduler)
        jw_str(w, "schedulerName", b->scheduler);
    else
        build_copy(w, "schedulerName", &scheduler);
    network(w, &spec, b);
    build_affinity(w, &affinity, &b->place);
    init_containers(w, &spec, b);
    containers(w, &spec, b);
    volumes(w, &spec, b);
    jw_end(w);
}
