/* The engine against a server that misbehaves on request: the right bytes or a clear error. */
#include <criterion/criterion.h>
#include <errno.h>
#include <poll.h>
#include <string.h>

#include "clock.h"
#include "engine-internal.h"
#include "mem.h"
#include "server.h"

static struct server server;
static struct fetch *engine;

/* Plain connections are for those whom no proxy stands before; else the library does it all. */
static bool plain = true;

static void through_the_library(void)
{
    plain = false;
    setenv("http_proxy", "http://127.0.0.1:9", 1);
    setenv("no_proxy", "*", 1);
}

static uint64_t try_timeout_ns = 600 * NS_PER_S; /* a loaded machine must not look like a stall */

static void begin(unsigned connections, bool hedge)
{
    struct fetch_conf c;
    struct err err = {0};
    fetch_conf_defaults(&c);
    c.connections = connections;
    c.max_tries = 3;
    c.away_ns = 0;
    c.try_timeout_ns = try_timeout_ns;
    c.hedge = hedge;
    server_start(&server);
    cr_assert_eq(fetch_new(&engine, &c, &err), 0, "%s", err.msg);
}

static void finish(void)
{
    fetch_free(engine);
    server_stop(&server);
}

static void submit(struct got *g)
{
    struct err err = {0};
    cr_assert_eq(fetch_get(engine, &g->get, &err), 0, "%s", err.msg);
}

static const struct fault_row {
    const char *key;
    uint64_t off;
    uint32_t len;
    uint64_t size;
    enum err_class class; /* ERR_NONE: the right bytes */
    const char *says;     /* part of the message */
    unsigned tries;       /* requests it may and must take */
} rows[] = {
    {"size=115000/whole", 0, 115000, 115000, ERR_NONE, "", 1},
    {"size=300000/middle", 1000, 115000, 300000, ERR_NONE, "", 1},
    {"size=300000/end", 299999, 1, 300000, ERR_NONE, "", 1},
    {"size=300000,norange/cut-out", 1000, 115000, 300000, ERR_NONE, "", 1},
    {"size=9000000,norange/cut-out-early", 1000, 115000, 9000000, ERR_NONE, "", 1},
    {"size=5000,chunked/no-length", 0, 5000, 5000, ERR_NONE, "", 1},
    {"size=0/nothing", 0, 0, 0, ERR_NONE, "", 0},
    {"size=5000,s503=2/storm", 0, 5000, 5000, ERR_NONE, "", 3},
    {"size=5000,s503/down", 0, 5000, 5000, ERR_TRANSIENT, "(gave up after 3 tries)", 3},
    {"size=5000,s503=1,retry-after=1/later", 0, 5000, 5000, ERR_NONE, "", 2},
    {"size=5000,s503,retry-after=99/much-later", 0, 5000, 5000, ERR_TRANSIENT, "503", 1},
    {"size=50000,reset=2/r", 0, 50000, 50000, ERR_NONE, "", 3},
    {"size=50000,truncate=1/t", 0, 50000, 50000, ERR_NONE, "", 2},
    {"size=50000,truncate=1/t-part", 10, 40000, 50000, ERR_NONE, "", 2},
    {"size=50000,shorten=1/s", 0, 50000, 50000, ERR_NONE, "", 2},
    {"size=50000,shorten=1/s-part", 10, 40000, 50000, ERR_NONE, "", 2},
    {"size=50000,shorten/s-ever", 0, 50000, 50000, ERR_CORRUPT, "announced 25000 bytes", 3},
    {"size=50000,stall=1/st", 0, 50000, 50000, ERR_NONE, "", 2},
    {"size=50000,stall-head=1/sh", 0, 50000, 50000, ERR_NONE, "", 2},
    {"size=50000,stall-head/sh-ever", 0, 50000, 50000, ERR_TRANSIENT, "no byte came", 3},
    {"size=5000,drop=1/d", 0, 5000, 5000, ERR_NONE, "", 2},
    {"size=5000,garbage=1/g", 0, 5000, 5000, ERR_NONE, "", 2},
    {"size=5000,close/c", 0, 5000, 5000, ERR_NONE, "", 1},
    {"size=5000,etag=1/e", 0, 5000, 5000, ERR_NONE, "", 2},
    {"size=5000,etag/e-ever", 0, 5000, 5000, ERR_STALE, "changed at the source", 2},
    {"size=5000,total/other-size", 10, 100, 5000, ERR_STALE, "it has 5001 bytes", 2},
    {"size=5000,range=1/shifted", 10, 100, 5000, ERR_NONE, "", 2},
    {"size=5000,range/shifted-ever", 10, 100, 5000, ERR_CORRUPT, "another range", 3},
    {"size=50000,sum=crc32,flip=1/sum", 0, 50000, 50000, ERR_NONE, "", 2},
    {"size=50000,sum=crc32c,flip=1/sum", 0, 50000, 50000, ERR_NONE, "", 2},
    {"size=50000,sum=crc64nvme,flip=1/sum", 0, 50000, 50000, ERR_NONE, "", 2},
    {"size=50000,sum=crc64nvme/sum-right", 0, 50000, 50000, ERR_NONE, "", 1},
    {"size=50000,sum=crc32,flip/sum-ever", 0, 50000, 50000, ERR_CORRUPT, "the store says", 2},
    {"size=5000,sum=crc32,another-sum,sum-of-parts/p", 0, 5000, 5000, ERR_NONE, "", 1},
    {"size=5000,sum=crc32,another-sum/range", 10, 4000, 5000, ERR_NONE, "", 1},
    {"size=5000,s404/gone", 0, 5000, 5000, ERR_STALE, "deleted at the source", 2},
    {"size=5000,s403/locked", 0, 5000, 5000, ERR_DENIED, "403", 1},
};

