/*
 * Whole objects as files, for the kernel to read by itself (passthrough maps one inode to one file
 * at equal offsets, which a pack is not).
 *
 * A shard is two files in the shards' folder: `ID.data`, sparse until it is full, and `ID.sums`, a
 * head and one {CRC-32C, present} for each UNIT_BYTES block. A block is written, then its sum; so
 * what a crash or a power cut tears shows as a sum that does not match, and the block is absent
 * again. Blocks found on the disk count only after they were verified once in this process, and
 * once more where somebody has changed the file while it was not open here.
 *
 *   ABSENT --verified or filled--> PRESENT (until the file is found changed)
 *
 * The files of all shards together never exceed the limit: a shard reserves its whole size when it
 * is made. For a new one those go that nobody had open for CACHE_IDLE_MINUTES, the oldest first,
 * but none of a pinned sample; where they are not enough, the new one is read past the files, so
 * that a set larger than the limit keeps what fits when it is read again and again. An open one is
 * never touched.
 */
#ifndef SAMPAN_SHARD_INTERNAL_H
#define SAMPAN_SHARD_INTERNAL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "cache.h"
#include "catalog.h"
#include "err.h"
#include "source.h"
#include "sync.h"

#define SHARD_HEAD_BYTES 24    /* of `ID.sums`, before the sums */
#define SHARD_PAGE_BYTES 4096u /* what a disk gives at a time */

struct shard {
    uint64_t id, size, n_blocks;
    int data, sums;           /* descriptors, while there are users */
    struct stat left;         /* the data as the last user left it */
    _Atomic uint8_t *present; /* one a block */
    _Atomic uint64_t n_present;
    _Atomic uint8_t *held; /* one a block: counted as cached, present or still to be verified */
    struct tier *tier;     /* that counts it; NULL: none */
    _Atomic bool checked;  /* what was on the disk has been verified */
    bool wanted;           /* on the filler's list */
    bool doomed;           /* goes with its last user; under the shards' lock */
    unsigned users;        /* opens, the filler: it stays while there are any */
    bool opened;           /* by its users, who do not just look at its blocks */
    int64_t used_at;       /* last opened, or closed by all: kept as the time of `ID.sums` */
    TAILQ_ENTRY(shard) by_use;
};
TAILQ_HEAD(shard_queue, shard);

struct shards {
    struct lock lock;
    char *dir;
    uint64_t magic;            /* of files of this lineage of ids */
    uint64_t limit, used;      /* bytes reserved; under lock */
    void *by_unit;             /* tsearch(3); under lock, as is … */
    struct shard_queue by_use; /* … the one that was used longest ago first */
    struct tier *tier;         /* that the folder lies in, whose limit it shares; NULL: none */
};

static inline uint64_t unit_blocks(uint64_t size)
{
    return (size + UNIT_BYTES - 1) / UNIT_BYTES;
}

int shards_open(struct shards *s, const char *dir, uint64_t limit, uint64_t lineage,
                struct err *err);
/* Removes what mounts with whole objects have left in the folder. Was there any? */
bool shards_remove_all(const char *dir);
/* The tier whose limit the files share, from now on; what is beyond it and not open goes. Before
 * the first use. */
void shards_set_tier(struct shards *s, struct tier *tier);
void shards_close(struct shards *s);
/* Finds or makes the shard of an object and takes it into use. NULL: no room. */
struct shard *shards_use(struct shards *s, uint64_t id, uint64_t size);
void shards_unuse(struct shards *s, struct shard *shard);
/* Removes its files, with the last user of one in use. */
void shards_drop(struct shards *s, uint64_t id);
bool shards_complete(struct shards *s, uint64_t id);
uint64_t shards_used(struct shards *s);
/* The shard that a unit is a block of, in use. NULL: none, or its files can't be opened. */
struct shard *shards_use_holder(struct shards *s, uint64_t unit);
/* One in use goes with its last user. */
void shards_doom(struct shards *s, struct shard *shard);
/* What the cache asks (struct guests_ops); `shards` is a struct shards. A bad block is held no
 * more. */
int64_t shards_read(void *shards, uint64_t unit, uint32_t off, void *buf, uint32_t len);
int shards_verify(void *shards, uint64_t unit, struct err *err);
bool shards_unused(void *shards, uint64_t unit, uint64_t age_ns);
void shards_shrink(void *shards, uint64_t bytes, guests_pick_fn *stays, const void *ctx);
uint64_t shards_spare(void *shards, guests_pick_fn *stays, const void *ctx);
void shards_name(void *shards, guests_pick_fn *named, const void *ctx);

/* --- shard-list.c; lock held --- */

void shard_list_begin(struct shards *s);
/* As the one that was used last. False: one of its units is another's. */
bool shard_list_add(struct shards *s, struct shard *x);
void shard_list_remove(struct shards *s, struct shard *x);
void shard_list_used(struct shards *s, struct shard *x);
/* The one that a unit is a block of, or NULL. */
struct shard *shard_list_find(const struct shards *s, uint64_t unit);

/* --- shard-block.c --- */

/* Verifies what the disk has of a shard whose `checked` is false (filler only). */
void shard_check(struct shard *shard);
/* Will the disk take a block? Asked before its bytes are fetched. -1 and an err: no. */
int shard_has_room(const struct shard *shard, uint64_t block, struct err *err);
/* Stores a block (filler only). -1 and an err: the disk failed or is full. */
int shard_put(struct shard *shard, uint64_t block, const void *bytes, size_t len, struct err *err);
/* Has a block a sum on the disk? And where that is. */
bool shard_has_sum(const struct shard *shard, uint64_t block);
off_t shard_sum_at(uint64_t block);
/* What the two files take of the disk. */
uint64_t shard_cost(uint64_t size);
static inline bool shard_complete(const struct shard *shard)
{
    return atomic_load(&shard->n_present) == shard->n_blocks;
}
static inline uint32_t shard_block_len(const struct shard *shard, uint64_t block)
{
    return unit_length(shard->size, block);
}

#endif
