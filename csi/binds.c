/* What pods see: a set's mount bound on their targets, and taken off again. */
#define LOG_MODULE "node"
#include "mem.h"
#include "node-internal.h"

#define LAYERS_MOST 1000 /* one for each time that a mount was lost under a pod */

bool may_be_mount(struct node *n, const char *path)
{
    struct mount_look look;
    struct err why = {0};
    if (n->mounter->ops->look(n->mounter, path, &look, &why) == 0)
        return look.mounted;
    log_warn(n->conf.log, "%s: it is taken for mounted, since nobody can tell: %s", path, why.msg);
    return true;
}

static int is_foreign(const char *path, struct err *err)
{
    return err_set(err, ERR_LIMIT,
                   "%s: something else than a set is mounted there (unmount it first)", path);
}

static char *direct_target(const char *path)
{
    return xasprintf("%s/.sampan/direct", path);
}

/* If it cannot be had off by itself, it goes with the mount that it lies in. */
static void clear_direct(struct node *n, const char *path)
{
    cleanup_free char *to = direct_target(path);
    struct mount_look look;
    if (n->mounter->ops->look(n->mounter, to, &look, NULL) == 0 && look.mounted)
        n->mounter->ops->unbind(n->mounter, to, NULL);
}

int path_clear(struct node *n, const char *path, struct err *err)
{
    struct mount_look look;
    for (int i = 0; i < LAYERS_MOST; i++) {
        if (n->mounter->ops->look(n->mounter, path, &look, err))
            return -1;
        if (!look.mounted)
            return 0;
        if (!look.ours)
            return is_foreign(path, err);
        clear_direct(n, path);
        if (n->mounter->ops->unbind(n->mounter, path, err))
            return -1;
    }
    return err_set(err, ERR_LIMIT, "%s: more than %d mounts lie upon each other there", path,
                   LAYERS_MOST);
}

/* A mount that is new there has none yet, whatever a lost one below it has. */
static int bind_direct(struct node *n, const char *key, const char *path, bool is_new,
                       struct err *err)
{
    cleanup_free char *from = set_path(n, key, SET_DIRECT), *to = direct_target(path);
    struct mount_look there;
    if (n->mounter->ops->look(n->mounter, to, &there, err))
        return -1;
    if (there.mounted && !is_new)
        return 0;
    if (n->mounter->ops->bind(n->mounter, from, to, /* read_only= */ true, err))
        return err_wrap(err, "direct");
    return 0;
}

int set_bind(struct node *n, const char *key, const char *path, bool read_only, bool direct,
             struct err *err)
{
    cleanup_free char *from = set_mountpoint(n, key);
    struct mount_look set, there;
    if (n->mounter->ops->look(n->mounter, from, &set, err) ||
        n->mounter->ops->look(n->mounter, path, &there, err))
        return -1;
    if (there.mounted && !there.ours)
        return is_foreign(path, err);
    bool is_new = !there.mounted || !set.mounted || there.dev != set.dev;
    if (is_new && n->mounter->ops->bind(n->mounter, from, path, read_only, err))
        return -1;
    return direct ? bind_direct(n, key, path, is_new, err) : 0;
}

static bool show_from(struct node *n, const struct set *s, const char *target)
{
    struct mount_look there;
    struct err why = {0};
    if (n->mounter->ops->look(n->mounter, target, &there, NULL) || !there.mounted ||
        there.dev != s->dev)
        return false;
    if (n->mounter->ops->bind(n->mounter, target, s->mountpoint, false, &why)) {
        log_warn(n->conf.log, "set %s: it is not mounted at %s any more: %s", s->uri, s->mountpoint,
                 why.msg);
        return false;
    }
    log_warn(n->conf.log, "set %s: somebody unmounted %s: it is mounted there again", s->uri,
             s->mountpoint);
    return true;
}

bool set_show_again(struct node *n, const struct set *s)
{
    struct mount_serving serving;
    bool shown = false;
    size_t count;
    if (!s->dev || may_be_mount(n, s->mountpoint))
        return false;
    n->mounter->ops->serving(n->mounter, s->mountpoint, &serving);
    if (!serving.alive)
        return false;
    char **targets = targets_of_set(n, s->key, &count);
    for (size_t i = 0; i < count && !shown; i++)
        shown = show_from(n, s, targets[i]);
    ids_free(targets, count);
    return shown;
}
