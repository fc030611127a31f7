/* Epochs ahead: what is fetched while an epoch is read, and what leaves for it. */
#include <criterion/criterion.h>
#include <sched.h>
#include <string.h>
#include <unistd.h>

#include "clock.h"
#include "json.h"
#include "mem.h"
#include "order.h"
#include "support.h"
#include "volume-internal.h"

#define FILES   360
#define SIZE    100000
#define SAMPLER "torch-distributed,ranks=3,batch-size=4"
#define SHARE   (FILES / 3ull * SIZE)

/* Bytes that no compression makes smaller. */
static void put_noise(const struct world *w, const char *path, size_t size, uint64_t seed)
{
    char *text = xmalloc(size + 1);
    for (size_t k = 0; k < size; k++) {
        seed = seed * 6364136223846793005ull + 1442695040888963407ull;
        text[k] = (char)(1 + (seed >> 33) % 255);
    }
    text[size] = '\0';
    put_text(w, path, text);
    free(text);
}

static void put_set(const struct world *w)
{
    for (unsigned i = 0; i < FILES; i++) {
        cleanup_free char *path = xasprintf("class%u/%03u.jpg", i / 60, i);
        put_noise(w, path, SIZE, i + 1);
    }
}

static struct volume *open_node_of(struct world *w, uint64_t limit, uint64_t ahead)
{
    struct volume_conf conf;
    world_conf(w, &conf);
    conf.partition = "0/3";
    conf.sampler = SAMPLER;
    conf.prefetch = 1;
    conf.ahead_bytes = ahead;
    conf.layers = "count=store";
    conf.build_layers = layers_build;
    conf.tiers[0].limit = limit;
    return world_open(&conf);
}

static struct volume *open_node(struct world *w, uint64_t limit, uint64_t ahead)
{
    world_new(w);
    put_set(w);
    return open_node_of(w, limit, ahead);
}

static uint64_t store_reads(void)
{
    struct layer_counts c;
    cr_assert_eq(layers_count("store", &c), 0);
    return c.reads;
}

static char *state_of(struct volume *v)
{
    cleanup_bytes struct bytes text = {0};
    struct json_doc *doc;
    const char *state;
    status_text(v, &text);
    cr_assert_eq(json_parse(&doc, "status", text.data, text.len, NULL), 0);
    struct json root = json_root(doc), ahead = json_get(&root, "epochs_ahead");
    cr_assert_eq(json_str(&ahead, "state", &state, NULL), 0);
    char *copy = xstrdup(state);
    json_doc_free(doc);
    return copy;
}

struct reached {
    struct volume *v;
    uint64_t epoch;
};

static bool none_on_its_way(struct volume *v)
{
    ACQUIRE(&v->epochs.lock);
    return v->epochs.outstanding == 0;
}

/* All of the epoch was looked at, and nothing is on its way. */
static bool has_reached(void *arg)
{
    const struct reached *r = arg;
    uint64_t done = (uint64_t)(status_int(r->v, "epochs_ahead.fetched") +
                               status_int(r->v, "epochs_ahead.not_kept") +
                               status_int(r->v, "epochs_ahead.failed"));
    uint64_t epoch = (uint64_t)status_int(r->v, "epochs_ahead.epoch");
    uint64_t length = (uint64_t)status_int(r->v, "epochs_ahead.length");
    bool whole =
        epoch > r->epoch || (epoch == r->epoch && length &&
                             (uint64_t)status_int(r->v, "epochs_ahead.position") == length);
    return whole && done >= 1 && none_on_its_way(r->v);
}

static bool is_still(void *arg)
{
    static const char *const still[] = {"no room", "no budget left", "done"};
    struct reached *r = arg;
    cleanup_free char *state = state_of(r->v);
    for (size_t i = 0; i < 3; i++)
        if (strcmp(state, still[i]) == 0)
            return true;
    return false;
}

