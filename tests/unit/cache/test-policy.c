/* Decisions, without a disk. */
#include "fixture.h"

Test(policy, ages_are_ordered_in_buckets)
{
    unsigned last = 0;
    for (uint64_t m = 0; m < UINT32_MAX; m = m < 200 ? m + 1 : m * 17 / 16) {
        unsigned b = age_bucket((uint32_t)m);
        cr_assert(b >= last && b < AGE_BUCKETS, "%llu -> %u", (unsigned long long)m, b);
        last = b;
    }
}

Test(policy, unpinned_and_oldest_go_first)
{
    struct {
        bool pinned;
        uint32_t age;
        uint64_t bytes;
    } units[] = {
        {false, 5, 10}, {false, 500, 10}, {true, 90000, 10}, {false, 50, 10}, {true, 1, 10}};
    static const struct {
        uint64_t need;
        const char *goes; /* one letter a unit */
    } cases[] = {{0, "....."},  {1, ".x..."},  {10, ".x..."}, {11, ".x.x."},
                 {30, "xx.x."}, {31, "xxxx."}, {50, "xxxxx"}, {99, "xxxxx"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct ages a = {0};
        struct victims v;
        for (int k = 0; k < 5; k++)
            ages_add(&a, units[k].pinned, units[k].age, units[k].bytes);
        policy_pinned_pick(&a, cases[i].need, &v);
        for (int k = 0; k < 5; k++)
            cr_assert_eq(policy_pinned_goes(&v, units[k].pinned, units[k].age, units[k].bytes),
                         cases[i].goes[k] == 'x', "need %llu unit %d",
                         (unsigned long long)cases[i].need, k);
    }
}

Test(policy, part_of_a_bucket_goes)
{
    struct ages a = {0};
    struct victims v;
    for (int i = 0; i < 100; i++)
        ages_add(&a, false, 7, 10);
    policy_pinned_pick(&a, 250, &v);
    int gone = 0;
    for (int i = 0; i < 100; i++)
        gone += policy_pinned_goes(&v, false, 7, 10);
    cr_assert_eq(gone, 25);
}

Test(policy, a_scan_never_makes_room)
{
    struct newcomer fits = {.fits = true}, scan = {0}, ours = {.pinned = true},
                    better = {.left = true};
    cr_assert_eq(policy_scan_admit(&fits), ADMIT);
    cr_assert_eq(policy_scan_admit(&scan), ADMIT_NEVER);
    cr_assert_eq(policy_scan_admit(&ours), ADMIT_LATER);
    cr_assert_eq(policy_scan_admit(&better), ADMIT_LATER);
    cr_assert_not(policy_scan_goes(false, CACHE_IDLE_MINUTES - 1));
    cr_assert(policy_scan_goes(false, CACHE_IDLE_MINUTES));
    cr_assert_not(policy_scan_goes(true, UINT32_MAX));
}

Test(policy, tiers_are_parsed)
{
    struct tier_conf t;
    struct err err = {0};
    cr_assert_eq(tier_conf_parse(&t, "ssd:/a=b/c=10GiB", &err), 0, "%s", err.msg);
    cr_assert_eq(t.kind, TIER_SSD);
    cr_assert_str_eq(t.dir, "/a=b/c");
    cr_assert_eq(t.limit, 10ull << 30);
    free((char *)t.dir);
    static const char *const bad[] = {"", "ssd", "ssd:/a", "ssd:=1G", "nvme:/a=1G", "ssd:/a=x"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        cr_assert_eq(tier_conf_parse(&t, bad[i], &err), -1, "%s", bad[i]);
        cr_assert_eq(err.class, ERR_USAGE, "%s", bad[i]);
    }
}
