/* The contract: open and close. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "clock.h"
#include "guard.h"
#include "loader-internal.h"
#include "mem.h"

static const float imagenet_mean[3] = {0.485f, 0.456f, 0.406f};
static const float imagenet_std[3] = {0.229f, 0.224f, 0.225f};

void loader_options_init(struct loader_options *o)
{
    *o = (struct loader_options){.height = 224, .width = 224};
    memcpy(o->mean, imagenet_mean, sizeof o->mean);
    memcpy(o->std, imagenet_std, sizeof o->std);
}

/* --- options ---------------------------------------------------------------------------------- */

/* That this process may use; not more than threads may be, however large the machine is. */
static uint32_t cores(void)
{
    cpu_set_t set;
    long n =
        sched_getaffinity(0, sizeof set, &set) ? sysconf(_SC_NPROCESSORS_ONLN) : CPU_COUNT(&set);
    return n < 1 ? 1 : n > THREADS_MAX ? THREADS_MAX : (uint32_t)n;
}

static int check_options(struct loader_options *o, struct err *err)
{
    o->depth = o->depth ? o->depth : 2;
    o->threads = o->threads ? o->threads : cores();
    o->max_pixels = o->max_pixels ? o->max_pixels : 64u << 20;
    o->max_bytes = o->max_bytes ? o->max_bytes : 64u << 20;
    if (!o->dir || !*o->dir)
        return err_set(err, ERR_USAGE, "loader: want a folder of samples");
    if (o->threads > THREADS_MAX || o->depth > DEPTH_MAX || o->batch > BATCH_MAX)
        return err_set(err, ERR_USAGE,
                       "loader: at most %d threads, %d batches in buffers, %u samples a batch",
                       THREADS_MAX, DEPTH_MAX, BATCH_MAX);
    if (o->depth < 2)
        return err_set(err, ERR_USAGE, "loader: want at least 2 batches in buffers");
    if (options_of_pictures(o, err))
        return -1;
    o->resize = o->resize ? o->resize : augment_resize(o->height, o->width);
    return 0;
}

/* The sampler's batches are the loader's. */
static int agree_on_batch(struct loader *l, struct err *err)
{
    uint32_t theirs = l->spec.batch_size, ours = l->o.batch;
    if (ours && theirs > 1 && ours != theirs)
        return err_set(err, ERR_USAGE, "loader: batches of %u, and batch-size=%u of the sampler",
                       ours, theirs);
    l->o.batch = ours ? ours : theirs > 1 ? theirs : 32;
    l->spec.batch_size = l->rest.batch_size = l->o.batch;
    l->o.drop_last |= l->spec.drop_last && l->spec.kind != ORDER_TORCH_DISTRIBUTED;
    return 0;
}

/* What is left of the token's epoch is dealt to the ranks that there are now; the epochs after it
 * are those of this loader's own sampler, whatever seed the token's has. */
static int take_resume(struct loader *l, struct err *err)
{
    if (!l->o.resume || !*l->o.resume)
        return 0;
    if (order_token_parse(&l->token, l->o.resume, err))
        return -1;
    const struct order_spec mine = l->spec;
    struct order_spec *rest = &l->rest;
    *rest = l->token.spec;
    if (l->o.sampler && rest->kind != mine.kind)
        return err_set(err, ERR_USAGE, "resume token: of the sampler %s, not %s",
                       order_kind_name(rest->kind), order_kind_name(mine.kind));
    rest->ranks = mine.ranks;
    rest->rank = mine.rank;
    rest->ranks_per_node = mine.ranks_per_node;
    if (l->o.batch || mine.batch_size > 1) /* the token keeps what its epoch was dealt by */
        rest->batch_size = mine.batch_size;
    rest->has_rank = mine.has_rank;
    rest->has_ranks = mine.has_ranks;
    rest->has_ranks_per_node = mine.has_ranks_per_node;
    memcpy(rest->list, mine.list, sizeof rest->list);
    memcpy(rest->root, mine.root, sizeof rest->root);
    rest->epoch = mine.epoch; /* epochs are counted from there, however often it is resumed */
    rest->epochs = mine.epochs;
    if (!l->o.sampler)
        l->spec = *rest;
    l->spec.batch_size = rest->batch_size;
    l->resumed = true;
    return 0;
}

