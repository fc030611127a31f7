/* Pictures of a folder, by the loader (loader.h). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "batch-internal.h"
#include "clock.h"
#include "hash.h"
#include "mem.h"

#define LOOK_NS (100 * NS_PER_MS) /* how often it is asked whether to wait on */

struct pictures {
    struct batches base;
    struct batch_options of;
    struct loader *loader;
    const struct loader_batch *held;
    bool resumed; /* the first pass goes on where a token said */
    bool over;    /* all of the pass is given: the loader's next batch is of the one after it */
    bool behind;  /* threads still read for another pass than `pass` */
    uint64_t pass;
    uint64_t skipped, told; /* of the batches that were given; what skips() has told of */
};

static int begin(struct batches *b, uint64_t pass, struct err *err)
{
    struct pictures *p = (struct pictures *)b;
    loader_release(p->loader, p->held);
    p->held = NULL;
    if (p->resumed) {
        struct loader_info info;
        loader_info(p->loader, &info);
        p->resumed = false;
        p->over = info.epoch > pass; /* the token was that of its end */
        return 0;
    }
    p->pass = pass;
    p->over = false;
    int got = loader_set_epoch_within(p->loader, pass, 0, err);
    p->behind = got == LOADER_LATE; /* next() waits for them, as it can be stopped */
    return p->behind ? 0 : got;
}

static uint64_t patience(const struct pictures *p)
{
    return p->of.ends ? LOOK_NS : UINT64_MAX;
}

static bool ends(const struct pictures *p)
{
    return p->of.ends && p->of.ends(p->of.arg);
}

/* LOADER_LATE: nothing is waited for. */
static int catch_up(struct pictures *p, struct err *err)
{
    int got = LOADER_LATE;
    if (!p->behind)
        return 0;
    while (got == LOADER_LATE && !ends(p))
        got = loader_set_epoch_within(p->loader, p->pass, patience(p), err);
    p->behind = got == LOADER_LATE;
    return got;
}

/* What to do about a picture that is no good; any other cause speaks for itself. */
static int name_bad(const struct err *why, struct err *err)
{
    if (err)
        *err = *why;
    if (!loader_bad_sample(why))
        return -1;
    return err_set(err, why->class, "%s (--skip_bad leaves such pictures out)", why->msg);
}

/* What was left out of the batch in hand, `own` samples of which are this rank's; not the sample of
 * another one that makes the ranks equally long, if it is that which was. */
static uint64_t own_skipped(const struct pictures *p, size_t own)
{
    const struct loader_batch *b = p->held;
    struct loader_info info;
    loader_info(p->loader, &info);
    uint64_t rest = info.samples % info.ranks;
    bool filled = !p->of.train && rest && info.rank >= rest && b->position == info.epoch_samples;
    return filled && own == b->n ? b->skipped - 1 : b->skipped;
}

static int next(struct batches *b, struct net_batch *ret, struct err *err)
{
    struct pictures *p = (struct pictures *)b;
    loader_release(p->loader, p->held);
    p->held = NULL;
    struct err why = {0};
    if (p->over)
        return 0;
    int got = catch_up(p, err);
    if (got)
        return got < 0 ? -1 : BATCH_STOPPED;
    do
        got = loader_next_within(p->loader, patience(p), &p->held, &why);
    while (got == LOADER_LATE && !ends(p));
    if (got == LOADER_LATE)
        return BATCH_STOPPED;
    if (got < 0)
        return name_bad(&why, err);
    size_t own = got ? batch_own(&p->of, p->held->numbers, p->held->n) : 0;
    p->over = got == 0 || (own == 0 && p->held->n);
    p->skipped += got ? own_skipped(p, own) : 0;
    if (p->over)
        return 0;
    *ret = (struct net_batch){.n = own, .x = p->held->pixels, .labels = p->held->labels};
    return 1;
}

static int token(struct batches *b, char ret[BATCH_TOKEN_LEN], struct err *err)
{
    _Static_assert(LOADER_TOKEN_TEXT <= BATCH_TOKEN_LEN, "a token fits");
    return loader_token(((struct pictures *)b)->loader, ret, err);
}

