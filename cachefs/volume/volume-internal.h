/*
 * What the files of the volume share.
 *
 *   volume.c   open and close               switch.c  versions of the catalog, refresh
 *   first.c    which version it begins with
 *   stack.c    the data path                read.c    one read, gather.c: over a unit's border
 *   sources.c  SET -> stores                ahead.c   reading ahead: order.c's window, and
 *   scan.c     listing -> catalog version   streams.c what readers seem to do
 *   list.c     list= of a sampler           warmup*.c everything or some paths, now
 *   targets.c  paths -> samples             room.c    clear, evict
 *   stat.c     status, counters             spill.c   big arrays in unlinked files
 *   sampler.c  sets the order               order.c   builds it
 *   adopt.c    a catalog file from elsewhere  numbering.c  whose numbers a version has
 *   share.c    what of a divided set is this node's
 *   fit.c      what of a warmup fits
 *   epochs.c   the epochs to come, while this one trains
 *   remote.c   a catalog from another machine
 *   arrive.c   a catalog in a store, served while it comes
 *   probe.c    can the sources be reached?
 *   pin.c      an older version that is to be served, and stays
 */
#ifndef SAMPAN_VOLUME_INTERNAL_H
#define SAMPAN_VOLUME_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "cache.h"
#include "catalog.h"
#include "metrics.h"
#include "owner.h"
#include "sync.h"
#include "volume.h"

#define VERSIONS_KEPT 4 /* the current one and three older */
#define STALE_KEPT    256
#define STALE_SHOWN   16 /* in the status; all that are kept: volume_stale() */

/* What reading ahead and warmup may take of the pool: a reader's own miss finds the rest. */
#define POOL_SHARE(n) ((n) / 5 * 3)

/* --- gate: counts what is under way, so that close can wait for it --------------------------- */

struct gate {
    atomic_uint inside;
    atomic_bool closed;
    struct lock lock;
    struct cond empty;
};
void gate_init(struct gate *g);
bool gate_enter(struct gate *g); /* false: closed */
void gate_leave(struct gate *g); /* touches nothing of the gate's owner afterwards */
void gate_close(struct gate *g); /* lets nobody in any more and waits until all have left */
void gate_destroy(struct gate *g);

/* --- spill: an array in an unlinked file of the owner's folder (not resident memory) --------- */

/* A small one is in memory: each epoch makes some, and a file costs more than it saves. */
struct spill {
    void *data;
    size_t bytes;
};
/* The blocks are allocated here, so that a full disk is an error now and not a SIGBUS later. */
int spill_new(struct spill *ret, const char *dir, size_t bytes, struct err *err);
void spill_free(struct spill *s);

/* --- sources: a SET argument as open stores -------------------------------------------------- */

struct sources {
    struct set set;          /* uri and at, as given */
    struct store **stores;   /* stores[i] serves set.sources[i] */
    struct bytes identity;   /* what tells this set from others; holds no secret */
    char *catalog_file;      /* SET was a catalog file; else NULL */
    _Atomic dev_t served_as; /* the mount of this set, as soon as there is one; or 0 */
};
int sources_open(struct sources *ret, const struct volume_conf *conf, struct err *err);
void sources_close(struct sources *s);
/* Does the version come from these sources, in this order? */
bool sources_match(const struct sources *s, struct catalog *c);
/* "<dir>/catalog", made if needed. */
int catalog_folder(const struct volume_conf *conf, struct bytes *ret, struct err *err);

/* --- scan ------------------------------------------------------------------------------------ */

struct scan {
    const struct volume_conf *conf;
    const struct sources *sources;
    struct fetch *fetch;
    struct catalog *previous; /* or NULL */
    const char *list;         /* list= and root= of the sampler; "" if absent */
    const char *root;
    const char *out_file; /* or NULL */
    volume_progress_fn *progress;
    void *arg;
    const atomic_bool *stop; /* set from another thread: ends with ERR_CANCELLED; or NULL */
};
/* Lists all sources into a new version below catalog_folder(). */
int scan_run(const struct scan *s, char **ret_file, struct catalog_diff_counts *ret_diff,
             struct err *err);

