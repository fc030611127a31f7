/*
 * What the files of the cache share: its objects, who guards their fields, and which file has which
 * function. Lock order: the settling, a stripe, then the index's growth, then a tier, the slots or
 * what passes, then the pool. No file releases a pool buffer while it holds one of these locks: the
 * pool may call back.
 */
#ifndef SAMPAN_CACHE_INTERNAL_H
#define SAMPAN_CACHE_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>

#include "cache.h"
#include "format-internal.h"
#include "guard.h"
#include "policy-internal.h"
#include "sync.h"

#define STRIPES           256
#define INDEX_CHUNK_BYTES (64u << 20) /* mapped at a time */
#define INDEX_CHUNK_UNITS (INDEX_CHUNK_BYTES / ENTRY_BYTES)
#define PAGE_ENTRIES      (4096u / ENTRY_BYTES)
#define INDEX_CHUNKS      (CACHE_UNITS_MAX / INDEX_CHUNK_UNITS)
#define INDEX_STEP        65536u /* bytes the index file grows by */
#define PACK_LEAF         1024u
#define PACK_LEAVES       4096u
#define NO_TIER           (-1)
#define TOUCH_MINUTES     5u /* "last use" is no finer: a hit seldom dirties the index */

struct stripe {
    struct lock lock;
    struct fill *fills;
} __attribute__((aligned(64)));

/* --- index.c: the entries of units that are in packs ------------------------------------------ */

struct index {
    int fd;
    char *path;
    struct tier *tier; /* the tier whose folder holds the file and is charged for it, or NULL */
    struct stripe *stripes;    /* the cache's */
    struct index_head *mapped; /* the file's header */
    struct lock lock;          /* growth; and once writers run, `head` */
    struct index_head head;    /* what the file's header is to say: index_head_store() */
    _Atomic uint64_t n_units;  /* entries below this one are inside the file; only grows */
    _Atomic(struct place *) chunks[INDEX_CHUNKS];
};

int index_open(struct index *ix, const char *dir, uint64_t set_hash, bool *ret_usable,
               struct err *err);
int index_reset(struct index *ix, struct err *err); /* no entries; nobody else may use it */
void index_close(struct index *ix, bool clean);
void index_head_store(struct index *ix); /* after a change of ix->head */
/* Makes room for the unit's entry. -1: no room in the tier, or the disk refuses. */
int index_cover(struct index *ix, uint64_t unit);
uint64_t index_bytes(const struct index *ix);
/* What index_cover() would take of a tier. */
uint64_t index_growth(const struct index *ix, uint64_t unit);

/* The stripe of the unit is held for these two; its page is settled (place_load()). */
bool index_load(const struct index *ix, uint64_t unit,
                struct place *ret); /* false: nothing known */
bool index_store(struct index *ix, uint64_t unit,
                 struct place *e); /* NULL clears; false: disk broke */

/* Calls fn for each unit that has an entry, without any lock: fn takes the stripe and looks again.
 */
typedef void index_each_fn(void *arg, uint64_t unit, const struct place *e);
void index_each(struct index *ix, index_each_fn *fn, void *arg);
/* The same for the page of entries that begins with `unit`, whose stripe is held. False: the disk
 * can't deliver it. */
bool index_page(struct index *ix, uint64_t unit, index_each_fn *fn, void *arg);
/* The first unit at or above this one, both of whole pages, that is not in a hole of the file. */
uint64_t index_skip_hole(const struct index *ix, uint64_t unit);
void index_will_need(const struct index *ix, uint64_t unit, uint64_t n); /* advice to the kernel */

/* --- pack.c, journal.c ------------------------------------------------------------------------ */

