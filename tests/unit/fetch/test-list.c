/* Listing in parallel: each object exactly once, whatever the shape of the tree. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/stat.h>

#include "clock.h"
#include "list-internal.h"
#include "mem.h"
#include "server.h"

static struct server server;
static struct fetch *engine;

static void begin(void)
{
    server_start(&server);
    engine = engine_new(2);
}

static void finish(void)
{
    fetch_free(engine);
    server_stop(&server);
}

struct seen {
    char **keys;
    size_t n, cap, stop_at, folders;
};

static int see(void *arg, const struct list_item *item, struct err *err)
{
    struct seen *s = arg;
    if (s->stop_at && s->n == s->stop_at)
        return err_set(err, ERR_LIMIT, "enough");
    s->folders += item->folder;
    if (s->n == s->cap) {
        s->cap = s->cap ? 2 * s->cap : 1024;
        s->keys = xrealloc(s->keys, s->cap * sizeof *s->keys);
    }
    s->keys[s->n++] = xstrndup(item->key, item->key_len);
    return 0;
}

static int by_bytes(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void seen_release(struct seen *s)
{
    for (size_t i = 0; i < s->n; i++)
        free(s->keys[i]);
    free(s->keys);
    *s = (struct seen){0};
}

static void list(struct store *store, unsigned parallel, struct seen *s)
{
    struct err err = {0};
    _Atomic uint64_t n = 0;
    *s = (struct seen){0};
    cr_assert_eq(fetch_list(engine, store, parallel, see, s, &n, &err), 0, "%s", err.msg);
    cr_assert_eq(n, s->n);
    if (s->n)
        qsort(s->keys, s->n, sizeof *s->keys, by_bytes);
    for (size_t i = 1; i < s->n; i++)
        cr_assert_str_neq(s->keys[i - 1], s->keys[i], "listed twice");
}

static const struct shape {
    const char *bucket;
    size_t n;
} shapes[] = {
    {"flat-0", 0},         {"flat-1", 1},        {"flat-1000", 1000},   {"flat-1001", 1001},
    {"flat-23456", 23456}, {"tree-40x30", 1200}, {"tree-3x2500", 7500}, {"tree-1x9000", 9000},
    {"tree-1500x2", 3000}, {"deep-3000", 3004},  {"between-7", 21},     {"between-4000", 12000},
};

Test(list, each_object_exactly_once)
{
    static const unsigned parallels[] = {1, 3, 16};
    begin();
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        struct store *store = server_bucket(&server, shapes[i].bucket);
        for (size_t p = 0; p < sizeof parallels / sizeof parallels[0]; p++) {
            struct seen s;
            list(store, parallels[p], &s);
            cr_expect_eq(s.n, shapes[i].n, "%s by %u: %zu", shapes[i].bucket, parallels[p], s.n);
            seen_release(&s);
        }
        store_close(store);
    }
    finish();
}

static int no_upload(void *arg, const char *key, const char *upload, struct err *err)
{
    (void)arg, (void)key, (void)upload;
    return err_set(err, ERR_BUG, "there is none");
}

static int read_zeros(void *arg, uint64_t off, void *buf, size_t len, struct err *err)
{
    (void)arg, (void)off, (void)err;
    memset(buf, 0, len);
    return 0;
}

/* A server that names the same page after each. */
Test(list, circles_end)
{
    struct err err = {0};
    struct seen s = {0};
    uint64_t kept = 1;
    begin();
    struct store *store = server_bucket(&server, "circles");
    cr_expect_eq(fetch_list(engine, store, 4, see, &s, NULL, &err), -1);
    cr_expect(strstr(err.msg, "goes in circles"), "%s", err.msg);
    err_clear(&err);
    cr_expect_eq(fetch_uploads(engine, store, "", no_upload, NULL, &err), -1);
    cr_expect(strstr(err.msg, "goes in circles"), "%s", err.msg);
    err_clear(&err);
    const struct fetch_stream up = {.store = store,
                                    .key = "up",
                                    .len = FETCH_PUT_WHOLE,
                                    .read = read_zeros,
                                    .resume = "broken-off",
                                    .ret_kept = &kept};
    cr_expect_eq(fetch_put_stream(engine, &up, &err), 0, "%s", err.msg); /* it begins anew */
    cr_expect_eq(kept, 0);
    store_close(store);
    finish();
}

