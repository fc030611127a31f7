#include "world.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "clock.h"
#include "mem.h"

void world_make(struct world *w)
{
    *w = (struct world){.fake = fake_new()};
    snprintf(w->top, sizeof w->top, "/tmp/csi-unit-XXXXXX");
    cr_assert(mkdtemp(w->top));
    snprintf(w->state, sizeof w->state, "%s/state", w->top);
    snprintf(w->run, sizeof w->run, "%s/run", w->top);
    snprintf(w->staging, sizeof w->staging, "%s/staging", w->top);
    snprintf(w->target, sizeof w->target, "%s/target", w->top);
    snprintf(w->target2, sizeof w->target2, "%s/target2", w->top);
    cr_assert(mkdir(w->staging, 0755) == 0);
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
    w->plugin = (struct plugin){.driver_name = "csi.sampan.io", .node_id = "n", .node = w->node};
}

void world_close(struct world *w)
{
    node_close(w->node);
    w->node = w->plugin.node = NULL;
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

void world_remove(struct world *w)
{
    world_close(w);
    walk(w->top, true);
}

enum rpc_code call_node(struct world *w, const char *method, const void *request, void *response)
{
    for (size_t i = 0; i < n_node_methods; i++) {
        const struct rpc_method *m = &node_methods[i];
        if (strcmp(strrchr(m->name, '/') + 1, method) != 0)
            continue;
        struct arena arena = {0};
        struct rpc_call call = {.arena = &arena, .deadline_ns = clock_mono_ns() + 60 * NS_PER_S};
        protobuf_c_message_init(m->response, response);
        w->err = (struct err){0};
        enum rpc_code code = m->handler(&w->plugin, &call, request, response, &w->err);
        arena_release(&arena);
        return code;
    }
    cr_assert_fail("no method %s", method);
    return RPC_UNIMPLEMENTED;
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

static void parts_fill(struct parts *p, const char *secret)
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
}

static char *mutable(const char *text)
{
    return (char *)(uintptr_t)text;
}

enum rpc_code do_stage(struct world *w, const char *volume, const char *secret)
{
    struct parts p;
    PB(NodeStageVolumeRequest) q = PB_INIT(NODE_STAGE_VOLUME_REQUEST);
    PB(NodeStageVolumeResponse) r;
    parts_fill(&p, secret);
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
    parts_fill(&p, secret);
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
