/* Warmup, and making room again. */
#include <criterion/criterion.h>
#include <unistd.h>

#include "mem.h"
#include "support.h"
#include "volume-internal.h"

#define FILES 200

static void put_set(const struct world *w)
{
    for (unsigned i = 0; i < FILES; i++) {
        cleanup_free char *path = xasprintf("class%u/%03u.jpg", i % 4, i);
        put_file(w, path, 1000 + i * 501, i);
    }
    put_file(w, "big/large.bin", 2ull * UNIT_BYTES + 77, 1000);
}

static void drop_set(const struct world *w)
{
    for (unsigned i = 0; i < FILES; i++) {
        cleanup_free char *path = xasprintf("class%u/%03u.jpg", i % 4, i);
        drop_file(w, path);
    }
    drop_file(w, "big/large.bin");
}

static void check_set(struct volume *v)
{
    for (unsigned i = 0; i < FILES; i++) {
        cleanup_free char *path = xasprintf("class%u/%03u.jpg", i % 4, i);
        check_file(v, path, 1000 + i * 501, i);
    }
    check_file(v, "big/large.bin", 2ull * UNIT_BYTES + 77, 1000);
}

struct failures {
    unsigned n;
    char path[256], why[512];
};

static void on_fail(void *arg, const char *path, const char *why)
{
    struct failures *f = arg;
    f->n++;
    snprintf(f->path, sizeof f->path, "%s", path);
    snprintf(f->why, sizeof f->why, "%s", why);
}

static struct warmup_result warm(struct volume *v, const char *const *paths, size_t n, bool verify,
                                 struct failures *f)
{
    struct warmup_result r = {0};
    struct err err = {0};
    *f = (struct failures){0};
    cr_assert_eq(
        volume_warmup(v, &(struct warmup_conf){.paths = paths, .n_paths = n, .verify = verify},
                      NULL, on_fail, f, &r, &err),
        0, "%s", err.msg);
    return r;
}

Test(warmup, everything_is_there_when_it_says_so)
{
    struct world w;
    struct volume_conf conf;
    struct failures f;
    world_new(&w);
    put_set(&w);
    world_conf(&w, &conf);
    struct volume *v = world_open(&conf);
    struct warmup_result r = warm(v, NULL, 0, false, &f);
    cr_assert_eq(r.samples, FILES + 1);
    cr_assert_eq(r.fetched, FILES + 1);
    cr_assert(r.already == 0 && r.failed == 0 && !r.verified);
    cr_assert_eq(r.bytes, (uint64_t)status_int(v, "set.bytes"));
    cr_assert_eq(status_int(v, "warmup.samples_done"), FILES + 1);
    drop_set(&w); /* nothing but the cache can answer now */
    check_set(v);
    r = warm(v, NULL, 0, true, &f);
    cr_assert_eq(r.already, FILES + 1);
    cr_assert(r.fetched == 0 && r.failed == 0 && r.verified);
    volume_close(v);
    v = world_open(&conf); /* and it stays */
    check_set(v);
    cr_assert_eq(status_int(v, "reads.store"), 0);
    volume_close(v);
    world_free(&w);
}

Test(warmup, paths_overlap_and_count_once)
{
    static const char *const paths[] = {"/class1/", "class1/001.jpg", "./class2/002.jpg", "class1"};
    struct world w;
    struct volume_conf conf;
    struct failures f;
    world_new(&w);
    put_set(&w);
    world_conf(&w, &conf);
    struct volume *v = world_open(&conf);
    struct warmup_result r = warm(v, paths, 4, false, &f);
    cr_assert_eq(r.samples, FILES / 4 + 1);
    cr_assert_eq(r.fetched, FILES / 4 + 1);
    cr_assert(cache_has_all(volume_cache(v), id_of(v, "class1/005.jpg"), 1));
    cr_assert_not(cache_has_all(volume_cache(v), id_of(v, "class3/003.jpg"), 1));
    static const char *const missing[] = {"class1", "nowhere/x.jpg"};
    struct err err = {0};
    cr_assert_eq(volume_warmup(v, &(struct warmup_conf){.paths = missing, .n_paths = 2}, NULL, NULL,
                               NULL, &r, &err),
                 -1);
    cr_assert_eq(err.class, ERR_NOT_FOUND, "%s", err.msg);
    cr_assert_not_null(strstr(err.msg, "nowhere/x.jpg"), "%s", err.msg);
    volume_close(v);
    world_free(&w);
}

