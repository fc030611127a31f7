/* The page's files (page.c), and the points that it asks for (points.c). */
#ifndef SAMPAN_CURVES_INTERNAL_H
#define SAMPAN_CURVES_INTERNAL_H

#include <stdint.h>

#include "buf.h"
#include "curves.h"
#include "http-reply.h"

extern const struct page_file curves_files[];

/* Whole lines of the file from `*from` on; `*from` becomes where they begin, `*next` where they
 * end, `*inode` the file's: where that was another one (0: any), it is read from its begin. A file
 * that is not there yet has none. */
int points_read(const char *file, uint64_t *inode, uint64_t *from, uint64_t *next,
                struct bytes *ret, struct err *err);

#endif
