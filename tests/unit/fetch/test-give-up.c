/*
 * Requests that are taken back: from wherever they are each ends once, with nothing of it left in
 * the engine, and the server sees their connections closed. What others want is not touched.
 */
#include <criterion/criterion.h>
#include <poll.h>
#include <string.h>
#include <sys/stat.h>

#include "clock.h"
#include "engine-internal.h"
#include "hash.h"
#include "mem.h"
#include "server.h"

static struct server server;
static struct fetch *engine;
static atomic_bool token;

static void begin(unsigned connections, bool hedge)
{
    struct fetch_conf c;
    struct err err = {0};
    fetch_conf_defaults(&c);
    c.connections = connections;
    c.try_timeout_ns = c.budget_ns = 600 * NS_PER_S; /* nothing ends by itself */
    c.hedge = hedge;
    server_start(&server);
    cr_assert_eq(fetch_new(&engine, &c, &err), 0, "%s", err.msg);
}

/* Nothing was left behind. */
static void finish(void)
{
    fetch_stop(engine);
    cr_expect_eq(engine->busy, 0);
    cr_expect_eq(engine->busy_low, 0);
    cr_expect_eq(engine->n_flying, 0);
    cr_expect_eq(engine->n_paced, 0);
    cr_expect_eq(engine->n_parked, 0);
    cr_expect_eq(engine->outstanding, 0);
    cr_expect_eq(engine->scratch_used, 0);
    cr_expect_eq(counter_get(&engine->counts->in_flight), 0);
    cr_expect_not(queues_have(&engine->http, QUEUES_ALL));
    cr_expect_not(queues_have(&engine->local, QUEUES_ALL));
    for (size_t i = 0; i < DEST_BUCKETS; i++)
        cr_assert_null(engine->by_dest[i]);
    fetch_free(engine);
    server_stop(&server);
}

static void ask(struct got *g, const char *key, uint32_t len, enum prio prio, bool ours)
{
    struct err err = {0};
    got_prepare(g, &server, key, 0, len, len);
    g->get.prio = prio;
    g->get.given_up = ours ? &token : NULL;
    cr_assert_eq(fetch_get(engine, &g->get, &err), 0, "%s", err.msg);
}

static void give_up(void)
{
    atomic_store(&token, true);
    fetch_give_up(engine);
}

static void expect_cancelled(struct got *g)
{
    got_wait(g);
    cr_expect_eq(g->err.class, ERR_CANCELLED, "%s: %s", g->get.key, g->err.msg);
    cr_expect_eq(g->done, 1);
    got_release(g);
}

static void expect_right(struct got *g)
{
    got_wait(g);
    cr_expect(got_right(g), "%s: %s", g->get.key, g->err.msg);
    got_release(g);
}

static void wait_for_number(const char *path, unsigned want)
{
    for (int i = 0; i < 300000 && server_number(&server, path) != want; i++)
        poll(NULL, 0, 1);
    cr_assert_eq(server_number(&server, path), want, "%s", path);
}

static void wait_for_requests(const char *key, unsigned want)
{
    char path[100];
    snprintf(path, sizeof path, "/_count/b/%s", key);
    wait_for_number(path, want);
}

Test(give_up, what_waits_sends_nothing)
{
    enum { N = 30 };
    static struct got got[N], blocker, after;
    begin(1, false);
    ask(&blocker, "size=200000,slow=2000/blocker", 200000, PRIO_READER, false);
    wait_for_requests("size=200000,slow=2000/blocker", 1);
    for (unsigned i = 0; i < N; i++)
        ask(&got[i], "size=1000/ours", 1000, (enum prio)(i % PRIO_COUNT), true);
    ask(&after, "size=1000/after", 1000, PRIO_WARMUP, false);
    give_up();
    for (unsigned i = 0; i < N; i++)
        expect_cancelled(&got[i]);
    cr_expect_eq(blocker.done, 0, "it goes on");
    server_number(&server, "/_fast");
    expect_right(&blocker);
    expect_right(&after);
    wait_for_requests("size=1000/ours", 0);
    finish();
}

Test(give_up, what_comes_with_a_token_that_is_set_sends_nothing)
{
    struct got g;
    begin(1, false);
    atomic_store(&token, true);
    ask(&g, "size=1000/late", 1000, PRIO_READER, true);
    expect_cancelled(&g);
    wait_for_requests("size=1000/late", 0);
    finish();
}