Test(warmup, failures_are_named_and_the_rest_is_done)
{
    struct world w;
    struct volume_conf conf;
    struct failures f;
    world_new(&w);
    put_set(&w);
    world_conf(&w, &conf);
    struct volume *v = world_open(&conf);
    drop_file(&w, "class2/042.jpg");
    struct warmup_result r = warm(v, NULL, 0, true, &f);
    cr_assert_eq(r.samples, FILES + 1);
    cr_assert_eq(r.fetched, FILES);
    cr_assert_eq(r.failed, 1);
    cr_assert_not(r.verified);
    cr_assert_eq(f.n, 1);
    cr_assert_str_eq(f.path, "class2/042.jpg");
    cr_assert_eq(status_int(v, "warmup.failed"), 1);
    put_file(&w, "class2/042.jpg", 1000 + 42 * 501, 42); /* it is back, as it was */
    r = warm(v, NULL, 0, true, &f);
    cr_assert_eq(r.already, FILES);
    cr_assert(r.fetched == 1 && r.failed == 0 && r.verified);
    volume_close(v);
    world_free(&w);
}

Test(warmup, every_seventh_failing_read)
{
    struct world w;
    struct volume_conf conf;
    struct failures f;
    world_new(&w);
    put_set(&w);
    world_conf(&w, &conf);
    conf.layers = "fault=read:every:7:failed;count=store";
    struct volume *v = world_open(&conf);
    struct warmup_result r = warm(v, NULL, 0, false, &f);
    cr_assert_eq(r.failed, (FILES + 3) / 7);
    cr_assert_eq(r.fetched + r.failed, FILES + 1);
    cr_assert_eq(f.n, r.failed);
    cr_assert_not_null(strstr(f.why, "fault layer"), "%s", f.why);
    r = warm(v, NULL, 0, false, &f);
    cr_assert_eq(r.already + r.fetched + r.failed, FILES + 1);
    volume_close(v);
    world_free(&w);
}

Test(warmup, what_cannot_fit_is_refused_before_the_first_byte)
{
    struct world w;
    struct volume_conf conf;
    struct warmup_result r;
    struct layer_counts n;
    struct err err = {0};
    world_new(&w);
    put_set(&w);
    for (unsigned i = 0; i < 8; i++) {
        cleanup_free char *path = xasprintf("z/%u.bin", i);
        put_file(&w, path, 8 << 20, i);
    }
    world_conf(&w, &conf);
    conf.tiers[0].limit = 48 << 20;
    conf.layers = "count=store";
    struct volume *v = world_open(&conf);
    cr_assert_eq(volume_warmup(v, &(struct warmup_conf){0}, NULL, NULL, NULL, &r, &err), -1);
    cr_assert_eq(err.class, ERR_LIMIT);
    cr_assert_not_null(strstr(err.msg, "do not fit"), "%s", err.msg);
    cr_assert_not_null(strstr(err.msg, "z/"), "%s", err.msg);
    layers_count("store", &n);
    cr_assert_eq(n.reads, 0);
    volume_close(v);
    world_free(&w);
}

struct stopper {
    unsigned ticks;
    uint64_t done; /* as it was told last */
};

static enum warmup_wish stop_soon(void *arg, const struct warmup_far *far)
{
    struct stopper *s = arg;
    cr_assert_leq(far->done, far->total);
    s->done = far->done;
    if (++s->ticks == 2)
        usleep(100000); /* more comes meanwhile */
    return s->ticks < 2 ? WARMUP_GO_ON : WARMUP_TAKE_BACK;
}

static void check_warmup_state(struct volume *v, const char *want)
{
    cleanup_bytes struct bytes text = {0};
    cleanup_free char *field = xasprintf("\"warmup\":{\"state\":\"%s\"", want);
    status_text(v, &text);
    cr_assert_not_null(strstr(text.data, field), "%s", text.data);
}

