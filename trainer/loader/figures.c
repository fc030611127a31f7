/* What there is to ask of a loader. */
#include <stdio.h>

#include "loader-internal.h"

_Static_assert(LOADER_TOKEN_TEXT == ORDER_TOKEN_TEXT, "a token is an order's");

void loader_info(struct loader *l, struct loader_info *ret)
{
    ACQUIRE(&l->lock);
    const struct epoch *e = &l->epochs[l->give_epoch % 2];
    uint64_t batches = epoch_batches(l, l->epoch_samples);
    *ret = (struct loader_info){.samples = l->index.files.n,
                                .epoch_samples = l->epoch_samples,
                                .epoch_batches = batches,
                                /* one that is not prepared yet is a whole one */
                                .left_batches = e->order ? e->batches - l->given : batches,
                                .epoch = l->give_epoch,
                                .classes = l->index.n_classes,
                                .empty_classes = l->index.empty,
                                .ranks = l->spec.ranks,
                                .rank = l->spec.rank,
                                .threads = l->o.threads,
                                .depth = l->o.depth,
                                .batch = l->o.batch,
                                .batch_bytes = l->sample_size * l->o.batch};
}

const char *loader_class(const struct loader *l, uint32_t label)
{
    return label < l->index.classes.n ? file_list_get(&l->index.classes, label) : NULL;
}

uint32_t loader_empty_classes(const struct loader *l, const char **ret_first)
{
    if (l->index.empty)
        *ret_first = file_list_get(&l->index.classes, l->index.first_empty);
    return l->index.empty;
}

const char *loader_path(const struct loader *l, uint64_t number)
{
    return number < l->index.files.n ? file_list_get(&l->index.files, number) : NULL;
}

static uint64_t get(const _Atomic uint64_t *c)
{
    return atomic_load_explicit(c, memory_order_relaxed);
}

static void add_counts(struct loader_figures *f, const struct counts *c)
{
    f->read_ns += get(&c->read_ns);
    f->decode_ns += get(&c->decode_ns);
    f->idle_ns += get(&c->idle_ns);
    f->direct_samples += get(&c->direct_samples);
    f->direct_bytes += get(&c->direct_bytes);
    f->mount_samples += get(&c->mount_samples);
    f->mount_bytes += get(&c->mount_bytes);
    f->corrupt += get(&c->corrupt);
}

void loader_figures(struct loader *l, struct loader_figures *ret)
{
    struct loader_figures f = {0};
    for (uint32_t i = 0; i < l->o.threads; i++)
        add_counts(&f, &l->workers[i].counts);
    add_counts(&f, &l->helper.counts);
    if (l->direct)
        direct_figures(l->direct, &f.direct_known, &f.revoked, f.direct_why, sizeof f.direct_why);
    else
        snprintf(f.direct_why, sizeof f.direct_why, "%s", l->direct_why);
    ACQUIRE(&l->lock);
    f.batches = l->batches;
    f.samples = l->samples;
    f.skipped = l->skipped;
    f.waited_ns = l->waited_ns;
    f.first_ns = l->first_ns;
    f.elapsed_ns = l->batches ? l->last_ns - l->began_ns : 0;
    f.stall = f.elapsed_ns ? (double)f.waited_ns / (double)f.elapsed_ns : 0;
    snprintf(f.mount_why, sizeof f.mount_why, "%s", l->mount_why);
    *ret = f;
}

uint32_t loader_skips(struct loader *l, struct loader_skip *ret, uint32_t max)
{
    ACQUIRE(&l->lock);
    uint64_t kept = l->n_skips < SKIPS_KEPT ? l->n_skips : SKIPS_KEPT;
    uint32_t n = kept < max ? (uint32_t)kept : max;
    for (uint32_t i = 0; i < n; i++)
        ret[i] = l->skips[(l->n_skips - 1 - i) % SKIPS_KEPT];
    return n;
}

uint32_t loader_layout(uint32_t which)
{
    static const uint32_t sizes[] = {sizeof(struct loader_options), sizeof(struct loader_batch),
                                     sizeof(struct loader_info), sizeof(struct loader_figures),
                                     sizeof(struct loader_skip)};
    return which < sizeof sizes / sizeof sizes[0] ? sizes[which] : 0;
}
