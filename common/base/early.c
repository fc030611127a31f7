/* Marks beside files that are not durable yet. */
#include "early.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "file.h"
#include "mem.h"

void boot_id_read(char ret[40])
{
    memset(ret, 0, 40);
    cleanup_close int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    if (fd < 0 || read(fd, ret, BOOT_ID_LEN) != BOOT_ID_LEN)
        memset(ret, 0, 40);
}

static char *mark_of(const char *file)
{
    return xasprintf("%s" EARLY_SUFFIX, file);
}

static int write_mark(const char *mark, const char *boot)
{
    cleanup_free char *part = xasprintf("%s.part", mark);
    cleanup_close int fd = open(part, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    return fd < 0 || file_write(fd, boot, BOOT_ID_LEN, 0) || fsync(fd) || rename(part, mark);
}

int early_mark(const char *file, struct err *err)
{
    char boot[40];
    cleanup_free char *mark = mark_of(file);
    cleanup_close int folder = file_open_above(file);
    boot_id_read(boot);
    if (!*boot)
        return err_set(err, ERR_FAILED, "mark %s: this machine does not name its boots", file);
    /* The folder is locked: others may be about to make the same file. */
    if (folder < 0 || flock(folder, LOCK_EX))
        return err_sys(err, errno, "write %s", mark);
    if (early_is_lost(file))
        early_remove(file);
    else if (early_is_marked(file))
        return 0;
    return write_mark(mark, boot) || fsync(folder) ? err_sys(err, errno, "write %s", mark) : 0;
}

bool early_is_marked(const char *file)
{
    cleanup_free char *mark = mark_of(file);
    return access(mark, F_OK) == 0;
}

bool early_is_lost(const char *file)
{
    char now[40], then[40] = "";
    cleanup_free char *mark = mark_of(file);
    cleanup_close int fd = open(mark, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return errno == EACCES || errno == EIO; /* there is one, and nobody can tell */
    boot_id_read(now);
    return file_read(fd, then, BOOT_ID_LEN, 0) != BOOT_ID_LEN || !*now ||
           memcmp(now, then, BOOT_ID_LEN) != 0;
}

int early_settle(const char *file, struct err *err)
{
    cleanup_free char *mark = mark_of(file);
    cleanup_close int fd = open(file, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fsync(fd) || file_sync_name(file))
        return err_sys(err, errno, "make %s durable", file);
    if (unlink(mark) && errno != ENOENT)
        return err_sys(err, errno, "remove %s", mark);
    return 0;
}

/* The file first: without its mark it would be believed. */
void early_remove(const char *file)
{
    cleanup_free char *mark = mark_of(file);
    if (unlink(file) == 0 || errno == ENOENT)
        unlink(mark);
}