Test(warmup, stops_when_told_and_goes_on_later)
{
    struct world w;
    struct volume_conf conf;
    struct failures f;
    struct warmup_result r;
    struct stopper stopper = {0};
    struct err err = {0};
    world_new(&w);
    put_set(&w);
    world_conf(&w, &conf);
    conf.fetch.connections = 1;
    conf.layers = "delay=read:20";
    struct volume *v = world_open(&conf);
    cr_assert_eq(volume_warmup(v, &(struct warmup_conf){0}, stop_soon, NULL, &stopper, &r, &err),
                 -1);
    cr_assert_eq(err.class, ERR_CANCELLED);
    check_warmup_state(v, "cancelled");
    cr_assert_eq(status_int(v, "warmup.failed"), 0);
    volume_set_connections(v, 32);
    r = warm(v, NULL, 0, false, &f);
    cr_assert_gt(r.already, 0);
    cr_expect_eq(stopper.done, r.already, "what came after the word to stop is told, too");
    cr_assert_eq(r.already + r.fetched, FILES + 1);
    check_warmup_state(v, "done");
    volume_close(v);
    world_free(&w);
}

static enum warmup_wish note_percent(void *arg, const struct warmup_far *far)
{
    double *most = arg;
    if (far->done == 0 && far->percent > *most)
        *most = far->percent;
    return WARMUP_GO_ON;
}

/* The blocks of a large sample count as they come: they may take hours. */
Test(warmup, tells_how_much_of_a_large_sample_is_there)
{
    struct world w;
    struct volume_conf conf;
    struct warmup_result r;
    struct err err = {0};
    double most = 0;
    world_new(&w);
    put_file(&w, "large", 8 * UNIT_BYTES, 7);
    world_conf(&w, &conf);
    conf.fetch.connections = 1;
    conf.layers = "delay=read:400";
    struct volume *v = world_open(&conf);
    cr_assert_eq(volume_warmup(v, &(struct warmup_conf){0}, note_percent, NULL, &most, &r, &err), 0,
                 "%s", err.msg);
    cr_expect(most > 0 && most < 100, "%f", most);
    cr_expect_eq(r.fetched, 1);
    volume_close(v);
    world_free(&w);
}

static bool cache_was_told(void *arg)
{
    struct volume *v = arg;
    ACQUIRE(&v->lock);
    return !v->left_wanted;
}

struct replacement {
    struct world *w;
    struct volume *v;
    bool done;
};

/* The first sample is replaced when it was fetched, and the cache has heard of it. */
static enum warmup_wish replace_first(void *arg, const struct warmup_far *far)
{
    struct replacement *r = arg;
    struct err err = {0};
    if (far->done == 0 || r->done)
        return WARMUP_GO_ON;
    put_file(r->w, "class0/000.jpg", 1000, 99);
    cr_assert_eq(volume_rescan(r->v, NULL, &err), 0, "%s", err.msg);
    wait_until(cache_was_told, r->v, "the cache is told of the version");
    left_now(r->v);
    r->done = true;
    return WARMUP_GO_ON;
}

Test(warmup, what_was_superseded_meanwhile_is_not_pinned)
{
    struct world w;
    struct volume_conf conf;
    struct warmup_result result;
    struct cache_stat stat;
    struct err err = {0};
    world_new(&w);
    put_set(&w);
    world_conf(&w, &conf);
    conf.fetch.connections = 1;
    conf.layers = "delay=read:20";
    struct volume *v = world_open(&conf);
    struct replacement r = {.w = &w, .v = v};
    cr_assert_eq(volume_warmup(v, &(struct warmup_conf){0}, replace_first, NULL, &r, &result, &err),
                 0, "%s", err.msg);
    cr_assert(r.done);
    cr_assert_eq(result.fetched, FILES + 1);
    cache_stat(volume_cache(v), &stat);
    cr_expect_eq(stat.pinned_samples, FILES);
    volume_close(v);
    world_free(&w);
}