/* The builder of such a version: the sources' rows are still to come. */
int scan_builder(const struct scan *s, const char *folder, struct catalog_builder **ret,
                 struct err *err);

/* The lines of a list file as paths below the set's root, one a line (list.c). */
int list_read(const struct sources *s, struct fetch *f, const char *list, const char *root,
              struct bytes *ret, struct err *err);
/* The lines of `text` joined to `root`, without labels; empty ones stay. Pure. */
void list_clean(const char *text, size_t len, const char *root, struct bytes *ret);

/* Which list numbered a version is noted in the owner's folder (numbering.c). */
int numbering_note(const char *dir, const char *digest, uint64_t list_hash, struct err *err);
/* Are the version's numbers those that the volume's sampler wants (its list's, or the walk's)? */
int numbering_check(struct volume *v, struct catalog *c, bool *ret, struct err *err);
/* Scans again if they are not. */
int number_anew(struct volume *v, struct err *err);

/* --- the order of training ------------------------------------------------------------------- */

/* Which part of the set is this node's; partitions 0: all of it. */
struct share_conf {
    uint32_t partition, partitions;
    bool has_strategy, has_spec; /* given; else as the sampler reads, or by hash */
    enum owner_strategy strategy;
    struct order_spec spec;
    struct owner_weights
        weights; /* of what is dealt by hash; dropped with the count of partitions */
};

#define REPEATS_KEPT 128 /* what samplers pad: fewer than there are ranks on a node */

/* One epoch as this node reads it: the orders of its ranks, merged batch by batch. Never changes.
 */
struct epoch_order {
    atomic_int refs;
    uint64_t gen;
    struct order_spec spec;
    struct catalog *catalog; /* the version whose numbers it uses */
    uint64_t length;
    uint64_t last_epoch; /* the sampler's, if it said how many there are; else UINT64_MAX */
    uint32_t n_ranks;
    bool single_units; /* no sample of the version is larger than a unit */
    uint64_t max_id;
    struct spill ids;   /* uint64_t[length]: sample ids in order */
    struct spill where; /* uint32_t[max_id + 1]: position + 1 by id, 0: not in the order */
    /* Ids that this node reads more than once in the epoch; many_repeats: too many to
     * list (every rank reads the whole set). */
    uint64_t repeats[REPEATS_KEPT];
    size_t n_repeats;
    bool many_repeats;
};
/* The node's ranks: those of its partition, or where the set is not divided, those that `rank` and
 * `ranks-per-node` say. */
int epoch_order_new(struct epoch_order **ret, const struct order_spec *spec,
                    const struct share_conf *share, struct catalog *c, const char *dir,
                    uint64_t gen, struct err *err);
/* The last epoch that a sampler given at its beginning speaks of (epochs=N). */
uint64_t sampler_last_epoch(const struct order_spec *s);
struct epoch_order *epoch_order_ref(struct epoch_order *o);
void epoch_order_unref(struct epoch_order *o); /* NULL is fine */
static inline uint64_t epoch_order_id(const struct epoch_order *o, uint64_t pos)
{
    return ((const uint64_t *)o->ids.data)[pos];
}
uint64_t epoch_order_position(const struct epoch_order *o, uint64_t id); /* or UINT64_MAX */
/* Which of the node's ranks reads position `pos` (0 .. n_ranks-1). */
uint32_t epoch_order_rank(const struct epoch_order *o, uint64_t pos);

/* Is it read more than once? (Its position is that of the first time.) */
bool epoch_order_repeats(const struct epoch_order *o, uint64_t id);

/* --- this node's share ------------------------------------------------------------------------ */

