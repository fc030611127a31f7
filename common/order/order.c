/* An order: bounds checked once, then handed to its family. */
#include "order-internal.h"

#include <stdlib.h>
#include <sys/mman.h>

#include "cleanup.h"

#define HUGE_PAGE ((size_t)2 << 20)

/* Large tables are read and written all over: huge pages spare most of the address translation. */
static void *table_alloc(size_t bytes)
{
    if (bytes < 4 * HUGE_PAGE)
        return malloc(bytes ? bytes : 1);
    size_t whole = (bytes + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
    void *p = aligned_alloc(HUGE_PAGE, whole);
    if (p)
        madvise(p, whole, MADV_HUGEPAGE);
    return p;
}

int order_table_new(struct order *o, uint64_t n, struct err *err)
{
    o->table = table_alloc(n * sizeof *o->table);
    if (!o->table)
        return err_set(err, ERR_LIMIT, "sampler %s: no memory for an order of %llu samples",
                       order_kind_name(o->spec.kind), (unsigned long long)n);
    o->table_len = n;
    for (uint64_t i = 0; i < n; i++)
        o->table[i] = (uint32_t)i;
    return 0;
}

static int check_bounds(const struct order_spec *s, uint64_t n, struct err *err)
{
    const char *name = order_kind_name(s->kind);
    if (s->ranks == 0 || s->batch_size == 0)
        return err_set(err, ERR_USAGE, "sampler %s: ranks and batch-size must be at least 1", name);
    if (s->rank >= s->ranks)
        return err_set(err, ERR_USAGE, "sampler %s: rank=%u: there are %u ranks, counted from 0",
                       name, s->rank, s->ranks);
    if (s->epoch > ORDER_MAX_EPOCH)
        return err_set(err, ERR_USAGE, "sampler %s: epoch=%llu: out of reach: the last is %llu",
                       name, (unsigned long long)s->epoch, (unsigned long long)ORDER_MAX_EPOCH);
    if (n > ORDER_MAX_SAMPLES - s->ranks)
        return err_set(err, ERR_LIMIT, "sampler %s: %llu samples: at most %u can be ordered", name,
                       (unsigned long long)n, ORDER_MAX_SAMPLES - s->ranks);
    return 0;
}

static int init(struct order *o, struct err *err)
{
    switch (o->spec.kind) {
    case ORDER_SEQUENCE:
    case ORDER_PADDLE_RANDOM:
    case ORDER_PADDLE_LOADER:
    case ORDER_TORCH_RANDOM:
    case ORDER_TORCH_LOADER:
        return order_init_whole(o, err);
    case ORDER_PADDLE_DISTRIBUTED:
    case ORDER_TORCH_DISTRIBUTED:
        return order_init_distributed(o, err);
    case ORDER_LOCAL:
        return order_init_local(o, err);
    }
    return err_set(err, ERR_BUG, "sampler: unknown kind %d", (int)o->spec.kind);
}

int order_new(struct order **ret, const struct order_spec *s, uint64_t n, struct err *err)
{
    if (check_bounds(s, n, err))
        return -1;
    struct order *o = calloc(1, sizeof *o);
    if (!o)
        return err_set(err, ERR_LIMIT, "sampler %s: no memory", order_kind_name(s->kind));
    o->spec = *s;
    o->n = n;
    if (init(o, err)) {
        order_free(o);
        return -1;
    }
    *ret = o;
    return 0;
}

void order_free(struct order *o)
{
    if (!o)
        return;
    free(o->table);
    free(o);
}

uint64_t order_length(const struct order *o)
{
    return o->length - o->skip;
}

uint64_t order_at(const struct order *o, uint64_t pos)
{
    return o->at(o, pos + o->skip);
}

bool order_is_range(const struct order *o, uint64_t *ret_first)
{
    *ret_first = o->skip;
    bool one_list = order_kind_whole(o->spec.kind) ||
                    (o->spec.kind != ORDER_LOCAL && o->spec.ranks == 1 && o->length <= o->n);
    return one_list && !o->table && !o->redealt;
}

bool order_kind_whole(enum order_kind k)
{
    return k != ORDER_PADDLE_DISTRIBUTED && k != ORDER_TORCH_DISTRIBUTED && k != ORDER_LOCAL;
}

bool order_spec_deals(const struct order_spec *s)
{
    return s->ranks > 1 && !order_kind_whole(s->kind);
}

int order_set_rank(struct order *o, uint32_t rank, struct err *err)
{
    if (rank >= o->spec.ranks)
        return err_set(err, ERR_USAGE, "sampler %s: rank=%u: there are %u ranks, counted from 0",
                       order_kind_name(o->spec.kind), rank, o->spec.ranks);
    o->spec.rank = rank;
    if (o->spec.kind != ORDER_LOCAL)
        return 0;
    if (o->redealt) {
        order_deal_local(o);
        return 0;
    }
    free(o->table); /* each rank has a shuffle of its own */
    o->table = NULL;
    return order_init_local(o, err);
}
