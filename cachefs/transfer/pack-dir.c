/*
 * The folder in which a sync into packs keeps catalogs that it reads and makes.
 *
 * A process that is killed leaves it. The folder is locked while its process lives, so the next one
 * knows which are nobody's: who gets the lock may remove it.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "dir.h"
#include "pack-internal.h"

#define PREFIX     "sampan-packing-"
#define TRIES_MAX  100
#define OPEN_FLAGS (O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)

/* The folder's lock, held by `fd`; it has its name still. */
static bool is_held(int above, const char *name, int fd)
{
    struct stat held, there;
    return flock(fd, LOCK_EX | LOCK_NB) == 0 && fstat(fd, &held) == 0 &&
           fstatat(above, name, &there, AT_SYMLINK_NOFOLLOW) == 0 && held.st_dev == there.st_dev &&
           held.st_ino == there.st_ino && held.st_uid == geteuid();
}

/* Of its files alone: none has folders. */
static void remove_at(int above, const char *name, int fd)
{
    cleanup_dir DIR *d = dir_open(fd, ".", 0);
    for (const struct dirent *e; d && (e = dir_next(d));)
        unlinkat(fd, e->d_name, 0);
    unlinkat(above, name, AT_REMOVEDIR);
}

static void remove_left(const char *temp_dir)
{
    cleanup_dir DIR *d = opendir(temp_dir);
    for (const struct dirent *e; d && (e = dir_next(d));) {
        if (strncmp(e->d_name, PREFIX, strlen(PREFIX)) != 0)
            continue;
        cleanup_close int fd = openat(dirfd(d), e->d_name, OPEN_FLAGS);
        if (fd >= 0 && is_held(dirfd(d), e->d_name, fd))
            remove_at(dirfd(d), e->d_name, fd);
    }
}

/* Between its making and its lock another run may have taken it for left. Where locks are not known
 * nobody gets one, and nothing is removed. */
static int make(const char *temp_dir, char **ret, int *ret_fd)
{
    cleanup_free char *dir = xasprintf("%s/" PREFIX "XXXXXX", temp_dir);
    if (!mkdtemp(dir))
        return errno;
    cleanup_close int fd = open(dir, OPEN_FLAGS);
    if (fd < 0)
        return errno == ENOENT ? EAGAIN : errno;
    if ((flock(fd, LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK) || access(dir, F_OK) != 0)
        return EAGAIN;
    *ret = take_ptr(&dir);
    *ret_fd = take_fd(&fd);
    return 0;
}

int pack_dir_make(const char *temp_dir, char **ret, int *ret_fd, struct err *err)
{
    int e = EAGAIN;
    remove_left(temp_dir);
    for (unsigned i = 0; e == EAGAIN && i < TRIES_MAX; i++)
        e = make(temp_dir, ret, ret_fd);
    return e ? err_sys(err, e, "make a folder in %s", temp_dir) : 0;
}

void pack_dir_remove(char *dir, int fd)
{
    remove_at(AT_FDCWD, dir, fd); /* while it is locked */
    close(fd);
    free(dir);
}
