/*
 * Setting the order of training and this node's share: parse, number, build, swap.
 *
 * Both are built from the version that is served at that moment and keep it: a version
 * published later changes names at once, and numbers at the next set_epoch. Building takes about a
 * second per 10 M samples, so a mount does not wait for a long one: it is built on a thread of its
 * own then.
 */
#define LOG_MODULE "volume"
#include "volume-internal.h"

#include "log.h"

#define BUILD_AT_ONCE 200000 /* numbered samples; more of them on a thread */

/* One at a time: settings, since one that fails goes back to what was before; and builds, whoever
 * asked. Readers of the order go on with the old one meanwhile. */
static int claim(struct volume *v, bool *taken, struct err *err)
{
    ACQUIRE(&v->lock);
    while (*taken && !atomic_load(&v->closing))
        cond_wait(&v->changed, &v->lock);
    if (atomic_load(&v->closing))
        return err_set(err, ERR_CANCELLED, "the volume is closing");
    *taken = true;
    return 0;
}

static void disclaim(struct volume *v, bool *taken)
{
    ACQUIRE(&v->lock);
    *taken = false;
    cond_broadcast(&v->changed);
}

/* Makes `o` the order and `share` the share for everybody (either may be NULL), and tells the
 * listener. `stays`: what is kept here stays what it was. */
static void swap_order(struct volume *v, struct epoch_order *o, struct share *share, bool stays)
{
    struct epoch_order *old;
    struct share *dropped = NULL;
    volume_order_fn *fn;
    void *arg;
    {
        ACQUIRE(&v->lock);
        old = v->order;
        v->order = o;
        if (v->share == share) {
            dropped = share; /* two references to one */
        } else if (v->stays) {
            dropped = v->share;
            v->share = share;
            v->stays = stays;
        } else {
            dropped = v->share_before;
            v->share_before = v->share;
            v->share = share;
            v->stays = stays;
        }
        v->order_gen++;
        v->order_error[0] = '\0';
        fn = v->on_order;
        arg = v->on_order_arg;
        v->telling++;
    }
    ahead_set_order(v, o ? epoch_order_ref(o) : NULL);
    epochs_set_order(v, o, share);
    if (fn)
        fn(arg);
    {
        ACQUIRE(&v->lock);
        v->telling--;
        cond_broadcast(&v->changed);
    }
    epoch_order_unref(old);
    share_unref(dropped);
}

void volume_on_order(struct volume *v, volume_order_fn *fn, void *arg)
{
    ACQUIRE(&v->lock);
    v->on_order = fn;
    v->on_order_arg = arg;
    while (!fn && v->telling)
        cond_wait(&v->changed, &v->lock);
}

static void current_division(struct volume *v, struct share_conf *ret, uint64_t *ret_gen)
{
    ACQUIRE(&v->lock);
    *ret = v->division;
    ret->spec = v->spec;
    ret->has_spec = v->has_spec;
    *ret_gen = v->order_gen + 1;
}

/* The share that `conf` asks for: the one in use, or a new one, whose pins are then set unless what
 * is kept here stays what it is. */
static int build_share(struct volume *v, const struct share_conf *conf, struct catalog *c,
                       struct share **ret, bool *ret_stays, struct err *err)
{
    struct share *old = volume_share(v);
    *ret = NULL;
    *ret_stays = false;
    if (!conf->partitions)
        cache_expect(v->cache, 0, 0);
    if (!conf->partitions || (old && share_serves(old, conf, c))) {
        *ret = conf->partitions ? take_ptr(&old) : NULL;
        share_unref(old);
        return 0;
    }
    share_unref(old);
    if (share_new(ret, conf, c, v->conf.dir, err))
        return -1;
    *ret_stays = share_stays(v, *ret);
    if (*ret_stays || !share_pin(*ret, v->cache, err))
        return 0;
    share_unref(*ret);
    return -1;
}

