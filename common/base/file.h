/*
 * Whole pieces of files: what one pread() or pwrite() leaves is asked for again.
 */
#ifndef SAMPAN_BASE_FILE_H
#define SAMPAN_BASE_FILE_H

#include <stdint.h>
#include <sys/types.h>

/* How many of the `len` bytes at `off` are there: fewer only at the file's end. -1: errno. */
ssize_t file_read(int fd, void *buf, size_t len, uint64_t off);
/* All of them, or -1: errno. */
int file_write(int fd, const void *data, size_t len, uint64_t off);

#endif
