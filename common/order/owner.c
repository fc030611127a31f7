/*
 * The strategies. `sequence` needs P - 1 cuts, `hash` nothing; `random` and `local` replay the
 * epoch of all ranks once, by position, into a table of 16 bits a sample and a short list of
 * repeats.
 */
#include "owner.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "order-internal.h"
#include "owner-internal.h"

static const char *const names[] = {[OWNER_SEQUENCE] = "sequence",
                                    [OWNER_RANDOM] = "random",
                                    [OWNER_HASH] = "hash",
                                    [OWNER_LOCAL] = "local"};
#define N_NAMES (sizeof names / sizeof names[0])

const char *owner_strategy_name(enum owner_strategy s)
{
    return (size_t)s < N_NAMES ? names[s] : "?";
}

int owner_strategy_parse(enum owner_strategy *ret, const char *text, struct err *err)
{
    for (size_t i = 0; i < N_NAMES; i++) {
        if (strcmp(names[i], text) == 0) {
            *ret = (enum owner_strategy)i;
            return 0;
        }
    }
    return err_set(err, ERR_USAGE,
                   "strategy \"%s\": unknown (known: sequence, random, hash, local)", text);
}

enum owner_strategy owner_strategy_for(const struct order_spec *sampler)
{
    if (sampler->kind == ORDER_SEQUENCE)
        return OWNER_SEQUENCE;
    return sampler->kind == ORDER_LOCAL ? OWNER_LOCAL : OWNER_RANDOM;
}

int owner_share_parse(const char *text, uint32_t *ret_partition, uint32_t *ret_partitions,
                      struct err *err)
{
    char *slash, *end;
    errno = 0;
    unsigned long i = strtoul(text, &slash, 10);
    if (text[0] < '0' || text[0] > '9' || *slash != '/' || slash[1] < '0' || slash[1] > '9')
        return err_set(err, ERR_USAGE, "partition \"%s\": want I/P, like 0/4", text);
    unsigned long p = strtoul(slash + 1, &end, 10);
    if (*end || errno)
        return err_set(err, ERR_USAGE, "partition \"%s\": want I/P, like 0/4", text);
    if (p == 0 || p > OWNER_PARTITIONS_MAX)
        return err_set(err, ERR_USAGE, "partition \"%s\": want 1 to %u partitions", text,
                       OWNER_PARTITIONS_MAX);
    if (i >= p)
        return err_set(err, ERR_USAGE, "partition \"%s\": there are %lu partitions, counted from 0",
                       text, p);
    *ret_partition = (uint32_t)i;
    *ret_partitions = (uint32_t)p;
    return 0;
}

bool owner_weights_same(const struct owner_weights *a, const struct owner_weights *b)
{
    return a->n == b->n && memcmp(a->of, b->of, a->n * sizeof a->of[0]) == 0;
}

int owner_weights_parse(struct owner_weights *ret, const char *text, struct err *err)
{
    struct owner_weights w = {0};
    uint64_t sum = 0;
    for (const char *at = text; *text;) {
        char *end;
        unsigned long n = strtoul(at, &end, 10);
        if (at[0] < '0' || at[0] > '9' || n > UINT32_MAX || (*end && *end != ','))
            return err_set(err, ERR_USAGE,
                           "weights \"%s\": want a number for each partition, like 2,1,1", text);
        if (w.n == OWNER_WEIGHTS_MAX)
            return err_set(err, ERR_USAGE, "weights: more than %d of them", OWNER_WEIGHTS_MAX);
        w.of[w.n++] = n;
        sum += n;
        if (!*end)
            break;
        at = end + 1;
    }
    if (w.n && sum == 0)
        return err_set(err, ERR_USAGE, "weights \"%s\": all of them are 0", text);
    *ret = w;
    return 0;
}

static uint32_t ranks_a_node(const struct order_spec *s, uint32_t partitions)
{
    if (s->has_ranks_per_node)
        return s->ranks_per_node;
    return s->ranks % partitions == 0 ? s->ranks / partitions : 1;
}

uint32_t owner_ranks(const struct order_spec *s, uint32_t partitions, uint32_t partition,
                     uint32_t *ret_first)
{
    uint64_t each = ranks_a_node(s, partitions), first = each * partition;
    *ret_first = (uint32_t)(first < s->ranks ? first : s->ranks);
    return (uint32_t)(s->ranks - *ret_first < each ? s->ranks - *ret_first : each);
}

/* --- random and local: the epoch replayed ------------------------------------------------------
 */

#define NOBODY UINT16_MAX

struct repeat {
    uint32_t number;
    uint16_t partition;
};

struct owners {
    struct owner_conf conf;
    uint64_t *cuts;  /* sequence: partition i has the numbers from cuts[i] to below cuts[i + 1] */
    uint16_t *table; /* random, local: by number; NOBODY: dealt by its key */
    struct repeat *repeats;
    size_t n_repeats, cap_repeats;
};

static int no_memory(struct err *err)
{
    return err_set(err, ERR_LIMIT, "partitions: no memory for who owns what");
}

