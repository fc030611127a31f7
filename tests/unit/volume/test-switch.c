/* Versions: what a switch changes and what it must not; scans, catalogs from elsewhere. */
#include <criterion/criterion.h>
#include <errno.h>
#include <unistd.h>

#include "mem.h"
#include "support.h"

static void put_some(const struct world *w)
{
    put_file(w, "a/1.jpg", 1000, 1);
    put_file(w, "a/2.jpg", 2000, 2);
    put_file(w, "b/3.jpg", 3000, 3);
}

struct heard {
    unsigned n;
    char from[CATALOG_DIGEST + 1], to[CATALOG_DIGEST + 1];
};

static void on_switch(void *arg, struct catalog *from, struct catalog *to)
{
    struct heard *h = arg;
    h->n++;
    memcpy(h->from, catalog_info(from)->digest, sizeof h->from);
    memcpy(h->to, catalog_info(to)->digest, sizeof h->to);
}

Test(versions, old_ids_keep_their_bytes_or_are_stale)
{
    struct world w;
    struct volume_conf conf;
    struct heard heard = {0};
    struct rescan scan;
    struct err err = {0};
    world_new(&w);
    put_some(&w);
    world_conf(&w, &conf);
    struct volume *v = world_open(&conf);
    volume_on_switch(v, on_switch, &heard);
    uint64_t one = id_of(v, "a/1.jpg"), two = id_of(v, "a/2.jpg"), three = id_of(v, "b/3.jpg");
    check_sample(v, one, 1000, 1); /* cached; `two` is not */
    put_file(&w, "a/1.jpg", 1000, 11);
    put_file(&w, "a/2.jpg", 2222, 12);
    put_file(&w, "c/4.jpg", 4000, 4);
    cr_assert_eq(volume_rescan(v, &scan, &err), 0, "%s", err.msg);
    cr_assert_eq(scan.diff.added, 1);
    cr_assert_eq(scan.diff.changed, 2);
    cr_assert_eq(scan.diff.removed, 0);
    cr_assert_eq(heard.n, 1);
    cr_assert_str_neq(heard.from, heard.to);
    cr_assert_neq(id_of(v, "a/1.jpg"), one);
    cr_assert_eq(id_of(v, "b/3.jpg"), three);
    check_sample(v, one, 1000, 1);
    struct view view;
    cr_assert_eq(volume_read_wait(v, two, 0, 4096, &view, &err), -1);
    cr_assert_eq(err_errno(&err), ESTALE, "%s", err.msg);
    check_file(v, "a/1.jpg", 1000, 11);
    check_file(v, "a/2.jpg", 2222, 12);
    check_file(v, "b/3.jpg", 3000, 3);
    check_file(v, "c/4.jpg", 4000, 4);
    struct catalog *old = volume_catalog_of(v, one, NULL);
    cr_assert_not_null(old);
    cr_assert_str_eq(catalog_info(old)->digest, heard.from);
    catalog_unref(old);
    volume_close(v);
    world_free(&w);
}

Test(versions, a_scan_that_finds_nothing_new_switches_nothing)
{
    struct world w;
    struct volume_conf conf;
    struct heard heard = {0};
    struct rescan scan;
    world_new(&w);
    put_some(&w);
    world_conf(&w, &conf);
    struct volume *v = world_open(&conf);
    volume_on_switch(v, on_switch, &heard);
    cr_assert_eq(volume_rescan(v, &scan, NULL), 0);
    cr_assert_eq(scan.diff.added + scan.diff.changed + scan.diff.removed, 0);
    cr_assert_eq(heard.n, 0);
    volume_close(v);
    world_free(&w);
}

Test(versions, a_second_open_serves_the_known_version_without_a_scan)
{
    struct world w;
    struct volume_conf conf;
    world_new(&w);
    put_some(&w);
    world_conf(&w, &conf);
    struct volume *v = world_open(&conf);
    uint64_t one = id_of(v, "a/1.jpg");
    check_file(v, "a/1.jpg", 1000, 1);
    volume_close(v);
    put_file(&w, "z/9.jpg", 10, 9);
    drop_file(&w, "a/1.jpg");
    v = world_open(&conf);
    cr_assert_eq(status_int(v, "set.samples"), 3);
    cr_assert_eq(id_of(v, "a/1.jpg"), one);
    check_sample(v, one, 1000, 1); /* from the cache that was kept */
    volume_close(v);
    conf.rescan = true;
    v = world_open(&conf);
    cr_assert_eq(status_int(v, "set.samples"), 3);
    check_sample(v, one, 1000, 1); /* an older version knows it */
    check_file(v, "z/9.jpg", 10, 9);
    volume_close(v);
    world_free(&w);
}

