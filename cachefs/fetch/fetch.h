/*
 * fetch: one engine that moves bytes between stores and memory.
 *
 * One thread runs curl multi; requests wait in three queues (reader, prefetch, warmup) and are
 * admitted under a connection limit and a byte-rate limit, both of which hold exactly. Readers go
 * first, yet each lower class keeps a share (no starvation). Each transfer is checked (status,
 * length, ETag), tried again by class of error with jitter and a budget, and hedged where late:
 * when a reader's takes longer than the recent 95th percentile, or when nothing waits any more and
 * another one straggles, a second one is sent and the first answer wins. Local stores (file://) go
 * through a small pool of threads under the same limits and queues.
 *
 * Memory: the engine allocates no body; the caller brings a buffer for data and a bounded struct
 * bytes for answers.
 */
#ifndef SAMPAN_FETCH_H
#define SAMPAN_FETCH_H

#include <stdbool.h>
#include <stdint.h>

#include "catalog.h"
#include "err.h"
#include "metrics.h"
#include "object.h"
#include "source.h"
#include "sync.h"

struct log;

struct fetch_counts {
    counter requests, bytes, retries, hedges, hedge_wins, failures, stale, mismatches;
    counter in_flight, in_flight_max; /* gauges */
    struct histogram latency;
};

struct fetch_conf {
    unsigned connections;        /* at most this many transfers at once (default 64) */
    uint64_t bandwidth;          /* bytes/s received; 0: unlimited */
    unsigned max_tries;          /* of a get (10); whole requests get half as many */
    uint64_t try_timeout_ns;     /* no byte for this long ends a try (10 s) */
    uint64_t budget_ns;          /* a transfer as a whole, retries included (60 s) */
    uint64_t connect_timeout_ns; /* 5 s */
    /* For so long after a store fell silent, a restart for example, no tries are counted (60 s). */
    uint64_t away_ns;
    /* Nobody sits in a read(): a get may last as long as it moves, and what breaks late is tried
     * again as what breaks at once. */
    bool unhurried;
    /* Where pages of a listing come faster (40 ms: 25 000 keys a second), one follows the other;
     * else a long folder is listed at several places at once, if the server is one for it. */
    uint64_t cut_page_ns;
    bool hedge;
    /* Whole objects whose ETag is an MD5 are summed: 0.2 ms of CPU for 115 KB, so it is off unless
     * asked for (TLS and TCP have sums of their own). The sums of a manifest, and the CRCs that an
     * S3 store sends along, are always checked. */
    bool verify_md5;
    struct fetch_counts *counts; /* counted on here; NULL: from 0, in memory of the engine's own */
    struct log *log;
};
void fetch_conf_defaults(struct fetch_conf *c);

struct fetch;
int fetch_new(struct fetch **ret, const struct fetch_conf *conf, struct err *err);
/* Ends what is under way with ERR_CANCELLED, takes nothing more, ends the threads. From one thread,
 * once or before fetch_free(): so that who waits for reads to end need not wait for a dead network.
 */
void fetch_stop(struct fetch *f);
void fetch_free(struct fetch *f); /* stops if that was not done, and frees */

#define FETCH_PATIENCE_NS (3 * NS_PER_S) /* of who lets what is in hand end, if it ends soon */
/* Between its begin, which the caller has filled the first four for, and its end the engine is
 * stopped once `told` has said so for `patience_ns`. */
struct fetch_stopper {
    struct fetch *fetch;
    uint64_t patience_ns;
    bool (*told)(void *arg); /* another thread: asked several times a second */
    void *arg;

    struct lock lock; /* RANK_VOLUME */
    struct cond ended;
    bool over; /* lock */
    pthread_t thread;
};
int fetch_stopper_begin(struct fetch_stopper *s, struct err *err);
void fetch_stopper_end(struct fetch_stopper *s);
const struct fetch_counts *fetch_counts(const struct fetch *f);
void fetch_set_bandwidth(struct fetch *f, uint64_t bytes_per_s);
void fetch_set_connections(struct fetch *f, unsigned n);

/* --- one object's range into a buffer (asynchronous) ------------------------------------------ */

