/*
 * transfer: many objects from some stores to another, or out of one.
 *
 * sync_run() makes a destination hold what its sources hold: it lists all of them, sorts (on disk,
 * in bounded memory), walks both sides in key order, decides for each key by a pure table
 * (sync_decide()), and lets `threads` workers copy. Bytes stream through memory: a small object in
 * one buffer of a bounded pool, a long one in parts that are read just before they are sent; where
 * one server has both ends it copies by itself. Nothing is written to a disk but the sorter's
 * temporary file and a local destination.
 *
 * What holds, whatever fails:
 *  - An object of the destination is whole or absent: the content that its source had at one
 *    moment. A source that changes meanwhile is read again from the start, or is a failure.
 *  - No action is taken before all listings have ended well. So nothing is deleted because a
 *    listing was cut short; and nothing at all when a source is empty (unless allow_empty).
 *  - A source is deleted (delete_src) only after its copy was written, synced, and proved equal.
 *  - A run that was broken off is gone on with by the same call: what is done is skipped; an upload
 *    in parts that it left behind is gone on with, as far as its parts are the source's bytes, and
 *    others for keys of the sources are aborted.
 *
 * Trash (".trash/" anywhere in a key, see remove.h) is nobody's sample: it is neither copied nor
 * deleted.
 */
#ifndef SAMPAN_TRANSFER_TRANSFER_H
#define SAMPAN_TRANSFER_TRANSFER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "err.h"
#include "object.h"

struct log;

/* rsync's patterns; the first that fits a name, or a folder above it, decides. */
struct sync_rule {
    bool include;
    const char *pattern;
};

struct sync_conf {
    const char *const *sources; /* URIs, or set files (whose `at` is kept); later ones add to it */
    size_t n_sources;
    const char *destination; /* a URI */
    struct store_conf from, to;

    const struct sync_rule *rules;
    size_t n_rules;
    bool match_full_path;    /* rules are matched against whole keys alone, not folder by folder */
    const char *start, *end; /* first and last key; NULL: all */
    const char *files_from;  /* a file with a key a line; a line that ends in '/': all below */
    uint64_t limit;          /* objects looked at; 0: all */
    uint32_t share, shares;  /* only keys whose hash falls to share i of n; shares 0: all */

    bool update;       /* copy what is newer at the source; default: what has another size */
    bool force_update; /* copy all */
    bool existing;     /* copy nothing that is new */
    bool ignore_existing;
    bool check_new; /* compare the bytes of what was copied */
    bool check_all; /* ... and of what is there already; it is copied again if they differ */
    bool delete_src, delete_dst, allow_empty;
    bool dirs;  /* folders too, empty ones included */
    bool perms; /* mode, owner and time: of local files, and as metadata of S3 and BOS */
    bool links; /* links as links, in the same places; otherwise what they lead to */
    bool hasty; /* a local destination is not waited for: its disk has it sooner or later */
    bool dry;

    uint64_t pack_size; /* 0: objects as they are; else write packs (docs/formats/packed-set.md) */
    double pack_waste;  /* rewrite a pack once this share of it is unused; 0: 0.5 */
    bool repack;        /* rewrite every pack that has any */

    unsigned threads;     /* 0: 16 */
    uint64_t bandwidth;   /* bytes a second read; 0: unlimited */
    size_t memory;        /* for bodies; 0: 256 MiB */
    const char *temp_dir; /* for sorting; NULL: TMPDIR or /tmp */
    const atomic_bool *stop;
    struct log *log;
};

struct sync_counts {
    uint64_t found, found_bytes; /* at the sources, below start..end and in this share */
    uint64_t excluded;           /* by rules */
    uint64_t copied, copied_bytes, skipped, skipped_bytes;
    uint64_t moving_bytes;           /* of objects on their way: so much of them has been read */
    uint64_t checked, checked_bytes; /* compared byte by byte */
    uint64_t deleted, deleted_src;
    uint64_t extra; /* at the destination alone, and left there */
    uint64_t failed;
    uint64_t aborted_uploads; /* left behind by earlier runs */
    uint64_t resumed_bytes;   /* not sent again: an earlier run's upload had them */
    uint64_t packs, packs_deleted,
        packed; /* with pack_size: written; removed; samples in the set */
    double seconds;
};

enum sync_phase { SYNC_LISTING, SYNC_COPYING, SYNC_DELETING, SYNC_PUBLISHING };
enum sync_act { SYNC_SKIP, SYNC_COPY, SYNC_COMPARE, SYNC_EXTRA, SYNC_DELETE, SYNC_DELETE_SRC };

/* All are called on the caller's thread; each may be NULL. */
struct sync_watch {
    /* Ten times a second at most. `total` objects are known to be looked at; 0 while listing. */
    void (*progress)(void *arg, enum sync_phase phase, const struct sync_counts *so_far,
                     uint64_t total);
    void (*failed)(void *arg, const char *key, const char *why);
    void (*would)(void *arg, enum sync_act act, const char *key, uint64_t size); /* dry */
    void *arg;
};

/* 0: it ran to its end; `ret->failed` says whether all of it worked. -1: it did not run, or was
 * stopped (ERR_CANCELLED), or gave up because everything failed; `ret` says what was done. */
int sync_run(const struct sync_conf *conf, const struct sync_watch *watch, struct sync_counts *ret,
             struct err *err);

/* --- the pure parts --------------------------------------------------------------------------- */

/* ERR_USAGE for what sync_run() would refuse before it opens a store. */
int sync_check(const struct sync_conf *conf, struct err *err);
/* ERR_USAGE for a pattern that can fit nothing. */
int sync_rules_check(const struct sync_rule *rules, size_t n, struct err *err);
/* Whether a key passes the rules. `key` of a folder ends in '/'. */
bool sync_rules_pass(const struct sync_rule *rules, size_t n, bool full_path, const char *key,
                     size_t len);
bool sync_pattern_fits(const char *pattern, const char *path, size_t len);

enum sync_kind { SYNC_OBJECT, SYNC_FOLDER, SYNC_LINK };
struct sync_seen { /* a key on one side */
    bool there;
    enum sync_kind kind;
    uint64_t size;
    int64_t mtime_ns; /* LIST_MTIME_UNKNOWN */
    const char *etag; /* "" */
};
enum sync_act sync_decide(const struct sync_conf *c, const struct sync_seen *source,
                          const struct sync_seen *destination);
/* Which of `n` shares a key falls to. */
uint32_t sync_share(const char *key, size_t len, uint32_t n);

#endif
