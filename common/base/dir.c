/* Reading folders; dots in paths; names of images. */
#include "dir.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

DIR *dir_of(int fd)
{
    DIR *d = fd < 0 ? NULL : fdopendir(fd);
    if (!d && fd >= 0) {
        int why = errno;
        close(fd);
        errno = why;
    }
    return d;
}

DIR *dir_open(int at, const char *path, int flags)
{
    return dir_of(openat(at, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | flags));
}

const struct dirent *dir_next(DIR *d)
{
    const struct dirent *e;
    do {
        errno = 0;
        e = readdir(d);
    } while (e && name_is_dots(e->d_name));
    return e;
}

bool part_is_dots(const char *part, size_t len)
{
    return (len == 1 && part[0] == '.') || (len == 2 && memcmp(part, "..", 2) == 0);
}

bool name_is_dots(const char *name)
{
    return part_is_dots(name, strlen(name));
}

bool path_leads_up(const char *path)
{
    for (size_t len; *path; path += len + (path[len] == '/')) {
        len = strcspn(path, "/");
        if (len == 2 && memcmp(path, "..", 2) == 0)
            return true;
    }
    return false;
}

bool name_is_image(const char *name, size_t len)
{
    static const char *const ends[] = {".jpg", ".jpeg", ".png",  ".ppm", ".bmp",
                                       ".pgm", ".tif",  ".tiff", ".webp"};
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        size_t n = strlen(ends[i]);
        if (len >= n && strncasecmp(name + len - n, ends[i], n) == 0)
            return true;
    }
    return false;
}
