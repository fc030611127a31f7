/* Reading and writing at a place of a file, to the end; locking one. */
#include "file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include "cleanup.h"
#include "clock.h"
#include "mem.h"

#define LOCK_LOOK_NS (20 * NS_PER_MS)

ssize_t file_read(int fd, void *buf, size_t len, uint64_t off)
{
    size_t done = 0;
    while (done < len) {
        ssize_t n = pread(fd, (char *)buf + done, len - done, (off_t)(off + done));
        if (n == 0)
            break;
        if (n < 0 && errno != EINTR)
            return -1;
        done += n < 0 ? 0 : (size_t)n;
    }
    return (ssize_t)done;
}

int file_write(int fd, const void *data, size_t len, uint64_t off)
{
    for (size_t done = 0; done < len;) {
        ssize_t n = pwrite(fd, (const char *)data + done, len - done, (off_t)(off + done));
        if (n == 0)
            errno = EIO;
        if (n == 0 || (n < 0 && errno != EINTR))
            return -1;
        done += n < 0 ? 0 : (size_t)n;
    }
    return 0;
}

int file_open_above(const char *path)
{
    const char *slash = strrchr(path, '/');
    cleanup_free char *folder = slash ? xstrndup(path, (size_t)(slash - path) + 1) : xstrdup(".");
    return open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

int file_sync_name(const char *path)
{
    cleanup_close int fd = file_open_above(path);
    return fd < 0 || fsync(fd) ? -1 : 0;
}

int file_lock(int fd, uint64_t wait_ns)
{
    const struct timespec pause = {.tv_nsec = (long)LOCK_LOOK_NS};
    uint64_t end = clock_mono_ns() + wait_ns;
    while (flock(fd, LOCK_EX | LOCK_NB)) {
        if (errno != EWOULDBLOCK || clock_mono_ns() >= end)
            return -1;
        nanosleep(&pause, NULL);
    }
    return 0;
}

bool file_few_inodes(int fd, uint64_t want, uint64_t *ret)
{
    struct statvfs fs;
    if (fstatvfs(fd, &fs) || !fs.f_files || fs.f_favail >= want)
        return false;
    if (ret)
        *ret = fs.f_favail;
    return true;
}

/* A link is no folder; it is told as what it is. */
static int open_part(int above, const char *part, int flags)
{
    struct stat st;
    int fd = openat(above, part, flags | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 && errno == ENOTDIR && fstatat(above, part, &st, AT_SYMLINK_NOFOLLOW) == 0)
        errno = S_ISLNK(st.st_mode) ? ELOOP : ENOTDIR;
    return fd;
}

int file_open_no_links(int at, const char *path, int flags)
{
    const char *p = path + strspn(path, "/"), *next;
    int fd = *p ? fcntl(at, F_DUPFD_CLOEXEC, 3) : openat(at, ".", flags | O_CLOEXEC);
    for (; fd >= 0 && *p; p = next) {
        size_t len = strcspn(p, "/");
        next = p + len + strspn(p + len, "/");
        cleanup_free char *part = xstrndup(p, len);
        cleanup_close int above = fd;
        fd = open_part(above, part, *next ? O_PATH | O_DIRECTORY : flags);
    }
    return fd;
}
