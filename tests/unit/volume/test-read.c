/* A set is read through all of the stack. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdatomic.h>
#include <unistd.h>

#include "mem.h"
#include "support.h"

static const struct {
    const char *path;
    uint64_t size;
} files[] = {
    {"a/empty.bin", 0},
    {"a/one.bin", 1},
    {"a/page.bin", 4095},
    {"b/chunk.bin", 128 << 10},
    {"b/over.bin", (128 << 10) + 1},
    {"b/c/sample.bin", 115 * 1000},
    {"d/unit.bin", UNIT_BYTES},
    {"d/unit1.bin", UNIT_BYTES + 1},
    {"d/two.bin", 2ull * UNIT_BYTES},
    {"e/big.bin", 9ull * 1000 * 1000},
};
#define FILES (sizeof files / sizeof files[0])

static void put_all(const struct world *w)
{
    for (size_t i = 0; i < FILES; i++)
        put_file(w, files[i].path, files[i].size, (unsigned)i + 1);
}

static void check_all(struct volume *v)
{
    for (size_t i = 0; i < FILES; i++)
        check_file(v, files[i].path, files[i].size, (unsigned)i + 1);
}

Test(read, every_byte_cold_and_cached)
{
    struct world w;
    struct volume_conf conf;
    world_new(&w);
    put_all(&w);
    world_conf(&w, &conf);
    conf.layers = "count=store";
    struct volume *v = world_open(&conf);
    struct layer_counts cold, warm;
    check_all(v);
    cr_assert_eq(layers_count("store", &cold), 0);
    cr_assert_geq(cold.reads, FILES - 1);
    cr_assert_eq(cold.errors, 0);
    cr_assert_eq(cache_flush(volume_cache(v), NULL), 0);
    check_all(v);
    layers_count("store", &warm);
    cr_assert_eq(warm.reads, cold.reads, "read from the store again");
    cr_assert_gt(status_int(v, "reads.store"), 0);
    cr_assert_gt(status_int(v, "reads.disk"), 0);
    cr_assert_eq(status_int(v, "reads.errors"), 0);
    cr_assert_eq(status_int(v, "set.samples"), (int64_t)FILES);
    volume_close(v);
    world_free(&w);
}

Test(read, ranges_over_a_border_are_gathered)
{
    struct world w;
    struct volume_conf conf;
    world_new(&w);
    put_all(&w);
    world_conf(&w, &conf);
    struct volume *v = world_open(&conf);
    uint64_t id = id_of(v, "e/big.bin"), size = 9000000;
    for (int pass = 0; pass < 2; pass++) {
        check_range(v, id, 10, UNIT_BYTES - 1, 2, 2);
        check_range(v, id, 10, UNIT_BYTES - 70000, 131072, 131072);
        check_range(v, id, 10, UNIT_BYTES - 1, UNIT_BYTES + 2, UNIT_BYTES + 2);
        check_range(v, id, 10, 2ull * UNIT_BYTES - 5, 1 << 20,
                    (uint32_t)(size - 2ull * UNIT_BYTES) + 5);
        check_range(v, id, 10, size - 3, 4096, 3);
        check_range(v, id, 10, size, 4096, 0);
        check_range(v, id, 10, size + (64 << 20), 4096, 0);
    }
    check_range(v, id_of(v, "d/two.bin"), 9, 2ull * UNIT_BYTES - 10, 100, 10);
    check_range(v, id_of(v, "d/unit.bin"), 7, UNIT_BYTES - 10, 100, 10);
    check_range(v, id_of(v, "d/unit.bin"), 7, UNIT_BYTES, 100, 0);
    volume_close(v);
    world_free(&w);
}

/* --- many gathered reads at once, more than their pool holds --------------------------------- */

#define READS 64
struct async {
    struct volume_read r;
    uint64_t off;
    atomic_int done;
    bool right;
};

static bool bytes_right(const struct view *view, uint64_t off, size_t want, unsigned seed)
{
    const unsigned char *data = view->ptr;
    if (view->len != want)
        return false;
    for (size_t i = 0; i < want; i++)
        if (data[i] != content_at(seed, off + i))
            return false;
    return true;
}

static void async_done(struct volume_read *r, struct view *view, const struct err *err)
{
    struct async *a = (struct async *)r;
    if (!err) {
        a->right = bytes_right(view, a->off, 1 << 20, 10);
        view_release(view);
    }
    atomic_fetch_add(&a->done, 1);
}

static bool all_done(void *arg)
{
    struct async *all = arg;
    for (size_t i = 0; i < READS; i++)
        if (!atomic_load(&all[i].done))
            return false;
    return true;
}

static void start_reads(struct volume *v, uint64_t id, struct async *all, uint64_t off)
{
    for (size_t i = 0; i < READS; i++) {
        struct view view;
        struct err err = {0};
        all[i] = (struct async){.r = {.done = async_done}, .off = off};
        int rc = volume_read(v, id, off, 1 << 20, &all[i].r, &view, &err);
        cr_assert_neq(rc, -1, "%s", err.msg);
        if (rc == 0)
            async_done(&all[i].r, &view, NULL);
    }
}

