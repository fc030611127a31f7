/*
 * The Node service: stage and publish, and back.
 *
 * Order of checks: arguments, then the volume, then the work. Each handler looks at what is there
 * and does what is missing, so that it may be called again after any cut.
 */
#define LOG_MODULE "node"
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "mem.h"
#include "node-internal.h"
#include "service.h"

/* What a volume is to be, from a stage or publish request. */
struct request {
    struct attributes attributes;
    struct capability capability;
    struct secrets secrets;
    struct bytes options;
    bool writable;
};

static void request_release(struct request *r)
{
    secrets_release(&r->secrets);
    bytes_release(&r->options);
}
#define cleanup_request CLEANUP(request_release)

/* The three maps that such a request brings along. */
struct maps {
    const PB(VolumeCapability) * capability;
    PB(Pair) *const *context;
    PB(Pair) *const *secrets;
    size_t n_context, n_secrets;
};

static enum rpc_code read_request(struct request *r, struct arena *arena, const struct maps *m,
                                  struct err *err)
{
    struct attributes *a = &r->attributes;
    enum rpc_code code = check_capability(m->capability, &r->capability, err);
    if (!code)
        code = attributes_add(a, arena, "volume_context", m->context, m->n_context, err);
    for (size_t i = 0; !code && i < r->capability.mount->n_mount_flags; i++)
        code = attributes_add_options(a, arena, r->capability.mount->mount_flags[i], err);
    return code ? code : secrets_read(m->secrets, m->n_secrets, &r->secrets, err);
}

/* All of the attributes are known: what do they come to? */
static enum rpc_code settle(struct request *r, struct arena *arena, struct err *err)
{
    struct attributes *a = &r->attributes;
    r->writable = attribute_true(a, ATTR_WRITABLE);
    if (r->writable) /* PersistentVolumes of before have them, for nothing, and cannot be changed */
        a->value[ATTR_PEERS] = NULL;
    enum rpc_code code = attributes_check(a, arena, err);
    if (code)
        return code;
    if (r->writable) /* it asks no other node, but may share its Secret with sets that do */
        secrets_forget_token(&r->secrets);
    attributes_text(a, &r->options);
    return RPC_OK;
}

static struct set_wish wish_of(const struct request *r)
{
    return (struct set_wish){.attributes = &r->attributes,
                             .gid = r->writable ? r->capability.gid : -1,
                             .secrets = &r->secrets};
}

/* What each call brings along: the volume's id, and the path that it is about. */
static enum rpc_code check_call(const struct node *n, struct rpc_call *call, const char *id,
                                const char *what, const char *path, struct err *err)
{
    enum rpc_code code = check_id("volume_id", id, err);
    if (code)
        return code;
    call->subject = id;
    return check_path(what, path, n->conf.kubelet_dir, err);
}

/* The same, and the volume is this call's. */
static enum rpc_code begin(struct volume_scope *scope, struct rpc_call *call, const char *id,
                           const char *what, const char *path, struct err *err)
{
    enum rpc_code code = check_call(scope->node, call, id, what, path, err);
    return code ? code : volume_begin(scope->node, id, &scope->volume, err);
}

static enum rpc_code failed(const struct volume *v, struct err *err)
{
    enum rpc_code code = rpc_code_of(err);
    err_wrap(err, "volume %s", v->id);
    return code;
}

static void set_text(char **at, const char *text)
{
    free(*at);
    *at = xstrdup(text);
}

static bool is_published(struct node *n, const struct volume *v)
{
    for (size_t i = 0; i < v->n_targets; i++)
        if (may_be_mount(n, v->targets[i].path))
            return true;
    return false;
}

/* --- the set behind a volume ------------------------------------------------------------------ */

static bool wants_keys(const struct err *err, const struct request *r)
{
    return !r->secrets.keys.len && err->class == ERR_DENIED;
}

/* Secrets that come with the first publish, for a set that staging mounted without: a listing of
 * before was in its cache, and no key was asked for. That mount ends, and one with them follows;
 * but not under a pod that has it. */