struct pack {
    struct tier *tier;
    uint32_t number;
    atomic_int refs;                     /* 0: gone. The tier's list holds one, each view one */
    _Atomic(const unsigned char *) map;  /* map_len bytes; NULL until first read */
    uint64_t map_len;                    /* room for all that it may grow to */
    _Atomic uint64_t size, journal_size; /* bytes of the two files */
    _Atomic uint64_t live;               /* bytes of the records that entries point to */
    uint64_t appends, synced;            /* tier lock; so many of them are on the disk for sure */
    uint64_t retired_ns;                 /* tier lock; 0: in the list */
    struct pack *next;                   /* tier lock: the tier's list */
    struct pack *next_made;              /* all ever made: freed with the tier */
    int fd, direct_fd, journal_fd;       /* of the active pack, else -1; writer thread */
};

/* Where a record is and what it must hold. */
struct extent_ref {
    struct pack *pack; /* referenced */
    uint64_t offset;
    struct place entry;
};

struct pack *pack_new(struct tier *t, uint32_t number);
bool pack_ref(struct pack *p); /* false: it is gone */
void pack_unref(struct pack *p);
void pack_name(char out[32], uint32_t number, const char *suffix);
void pack_unlink(const struct tier *t, uint32_t number); /* with its journal */
int pack_create(struct tier *t, struct pack **ret, struct err *err);
int pack_reopen(struct pack *p, struct err *err); /* to append to the last one of an earlier run */
void pack_seal(struct pack *p);                   /* closes what appending needs */
const unsigned char *pack_map(struct pack *p, struct err *err);

/* The bytes [off, off+len) of a unit, verified. */
enum pack_result {
    PACK_OK,
    PACK_BAD,
    PACK_IO,
    PACK_NO_ROOM,
    PACK_NO_MEMORY,
    PACK_UNMAPPED /* for want of descriptors or memory: nothing is wrong with it */
};
enum pack_result pack_view(struct cache *c, const struct extent_ref *x, uint64_t unit, uint32_t off,
                           uint32_t len, struct view *ret);
/* Where the bytes of a whole unit lie in the pack's file, and their sum, as its record says. Stored
 * as they are only; *ret_plain false: compressed. */
enum pack_result pack_whole(const struct extent_ref *x, uint64_t unit, bool *ret_plain,
                            uint64_t *ret_offset, uint32_t *ret_crc);
enum pack_result pack_verify(const struct extent_ref *x, uint64_t unit);
/* Reads a whole record into `out` (entry.raw decides its size) and checks all of it. */
enum pack_result pack_copy(const struct extent_ref *x, uint64_t unit, unsigned char *out,
                           uint64_t bytes);

typedef void record_fn(void *arg, struct pack *p, const struct journal_record *r);
/* The records of a pack, from its journal or, if that is damaged, from the pack itself. Returns the
 * end of the last whole record. */
uint64_t pack_each_record(struct pack *p, record_fn *fn, void *arg);
int journal_each(struct pack *p, record_fn *fn, void *arg, uint64_t *ret_end);
/* The same end, and how many records there are, from the last ones alone: for a journal that no
 * power loss can have torn. -1: they do not say it; walk. */
int journal_tail(struct pack *p, uint64_t *ret_records, uint64_t *ret_end);
int journal_create(struct pack *p, struct err *err);
int journal_append(struct pack *p, const struct journal_record *r, size_t n, struct err *err);

/* --- direct.c: large units past the page cache ------------------------------------------------ */

/* Bytes [offset, offset + len) of the pack's file, in a buffer of the pool; *ret: where they begin
 * in it. NULL: not in this way (no buffer is free, the disk refuses, or its file system reads in no
 * such way). */
struct buf *direct_read(struct pool *pool, const struct pack *p, uint64_t offset, uint32_t len,
                        const unsigned char **ret);
/* Writes all whole pages of these bytes to the pack's file at `offset`, past the page cache if that
 * is the quicker way. Returns how many are written: fewer, or none, where the rest must be written
 * in the common way, which tells what is wrong. */
size_t direct_write(struct pool *pool, struct pack *p, const void *data, size_t len,
                    uint64_t offset);

/* --- checksum.c, compress.c ------------------------------------------------------------------- */

