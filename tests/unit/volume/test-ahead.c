/* The order of training, and what is fetched ahead of readers. */
#include <criterion/criterion.h>
#include <sys/stat.h>
#include <unistd.h>

#include "mem.h"
#include "support.h"
#include "volume-internal.h"

#define FILES 64
#define BYTES 20000

static void put_set(const struct world *w)
{
    for (unsigned i = 0; i < FILES; i++) {
        cleanup_free char *path = xasprintf("class%u/%03u.jpg", i / 16, i);
        put_file(w, path, BYTES, i);
    }
}

static uint64_t nth(struct volume *v, unsigned i)
{
    cleanup_free char *path = xasprintf("class%u/%03u.jpg", i / 16, i);
    return id_of(v, path);
}

/* The order as numbers of the walk, compared with `want`. */
static void check_order(struct volume *v, const unsigned *want, size_t n)
{
    uint64_t ids[256];
    struct err err = {0};
    cr_assert_eq(volume_order_length(v, NULL), n);
    cr_assert_eq(volume_order_ids(v, 0, n, ids, &err), 0, "%s", err.msg);
    for (size_t i = 0; i < n; i++)
        cr_assert_eq(ids[i], nth(v, want[i]), "position %zu: want %u", i, want[i]);
}

Test(order, sequence_is_the_walk)
{
    struct world w;
    struct volume_conf conf;
    struct err err = {0};
    unsigned want[FILES];
    uint64_t gen, later, ids[4];
    world_new(&w);
    put_set(&w);
    world_conf(&w, &conf);
    struct volume *v = world_open(&conf);
    cr_assert_eq(volume_order_length(v, &gen), 0);
    cr_assert_eq(volume_seen(v, nth(v, 3)), UINT64_MAX);
    cr_assert_eq(volume_set_sampler(v, "sequence", &err), 0, "%s", err.msg);
    for (unsigned i = 0; i < FILES; i++)
        want[i] = i;
    check_order(v, want, FILES);
    volume_order_length(v, &later);
    cr_assert_neq(gen, later);
    cr_assert_eq(volume_seen(v, nth(v, 3)), 3);
    cr_assert_eq(volume_seen(v, 999999), UINT64_MAX);
    cr_assert_eq(volume_order_ids(v, FILES - 3, 4, ids, &err), -1);
    cr_assert_eq(volume_set_sampler(v, "", &err), 0);
    cr_assert_eq(volume_order_length(v, NULL), 0);
    volume_close(v);
    world_free(&w);
}

Test(order, ranks_of_a_node_are_merged_batch_by_batch)
{
    static const struct {
        const char *spec;
        size_t n;
        unsigned want[12];
    } rows[] = {
        /* 10 samples: rank 0 reads 0 1|4 5|8, rank 1 reads 2 3|6 7|9 */
        {"paddle-distributed,ranks=2,batch-size=2,shuffle=false",
         10,
         {0, 1, 2, 3, 4, 5, 6, 7, 8, 9}},
        {"paddle-distributed,ranks=2,rank=1,batch-size=2,shuffle=false", 5, {2, 3, 6, 7, 9}},
        {"paddle-distributed,ranks=2,rank=1,ranks-per-node=2,batch-size=2,shuffle=false",
         10,
         {0, 1, 2, 3, 4, 5, 6, 7, 8, 9}},
    };
    struct world w;
    struct volume_conf conf;
    struct err err = {0};
    world_new(&w);
    for (unsigned i = 0; i < 10; i++) {
        cleanup_free char *path = xasprintf("class0/%03u.jpg", i);
        put_file(&w, path, 10, i);
    }
    world_conf(&w, &conf);
    struct volume *v = world_open(&conf);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        cr_assert_eq(volume_set_sampler(v, rows[i].spec, &err), 0, "%s", err.msg);
        check_order(v, rows[i].want, rows[i].n);
    }
    volume_close(v);
    world_free(&w);
}