/* Reads the running epoch as the front end does. Returns the requests that readers waited for. */
static uint64_t read_epoch(struct volume *v)
{
    uint64_t ids[FILES], n = volume_order_length(v, NULL), missing = 0;
    cr_assert_eq(volume_order_ids(v, 0, n, ids, NULL), 0);
    for (uint64_t i = 0; i < n; i++) {
        struct view view;
        struct err err = {0};
        missing += cache_where(volume_cache(v), ids[i]) < 0;
        volume_seen(v, ids[i]);
        cr_assert_eq(volume_read_wait(v, ids[i], 0, SIZE, &view, &err), 0, "%s", err.msg);
        cr_expect_eq(view.len, SIZE);
        view_release(&view);
    }
    return missing;
}

static void set_epoch(struct volume *v, uint64_t epoch)
{
    struct err err = {0};
    cr_assert_eq(volume_set_epoch(v, epoch, &err), 0, "%s", err.msg);
}

static void warm(struct volume *v)
{
    struct warmup_result r;
    struct err err = {0};
    cr_assert_eq(volume_warmup(v, &(struct warmup_conf){0}, NULL, NULL, NULL, &r, &err), 0, "%s",
                 err.msg);
}

/* The cache holds one share and most of another: each epoch finds all of its samples here, and what
 * two epochs have in common is not fetched twice. */
static void each_epoch_is_here(uint64_t limit)
{
    struct world w;
    struct volume *v = open_node(&w, limit, 1ull << 40);
    warm(v);
    cr_expect_eq(store_reads(), FILES / 3);
    for (uint64_t epoch = 0; epoch < 4; epoch++) {
        uint64_t before = store_reads();
        cr_expect_eq(read_epoch(v), 0, "epoch %llu", (unsigned long long)epoch);
        struct reached r = {v, epoch + 1};
        wait_until(has_reached, &r, "the next epoch to be fetched");
        set_epoch(v, epoch + 1);
        cr_expect_leq(store_reads() - before, limit > 3 * SHARE ? FILES : FILES / 3);
    }
    cr_expect_eq(status_int(v, "epochs_ahead.not_kept"), 0);
    cr_expect_eq(status_int(v, "epochs_ahead.failed"), 0);
    struct cache_stat stat;
    cache_stat(volume_cache(v), &stat);
    cr_expect_leq(stat.tiers[0].used, limit);
    volume_close(v);
    world_free(&w);
}

Test(epochs, each_is_here_when_it_begins_one_share_and_a_half)
{
    each_epoch_is_here(SHARE * 17 / 10);
}

Test(epochs, each_is_here_when_it_begins_all_of_it)
{
    each_epoch_is_here(SHARE * 5);
}

/* Half a share fits: each sample is fetched once for each epoch that reads it, by whomever. */
Test(epochs, a_share_that_does_not_fit_is_fetched_once)
{
    enum { EPOCHS = 5 };
    struct world w;
    uint64_t limit = SHARE / 2 + (5u << 20);
    struct volume *v = open_node(&w, limit, 1ull << 40);
    for (uint64_t epoch = 0; epoch < EPOCHS; epoch++) {
        set_epoch(v, epoch);
        read_epoch(v);
    }
    struct reached r = {v, EPOCHS};
    wait_until(is_still, &r, "no more room");
    cr_expect_geq(store_reads(), FILES / 3);
    cr_expect_leq(store_reads(), EPOCHS * FILES / 3 + limit / SIZE); /* some are for the next */
    cr_expect_eq(status_int(v, "epochs_ahead.not_kept"), 0);
    volume_close(v);
    world_free(&w);
}

Test(epochs, the_budget_bounds_what_is_kept_for_later)
{
    struct world w;
    struct volume *v = open_node(&w, SHARE * 5, 10 * SIZE);
    warm(v);
    read_epoch(v);
    struct reached r = {v, 1};
    wait_until(is_still, &r, "the budget to be used up");
    cr_expect_eq(status_int(v, "epochs_ahead.held"), 10 * SIZE);
    cr_expect_eq(store_reads(), FILES / 3 + 10);
    volume_set_ahead_bytes(v, 1ull << 40);
    wait_until(has_reached, &r, "the rest of the epoch");
    cr_expect_gt(store_reads(), FILES / 3 + 10);
    volume_set_ahead_bytes(v, 0);
    volume_close(v);
    world_free(&w);
}

