/*
 * A job that removes objects from a store (rmr, evict with "store"): its counts, how it tells of
 * its progress and hears that it is to stop, and its result.
 */
#ifndef SAMPAN_REMOVING_INTERNAL_H
#define SAMPAN_REMOVING_INTERNAL_H

#include <stdatomic.h>

#include "remove.h"
#include "server-internal.h"

struct removing {
    struct job_run *run;
    atomic_bool stop;
    bool more;                        /* not all that is to go was looked for */
    struct remove_counts before, all; /* of what is done; of all as found */
    struct bytes failures, trash;     /* items, with commas */
    size_t n_failures;
};

struct remove_watch removing_watch(struct removing *r);
/* One removal has ended with these counts. */
void removing_add(struct removing *r, const struct remove_counts *n);
/* Writes the job's result and lets go of all. `rc` and `err` are how the work ended: an object that
 * failed is an error, a wish to stop is none. Returns what the job returns. */
int removing_end(struct removing *r, int rc, struct bytes *result, struct err *err);

#endif