Test(order, an_epoch_keeps_its_numbers_until_the_next)
{
    struct world w;
    struct volume_conf conf;
    struct err err = {0};
    uint64_t before[FILES], after[FILES], gen, later;
    world_new(&w);
    put_set(&w);
    world_conf(&w, &conf);
    conf.sampler = "paddle-random,seed=1";
    struct volume *v = world_open(&conf);
    cr_assert_eq(volume_order_length(v, &gen), FILES);
    volume_order_ids(v, 0, FILES, before, NULL);
    put_file(&w, "class0/zzz.jpg", 5, 5);
    cr_assert_eq(volume_rescan(v, NULL, &err), 0, "%s", err.msg);
    cr_assert_eq(volume_order_length(v, &later), FILES);
    cr_assert_eq(gen, later);
    volume_order_ids(v, 0, FILES, after, NULL);
    cr_assert_arr_eq(before, after, sizeof before);
    cr_assert_eq(volume_set_epoch(v, 1, &err), 0, "%s", err.msg);
    cr_assert_eq(volume_order_length(v, &later), FILES + 1);
    cr_assert_neq(gen, later);
    volume_order_ids(v, 0, FILES, after, NULL);
    cr_assert_neq(memcmp(before, after, sizeof before), 0);
    volume_close(v);
    world_free(&w);
}

Test(order, an_epoch_keeps_its_numbers_in_another_process)
{
    struct world w;
    struct volume_conf conf;
    struct err err = {0};
    char version[CATALOG_DIGEST + 1] = "";
    uint64_t before[FILES], after[FILES];
    world_new(&w);
    put_set(&w);
    world_conf(&w, &conf);
    conf.sampler = "paddle-random,seed=1";
    conf.order_version = version;
    struct volume *v = world_open(&conf);
    volume_order_ids(v, 0, FILES, before, NULL);
    put_file(&w, "class0/zzz.jpg", 5, 5);
    cr_assert_eq(volume_rescan(v, NULL, &err), 0, "%s", err.msg);
    volume_close(v);
    v = world_open(&conf);
    cr_assert_eq(volume_order_length(v, NULL), FILES);
    volume_order_ids(v, 0, FILES, after, NULL);
    cr_assert_arr_eq(before, after, sizeof before);
    cr_assert_eq(volume_set_epoch(v, 1, &err), 0, "%s", err.msg);
    cr_assert_eq(volume_order_length(v, NULL), FILES + 1);
    cr_assert_eq(volume_set_sampler(v, "", &err), 0, "%s", err.msg);
    cr_assert_str_eq(version, "");
    volume_close(v);
    world_free(&w);
}

Test(order, bad_specs_change_nothing)
{
    struct world w;
    struct volume_conf conf;
    struct volume *v;
    struct err err = {0};
    world_new(&w);
    put_set(&w);
    world_conf(&w, &conf);
    conf.sampler = "sequenze";
    cr_assert_eq(volume_open(&v, &conf, NULL, NULL, &err), -1);
    cr_assert_eq(err.class, ERR_USAGE, "%s", err.msg);
    conf.sampler = "sequence";
    v = world_open(&conf);
    cr_assert_eq(volume_set_sampler(v, "sequence,list=nowhere.txt", &err), -1);
    cr_assert_not_null(strstr(err.msg, "nowhere.txt"), "%s", err.msg);
    cr_assert_eq(volume_set_sampler(v, "paddle-distributed,ranks=1000", &err), -1);
    cr_assert_eq(volume_order_length(v, NULL), FILES);
    cr_assert_eq(volume_set_epoch(v, 3, &err), 0, "%s", err.msg);
    volume_close(v);
    world_free(&w);
}

struct failing {
    struct volume *v;
    atomic_bool stop;
};

static void *set_what_fails(void *arg)
{
    struct failing *f = arg;
    while (!atomic_load(&f->stop)) {
        struct err err = {0};
        cr_expect_eq(volume_set_sampler(f->v, "paddle-distributed,ranks=1000", &err), -1);
    }
    return NULL;
}

