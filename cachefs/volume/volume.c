/* Opening and closing a volume: sources, engine, cache, catalog version, stack, threads. */
#define LOG_MODULE "volume"
#include "volume-internal.h"

#include <errno.h>
#include <sys/stat.h>

#include "clock.h"
#include "hash.h"
#include "log.h"
#include "peer.h"

#define MEMORY_DEFAULT  (256ull << 20)
#define POOL_LEAST      (4ull * UNIT_BYTES)
#define GATHER_POOL_MAX (16ull << 20)

/*
 * A quarter of the process's bound is for bytes on their way (fills and what waits to be appended);
 * gathered reads get an eighth of that again. The rest is for SQLite's pages, transfer buffers,
 * FUSE's request buffers and stacks, which are bounded by their own numbers.
 */
static uint64_t pool_share(uint64_t memory)
{
    uint64_t share = memory / 4;
    return share < POOL_LEAST ? POOL_LEAST : share;
}

static uint64_t gather_share(uint64_t memory)
{
    uint64_t share = memory / 32;
    return share > GATHER_POOL_MAX ? GATHER_POOL_MAX : share < UNIT_BYTES ? UNIT_BYTES : share;
}

int volume_set_memory(struct volume *v, uint64_t bytes, struct err *err)
{
    if (bytes < (uint64_t)VOLUME_MEMORY_LEAST)
        return err_set(err, ERR_USAGE, "memory: %llu bytes: at least 64MiB are needed",
                       (unsigned long long)bytes);
    atomic_store(&v->memory, bytes);
    pool_set_limit(v->pool, pool_share(bytes));
    cache_pool_shrank(v->cache);
    pool_set_limit(v->gather_pool, gather_share(bytes));
    return 0;
}

void volume_set_connections(struct volume *v, unsigned n)
{
    atomic_store(&v->connections, n);
    fetch_set_connections(v->fetch, n);
}

void volume_set_bandwidth(struct volume *v, uint64_t bytes_per_s)
{
    atomic_store(&v->bandwidth, bytes_per_s);
    volume_share_bandwidth(v);
}

void volume_share_bandwidth(struct volume *v)
{
    uint64_t limit = atomic_load(&v->bandwidth);
    bool shared = arrival_goes_on(v);
    uint64_t half = (limit + 1) / 2; /* 0 would be no limit */
    fetch_set_bandwidth(v->fetch, shared ? half : limit);
    if (shared)
        arrival_set_bandwidth(v, half);
}

int volume_set_peers(struct volume *v, const char *text, struct err *err)
{
    if (peer_set_list(v->peers, text, err))
        return -1;
    follow_others(v);
    return 0;
}

int volume_set_peer_token_file(struct volume *v, const char *file, struct err *err)
{
    return peer_set_token_file(v->peers, file, err);
}

struct cache *volume_cache(struct volume *v)
{
    return v->cache;
}

/* "s3://b/p#0123456789abcdef": readable in a refusal, and different for another endpoint. */
static char *set_id(const struct sources *s)
{
    uint64_t h = hash64(s->identity.data, s->identity.len, 0);
    const char *uri = s->set.n ? store_uri(s->stores[0]) : "";
    return xasprintf("%s#%016llx", uri, (unsigned long long)h);
}

static int open_cache(struct volume *v, struct err *err)
{
    cleanup_free char *id = set_id(&v->sources);
    struct cache_conf conf = {
        .dir = v->conf.dir,
        .n_tiers = v->conf.n_tiers,
        .free_fraction = v->conf.free_fraction,
        .free_bytes = v->conf.free_bytes,
        .pool = v->pool,
        .set_id = id,
        .counts = &v->counts->cache,
        .log = v->conf.log,
    };
    memcpy(conf.tiers, v->conf.tiers, sizeof conf.tiers);
    return cache_open(&v->cache, &conf, err);
}