static void check_row(const struct fault_row *r, struct got *g)
{
    cr_expect_eq(g->err.class, r->class, "%s: %s", r->key, g->err.msg);
    if (r->class == ERR_NONE)
        cr_expect(got_right(g), "%s: wrong bytes", r->key);
    else
        cr_expect(strstr(g->err.msg, r->says) && strstr(g->err.msg, r->key), "%s: %s", r->key,
                  g->err.msg);
    char path[300];
    snprintf(path, sizeof path, "/_count/b/%s", r->key);
    unsigned tries = server_number(&server, path);
    /* Over a plain connection the first of them is asked for once more, through the library. */
    unsigned again = plain && strstr(r->key, "chunked") ? 1 : 0;
    if (strstr(r->key, "stall")) /* the clock ends tries, maybe more than these */
        cr_expect_geq(tries, r->tries, "%s: %u tries", r->key, tries);
    else
        cr_expect_eq(tries, r->tries + again, "%s: %u tries", r->key, tries);
}

/* All rows that stall, or all others, at once. False: one ended otherwise than it should, which is
 * no failure where `may_fail`. */
static bool run_rows(bool stalls, bool may_fail)
{
    enum { N = sizeof rows / sizeof rows[0] };
    static struct got got[N];
    bool held = true;
    memset(got, 0, sizeof got);
    begin(64, false);
    for (size_t i = 0; i < N; i++) {
        if ((strstr(rows[i].key, "stall") != NULL) != stalls)
            continue;
        got_prepare(&got[i], &server, rows[i].key, rows[i].off, rows[i].len, rows[i].size);
        submit(&got[i]);
    }
    for (size_t i = 0; i < N; i++) {
        if (!got[i].dest)
            continue;
        got_wait(&got[i]);
        held = held && got[i].err.class == rows[i].class;
        if (got[i].err.class == rows[i].class || !may_fail)
            check_row(&rows[i], &got[i]);
    }
    finish();
    for (size_t i = 0; i < N; i++) {
        cr_expect_eq(got[i].done, got[i].dest != NULL);
        got_release(&got[i]);
    }
    return held;
}

/* A server that is not scheduled for as long as that is silent, too: then with more patience. */
static void run_silent_rows(void)
{
    try_timeout_ns = 700 * NS_PER_MS;
    while (!run_rows(true, try_timeout_ns < 60 * NS_PER_S))
        try_timeout_ns *= 8;
}

