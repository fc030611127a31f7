/*
 * What the served version does not name is of no use to who reads now: superseded samples, those
 * that are gone. They stay in the cache for who still reads an older version, but they are unpinned
 * and the first to go. The cache is told with each version that is served, by a thread of its own,
 * for the whole set is walked; at a mount only if that version was not the last one it was told of,
 * or if it has lost its index since.
 */
#define LOG_MODULE "volume"
#include "volume-internal.h"

#include "clock.h"
#include "log.h"

struct named {
    struct volume *v;
    struct spill bits; /* uint64_t[n / 64 + 1] */
    uint64_t n;
};

static bool note_units(void *arg, const struct entry *e)
{
    struct named *x = arg;
    uint64_t units = e->folder ? 0 : unit_count(e->size);
    uint64_t *bits = x->bits.data;
    for (uint64_t u = e->id; u < e->id + units && u < x->n; u++)
        bits[u / 64] |= 1ull << (u % 64);
    return !atomic_load(&x->v->closing);
}

static bool is_divided(struct volume *v)
{
    ACQUIRE(&v->lock);
    return v->share != NULL;
}

/* If not, `left_wanted` was set for the one that is. */
static bool is_served(struct volume *v, struct catalog *c)
{
    ACQUIRE(&v->lock);
    return same_version(v->versions[0], c);
}

/* Lock held. Told of a version that is served no longer, the cache would take the place and the pin
 * of what only the next one names. */
static void name_version(struct volume *v, struct catalog *c)
{
    const struct catalog_info *info = catalog_info(c);
    struct named x = {.v = v, .n = info->next_id + 1};
    struct cache_stat stat;
    struct err err = {0};
    cleanup_bytes struct bytes folder = {0};
    uint64_t began = clock_mono_ns();
    cache_stat(v->cache, &stat);
    if (stat.bytes) {
        if (x.n > CACHE_UNITS_MAX)
            x.n = CACHE_UNITS_MAX;
        int failed = spill_new(&x.bits, v->conf.dir, (x.n / 64 + 1) * sizeof(uint64_t), &err) ||
                     catalog_walk(c, 0, note_units, &x, &err);
        if (!failed && !atomic_load(&v->closing) && is_served(v, c))
            cache_name(v->cache, x.bits.data, x.n, !is_divided(v));
        spill_free(&x.bits);
    }
    if (atomic_load(&v->closing) || !is_served(v, c))
        return;
    if (err.class || catalog_folder(&v->conf, &folder, &err) ||
        catalog_set_named(folder.data, info->digest, &err))
        log_warn(v->conf.log, "superseded samples may keep their room: %s", err.msg);
    log_debug(v->conf.log, "the cache knows what version %.12s names after %llu ms", info->digest,
              (unsigned long long)((clock_mono_ns() - began) / NS_PER_MS));
}

void left_now(struct volume *v)
{
    ACQUIRE(&v->left_lock);
    struct catalog *c = volume_catalog(v);
    name_version(v, c);
    catalog_unref(c);
}

static bool wait_for_version(struct volume *v)
{
    ACQUIRE(&v->lock);
    while (!v->left_wanted && !atomic_load(&v->closing))
        cond_wait(&v->changed, &v->lock);
    v->left_wanted = false;
    return !atomic_load(&v->closing);
}

static void *left_main(void *arg)
{
    struct volume *v = arg;
    while (wait_for_version(v)) {
        left_now(v);
        share_follow(v);
    }
    return NULL;
}

int left_start(struct volume *v, struct err *err)
{
    cleanup_bytes struct bytes folder = {0};
    if (catalog_folder(&v->conf, &folder, err) ||
        (!cache_knows_named(v->cache) && catalog_set_named(folder.data, "", err)))
        return -1;
    struct catalog *c = volume_catalog(v);
    bool named = catalog_is_named(folder.data, catalog_info(c)->digest);
    catalog_unref(c);
    {
        ACQUIRE(&v->lock);
        v->left_wanted |= !named; /* a refresh may have set it meanwhile */
    }
    int e = thread_start(&v->left_thread, "left", left_main, v);
    v->left_started = !e;
    return e ? err_thread(err, e, "start a thread that tells the cache of versions") : 0;
}

void left_stop(struct volume *v)
{
    if (v->left_started)
        pthread_join(v->left_thread, NULL);
}
