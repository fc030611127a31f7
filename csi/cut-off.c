/*
 * Pods that are cut off. When a mount was lost with all its holders it is made again, and its binds
 * with it; but a container that sees no new mounts (without mountPropagation: HostToContainer, or
 * with a subPath) keeps the old one, which answers nothing any more. Which ones those are is in the
 * kernel's tables; they are told to restart, and the volume's condition and a metric say so until
 * they did.
 *
 * The target's record has the lost mount's device from before the bind is replaced until nobody
 * sees it: a plugin that is killed in between looks again.
 */
#define LOG_MODULE "watch"
#include "mem.h"
#include "node-internal.h"

void cut_off_note(struct node *n, struct volume *v, struct target *t, uint64_t lost)
{
    struct err why = {0};
    target_add_lost(t, lost);
    if (volume_store(n, v, &why))
        log_warn(n->conf.log, "volume %s: %s", v->id, why.msg);
}

static void tell(struct node *n, const struct volume *v, const struct target *t, uint64_t dev)
{
    cleanup_free char *about = xasprintf("%s\n%llu", v->id, (unsigned long long)dev);
    cleanup_free char *text = xasprintf(
        "volume %s: its mount on node %s was lost and has been made again, but this pod still sees "
        "the old one, where reads fail (Transport endpoint is not connected): restart the pod "
        "(with mountPropagation: HostToContainer it would have gone on)",
        v->id, n->conf.node_id);
    log_warn(n->conf.log,
             "volume %s: pod %s/%s (%s) still sees the mount that was lost: restart it", v->id,
             t->pod.namespace, t->pod.name, t->pod.uid);
    events_warn(n->conf.events, &t->pod, about, "RestartNeeded", text);
}

/* True: one of the lost mounts is seen no more. */
static bool look_at_target(struct node *n, const struct volume *v, struct target *t)
{
    size_t before = t->n_lost;
    for (size_t i = 0; i < t->n_lost; i++) {
        struct lost_mount *l = &t->lost[i];
        if (!n->mounter->ops->pod_sees(n->mounter, t->pod.uid, l->dev)) {
            *l = t->lost[--t->n_lost];
            i--;
        } else if (!l->told) {
            l->told = true;
            tell(n, v, t, l->dev);
        }
    }
    return t->n_lost < before;
}

static void look_at_volume(struct node *n, struct volume *v)
{
    struct err why = {0};
    bool changed = false;
    for (size_t i = 0; i < v->n_targets; i++)
        changed = look_at_target(n, v, &v->targets[i]) || changed;
    if (changed && volume_store(n, v, &why))
        log_warn(n->conf.log, "volume %s: %s", v->id, why.msg);
}

void cut_off_look(struct node *n)
{
    size_t count;
    char **ids = volumes_of_set(n, NULL, &count);
    for (size_t i = 0; i < count; i++) {
        cleanup_volume struct volume_scope scope = {n, NULL};
        if (volume_try(n, ids[i], &scope.volume) == RPC_OK)
            look_at_volume(n, scope.volume);
    }
    ids_free(ids, count);
}
