/* Lines of train.jsonl, which grows meanwhile. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "curves-internal.h"
#include "file.h"
#include "mem.h"

int points_read(const char *file, uint64_t *inode, uint64_t *from, uint64_t *next,
                struct bytes *ret, struct err *err)
{
    cleanup_close int fd = open(file, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    struct stat st;
    if (fd < 0 && errno == ENOENT) {
        *inode = *from = *next = 0;
        return 0;
    }
    if (fd < 0 || fstat(fd, &st))
        return err_sys(err, errno, "%s", file);
    if (*from > (uint64_t)st.st_size || (*inode && *inode != st.st_ino))
        *from = 0;
    *inode = st.st_ino;
    bytes_reserve(ret, POINTS_MAX);
    ssize_t n = file_read(fd, ret->data, POINTS_MAX, *from);
    if (n < 0)
        return err_sys(err, errno, "%s", file);
    const char *end = n ? memrchr(ret->data, '\n', (size_t)n) : NULL;
    ret->len = end ? (size_t)(end + 1 - ret->data) : 0;
    *next = *from + ret->len;
    return 0;
}
