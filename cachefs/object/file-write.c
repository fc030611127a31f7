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
    struct file_place at;
};

static void local_free(struct local_file *f)
{
    if (f->temp)
        /* Before the lock goes with the descriptor: until then it is our name. */
        unlinkat(f->at.dir, f->temp, 0);
    if (f->fd >= 0)
        close(f->fd);
    file_place_release(&f->at);
    free(f->temp);
    free(f);
}

/* The folder of a place. */
static int open_above(const struct file_place *p, int flags)
{
    int len = file_folder_len(p->name);
    cleanup_free char *folder = len ? xstrndup(p->name, (size_t)len) : xstrdup(".");
    return openat(p->dir, folder, flags | O_CLOEXEC, 0600);
}

static int open_unnamed(const struct store *s, struct local_file *f, struct err *err)
{
    f->fd = s->all_named ? -1 : open_above(&f->at, O_TMPFILE | O_WRONLY);
    if (f->fd < 0)
        f->fd = file_make_temp(s, &f->at, &f->temp);
    return f->fd < 0 ? err_sys(err, errno, "cannot write: %s", f->at.path) : 0;
}

int store_local_begin(struct store *s, const char *key, struct local_file **ret, struct err *err)
{
    struct local_file *f = xcalloc(1, sizeof *f);
    f->fd = -1;
    if (file_place_new(s, key, strlen(key), &f->at, err) || open_unnamed(s, f, err)) {
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
            return err_sys(err, errno, "cannot write: %s", f->at.path);
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
    if (linkat(AT_FDCWD, from, f->at.dir, f->at.name, AT_SYMLINK_FOLLOW) == 0) {
        file_remove_left(&f->at);
        return 0;
    }
    if (errno == EEXIST && file_link_temp(f->fd, &f->at, &f->temp) == 0)
        return 0;
    return err_sys(err, errno, "cannot write: %s", f->at.path);
}

/* Under the name that it has so far there may be another one by now, of somebody who took this for
 * left: on a server that tells nobody of locks, after an hour without a write. */
static int rename_it(struct local_file *f, struct err *err)
{
    if (!file_has_name(f->fd, f->at.dir, f->temp)) {
        free(take_ptr(&f->temp));
        return err_sys(err, ESTALE, "cannot write: %s", f->at.path);
    }
    return renameat(f->at.dir, f->temp, f->at.dir, f->at.name)
               ? err_sys(err, errno, "cannot write: %s", f->at.path)
               : 0;
}

static int set_attrs(int fd, const char *path, const struct local_attrs *a, struct err *err)
{
    /* The owner first: changing it takes the set-id bits away. */
    if (a->has_owner && fchown(fd, a->uid, a->gid))
        return err_sys(err, errno, "cannot change the owner: %s", path);
    if (a->has_mode && fchmod(fd, (mode_t)(a->mode & 07777)))
        return err_sys(err, errno, "cannot change the mode: %s", path);
    struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, clock_timespec(a->mtime_ns)};
    if (a->has_mtime && futimens(fd, times))
        return err_sys(err, errno, "cannot set the time: %s", path);
    return 0;
}

/* A name is durable when the folder that holds it is. */
static int sync_name(const struct file_place *p, struct err *err)
{
    cleanup_close int fd = open_above(p, O_RDONLY | O_DIRECTORY);
    if (fd < 0 || fsync(fd))
        return err_sys(err, errno, "cannot write: %s", p->path);
    return 0;
}

/*
 * It may end in a hole: then a zero is written at its end. No ftruncate(), not even to the size
 * that it has: ext4 notes that size at once and the bytes half a minute later, and after a power
 * cut between the two there are zeros in a file of the right size, which the next sync would pass
 * over.
 */
static int end_it(const struct local_file *f)
{
    struct stat st;
    if (fstat(f->fd, &st))
        return -1;
    return (uint64_t)st.st_size < f->size ? file_write(f->fd, "", 1, f->size - 1) : 0;
}

int store_local_commit(struct local_file *f, const struct local_attrs *attrs, bool durable,
                       struct err *err)
{
    static const struct local_attrs plain = {.has_mode = true, .mode = 0644};
    int result = 0;
    if (end_it(f))
        result = err_sys(err, errno, "cannot write: %s", f->at.path);
    if (result == 0)
        result = set_attrs(f->fd, f->at.path, attrs ? attrs : &plain, err);
    if (result == 0 && attrs && !attrs->has_mode && fchmod(f->fd, 0644))
        result = err_sys(err, errno, "cannot write: %s", f->at.path);
    if (result == 0 && durable && fsync(f->fd))
        result = err_sys(err, errno, "cannot write: %s", f->at.path);
    if (result == 0 && !f->temp)
        result = name_it(f, err);
    if (result == 0 && f->temp)
        result = rename_it(f, err);
    if (result == 0)
        free(take_ptr(&f->temp));
    if (result == 0 && durable)
        result = sync_name(&f->at, err);
    local_free(f);
    return result;
}

/* --- links, folders, attributes --------------------------------------------------------------- */