static char *copy(const char *text)
{
    return text ? xstrdup(text) : NULL;
}

static int take_options(struct loader *l, const struct loader_options *o, struct err *err)
{
    l->o = *o;
    l->o.dir = copy(o->dir);
    l->o.list = copy(o->list);
    l->o.sampler = copy(o->sampler);
    l->o.resume = copy(o->resume);
    if (check_options(&l->o, err) ||
        order_spec_parse(&l->spec, l->o.sampler ? l->o.sampler : "sequence", err) ||
        take_resume(l, err) || agree_on_batch(l, err))
        return -1;
    if (!l->o.list && l->spec.list[0])
        l->o.list = copy(l->spec.list);
    size_t each = l->o.format == LOADER_FLOAT ? sizeof(float) : l->o.format == LOADER_UINT8 ? 1 : 0;
    l->sample_size = 3 * each * l->o.height * l->o.width;
    l->cores = cores();
    worker_runs(l);
    return 0;
}

/* --- open and close --------------------------------------------------------------------------- */

static int open_samples(struct loader *l, struct err *err)
{
    if (index_open(&l->index, l->o.dir, l->o.list, err))
        return -1;
    if (l->resumed && l->token.n != l->index.files.n)
        return err_set(err, ERR_USAGE,
                       "resume token: of a set of %" PRIu64 " samples, here are %zu", l->token.n,
                       l->index.files.n);
    l->dir = open(l->o.dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return l->dir < 0 ? err_sys(err, errno, "open the folder %s", l->o.dir) : 0;
}

/* Without it samples are read as files: no reason to fail, unless nothing else was wanted. */
static int open_direct(struct loader *l, struct err *err)
{
    struct err why = {0};
    l->reader = (struct reader){.index = &l->index,
                                .dir = l->dir,
                                .direct_only = l->o.direct == LOADER_DIRECT_ONLY,
                                .max_bytes = l->o.max_bytes};
    if (l->o.direct == LOADER_DIRECT_OFF)
        return 0;
    if (direct_open(&l->direct, l->o.dir, l->dir, &l->index.files, l->o.verify_always, &why)) {
        snprintf(l->direct_why, sizeof l->direct_why, "%.*s", (int)sizeof l->direct_why - 1,
                 why.msg);
        if (l->reader.direct_only) {
            *err = why;
            return err_wrap(err, "read %s directly", l->o.dir);
        }
        return 0;
    }
    l->reader.direct = l->direct;
    if (l->reader.direct_only)
        direct_wait(l->direct);
    return 0;
}

/* A rest that was dealt to other ranks says nothing of the length of an epoch. */
static int measure_epoch(struct loader *l, uint64_t number, struct err *err)
{
    struct epoch whole = {.number = number};
    if (epoch_prepare(l, &whole, false, err))
        return -1;
    l->epoch_samples = whole.samples;
    epoch_release(&whole);
    return 0;
}

/* The first epoch: what is wrong with the sampler is told here. */
static int open_epoch(struct loader *l, struct err *err)
{
    uint64_t first = l->resumed ? l->token.spec.epoch : l->spec.epoch;
    struct err why = {0};
    struct epoch e = {.number = first};
    l->last_epoch = l->o.epochs ? l->spec.epoch + l->o.epochs : UINT64_MAX;
    if ((l->resumed && measure_epoch(l, first, err)) || epoch_prepare(l, &e, l->resumed, err))
        return -1;
    if (!l->resumed)
        l->epoch_samples = e.samples;
    if (l->resumed && !e.batches && first + 1 < l->last_epoch) { /* it was at its end */
        epoch_release(&e);
        l->past_end = true;
        e.number = ++first;
        if (epoch_prepare(l, &e, false, err))
            return -1;
    }
    if (l->past_end) {
        l->given_token = l->token; /* who goes on from here is to be told of that end, too */
    } else if (order_token_of(e.order, 0, &l->given_token, err)) {
        epoch_release(&e);
        return -1;
    }
    l->plan_epoch = l->give_epoch = first;
    l->epochs[first % 2] = e;
    const struct order_spec *told =
        l->resumed && first == l->token.spec.epoch ? &l->rest : &l->spec;
    l->tell_sampler = !order_spec_same(told, &l->spec);
    if (!l->o.quiet_mount &&
        (mount_tell_sampler(l->dir, told, &why) || mount_tell_epoch(l->dir, first, &why)))
        snprintf(l->mount_why, sizeof l->mount_why, "%.*s", (int)sizeof l->mount_why - 1, why.msg);
    return 0;
}

static int open_slots(struct loader *l, struct err *err)
{
    l->slots = xcalloc(l->o.depth, sizeof *l->slots);
    for (; l->n_slots < l->o.depth; l->n_slots++) {
        l->slots[l->n_slots].batch.slot = l->n_slots;
        if (slot_init(&l->slots[l->n_slots], &l->o, l->sample_size, err)) {
            slot_release(&l->slots[l->n_slots], &l->o);
            return err_wrap(err, "loader: the buffer of a batch");
        }
    }
    return 0;
}

static int open_workers(struct loader *l, struct err *err)
{
    l->workers = xcalloc(l->o.threads, sizeof *l->workers);
    l->helper.loader = l;
    if (l->direct)
        l->helper.hand = direct_hand(l->direct);
    for (uint32_t i = 0; i < l->o.threads; i++) {
        struct worker *w = &l->workers[i];
        w->loader = l;
        if (l->direct)
            w->hand = direct_hand(l->direct);
        if (l->o.format != LOADER_RAW) {
            w->decoder = decoder_new();
            w->resample = resample_new();
        }
        char name[16];
        snprintf(name, sizeof name, "load-%u", i % 1000);
        int error = thread_start(&w->thread, name, worker_main, w);
        if (error)
            return err_thread(err, error, "loader: start a thread");
        w->started = true;
    }
    return 0;
}

int loader_open(struct loader **ret, const struct loader_options *o, struct err *err)
{
    struct loader *l = xcalloc(1, sizeof *l);
    l->dir = -1;
    l->opened_ns = clock_mono_ns();
    lock_init_brief(&l->lock, RANK_VOLUME, "loader");
    cond_init(&l->work);
    cond_init(&l->done);
    cond_init(&l->aside);
    guard_install();
    if (take_options(l, o, err) || open_samples(l, err) || open_slots(l, err) ||
        open_epoch(l, err) || open_direct(l, err)) {
        loader_close(l);
        return -1;
    }
    if (l->o.format == LOADER_FLOAT)
        normal_init(&l->normal, l->o.width, l->o.mean, l->o.std);
    if (open_workers(l, err)) {
        loader_close(l);
        return -1;
    }
    *ret = l;
    return 0;
}

static void end_workers(struct loader *l)
{
    {
        ACQUIRE(&l->lock);
        l->stop = true;
        tell_workers(l);
        cond_broadcast(&l->aside);
    }
    for (uint32_t i = 0; l->workers && i < l->o.threads; i++) {
        struct worker *w = &l->workers[i];
        if (w->started)
            pthread_join(w->thread, NULL);
        decoder_free(w->decoder);
        resample_free(w->resample);
        free(w->scratch);
    }
    free(l->workers);
}

void loader_close(struct loader *l)
{
    if (!l)
        return;
    end_workers(l);
    direct_close(l->direct);
    for (uint32_t i = 0; i < l->n_slots; i++)
        slot_release(&l->slots[i], &l->o);
    free(l->slots);
    for (size_t i = 0; i < 2; i++)
        epoch_release(&l->epochs[i]);
    normal_release(&l->normal);
    index_release(&l->index);
    if (l->dir >= 0)
        close(l->dir);
    free((char *)l->o.dir);
    free((char *)l->o.list);
    free((char *)l->o.sampler);
    free((char *)l->o.resume);
    cond_destroy(&l->work);
    cond_destroy(&l->done);
    cond_destroy(&l->aside);
    lock_destroy(&l->lock);
    free(l);
}
