/* Retiring old samples: choosing by the catalog, removing source by source. */
#include "retire.h"

#include <stdlib.h>

#include "mem.h"

struct old {
    int64_t mtime_ns;
    uint64_t id, size;
};

struct retire {
    struct catalog *catalog;
    struct old *list; /* the oldest first */
    uint64_t n, cap, bytes;
    struct retire_conf conf;
};

static bool take(void *arg, const struct entry *e)
{
    struct retire *r = arg;
    if (e->folder || (r->conf.by_age && !entry_is_older(e, r->conf.before_ns)))
        return true;
    if (r->n == r->cap) {
        r->cap = r->cap ? r->cap * 2 : 1024;
        r->list = xrealloc(r->list, r->cap * sizeof *r->list);
    }
    r->list[r->n++] = (struct old){e->mtime_ns, e->id, e->size};
    r->bytes += e->size;
    return true;
}

static int oldest_first(const void *a, const void *b)
{
    const struct old *x = a, *y = b;
    bool untold = x->mtime_ns == CATALOG_NO_MTIME; /* last: nobody knows that it is old */
    if (untold != (y->mtime_ns == CATALOG_NO_MTIME))
        return untold ? 1 : -1;
    if (x->mtime_ns != y->mtime_ns)
        return x->mtime_ns < y->mtime_ns ? -1 : 1;
    return x->id < y->id ? -1 : x->id > y->id;
}

/* All samples were taken: only so many of the oldest go that `to` bytes are left. */
static void cut_to_size(struct retire *r)
{
    uint64_t left = r->bytes, n = 0;
    for (; n < r->n && left > r->conf.to; n++)
        left -= r->list[n].size;
    r->bytes -= left;
    r->n = n;
}

static int check_not_packed(const struct retire *r, struct err *err)
{
    for (uint64_t i = 0; i < r->n; i++) {
        struct unit_info unit;
        if (catalog_unit(r->catalog, r->list[i].id, &unit, err))
            return -1;
        bool packed = unit.packed;
        unit_info_release(&unit);
        if (packed)
            return err_set(err, ERR_USAGE,
                           "the samples lie in packs: remove them where the packs were made from, "
                           "and run sampan sync --pack --delete-dst again");
    }
    return 0;
}

int retire_new(struct retire **ret, struct catalog *c, const struct retire_conf *conf,
               struct err *err)
{
    struct retire *r = xcalloc(1, sizeof *r);
    r->catalog = c;
    r->conf = *conf;
    int rc = catalog_walk(c, 0, take, r, err);
    if (!rc && r->n)
        qsort(r->list, r->n, sizeof *r->list, oldest_first);
    if (!rc && !conf->by_age)
        cut_to_size(r);
    if (!rc)
        rc = check_not_packed(r, err);
    if (rc) {
        retire_free(r);
        return -1;
    }
    *ret = r;
    return 0;
}

void retire_free(struct retire *r)
{
    if (!r)
        return;
    free(r->list);
    free(r);
}

uint64_t retire_samples(const struct retire *r)
{
    return r->n;
}

uint64_t retire_bytes(const struct retire *r)
{
    return r->bytes;
}

int retire_path(const struct retire *r, uint64_t i, struct bytes *ret, struct err *err)
{
    return catalog_path(r->catalog, r->list[i].id, ret, err);
}

/* The set lies where it lies, but who may write there chose where links in it lead to. */
static int open_source(const struct retire *r, uint32_t source, const struct store_conf *conf,
                       struct removal **ret, struct err *err)
{
    struct store_conf inside = *conf;
    cleanup_free char *uri = NULL;
    inside.no_links = true;
    return store_uri_resolved(catalog_source_uri(r->catalog, source), &uri, err) ||
                   remove_open_list(ret, uri, &inside, err)
               ? -1
               : 0;
}

/* Opens the removal with the first sample of the source; without one *ret stays NULL. */
static int collect(struct retire *r, uint32_t source, const struct store_conf *conf,
                   struct removal **ret, struct remove_counts *counts, struct err *err)
{
    for (uint64_t i = 0; i < r->n; i++) {
        struct unit_info unit;
        if (catalog_unit(r->catalog, r->list[i].id, &unit, err))
            return -1;
        int rc = 0;
        if (unit.source == source && !*ret)
            rc = open_source(r, source, conf, ret, err);
        if (unit.source == source && !rc)
            rc = remove_add(*ret, unit.key.data, r->list[i].size, counts, err);
        unit_info_release(&unit);
        if (rc)
            return -1;
    }
    return 0;
}

int retire_run(struct retire *r, const struct store_conf *conf, bool skip_trash,
               const struct remove_watch *watch, struct remove_counts *ret, struct err *err)
{
    *ret = (struct remove_counts){0};
    int rc = 0;
    for (uint32_t i = 0; i < catalog_info(r->catalog)->n_sources && !rc; i++) {
        cleanup_bytes struct bytes trash = {0};
        struct removal *removal = NULL;
        rc = collect(r, i, conf, &removal, ret, err);
        if (!rc && removal)
            rc = remove_run(removal, skip_trash, watch, ret, &trash, err);
        remove_close(removal);
    }
    return rc;
}
