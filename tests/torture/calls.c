/* The calls that meddle knows, and how to see what they are about. */
#include "meddle.h"

#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#define FD(n, c, fd)                       \
    {                                      \
        SYS_##n, #n, c, fd, -1, -1, -1, -1 \
    }
#define PATH(n, c, p)                     \
    {                                     \
        SYS_##n, #n, c, -1, p, -1, -1, -1 \
    }
#define AT(n, c, d, p)                   \
    {                                    \
        SYS_##n, #n, c, -1, p, d, -1, -1 \
    }
#define TWO(n, c, d, p, d2, p2)          \
    {                                    \
        SYS_##n, #n, c, -1, p, d, p2, d2 \
    }
#define NONE(n, c)                         \
    {                                      \
        SYS_##n, #n, c, -1, -1, -1, -1, -1 \
    }

const struct call_kind call_kinds[] = {
    AT(openat, CALL_OPEN, 0, 1),
    AT(openat2, CALL_OPEN, 0, 1),
    FD(read, CALL_READ, 0),
    FD(pread64, CALL_READ, 0),
    FD(readv, CALL_READ, 0),
    FD(preadv, CALL_READ, 0),
    FD(preadv2, CALL_READ, 0),
    FD(write, CALL_WRITE, 0),
    FD(pwrite64, CALL_WRITE, 0),
    FD(writev, CALL_WRITE, 0),
    FD(pwritev, CALL_WRITE, 0),
    FD(pwritev2, CALL_WRITE, 0),
    FD(sendfile, CALL_WRITE, 0),
    FD(copy_file_range, CALL_WRITE, 2),
    FD(fsync, CALL_SYNC, 0),
    FD(fdatasync, CALL_SYNC, 0),
    FD(syncfs, CALL_SYNC, 0),
    NONE(msync, CALL_SYNC),
    FD(mmap, CALL_MMAP, 4),
    NONE(munmap, CALL_UNMAP),
    NONE(clone3, CALL_THREAD),
    TWO(renameat, CALL_RENAME, 0, 1, 2, 3),
    TWO(renameat2, CALL_RENAME, 0, 1, 2, 3),
    AT(unlinkat, CALL_UNLINK, 0, 1),
    AT(mkdirat, CALL_MAKE, 0, 1),
    TWO(linkat, CALL_MAKE, 0, 1, 2, 3),
    AT(symlinkat, CALL_MAKE, 1, 2),
    FD(ftruncate, CALL_SIZE, 0),
    PATH(truncate, CALL_SIZE, 0),
    FD(fallocate, CALL_SIZE, 0),
    AT(newfstatat, CALL_STAT, 0, 1),
    AT(statx, CALL_STAT, 0, 1),
    FD(fstat, CALL_STAT, 0),
    FD(fstatfs, CALL_STAT, 0),
    FD(flock, CALL_LOCK, 0),
    FD(getdents64, CALL_LIST, 0),
    AT(faccessat, CALL_MARK, 0, 1),
    AT(faccessat2, CALL_MARK, 0, 1),
#ifdef SYS_open
    PATH(open, CALL_OPEN, 0),
    PATH(creat, CALL_OPEN, 0),
    TWO(rename, CALL_RENAME, -1, 0, -1, 1),
    PATH(unlink, CALL_UNLINK, 0),
    PATH(rmdir, CALL_UNLINK, 0),
    PATH(mkdir, CALL_MAKE, 0),
    TWO(link, CALL_MAKE, -1, 0, -1, 1),
    PATH(symlink, CALL_MAKE, 1),
    PATH(stat, CALL_STAT, 0),
    PATH(lstat, CALL_STAT, 0),
    PATH(access, CALL_MARK, 0),
#endif
};
const size_t n_call_kinds = sizeof call_kinds / sizeof call_kinds[0];

static const char *const names[CALL_CLASSES] = {
    [CALL_OPEN] = "open",     [CALL_READ] = "read",     [CALL_WRITE] = "write",
    [CALL_SYNC] = "sync",     [CALL_MMAP] = "mmap",     [CALL_MEMORY] = "memory",
    [CALL_THREAD] = "thread", [CALL_RENAME] = "rename", [CALL_UNLINK] = "unlink",
    [CALL_MAKE] = "make",     [CALL_SIZE] = "size",     [CALL_STAT] = "stat",
    [CALL_LOCK] = "lock",     [CALL_LIST] = "list",     [CALL_MARK] = "mark",
    [CALL_UNMAP] = "unmap",
};

const struct call_kind *call_find(int nr)
{
    for (size_t i = 0; i < n_call_kinds; i++)
        if (call_kinds[i].nr == nr)
            return &call_kinds[i];
    return NULL;
}

int call_class_parse(const char *word, enum call_class *ret)
{
    for (int c = 0; c < CALL_CLASSES; c++)
        if (strcmp(word, names[c]) == 0) {
            *ret = (enum call_class)c;
            return 0;
        }
    return -1;
}

const char *call_class_name(enum call_class class)
{
    return names[class];
}

/* --- looking into the program ------------------------------------------------------------------
 */

size_t tracee_read(pid_t tid, uint64_t from, void *to, size_t len)
{
    size_t done = 0;
    while (done < len) {
        struct iovec here = {(char *)to + done, len - done};
        struct iovec there = {(void *)(uintptr_t)(from + done), len - done};
        ssize_t n = process_vm_readv(tid, &here, 1, &there, 1, 0);
        if (n <= 0)
            break;
        done += (size_t)n;
    }
    return done;
}

bool tracee_text(pid_t tid, uint64_t from, char *to, size_t room)
{
    size_t at = 0;
    while (at < room) {
        /* Not over the border of a page: the next one may not be there. */
        size_t step = 4096 - (size_t)((from + at) % 4096);
        if (step > room - at)
            step = room - at;
        size_t n = tracee_read(tid, from + at, to + at, step);
        if (memchr(to + at, '\0', n))
            return true;
        if (n < step)
            return false;
        at += n;
    }
    return false;
}

bool path_below(const char *path, const char *folder)
{
    size_t n = strlen(folder);
    return strncmp(path, folder, n) == 0 && (path[n] == '/' || path[n] == '\0');
}
