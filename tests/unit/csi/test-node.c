/* Volumes and sets over the machine in memory. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "node-internal.h"
#include "world.h"

Test(node, volumes_of_one_set_share_its_mount)
{
    struct world w;
    world_make(&w);
    cr_assert(do_stage(&w, "a", NULL) == RPC_OK, "%s", w.err.msg);
    cr_assert(do_inline(&w, "b", w.target2) == RPC_OK, "%s", w.err.msg);
    cr_assert(w.fake->mounted == 1 && fake_count(w.fake) == 2);
    cr_assert(do_publish(&w, "a", w.target, false, NULL) == RPC_OK);
    cr_assert(fake_at(w.fake, w.target)->read_only, "a set is read");
    cr_assert(do_unpublish(&w, "a", w.target) == RPC_OK && do_unstage(&w, "a") == RPC_OK);
    cr_assert(w.fake->unmounted == 0 && fake_at(w.fake, w.target2), "the other still has it");
    cr_assert(do_unpublish(&w, "b", w.target2) == RPC_OK);
    cr_assert(w.fake->unmounted == 1 && world_records(&w) == 0);
    world_remove(&w);
}

Test(node, a_set_with_keys_is_not_for_those_without)
{
    struct world w;
    world_make(&w);
    cr_assert(do_stage(&w, "a", "s") == RPC_OK);
    cr_assert(do_inline(&w, "b", w.target2) == RPC_UNAUTHENTICATED, "%s", w.err.msg);
    cr_assert(do_publish(&w, "a", w.target, false, NULL) == RPC_OK, "staging had them");
    cr_assert(w.fake->mounted == 1 && fake_count(w.fake) == 2);
    world_remove(&w);
}

/* As when a Secret is renewed while a pod of another volume has the set. */
Test(node, a_set_with_other_keys_has_a_cache_of_its_own)
{
    static const struct {
        const char *volume, *secret, *folder;
    } rows[] = {
        {"a", "s", NULL},        {"b", "t", "/apart-1 "},
        {"c", "u", "/apart-2 "}, {"b", NULL, NULL}, /* unstaged */
        {"d", "v", "/apart-1 "},
    };
    struct world w;
    world_make(&w);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (!rows[i].secret) {
            cr_assert(do_unstage(&w, rows[i].volume) == RPC_OK);
            continue;
        }
        cr_assert(do_stage(&w, rows[i].volume, rows[i].secret) == RPC_OK, "%s", w.err.msg);
        const char *words = w.fake->words;
        cr_expect(rows[i].folder ? strstr(words, rows[i].folder) != NULL
                                 : strstr(words, "/apart-") == NULL,
                  "row %zu: %s", i, words);
    }
    cr_assert(w.fake->mounted == 4);
    world_remove(&w);
}

/* As long as its descriptors are held whoever touches a mount that nobody serves waits. */
Test(node, a_root_is_given_to_its_group_before_its_descriptors_are_held)
{
    struct world w;
    world_make(&w);
    w.group = "7";
    w.fake->own_refuse = ERR_TRANSIENT; /* it was killed right before */
    cr_assert(do_stage(&w, "a", NULL) == RPC_UNAVAILABLE, "%s", w.err.msg);
    cr_assert(w.fake->held == 0);
    cr_assert(do_stage(&w, "a", NULL) == RPC_OK, "%s", w.err.msg);
    cr_assert(w.fake->owned_by == 7 && w.fake->held_before == 0 && w.fake->held == 1);
    w.fake->owned_by = 0;
    cr_assert(do_publish(&w, "a", w.target, false, NULL) == RPC_OK);
    world_close(&w);
    world_open(&w);
    node_heal(w.node);
    cr_assert(w.fake->held == 2 && !w.fake->owned_by, "once a mount: it may be changed since");
    world_remove(&w);
}

Test(node, a_set_that_is_written_is_of_one_group)
{
    struct world w;
    world_make(&w);
    w.group = "7";
    cr_assert(do_stage(&w, "a", NULL) == RPC_OK, "%s", w.err.msg);
    w.group = "8";
    cr_assert(do_stage(&w, "b", NULL) == RPC_RESOURCE_EXHAUSTED);
    cr_assert(strstr(w.err.msg, "fsGroup 7") && strstr(w.err.msg, "fsGroup 8"), "%s", w.err.msg);
    w.group = "7";
    cr_assert(do_stage(&w, "b", NULL) == RPC_OK, "%s", w.err.msg);
    w.group = "";
    cr_assert(do_stage(&w, "c", NULL) == RPC_OK, "%s", w.err.msg);
    cr_assert(w.fake->mounted == 1, "all have the one mount");
    w.group = "8";
    cr_assert(do_unstage(&w, "a") == RPC_OK && do_unstage(&w, "b") == RPC_OK &&
              do_unstage(&w, "c") == RPC_OK);
    cr_assert(do_stage(&w, "b", NULL) == RPC_OK && w.fake->owned_by == 8);
    world_remove(&w);
}

