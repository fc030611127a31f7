/*
 * Versions of the catalog: the one that is served, and a few older ones, so that an id which a
 * reader still holds can be told what it was. Every row's id is permanent, therefore a switch
 * concerns only changed names; those who keep names (the front end) are told.
 */
#define LOG_MODULE "volume"
#include "volume-internal.h"

#include "clock.h"
#include "log.h"

struct catalog *volume_catalog(struct volume *v)
{
    ACQUIRE(&v->lock);
    return catalog_ref(v->versions[0]);
}

struct catalog *version_of(struct volume *v, uint64_t id, struct entry *ret, struct err *err)
{
    struct catalog *all[VERSIONS_KEPT], *found = NULL;
    struct err unread = {0}; /* the newest version's that could not be asked */
    {
        ACQUIRE(&v->lock);
        for (size_t i = 0; i < VERSIONS_KEPT; i++)
            all[i] = v->versions[i] ? catalog_ref(v->versions[i]) : NULL;
    }
    for (size_t i = 0; i < VERSIONS_KEPT; i++) {
        if (!all[i])
            continue;
        struct err e = {0};
        if (!found && catalog_get(all[i], id, ret, &e) == 0) {
            found = all[i];
            continue;
        }
        if (e.class != ERR_NOT_FOUND && !unread.class)
            unread = e;
        catalog_unref(all[i]);
    }
    if (!found && unread.class && err)
        *err = unread;
    else if (!found)
        err_set(err, ERR_NOT_FOUND, "id %llu: no version that is still kept knows it",
                (unsigned long long)id);
    return found;
}

struct catalog *volume_catalog_of(struct volume *v, uint64_t id, struct err *err)
{
    struct entry e;
    return version_of(v, id, &e, err);
}

struct catalog *volume_catalog_named(struct volume *v, const char *digest, uint64_t ids)
{
    ACQUIRE(&v->lock);
    for (size_t i = 0; i < VERSIONS_KEPT && v->versions[i]; i++) {
        const struct catalog_info *info = catalog_info(v->versions[i]);
        if (strcmp(info->digest, digest) == 0 && (!ids || info->ids == ids))
            return catalog_ref(v->versions[i]);
    }
    return NULL;
}

bool same_version(struct catalog *a, struct catalog *b)
{
    return memcmp(catalog_info(a)->digest, catalog_info(b)->digest, CATALOG_DIGEST) == 0;
}

/* Puts `c` at place `at` of those that are kept, where each version is once. Returns what went for
 * it (to be released without the lock). */
static struct catalog *put_version(struct volume *v, struct catalog *c, size_t at)
{
    size_t end = at;
    while (end < VERSIONS_KEPT - 1 && v->versions[end] && !same_version(v->versions[end], c))
        end++;
    struct catalog *gone = v->versions[end];
    memmove(&v->versions[at + 1], &v->versions[at], sizeof v->versions[0] * (end - at));
    v->versions[at] = c;
    return gone;
}

void version_keep_served(struct volume *v)
{
    if (v->conf.served_version)
        snprintf(v->conf.served_version, CATALOG_DIGEST + 1, "%s",
                 catalog_info(v->versions[0])->digest);
}

void version_tell_cache(struct volume *v, struct catalog *c)
{
    const struct catalog_info *info = catalog_info(c);
    cache_serves(v->cache, c);
    cache_set_size(v->cache, info->samples, info->bytes);
}

bool version_switch(struct volume *v, struct catalog *c)
{
    struct catalog *from = volume_catalog(v), *dropped;
    if (same_version(from, c)) {
        catalog_unref(from);
        catalog_unref(c);
        return false;
    }
    volume_switch_fn *fns[sizeof v->listeners / sizeof v->listeners[0]];
    void *args[sizeof v->listeners / sizeof v->listeners[0]];
    size_t n;
    struct catalog *to = catalog_ref(c);
    {
        ACQUIRE(&v->lock);
        dropped = put_version(v, c, 0);
        version_keep_served(v);
        v->left_wanted = true;
        n = v->n_listeners;
        v->telling++;
        for (size_t i = 0; i < n; i++) {
            fns[i] = v->listeners[i].fn;
            args[i] = v->listeners[i].arg;
        }
    }
    version_tell_cache(v, to);
    for (size_t i = 0; i < n; i++)
        fns[i](args[i], from, to);
    {
        ACQUIRE(&v->lock);
        v->telling--;
        cond_broadcast(&v->changed);
    }
    log_info(v->conf.log, "serving another version digest=%.12s samples=%llu",
             catalog_info(to)->digest, (unsigned long long)catalog_info(to)->samples);
    if (dropped)
        catalog_unref(dropped);
    catalog_unref(from);
    catalog_unref(to);
    return true;
}

