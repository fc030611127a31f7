/*
 * The cache: a layer of the data path that keeps units in tiers of append-only pack files.
 *
 * Life of a unit (docs/formats/pack.md has the bytes):
 *
 *   ABSENT --lead--> FILLING --bytes checked--> READY in memory --appended--> READY in a pack
 *      ^                |                            |                             |
 *      +----error-------+------- no room ------------+---- dropped, pack retired --+
 *
 * The state is what the unit's stripe says: a fill listed there (FILLING, READY in memory), else
 * one entry of the index: an array of 32-byte self-validating entries, one a unit number, in a
 * sparse file mapping. Only READY in a pack is ever in the file, so it survives kill -9 by itself,
 * and a restart maps it instead of replaying. The first reader of an ABSENT unit leads; all others
 * wait on its fill. Bytes arrive once, in a pool buffer; replies are sent from that buffer until
 * the tier's writer has appended it; those of a unit that has no room anywhere are held, within a
 * share of the pool, until its readers have had all of them.
 *
 * Every READ verifies the CRC-32C of the 128 KiB chunks it touches. A bad chunk makes the unit
 * ABSENT, is counted, and the bytes are fetched again: no reader ever sees them.
 *
 * Limits: the sum of the sizes of all files below a tier's folder never exceeds its limit; a disk
 * is never filled beyond its free-space floor. A tier whose disk fails or fills up is set aside
 * with its reason, and reads go on past it.
 */
#ifndef SAMPAN_CACHE_H
#define SAMPAN_CACHE_H

#include <stdbool.h>
#include <stdint.h>

#include "catalog.h"
#include "err.h"
#include "mem.h"
#include "metrics.h"
#include "source.h"

struct log;

enum tier_kind { TIER_MEM, TIER_SSD, TIER_HDD };
#define CACHE_MAX_TIERS 8
#define CACHE_UNITS_MAX (1ull << 32) /* 16 PiB in whole blocks: none beyond is kept */

struct tier_conf {
    enum tier_kind kind;
    const char *dir;
    uint64_t limit; /* bytes, everything below dir counted */
};

struct cache_counts {
    counter hits_mem, hits_disk; /* reads served from fill buffers or mem tiers / from disk tiers */
    counter misses, waits;       /* led a fill / joined one */
    counter corrupt;             /* chunks found bad, fetched again */
    counter appended_bytes, append_errors, evicted_units, retired_packs, not_kept;
};

struct cache_conf {
    const char *dir;                         /* the owner's folder: index and lock live here */
    struct tier_conf tiers[CACHE_MAX_TIERS]; /* read and filled in this order */
    size_t n_tiers;
    double free_fraction;        /* never fill a disk beyond this free share (0.10) … */
    uint64_t free_bytes;         /* … or this many free bytes; the larger demand wins */
    struct pool *pool;           /* buffers of fills; shared with nobody */
    const char *set_id;          /* identity of the set: another one's files are refused */
    unsigned fills_max;          /* fill slots (default 512) */
    struct cache_counts *counts; /* counted on here; NULL: from 0, in memory of the cache's own */
    struct log *log;
};

/* Parses "TIER:DIR=SIZE". `dir` is allocated. */
int tier_conf_parse(struct tier_conf *ret, const char *text, struct err *err);
const char *tier_kind_name(enum tier_kind k);

struct cache;
/* Creates or opens. Refuses a folder that another process owns (says who) or of another set. */
int cache_open(struct cache **ret, const struct cache_conf *conf, struct err *err);
/* The layer. It takes `inner` for misses; closing the layer flushes and closes the cache. */
struct source *cache_source(struct cache *c, struct source *inner);
const struct cache_counts *cache_counts(const struct cache *c);

struct tier_stat {
    enum tier_kind kind;
    const char *dir;
    uint64_t limit, used, free;
    uint64_t capacity; /* bytes that packs can take in all: what else lies there, or must stay free
                          on the disk, is left out; 0: it has failed */
    const char *state; /* "ok" "full" "failed" */
    char why[256];
};
struct cache_stat {
    uint64_t units, bytes; /* cached (raw bytes; of guests bytes alone) */
    /* Units that begin a sample which the set names (cache_name()); exact where samples are single
     * units. And what guests hold. */
    uint64_t samples;
    uint64_t pinned_samples, pinned_bytes;
    struct tier_stat tiers[CACHE_MAX_TIERS];
    size_t n_tiers;
    bool compressed; /* LZ4 chosen for this set by its trial … */
    double ratio;    /* … stored / raw of the trial; 0 while undecided */
    uint64_t index_bytes;
};
void cache_stat(struct cache *c, struct cache_stat *ret);
/* Bytes that the index takes more of the tiers' capacity once it knows units up to `unit`. */
uint64_t cache_index_growth(const struct cache *c, uint64_t unit);

/* Is it local (in a pack, on its way into one, or with a guest), and where? -1: not cached, else
 * the tier's place. */