Test(room, clear_by_path_and_all)
{
    static const char *const paths[] = {"class1"};
    struct world w;
    struct volume_conf conf;
    struct failures f;
    struct drop_result d;
    struct err err = {0};
    world_new(&w);
    put_set(&w);
    world_conf(&w, &conf);
    struct volume *v = world_open(&conf);
    warm(v, NULL, 0, false, &f);
    cr_assert_eq(volume_clear(v, paths, 1, NULL, NULL, &d, &err), 0, "%s", err.msg);
    cr_assert_eq(d.samples, FILES / 4);
    cr_assert_not(cache_has_all(volume_cache(v), id_of(v, "class1/001.jpg"), 1));
    cr_assert(cache_has_all(volume_cache(v), id_of(v, "class0/000.jpg"), 1));
    cr_assert_eq(volume_clear(v, NULL, 0, NULL, NULL, &d, &err), 0, "%s", err.msg);
    cr_assert_eq(status_int(v, "cache.samples"), 0);
    check_set(v);
    volume_close(v);
    world_free(&w);
}

Test(room, evict_by_age)
{
    struct world w;
    struct volume_conf conf;
    struct failures f;
    struct drop_result d;
    struct err err = {0};
    world_new(&w);
    put_set(&w);
    put_text(&w, "new/fresh.txt", "of now");
    world_conf(&w, &conf);
    struct volume *v = world_open(&conf);
    warm(v, NULL, 0, false, &f);
    cr_assert_eq(volume_evict_older(v, 3600ull * 1000000000, NULL, NULL, &d, &err), 0, "%s",
                 err.msg);
    cr_assert_eq(d.samples, FILES + 1);
    cr_assert(cache_has_all(volume_cache(v), id_of(v, "new/fresh.txt"), 1));
    volume_close(v);
    world_free(&w);
}

/* A reader began in its middle. */
Test(room, evict_by_age_what_is_here_without_its_beginning)
{
    struct world w;
    struct volume_conf conf;
    struct drop_result d;
    struct err err = {0};
    world_new(&w);
    put_file(&w, "big.bin", 3ull * UNIT_BYTES, 5);
    world_conf(&w, &conf);
    struct volume *v = world_open(&conf);
    uint64_t id = id_of(v, "big.bin");
    check_range(v, id, 5, UNIT_BYTES, 4096, 4096);
    cr_assert(cache_has_all(volume_cache(v), id + 1, 1));
    cr_assert_eq(volume_evict_older(v, 0, NULL, NULL, &d, &err), 0, "%s", err.msg);
    cr_expect_not(cache_has_all(volume_cache(v), id + 1, 1));
    cr_expect_eq(d.samples, 1);
    volume_close(v);
    world_free(&w);
}

#define MIB (1u << 20)

/* Bytes that do not become fewer. */
static void put_noise(const struct world *w, const char *folder, unsigned n)
{
    unsigned seed = (unsigned)folder[0];
    cleanup_free char *data = xmalloc(MIB + 1);
    for (unsigned i = 0; i < n; i++) {
        for (unsigned at = 0; at < MIB; at++)
            data[at] = (char)(1 + rand_r(&seed) % 255);
        data[MIB] = '\0';
        cleanup_free char *path = xasprintf("%s/%02u", folder, i);
        put_text(w, path, data);
    }
}

static enum warmup_wish note_bytes(void *arg, const struct warmup_far *far)
{
    *(uint64_t *)arg = far->bytes;
    return WARMUP_GO_ON;
}

Test(warmup, what_found_no_room_is_not_counted_as_fetched)
{
    static const char *const first[] = {"a"}, *const second[] = {"b"};
    struct world w;
    struct volume_conf conf;
    struct failures f;
    struct warmup_result r;
    struct err err = {0};
    uint64_t bytes = 0;
    world_new(&w);
    put_noise(&w, "a", 8);
    put_noise(&w, "b", 8);
    world_conf(&w, &conf);
    conf.tiers[0].limit = 12 << 20;
    struct volume *v = world_open(&conf);
    warm(v, first, 1, false, &f);
    cr_assert_eq(f.n, 0);
    struct warmup_conf again = {.paths = second, .n_paths = 1};
    cr_assert_eq(volume_warmup(v, &again, note_bytes, NULL, &bytes, &r, &err), 0, "%s", err.msg);
    cr_expect_gt(r.failed, 0);
    cr_expect_eq(r.already + r.fetched + r.failed, 8);
    cr_expect_eq(bytes, r.fetched * MIB);
    volume_close(v);
    world_free(&w);
}