/* The version that an order begun in an earlier process is of, or the one served. A reference. */
static struct catalog *version_for_order(struct volume *v, bool has_spec)
{
    ACQUIRE(&v->lock);
    bool first = has_spec && !v->order_begun;
    v->order_begun = v->order_begun || has_spec;
    for (size_t i = 0; first && v->conf.order_version && i < VERSIONS_KEPT && v->versions[i]; i++)
        if (strcmp(catalog_info(v->versions[i])->digest, v->conf.order_version) == 0)
            return catalog_ref(v->versions[i]);
    return catalog_ref(v->versions[0]);
}

static void note_version(struct volume *v, struct catalog *c)
{
    if (v->conf.order_version)
        snprintf(v->conf.order_version, CATALOG_DIGEST + 1, "%s", c ? catalog_info(c)->digest : "");
}

uint64_t sampler_last_epoch(const struct order_spec *s)
{
    return s->epochs > 1 ? s->epoch + s->epochs - 1 : UINT64_MAX;
}

static uint64_t last_epoch(struct volume *v)
{
    ACQUIRE(&v->lock);
    return v->last_epoch;
}

static int build_and_swap(struct volume *v, struct err *err)
{
    struct share_conf division;
    struct epoch_order *o = NULL;
    struct share *share = NULL;
    bool stays = false;
    uint64_t gen;
    current_division(v, &division, &gen);
    struct catalog *c = version_for_order(v, division.has_spec);
    int rc = 0;
    if (division.has_spec)
        rc = epoch_order_new(&o, &division.spec, &division, c, v->conf.dir, gen, err);
    if (!rc && o)
        o->last_epoch = last_epoch(v);
    if (!rc)
        rc = build_share(v, &division, c, &share, &stays, err);
    if (!rc)
        note_version(v, division.has_spec ? c : NULL);
    catalog_unref(c);
    if (rc)
        epoch_order_unref(o);
    else
        swap_order(v, o, share, stays);
    return rc;
}

/* Builds the order of v->spec now. */
static int sampler_apply(struct volume *v, struct err *err)
{
    if (!gate_enter(&v->gate))
        return err_set(err, ERR_CANCELLED, "the volume is closing");
    int rc = claim(v, &v->ordering, err);
    if (!rc) {
        rc = build_and_swap(v, err);
        disclaim(v, &v->ordering);
    }
    gate_leave(&v->gate);
    return rc;
}

/* Order claimed: no other share takes its place meanwhile. */
static int pin_moved(struct volume *v, struct err *err)
{
    {
        ACQUIRE(&v->lock);
        if (!v->stays)
            return 0;
    }
    struct share *s = volume_share(v);
    int rc = share_pin(s, v->cache, err);
    share_unref(s);
    if (rc)
        return -1;
    ACQUIRE(&v->lock);
    v->stays = false;
    return 0;
}

int share_move(struct volume *v, struct err *err)
{
    if (claim(v, &v->ordering, err))
        return -1;
    int rc = pin_moved(v, err);
    disclaim(v, &v->ordering);
    return rc;
}

void share_follow(struct volume *v)
{
    struct err err = {0};
    struct share *s = volume_share(v);
    struct catalog *now = volume_catalog(v);
    bool stale = s && !same_version(s->catalog, now);
    share_unref(s);
    catalog_unref(now);
    if (!stale)
        return;
    struct share_conf division;
    uint64_t gen;
    current_division(v, &division, &gen);
    if (division.has_spec) /* with the next epoch; until then nothing of it is waited for */
        cache_expect(v->cache, 0, 0);
    else if (sampler_apply(v, &err) && err.class != ERR_CANCELLED)
        log_warn(v->conf.log, "this node's share is that of an older version: %s", err.msg);
}

static void *build_main(void *arg)
{
    struct volume *v = arg;
    struct err err = {0};
    if (sampler_apply(v, &err) && err.class != ERR_CANCELLED) {
        log_error(v->conf.log, "no order to read ahead by: %s", err.msg);
        ACQUIRE(&v->lock);
        snprintf(v->order_error, sizeof v->order_error, "%.*s", (int)sizeof v->order_error - 1,
                 err.msg);
    }
    return NULL;
}

int sampler_start(struct volume *v, struct err *err)
{
    if (!v->has_spec && !v->division.partitions)
        return 0;
    if (catalog_info(v->versions[0])->numbered <= BUILD_AT_ONCE)
        return sampler_apply(v, err);
    int error = thread_start(&v->order_thread, "order", build_main, v);
    if (error)
        return err_thread(err, error, "start the thread that builds the order");
    v->order_started = true;
    return 0;
}