static int add_repeat(struct owners *o, uint64_t number, uint16_t partition, struct err *err)
{
    if (o->n_repeats == o->cap_repeats) {
        size_t cap = o->cap_repeats ? o->cap_repeats * 2 : 64;
        struct repeat *more = realloc(o->repeats, cap * sizeof *more);
        if (!more)
            return no_memory(err);
        o->repeats = more;
        o->cap_repeats = cap;
    }
    o->repeats[o->n_repeats++] = (struct repeat){(uint32_t)number, partition};
    return 0;
}

static int by_number(const void *a, const void *b)
{
    const struct repeat *x = a, *y = b;
    if (x->number != y->number)
        return x->number < y->number ? -1 : 1;
    return (x->partition > y->partition) - (x->partition < y->partition);
}

static void sort_repeats(struct owners *o)
{
    size_t kept = 0;
    if (o->n_repeats == 0)
        return;
    qsort(o->repeats, o->n_repeats, sizeof *o->repeats, by_number);
    for (size_t i = 0; i < o->n_repeats; i++) {
        const struct repeat *r = &o->repeats[i];
        if (r->partition == o->table[r->number] ||
            (kept > 0 && by_number(&o->repeats[kept - 1], r) == 0))
            continue;
        o->repeats[kept++] = *r;
    }
    o->n_repeats = kept;
}

static int read_by(struct owners *o, uint64_t number, uint16_t partition, struct err *err)
{
    uint16_t owner = o->table[number];
    if (owner == NOBODY)
        o->table[number] = partition;
    else if (owner != partition)
        return add_repeat(o, number, partition, err);
    return 0;
}

/* One list for all ranks: position by position, so that whoever comes first owns. */
static int replay_distributed(struct owners *o, struct order *epoch, const uint16_t *homes,
                              struct err *err)
{
    uint64_t length = order_length(epoch);
    for (uint64_t pos = 0; pos < length; pos++) {
        for (uint32_t rank = 0; rank < o->conf.sampler.ranks; rank++) {
            epoch->spec.rank = rank;
            if (homes[rank] != NOBODY && read_by(o, order_at(epoch, pos), homes[rank], err))
                return -1;
        }
    }
    return 0;
}

/* Each rank has a list of its own: rank by rank, noting where each sample was read first. */
static int replay_local(struct owners *o, struct order *epoch, const uint16_t *homes,
                        struct err *err)
{
    uint32_t *at = malloc((o->conf.numbered + 1) * sizeof *at);
    if (!at)
        return no_memory(err);
    int rc = 0;
    for (uint32_t rank = 0; rank < o->conf.sampler.ranks && !rc; rank++) {
        if (homes[rank] == NOBODY)
            continue;
        rc = order_set_rank(epoch, rank, err);
        for (uint64_t pos = 0; !rc && pos < order_length(epoch); pos++) {
            uint64_t number = order_at(epoch, pos);
            uint16_t before = o->table[number];
            if (before == NOBODY || pos < at[number]) {
                at[number] = (uint32_t)pos;
                o->table[number] = homes[rank];
                if (before != NOBODY)
                    rc = add_repeat(o, number, before, err);
            } else {
                rc = add_repeat(o, number, homes[rank], err);
            }
        }
    }
    free(at);
    return rc;
}

/* Fills `homes`: the partition of each rank. */
static void find_homes(const struct owner_conf *c, uint16_t *homes)
{
    memset(homes, 0xff, c->sampler.ranks * sizeof *homes); /* NOBODY */
    for (uint32_t p = 0; p < c->partitions; p++) {
        uint32_t first, n = owner_ranks(&c->sampler, c->partitions, p, &first);
        for (uint32_t i = 0; i < n; i++)
            homes[first + i] = (uint16_t)p;
    }
}

static int replay_into(struct owners *o, struct order *epoch, uint16_t *homes, struct err *err)
{
    const struct owner_conf *c = &o->conf;
    o->table = malloc((c->numbered + 1) * sizeof *o->table);
    if (!o->table)
        return no_memory(err);
    memset(o->table, 0xff, (c->numbered + 1) * sizeof *o->table); /* NOBODY */
    find_homes(c, homes);
    int rc = c->sampler.kind == ORDER_LOCAL ? replay_local(o, epoch, homes, err)
                                            : replay_distributed(o, epoch, homes, err);
    if (!rc)
        sort_repeats(o);
    return rc;
}

static int replay(struct owners *o, struct err *err)
{
    struct order *epoch;
    struct order_spec spec = o->conf.sampler;
    spec.rank = 0;
    if (order_new(&epoch, &spec, o->conf.numbered, err))
        return -1;
    uint16_t *homes = malloc(spec.ranks * sizeof *homes);
    int rc = -1;
    if (homes)
        rc = replay_into(o, epoch, homes, err);
    else
        no_memory(err);
    free(homes);
    order_free(epoch);
    return rc;
}

/* --- sequence: ranges --------------------------------------------------------------------------
 */