static int leave_lacking_set(struct node *n, struct volume *v, const struct request *r,
                             uint64_t deadline_ns, struct err *err)
{
    char key[STATE_NAME_BYTES];
    if (!*v->set || !set_lacks(n, v->set, &r->secrets) || is_published(n, v))
        return 0;
    snprintf(key, sizeof key, "%s", v->set);
    volume_take_set(n, v, "");
    if (set_down(n, key, deadline_ns, err)) {
        volume_take_set(n, v, key);
        return -1;
    }
    v->deferred = true;
    return 0;
}

/* The volume takes its set, and the set is brought up. A first try that fails leaves nothing. */
static int bring_up(struct node *n, struct volume *v, const struct request *r, uint64_t deadline_ns,
                    struct err *err)
{
    struct set_wish wish = wish_of(r);
    char key[STATE_NAME_BYTES], before[STATE_NAME_BYTES];
    if (leave_lacking_set(n, v, r, deadline_ns, err))
        return -1;
    snprintf(before, sizeof before, "%s", v->set);
    if (v->recorded && *v->set && !v->deferred) {
        snprintf(key, sizeof key, "%s", v->set);
        if (set_renew(n, key, &r->secrets, err))
            return -1;
    } else {
        if (set_is_locked(n, &wish))
            return err_set(err, ERR_DENIED,
                           "its set is mounted with credentials, and none came along (give the "
                           "volume's Secret as nodeStageSecretRef or nodePublishSecretRef)");
        set_choose(n, &wish, key);
        if (set_check_group(n, key, wish.gid, err))
            return -1;
    }
    volume_take_set(n, v, key);
    if (volume_store(n, v, err) == 0 && set_up(n, key, &wish, deadline_ns, err) == 0)
        return 0;
    volume_take_set(n, v, before);
    return -1;
}

/* The volume is forgotten, and with its last volume the set. */
static int let_go(struct node *n, struct volume *v, uint64_t deadline_ns, struct err *err)
{
    char key[STATE_NAME_BYTES];
    snprintf(key, sizeof key, "%s", v->set);
    /* The reference goes first, the record last: cut off in between, the call is made again. */
    volume_take_set(n, v, "");
    if (*key && set_down(n, key, deadline_ns, err)) {
        volume_take_set(n, v, key);
        return -1;
    }
    return volume_forget(n, v, err);
}

/* --- stage ------------------------------------------------------------------------------------ */

/* Nothing is mounted on a staging path. Kubelet does not unstage a volume while the mount that it
 * finds there is seen at other places as well, and that of a set always is: at its own, and at
 * those of other volumes. */
static bool is_staged_elsewhere(const struct volume *v, const char *path)
{
    return *v->staging && strcmp(v->staging, path) != 0 &&
           (access(v->staging, F_OK) == 0 || errno != ENOENT);
}

static enum rpc_code check_staged(const struct volume *v, const struct request *r, const char *path,
                                  struct err *err)
{
    if (!v->recorded)
        return RPC_OK;
    if (strcmp(v->options, r->options.data) != 0)
        return rpc_fail(err, RPC_ALREADY_EXISTS,
                        "volume %s: it is staged here with other attributes (unstage it first)",
                        v->id);
    if (is_staged_elsewhere(v, path))
        return rpc_fail(err, RPC_FAILED_PRECONDITION,
                        "volume %s: it is staged at %s already (unstage it first)", v->id,
                        v->staging);
    return RPC_OK;
}

static enum rpc_code check_staging(const char *path, struct err *err)
{
    struct stat st;
    if (lstat(path, &st) == 0 || errno == ENOTCONN)
        return RPC_OK;
    return rpc_fail(err, RPC_FAILED_PRECONDITION,
                    "staging_target_path: %s: %s (kubelet makes it: stage again)", path,
                    strerror(errno));
}

static int stage(struct node *n, struct volume *v, const struct request *r, uint64_t deadline_ns,
                 struct err *err)
{
    if (bring_up(n, v, r, deadline_ns, err) == 0)
        return 0;
    if (!wants_keys(err, r))
        return -1;
    /* A PV may give its keys to publish alone (nodePublishSecretRef): then that mounts. */
    log_info(n->conf.log, "volume %s: the store wants keys and none came: left to publish (%s)",
             v->id, err->msg);
    *err = (struct err){0};
    v->deferred = true;
    return volume_store(n, v, err);
}