Test(read, gathered_reads_wait_for_their_pool)
{
    struct world w;
    struct volume_conf conf;
    world_new(&w);
    put_all(&w);
    world_conf(&w, &conf);
    conf.layers = "delay=read:20";
    conf.memory = 64 << 20; /* 4 MiB for gathered reads */
    struct volume *v = world_open(&conf);
    struct async *all = xcalloc(READS, sizeof *all);
    start_reads(v, id_of(v, "e/big.bin"), all, UNIT_BYTES - (512 << 10));
    wait_until(all_done, all, "all reads are answered");
    for (size_t i = 0; i < READS; i++)
        cr_assert(all[i].right && atomic_load(&all[i].done) == 1, "read %zu", i);
    volume_close(v);
    free(all);
    world_free(&w);
}

Test(read, close_waits_for_reads_under_way)
{
    struct world w;
    struct volume_conf conf;
    world_new(&w);
    put_all(&w);
    world_conf(&w, &conf);
    conf.layers = "delay=read:50";
    struct volume *v = world_open(&conf);
    struct async *all = xcalloc(READS, sizeof *all);
    start_reads(v, id_of(v, "e/big.bin"), all, 1 << 20);
    volume_close(v);
    for (size_t i = 0; i < READS; i++)
        cr_assert_eq(atomic_load(&all[i].done), 1, "read %zu", i);
    free(all);
    world_free(&w);
}

/* --- what goes wrong ------------------------------------------------------------------------- */

static void expect_errno(struct volume *v, uint64_t id, int want)
{
    struct view view;
    struct err err = {0};
    cr_assert_eq(volume_read_wait(v, id, 0, 4096, &view, &err), -1);
    cr_assert_eq(err_errno(&err), want, "%s: %s", strerrorname_np(err_errno(&err)), err.msg);
}

Test(read, an_object_that_changed_or_went_is_stale)
{
    struct world w;
    struct volume_conf conf;
    world_new(&w);
    put_all(&w);
    world_conf(&w, &conf);
    struct volume *v = world_open(&conf);
    put_file(&w, "a/page.bin", 4095, 99);
    drop_file(&w, "b/c/sample.bin");
    expect_errno(v, id_of(v, "a/page.bin"), ESTALE);
    expect_errno(v, id_of(v, "b/c/sample.bin"), ESTALE);
    expect_errno(v, id_of(v, "b/c/sample.bin"), ESTALE);
    expect_errno(v, 123456789, ESTALE);
    check_file(v, "a/one.bin", 1, 2);
    cr_assert_eq(status_int(v, "stale"), 3);
    cr_assert_eq(status_int(v, "reads.errors"), 4);
    cleanup_bytes struct bytes text = {0};
    struct json_writer jw;
    jw_init(&jw, &text);
    jw_object(&jw, NULL);
    volume_stale(v, &jw);
    jw_end(&jw);
    cr_assert_not_null(strstr(text.data, "\"a/page.bin\""), "%s", text.data);
    cr_assert_not_null(strstr(text.data, "\"b/c/sample.bin\""), "%s", text.data);
    volume_close(v);
    world_free(&w);
}

Test(read, faults_become_errnos_and_pass)
{
    struct world w;
    struct volume_conf conf;
    world_new(&w);
    put_all(&w);
    world_conf(&w, &conf);
    conf.layers = "fault=read:first:1:transient;fault=read:first:1:denied";
    struct volume *v = world_open(&conf);
    uint64_t id = id_of(v, "a/one.bin");
    expect_errno(v, id, EIO);
    expect_errno(v, id, EACCES);
    check_sample(v, id, 1, 2);
    volume_close(v);
    world_free(&w);
}

Test(read, layers_are_refused_without_a_builder)
{
    struct world w;
    struct volume_conf conf;
    struct volume *v;
    struct err err = {0};
    world_new(&w);
    put_all(&w);
    world_conf(&w, &conf);
    conf.layers = "count=x";
    conf.build_layers = NULL;
    cr_assert_eq(volume_open(&v, &conf, NULL, NULL, &err), -1);
    cr_assert_not_null(strstr(err.msg, "no test layers"), "%s", err.msg);
    conf.build_layers = layers_build;
    conf.layers = "fault=read:sometimes:1:failed";
    cr_assert_eq(volume_open(&v, &conf, NULL, NULL, &err), -1);
    cr_assert_not_null(strstr(err.msg, "sometimes"), "%s", err.msg);
    world_free(&w);
}

Test(read, two_volumes_on_one_folder_are_refused)
{
    struct world w;
    struct volume_conf conf;
    struct volume *second;
    struct err err = {0};
    world_new(&w);
    put_all(&w);
    world_conf(&w, &conf);
    struct volume *v = world_open(&conf);
    cr_assert_eq(volume_open(&second, &conf, NULL, NULL, &err), -1);
    check_file(v, "a/one.bin", 1, 2);
    volume_close(v);
    world_free(&w);
}

Test(read, sources_that_are_not_there_are_named)
{
    struct world w;
    struct volume_conf conf;
    struct volume *v;
    struct err err = {0};
    world_new(&w);
    world_conf(&w, &conf);
    conf.set = "file:///nonexistent/folder";
    cr_assert_eq(volume_open(&v, &conf, NULL, NULL, &err), -1);
    cr_assert_eq(err.class, ERR_NOT_FOUND, "%s", err.msg);
    cr_assert_not_null(strstr(err.msg, "/nonexistent/folder"), "%s", err.msg);
    world_free(&w);
}
