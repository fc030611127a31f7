/* The Node service: statistics, health, capabilities, who this node is. */
#include <string.h>

#include "clock.h"
#include "mem.h"
#include "node-internal.h"
#include "service.h"

#define ANSWER_NS (2 * NS_PER_S)

/* --- the volume that is asked about ----------------------------------------------------------- */

/* What such calls need to know of it: copies, for they take no turn at the volume. */
struct known {
    char set[STATE_NAME_BYTES];
    char path[4096];
    bool cut_off; /* the pod there still sees a mount that was lost */
};

static bool has_path(const struct volume *v, const char *path)
{
    return (*v->staging && strcmp(v->staging, path) == 0) || volume_target(v, path);
}

/* The call's volume, if it is used here at that path ("": at any). A call that changes it may end
 * first. */
static enum rpc_code know(struct node *n, struct rpc_call *call, const char *id, const char *path,
                          struct known *ret, struct err *err)
{
    cleanup_volume struct volume_scope scope = {n, NULL};
    enum rpc_code code = check_id("volume_id", id, err);
    if (code)
        return code;
    call->subject = id;
    code = volume_begin_soon(n, id, &scope.volume, err);
    if (code)
        return code;
    const struct volume *v = scope.volume;
    if (!v->recorded)
        return rpc_fail(err, RPC_NOT_FOUND, "volume %s: neither staged nor published on this node",
                        id);
    if (*path && !has_path(v, path))
        return rpc_fail(err, RPC_NOT_FOUND, "volume %s: it is not at %s", id, path);
    snprintf(ret->set, sizeof ret->set, "%s", v->set);
    /* On a staging path nothing is mounted: what is asked is told of the set. */
    cleanup_free char *mountpoint = set_mountpoint(n, v->set);
    bool is_staging = *v->staging && strcmp(v->staging, path) == 0;
    snprintf(ret->path, sizeof ret->path, "%s", is_staging ? mountpoint : path);
    const struct target *t = volume_target(v, path);
    ret->cut_off = t && t->n_lost;
    if (ret->cut_off)
        node_watch_poke(n); /* it may have restarted: the next answer knows */
    return RPC_OK;
}

static enum rpc_code want_path(const char *path, struct err *err)
{
    return *path ? RPC_OK : rpc_fail(err, RPC_INVALID_ARGUMENT, "volume_path: missing");
}

/* --- condition -------------------------------------------------------------------------------- */

struct condition {
    bool abnormal;
    const char *reason; /* CamelCase */
    const char *message;
};

static struct condition condition_of(struct node *n, const struct known *k)
{
    cleanup_free char *mountpoint = set_mountpoint(n, k->set);
    struct mount_look set = {0}, there = {0};
    struct mount_serving serving = {0};
    bool unseen = n->mounter->ops->look(n->mounter, mountpoint, &set, NULL) != 0;
    n->mounter->ops->serving(n->mounter, mountpoint, &serving);
    if ((!set.mounted && !unseen) || !serving.alive)
        return (struct condition){true, "MountLost",
                                  "nobody serves the mount at the moment; it is being restored"};
    if (unseen || !*k->path || n->mounter->ops->look(n->mounter, k->path, &there, NULL))
        return (struct condition){.reason = "", .message = "the set is served"};
    if (!there.mounted)
        return (struct condition){true, "NotMounted", "the path shows no set any more"};
    if (there.dev != set.dev || k->cut_off)
        return (struct condition){true, "MountReplaced",
                                  "the mount was lost and made again, and this pod still sees the "
                                  "old one: restart it (pods with mountPropagation: "
                                  "HostToContainer go on without)"};
    return (struct condition){.reason = "", .message = "the set is served"};
}

/* --- statistics ------------------------------------------------------------------------------- */

static PB(VolumeUsage) *
    usage(struct arena *arena, int64_t total, int64_t used, int64_t free, bool bytes)
{
    PB(VolumeUsage) *u = PB_NEW(arena, VolumeUsage, VOLUME_USAGE);
    u->total = total;
    u->used = used;
    u->available = free;
    u->unit = bytes ? CSI__V1__VOLUME_USAGE__UNIT__BYTES : CSI__V1__VOLUME_USAGE__UNIT__INODES;
    return u;
}

/* A set that is asked; on the stack of who asks. */
struct asking {
    struct asking *next;
    const char *set;
};

static bool is_asked(const struct node *n, const char *set)
{
    for (const struct asking *a = n->asking; a; a = a->next)
        if (strcmp(a->set, set) == 0)
            return true;
    return false;
}

/* Served or not, a mount may not answer, and keeps the thread that asks: one at a time, so that the
 * others are there for all else. */
static int ask_usage(struct node *n, const struct known *k, struct mount_usage *ret)
{
    struct asking mine = {.set = k->set};
    {
        ACQUIRE(&n->lock);
        uint64_t until = clock_mono_ns() + ANSWER_NS;
        for (uint64_t now; is_asked(n, k->set);) {
            if ((now = clock_mono_ns()) >= until)
                return -1;
            cond_wait_for(&n->cond, &n->lock, until - now);
        }
        mine.next = n->asking;
        n->asking = &mine;
    }
    int result = n->mounter->ops->usage(n->mounter, k->path, ret, NULL);
    ACQUIRE(&n->lock);
    struct asking **at = &n->asking;
    while (*at != &mine)
        at = &(*at)->next;
    *at = mine.next;
    cond_broadcast(&n->cond);
    return result;
}

