/* Reading and writing at a place of a file, to the end. */
#include "file.h"

#include <errno.h>
#include <unistd.h>

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