static int bytes_below(const struct owner_conf *c, uint64_t number, uint64_t *ret, struct err *err)
{
    *ret = number;
    return c->bytes ? c->bytes(c->arg, number, ret, err) : 0;
}

/* The number from `low` to `high` at which as near as possible to `want` bytes lie below. */
static int find_cut(const struct owner_conf *c, uint64_t low, uint64_t high, uint64_t want,
                    uint64_t *ret, struct err *err)
{
    uint64_t least = low, here = 0, before = 0;
    while (low < high) { /* the first with at least `want` */
        uint64_t middle = low + (high - low) / 2;
        if (bytes_below(c, middle, &here, err))
            return -1;
        if (here < want)
            low = middle + 1;
        else
            high = middle;
    }
    if (low > least) {
        if (bytes_below(c, low, &here, err) || bytes_below(c, low - 1, &before, err))
            return -1;
        if (here > want && here - want > want - before)
            low--;
    }
    *ret = low;
    return 0;
}

/* Each partition gets at least one sample if there are enough. */
static int cut(struct owners *o, struct err *err)
{
    const struct owner_conf *c = &o->conf;
    uint64_t n = c->numbered, total;
    uint32_t p = c->partitions;
    o->cuts = calloc(p + 1, sizeof *o->cuts);
    if (!o->cuts)
        return no_memory(err);
    if (bytes_below(c, n, &total, err))
        return -1;
    bool enough = n >= p;
    for (uint32_t i = 1; i < p; i++) {
        uint64_t low = o->cuts[i - 1] + (enough ? 1 : 0), high = n - (enough ? p - i : 0);
        uint64_t want = (uint64_t)(((unsigned __int128)total * i + p / 2) / p);
        if (find_cut(c, low, high, want, &o->cuts[i], err))
            return -1;
    }
    o->cuts[p] = n;
    return 0;
}

static uint32_t range_of(const struct owners *o, uint64_t number)
{
    uint32_t low = 0, high = o->conf.partitions - 1;
    while (low < high) { /* the last whose range begins at or below it */
        uint32_t middle = low + (high - low + 1) / 2;
        if (o->cuts[middle] <= number)
            low = middle;
        else
            high = middle - 1;
    }
    return low;
}

/* --- all of them -------------------------------------------------------------------------------
 */

static int check(const struct owner_conf *c, struct err *err)
{
    if (c->partitions == 0 || c->partitions > OWNER_PARTITIONS_MAX)
        return err_set(err, ERR_USAGE, "partitions: %u: want 1 to %u", c->partitions,
                       OWNER_PARTITIONS_MAX);
    if (c->partitions > c->samples && c->partitions > 1 && !c->may_be_empty)
        return err_set(err, ERR_USAGE, "partitions: %u of them: there are only %llu samples",
                       c->partitions, (unsigned long long)c->samples);
    if (c->strategy == OWNER_LOCAL && c->sampler.kind != ORDER_LOCAL)
        return err_set(err, ERR_USAGE,
                       "strategy local: the sampler is %s: only the sampler \"local\" reads by it",
                       order_kind_name(c->sampler.kind));
    return 0;
}

int owners_new(struct owners **ret, const struct owner_conf *conf, struct err *err)
{
    if (check(conf, err))
        return -1;
    struct owners *o = calloc(1, sizeof *o);
    if (!o)
        return no_memory(err);
    o->conf = *conf;
    int rc = 0;
    if (conf->strategy == OWNER_SEQUENCE)
        rc = cut(o, err);
    else if (conf->strategy != OWNER_HASH && order_spec_deals(&conf->sampler))
        rc = replay(o, err);
    if (rc) {
        owners_free(o);
        return -1;
    }
    *ret = o;
    return 0;
}

void owners_free(struct owners *o)
{
    if (!o)
        return;
    free(o->cuts);
    free(o->table);
    free(o->repeats);
    free(o);
}

uint32_t owners_of(const struct owners *o, uint64_t number, uint64_t key)
{
    if (number < o->conf.numbered && o->cuts)
        return range_of(o, number);
    if (number < o->conf.numbered && o->table && o->table[number] != NOBODY)
        return o->table[number];
    return owner_rendezvous(key, o->conf.partitions, o->conf.weights);
}

bool owners_range(const struct owners *o, uint32_t partition, uint64_t *ret_first,
                  uint64_t *ret_end)
{
    if (!o->cuts && o->conf.partitions > 1)
        return false;
    *ret_first = o->cuts ? o->cuts[partition] : 0;
    *ret_end = o->cuts ? o->cuts[partition + 1] : o->conf.numbered;
    return true;
}

/* The first repeat of the number, or where it would stand. */
static size_t find_repeat(const struct owners *o, uint64_t number)
{
    size_t low = 0, high = o->n_repeats;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (o->repeats[middle].number < number)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

size_t owners_repeats(const struct owners *o, uint64_t number, uint32_t *ret, size_t max)
{
    size_t n = 0;
    for (size_t i = find_repeat(o, number);
         i < o->n_repeats && o->repeats[i].number == number && n < max; i++)
        ret[n++] = o->repeats[i].partition;
    return n;
}
