/* A version that is pinned: going back to it, staying there, and letting it go. */
#include <criterion/criterion.h>
#include <errno.h>
#include <unistd.h>

#include "mem.h"
#include "support.h"

static void scan(struct volume *v)
{
    struct err err = {0};
    cr_assert_eq(volume_rescan(v, NULL, &err), 0, "%s", err.msg);
}

static void set_version(struct volume *v, const char *digest)
{
    struct err err = {0};
    cr_assert_eq(volume_set_version(v, digest, &err), 0, "%s", err.msg);
}

struct pinned {
    struct world w;
    struct volume_conf conf;
    struct digest first, second;
};

static void begin(struct pinned *p)
{
    world_new(&p->w);
    world_conf(&p->w, &p->conf);
}

/* Three samples; then one of them changed, one is gone, one came. */
static struct volume *two_versions(struct pinned *p)
{
    put_file(&p->w, "a/1.jpg", 1000, 1);
    put_file(&p->w, "a/2.jpg", 2000, 2);
    put_file(&p->w, "b/3.jpg", 3000, 3);
    struct volume *v = world_open(&p->conf);
    p->first = served(v);
    check_file(v, "a/1.jpg", 1000, 1);
    put_file(&p->w, "a/1.jpg", 1500, 11);
    put_file(&p->w, "a/2.jpg", 2500, 12);
    put_file(&p->w, "c/4.jpg", 4000, 4);
    scan(v);
    p->second = served(v);
    cr_assert_str_neq(p->first.text, p->second.text);
    return v;
}

static bool has_file(struct volume *v, const char *path)
{
    struct entry e;
    struct catalog *c = volume_catalog(v);
    bool found = catalog_find(c, path, &e, NULL) == 0;
    catalog_unref(c);
    return found;
}

static bool is_pinned(struct volume *v)
{
    cleanup_bytes struct bytes text = {0};
    status_text(v, &text);
    return strstr(text.data, "\"pinned\":true") != NULL;
}

struct heard {
    unsigned n;
    char to[CATALOG_DIGEST + 1];
};

static void on_switch(void *arg, struct catalog *from, struct catalog *to)
{
    struct heard *h = arg;
    (void)from;
    h->n++;
    memcpy(h->to, catalog_info(to)->digest, sizeof h->to);
}

Test(pin, back_and_forth_gives_each_version_its_own_bytes)
{
    struct pinned p;
    struct heard heard = {0};
    struct view view;
    struct err err = {0};
    begin(&p);
    struct volume *v = two_versions(&p);
    uint64_t three = id_of(v, "b/3.jpg"), new_one = id_of(v, "a/1.jpg");
    check_file(v, "a/1.jpg", 1500, 11);
    volume_on_switch(v, on_switch, &heard);
    cr_expect_not(is_pinned(v));

    set_version(v, p.first.text);
    cr_expect_str_eq(served(v).text, p.first.text);
    cr_expect_eq(heard.n, 1);
    cr_expect_str_eq(heard.to, p.first.text);
    cr_expect(is_pinned(v));
    cr_expect_eq(status_int(v, "set.samples"), 3);
    cr_expect_not(has_file(v, "c/4.jpg"));
    cr_expect_eq(id_of(v, "b/3.jpg"), three, "what did not change keeps its id");
    check_file(v, "a/1.jpg", 1000, 1); /* the source has it no more: it was cached */
    cr_expect_eq(volume_read_wait(v, id_of(v, "a/2.jpg"), 0, 4096, &view, &err), -1,
                 "it was never read, and the source has other bytes now");
    cr_expect_eq(err_errno(&err), ESTALE, "%s", err.msg);
    put_file(&p.w, "a/2.jpg", 2000, 2); /* as it was */
    check_file(v, "a/2.jpg", 2000, 2);
    check_sample(v, new_one, 1500, 11); /* who held the newer one reads on */
    set_version(v, p.first.text);
    cr_expect_eq(heard.n, 1, "it is there already");

    set_version(v, "");
    cr_expect_str_eq(served(v).text, p.second.text);
    cr_expect_not(is_pinned(v));
    cr_expect_eq(id_of(v, "a/1.jpg"), new_one);
    check_file(v, "a/1.jpg", 1500, 11);
    check_file(v, "c/4.jpg", 4000, 4);
    set_version(v, "");
    cr_expect_eq(heard.n, 2);
    volume_on_switch(v, NULL, &heard);
    volume_close(v);
    world_free(&p.w);
}