void record_seal(struct record_head *head, const struct chunk *table);
bool record_ok(const struct record_head *head, const struct chunk *table);

struct trial {
    _Atomic int verdict; /* 0 undecided, 1 LZ4, -1 plain */
    struct lock lock;
    uint64_t units, raw, stored;
};
void trial_add(struct trial *t, const unsigned char *data, size_t len, unsigned char *scratch);
double trial_ratio(struct trial *t);
size_t compress_bound(void); /* of a whole unit */
/* Packs the unit's chunks into `out`, fills table[].stored. Returns the bytes stored, or 0 where it
 * does not pay. */
size_t compress_unit(const unsigned char *data, size_t len, struct chunk *table,
                     unsigned char *out);
bool decompress_chunk(const unsigned char *stored, size_t stored_len, unsigned char *out,
                      size_t len);

/* --- disk.c: is the tier's disk to be used for new bytes? ------------------------------------ */

struct health {
    enum { HEALTH_OK, HEALTH_FULL, HEALTH_FAILED } state;
    uint64_t retry_ns; /* when it may be tried again */
    char why[256];
    bool no_links; /* the file system counts none of folders, also of those that are there */
};
void health_begin(struct health *h, int dir_fd);
/* False: the folder `dir_fd` was removed. */
bool health_look(struct health *h, int dir_fd);
/* A write into it failed. */
void health_error(struct health *h, int dir_fd, const struct err *e);
void health_full(struct health *h, const char *why); /* our own limit: tried again at once */
void health_good(struct health *h);
bool health_usable(const struct health *h, uint64_t now_ns);

/* --- tier.c, folder.c ------------------------------------------------------------------------- */

/* Whom making room may cost its place. */
enum mercy {
    SPARE_NOTHING, /* the unpinned before the pinned */
    SPARE_PINNED,
    SPARE_ALL, /* only what dropped units took is got back */
};

/* For large units: what the last took through the page cache and past it (direct.c). */
struct ways_out {
    uint64_t ns[2]; /* of a whole unit */
    unsigned turns;
    bool refused; /* the file system or the disk knows no way past the page cache */
};

struct tier {
    struct cache *c;
    int place;
    enum tier_kind kind;
    char *dir;
    int dir_fd, marker_fd;
    int view_fd; /* of the same folder: cache_read_only_view() */
    unsigned char id[TIER_ID_BYTES];
    uint64_t pack_max;

    struct lock lock; /* guards all down to the next empty line */
    uint64_t limit, used, reserved, foreign;
    uint64_t guests; /* what cache_guests_take() was given; `foreign` leaves it out then */
    bool has_guests;
    uint64_t refused_ns;    /* when the writer was told that a guest found no room */
    uint64_t looks, looked; /* at the folder: begun so far, and the one that `foreign` is of */
    uint64_t guest_samples, guest_bytes; /* cache_guests_hold() */
    struct health health;
    uint32_t next_pack;
    struct pack *packs, *made;
    struct fill *queue, **queue_tail;
    uint64_t queued, done; /* appends asked for and ended: cache_flush() waits on these */
    bool stop, poked;
    uint64_t goal; /* bytes of packs and journals to come down to, once asked for */
    enum mercy goal_mercy;
    uint64_t goal_asked, goal_done;
    uint64_t room_wanted; /* by pinned newcomers that were not kept, ... */
    uint64_t left_wanted; /* ... by any, while there is what is left */
    atomic_bool left;     /* there may be units that nobody wants (UNIT_LEFT); set after they are */
    struct cond wake, ended;

    _Atomic(_Atomic(struct pack *) *) leaves[PACK_LEAVES];

    pthread_t thread; /* the writer; all below is its own */
    bool started;
    struct pack *active;
    unsigned char *scratch;
    uint64_t upkeep_ns, room_made_ns;
    bool no_blocks_at_once; /* the file system knows no fallocate() */
    struct ways_out ways;
};