struct share {
    atomic_int refs;
    struct share_conf conf;
    enum owner_strategy strategy; /* in use */
    struct catalog *catalog;
    uint64_t max_id;
    struct spill owner;               /* uint16_t[max_id + 1]: partition by sample id */
    struct spill kept;                /* a bit an id: this node keeps it */
    uint64_t samples, bytes, repeats; /* kept; repeats: owned by another partition */
    uint64_t stored;                  /* what the kept take in packs */
};
int share_new(struct share **ret, const struct share_conf *conf, struct catalog *c, const char *dir,
              struct err *err);
void share_unref(struct share *s); /* NULL is fine */
bool share_has(const struct share *s, uint64_t id);
/* Would one made from these be the same? */
bool share_serves(const struct share *s, const struct share_conf *conf, struct catalog *c);
/* Takes over what is not NULL: "I/P" ("": the set is not divided), a strategy ("": as the sampler
 * reads), weights ("": equal). */
int division_parse(struct share_conf *c, const char *partition, const char *strategy,
                   const char *weights, struct err *err);
/* What a warmup is to bring here: the volume's own share, or what its request says. */
int division_for(struct volume *v, const struct warmup_conf *w, struct share_conf *ret,
                 struct err *err);
/* Pins what the share has, unpins what it has not. */
int share_pin(const struct share *s, struct cache *cache, struct err *err);
/* A new epoch begins, with share `s`: does what this node keeps stay that of the share before?
 * Then what the other nodes want of it stays as well (share.c). */
bool share_stays(struct volume *v, const struct share *s);
/* What is kept is that of the volume's share from now on: somebody makes it local. */
int share_move(struct volume *v, struct err *err);
/* Another version is served: the share is made anew, but for one of an order, which keeps to the
 * version of its epoch. */
void share_follow(struct volume *v);
/* The volume's, with a reference; NULL: it is not divided. */
struct share *volume_share(struct volume *v);
/* `cached`: samples of the share that are here; all of a share is pinned. */
void share_status(struct volume *v, const struct cache_stat *now, struct json_writer *w);
/* The other partitions that may have the sample: its owner, and who owned it before (a
 * peer_owners_fn of a volume). */
size_t share_owners(void *volume, uint64_t id, uint32_t *ret, size_t max);

/* --- reading ahead --------------------------------------------------------------------------- */

/* What one reader seems to do (streams.c, pure): consecutive samples, or consecutive bytes of one.
 */
#define STREAMS 16
struct stream {
    uint64_t id, pos; /* the furthest read: sample, and offset in it */
    /* Reads in a row that went on in the sample; to the next samples. */
    unsigned bytes_run, ids_run;
    uint64_t run_from;     /* where the run in the sample began */
    uint64_t units_issued; /* blocks of this sample up to here are asked for already */
    uint64_t ids_issued;   /* the same for the ids after it */
    uint64_t used;         /* age */
};
struct streams {
    struct stream s[STREAMS];
    uint64_t clock;
};
enum ahead_kind { AHEAD_NONE, AHEAD_UNITS, AHEAD_SIBLINGS };
struct ahead_job {
    enum ahead_kind kind;
    uint64_t id;          /* AHEAD_UNITS: of this sample */
    uint64_t first, last; /* AHEAD_UNITS: blocks; AHEAD_SIBLINGS: ids; both ends included */
};
struct reach { /* at most */
    unsigned siblings;
    unsigned blocks; /* of all streams together */
};
/* A reader asked for offset `off` of sample `id`. Says what to fetch ahead. */
struct ahead_job streams_seen(struct streams *s, uint64_t id, uint64_t off, struct reach reach);
/* Has a reader asked for this block, or for one behind it? */
bool streams_passed(const struct streams *s, uint64_t id, uint64_t block);
/* There was no room for this block and those after it: they are asked for once more. */
void streams_no_room(struct streams *s, uint64_t id, uint64_t block);

#define AHEAD_JOBS  64
#define AHEAD_RANKS 64
/* After so many orders that nobody read through the kernel, packs are not read ahead for one until
 * somebody does: such readers map the packs, and the first window would be read for nobody. */
