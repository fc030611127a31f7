/*
 * A volume: one sample set, served. It owns the stack of sources (stack.c: read that function
 * first), the pinned catalog version, the order of training and the reading ahead. FUSE, the
 * control socket and the commands all stand on this; it knows none of them.
 */
#ifndef SAMPAN_VOLUME_H
#define SAMPAN_VOLUME_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "cache.h"
#include "catalog.h"
#include "err.h"
#include "fetch.h"
#include "json.h"
#include "metrics.h"
#include "object.h"
#include "order.h"
#include "source.h"

struct log;

/* Puts the layers that `spec` names over `inner`; *ret is the topmost (tests/layers/layers.h). */
typedef int build_layers_fn(struct source **ret, const char *spec, struct source *inner,
                            struct err *err);

#define VOLUME_MEMORY_LEAST (64ll << 20) /* what a volume can be held to */

/* The sources that a SET argument names: a URI, a folder, a set file or a catalog file. */
int volume_sources(struct set *ret, const char *arg, struct err *err);

struct read_counts {
    counter total, bytes, from[FROM_COUNT], bytes_from[FROM_COUNT], pushed, errors;
    struct histogram latency;
};

/* Counters that only grow: a caller who keeps them lets them go on in another process. */
#define VOLUME_COUNTS_VERSION 2
struct volume_counts {
    struct read_counts reads;
    struct fetch_counts fetch;
    struct cache_counts cache;
};

/* Strings are borrowed and must outlive the volume. */
struct volume_conf {
    const char *set; /* URI, set file, or catalog file */
    const char *dir; /* the owner's folder: catalog/ (versions), index, control socket */
    /* --catalog FILE, the http(s):// address of a runtime server's (/v1/catalog/DIGEST or
     * /v1/catalog/current), or URI/DIGEST: an object of a store; NULL: use dir's current version,
     * else scan. */
    const char *catalog;
    struct store_conf store;
    struct fetch_conf fetch;
    struct tier_conf tiers[CACHE_MAX_TIERS];
    size_t n_tiers;
    double free_fraction;
    uint64_t free_bytes;
    uint64_t memory;     /* bound of the process; the pool gets its share of it */
    uint64_t refresh_ns; /* 0: off */
    const char *sampler; /* SPEC or NULL */
    const char *partition,
        *strategy;        /* "I/P": this node's share; which one. NULL: all of the set */
    const char *peers,    /* the other machines, as peer_set_list() takes them; NULL: none */
        *peer_token_file; /* what is shown to them; NULL: nothing */
    const char *weights;  /* of the partitions, or NULL: equal */
    uint64_t ahead_bytes; /* of epochs to come, kept beside the running one at most; 0: none */
    unsigned prefetch;    /* samples fetched ahead at most; 0: automatic */
    bool rescan;          /* scan even if a version is there */
    const char *layers;   /* tests: "fault=…;delay=…" between cache and store, or NULL */
    struct volume_counts *counts; /* counted on here; NULL: from 0, in memory of the volume's own */
    /* CATALOG_DIGEST + 1 bytes that the caller keeps beyond the process, or NULL: the version that
     * the order was built from. If they name one, the first order is built from it: a running epoch
     * keeps its numbers. */
    char *order_version;
    /* Likewise the version that is served: a mount goes on with it, whatever `catalog` names or dir
     * has got since. */
    char *served_version;
    build_layers_fn *build_layers; /* makes them; NULL (release builds): `layers` is refused */
    const atomic_bool *stop;       /* once true a scan, the first one too, ends (CANCELLED), what
                                    * waits for the store included; or NULL */
    struct log *log;
};

/* Progress of the first scan (may be NULL). */
typedef void volume_progress_fn(void *arg, const char *what, uint64_t done, uint64_t total);

struct volume;
int volume_open(struct volume **ret, const struct volume_conf *conf, volume_progress_fn *progress,
                void *arg, struct err *err);
/* What takes long (scans, warmups) ends soon, with ERR_CANCELLED; reads go on. Before
 * volume_close(), where somebody waits for such a thing first. */
void volume_wind_up(struct volume *v);
void volume_close(struct volume *v);

/* The version now served; the caller gets a reference. */
struct catalog *volume_catalog(struct volume *v);
/* The version that knows `id`: the current one, or an older one that is still kept. NULL: nobody
 * (NOT_FOUND), or it could not be read whether it does. */
struct catalog *volume_catalog_of(struct volume *v, uint64_t id, struct err *err);
/* The served version or one of the older ones that are kept, by its name; with `ids` (not 0) only
 * if its ids are those (catalog_info.ids). A reference; NULL: none is. */
struct catalog *volume_catalog_named(struct volume *v, const char *digest, uint64_t ids);
struct cache *volume_cache(struct volume *v);