/* An object whose size the catalog does not know: it is part of a pack. */
#define FETCH_SIZE_UNKNOWN UINT64_MAX

struct fetch_get {
    struct store *store;
    const char *key; /* copied */
    size_t key_len;
    uint64_t off;
    /* Exactly so many bytes, or it is an error. 0: sends no request, done() is called at once by
     * the caller's own thread. */
    uint32_t len;
    uint64_t object_size; /* what the catalog says; a different one in the answer is ERR_STALE */
    int64_t mtime_ns;     /* for local stores, and those of STORE_BLIND_GETS */
    const char *etag;     /* copied; "" : not checked. A different one is ERR_STALE. */
    const char *version;  /* copied; of an older version of the object, or NULL: of the newest */
    bool sum_of_range;    /* the etag is a sum (store_etag_is_sum()) of just the bytes asked for */
    void *dest;           /* `len` bytes, valid until done() */
    enum prio prio;
    void (*done)(void *arg, const struct err *err); /* NULL err: dest is full. Must not block. */
    void *arg;
    const atomic_bool *given_up; /* or NULL: see fetch_give_up() */
};
/* -1 only if it can't even be queued (ERR_LIMIT when the queue of that class is full). */
int fetch_get(struct fetch *f, const struct fetch_get *g, struct err *err);
/* The same, and waits; `done` is not used. */
int fetch_get_wait(struct fetch *f, const struct fetch_get *g, struct err *err);
/* A waiting request of the same transfer gained importance (a reader came for a prefetch). */
void fetch_raise(struct fetch *f, const void *dest, enum prio prio);

/*
 * Takes requests back. Each may name a token; their owner sets it and calls this once, for however
 * many; requests that come with it later are taken back too. A token is one requester's: what two
 * wait for is given up by the layer that knows both.
 *
 * Invariant: done() is called once for each, with ERR_CANCELLED, or as it would have been if that
 * was faster; and by then all that it held is given back: its place in a queue, its slots, what it
 * had asked of a limited line, its second request. One that waits sends nothing any more; one under
 * way ends its connection (over HTTP/2 its stream). Only one piece of a local file is read to its
 * end.
 */
void fetch_give_up(struct fetch *f);

/* --- whole requests that wait (command line, scan, sync) -------------------------------------- */

/* Runs a request with retries; `build` is called again for each try (signatures age). */
typedef int fetch_build_fn(void *arg, struct http_req *r, struct err *err);
int fetch_do(struct fetch *f, struct store *s, fetch_build_fn *build, void *arg, size_t max_body,
             struct http_answer *ret_answer, struct bytes *ret_body, struct err *err);
/* The same. While there is no answer its thread looks every now and then what else it must see to.
 */
struct fetch_watch {
    void (*look)(void *arg);
    void *arg;
    uint64_t every_ns;
};
int fetch_do_watched(struct fetch *f, struct store *s, fetch_build_fn *build, void *arg,
                     size_t max_body, const struct fetch_watch *watch,
                     struct http_answer *ret_answer, struct bytes *ret_body, struct err *err);

/* Takes the bytes of a good answer as they come, on the engine's thread; must not block. -1 ends
 * the transfer with `err`. What was taken before a failed try is not taken back. */
typedef int fetch_sink_fn(void *arg, const void *data, size_t len, struct err *err);

/* The same without waiting. All pointers stay valid until done(), which must not block. */
struct fetch_request {
    struct store *store;
    fetch_build_fn *build; /* on the engine's thread; must not block */
    void *build_arg;
    size_t max_body;
    struct http_answer *answer; /* may be NULL; of a failure the last that came, if one did */
    struct bytes *body;         /* may be NULL; filled only on success */
    fetch_sink_fn *sink;        /* or NULL: in place of a body, without a limit. With `arg` */
    void (*done)(void *arg, const struct err *err);
    void *arg;
    const atomic_bool *given_up; /* or NULL: see fetch_give_up() */
};
int fetch_start(struct fetch *f, const struct fetch_request *r, struct err *err);
/* The same with a sink, and waits; `done` is not used. */
int fetch_sink(struct fetch *f, const struct fetch_request *r, struct err *err);