Test(epochs, nothing_before_the_first_read_and_nothing_after_the_last_epoch)
{
    struct world w;
    struct volume *v = open_node(&w, SHARE * 5, 1ull << 40);
    struct err err = {0};
    cr_assert_eq(volume_set_sampler(v, SAMPLER ",epochs=2", &err), 0, "%s", err.msg);
    warm(v);
    cleanup_free char *before = state_of(v);
    cr_expect_str_eq(before, "waiting for readers");
    cr_expect_eq(store_reads(), FILES / 3);
    read_epoch(v);
    struct reached r = {v, 1};
    wait_until(has_reached, &r, "the second epoch");
    wait_until(is_still, &r, "the end of it");
    uint64_t fetched = store_reads();
    cr_expect_leq(fetched, FILES / 3 * 2);
    set_epoch(v, 1);
    cr_expect_eq(read_epoch(v), 0);
    wait_until(is_still, &r, "the end");
    cleanup_free char *after = state_of(v);
    cr_expect_str_eq(after, "done");
    cr_expect_eq(store_reads(), fetched);
    volume_close(v);
    world_free(&w);
}

/* It is fetched when it is read, and keeps nothing else from coming: neither itself, nor the parts
 * of it that are here. */
Test(epochs, a_sample_larger_than_the_cache_is_passed)
{
    enum { LARGE = 6, PARTS = 3 }; /* the parts fill the cache */
    struct world w;
    uint64_t limit = SHARE * 5;
    world_new(&w);
    put_set(&w);
    for (unsigned i = 0; i < LARGE; i++) {
        cleanup_free char *path = xasprintf("class0/large%u.jpg", i);
        cleanup_free char *full = xasprintf("%s/%s", w.src, path);
        put_noise(&w, path, PARTS * UNIT_BYTES, 1000 + i);
        cr_assert_eq(truncate(full, (off_t)limit), 0);
    }
    struct volume *v = open_node_of(&w, limit, 1ull << 40);
    for (unsigned i = 0; i < LARGE * PARTS; i++) {
        cleanup_free char *path = xasprintf("class0/large%u.jpg", i / PARTS);
        struct view view;
        cr_assert_eq(volume_read_wait(v, id_of(v, path), i % PARTS * (uint64_t)UNIT_BYTES, SIZE,
                                      &view, NULL),
                     0);
        view_release(&view);
    }
    read_epoch(v);
    struct reached r = {v, EPOCHS_AHEAD};
    wait_until(has_reached, &r, "the last of the epochs to come");
    volume_close(v);
    world_free(&w);
}

static bool reads(struct volume *v, uint64_t id)
{
    uint64_t ids[FILES + 1], n = volume_order_length(v, NULL);
    cr_assert_eq(volume_order_ids(v, 0, n, ids, NULL), 0);
    for (uint64_t i = 0; i < n; i++)
        if (ids[i] == id)
            return true;
    return false;
}

/* Two epochs are known, of which this node reads the sample in none. */
static void set_sampler_without(struct volume *v, uint64_t id)
{
    bool read = true;
    for (unsigned seed = 0; read; seed++) {
        cleanup_free char *spec = xasprintf(SAMPLER ",epochs=2,seed=%u", seed);
        read = false;
        for (uint64_t epoch = 2; epoch-- > 0 && !read;) {
            cr_assert_eq(volume_set_sampler(v, spec, NULL), 0);
            if (epoch)
                set_epoch(v, epoch);
            read = reads(v, id);
        }
    }
}

struct part {
    struct volume *v;
    uint64_t unit;
};

static bool has_gone(void *arg)
{
    const struct part *p = arg;
    return cache_where(volume_cache(p->v), p->unit) < 0;
}