Test(engine, right_bytes_or_a_clear_error)
{
    run_rows(false, false);
}

Test(engine, right_bytes_or_a_clear_error_through_the_library)
{
    through_the_library();
    run_rows(false, false);
}

/* Their store asks no more for what it was refused once. */
static void read_without_sums(const char *first, const char *second)
{
    begin(4, false);
    const char *keys[] = {first, second};
    for (unsigned i = 0; i < 2; i++) {
        struct got g;
        got_prepare(&g, &server, keys[i], 0, 5000, 5000);
        submit(&g);
        got_wait(&g);
        cr_expect(got_right(&g), "%s: %s", keys[i], g.err.msg);
        char path[300];
        snprintf(path, sizeof path, "/_count/b/%s", keys[i]);
        cr_expect_eq(server_number(&server, path), 2 - i, "%s", keys[i]);
        got_release(&g);
    }
    finish();
}

Test(engine, a_server_that_refuses_to_tell_sums_is_read_without)
{
    read_without_sums("size=5000,no-sums=400/a", "size=5000,no-sums=400/b");
    read_without_sums("size=5000,no-sums=501/a", "size=5000,no-sums=501/b");
}

Test(engine, a_silent_server_is_left)
{
    run_silent_rows();
}

Test(engine, a_silent_server_is_left_by_the_library)
{
    through_the_library();
    run_silent_rows();
}

static void read_one(const char *key, uint32_t size)
{
    struct got g;
    got_prepare(&g, &server, key, 0, size, size);
    submit(&g);
    got_wait(&g);
    cr_expect(got_right(&g), "%s: %s", key, g.err.msg);
    got_release(&g);
}

Test(engine, an_answer_that_is_not_plain_is_the_librarys)
{
    begin(4, false);
    read_one("size=5000/first", 5000);
    cr_expect_eq(engine->n_idle, 1, "a plain connection waits");
    read_one("size=5000,chunked/one", 5000);
    cr_expect_eq(engine->n_idle, 0, "it was closed");
    read_one("size=5000,chunked/two", 5000);
    cr_expect_eq(engine->n_idle, 0, "the library has the origin now");
    cr_expect_eq(server_number(&server, "/_count/b/size=5000,chunked/one"), 2);
    cr_expect_eq(server_number(&server, "/_count/b/size=5000,chunked/two"), 1);
    finish();
}

Test(engine, a_connection_closed_while_idle_is_no_failure)
{
    begin(1, false);
    for (int i = 0; i < 5; i++) {
        char key[40];
        snprintf(key, sizeof key, "size=5000,close/%d", i);
        read_one(key, 5000);
    }
    cr_expect_eq(counter_get(&fetch_counts(engine)->retries), 0);
    finish();
}

/* Its rest is another answer to whatever is asked next, if somebody believes it. */
Test(engine, an_answer_longer_than_it_says_is_not_the_next_ones)
{
    begin(1, false);
    for (unsigned i = 0; i < 5; i++) {
        struct got g;
        cleanup_free char *key = xasprintf("size=5000,longer/%u", i);
        got_prepare(&g, &server, key, 0, 5000, 5000);
        g.get.etag = "";
        submit(&g);
        got_wait(&g);
        cr_expect(got_right(&g), "%s", key);
        got_release(&g);
    }
    finish();
}

Test(engine, an_etag_or_size_that_differs_is_stale)
{
    struct got g;
    begin(4, false);
    got_prepare(&g, &server, "size=5000/x", 0, 5000, 5000);
    g.get.etag = "of another time";
    submit(&g);
    got_wait(&g);
    cr_expect_eq(g.err.class, ERR_STALE);
    cr_expect_eq(err_errno(&g.err), ESTALE);
    got_release(&g);
    got_prepare(&g, &server, "size=6000/y", 0, 5000, 5000);
    g.get.etag = "";
    submit(&g);
    got_wait(&g);
    cr_expect_eq(g.err.class, ERR_STALE);
    cr_expect(strstr(g.err.msg, "it has 6000 bytes, the catalog says 5000"), "%s", g.err.msg);
    cr_expect_eq(counter_get(&fetch_counts(engine)->stale), 2);
    got_release(&g);
    finish();
}