#define AHEAD_UNSEEN 2
/* More positions than the pusher goes ahead by. */
#define AHEAD_MARKS (1u << 17)

struct ahead {
    struct lock lock;
    struct cond wake; /* work came, or something finished */
    pthread_t thread;
    bool started, stop;
    /* below: guarded by lock */
    struct streams streams;
    struct ahead_job jobs[AHEAD_JOBS]; /* a ring; the oldest is forgotten when it is full */
    unsigned job_first, n_jobs;
    struct epoch_order *order;      /* whose window is fetched; NULL: none */
    uint64_t next, limit;           /* positions: fetched up to; wanted up to */
    uint64_t disk_next, disk_limit; /* the same for the nearer window of readahead from packs */
    uint64_t chunk, disk_chunk;     /* positions of each taken at a time */
    uint64_t rank_pos[AHEAD_RANKS]; /* where each rank was seen last */
    bool seen;                      /* a reader of the order was */
    unsigned unseen;                /* orders before it, in a row, whose readers never were */
    /* Which positions from `marked_from` on the pusher has asked for: a bit each, in a ring. */
    uint64_t marks[AHEAD_MARKS / 64], marked_from;
    unsigned outstanding;
    unsigned wasted; /* fetched ahead in a row, and not kept by the cache */
    counter fetched, failed, not_kept, no_room;
};
int ahead_start(struct volume *v, struct err *err);
void ahead_stop(struct volume *v); /* ends the thread; what is outstanding holds the gate */
/* Takes the order over (its reference too; NULL: none) and begins at its first sample. */
void ahead_set_order(struct volume *v, struct epoch_order *o);
/* A reader's or the pusher's read, before it goes down. */
void ahead_reader(struct volume *v, uint64_t id, uint64_t off);
void ahead_pushed(struct volume *v, uint64_t id);
uint64_t ahead_queued(struct volume *v); /* what is still to be fetched ahead, or on its way */
/* The furthest position of the order at which a reader was seen. */
uint64_t ahead_furthest(struct volume *v);
void ahead_status(struct volume *v, struct json_writer *w);

/* --- epochs ahead (epochs.c) ------------------------------------------------------------------ */

/*
 * Of a set that is divided anew each epoch (a sampler that deals, strategy random or local), the
 * samples that the next epochs read here and that are missing are fetched in the order of reading,
 * at the lowest priority, once readers have begun the running epoch. Invariants:
 *
 *   - what this epoch has not read yet stays (a sample that it reads twice until it ends);
 *   - room is made by what is read last: by what no known epoch reads again, then by what only a
 *     later epoch reads than the one that is fetched for, its end first. Never by age; and the
 *     orders of the next EPOCHS_AHEAD epochs are known before anything goes;
 *   - room is reserved before anything is fetched ahead: so it is fetched once for its epoch;
 *   - at most `budget` bytes are kept for epochs to come alone.
 *
 * A sample is done with some reads after it was seen (its pages may still be on their way); one
 * that was pushed into the page cache, once its reader was seen further on.
 */
#define EPOCHS_AHEAD 3
struct epochs {
    struct lock lock;
    struct cond wake; /* readers went on, something arrived, or the order or budget changed */
    pthread_t thread;
    bool started, stop;
    /* below: guarded by lock */
    unsigned changes;                     /* counts what was set, the end included */
    uint64_t budget;                      /* 0: off */
    struct epoch_order *now;              /* the running epoch; NULL: none whose share changes */
    struct share_conf division;           /* its */
    struct spill seen, done;              /* bits by position of `now` */
    uint32_t recent[256];                 /* a ring of positions seen last, not done with yet */
    uint64_t n_seen, n_reads, n_distinct; /* first reads; reads; positions in `seen` */
    uint64_t furthest[AHEAD_RANKS];       /* where readers were seen */
    unsigned outstanding;
    uint64_t held; /* bytes for epochs to come alone */
    const char *state;
    uint64_t epoch, pos, length; /* what is looked at */
    counter fetched, fetched_bytes, dropped, not_kept, failed;
};
int epochs_start(struct volume *v, struct err *err);
void epochs_stop(struct volume *v); /* ends the thread; what is outstanding holds the gate */
/* The order that is begun now, and the share that goes with it. */
void epochs_set_order(struct volume *v, struct epoch_order *o, const struct share *share);
/* A reader was seen at this position of the order `gen`, or (`pushed`) its sample went into the
 * page cache. */
