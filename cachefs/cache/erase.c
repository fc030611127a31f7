/* Emptying a cache folder that no process uses: packs, their journals and the index, nothing else.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "cache.h"

#define MARKER "sampan-cache"

static bool is_ours(const char *name)
{
    if (strcmp(name, "index") == 0)
        return true;
    return strspn(name, "0123456789") == 8 &&
           (strcmp(name + 8, ".pack") == 0 || strcmp(name + 8, ".idx") == 0);
}

/* The marker's lock is what a running mount holds. */
static int lock_marker(int dir_fd, const char *dir, int *ret_fd, struct err *err)
{
    cleanup_close int fd = openat(dir_fd, MARKER, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0 && errno == ENOENT)
        return err_set(err, ERR_NOT_FOUND, "%s: neither a mount nor a cache folder", dir);
    if (fd < 0)
        return err_sys(err, errno, "open the marker in %s", dir);
    if (flock(fd, LOCK_EX | LOCK_NB))
        return err_set(err, ERR_LIMIT, "%s: in use by a mount (clear that mount)", dir);
    *ret_fd = take_fd(&fd);
    return 0;
}

int cache_erase(const char *dir, uint64_t *ret_bytes, struct err *err)
{
    cleanup_dir DIR *d = opendir(dir);
    if (!d)
        return err_sys(err, errno, "open %s", dir);
    cleanup_close int marker = -1;
    if (lock_marker(dirfd(d), dir, &marker, err))
        return -1;
    uint64_t bytes = 0;
    for (const struct dirent *e; (e = readdir(d));) {
        struct stat st;
        if (!is_ours(e->d_name) || fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW) ||
            !S_ISREG(st.st_mode))
            continue;
        if (unlinkat(dirfd(d), e->d_name, 0))
            return err_sys(err, errno, "remove %s/%s", dir, e->d_name);
        bytes += (uint64_t)st.st_size;
    }
    *ret_bytes = bytes;
    return 0;
}
