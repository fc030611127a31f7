/*
 * A folder of this machine as a store. Paths are opened relative to the folder, and a key that
 * would leave it is refused.
 *
 * Links to files are followed, links to folders too, unless they lead to a folder above themselves
 * or the store follows none.
 * What is neither file nor folder, a link to nothing, and our own temporary files are not listed.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>

#include "clock.h"
#include "dir.h"
#include "file.h"
#include "mem.h"
#include "object-internal.h"

#define FOLDERS_MAX 1000000 /* waiting to be listed */
#define LEFT_S      3600

static int file_open(struct store *s, const struct uri *u, const struct store_conf *conf,
                     struct err *err)
{
    if (*u->host && strcmp(u->host, "localhost") != 0)
        return err_set(err, ERR_USAGE, "not a local folder: file://%s/…: want file:///PATH",
                       u->host);
    size_t len = strlen(u->path);
    while (len && u->path[len - 1] == '/')
        len--;
    s->dir = xasprintf("/%.*s", (int)len, u->path);
    s->prefix = xstrdup("");
    s->left_s = LEFT_S;
    s->no_links = conf->no_links;
    s->uri = xasprintf("file://%s%s", s->dir, len ? "/" : "");
    return 0;
}

/* --- listing --------------------------------------------------------------------------------- */

struct walk {
    struct store *s;
    list_fn *fn;
    void *arg;
    bool recurse;
    bool begun;     /* the folder that was asked for is there */
    char **folders; /* still to be listed, relative, each ending in '/' */
    size_t n, cap;
};

static void walk_release(struct walk *w)
{
    for (size_t i = 0; i < w->n; i++)
        free(w->folders[i]);
    free(w->folders);
}

static int walk_push(struct walk *w, const char *folder, struct err *err)
{
    if (w->n == FOLDERS_MAX)
        return err_set(err, ERR_LIMIT, "too many folders: %s: more than %d wait to be listed",
                       w->s->uri, FOLDERS_MAX);
    if (w->n == w->cap) {
        w->cap = w->cap ? 2 * w->cap : 64;
        w->folders = xrealloc(w->folders, w->cap * sizeof w->folders[0]);
    }
    w->folders[w->n++] = xstrdup(folder);
    return 0;
}

/* Whether the walk came through this folder on its way from `root` to `dir`: of two folders with
 * links to each other none is above the other. */
static bool came_through(const char *root, const char *dir, const struct stat *folder)
{
    cleanup_free char *path = xstrdup(dir);
    struct stat st;
    for (size_t len = strlen(path), least = strlen(root); len >= least && len; len--) {
        if (path[len] != '/' && path[len] != '\0')
            continue;
        path[len] = '\0';
        if (stat(path, &st) == 0 && st.st_ino == folder->st_ino && st.st_dev == folder->st_dev)
            return true;
    }
    return false;
}

/* Whether a link in the folder `dir` leads to that folder or one above it. */
static bool leads_up(const char *dir, const char *link)
{
    cleanup_free char *here = realpath(dir, NULL);
    cleanup_free char *there = realpath(link, NULL);
    if (!here || !there)
        return true;
    size_t len = strlen(there);
    return strcmp(there, "/") == 0 ||
           (strncmp(here, there, len) == 0 && (here[len] == '/' || here[len] == '\0'));
}

void store_local_etag(const struct stat *st, char ret[64])
{
    ret[0] = '\0';
    if (S_ISREG(st->st_mode))
        snprintf(ret, 64, "%llx-%llx", (unsigned long long)st->st_size,
                 (unsigned long long)clock_ns_of(&st->st_mtim));
}

static int emit_file(struct walk *w, const struct bytes *key, const struct stat *st,
                     struct err *err)
{
    char etag[64];
    store_local_etag(st, etag);
    struct list_item item = {.key = key->data,
                             .key_len = key->len,
                             .size = (uint64_t)st->st_size,
                             .mtime_ns = clock_ns_of(&st->st_mtim),
                             .etag = etag};
    return w->fn(w->arg, &item, err);
}

static int emit_folder(struct walk *w, struct bytes *key, const struct stat *st, struct err *err)
{
    bytes_add_char(key, '/');
    struct list_item item = {.key = key->data,
                             .key_len = key->len,
                             .mtime_ns = clock_ns_of(&st->st_mtim),
                             .etag = "",
                             .folder = true};
    if (w->fn(w->arg, &item, err))
        return -1;
    return w->recurse ? walk_push(w, key->data, err) : 0;
}

static int emit_dangling(struct walk *w, const struct bytes *key, struct err *err)
{
    struct list_item item = {.key = key->data,
                             .key_len = key->len,
                             .mtime_ns = LIST_MTIME_UNKNOWN,
                             .etag = "",
                             .dangling = true};
    return w->fn(w->arg, &item, err);
}

static int list_entry(struct walk *w, int dir_fd, const char *dir, const char *folder,
                      const char *name, struct err *err)
{
    struct stat st;
    if (store_is_temp(name))
        return 0;
    if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW))
        return errno == ENOENT ? 0 : err_sys(err, errno, "cannot list: %s/%s", dir, name);
    bool is_link = S_ISLNK(st.st_mode);
    cleanup_bytes struct bytes key = {0};
    bytes_addf(&key, "%s%s", folder, name);
    if (is_link && w->s->no_links)
        return emit_dangling(w, &key, err);
    if (is_link && fstatat(dir_fd, name, &st, 0))
        return errno == ENOENT || errno == ELOOP || errno == EACCES || errno == ENOTDIR
                   ? emit_dangling(w, &key, err)
                   : err_sys(err, errno, "cannot list: %s/%s", dir, name);
    if (S_ISREG(st.st_mode))
        return emit_file(w, &key, &st, err);
    if (!S_ISDIR(st.st_mode))
        return 0;
    cleanup_free char *path = is_link ? xasprintf("%s/%s", dir, name) : NULL;
    if (is_link && (leads_up(dir, path) || came_through(w->s->dir, dir, &st)))
        return 0;
    return emit_folder(w, &key, &st, err);
}