static enum rpc_code stage_volume(void *arg, struct rpc_call *call, const void *request,
                                  void *response, struct err *err)
{
    struct node *n = ((const struct plugin *)arg)->node;
    const PB(NodeStageVolumeRequest) *q = request;
    cleanup_request struct request r = {0};
    cleanup_volume struct volume_scope scope = {n, NULL};
    struct maps maps = {q->volume_capability, q->volume_context, q->secrets, q->n_volume_context,
                        q->n_secrets};
    enum rpc_code code =
        check_call(n, call, q->volume_id, "staging_target_path", q->staging_target_path, err);
    (void)response;
    if (!code)
        code = read_request(&r, call->arena, &maps, err);
    if (!code)
        code = settle(&r, call->arena, err);
    if (!code)
        code = volume_begin(n, q->volume_id, &scope.volume, err);
    struct volume *v = scope.volume;
    if (!code)
        code = check_staged(v, &r, q->staging_target_path, err);
    if (!code)
        code = check_staging(q->staging_target_path, err);
    if (code)
        return code;
    bool was_recorded = v->recorded;
    set_text(&v->staging, q->staging_target_path);
    set_text(&v->options, r.options.data);
    v->writable = r.writable;
    if (stage(n, v, &r, call->deadline_ns, err) == 0)
        return RPC_OK;
    if (!was_recorded && let_go(n, v, call->deadline_ns, NULL))
        log_warn(n->conf.log, "volume %s: what its staging left stays until it is unstaged", v->id);
    return failed(v, err);
}

static int remove_target(const char *path, struct err *err)
{
    if (rmdir(path) == 0 || errno == ENOENT)
        return 0;
    return err_sys(err, errno, "remove the target folder %s", path);
}

/* No record says that we put something there (it may be lost): only a mount of ours is taken away.
 */
static enum rpc_code clear_unknown(struct node *n, const char *path, bool remove, struct err *err)
{
    struct mount_look look;
    if (n->mounter->ops->look(n->mounter, path, &look, err))
        return rpc_code_of(err);
    if (!look.mounted || !look.ours)
        return RPC_OK;
    if (path_clear(n, path, err) || (remove && remove_target(path, err)))
        return rpc_code_of(err);
    return RPC_OK;
}

static enum rpc_code unstage_volume(void *arg, struct rpc_call *call, const void *request,
                                    void *response, struct err *err)
{
    struct node *n = ((const struct plugin *)arg)->node;
    const PB(NodeUnstageVolumeRequest) *q = request;
    cleanup_volume struct volume_scope scope = {n, NULL};
    enum rpc_code code =
        begin(&scope, call, q->volume_id, "staging_target_path", q->staging_target_path, err);
    (void)response;
    if (code)
        return code;
    struct volume *v = scope.volume;
    if (!v->recorded)
        return clear_unknown(n, q->staging_target_path, /* remove= */ false, err);
    if (v->ephemeral)
        return rpc_fail(err, RPC_FAILED_PRECONDITION, "volume %s: an inline volume has no staging",
                        v->id);
    if (is_staged_elsewhere(v, q->staging_target_path))
        return rpc_fail(err, RPC_FAILED_PRECONDITION, "volume %s: it is staged at %s, not at %s",
                        v->id, v->staging, q->staging_target_path);
    if (is_published(n, v))
        return rpc_fail(err, RPC_FAILED_PRECONDITION,
                        "volume %s: still published at %s (unpublish it first)", v->id,
                        v->targets[0].path);
    if (let_go(n, v, call->deadline_ns, err))
        return failed(v, err);
    return RPC_OK;
}

/* --- publish ---------------------------------------------------------------------------------- */

