/*
 * Writing below a local folder: files that appear whole, links, folders, modes and times.
 *
 * A new file has no name (O_TMPFILE) until it is whole; where the file system knows no such files
 * it has a temporary one from the start. Where nothing is there it gets its name at once. Over what
 * is there it is renamed, so that a reader sees the one or the other: for that it needs a temporary
 * name, which a process that is killed at that moment leaves.
 *
 * The next put or removal of that file, or a listing, finds it there and removes it (file-temp.c).
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "clock.h"
#include "file.h"
#include "hash.h"
#include "mem.h"
#include "object-internal.h"

#define HOLE_BYTES (64u << 10) /* so many zeros in a row are not written */

struct local_file {
    int fd;
    char *temp;    /* its name so far; NULL: it has none */
    uint64_t size; /* when it is whole: of what was appended, or as told */
    char path[PATH_MAX];
};

static void local_free(struct local_file *f)
{
    if (f->temp)
        unlink(f->temp); /* before the lock goes with the descriptor: until then it is our name */
    if (f->fd >= 0)
        close(f->fd);
    free(f->temp);
    free(f);
}

/* The folder of a path, as far as its last '/'. */
static int open_unnamed(const struct store *s, struct local_file *f, struct err *err)
{
    int len = file_folder_len(f->path);
    cleanup_free char *folder = xasprintf("%.*s", len ? len : 1, f->path);
    f->fd = s->all_named ? -1 : open(folder, O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600);
    if (f->fd < 0)
        f->fd = file_make_temp(s, f->path, &f->temp);
    return f->fd < 0 ? err_sys(err, errno, "cannot write: %s", f->path) : 0;
}

int store_local_begin(struct store *s, const char *key, struct local_file **ret, struct err *err)
{
    struct local_file *f = xcalloc(1, sizeof *f);
    f->fd = -1;
    if (file_path(s, key, strlen(key), f->path, err) || file_parents(s, f->path, err) ||
        open_unnamed(s, f, err)) {
        local_free(f);
        return -1;
    }
    *ret = f;
    return 0;
}

static bool is_zero(const char *data, size_t len)
{
    return len == 0 || (data[0] == 0 && memcmp(data, data + 1, len - 1) == 0);
}

int store_local_write(const struct local_file *f, const void *data, size_t len, uint64_t off,
                      struct err *err)
{
    const char *at = data, *end = at + len;
    while (at < end) {
        /* Up to the next border, then from border to border: holes stay holes. */
        size_t piece = HOLE_BYTES - off % HOLE_BYTES;
        piece = piece < (size_t)(end - at) ? piece : (size_t)(end - at);
        bool hole = piece == HOLE_BYTES && is_zero(at, piece);
        while (!hole && (size_t)(end - at) >= piece + HOLE_BYTES &&
               !is_zero(at + piece, HOLE_BYTES))
            piece += HOLE_BYTES;
        if (!hole && file_write(f->fd, at, piece, off))
            return err_sys(err, errno, "cannot write: %s", f->path);
        off += piece;
        at += piece;
    }
    return 0;
}

void store_local_size(struct local_file *f, uint64_t size)
{
    f->size = size;
}

int store_local_append(struct local_file *f, const void *data, size_t len, struct err *err)
{
    if (store_local_write(f, data, len, f->size, err))
        return -1;
    f->size += len;
    return 0;
}

void store_local_abort(struct local_file *f)
{
    if (f)
        local_free(f);
}

/* --- names ------------------------------------------------------------------------------------ */

/* Gives an unnamed file its name, or where that is taken a temporary one, since no link can replace
 * what is there. */
static int name_it(struct local_file *f, struct err *err)
{
    cleanup_free char *from = xasprintf("/proc/self/fd/%d", f->fd);
    if (linkat(AT_FDCWD, from, AT_FDCWD, f->path, AT_SYMLINK_FOLLOW) == 0) {
        file_remove_left(f->path);
        return 0;
    }
    if (errno == EEXIST && file_link_temp(f->fd, f->path, &f->temp) == 0)
        return 0;
    return err_sys(err, errno, "cannot write: %s", f->path);
}

/* Under the name that it has so far there may be another one by now, of somebody who took this for
 * left: on a server that tells nobody of locks, after an hour without a write. */
static int rename_it(struct local_file *f, struct err *err)
{
    if (!file_has_name(f->fd, f->temp)) {
        free(take_ptr(&f->temp));
        return err_sys(err, ESTALE, "cannot write: %s", f->path);
    }
    return rename(f->temp, f->path) ? err_sys(err, errno, "cannot write: %s", f->path) : 0;
}

static struct timespec time_of(int64_t ns)
{
    int64_t s = ns / (int64_t)NS_PER_S, rest = ns % (int64_t)NS_PER_S;
    return (struct timespec){.tv_sec = s - (rest < 0),
                             .tv_nsec = rest < 0 ? rest + 1000000000 : rest};
}

static int set_attrs(int fd, const char *path, const struct local_attrs *a, struct err *err)
{
    /* The owner first: changing it takes the set-id bits away. */
    if (a->has_owner && fchown(fd, a->uid, a->gid))
        return err_sys(err, errno, "cannot change the owner: %s", path);
    if (a->has_mode && fchmod(fd, (mode_t)(a->mode & 07777)))
        return err_sys(err, errno, "cannot change the mode: %s", path);
    struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, time_of(a->mtime_ns)};
    if (a->has_mtime && futimens(fd, times))
        return err_sys(err, errno, "cannot set the time: %s", path);
    return 0;
}

