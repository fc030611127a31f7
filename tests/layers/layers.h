/*
 * Layers for tests: real sources that slide between the cache and the store, so that faults happen
 * in the stack that users run.
 *
 * A spec is "LAYER=…;LAYER=…", the first one topmost:
 *
 *   fault=OP:WHEN:CLASS   OP    read | ahead | all
 *                         WHEN  every:N | first:N | after:N | unit:N | always
 *                         CLASS transient | corrupt | stale | denied | limit | not-found | failed |
 *                               short (half of the bytes), flip (one bit of the bytes),
 *                               abort (the process ends; reads only)
 *   delay=OP:MS[:PERCENT] answers MS milliseconds late, PERCENT of the calls (100)
 *   count=NAME            counts, readable through layers_count()
 *
 * Linked into the debug, asan and tsan variants only: release builds refuse volume_conf.layers.
 */
#ifndef SAMPAN_TEST_LAYERS_H
#define SAMPAN_TEST_LAYERS_H

#include <stdint.h>

#include "err.h"
#include "source.h"

/* Puts the layers over `inner`; the type of volume_conf.build_layers. */
int layers_build(struct source **ret, const char *spec, struct source *inner, struct err *err);

/* A mount that can be written has no such stack. Its requests may kill: "fault=OP:unit:INODE:abort"
 * with OP as `status` names it ("write"). free() ends it; before() is outfuse's hook. */
struct layer_requests;
int layers_requests_new(struct layer_requests **ret, const char *spec, struct err *err);
void layers_requests_before(void *requests, const char *op, uint64_t ino);

struct layer_counts {
    uint64_t reads, aheads, bytes, errors, drops, in_flight, in_flight_max;
};
/* Of the layer count=NAME. NOT_FOUND (-1) if no open stack has one of that name. */
int layers_count(const char *name, struct layer_counts *ret);

#endif
