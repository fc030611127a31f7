#include "secret-file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "cleanup.h"

int secret_read(struct secret *ret, const char *file, struct err *err)
{
    char text[SECRET_FILE_MAX + 1];
    cleanup_close int fd = open(file, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text);
    if (n < 0)
        return err_sys(err, errno, "%s", file);
    bool is_long = n > SECRET_FILE_MAX;
    while (n && strchr(" \t\r\n", text[n - 1]))
        n--;
    if (!is_long)
        secret_set(ret, text, (size_t)n);
    explicit_bzero(text, sizeof text);
    return is_long ? err_set(err, ERR_USAGE, "%s: longer than a secret may be (%d bytes)", file,
                             SECRET_FILE_MAX)
                   : 0;
}
