/* extent: hands out where a unit lies in its pack, as a lease that ends with the connection. */
#include "serve-internal.h"

static int find_sample(struct request *r, struct entry *ret, struct err *err)
{
    cleanup_free char *path = NULL;
    int64_t id;
    if (json_has(&r->root, "path")) {
        if (json_name(&r->root, "path", &path, err))
            return -1;
        struct catalog *c = volume_catalog(r->volume);
        int rc = catalog_find(c, path, ret, err);
        catalog_unref(c);
        return rc;
    }
    if (json_int(&r->root, "id", 1, INT64_MAX, &id, err))
        return -1;
    struct catalog *c = volume_catalog_of(r->volume, (uint64_t)id, err);
    if (!c)
        return -1;
    int rc = catalog_get(c, (uint64_t)id, ret, err);
    catalog_unref(c);
    return rc;
}

int lease_note(struct connection *c, uint64_t lease, struct err *err)
{
    if (c->n_leases == LEASES_MAX) {
        cache_extent_return(volume_cache(c->server->conf.volume), lease);
        return err_set(err, ERR_LIMIT, "this connection holds %d leases (return some)", LEASES_MAX);
    }
    c->leases[c->n_leases++] = lease;
    return 0;
}

bool lease_return(struct connection *c, uint64_t lease)
{
    for (size_t i = 0; i < c->n_leases; i++) {
        if (c->leases[i] != lease)
            continue;
        c->leases[i] = c->leases[--c->n_leases];
        cache_extent_return(volume_cache(c->server->conf.volume), lease);
        return true;
    }
    return false;
}

int op_extent(struct request *r, struct err *err)
{
    struct connection *c = r->connection;
    struct entry e = {0};
    struct extent x;
    int64_t block;
    if (json_int_or(&r->root, "block", 0, INT32_MAX, 0, &block, err) || find_sample(r, &e, err))
        return -1;
    if (e.folder || (uint64_t)block >= unit_count(e.size))
        return err_set(err, ERR_USAGE, "extent: %s: no block %lld", e.folder ? "a folder" : e.name,
                       (long long)block);
    if (cache_extent_lease(volume_cache(r->volume), e.id + (uint64_t)block, &x, err))
        return -1;
    r->fds[r->n_fds++] = x.fd;
    if (lease_note(c, x.lease, err))
        return err_wrap(err, "extent");
    jw_uint(r->w, "id", e.id);
    jw_uint(r->w, "lease", x.lease);
    jw_uint(r->w, "offset", x.offset);
    jw_uint(r->w, "head", x.head);
    jw_uint(r->w, "stored", x.stored);
    jw_uint(r->w, "raw", x.raw);
    jw_uint(r->w, "size", e.size);
    return 0;
}

int op_extent_check(struct request *r, struct err *err)
{
    int64_t lease;
    if (json_int(&r->root, "lease", 0, INT64_MAX, &lease, err))
        return -1;
    jw_bool(r->w, "valid", cache_extent_valid(volume_cache(r->volume), (uint64_t)lease));
    return 0;
}

int op_extent_return(struct request *r, struct err *err)
{
    int64_t lease;
    if (json_int(&r->root, "lease", 0, INT64_MAX, &lease, err))
        return -1;
    if (lease_return(r->connection, (uint64_t)lease))
        return 0;
    return err_set(err, ERR_NOT_FOUND, "extent-return: this connection holds no lease %lld",
                   (long long)lease);
}

void leases_return(struct connection *c)
{
    while (c->n_leases > 0)
        cache_extent_return(volume_cache(c->server->conf.volume), c->leases[--c->n_leases]);
}
