/* A read may be answered before read() has returned: until it has, the cache does not end. */
#include "fixture.h"

#define UNIT 1000000u

struct closing {
    struct rig rig;
    struct call calls[2];
    pthread_t thread;
    atomic_bool closed;
    bool called, ended_early;
};

static void *close_cache(void *arg)
{
    struct closing *c = arg;
    rig_close(&c->rig);
    atomic_store(&c->closed, true);
    return NULL;
}

/* Within read(): both calls are answered, and whoever waited for that closes the cache. */
static void answer_and_close(void *arg)
{
    struct closing *c = arg;
    c->called = true;
    rig_release(&c->rig, false);
    for (int i = 0; i < 2; i++) {
        call_wait(&c->calls[i]);
        view_release(&c->calls[i].view);
    }
    cr_assert_eq(thread_start(&c->thread, "close", close_cache, c), 0);
    for (int i = 0; i < 200 && !c->ended_early; i++) {
        usleep(1000);
        c->ended_early = atomic_load(&c->closed);
    }
}

static void expect_in_time(struct closing *c)
{
    cr_assert(c->called);
    pthread_join(c->thread, NULL);
    cr_expect_not(c->ended_early);
    rig_end(&c->rig);
}

Test(close, who_makes_way_for_a_reader_ends_first)
{
    struct closing c = {0};
    rig_begin(&c.rig, UNIT, 65536, true); /* a tier that keeps no such unit */
    pool_set_limit(c.rig.pool, 2u << 20); /* room for two */
    rig_open(&c.rig);
    cr_assert_eq(rig_read(&c.rig, 0, 0, UNIT / 2, NULL, NULL), 0);
    pool_on_space(c.rig.pool, answer_and_close, &c); /* once the unit that is held makes way */
    rig_release(&c.rig, true);
    cr_assert_eq(call_start(&c.rig, &c.calls[0], 1, PRIO_READER), SOURCE_PENDING);
    cr_assert_eq(call_start(&c.rig, &c.calls[1], 2, PRIO_READER), SOURCE_PENDING);
    expect_in_time(&c);
}

Test(close, who_raises_a_flight_ends_first)
{
    struct closing c = {0};
    rig_begin(&c.rig, UNIT, 64u << 20, true);
    rig_open(&c.rig);
    c.rig.fake.on_raise = answer_and_close;
    c.rig.fake.on_raise_arg = &c;
    rig_release(&c.rig, true);
    cr_assert_eq(call_ahead(&c.rig, &c.calls[0], 1, NULL), SOURCE_PENDING);
    cr_assert_eq(call_start(&c.rig, &c.calls[1], 1, PRIO_READER), SOURCE_PENDING);
    expect_in_time(&c);
}