int store_local_link(struct store *s, const char *key, const char *target, struct err *err)
{
    cleanup_place struct file_place p = FILE_PLACE_INIT;
    if (file_place_new(s, key, strlen(key), &p, err))
        return -1;
    if (symlinkat(target, p.dir, p.name) == 0)
        return 0;
    cleanup_free char *temp =
        xasprintf("%.*s" STORE_TEMP_PREFIX "%012llx", file_folder_len(p.name), p.name,
                  (unsigned long long)(hash_mix64(clock_mono_ns()) & 0xffffffffffffull));
    if (symlinkat(target, p.dir, temp))
        return err_sys(err, errno, "cannot make the link: %s", p.path);
    if (renameat(p.dir, temp, p.dir, p.name) == 0)
        return 0;
    int e = errno;
    unlinkat(p.dir, temp, 0);
    return err_sys(err, e, "cannot make the link: %s", p.path);
}

int store_local_folder(struct store *s, const char *key, struct err *err)
{
    cleanup_place struct file_place p = FILE_PLACE_INIT;
    struct stat st;
    if (file_place_new(s, key, file_bare_len(key), &p, err))
        return -1;
    if (mkdirat(p.dir, p.name, 0777) == 0)
        return 0;
    int e = errno;
    if (e == EEXIST && fstatat(p.dir, p.name, &st, s->no_links ? AT_SYMLINK_NOFOLLOW : 0) == 0 &&
        S_ISDIR(st.st_mode))
        return 0;
    return err_sys(err, e, "cannot make the folder: %s", p.path);
}

int store_local_set_attrs(struct store *s, const char *key, const struct local_attrs *a,
                          struct err *err)
{
    cleanup_place struct file_place p = FILE_PLACE_INIT;
    struct stat st;
    if (file_place(s, key, file_bare_len(key), &p, err))
        return -1;
    if (fstatat(p.dir, p.name, &st, AT_SYMLINK_NOFOLLOW))
        return err_sys(err, errno, "look at %s", p.path);
    if (a->has_owner && fchownat(p.dir, p.name, a->uid, a->gid, AT_SYMLINK_NOFOLLOW))
        return err_sys(err, errno, "cannot change the owner: %s", p.path);
    if (a->has_mode && !S_ISLNK(st.st_mode) &&
        fchmodat(p.dir, p.name, (mode_t)(a->mode & 07777), s->no_links ? AT_SYMLINK_NOFOLLOW : 0))
        return err_sys(err, errno, "cannot change the mode: %s", p.path);
    struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, clock_timespec(a->mtime_ns)};
    if (a->has_mtime && utimensat(p.dir, p.name, times, AT_SYMLINK_NOFOLLOW))
        return err_sys(err, errno, "cannot set the time: %s", p.path);
    return 0;
}

int store_local_rename(struct store *s, const char *from, const char *to, struct err *err)
{
    cleanup_place struct file_place a = FILE_PLACE_INIT, b = FILE_PLACE_INIT;
    if (file_place(s, from, file_bare_len(from), &a, err) ||
        file_place(s, to, file_bare_len(to), &b, err))
        return -1;
    return renameat(a.dir, a.name, b.dir, b.name)
               ? err_sys(err, errno, "rename %s to %s", a.path, b.path)
               : 0;
}

int store_local_remove_folder(struct store *s, const char *key, struct err *err)
{
    cleanup_place struct file_place p = FILE_PLACE_INIT;
    if (file_place(s, key, file_bare_len(key), &p, err))
        return -1;
    if (unlinkat(p.dir, p.name, AT_REMOVEDIR) == 0 || errno == ENOENT)
        return 0;
    if (errno == ENOTEMPTY || errno == EEXIST)
        return err_set(err, ERR_STALE, "cannot remove the folder: %s: something is in it", p.path);
    return err_sys(err, errno, "cannot remove the folder: %s", p.path);
}

int store_local_sync_name(struct store *s, const char *key, struct err *err)
{
    cleanup_place struct file_place p = FILE_PLACE_INIT;
    struct err why = {0};
    if ((file_place(s, key, file_bare_len(key), &p, &why) == 0 && sync_name(&p, &why) == 0) ||
        why.class == ERR_NOT_FOUND)
        return 0;
    if (err)
        *err = why;
    return -1;
}

int store_local_stat(struct store *s, const char *key, struct stat *ret, struct err *err)
{
    cleanup_place struct file_place p = FILE_PLACE_INIT;
    if (file_place(s, key, file_bare_len(key), &p, err))
        return -1;
    return fstatat(p.dir, p.name, ret, AT_SYMLINK_NOFOLLOW)
               ? err_sys(err, errno, "look at %s", p.path)
               : 0;
}

int store_local_readlink(struct store *s, const char *key, struct bytes *ret, struct err *err)
{
    cleanup_place struct file_place p = FILE_PLACE_INIT;
    char target[PATH_MAX];
    if (file_place(s, key, strlen(key), &p, err))
        return -1;
    ssize_t n = readlinkat(p.dir, p.name, target, sizeof target);
    if (n < 0)
        return err_sys(err, errno, "cannot read the link: %s", p.path);
    bytes_clear(ret);
    bytes_add(ret, target, (size_t)n);
    return 0;
}
