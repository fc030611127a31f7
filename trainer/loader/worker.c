/* Threads that read and decode: each claims a few samples of the oldest batch that has some left.
 */
#include <errno.h>
#include <stdio.h>

#include "clock.h"
#include "loader-internal.h"
#include "mem.h"

/* What memory gives at least, where nothing has to be waited for. */
#define BRISK_BYTES_NS 4
#define BRISK_EACH_NS  1000

struct claim {
    struct slot *slot;
    uint32_t first, n;
};

/* The last samples of a batch are waited for, so that claims are small. Where bytes are there at
 * once the claim is what costs: so large that the buffers hold four for each core. */
void worker_runs(struct loader *l)
{
    uint32_t threads = l->o.threads, active = threads < l->cores ? threads : l->cores;
    bool raw = l->o.format == LOADER_RAW;
    uint32_t most = raw ? 64 : 8, run = l->o.batch / ((raw ? 2 : 4) * threads);
    uint64_t brisk = (uint64_t)l->o.batch * l->o.depth / (4 * active);
    l->run = run < 1 ? 1 : run > most ? most : run;
    l->brisk_run = brisk < l->run ? l->run : brisk > most ? most : (uint32_t)brisk;
}

static bool claim_of(struct loader *l, struct claim *ret)
{
    struct slot *oldest = NULL;
    for (uint32_t i = 0; i < l->o.depth; i++) {
        struct slot *s = &l->slots[i];
        if (s->state == SLOT_FILLING && s->claimed < s->wanted &&
            (!oldest || s->sequence < oldest->sequence))
            oldest = s;
    }
    if (!oldest)
        return false;
    uint32_t left = oldest->wanted - oldest->claimed, most = l->brisk ? l->brisk_run : l->run;
    uint32_t n = left < most ? left : most;
    *ret = (struct claim){oldest, oldest->claimed, n};
    oldest->claimed += n;
    return true;
}

/* As many threads are at it as there are cores, and what they copy is in memory: one more would
 * only take its core from one of them, and all would wait for that one's samples. */
static bool crowded(const struct loader *l)
{
    return l->brisk && l->busy >= l->cores;
}

/* Waits for something to do. False: the loader ends. */
static bool take_claim(struct worker *w, struct claim *ret)
{
    struct loader *l = w->loader;
    while (!l->stop) {
        bool aside = crowded(l);
        if (!l->restart && !aside && claim_of(l, ret))
            return true;
        if (!l->restart && !aside && plan_open(l))
            continue;
        uint64_t began = clock_mono_ns();
        if (aside)
            wait_aside(l);
        else if (!wait_awake(l, &w->sleeps))
            cond_wait(&l->work, &l->lock);
        atomic_fetch_add_explicit(&w->counts.idle_ns, clock_mono_ns() - began,
                                  memory_order_relaxed);
    }
    return false;
}

/* --- one sample ------------------------------------------------------------------------------- */

static void *scratch_room(void *arg, size_t size, struct err *err)
{
    struct worker *w = arg;
    (void)err;
    if (size > w->scratch_cap || !w->scratch) {
        free(w->scratch);
        w->scratch_cap = size + size / 4 + 64;
        w->scratch = xmalloc(w->scratch_cap);
    }
    return w->scratch;
}

static void *raw_room(void *arg, size_t size, struct err *err)
{
    struct worker *w = arg;
    void *at = piece_room(&w->piece, &w->loader->o, size, err);
    if (!at && !err->sys)
        err->sys = ENOMEM; /* no fault of the sample's */
    return at;
}

static int fill_raw(struct worker *w, struct slot *s, uint32_t i, struct err *err)
{
    struct loader *l = w->loader;
    void *at;
    size_t len;
    if (reader_read(&l->reader, s->numbers[i], w->hand, &w->counts, raw_room, w, &at, &len, err))
        return -1;
    s->data[i] = at;
    s->sizes[i] = len;
    return 0;
}

static int fill_pixels(struct worker *w, struct slot *s, uint32_t i, uint64_t *decoding,
                       struct err *err)
{
    struct loader *l = w->loader;
    struct augment a = {.crop = l->o.crop,
                        .out_w = l->o.width,
                        .out_h = l->o.height,
                        .resize = l->o.resize,
                        .flip = !l->o.no_flip,
                        .seed = l->o.seed,
                        .epoch = s->batch.epoch,
                        .number = s->numbers[i]};
    struct region r;
    void *at;
    size_t len;
    if (reader_read(&l->reader, s->numbers[i], w->hand, &w->counts, scratch_room, w, &at, &len,
                    err))
        return -1;
    uint64_t began = clock_mono_ns();
    int rc = decoder_run(w->decoder, at, len, &a, l->o.max_pixels, &r, err);
    if (!rc)
        resample_run(w->resample, &r, l->o.width, l->o.height,
                     l->o.format == LOADER_FLOAT ? &l->normal : NULL,
                     s->pixels + i * l->sample_size);
    *decoding += clock_mono_ns() - began;
    return rc;
}