Test(order, a_setting_that_fails_leaves_another_that_was_made_meanwhile)
{
    struct world w;
    struct volume_conf conf;
    world_new(&w);
    put_set(&w);
    world_conf(&w, &conf);
    struct volume *v = world_open(&conf);
    for (uint64_t seed = 1; seed <= 200; seed++) {
        struct failing failing = {.v = v};
        struct err err = {0};
        pthread_t thread;
        cleanup_free char *spec =
            xasprintf("torch-distributed,seed=%llu", (unsigned long long)seed);
        cr_assert_eq(thread_start(&thread, "fails", set_what_fails, &failing), 0);
        usleep(100);
        cr_assert_eq(volume_set_sampler(v, spec, &err), 0, "%s", err.msg);
        atomic_store(&failing.stop, true);
        pthread_join(thread, NULL);
        cr_assert_eq(v->spec.seed, seed);
    }
    volume_close(v);
    world_free(&w);
}

Test(order, a_sampler_that_fails_leaves_no_numbers)
{
    struct world w;
    struct volume_conf conf;
    struct err err = {0};
    unsigned want[FILES];
    world_new(&w);
    put_set(&w);
    put_text(&w, "lists/train.txt", "class2/040.jpg\nclass0/003.jpg\n");
    world_conf(&w, &conf);
    conf.sampler = "sequence";
    struct volume *v = world_open(&conf);
    cr_assert_eq(volume_set_sampler(v, "paddle-distributed,ranks=1000,list=lists/train.txt", &err),
                 -1);
    cr_assert_eq(volume_set_epoch(v, 1, &err), 0, "%s", err.msg);
    for (unsigned i = 0; i < FILES; i++)
        want[i] = i;
    check_order(v, want, FILES);
    volume_close(v);
    world_free(&w);
}

Test(order, a_version_from_elsewhere_is_numbered_by_the_list)
{
    static const unsigned want[] = {40, 3, 17};
    struct world w;
    struct volume_conf conf;
    struct scan_result r;
    struct err err = {0};
    world_new(&w);
    put_set(&w);
    put_text(&w, "lists/train.txt", "class2/040.jpg\nclass0/003.jpg\nclass1/017.jpg\n");
    world_conf(&w, &conf);
    conf.sampler = "sequence,list=lists/train.txt";
    struct volume *v = world_open(&conf);
    put_file(&w, "class9/new.jpg", 5, 5);
    conf.sampler = NULL;
    cr_assert_eq(volume_scan(&conf, NULL, NULL, NULL, &r, &err), 0, "%s", err.msg);
    free(r.file);
    cr_assert_eq(volume_set_epoch(v, 1, &err), 0, "%s", err.msg);
    cr_expect_eq(status_int(v, "set.samples"), FILES + 2);
    check_order(v, want, 3);

    struct digest pinned = served(v);
    cr_assert_eq(volume_set_version(v, pinned.text, &err), 0, "%s", err.msg);
    put_file(&w, "class9/newer.jpg", 6, 6);
    cr_assert_eq(volume_scan(&conf, NULL, NULL, NULL, &r, &err), 0, "%s", err.msg);
    free(r.file);
    cr_assert_eq(volume_set_version(v, "", &err), 0, "%s", err.msg);
    cr_assert_eq(volume_set_epoch(v, 2, &err), 0, "%s", err.msg);
    cr_expect_eq(status_int(v, "set.samples"), FILES + 3);
    check_order(v, want, 3);
    volume_close(v);
    world_free(&w);
}