Test(engine, connections_are_never_exceeded_and_are_reused)
{
    enum { N = 200 };
    static struct got got[N];
    static char keys[N][40];
    begin(5, true);
    for (unsigned i = 0; i < N; i++) {
        snprintf(keys[i], sizeof keys[i], "size=20000,s503=%u/%u", i % 7 == 0, i);
        got_prepare(&got[i], &server, keys[i], 0, 20000, 20000);
        got[i].get.prio = (enum prio)(i % PRIO_COUNT);
        submit(&got[i]);
    }
    for (unsigned i = 0; i < N; i++) {
        got_wait(&got[i]);
        cr_expect(got_right(&got[i]), "%s: %s", keys[i], got[i].err.msg);
        got_release(&got[i]);
    }
    cr_expect_leq(server_number(&server, "/_peak"), 5);
    cr_expect_leq(counter_get(&fetch_counts(engine)->in_flight_max), 5);
    cr_expect_eq(counter_get(&fetch_counts(engine)->in_flight), 0);
    finish();
}

/* So that the engine knows how long samples of 1000 bytes take, and may ask twice for two more. */
static void get_a_hundred(enum prio prio)
{
    struct got g;
    char key[40];
    for (unsigned i = 0; i < 100 || engine->hedges[prio != PRIO_READER].allowed < 200; i++) {
        snprintf(key, sizeof key, "size=1000/%u", i);
        got_prepare(&g, &server, key, 0, 1000, 1000);
        g.get.prio = prio;
        submit(&g);
        got_wait(&g);
        got_release(&g);
    }
}

Test(engine, a_late_reader_gets_a_second_request)
{
    struct got g;
    begin(8, true);
    get_a_hundred(PRIO_READER);
    uint64_t before = counter_get(&fetch_counts(engine)->hedge_wins);
    got_prepare(&g, &server, "size=1000,stall-head=1/late", 0, 1000, 1000);
    submit(&g);
    got_wait(&g);
    cr_expect(got_right(&g), "%s", g.err.msg);
    cr_expect_eq(counter_get(&fetch_counts(engine)->hedge_wins), before + 1);
    cr_expect_eq(counter_get(&fetch_counts(engine)->retries), 0);
    got_release(&g);
    finish();
}

Test(engine, the_last_of_a_warmup_that_straggles_gets_a_second_request)
{
    static const char *const keys[] = {"size=1000,stall-head=1/late", "size=1000,stall=1/late"};
    struct got g;
    begin(8, true);
    get_a_hundred(PRIO_WARMUP);
    for (size_t i = 0; i < 2; i++) {
        uint64_t before = counter_get(&fetch_counts(engine)->hedge_wins);
        got_prepare(&g, &server, keys[i], 0, 1000, 1000);
        g.get.prio = PRIO_WARMUP;
        submit(&g);
        got_wait(&g);
        cr_expect(got_right(&g), "%s", g.err.msg);
        cr_expect_eq(counter_get(&fetch_counts(engine)->hedge_wins), before + 1);
        got_release(&g);
    }
    cr_expect_eq(counter_get(&fetch_counts(engine)->retries), 0);
    finish();
}

Test(engine, a_straggler_waits_for_the_others_before_it_is_asked_for_again)
{
    enum { N = 8 };
    struct got late, got[N];
    char keys[N][40];
    _Atomic unsigned order = 0;
    begin(2, true);
    get_a_hundred(PRIO_WARMUP);
    got_prepare(&late, &server, "size=1000,stall-head=1/late", 0, 1000, 1000);
    late.get.prio = PRIO_WARMUP;
    late.order = &order;
    submit(&late);
    for (unsigned i = 0; i < N; i++) { /* one after another, over the other connection */
        snprintf(keys[i], sizeof keys[i], "size=1000,late=1:100/%u", i);
        got_prepare(&got[i], &server, keys[i], 0, 1000, 1000);
        got[i].get.prio = PRIO_WARMUP;
        got[i].order = &order;
        submit(&got[i]);
    }
    got_wait(&late);
    for (unsigned i = 0; i < N; i++) {
        got_wait(&got[i]);
        cr_expect_lt(got[i].place, late.place);
        got_release(&got[i]);
    }
    cr_expect_eq(counter_get(&fetch_counts(engine)->hedge_wins), 1);
    cr_expect_eq(counter_get(&fetch_counts(engine)->retries), 0);
    got_release(&late);
    finish();
}

