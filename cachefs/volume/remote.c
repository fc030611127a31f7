/*
 * Versions from another machine (--catalog http://…/v1/catalog/current): one lists the source, all
 * others fetch what it made, so that all have the same version with the same ids.
 *
 * The server is asked at the start and by each refresh. Where it does not answer at the start, the
 * version that it named last goes on: a mount that comes back needs nobody else for it. That need
 * not be the folder's current one, which is the one that has given out most ids: a set may have
 * gone back to what it was before. An address that names a version is content with no other.
 */
#define LOG_MODULE "volume"
#include "volume-internal.h"

#include <unistd.h>

#include "clock.h"
#include "log.h"
#include "peer.h"

#define TRIES 5 /* the server may be starting, as we are */

bool version_is_remote(const struct volume *v)
{
    return v->conf.catalog && strstr(v->conf.catalog, "://") && !version_is_object(v);
}

/* The version that the address names: the digest at its end, or NULL. */
static const char *named_version(const struct volume *v)
{
    const char *name = strrchr(v->conf.catalog, '/') + 1;
    return strlen(name) == CATALOG_DIGEST ? name : NULL;
}

int version_told(struct volume *v, const char *folder, struct catalog **ret, struct err *err)
{
    const char *name = named_version(v);
    if (!name)
        return catalog_told(ret, folder, err);
    cleanup_free char *file = catalog_version_file(folder, name);
    return catalog_open(ret, file, err);
}

/* "DIGEST-IDS" of that version, as its ETag is; "" without one. */
static void etag_of(struct volume *v, const char *folder, char *ret, size_t size)
{
    struct catalog *c;
    *ret = '\0';
    if (version_told(v, folder, &c, NULL))
        return;
    const struct catalog_info *info = catalog_info(c);
    snprintf(ret, size, "%s-%llx", info->digest, (unsigned long long)info->ids);
    catalog_unref(c);
}

/* What came is checked as a whole before anything is made of it. */
static int take_in(struct volume *v, const char *file, const char *folder, struct catalog **ret,
                   struct err *err)
{
    const char *name = named_version(v);
    struct catalog *c;
    if (catalog_open(&c, file, err))
        return -1;
    int rc = catalog_verify(c, err);
    if (!rc && name && strcmp(name, catalog_info(c)->digest) != 0)
        rc = err_set(err, ERR_CORRUPT, "%s: it sent version %.12s", v->conf.catalog,
                     catalog_info(c)->digest);
    catalog_unref(c);
    if (rc || version_adopt(file, folder, ret, err))
        return -1;
    if (name || catalog_set_told(folder, catalog_info(*ret)->digest, err) == 0)
        return 0;
    catalog_unref(take_ptr(ret));
    return -1;
}

/* 1: a version came, 0: it is still the folder's, -1. */
static int fetch_once(struct volume *v, const char *folder, struct catalog **ret, struct err *err)
{
    char had[CATALOG_DIGEST + 20];
    cleanup_free char *file = xasprintf("%s/.build-%d-fetched", folder, (int)getpid());
    etag_of(v, folder, had, sizeof had);
    const struct peer_catalog c = {.url = v->conf.catalog,
                                   .token_file = v->conf.peer_token_file,
                                   .ca_file = v->conf.store.ca_file,
                                   .had = had,
                                   .stop = &v->closing};
    int rc = peer_catalog_fetch(&c, file, err);
    if (rc <= 0)
        return rc ? rc : version_told(v, folder, ret, err);
    rc = take_in(v, file, folder, ret, err);
    unlink(file);
    return rc ? -1 : 1;
}

static void pause_between_tries(struct volume *v)
{
    uint64_t end = clock_mono_ns() + NS_PER_S, now;
    ACQUIRE(&v->lock);
    while (!atomic_load(&v->closing) && (now = clock_mono_ns()) < end)
        cond_wait_for(&v->changed, &v->lock, end - now);
}

int version_fetch(struct volume *v, const char *folder, struct catalog **ret, struct err *err)
{
    for (int i = 1;; i++) {
        struct err e = {0};
        if (fetch_once(v, folder, ret, &e) >= 0)
            return 0;
        if (e.class != ERR_TRANSIENT || i == TRIES || atomic_load(&v->closing)) {
            if (err)
                *err = e;
            return -1;
        }
        pause_between_tries(v);
    }
}

int version_fetch_first(struct volume *v, const char *folder, struct catalog **ret, struct err *err)
{
    struct err e = {0};
    if (version_fetch(v, folder, ret, &e) == 0)
        return 0;
    bool passing = e.class == ERR_TRANSIENT || e.class == ERR_DENIED || e.class == ERR_NOT_FOUND;
    if (passing && version_told(v, folder, ret, NULL) == 0) {
        log_warn(v->conf.log, "the version that is here goes on: %s", e.msg);
        return 0;
    }
    if (err)
        *err = e;
    return -1;
}
