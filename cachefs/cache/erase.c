/* Emptying a cache folder that no process uses: packs, their journals, the index and whole objects,
 * nothing else. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cache.h"
#include "dir.h"

#define MARKER "sampan-cache"
#define SHARDS "shards" /* where mounts with --profile shards keep whole objects */

static bool is_packs(const char *name)
{
    if (strcmp(name, "index") == 0)
        return true;
    return strspn(name, "0123456789") == 8 &&
           (strcmp(name + 8, ".pack") == 0 || strcmp(name + 8, ".idx") == 0);
}

/* "17.data", "17.sums" */
static bool is_shards(const char *name)
{
    size_t digits = strspn(name, "0123456789");
    return digits && (strcmp(name + digits, ".data") == 0 || strcmp(name + digits, ".sums") == 0);
}

/* The marker's lock is what a running mount holds. */
static int lock_marker(int dir_fd, const char *dir, int *ret_fd, struct err *err)
{
    cleanup_close int fd = openat(dir_fd, MARKER, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0 && errno == ENOENT)
        return err_set(err, ERR_NOT_FOUND, "%s: neither a mount nor a cache folder", dir);
    if (fd < 0)
        return err_sys(err, errno, "open the marker in %s", dir);
    if (flock(fd, LOCK_EX | LOCK_NB)) {
        if (errno != EWOULDBLOCK)
            return err_sys(err, errno, "lock the marker in %s", dir);
        return err_set(err, ERR_LIMIT, "%s: in use by a mount (clear that mount)", dir);
    }
    *ret_fd = take_fd(&fd);
    return 0;
}

/* Removes the files in an open folder that are ours, and closes it. */
static int erase_files(int dir_fd, const char *dir, bool (*is_ours)(const char *name),
                       uint64_t *bytes, struct err *err)
{
    cleanup_dir DIR *d = dir_of(dir_fd);
    if (!d)
        return err_sys(err, errno, "read %s", dir);
    for (const struct dirent *e; (e = dir_next(d));) {
        struct stat st;
        if (!is_ours(e->d_name) || fstatat(dir_fd, e->d_name, &st, AT_SYMLINK_NOFOLLOW) ||
            !S_ISREG(st.st_mode))
            continue;
        if (unlinkat(dir_fd, e->d_name, 0))
            return err_sys(err, errno, "remove %s/%s", dir, e->d_name);
        *bytes += (uint64_t)st.st_blocks * 512; /* some are sparse */
    }
    return 0;
}

int cache_erase(const char *dir, uint64_t *ret_bytes, struct err *err)
{
    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return err_sys(err, errno, "open %s", dir);
    cleanup_close int marker = -1;
    if (lock_marker(fd, dir, &marker, err)) {
        close(fd);
        return -1;
    }
    uint64_t bytes = 0;
    int shards = openat(fd, SHARDS, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    int failed = erase_files(fd, dir, is_packs, &bytes, err);
    if (shards >= 0)
        failed = erase_files(shards, dir, is_shards, &bytes, failed ? NULL : err) || failed;
    if (failed)
        return -1;
    *ret_bytes = bytes;
    return 0;
}