void sampler_close(struct volume *v)
{
    if (v->order_started)
        pthread_join(v->order_thread, NULL);
    v->order_started = false;
}

/*
 * Each rank of a node says that an epoch begins, one after the other. What the first of them built
 * serves them all: the order of that very epoch, of the version now served, that is not half read
 * yet. (Once it is, whoever says so begins it again.)
 */
static bool begun_already(struct volume *v, const struct order_spec *spec)
{
    struct epoch_order *o = NULL;
    struct catalog *now = volume_catalog(v);
    {
        ACQUIRE(&v->lock);
        bool same = v->order && v->has_spec && !v->ordering &&
                    order_spec_same(&v->order->spec, spec) && order_spec_same(&v->spec, spec);
        o = same ? epoch_order_ref(v->order) : NULL;
    }
    bool begun = o && same_version(o->catalog, now) && ahead_furthest(v) < o->length / 2;
    epoch_order_unref(o);
    catalog_unref(now);
    return begun;
}

void volume_served_as(struct volume *v, dev_t dev)
{
    atomic_store(&v->sources.served_as, dev);
}

/* The sampler before stays: the version that is served may be numbered by the other one's list. */
static void number_back(struct volume *v)
{
    struct err err = {0};
    if (number_anew(v, &err) && err.class != ERR_CANCELLED)
        log_warn(v->conf.log, "the samples are not numbered as the sampler wants them: %s",
                 err.msg);
}

/* NULL: none. */
static int set_spec(struct volume *v, const struct order_spec *spec, struct err *err)
{
    if (spec && begun_already(v, spec))
        return 0;
    struct order_spec old_spec;
    bool had_spec;
    uint64_t old_last;
    {
        ACQUIRE(&v->lock);
        old_spec = v->spec;
        had_spec = v->has_spec;
        old_last = v->last_epoch;
        v->spec = spec ? *spec : (struct order_spec){0};
        v->has_spec = spec;
        v->last_epoch = sampler_last_epoch(&v->spec);
    }
    if (!number_anew(v, err) && !sampler_apply(v, err))
        return 0;
    {
        ACQUIRE(&v->lock);
        v->spec = old_spec;
        v->has_spec = had_spec;
        v->last_epoch = old_last;
    }
    number_back(v);
    return -1;
}

int volume_set_sampler(struct volume *v, const char *text, struct err *err)
{
    struct order_spec spec = {0};
    bool on = text && *text;
    if (on && order_spec_parse(&spec, text, err))
        return -1;
    if (claim(v, &v->setting, err))
        return -1;
    int rc = set_spec(v, on ? &spec : NULL, err);
    disclaim(v, &v->setting);
    return rc;
}

/* --- the share ---------------------------------------------------------------------------------
 */

int division_parse(struct share_conf *c, const char *partition, const char *strategy,
                   const char *weights, struct err *err)
{
    if (weights && owner_weights_parse(&c->weights, weights, err))
        return -1;
    uint32_t before = c->partitions;
    if (partition && !*partition)
        c->partition = c->partitions = 0;
    else if (partition && owner_share_parse(partition, &c->partition, &c->partitions, err))
        return -1;
    if (!weights && before != c->partitions)
        c->weights = (struct owner_weights){0};
    if (!strategy)
        return 0;
    bool given = *strategy && strcmp(strategy, "auto") != 0;
    if (given && owner_strategy_parse(&c->strategy, strategy, err))
        return -1;
    c->has_strategy = given;
    if (!given)
        c->strategy = OWNER_SEQUENCE;
    return 0;
}

static int change_division(struct volume *v, const char *partition, const char *strategy,
                           const char *weights, struct err *err)
{
    struct share_conf before, now;
    {
        ACQUIRE(&v->lock);
        before = now = v->division;
    }
    if (division_parse(&now, partition, strategy, weights, err))
        return -1;
    {
        ACQUIRE(&v->lock);
        v->division = now;
    }
    if (!sampler_apply(v, err))
        return 0;
    ACQUIRE(&v->lock);
    v->division = before;
    return -1;
}

