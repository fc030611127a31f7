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
    unsigned user; /* of a FUSE mount: who mounted it */
};

/* One line of /proc/self/mountinfo. False: it is none. */
bool mountinfo_line(const char *line, struct mount_row *ret);

/* All of them, in the order of the table, where later ones cover earlier ones. */
typedef void mount_row_fn(void *arg, const struct mount_row *row);
int mount_each(mount_row_fn *fn, void *arg, struct err *err);

/* The last (topmost) mount on `path`; NOT_FOUND if nothing is mounted there. */
int mount_find(const char *path, struct mount_row *ret, struct err *err);

#endif