/* None of them is waited for. */
Test(order, a_list_is_a_regular_file_and_of_another_mount)
{
    struct world w;
    struct volume_conf conf;
    struct stat st;
    world_new(&w);
    put_set(&w);
    world_conf(&w, &conf);
    struct volume *v = world_open(&conf);
    cleanup_free char *pipe = xasprintf("%s/pipe", w.src);
    cleanup_free char *link = xasprintf("%s/link", w.src);
    cleanup_free char *file = xasprintf("%s/class0/003.jpg", w.src);
    cr_assert(!mkfifo(pipe, 0600) && !symlink("pipe", link) && !stat(file, &st));
    volume_served_as(v, st.st_dev);
    const char *rows[][2] = {{pipe, "not a regular file"},     {link, "not a regular file"},
                             {"pipe", "not a regular file"},   {w.src, "not a regular file"},
                             {"class0", "not a regular file"}, {"/dev/zero", "not a regular file"},
                             {file, "in this mount itself"}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct err err = {0};
        cleanup_free char *spec = xasprintf("sequence,list=%s", rows[i][0]);
        cr_expect_eq(volume_set_sampler(v, spec, &err), -1, "%s", spec);
        cr_expect(err.class == ERR_USAGE && strstr(err.msg, rows[i][1]), "%s: %s", spec, err.msg);
    }
    volume_close(v);
    world_free(&w);
}

Test(order, a_list_in_the_set_gives_the_numbers)
{
    struct world w;
    struct volume_conf conf;
    struct err err = {0};
    static const unsigned want[] = {40, 3, 17};
    world_new(&w);
    put_set(&w);
    put_text(&w, "lists/train.txt", "class2/040.jpg 2\nclass0/003.jpg 0\nclass1/017.jpg 1\n");
    world_conf(&w, &conf);
    conf.sampler = "sequence,list=lists/train.txt";
    struct volume *v = world_open(&conf);
    check_order(v, want, 3);
    volume_close(v);
    put_file(&w, "class9/new.jpg", 5, 5);
    v = world_open(&conf); /* the same list: no new scan */
    cr_assert_eq(status_int(v, "set.samples"), FILES + 1);
    check_order(v, want, 3);
    cr_assert_eq(volume_set_sampler(v, "sequence", &err), 0, "%s", err.msg);
    cr_assert_eq(volume_order_length(v, NULL), FILES + 1); /* the walk: a new scan, images only */
    volume_close(v);
    world_free(&w);
}

/* --- fetching ahead -------------------------------------------------------------------------- */

struct local {
    struct volume *v;
    uint64_t ids[FILES];
    size_t n;
};

static bool are_local(void *arg)
{
    struct local *l = arg;
    for (size_t i = 0; i < l->n; i++)
        if (cache_where(volume_cache(l->v), l->ids[i]) < 0)
            return false;
    return true;
}

static bool nothing_outstanding(void *arg)
{
    return status_int(arg, "ahead.outstanding") == 0;
}

Test(ahead, the_window_of_the_order_is_fetched_and_moves)
{
    struct world w;
    struct volume_conf conf;
    struct local l = {0};
    uint64_t ids[FILES];
    struct layer_counts n;
    world_new(&w);
    put_set(&w);
    world_conf(&w, &conf);
    conf.sampler = "paddle-random,seed=3";
    conf.prefetch = 20;
    conf.layers = "count=store";
    struct volume *v = world_open(&conf);
    volume_order_ids(v, 0, FILES, ids, NULL);
    l.v = v;
    l.n = 20;
    memcpy(l.ids, ids, 20 * sizeof *ids);
    wait_until(are_local, &l, "the first window is local");
    wait_until(nothing_outstanding, v, "nothing is outstanding");
    layers_count("store", &n);
    cr_assert_eq(n.reads, 20, "%llu", (unsigned long long)n.reads);
    cr_assert_eq(volume_seen(v, ids[19]), 19);
    l.n = 40;
    memcpy(l.ids, ids, 40 * sizeof *ids);
    wait_until(are_local, &l, "the second window is local");
    cr_assert_eq(volume_seen(v, ids[FILES - 1]), FILES - 1);
    cr_assert_eq(volume_seen(v, ids[0]), 0); /* from the start again: what was skipped is fetched */
    for (unsigned i = 1; i < FILES; i++)
        volume_seen(v, ids[i]);
    volume_close(v);
    world_free(&w);
}

