/* Packed samples: neighbours share a request, each is summed, and the pointer is read with care. */
#include <criterion/criterion.h>
#include <poll.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "crc.h"
#include "hash.h"
#include "mem.h"
#include "server.h"

#define SAMPLES 2000
#define SIZE    3000

static char dir[] = "/tmp/sampan-packed-XXXXXX";
static unsigned char *bytes;
static struct store *store;
static struct fetch *engine;
static struct source *layer;
static struct catalog *catalog;
static struct pool *pool;

static void write_pack(void)
{
    cleanup_free char *folder = xasprintf("%s/packs", dir);
    cleanup_free char *path = xasprintf("%s/packs/p", dir);
    bytes = xmalloc(SAMPLES * SIZE);
    for (size_t i = 0; i < SAMPLES * SIZE; i++)
        bytes[i] = (unsigned char)hash_mix64(i);
    cr_assert_eq(mkdir(folder, 0700), 0);
    cleanup_file FILE *f = fopen(path, "we");
    cr_assert_eq(fwrite(bytes, 1, SAMPLES * SIZE, f), (size_t)SAMPLES * SIZE);
}

/* Sample 7 has another sum than its bytes; sample 9 says it lies behind the pack's end. */
static void build_catalog(void)
{
    struct catalog_builder *b;
    struct err err = {0};
    char *file = NULL;
    const struct catalog_source_row source = {store_uri(store), ""};
    cleanup_free char *where = xasprintf("%s/catalog", dir);
    cr_assert_eq(mkdir(where, 0700), 0);
    cr_assert_eq(catalog_builder_new(&b, where, NULL, &source, 1, &err), 0, "%s", err.msg);
    for (unsigned i = 0; i < SAMPLES; i++) {
        char key[32], sum[64];
        snprintf(key, sizeof key, "c/%06u", i);
        snprintf(sum, sizeof sum, "sum:crc32c:%08x",
                 crc32c(0, bytes + (size_t)i * SIZE, SIZE) ^ (i == 7));
        const struct row r = {.key = key,
                              .key_len = strlen(key),
                              .size = SIZE,
                              .mtime_ns = 1,
                              .etag = sum,
                              .object = "packs/p",
                              .pack_offset = i == 9 ? SAMPLES * SIZE : (uint64_t)i * SIZE};
        cr_assert_eq(catalog_builder_add(b, &r, &err), 0, "%s", err.msg);
    }
    cr_assert_eq(catalog_builder_finish(b, NULL, &file, NULL, &err), 0, "%s", err.msg);
    catalog_builder_free(b);
    cr_assert_eq(catalog_open(&catalog, file, &err), 0, "%s", err.msg);
    free(file);
}

static void begin(void)
{
    struct err err = {0};
    cr_assert_not_null(mkdtemp(dir));
    cleanup_free char *uri = xasprintf("file://%s", dir);
    cr_assert_eq(store_open(&store, uri, NULL, &err), 0, "%s", err.msg);
    write_pack();
    build_catalog();
    engine = engine_new(2);
    cr_assert_eq(fetch_source_new(&layer, engine, &store, 1, &err), 0, "%s", err.msg);
    pool = pool_new(64u << 20);
}

static void finish(void)
{
    layer->ops->close(layer);
    fetch_free(engine);
    store_close(store);
    pool_free(pool);
    free(bytes);
    cleanup_free char *folder = xasprintf("%s/packs", dir);
    cleanup_free char *path = xasprintf("%s/packs/p", dir);
    cleanup_free char *where = xasprintf("%s/catalog", dir);
    catalog_remove(catalog, where);
    unlink(path);
    rmdir(folder);
    cr_expect_eq(rmdir(dir), 0, "something is left in %s", dir);
}

struct wait {
    struct source_wait wait; /* first */
    struct buf *into;
    _Atomic int done;
    int result;
    unsigned place; /* when it ended, counted by `ended` */
    bool cancelled;
    const atomic_bool *given_up;
};

static _Atomic unsigned ended;

static void on_done(struct source_wait *wait, struct view *view, const struct err *err)
{
    struct wait *w = (struct wait *)wait;
    w->result = err ? -1 : 0;
    w->cancelled = err && err->class == ERR_CANCELLED;
    if (view)
        view_release(view);
    w->place = atomic_fetch_add(&ended, 1);
    w->done++;
}