int cache_where(struct cache *c, uint64_t unit);
bool cache_has_all(struct cache *c, uint64_t unit, uint64_t n);
/* What is taken of the pool by bytes on their way, in and out: all that is in use but what is held
 * for readers in the midst of a unit that no tier keeps (passing.c), which makes way when a reader
 * needs it. For who fetches ahead and leaves a part of the pool to others. */
uint64_t cache_in_flight(struct cache *c);
/* Advice to the kernel: these units will be read soon, in this order (readahead of pack extents).
 */
void cache_will_need(struct cache *c, const uint64_t *units, size_t n);

/*
 * The set has so many samples and bytes now. Where all of it fits with room to spare, large units
 * begin with a page of their pack: a reply is copied in half the steps, for up to a page a unit. In
 * a smaller cache, or until it is said, no byte is spent so: it keeps as much of the set as it can.
 */
void cache_set_size(struct cache *c, uint64_t samples, uint64_t bytes);
/* The limit of the pool was lowered: what is held for readers beyond its share of it goes. */
void cache_pool_shrank(struct cache *c);
/* Units of a pinned sample are the last to go. */
void cache_pin(struct cache *c, uint64_t id, uint64_t size, bool pinned);
/* The version of the set that is served now (a reference is taken; NULL: none). What comes after
 * this for older ones alone is as what cache_name() does not name. */
void cache_serves(struct cache *c, struct catalog *now);
/* The units that the set as it is now names: a bit each in `named`, for those below `n`. Others are
 * unpinned, and the first to go, for any newcomer. `all`: none of those is left any more. */
void cache_name(struct cache *c, const uint64_t *named, uint64_t n, bool all);
/* Does it still know what an earlier life was told by that? Not where its index had to be made anew
 * from the journals. */
bool cache_knows_named(const struct cache *c);
/* So many pinned samples, which take so many bytes of packs, are to live here in all. While some of
 * them are missing, what is not pinned is kept only where it leaves room for those. */
void cache_expect(struct cache *c, uint64_t samples, uint64_t bytes);
void cache_drop(struct cache *c, uint64_t unit);
/* Is it in a pack or with a guest, and was not read for so long? Last uses in packs are known to
 * some minutes: in doubt it was used. */
bool cache_unused(struct cache *c, uint64_t unit, uint64_t age_ns);
void cache_clear(struct cache *c);                    /* everything, at once */
void cache_evict_to(struct cache *c, uint64_t bytes); /* sum over the tiers */
/* What nobody read for so long may go for what comes: what is younger stays. Of a set larger than
 * the cache that is read again and again, newcomers would else take the place of what is read next.
 */
#define CACHE_IDLE_MINUTES 60u
/* Makes room for `bytes` to come, as far as dropping unpinned units does; pinned ones stay, but for
 * a pack's worth in a full tier whose packs are all being read. */
void cache_make_room(struct cache *c, uint64_t bytes);
/*
 * Room that is managed by who knows what comes next. cache_room(): bytes that can be kept now,
 * beyond what cache_reclaim() needs to copy a pack, and beyond what is reserved for units on their
 * way (struct piece: if_kept). cache_reclaim(): gets back what dropped units took, until there is
 * `bytes` of room or copying what lives beside them no longer pays; whatever lives stays.
 */
uint64_t cache_room(struct cache *c);
void cache_reclaim(struct cache *c, uint64_t bytes);
/* Re-reads and verifies a cached unit. 0, or -1 with ERR_CORRUPT (it is ABSENT then) or NOT_FOUND.
 */
int cache_verify(struct cache *c, uint64_t unit, struct err *err);
/* Waits until everything filled so far is appended. */
void cache_drain(struct cache *c);
/* ... and on the disk. */
int cache_flush(struct cache *c, struct err *err);

/* Says which ids units are named by (the catalog's lineage). What was filled under another lineage
 * is dropped: one id may be two samples there. Before the first read. */
int cache_bind(struct cache *c, uint64_t lineage, struct err *err);

/* Counts what others keep below the tiers' folders, at once: for who has just written a file there
 * (a catalog). Without it that is seen when something is appended, or within seconds. */
void cache_recount(struct cache *c);

/* Files that the owner itself keeps in the sub-folder CACHE_GUESTS of a tier's folder count against
 * the tier's limit to the byte, as packs do: taken before they grow, given back after they went.
 * NULL: `dir` lies in no tier's folder, or there is no memory to know them by. */