/* All slots are taken when it is found late, and nothing else waits for one. */
Test(engine, a_straggler_without_a_slot_is_asked_for_again_when_there_is_one)
{
    static const enum prio prios[] = {PRIO_WARMUP, PRIO_READER};
    begin(2, true);
    for (unsigned i = 0; i < 2; i++) {
        struct got late, blocker;
        uint64_t before = counter_get(&fetch_counts(engine)->hedge_wins);
        cleanup_free char *key = xasprintf("size=1000,stall-head=1/late%u", i);
        cleanup_free char *slow = xasprintf("size=100000,slow=1000/blocker%u", i);
        server_number(&server, "/_slow");
        get_a_hundred(prios[i]);
        got_prepare(&blocker, &server, slow, 0, 100000, 100000);
        got_prepare(&late, &server, key, 0, 1000, 1000);
        blocker.get.prio = PRIO_WARMUP;
        late.get.prio = prios[i];
        submit(&blocker);
        submit(&late);
        poll(NULL, 0, 3 * HEDGE_LOOK_NS / NS_PER_MS); /* it is looked at meanwhile, most likely */
        server_number(&server, "/_fast");
        got_wait(&blocker);
        got_wait(&late);
        cr_expect(got_right(&late), "%s", late.err.msg);
        cr_expect_eq(counter_get(&fetch_counts(engine)->hedge_wins), before + 1);
        got_release(&late);
        got_release(&blocker);
    }
    cr_expect_eq(counter_get(&fetch_counts(engine)->retries), 0);
    finish();
}

Test(engine, a_raised_request_overtakes)
{
    struct got blocker, a, b;
    _Atomic unsigned order = 0;
    begin(1, false);
    got_prepare(&blocker, &server, "size=100000,slow=1000/blocker", 0, 100000, 100000);
    got_prepare(&a, &server, "size=1000/a", 0, 1000, 1000);
    got_prepare(&b, &server, "size=1000/b", 0, 1000, 1000);
    blocker.order = a.order = b.order = &order;
    a.get.prio = b.get.prio = PRIO_WARMUP;
    submit(&blocker);
    submit(&a);
    submit(&b);
    fetch_raise(engine, b.dest, PRIO_READER);
    server_number(&server, "/_fast");
    got_wait(&a);
    got_wait(&b);
    cr_expect_lt(b.place, a.place);
    got_release(&blocker);
    got_release(&a);
    got_release(&b);
    finish();
}

static bool all_wait(unsigned warmups)
{
    ACQUIRE(&engine->lock);
    return engine->http.n[PRIO_READER] == 1 && engine->http.n[PRIO_WARMUP] == warmups;
}

/* All are refused once and wait for the slot that the blocker has. False: it came too late. */
static bool try_again_in_order(unsigned round)
{
    enum { N = 6 }; /* the last is the reader's */
    struct got blocker, got[N];
    char keys[N][64];
    _Atomic unsigned order = 0;
    uint64_t refused = counter_get(&fetch_counts(engine)->retries) + N;
    server_number(&server, "/_slow");
    for (unsigned i = 0; i < N; i++) {
        snprintf(keys[i], sizeof keys[i], "size=1000,s503=1,retry-after=1/%u-%u", round, i);
        got_prepare(&got[i], &server, keys[i], 0, 1000, 1000);
        got[i].get.prio = i < N - 1 ? PRIO_WARMUP : PRIO_READER;
        got[i].order = &order;
        submit(&got[i]);
    }
    while (counter_get(&fetch_counts(engine)->retries) < refused)
        poll(NULL, 0, 1);
    got_prepare(&blocker, &server, "size=100000,slow=1000/blocker", 0, 100000, 100000);
    submit(&blocker);
    while (!all_wait(N - 1) && !atomic_load(&order))
        poll(NULL, 0, 1);
    bool in_time = !atomic_load(&order);
    server_number(&server, "/_fast");
    got_wait(&blocker);
    for (unsigned i = 0; i < N; i++)
        got_wait(&got[i]);
    cr_expect(!in_time || got[N - 1].place == 0, "the reader's came as number %u",
              got[N - 1].place);
    for (unsigned i = 0; i < N; i++)
        got_release(&got[i]);
    got_release(&blocker);
    return in_time;
}

