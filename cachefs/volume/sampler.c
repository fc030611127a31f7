/*
 * Setting the order of training: parse, number, build, swap.
 *
 * The order is built from the version that is served at that moment and keeps it: a version
 * published later changes names at once, and numbers at the next set_epoch. Building takes about a
 * second per 10 M samples, so a mount does not wait for a long one: it is built on a thread of its
 * own then.
 */
#define LOG_MODULE "volume"
#include "volume-internal.h"

#include "log.h"

#define BUILD_AT_ONCE 200000 /* numbered samples; more of them on a thread */

/* Only one build at a time; readers of the order go on with the old one meanwhile. */
static int claim_order(struct volume *v, struct err *err)
{
    ACQUIRE(&v->lock);
    while (v->ordering && !atomic_load(&v->closing))
        cond_wait(&v->changed, &v->lock);
    if (atomic_load(&v->closing))
        return err_set(err, ERR_CANCELLED, "the volume is closing");
    v->ordering = true;
    return 0;
}

static void end_order(struct volume *v)
{
    ACQUIRE(&v->lock);
    v->ordering = false;
    cond_broadcast(&v->changed);
}

/* Makes `o` (may be NULL) the order for everybody, and tells the listener. */
static void swap_order(struct volume *v, struct epoch_order *o)
{
    struct epoch_order *old;
    volume_order_fn *fn;
    void *arg;
    {
        ACQUIRE(&v->lock);
        old = v->order;
        v->order = o;
        v->order_gen++;
        v->order_error[0] = '\0';
        fn = v->on_order;
        arg = v->on_order_arg;
        v->telling++;
    }
    ahead_set_order(v, o ? epoch_order_ref(o) : NULL);
    if (fn)
        fn(arg);
    {
        ACQUIRE(&v->lock);
        v->telling--;
        cond_broadcast(&v->changed);
    }
    epoch_order_unref(old);
}

void volume_on_order(struct volume *v, volume_order_fn *fn, void *arg)
{
    ACQUIRE(&v->lock);
    v->on_order = fn;
    v->on_order_arg = arg;
    while (!fn && v->telling)
        cond_wait(&v->changed, &v->lock);
}

static bool current_spec(struct volume *v, struct order_spec *ret, uint64_t *ret_gen)
{
    ACQUIRE(&v->lock);
    *ret = v->spec;
    *ret_gen = v->order_gen + 1;
    return v->has_spec;
}

static int build_and_swap(struct volume *v, struct err *err)
{
    struct order_spec spec;
    uint64_t gen;
    struct epoch_order *o = NULL;
    if (current_spec(v, &spec, &gen)) {
        struct catalog *c = volume_catalog(v);
        int rc = epoch_order_new(&o, &spec, c, v->conf.dir, gen, err);
        catalog_unref(c);
        if (rc)
            return -1;
    }
    swap_order(v, o);
    return 0;
}

/* Builds the order of v->spec now. */
static int sampler_apply(struct volume *v, struct err *err)
{
    if (!gate_enter(&v->gate))
        return err_set(err, ERR_CANCELLED, "the volume is closing");
    int rc = claim_order(v, err);
    if (!rc) {
        rc = build_and_swap(v, err);
        end_order(v);
    }
    gate_leave(&v->gate);
    return rc;
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
    if (!v->has_spec)
        return 0;
    if (catalog_info(v->versions[0])->numbered <= BUILD_AT_ONCE)
        return sampler_apply(v, err);
    int error = thread_start(&v->order_thread, "order", build_main, v);
    if (error)
        return err_sys(err, error, "start the thread that builds the order");
    v->order_started = true;
    return 0;
}

void sampler_close(struct volume *v)
{
    if (v->order_started)
        pthread_join(v->order_thread, NULL);
    v->order_started = false;
}

int volume_set_sampler(struct volume *v, const char *text, struct err *err)
{
    struct order_spec spec = {0};
    bool on = text && *text;
    if (on && order_spec_parse(&spec, text, err))
        return -1;
    struct order_spec old_spec;
    bool had_spec;
    {
        ACQUIRE(&v->lock);
        old_spec = v->spec;
        had_spec = v->has_spec;
        v->spec = spec;
        v->has_spec = on;
    }
    if (!number_anew(v, err) && !sampler_apply(v, err))
        return 0;
    ACQUIRE(&v->lock);
    v->spec = old_spec;
    v->has_spec = had_spec;
    return -1;
}

int volume_set_epoch(struct volume *v, uint64_t epoch, struct err *err)
{
    if (version_take_newer(v, err))
        return -1;
    uint64_t before;
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
