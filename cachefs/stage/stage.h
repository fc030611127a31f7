/*
 * stage: a prefix of a store as a folder that can be written (`mount --writable`).
 *
 * Another mode than samples: no versions, no numbers, no catalog. The tree is what the store lists,
 * below what is here and not stored yet. A folder is listed again when it is looked at and its
 * listing is older than `refresh`. Bytes are staged in files of the cache folder, names and what is
 * owed to the store in a journal (SQLite) beside them.
 *
 * What holds, whatever is killed and whenever:
 *  1. An object of the store is always whole: the content of one file at one moment (its close, its
 *     fsync, a tick of the interval). A half-done upload is never visible; a restart goes on with
 *     it or aborts it; none is orphaned.
 *  2. Bytes taken by stage_write() are in the stage's file before it returns, names changed are in
 *     the journal: a kill -9 loses nothing. After stage_flush() (commit close), stage_fsync() or
 *     stage_settle() they are in the store (commit close), or durable here (fsynced; commit
 *     background and interval), whose uploads are owed and go on by themselves.
 *  3. A call that changes something is journalled with the request's number and its answer before
 *     it returns: the same call again (the kernel resends what a dead life had in hand) gets the
 *     same answer and changes nothing. WRITE needs no entry: it says the same again.
 *  4. Inode numbers are permanent and never used again; the kernel may keep them over lives. Open
 *     files too: what was open stays open in the next life, an unlinked file lives until its last
 *     release.
 *  5. What the store refuses (denied, gone, full) is an error of the call that waits for it; the
 *     bytes stay here, listed by stage_pending(), tried again by stage_retry() and, for errors that
 *     pass, by themselves. A change of names that is refused to a caller who waits is undone.
 *  6. The stage's files never exceed `limit` nor go below the free-space floor: ENOSPC at write,
 *     nothing half-written. Stored, closed content is dropped (oldest first) to make room; content
 *     that is owed never is. So a file that is being written has to fit: parts that went up stay
 *     here, too, since no store gives back a part of an object that is not complete, and reads,
 *     writes in the middle of a part and an upload that the store forgot need their bytes.
 *
 * Content of a file: blocks of STAGE_BLOCK bytes, each ABSENT (only in the store), CLEAN (a copy)
 * or DIRTY. Reading or partly overwriting an ABSENT block fetches it first (ranged GET, If-Match of
 * the ETag the file was opened at: another content there is ESTALE, never mixed bytes); overwriting
 * it whole does not. From STAGE_MULTIPART bytes on parts go up while writing goes on, in parallel;
 * a part that is written again goes up again; parts that did not change are copied by the store
 * where it can.
 *
 * Objects: a file is one object; a folder is an empty object whose key ends in '/', as s3fs and
 * most consoles make them, and also implied by keys below it; mode, uid, gid, mtime and a symbolic
 * link's kind are object metadata as s3fs writes them (x-amz-meta-mode, -uid, -gid, -mtime); a
 * link's target is its content. Stores without metadata (webhdfs) keep what they can. Rename is a
 * journalled intent: the new name is seen here at once, copies and deletes follow (commit close:
 * before the call returns; what is too large for one copy is copied in parts), a restart ends what
 * was begun. A folder's rename is one intent over all
 * keys below it.
 *
 * Threads: any. A call with wait = false never waits for the network: it answers from here, or
 * gives STAGE_WAIT and has changed nothing; the caller asks again with wait = true on a thread that
 * may wait (then there is no STAGE_WAIT). Errors carry the errno for the caller: err_errno().
 */
#ifndef SAMPAN_STAGE_H
#define SAMPAN_STAGE_H

#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include "err.h"
#include "fetch.h"
#include "json.h"
#include "metrics.h"
#include "object.h"

struct log;

#define STAGE_ROOT      1ull
#define STAGE_BLOCK     (1u << 20)
#define STAGE_MULTIPART (16u << 20)
#define STAGE_WAIT      1 /* of a call with wait = false */

