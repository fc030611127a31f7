/*
 * The pods of a set's runtime servers.
 *
 * A server holds no sample: the owner of the mount does, which the CSI driver starts outside of any
 * pod. So a pod needs the mount (its claim), the register of mounts and the owner's socket, which
 * lies in a cache folder. Neither the cache nor the owner's index is in the pod: a restart finds
 * them as they were. A pod that is made anew goes where its set's label is, for one node of those
 * is without a server: its old one.
 */
#include "build-runtime.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "build-volume.h"
#include "hash.h"
#include "mem.h"

#define REGISTER    "/run/sampan"       /* of mounts: common/control/control.h */
#define OWNERS      "/var/cache/sampan" /* of owners without a tier on a disk */
#define TOKEN_DIR   "/etc/sampan"
#define STATE_DIR   "/var/lib/sampan/server"
#define FOLDERS_MAX 64

char *build_token_name(const struct set_plan *p)
{
    return xasprintf("%s-" RUNTIME_TOKEN_NAME, p->runtime);
}

void build_token(const struct set_plan *p, struct bytes *out)
{
    char *token = part_server_token(p->config->token_key, p->ns, p->name);
    size_t len = strlen(token), room = BASE64_BYTES(len);
    char *text = xmalloc(room);
    struct json_writer w;
    base64_encode(text, token, len);
    jw_init(&w, out);
    jw_object(&w, NULL);
    jw_str(&w, "type", "Opaque");
    jw_object(&w, "data"); /* as it is read again, so that another one is seen */
    jw_str(&w, RUNTIME_TOKEN_NAME, text);
    jw_end(&w);
    jw_end(&w);
    explicit_bzero(text, room);
    explicit_bzero(token, len);
    free(text);
    free(token);
}

void build_service(const struct set_plan *p, struct bytes *out)
{
    struct json_writer w;
    jw_init(&w, out);
    jw_object(&w, NULL);
    jw_object(&w, "spec");
    jw_str(&w, "clusterIP", "None");
    /* Servers find each other while they start. */
    jw_bool(&w, "publishNotReadyAddresses", true);
    jw_object(&w, "selector");
    jw_str(&w, RUNTIME_POD_LABEL, p->runtime);
    jw_end(&w);
    jw_raw(&w, "ports", "[{\"name\":\"http\",\"port\":7716,\"targetPort\":\"http\"}]");
    jw_end(&w);
    jw_end(&w);
}

/* --- where pods go ---------------------------------------------------------------------------- */

static void raw_member(struct json_writer *w, const struct json *from, const char *key,
                       const char *as)
{
    struct json m = json_get(from, key);
    cleanup_bytes struct bytes text = {0};
    if (!m.node)
        return;
    json_text(&m, &text);
    jw_raw(w, as, text.data);
}

static void preferred_item(struct json_writer *w, const struct json *item)
{
    cleanup_bytes struct bytes text = {0};
    json_text(item, &text);
    jw_raw(w, NULL, text.data);
}

static void write_node_affinity(const struct set_plan *p, struct json_writer *w)
{
    cleanup_json struct json_doc *doc = NULL;
    cleanup_free char *label = part_node_label(p->ns, p->name);
    const char *text = p->spec->node_affinity ? p->spec->node_affinity : "{}";
    struct json given = {0};
    if (json_parse(&doc, "nodeAffinity", text, strlen(text), NULL) == 0)
        given = json_root(doc);
    struct json preferred = json_get(&given, "preferredDuringSchedulingIgnoredDuringExecution");
    jw_object(w, "nodeAffinity");
    if (json_has(&given, "required"))
        raw_member(w, &given, "required", "requiredDuringSchedulingIgnoredDuringExecution");
    else
        raw_member(w, &given, "requiredDuringSchedulingIgnoredDuringExecution",
                   "requiredDuringSchedulingIgnoredDuringExecution");
    jw_array(w, "preferredDuringSchedulingIgnoredDuringExecution");
    jw_object(w, NULL);
    jw_int(w, "weight", 100);
    jw_object(w, "preference");
    jw_array(w, "matchExpressions");
    jw_object(w, NULL);
    jw_str(w, "key", label);
    jw_str(w, "operator", "Exists");
    jw_end(w);
    jw_end(w);
    jw_end(w);
    jw_end(w);
    for (size_t i = 0; i < json_count(&preferred); i++) {
        struct json item = json_at(&preferred, i);
        preferred_item(w, &item);
    }
    jw_end(w);
    jw_end(w);
}

static void write_affinity(const struct set_plan *p, struct json_writer *w)
{
    jw_object(w, "affinity");
    write_node_affinity(p, w);
    jw_object(w, "podAntiAffinity");
    jw_array(w, "requiredDuringSchedulingIgnoredDuringExecution");
    jw_object(w, NULL);
    jw_object(w, "labelSelector");
    jw_object(w, "matchLabels");
    jw_str(w, RUNTIME_POD_LABEL, p->runtime);
    jw_end(w);
    jw_end(w);
    jw_str(w, "topologyKey", "kubernetes.io/hostname");
    jw_end(w);
    jw_end(w);
    jw_end(w);
    jw_end(w);
}

