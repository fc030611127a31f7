/* One level of a local folder as it stands: for who shows it again as a folder. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "dir.h"
#include "mem.h"
#include "object-internal.h"

static int level_entry(const struct store *s, int dir_fd, const char *dir, const char *name,
                       local_level_fn *fn, void *arg, struct err *err)
{
    struct stat st;
    char etag[64];
    if (store_is_temp(name)) {
        file_sweep(s, dir_fd, name);
        return 0;
    }
    if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW))
        return errno == ENOENT ? 0 : err_sys(err, errno, "cannot list: %s/%s", dir, name);
    if (!S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode) && !S_ISLNK(st.st_mode))
        return 0;
    store_local_etag(&st, etag);
    return fn(arg, name, &st, etag, err);
}

int store_local_level(struct store *s, const char *folder, local_level_fn *fn, void *arg,
                      struct err *err)
{
    char path[PATH_MAX];
    size_t len = strlen(folder);
    if (!*folder)
        snprintf(path, sizeof path, "%s/", s->dir);
    else if (file_path(s, folder, len - (folder[len - 1] == '/'), path, err))
        return -1;
    cleanup_dir DIR *d = file_open_folder(s, path, 0);
    if (!d)
        return err_sys(err, errno, "cannot list: %s", path);
    for (const struct dirent *e; (e = dir_next(d));)
        if (level_entry(s, dirfd(d), path, e->d_name, fn, arg, err))
            return -1;
    return errno ? err_sys(err, errno, "cannot list: %s", path) : 0;
}