static int list_folder(struct walk *w, const char *folder, struct err *err)
{
    cleanup_free char *dir = xasprintf("%s/%s", w->s->dir, folder);
    cleanup_dir DIR *d = file_open_folder(w->s, dir, 0);
    if (!d) {
        if (errno == ENOENT && w->begun)
            return 0; /* removed while we list */
        return errno == ENOENT || errno == ENOTDIR
                   ? err_set(err, ERR_NOT_FOUND, "cannot list: %s: no such folder (check the path)",
                             dir)
                   : err_sys(err, errno, "cannot list: %s", dir);
    }
    w->begun = true;
    for (const struct dirent *e; (e = dir_next(d));)
        if (list_entry(w, dirfd(d), dir, folder, e->d_name, err))
            return -1;
    return errno ? err_sys(err, errno, "cannot list: %s", dir) : 0;
}

int store_local_list(struct store *s, const char *prefix, bool recurse, list_fn *fn, void *arg,
                     struct err *err)
{
    CLEANUP(walk_release)
    struct walk w = {.s = s, .fn = fn, .arg = arg, .recurse = recurse};
    cleanup_free char *start = prefix_from_path(prefix);
    char path[PATH_MAX];
    if (*start && file_path(s, start, strlen(start) - 1, path, err))
        return -1;
    if (walk_push(&w, start, err))
        return -1;
    while (w.n) {
        cleanup_free char *folder = w.folders[--w.n];
        if (list_folder(&w, folder, err))
            return -1;
    }
    return 0;
}

/* --- reading --------------------------------------------------------------------------------- */

static int check_same(int fd, const char *path, uint64_t want_size, int64_t want_mtime_ns,
                      struct err *err)
{
    struct stat st;
    if (fstat(fd, &st))
        return err_sys(err, errno, "cannot read: %s", path);
    if (S_ISDIR(st.st_mode))
        return err_set(err, ERR_STALE, "replaced: %s: it is a folder now (scan the set again)",
                       path);
    if (want_size && (uint64_t)st.st_size != want_size)
        return err_set(err, ERR_STALE,
                       "replaced: %s: %lld bytes, %llu when it was listed (scan the set again)",
                       path, (long long)st.st_size, (unsigned long long)want_size);
    if (want_mtime_ns && clock_ns_of(&st.st_mtim) != want_mtime_ns)
        return err_set(err, ERR_STALE,
                       "replaced: %s: changed since it was listed (scan the set again)", path);
    return 0;
}

int store_local_read(struct store *s, const char *key, size_t key_len, uint64_t off, void *buf,
                     size_t len, uint64_t want_size, int64_t want_mtime_ns, struct err *err)
{
    cleanup_place struct file_place p = FILE_PLACE_INIT;
    if (file_place(s, key, key_len, &p, err))
        return -1;
    cleanup_close int fd =
        openat(p.dir, p.name,
               O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | (s->no_links ? O_NOFOLLOW : 0));
    if (fd < 0)
        return err_sys(err, errno, "cannot read: %s", p.path);
    if (check_same(fd, p.path, want_size, want_mtime_ns, err))
        return -1;
    ssize_t n = file_read(fd, buf, len, off);
    if (n < 0)
        return err_sys(err, errno, "cannot read: %s", p.path);
    if ((size_t)n < len)
        return err_set(err, ERR_STALE, "replaced: %s: shorter than it was (scan the set again)",
                       p.path);
    /* Written to while we read: the bytes may be of both. */
    return check_same(fd, p.path, want_size, want_mtime_ns, err);
}

int store_local_look(struct store *s, const char *key, struct stat *ret, struct err *err)
{
    cleanup_place struct file_place p = FILE_PLACE_INIT;
    size_t len = file_bare_len(key);
    if (file_place(s, key, len, &p, err))
        return -1;
    if (fstatat(p.dir, p.name, ret, s->no_links ? AT_SYMLINK_NOFOLLOW : 0))
        return err_sys(err, errno, "look at %s", p.path);
    if (S_ISLNK(ret->st_mode))
        return err_set(err, ERR_DENIED, "%s: is a link, which is not followed", p.path);
    return key[len] && !S_ISDIR(ret->st_mode) ? err_sys(err, ENOTDIR, "look at %s", p.path) : 0;
}

/* --- deleting -------------------------------------------------------------------------------- */

/* As in the other stores, deleting what is not there succeeds. */
int store_local_delete(struct store *s, const char *key, struct err *err)
{
    cleanup_place struct file_place p = FILE_PLACE_INIT;
    if (file_place(s, key, strlen(key), &p, err))
        return -1;
    if (unlinkat(p.dir, p.name, 0) && errno != ENOENT)
        return err_sys(err, errno, "cannot delete: %s", p.path);
    if (*p.name) /* else there is nothing to lie beside */
        file_remove_left(&p);
    return 0;
}

const struct store_ops file_ops = {
    .name = "local",
    .caps = STORE_LOCAL | STORE_WRITES | STORE_META,
    .open = file_open,
};