/* A folder that holds itself, as a link in a web server's tree may. */
Test(list, a_folder_without_bottom_ends)
{
    struct err err = {0};
    struct seen s = {0};
    struct store *store;
    const struct store_conf conf = {.proxy = ""};
    char uri[100];
    begin();
    snprintf(uri, sizeof uri, "http://127.0.0.1:%u/bottomless/", server.port);
    cr_assert_eq(store_open(&store, uri, &conf, &err), 0, "%s", err.msg);
    cr_expect_eq(fetch_list(engine, store, 4, see, &s, NULL, &err), 0, "%s", err.msg);
    cr_expect(s.n > 2000 && s.n == s.folders, "%zu", s.n); /* the longest is told of, too */
    seen_release(&s);
    store_close(store);
    finish();
}

static unsigned turns_until_told(const struct list_item *items, size_t n)
{
    struct level *v = NULL;
    unsigned turns = 0;
    for (; turns < 100; turns++) {
        struct level *below = level_new(v);
        level_unref(v);
        v = below;
        for (size_t i = 0; i < n; i++) /* in another order each time */
            level_add(v, "", &items[(i + turns) % n]);
        if (level_is_circle(v))
            break;
    }
    level_unref(v);
    return turns;
}

Test(list, a_circle_is_told_by_what_lies_beside_it)
{
    const struct list_item items[] = {
        {.key = "latest/", .key_len = 7, .mtime_ns = 7, .folder = true},
        {.key = "up/", .key_len = 3, .mtime_ns = 7, .folder = true},
        {.key = "one.jpg", .key_len = 7, .mtime_ns = 7, .size = 1},
    };
    cr_expect_eq(turns_until_told(items, 3), 4);
    cr_expect_eq(turns_until_told(items + 1, 2), 4);
    cr_expect_eq(turns_until_told(items, 2), 10); /* shards by a hash's digits lie so */
    cr_expect_eq(turns_until_told(items, 1), 100);
    cr_expect_eq(turns_until_told(items + 2, 1), 100); /* nothing leads on */

    struct list_item newer = items[2];
    newer.mtime_ns++;
    struct level *v = level_new(NULL), *below = level_new(v);
    level_add(v, "", &items[2]);
    level_add(below, "", &newer);
    cr_expect_neq(v->sum, below->sum);
    level_unref(v);
    level_unref(below);
}

/* How many of its requests began in mid-folder. */
static unsigned cuts_of(const char *bucket, uint64_t cut_page_ns)
{
    struct fetch_conf c;
    struct err err = {0};
    server_start(&server);
    fetch_conf_defaults(&c);
    c.cut_page_ns = cut_page_ns;
    cr_assert_eq(fetch_new(&engine, &c, &err), 0, "%s", err.msg);
    struct store *store = server_bucket(&server, bucket);
    struct seen s;
    list(store, 16, &s);
    cr_expect_eq(s.n, 23456);
    seen_release(&s);
    store_close(store);
    unsigned cuts = server_number(&server, "/_cuts");
    finish();
    return cuts;
}

Test(list, a_folder_is_listed_at_several_places_where_that_pays)
{
    cr_expect_geq(cuts_of("flat-23456", 0), 5);
    cr_expect_eq(cuts_of("flat-23456", 3600 * NS_PER_S), 0);
    cr_expect_eq(cuts_of("minio-flat-23456", 0), 0);
}

/* How many requests it took to list a bucket of so many objects. */
static unsigned requests_of(const char *bucket, size_t n)
{
    char path[64];
    struct seen s;
    begin();
    struct store *store = server_bucket(&server, bucket);
    list(store, 16, &s);
    cr_expect_eq(s.n, n);
    seen_release(&s);
    store_close(store);
    snprintf(path, sizeof path, "/_count/%s", bucket);
    unsigned requests = server_number(&server, path);
    finish();
    return requests;
}