/*
 * Lists everything below the store's prefix in parallel: the key space is split by prefix
 * (delimiter probing) and, where a flat prefix is long, by start_after ranges. Calls fn from ONE
 * thread (the caller's), in no particular order, each object exactly once. Progress may be read
 * from `ret_seen`.
 */
int fetch_list(struct fetch *f, struct store *s, unsigned parallel, list_fn *fn, void *arg,
               _Atomic uint64_t *ret_seen, struct err *err);
/* fetch_list(), and each object has what tells its versions apart wherever the server can say it:
 * of objects that were listed without an ETag it is asked one by one (web servers). */
int fetch_list_versions(struct fetch *f, struct store *s, unsigned parallel, list_fn *fn, void *arg,
                        _Atomic uint64_t *ret_seen, struct err *err);
/* fetch_list(), and the objects that mark folders which are not empty, too (of flat stores): all
 * that is below the store's prefix, but for the object that marks that prefix itself. */
int fetch_list_marks(struct fetch *f, struct store *s, unsigned parallel, list_fn *fn, void *arg,
                     struct err *err);
/* fetch_list() of what is below `prefix` ("" or ending in '/'), whose keys come without it. A tree
 * that has no such folder lists nothing. */
int fetch_list_below(struct fetch *f, struct store *s, const char *prefix, unsigned parallel,
                     list_fn *fn, void *arg, struct err *err);

/* --- writing (whole objects: nobody ever sees half of one) ------------------------------------ */

struct fetch_put_opts {              /* all may be zero */
    const struct local_attrs *attrs; /* for local stores */
    const struct object_meta *meta;  /* for those that keep it (STORE_META) */
    bool hasty; /* local: not fsynced. The caller syncs the file system when it is done. */
};
/* From memory. `ret_etag` (may be NULL) gets what the store answered, "" if nothing. */
int fetch_put_bytes(struct fetch *f, struct store *s, const char *key, const void *body, size_t len,
                    const struct fetch_put_opts *opts, char ret_etag[160], struct err *err);
int fetch_put(struct fetch *f, struct store *s, const char *key, const void *body, size_t len,
              struct err *err);

/* Fills buf with the bytes at `off`; asked for in order, on the caller's thread, unless `parallel`
 * is set. */
typedef int fetch_read_fn(void *arg, uint64_t off, void *buf, size_t len, struct err *err);
struct fetch_stream {
    struct store *store;
    const char *key;
    uint64_t len; /* exactly */
    fetch_read_fn *read;
    bool parallel; /* it may be called from some threads at once, in any order */
    /* NULL, or asked when all is sent and nothing is seen yet; -1: it is taken back. */
    int (*check)(void *arg, struct err *err);
    void *arg;
    struct fetch_put_opts opts;
    /* Where it goes in parts: an upload of this key that was broken off, or NULL. Those of its
     * parts that are the source's bytes (by their MD5) are not sent again; if one is not, or nobody
     * can know, the upload is aborted and another begun. `ret_kept` (may be NULL): bytes not sent.
     */
    const char *resume;
    uint64_t *ret_kept;
    /* Where it grows under another name until it is whole (WebHDFS): that name, from
     * fetch_temp_name(), for who must know what a death in the middle leaves; or NULL. */
    const char *temp;
};
char *fetch_temp_name(const char *key); /* beside it; another one each time */
/* Whole below 16 MiB, unless it grows. Above it goes in parts, some at a time, each read just
 * before it is sent, so that memory is bounded by about 32 MiB (more only above 80 GB); aborted if
 * it fails. */
int fetch_put_stream(struct fetch *f, const struct fetch_stream *p, struct err *err);
#define FETCH_PUT_WHOLE (16u << 20)
/* From a file descriptor. */
int fetch_put_file(struct fetch *f, struct store *s, const char *key, int fd, uint64_t len,
                   struct err *err);

/* --- other changes ---------------------------------------------------------------------------- */