/* Before the head, within the body, held up by the rate limit; and one that another wants. */
static void check_flights(void)
{
    static const char *const keys[] = {"size=300000,stall/a", "size=300000,stall-head/b",
                                       "size=300000,slow=1000/c"};
    enum { N = sizeof keys / sizeof keys[0] };
    static struct got got[N], wanted;
    begin(8, false);
    for (unsigned i = 0; i < N; i++)
        ask(&got[i], keys[i], 300000, i % 2 ? PRIO_WARMUP : PRIO_READER, true);
    ask(&wanted, "size=100000,slow=1000/wanted", 100000, PRIO_WARMUP, false);
    for (unsigned i = 0; i < N; i++)
        wait_for_requests(keys[i], 1);
    wait_for_number("/_open", N + 1);
    give_up();
    for (unsigned i = 0; i < N; i++)
        expect_cancelled(&got[i]);
    wait_for_number("/_open", 1);
    server_number(&server, "/_fast");
    expect_right(&wanted);
    cr_expect_eq(counter_get(&fetch_counts(engine)->failures), 0);
    cr_expect_eq(counter_get(&fetch_counts(engine)->retries), 0);
    finish();
}

Test(give_up, what_flies_ends_its_connection)
{
    check_flights();
}

Test(give_up, what_flies_ends_its_connection_through_the_library)
{
    setenv("http_proxy", "http://127.0.0.1:9", 1);
    setenv("no_proxy", "*", 1);
    check_flights();
}

Test(give_up, what_the_rate_limit_holds_up)
{
    enum { N = 8 };
    static struct got got[N], after;
    begin(16, false);
    fetch_set_bandwidth(engine, 50000);
    for (unsigned i = 0; i < N; i++)
        ask(&got[i], "size=300000/x", 300000, PRIO_WARMUP, true);
    while (counter_get(&fetch_counts(engine)->bytes) == 0)
        poll(NULL, 0, 1);
    give_up();
    for (unsigned i = 0; i < N; i++)
        expect_cancelled(&got[i]);
    wait_for_number("/_open", 0);
    fetch_set_bandwidth(engine, 0);
    ask(&after, "size=300000/after", 300000, PRIO_WARMUP, false);
    expect_right(&after); /* the line is not full of what nobody waits for */
    finish();
}

Test(give_up, a_second_request_goes_with_the_first)
{
    struct got g;
    char key[40];
    begin(8, true);
    for (unsigned i = 0; i < 100; i++) { /* so that it knows how long they take */
        snprintf(key, sizeof key, "size=1000/%u", i);
        ask(&g, key, 1000, PRIO_READER, false);
        expect_right(&g);
    }
    for (unsigned i = 100; engine->hedges[0].allowed < 100; i++) { /* where many were late */
        snprintf(key, sizeof key, "size=1000/%u", i);
        ask(&g, key, 1000, PRIO_READER, false);
        expect_right(&g);
    }
    uint64_t before = counter_get(&fetch_counts(engine)->hedges);
    ask(&g, "size=1000,stall-head/late", 1000, PRIO_READER, true);
    wait_for_requests("size=1000,stall-head/late", 2);
    cr_expect_eq(counter_get(&fetch_counts(engine)->hedges), before + 1);
    unsigned open = server_number(&server, "/_open");
    give_up();
    expect_cancelled(&g);
    wait_for_number("/_open", open - 2);
    finish();
}

Test(give_up, what_pauses_before_its_next_try)
{
    struct got g;
    begin(4, false);
    ask(&g, "s503,retry-after=100/busy", 1000, PRIO_WARMUP, true);
    while (counter_get(&fetch_counts(engine)->retries) == 0)
        poll(NULL, 0, 1);
    give_up();
    expect_cancelled(&g);
    wait_for_requests("s503,retry-after=100/busy", 1);
    finish();
}

/* --- whole requests --------------------------------------------------------------------------- */

struct whole_got {
    _Atomic int done;
    struct err err;
};

static void whole_done(void *arg, const struct err *err)
{
    struct whole_got *g = arg;
    if (err)
        g->err = *err;
    atomic_fetch_add(&g->done, 1);
}

static int build(void *arg, struct http_req *r, struct err *err)
{
    (void)err;
    http_req_init(r, HTTP_GET);
    bytes_addf(&r->url, "http://127.0.0.1:%u/b/%s", server.port, (const char *)arg);
    return 0;
}