bool version_is_pinned(struct volume *v)
{
    ACQUIRE(&v->lock);
    return v->pinned;
}

/* Is it others who say which one is served? */
static bool version_stays(struct volume *v)
{
    return version_is_pinned(v) || follow_is_on(v);
}

/* A version that was found is served, or where another one stays, kept behind that. Takes the
 * reference. Only with the claim of a scan. */
static void version_found(struct volume *v, struct catalog *c)
{
    if (!version_stays(v)) {
        version_switch(v, c);
        return;
    }
    struct catalog *gone = c;
    {
        ACQUIRE(&v->lock);
        if (!same_version(v->versions[0], c))
            gone = put_version(v, c, 1);
    }
    if (gone)
        catalog_unref(gone);
}

void volume_on_switch(struct volume *v, volume_switch_fn *fn, void *arg)
{
    ACQUIRE(&v->lock);
    if (!fn) {
        size_t kept = 0;
        for (size_t i = 0; i < v->n_listeners; i++)
            if (v->listeners[i].arg != arg)
                v->listeners[kept++] = v->listeners[i];
        v->n_listeners = kept;
        while (v->telling)
            cond_wait(&v->changed, &v->lock);
        return;
    }
    if (v->n_listeners == sizeof v->listeners / sizeof v->listeners[0])
        return; /* front end and control are two: more is a bug that shows at once */
    v->listeners[v->n_listeners].fn = fn;
    v->listeners[v->n_listeners++].arg = arg;
}

/* --- one scan or switch at a time ---------------------------------------------------------------
 */

int scan_claim(struct volume *v, struct err *err)
{
    ACQUIRE(&v->lock);
    while (v->scanning && !atomic_load(&v->closing))
        cond_wait(&v->changed, &v->lock);
    if (atomic_load(&v->closing))
        return err_set(err, ERR_CANCELLED, "the volume is closing");
    v->scanning = true;
    return 0;
}

void scan_end(struct volume *v)
{
    ACQUIRE(&v->lock);
    v->scanning = false;
    cond_broadcast(&v->changed);
}

int version_scan(struct volume *v, struct catalog *previous, volume_progress_fn *progress,
                 void *arg, struct catalog **ret, struct catalog_diff_counts *ret_diff,
                 struct err *err)
{
    struct scan s = {
        .conf = &v->conf,
        .sources = &v->sources,
        .fetch = v->fetch,
        .previous = previous,
        .list = v->has_spec ? v->spec.list : "",
        .root = v->has_spec ? v->spec.root : "",
        .progress = progress,
        .arg = arg,
        .stop = &v->closing,
    };
    cleanup_free char *file = NULL;
    if (scan_run(&s, &file, ret_diff, err))
        return -1;
    return catalog_open(ret, file, err);
}

/* Ids are never given out twice: a scan builds on the version that has given out most, which is not
 * the served one where --catalog named an older version. */
struct catalog *version_longest(struct volume *v)
{
    ACQUIRE(&v->lock);
    struct catalog *most = v->versions[0];
    for (size_t i = 1; i < VERSIONS_KEPT && v->versions[i]; i++)
        if (catalog_info(v->versions[i])->next_id > catalog_info(most)->next_id)
            most = v->versions[i];
    return catalog_ref(most);
}

static uint64_t lineage_of(struct volume *v)
{
    ACQUIRE(&v->lock);
    return catalog_info(v->versions[0])->lineage;
}

/* What the machine that lists has made since. */
static int fetch_newer(struct volume *v, const char *folder, struct catalog **ret, struct err *err)
{
    if (version_fetch(v, folder, ret, err))
        return -1;
    if (catalog_info(*ret)->lineage == lineage_of(v))
        return 0;
    catalog_unref(*ret);
    return err_set(err, ERR_CORRUPT,
                   "%s: its catalog was begun anew, so that its ids name other samples (unmount, "
                   "and mount again)",
                   v->conf.catalog);
}

static void note_refresh(struct volume *v, const struct err *why)
{
    struct refreshes *r = &v->refreshes;
    ACQUIRE(&v->lock);
    if (!why)
        *r = (struct refreshes){.done_ns = clock_mono_ns()};
    else if (why->class != ERR_CANCELLED) {
        r->failed++;
        snprintf(r->why, sizeof r->why, "%.*s", (int)sizeof r->why - 1, why->msg);
    }
}

