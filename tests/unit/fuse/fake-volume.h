/*
 * A volume for tests of the front end: a tree in memory, bytes in one mapped file, reads that
 * answer at once, later on another thread, or with an error. It stands in for volume, catalog and
 * cache.
 */
#ifndef SAMPAN_FAKE_VOLUME_H
#define SAMPAN_FAKE_VOLUME_H

#include "volume.h"

/* Loads the tree below `folder`; the bytes go to one file `pack`. */
struct volume *fake_volume_new(const char *folder, const char *pack);
/* Its views are of memory that can't be read, as of a disk that fails, until one is dropped. */
void fake_volume_unreadable(struct volume *v);
/* What changed from one version to the next can't be told. */
void fake_volume_fail_diffs(struct volume *v, bool fail);
void fake_volume_free(struct volume *v);
/* Reads of readers answer after so long, on another thread; 0: at once. */
void fake_volume_delay(struct volume *v, uint64_t ns);
/* The order of training: a permutation of all samples with this seed. 0: none. */
void fake_volume_order(struct volume *v, uint64_t seed);
uint64_t fake_volume_reads(struct volume *v); /* of readers */
uint64_t fake_volume_pushes(struct volume *v);
/* Adds a sample to a copy of the tree and switches to it. */
void fake_volume_add(struct volume *v, const char *path, const char *text);

/* Stands in for a tier of the cache: cast it to struct tier. */
struct fake_tier {
    uint64_t limit, taken, disk_room;
    int64_t samples, bytes; /* held */
    uint64_t pinned;        /* a sample */
    unsigned refused;
};

#endif