/* The first block of a sample is not here, the second is, and no epoch reads it. */
Test(epochs, half_a_sample_makes_room, .timeout = 60)
{
    struct world w;
    world_new(&w);
    put_set(&w);
    put_file(&w, "class0/large.jpg", 2 * UNIT_BYTES, 1);
    struct volume *v = open_node_of(&w, SHARE + (6u << 20), 1ull << 40);
    uint64_t large = id_of(v, "class0/large.jpg");
    struct part part = {v, large + 1};
    set_sampler_without(v, large);
    cache_pin(volume_cache(v), part.unit, 1, true); /* as of a share before */
    check_range(v, large, 1, UNIT_BYTES, SIZE, SIZE);
    cr_expect_lt(cache_where(volume_cache(v), large), 0);
    cr_expect_not(has_gone(&part));
    read_epoch(v);
    wait_until(has_gone, &part, "the block to make room for the next epoch");
    volume_close(v);
    world_free(&w);
}

static bool has_let_go(void *arg)
{
    cleanup_free char *state = state_of(arg);
    return strcmp(state, "not needed") == 0;
}

/* The order is taken away in the middle of making room for the next epoch. */
Test(epochs, an_order_may_end_while_room_is_made)
{
    struct world w;
    struct volume *v = open_node(&w, SHARE / 2 + (5u << 20), 1ull << 40);
    struct reached r = {v, 0};
    for (uint64_t epoch = 1; epoch < 30; epoch++) {
        uint64_t ids[FILES], n, before = counter_get(&v->epochs.dropped);
        set_epoch(v, epoch);
        n = volume_order_length(v, NULL);
        cr_assert_eq(volume_order_ids(v, 0, n, ids, NULL), 0);
        for (uint64_t i = 0; i < n; i++)
            volume_seen(v, ids[i]);
        for (unsigned i = 1; counter_get(&v->epochs.dropped) == before; i++) {
            if (i % 4096 == 0 && is_still(&r))
                break;
            sched_yield();
        }
        epochs_set_order(v, NULL, NULL);
        wait_until(has_let_go, v, "the thread to have no epoch");
    }
    volume_close(v);
    world_free(&w);
}

static uint64_t evict_unused(struct volume *v, uint64_t hours)
{
    struct drop_result r = {0};
    struct err err = {0};
    cr_assert_eq(volume_evict_unused(v, hours * 3600 * NS_PER_S, NULL, NULL, &r, &err), 0, "%s",
                 err.msg);
    return r.samples;
}

/* What was not read for an hour goes; what was, and what the running epoch names, stays. */
Test(evict, unused)
{
    struct world w;
    struct volume_conf conf;
    world_new(&w);
    put_set(&w);
    world_conf(&w, &conf);
    struct volume *v = world_open(&conf);
    warm(v);
    cr_assert_eq(cache_flush(volume_cache(v), NULL), 0);
    cr_expect_eq(evict_unused(v, 0), 0, "used within the last minutes");
    clock_advance(2 * 3600 * NS_PER_S);
    uint64_t read = id_of(v, "class1/070.jpg");
    struct view view;
    cr_assert_eq(volume_read_wait(v, read, 0, SIZE, &view, NULL), 0);
    view_release(&view);
    cr_expect_eq(evict_unused(v, 3), 0);
    cr_assert_eq(volume_set_sampler(v, "torch-distributed,ranks=3,rank=1", NULL), 0);
    uint64_t ids[FILES], n = volume_order_length(v, NULL), kept = 0;
    cr_assert_eq(volume_order_ids(v, 0, n, ids, NULL), 0);
    for (uint64_t i = 0; i < n; i++)
        kept += ids[i] == read;
    cr_expect_eq(evict_unused(v, 1), FILES - n - (kept ? 0 : 1));
    cr_expect_geq(cache_where(volume_cache(v), read), 0);
    for (uint64_t i = 0; i < n; i++)
        cr_expect_geq(cache_where(volume_cache(v), ids[i]), 0);
    volume_close(v);
    world_free(&w);
}