/* Pages of 1000 twice, and two more for each thread whenever all ran idle; not one a folder. */
Test(list, folders_that_hold_little_do_not_cost_a_request_each)
{
    unsigned requests = requests_of("tree-9000x2", 18000);
    cr_expect_leq(requests, 3000, "%u", requests);
    requests = requests_of("between-9000", 27000);
    cr_expect_leq(requests, 3000, "%u", requests);
    cr_expect_geq(requests_of("minio-tree-3000x1", 3000), 3000);
}

Test(list, the_keys_are_those_of_the_store)
{
    begin();
    struct store *store = server_bucket(&server, "tree-3x2500");
    struct seen s;
    list(store, 8, &s);
    for (size_t i = 0; i < s.n; i++) {
        char want[64];
        snprintf(want, sizeof want, "class_%04zu/file_%04zu.jpg", i / 2500, i % 2500);
        cr_assert_str_eq(s.keys[i], want);
    }
    seen_release(&s);
    store_close(store);
    finish();
}

Test(list, the_callers_error_stops_it)
{
    begin();
    struct store *store = server_bucket(&server, "flat-23456");
    struct seen s = {.stop_at = 1500};
    struct err err = {0};
    cr_expect_eq(fetch_list(engine, store, 8, see, &s, NULL, &err), -1);
    cr_expect_str_eq(err.msg, "enough");
    cr_expect_eq(s.n, 1500);
    seen_release(&s);
    store_close(store);
    finish();
}

Test(list, a_dead_server_is_an_error)
{
    begin();
    struct server none = {.port = 1};
    struct store *store = server_bucket(&none, "flat-10");
    struct seen s = {0};
    struct err err = {0};
    cr_expect_eq(fetch_list(engine, store, 8, see, &s, NULL, &err), -1);
    cr_expect_eq(err.class, ERR_TRANSIENT);
    cr_expect(strstr(err.msg, "list: minio://") == err.msg, "%s", err.msg);
    cr_expect_eq(s.n, 0);
    store_close(store);
    finish();
}

/* --- local stores ---------------------------------------------------------------------------- */

static void put_file(const char *dir, const char *name, const char *text)
{
    cleanup_free char *path = xasprintf("%s/%s", dir, name);
    cleanup_file FILE *f = fopen(path, "w");
    cr_assert_not_null(f);
    fputs(text, f);
}

static char *make_tree(void)
{
    char *dir = xstrdup("/tmp/sampan-list-XXXXXX");
    cr_assert_not_null(mkdtemp(dir));
    for (unsigned i = 0; i < 20; i++) {
        cleanup_free char *sub = xasprintf("%s/d%02u", dir, i);
        mkdir(sub, 0777);
        for (unsigned j = 0; j < i; j++) {
            char name[16];
            snprintf(name, sizeof name, "f%02u", j);
            put_file(sub, name, name);
        }
    }
    put_file(dir, "top", "top");
    return dir;
}

static void remove_tree(char *dir)
{
    cleanup_free char *name = NULL;
    for (unsigned i = 0; i < 20; i++) {
        for (unsigned j = 0; j < i; j++) {
            cleanup_free char *path = xasprintf("%s/d%02u/f%02u", dir, i, j);
            unlink(path);
        }
        cleanup_free char *sub = xasprintf("%s/d%02u", dir, i);
        rmdir(sub);
    }
    name = xasprintf("%s/top", dir);
    unlink(name);
    rmdir(dir);
    free(dir);
}

static struct store *local_store(const char *dir)
{
    struct store *store;
    struct err err = {0};
    cleanup_free char *uri = xasprintf("file://%s", dir);
    cr_assert_eq(store_open(&store, uri, &(struct store_conf){0}, &err), 0, "%s", err.msg);
    return store;
}

