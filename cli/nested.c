/*
 * A local source must not hold what a mount of it makes: a mount point or a cache folder below it
 * would be listed as samples by the next scan, which changes them, and so on without end.
 */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "cli-internal.h"
#include "volume.h"

static bool is_in(const char *outer, const char *path)
{
    size_t n = strlen(outer);
    return strncmp(path, outer, n) == 0 && (n == 1 || path[n] == '/' || !path[n]);
}

static bool lies_in(const char *outer, const char *path)
{
    char real[PATH_MAX];
    return path && realpath(path, real) && is_in(outer, real);
}

int check_cache_folders(const struct owner *o, const char *mountpoint, struct err *err)
{
    for (size_t i = 0; i < o->n_tiers; i++) {
        cleanup_free char *dir = real_folder(o->tiers[i].dir);
        if (is_in(mountpoint, dir))
            return err_set(err, ERR_USAGE,
                           "use the cache folder: %s: it lies in the mount point %s, which will "
                           "hide it (give a folder elsewhere with --cache)",
                           dir, mountpoint);
        for (size_t k = 0; k < i; k++) {
            cleanup_free char *other = real_folder(o->tiers[k].dir);
            if (strcmp(other, dir) == 0)
                return err_set(err, ERR_USAGE,
                               "--cache: %s: given twice (each tier needs a folder of its own)",
                               dir);
        }
    }
    return 0;
}

static int check_source(const char *dir, const struct owner *o, const char *mountpoint,
                        struct err *err)
{
    char real[PATH_MAX];
    if (!realpath(dir, real))
        return 0; /* listing it will say why */
    if (lies_in(real, mountpoint))
        return err_set(err, ERR_USAGE,
                       "use the mount point: %s: it lies in the source %s, whose scans would list "
                       "the mount itself (choose a folder elsewhere)",
                       mountpoint, real);
    bool inside = lies_in(real, o->dir);
    const char *which = o->dir;
    for (size_t i = 0; i < o->n_tiers && !inside; i++) {
        which = o->tiers[i].dir;
        inside = lies_in(real, which);
    }
    if (inside)
        return err_set(err, ERR_USAGE,
                       "use the cache folder: %s: it lies in the source %s, whose scans would list "
                       "it as samples (give a folder elsewhere with --cache)",
                       which, real);
    return 0;
}

int check_nested(const char *set, const struct store_conf *conf, const struct owner *o,
                 const char *mountpoint, struct err *err)
{
    struct set s;
    int result = 0;
    if (volume_sources(&s, set, NULL))
        return 0; /* what is refused in a moment with better words */
    for (size_t i = 0; i < s.n && !result; i++) {
        struct store *store;
        if (store_open(&store, s.sources[i].uri, conf, NULL))
            continue;
        const char *dir = store_local_dir(store);
        if (dir)
            result = check_source(dir, o, mountpoint, err);
        store_close(store);
    }
    set_release(&s);
    return result;
}