static void ask(struct wait *w, unsigned i, enum prio prio)
{
    char path[32];
    struct entry e;
    struct view v;
    struct err err = {0};
    snprintf(path, sizeof path, "c/%06u", i);
    cr_assert_eq(catalog_find(catalog, path, &e, &err), 0, "%s", err.msg);
    w->wait.done = on_done;
    w->into = pool_get(pool, SIZE);
    const struct piece p = {.catalog = catalog,
                            .unit = e.id,
                            .len = SIZE,
                            .prio = prio,
                            .into = w->into,
                            .given_up = w->given_up};
    cr_assert_eq(source_read(layer, &p, &v, &w->wait, &err), SOURCE_PENDING, "%s", err.msg);
}

static void wait_for(const struct wait *w)
{
    while (!w->done)
        poll(NULL, 0, 1);
}

Test(packed, neighbours_share_requests_and_bad_ones_fail_alone, .init = begin, .fini = finish)
{
    struct wait *waits = xcalloc(SAMPLES, sizeof *waits);
    fetch_set_bandwidth(engine, 1000); /* so that what is asked for must wait */
    for (unsigned i = 0; i < SAMPLES; i++)
        ask(&waits[i], i, PRIO_WARMUP);
    fetch_set_bandwidth(engine, 0);
    for (unsigned i = 0; i < SAMPLES; i++) {
        wait_for(&waits[i]);
        cr_assert_eq(waits[i].done, 1);
        cr_assert_eq(waits[i].result, i == 7 || i == 9 ? -1 : 0, "sample %u", i);
        if (waits[i].result == 0)
            cr_assert_eq(memcmp(waits[i].into->data, bytes + (size_t)i * SIZE, SIZE), 0);
        buf_unref(waits[i].into);
    }
    cr_assert_lt(counter_get(&fetch_counts(engine)->requests), SAMPLES / 4);
    free(waits);
}

Test(packed, a_reader_raises_what_waits, .init = begin, .fini = finish)
{
    struct wait *waits = xcalloc(SAMPLES, sizeof *waits);
    for (unsigned i = 0; i < SAMPLES; i++)
        ask(&waits[i], SAMPLES - 1 - i, PRIO_PREFETCH); /* in the worst order */
    for (unsigned i = 0; i < SAMPLES; i += 10) {
        const struct piece p = {.catalog = catalog, .prio = PRIO_READER, .into = waits[i].into};
        if (!waits[i].done)
            layer->ops->raise(layer, &p);
    }
    for (unsigned i = 0; i < SAMPLES; i++) {
        unsigned sample = SAMPLES - 1 - i;
        wait_for(&waits[i]);
        cr_assert_eq(waits[i].done, 1);
        cr_assert_eq(waits[i].result, sample == 7 || sample == 9 ? -1 : 0);
        buf_unref(waits[i].into);
    }
    free(waits);
}

/* Sample 7 comes with others, is wrong, and is asked for once more. */
Test(packed, a_reader_of_a_run_stays_one_when_it_is_asked_for_alone, .init = begin, .fini = finish)
{
    enum { OTHERS = 9, FIRST = 5, N = 3 };
    struct wait others[OTHERS] = {0}, w[N] = {0};
    atomic_bool token = false;
    fetch_set_connections(engine, 1);
    fetch_set_bandwidth(engine, 1);
    for (unsigned i = 0; i < OTHERS; i++) { /* the line brings the first, and the second waits */
        others[i].given_up = i == OTHERS - 1 ? &token : NULL;
        ask(&others[i], 100 + 10 * i, PRIO_WARMUP);
        if (i == 0)
            wait_for(&others[0]);
    }
    while (counter_get(&fetch_counts(engine)->requests) < 2)
        poll(NULL, 0, 1);
    for (unsigned i = 0; i < N; i++)
        ask(&w[i], FIRST + i, PRIO_WARMUP);
    atomic_store(&token, true);
    source_give_up(layer);
    wait_for(&others[OTHERS - 1]); /* the run has its place */
    const struct piece p = {.catalog = catalog, .prio = PRIO_READER, .into = w[N - 1].into};
    layer->ops->raise(layer, &p);
    fetch_set_bandwidth(engine, 0);
    for (unsigned i = 0; i < N; i++) {
        wait_for(&w[i]);
        cr_expect_eq(w[i].result, FIRST + i == 7 ? -1 : 0);
        buf_unref(w[i].into);
    }
    for (unsigned i = 0; i < OTHERS; i++) {
        wait_for(&others[i]);
        if (i > 1 && i < OTHERS - 1)
            cr_expect_gt(others[i].place, w[N - 1].place, "%u came before the reader's", i);
        buf_unref(others[i].into);
    }
}

