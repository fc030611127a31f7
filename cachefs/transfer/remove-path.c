/* What a path of a mount is at its source. */
#include <string.h>

#include "catalog.h"
#include "mem.h"
#include "object.h"
#include "remove.h"

static bool keep_first(void *arg, const struct entry *e)
{
    *(struct entry *)arg = *e;
    return false;
}

/* Samples of packs have no object of their own. */
static int check_not_packed(struct catalog *c, const char *path, const struct entry *e,
                            struct err *err)
{
    struct entry sample = *e;
    struct unit_info unit;
    if (e->folder) {
        sample.id = 0;
        if (catalog_walk_below(c, e->id, keep_first, &sample, err))
            return -1;
    }
    if (sample.id == 0 || catalog_unit(c, sample.id, &unit, NULL))
        return 0; /* an empty folder */
    bool packed = unit.packed;
    unit_info_release(&unit);
    return packed ? err_set(err, ERR_USAGE,
                            "%s lies in packs: remove it where the packs were made from, and run "
                            "sampan sync --pack --delete-dst again",
                            path)
                  : 0;
}

/* A path that no source has all of: one or more hang at it or below. */
static int no_one_source(struct catalog *c, const char *path, struct err *err)
{
    cleanup_free char *folder = xasprintf("%s/", path);
    const char *uri = NULL;
    unsigned below = 0;
    for (uint32_t i = 0; i < catalog_info(c)->n_sources; i++) {
        const char *at = catalog_source_at(c, i);
        below += strncmp(at, folder, strlen(folder)) == 0;
        if (strcmp(at, folder) == 0)
            uri = catalog_source_uri(c, i);
    }
    return below == 1 && uri
               ? err_set(err, ERR_USAGE,
                         "%s is a whole source: name its URI, %s, to remove it from the store",
                         path, uri)
               : err_set(err, ERR_USAGE, "%s is not in one source: name a path in one of them",
                         path);
}

static int source_of(struct catalog *c, const char *path, char **ret, struct err *err)
{
    uint32_t best = UINT32_MAX;
    size_t best_len = 0;
    for (uint32_t i = 0; i < catalog_info(c)->n_sources; i++) {
        const char *at = catalog_source_at(c, i);
        size_t len = strlen(at);
        if (strncmp(path, at, len) == 0 && path[len] && (best == UINT32_MAX || len >= best_len)) {
            best = i;
            best_len = len;
        }
    }
    if (best == UINT32_MAX)
        return no_one_source(c, path, err);
    cleanup_free char *uri = NULL;
    if (store_uri_resolved(catalog_source_uri(c, best), &uri, err))
        return -1;
    size_t len = strlen(uri);
    *ret = xasprintf("%s%s%s", uri, len && uri[len - 1] == '/' ? "" : "/", path + best_len);
    return 0;
}

int remove_uri_of(const char *catalog_file, const char *path, char **ret, struct err *err)
{
    struct catalog *c;
    struct entry e;
    if (catalog_open(&c, catalog_file, err))
        return -1;
    int result = catalog_find(c, path, &e, err);
    if (result == 0)
        result = check_not_packed(c, path, &e, err);
    if (result == 0)
        result = source_of(c, path, ret, err);
    catalog_unref(c);
    return result;
}