Test(node, secrets_never_stand_in_words)
{
    struct world w;
    world_make(&w);
    cr_assert(do_stage(&w, "a", "hushhush") == RPC_OK);
    cr_assert(strstr(w.fake->words, "--credentials ") && !strstr(w.fake->words, "hushhush"));
    cr_assert(strstr(w.fake->words, " -- s3://b/set "), "%s", w.fake->words);
    world_remove(&w);
}

Test(node, a_start_that_fails_leaves_nothing)
{
    static const struct {
        enum err_class class;
        const char *secret;
        enum rpc_code want;
    } rows[] = {
        {ERR_NOT_FOUND, NULL, RPC_NOT_FOUND},      {ERR_DENIED, "wrong", RPC_UNAUTHENTICATED},
        {ERR_LIMIT, NULL, RPC_RESOURCE_EXHAUSTED}, {ERR_USAGE, NULL, RPC_INVALID_ARGUMENT},
        {ERR_FAILED, NULL, RPC_INTERNAL},          {ERR_TRANSIENT, NULL, RPC_UNAVAILABLE},
        {ERR_CANCELLED, NULL, RPC_ABORTED},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct world w;
        world_make(&w);
        w.fake->refuse = rows[i].class;
        enum rpc_code code = do_stage(&w, "v", rows[i].secret);
        cr_assert(code == rows[i].want, "row %zu: %s", i, rpc_code_name(code));
        cr_assert(strstr(w.err.msg, "refused by the test"));
        cr_assert(fake_count(w.fake) == 0 && world_records(&w) == 0, "row %zu", i);
        w.fake->refuse = ERR_NONE;
        cr_assert(do_stage(&w, "v", rows[i].secret) == RPC_OK);
        world_remove(&w);
    }
}

/* What a call waits for is told when to end; when it did not, the call says that time is up. */
Test(node, a_start_that_takes_too_long_leaves_nothing)
{
    struct world w;
    world_make(&w);
    w.fake->late = true;
    cr_assert(do_stage(&w, "v", NULL) == RPC_DEADLINE_EXCEEDED, "%s", w.err.msg);
    cr_assert(w.fake->deadline_ns == w.deadline_ns);
    cr_assert(fake_count(w.fake) == 0 && world_records(&w) == 0);
    w.fake->late = false;
    cr_assert(do_stage(&w, "v", NULL) == RPC_OK, "%s", w.err.msg);
    world_remove(&w);
}

Test(node, every_method_has_a_deadline)
{
    static const struct {
        const struct rpc_method *methods;
        const size_t *n;
    } services[] = {{identity_methods, &n_identity_methods},
                    {controller_methods, &n_controller_methods},
                    {node_methods, &n_node_methods}};
    for (size_t s = 0; s < sizeof services / sizeof services[0]; s++)
        for (size_t i = 0; i < *services[s].n; i++)
            cr_assert(services[s].methods[i].deadline_s > 0, "%s", services[s].methods[i].name);
}

Test(node, keys_may_come_with_publish)
{
    struct world w;
    world_make(&w);
    w.fake->refuse = ERR_DENIED;
    cr_assert(do_stage(&w, "v", NULL) == RPC_OK);
    cr_assert(do_publish(&w, "v", w.target, true, NULL) == RPC_UNAUTHENTICATED);
    cr_assert(access(w.target, F_OK) != 0, "the target of a publish that failed");
    w.fake->refuse = ERR_NONE;
    cr_assert(do_publish(&w, "v", w.target, true, "s") == RPC_OK, "%s", w.err.msg);
    cr_assert(!fake_at(w.fake, w.staging) && fake_at(w.fake, w.target));
    cr_assert(do_unpublish(&w, "v", w.target) == RPC_OK && do_unstage(&w, "v") == RPC_OK);
    cr_assert(fake_count(w.fake) == 0 && world_records(&w) == 0);
    world_remove(&w);
}