int tier_open(struct tier *t, const struct tier_conf *conf, struct err *err);
int tier_find_packs(struct tier *t, struct err *err);
void tier_close(struct tier *t);
struct pack *tier_pack(const struct tier *t, uint32_t number); /* borrowed, perhaps gone; or NULL */
int tier_add_pack(struct tier *t, struct pack *p);
uint64_t reservation(uint32_t raw, uint32_t paged); /* what keeping a unit may cost at most */
bool tier_reserve(struct tier *t, uint64_t bytes);  /* false: no room, or not usable */
void tier_settle(struct tier *t, uint64_t reserved, uint64_t used); /* ends a reservation */
bool tier_charge(struct tier *t, uint64_t bytes); /* at once, without a reservation */
void tier_discharge(struct tier *t, uint64_t bytes);
/* The disk refused what was charged: it is given back, and the tier set aside. */
void tier_failed(struct tier *t, uint64_t charged, const struct err *why);
struct tier *tier_choose(struct cache *c, uint64_t bytes, bool pinned);
bool cache_pinned(struct cache *c, uint64_t unit);
/* What could be kept beyond a pack's worth, which reclaiming needs to copy. */
uint64_t tier_room(struct tier *t);
uint64_t tier_free_bytes(const struct tier *t);
/* Counts what others keep in its folder; one that was removed is set aside. */
void tier_look(struct tier *t);
uint64_t tier_capacity(struct tier *t); /* bytes that packs can take in all */

/* A tier's folder: its marker, and what others keep in it. */
int folder_claim(const char *dir, int dir_fd, const char *set_id, unsigned char id[TIER_ID_BYTES],
                 int *ret_marker_fd, struct err *err);
uint64_t folder_lineage(int marker_fd);
int folder_set_lineage(const char *dir, int marker_fd, uint64_t lineage, struct err *err);
uint64_t folder_foreign(const struct tier *t, bool has_guests);
bool folder_contains(const char *outer, const char *inner); /* both real paths */

/* --- fill.c: units on their way in ----------------------------------------------------------- */

struct waiter {
    struct waiter *next;
    struct piece piece;
    struct source_wait *wait;
    bool ahead;
};

struct fill {
    struct source_wait wait; /* first: the inner layer's done() gets this */
    struct cache *c;
    atomic_int refs;    /* the flight's and, once it is to be kept, the writer's */
    struct piece piece; /* as the inner layer was asked; the catalog is referenced */
    struct buf *buf;
    uint32_t len; /* of the unit; of the piece, where that is fetched alone */
    bool first;   /* the unit begins a sample */

    /* guarded by the stripe's lock */
    struct fill *next;
    enum { FILL_RUNNING, FILL_READY } state;
    bool unwanted;  /* dropped meanwhile: not to be kept */
    enum prio prio; /* the most urgent that waits */
    struct waiter *waiters;
    atomic_bool given_up; /* by all that had waited: the inner layer's token; set once */

    bool passes;      /* no tier keeps it: room is reserved among those that pass */
    struct place was; /* of a unit that comes from another pack: its entry there */
    bool carried;
    struct tier *tier; /* that will keep it, its room reserved; set before FILL_READY */
    uint64_t reserved;
    uint32_t paged;          /* UNIT_PAGED or 0, as the room was reserved for */
    struct fill *queue_next; /* tier lock; then the free list */
};

struct fill *fill_find(struct stripe *s, uint64_t unit); /* stripe held */
void fill_unlist(struct stripe *s, struct fill *f);      /* stripe held */
struct waiter *waiter_new(const struct piece *p, struct source_wait *wait, bool ahead);
void fill_join(struct fill *f, const struct piece *p, struct source_wait *wait, bool ahead);
/* Besides SOURCE_PENDING and -1. */
enum lead { LEAD_LOST = 2, LEAD_NO_ROOM = 3, LEAD_NOT_KEPT = 4 };
int fill_lead(struct cache *c, const struct piece *p, struct source_wait *wait, bool ahead,
              bool resumed, struct err *err);
