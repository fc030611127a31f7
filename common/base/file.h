/*
 * Whole pieces of files: what one pread() or pwrite() leaves is asked for again. And their locks,
 * and whether there is room for more of them.
 */
#ifndef SAMPAN_BASE_FILE_H
#define SAMPAN_BASE_FILE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* How many of the `len` bytes at `off` are there: fewer only at the file's end. -1: errno. */
ssize_t file_read(int fd, void *buf, size_t len, uint64_t off);
/* All of them, or -1: errno. */
int file_write(int fd, const void *data, size_t len, uint64_t off);
/* Opens the folder that `path` lies in. -1: errno. */
int file_open_above(const char *path);
/* That the file was made, renamed or removed is on the disk. -1: errno. */
int file_sync_name(const char *path);
/* Locks it for this process alone, waiting so long for who has it. -1: errno; EWOULDBLOCK: somebody
 * has it still. */
int file_lock(int fd, uint64_t wait_ns);
/* Opens `path` from the open folder `at` on, part by part: no link is followed, wherever in it
 * (ELOOP). So whoever may write there gains nothing by being quick. (openat2() would do it at once,
 * where kernel and container let it.) */
int file_open_no_links(int at, const char *path, int flags);
/* Can the file system that holds this open folder take fewer than `want` new files, however many
 * bytes are free? *ret (may be NULL) says how many. Those that make inodes as they need them can
 * take any number. */
bool file_few_inodes(int fd, uint64_t want, uint64_t *ret);

#endif
