/*
 * The rest of an epoch, for as many ranks as there are now.
 *
 *   the epoch's list --what was read is marked--> rest, in the list's order --dealt--> new ranks
 *
 * A sample counts as read when any rank has read it, a padded repeat included, so nothing is read
 * twice. What drop-last left out for the old ranks is part of the rest.
 */
#include "order-internal.h"

#include <stdlib.h>

static bool marked(const uint64_t *bits, uint64_t i)
{
    return bits[i / 64] >> (i % 64) & 1;
}

static void mark(uint64_t *bits, uint64_t i)
{
    bits[i / 64] |= 1ull << (i % 64);
}

static int no_memory(const struct order *o, struct err *err)
{
    return err_set(err, ERR_LIMIT, "sampler %s: no memory to deal the rest of an epoch",
                   order_kind_name(o->spec.kind));
}

/* Marks what was read before `pos`. */
static void mark_read(const struct order *o, uint64_t pos, uint64_t *bits)
{
    for (uint64_t i = 0; i < o->total; i++)
        if (order_entry_position(o, i) < pos)
            mark(bits, order_entry(o, i));
}

/* The list without what is marked and without repeats. The rest is never longer than what came
 * before it in the list, so a table is compacted in place. */
static int keep_rest(struct order *o, uint64_t *bits, struct err *err)
{
    uint64_t rest = 0;
    uint32_t *to = o->table;
    if (!to)
        to = malloc((o->listed + 1) * sizeof *to);
    if (!to)
        return no_memory(o, err);
    for (uint64_t i = 0; i < o->listed; i++) {
        uint64_t s = order_entry(o, i);
        if (marked(bits, s))
            continue;
        mark(bits, s);
        to[rest++] = (uint32_t)s;
    }
    o->table = to;
    o->table_len = o->listed = rest;
    return 0;
}

/* `o` as the rank that reads share `i` of `local`. */
static int take_share(struct order *o, uint32_t i, struct err *err)
{
    const struct order_spec *s = &o->spec;
    uint64_t turns = s->rotate ? s->epoch / s->rotate % s->ranks : 0;
    return order_set_rank(o, (uint32_t)((i + s->ranks - turns) % s->ranks), err);
}

static int mark_local(struct order *o, uint64_t pos, uint64_t *bits, struct err *err)
{
    for (uint32_t share = 0; share < o->spec.ranks; share++) {
        if (take_share(o, share, err))
            return -1;
        for (uint64_t i = 0; i < pos; i++)
            mark(bits, o->at(o, i));
    }
    return 0;
}

/* The first deal of `local`: each rank has a table of its own, so the list is made of them one
 * after the other, in the order of their shares. */
static int local_list(struct order *o, uint64_t *bits, uint32_t *list, struct err *err)
{
    uint64_t each = o->total / o->spec.ranks, rest = 0;
    for (uint32_t share = 0; share < o->spec.ranks; share++) {
        if (take_share(o, share, err))
            return -1;
        for (uint64_t i = 0; i < each; i++) {
            uint64_t s = o->at(o, i);
            if (!marked(bits, s))
                list[rest++] = (uint32_t)s;
            mark(bits, s);
        }
    }
    free(o->table);
    o->table = list;
    o->table_len = o->listed = rest;
    return 0;
}

static int local_rest(struct order *o, uint64_t pos, uint64_t *bits, struct err *err)
{
    uint32_t *list = malloc((o->n + 1) * sizeof *list);
    if (!list)
        return no_memory(o, err);
    if (!mark_local(o, pos, bits, err) && !local_list(o, bits, list, err))
        return 0;
    free(list);
    return -1;
}

static int list_rest(struct order *o, uint64_t pos, struct err *err)
{
    uint64_t *bits = calloc(o->n / 64 + 1, sizeof *bits);
    if (!bits)
        return no_memory(o, err);
    int rc;
    if (o->spec.kind == ORDER_LOCAL && !o->redealt) {
        rc = local_rest(o, pos, bits, err);
    } else {
        mark_read(o, pos, bits);
        rc = keep_rest(o, bits, err);
    }
    free(bits);
    return rc;
}

/* Ends a part at `pos` and deals what is left to `ranks`. */
static int deal_anew(struct order *o, uint64_t pos, uint32_t ranks, struct err *err)
{
    if (list_rest(o, pos, err))
        return -1;
    o->parts[o->n_parts++] = (struct order_part){o->spec.ranks, pos};
    o->redealt = true;
    o->spec.ranks = ranks;
    o->spec.rank = 0;
    if (o->spec.kind == ORDER_LOCAL)
        order_deal_local(o);
    else
        order_deal_distributed(o);
    return 0;
}

static int check_position(const struct order *o, uint64_t pos, struct err *err)
{
    if (pos <= o->length)
        return 0;
    return err_set(err, ERR_USAGE,
                   "resume token: %u@%llu: each of %u ranks reads only %llu samples", o->spec.ranks,
                   (unsigned long long)pos, o->spec.ranks, (unsigned long long)o->length);
}

/* Deals in which nothing was read are as if they had not been. */
static void forget_empty_parts(struct order_token *t)
{
    size_t kept = 0;
    for (size_t i = 0; i < t->n_parts; i++)
        if (t->parts[i].position > 0)
            t->parts[kept++] = t->parts[i];
    t->n_parts = kept;
}

static int resume_whole(struct order *o, const struct order_token *t, struct err *err)
{
    for (size_t i = 0; i < t->n_parts; i++)
        o->skip += t->parts[i].position;
    return check_position(o, o->skip, err);
}

static int resume_dealt(struct order *o, const struct order_token *t, uint32_t ranks,
                        struct err *err)
{
    for (size_t i = 0; i < t->n_parts; i++) {
        uint64_t pos = t->parts[i].position;
        bool last = i + 1 == t->n_parts;
        uint32_t next = last ? ranks : t->parts[i + 1].ranks;
        if (check_position(o, pos, err))
            return -1;
        if (last && next == o->spec.ranks)
            o->skip = pos;
        else if (deal_anew(o, pos, next, err))
            return -1;
    }
    return 0;
}

int order_resume(struct order **ret, const struct order_token *token, uint32_t ranks, uint32_t rank,
                 struct err *err)
{
    struct order_token t = *token;
    struct order_spec spec = t.spec;
    struct order *o;
    forget_empty_parts(&t);
    bool whole = order_kind_whole(spec.kind);
    if (ranks == 0 || rank >= ranks)
        return err_set(err, ERR_USAGE, "resume: rank %u of %u: ranks are counted from 0", rank,
                       ranks);
    spec.ranks = t.n_parts && !whole ? t.parts[0].ranks : ranks;
    spec.rank = 0;
    if (order_new(&o, &spec, t.n, err))
        return -1;
    o->spec.has_rank = true;
    int rc = whole ? resume_whole(o, &t, err) : resume_dealt(o, &t, ranks, err);
    if (!rc)
        rc = order_set_rank(o, rank, err);
    if (rc) {
        order_free(o);
        return -1;
    }
    *ret = o;
    return 0;
}
