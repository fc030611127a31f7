/* The plugin is killed at every step of every call: the call made again succeeds, and nothing
 * stays. */
#include <criterion/criterion.h>

#include "world.h"

static enum rpc_code stage(struct world *w)
{
    return do_stage(w, "v", "secret");
}
static enum rpc_code publish(struct world *w)
{
    return do_publish(w, "v", w->target, true, "secret");
}
static enum rpc_code unpublish(struct world *w)
{
    return do_unpublish(w, "v", w->target);
}
static enum rpc_code unstage(struct world *w)
{
    return do_unstage(w, "v");
}
static enum rpc_code publish_inline(struct world *w)
{
    return do_inline(w, "i", w->target2);
}
static enum rpc_code unpublish_inline(struct world *w)
{
    return do_unpublish(w, "i", w->target2);
}

static const struct life {
    const char *name, *group;
    world_call *calls[4];
    size_t n;
} lives[] = {
    {"staged", NULL, {stage, publish, unpublish, unstage}, 4},
    {"for a group", "7", {stage, publish, unpublish, unstage}, 4},
    {"inline", NULL, {publish_inline, unpublish_inline}, 2},
};

/* One life of a volume, the plugin killed at step `die_at` of call `which`. True: there is no such
 * step. */
static bool live(const struct life *life, size_t which, int die_at, bool heal)
{
    struct world w;
    bool lived = true;
    world_make(&w);
    w.group = life->group;
    for (size_t i = 0; i < life->n; i++) {
        if (i == which) {
            lived = world_survives(&w, life->calls[i], die_at);
            if (heal)
                node_heal(w.node);
        }
        cr_assert(life->calls[i](&w) == RPC_OK, "%s, call %zu killed at step %d: call %zu: %s",
                  life->name, which, die_at, i, w.err.msg);
        const struct fake_mount *shown = fake_at(w.fake, w.target);
        cr_assert(!life->group || !shown || w.fake->owned_dev == shown->dev,
                  "%s, call %zu killed at step %d: its root is not the group's", life->name, which,
                  die_at);
    }
    cr_assert(fake_count(w.fake) == 0, "%s, call %zu killed at step %d: %zu mounts left",
              life->name, which, die_at, fake_count(w.fake));
    cr_assert(world_records(&w) == 0, "%s, call %zu killed at step %d: %zu files left", life->name,
              which, die_at, world_records(&w));
    world_remove(&w);
    return lived;
}

static void every_step(bool heal)
{
    for (size_t l = 0; l < sizeof lives / sizeof lives[0]; l++)
        for (size_t call = 0; call < lives[l].n; call++) {
            int die_at = 1;
            while (!live(&lives[l], call, die_at, heal))
                die_at++;
            cr_assert(die_at > 3, "%s, call %zu has only %d steps", lives[l].name, call, die_at);
        }
}

Test(steps, killed_at_each_and_called_again)
{
    every_step(false);
}

Test(steps, killed_at_each_healed_and_called_again)
{
    every_step(true);
}

/* Kubelet may give up in between: what it undoes instead leaves nothing either. */
Test(steps, killed_at_each_and_undone)
{
    for (int die_at = 1;; die_at++) {
        struct world w;
        world_make(&w);
        cr_assert(stage(&w) == RPC_OK);
        bool lived = world_survives(&w, publish, die_at);
        cr_assert(unpublish(&w) == RPC_OK && unstage(&w) == RPC_OK, "step %d: %s", die_at,
                  w.err.msg);
        cr_assert(fake_count(w.fake) == 0 && world_records(&w) == 0, "step %d", die_at);
        world_remove(&w);
        if (lived)
            break;
    }
}
