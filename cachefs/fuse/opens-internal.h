/*
 * Which inodes are open, how often and in which way (--profile shards): kept beyond this life,
 * because the kernel's opens are. A change is first written down whole as an intent and then made,
 * so that a life killed in between leaves one that the next can finish; and the last requests that
 * changed something are remembered, so that one which the kernel sends again counts once.
 *
 * Not thread-safe: passthrough.c holds its lock.
 */
#ifndef SAMPAN_FUSE_OPENS_INTERNAL_H
#define SAMPAN_FUSE_OPENS_INTERNAL_H

#include <stdbool.h>
#include <stdint.h>

#include "metrics.h"

#define OPENS_MAX     8192 /* inodes open at once; more are refused with ENFILE */
#define OPENS_DONE    256  /* requests remembered; those in hand at a death are far fewer */
#define OPENS_BUCKETS 1024
#define OPENS_VERSION 1

enum way { WAY_CACHED, WAY_DIRECT, WAY_PASSTHROUGH };

struct kept_open {
    uint64_t ino, size;
    uint32_t opens; /* 0: the entry is free */
    uint32_t way;
    int32_t backing_id; /* 0: none */
    uint32_t unused;
};

struct kept_opens {
    struct {
        _Atomic uint32_t armed; /* the rest is to be done */
        uint32_t at;
        uint64_t unique;
        struct kept_open to;
        int32_t closes; /* a backing id that nobody uses any more; 0 */
    } intent;
    uint64_t done[OPENS_DONE]; /* a ring */
    uint32_t n_done;
    counter ways[3], filled, failed;
    struct kept_open entries[OPENS_MAX];
};

struct opens {
    struct kept_opens *kept;
    uint32_t buckets[OPENS_BUCKETS]; /* entry + 1; 0: empty */
    uint32_t next[OPENS_MAX];        /* in its bucket, or in the list of free ones */
    uint32_t free;                   /* entry + 1 */
};

/* Takes `kept` into use and finishes what a killed life had begun. Returns a backing id that is to
 * be closed (it may be closed already), or 0. */
int32_t opens_load(struct opens *o, struct kept_opens *kept);
/* NULL: not open. */
struct kept_open *opens_find(struct opens *o, uint64_t ino);
static inline uint32_t opens_at(const struct opens *o, const struct kept_open *e)
{
    return (uint32_t)(e - o->kept->entries);
}
/* The entry of to->ino is `*to` from now on (with 0 opens it goes), by the request `unique` (0: by
 * none). NULL: the table is full; or the entry, which may have become free. */
struct kept_open *opens_change(struct opens *o, uint64_t unique, const struct kept_open *to);
/* Has this request been counted? */
bool opens_counted(const struct opens *o, uint64_t unique);

#endif
