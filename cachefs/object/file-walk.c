/* A walk over a local folder that follows no link: what it tells lies inside, whatever is there. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "clock.h"
#include "dir.h"
#include "mem.h"
#include "object-internal.h"

#define LEFT_FOR_NS (24 * 3600 * (int64_t)NS_PER_S)

struct local_walk {
    struct store *store;
    local_walk_fn *fn;
    void *arg;
    char **folders; /* still to be looked into, relative, each ending in '/' */
    size_t n, cap;
};

static void walk_release(struct local_walk *w)
{
    for (size_t i = 0; i < w->n; i++)
        free(w->folders[i]);
    free(w->folders);
}

static void push(struct local_walk *w, const char *folder)
{
    if (w->n == w->cap) {
        w->cap = w->cap ? 2 * w->cap : 64;
        w->folders = xrealloc(w->folders, w->cap * sizeof w->folders[0]);
    }
    w->folders[w->n++] = xstrdup(folder);
}

static int entry(struct local_walk *w, int dir_fd, const char *folder, const char *name,
                 struct err *err)
{
    struct stat st;
    if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW))
        return errno == ENOENT
                   ? 0
                   : err_sys(err, errno, "cannot list: %s%s%s", w->store->uri, folder, name);
    cleanup_bytes struct bytes key = {0};
    bytes_addf(&key, "%s%s%s", folder, name, S_ISDIR(st.st_mode) ? "/" : "");
    if (w->fn(w->arg, key.data, &st, err))
        return -1;
    if (S_ISDIR(st.st_mode))
        push(w, key.data);
    return 0;
}

static int look_into(struct local_walk *w, const char *folder, struct err *err)
{
    char path[PATH_MAX];
    size_t len = strlen(folder);
    if (len && file_path(w->store, folder, len - 1, path, err))
        return -1;
    /* The folder itself may have been replaced by a link since it was seen; the store's own may be
     * one. */
    cleanup_dir DIR *d =
        file_open_folder(w->store, len ? path : w->store->dir, len ? O_NOFOLLOW : 0);
    if (!d)
        return errno == ENOENT && len
                   ? 0
                   : err_sys(err, errno, "cannot list: %s", len ? path : w->store->dir);
    for (const struct dirent *e; (e = dir_next(d));)
        if (entry(w, dirfd(d), folder, e->d_name, err))
            return -1;
    return errno ? err_sys(err, errno, "cannot list: %s%s", w->store->uri, folder) : 0;
}

int store_local_walk(struct store *s, const char *prefix, local_walk_fn *fn, void *arg,
                     struct err *err)
{
    CLEANUP(walk_release) struct local_walk w = {.store = s, .fn = fn, .arg = arg};
    push(&w, prefix);
    while (w.n) {
        cleanup_free char *folder = w.folders[--w.n];
        if (look_into(&w, folder, err))
            return -1;
    }
    return 0;
}

bool store_is_temp(const char *key)
{
    const char *slash = strrchr(key, '/');
    return strncmp(slash ? slash + 1 : key, STORE_TEMP_PREFIX, strlen(STORE_TEMP_PREFIX)) == 0;
}

bool store_is_left(const struct list_item *item, int64_t now_ns)
{
    return item->unfinished && item->mtime_ns < now_ns - LEFT_FOR_NS;
}