void epochs_seen(struct volume *v, uint64_t gen, uint64_t pos, bool pushed);
void epochs_status(struct volume *v, struct json_writer *w);

/* --- what a command names: everything, or paths (targets.c) ---------------------------------- */

enum target_state {
    TARGET_OPEN,
    TARGET_HAD, /* was local before, or came for others */
    TARGET_FETCHED,
    TARGET_NOT_KEPT, /* there was no room for all of it; looked at once more */
    TARGET_FAILED,
};
struct target {
    uint64_t id;
    uint64_t size;
    _Atomic uint32_t state; /* enum target_state */
};
struct targets {
    struct spill spill;
    size_t n, cap;
    uint64_t bytes;
};
/* Samples in id order, each once. A path that is not there is NOT_FOUND. No path: everything. Of
 * either only what `share` (may be NULL) has. */
int targets_collect(struct targets *ret, struct catalog *c, const char *const *paths, size_t n,
                    const struct share *share, const char *dir, struct err *err);
static inline struct target *target_at(const struct targets *t, size_t i)
{
    return (struct target *)t->spill.data + i;
}
void targets_release(struct targets *t);
bool targets_have(const void *targets, uint64_t id);

/* What is to be brought must fit: ERR_LIMIT, which names what does not. Of a share the rest is
 * taken out of the targets, unpinned, and counted in `ret` (fit.c). */
#define SHARE_SLACK 16 /* of the tiers, for a pack that is being copied */
int targets_fit(struct volume *v, struct catalog *c, struct targets *t, bool is_share,
                struct warmup_result *ret, struct err *err);

/* --- warmup ---------------------------------------------------------------------------------- */

enum warm_state { WARM_IDLE, WARM_RUNNING, WARM_DONE, WARM_FAILED, WARM_CANCELLED };
struct warm_progress { /* guarded by the volume's lock */
    enum warm_state state;
    uint64_t done, total, failed;
    uint64_t work, work_total; /* in bytes (warmup.c); with --verify each sample counts twice */
    uint64_t started_ns, ended_ns;
    bool stop;       /* the volume closes */
    char error[256]; /* why it ended, if it did not run to its end */
};
static inline double warm_percent(const struct warm_progress *p)
{
    return p->work_total ? 100.0 * (double)p->work / (double)p->work_total : 0;
}

/* --- the volume ------------------------------------------------------------------------------ */

struct stale_object {
    uint64_t id;
    int64_t at_ns;
    char why[320];
};

struct gather;
struct arrival;

/* What the servers of the set say of its version; guarded by the volume's lock. */
struct follow {
    bool ready; /* the volume is open */
    bool on;    /* something was heard of those that are asked now */
    char version[CATALOG_DIGEST + 1];
    bool pinned;
    bool due;      /* it is to be served, and may not be */
    char why[256]; /* it is not; "": it is, or will be */
    pthread_t thread;
    bool started;
};

/* Listings while it is mounted, by --refresh or a scan; guarded by the volume's lock. */
struct refreshes {
    uint64_t done_ns; /* the last that was done, be it at the start; 0: there was none yet */
    uint64_t failed;  /* since then */
    char why[256];    /* the last of those */
};