Test(pin, nothing_newer_takes_its_place)
{
    struct pinned p;
    struct rescan found;
    struct scan_result elsewhere;
    struct err err = {0};
    begin(&p);
    struct volume *v = two_versions(&p);
    set_version(v, p.first.text);
    put_file(&p.w, "d/5.jpg", 5000, 5);
    cr_assert_eq(volume_rescan(v, &found, &err), 0, "%s", err.msg);
    cr_expect_eq(found.found.samples, 5, "a scan finds it");
    cr_expect_str_eq(served(v).text, p.first.text, "and it is not served");
    put_file(&p.w, "d/6.jpg", 6000, 6);
    struct volume_conf scanner = p.conf;
    cr_assert_eq(volume_scan(&scanner, NULL, NULL, NULL, &elsewhere, &err), 0, "%s", err.msg);
    free(elsewhere.file);
    cr_assert_eq(volume_set_epoch(v, 1, &err), 0, "%s", err.msg);
    cr_expect_str_eq(served(v).text, p.first.text);
    set_version(v, "");
    cr_expect_eq(status_int(v, "set.samples"), 6, "the newest, not the one before the pin");
    check_file(v, "d/6.jpg", 6000, 6);
    volume_close(v);
    world_free(&p.w);
}

static bool is_let_go_and_refreshed(void *volume)
{
    return status_int(volume, "set.samples") == 5;
}

Test(pin, refreshes_rest)
{
    struct pinned p;
    begin(&p);
    struct volume *v = two_versions(&p);
    set_version(v, p.first.text);
    volume_close(v);
    p.conf.refresh_ns = 1000 * 1000;
    v = world_open(&p.conf);
    put_file(&p.w, "d/5.jpg", 5000, 5);
    usleep(100 * 1000);
    struct catalog *newest;
    cleanup_free char *folder = xasprintf("%s/catalog", p.w.own);
    cr_assert_eq(catalog_current(&newest, folder, NULL), 0);
    cr_expect_str_eq(catalog_info(newest)->digest, p.second.text, "nobody has looked");
    catalog_unref(newest);
    cr_expect_str_eq(served(v).text, p.first.text);
    set_version(v, "");
    wait_until(is_let_go_and_refreshed, v, "refreshes go on");
    volume_close(v);
    world_free(&p.w);
}

Test(pin, it_outlives_the_volume_and_any_number_of_versions)
{
    struct pinned p;
    begin(&p);
    struct volume *v = two_versions(&p);
    set_version(v, p.first.text);
    for (unsigned i = 0; i < 8; i++) {
        put_file(&p.w, "a/2.jpg", 2000, 20 + i);
        scan(v);
    }
    cr_expect_str_eq(served(v).text, p.first.text);
    volume_close(v);
    v = world_open(&p.conf);
    cr_expect_str_eq(served(v).text, p.first.text);
    cr_expect(is_pinned(v));
    check_file(v, "a/1.jpg", 1000, 1);
    set_version(v, "");
    check_file(v, "a/2.jpg", 2000, 27);
    volume_close(v);
    v = world_open(&p.conf);
    cr_expect_not(is_pinned(v));
    check_file(v, "a/2.jpg", 2000, 27);
    volume_close(v);
    world_free(&p.w);
}

Test(pin, one_that_is_let_go_can_be_pinned_again_as_long_as_it_is_listed)
{
    struct pinned p;
    begin(&p);
    struct volume *v = two_versions(&p);
    for (unsigned i = 0; i < 3; i++) {
        put_file(&p.w, "a/2.jpg", 2000, 20 + i);
        scan(v);
        if (i == 1) {
            set_version(v, p.first.text);
            set_version(v, "");
        }
    }
    set_version(v, p.first.text);
    volume_close(v);
    v = world_open(&p.conf);
    cr_expect_str_eq(served(v).text, p.first.text);
    volume_close(v);
    world_free(&p.w);
}