Test(engine, a_reader_that_is_tried_again_does_not_wait_behind_a_warmup)
{
    begin(1, false);
    for (unsigned round = 0; round < 20 && !try_again_in_order(round); round++)
        ;
    finish();
}

/* What is under way below readers fills its share of the slots, and moves not. */
Test(engine, a_raised_request_needs_no_other_to_end)
{
    static struct got got[PACE_START + 1];
    static char keys[PACE_START + 1][40];
    struct got *last = &got[PACE_START];
    begin(2 * PACE_START, false);
    for (unsigned i = 0; i <= PACE_START; i++) {
        snprintf(keys[i], sizeof keys[i], "size=1000%s/%u", i < PACE_START ? ",stall-head" : "", i);
        got_prepare(&got[i], &server, keys[i], 0, 1000, 1000);
        got[i].get.prio = PRIO_WARMUP;
        submit(&got[i]);
    }
    while (server_number(&server, "/_now") <= PACE_START)
        poll(NULL, 0, 1);
    poll(NULL, 0, 100); /* the engine sleeps by now, most likely */
    fetch_raise(engine, last->dest, PRIO_READER);
    got_wait(last);
    cr_expect(got_right(last), "%s", last->err.msg);
    finish();
    for (unsigned i = 0; i <= PACE_START; i++)
        got_release(&got[i]);
}

/* On the line as it was the rest would come in a day. */
static void lift_the_limit(void)
{
    struct got g;
    begin(2, false);
    fetch_set_bandwidth(engine, 1);
    got_prepare(&g, &server, "size=300000/held", 0, 300000, 300000);
    submit(&g);
    poll(NULL, 0, 300); /* some of it has come, and the rest waits, most likely */
    fetch_set_bandwidth(engine, 0);
    got_wait(&g);
    cr_expect(got_right(&g), "%s", g.err.msg);
    cr_expect_eq(counter_get(&fetch_counts(engine)->retries), 0);
    got_release(&g);
    finish();
}

Test(engine, a_limit_that_is_lifted_holds_nothing_up)
{
    lift_the_limit();
}

Test(engine, a_limit_that_is_lifted_holds_nothing_up_in_the_library)
{
    through_the_library();
    lift_the_limit();
}

/* Six times as long as the budget; false: more than the pauses was too long. */
static bool is_in_time(uint64_t budget_ns)
{
    struct got g;
    begin(2, false);
    engine->conf.budget_ns = budget_ns;
    fetch_set_bandwidth(engine, 300000 * NS_PER_S / (6 * budget_ns));
    got_prepare(&g, &server, "size=300000/slowly", 0, 300000, 300000);
    submit(&g);
    got_wait(&g);
    bool right = got_right(&g);
    cr_expect(right || strstr(g.err.msg, "time budget"), "%s", g.err.msg);
    got_release(&g);
    finish();
    return right;
}

/* A machine that stands still uses up a budget too: then with a larger one. */
Test(engine, what_the_limit_holds_up_is_not_too_slow)
{
    through_the_library();
    cr_expect(is_in_time(NS_PER_S / 10) || is_in_time(NS_PER_S) || is_in_time(4 * NS_PER_S));
}

