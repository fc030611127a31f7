/* Removes a folder of jobs; nothing else may lie there. */
#ifndef SAMPAN_TEST_JOBS_DROP_FOLDER_H
#define SAMPAN_TEST_JOBS_DROP_FOLDER_H

#include <criterion/criterion.h>
#include <unistd.h>

#include "mem.h"

static inline void jobs_drop_folder(const char *dir)
{
    static const char *const files[] = {"jobs.db", "jobs.db-wal", "jobs.db-shm"};
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        cleanup_free char *path = xasprintf("%s/%s", dir, files[i]);
        unlink(path);
    }
    cr_assert(rmdir(dir) == 0);
}

#endif