/* What is not there is deleted: also what a former try deleted, whose answer was lost. */
int fetch_delete(struct fetch *f, struct store *s, const char *key, struct err *err);
/* A real folder, or the object that marks one. A real one that something is in stays: ERR_STALE. */
int fetch_delete_folder(struct fetch *f, struct store *s, const char *key, struct err *err);
/* Many, in batches where the store can. `failed` is called for each that was not deleted. */
typedef void fetch_failed_fn(void *arg, const char *key, const struct err *why);
void fetch_delete_many(struct fetch *f, struct store *s, const char *const *keys, size_t n,
                       fetch_failed_fn *failed, void *arg);
/* At the server (stores_share_server()), at most FETCH_COPY_MAX bytes; ERR_STALE if the ETag is
 * another. `ret_etag` as of a put. */
#define FETCH_COPY_MAX (5ull << 30)
int fetch_copy(struct fetch *f, struct store *to_store, const char *to, struct store *from_store,
               const char *from, const char *etag, struct err *err);
/* A folder that may stay empty. */
int fetch_folder(struct fetch *f, struct store *s, const char *key, struct err *err);
/* The same with metadata (STORE_META); and that of an object that is there already, as it is now:
 * ERR_STALE if its ETag is another. */
int fetch_folder_as(struct fetch *f, struct store *s, const char *key,
                    const struct object_meta *meta, struct err *err);
int fetch_set_meta(struct fetch *f, struct store *s, const char *key, const char *etag,
                   const struct object_meta *meta, struct err *err);
/* STORE_APPENDS or local. A file of the new name is replaced. */
int fetch_rename(struct fetch *f, struct store *s, const char *from, const char *to,
                 struct err *err);
/* The same of a file of which nobody else uses one of the two names (what is written aside; a place
 * in the trash): the one gone and the other there, of `size` bytes (-1: any), it is done, even if
 * an answer was lost and the request tried again was refused. */
int fetch_rename_own(struct fetch *f, struct store *s, const char *from, const char *to,
                     int64_t size, struct err *err);
int fetch_head(struct fetch *f, struct store *s, const char *key, struct http_answer *ret,
               struct err *err);
/* Uploads in parts that somebody has begun below `prefix` and not ended. */
int fetch_uploads(struct fetch *f, struct store *s, const char *prefix, upload_fn *fn, void *arg,
                  struct err *err);
int fetch_upload_abort(struct fetch *f, struct store *s, const char *key, const char *upload,
                       struct err *err);
/* fetch_get() that waits; any length. */
int fetch_read(struct fetch *f, const struct fetch_get *g, void *dest, uint64_t len,
               struct err *err);

/* --- packed sets (docs/formats/packed-set.md) ------------------------------------------------- */

/* The object whose presence makes a prefix a packed set; where its catalogs and packs lie. */
#define FETCH_PACKED_POINTER ".sampan/packed"
#define FETCH_PACKED_CATALOG ".sampan/catalog-" /* and the digest */
#define FETCH_PACKED_PACKS   ".sampan/packs/"

struct packed_pointer {
    char digest[CATALOG_DIGEST + 1];   /* of the current version */
    char previous[CATALOG_DIGEST + 1]; /* of the one before, whose packs are still there; or "" */
    uint64_t size;                     /* bytes of the catalog's object */
};
int packed_pointer_parse(const void *text, size_t len, struct packed_pointer *ret, struct err *err);
void packed_pointer_write(const struct packed_pointer *p, struct bytes *out);
/* 1: the store's prefix is a packed set; 0: it is none; -1: nobody knows. */
int fetch_packed_pointer(struct fetch *f, struct store *s, struct packed_pointer *ret,
                         struct err *err);
/* The catalog it names, checked row by row, in `file`, which the caller removes when it is done. */
int fetch_packed_catalog(struct fetch *f, struct store *s, const struct packed_pointer *p,
                         const char *file, struct catalog **ret, struct err *err);

/* --- the bottom layer of the data path -------------------------------------------------------- */

/* Reads units from the stores of the catalog's sources: stores[i] serves source i of the catalog
 * that the piece names. Needs piece.into with room for the whole unit. */
int fetch_source_new(struct source **ret, struct fetch *f, struct store *const *stores, size_t n,
                     struct err *err);

#endif
