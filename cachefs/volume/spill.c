/*
 * Arrays of the size of a sample set: kept in an unlinked file of the owner's folder and mapped, so
 * that they are page cache, which the kernel may write out and drop, and not resident memory.
 */
#include "volume-internal.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>

#define SPILL_LEAST ((size_t)256 << 10) /* less stays in memory: a file would cost more */

static int unlinked_file(const char *dir, struct err *err)
{
    int fd = open(dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (fd >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != ENOENT))
        return fd >= 0 ? fd : err_sys(err, errno, "temporary file in %s", dir);
    cleanup_free char *name = xasprintf("%s/spill.XXXXXX", dir);
    fd = mkostemp(name, O_CLOEXEC);
    if (fd < 0)
        return err_sys(err, errno, "temporary file in %s", dir);
    unlink(name);
    return fd;
}

int spill_new(struct spill *ret, const char *dir, size_t bytes, struct err *err)
{
    *ret = (struct spill){0};
    if (bytes == 0)
        return 0;
    bool small = bytes <= SPILL_LEAST;
    cleanup_close int fd = small ? -1 : unlinked_file(dir, err);
    if (fd < 0 && !small)
        return -1;
    int error = small ? 0 : posix_fallocate(fd, 0, (off_t)bytes);
    if (error)
        return err_sys(err, error, "no room for %zu bytes of tables in %s", bytes, dir);
    void *data = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                      small ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED, fd, 0);
    if (data == MAP_FAILED)
        return err_sys(err, errno, "map %zu bytes of %s", bytes, dir);
    *ret = (struct spill){.data = data, .bytes = bytes};
    return 0;
}

void spill_free(struct spill *s)
{
    if (s->data)
        munmap(s->data, s->bytes);
    *s = (struct spill){0};
}