enum stage_commit { COMMIT_CLOSE, COMMIT_BACKGROUND, COMMIT_INTERVAL };
/* "close", "background", "interval=2s" */
int stage_commit_parse(const char *text, enum stage_commit *ret, uint64_t *ret_interval_ns,
                       struct err *err);

#define STAGE_EACH_LOOK 1 /* of refresh_ns: each look lists, also where that is slow */

struct stage_conf {
    const char *dir;      /* made by the caller: journal, staged files */
    struct store *store;  /* borrowed; must write (STORE_WRITES) */
    struct fetch *fetch;  /* borrowed */
    uint64_t limit;       /* bytes of everything in dir */
    double free_fraction; /* of the disk, kept free */
    uint64_t free_bytes;
    enum stage_commit commit;
    uint64_t interval_ns;
    uint64_t refresh_ns; /* or STAGE_EACH_LOOK */
    uid_t uid;           /* owner of what carries no owner of its own */
    gid_t gid;
    /* Requests at once that carry content up (0: 16); half as many small ones of callers who wait
     * for them come on top. */
    unsigned uploads;
    /* Of content that is in memory for them at once (0: 64 MiB). While a large file goes up, as
     * much memory at the most stays for its next parts. */
    uint64_t body_bytes;
    uint64_t read_bytes; /* of content that is in memory while it comes (0: 32 MiB) */
    uint64_t copy_max;   /* larger objects are copied in parts (0: 5 GiB, as stores have it) */
    /* A call that waits for the store gives EIO after so long without success (0: 60 s). */
    uint64_t patience_ns;
    /* After a kill, nothing goes up for so long: a request of the dead life that the store is still
     * at work on must not overtake it (0: 500 ms). */
    uint64_t grace_ns;
    /* The kernel mounted this anew: what an earlier mount knew (inode numbers, handles, requests in
     * hand) is over. Content that a dead mount left unclosed is owed from now on. False: the next
     * life of a daemon takes over a mount that lives on. */
    bool fresh;
    struct stage_counts *counts; /* counted on here (a keeper's area); NULL: of the stage's own */
    struct log *log;
};

struct stage;
/* Opens the journal, ends or takes up what the last life left; does not wait for the network.
 * ERR_CORRUPT: not a stage's folder; ERR_LIMIT: of another store (the URI is kept in it). */
int stage_open(struct stage **ret, const struct stage_conf *conf, struct err *err);
/* Stops; what is owed stays in the journal. Settle first to leave nothing. */
void stage_close(struct stage *s);

/* Who calls: `unique` names the request (0: none, never repeated). */
struct stage_call {
    uint64_t unique;
    uid_t uid;
    gid_t gid;
    bool wait;
    /* Asked every now and then while this call waits for the store: its caller waits no longer. The
     * call then ends with EINTR. Nothing is lost by that: bytes stay staged, a name that was
     * changed stays changed, and both go on being owed. NULL: it waits to the end. */
    bool (*given_up)(void *arg);
    /* While the call is busy with what somebody else would do if it only waited (it carries a small
     * file up itself), this is called instead, once: the caller is told EINTR at once, and hears
     * nothing of what the call returns later. NULL: he waits until then. */
    void (*leave)(void *arg);
    void *arg;
    uint64_t since_ns; /* when the caller asked (monotonic); 0: now */
    bool from_store;   /* a read, for which the store was waited for before */
};
/* The call failed with `err`. True, after a moment: the store was in trouble, and the caller has
 * patience left: make the call again. False: `err` is the answer (EINTR: he waits no longer). */
bool stage_ask_again(struct stage *s, const struct stage_call *c, struct err *err);

struct stage_attr {
    struct stat st;    /* st_ino is ours */
    uint64_t valid_ns; /* how long the kernel may believe it */
};

/* --- names ---------------------------------------------------------------------------------- */

/* Each lookup that the kernel is told of counts; stage_forget() gives them back. */
int stage_lookup(struct stage *s, const struct stage_call *c, uint64_t parent, const char *name,
                 struct stage_attr *ret, struct err *err);