static void write_placement(const struct set_plan *p, struct json_writer *w)
{
    write_affinity(p, w);
    if (p->spec->node_selector.n) {
        jw_object(w, "nodeSelector");
        for (size_t i = 0; i < p->spec->node_selector.n; i++)
            jw_str(w, p->spec->node_selector.pairs[i].key, p->spec->node_selector.pairs[i].value);
        jw_end(w);
    }
    if (p->spec->tolerations)
        jw_raw(w, "tolerations", p->spec->tolerations);
}

/* --- folders of the node ---------------------------------------------------------------------- */

struct folders {
    struct json_writer *w;
    bool mounts; /* of the container, else the pod's volumes */
    size_t n;
};

static void write_folder(struct folders *f, const char *name, const char *path)
{
    jw_object(f->w, NULL);
    jw_str(f->w, "name", name);
    if (f->mounts) {
        jw_str(f->w, "mountPath", path);
    } else {
        jw_object(f->w, "hostPath");
        jw_str(f->w, "path", path);
        jw_str(f->w, "type", "DirectoryOrCreate");
        jw_end(f->w);
    }
    jw_end(f->w);
}

static void add_folder(void *arg, const char *medium, const char *folder, int64_t mib)
{
    struct folders *f = arg;
    (void)medium, (void)mib;
    if (f->n == FOLDERS_MAX)
        return; /* the owner's socket is in the first */
    cleanup_free char *name = xasprintf("cache-%zu", f->n++);
    write_folder(f, name, folder);
}

static void write_folders(const struct set_plan *p, struct json_writer *w, bool mounts)
{
    struct folders f = {.w = w, .mounts = mounts};
    write_folder(&f, "register", REGISTER);
    write_folder(&f, "owners", OWNERS);
    build_cache_folders(p, add_folder, &f);
}

static void write_volumes(const struct set_plan *p, struct json_writer *w)
{
    cleanup_free char *token = build_token_name(p);
    jw_array(w, "volumes");
    jw_object(w, NULL);
    jw_str(w, "name", "set");
    jw_object(w, "persistentVolumeClaim");
    jw_str(w, "claimName", p->name);
    jw_bool(w, "readOnly", true);
    jw_end(w);
    jw_end(w);
    jw_object(w, NULL);
    jw_str(w, "name", "token");
    jw_object(w, "secret");
    jw_str(w, "secretName", token);
    jw_end(w);
    jw_end(w);
    jw_raw(w, NULL, "{\"name\":\"state\",\"emptyDir\":{}}");
    write_folders(p, w, false);
    jw_end(w);
}

static void write_mounts(const struct set_plan *p, struct json_writer *w)
{
    cleanup_free char *path = xasprintf("/mnt/%s", p->name);
    jw_array(w, "volumeMounts");
    jw_object(w, NULL);
    jw_str(w, "name", "set");
    jw_str(w, "mountPath", path);
    jw_bool(w, "readOnly", true);
    /* A mount that the driver had to make anew is seen by the server that runs. */
    jw_str(w, "mountPropagation", "HostToContainer");
    jw_end(w);
    jw_raw(w, NULL, "{\"name\":\"token\",\"mountPath\":\"" TOKEN_DIR "\",\"readOnly\":true}");
    jw_raw(w, NULL, "{\"name\":\"state\",\"mountPath\":\"" STATE_DIR "\"}");
    write_folders(p, w, true);
    jw_end(w);
}

/* --- the container ---------------------------------------------------------------------------- */

static void write_args(const struct set_plan *p, struct json_writer *w)
{
    cleanup_free char *mount = xasprintf("--mount=/mnt/%s", p->name);
    cleanup_free char *partitions = xasprintf("--partitions=%" PRId64, p->partitions);
    jw_array(w, "args");
    jw_str(w, NULL, "serve");
    jw_str(w, NULL, mount);
    jw_str(w, NULL, "--listen=:7716");
    jw_str(w, NULL, "--token-file=" TOKEN_DIR "/" RUNTIME_TOKEN_NAME);
    jw_str(w, NULL, "--state=" STATE_DIR);
    jw_str(w, NULL, partitions);
    if (p->partitions > 1) {
        /* One name for all: mounts on the host's network, who know no name of ours, are given the
         * addresses that it has. */
        cleanup_free char *peers =
            xasprintf("--peers=http://%s.%s:%d", p->service, p->ns, RUNTIME_PORT);
        jw_str(w, NULL, peers);
    }
    jw_str(w, NULL, "--guide=$(POD_IP)");
    jw_end(w);
}

