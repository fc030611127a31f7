/* The kernel's table of mounts, as this process sees it. */
#ifndef SAMPAN_BASE_MOUNTINFO_H
#define SAMPAN_BASE_MOUNTINFO_H

#include <stdbool.h>

#include "err.h"

struct mount_row {
    char mountpoint[4096];
    char type[64];
    char source[4096];
    unsigned major, minor;
};

/* One line of /proc/self/mountinfo. False: it is none. */
bool mountinfo_line(const char *line, struct mount_row *ret);

/* The last (topmost) mount on `path`; NOT_FOUND if nothing is mounted there. */
int mount_find(const char *path, struct mount_row *ret, struct err *err);

#endif