void fill_unref(struct fill *f);
/* For a unit that comes from another pack: a slot, and a buffer to be filled with its bytes. Not
 * listed yet. NULL: there is no room for it now. */
struct fill *fill_carried(struct tier *t, uint64_t unit, const struct place *was);
/* What a piece is of a unit whose `len` bytes are in `b`; it holds a reference. */
void buf_view(struct buf *b, uint32_t len, const struct piece *p, struct view *ret);

/* --- slots.c: room for units on their way in, and who waits for it ---------------------------- */

struct slots {
    struct lock lock; /* all below */
    struct fill *all, *free;
    unsigned n, n_used;
    struct waiter *parked, **parked_tail; /* readers that found no slot or no memory, in order */
    unsigned parking; /* whose reader may be answered already, but who makes way for it still */
    bool kicked, resuming;
    struct cond idle;
};

void slots_init(struct cache *c, unsigned n);
void slots_destroy(struct cache *c);
/* An empty fill, or NULL: no slot is free, or not for this one. `resumed`: a parked reader is tried
 * again. */
struct fill *slots_take(struct cache *c, bool ahead, bool resumed);
void slots_give(struct fill *f, bool wakes); /* `wakes`: parked readers try again */
void slots_park(struct cache *c, const struct piece *p, struct source_wait *wait);
/* What passes makes way for readers that wait; each unit that goes lets them try. */
void slots_make_way(struct cache *c);
void slots_drain(struct cache *c); /* waits until nothing is in flight and nobody parked */

/* --- passing.c: units that no tier keeps, for who is in the midst of reading them --------------
 */

#define PASSING_ALONE 64u

struct passing_alone {
    uint64_t unit, used_ns;
};

struct passing {
    struct lock lock;            /* all below */
    struct passing_unit *oldest; /* by last use */
    uint64_t held;
    _Atomic uint64_t in_pool; /* what the buffers in the list take there; read without the lock */
    struct passing_alone alone[PASSING_ALONE]; /* blocks that are; used_ns 0: none */
    unsigned next_alone;
};

void passing_init(struct cache *c);
void passing_destroy(struct cache *c);
/* For a unit that is fetched ahead, or for a reader. False: there is no room. */
bool passing_reserve(struct cache *c, uint32_t len, bool ahead);
void passing_give_back(struct cache *c, uint32_t len); /* ends a reservation */
/* Is the block fetched as it is read? From the first piece on, until one ends it or none was read
 * for some time. */
bool passing_is_alone(struct cache *c, uint64_t unit);
void passing_alone(struct cache *c, uint64_t unit, bool ends);
/* Ends the fill's reservation, if any. Its readers have had `taken` bytes of it. Its stripe is
 * held, so that a drop comes before or after; what had to make way is returned, for passing_free()
 * without a lock. */
struct passing_unit *passing_put(struct cache *c, struct fill *f, uint64_t taken);
void passing_free(struct passing_unit *gone);
/* The piece, and it counts as handed out. False: not here. */
bool passing_find(struct cache *c, const struct piece *want, struct view *ret);
bool passing_has(struct cache *c, uint64_t unit);
void passing_drop(struct cache *c, uint64_t unit);
void passing_clear(struct cache *c);
bool passing_make_way(struct cache *c); /* the oldest goes; false: there is none */
void passing_expire(struct cache *c);   /* those that nobody went on reading */

/* --- give-up.c -------------------------------------------------------------------------------- */

/* All waiters whose token is set are answered, and the inner layer is told of fills that have none
 * left. */
void fill_give_up(struct cache *c);

/* --- settle.c: the entries that an earlier life left, compared with the packs ----------------- */

struct settling {
    struct lock lock;             /* a step at a time; `next` */
    uint64_t pages, next;         /* of the index as it was found; where the next step begins */
    _Atomic uint64_t *done, *bad; /* a bit a page; set under the page's stripe */
    atomic_bool over, any_bad;
    _Atomic uint64_t lost;
};

