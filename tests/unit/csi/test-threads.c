/* Many calls at once, of one volume and of many, beside the look of the watch: each is done or told
 * to come again, and in the end nothing is left. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fake-store.h"
#include "world.h"

#define THREADS 8
#define ROUNDS  6

struct caller {
    struct world world; /* with the services of all; its own place for errors */
    char volume[32], target[200];
    int failures;
};

static enum rpc_code until_done(enum rpc_code (*fn)(struct caller *c), struct caller *c)
{
    enum rpc_code code;
    while ((code = fn(c)) == RPC_ABORTED)
        ;
    return code;
}

static enum rpc_code stage(struct caller *c)
{
    return do_stage(&c->world, c->volume, "secret");
}
static enum rpc_code publish(struct caller *c)
{
    return do_publish(&c->world, c->volume, c->target, true, "secret");
}
static enum rpc_code unpublish(struct caller *c)
{
    return do_unpublish(&c->world, c->volume, c->target);
}
static enum rpc_code unstage(struct caller *c)
{
    return do_unstage(&c->world, c->volume);
}

static void *own_volume(void *arg)
{
    struct caller *c = arg;
    for (int i = 0; i < ROUNDS; i++)
        c->failures += until_done(stage, c) || until_done(publish, c) || until_done(unpublish, c) ||
                       until_done(unstage, c);
    return NULL;
}

static void *stage_alone(void *arg)
{
    struct caller *c = arg;
    c->failures = until_done(stage, c) != RPC_OK;
    return NULL;
}
static void *unstage_alone(void *arg)
{
    struct caller *c = arg;
    c->failures = until_done(unstage, c) != RPC_OK;
    return NULL;
}

/* One volume for all; a target each. */
static void *shared_volume(void *arg)
{
    struct caller *c = arg;
    for (int i = 0; i < ROUNDS; i++)
        c->failures += until_done(publish, c) || until_done(unpublish, c);
    return NULL;
}

static void *healer(void *arg)
{
    struct caller *c = arg;
    for (int i = 0; i < 4 * ROUNDS; i++)
        node_heal(c->world.node);
    return NULL;
}

static enum rpc_code make_claim(struct caller *c)
{
    return do_create_claim(&c->world, c->volume);
}
static enum rpc_code make_volume(struct caller *c)
{
    return do_create(&c->world, c->volume, NULL);
}
static enum rpc_code make_snapshot(struct caller *c)
{
    return do_snapshot(&c->world, "shared", "source");
}
static enum rpc_code drop_snapshot(struct caller *c)
{
    return do_delete_snapshot(&c->world, "shared");
}
static enum rpc_code drop(struct caller *c)
{
    return do_delete(&c->world, c->volume);
}
/* There may be no such snapshot at the moment. */
static enum rpc_code make_of_snapshot(struct caller *c)
{
    enum rpc_code code = do_create(&c->world, c->volume, "shared");
    return code == RPC_NOT_FOUND ? RPC_OK : code;
}

static void *claims(void *arg)
{
    struct caller *c = arg;
    for (int i = 0; i < ROUNDS; i++)
        c->failures += until_done(make_claim, c) || until_done(drop, c) ||
                       until_done(make_volume, c) || until_done(drop, c);
    return NULL;
}

static void *snapshots(void *arg)
{
    struct caller *c = arg;
    for (int i = 0; i < ROUNDS; i++) {
        c->failures += until_done(make_snapshot, c) || until_done(make_of_snapshot, c);
        world_volumes(&c->world);
        world_snapshots(&c->world);
        c->failures += until_done(drop, c) || until_done(drop_snapshot, c);
    }
    return NULL;
}

static void all_at_once(struct world *w, void *(*fn)(void *arg), void *(*beside)(void *arg),
                        const char *volume)
{
    static struct caller callers[THREADS + 1];
    pthread_t threads[THREADS + 1];
    for (int i = 0; i <= THREADS; i++) {
        struct caller *c = &callers[i];
        *c = (struct caller){.world = *w};
        if (volume)
            snprintf(c->volume, sizeof c->volume, "%s", volume);
        else
            snprintf(c->volume, sizeof c->volume, "v-%d", i);
        snprintf(c->target, sizeof c->target, "%s-%d", w->target, i);
        cr_assert(pthread_create(&threads[i], NULL, i < THREADS || !beside ? fn : beside, c) == 0);
    }
    for (int i = 0; i <= THREADS; i++) {
        pthread_join(threads[i], NULL);
        cr_assert(callers[i].failures == 0, "thread %d: %s", i, callers[i].world.err.msg);
    }
}

Test(threads, volumes_of_one_set)
{
    struct world w;
    world_make(&w);
    all_at_once(&w, own_volume, healer, NULL);
    cr_assert(fake_count(w.fake) == 0 && world_records(&w) == 0, "%zu mounts, %zu files",
              fake_count(w.fake), world_records(&w));
    cr_assert(do_stage(&w, "one", "secret") == RPC_OK);
    all_at_once(&w, shared_volume, healer, "one");
    cr_assert(fake_count(w.fake) == 1 && do_unstage(&w, "one") == RPC_OK);
    cr_assert(fake_count(w.fake) == 0 && world_records(&w) == 0);
    world_remove(&w);
}

Test(threads, volumes_that_come_at_once_share_one_mount)
{
    for (int i = 0; i < ROUNDS; i++) {
        struct world w;
        world_make(&w);
        all_at_once(&w, stage_alone, NULL, NULL);
        cr_assert(fake_count(w.fake) == 1, "%zu mounts of one set", fake_count(w.fake));
        all_at_once(&w, unstage_alone, NULL, NULL);
        cr_assert(fake_count(w.fake) == 0 && world_records(&w) == 0);
        world_remove(&w);
    }
}

Test(threads, claims_and_snapshots)
{
    struct world w;
    world_make(&w);
    all_at_once(&w, claims, NULL, NULL);
    cr_assert(do_create(&w, "source", NULL) == RPC_OK);
    all_at_once(&w, snapshots, NULL, NULL);
    cr_assert(do_delete(&w, "source") == RPC_OK && world_records(&w) == 0, "%zu files",
              world_records(&w));
    char catalogs[160];
    snprintf(catalogs, sizeof catalogs, "%s/catalogs", w.store);
    cr_assert(fake_store_count(catalogs) == 0);
    world_remove(&w);
}