Test(give_up, a_whole_request)
{
    static char key[] = "size=300000,stall/whole";
    struct whole_got g = {0};
    struct err err = {0};
    begin(4, false);
    const struct fetch_request r = {.store = server.store,
                                    .build = build,
                                    .build_arg = key,
                                    .max_body = 1u << 20,
                                    .done = whole_done,
                                    .arg = &g,
                                    .given_up = &token};
    cr_assert_eq(fetch_start(engine, &r, &err), 0, "%s", err.msg);
    wait_for_requests(key, 1);
    give_up();
    while (!atomic_load(&g.done))
        poll(NULL, 0, 1);
    cr_expect_eq(g.err.class, ERR_CANCELLED, "%s", g.err.msg);
    wait_for_number("/_open", 0);
    finish();
}

/* --- local files ------------------------------------------------------------------------------ */

Test(give_up, files)
{
    enum { N = 6, LEN = 1000000 };
    static struct got got[N];
    char dir[] = "/tmp/sampan-give-up-XXXXXX";
    struct store *store;
    struct stat st;
    struct err err = {0};
    cr_assert_not_null(mkdtemp(dir));
    cleanup_free char *uri = xasprintf("file://%s", dir), *path = xasprintf("%s/x", dir);
    cr_assert_eq(store_open(&store, uri, NULL, &err), 0, "%s", err.msg);
    FILE *f = fopen(path, "we");
    cr_assert(f && ftruncate(fileno(f), LEN) == 0 && fclose(f) == 0 && stat(path, &st) == 0);
    begin(2, false);
    fetch_set_bandwidth(engine, 100000); /* two wait in mid-file, the others for their turn */
    for (unsigned i = 0; i < N; i++) {
        got_prepare(&got[i], &server, "x", 0, LEN, LEN);
        got[i].get.store = store;
        got[i].get.etag = "";
        got[i].get.mtime_ns = (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec;
        got[i].get.given_up = &token;
        cr_assert_eq(fetch_get(engine, &got[i].get, &err), 0, "%s", err.msg);
    }
    while (counter_get(&fetch_counts(engine)->bytes) == 0)
        poll(NULL, 0, 1);
    give_up();
    for (unsigned i = 0; i < N; i++)
        expect_cancelled(&got[i]);
    cr_expect_lt(counter_get(&fetch_counts(engine)->bytes), LEN);
    finish();
    store_close(store);
    unlink(path);
    rmdir(dir);
}

/* --- all at once ------------------------------------------------------------------------------ */

/* Three threads ask and take back; whoever has no token set gets the right bytes. */
#define STORM_ROUNDS 30
#define STORM_GETS   24

static void *storm(void *arg)
{
    uint64_t seed = (uintptr_t)arg;
    for (unsigned round = 0; round < STORM_ROUNDS; round++) {
        struct got got[STORM_GETS];
        char keys[STORM_GETS][60];
        atomic_bool mine;
        atomic_init(&mine, false);
        for (unsigned i = 0; i < STORM_GETS; i++) {
            seed = hash_mix64(seed + 1);
            snprintf(keys[i], sizeof keys[i], "size=60000%s/%u",
                     seed % 5 == 0   ? ",s503=1"
                     : seed % 5 == 1 ? ",slow=600000"
                                     : "",
                     (unsigned)(seed % 100000));
            got_prepare(&got[i], &server, keys[i], 0, 60000, 60000);
            got[i].get.prio = (enum prio)(seed / 7 % PRIO_COUNT);
            got[i].get.given_up = i % 3 ? &mine : NULL;
            cr_assert_eq(fetch_get(engine, &got[i].get, NULL), 0);
        }
        poll(NULL, 0, (int)(seed % 20));
        atomic_store(&mine, true);
        fetch_give_up(engine);
        for (unsigned i = 0; i < STORM_GETS; i++) {
            got_wait(&got[i]);
            bool cancelled = i % 3 && got[i].err.class == ERR_CANCELLED;
            cr_assert(cancelled || got_right(&got[i]), "%s: %s", keys[i], got[i].err.msg);
            cr_assert_eq(got[i].done, 1);
            got_release(&got[i]);
        }
    }
    return NULL;
}

Test(give_up, a_storm_of_it_leaves_nothing)
{
    pthread_t threads[3];
    begin(6, true);
    for (uintptr_t i = 0; i < 3; i++)
        cr_assert_eq(pthread_create(&threads[i], NULL, storm, (void *)(i * 1000)), 0);
    for (unsigned i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    finish();
}
