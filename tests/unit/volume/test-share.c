/* A divided set: who owns what, what a warmup brings, what is pinned when the epoch changes. */
#include <criterion/criterion.h>
#include <string.h>
#include <unistd.h>

#include "mem.h"
#include "order.h"
#include "support.h"
#include "volume-internal.h"

#define FILES 240
#define SIZE  120000

static void put_set(const struct world *w)
{
    for (unsigned i = 0; i < FILES; i++) {
        cleanup_free char *path = xasprintf("class%u/%03u.jpg", i / 60, i);
        put_file(w, path, SIZE + i, i);
    }
}

/* Bytes that no compression makes smaller. */
static void scramble_set(const struct world *w)
{
    uint64_t x = 1;
    for (unsigned i = 0; i < FILES; i++) {
        cleanup_free char *path = xasprintf("%s/class%u/%03u.jpg", w->src, i / 60, i);
        cleanup_file FILE *f = fopen(path, "r+");
        for (unsigned k = 0; k < SIZE / 8; k++) {
            x = x * 6364136223846793005ull + 1442695040888963407ull;
            uint64_t y = x ^ x >> 29;
            fwrite(&y, sizeof y, 1, f);
        }
    }
}

static uint64_t id_of_number(struct volume *v, uint64_t number)
{
    struct catalog *c = volume_catalog(v);
    uint64_t id;
    cr_assert_eq(catalog_numbers(c, number, 1, &id, NULL), 0);
    catalog_unref(c);
    return id;
}

static struct warmup_result warm(struct volume *v, const char *partition)
{
    struct warmup_result r;
    struct err err = {0};
    cr_assert_eq(
        volume_warmup(v, &(struct warmup_conf){.partition = partition}, NULL, NULL, NULL, &r, &err),
        0, "%s", err.msg);
    cr_expect_eq(r.failed, 0);
    cr_expect_eq(r.fetched + r.already, r.samples);
    return r;
}

/* All that `rank` reads is local. */
static void check_local(struct volume *v, const char *sampler, uint32_t rank)
{
    struct order_spec spec;
    struct order *o;
    cr_assert_eq(order_spec_parse(&spec, sampler, NULL), 0);
    spec.rank = rank;
    cr_assert_eq(order_new(&o, &spec, FILES, NULL), 0);
    for (uint64_t i = 0; i < order_length(o); i++)
        cr_expect(cache_has_all(volume_cache(v), id_of_number(v, order_at(o, i)), 1),
                  "%llu is not here", (unsigned long long)order_at(o, i));
    order_free(o);
}

Test(share, is_what_the_ranks_read)
{
    struct world w;
    struct volume_conf conf;
    world_new(&w);
    put_set(&w);
    world_conf(&w, &conf);
    conf.partition = "1/3";
    struct volume *v = world_open(&conf);
    uint64_t owned[3] = {0};
    for (uint64_t i = 0; i < FILES; i++)
        owned[volume_owner(v, id_of_number(v, i))]++;
    cr_expect_eq(volume_owner(v, CATALOG_ROOT_ID), -1);
    cr_expect_eq(volume_owner(v, 1ull << 40), -1);
    cr_expect_eq((uint64_t)status_int(v, "partition.samples"), owned[1]);
    cr_expect_eq(warm(v, NULL).samples, owned[1]);
    static const char sampler[] = "torch-distributed,ranks=3,batch-size=4";
    cr_assert_eq(volume_set_sampler(v, sampler, NULL), 0);
    cr_expect_eq(volume_order_length(v, NULL), FILES / 3);
    struct warmup_result r = warm(v, NULL);
    cr_expect_eq(r.samples, FILES / 3);
    cr_expect_gt(r.already, 0);
    check_local(v, sampler, 1);
    cr_expect_eq(warm(v, "").samples, FILES);
    cr_assert_eq(volume_set_partition(v, "", NULL), 0);
    cr_expect_eq(volume_owner(v, id_of_number(v, 0)), -1);
    volume_close(v);
    world_free(&w);
}

