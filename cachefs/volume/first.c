/* Which version a volume begins with, and which older ones it keeps beside it. */
#define LOG_MODULE "volume"
#include "volume-internal.h"

#include <dirent.h>
#include <sys/stat.h>

#include "clock.h"
#include "log.h"

struct version_file {
    char *path;
    struct timespec made;
};

static int newest_first(const void *a, const void *b)
{
    const struct timespec *x = &((const struct version_file *)a)->made;
    const struct timespec *y = &((const struct version_file *)b)->made;
    if (x->tv_sec != y->tv_sec)
        return x->tv_sec < y->tv_sec ? 1 : -1;
    return x->tv_nsec < y->tv_nsec ? 1 : x->tv_nsec > y->tv_nsec ? -1 : 0;
}

static size_t version_files(const char *folder, struct version_file **ret)
{
    *ret = NULL;
    cleanup_dir DIR *d = opendir(folder);
    size_t n = 0;
    for (struct dirent *e; d && (e = readdir(d));) {
        struct stat st;
        if (!catalog_is_version_name(e->d_name) || fstatat(dirfd(d), e->d_name, &st, 0))
            continue;
        *ret = xrealloc(*ret, (n + 1) * sizeof **ret);
        (*ret)[n++] = (struct version_file){xasprintf("%s/%s", folder, e->d_name), st.st_mtim};
    }
    if (n)
        qsort(*ret, n, sizeof **ret, newest_first);
    return n;
}

static void version_files_free(struct version_file *files, size_t n)
{
    for (size_t i = 0; i < n; i++)
        free(files[i].path);
    free(files);
}

/* Readers may hold ids of the versions before the last one from before a restart. */
static void open_older(struct volume *v, const char *folder)
{
    struct version_file *files;
    size_t n_files = version_files(folder, &files), n = 1;
    for (size_t i = 0; i < n_files && n < VERSIONS_KEPT; i++) {
        struct catalog *c;
        if (strstr(files[i].path, catalog_info(v->versions[0])->digest) ||
            catalog_open(&c, files[i].path, NULL))
            continue;
        if (sources_match(&v->sources, c) &&
            catalog_info(c)->lineage == catalog_info(v->versions[0])->lineage)
            v->versions[n++] = c;
        else
            catalog_unref(c);
    }
    version_files_free(files, n_files);
}

const char *named_catalog(const struct volume *v)
{
    return v->conf.catalog ? v->conf.catalog : v->sources.catalog_file;
}

static int newest_version(struct volume *v, const char *folder, volume_progress_fn *progress,
                          void *arg, struct catalog **ret, struct err *err)
{
    struct err e = {0};
    struct catalog *known = NULL;
    if (version_is_remote(v)) {
        if (version_fetch_first(v, folder, &known, err))
            return -1;
    } else if (version_is_object(v)) {
        if (version_arrive(v, folder, &known, err))
            return -1;
    } else if (named_catalog(v)) {
        if (version_adopt(named_catalog(v), folder, &known, err))
            return -1;
    } else if (catalog_current(&known, folder, &e) && e.class == ERR_CORRUPT) {
        log_warn(v->conf.log, "the catalog is made anew: %s", e.msg);
    } else if (!known && e.class != ERR_NOT_FOUND) {
        if (err)
            *err = e;
        return err_wrap(err, "catalog in %s (remove that folder to scan anew)", folder);
    }
    bool usable = known && !v->conf.rescan && sources_match(&v->sources, known);
    if (known && !usable && named_catalog(v) && !v->conf.rescan) {
        catalog_unref(known);
        return err_set(err, ERR_USAGE, "catalog %s is of another set than %s", named_catalog(v),
                       v->conf.set);
    }
    int rc = usable ? numbering_check(v, known, &usable, err) : 0;
    if (!rc && usable)
        *ret = catalog_ref(known);
    else if (!rc)
        rc = version_scan(v, known, progress, arg, ret, NULL, err);
    v->listed = !rc && !usable;
    if (v->listed)
        v->refreshes.done_ns = clock_mono_ns();
    if (known)
        catalog_unref(known);
    return rc;
}

/* Did an earlier life of this mount serve a version that is still here as a whole? */
static bool served_before(struct volume *v, const char *folder, struct catalog **ret)
{
    const char *digest = v->conf.served_version;
    if (!digest || !*digest || v->conf.rescan)
        return false;
    cleanup_free char *path = catalog_version_file(folder, digest);
    struct catalog *c;
    bool usable = false;
    if (catalog_open(&c, path, NULL))
        return false;
    if (sources_match(&v->sources, c) && numbering_check(v, c, &usable, NULL) == 0 && usable)
        *ret = catalog_ref(c);
    catalog_unref(c);
    return usable;
}

static int first_version(struct volume *v, const char *folder, volume_progress_fn *progress,
                         void *arg, struct catalog **ret, struct err *err)
{
    /* A file that was named is a pin of its own. */
    bool may = version_is_remote(v) || !named_catalog(v);
    int rc = may ? pinned_open(v, folder, ret, err) : 0;
    if (rc)
        return rc < 0 ? -1 : 0;
    if (served_before(v, folder, ret))
        return 0;
    return newest_version(v, folder, progress, arg, ret, err);
}

int versions_open(struct volume *v, volume_progress_fn *progress, void *arg, struct err *err)
{
    cleanup_bytes struct bytes folder = {0};
    if (v->conf.sampler && *v->conf.sampler) {
        if (order_spec_parse(&v->spec, v->conf.sampler, err))
            return -1;
        v->has_spec = true;
        v->last_epoch = sampler_last_epoch(&v->spec);
    }
    if (catalog_folder(&v->conf, &folder, err))
        return -1;
    catalog_tidy(folder.data);
    if (!version_is_object(v))
        arrival_tidy(folder.data, NULL);
    if (first_version(v, folder.data, progress, arg, &v->versions[0], err))
        return -1;
    version_keep_served(v);
    version_tell_cache(v, v->versions[0]);
    open_older(v, folder.data);
    bool is_file = !version_is_remote(v) && !version_is_object(v);
    return version_settle_start(v, is_file ? named_catalog(v) : NULL, err);
}
