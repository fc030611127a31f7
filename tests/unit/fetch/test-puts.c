/* PUTs over plain connections: what a server may do to one, and what then comes of it. */
#include <criterion/criterion.h>
#include <string.h>

#include "clock.h"
#include "engine-internal.h"
#include "mem.h"
#include "server.h"

#define LARGE (15u << 20) /* in one piece, and more than fits between us and the server */

static struct server server;
static struct fetch *engine;

static void begin(unsigned max_tries)
{
    server_start(&server);
    engine = engine_new(max_tries);
}

static void finish(void)
{
    fetch_free(engine);
    server_stop(&server);
}

static unsigned char *bytes_of(size_t len)
{
    unsigned char *data = xmalloc(len);
    for (size_t i = 0; i < len; i++)
        data[i] = (unsigned char)(i * 31 + (i >> 12));
    return data;
}

static int put(const char *key, size_t len, struct err *err)
{
    cleanup_free unsigned char *data = bytes_of(len);
    return fetch_put(engine, server.store, key, data, len, err);
}

static void expect_stored(const char *key, size_t len)
{
    cleanup_free unsigned char *data = bytes_of(len);
    struct got g;
    got_prepare(&g, &server, key, 0, (uint32_t)len, len);
    cr_assert_eq(fetch_get(engine, &g.get, NULL), 0);
    got_wait(&g);
    cr_expect_eq(g.err.class, ERR_NONE, "%s: %s", key, g.err.msg);
    cr_expect(memcmp(g.dest, data, len) == 0, "%s: wrong bytes", key);
    got_release(&g);
}

static unsigned requests_for(const char *key)
{
    cleanup_free char *path = xasprintf("/_count/b/%s", key);
    return server_number(&server, path);
}

static void put_well(const char *key, size_t len)
{
    struct err err = {0};
    cr_expect_eq(put(key, len, &err), 0, "%s: %s", key, err.msg);
}

/* The library carries the first one, and so it is known how they are answered. */
static void begin_plain(unsigned max_tries)
{
    begin(max_tries);
    put_well("put/first", 10);
    cr_assert_eq(engine->n_idle, 0, "the library has it");
    put_well("put/second", 10);
    cr_assert_eq(engine->n_idle, 1, "a plain connection waits");
}

Test(puts, bodies_of_any_length_arrive)
{
    static const size_t lengths[] = {1, 100000, (512u << 10) - 1, 512u << 10, 3u << 20, LARGE};
    begin_plain(1);
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        char key[32];
        snprintf(key, sizeof key, "put/%zu", lengths[i]);
        put_well(key, lengths[i]);
        cr_expect_eq(requests_for(key), 1, "%s", key);
        expect_stored(key, lengths[i]);
    }
    cr_expect_eq(engine->n_idle, 1, "one connection served them all");
    finish();
}

Test(puts, a_refusal_is_heard_before_all_is_sent)
{
    struct err err = {0};
    begin_plain(3);
    cr_expect_eq(put("early=403/a", LARGE, &err), -1);
    cr_expect_eq(err.class, ERR_DENIED, "%s", err.msg);
    cr_expect_eq(requests_for("early=403/a"), 1);
    cr_expect_eq(engine->n_idle, 0, "the rest of the body is owed to it");
    err_clear(&err);
    cr_expect_eq(put("early=503/b", LARGE, &err), -1);
    cr_expect_eq(err.class, ERR_TRANSIENT, "%s", err.msg);
    put_well("put/third", 10);
    finish();
}

/* What says that it was stored before it was sent is not believed. */
Test(puts, success_before_all_is_sent_is_asked_for_again)
{
    begin_plain(1);
    put_well("early=200/a", LARGE);
    cr_expect_eq(requests_for("early=200/a"), 2);
    expect_stored("early=200/a", LARGE);
    finish();
}

Test(puts, a_connection_closed_while_idle_is_no_failure)
{
    begin_plain(1);
    for (int i = 0; i < 5; i++) {
        char key[32];
        snprintf(key, sizeof key, "close/%d", i);
        put_well(key, 3u << 20);
        expect_stored(key, 3u << 20);
    }
    cr_expect_eq(counter_get(&fetch_counts(engine)->retries), 0);
    finish();
}

/* It would be written twice each time the library's turn is over. */
Test(puts, a_server_that_answers_otherwise_is_the_librarys)
{
    begin(1);
    for (int i = 0; i < 3; i++) {
        char key[32];
        snprintf(key, sizeof key, "chunked/%d", i);
        put_well(key, 5000);
        cr_expect_eq(requests_for(key), 1, "%s", key);
    }
    cr_expect_eq(engine->n_idle, 0);
    put_well("put/first", 10);
    put_well("put/second", 10);
    cr_expect_eq(engine->n_idle, 1);
    put_well("chunked/3", 5000);
    cr_expect_eq(requests_for("chunked/3"), 2, "only now it is known");
    cr_expect_eq(engine->n_idle, 0);
    put_well("chunked/4", 5000);
    cr_expect_eq(requests_for("chunked/4"), 1);
    finish();
}

/* False: the server was silent before it should be, as one is that is not scheduled for so long. */
static bool a_silent_server_is_left(uint64_t try_timeout_ns)
{
    struct fetch_conf c;
    struct err err = {0};
    fetch_conf_defaults(&c);
    c.max_tries = 1;
    c.try_timeout_ns = try_timeout_ns;
    server_start(&server);
    cr_assert_eq(fetch_new(&engine, &c, &err), 0, "%s", err.msg);
    bool plain = put("put/first", 10, &err) == 0 && put("put/second", 10, &err) == 0;
    if (plain) {
        cr_expect_eq(engine->n_idle, 1);
        cr_expect_eq(put("early=0/a", LARGE, &err), -1);
        cr_expect_eq(err.class, ERR_TRANSIENT);
        cr_expect_not_null(strstr(err.msg, "no byte came"), "%s", err.msg);
        cr_expect_eq(engine->n_idle, 0);
    }
    finish();
    return plain;
}

Test(puts, a_server_that_takes_no_more_is_left)
{
    uint64_t patience_ns = 200 * NS_PER_MS;
    while (!a_silent_server_is_left(patience_ns))
        patience_ns *= 8;
}

/* It takes the body in ten times what a try may be silent and a job may last. False: it did not go
 * on taking, as one that is not scheduled for so long. */
static bool a_slow_server_is_waited_for(uint64_t try_timeout_ns)
{
    char key[50];
    struct fetch_conf c;
    struct err err = {0};
    fetch_conf_defaults(&c);
    c.max_tries = 1;
    c.try_timeout_ns = c.budget_ns = try_timeout_ns;
    server_start(&server);
    cr_assert_eq(fetch_new(&engine, &c, &err), 0, "%s", err.msg);
    snprintf(key, sizeof key, "sip=%llu/a",
             (unsigned long long)(LARGE * NS_PER_S / 10 / try_timeout_ns));
    bool well = put(key, LARGE, &err) == 0;
    if (well)
        expect_stored(key, LARGE);
    finish();
    return well;
}

Test(puts, a_server_that_takes_on_slowly_is_waited_for)
{
    cr_expect(a_slow_server_is_waited_for(NS_PER_S) || a_slow_server_is_waited_for(4 * NS_PER_S));
}
