/* The table of a packed set's packs, and which of them are rewritten. Pure. */
#include <string.h>

#include "pack-internal.h"

struct pack *packs_add(struct packs *p, const char *name)
{
    if (p->n == p->cap) {
        p->cap = p->cap ? 2 * p->cap : 64;
        p->list = xrealloc(p->list, p->cap * sizeof *p->list);
    }
    struct pack *pack = &p->list[p->n++];
    *pack = (struct pack){.name = xstrdup(name)};
    return pack;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct pack *)a)->name, ((const struct pack *)b)->name);
}

void packs_sort(struct packs *p)
{
    if (p->n)
        qsort(p->list, p->n, sizeof *p->list, by_name);
}

struct pack *packs_find(const struct packs *p, const char *name)
{
    const struct pack key = {.name = (char *)name};
    return p->n ? bsearch(&key, p->list, p->n, sizeof *p->list, by_name) : NULL;
}

void packs_release(struct packs *p)
{
    for (size_t i = 0; i < p->n; i++)
        free(p->list[i].name);
    free(p->list);
    *p = (struct packs){0};
}

static bool is_wasteful(const struct pack *p, double waste, bool all)
{
    uint64_t dead = p->size > p->live ? p->size - p->live : 0;
    return dead && (all || (double)dead >= waste * (double)p->size);
}

void packs_plan(struct packs *p, uint64_t pack_size, double waste, bool all)
{
    size_t thin = 0;
    for (size_t i = 0; i < p->n; i++) {
        struct pack *pack = &p->list[i];
        pack->rewrite = pack->n_live && is_wasteful(pack, waste, all);
        thin += pack->n_live && !pack->rewrite && pack->live < pack_size / 4;
    }
    for (size_t i = 0; i < p->n && thin >= PACKS_THIN; i++) {
        struct pack *pack = &p->list[i];
        pack->rewrite |= pack->n_live && pack->live < pack_size / 4;
    }
}
