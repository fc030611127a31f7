/*
 * What the files of a sync share. Its way:
 *
 *   asked.c    what was asked for: refused, or the stores opened
 *   listing.c  sources and destination -> two sorters (and one of uploads left behind)
 *   join.c     both sorters side by side, in key order; patterns, range, share, list of files
 *   walk.c     the walk that copies: what is to be done with each key
 *   run.c      phases, workers, counts, failures
 *   copy.c     one object: copied, compared
 *   meta.c     modes, owners, times and links, here and there
 *   extra.c    what is at the destination alone; folders, deepest first
 *   pack-*.c   with pack_size: packs in place of objects
 *
 * Threads: the caller's walks, decides and tells; two list; `threads` workers copy. A task belongs
 * to the worker that took it.
 */
#ifndef SAMPAN_TRANSFER_SYNC_INTERNAL_H
#define SAMPAN_TRANSFER_SYNC_INTERNAL_H

#include "buf.h"
#include "fetch.h"
#include "mem.h"
#include "metrics.h"
#include "sort.h"
#include "sync.h"
#include "transfer.h"

/* --- sides ------------------------------------------------------------------------------------ */

/* A key as the sorters keep it: this, then the ETag without its NUL. */
struct side_row {
    uint64_t size;
    int64_t mtime_ns;
    uint32_t source; /* which of run->sources; 0 for the destination */
    uint8_t kind;    /* enum sync_kind */
    uint8_t zero[3]; /* no padding: rows go to a file */
};

/* A key as a task carries it. */
struct side {
    bool there;
    struct side_row row;
    char etag[160];
};
void side_of(struct side *ret, const struct sorted *at);
struct sync_seen seen_of(const struct side *s);

struct sync_source {
    struct store *store;
    char *at;         /* where its keys lie among all: "" or "train/" */
    bool same_server; /* the destination's server can copy from it by itself */
};

/* --- the run ---------------------------------------------------------------------------------- */

enum task_kind {
    TASK_COPY,
    TASK_COMPARE,
    TASK_REFRESH, /* of what is there already: mode, owner, time */
    TASK_LINK,    /* was put off */
    TASK_DELETE_SRC,
    TASK_DELETE,
    TASK_PACK
};
struct pack_batch;

struct task {
    struct task *next;
    enum task_kind kind;
    struct side src, dst;
    struct bytes keys; /* the key; of TASK_DELETE many, each ended by NUL */
    size_t n_keys;
    char *resume;             /* of TASK_COPY: an upload that was broken off, to be gone on with */
    counter moved;            /* bytes of it that the run counts as moving */
    bool is_put_off;          /* its link is made later */
    bool is_second_try;       /* what was in its way has been deleted, if it was that */
    struct pack_batch *batch; /* of TASK_PACK */
};

struct failure {
    struct failure *next;
    char *why;
    char key[];
};

/* sync_counts while it is counted. */
struct live_counts {
    counter found, found_bytes, excluded, copied, copied_bytes, moving_bytes, skipped,
        skipped_bytes, checked, checked_bytes, deleted, deleted_src, extra, failed, aborted_uploads,
        resumed_bytes, packs, packs_deleted, packed;
};

struct sync_run {
    const struct sync_conf *conf;
    const struct sync_watch *watch;
    struct fetch *fetch;
    struct pool *pool;
    struct sync_source *sources;
    size_t n_sources;
    struct store *to;
    const char *temp_dir;
    unsigned n_threads, large_max;
    bool deletes; /* what the destination alone has: asked for, and the source is listed whole */
    uint64_t n_dangling; /* links of the sources behind which anything may lie */
    struct live_counts counts;
    uint64_t began_ns, told_ns;
    enum sync_phase phase;

    struct sorter *src, *dst, *uploads, *listed; /* uploads, listed: NULL if there are none */

    atomic_bool md5_seen, md5_useless; /* ETags of the destination are MD5s; are not */