Test(engine, the_rate_limit_holds)
{
    enum { N = 10, LEN = 100000 };
    struct got got[N];
    char keys[N][40];
    begin(16, false);
    fetch_set_bandwidth(engine, 1000000);
    uint64_t start = clock_mono_ns();
    for (unsigned i = 0; i < N; i++) {
        snprintf(keys[i], sizeof keys[i], "size=%d/%u", LEN, i);
        got_prepare(&got[i], &server, keys[i], 0, LEN, LEN);
        submit(&got[i]);
    }
    for (unsigned i = 0; i < N; i++) {
        got_wait(&got[i]);
        cr_expect(got_right(&got[i]), "%s", got[i].err.msg);
        got_release(&got[i]);
    }
    /* A megabyte at a megabyte a second, less 50 ms of burst and one receive buffer. */
    cr_expect_geq(clock_mono_ns() - start, 880 * NS_PER_MS);
    finish();
}

/* What was asked for ahead shares the line with a reader, and does not go before it. */
Test(engine, a_reader_overtakes_on_a_limited_line)
{
    struct got ahead, reader;
    _Atomic unsigned order = 0;
    begin(4, false);
    fetch_set_bandwidth(engine, 1000000);
    got_prepare(&ahead, &server, "size=1000000/ahead", 0, 1000000, 1000000);
    got_prepare(&reader, &server, "size=300000/reader", 0, 300000, 300000);
    ahead.order = reader.order = &order;
    ahead.get.prio = PRIO_WARMUP;
    submit(&ahead);
    while (counter_get(&fetch_counts(engine)->bytes) == 0)
        poll(NULL, 0, 1);
    submit(&reader);
    got_wait(&ahead);
    got_wait(&reader);
    cr_expect(got_right(&ahead) && got_right(&reader));
    cr_expect_lt(reader.place, ahead.place);
    got_release(&ahead);
    got_release(&reader);
    finish();
}

Test(engine, stopping_cancels_all_at_once)
{
    enum { N = 40 };
    static struct got got[N];
    static char keys[N][40];
    begin(4, false);
    for (unsigned i = 0; i < N; i++) {
        snprintf(keys[i], sizeof keys[i], i % 2 ? "s503/%u" : "stall-head/%u", i);
        got_prepare(&got[i], &server, keys[i], 0, 1000, 1000);
        submit(&got[i]);
    }
    poll(NULL, 0, 50);
    fetch_free(engine);
    for (unsigned i = 0; i < N; i++) {
        cr_expect_eq(got[i].done, 1);
        cr_expect(got[i].err.class == ERR_CANCELLED || got[i].err.class == ERR_TRANSIENT, "%s",
                  got[i].err.msg);
        got_release(&got[i]);
    }
    server_stop(&server);
}

Test(engine, nobody_listens)
{
    struct got g;
    begin(4, false);
    struct server none = {.port = 1};
    none.store = server_bucket(&none, "b");
    got_prepare(&g, &none, "size=1/x", 0, 1, 1);
    submit(&g);
    got_wait(&g);
    cr_expect_eq(g.err.class, ERR_TRANSIENT);
    cr_expect(strstr(g.err.msg, "could not connect") && strstr(g.err.msg, "gave up after 3 tries"),
              "%s", g.err.msg);
    store_close(none.store);
    got_release(&g);
    finish();
}

Test(engine, a_full_queue_refuses)
{
    struct got first, g;
    struct err err = {0};
    begin(1, false);
    got_prepare(&first, &server, "stall-head/x", 0, 1000, 1000);
    submit(&first);
    struct got *many = xcalloc(QUEUE_LIMIT + 1, sizeof *many);
    unsigned n = 0;
    got_prepare(&g, &server, "size=1000/y", 0, 1000, 1000);
    g.get.prio = PRIO_WARMUP;
    while (n <= QUEUE_LIMIT) {
        many[n].get = g.get;
        g.get.arg = &many[n];
        if (fetch_get(engine, &g.get, &err))
            break;
        n++;
    }
    cr_expect_eq(err.class, ERR_LIMIT);
    cr_expect_eq(n, QUEUE_LIMIT);
    fetch_free(engine);
    for (unsigned i = 0; i < n; i++)
        cr_expect_eq(many[i].done, 1);
    free(many);
    got_release(&first);
    got_release(&g);
    server_stop(&server);
}
