/*
 * Listing in parallel: what its two halves share.
 *
 * list.c        the work: a stack of *spans* (a folder, or a range of keys below it), the threads
 * that list them, and the batches that carry what they find to the caller's thread list-split.c
 * where to cut a span in two (pure)
 */
#ifndef SAMPAN_FETCH_LIST_INTERNAL_H
#define SAMPAN_FETCH_LIST_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>

#include "buf.h"

/*
 * The keys k below `prefix` with after < k <= end ("" as `end`: without one), one level of them if
 * `folders`, otherwise all that is below.
 */
struct span {
    struct span *next;
    char *prefix, *after, *end;
    bool folders;
};

/*
 * A key b with last < b < end at which the rest of the span may be cut: those up to b stay, those
 * above go to another thread. Nothing is known about the keys to come, so b is `last` cut off as
 * near to the prefix as the end allows, with its last byte raised by one: each cut that meets
 * nothing beyond tells the common start of the keys, each other one opens a new stretch. False if
 * there is no such b, or it would have to contain a '/' in a span of one level (a folder's name
 * could fall on both sides).
 */
bool span_split(const struct span *s, const char *last, struct bytes *ret);

#endif
