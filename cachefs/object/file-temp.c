/*
 * Temporary names below a local folder, and what of them goes when.
 *
 * A name is made of the file's own, and its file is locked while its process lives. One with a `w`
 * is written to under that name, where the file system knows no files without names; the others
 * have it for a moment, until they are renamed over what is there.
 *
 * Those of a moment are on a file system of this machine, mostly, and who gets the lock may remove
 * them. Those with a `w` may lie on a server, and not all of these tell one machine of another's
 * locks: one must have been left alone for an hour, too. So it is for what a listing finds, which
 * knows nothing of where a name comes from.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>

#include "hash.h"
#include "mem.h"
#include "object-internal.h"

#define TEMP_NAMES 100 /* of one file: as many can be about to replace it at once */

static char *temp_name(const struct file_place *p, const char *kind, unsigned which)
{
    int len = file_folder_len(p->name);
    const char *name = p->name + len;
    uint64_t n = hash_mix64(hash64(name, strlen(name), 0) + which);
    return xasprintf("%.*s" STORE_TEMP_PREFIX "%s%012llx", len, p->name, kind,
                     (unsigned long long)(n & 0xffffffffffffull));
}

/* The change of the inode: times of contents may be the source's. */
static bool is_older(const struct stat *st, unsigned seconds)
{
    return seconds == 0 || time(NULL) - st->st_ctim.tv_sec >= (time_t)seconds;
}

bool file_has_name(int fd, int dir, const char *name)
{
    struct stat held, there;
    return fstat(fd, &held) == 0 && fstatat(dir, name, &there, AT_SYMLINK_NOFOLLOW) == 0 &&
           held.st_dev == there.st_dev && held.st_ino == there.st_ino;
}

/* Some servers lock only what may be written. */
static int open_left(int dir, const char *temp)
{
    int fd = openat(dir, temp, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    return fd >= 0 ? fd : openat(dir, temp, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
}

/* Removes what a process that is no more has left. The lock is tried after the file was opened, so
 * the name may belong to another by then; while it is held and the name is the file's, it is not
 * anybody's. */
static bool remove_left(int dir, const char *temp, unsigned seconds)
{
    struct stat st;
    cleanup_close int fd = open_left(dir, temp);
    return fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0 && file_has_name(fd, dir, temp) &&
           fstat(fd, &st) == 0 && is_older(&st, seconds) && unlinkat(dir, temp, 0) == 0;
}

void file_remove_left(const struct file_place *p)
{
    cleanup_free char *temp = temp_name(p, "", 0);
    remove_left(p->dir, temp, 0);
}

void file_sweep(const struct store *s, int dir, const char *temp)
{
    struct stat st;
    if (fstatat(dir, temp, &st, AT_SYMLINK_NOFOLLOW) || !is_older(&st, s->left_s))
        return;
    if (S_ISLNK(st.st_mode))
        unlinkat(dir, temp, 0); /* it had that name for a moment */
    else if (S_ISREG(st.st_mode))
        remove_left(dir, temp, s->left_s);
}

int file_link_temp(int fd, const struct file_place *p, char **ret)
{
    cleanup_free char *from = xasprintf("/proc/self/fd/%d", fd);
    int e = EEXIST;
    /* Where locks are not known nobody gets one, and nothing is removed. */
    flock(fd, LOCK_EX | LOCK_NB);
    for (unsigned i = 0; e == EEXIST && i < TEMP_NAMES; i++) {
        cleanup_free char *temp = temp_name(p, "", i);
        for (int tries = 0; tries < 2; tries++) {
            e = linkat(AT_FDCWD, from, p->dir, temp, AT_SYMLINK_FOLLOW) ? errno : 0;
            if (!e) {
                *ret = take_ptr(&temp);
                return 0;
            }
            if (e != EEXIST || !remove_left(p->dir, temp, 0))
                break;
        }
    }
    errno = e;
    return -1;
}

/* Between its making and its lock, somebody who tidies up may have had both: then it is his. */
static int make_temp(int dir, const char *temp)
{
    int fd = openat(dir, temp, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return -1;
    bool taken = flock(fd, LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK;
    if (!taken && file_has_name(fd, dir, temp))
        return fd;
    close(fd);
    errno = EEXIST;
    return -1;
}

int file_make_temp(const struct store *s, const struct file_place *p, char **ret)
{
    for (unsigned i = 0; i < TEMP_NAMES; i++) {
        cleanup_free char *temp = temp_name(p, "w", i);
        for (int tries = 0; tries < 2; tries++) {
            int fd = make_temp(p->dir, temp);
            if (fd >= 0) {
                *ret = take_ptr(&temp);
                return fd;
            }
            if (errno != EEXIST)
                return -1;
            if (!remove_left(p->dir, temp, s->left_s))
                break;
        }
    }
    errno = EEXIST;
    return -1;
}