static struct volume *volume_alloc(const struct volume_conf *conf)
{
    struct volume *v = xcalloc(1, sizeof *v);
    v->conf = *conf;
    v->counts = conf->counts ? conf->counts : &v->own_counts;
    v->conf.fetch.counts = &v->counts->fetch;
    v->opened_ns = clock_mono_ns();
    uint64_t memory = conf->memory ? conf->memory : MEMORY_DEFAULT;
    atomic_init(&v->memory, memory);
    atomic_init(&v->bandwidth, conf->fetch.bandwidth);
    atomic_init(&v->connections, conf->fetch.connections ? conf->fetch.connections : 64);
    gate_init(&v->gate);
    lock_init(&v->lock, RANK_VOLUME, "volume");
    cond_init(&v->changed);
    lock_init(&v->left_lock, RANK_NAMING, "left");
    lock_init(&v->ahead.lock, RANK_AHEAD, "ahead");
    cond_init(&v->ahead.wake);
    lock_init(&v->epochs.lock, RANK_AHEAD, "epochs");
    cond_init(&v->epochs.wake);
    v->epochs.budget = conf->ahead_bytes;
    v->last_epoch = UINT64_MAX;
    v->parked_tail = &v->parked;
    v->pool = pool_new(pool_share(memory));
    v->gather_pool = pool_new(gather_share(memory));
    pool_on_space(v->gather_pool, gather_kick, v);
    return v;
}

int volume_open(struct volume **ret, const struct volume_conf *conf, volume_progress_fn *progress,
                void *arg, struct err *err)
{
    struct volume *v = volume_alloc(conf);
    cleanup_bytes struct bytes folder = {0};
    if (division_parse(&v->division, conf->partition, conf->strategy, conf->weights, err) ||
        catalog_folder(conf, &folder, err) || sources_open(&v->sources, conf, err) ||
        fetch_new(&v->fetch, &v->conf.fetch, err) || open_cache(v, err) || stack_build(v, err) ||
        volume_set_peer_token_file(v, conf->peer_token_file ? conf->peer_token_file : "", err) ||
        volume_set_peers(v, conf->peers ? conf->peers : "", err) ||
        versions_open(v, progress, arg, err) ||
        cache_bind(v->cache, catalog_info(v->versions[0])->lineage, err) || sampler_start(v, err) ||
        ahead_start(v, err) || epochs_start(v, err) || refresh_start(v, err) ||
        left_start(v, err)) {
        volume_close(v);
        return -1;
    }
    follow_start(v);
    *ret = v;
    return 0;
}

void volume_wind_up(struct volume *v)
{
    ACQUIRE(&v->lock);
    atomic_store(&v->closing, true);
    v->warm.stop = true;
    cond_broadcast(&v->changed);
}

/* Ends the threads that begin work of their own. */
static void stop_threads(struct volume *v)
{
    volume_wind_up(v);
    arrival_stop(v);
    if (v->peers)
        peer_stop(v->peers);
    if (v->fetch)
        fetch_stop(v->fetch); /* what waits for a store ends now, with an error */
    if (v->refresh_started)
        pthread_join(v->refresh_thread, NULL);
    left_stop(v);
    follow_stop(v);
    sampler_close(v);
    epochs_stop(v);
    ahead_stop(v);
}

/* Undoes volume_open() from wherever it got to. */
void volume_close(struct volume *v)
{
    if (!v)
        return;
    stop_threads(v);
    gate_close(&v->gate);
    ahead_set_order(v, NULL);
    epochs_set_order(v, NULL, NULL);
    if (!v->top && v->cache)
        v->top = cache_source(v->cache, NULL); /* closing the layer is how a cache closes */
    stack_close(v);
    if (v->fetch)
        fetch_free(v->fetch);
    epoch_order_unref(v->order);
    share_unref(v->share);
    share_unref(v->share_before);
    versions_close(v);
    arrival_free(v);
    sources_close(&v->sources);
    pool_free(v->pool);
    pool_free(v->gather_pool);
    cond_destroy(&v->epochs.wake);
    lock_destroy(&v->epochs.lock);
    cond_destroy(&v->ahead.wake);
    lock_destroy(&v->ahead.lock);
    lock_destroy(&v->left_lock);
    cond_destroy(&v->changed);
    lock_destroy(&v->lock);
    gate_destroy(&v->gate);
    free(v);
}