static enum rpc_code check_publishable(struct node *n, const struct volume *v,
                                       const PB(NodePublishVolumeRequest) * q,
                                       const struct request *r, bool read_only, struct err *err)
{
    const struct target *t = volume_target(v, q->target_path);
    if (t && t->read_only != read_only && may_be_mount(n, t->path))
        return rpc_fail(err, RPC_ALREADY_EXISTS, "volume %s: published at %s already, %s", v->id,
                        t->path, t->read_only ? "read-only" : "for writing");
    for (size_t i = 0; r->capability.single_writer && i < v->n_targets; i++)
        if (&v->targets[i] != t && may_be_mount(n, v->targets[i].path))
            return rpc_fail(err, RPC_FAILED_PRECONDITION,
                            "volume %s: one pod alone may use it, and it is published at %s "
                            "(SINGLE_NODE_SINGLE_WRITER)",
                            v->id, v->targets[i].path);
    return RPC_OK;
}

/* What was staged holds, whatever this call's context says or leaves out. */
static enum rpc_code settle_as_staged(struct request *r, const struct volume *v,
                                      struct arena *arena, struct err *err)
{
    bool read_only = r->attributes.read_only;
    r->attributes = (struct attributes){.read_only = read_only};
    enum rpc_code code = attributes_of_text(&r->attributes, arena, v->options, err);
    if (!code)
        code = settle(r, arena, err);
    return code;
}

/* What kubelet says of the pod (podInfoOnMount). */
static const char *kubelets(const PB(NodePublishVolumeRequest) * q, const char *key)
{
    const char *value = pair_get(q->volume_context, q->n_volume_context, key);
    return value ? value : "";
}

static bool is_inline(const PB(NodePublishVolumeRequest) * q)
{
    return strcmp(kubelets(q, "csi.storage.k8s.io/ephemeral"), "true") == 0;
}

static enum rpc_code check_source(const struct volume *v, const PB(NodePublishVolumeRequest) * q,
                                  struct err *err)
{
    if (is_inline(q)) {
        if (!v->recorded || v->ephemeral)
            return RPC_OK;
        return rpc_fail(err, RPC_ALREADY_EXISTS,
                        "volume %s: staged here as a volume of its own, not an inline one", v->id);
    }
    if (!*q->staging_target_path)
        return rpc_fail(err, RPC_FAILED_PRECONDITION,
                        "staging_target_path: missing (NodeStageVolume comes first)");
    if (!v->recorded || strcmp(v->staging, q->staging_target_path) != 0)
        return rpc_fail(err, RPC_FAILED_PRECONDITION,
                        "volume %s: it is not staged at %s (NodeStageVolume comes first)", v->id,
                        q->staging_target_path);
    return check_staging(q->staging_target_path, err);
}

static int make_target(const char *path, struct err *err)
{
    if (mkdir(path, 0750) == 0 || errno == EEXIST || errno == ENOTCONN)
        return 0;
    return err_sys(err, errno, "make the target folder %s", path);
}

/* The set is up or comes up; then the target shows it. */
static int publish(struct node *n, struct volume *v, const struct request *r,
                   const PB(NodePublishVolumeRequest) * q, bool read_only, uint64_t deadline_ns,
                   struct err *err)
{
    const char *target = q->target_path;
    if (!volume_target(v, target))
        volume_add_target(n, v, target, read_only);
    struct target *t = volume_target(v, target);
    t->read_only = read_only;
    target_set_pod(t, kubelets(q, "csi.storage.k8s.io/pod.name"),
                   kubelets(q, "csi.storage.k8s.io/pod.namespace"),
                   kubelets(q, "csi.storage.k8s.io/pod.uid"));
    if (bring_up(n, v, r, deadline_ns, err))
        return -1;
    if (v->deferred) {
        v->deferred = false;
        if (volume_store(n, v, err))
            return -1;
    }
    if (make_target(target, err))
        return -1;
    return set_bind(n, v->set, target, read_only, volume_is_direct(v), err);
}

/* A first publish that failed at an inline volume leaves nothing; at another one, its staging. */
static void undo_publish(struct node *n, struct volume *v, const char *target, bool was_recorded,
                         uint64_t deadline_ns)
{
    if (path_clear(n, target, NULL) == 0)
        rmdir(target);
    volume_drop_target(n, v, target);
    if (was_recorded ? volume_store(n, v, NULL) : let_go(n, v, deadline_ns, NULL))
        log_warn(n->conf.log, "volume %s: what its publishing left stays until it is unpublished",
                 v->id);
}

