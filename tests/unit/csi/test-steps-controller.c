/* The controller is killed at every step of every call, each change of the store among them: the
 * call made again succeeds, nothing is there twice, and in the end neither records nor anything in
 * the store are left. */
#include <criterion/criterion.h>

#include "fake-store.h"
#include "state.h"
#include "world.h"

/* A claim, and what its pod wrote. */
static enum rpc_code create_claim(struct world *w)
{
    char path[200];
    enum rpc_code code = do_create_claim(w, "c");
    snprintf(path, sizeof path, "%s/claims/c/file", w->store);
    if (code == RPC_OK)
        cr_assert(file_write_whole(path, "x", 1, 0644, NULL) == 0, "no prefix was made");
    return code;
}
static enum rpc_code delete_claim(struct world *w)
{
    return do_delete(w, "c");
}
static enum rpc_code create(struct world *w)
{
    return do_create(w, "v", NULL);
}
static enum rpc_code delete (struct world *w) { return do_delete(w, "v"); }
static enum rpc_code snapshot(struct world *w)
{
    return do_snapshot(w, "s", "v");
}
static enum rpc_code delete_snapshot(struct world *w)
{
    return do_delete_snapshot(w, "s");
}
static enum rpc_code create_of_snapshot(struct world *w)
{
    return do_create(w, "of-s", "s");
}
static enum rpc_code delete_of_snapshot(struct world *w)
{
    return do_delete(w, "of-s");
}

#define CALLS_MOST 6
static const struct life {
    const char *name;
    struct {
        world_call *fn;
        size_t volumes, snapshots; /* listed after it */
        size_t in_store;           /* files and folders, the set's own folder not counted */
    } calls[CALLS_MOST];
} lives[] = {
    /* claims, .sampan-volumes, its mark, c, c/file; the two folders stay */
    {"claim", {{create_claim, 1, 0, 5}, {delete_claim, 0, 0, 2}}},
    /* catalogs, a folder of its own, the catalog; the first stays */
    {"snapshot",
     {{create, 1, 0, 0},
      {snapshot, 1, 1, 3},
      {create_of_snapshot, 2, 1, 3},
      {delete_snapshot, 2, 0, 3},
      {delete_of_snapshot, 1, 0, 1},
      {delete, 0, 0, 1}}},
};

static size_t in_store(const struct world *w)
{
    return fake_store_count(w->store) - 1;
}

static bool live(const struct life *life, size_t which, int die_at)
{
    struct world w;
    bool lived = true;
    world_make(&w);
    for (size_t i = 0; i < CALLS_MOST && life->calls[i].fn; i++) {
        if (i == which)
            lived = world_survives(&w, life->calls[i].fn, die_at);
        for (int again = 0; again < 2; again++)
            cr_assert(life->calls[i].fn(&w) == RPC_OK,
                      "%s, call %zu killed at step %d: call %zu: %s", life->name, which, die_at, i,
                      w.err.msg);
        cr_assert(world_volumes(&w) == life->calls[i].volumes &&
                      world_snapshots(&w) == life->calls[i].snapshots,
                  "%s, call %zu killed at step %d: after call %zu %zu volumes, %zu snapshots",
                  life->name, which, die_at, i, world_volumes(&w), world_snapshots(&w));
        cr_assert(in_store(&w) == life->calls[i].in_store,
                  "%s, call %zu killed at step %d: after call %zu %zu things in the store",
                  life->name, which, die_at, i, in_store(&w));
    }
    cr_assert(world_records(&w) == 0, "%s, call %zu killed at step %d: %zu files left", life->name,
              which, die_at, world_records(&w));
    world_remove(&w);
    return lived;
}

Test(steps_controller, killed_at_each_and_called_again)
{
    for (size_t l = 0; l < sizeof lives / sizeof lives[0]; l++)
        for (size_t call = 0; call < CALLS_MOST && lives[l].calls[call].fn; call++) {
            int die_at = 1;
            while (!live(&lives[l], call, die_at))
                die_at++;
            cr_assert(die_at > 1, "%s, call %zu has no step", lives[l].name, call);
        }
}

/* A sidecar may give up in between: what it deletes instead leaves nothing either. */
static void undone(world_call *before, world_call *call, world_call *undo, world_call *after,
                   size_t left)
{
    for (int die_at = 1;; die_at++) {
        struct world w;
        world_make(&w);
        cr_assert(!before || before(&w) == RPC_OK);
        bool lived = world_survives(&w, call, die_at);
        cr_assert(undo(&w) == RPC_OK && (!after || after(&w) == RPC_OK), "step %d: %s", die_at,
                  w.err.msg);
        cr_assert(world_records(&w) == 0 && in_store(&w) <= left, "step %d: %zu in the store",
                  die_at, in_store(&w));
        world_remove(&w);
        if (lived)
            break;
    }
}

Test(steps_controller, killed_at_each_and_undone)
{
    undone(NULL, create_claim, delete_claim, NULL, 2);
    undone(create, snapshot, delete_snapshot, delete, 1);
}

/* A call that fails for good leaves no record: nobody would ever ask for it again. */
Test(steps_controller, a_failure_leaves_nothing)
{
    struct world w;
    world_make(&w);
    cr_assert(do_create(&w, "v", NULL) == RPC_OK);
    w.fake->refuse = ERR_DENIED;
    cr_assert(do_snapshot(&w, "s", "v") == RPC_UNAUTHENTICATED);
    w.fake->refuse = 0;
    cr_assert(world_snapshots(&w) == 0 && do_delete_snapshot(&w, "s") == RPC_OK);
    cr_assert(do_delete(&w, "v") == RPC_OK && world_records(&w) == 0 && in_store(&w) == 0);
    world_remove(&w);
}

/* The catalog of a version goes with the last that shows it, whoever that is. */
Test(steps_controller, snapshots_of_one_version_share_nothing_in_the_store)
{
    struct world w;
    world_make(&w);
    cr_assert(do_create(&w, "v", NULL) == RPC_OK && do_snapshot(&w, "a", "v") == RPC_OK &&
              do_snapshot(&w, "b", "v") == RPC_OK);
    cr_assert(in_store(&w) == 5); /* catalogs, two folders with a catalog each */
    cr_assert(do_delete_snapshot(&w, "a") == RPC_OK && in_store(&w) == 3);
    cr_assert(do_create(&w, "of-b", "b") == RPC_OK && do_delete_snapshot(&w, "b") == RPC_OK);
    cr_assert(in_store(&w) == 3 && do_create(&w, "of-b2", "b") == RPC_NOT_FOUND);
    cr_assert(do_delete(&w, "of-b") == RPC_OK && in_store(&w) == 1);
    cr_assert(do_delete(&w, "v") == RPC_OK && world_records(&w) == 0);
    world_remove(&w);
}