void stage_forget(struct stage *s, uint64_t ino, uint64_t lookups);
int stage_getattr(struct stage *s, const struct stage_call *c, uint64_t ino, struct stage_attr *ret,
                  struct err *err);
enum {
    STAGE_SET_MODE = 1,
    STAGE_SET_UID = 2,
    STAGE_SET_GID = 4,
    STAGE_SET_SIZE = 8,
    STAGE_SET_MTIME = 16,
    STAGE_SET_ATIME = 32
};
int stage_setattr(struct stage *s, const struct stage_call *c, uint64_t ino, const struct stat *st,
                  unsigned what, struct stage_attr *ret, struct err *err);
int stage_mkdir(struct stage *s, const struct stage_call *c, uint64_t parent, const char *name,
                mode_t mode, struct stage_attr *ret, struct err *err);
int stage_symlink(struct stage *s, const struct stage_call *c, uint64_t parent, const char *name,
                  const char *target, struct stage_attr *ret, struct err *err);
int stage_readlink(struct stage *s, const struct stage_call *c, uint64_t ino, struct bytes *ret,
                   struct err *err);
int stage_unlink(struct stage *s, const struct stage_call *c, uint64_t parent, const char *name,
                 struct err *err);
int stage_rmdir(struct stage *s, const struct stage_call *c, uint64_t parent, const char *name,
                struct err *err);
/* flags: 0, RENAME_NOREPLACE or RENAME_EXCHANGE (the latter may be EINVAL). */
int stage_rename(struct stage *s, const struct stage_call *c, uint64_t parent, const char *name,
                 uint64_t new_parent, const char *new_name, unsigned flags, struct err *err);

/* Entries in the order of their cookies, after `after_cookie` (0: from the start), without "." and
 * ".."; fn gives false to stop (its buffer is full). An entry's cookie is its inode number, so it
 * stays true whatever comes and goes, also in the next life. Where the kind of an entry is not
 * known yet (an object of somebody else that nobody looked up), st_mode has no kind: DT_UNKNOWN.
 * Nothing is counted as a lookup: whoever tells the kernel of entries with their attributes
 * (readdirplus) calls stage_lookup() for each. fn is called with no lock held. */
typedef bool stage_dir_fn(void *arg, const char *name, const struct stage_attr *attr,
                          uint64_t cookie);
int stage_readdir(struct stage *s, const struct stage_call *c, uint64_t ino, uint64_t after_cookie,
                  stage_dir_fn *fn, void *arg, struct err *err);

/* --- content -------------------------------------------------------------------------------- */

/* Whether what is opened so may be changed by it. Linux empties with O_RDONLY | O_TRUNC, too. */
static inline bool open_changes(int flags)
{
    return (flags & O_ACCMODE) != O_RDONLY || flags & O_TRUNC;
}

/* `flags` of open(2). A handle's number is good in the next life too: it says inode, the way it was
 * opened, and the generation of the content, so that a reader whose file another writer replaced
 * gets ESTALE. What is opened is what the kernel was last told of by stage_lookup() or
 * stage_getattr(): ESTALE, if it is something else by now, has it look the name up and open that.
 * O_TRUNC and O_EXCL are done here. Two handles on one file share its content. */
int stage_create(struct stage *s, const struct stage_call *c, uint64_t parent, const char *name,
                 mode_t mode, int flags, struct stage_attr *ret, uint64_t *ret_fh, struct err *err);
int stage_open_file(struct stage *s, const struct stage_call *c, uint64_t ino, int flags,
                    uint64_t *ret_fh, struct err *err);
/* Fills `buf`; *ret_n < len only at the end of the file. */
int stage_read(struct stage *s, const struct stage_call *c, uint64_t fh, uint64_t off, void *buf,
               size_t len, size_t *ret_n, struct err *err);
/* Does what a read of that would wait for, so that its caller has no buffer while he waits. Was it
 * the store? Then the call that reads says so (stage_call.from_store). */
