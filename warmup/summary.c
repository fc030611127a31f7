/*
 * What a plan means for each partition: its samples, its bytes, and how many of its ranks' reads it
 * answers itself. The reads are the epoch's own order, replayed.
 */
#include <string.h>

#include "mem.h"
#include "plan-internal.h"

/* Who owns which number; repeats are asked of the owners. */
struct table {
    struct plan *plan;
    struct plan_part *parts;
    uint16_t *owner; /* by number */
};

static bool add_sample(void *arg, const struct plan_sample *s)
{
    struct table *t = arg;
    struct plan_part *part = &t->parts[s->owner];
    part->samples++;
    part->bytes += s->size;
    part->stored += plan_stored_bytes(s->size, 1.0);
    for (size_t i = 0; i < s->n_repeats; i++) {
        part = &t->parts[s->repeats[i]];
        part->repeat_samples++;
        part->repeat_bytes += s->size;
        part->stored += plan_stored_bytes(s->size, 1.0);
    }
    if (s->number != OWNER_NO_NUMBER)
        t->owner[s->number] = (uint16_t)s->owner;
    return true;
}

static bool is_local(const struct table *t, uint32_t partition, uint64_t number)
{
    uint32_t more[PLAN_REPEATS];
    if (t->owner[number] == partition)
        return true;
    size_t n = owners_repeats(t->plan->owners, number, more, PLAN_REPEATS);
    for (size_t i = 0; i < n; i++)
        if (more[i] == partition)
            return true;
    return false;
}

/* Each rank has a share of the epoch. */
static int count_dealt(const struct table *t, struct order *o, struct err *err)
{
    const struct plan_conf *c = &t->plan->conf;
    for (uint32_t p = 0; p < c->partitions; p++) {
        uint32_t first, n = owner_ranks(&c->sampler, c->partitions, p, &first);
        for (uint32_t rank = first; rank < first + n; rank++) {
            if (order_set_rank(o, rank, err))
                return -1;
            uint64_t length = order_length(o);
            t->parts[p].reads += length;
            for (uint64_t pos = 0; pos < length; pos++)
                t->parts[p].local += is_local(t, p, order_at(o, pos));
        }
    }
    return 0;
}

/* Every rank reads the same list. */
static void count_whole(const struct table *t, const struct order *o)
{
    const struct plan_conf *c = &t->plan->conf;
    uint64_t length = order_length(o);
    for (uint64_t pos = 0; pos < length; pos++)
        t->parts[t->owner[order_at(o, pos)]].local++;
    for (uint32_t p = 0; p < c->partitions; p++)
        t->parts[p].reads = length;
}

/* Numbers alone, in ranges, and every rank reads them from the first to the last (or all of them in
 * any order): then nothing has to be counted one by one. */
static bool sum_ranges(const struct plan *p, struct plan_part *parts)
{
    const struct plan_conf *c = &p->conf;
    const struct order_spec *s = &c->sampler;
    uint64_t first, end, cut = s->drop_last ? c->count % s->batch_size : 0;
    if (c->catalog || order_spec_deals(s) || (cut > 0 && s->shuffle) ||
        !owners_range(p->owners, 0, &first, &end))
        return false;
    for (uint32_t i = 0; i < c->partitions; i++) {
        owners_range(p->owners, i, &first, &end);
        struct plan_part *part = &parts[i];
        uint64_t read = c->count - cut, last = end < read ? end : read;
        part->samples = end - first;
        part->bytes = part->samples * c->sample_bytes;
        part->stored = part->samples * plan_stored_bytes(c->sample_bytes, 1.0);
        part->reads = read;
        part->local = last > first ? last - first : 0;
    }
    return true;
}

static int count_reads(const struct table *t, uint64_t numbered, struct err *err)
{
    const struct plan_conf *c = &t->plan->conf;
    struct order_spec spec = c->sampler;
    struct order *o;
    spec.rank = 0;
    if (numbered == 0)
        return 0;
    if (order_new(&o, &spec, numbered, err))
        return -1;
    int rc = 0;
    if (order_spec_deals(&spec))
        rc = count_dealt(t, o, err);
    else
        count_whole(t, o);
    order_free(o);
    return rc;
}

int plan_summary(struct plan *p, struct plan_part *ret, struct err *err)
{
    memset(ret, 0, p->conf.partitions * sizeof *ret);
    if (sum_ranges(p, ret))
        return 0;
    uint64_t n = p->conf.catalog ? catalog_info(p->conf.catalog)->numbered : p->conf.count;
    struct table t = {.plan = p, .parts = ret, .owner = xcalloc(n + 1, sizeof *t.owner)};
    int rc = plan_each(p, add_sample, &t, err);
    if (!rc)
        rc = count_reads(&t, n, err);
    free(t.owner);
    return rc;
}

/* --- rounds -------------------------------------------------------------------------------------
 *
 * A distributed sampler that does not shuffle, and torch's in any case, deals its list in rounds of
 * which each rank gets as much as in the one before. Who owns what of a set that is some rounds
 * longer differs by just these. What drop-last leaves out is dealt by hash, each for itself, so
 * there is to be none of it; and repeats at the list's end meet its beginning, which stays.
 */
#define ROUNDS_KEPT 4

/* How many samples can be taken out: a multiple of the rounds. */
static uint64_t find_rounds(const struct plan_conf *c)
{
    const struct order_spec *s = &c->sampler;
    bool paddle = s->kind == ORDER_PADDLE_DISTRIBUTED && !s->shuffle;
    uint64_t round = (uint64_t)s->ranks * (paddle ? s->batch_size : 1), dealt = 0;
    if (c->catalog || c->strategy != OWNER_RANDOM || !order_spec_deals(s) ||
        (!paddle && s->kind != ORDER_TORCH_DISTRIBUTED) || (s->drop_last && c->count % round))
        return 0;
    for (uint32_t p = 0; p < c->partitions; p++) {
        uint32_t first;
        dealt += owner_ranks(s, c->partitions, p, &first);
    }
    uint64_t kept = round * ROUNDS_KEPT + c->count % round;
    while (kept < c->partitions)
        kept += round;
    return dealt == s->ranks && c->count > kept ? c->count - kept : 0;
}

static void add_rounds(const struct plan_conf *c, uint64_t left_out, struct plan_part *parts)
{
    for (uint32_t p = 0; p < c->partitions; p++) {
        uint32_t first, ranks = owner_ranks(&c->sampler, c->partitions, p, &first);
        uint64_t n = left_out / c->sampler.ranks * ranks;
        parts[p].samples += n;
        parts[p].bytes += n * c->sample_bytes;
        parts[p].stored += n * plan_stored_bytes(c->sample_bytes, 1.0);
        parts[p].reads += n;
        parts[p].local += n;
    }
}

int plan_sum(const struct plan_conf *conf, struct plan_part *ret, struct err *err)
{
    struct plan *plan;
    struct plan_conf short_one = *conf;
    uint64_t left_out = find_rounds(conf);
    short_one.count -= left_out;
    if (plan_new(&plan, &short_one, err))
        return -1;
    int rc = plan_summary(plan, ret, err);
    plan_free(plan);
    if (!rc && left_out)
        add_rounds(conf, left_out, ret);
    return rc;
}

double plan_local_share(const struct plan_part *part)
{
    return part->reads ? (double)part->local / (double)part->reads : 1.0;
}