/*
 * Reads [off, off+len) of sample `id` (size is known to the caller from the catalog or not at all:
 * a range past the end is cut). Like source_read(): 0, SOURCE_PENDING or -1. A range over a unit's
 * border is gathered, so the answer is short only at the end of the sample.
 */
struct volume_read {
    /* The caller's. done() may free the struct. Errors are ready for a reader: err_errno() of them
     * is the answer (an object gone or replaced at the source: ESTALE). */
    void (*done)(struct volume_read *r, struct view *view, const struct err *err);
    bool push; /* asked for by the pusher, not by a reader */
    void *priv;
    /* The volume's, filled by volume_read(). */
    struct source_wait wait;
    uint64_t started_ns;
    struct volume *volume;
    struct catalog *catalog;
    uint64_t id;
};
int volume_read(struct volume *v, uint64_t id, uint64_t off, uint32_t len, struct volume_read *r,
                struct view *ret, struct err *err);

/* Scans the source; publishes a new version if anything changed and serves it, unless another one
 * is pinned: then it is kept for the time after. `on_switch` listeners (the FUSE front end) learn
 * what to invalidate. */
struct rescan {
    struct catalog_diff_counts diff;
    struct catalog_info found;
};
int volume_rescan(struct volume *v, struct rescan *ret, struct err *err);
/*
 * Serves this version of those that are kept (its digest), and stays there: nothing newer is taken
 * into use until "" is set, not after a restart either. Names lead to it at once; a running epoch
 * ends with the numbers it began with. A version that nobody keeps is NOT_FOUND, which names those
 * that are. Refused where the servers of a set are followed.
 */
int volume_set_version(struct volume *v, const char *digest, struct err *err);
typedef void volume_switch_fn(void *arg, struct catalog *from, struct catalog *to);
/* A NULL `fn` takes the listeners of `arg` away, and waits until none of them is being told. */
void volume_on_switch(struct volume *v, volume_switch_fn *fn, void *arg);

/* What it is mounted as (st_dev): no file of that mount is read for a sampler. */
void volume_served_as(struct volume *v, dev_t dev);

/* The order to come. set_sampler("") turns it off. set_epoch also takes a newer version into use.
 */
int volume_set_sampler(struct volume *v, const char *spec, struct err *err);
int volume_set_epoch(struct volume *v, uint64_t epoch, struct err *err);
/*
 * This node's share of the set: partition "I/P" ("": all of it), and who owns what (a strategy's
 * name; "": as the sampler reads, or by hash without one). The share is pinned: the cache makes
 * room for it. It belongs to the version served when it was set, and to the sampler's epoch.
 */
int volume_set_partition(struct volume *v, const char *text, struct err *err);
int volume_set_strategy(struct volume *v, const char *text, struct err *err);
/* "W0,W1,…", one a partition: how what is dealt by hash is spread ("": evenly). */
int volume_set_weights(struct volume *v, const char *text, struct err *err);
/* The partition that owns the sample; -1: the set is not divided, or the id is none of its. */
int64_t volume_owner(struct volume *v, uint64_t id);

/* The one listener that hears of each new order, on the thread that set it. A NULL `fn` takes it
 * away, and waits until it is not being told. */
typedef void volume_order_fn(void *arg);
void volume_on_order(struct volume *v, volume_order_fn *fn, void *arg);
/* The sample ids that this node's ranks read, in order; length 0 without a sampler. `gen` changes
 * when the order does. */
uint64_t volume_order_length(struct volume *v, uint64_t *ret_gen);
int volume_order_ids(struct volume *v, uint64_t first, size_t n, uint64_t *ids, struct err *err);
/* A reader's READ was seen at this sample: moves the windows of push and fetch. The front end calls
 * it for each READ that is not the pusher's. Returns the sample's position in the order, or
 * UINT64_MAX. */
uint64_t volume_seen(struct volume *v, uint64_t id);

