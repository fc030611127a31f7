/* A divided set: who owns what, what a warmup brings, what is pinned when the epoch changes. */
#include <criterion/criterion.h>
#include <string.h>
#include <unistd.h>

#include "mem.h"
#include "order.h"
#include "support.h"

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
    cr_assert_eq(catalog_number(c, number, &id, NULL), 0);
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
