#include <criterion/criterion.h>
#include <errno.h>
#include <signal.h>
#include <string.h>

#include "clock.h"
#include "sync.h"

struct shared {
    struct lock lock;
    struct cond changed;
    int value;
};

static int add_early_return(struct shared *s)
{
    ACQUIRE(&s->lock);
    if (s->value < 1000000)
        return ++s->value;
    return 0;
}

static void *add_many(void *arg)
{
    for (int i = 0; i < 10000; i++)
        add_early_return(arg);
    return NULL;
}

Test(sync, acquire_ends_with_its_block)
{
    for (int brief = 0; brief < 2; brief++) {
        struct shared s = {0};
        (brief ? lock_init_brief : lock_init)(&s.lock, RANK_POOL, "test");
        pthread_t t[3];
        for (int i = 0; i < 3; i++)
            cr_assert_eq(thread_start(&t[i], "adder", add_many, &s), 0);
        for (int i = 0; i < 3; i++)
            pthread_join(t[i], NULL);
        cr_expect_eq(s.value, 30000);
        lock_destroy(&s.lock);
    }
}

static void *set_value(void *arg)
{
    struct shared *s = arg;
    ACQUIRE(&s->lock);
    s->value = 7;
    cond_broadcast(&s->changed);
    return NULL;
}

Test(sync, condition_wakes_and_times_out)
{
    struct shared s = {0};
    lock_init(&s.lock, RANK_POOL, "test");
    cond_init(&s.changed);
    pthread_t t;
    lock_take(&s.lock);
    cr_expect_eq(cond_wait_for(&s.changed, &s.lock, 1000000), ETIMEDOUT);
    cr_expect_eq(thread_start(&t, "setter", set_value, &s), 0);
    while (s.value != 7)
        cr_expect_eq(cond_wait_for(&s.changed, &s.lock, UINT64_MAX), 0);
    lock_drop(&s.lock);
    pthread_join(t, NULL);
    cond_destroy(&s.changed);
    lock_destroy(&s.lock);
}

static void *look_at_self(void *arg)
{
    char name[16];
    pthread_getname_np(pthread_self(), name, sizeof name);
    sigset_t blocked;
    pthread_sigmask(SIG_SETMASK, NULL, &blocked);
    bool ok = strcmp(name, "a-name-too-long") == 0 && sigismember(&blocked, SIGTERM) &&
              sigismember(&blocked, SIGHUP) && !sigismember(&blocked, SIGBUS);
    *(bool *)arg = ok;
    return NULL;
}

Test(sync, threads_have_names_and_no_signals_but_faults)
{
    bool ok = false;
    pthread_t t;
    cr_assert_eq(thread_start(&t, "a-name-too-long-to-show", look_at_self, &ok), 0);
    pthread_join(t, NULL);
    cr_expect(ok);
    sigset_t blocked;
    pthread_sigmask(SIG_SETMASK, NULL, &blocked);
    cr_expect_not(sigismember(&blocked, SIGTERM), "the starter's mask is as before");
}

#ifdef SAMPAN_DEBUG_LOCKS
Test(sync, wrong_order_aborts, .signal = SIGABRT)
{
    struct lock low, high;
    lock_init(&low, RANK_VOLUME, "low");
    lock_init(&high, RANK_POOL, "high");
    lock_take(&high);
    lock_take(&low);
}

Test(sync, same_rank_twice_aborts, .signal = SIGABRT)
{
    struct lock a, b;
    lock_init(&a, RANK_POOL, "a");
    lock_init(&b, RANK_POOL, "b");
    lock_take(&a);
    lock_take(&b);
}

Test(sync, dropping_what_is_not_held_aborts, .signal = SIGABRT)
{
    struct lock a;
    lock_init(&a, RANK_POOL, "a");
    lock_drop(&a);
}

Test(sync, locks_may_be_dropped_in_any_order)
{
    struct lock a, b;
    lock_init(&a, RANK_VOLUME, "a");
    lock_init(&b, RANK_POOL, "b");
    lock_take(&a);
    lock_take(&b);
    lock_drop(&a);
    lock_drop(&b);
    lock_take(&a);
    lock_drop(&a);
}
#endif

Test(clock, moves_forward_together)
{
    uint64_t mono = clock_mono_ns();
    int64_t wall = clock_wall_ns();
    clock_advance(3600 * NS_PER_S);
    cr_expect_geq(clock_mono_ns() - mono, 3600 * NS_PER_S);
    cr_expect_geq(clock_wall_ns() - wall, (int64_t)(3600 * NS_PER_S));
    cr_expect_leq(clock_mono_ns(), clock_mono_ns());
}
