/* Making room: dropping local copies by path, by age, or down to a size. */
#include "volume-internal.h"

#include "clock.h"

static void cached_now(struct volume *v, struct drop_result *ret)
{
    struct cache_stat s;
    cache_stat(v->cache, &s);
    *ret = (struct drop_result){.samples = s.samples, .bytes = s.bytes};
}

/* What is gone since `before`; reads that fill the cache meanwhile must not make it negative. */
static void dropped_since(struct volume *v, const struct drop_result *before,
                          struct drop_result *ret)
{
    struct drop_result now;
    cached_now(v, &now);
    ret->samples = before->samples > now.samples ? before->samples - now.samples : 0;
    ret->bytes = before->bytes > now.bytes ? before->bytes - now.bytes : 0;
}

/* Pages of a sample can be in the kernel though the cache has dropped it: all are named. */
static void drop_targets(struct volume *v, const struct targets *t, bool drop_units,
                         volume_dropped_fn *fn, void *arg)
{
    for (size_t i = 0; i < t->n; i++) {
        const struct target *target = target_at(t, i);
        uint64_t units = unit_count(target->size);
        for (uint64_t u = 0; drop_units && u < units; u++)
            cache_drop(v->cache, target->id + u);
        if (fn)
            fn(arg, target->id);
    }
}

int volume_clear(struct volume *v, const char *const *paths, size_t n, volume_dropped_fn *fn,
                 void *arg, struct drop_result *ret, struct err *err)
{
    if (!gate_enter(&v->gate))
        return err_set(err, ERR_CANCELLED, "the volume is closing");
    struct targets t = {0};
    struct drop_result before;
    struct catalog *c = volume_catalog(v);
    cached_now(v, &before);
    int rc = targets_collect(&t, c, paths, n, /*share*/ NULL, v->conf.dir, err);
    if (!rc && n == 0)
        cache_clear(v->cache);
    if (!rc) {
        drop_targets(v, &t, n > 0, fn, arg);
        dropped_since(v, &before, ret);
    }
    targets_release(&t);
    catalog_unref(c);
    gate_leave(&v->gate);
    return rc;
}

struct aged {
    struct volume *v;
    bool (*goes)(const struct aged *a, const struct entry *e);
    int64_t before_ns;         /* older: mtimes below it */
    uint64_t age_ns;           /* unused: for so long */
    struct epoch_order *order; /* unused: what it names stays; or NULL */
    volume_dropped_fn *fn;
    void *arg;
    uint64_t ids[1024], sizes[1024];
    size_t n;
    uint64_t last;
    uint64_t dropped; /* counted one by one: reads may fill the cache meanwhile */
};

/* Is any of it here? A reader may have begun in its middle. */
static bool is_here(struct cache *c, const struct entry *e)
{
    uint64_t units = e->folder ? 0 : unit_count(e->size);
    for (uint64_t u = 0; u < units; u++)
        if (cache_where(c, e->id + u) >= 0)
            return true;
    return false;
}

static bool aged_sample(void *arg, const struct entry *e)
{
    struct aged *a = arg;
    a->last = e->id;
    if (is_here(a->v->cache, e) && a->goes(a, e)) {
        a->ids[a->n] = e->id;
        a->sizes[a->n++] = e->size;
    }
    return a->n < sizeof a->ids / sizeof a->ids[0];
}

static void drop_aged(struct aged *a)
{
    a->dropped += a->n;
    for (size_t i = 0; i < a->n; i++) {
        for (uint64_t u = 0; u < unit_count(a->sizes[i]); u++)
            cache_drop(a->v->cache, a->ids[i] + u);
        if (a->fn)
            a->fn(a->arg, a->ids[i]);
    }
}

static bool is_older(const struct aged *a, const struct entry *e)
{
    return entry_is_older(e, a->before_ns);
}

/* Read in no unit of it, and not named by the running epoch's order. */
static bool is_unused(const struct aged *a, const struct entry *e)
{
    if (a->order && epoch_order_position(a->order, e->id) != UINT64_MAX)
        return false;
    for (uint64_t u = 0; u < unit_count(e->size); u++)
        if (cache_where(a->v->cache, e->id + u) >= 0 &&
            !cache_unused(a->v->cache, e->id + u, a->age_ns))
            return false;
    return true;
}

static int evict_aged(struct volume *v, struct aged *a, struct drop_result *ret, struct err *err)
{
    struct drop_result before;
    struct catalog *c = volume_catalog(v);
    int rc;
    cached_now(v, &before);
    do {
        a->n = 0;
        rc = catalog_walk(c, a->last, aged_sample, a, err);
        drop_aged(a);
    } while (!rc && a->n == sizeof a->ids / sizeof a->ids[0]);
    if (!rc) {
        dropped_since(v, &before, ret);
        ret->samples = a->dropped;
    }
    catalog_unref(c);
    return rc;
}

int volume_evict_older(struct volume *v, uint64_t age_ns, volume_dropped_fn *fn, void *arg,
                       struct drop_result *ret, struct err *err)
{
    if (!gate_enter(&v->gate))
        return err_set(err, ERR_CANCELLED, "the volume is closing");
    struct aged *a = xcalloc(1, sizeof *a);
    a->v = v;
    a->goes = is_older;
    a->before_ns = clock_wall_ns() - (int64_t)age_ns;
    a->fn = fn;
    a->arg = arg;
    int rc = evict_aged(v, a, ret, err);
    free(a);
    gate_leave(&v->gate);
    return rc;
}

int volume_evict_unused(struct volume *v, uint64_t age_ns, volume_dropped_fn *fn, void *arg,
                        struct drop_result *ret, struct err *err)
{
    if (!gate_enter(&v->gate))
        return err_set(err, ERR_CANCELLED, "the volume is closing");
    struct aged *a = xcalloc(1, sizeof *a);
    a->v = v;
    a->goes = is_unused;
    a->age_ns = age_ns;
    a->fn = fn;
    a->arg = arg;
    {
        ACQUIRE(&v->lock);
        a->order = v->order ? epoch_order_ref(v->order) : NULL;
    }
    int rc = evict_aged(v, a, ret, err);
    epoch_order_unref(a->order);
    free(a);
    gate_leave(&v->gate);
    return rc;
}

int volume_evict_to(struct volume *v, uint64_t bytes, struct drop_result *ret, struct err *err)
{
    if (!gate_enter(&v->gate))
        return err_set(err, ERR_CANCELLED, "the volume is closing");
    struct drop_result before;
    cached_now(v, &before);
    cache_evict_to(v->cache, bytes);
    dropped_since(v, &before, ret);
    gate_leave(&v->gate);
    return 0;
}
