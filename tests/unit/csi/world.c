#include "world.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "clock.h"
#include "controller.h"
#include "mem.h"

void world_make(struct world *w)
{
    *w = (struct world){.fake = fake_new()};
    /* In memory where that is: each step of each record waits for the disk. */
    snprintf(w->top, sizeof w->top, "%s/csi-unit-XXXXXX",
             access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    cr_assert(mkdtemp(w->top));
    snprintf(w->state, sizeof w->state, "%s/state", w->top);
    snprintf(w->run, sizeof w->run, "%s/run", w->top);
    snprintf(w->staging, sizeof w->staging, "%s/staging", w->top);
    snprintf(w->target, sizeof w->target, "%s/target", w->top);
    snprintf(w->target2, sizeof w->target2, "%s/target2", w->top);
    cr_assert(mkdir(w->staging, 0755) == 0);
    snprintf(w->store, sizeof w->store, "%s/store", w->top);
    char set[160];
    snprintf(set, sizeof set, "%s/set", w->store);
    cr_assert(mkdir(w->store, 0755) == 0 && mkdir(set, 0755) == 0);
    world_open(w);
}

void world_open(struct world *w)
{
    struct node_conf conf = {.state = w->state,
                             .run = w->run,
                             .kubelet_dir = "",
                             .node_id = "n",
                             .driver_name = "csi.sampan.io",
                             .mounter = fake_mounter(w->fake),
                             .step = fake_step,
                             .step_arg = w->fake,
                             .no_watch = true};
    cr_assert(node_open(&w->node, &conf, &w->err) == 0, "%s", w->err.msg);
    struct controller_conf controller = {.state = w->state,
                                         .run = w->run,
                                         .driver_name = "csi.sampan.io",
                                         .mounter = conf.mounter,
                                         .step = fake_step,
                                         .step_arg = w->fake};
    cr_assert(controller_open(&w->controller, &controller, &w->err) == 0, "%s", w->err.msg);
    w->plugin = (struct plugin){.driver_name = "csi.sampan.io",
                                .node_id = "n",
                                .node = w->node,
                                .controller = w->controller};
}

void world_close(struct world *w)
{
    node_close(w->node);
    controller_close(w->controller);
    w->node = w->plugin.node = NULL;
    w->controller = w->plugin.controller = NULL;
}

/* Files below a folder; removes all of it if asked to. */
static size_t walk(const char *path, bool remove)
{
    size_t n = 0;
    DIR *d = opendir(path);
    if (!d) {
        if (remove)
            unlink(path);
        return access(path, F_OK) == 0 || remove ? 1 : 0;
    }
    for (const struct dirent *e; (e = readdir(d));) {
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
            continue;
        char below[512];
        snprintf(below, sizeof below, "%s/%s", path, e->d_name);
        n += walk(below, remove);
    }
    closedir(d);
    if (remove)
        rmdir(path);
    return n;
}

size_t world_records(const struct world *w)
{
    return walk(w->state, false) + walk(w->run, false);
}

bool world_survives(struct world *w, world_call *call, int die_at)
{
    world_close(w);
    pid_t pid = fork();
    cr_assert(pid >= 0);
    if (pid == 0) {
        world_open(w);
        w->fake->step = 0;
        w->fake->die_at = die_at;
        _exit(call(w) == RPC_OK ? 0 : 1);
    }
    int status;
    cr_assert(waitpid(pid, &status, 0) == pid && WIFEXITED(status));
    w->fake->die_at = 0;
    world_open(w);
    cr_assert(WEXITSTATUS(status) != 1, "step %d: the call itself failed", die_at);
    return WEXITSTATUS(status) == 0;
}

void world_remove(struct world *w)
{
    world_close(w);
    walk(w->top, true);
}

static const struct rpc_method *find_method(const char *name)
{
    for (size_t i = 0; i < n_node_methods; i++)
        if (strcmp(strrchr(node_methods[i].name, '/') + 1, name) == 0)
            return &node_methods[i];
    for (size_t i = 0; i < n_controller_methods; i++)
        if (strcmp(strrchr(controller_methods[i].name, '/') + 1, name) == 0)
            return &controller_methods[i];
    cr_assert_fail("no method %s", name);
    return NULL;
}

enum rpc_code call_in(struct world *w, struct arena *arena, const char *method, const void *request,
                      void *response)
{
    const struct rpc_method *m = find_method(method);
    struct rpc_call call = {.arena = arena, .deadline_ns = clock_mono_ns() + 600 * NS_PER_S};
    w->deadline_ns = call.deadline_ns;
    protobuf_c_message_init(m->response, response);
    w->err = (struct err){0};
    return m->handler(&w->plugin, &call, request, response, &w->err);
}

enum rpc_code call_node(struct world *w, const char *method, const void *request, void *response)
{
    struct arena arena = {0};
    enum rpc_code code = call_in(w, &arena, method, request, response);
    arena_release(&arena);
    return code;
}

/* --- requests --------------------------------------------------------------------------------- */

struct parts {
    PB(VolumeCapability) capability;
    PB(VolumeCapability__MountVolume) mount;
    PB(VolumeCapability__AccessMode) mode;
    PB(Pair) context[3], secrets[2];
    PB(Pair) * context_list[3], *secret_list[2];
    char key[16], value[64];
};

static char *mutable(const char *text)
{
    return (char *)(uintptr_t)text;
}

/* A volume that is written says so with a mount flag. */
static void parts_for_group(struct parts *p, const char *group)
{
    static char writable[] = "writable=true";
    static char *flags[] = {writable};
    p->mount.mount_flags = flags;
    p->mount.n_mount_flags = 1;
    p->mount.volume_mount_group = mutable(group);
}

static void parts_fill(struct parts *p, const struct world *w, const char *secret)
{
    static char uri[] = "uri", set[] = "s3://b/set", own[] = "csi.storage.k8s.io/ephemeral",
                pod_uid[] = "csi.storage.k8s.io/pod.uid", uid[] = "uid-1", yes[] = "true",
                access[] = "access-key", secret_key[] = "secret-key";
    *p = (struct parts){.capability = PB_INIT(VOLUME_CAPABILITY),
                        .mount = PB_INIT(VOLUME_CAPABILITY__MOUNT_VOLUME),
                        .mode = PB_INIT(VOLUME_CAPABILITY__ACCESS_MODE)};
    p->capability.mount = &p->mount;
    p->capability.access_mode = &p->mode;
    p->mode.mode = CSI__V1__VOLUME_CAPABILITY__ACCESS_MODE__MODE__SINGLE_NODE_WRITER;
    p->context[0] = (PB(Pair))PB_INIT(PAIR);
    p->context[1] = p->context[2] = p->secrets[0] = p->secrets[1] = p->context[0];
    p->context[0].key = uri;
    p->context[0].value = set;
    p->context[1].key = pod_uid;
    p->context[1].value = uid;
    p->context[2].key = own;
    p->context[2].value = yes;
    snprintf(p->key, sizeof p->key, "AKIA");
    snprintf(p->value, sizeof p->value, "%s", secret ? secret : "");
    p->secrets[0].key = access;
    p->secrets[0].value = p->key;
    p->secrets[1].key = secret_key;
    p->secrets[1].value = p->value;
    for (int i = 0; i < 3; i++)
        p->context_list[i] = &p->context[i];
    for (int i = 0; i < 2; i++)
        p->secret_list[i] = &p->secrets[i];
    if (w->group)
        parts_for_group(p, w->group);
}

enum rpc_code do_stage(struct world *w, const char *volume, const char *secret)
{
    struct parts p;
    PB(NodeStageVolumeRequest) q = PB_INIT(NODE_STAGE_VOLUME_REQUEST);
    PB(NodeStageVolumeResponse) r;
    parts_fill(&p, w, secret);
    q.volume_id = mutable(volume);
    q.staging_target_path = w->staging;
    q.volume_capability = &p.capability;
    q.volume_context = p.context_list;
    q.n_volume_context = 1;
    q.secrets = p.secret_list;
    q.n_secrets = secret ? 2 : 0;
    return call_node(w, "NodeStageVolume", &q, &r);
}

enum rpc_code do_unstage(struct world *w, const char *volume)
{
    PB(NodeUnstageVolumeRequest) q = PB_INIT(NODE_UNSTAGE_VOLUME_REQUEST);
    PB(NodeUnstageVolumeResponse) r;
    q.volume_id = mutable(volume);
    q.staging_target_path = w->staging;
    return call_node(w, "NodeUnstageVolume", &q, &r);
}

static enum rpc_code publish(struct world *w, const char *volume, const char *target,
                             bool read_only, const char *secret, bool is_inline)
{
    struct parts p;
    static char none[] = "";
    PB(NodePublishVolumeRequest) q = PB_INIT(NODE_PUBLISH_VOLUME_REQUEST);
    PB(NodePublishVolumeResponse) r;
    parts_fill(&p, w, secret);
    q.volume_id = mutable(volume);
    q.staging_target_path = is_inline ? none : w->staging;
    q.target_path = mutable(target);
    q.volume_capability = &p.capability;
    q.volume_context = p.context_list;
    q.n_volume_context = is_inline ? 3 : 2;
    q.secrets = p.secret_list;
    q.n_secrets = secret ? 2 : 0;
    q.readonly = read_only;
    return call_node(w, "NodePublishVolume", &q, &r);
}

enum rpc_code do_publish(struct world *w, const char *volume, const char *target, bool read_only,
                         const char *secret)
{
    return publish(w, volume, target, read_only, secret, false);
}

void world_with_volume(struct world *w, const char *secret)
{
    world_make(w);
    cr_assert(do_stage(w, "v", secret) == RPC_OK, "%s", w->err.msg);
}

void world_with_pod(struct world *w, const char *secret)
{
    world_with_volume(w, secret);
    cr_assert(do_publish(w, "v", w->target, false, NULL) == RPC_OK, "%s", w->err.msg);
}

enum rpc_code do_inline(struct world *w, const char *volume, const char *target)
{
    return publish(w, volume, target, false, NULL, true);
}

enum rpc_code do_unpublish(struct world *w, const char *volume, const char *target)
{
    PB(NodeUnpublishVolumeRequest) q = PB_INIT(NODE_UNPUBLISH_VOLUME_REQUEST);
    PB(NodeUnpublishVolumeResponse) r;
    q.volume_id = mutable(volume);
    q.target_path = mutable(target);
    return call_node(w, "NodeUnpublishVolume", &q, &r);
}

/* --- of the controller ------------------------------------------------------------------------ */

/* Parameters of a class, in `p`, with their texts. */
struct class
{
    PB(Pair) pairs[2];
    PB(Pair) * list[2];
    char uri[200], catalogs[200];
};

static void class_fill(struct class *c, const struct world *w, bool claim)
{
    static char uri[] = "uri", writable[] = "writable", catalogs[] = "catalogs", yes[] = "true";
    c->pairs[0] = c->pairs[1] = (PB(Pair))PB_INIT(PAIR);
    snprintf(c->uri, sizeof c->uri, "file://%s/%s", w->store, claim ? "claims" : "set");
    snprintf(c->catalogs, sizeof c->catalogs, "file://%s/catalogs", w->store);
    c->pairs[0].key = uri;
    c->pairs[0].value = c->uri;
    c->pairs[1].key = claim ? writable : catalogs;
    c->pairs[1].value = claim ? yes : c->catalogs;
    c->list[0] = &c->pairs[0];
    c->list[1] = &c->pairs[1];
}

static enum rpc_code create(struct world *w, const char *name, const char *snapshot, bool claim)
{
    struct parts p;
    struct class class;
    PB(VolumeCapability) * capabilities[1] = {&p.capability};
    PB(VolumeContentSource) source = PB_INIT(VOLUME_CONTENT_SOURCE);
    PB(VolumeContentSource__SnapshotSource) of = PB_INIT(VOLUME_CONTENT_SOURCE__SNAPSHOT_SOURCE);
    PB(CreateVolumeRequest) q = PB_INIT(CREATE_VOLUME_REQUEST);
    PB(CreateVolumeResponse) r;
    parts_fill(&p, w, "secret");
    class_fill(&class, w, claim);
    q.name = mutable(name);
    q.volume_capabilities = capabilities;
    q.n_volume_capabilities = 1;
    q.parameters = class.list;
    q.n_parameters = claim ? 2 : 1;
    q.secrets = p.secret_list;
    q.n_secrets = 2;
    if (snapshot) {
        of.snapshot_id = mutable(snapshot);
        source.snapshot = &of;
        q.volume_content_source = &source;
    }
    return call_node(w, "CreateVolume", &q, &r);
}

enum rpc_code do_create_claim(struct world *w, const char *name)
{
    return create(w, name, NULL, true);
}

enum rpc_code do_create(struct world *w, const char *name, const char *snapshot)
{
    return create(w, name, snapshot, false);
}

enum rpc_code do_delete(struct world *w, const char *volume)
{
    PB(DeleteVolumeRequest) q = PB_INIT(DELETE_VOLUME_REQUEST);
    PB(DeleteVolumeResponse) r;
    q.volume_id = mutable(volume);
    return call_node(w, "DeleteVolume", &q, &r);
}

enum rpc_code do_snapshot(struct world *w, const char *name, const char *volume)
{
    struct class class;
    PB(CreateSnapshotRequest) q = PB_INIT(CREATE_SNAPSHOT_REQUEST);
    PB(CreateSnapshotResponse) r;
    class_fill(&class, w, false);
    q.name = mutable(name);
    q.source_volume_id = mutable(volume);
    q.parameters = class.list + 1;
    q.n_parameters = 1;
    return call_node(w, "CreateSnapshot", &q, &r);
}

enum rpc_code do_delete_snapshot(struct world *w, const char *snapshot)
{
    PB(DeleteSnapshotRequest) q = PB_INIT(DELETE_SNAPSHOT_REQUEST);
    PB(DeleteSnapshotResponse) r;
    q.snapshot_id = mutable(snapshot);
    return call_node(w, "DeleteSnapshot", &q, &r);
}

size_t world_volumes(struct world *w)
{
    PB(ListVolumesRequest) q = PB_INIT(LIST_VOLUMES_REQUEST);
    PB(ListVolumesResponse) r;
    return call_node(w, "ListVolumes", &q, &r) ? 0 : r.n_entries;
}

size_t world_snapshots(struct world *w)
{
    PB(ListSnapshotsRequest) q = PB_INIT(LIST_SNAPSHOTS_REQUEST);
    PB(ListSnapshotsResponse) r;
    return call_node(w, "ListSnapshots", &q, &r) ? 0 : r.n_entries;
}