enum rpc_code node_get_stats(void *arg, struct rpc_call *call, const void *request, void *response,
                             struct err *err)
{
    struct node *n = ((const struct plugin *)arg)->node;
    const PB(NodeGetVolumeStatsRequest) *q = request;
    PB(NodeGetVolumeStatsResponse) *r = response;
    struct known k = {0};
    struct mount_usage u = {0};
    enum rpc_code code = want_path(q->volume_path, err);
    if (!code)
        code = know(n, call, q->volume_id, q->volume_path, &k, err);
    if (code)
        return code;
    struct condition c = condition_of(n, &k);
    /* What cannot be told is zero. */
    if (!c.abnormal && ask_usage(n, &k, &u)) {
        u = (struct mount_usage){0};
        c = (struct condition){true, "NoAnswer", "the mount does not answer"};
    }
    r->volume_condition = PB_NEW(call->arena, VolumeCondition, VOLUME_CONDITION);
    r->volume_condition->abnormal = c.abnormal;
    r->volume_condition->message = arena_text(call->arena, c.message);
    r->usage = arena_alloc(call->arena, 2 * sizeof *r->usage);
    r->usage[0] = usage(call->arena, u.bytes_total, u.bytes_used, u.bytes_free, true);
    r->usage[1] = usage(call->arena, u.files_total, u.files_used, u.files_free, false);
    r->n_usage = 2;
    return RPC_OK;
}

enum rpc_code node_get_health(void *arg, struct rpc_call *call, const void *request, void *response,
                              struct err *err)
{
    struct node *n = ((const struct plugin *)arg)->node;
    const PB(NodeGetVolumeHealthRequest) *q = request;
    PB(NodeGetVolumeHealthResponse) *r = response;
    struct known k = {0};
    enum rpc_code code =
        know(n, call, q->volume_id,
             *q->volume_publish_path ? q->volume_publish_path : q->staging_target_path, &k, err);
    if (code)
        return code;
    struct condition c = condition_of(n, &k);
    r->volume_health = PB_NEW(call->arena, VolumeHealth, VOLUME_HEALTH);
    r->volume_health->volume_id = arena_text(call->arena, q->volume_id);
    if (!c.abnormal)
        return RPC_OK;
    PB(VolumeHealth__Entry) *e = PB_NEW(call->arena, VolumeHealth__Entry, VOLUME_HEALTH__ENTRY);
    e->status = CSI__V1__VOLUME_HEALTH__ERROR_TYPE__INACCESSIBLE;
    e->reason = arena_text(call->arena, c.reason);
    e->message = arena_text(call->arena, c.message);
    r->volume_health->health_statuses = arena_alloc(call->arena, sizeof(void *));
    r->volume_health->health_statuses[0] = e;
    r->volume_health->n_health_statuses = 1;
    return RPC_OK;
}

/* A set is as large as what lies in the store: there is nothing to do. */
enum rpc_code node_expand(void *arg, struct rpc_call *call, const void *request, void *response,
                          struct err *err)
{
    struct node *n = ((const struct plugin *)arg)->node;
    const PB(NodeExpandVolumeRequest) *q = request;
    PB(NodeExpandVolumeResponse) *r = response;
    struct known k = {0};
    enum rpc_code code = want_path(q->volume_path, err);
    if (!code)
        code = know(n, call, q->volume_id, q->volume_path, &k, err);
    if (!code && q->capacity_range)
        r->capacity_bytes = q->capacity_range->required_bytes;
    return code;
}

/* --- who we are ------------------------------------------------------------------------------- */

#define NODE_CAPABILITY(name) CSI__V1__NODE_SERVICE_CAPABILITY__RPC__TYPE__##name

enum rpc_code node_get_capabilities(void *arg, struct rpc_call *call, const void *request,
                                    void *response, struct err *err)
{
    static const int types[] = {
        NODE_CAPABILITY(STAGE_UNSTAGE_VOLUME),
        NODE_CAPABILITY(GET_VOLUME_STATS),
        NODE_CAPABILITY(EXPAND_VOLUME),
        NODE_CAPABILITY(VOLUME_CONDITION),
        NODE_CAPABILITY(SINGLE_NODE_MULTI_WRITER),
        NODE_CAPABILITY(VOLUME_MOUNT_GROUP),
        NODE_CAPABILITY(GET_VOLUME_HEALTH),
    };
    PB(NodeGetCapabilitiesResponse) *r = response;
    (void)arg;
    (void)request;
    (void)err;
    PB_CAPABILITIES(call->arena, r, NodeServiceCapability, NODE_SERVICE_CAPABILITY, types);
    return RPC_OK;
}

enum rpc_code node_get_info(void *arg, struct rpc_call *call, const void *request, void *response,
                            struct err *err)
{
    const struct plugin *p = arg;
    PB(NodeGetInfoResponse) *r = response;
    (void)request;
    (void)err;
    PB(Pair) *segment = PB_NEW(call->arena, Pair, PAIR);
    segment->key = arena_format(call->arena, "topology.%s/node", p->driver_name);
    segment->value = arena_text(call->arena, p->node_id);
    r->node_id = arena_text(call->arena, p->node_id);
    r->accessible_topology = PB_NEW(call->arena, Topology, TOPOLOGY);
    r->accessible_topology->segments = arena_alloc(call->arena, sizeof(void *));
    r->accessible_topology->segments[0] = segment;
    r->accessible_topology->n_segments = 1;
    return RPC_OK;
}
