/*
 * What the cache itself costs, without FUSE and without a store: hits from packs, fills, and
 * opening with many units. Prints one line a figure. `bench-cache DIR` works below DIR and removes
 * what it made.
 */
#include <ftw.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "cache.h"
#include "clock.h"
#include "hash.h"
#include "sync.h"

struct catalog {
    uint32_t len;
};

struct catalog *catalog_ref(struct catalog *k)
{
    return k;
}

void catalog_unref(struct catalog *k)
{
    (void)k;
}

int catalog_unit(struct catalog *k, uint64_t unit, struct unit_info *ret, struct err *err)
{
    (void)err;
    *ret = (struct unit_info){.sample = unit, .len = k->len};
    return 0;
}

void unit_info_release(struct unit_info *u)
{
    (void)u;
}

/* The source's bytes cost next to nothing, so that the cache's own work shows. */
static int source_fill(struct source *s, const struct piece *p, struct view *ret,
                       struct source_wait *wait, struct err *err)
{
    (void)s, (void)wait, (void)err;
    uint64_t *words = (uint64_t *)(void *)p->into->data;
    for (uint32_t i = 0; i + 8 <= p->len; i += 512)
        words[i / 8] = hash_mix64(p->unit + i);
    *ret = (struct view){.ptr = p->into->data, .len = p->len, .origin = FROM_STORE};
    return 0;
}

static const struct source_ops source_ops = {.name = "none", .read = source_fill};

struct bench {
    struct cache *cache;
    struct source *top;
    struct source below;
    struct catalog catalog;
    struct pool *pool;
    struct cache_conf conf;
    uint64_t units;
};

static void die(const struct err *err)
{
    fprintf(stderr, "bench-cache: %s\n", err->msg);
    exit(1);
}

static void bench_open(struct bench *b)
{
    struct err err = {0};
    if (cache_open(&b->cache, &b->conf, &err))
        die(&err);
    b->top = cache_source(b->cache, &b->below);
}

static void bench_close(struct bench *b)
{
    b->top->ops->close(b->top);
}

struct pending {
    struct source_wait wait;
    struct lock lock;
    struct cond cond;
    bool done;
};

static void came(struct source_wait *wait, struct view *view, const struct err *err)
{
    struct pending *p = (struct pending *)(void *)wait;
    if (err)
        die(err);
    view_release(view);
    ACQUIRE(&p->lock);
    p->done = true;
    cond_signal(&p->cond);
}

static void read_unit(struct bench *b, uint64_t unit, struct pending *p)
{
    struct piece piece = {.catalog = &b->catalog, .unit = unit, .len = UNIT_BYTES};
    struct view view = {0};
    struct err err = {0};
    p->done = false;
    int rc = source_read(b->top, &piece, &view, &p->wait, &err);
    if (rc < 0)
        die(&err);
    if (rc == 0) {
        view_release(&view);
        return;
    }
    ACQUIRE(&p->lock);
    while (!p->done)
        cond_wait(&p->cond, &p->lock);
}

struct reader {
    struct bench *b;
    uint64_t seed, reads;
    bool in_order;
};

static void *reader_main(void *arg)
{
    struct reader *r = arg;
    struct pending p = {.wait.done = came};
    lock_init(&p.lock, RANK_CONTROL, "bench");
    cond_init(&p.cond);
    for (uint64_t i = 0; i < r->reads; i++)
        read_unit(r->b, 1 + (r->in_order ? i : hash_mix64(r->seed + i)) % r->b->units, &p);
    return NULL;
}

static double cpu_seconds(void)
{
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
           (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
}

static void run(struct bench *b, const char *what, unsigned threads, uint64_t reads, bool in_order)
{
    pthread_t id[8];
    struct reader r[8];
    uint64_t from = clock_mono_ns();
    double cpu = cpu_seconds();
    for (unsigned i = 0; i < threads; i++) {
        r[i] = (struct reader){b, 1000003 * (uint64_t)i, reads, in_order};
        thread_start(&id[i], "reader", reader_main, &r[i]);
    }
    for (unsigned i = 0; i < threads; i++)
        pthread_join(id[i], NULL);
    if (in_order && cache_flush(b->cache, NULL))
        fprintf(stderr, "bench-cache: flush failed\n");
    double s = (double)(clock_mono_ns() - from) / 1e9, n = (double)(reads * threads);
    printf("%-6s %7u bytes  T=%u  %9.0f /s  %7.2f us each  %6.2f us CPU\n", what, b->catalog.len,
           threads, n / s, s / n * threads * 1e6, (cpu_seconds() - cpu) / n * 1e6);
}

static void bench_reopen(struct bench *b)
{
    bench_close(b);
    uint64_t from = clock_mono_ns();
    double cpu = cpu_seconds();
    bench_open(b);
    struct cache_stat st;
    cache_stat(b->cache, &st);
    printf("reopen %llu units: %.1f ms, %.1f ms CPU\n", (unsigned long long)st.units,
           (double)(clock_mono_ns() - from) / 1e6, (cpu_seconds() - cpu) * 1e3);
    bench_close(b);
    char index[512];
    snprintf(index, sizeof index, "%s/index", b->conf.dir);
    unlink(index);
    from = clock_mono_ns();
    cpu = cpu_seconds();
    bench_open(b);
    cache_stat(b->cache, &st);
    printf("reopen %llu units without an index: %.1f ms, %.1f ms CPU\n",
           (unsigned long long)st.units, (double)(clock_mono_ns() - from) / 1e6,
           (cpu_seconds() - cpu) * 1e3);
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
    (void)st, (void)type, (void)at;
    return remove(path);
}

static void bench_size(const char *dir, uint32_t len, uint64_t units, bool reopen)
{
    char folder[400];
    snprintf(folder, sizeof folder, "%s/bench-cache-XXXXXX", dir);
    if (!mkdtemp(folder)) {
        perror(folder);
        exit(1);
    }
    struct bench b = {
        .below.ops = &source_ops, .catalog.len = len, .units = units, .pool = pool_new(64u << 20)};
    b.conf = (struct cache_conf){.dir = folder, .n_tiers = 1, .pool = b.pool, .set_id = "bench"};
    b.conf.tiers[0] = (struct tier_conf){.kind = TIER_SSD, .dir = folder, .limit = 20ull << 30};
    bench_open(&b);
    run(&b, "fill", 1, units, true);
    if (!reopen) {
        run(&b, "hit", 1, 100000, false);
        run(&b, "hit", 2, 100000, false);
    } else {
        bench_reopen(&b);
    }
    bench_close(&b);
    pool_free(b.pool);
    nftw(folder, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

int main(int argc, char **argv)
{
    const char *dir = argc > 1 ? argv[1] : "/tmp";
    bench_size(dir, 115000, 5000, false);
    bench_size(dir, 4096, 50000, false);
    bench_size(dir, 100, 1000000, true);
    return 0;
}
