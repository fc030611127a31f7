/* What the served version does not name is left, whatever was served a moment before. */
#include <criterion/criterion.h>
#include <unistd.h>

#include "mem.h"
#include "support.h"
#include "volume-internal.h"

#define MIB   (1u << 20)
#define FILES 8

static void put_files(const struct world *w, const char *folder, unsigned n, unsigned seed)
{
    for (unsigned i = 0; i < n; i++) {
        cleanup_free char *path = xasprintf("%s/%u", folder, i);
        put_file(w, path, MIB, seed + i);
    }
}

static void rescan(struct volume *v)
{
    struct rescan scan;
    struct err err = {0};
    cr_assert_eq(volume_rescan(v, &scan, &err), 0, "%s", err.msg);
}

static bool is_named(void *arg)
{
    struct volume *v = arg;
    cleanup_bytes struct bytes folder = {0};
    struct digest d = served(v);
    cr_assert_eq(catalog_folder(&v->conf, &folder, NULL), 0);
    return catalog_is_named(folder.data, d.text);
}

static unsigned n_local(struct volume *v, const char *folder)
{
    unsigned n = 0;
    for (unsigned i = 0; i < FILES; i++) {
        cleanup_free char *path = xasprintf("%s/%u", folder, i);
        n += cache_where(volume_cache(v), id_of(v, path)) >= 0;
    }
    return n;
}

struct switcher {
    const struct world *w;
    struct volume *v;
    bool done;
};

/* In the midst of its first round another version is served, and a sample of the warmup goes, so
 * that there is a second round. */
static enum warmup_wish switch_once(void *arg, const struct warmup_far *far)
{
    struct switcher *s = arg;
    (void)far;
    if (s->done)
        return WARMUP_GO_ON;
    s->done = true;
    put_files(s->w, "more", FILES, 300);
    rescan(s->v);
    for (unsigned i = 0; i < FILES; i++) {
        cleanup_free char *path = xasprintf("more/%u", i);
        check_file(s->v, path, MIB, 300 + i);
    }
    cr_assert_eq(cache_flush(volume_cache(s->v), NULL), 0);
    wait_until(is_named, s->v, "the cache knows the new version");
    for (unsigned i = 0; i < FILES; i++) {
        cleanup_free char *path = xasprintf("more/%u", i);
        cache_pin(volume_cache(s->v), id_of(s->v, path), 1, true);
    }
    cache_drop(volume_cache(s->v), id_of(s->v, "set/0"));
    return WARMUP_GO_ON;
}

Test(left, a_warmup_of_an_older_version_names_the_one_that_is_served)
{
    struct world w;
    struct volume_conf conf;
    struct warmup_result r;
    struct err err = {0};
    world_new(&w);
    put_files(&w, "set", FILES, 100);
    world_conf(&w, &conf);
    conf.tiers[0].limit = 12 << 20; /* what comes meanwhile leaves no room */
    conf.layers = "delay=read:600";
    struct volume *v = world_open(&conf);
    struct switcher s = {&w, v, false};
    cr_assert_eq(volume_warmup(v, &(struct warmup_conf){0}, switch_once, NULL, &s, &r, &err), 0,
                 "%s", err.msg);
    cr_assert(s.done);
    cr_expect(is_named(v));
    cr_expect_eq(status_int(v, "cache.samples"), n_local(v, "set") + n_local(v, "more"));
    volume_close(v);
    world_free(&w);
}

static bool none_counted(void *arg)
{
    return status_int(arg, "cache.samples") == 0;
}

Test(left, an_index_that_was_lost_is_made_up_for)
{
    struct world w;
    struct volume_conf conf;
    struct warmup_result r;
    world_new(&w);
    put_files(&w, "set", FILES, 100);
    world_conf(&w, &conf);
    struct volume *v = world_open(&conf);
    cr_assert_eq(volume_warmup(v, &(struct warmup_conf){0}, NULL, NULL, NULL, &r, NULL), 0);
    put_files(&w, "set", FILES, 200);
    rescan(v);
    wait_until(none_counted, v, "superseded samples are not counted");
    wait_until(is_named, v, "the cache knows the new version");
    volume_close(v);
    cleanup_free char *index = xasprintf("%s/index", w.own);
    cr_assert_eq(unlink(index), 0);
    v = world_open(&conf);
    struct cache_stat stat;
    cache_stat(volume_cache(v), &stat);
    cr_expect_eq(stat.units, FILES, "its samples are there still");
    wait_until(none_counted, v, "nor without the index");
    volume_close(v);
    world_free(&w);
}

/* Of a source that lies about its sizes, or a version from elsewhere: the tables are as large as
 * what the cache can hold. */
Test(left, ids_may_be_any_number)
{
    struct world w;
    struct volume_conf conf;
    struct warmup_result r;
    cleanup_bytes struct bytes path = {0};
    world_new(&w);
    put_files(&w, "set", FILES, 100);
    world_conf(&w, &conf);
    struct volume *v = world_open(&conf);
    cr_assert_eq(volume_warmup(v, &(struct warmup_conf){0}, NULL, NULL, NULL, &r, NULL), 0);
    cr_assert_eq(catalog_folder(&v->conf, &path, NULL), 0);
    bytes_add_str(&path, "/next-id");
    FILE *f = fopen(path.data, "we");
    cr_assert(f && fprintf(f, "%llu\n", 1ull << 50) > 0 && fclose(f) == 0);
    put_files(&w, "set", FILES, 200);
    rescan(v);
    wait_until(is_named, v, "the cache knows the new version");
    cr_expect(none_counted(v), "superseded samples are not counted");
    volume_close(v);
    world_free(&w);
}