void settle_init(struct cache *c);
void settle_begin(struct cache *c); /* the index is believed; nobody else uses it yet */
void settle_destroy(struct cache *c);
bool settled(struct cache *c);
bool settle_step(struct cache *c); /* no stripe held; false: nothing is left */
void settle_all(struct cache *c);
/* The unit's stripe is held. False: its page can't be read, and nothing may be stored there. */
bool settle(struct cache *c, uint64_t unit);
/* index_each() over entries that are true. */
void each_place(struct cache *c, index_each_fn *fn, void *arg);

/* --- guests.c: units in files of others (cache.h) --------------------------------------------- */

struct guests {
    struct tier *tier;      /* whose folder they lie in; NULL: there are none */
    _Atomic uint64_t *bits; /* one a unit, changed under its stripe; NULL: there are none */
    const struct guests_ops *ops;
    void *arg;
    _Atomic uint64_t pinned_bytes; /* of theirs */
};

bool guests_begin(struct tier *t, const struct guests_ops *ops, void *arg);
void guests_end(struct cache *c);
bool guests_have(const struct cache *c, uint64_t unit); /* stripe held */
/* A pinned unit of theirs came, or went. Stripe held. */
void guests_count_pinned(struct cache *c, uint32_t bytes, bool first, int sign);
/* No lock held. READ_BAD: held no more; READ_UNMAPPED: they can't be had now. */
int guests_read(struct cache *c, const struct piece *p, struct view *ret, struct err *err);
/* As guests_ops has them; nothing where there are no guests. */
void guests_shrink(struct cache *c, uint64_t bytes, bool pinned_too);
void guests_name(struct cache *c, guests_pick_fn *named, const void *ctx);
uint64_t guests_used(struct cache *c); /* bytes of their files, as the tier counts them */

/* --- cache.c --------------------------------------------------------------------------------- */

struct cache {
    struct source source;   /* first */
    struct cache_conf conf; /* strings are copies below */
    char *dir, *set_id;
    uint64_t set_hash;
    int lock_fd;
    struct index index;
    struct settling settling;
    bool index_believed; /* set when it is opened */
    struct tier *tiers[CACHE_MAX_TIERS];
    struct stripe *stripes;
    struct slots slots;
    struct passing passing;
    struct trial trial;
    struct leases *leases;
    struct guests guests;
    struct lock served_lock;
    struct catalog *served;                  /* served_lock; referenced, or NULL */
    struct cache_counts own_counts, *counts; /* counts: own_counts, or the caller's */
    _Atomic uint64_t units, bytes, samples, pinned_samples, pinned_bytes, past_samples;
    _Atomic uint64_t expected_samples, expected_bytes; /* of pinned ones; cache_expect() */
    atomic_bool roomy;                                 /* cache_set_size() */
    _Atomic uint32_t now_min;
    atomic_bool unmapped;  /* some pack was, and it was said */
    uint64_t behind_above; /* behind.c: with more bytes cached, pages are dropped behind readers */
};

/* The entries of one page of the index belong to one stripe, so that a page can be read whole. */
static inline struct stripe *stripe_of(struct cache *c, uint64_t unit)
{
    return &c->stripes[unit / PAGE_ENTRIES % STRIPES];
}

enum { READ_NO_ROOM = 4, READ_BAD = 5, READ_UNMAPPED = 6 };
int cache_no_memory(size_t bytes, struct err *err); /* -1; the reader gets ENOMEM */
int cache_try(struct cache *c, const struct piece *p, struct source_wait *wait, bool resumed,
              struct view *ret, struct err *err);
void cache_close(struct source *s);
void cache_tick(struct cache *c); /* reads the clock: "last use" is kept in minutes */

/* Under the unit's stripe: where it is. False: nothing known. */
bool place_load(struct cache *c, uint64_t unit, struct place *ret);
/* Under the unit's stripe: where it is from now on, instead of where it was. Keeps the counts true.
 */
