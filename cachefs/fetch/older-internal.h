/*
 * Objects that were replaced or deleted since the scan, where their store keeps what they were: the
 * version with the catalog's ETag and size is looked up among the object's own, and read.
 *
 * A store that says that it keeps none, or does not let us look, is not asked again for a minute.
 */
#ifndef SAMPAN_FETCH_OLDER_INTERNAL_H
#define SAMPAN_FETCH_OLDER_INTERNAL_H

#include "fetch.h"

struct older;
struct older *older_new(struct fetch *f);
void older_free(struct older *o); /* after the last done() */
/* May there be an older version of what `g` asks for? */
bool older_may_be(struct older *o, const struct fetch_get *g);
/* Reads it. g->done() is called once, perhaps by this thread; with `stale` if there is none. */
void older_get(struct older *o, const struct fetch_get *g, const struct err *stale);

#endif