#define CACHE_GUESTS "shards"
struct tier;
typedef bool guests_pick_fn(const void *ctx, uint64_t unit); /* of a sample, by its first unit */
/* How their bytes are had. From any thread, with no lock held, until the last read has ended. */
struct guests_ops {
    /* Bytes of a unit, cut at its end and verified: how many; -1: they can't be had. */
    int64_t (*read)(void *arg, uint64_t unit, uint32_t off, void *buf, uint32_t len);
    /* All of it, as the disk has it now: as cache_verify(). What is bad is to be held no more. */
    int (*verify)(void *arg, uint64_t unit, struct err *err);
    /* Did nobody read of its file, or have it open, for so long? */
    bool (*unused)(void *arg, uint64_t unit, uint64_t age_ns);
    /* Files that nobody reads go, the longest unused first, until all together take no more than
     * `bytes`; but not those that are to stay (NULL: none) … */
    void (*shrink)(void *arg, uint64_t bytes, guests_pick_fn *stays, const void *ctx);
    /* … of which the others take so many bytes … */
    uint64_t (*spare)(void *arg, guests_pick_fn *stays, const void *ctx);
    /* … and those of samples that are not named. One that is read goes with its last reader. */
    void (*name)(void *arg, guests_pick_fn *named, const void *ctx);
};
struct tier *cache_guests(struct cache *c, const char *dir, const struct guests_ops *ops,
                          void *arg);
uint64_t cache_guests_room(struct tier *t); /* that cache_guests_take() has now */
bool cache_guests_take(struct tier *t, uint64_t bytes);
/* A file was refused: the next finds the room that packs still keep of dropped units. */
void cache_guests_refused(struct tier *t);
/* What an earlier process left there: it counts, as the disk has it. Returns by how much all that
 * lies in the tier is beyond its limit then. */
uint64_t cache_guests_found(struct tier *t, uint64_t bytes);
void cache_guests_give(struct tier *t, uint64_t bytes);
/* Has the disk room for it above the free-space floor? Of files with holes the bytes are taken long
 * before. */
bool cache_guests_may_write(struct tier *t, uint64_t bytes);
/* A unit lies whole in one of them (or, not `here`, no more); `first`: it begins a sample. It is
 * cached then, and no pack keeps it besides: a copy there goes. Once for each change. */
void cache_guests_hold(struct tier *t, uint64_t unit, uint32_t bytes, bool first, bool here);
/* Is it one of those? */
bool cache_guests_have(struct cache *c, uint64_t unit);
/* Is the sample pinned that begins with this unit? Then no newcomer takes its place. */
bool cache_guests_pinned(struct tier *t, uint64_t unit);
/* Room for packs that guests can be made to give: what is neither pinned, nor picked by `stays`,
 * nor being read. And: they give of it until there is `bytes` of room, or no more to give. */
uint64_t cache_guests_spare(struct cache *c, guests_pick_fn *stays, const void *ctx);
void cache_guests_make_way(struct cache *c, uint64_t bytes, guests_pick_fn *stays, const void *ctx);

/* Refuses a folder that holds anything but a cache: nothing of a user's is ever mixed with ours or
 * counted against a limit. `own_folder`: the owner's index, lock and catalogs may lie there too. */
int cache_folder_check(const char *dir, int dir_fd, bool own_folder, struct err *err);

/* Removes the packs, the index and whole objects in a tier's folder that no process uses; whatever
 * else lies there stays. Refuses a folder that is no cache of ours, or is in use. */
int cache_erase(const char *dir, uint64_t *ret_bytes, struct err *err);

/* What is given away is not to be written: a descriptor of the same file or folder (O_PATH) in a
 * mount of its own, read-only and in nobody's tree, so that not even root can open it again for
 * writing through /proc. -1 where that cannot be made (a plain user's mount, a kernel before 5.12):
 * then the file's mode alone decides who can. */
int cache_read_only_view(int fd);

/* A lease on a unit's stored extent for another process; `fd` is the caller's. */
struct extent {
    int fd;
    uint64_t offset;
    uint32_t stored, raw; /* stored < raw: LZ4 chunks */
    uint32_t head;        /* bytes before `offset` that hold the record's head and chunk sums */
    uint64_t lease;
};
int cache_extent_lease(struct cache *c, uint64_t unit, struct extent *ret, struct err *err);
/* False: it was revoked, 30 s after its pack was retired. Asked after the copy. */
bool cache_extent_valid(struct cache *c, uint64_t lease);
void cache_extent_return(struct cache *c, uint64_t lease);

/*
 * A range of a unit to be sent to another machine, with the CRC-32C of the bytes that go out: where
 * the pack has them as they are, their place in it; else (in memory still, compressed, with a
 * guest) a view. Of a whole unit in a pack only the record's head is read: its sums are those that
 * were made when the bytes came from the source, so who receives them checks the whole way from
 * there.
 */
struct pack;
struct cache_part {
    struct pack *pack; /* referenced; NULL: the bytes are in `view` */
    uint64_t offset;   /* of the range in the pack's file */
    uint32_t len, crc; /* a range past the end of the unit is cut */
    struct view view;
};
/* NOT_FOUND: it is not here (nothing is fetched). */
int cache_part_find(struct cache *c, uint64_t unit, uint32_t off, uint32_t len,
                    struct cache_part *ret, struct err *err);
/* A descriptor of the part's pack, the caller's, and a lease on the pack. NOT_FOUND: it was retired
 * since the part was found. */
int cache_part_lease(struct cache *c, const struct cache_part *p, int *ret_fd, uint64_t *ret_lease,
                     struct err *err);
void cache_part_release(struct cache_part *p);

#endif