int volume_rescan(struct volume *v, struct rescan *ret, struct err *err)
{
    if (!gate_enter(&v->gate))
        return err_set(err, ERR_CANCELLED, "the volume is closing");
    if (scan_claim(v, err)) {
        gate_leave(&v->gate);
        return -1;
    }
    struct catalog *previous = version_longest(v), *next;
    struct catalog_diff_counts diff = {0};
    cleanup_bytes struct bytes folder = {0};
    struct err why = {0};
    int rc = catalog_folder(&v->conf, &folder, &why);
    if (!rc && version_is_remote(v))
        rc = fetch_newer(v, folder.data, &next, &why);
    else if (!rc)
        rc = version_scan(v, previous, NULL, NULL, &next, &diff, &why);
    note_refresh(v, rc ? &why : NULL);
    if (rc && err)
        *err = why;
    if (!rc) {
        if (ret)
            *ret = (struct rescan){diff, *catalog_info(next)};
        version_found(v, next);
        cache_recount(v->cache); /* the version's file counts against the tier it lies in */
        catalog_prune(folder.data, VERSIONS_KEPT, NULL); /* a leftover is no reason to fail */
    }
    catalog_unref(previous);
    scan_end(v);
    gate_leave(&v->gate);
    return rc;
}

int version_newest(struct volume *v, const char *folder, struct catalog **ret, struct err *err)
{
    struct err e = {0};
    if (version_is_remote(v) && fetch_newer(v, folder, ret, &e) == 0)
        return 0;
    if (e.class)
        log_warn(v->conf.log, "the newest version that is here will do: %s", e.msg);
    if (version_is_remote(v) ? version_told(v, folder, ret, err)
                             : catalog_current(ret, folder, err))
        return -1;
    bool ours = sources_match(&v->sources, *ret);
    if (ours && catalog_info(*ret)->lineage == lineage_of(v))
        return 0;
    catalog_unref(*ret);
    return ours ? err_set(err, ERR_CORRUPT,
                          "catalog in %s: it was begun anew while mounted, so that its ids name "
                          "other samples (unmount, and mount again)",
                          folder)
                : err_set(err, ERR_NOT_FOUND, "the version in %s is of another set", folder);
}

/* A `scan` by another process may have published a version: serve it. */
int version_take_newer(struct volume *v, struct err *err)
{
    cleanup_bytes struct bytes folder = {0};
    struct catalog *c;
    struct err e = {0};
    if (v->conf.catalog || v->sources.catalog_file || catalog_folder(&v->conf, &folder, NULL))
        return 0;
    if (scan_claim(v, err))
        return -1;
    bool stays = version_stays(v);
    int rc = stays ? 0 : version_newest(v, folder.data, &c, &e);
    bool other = !rc && !stays && version_switch(v, c);
    scan_end(v);
    if (other) /* who scanned need not have known the sampler's list */
        return number_anew(v, err);
    if (!rc || e.class == ERR_NOT_FOUND)
        return 0;
    if (err)
        *err = e;
    return -1;
}

void versions_close(struct volume *v)
{
    version_settle_stop(v);
    for (size_t i = 0; i < VERSIONS_KEPT; i++)
        if (v->versions[i])
            catalog_unref(v->versions[i]);
}

/* --- refresh --------------------------------------------------------------------------------- */

/* Waits the interval out, however often `changed` is signalled. False: the volume closes. */
static bool refresh_pause(struct volume *v)
{
    uint64_t end = clock_mono_ns() + v->conf.refresh_ns, now;
    ACQUIRE(&v->lock);
    while (!atomic_load(&v->closing) && (now = clock_mono_ns()) < end)
        cond_wait_for(&v->changed, &v->lock, end - now);
    return !atomic_load(&v->closing);
}

static void *refresh_main(void *arg)
{
    struct volume *v = arg;
    while (refresh_pause(v)) {
        struct err err = {0};
        if (version_stays(v))
            continue; /* nobody would see what is found */
        if (volume_rescan(v, NULL, &err) && err.class != ERR_CANCELLED)
            log_warn(v->conf.log, "refresh failed, the old version stays: %s", err.msg);
    }
    return NULL;
}

int refresh_start(struct volume *v, struct err *err)
{
    if (!v->conf.refresh_ns)
        return 0;
    int error = thread_start(&v->refresh_thread, "refresh", refresh_main, v);
    if (error)
        return err_thread(err, error, "start the refresh thread");
    v->refresh_started = true;
    return 0;
}