Test(packed, a_reader_asks_alone, .init = begin, .fini = finish)
{
    struct wait w[3] = {0};
    for (unsigned i = 0; i < 3; i++)
        ask(&w[i], i, PRIO_READER);
    for (unsigned i = 0; i < 3; i++) {
        wait_for(&w[i]);
        cr_assert_eq(w[i].result, 0);
        buf_unref(w[i].into);
    }
    cr_assert_eq(counter_get(&fetch_counts(engine)->requests), 3);
}

Test(packed, closing_ends_what_waits, .init = begin, .fini = finish)
{
    struct wait *waits = xcalloc(SAMPLES, sizeof *waits);
    for (unsigned i = 0; i < SAMPLES; i++)
        ask(&waits[i], i, PRIO_WARMUP);
    fetch_stop(engine);
    for (unsigned i = 0; i < SAMPLES; i++) {
        wait_for(&waits[i]);
        cr_assert_eq(waits[i].done, 1);
        buf_unref(waits[i].into);
    }
    free(waits);
}

/* On a line that brings next to nothing. */
static void ask_all(struct wait *waits, const atomic_bool *token, unsigned wanted)
{
    fetch_set_bandwidth(engine, 1000);
    for (unsigned i = 0; i < SAMPLES; i++) {
        waits[i].given_up = wanted && i % wanted == 0 ? NULL : token;
        ask(&waits[i], i, PRIO_WARMUP);
    }
}

Test(packed, what_is_given_up_by_all_ends, .init = begin, .fini = finish)
{
    struct wait *waits = xcalloc(SAMPLES, sizeof *waits);
    atomic_bool token = false;
    unsigned cancelled = 0;
    ask_all(waits, &token, 0);
    atomic_store(&token, true);
    source_give_up(layer);
    for (unsigned i = 0; i < SAMPLES; i++) {
        wait_for(&waits[i]);
        cr_assert_eq(waits[i].done, 1);
        cancelled += waits[i].cancelled;
        buf_unref(waits[i].into);
    }
    cr_expect_geq(cancelled, SAMPLES - 200, "but for what came in the first burst");
    free(waits);
}

Test(packed, a_run_goes_on_for_one_that_is_wanted, .init = begin, .fini = finish)
{
    enum { WANTED = 500 };
    struct wait *waits = xcalloc(SAMPLES, sizeof *waits);
    atomic_bool token = false;
    unsigned cancelled = 0;
    ask_all(waits, &token, WANTED);
    atomic_store(&token, true);
    source_give_up(layer);
    fetch_set_bandwidth(engine, 0);
    for (unsigned i = 0; i < SAMPLES; i++) {
        wait_for(&waits[i]);
        cr_assert_eq(waits[i].done, 1);
        cancelled += waits[i].cancelled;
        if (i % WANTED == 0)
            cr_assert_eq(waits[i].result, 0);
        if (waits[i].result == 0)
            cr_assert_eq(memcmp(waits[i].into->data, bytes + (size_t)i * SIZE, SIZE), 0);
        buf_unref(waits[i].into);
    }
    cr_expect_gt(cancelled, 0);
    free(waits);
}

#define D "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

Test(pointer, good_and_bad)
{
    static const struct {
        const char *text;
        int result;
    } rows[] = {
        {"{\"format\":1,\"catalog\":\"" D "\",\"size\":5,\"previous\":\"\"}", 0},
        {"{\"format\":1,\"catalog\":\"" D "\",\"size\":5,\"previous\":\"" D "\",\"more\":1}", 0},
        {"{\"format\":1,\"catalog\":\"" D "\",\"size\":5}", 0},
        {"{\"format\":2,\"catalog\":\"" D "\",\"size\":5}", -1},
        {"{\"format\":1,\"catalog\":\"" D "\",\"size\":0}", -1},
        {"{\"format\":1,\"catalog\":\"" D "0\",\"size\":5}", -1},
        {"{\"format\":1,\"catalog\":\"../../../../etc/passwd\",\"size\":5}", -1},
        {"{\"format\":1,\"catalog\":\"" D "\",\"size\":5,\"previous\":\"x\"}", -1},
        {"{\"catalog\":\"" D "\",\"size\":5}", -1},
        {"[]", -1},
        {"{", -1},
    };
    struct packed_pointer p;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        cr_expect_eq(packed_pointer_parse(rows[i].text, strlen(rows[i].text), &p, NULL),
                     rows[i].result, "row %zu", i);
    cleanup_bytes struct bytes text = {0};
    struct packed_pointer back = {.digest = D, .previous = D, .size = 77};
    packed_pointer_write(&back, &text);
    cr_assert_eq(packed_pointer_parse(text.data, text.len, &p, NULL), 0);
    cr_assert_str_eq(p.digest, D);
    cr_assert_str_eq(p.previous, D);
    cr_assert_eq(p.size, 77);
}
