/*
 * Cleanup at the end of a scope. The `cleanup_x` of a type stands in that type's own header; here
 * are those of the C library's types.
 */
#ifndef SAMPAN_BASE_CLEANUP_H
#define SAMPAN_BASE_CLEANUP_H

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <dirent.h>

#define CLEANUP(fn) __attribute__((cleanup(fn)))

static inline void cleanup_free_fn(void *p)
{
    free(*(void **)p);
}

static inline void cleanup_close_fn(const int *fd)
{
    if (*fd >= 0)
        close(*fd);
}

static inline void cleanup_file_fn(FILE **f)
{
    if (*f)
        fclose(*f);
}

static inline void cleanup_dir_fn(DIR **d)
{
    if (*d)
        closedir(*d);
}

#define cleanup_free  CLEANUP(cleanup_free_fn)
#define cleanup_close CLEANUP(cleanup_close_fn)
#define cleanup_file  CLEANUP(cleanup_file_fn)
#define cleanup_dir   CLEANUP(cleanup_dir_fn)

/* Hands a pointer over and leaves NULL behind: `*ret = take_ptr(&local)`. */
#define take_ptr(pp)                      \
    __extension__({                       \
        __typeof__(*(pp)) taken_ = *(pp); \
        *(pp) = NULL;                     \
        taken_;                           \
    })

static inline int take_fd(int *fd)
{
    int taken = *fd;
    *fd = -1;
    return taken;
}

#endif
