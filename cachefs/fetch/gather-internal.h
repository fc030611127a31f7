/*
 * Reads of packed samples that nobody waits for (prefetch, warmup), gathered into few requests.
 *
 * A read is a fetch_get whose object is a pack; done() is called once, as by fetch_get(), and may
 * be called on the caller's own thread if nothing can be sent at all. Reads under way keep the
 * gather alive: free it after the last done().
 */
#ifndef SAMPAN_FETCH_GATHER_INTERNAL_H
#define SAMPAN_FETCH_GATHER_INTERNAL_H

#include "fetch.h"

struct gather;
struct gather *gather_new(struct fetch *f);
void gather_free(struct gather *g);
void gather_add(struct gather *g, const struct fetch_get *get);
/* The read into `dest` is wanted at `prio` now, whether it waits here or in the engine. */
void gather_raise(struct gather *g, const void *dest, enum prio prio);
/* The reads whose token is set, here and in the engine: see fetch_give_up(). The caller keeps the
 * gather alive. */
void gather_give_up(struct gather *g);

#endif