/* Warmup of everything or of some paths; one at a time. Progress is in volume_status(). */
struct warmup_conf {
    const char *const *paths; /* none: everything */
    size_t n_paths;
    /* Of these only a share: NULL as the volume's own is; a `partition` of "": no share but all. */
    const char *partition, *strategy, *sampler;
    bool verify;
    bool dry_run; /* say what there is to do, and whether it fits */
    bool claimed; /* volume_warmup_claim() went before */
};
struct warmup_result {
    uint64_t samples, bytes, already, fetched, failed;
    double seconds;
    bool verified;
    /* Of a share that is larger than the cache: what was left out (counted in samples and bytes),
     * from which path on, and the room there is. */
    uint64_t unfit, unfit_bytes, room;
    char first_unfit[256];
};
/* One sentence about what was left out. */
void unfit_text(const struct warmup_result *r, char *out, size_t size);
typedef void warmup_fail_fn(void *arg, const char *path, const char *why);
enum warmup_wish {
    WARMUP_GO_ON,
    WARMUP_END,      /* no more is asked for; what is on its way may come, for who begins again */
    WARMUP_TAKE_BACK /* and what is on its way ends, too: nobody wants it */
};
struct warmup_far {       /* how far it is */
    uint64_t done, total; /* samples */
    uint64_t bytes;       /* fetched */
    uint64_t total_bytes; /* of all samples */
    double percent;       /* of the work: parts of large samples count, and what is verified */
};
typedef enum warmup_wish warmup_tick_fn(void *arg, const struct warmup_far *far);
/* Status says "running" from here on. volume_warmup() must follow, or volume_warmup_disclaim(). */
int volume_warmup_claim(struct volume *v, struct err *err);
void volume_warmup_disclaim(struct volume *v);
int volume_warmup(struct volume *v, const struct warmup_conf *conf, warmup_tick_fn *tick,
                  warmup_fail_fn *fail, void *arg, struct warmup_result *ret, struct err *err);

/* Fields of `status` that the volume knows: version, pinned, versions, state, set, cache, reads,
 * fetch, memory, warmup. Written into an open object. */
void volume_status(struct volume *v, struct json_writer *w);
/* Objects that changed at the source since the scan (ESTALE), newest last. */
void volume_stale(struct volume *v, struct json_writer *w);

/* What asking a store found out: `what` does not work (a literal; NULL: all does) and why; and the
 * first object of its listing (key NULL: it has none). */
struct store_probe {
    const char *what;
    struct err err;
    char *key, *etag;
    size_t key_len;
    uint64_t size;
    int64_t mtime_ns;
};
/* The beginning of a listing, and a byte of the first object. */
void probe_store(struct fetch *f, struct store *s, struct store_probe *ret);
void probe_release(struct store_probe *p);
void probe_write(struct json_writer *w, const struct store *s, const struct store_probe *p);
void probe_patience(struct fetch_conf *c); /* who asks does not wait as long as readers do */
/* "sources": of each uri, what, why, key. Into an open object. */
int volume_probe(struct volume *v, struct json_writer *w, struct err *err);
/*
 * Where the version served was here already, no store has been asked for anything yet: now each is
 * asked about one sample. -1: refused, and so would all reading be. `away` gets a line for
 * each store that could not be asked: what is cached can be read all the same. Samples that the
 * source changed since are a matter of who reads them.
 */
int volume_ask(struct volume *v, struct bytes *away, struct err *err);
uint64_t process_resident(void); /* RssAnon + RssShmem of this process, in bytes */

/* Raw counters that only grow (rates are made of two answers). Written into an open object. */
void volume_stats(struct volume *v, struct json_writer *w);

/* Makes room. `fn` (may be NULL) hears of each sample that was dropped, so that a front end can
 * drop the kernel's pages of it. No path: everything. */
struct drop_result {
    uint64_t samples, bytes;
};
typedef void volume_dropped_fn(void *arg, uint64_t id);
int volume_clear(struct volume *v, const char *const *paths, size_t n, volume_dropped_fn *fn,
                 void *arg, struct drop_result *ret, struct err *err);
/* Cached samples whose mtime is older than this, as far as the source tells one. */
int volume_evict_older(struct volume *v, uint64_t age_ns, volume_dropped_fn *fn, void *arg,
                       struct drop_result *ret, struct err *err);
/* Cached samples that were neither read nor pushed for so long (known to some minutes: in doubt
 * they were), and that the running epoch's order does not name. */
int volume_evict_unused(struct volume *v, uint64_t age_ns, volume_dropped_fn *fn, void *arg,
                        struct drop_result *ret, struct err *err);
int volume_evict_to(struct volume *v, uint64_t bytes, struct drop_result *ret, struct err *err);

/* Limits of a running volume. */
int volume_set_memory(struct volume *v, uint64_t bytes, struct err *err);
/* The other machines of the cluster, and the file of the token for them (peer.h). */
int volume_set_peers(struct volume *v, const char *text, struct err *err);
int volume_set_peer_token_file(struct volume *v, const char *file, struct err *err);
void volume_set_connections(struct volume *v, unsigned n);
void volume_set_ahead_bytes(struct volume *v, uint64_t bytes);
void volume_set_bandwidth(struct volume *v, uint64_t bytes_per_s);

/* Scans a SET into dir without serving it (the `scan` command). */
struct scan_result {
    char digest[CATALOG_DIGEST + 1];
    char *file;
    struct catalog_info info;
    struct catalog_diff_counts diff;
    double seconds;
};
int volume_scan(const struct volume_conf *conf, const char *out_file, volume_progress_fn *progress,
                void *arg, struct scan_result *ret, struct err *err);

#endif