Test(node, an_owner_that_still_ends_is_waited_for)
{
    struct world w;
    world_make(&w);
    w.fake->busy = 3;
    cr_assert(do_stage(&w, "v", NULL) == RPC_OK, "%s", w.err.msg);
    world_remove(&w);
}

Test(node, an_owner_that_ends_before_it_is_told_to_has_ended)
{
    struct world w;
    world_with_volume(&w, NULL);
    w.fake->copied = 2;
    cr_expect(do_unstage(&w, "v") == RPC_OK, "%s", w.err.msg);
    cr_expect(world_records(&w) == 0);
    world_remove(&w);
}

Test(node, what_was_lost_comes_back_with_its_binds)
{
    struct world w;
    world_with_pod(&w, "s");
    uint64_t before = fake_at(w.fake, w.target)->dev;
    world_close(&w);
    fake_lose(w.fake);
    world_open(&w);
    node_heal(w.node);
    uint64_t after = fake_at(w.fake, w.target)->dev;
    cr_assert(after != before);
    cr_assert(fake_at(w.fake, w.target)->read_only && fake_count(w.fake) == 3,
              "the new mount, and its bind upon the old one");
    cr_assert(do_unpublish(&w, "v", w.target) == RPC_OK && do_unstage(&w, "v") == RPC_OK);
    cr_assert(fake_count(w.fake) == 0 && world_records(&w) == 0);
    world_remove(&w);
}

/* A call may come before whoever looks at the sets. As long as descriptors of the mount are held,
 * `sampan mount` would wait for it as readers do. */
Test(node, a_call_that_meets_a_lost_mount_goes_on_with_it)
{
    struct world w;
    world_with_pod(&w, "s");
    w.fake->revives = true;
    fake_lose(w.fake);
    cr_assert(do_publish(&w, "v", w.target2, false, NULL) == RPC_OK, "%s", w.err.msg);
    cr_expect(w.fake->revived == 1 && w.fake->mounted == 1);
    cr_expect(fake_at(w.fake, w.target)->dev == fake_at(w.fake, w.target2)->dev);
    world_remove(&w);
}

/* What other pods see is put right by whoever looks at the sets, whenever the volume is free. */
Test(node, a_call_that_mounts_a_lost_set_again_leaves_no_pod_behind)
{
    struct world w;
    world_with_pod(&w, "s");
    node_heal(w.node);
    cr_assert(sets_are_held(w.node));
    fake_lose(w.fake);
    cr_assert(do_publish(&w, "v", w.target2, false, NULL) == RPC_OK, "%s", w.err.msg);
    cr_expect(w.fake->revived == 1 && w.fake->mounted == 2);
    cr_expect(counter_get(&w.node->stats.lost) == 1 && counter_get(&w.node->stats.healed) == 1);
    cr_expect(fake_at(w.fake, w.target)->dev != fake_at(w.fake, w.target2)->dev);
    struct volume *v;
    cr_assert(volume_begin(w.node, "v", &v, &w.err) == RPC_OK);
    node_heal(w.node);
    cr_expect(!sets_are_held(w.node), "a call has the volume: it is looked at again");
    volume_end(w.node, v);
    node_heal(w.node);
    cr_expect(fake_at(w.fake, w.target)->dev == fake_at(w.fake, w.target2)->dev);
    cr_expect(sets_are_held(w.node));
    world_remove(&w);
}

Test(node, what_is_lost_is_counted_once_however_often_it_is_tried)
{
    struct world w;
    world_with_pod(&w, "s");
    fake_lose(w.fake);
    w.fake->refuse = ERR_TRANSIENT;
    node_heal(w.node);
    node_heal(w.node);
    cr_expect(do_publish(&w, "v", w.target2, false, NULL) == RPC_UNAVAILABLE);
    cr_expect_eq(counter_get(&w.node->stats.healed), 0);
    w.fake->refuse = 0;
    node_heal(w.node);
    cr_expect_eq(counter_get(&w.node->stats.lost), 1);
    cr_expect_eq(counter_get(&w.node->stats.healed), 1);
    world_remove(&w);
}