Test(versions, a_fifth_version_forgets_the_first)
{
    struct world w;
    struct volume_conf conf;
    world_new(&w);
    put_some(&w);
    world_conf(&w, &conf);
    struct volume *v = world_open(&conf);
    uint64_t ids[6];
    for (unsigned i = 0; i < 6; i++) {
        ids[i] = id_of(v, "a/2.jpg");
        put_file(&w, "a/2.jpg", 2000, 20 + i);
        cr_assert_eq(volume_rescan(v, NULL, NULL), 0);
    }
    for (unsigned i = 0; i < 6; i++) {
        struct catalog *c = volume_catalog_of(v, ids[i], NULL);
        cr_assert_eq(c != NULL, i >= 3, "version %u", i);
        if (c)
            catalog_unref(c);
        for (unsigned j = 0; j < i; j++)
            cr_assert_neq(ids[i], ids[j]);
    }
    volume_close(v);
    world_free(&w);
}

static bool has_four(void *volume)
{
    return status_int(volume, "set.samples") == 4;
}

Test(versions, refresh_publishes_by_itself)
{
    struct world w;
    struct volume_conf conf;
    world_new(&w);
    put_some(&w);
    world_conf(&w, &conf);
    conf.refresh_ns = 10 * 1000 * 1000;
    struct volume *v = world_open(&conf);
    put_file(&w, "c/4.jpg", 4, 4);
    wait_until(has_four, v, "refresh finds the new sample");
    volume_close(v);
    world_free(&w);
}

Test(versions, an_empty_source_is_a_valid_set)
{
    struct world w;
    struct volume_conf conf;
    world_new(&w);
    world_conf(&w, &conf);
    conf.sampler = "sequence";
    struct volume *v = world_open(&conf);
    cr_assert_eq(status_int(v, "set.samples"), 0);
    cr_assert_eq(volume_order_length(v, NULL), 0);
    struct warmup_result r;
    cr_assert_eq(
        volume_warmup(v, &(struct warmup_conf){.verify = true}, NULL, NULL, NULL, &r, NULL), 0);
    cr_assert(r.samples == 0 && r.failed == 0 && r.verified);
    volume_close(v);
    world_free(&w);
}

/* --- scan and catalogs from elsewhere -------------------------------------------------------- */

Test(scan, publishes_and_counts)
{
    struct world w;
    struct volume_conf conf;
    struct scan_result r;
    struct err err = {0};
    world_new(&w);
    put_some(&w);
    world_conf(&w, &conf);
    cleanup_free char *out = xasprintf("%s/out.catalog", w.root);
    cr_assert_eq(volume_scan(&conf, out, NULL, NULL, &r, &err), 0, "%s", err.msg);
    cr_assert_eq(r.info.samples, 3);
    cr_assert_eq(r.info.bytes, 6000);
    cr_assert_eq(r.diff.added, 3);
    cr_assert_eq(strlen(r.digest), CATALOG_DIGEST);
    cr_assert_eq(access(out, R_OK), 0);
    free(r.file);
    drop_file(&w, "a/1.jpg");
    put_file(&w, "a/2.jpg", 2000, 22);
    cr_assert_eq(volume_scan(&conf, NULL, NULL, NULL, &r, &err), 0, "%s", err.msg);
    cr_assert(r.diff.added == 0 && r.diff.changed == 1 && r.diff.removed == 1);
    free(r.file);
    world_free(&w);
}

static void stop_when_all_is_listed(void *arg, const char *what, uint64_t done, uint64_t total)
{
    (void)done, (void)total;
    if (strcmp(what, "sort") == 0)
        atomic_store((atomic_bool *)arg, true);
}

Test(scan, is_stopped_when_all_is_listed_too)
{
    struct world w;
    struct volume_conf conf;
    struct scan_result r;
    struct err err = {0};
    atomic_bool stop = false;
    world_new(&w);
    put_some(&w);
    world_conf(&w, &conf);
    conf.stop = &stop;
    cr_assert_eq(volume_scan(&conf, NULL, stop_when_all_is_listed, &stop, &r, &err), -1);
    cr_expect_eq(err.class, ERR_CANCELLED, "%s", err.msg);
    atomic_store(&stop, false);
    cr_assert_eq(volume_scan(&conf, NULL, NULL, NULL, &r, &err), 0, "%s", err.msg);
    cr_expect_eq(r.diff.added, 3);
    free(r.file);
    world_free(&w);
}