Test(pin, an_epoch_ends_with_the_numbers_it_began_with)
{
    struct pinned p;
    struct err err = {0};
    uint64_t ids[4], now[4];
    begin(&p);
    p.conf.sampler = "sequence";
    struct volume *v = two_versions(&p);
    cr_assert_eq(volume_set_epoch(v, 0, &err), 0, "%s", err.msg);
    cr_assert_eq(volume_order_length(v, NULL), 4);
    cr_assert_eq(volume_order_ids(v, 0, 4, ids, &err), 0, "%s", err.msg);
    set_version(v, p.first.text);
    cr_assert_eq(volume_order_length(v, NULL), 4);
    cr_assert_eq(volume_order_ids(v, 0, 4, now, &err), 0, "%s", err.msg);
    cr_expect_eq(memcmp(ids, now, sizeof ids), 0);
    cr_assert_eq(volume_set_epoch(v, 1, &err), 0, "%s", err.msg);
    cr_expect_eq(volume_order_length(v, NULL), 3);
    volume_close(v);
    world_free(&p.w);
}

Test(pin, a_list_numbers_the_versions_that_it_numbered)
{
    struct pinned p;
    struct err err = {0};
    begin(&p);
    put_text(&p.w, "list", "b/3.jpg\na/1.jpg\n");
    cleanup_free char *sampler = xasprintf("sequence,list=%s/list", p.w.src);
    p.conf.sampler = sampler;
    struct volume *v = two_versions(&p);
    set_version(v, p.first.text);
    volume_close(v);
    v = world_open(&p.conf);
    cr_expect_str_eq(served(v).text, p.first.text);
    cr_expect_eq(volume_order_length(v, NULL), 2);
    cr_expect_eq(volume_set_sampler(v, "sequence", &err), -1, "that would need another version");
    cr_expect_eq(err.class, ERR_USAGE, "%s", err.msg);
    volume_close(v);
    p.conf.sampler = "sequence";
    cr_expect_eq(volume_open(&v, &p.conf, NULL, NULL, &err), -1);
    cr_expect_eq(err.class, ERR_USAGE, "%s", err.msg);
    world_free(&p.w);
}

Test(pin, what_cannot_be_pinned_is_told_with_what_can)
{
    struct pinned p;
    struct err err = {0};
    begin(&p);
    struct volume *v = two_versions(&p);
    char none[CATALOG_DIGEST + 1];
    memset(none, 'e', CATALOG_DIGEST);
    none[CATALOG_DIGEST] = '\0';
    cr_expect_eq(volume_set_version(v, none, &err), -1);
    cr_expect_eq(err.class, ERR_NOT_FOUND);
    cr_expect(strstr(err.msg, p.first.text) && strstr(err.msg, p.second.text), "%s", err.msg);
    err_clear(&err);
    cr_expect_eq(volume_set_version(v, "../current", &err), -1);
    cr_expect_eq(err.class, ERR_USAGE, "%s", err.msg);
    cr_expect_str_eq(served(v).text, p.second.text);
    cr_expect_not(is_pinned(v));
    cleanup_free char *file = xasprintf("%s/catalog/%s.catalog", p.w.own, p.first.text);
    volume_close(v);
    p.conf.catalog = file;
    v = world_open(&p.conf);
    err_clear(&err);
    cr_expect_eq(volume_set_version(v, p.second.text, &err), -1, "--catalog says which one");
    cr_expect_eq(err.class, ERR_USAGE, "%s", err.msg);
    volume_close(v);
    world_free(&p.w);
}

Test(pin, a_pinned_version_that_is_lost_is_no_reason_not_to_serve)
{
    struct pinned p;
    begin(&p);
    struct volume *v = two_versions(&p);
    set_version(v, p.first.text);
    volume_close(v);
    cleanup_free char *file = xasprintf("%s/catalog/%s.catalog", p.w.own, p.first.text);
    cr_assert_eq(unlink(file), 0);
    v = world_open(&p.conf);
    cr_expect_str_eq(served(v).text, p.second.text);
    cr_expect_not(is_pinned(v));
    volume_close(v);
    world_free(&p.w);
}
