/* A store that answers nobody for a while. */
#include <criterion/criterion.h>

#include "clock.h"
#include "engine-internal.h"
#include "server.h"

static struct server server;
static struct fetch *engine;

static int get_of(const char *key, unsigned *ret_tries)
{
    char path[100];
    struct got g;
    struct err err = {0};
    got_prepare(&g, &server, key, 0, 1, 1);
    cr_assert_eq(fetch_get(engine, &g.get, &err), 0, "%s", err.msg);
    got_wait(&g);
    snprintf(path, sizeof path, "/_count/b/%s", key);
    *ret_tries = server_number(&server, path);
    int rc = got_right(&g) ? 0 : -1;
    got_release(&g);
    return rc;
}

Test(away, tries_are_not_counted_while_a_store_that_answered_is_away)
{
    unsigned tries;
    server_start(&server);
    engine = engine_new(3);
    engine->conf.away_ns = 60 * NS_PER_S;
    cr_expect_eq(get_of("size=1,drop=4/wrong-address", &tries), -1);
    cr_expect_eq(tries, 3, "%u", tries);
    cr_expect_eq(get_of("size=1/well", &tries), 0);
    cr_expect_eq(get_of("size=1,drop=5/restart", &tries), 0);
    cr_expect_eq(tries, 6, "%u", tries);
    cr_expect_eq(get_of("size=1,truncate=4/broken", &tries), -1); /* an answer */
    cr_expect_eq(tries, 3, "%u", tries);
    engine->conf.away_ns = 0; /* it has been away for longer */
    cr_expect_eq(get_of("size=1,drop=5/gone", &tries), -1);
    cr_expect_eq(tries, 3, "%u", tries);
    fetch_free(engine);
    server_stop(&server);
}

/* Ten seconds long, with a budget of one. */
static enum err_class get_slowly(bool unhurried)
{
    struct got g;
    struct err err = {0};
    const uint32_t size = 4000000;
    server_start(&server);
    engine = engine_new(1);
    engine->conf.budget_ns = NS_PER_S;
    engine->conf.try_timeout_ns = 3 * NS_PER_S;
    engine->conf.hedge = false;
    engine->conf.unhurried = unhurried;
    got_prepare(&g, &server, "size=4000000,slow=400000/a", 0, size, size);
    cr_assert_eq(fetch_get(engine, &g.get, &err), 0, "%s", err.msg);
    got_wait(&g);
    enum err_class class = g.err.class;
    cr_expect(class != ERR_NONE || got_right(&g));
    got_release(&g);
    fetch_free(engine);
    server_stop(&server);
    return class;
}

Test(away, what_moves_slowly_is_cut_only_where_somebody_reads)
{
    cr_expect_eq(get_slowly(false), ERR_TRANSIENT);
    cr_expect_eq(get_slowly(true), ERR_NONE);
}

/* It breaks when the budget is spent already. */
static int get_broken_late(bool unhurried, unsigned *ret_tries)
{
    server_start(&server);
    engine = engine_new(3);
    engine->conf.budget_ns = 100 * NS_PER_MS;
    engine->conf.unhurried = unhurried;
    int rc = get_of("size=1,late=1:400,truncate=1/a", ret_tries);
    fetch_free(engine);
    server_stop(&server);
    return rc;
}

Test(away, what_breaks_late_is_tried_again_where_nobody_reads)
{
    unsigned tries;
    cr_expect_eq(get_broken_late(false, &tries), -1);
    cr_expect_eq(tries, 1, "%u", tries);
    cr_expect_eq(get_broken_late(true, &tries), 0);
    cr_expect_eq(tries, 2, "%u", tries);
}