static enum rpc_code publish_volume(void *arg, struct rpc_call *call, const void *request,
                                    void *response, struct err *err)
{
    struct node *n = ((const struct plugin *)arg)->node;
    const PB(NodePublishVolumeRequest) *q = request;
    cleanup_request struct request r = {0};
    cleanup_volume struct volume_scope scope = {n, NULL};
    struct maps maps = {q->volume_capability, q->volume_context, q->secrets, q->n_volume_context,
                        q->n_secrets};
    enum rpc_code code = check_call(n, call, q->volume_id, "target_path", q->target_path, err);
    (void)response;
    if (!code)
        code = read_request(&r, call->arena, &maps, err);
    if (!code)
        code = volume_begin(n, q->volume_id, &scope.volume, err);
    struct volume *v = scope.volume;
    if (!code)
        code = check_source(v, q, err);
    if (!code)
        code =
            v->recorded ? settle_as_staged(&r, v, call->arena, err) : settle(&r, call->arena, err);
    if (!code && is_inline(q))
        code = inline_check(n, v->recorded ? NULL : &r.attributes, &r.secrets, err);
    bool read_only =
        q->readonly || !r.writable || r.capability.reader_only || r.attributes.read_only;
    if (!code)
        code = check_publishable(n, v, q, &r, read_only, err);
    if (code)
        return code;
    bool was_recorded = v->recorded, had_target = volume_target(v, q->target_path) != NULL;
    if (!was_recorded) {
        v->ephemeral = true;
        v->writable = r.writable;
        set_text(&v->options, r.options.data);
    }
    if (publish(n, v, &r, q, read_only, call->deadline_ns, err) == 0)
        return RPC_OK;
    if (!had_target)
        undo_publish(n, v, q->target_path, was_recorded, call->deadline_ns);
    return failed(v, err);
}

static enum rpc_code unpublish_volume(void *arg, struct rpc_call *call, const void *request,
                                      void *response, struct err *err)
{
    struct node *n = ((const struct plugin *)arg)->node;
    const PB(NodeUnpublishVolumeRequest) *q = request;
    cleanup_volume struct volume_scope scope = {n, NULL};
    enum rpc_code code = begin(&scope, call, q->volume_id, "target_path", q->target_path, err);
    (void)response;
    if (code)
        return code;
    struct volume *v = scope.volume;
    if (!v->recorded || !volume_target(v, q->target_path))
        return clear_unknown(n, q->target_path, /* remove= */ true, err);
    if (path_clear(n, q->target_path, err) || remove_target(q->target_path, err))
        return failed(v, err);
    bool last = v->ephemeral && v->n_targets == 1;
    if (!last)
        volume_drop_target(n, v, q->target_path);
    if (last ? let_go(n, v, call->deadline_ns, err) : volume_store(n, v, err))
        return failed(v, err);
    return RPC_OK;
}

/* --- the table -------------------------------------------------------------------------------- */

const struct rpc_method node_methods[] = {
    METHOD("Node", NodeStageVolume, node_stage_volume, stage_volume, 900),
    METHOD("Node", NodeUnstageVolume, node_unstage_volume, unstage_volume, 300),
    METHOD("Node", NodePublishVolume, node_publish_volume, publish_volume, 900),
    METHOD("Node", NodeUnpublishVolume, node_unpublish_volume, unpublish_volume, 300),
    METHOD("Node", NodeGetVolumeStats, node_get_volume_stats, node_get_stats, 30),
    METHOD("Node", NodeGetVolumeHealth, node_get_volume_health, node_get_health, 30),
    METHOD("Node", NodeExpandVolume, node_expand_volume, node_expand, 30),
    METHOD("Node", NodeGetCapabilities, node_get_capabilities, node_get_capabilities, 10),
    METHOD("Node", NodeGetInfo, node_get_info, node_get_info, 10),
};
const size_t n_node_methods = sizeof node_methods / sizeof node_methods[0];
