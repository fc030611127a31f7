/*
 * A web server follows links and says nothing of them: a folder of its may hold itself, or one
 * above it, and lists the same at each turn. So may folders that are none of that: shards by the
 * digits of a hash lie in each other, made in the same minute. Files beside them tell them apart.
 */
#include <limits.h>
#include <stdatomic.h>
#include <string.h>

#include "hash.h"
#include "list-internal.h"
#include "mem.h"

#define TURNS       4  /* the same names, sizes and times, of files, too, so many times more */
#define TURNS_BARE  10 /* of two folders and more alone */
#define TURNS_NEVER UINT_MAX

struct level *level_new(struct level *above)
{
    struct level *v = xcalloc(1, sizeof *v);
    v->above = level_ref(above);
    v->refs = 1;
    return v;
}

struct level *level_ref(struct level *v)
{
    if (v)
        atomic_fetch_add_explicit(&v->refs, 1, memory_order_relaxed);
    return v;
}

void level_unref(struct level *v)
{
    while (v && atomic_fetch_sub_explicit(&v->refs, 1, memory_order_acq_rel) == 1) {
        struct level *above = v->above;
        free(v);
        v = above;
    }
}

void level_add(struct level *v, const char *prefix, const struct list_item *item)
{
    size_t skip = strlen(prefix);
    if (item->key_len <= skip)
        return;
    uint64_t facts[] = {item->size, (uint64_t)item->mtime_ns, item->folder};
    uint64_t name = hash64(item->key + skip, item->key_len - skip, 0);
    v->sum += hash64(facts, sizeof facts, name); /* in any order */
    v->folders += item->folder;
    v->files += !item->folder;
}

bool level_is_circle(const struct level *v)
{
    unsigned turns = 0, most = v->files ? TURNS : v->folders > 1 ? TURNS_BARE : TURNS_NEVER;
    for (const struct level *a = v->above; a && v->folders; a = a->above)
        turns += a->sum == v->sum;
    return turns >= most;
}
