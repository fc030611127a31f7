/*
 * Folders, read entry by entry; the parts of paths that name no entry, and the names of images.
 */
#ifndef SAMPAN_BASE_DIR_H
#define SAMPAN_BASE_DIR_H

#include <dirent.h>
#include <stdbool.h>
#include <stddef.h>

#include "cleanup.h"

/* The folder `path`, seen from the open folder `at`; `flags` come on top of those that opening a
 * folder takes. NULL: errno. */
DIR *dir_open(int at, const char *path, int flags);
/* The folder that is open as `fd`, which is closed with it, and at once if this fails. NULL: errno;
 * that of who made `fd` where it is negative. */
DIR *dir_of(int fd);
/* The next entry, "." and ".." left out. NULL: there is none (errno 0), or it cannot be read. */
const struct dirent *dir_next(DIR *d);

/* "." or "..": the folder itself or the one above, in any folder. */
bool part_is_dots(const char *part, size_t len);
bool name_is_dots(const char *name);
/* Is ".." one of the parts? What the path names may then lie outside of where it starts. */
bool path_leads_up(const char *path);
/* Does the name, or the path, end as those of images do, in any case? Samples are numbered by this,
 * in a volume's catalog as in a plain folder (docs/formats/catalog.md). */
bool name_is_image(const char *name, size_t len);

#endif