static void write_probe(struct json_writer *w, const char *name, const char *path, int period,
                        int failures)
{
    jw_object(w, name);
    jw_object(w, "httpGet");
    jw_str(w, "path", path);
    jw_str(w, "port", "http");
    jw_end(w);
    jw_int(w, "periodSeconds", period);
    jw_int(w, "timeoutSeconds", 5);
    jw_int(w, "failureThreshold", failures);
    jw_end(w);
}

static void write_container(const struct set_plan *p, struct json_writer *w)
{
    const struct sampleset_runtime *r = p->spec->runtime;
    jw_array(w, "containers");
    jw_object(w, NULL);
    jw_str(w, "name", "runtime");
    jw_str(w, "image", r && r->image ? r->image : p->config->image);
    jw_raw(w, "command", "[\"/usr/bin/sampan\"]");
    write_args(p, w);
    /* The pod's number, as StatefulSets write it on their pods (Kubernetes 1.28). */
    jw_raw(
        w, "env",
        "[{\"name\":\"SAMPAN_ORDINAL\",\"valueFrom\":{\"fieldRef\":{\"fieldPath\":"
        "\"metadata.labels['apps.kubernetes.io/pod-index']\"}}},{\"name\":\"POD_IP\",\"valueFrom\":"
        "{\"fieldRef\":{\"fieldPath\":\"status.podIP\"}}}]");
    jw_raw(w, "ports", "[{\"name\":\"http\",\"containerPort\":7716}]");
    write_probe(w, "readinessProbe", "/readyz", 5, 3);
    write_probe(w, "livenessProbe", "/healthz", 10, 6);
    /* What one says at its end stands in a condition of the set. */
    jw_str(w, "terminationMessagePolicy", "FallbackToLogsOnError");
    if (r && r->resources)
        jw_raw(w, "resources", r->resources);
    /* Sockets of owners are root's alone. */
    jw_raw(w, "securityContext",
           "{\"runAsUser\":0,\"allowPrivilegeEscalation\":false,\"readOnlyRootFilesystem\":true}");
    write_mounts(p, w);
    jw_end(w);
    jw_end(w);
}

/* --- the StatefulSet -------------------------------------------------------------------------- */

/* What users add to pods; keys by which pods are found are not theirs to change. */
static void write_map(struct json_writer *w, const struct api_map *map)
{
    for (size_t i = 0; i < map->n; i++) {
        const char *key = map->pairs[i].key;
        if (strncmp(key, "sampan.io/", 10) != 0 && strcmp(key, MANAGED_KEY) != 0 &&
            strcmp(key, "name") != 0)
            jw_str(w, key, map->pairs[i].value);
    }
}

static void write_pod_metadata(const struct set_plan *p, struct json_writer *w)
{
    cleanup_free char *key = part_node_label(p->ns, p->name);
    cleanup_free char *set = xasprintf("%s/%s", p->ns, p->name);
    const struct sampleset_runtime *r = p->spec->runtime;
    jw_object(w, "metadata");
    jw_object(w, "labels");
    jw_str(w, MANAGED_KEY, MANAGED_BY);
    jw_str(w, PART_OWNER_LABEL, p->uid);
    jw_str(w, RUNTIME_POD_LABEL, p->runtime);
    jw_str(w, "name", p->runtime); /* upstream's */
    jw_str(w, key, "true");
    if (r)
        write_map(w, &r->labels);
    jw_end(w);
    jw_object(w, "annotations");
    jw_str(w, PART_SET_ANNOTATION, set);
    if (r)
        write_map(w, &r->annotations);
    jw_end(w);
    jw_end(w);
}

static void write_pod(const struct set_plan *p, struct json_writer *w)
{
    const struct sampleset_runtime *r = p->spec->runtime;
    jw_object(w, "template");
    write_pod_metadata(p, w);
    jw_object(w, "spec");
    if (r && r->service_account)
        jw_str(w, "serviceAccountName", r->service_account);
    jw_bool(w, "automountServiceAccountToken", false);
    jw_bool(w, "enableServiceLinks", false);
    jw_int(w, "terminationGracePeriodSeconds", 30);
    write_placement(p, w);
    write_container(p, w);
    write_volumes(p, w);
    jw_end(w);
    jw_end(w);
}

void build_statefulset(const struct set_plan *p, struct bytes *out)
{
    struct json_writer w;
    jw_init(&w, out);
    jw_object(&w, NULL);
    jw_object(&w, "spec");
    jw_str(&w, "serviceName", p->service);
    jw_int(&w, "replicas", p->partitions);
    /* No server needs another one to start. */
    jw_str(&w, "podManagementPolicy", "Parallel");
    jw_object(&w, "selector");
    jw_object(&w, "matchLabels");
    jw_str(&w, RUNTIME_POD_LABEL, p->runtime);
    jw_end(&w);
    jw_end(&w);
    write_pod(p, &w);
    jw_end(&w);
    jw_end(&w);
}