Test(local, each_file_exactly_once)
{
    struct fetch_conf c;
    struct seen s;
    char *dir = make_tree();
    struct store *store = local_store(dir);
    fetch_conf_defaults(&c);
    cr_assert_eq(fetch_new(&engine, &c, NULL), 0);
    list(store, 4, &s);
    cr_expect_eq(s.n - s.folders, 191);
    cr_expect_eq(s.folders, 20, "empty folders must not be lost");
    seen_release(&s);
    fetch_free(engine);
    store_close(store);
    remove_tree(dir);
}

static void on_done(void *arg, const struct err *err)
{
    struct got *g = arg;
    if (err)
        g->err = *err;
    atomic_fetch_add(&g->done, 1);
}

static const struct local_row {
    const char *key;
    uint64_t off, size;
    uint32_t len;
    enum err_class class;
    const char *text;
} local_rows[] = {
    {"d19/f07", 0, 3, 3, ERR_NONE, "f07"},
    {"d19/f07", 1, 3, 2, ERR_NONE, "07"},
    {"top", 0, 4, 4, ERR_STALE, ""},
    {"d05/none", 0, 3, 3, ERR_STALE, ""},
    {"top", 0, FETCH_SIZE_UNKNOWN, 3, ERR_NONE, "top"},
};

Test(local, reads_under_the_same_rules)
{
    struct fetch_conf c;
    char *dir = make_tree();
    struct store *store = local_store(dir);
    fetch_conf_defaults(&c);
    c.connections = 2;
    c.bandwidth = 1000000;
    cr_assert_eq(fetch_new(&engine, &c, NULL), 0);
    for (size_t i = 0; i < sizeof local_rows / sizeof local_rows[0]; i++) {
        const struct local_row *r = &local_rows[i];
        char dest[8] = "";
        struct got g = {.get = {.store = store,
                                .key = r->key,
                                .key_len = strlen(r->key),
                                .off = r->off,
                                .len = r->len,
                                .object_size = r->size,
                                .etag = "",
                                .dest = dest,
                                .done = on_done,
                                .arg = &g}};
        cr_assert_eq(fetch_get(engine, &g.get, NULL), 0);
        got_wait(&g);
        cr_expect_eq(g.err.class, r->class, "%s: %s", r->key, g.err.msg);
        if (r->class == ERR_NONE)
            cr_expect_str_eq(dest, r->text);
    }
    cr_expect_leq(counter_get(&fetch_counts(engine)->in_flight_max), 2);
    fetch_free(engine);
    store_close(store);
    remove_tree(dir);
}

/* The second waits for a line on which it would come in 51 minutes. */
Test(local, a_limit_that_is_lifted_holds_nothing_up)
{
    enum { LEN = 3000 };
    static char bytes[LEN], dest[2][LEN];
    struct fetch_conf c;
    struct got g[2] = {0};
    char *dir = make_tree();
    cleanup_free char *path = xasprintf("%s/long", dir);
    cleanup_file FILE *f = fopen(path, "we");
    cr_assert_eq(fwrite(bytes, 1, LEN, f), (size_t)LEN);
    fflush(f);
    struct store *store = local_store(dir);
    fetch_conf_defaults(&c);
    c.connections = 1;
    c.bandwidth = 1;
    cr_assert_eq(fetch_new(&engine, &c, NULL), 0);
    for (unsigned i = 0; i < 2; i++) {
        g[i].get = (struct fetch_get){.store = store,
                                      .key = "long",
                                      .key_len = 4,
                                      .len = LEN,
                                      .object_size = LEN,
                                      .etag = "",
                                      .dest = dest[i],
                                      .done = on_done,
                                      .arg = &g[i]};
        cr_assert_eq(fetch_get(engine, &g[i].get, NULL), 0);
    }
    while (counter_get(&fetch_counts(engine)->requests) < 2)
        poll(NULL, 0, 1);
    poll(NULL, 0, 20); /* it waits by now, most likely */
    fetch_set_bandwidth(engine, 0);
    for (unsigned i = 0; i < 2; i++)
        got_wait(&g[i]);
    cr_expect_eq(g[1].err.class, ERR_NONE, "%s", g[1].err.msg);
    fetch_free(engine);
    store_close(store);
    unlink(path);
    remove_tree(dir);
}