bool loader_bad_sample(const struct err *why)
{
    /* What a system call refused (an errno) may be there the next time: it is not what is in it. */
    return (why->class == ERR_CORRUPT || why->class == ERR_LIMIT) && !why->sys;
}

/* The lock is held. */
static void note_bad(struct loader *l, struct slot *s, uint32_t i, const struct err *why)
{
    if (l->o.policy == LOADER_SKIP && loader_bad_sample(why)) {
        struct loader_skip *kept = &l->skips[l->n_skips++ % SKIPS_KEPT];
        kept->number = s->numbers[i];
        snprintf(kept->why, sizeof kept->why, "%.*s", (int)sizeof kept->why - 1, why->msg);
        l->skipped++;
        s->bad[i] = true;
    } else if (!s->failed || i < s->failed_at) {
        s->failed = true;
        s->failed_at = i;
        s->why = *why;
    }
}

/* True: brisk, all of it was in packs and in memory. */
static bool fill(struct worker *w, const struct claim *c)
{
    struct loader *l = w->loader;
    uint64_t began = clock_mono_ns(), decoding = 0;
    uint64_t had = atomic_load_explicit(&w->counts.direct_bytes, memory_order_relaxed);
    struct err why = {0};
    piece_begin(&w->piece, c->slot);
    for (uint32_t i = c->first, end = i + c->n; i < end; i++) {
        if (l->direct && i + 1 < end)
            direct_hint(l->direct, w->hand, c->slot->numbers[i + 1]);
        int rc = l->o.format == LOADER_RAW ? fill_raw(w, c->slot, i, &why)
                                           : fill_pixels(w, c->slot, i, &decoding, &why);
        if (!rc)
            continue;
        err_wrap(&why, "sample %llu (%s)", (unsigned long long)c->slot->numbers[i],
                 file_list_get(&l->index.files, c->slot->numbers[i]));
        ACQUIRE(&l->lock);
        note_bad(l, c->slot, i, &why);
        why = (struct err){0};
    }
    if (l->direct)
        direct_drop(w->hand);
    uint64_t all = clock_mono_ns() - began;
    atomic_fetch_add_explicit(&w->counts.decode_ns, decoding, memory_order_relaxed);
    atomic_fetch_add_explicit(&w->counts.read_ns, all - decoding, memory_order_relaxed);
    uint64_t bytes = atomic_load_explicit(&w->counts.direct_bytes, memory_order_relaxed) - had;
    return all < c->n * BRISK_EACH_NS + bytes / BRISK_BYTES_NS;
}

/* The lock is held, and dropped meanwhile. */
static void work_off(struct worker *w, const struct claim *c)
{
    struct loader *l = w->loader;
    l->busy++;
    lock_drop(&l->lock);
    bool brisk = fill(w, c);
    lock_take(&l->lock);
    l->brisk = brisk;
    c->slot->done += c->n;
    if (c->slot->done == c->slot->wanted && !l->stop) {
        lock_drop(&l->lock);
        slot_end(c->slot, l->sample_size); /* the last one: nobody else touches it */
        lock_take(&l->lock);
        c->slot->state = SLOT_READY;
        tell_consumer(l);
    }
    if (--l->busy == 0 && l->restart)
        tell_consumer(l);
}

void *worker_main(void *arg)
{
    struct worker *w = arg;
    struct loader *l = w->loader;
    struct claim c;
    lock_take(&l->lock);
    while (take_claim(w, &c))
        work_off(w, &c);
    lock_drop(&l->lock);
    return NULL;
}

bool worker_help(struct loader *l)
{
    struct claim c;
    if (l->o.format != LOADER_RAW || !l->direct || l->stop || l->restart)
        return false;
    plan_open_known(l);
    if (!claim_of(l, &c))
        return false;
    for (uint32_t i = c.first; i < c.first + c.n; i++)
        if (!direct_knows(l->direct, c.slot->numbers[i])) {
            c.slot->claimed -= c.n;
            return false;
        }
    work_off(&l->helper, &c);
    return true;
}
