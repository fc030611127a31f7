/*
 * Where the keys of a local folder lie: none of them leaves it by its own text.
 *
 * A store that follows no links (store_conf.no_links) follows none of the whole path, be it above a
 * file or the file itself. What is above is opened part by part, and links on its way refused; the
 * file is then named as seen from there. So who may write there gains nothing by being quick.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "dir.h"
#include "file.h"
#include "mem.h"
#include "object-internal.h"

/* Keys come from catalogs and lists: they may name nothing outside. */
int file_path(const struct store *s, const char *key, size_t len, char out[PATH_MAX],
              struct err *err)
{
    if (!s->dir)
        return err_set(err, ERR_BUG, "%s is no local store", s->uri);
    bool bad = len == 0 || memchr(key, '\0', len);
    for (size_t i = 0; i <= len && !bad;) {
        const char *slash = i < len ? memchr(key + i, '/', len - i) : NULL;
        size_t part = (slash ? (size_t)(slash - key) : len) - i;
        bad = part == 0 || part_is_dots(key + i, part) || part > NAME_MAX;
        i += part + 1;
    }
    int n = snprintf(out, PATH_MAX, "%s/%.*s", s->dir, (int)(len < PATH_MAX ? len : PATH_MAX), key);
    if (bad || n < 0 || n >= PATH_MAX)
        return err_set(err, ERR_USAGE, "not a path inside the set: %s: '%.*s'", s->uri,
                       (int)(len < 200 ? len : 200), key);
    return 0;
}

int store_uri_resolved(const char *uri, char **ret, struct err *err)
{
    const char *folder = store_uri_folder(uri);
    cleanup_free char *real = folder ? realpath(folder, NULL) : NULL;
    if (folder && !real)
        return err_sys(err, errno, "look at %s", folder);
    *ret = real ? xasprintf("file://%s", real) : xstrdup(uri);
    return 0;
}

size_t file_bare_len(const char *key)
{
    size_t len = strlen(key);
    while (len && key[len - 1] == '/')
        len--;
    return len;
}

int file_folder_len(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? (int)(slash + 1 - path) : 0;
}

/* A folder. No link is followed, wherever in the path. */
static int open_without_links(const char *path, int flags)
{
    cleanup_close int root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    return root < 0 ? -1 : file_open_no_links(root, path, flags);
}

DIR *file_open_folder(const struct store *s, const char *path, int flags)
{
    flags |= O_RDONLY | O_DIRECTORY | O_CLOEXEC;
    return dir_of(s->no_links ? open_without_links(path, flags) : open(path, flags));
}

/* Of the path in `p`. */
static int place(const struct store *s, struct file_place *p, struct err *err)
{
    p->dir = AT_FDCWD;
    p->name = p->path;
    if (!s->no_links)
        return 0;
    int len = file_folder_len(p->path);
    cleanup_free char *above = xasprintf("%.*s", len, p->path);
    int fd = open_without_links(above, O_PATH | O_DIRECTORY);
    if (fd < 0 && errno == ELOOP)
        return err_set(err, ERR_DENIED, "%s: lies behind a link, which is not followed", p->path);
    if (fd < 0 && errno != ENOENT)
        return err_sys(err, errno, "look at %s", p->path);
    p->name = fd < 0 ? "" : p->path + len;
    p->dir = fd < 0 ? AT_FDCWD : fd;
    return 0;
}

void file_place_release(struct file_place *p)
{
    if (p->dir >= 0)
        close(p->dir);
}

static int make_folder(const struct store *s, const char *path, int len, struct err *err)
{
    cleanup_place struct file_place p = FILE_PLACE_INIT;
    snprintf(p.path, sizeof p.path, "%.*s", len, path);
    if (place(s, &p, err))
        return -1;
    return mkdirat(p.dir, p.name, 0777) && errno != EEXIST
               ? err_sys(err, errno, "cannot make the folder: %s", p.path)
               : 0;
}

int file_place(const struct store *s, const char *key, size_t len, struct file_place *ret,
               struct err *err)
{
    ret->dir = AT_FDCWD;
    return file_path(s, key, len, ret->path, err) ? -1 : place(s, ret, err);
}

int file_place_new(const struct store *s, const char *key, size_t len, struct file_place *ret,
                   struct err *err)
{
    ret->dir = AT_FDCWD;
    if (file_path(s, key, len, ret->path, err))
        return -1;
    /* The store's folder, and then each one below it. */
    for (const char *end = ret->path + strlen(s->dir); end; end = strchr(end + 1, '/'))
        if (make_folder(s, ret->path, (int)(end - ret->path), err))
            return -1;
    if (place(s, ret, err))
        return -1;
    /* Gone again: nothing is made beside a name that is none. */
    return *ret->name ? 0 : err_sys(err, ENOENT, "cannot write: %s", ret->path);
}
