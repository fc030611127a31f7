/* The bottom layer: units of a catalog, read from the store into the caller's buffer. */
#include <criterion/criterion.h>
#include <poll.h>
#include <string.h>

#include "mem.h"
#include "server.h"

static struct server server;
static struct fetch *engine;
static struct source *layer;
static struct catalog *catalog;
static struct pool *pool;
static char dir[] = "/tmp/sampan-store-XXXXXX";

static const struct sample {
    const char *key;
    uint64_t size;
} samples[] = {
    {"size=0/empty", 0},
    {"size=115000/small", 115000},
    {"size=5000000/two-units", 5000000},
    {"size=9,s404/gone", 9},
};

static void build_catalog(void)
{
    struct catalog_builder *b;
    struct err err = {0};
    char *file = NULL;
    struct catalog_diff_counts diff;
    const struct catalog_source_row source = {"minio://test/b/", ""};
    cr_assert_not_null(mkdtemp(dir));
    cr_assert_eq(catalog_builder_new(&b, dir, NULL, &source, 1, &err), 0, "%s", err.msg);
    for (size_t i = 0; i < sizeof samples / sizeof samples[0]; i++) {
        char etag[9];
        made_up_etag(samples[i].key, etag);
        const struct row r = {.key = samples[i].key,
                              .key_len = strlen(samples[i].key),
                              .size = samples[i].size,
                              .mtime_ns = 1000000000,
                              .etag = etag};
        cr_assert_eq(catalog_builder_add(b, &r, &err), 0, "%s", err.msg);
    }
    cr_assert_eq(catalog_builder_finish(b, NULL, &file, &diff, &err), 0, "%s", err.msg);
    catalog_builder_free(b);
    cr_assert_eq(catalog_open(&catalog, file, &err), 0, "%s", err.msg);
    free(file);
}

static void begin(void)
{
    struct fetch_conf c;
    struct err err = {0};
    fetch_conf_defaults(&c);
    server_start(&server);
    build_catalog();
    cr_assert_eq(fetch_new(&engine, &c, &err), 0, "%s", err.msg);
    cr_assert_eq(fetch_source_new(&layer, engine, &server.store, 1, &err), 0, "%s", err.msg);
    pool = pool_new(64u << 20);
}

static void finish(void)
{
    layer->ops->close(layer);
    fetch_free(engine);
    pool_free(pool);
    catalog_remove(catalog, dir);
    server_stop(&server);
}

struct wait {
    struct source_wait wait; /* first */
    struct view view;
    struct err err;
    _Atomic int done;
};

static void on_done(struct source_wait *wait, struct view *view, const struct err *err)
{
    struct wait *w = (struct wait *)wait;
    if (err)
        w->err = *err;
    else
        w->view = *view;
    atomic_fetch_add(&w->done, 1);
}

/* Starts a read and waits for its answer. A row is the caller's, and gone when the call returns. */
static void read_and_wait(const struct piece *p, struct unit_info *row, struct wait *w)
{
    struct err err = {0};
    int result = source_read(layer, p, &w->view, &w->wait, &err);
    cr_assert_geq(result, 0, "%s", err.msg);
    if (row)
        memset(row->etag, 'x', sizeof row->etag - 1);
    while (result == SOURCE_PENDING && !atomic_load(&w->done))
        poll(NULL, 0, 1);
}

/* Reads a piece; the answer is in w->view or w->err. */
static void read_piece(const char *key, uint32_t block, uint32_t off, uint32_t len, bool alone,
                       struct wait *w)
{
    struct entry e;
    struct err err = {0};
    *w = (struct wait){.wait.done = on_done};
    cr_assert_eq(catalog_find(catalog, key, &e, &err), 0, "%s", err.msg);
    struct buf *into = pool_get(pool, alone ? len : UNIT_BYTES);
    const struct piece p = {.catalog = catalog,
                            .unit = e.id + block,
                            .off = off,
                            .len = len,
                            .alone = alone,
                            .into = into};
    read_and_wait(&p, NULL, w);
    buf_unref(into);
}

static const struct read_row {
    const char *key;
    uint32_t block, off, len;
    size_t want;
    bool alone;
} read_rows[] = {
    {"size=115000/small", 0, 0, 115000, 115000, false},
    {"size=115000/small", 0, 100, 50, 50, false},
    {"size=115000/small", 0, 114000, 5000, 1000, false}, /* cut at the end */
    {"size=115000/small", 0, 200000, 10, 0, false},
    {"size=5000000/two-units", 0, 10, UNIT_BYTES, UNIT_BYTES - 10, false},
    {"size=5000000/two-units", 1, 0, UNIT_BYTES, 5000000 - UNIT_BYTES, false},
    {"size=5000000/two-units", 0, 1000, 5000, 5000, true},
    {"size=5000000/two-units", 1, 1000, 5000, 5000, true},
    {"size=5000000/two-units", 1, 800000, 100000, 5000000 - UNIT_BYTES - 800000, true},
    {"size=0/empty", 0, 0, 4096, 0, false},
};

Test(store, pieces_of_units)
{
    begin();
    for (size_t i = 0; i < sizeof read_rows / sizeof read_rows[0]; i++) {
        const struct read_row *r = &read_rows[i];
        struct wait w;
        read_piece(r->key, r->block, r->off, r->len, r->alone, &w);
        cr_assert_eq(w.err.class, ERR_NONE, "%s: %s", r->key, w.err.msg);
        cr_assert_eq(w.view.len, r->want, "%s: %zu bytes", r->key, w.view.len);
        cr_expect_eq(w.view.origin, FROM_STORE);
        unsigned char *want = xmalloc(r->want + 1);
        made_up(r->key, (uint64_t)r->block * UNIT_BYTES + r->off, r->want, want);
        cr_expect(memcmp(want, w.view.ptr, r->want) == 0, "%s: wrong bytes", r->key);
        free(want);
        view_release(&w.view);
    }
    cr_expect_eq(pool_used(pool), 0, "a buffer was not given back");
    finish();
}

Test(store, a_deleted_object_is_stale)
{
    struct wait w;
    begin();
    read_piece("size=9,s404/gone", 0, 0, 9, false, &w);
    cr_expect_eq(w.err.class, ERR_STALE, "%s", w.err.msg);
    cr_expect_eq(pool_used(pool), 0);
    finish();
}

/* Of an object that the store lists without an ETag no older version can be told: none is asked
 * for. */
Test(store, a_deleted_object_without_an_etag_is_stale)
{
    struct wait w = {.wait.done = on_done};
    struct unit_info row = {0};
    struct entry e;
    struct err err = {0};
    begin();
    cr_assert_eq(catalog_find(catalog, "size=9,s404/gone", &e, &err), 0, "%s", err.msg);
    cr_assert_eq(catalog_unit(catalog, e.id, &row, &err), 0, "%s", err.msg);
    row.etag[0] = '\0';
    struct buf *into = pool_get(pool, 9);
    const struct piece p = {.catalog = catalog, .unit = e.id, .len = 9, .into = into, .row = &row};
    read_and_wait(&p, &row, &w);
    cr_expect_eq(w.err.class, ERR_STALE, "%s", w.err.msg);
    uint64_t requests = counter_get(&fetch_counts(engine)->requests);
    cr_expect_eq(requests, 2, "%llu requests", (unsigned long long)requests);
    buf_unref(into);
    unit_info_release(&row);
    finish();
}
