/* What of a packed set nobody needs any more: packs that no version names, and catalogs. */
#include <string.h>

#include "clock.h"
#include "copy-internal.h"
#include "pack-internal.h"

/* A pack or catalog that nothing names may be another run's that is about to be named: of whatever
 * machine, so its age is told by the store's clock. */
#define ORPHAN_AGE_NS (3600 * (int64_t)NS_PER_S)

static bool is_orphan(const struct packing *p, const struct pack *pack)
{
    return pack->there && !pack->named && pack->mtime_ns != LIST_MTIME_UNKNOWN &&
           store_now_ns(p->run->to) - pack->mtime_ns > ORPHAN_AGE_NS;
}

static bool any_orphan(const struct packing *p)
{
    for (size_t i = 0; i < p->packs.n; i++)
        if (is_orphan(p, &p->packs.list[i]))
            return true;
    return false;
}

static int name_pack(void *arg, const struct row *row, struct err *err)
{
    struct pack *pack = row->object ? packs_find(arg, row->object) : NULL;
    (void)err;
    if (pack)
        pack->named = true;
    return 0;
}

/* Where this run made no version, the one before the current is still the pointer's previous. */
static int name_packs_before(struct packing *p)
{
    struct sync_run *r = p->run;
    struct catalog *c;
    struct side at = {0};
    struct packed_pointer before = {0};
    memcpy(before.digest, p->old.previous, sizeof before.digest);
    cleanup_free char *key = xasprintf(FETCH_PACKED_CATALOG "%s", before.digest);
    cleanup_free char *file = xasprintf("%s/before", p->dir);
    if (look(r, r->to, key, &at, NULL))
        return -1;
    before.size = at.row.size;
    if (fetch_packed_catalog(r->fetch, r->to, &before, file, &c, NULL))
        return -1;
    int result = catalog_rows(c, name_pack, &p->packs, NULL);
    catalog_unref(c);
    return result;
}

static void not_removed(void *arg, const char *key, const struct err *why)
{
    struct sync_run *r = arg;
    (void)key;
    (void)why; /* left for the next run */
    atomic_fetch_sub_explicit(&r->counts.packs_deleted, 1, memory_order_relaxed);
}

static void remove_orphans(struct packing *p)
{
    struct sync_run *r = p->run;
    const char **keys = xcalloc(p->packs.n + 1, sizeof *keys);
    size_t n = 0;
    for (size_t i = 0; i < p->packs.n; i++)
        if (is_orphan(p, &p->packs.list[i]))
            keys[n++] = p->packs.list[i].name;
    counter_add(&r->counts.packs_deleted, n);
    fetch_delete_many(r->fetch, r->to, keys, n, not_removed, r);
    free(keys);
}

/* That before the one that was replaced, from which nobody starts any more, and what broken-off
 * runs have left. */
static void remove_catalogs(struct packing *p, const struct packed_pointer *new)
{
    for (size_t i = 0; i < p->catalogs.n; i++) {
        const struct pack *catalog = &p->catalogs.list[i];
        const char *digest = catalog->name + strlen(FETCH_PACKED_CATALOG);
        if (strcmp(digest, new->digest) == 0 || strcmp(digest, new->previous) == 0)
            continue;
        if (strcmp(digest, p->old.previous) == 0 || is_orphan(p, catalog))
            fetch_delete(p->run->fetch, p->run->to, catalog->name, NULL);
    }
}

void pack_remove_old(struct packing *p, const struct packed_pointer *new)
{
    bool replaced = strcmp(new->digest, p->old.digest) != 0;
    if (any_orphan(p) && (replaced || !*p->old.previous || name_packs_before(p) == 0))
        remove_orphans(p);
    remove_catalogs(p, new);
}
