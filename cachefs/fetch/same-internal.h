/*
 * Bytes of a store whose answers do not say which object they are of (WebHDFS knows no ETag, and
 * OPEN tells no time): after them the object's status is asked for, and must be the catalog's.
 */
#ifndef SAMPAN_FETCH_SAME_INTERNAL_H
#define SAMPAN_FETCH_SAME_INTERNAL_H

#include "fetch.h"

bool same_must_be_asked(const struct fetch_get *g);
/* After the bytes of `g`, which stays until then: g->done() is called once, on any thread. */
void same_ask(struct fetch *f, const struct fetch_get *g);

#endif