struct volume {
    struct volume_conf conf;
    struct sources sources;
    struct pool *pool;        /* the cache's */
    struct pool *gather_pool; /* reads over a unit's border */
    struct fetch *fetch;
    struct cache *cache;
    struct source *top;      /* the stack (stack.c) ... */
    struct source *peers;    /* ... and its layer of other machines */
    struct arrival *arrival; /* of the first version; NULL: its file was here */
    struct gate gate;        /* reads, reading ahead, warmups */
    atomic_uint_fast64_t bandwidth;
    atomic_uint connections;
    atomic_uint_fast64_t memory;
    uint64_t opened_ns;
    atomic_bool closing;

    struct lock lock;
    struct cond changed; /* scanning ended, a warmup ended, closing */
    /* below: guarded by lock */
    struct catalog *versions[VERSIONS_KEPT]; /* [0] is served; NULL at the end */
    struct {
        volume_switch_fn *fn;
        void *arg;
    } listeners[4];
    size_t n_listeners;
    bool pinned; /* versions[0] stays; changed only with the claim of a scan */
    bool listed; /* the first version came of a scan; set before there are others */
    struct refreshes refreshes;
    struct follow follow;
    volume_order_fn *on_order;
    void *on_order_arg;
    unsigned telling; /* switches and orders whose listeners are being told */
    bool scanning;
    bool setting;  /* somebody sets the sampler, the epoch or the division */
    bool ordering; /* somebody builds an order */
    struct epoch_order *order;
    char order_error[256];
    struct share *share, *share_before; /* of this epoch; of the one before it, or NULL */
    bool stays;                         /* what is kept here is that of `share_before` */
    struct order_spec spec;
    bool has_spec;
    uint64_t last_epoch;        /* that the sampler speaks of; UINT64_MAX: it does not say */
    struct share_conf division; /* without the sampler: that is `spec` */
    uint64_t order_gen;
    bool order_begun;                      /* an order was built in this process */
    struct stale_object stale[STALE_KEPT]; /* a ring */
    uint64_t n_stale;
    struct warm_progress warm, warm_before; /* this one's or the last's; the one before it */
    struct gather *parked, **parked_tail;   /* reads that wait for gather_pool */

    struct volume_counts own_counts, *counts; /* counts: own_counts, or the caller's */
    struct ahead ahead;
    struct epochs epochs;
    pthread_t refresh_thread;
    bool refresh_started;
    pthread_t settle_thread;
    bool settle_started;
    struct lock left_lock; /* the cache is told of one version at a time */
    pthread_t left_thread;
    bool left_started, left_wanted; /* wanted: guarded by lock */
    pthread_t order_thread;
    bool order_started;
};

/* left.c: the cache is told what the served version names; left_now() waits until it was. */
int left_start(struct volume *v, struct err *err);
void left_stop(struct volume *v);
void left_now(struct volume *v);

/* stack.c */
int stack_build(struct volume *v, struct err *err);
void stack_close(struct volume *v);

/* switch.c */
/* volume_catalog_of() with the id's row. */
struct catalog *version_of(struct volume *v, uint64_t id, struct entry *ret, struct err *err);
void versions_close(struct volume *v);
/* Lists the sources into a new version, or finds that it is that of `previous`. */
int version_scan(struct volume *v, struct catalog *previous, volume_progress_fn *progress,
                 void *arg, struct catalog **ret, struct catalog_diff_counts *ret_diff,
                 struct err *err);
/* The caller's `served_version` names the one that is served. Lock held, or nobody else is there.
 */
void version_keep_served(struct volume *v);
/* How large the set is that it caches. */
void version_tell_cache(struct volume *v, struct catalog *c);
bool same_version(struct catalog *a, struct catalog *b);
/* Serves `c` (takes the reference) and tells the listeners. False: it is served already. */
bool version_switch(struct volume *v, struct catalog *c);
int version_take_newer(struct volume *v, struct err *err);
/* The one that would be served if none were pinned. */
int version_newest(struct volume *v, const char *folder, struct catalog **ret, struct err *err);
bool version_is_pinned(struct volume *v);
/* The kept version that has given out most ids; a reference. */
struct catalog *version_longest(struct volume *v);
/* One scan or change of what is served at a time. */
int scan_claim(struct volume *v, struct err *err);
void scan_end(struct volume *v);
int refresh_start(struct volume *v, struct err *err);

