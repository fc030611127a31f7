/* The node's disk is full from some step of a call on: the call fails, leaves nothing behind that
 * it made, and works when there is room again. */
#include <criterion/criterion.h>
#include <signal.h>
#include <sys/resource.h>

#include "world.h"

static void set_room(bool room)
{
    struct rlimit limit;
    cr_assert(getrlimit(RLIMIT_FSIZE, &limit) == 0);
    limit.rlim_cur = room ? limit.rlim_max : 0;
    cr_assert(setrlimit(RLIMIT_FSIZE, &limit) == 0);
}

static enum rpc_code stage(struct world *w)
{
    return do_stage(w, "v", "secret");
}
static enum rpc_code publish(struct world *w)
{
    return do_publish(w, "v", w->target, true, NULL);
}
/* A set that was mounted without keys is mounted again with them. */
static enum rpc_code stage_without(struct world *w)
{
    return do_stage(w, "v", NULL);
}
static enum rpc_code publish_with(struct world *w)
{
    return do_publish(w, "v", w->target, true, "secret");
}
static enum rpc_code publish_inline(struct world *w)
{
    return do_inline(w, "i", w->target2);
}
static enum rpc_code unpublish_inline(struct world *w)
{
    return do_unpublish(w, "i", w->target2);
}
static enum rpc_code unpublish(struct world *w)
{
    return do_unpublish(w, "v", w->target);
}
static enum rpc_code unstage(struct world *w)
{
    return do_unstage(w, "v");
}

static const struct {
    world_call *call;
    bool makes;
} calls[] = {{publish_inline, true}, {unpublish_inline, false}, {stage, true},
             {publish, true},        {unpublish, false},        {unstage, false},
             {stage_without, true},  {publish_with, false},     {unpublish, false},
             {unstage, false}};
#define N_CALLS (sizeof calls / sizeof calls[0])

/* All calls in turn; call `which` finds the disk full from its step `at` on. True: it needed none.
 */
static bool with_full_disk(size_t which, int at, bool restart)
{
    struct world w;
    world_make(&w);
    bool done = false;
    for (size_t i = 0; i < N_CALLS; i++) {
        size_t mounts = fake_count(w.fake), records = world_records(&w);
        w.fake->step = 0;
        w.fake->full_at = i == which ? at : 0;
        enum rpc_code code = calls[i].call(&w);
        bool met = w.fake->full_at && w.fake->step >= at;
        set_room(true);
        w.fake->full_at = 0;
        done = done || (i == which && !met);
        cr_assert(code == RPC_OK || met, "call %zu: %s", i, w.err.msg);
        if (code != RPC_OK && calls[i].makes)
            cr_assert(fake_count(w.fake) == mounts && world_records(&w) == records,
                      "call %zu, full from step %d: %zu mounts, %zu records, before %zu and %zu", i,
                      at, fake_count(w.fake), world_records(&w), mounts, records);
        if (restart) {
            world_close(&w);
            world_open(&w);
        }
        if (code != RPC_OK)
            cr_assert(calls[i].call(&w) == RPC_OK, "call %zu, again after %d: %s", i, at,
                      w.err.msg);
    }
    cr_assert(fake_count(w.fake) == 0 && world_records(&w) == 0, "call %zu, step %d", which, at);
    world_remove(&w);
    return done;
}

Test(full_disk, a_call_is_undone_and_works_again)
{
    signal(SIGXFSZ, SIG_IGN);
    for (size_t i = 0; i < 2 * N_CALLS; i++) {
        int at = 1;
        while (!with_full_disk(i / 2, at, i % 2))
            at++;
        cr_assert(at > 2, "call %zu has only %d steps", i / 2, at);
    }
}

/* One that could not be written down uses no set: nobody else's is kept up for it. */
Test(full_disk, a_set_is_not_kept_for_a_volume_that_was_refused)
{
    struct world w;
    signal(SIGXFSZ, SIG_IGN);
    world_make(&w);
    cr_assert(do_stage(&w, "a", "secret") == RPC_OK);
    cr_assert(do_stage(&w, "v", NULL) == RPC_OK, "its keys come with publish");
    set_room(false);
    cr_assert(do_publish(&w, "v", w.target, true, "secret") != RPC_OK);
    set_room(true);
    cr_assert(do_unstage(&w, "a") == RPC_OK && w.fake->unmounted == 1);
    cr_assert(do_publish(&w, "v", w.target, true, "secret") == RPC_OK, "%s", w.err.msg);
    cr_assert(do_unpublish(&w, "v", w.target) == RPC_OK && do_unstage(&w, "v") == RPC_OK);
    cr_assert(fake_count(w.fake) == 0 && world_records(&w) == 0);
    world_remove(&w);
}