Test(share, bad_divisions_change_nothing)
{
    struct world w;
    struct volume_conf conf;
    struct volume *v;
    struct err err = {0};
    world_new(&w);
    put_set(&w);
    world_conf(&w, &conf);
    conf.partition = "3/3";
    cr_expect_eq(volume_open(&v, &conf, NULL, NULL, &err), -1);
    cr_expect_eq(err.class, ERR_USAGE);
    conf.partition = "0/3";
    conf.strategy = "random";
    err = (struct err){0};
    cr_expect_eq(volume_open(&v, &conf, NULL, NULL, &err), -1);
    cr_expect(strstr(err.msg, "which sampler?"), "%s", err.msg);
    conf.strategy = NULL;
    v = world_open(&conf);
    static const char *const bad[] = {"1/0", "x", "1", "0/241", "4/4"};
    for (size_t i = 0; i < 5; i++)
        cr_expect_eq(volume_set_partition(v, bad[i], NULL), -1, "%s", bad[i]);
    cr_expect_eq(volume_set_strategy(v, "local", NULL), -1);
    cr_expect_eq(volume_set_strategy(v, "x", NULL), -1);
    cr_expect_eq(status_int(v, "partition.partitions"), 3);
    volume_close(v);
    world_free(&w);
}

static uint64_t used(struct volume *v)
{
    struct cache_stat s;
    cr_assert_eq(cache_flush(volume_cache(v), NULL), 0);
    cache_stat(volume_cache(v), &s);
    return s.tiers[0].used;
}

/* What one share takes on the disk. */
static uint64_t share_bytes(const struct volume_conf *conf)
{
    struct volume *v = world_open(conf);
    warm(v, NULL);
    uint64_t bytes = used(v);
    cr_assert_eq(volume_clear(v, NULL, 0, NULL, NULL, &(struct drop_result){0}, NULL), 0);
    volume_close(v);
    return bytes;
}

/* The cache holds one share and less than another: the next epoch's takes the place of the last. */
Test(share, the_next_epoch_takes_the_place_of_the_last)
{
    struct world w;
    struct volume_conf conf;
    world_new(&w);
    put_set(&w);
    scramble_set(&w);
    world_conf(&w, &conf);
    conf.partition = "0/3";
    conf.sampler = "torch-distributed,ranks=3,batch-size=4";
    conf.prefetch = 1;
    conf.tiers[0].limit = share_bytes(&conf) * 13 / 10;
    struct volume *v = world_open(&conf);
    for (unsigned epoch = 0; epoch < 3; epoch++) {
        char spec[96];
        snprintf(spec, sizeof spec, "torch-distributed,ranks=3,batch-size=4,epoch=%u", epoch);
        cr_assert_eq(volume_set_epoch(v, epoch, NULL), 0);
        cr_expect_eq(warm(v, NULL).samples, FILES / 3);
        check_local(v, spec, 0);
        cr_expect_leq(used(v), conf.tiers[0].limit);
        cr_expect_gt(used(v), (uint64_t)FILES / 3 * SIZE);
    }
    volume_close(v);
    world_free(&w);
}

/* Half of the share fits: that much is brought, the rest is named, unpinned, and served past the
 * cache; 100 % is never said. */
Test(share, larger_than_the_cache)
{
    struct world w;
    struct volume_conf conf;
    struct warmup_result r, again;
    struct err err = {0};
    world_new(&w);
    put_set(&w);
    scramble_set(&w);
    world_conf(&w, &conf);
    conf.partition = "0/2";
    conf.prefetch = 1;
    conf.tiers[0].limit = 9u << 20;
    struct volume *v = world_open(&conf);
    const struct warmup_conf dry = {.dry_run = true}, wet = {.verify = true};
    cr_assert_eq(volume_warmup(v, &dry, NULL, NULL, NULL, &r, &err), 0, "%s", err.msg);
    cr_expect_gt(r.unfit, 20);
    cr_expect_gt(r.unfit_bytes, r.unfit * SIZE - 1);
    cr_expect_eq(strncmp(r.first_unfit, "class", 5), 0, "%s", r.first_unfit);
    cr_assert_eq(volume_warmup(v, &wet, NULL, NULL, NULL, &again, &err), 0, "%s", err.msg);
    cr_expect_eq(again.unfit, r.unfit);
    cr_expect_eq(again.samples, r.samples);
    cr_expect_eq(again.fetched + again.already + again.unfit, r.samples);
    cr_expect_eq(again.failed, 0);
    cr_expect_lt(status_int(v, "warmup.samples_done"), status_int(v, "warmup.samples_total"));
    cleanup_bytes struct bytes text = {0};
    status_text(v, &text);
    cr_expect_not_null(strstr(text.data, "of this share do not fit into"), "%s", text.data);
    cr_expect_not_null(strstr(text.data, "\"state\":\"failed\""));
    cr_assert_eq(volume_warmup(v, &wet, NULL, NULL, NULL, &again, &err), 0, "%s", err.msg);
    cr_expect_eq(again.fetched, 0, "what is pinned stays");
    for (uint64_t i = 0; i < FILES; i++) {
        struct view view;
        cr_assert_eq(volume_read_wait(v, id_of_number(v, i), 0, 1000, &view, &err), 0, "%s",
                     err.msg);
        view_release(&view);
    }
    cr_assert_eq(volume_warmup(v, &wet, NULL, NULL, NULL, &again, &err), 0, "%s", err.msg);
    cr_expect_eq(again.fetched, 0, "and was not displaced by the rest");
    volume_close(v);
    world_free(&w);
}

