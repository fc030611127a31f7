/* A set that many of the loader's tests read, and loaders of it. */
#ifndef SAMPAN_TESTS_LOADER_OPENED_H
#define SAMPAN_TESTS_LOADER_OPENED_H

#include "loader.h"

/* A folder of 3 classes with 10, 9 and 4 pictures, and one without any between them; options to
 * read it in batches of 4, and a loader that must open. */
#define SAMPLES 23
char *picture_set(void);
struct loader_options picture_options(const char *dir);
struct loader *open_loader(const struct loader_options *o);

#endif
