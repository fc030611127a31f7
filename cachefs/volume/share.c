/*
 * This node's share of a divided set: who owns which sample, by id, in spilled arrays that never
 * change. A share belongs to a version and an epoch, as an order does, and is made anew with it.
 *
 * What belongs to the share is pinned: the cache makes room for it, and it is the last to go. What
 * does not is unpinned, and the first to go. That, and not how long ago something was read, is what
 * decides: with epochs that are permutations the sample read last is as useful as any other.
 *
 * An epoch that is dealt anew has other shares. Where there are other nodes to ask, each goes on
 * keeping the share that it has made local, and they give each other what they read: were each to
 * move on by itself, it would drop what others have not had yet, and the store would be asked for
 * it. A warmup, or fetching epochs ahead, moves the share.
 */
#include "volume-internal.h"

#include "peer.h"
#include "plan.h"

static int check(const struct share_conf *c, struct err *err)
{
    bool needs_sampler = c->strategy == OWNER_RANDOM || c->strategy == OWNER_LOCAL;
    if (c->has_strategy && needs_sampler && !c->has_spec)
        return err_set(err, ERR_USAGE,
                       "strategy %s: which sampler? (give its SPEC with --sampler, or set it for "
                       "the mount)",
                       owner_strategy_name(c->strategy));
    return 0;
}

static enum owner_strategy strategy_of(const struct share_conf *c)
{
    if (c->has_strategy)
        return c->strategy;
    return c->has_spec ? owner_strategy_for(&c->spec) : OWNER_HASH;
}

static bool note_sample(void *arg, const struct plan_sample *s)
{
    struct share *share = arg;
    uint16_t *owner = share->owner.data;
    uint8_t *kept = share->kept.data;
    if (s->id > share->max_id)
        return false;
    owner[s->id] = (uint16_t)s->owner;
    if (!plan_keeps(s, share->conf.partition))
        return true;
    kept[s->id / 8] |= (uint8_t)(1u << (s->id % 8));
    share->samples++;
    share->bytes += s->size;
    share->stored += plan_stored_bytes(s->size, 1.0);
    share->repeats += s->owner != share->conf.partition;
    return true;
}

static int fill(struct share *share, const char *dir, struct err *err)
{
    struct plan *plan;
    struct plan_conf conf = {
        .catalog = share->catalog,
        .strategy = strategy_of(&share->conf),
        .partitions = share->conf.partitions,
        .sampler = share->conf.spec,
        .weights = share->conf.weights,
    };
    if (!share->conf.has_spec) /* a sampler that says nothing about anybody's reads */
        conf.sampler = (struct order_spec){.ranks = 1, .batch_size = 1, .ranks_per_node = 1};
    share->strategy = conf.strategy;
    if (check(&share->conf, err) ||
        spill_new(&share->owner, dir, (share->max_id + 1) * sizeof(uint16_t), err) ||
        spill_new(&share->kept, dir, share->max_id / 8 + 1, err) || plan_new(&plan, &conf, err))
        return -1;
    int rc = plan_each(plan, note_sample, share, err);
    plan_free(plan);
    return rc;
}

int share_new(struct share **ret, const struct share_conf *conf, struct catalog *c, const char *dir,
              struct err *err)
{
    struct share *share = xcalloc(1, sizeof *share);
    atomic_init(&share->refs, 1);
    share->conf = *conf;
    share->catalog = catalog_ref(c);
    share->max_id = catalog_info(c)->next_id;
    if (fill(share, dir, err)) {
        share_unref(share);
        return -1;
    }
    *ret = share;
    return 0;
}

static struct share *share_ref(struct share *s)
{
    atomic_fetch_add(&s->refs, 1);
    return s;
}

void share_unref(struct share *s)
{
    if (!s || atomic_fetch_sub(&s->refs, 1) != 1)
        return;
    spill_free(&s->owner);
    spill_free(&s->kept);
    catalog_unref(s->catalog);
    free(s);
}

bool share_has(const struct share *s, uint64_t id)
{
    return id <= s->max_id && ((const uint8_t *)s->kept.data)[id / 8] >> (id % 8) & 1;
}

/* Does the epoch make no difference to who owns what? */
static bool same_whatever_epoch(const struct share_conf *c)
{
    enum owner_strategy s = strategy_of(c);
    return s == OWNER_SEQUENCE || s == OWNER_HASH || !order_spec_deals(&c->spec);
}