static void copy_file(const char *from, const char *to)
{
    static char bytes[1u << 20];
    cleanup_file FILE *in = fopen(from, "re"), *out = fopen(to, "we");
    cr_assert(in && out);
    fwrite(bytes, 1, fread(bytes, 1, sizeof bytes, in), out);
}

/* What is kept is of another epoch than the share; it is to move, and can't at first. */
Test(share, what_could_not_move_moves_later)
{
    struct world w;
    struct volume_conf conf;
    struct err err = {0};
    struct catalog *copy;
    world_new(&w);
    put_set(&w);
    world_conf(&w, &conf);
    conf.partition = "0/3";
    conf.sampler = "torch-distributed,ranks=3,batch-size=4";
    struct volume *v = world_open(&conf);
    cr_assert_eq(volume_set_epoch(v, 1, NULL), 0);
    cleanup_free char *cut = xasprintf("%s/cut", w.root);
    copy_file(catalog_file(v->versions[0]), cut);
    cr_assert_eq(catalog_open(&copy, cut, &err), 0, "%s", err.msg);
    catalog_unref(v->share->catalog);
    v->share->catalog = copy;
    v->stays = true;

    cr_assert_eq(truncate(cut, 4096), 0);
    cr_expect_eq(share_move(v, &err), -1);
    cr_expect(v->stays);
    catalog_unref(copy);
    v->share->catalog = catalog_ref(v->versions[0]);
    cr_expect_eq(share_move(v, &err), 0, "%s", err.msg);
    cr_expect_not(v->stays);
    volume_close(v);
    world_free(&w);
}

/* A new weight moves only the difference; a new number of partitions drops the weights. */
Test(share, weights)
{
    struct world w;
    struct volume_conf conf;
    struct err err = {0};
    int64_t before[FILES];
    uint64_t of[3] = {0}, moved = 0;
    world_new(&w);
    put_set(&w);
    world_conf(&w, &conf);
    conf.partition = "0/3";
    conf.weights = "1,1,1";
    struct volume *v = world_open(&conf);
    for (uint64_t i = 0; i < FILES; i++)
        before[i] = volume_owner(v, id_of_number(v, i));
    cr_assert_eq(volume_set_weights(v, "1,1,2", &err), 0, "%s", err.msg);
    for (uint64_t i = 0; i < FILES; i++) {
        int64_t now = volume_owner(v, id_of_number(v, i));
        of[now]++;
        moved += now != before[i];
        cr_expect(now == before[i] || now == 2, "only the heavier one wins");
    }
    cr_expect(of[2] > of[0] && of[2] > of[1]);
    cr_expect(moved > 0 && moved < FILES / 3, "%llu moved", (unsigned long long)moved);
    static const struct {
        const char *text, *why;
    } bad[] = {{"1,2", "2 of them for 3 partitions"},
               {"1,x,2", "want a number for each partition"},
               {"0,0,0", "all of them are 0"}};
    for (size_t i = 0; i < 3; i++) {
        err = (struct err){0};
        cr_expect_eq(volume_set_weights(v, bad[i].text, &err), -1);
        cr_expect_not_null(strstr(err.msg, bad[i].why), "%s", err.msg);
    }
    cr_assert_eq(volume_set_partition(v, "0/4", &err), 0, "%s", err.msg);
    volume_close(v);
    world_free(&w);
}