static void figures(struct batches *b, struct batch_figures *ret)
{
    struct loader_figures f;
    struct loader_info info;
    const struct pictures *p = (const struct pictures *)b;
    loader_figures(p->loader, &f);
    loader_info(p->loader, &info);
    *ret = (struct batch_figures){.waited = f.waited_ns,
                                  .read = f.read_ns,
                                  .decoded = f.decode_ns,
                                  .direct = f.direct_samples,
                                  .mounted = f.mount_samples,
                                  .skipped = p->skipped,
                                  .left = p->over ? 0 : info.left_batches};
}

static const char *class_name(const struct batches *b, int label)
{
    return loader_class(((const struct pictures *)b)->loader, (uint32_t)label);
}

static uint32_t empty(const struct batches *b, const char **ret_first)
{
    const struct loader *l = ((const struct pictures *)b)->loader;
    return loader_empty_classes(l, ret_first);
}

static uint32_t skips(struct batches *b, struct loader_skip *ret, uint32_t max)
{
    struct pictures *p = (struct pictures *)b;
    struct loader_figures f;
    uint32_t own = 0;
    loader_figures(p->loader, &f);
    uint64_t more = f.skipped - p->told;
    p->told = f.skipped;
    uint32_t n = loader_skips(p->loader, ret, more < max ? (uint32_t)more : max);
    for (uint32_t i = 0; i < n; i++)
        if (p->of.train || ret[i].number % p->of.ranks == p->of.rank)
            ret[own++] = ret[i];
    return own;
}

static bool rests(struct batches *b, uint64_t wait_ns)
{
    return loader_rest(((struct pictures *)b)->loader, wait_ns);
}

static void pictures_close(struct batches *b)
{
    struct pictures *p = (struct pictures *)b;
    loader_close(p->loader);
    free(p);
}

static uint64_t digest_of(const struct loader *l, uint64_t samples)
{
    uint64_t digest = 0;
    for (uint64_t i = 0; i < samples; i++) {
        const char *path = loader_path(l, i);
        digest = hash64(path, strlen(path), digest);
    }
    return digest;
}

static const struct batches_ops ops = {begin, next,  token, figures,       class_name,
                                       empty, skips, rests, pictures_close};

int batch_pictures(struct batches **ret, const struct batch_options *o, struct err *err)
{
    char spec[1400];
    struct loader_options lo;
    struct order_spec sampler;
    if (batch_spec(o, spec, sizeof spec, err))
        return -1;
    loader_options_init(&lo);
    lo.dir = o->data;
    lo.sampler = spec;
    lo.resume = o->resume;
    lo.batch = (uint32_t)o->batch;
    lo.epochs = o->passes;
    lo.threads = o->threads;
    lo.crop = o->train ? LOADER_CROP_RANDOM : LOADER_CROP_CENTRE;
    lo.height = (uint32_t)o->height;
    lo.width = (uint32_t)o->width;
    lo.seed = o->seed;
    lo.policy = o->skip_bad ? LOADER_SKIP : LOADER_FAIL;
    lo.depth = 3; /* one is the consumer's */
    lo.quiet_mount = !o->train;
    lo.memory = o->memory;
    struct pictures *p = xcalloc(1, sizeof *p);
    p->base.ops = &ops;
    p->resumed = o->resume != NULL;
    p->of = *o;
    if (loader_open(&p->loader, &lo, err)) {
        free(p);
        return err_wrap(err, "%s", batch_option(o));
    }
    struct loader_info info;
    loader_info(p->loader, &info);
    p->base.samples = info.samples;
    p->base.digest = digest_of(p->loader, info.samples);
    p->base.pass_batches = info.epoch_batches;
    p->base.whole_batches = order_spec_parse(&sampler, spec, NULL) == 0 && sampler.drop_last &&
                            sampler.kind != ORDER_TORCH_DISTRIBUTED;
    p->base.shape =
        (struct model_shape){.h = o->height, .w = o->width, .c = 3, .classes = (int)info.classes};
    *ret = &p->base;
    return 0;
}