/* A name is durable when the folder that holds it is. */
static int sync_name(const char *path, struct err *err)
{
    cleanup_free char *folder = xasprintf("%.*s", file_folder_len(path), path);
    cleanup_close int fd = open(*folder ? folder : "/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 || fsync(fd))
        return err_sys(err, errno, "cannot write: %s", path);
    return 0;
}

int store_local_commit(struct local_file *f, const struct local_attrs *attrs, bool durable,
                       struct err *err)
{
    static const struct local_attrs plain = {.has_mode = true, .mode = 0644};
    int result = 0;
    if (ftruncate(f->fd, (off_t)f->size)) /* it may end in a hole */
        result = err_sys(err, errno, "cannot write: %s", f->path);
    if (result == 0)
        result = set_attrs(f->fd, f->path, attrs ? attrs : &plain, err);
    if (result == 0 && attrs && !attrs->has_mode && fchmod(f->fd, 0644))
        result = err_sys(err, errno, "cannot write: %s", f->path);
    if (result == 0 && durable && fsync(f->fd))
        result = err_sys(err, errno, "cannot write: %s", f->path);
    if (result == 0 && !f->temp)
        result = name_it(f, err);
    if (result == 0 && f->temp)
        result = rename_it(f, err);
    if (result == 0)
        free(take_ptr(&f->temp));
    if (result == 0 && durable)
        result = sync_name(f->path, err);
    local_free(f);
    return result;
}

/* --- links, folders, attributes --------------------------------------------------------------- */

int store_local_link(struct store *s, const char *key, const char *target, struct err *err)
{
    char path[PATH_MAX];
    if (file_path(s, key, strlen(key), path, err) || file_parents(s, path, err))
        return -1;
    if (symlink(target, path) == 0)
        return 0;
    cleanup_free char *temp =
        xasprintf("%.*s/" STORE_TEMP_PREFIX "%012llx", file_folder_len(path), path,
                  (unsigned long long)(hash_mix64(clock_mono_ns()) & 0xffffffffffffull));
    if (symlink(target, temp))
        return err_sys(err, errno, "cannot make the link: %s", path);
    if (rename(temp, path) == 0)
        return 0;
    int e = errno;
    unlink(temp);
    return err_sys(err, e, "cannot make the link: %s", path);
}

int store_local_folder(struct store *s, const char *key, struct err *err)
{
    char path[PATH_MAX];
    struct stat st;
    if (file_path(s, key, file_bare_len(key), path, err) || file_parents(s, path, err))
        return -1;
    if (mkdir(path, 0777) == 0)
        return 0;
    int e = errno;
    if (e == EEXIST && stat(path, &st) == 0 && S_ISDIR(st.st_mode))
        return 0;
    return err_sys(err, e, "cannot make the folder: %s", path);
}

int store_local_set_attrs(struct store *s, const char *key, const struct local_attrs *a,
                          struct err *err)
{
    char path[PATH_MAX];
    struct stat st;
    if (file_path(s, key, file_bare_len(key), path, err))
        return -1;
    if (lstat(path, &st))
        return err_sys(err, errno, "look at %s", path);
    if (a->has_owner && lchown(path, a->uid, a->gid))
        return err_sys(err, errno, "cannot change the owner: %s", path);
    if (a->has_mode && !S_ISLNK(st.st_mode) && chmod(path, (mode_t)(a->mode & 07777)))
        return err_sys(err, errno, "cannot change the mode: %s", path);
    struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, time_of(a->mtime_ns)};
    if (a->has_mtime && utimensat(AT_FDCWD, path, times, AT_SYMLINK_NOFOLLOW))
        return err_sys(err, errno, "cannot set the time: %s", path);
    return 0;
}

int store_local_rename(struct store *s, const char *from, const char *to, struct err *err)
{
    char a[PATH_MAX], b[PATH_MAX];
    if (file_path(s, from, file_bare_len(from), a, err) ||
        file_path(s, to, file_bare_len(to), b, err))
        return -1;
    return rename(a, b) ? err_sys(err, errno, "rename %s to %s", a, b) : 0;
}

int store_local_remove_folder(struct store *s, const char *key, struct err *err)
{
    char path[PATH_MAX];
    if (file_path(s, key, file_bare_len(key), path, err))
        return -1;
    if (rmdir(path) == 0 || errno == ENOENT || errno == ENOTEMPTY || errno == EEXIST)
        return 0;
    return err_sys(err, errno, "cannot remove the folder: %s", path);
}

int store_local_stat(struct store *s, const char *key, struct stat *ret, struct err *err)
{
    char path[PATH_MAX];
    if (file_path(s, key, file_bare_len(key), path, err))
        return -1;
    return lstat(path, ret) ? err_sys(err, errno, "look at %s", path) : 0;
}

int store_local_readlink(struct store *s, const char *key, struct bytes *ret, struct err *err)
{
    char path[PATH_MAX], target[PATH_MAX];
    if (file_path(s, key, strlen(key), path, err))
        return -1;
    ssize_t n = readlink(path, target, sizeof target);
    if (n < 0)
        return err_sys(err, errno, "cannot read the link: %s", path);
    bytes_clear(ret);
    bytes_add(ret, target, (size_t)n);
    return 0;
}
