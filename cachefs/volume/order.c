/*
 * One epoch as this node reads it: sample ids by position, and positions by sample id, in two
 * spilled arrays. Several ranks of one node read side by side; their orders are merged batch by
 * batch, so that one window over the merged list serves them all.
 */
#include "volume-internal.h"

#define NUMBERS_AT_ONCE 65536

static uint64_t n_ranks_here(const struct order_spec *s, const struct share_conf *share,
                             uint32_t *first)
{
    if (share->partitions && order_spec_deals(s))
        return owner_ranks(s, share->partitions, share->partition, first);
    uint32_t ranks = s->ranks ? s->ranks : 1;
    uint32_t per_node = s->ranks_per_node ? s->ranks_per_node : 1;
    if (!s->has_rank) { /* not told which node this is: it may be all of them */
        *first = 0;
        return ranks;
    }
    *first = s->rank / per_node * per_node;
    return ranks - *first < per_node ? ranks - *first : per_node;
}

/* id by number, for the whole version. */
static int load_numbers(struct catalog *c, const char *dir, struct spill *ret, struct err *err)
{
    uint64_t n = catalog_info(c)->numbered;
    if (spill_new(ret, dir, n * sizeof(uint64_t), err))
        return -1;
    uint64_t *out = ret->data;
    for (uint64_t at = 0; at < n;) {
        uint64_t some = n - at < NUMBERS_AT_ONCE ? n - at : NUMBERS_AT_ONCE;
        if (catalog_numbers(c, at, some, out + at, err)) {
            spill_free(ret);
            return -1;
        }
        at += some;
    }
    return 0;
}

/* Where position `pos` of the node's rank `r` (of `n`, each of `length` positions) stands in the
 * merged list: after n batches a round before its own, and in that one after those of the ranks
 * below it. The last round's batches may be shorter. */
static uint64_t merged_place(uint64_t length, uint32_t n, uint32_t r, uint32_t batch, uint64_t pos)
{
    uint64_t begin = pos / batch * batch, left = length - begin;
    return begin * n + r * (left < batch ? left : batch) + (pos - begin);
}

struct building {
    struct epoch_order *o;
    struct order *rank; /* each in turn: a table each would take memory by the rank */
    uint32_t first;
    struct spill numbers;
};

static void building_release(struct building *b)
{
    order_free(b->rank);
    spill_free(&b->numbers);
    epoch_order_unref(b->o);
}

static int make_first_rank(struct building *b, const struct share_conf *share, struct catalog *c,
                           struct err *err)
{
    struct epoch_order *o = b->o;
    uint64_t n = n_ranks_here(&o->spec, share, &b->first);
    if (n > AHEAD_RANKS)
        return err_set(
            err, ERR_USAGE,
            "sampler: %llu ranks on one node: at most %d (say which node this is: rank=, "
            "ranks-per-node=)",
            (unsigned long long)n, AHEAD_RANKS);
    o->n_ranks = (uint32_t)n;
    if (n == 0)
        return 0;
    struct order_spec spec = o->spec;
    spec.rank = b->first;
    if (order_new(&b->rank, &spec, catalog_info(c)->numbered, err))
        return -1;
    o->length = n * order_length(b->rank); /* every rank reads as much */
    return 0;
}

static void note_repeat(struct epoch_order *o, uint64_t id)
{
    if (epoch_order_repeats(o, id))
        return;
    if (o->n_repeats == REPEATS_KEPT) {
        o->many_repeats = true;
        return;
    }
    o->repeats[o->n_repeats++] = id;
}

static int place_ranks(struct building *b, struct err *err)
{
    struct epoch_order *o = b->o;
    const uint64_t *numbers = b->numbers.data;
    uint64_t *ids = o->ids.data;
    uint32_t batch = o->spec.batch_size ? o->spec.batch_size : 1;
    for (uint32_t r = 0; r < o->n_ranks; r++) {
        if (order_set_rank(b->rank, b->first + r, err))
            return -1;
        uint64_t length = order_length(b->rank);
        for (uint64_t pos = 0; pos < length; pos++)
            ids[merged_place(length, o->n_ranks, r, batch, pos)] = numbers[order_at(b->rank, pos)];
    }
    return 0;
}

static int fill(struct building *b, const char *dir, struct err *err)
{
    struct epoch_order *o = b->o;
    if (o->length > UINT32_MAX - 1 || o->max_id > UINT32_MAX)
        return err_set(err, ERR_LIMIT, "sampler: an order of %llu samples is too long",
                       (unsigned long long)o->length);
    if (spill_new(&o->ids, dir, o->length * sizeof(uint64_t), err) ||
        spill_new(&o->where, dir, (o->max_id + 1) * sizeof(uint32_t), err))
        return -1;
    if (place_ranks(b, err))
        return -1;
    const uint64_t *ids = o->ids.data;
    uint32_t *where = o->where.data;
    for (uint64_t pos = o->length; pos-- > 0;) { /* a padded sample's first place counts */
        if (ids[pos] > o->max_id)
            return err_set(err, ERR_CORRUPT, "catalog: id %llu of a number is past the last one",
                           (unsigned long long)ids[pos]);
        if (where[ids[pos]])
            note_repeat(o, ids[pos]);
        where[ids[pos]] = (uint32_t)pos + 1;
    }
    return 0;
}

int epoch_order_new(struct epoch_order **ret, const struct order_spec *spec,
                    const struct share_conf *share, struct catalog *c, const char *dir,
                    uint64_t gen, struct err *err)
{
    const struct catalog_info *info = catalog_info(c);
    struct building b = {.o = xcalloc(1, sizeof *b.o)};
    struct epoch_order *o = b.o;
    atomic_init(&o->refs, 1);
    o->gen = gen;
    o->spec = *spec;
    o->catalog = catalog_ref(c);
    o->last_epoch = UINT64_MAX;
    o->max_id = info->next_id;
    /* Every id is used up by a sample, a folder or the root: then none owns more than one. */
    o->single_units = info->next_id <= info->samples + info->folders + 2;
    int rc = make_first_rank(&b, share, c, err);
    if (!rc)
        rc = load_numbers(c, dir, &b.numbers, err);
    if (!rc)
        rc = fill(&b, dir, err);
    if (!rc)
        *ret = take_ptr(&b.o);
    building_release(&b);
    return rc;
}

struct epoch_order *epoch_order_ref(struct epoch_order *o)
{
    atomic_fetch_add(&o->refs, 1);
    return o;
}

void epoch_order_unref(struct epoch_order *o)
{
    if (!o || atomic_fetch_sub(&o->refs, 1) != 1)
        return;
    spill_free(&o->ids);
    spill_free(&o->where);
    catalog_unref(o->catalog);
    free(o);
}

uint64_t epoch_order_position(const struct epoch_order *o, uint64_t id)
{
    if (id > o->max_id || o->length == 0)
        return UINT64_MAX;
    return (uint64_t)((const uint32_t *)o->where.data)[id] - 1;
}

bool epoch_order_repeats(const struct epoch_order *o, uint64_t id)
{
    if (o->many_repeats)
        return true;
    for (size_t i = 0; i < o->n_repeats; i++)
        if (o->repeats[i] == id)
            return true;
    return false;
}

uint32_t epoch_order_rank(const struct epoch_order *o, uint64_t pos)
{
    uint32_t batch = o->spec.batch_size ? o->spec.batch_size : 1;
    return o->n_ranks ? (uint32_t)(pos / batch % o->n_ranks) : 0;
}