    struct lock lock; /* RANK_VOLUME; guards all below */
    struct cond work, room, space, ended;
    struct task *first, **last;
    struct task *later;   /* links that wait until all else is written */
    struct task *blocked; /* wait until what is to be deleted is gone */
    size_t n_queued, n_busy, n_blocked;
    unsigned n_large; /* long objects on their way */
    bool no_more;
    unsigned failed_in_row;
    bool gave_up;
    struct err gave_up_why;
    struct failure *failures, **last_failure;
};

bool run_is_over(struct sync_run *r); /* stopped, or gave up */
/* Any thread. `err` NULL: the last thing went well. */
void run_failed(struct sync_run *r, const char *key, const struct err *err);
/* A failure that says nothing about the next key: never a reason to give up. */
void run_left_out(struct sync_run *r, const char *key, const char *why);
void run_went_well(struct sync_run *r);
/* On the caller's thread: tells failures and progress. */
void run_tell(struct sync_run *r, bool now);
struct task *task_new(enum task_kind kind, const char *key, size_t len);
void task_free(struct task *t);
void run_push(struct sync_run *r, struct task *t);          /* waits for room */
void run_drain(struct sync_run *r);                         /* until all tasks are done */
void run_put_off(struct sync_run *r, const struct task *t); /* any thread */
/* Any thread. True: what is to be deleted may be in its way, and it is tried again after that.
 * Of local folders alone: others don't tell what is in the way from what may work later. */
bool run_blocked(struct sync_run *r, const struct task *t, const struct err *why);
/* Does what was put off, and drains. */
void run_later(struct sync_run *r, struct task **list);
/* A buffer of the pool; waits for space. NULL: the run is over. */
struct buf *run_buf(struct sync_run *r, size_t cap);
bool large_enter(struct sync_run *r);
void large_leave(struct sync_run *r);

/* asked.c: the stores of `conf`, checked, and its list of files. */
int run_open_stores(struct sync_run *r, struct err *err);
int run_load_list(struct sync_run *r, struct err *err);

/* --- phases ----------------------------------------------------------------------------------- */

int run_list(struct sync_run *r, struct err *err);

/* walk.c */
int run_copies(struct sync_run *r, struct err *err);

/* join.c: keys of either side in order, those alone that are this run's. */
struct join {
    struct sync_run *run;
    struct sorted src, dst, up, want;
    int more_src, more_dst, more_up, more_want; /* 1: the cursor stands on a record */
    bool counts;      /* the first walk: counts what it leaves out, tells what is missing */
    bool shows_kept;  /* stops at what the destination has of what is not this run's, too: */
    bool is_left_out; /* such a one is `key`, of which only `d` is told */
    uint64_t looked_at;
    struct bytes key, folder; /* folder: a listed one that is being passed */
    bool folder_used;
    struct side s, d;    /* of `key` */
    struct bytes aborts; /* uploads of `key` left behind, each ended by NUL */
};
int join_begin(struct join *j, struct sync_run *r, bool counts, struct err *err);
int join_next(struct join *j, struct err *err); /* 1, 0 at the end, -1 */
void join_end(struct join *j);

/* copy.c; on workers */
void do_task(struct sync_run *r, struct task *t);
/* The key as the source has it. */
const char *source_key(const struct sync_run *r, const struct side *s, const char *key);
void get_of(const struct sync_run *r, const struct side *s, const char *key, bool from_source,
            struct fetch_get *ret);

/* meta.c */
bool keeps_meta(const struct store *s);
/* What the destination has is left; only its mode, owner and time are made those of the source. */
int meta_refresh(struct sync_run *r, uint32_t source, const char *key, struct err *err);

/* extra.c */
int run_delete_extra(struct sync_run *r, struct err *err);
int run_folder_attrs(struct sync_run *r, struct err *err);

/* pack-run.c, pack-write.c: packs in place of objects */
int run_pack(struct sync_run *r, struct err *err);
void pack_write(struct sync_run *r, struct pack_batch *b); /* on workers */
void pack_batch_free(struct pack_batch *b);
int run_check_empty(struct sync_run *r, struct err *err);
/* What was written to a local folder is on its disk. */
int run_sync_disk(const struct sync_run *r, struct err *err);

#endif