/* Its owner goes on for the pods, and has its cache: it cannot be mounted anew. */
Test(node, a_mount_point_that_somebody_unmounted_is_shown_again)
{
    struct world w;
    world_with_pod(&w, "s");
    struct fake_mount set = w.fake->mounts[0];
    fake_umount(w.fake, set.path);
    cr_assert(!fake_at(w.fake, set.path) && fake_count(w.fake) == 1);
    cr_expect(do_publish(&w, "v", w.target2, false, NULL) == RPC_OK, "%s", w.err.msg);
    cr_assert(fake_at(w.fake, set.path) && fake_at(w.fake, w.target2));
    cr_expect(fake_at(w.fake, set.path)->dev == set.dev);
    cr_expect(fake_at(w.fake, w.target2)->dev == set.dev);
    cr_expect_eq(w.fake->mounted, 1);
    fake_umount(w.fake, set.path);
    node_heal(w.node);
    cr_expect(fake_at(w.fake, set.path), "whoever looks at the sets does so, too");
    cr_assert(do_unpublish(&w, "v", w.target) == RPC_OK &&
              do_unpublish(&w, "v", w.target2) == RPC_OK);
    cr_assert(do_unstage(&w, "v") == RPC_OK && fake_count(w.fake) == 0 && world_records(&w) == 0);
    world_remove(&w);
}

/* Who looks at the sets passes over one that a call works on: that one is looked at again. */
Test(node, a_set_that_was_busy_is_held_afterwards)
{
    struct world w;
    size_t n;
    world_with_volume(&w, "s");
    cr_assert(sets_are_held(w.node));
    world_close(&w);
    world_open(&w);
    char **keys = sets_keys(w.node, &n);
    cr_assert(n == 1);
    struct set *s = set_begin(w.node, keys[0]);
    node_heal(w.node);
    cr_assert(!s->holds && !sets_are_held(w.node));
    set_end(w.node, s);
    cr_assert(!sets_are_held(w.node));
    node_heal(w.node);
    cr_assert(sets_are_held(w.node));
    free(keys[0]);
    free(keys);
    world_remove(&w);
}

/* A call may work on a set while the plugin comes up with another program. */
Test(node, a_set_that_was_busy_is_upgraded_afterwards)
{
    struct world w;
    world_make(&w);
    w.node->conf.program = "/of/the/next/version";
    cr_assert(do_stage(&w, "v", NULL) == RPC_OK);
    size_t n;
    char **keys = sets_keys(w.node, &n);
    struct set *s = set_begin(w.node, keys[0]);
    int held = w.fake->held;
    cr_assert(!node_upgrade(w.node) && w.fake->upgraded == 0 && w.fake->held == held);
    set_end(w.node, s);
    cr_assert(node_upgrade(w.node) && w.fake->upgraded == 1);
    cr_assert(s->holds && w.fake->held == held + 1, "what the new program hands out");
    cr_assert(strstr(w.fake->words, "--program /of/the/next/version"), "%s", w.fake->words);
    fake_lose(w.fake);
    cr_assert(node_upgrade(w.node) && w.fake->upgraded == 1, "there is nobody to hand it over");
    ids_free(keys, n);
    world_remove(&w);
}

static bool metrics_say(struct world *w, const char *line)
{
    struct bytes text = {0};
    node_metrics(w->node, &text);
    bool found = strstr(text.data, line) != NULL;
    bytes_release(&text);
    return found;
}

Test(node, a_pod_that_still_sees_what_was_lost_is_cut_off)
{
    static const struct {
        const char *uid; /* of the processes that see it */
        bool cut_off;
    } rows[] = {{"uid-1", true}, {"uid-2", false}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct world w;
        world_with_pod(&w, NULL);
        w.fake->pod_dev = fake_at(w.fake, w.target)->dev;
        snprintf(w.fake->pod_uid, sizeof w.fake->pod_uid, "%s", rows[i].uid);
        node_heal(w.node);
        cr_assert(metrics_say(&w, "\nsampan_csi_pods_cut_off 0\n"), "nothing is lost");
        fake_lose(w.fake);
        node_heal(w.node);
        const char *want =
            rows[i].cut_off ? "\nsampan_csi_pods_cut_off 1\n" : "\nsampan_csi_pods_cut_off 0\n";
        cr_assert(metrics_say(&w, want), "row %zu", i);
        world_close(&w);
        world_open(&w);
        cr_assert(metrics_say(&w, want), "row %zu: a plugin that was restarted knows it", i);
        w.fake->pod_dev = 0;
        node_heal(w.node);
        cr_assert(metrics_say(&w, "\nsampan_csi_pods_cut_off 0\n"), "row %zu: restarted", i);
        cr_assert(do_unpublish(&w, "v", w.target) == RPC_OK && do_unstage(&w, "v") == RPC_OK);
        cr_assert(fake_count(w.fake) == 0 && world_records(&w) == 0);
        world_remove(&w);
    }
}

