/*
 * Which whole objects there are: by their units, of which no two have one in common, and in the
 * order of their last uses. There may be a hundred thousand, of small files.
 */
#include "shard-internal.h"

#define entry hsearch_entry /* the catalog has one of that name */
#include <search.h>
#undef entry

#include "mem.h"

/* Two that have a unit in common are the same. */
static int compare_units(const void *a, const void *b)
{
    const struct shard *x = a, *y = b;

    if (x->id < y->id)
        return y->id - x->id < x->n_blocks ? 0 : -1;
    return x->id - y->id < y->n_blocks ? 0 : 1;
}

void shard_list_begin(struct shards *s)
{
    s->by_unit = NULL;
    TAILQ_INIT(&s->by_use);
}

bool shard_list_add(struct shards *s, struct shard *x)
{
    struct shard *const *found = tsearch(x, &s->by_unit, compare_units);

    if (!found)
        mem_exhausted();
    if (*found != x)
        return false;
    TAILQ_INSERT_TAIL(&s->by_use, x, by_use);
    return true;
}

void shard_list_remove(struct shards *s, struct shard *x)
{
    tdelete(x, &s->by_unit, compare_units);
    TAILQ_REMOVE(&s->by_use, x, by_use);
}

void shard_list_used(struct shards *s, struct shard *x)
{
    TAILQ_REMOVE(&s->by_use, x, by_use);
    TAILQ_INSERT_TAIL(&s->by_use, x, by_use);
}

struct shard *shard_list_find(const struct shards *s, uint64_t unit)
{
    const struct shard key = {.id = unit, .n_blocks = 1};
    struct shard *const *found = tfind(&key, &s->by_unit, compare_units);

    return found ? *found : NULL;
}