static int set_division(struct volume *v, const char *partition, const char *strategy,
                        const char *weights, struct err *err)
{
    if (claim(v, &v->setting, err))
        return -1;
    int rc = change_division(v, partition, strategy, weights, err);
    disclaim(v, &v->setting);
    return rc;
}

int volume_set_partition(struct volume *v, const char *text, struct err *err)
{
    return set_division(v, text, /*strategy*/ NULL, /*weights*/ NULL, err);
}

int volume_set_strategy(struct volume *v, const char *text, struct err *err)
{
    return set_division(v, /*partition*/ NULL, text, /*weights*/ NULL, err);
}

int volume_set_weights(struct volume *v, const char *text, struct err *err)
{
    return set_division(v, /*partition*/ NULL, /*strategy*/ NULL, text, err);
}

int division_for(struct volume *v, const struct warmup_conf *w, struct share_conf *ret,
                 struct err *err)
{
    uint64_t gen;
    current_division(v, ret, &gen);
    if (w->sampler) {
        char list[sizeof ret->spec.list];
        memcpy(list, ret->spec.list, sizeof list);
        if (order_spec_parse(&ret->spec, w->sampler, err))
            return -1;
        if (*ret->spec.list && strcmp(list, ret->spec.list) != 0)
            return err_set(err, ERR_USAGE,
                           "sampler: list=%s: this version is numbered otherwise (mount with that "
                           "sampler, or set it for the mount, first)",
                           ret->spec.list);
        ret->has_spec = true;
        if (!w->partition && !ret->partitions && ret->spec.has_rank &&
            order_spec_deals(&ret->spec)) { /* it says which node this is */
            uint32_t each = ret->spec.ranks_per_node ? ret->spec.ranks_per_node : 1;
            ret->partition = ret->spec.rank / each;
            ret->partitions = (ret->spec.ranks + each - 1) / each;
        }
    }
    if (division_parse(ret, w->partition, w->strategy, /*weights*/ NULL, err))
        return -1;
    if (w->strategy && !ret->partitions)
        return err_set(err, ERR_USAGE,
                       "strategy %s: of which partition? (give --partition I/P, or set it for the "
                       "mount)",
                       w->strategy);
    return 0;
}

/* --- the epoch ---------------------------------------------------------------------------------
 */

static int set_spec_epoch(struct volume *v, uint64_t epoch, struct err *err)
{
    uint64_t before;
    struct order_spec spec;
    {
        ACQUIRE(&v->lock);
        spec = v->spec;
    }
    spec.epoch = epoch;
    if (begun_already(v, &spec))
        return 0;
    {
        ACQUIRE(&v->lock);
        before = v->spec.epoch;
        v->spec.epoch = epoch;
    }
    if (!sampler_apply(v, err))
        return 0;
    ACQUIRE(&v->lock);
    v->spec.epoch = before;
    return -1;
}

int volume_set_epoch(struct volume *v, uint64_t epoch, struct err *err)
{
    if (version_take_newer(v, err) || claim(v, &v->setting, err))
        return -1;
    int rc = set_spec_epoch(v, epoch, err);
    disclaim(v, &v->setting);
    return rc;
}

uint64_t volume_order_length(struct volume *v, uint64_t *ret_gen)
{
    ACQUIRE(&v->lock);
    if (ret_gen)
        *ret_gen = v->order_gen;
    return v->order ? v->order->length : 0;
}

int volume_order_ids(struct volume *v, uint64_t first, size_t n, uint64_t *ids, struct err *err)
{
    struct epoch_order *o;
    {
        ACQUIRE(&v->lock);
        o = v->order ? epoch_order_ref(v->order) : NULL;
    }
    int rc = 0;
    if (!o || first > o->length || n > o->length - first)
        rc = err_set(err, ERR_USAGE, "order: positions %llu+%zu are past its end",
                     (unsigned long long)first, n);
    else if (n > 0)
        memcpy(ids, (const uint64_t *)o->ids.data + first, n * sizeof *ids);
    epoch_order_unref(o);
    return rc;
}