/* Samples so large that few of them are a whole window of packs to be read ahead. */
Test(ahead, a_small_window_of_large_samples_moves_with_its_reader)
{
    enum { LARGE = 12, WINDOW = 4 };
    struct world w;
    struct volume_conf conf;
    struct local l = {0};
    uint64_t ids[LARGE];
    world_new(&w);
    for (unsigned i = 0; i < LARGE; i++) {
        cleanup_free char *path = xasprintf("%02u.bin", i);
        put_file(&w, path, UNIT_BYTES + 65536, i);
    }
    world_conf(&w, &conf);
    conf.sampler = "sequence";
    conf.prefetch = WINDOW;
    struct volume *v = l.v = world_open(&conf);
    volume_order_ids(v, 0, LARGE, ids, NULL);
    for (unsigned i = 0; i + WINDOW < LARGE; i++) {
        cr_assert_eq(volume_seen(v, ids[i]), i);
        l.n = WINDOW / 2 + 1;
        memcpy(l.ids, ids + i, l.n * sizeof *ids);
        l.ids[0] = l.ids[1]; /* its reader's own */
        wait_until(are_local, &l, "what comes next is local");
    }
    volume_close(v);
    world_free(&w);
}

/* What is still to be fetched has been taken in hand. */
static bool window_is_taken(void *arg)
{
    struct ahead *a = &((struct volume *)arg)->ahead;
    ACQUIRE(&a->lock);
    return a->next >= a->limit;
}

/* The kernel has its pages: whether the cache kept it or not, it is not fetched once more. */
Test(ahead, what_was_pushed_is_not_fetched)
{
    struct world w;
    struct volume_conf conf;
    struct local l = {0};
    uint64_t ids[FILES];
    world_new(&w);
    put_set(&w);
    world_conf(&w, &conf);
    conf.sampler = "paddle-random,seed=3";
    conf.prefetch = 16;
    struct volume *v = l.v = world_open(&conf);
    volume_order_ids(v, 0, FILES, ids, NULL);
    for (int i = 17; i < 33; i++)
        if (i != 20)
            l.ids[l.n++] = ids[i];
    wait_until(window_is_taken, v, "the first window is taken");
    for (int again = 0; again < 2; again++) { /* again: read from the start, pages are gone */
        ahead_pushed(v, ids[20]);
        for (int i = 17; i < 33; i++)
            cache_drop(volume_cache(v), ids[i]);
        volume_seen(v, ids[16]); /* a chunk is to be fetched: a full one wakes the thread */
        wait_until(are_local, &l, "the second window is local");
        cr_expect_lt(cache_where(volume_cache(v), ids[20]), 0);
        cr_assert_eq(volume_seen(v, ids[50]), 50);
        cr_assert_eq(volume_seen(v, ids[0]), 0);
        wait_until(window_is_taken, v, "the first window again");
    }
    volume_close(v);
    world_free(&w);
}

static bool packs_are_read_ahead(struct volume *v, uint64_t epoch)
{
    struct err err = {0};
    cr_assert_eq(volume_set_epoch(v, epoch, &err), 0, "%s", err.msg);
    ACQUIRE(&v->ahead.lock);
    return v->ahead.disk_limit > 0;
}