/* first.c */
int versions_open(struct volume *v, volume_progress_fn *progress, void *arg, struct err *err);
/* Which file was named, if any: --catalog, or the SET itself. */
const char *named_catalog(const struct volume *v);

/* pin.c: the version that is pinned in the folder, from before. 1: it is to be served, 0: none is
 * pinned, -1. */
int pinned_open(struct volume *v, const char *folder, struct catalog **ret, struct err *err);

/* It, or "": the newest, is served; `pinned`: until it is let go. Waits for other machines. */
int version_go_to(struct volume *v, const char *digest, bool pinned, struct err *err);

/* follow.c: a machine without a server of the set serves what those serve. `arg`: the volume. */
void follow_start(struct volume *v);
bool follow_wants(void *arg);
void follow_heard(void *arg, const char *version, bool pinned);
bool follow_is_on(struct volume *v);
void follow_others(struct volume *v); /* others are asked from now on */
void follow_stop(struct volume *v);   /* `closing` is set */
void follow_status(struct volume *v, struct json_writer *w);

/* adopt.c: a catalog file from elsewhere becomes the folder's current version, unless its ids mean
 * other samples than those the folder knows. */
bool version_is_remote(const struct volume *v); /* remote.c */
int version_fetch(struct volume *v, const char *folder, struct catalog **ret, struct err *err);
/* What the server has said last, if it is what is asked for. */
int version_told(struct volume *v, const char *folder, struct catalog **ret, struct err *err);
/* As version_fetch(), at the start: without its server the one that it named last will do. */
int version_fetch_first(struct volume *v, const char *folder, struct catalog **ret,
                        struct err *err);
int version_adopt(const char *file, const char *dir, struct catalog **ret, struct err *err);
/* Makes durable what is served before it is (early.h): the file that was named, and the version. A
 * thread that ends when it has. Fails only where no thread can be had. */
int version_settle_start(struct volume *v, const char *named, struct err *err);
void version_settle_stop(struct volume *v);

/* arrive.c: a version that is an object of a store (--catalog URI/DIGEST). Of the folder, if it is
 * there; else it is served while it arrives. Where the folder has others, all of it comes first. */
bool version_is_object(const struct volume *v);
int version_arrive(struct volume *v, const char *folder, struct catalog **ret, struct err *err);
/* Removes what other mounts left on its way, but that of this name (NULL: all of it). */
void arrival_tidy(const char *folder, const char *but);
void arrival_stop(struct volume *v); /* who waits for it gets an error; ends the threads */
void arrival_free(struct volume *v); /* when no catalog of it is open any more */
bool arrival_goes_on(struct volume *v);
/* It came and is not that version: no look-up is answered any more. */
bool arrival_is_refused(struct volume *v);
void arrival_set_bandwidth(struct volume *v, uint64_t bytes_per_s); /* while it goes on */
void arrival_status(struct volume *v, struct json_writer *w);
void volume_share_bandwidth(struct volume *v); /* the limit, between readers and what arrives */

/* sampler.c: builds the order of v->spec, on a thread of its own if that takes long. */
int sampler_start(struct volume *v, struct err *err);
void sampler_close(struct volume *v);

/* gather.c */
int gather_read(struct volume *v, struct volume_read *r, uint64_t off, uint32_t len,
                struct view *ret, struct err *err);
void gather_kick(void *volume); /* memory came back: starts reads that were parked */

/* read.c */
/* Counts a finished read and makes the error one for readers. Releases the catalog. */
void read_account(struct volume *v, struct volume_read *r, const struct view *view,
                  struct err *err);

#endif