Test(node, a_set_that_nobody_names_is_ended)
{
    struct world w;
    char path[512], command[600];
    world_with_volume(&w, NULL);
    world_close(&w);
    snprintf(path, sizeof path, "%s/volumes", w.state);
    snprintf(command, sizeof command, "%s.away", path);
    cr_assert(rename(path, command) == 0);
    world_open(&w);
    node_heal(w.node);
    cr_assert(w.fake->unmounted == 1);
    world_remove(&w);
}

Test(node, what_others_mounted_is_left_alone)
{
    struct world w;
    world_make(&w);
    snprintf(w.fake->mounts[0].path, sizeof w.fake->mounts[0].path, "%s", w.target);
    cr_assert(do_stage(&w, "v", NULL) == RPC_OK);
    cr_assert(do_publish(&w, "v", w.target, true, NULL) != RPC_OK);
    cr_assert(strstr(w.err.msg, "something else"), "%s", w.err.msg);
    cr_assert(fake_count(w.fake) == 2, "%zu", fake_count(w.fake));
    world_remove(&w);
}

static bool is_abnormal(struct world *w)
{
    PB(NodeGetVolumeStatsRequest) q = PB_INIT(NODE_GET_VOLUME_STATS_REQUEST);
    PB(NodeGetVolumeStatsResponse) r;
    struct arena arena = {0};
    static char id[] = "v";
    q.volume_id = id;
    q.volume_path = w->staging;
    cr_assert(call_in(w, &arena, "NodeGetVolumeStats", &q, &r) == RPC_OK, "%s", w->err.msg);
    bool abnormal = r.volume_condition->abnormal;
    cr_assert(*r.volume_condition->message);
    arena_release(&arena);
    return abnormal;
}

Test(node, statistics_tell_the_condition)
{
    struct world w;
    world_with_volume(&w, NULL);
    cr_assert(!is_abnormal(&w));
    fake_lose(w.fake);
    cr_assert(is_abnormal(&w));
    world_remove(&w);
}

static void *ask(void *world)
{
    struct world w = *(struct world *)world; /* its own place for errors */
    return is_abnormal(&w) ? NULL : world;
}

Test(node, one_thread_waits_for_a_mount_that_does_not_answer, .timeout = 60)
{
    struct world w;
    pthread_t first;
    void *answer;
    world_with_volume(&w, NULL);
    w.fake->frozen = true;
    cr_assert(pthread_create(&first, NULL, ask, &w) == 0);
    while (!w.fake->asked)
        usleep(1000);
    cr_assert(is_abnormal(&w) && is_abnormal(&w) && w.fake->asked == 1);
    w.fake->frozen = false;
    cr_assert(pthread_join(first, &answer) == 0 && answer == &w);
    cr_assert(!is_abnormal(&w));
    world_remove(&w);
}

/* No descriptor is free, say: that is no word of what is mounted. */
Test(node, a_mount_that_cannot_be_looked_at_may_be_there)
{
    struct world w;
    world_with_pod(&w, NULL);
    w.fake->blind = true;
    cr_assert(!is_abnormal(&w));
    cr_assert(do_unstage(&w, "v") == RPC_FAILED_PRECONDITION, "its set went under a pod");
    cr_assert(do_publish(&w, "v", w.target, false, "late keys") != RPC_OK);
    cr_assert(do_unpublish(&w, "v", w.target) != RPC_OK);
    node_heal(w.node);
    cr_assert(w.fake->unmounted == 0 && w.fake->mounted == 1);
    w.fake->blind = false;
    cr_assert(fake_count(w.fake) == 2);
    cr_assert(do_unpublish(&w, "v", w.target) == RPC_OK && do_unstage(&w, "v") == RPC_OK);
    cr_assert(fake_count(w.fake) == 0 && world_records(&w) == 0);
    world_remove(&w);
}

Test(node, a_staging_path_that_cannot_be_looked_at_may_be_there)
{
    struct world w;
    char first[sizeof w.staging];
    world_with_volume(&w, NULL);
    snprintf(first, sizeof first, "%s", w.staging);
    snprintf(w.staging, sizeof w.staging, "%s/elsewhere", w.top);
    cr_assert(mkdir(w.staging, 0755) == 0 && rmdir(first) == 0);
    cr_assert(symlink(first, first) == 0, "ELOOP");
    cr_assert(do_stage(&w, "v", NULL) == RPC_FAILED_PRECONDITION, "%s", w.err.msg);
    cr_assert(unlink(first) == 0);
    cr_assert(do_stage(&w, "v", NULL) == RPC_OK, "%s", w.err.msg);
    world_remove(&w);
}