Test(ahead, packs_are_not_read_ahead_for_an_order_that_nobody_reads)
{
    struct world w;
    struct volume_conf conf;
    world_new(&w);
    put_set(&w);
    world_conf(&w, &conf);
    conf.sampler = "paddle-random,seed=3";
    struct volume *v = world_open(&conf);
    for (uint64_t epoch = 1; epoch < AHEAD_UNSEEN; epoch++)
        cr_assert(packs_are_read_ahead(v, epoch));
    cr_assert_not(packs_are_read_ahead(v, AHEAD_UNSEEN));
    cr_assert_not(packs_are_read_ahead(v, AHEAD_UNSEEN + 1));
    volume_seen(v, nth(v, 3)); /* a reader came: for it, and for the order that follows */
    cr_assert(packs_are_read_ahead(v, AHEAD_UNSEEN + 2));
    cr_assert(packs_are_read_ahead(v, AHEAD_UNSEEN + 3));
    cr_assert_not(packs_are_read_ahead(v, AHEAD_UNSEEN + 4));
    volume_close(v);
    world_free(&w);
}

Test(ahead, a_walk_fetches_the_siblings)
{
    struct world w;
    struct volume_conf conf;
    struct local l = {.n = 12};
    world_new(&w);
    put_set(&w);
    world_conf(&w, &conf);
    struct volume *v = world_open(&conf);
    for (unsigned i = 0; i < 5; i++)
        check_sample(v, nth(v, i), BYTES, i);
    l.v = v;
    for (unsigned i = 0; i < 8; i++)
        l.ids[i] = nth(v, i);
    l.n = 8;
    wait_until(are_local, &l, "siblings are local");
    volume_close(v);
    world_free(&w);
}

Test(ahead, random_reads_fetch_nothing_else)
{
    static const unsigned order[] = {50, 3, 31, 17, 60, 9, 44, 25};
    struct world w;
    struct volume_conf conf;
    struct layer_counts n;
    world_new(&w);
    put_set(&w);
    world_conf(&w, &conf);
    conf.layers = "count=store";
    struct volume *v = world_open(&conf);
    for (unsigned i = 0; i < 8; i++)
        check_sample(v, nth(v, order[i]), BYTES, order[i]);
    wait_until(nothing_outstanding, v, "nothing is outstanding");
    layers_count("store", &n);
    cr_assert_eq(n.reads, 8);
    volume_close(v);
    world_free(&w);
}

Test(ahead, the_next_blocks_of_a_large_sample_come_by_themselves)
{
    struct world w;
    struct volume_conf conf;
    struct local l = {.n = 2};
    world_new(&w);
    put_file(&w, "big.bin", 4ull * UNIT_BYTES, 5);
    world_conf(&w, &conf);
    struct volume *v = world_open(&conf);
    uint64_t id = id_of(v, "big.bin");
    for (uint64_t off = 0; off < 2 << 20; off += 128 << 10)
        check_range(v, id, 5, off, 128 << 10, 128 << 10);
    l.v = v;
    l.ids[0] = id + 1;
    l.ids[1] = id + 2;
    wait_until(are_local, &l, "blocks 1 and 2 are local");
    check_sample(v, id, 4ull * UNIT_BYTES, 5);
    volume_close(v);
    world_free(&w);
}

Test(ahead, a_sequential_reader_of_a_large_sample_has_several_blocks_under_way)
{
    struct world w;
    struct volume_conf conf;
    struct layer_counts n;
    const uint64_t size = 10ull * UNIT_BYTES;
    world_new(&w);
    put_file(&w, "big.bin", size, 5);
    world_conf(&w, &conf);
    conf.layers = "count=store;delay=read:30";
    struct volume *v = world_open(&conf);
    check_file(v, "big.bin", size, 5);
    layers_count("store", &n);
    cr_assert_eq(n.reads, 10);
    cr_assert_geq(n.in_flight_max, 2);
    volume_close(v);
    world_free(&w);
}

Test(ahead, close_while_much_is_outstanding)
{
    struct world w;
    struct volume_conf conf;
    world_new(&w);
    put_set(&w);
    world_conf(&w, &conf);
    conf.sampler = "sequence";
    conf.layers = "delay=read:30";
    for (int i = 0; i < 3; i++) {
        struct volume *v = world_open(&conf);
        volume_seen(v, nth(v, 1));
        volume_close(v);
    }
    world_free(&w);
}