bool share_serves(const struct share *s, const struct share_conf *conf, struct catalog *c)
{
    struct order_spec spec = conf->spec;
    if (same_whatever_epoch(conf))
        spec.epoch = s->conf.spec.epoch;
    return s->conf.partition == conf->partition && s->conf.partitions == conf->partitions &&
           owner_weights_same(&s->conf.weights, &conf->weights) &&
           s->conf.has_strategy == conf->has_strategy && s->conf.strategy == conf->strategy &&
           s->conf.has_spec == conf->has_spec && order_spec_same(&s->conf.spec, &spec) &&
           same_version(s->catalog, c);
}

struct pinning {
    const struct share *share;
    struct cache *cache;
};

static bool pin_sample(void *arg, const struct entry *e)
{
    const struct pinning *p = arg;
    if (!e->folder)
        cache_pin(p->cache, e->id, e->size, share_has(p->share, e->id));
    return true;
}

int share_pin(const struct share *s, struct cache *cache, struct err *err)
{
    struct pinning p = {s, cache};
    cache_expect(cache, s->samples, s->stored);
    return catalog_walk(s->catalog, 0, pin_sample, &p, err);
}

/* The share that is kept here, with a reference, or NULL. */
static struct share *kept_share(struct volume *v)
{
    ACQUIRE(&v->lock);
    struct share *s = v->stays ? v->share_before : v->share;
    return s ? share_ref(s) : NULL;
}

static bool ahead_is_on(struct volume *v)
{
    ACQUIRE(&v->epochs.lock);
    return v->epochs.budget > 0;
}

bool share_stays(struct volume *v, const struct share *s)
{
    struct share *kept = kept_share(v);
    struct share_conf conf = s->conf;
    struct cache_stat now;
    cache_stat(v->cache, &now);
    if (kept)
        conf.spec.epoch = kept->conf.spec.epoch;
    bool stays = kept && s->conf.has_spec && s->conf.spec.epoch != kept->conf.spec.epoch &&
                 peer_any(v->peers) && !ahead_is_on(v) && share_serves(kept, &conf, s->catalog) &&
                 now.pinned_samples >= kept->samples - kept->samples / 2;
    share_unref(kept);
    return stays;
}

/* --- the volume's own --------------------------------------------------------------------------
 */

struct share *volume_share(struct volume *v)
{
    ACQUIRE(&v->lock);
    return v->share ? share_ref(v->share) : NULL;
}

int64_t volume_owner(struct volume *v, uint64_t id)
{
    struct share *s = volume_share(v);
    int64_t owner = -1;
    struct entry e;
    if (s && id <= s->max_id && !catalog_get(s->catalog, id, &e, NULL) && !e.folder)
        owner = ((const uint16_t *)s->owner.data)[id];
    share_unref(s);
    return owner;
}

/* Lock held. */
static size_t add_owner(const struct share *s, uint64_t id, uint32_t *ret, size_t n, size_t max)
{
    if (!s || id > s->max_id || n == max)
        return n;
    uint32_t owner = ((const uint16_t *)s->owner.data)[id];
    if (owner == s->conf.partition || (n && ret[n - 1] == owner))
        return n;
    ret[n] = owner;
    return n + 1;
}

size_t share_owners(void *volume, uint64_t id, uint32_t *ret, size_t max)
{
    struct volume *v = volume;
    ACQUIRE(&v->lock);
    const struct share *first = v->stays ? v->share_before : v->share;
    size_t n = add_owner(first, id, ret, 0, max);
    return add_owner(first == v->share ? v->share_before : v->share, id, ret, n, max);
}

void share_status(struct volume *v, const struct cache_stat *now, struct json_writer *w)
{
    struct share *s = volume_share(v), *kept = kept_share(v);
    if (!s) {
        jw_raw(w, "partition", "null");
        share_unref(kept);
        return;
    }
    jw_object(w, "partition");
    jw_uint(w, "partition", s->conf.partition);
    jw_uint(w, "partitions", s->conf.partitions);
    jw_str(w, "strategy", owner_strategy_name(s->strategy));
    jw_uint(w, "epoch", s->conf.has_spec ? s->conf.spec.epoch : 0);
    jw_uint(w, "kept_epoch", kept && kept->conf.has_spec ? kept->conf.spec.epoch : 0);
    jw_uint(w, "samples", s->samples);
    jw_uint(w, "bytes", s->bytes);
    jw_uint(w, "cached", now->pinned_samples);
    jw_uint(w, "cached_bytes", now->pinned_bytes);
    jw_uint(w, "repeats", s->repeats);
    jw_array(w, "weights");
    for (uint32_t i = 0; i < s->conf.weights.n; i++)
        jw_uint(w, NULL, s->conf.weights.of[i]);
    jw_end(w);
    jw_end(w);
    share_unref(kept);
    share_unref(s);
}