Test(scan, none_is_made_when_a_volume_winds_up_and_reads_go_on)
{
    struct world w;
    struct volume_conf conf;
    struct err err = {0};
    world_new(&w);
    put_some(&w);
    world_conf(&w, &conf);
    struct volume *v = world_open(&conf);
    put_file(&w, "c/4.jpg", 4000, 4);
    volume_wind_up(v);
    cr_expect_eq(volume_rescan(v, NULL, &err), -1);
    cr_expect_eq(err.class, ERR_CANCELLED, "%s", err.msg);
    check_file(v, "a/1.jpg", 1000, 1);
    volume_close(v);
    world_free(&w);
}

static char *scan_elsewhere(const struct world *w, const char *name)
{
    struct volume_conf conf;
    struct scan_result r;
    struct err err = {0};
    cleanup_free char *dir = xasprintf("%s/%s", w->root, name);
    char *out = xasprintf("%s/%s.catalog", w->root, name);
    world_conf(w, &conf);
    conf.dir = dir;
    cr_assert_eq(volume_scan(&conf, out, NULL, NULL, &r, &err), 0, "%s", err.msg);
    free(r.file);
    return out;
}

Test(adopt, a_catalog_file_serves_instead_of_a_scan)
{
    struct world w;
    struct volume_conf conf;
    world_new(&w);
    put_some(&w);
    cleanup_free char *file = scan_elsewhere(&w, "other");
    put_file(&w, "c/4.jpg", 4000, 4);
    world_conf(&w, &conf);
    conf.catalog = file;
    struct volume *v = world_open(&conf);
    cr_assert_eq(status_int(v, "set.samples"), 3);
    check_file(v, "a/1.jpg", 1000, 1);
    volume_close(v);
    conf.catalog = NULL;
    conf.set = file; /* a SET may be a catalog file */
    v = world_open(&conf);
    cr_assert_eq(status_int(v, "set.samples"), 3);
    check_file(v, "b/3.jpg", 3000, 3);
    cr_assert_eq(volume_rescan(v, NULL, NULL), 0);
    cr_assert_eq(status_int(v, "set.samples"), 4);
    volume_close(v);
    world_free(&w);
}

Test(adopt, ids_that_mean_other_samples_are_refused)
{
    struct world w;
    struct volume_conf conf;
    struct volume *v;
    struct err err = {0};
    world_new(&w);
    put_some(&w);
    world_conf(&w, &conf);
    v = world_open(&conf);
    check_file(v, "a/2.jpg", 2000, 2);
    volume_close(v);
    put_file(&w, "a/0.jpg", 500, 50); /* numbered before all others by a scan from nothing */
    cleanup_free char *file = scan_elsewhere(&w, "other");
    conf.catalog = file;
    cr_assert_eq(volume_open(&v, &conf, NULL, NULL, &err), -1);
    cr_assert_eq(err.class, ERR_USAGE);
    cr_assert_not_null(strstr(err.msg, "another cache folder"), "%s", err.msg);
    world_free(&w);
}

Test(adopt, another_sets_catalog_is_refused)
{
    struct world w, other;
    struct volume_conf conf;
    struct volume *v;
    struct err err = {0};
    world_new(&w);
    world_new(&other);
    put_some(&w);
    put_some(&other);
    cleanup_free char *file = scan_elsewhere(&other, "x");
    world_conf(&w, &conf);
    conf.catalog = file;
    cr_assert_eq(volume_open(&v, &conf, NULL, NULL, &err), -1);
    cr_assert_not_null(strstr(err.msg, "another set"), "%s", err.msg);
    world_free(&other);
    world_free(&w);
}

Test(sources, a_set_file_joins_two_folders)
{
    struct world w, other;
    struct volume_conf conf;
    world_new(&w);
    world_new(&other);
    put_some(&w);
    put_file(&other, "x/5.jpg", 5000, 5);
    cleanup_free char *file = xasprintf("%s/set.json", w.root);
    FILE *f = fopen(file, "w");
    fprintf(f,
            "{\"sources\":[{\"uri\":\"%s\",\"at\":\"train/\"},{\"uri\":\"%s\",\"at\":\"val/\"}]}",
            w.uri, other.uri);
    fclose(f);
    world_conf(&w, &conf);
    conf.set = file;
    struct volume *v = world_open(&conf);
    cr_assert_eq(status_int(v, "set.samples"), 4);
    check_file(v, "train/a/1.jpg", 1000, 1);
    check_file(v, "val/x/5.jpg", 5000, 5);
    volume_close(v);
    world_free(&other);
    world_free(&w);
}