bool place_set(struct cache *c, uint64_t unit, struct place e);
void place_clear(struct cache *c, uint64_t unit, const struct place *e);
void place_drop(struct cache *c, uint64_t unit); /* it is to be neither here nor coming */
void place_count(struct cache *c, const struct place *e, int sign);
/* The share of it that counts as kept: a pinned unit, and it is here. */
void count_pinned(struct cache *c, uint32_t bytes, bool first, int sign);
/* The same, for an entry in a pack. */
void place_count_pinned(struct cache *c, const struct place *e, int sign);
bool same_place(const struct place *a, const struct place *b);
/* Forgets the unit's place if it is still this one. */
bool place_forget(struct cache *c, uint64_t unit, const struct place *e);
/* Its record was looked at, and found so. True: it is bad, and the place is forgotten. */
bool place_is_bad(struct cache *c, uint64_t unit, const struct place *e, enum pack_result found);
/* The unit's record, referenced; false: not in a pack. */
bool place_find(struct cache *c, uint64_t unit, struct extent_ref *ret);

/* --- behind.c: pages of packs behind a reader ------------------------------------------------ */

/* MemAvailable of /proc/meminfo, and the limit in a file of a control group; UINT64_MAX: none.
 * Pure. */
uint64_t behind_available(const char *meminfo);
uint64_t behind_limit(const char *text);
/* So many cached bytes fit beside the copies that readers have: a third of what is ours. Pure. */
uint64_t behind_threshold(uint64_t available, uint64_t limit);
uint64_t behind_measure(void);             /* the threshold, here and now */
bool behind_needed(const struct cache *c); /* is more cached than that? */
/* These bytes of a pack's mapping were answered. */
void behind_drop(const struct tier *t, const void *at, size_t len);

/* --- writer.c, evict.c, reclaim.c, lease.c, recover.c ---------------------------------------- */

int writer_start(struct tier *t, struct err *err);
void writer_stop(struct tier *t);
void writer_push(struct tier *t, struct fill *f);
void writer_poke(struct tier *t);
bool writer_batch(struct tier *t); /* appends what waits; false: nothing waited */
struct record {                    /* one record ready to be appended */
    uint64_t unit;
    struct record_head head;
    struct chunk table[CHUNKS_MAX];
    const unsigned char *payload;
    uint64_t offset, bytes; /* where it landed, and what it takes there */
};
/* Appends to the active pack. for_reader: of units that a reader has had. *ret_grown: what the
 * files grew by, in failure too. */
int writer_append(struct tier *t, struct record *r, size_t n, bool for_reader, uint64_t *ret_grown,
                  struct err *err);
struct place writer_entry(const struct tier *t, const struct record *r, uint8_t flags,
                          uint32_t used);

void evict_upkeep(struct tier *t); /* on the writer's thread, between batches */

uint64_t place_cost(const struct place *e); /* what its record takes, with the journal's */
/* Forgets the unit's place if it is still this one, and counts it as evicted. */
void place_evict(struct cache *c, uint64_t unit, const struct place *e);
/* Of packs in the list alone: unlinked ones that readers still hold come back by themselves. */
uint64_t packs_bytes(struct tier *t);
/* On the writer's thread: comes down towards `goal` bytes of packs and journals. */
void reclaim_to(struct tier *t, uint64_t goal, enum mercy mercy);
void pack_retire(struct tier *t, struct pack *p);
/* Is the record the place of its unit now? Then *ret is it, referenced. */
bool pack_lives(struct tier *t, struct pack *p, const struct journal_record *r,
                struct extent_ref *ret);
/* carry.c: ends a sealed pack of a tier that has no room for a copy. On the writer's thread. */
bool carry_out(struct tier *t, struct pack *p);
void reclaim_garbage(struct tier *t); /* packs that are mostly garbage, as far as there is room */

void leases_init(struct cache *c);
void leases_destroy(struct cache *c);
void leases_expire(struct cache *c); /* those on packs retired 30 s ago */

int recover(struct cache *c, bool index_usable, struct err *err);

#endif