int stage_await(struct stage *s, const struct stage_call *c, uint64_t fh, uint64_t off, size_t len,
                bool *ret_from_store, struct err *err);
int stage_write(struct stage *s, const struct stage_call *c, uint64_t fh, uint64_t off,
                const void *data, size_t len, struct err *err);
int stage_fallocate(struct stage *s, const struct stage_call *c, uint64_t fh, int mode,
                    uint64_t off, uint64_t len, struct err *err);
/* close(2) of one of the descriptors of this handle. */
int stage_flush(struct stage *s, const struct stage_call *c, uint64_t fh, struct err *err);
/* Whether that would wait for one small request, which the waiting thread carries itself. */
bool stage_flush_is_light(struct stage *s, uint64_t fh);
int stage_fsync(struct stage *s, const struct stage_call *c, uint64_t fh, bool data_only,
                struct err *err);
/* The last descriptor is gone. */
int stage_release(struct stage *s, const struct stage_call *c, uint64_t fh, struct err *err);

/* --- the whole ------------------------------------------------------------------------------ */

/* Did its own disk fail when the journal or a staged file was last written? *ret_why then says how.
 */
bool stage_disk_fails(struct stage *s, char *ret_why, size_t size);
int stage_statfs(struct stage *s, struct statvfs *ret, struct err *err);
/* Waits until nothing is owed, or `deadline_ns` (monotonic; 0: as long as it makes progress):
 * `sampan flush`, umount, SIGTERM. Fails with the first path that could not be stored, and how
 * many. What the machine's stop may have torn stays as it is. */
int stage_settle(struct stage *s, uint64_t deadline_ns, struct err *err);
/* The same as a call of somebody who may give up: fsync of the root. */
int stage_sync(struct stage *s, const struct stage_call *c, struct err *err);
/* What calls that returned have changed of names lasts also if the machine stops: fsync of another
 * folder. */
int stage_sync_names(struct stage *s, const struct stage_call *c, struct err *err);
/* Tries at once what failed or waits for its turn; what the machine's stop may have torn is stored
 * as it is. */
void stage_retry(struct stage *s);
/* "pending": {"files","bytes","failed","oldest_s","items":[{"path","bytes","why","since"}]} (the
 * first 100). */
void stage_pending(struct stage *s, struct json_writer *w);
/* What the front end must tell the kernel: names and pages of another writer's change that a
 * listing brought, and what a call that failed has left otherwise than it was. Called on a thread
 * of the stage, with no lock held. `name` NULL: the inode's attributes and pages, else the entry in
 * the folder `ino`. */
typedef void stage_changed_fn(void *arg, uint64_t ino, const char *name);
/* fn NULL: nothing is told any more once this returns. */
void stage_on_change(struct stage *s, stage_changed_fn *fn, void *arg);
/* How old a listing may be, from now on. A slow one may be older, so that listing is an eighth of
 * the time at most; with STAGE_EACH_LOOK, which is for tests, none is. */
void stage_set_refresh(struct stage *s, uint64_t refresh_ns);

/* Counters; the memory may be a keeper's area. */
#define STAGE_COUNTS_VERSION 1
struct stage_counts {
    counter reads, read_bytes, writes, written_bytes, fetched_bytes, uploads, uploaded_bytes,
        upload_failures, deletes, copies, lists;
    counter store_reads; /* of `reads`: those that waited for the store */
    counter read_errors;
    struct histogram read_latency; /* from the call's since_ns */
};
const struct stage_counts *stage_counts(const struct stage *s);
/* Grows whenever something of what is owed has come to the store. */
static inline uint64_t stage_done(const struct stage *s)
{
    const struct stage_counts *n = stage_counts(s);
    return counter_get(&n->uploads) + counter_get(&n->uploaded_bytes) + counter_get(&n->deletes) +
           counter_get(&n->copies);
}
/* The path of an inode, without a '/' before it; nothing if it has no name (any more). */
void stage_path(struct stage *s, uint64_t ino, struct bytes *ret);

#endif
