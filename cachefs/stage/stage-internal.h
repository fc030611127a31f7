/*
 * The inside of a stage: what its files share.
 *
 * What is kept and who is right. The journal (SQLite) holds one row a node: its name, attributes,
 * and what the store has of it. Nothing says "do this": what is owed follows from the difference
 * between what the row wants and what it says the store has, so a restart needs no replay.
 *
 *   row                                       the store must ...                      done in
 *   DIRTY and PUBLISH                         get the content under the node's path    upload.c
 *   at other key than its path (`skey`)       move the object to the path              owed.c
 *   META                                      get the attributes                       owed.c
 *   `doomed` (a table of keys)                lose that key, or an upload in parts     owed.c
 *
 * A node's content is in data/INO (sparse; its size is the file's size) and, if some of it is only
 * in the store or unchanged, data/INO.map says which block is what (content.c). A staged file's own
 * size and mtime are the truth for a DIRTY node, so write(2) needs no journal.
 *
 * Locks: a content's lock (RANK_STAGE_FILE), then s->lock (RANK_STAGE): tree, journal, queue. No
 * lock is held over the network, except that uploads and copies keep their keys in `s->flying`, so
 * that two requests never work on one key. A node is freed only when nobody knows it: no lookups,
 * no opens, no content in use, not being worked on.
 */
#ifndef SAMPAN_STAGE_INTERNAL_H
#define SAMPAN_STAGE_INTERNAL_H

#include <limits.h>

#include "stage.h"
#include "sync.h"

struct sqlite3;
struct sqlite3_stmt;

/* --- nodes ----------------------------------------------------------------------------------- */

/* Stored in the journal: numbers never change their meaning. */
enum {
    N_STORED = 1,     /* the store has an object of it: at `skey`, or at its own path */
    N_STAGED = 2,     /* data/INO is there */
    N_DIRTY = 4,      /* the content differs from the store's */
    N_PUBLISH = 8,    /* ... and is to be stored: closed, synced, or a tick came */
    N_META = 16,      /* the attributes differ from the store's; of a folder: its marker is owed */
    N_KNOWN = 32,     /* the attributes are the object's own (it was looked at), or ours */
    N_ORPHAN = 64,    /* has no name any more */
    N_MAP = 128,      /* data/INO.map says which blocks are here */
    N_HELD = 256,     /* torn by a machine that stopped: stored only when somebody asks for it */
    N_SYNCED = 512,   /* while DIRTY: the content is on the disk as it was when it was synced */
    N_DURABLE = 1024, /* ... it was once since it was stored: more than that was promised */
};

enum node_kind { NODE_FILE, NODE_FOLDER, NODE_LINK }; /* in the journal, too */

struct record {
    uint64_t ino, parent;
    char *name;
    enum node_kind kind;
    mode_t mode; /* permission bits alone */
    uid_t uid;
    gid_t gid;
    int64_t mtime_ns;
    uint64_t size; /* of what is stored; a DIRTY node's is its staged file's */
    unsigned flags;
    uint64_t gen;   /* raised when another writer's content replaced ours */
    char *etag;     /* of the stored object; never NULL */
    char *skey;     /* where it is stored, if not at its path; NULL */
    char *target;   /* of a link; NULL: not read yet */
    uint64_t rsize; /* the stored object's size and time, as the store lists them */
    int64_t rmtime_ns;
};

struct content;

struct node {
    struct record row;
    struct node *parent;                           /* NULL: the root, or an orphan */
    struct node *next_ino, *next_name, *next_skey; /* hash chains */
    struct node *first, *last;                     /* children, by ino */
    struct node *before, *after;                   /* among its parent's children */
    struct node *newer, *older;                    /* in the list of what may be dropped */
    struct node *owed_next, *owed_prev;            /* in the queue, or among the failed */
    struct node *dirty_next, *dirty_prev;          /* among those that are DIRTY */
    struct content *content;                       /* while somebody uses it */
    uint64_t lookups;
    uint64_t same_back; /* so many generations back the content was the beginning of this one */
    unsigned opens;
    unsigned folders; /* among its children */
    unsigned pins;    /* users of the pointer itself */
    bool held;        /* `opens` holds a reference on the content */
    bool in_names, in_drop, in_dirty, queued, busy, failed, foreign_told;
    /* Bytes of this generation were given to readers (or may have been, in an earlier life): from
     * then on an open file that another writer replaces is stale. */
    bool given;
    bool again;        /* wanted anew while a try was under way: that one's failure is no answer */
    bool fetch_first;  /* an orphan that is open: its content comes here before its object goes */
    bool parts_wanted; /* a part in the middle of a file being written is complete */
    bool explicit_mtime; /* set by a call, not by writing */
    bool listing;        /* somebody lists this folder now */
    bool looking;        /* somebody looks at this object now */
    uint64_t listed_ns;  /* a folder: when its listing began; 0: never */
    uint64_t list_took_ns, list_again_ns;
    uint64_t moment;  /* s->moment of our last change at the store */
    uint64_t mark;    /* of the listing that saw it last */
    uint64_t charged; /* bytes of the disk taken by its staged content */
    /* Numbers of changes of the content: the last one, the last that a call wants stored, and the
     * last that is stored. `seq` is raised with the content's lock held, too. */
    uint64_t seq, publish_seq, stored_seq;
    uint64_t synced_seq; /* when it was synced here last */
    uint64_t owed_ns;    /* since when; monotonic */
    uint64_t tries;
    uint64_t due_ns;
    struct err *why; /* the last failure, or NULL */
    /* Of this life alone, on the wall clock: a call changed the attributes; the names in a folder.
     * They are seen in ctime, and in a folder's mtime. */
    int64_t touched_ns, names_ns;
    int64_t atime_ns; /* set by a call; 0: as mtime */
};

/* A key of the store that must go, or an upload in parts that must be aborted. */
struct doom {
    struct doom *next, *prev; /* in s->dooms */
    struct doom *next_hash;
    char *key;
    char *upload; /* NULL: the object; "": all uploads of that key */
    uint64_t ino; /* of the call that waits for it */
    bool busy, failed, again;
    uint64_t due_ns, owed_ns, tries;
    struct err *why;
};

struct change {
    struct change *next;
    uint64_t ino;
    char *name;
};

struct flight {
    struct flight *next;
    const char *key;
};

enum stmt {
    ST_BEGIN,
    ST_COMMIT,
    ST_ROLLBACK,
    ST_PUT,
    ST_DROP,
    ST_DOOM,
    ST_UNDOOM,
    ST_CALL,
    ST_META,
    ST_UPLOAD,
    ST_UPLOAD_DROP,
    ST_PART,
    ST_PART_DROP,
    ST_PARTS_DROP,
    ST_COUNT
};

struct journal {
    struct sqlite3 *db;
    struct sqlite3_stmt *stmts[ST_COUNT];
    int wal_fd;
    unsigned call_slot;
};

struct call_answer {
    uint64_t unique, ino;
};

struct memory_use {
    uint64_t used; /* s->lock */
    uint64_t most;
    uint64_t patience_ns; /* nobody waits longer; 0: as long as it takes */
};

#define WORKERS_MAX 16
/* Unless conf says otherwise. */
#define BODY_BYTES  (64ull << 20)
#define READ_BYTES  (32ull << 20)
#define PATIENCE_NS (60 * NS_PER_S)

enum disk_part { DISK_JOURNAL, DISK_JOURNAL_SYNC, DISK_DATA, DISK_DATA_SYNC, DISK_PARTS };

struct stage {
    struct stage_conf conf;
    struct stage_counts *counts, own_counts;
    unsigned caps;
    char *dir;
    int data_fd;
    _Atomic uint64_t used; /* bytes of the disk taken by data files */
    _Atomic bool stopping;

    struct lock health_lock;
    struct disk_health { /* of the disk, for who asks for it */
        _Atomic bool failing;
        char why[256]; /* health_lock */
    } health[DISK_PARTS];

    struct lock lock;    /* all below */
    struct cond changed; /* something that somebody may wait for */
    struct cond work;    /* for workers */
    struct cond clock;   /* for the clock's thread */
    struct cond tell;    /* for the telling thread */
    struct journal journal;
    uint64_t next_ino, ino_reserved, moment, marks;
    /* Deletes and moves that ended, and those of which the disk knows (journal_barrier()). */
    uint64_t resolved, resolved_synced;
    struct node **by_ino, **by_name, **by_skey;
    size_t n_nodes, buckets;
    struct node *root;
    struct node *drop_first, *drop_last; /* clean content that nobody uses, oldest first */
    struct node *dirty_first;
    struct owed_list { /* what is owed, in the order of its coming; and what failed for now */
        struct node *first, *last;
        size_t n;
    } owed, failed;
    unsigned n_busy;
    struct gone *gone; /* what we deleted lately */
    struct doom *dooms, *doom_last, **doom_hash;
    size_t n_dooms;
    struct flight *flying;
    struct call_answer *answers; /* of an earlier life */
    size_t n_answers;
    uint64_t pause_ns, paused_until_ns; /* the store is in trouble */
    /* A killed life's last requests may still be at work in the store: nothing overtakes them. */
    uint64_t grace_until_ns;
    uint64_t progress;                  /* things settled so far */
    struct memory_use going_up, coming; /* content in memory, on its way to the store or from it */
    pthread_t workers[WORKERS_MAX], clock_thread, tell_thread;
    /* `wakes`: of the idle workers, those who were called. `passed_over`: some work waits for the
     * end of other work, as a worker saw since all were called. */
    unsigned n_workers, idle_workers, wakes, n_threads;
    bool passed_over;
    bool no_part_copy; /* the store refused it */
    unsigned commits;  /* since the last checkpoint */
    bool checkpoint_due;
    struct change *tells, **tells_end;
    stage_changed_fn *changed_fn;
    void *changed_arg;
    bool telling; /* changed_fn runs */
    bool full_told;
};

/* tree.c: nodes in memory. s->lock held for all. */
void tree_init(struct stage *s);
void tree_free(struct stage *s);
struct node *node_new(struct stage *s, uint64_t ino); /* known by number, without a name */
struct node *node_of(struct stage *s, uint64_t ino);  /* NULL: none */
struct node *child_of(struct stage *s, const struct node *folder, const char *name);
/* A call changed the names in it, or (with a child) the child's too. */
void node_touch_names(struct node *folder, struct node *child);
void node_link(struct stage *s, struct node *parent, struct node *n); /* takes row.name */
void node_unlink(struct stage *s, struct node *n);
void node_set_skey(struct stage *s, struct node *n, char *key); /* takes it; NULL: at its path */
struct node *holder_of(struct stage *s, const char *key);       /* whose skey it is, or NULL */
/* The first below `prefix` (ends in '/') that is stored there under a key of its own. */
bool holds_below(struct stage *s, const char *prefix);
bool node_is_below(const struct node *n, const struct node *above);
/* Frees an orphan that nobody knows any more, with what is left of it. */
void node_reap(struct stage *s, struct node *n);
/* The key of a node: its path; a folder's ends in '/'. Appends. */
void node_key(const struct node *n, struct bytes *out);
char *node_key_new(const struct node *n);
/* Where its object is: skey, or its path. */
char *node_stored_key(const struct node *n);
void node_attr(struct stage *s, const struct node *n, struct stage_attr *ret);
uint64_t node_valid_ns(const struct stage *s, const struct node *n);
static inline bool node_is_folder(const struct node *n)
{
    return n->row.kind == NODE_FOLDER;
}
void record_release(struct record *r);
int name_check(const struct stage *s, const struct node *parent, const char *name, struct err *err);
/* An inode number; -1 if the journal can't keep it. */
int ino_take(struct stage *s, uint64_t *ret, struct err *err);
/* A node made now: row filled with defaults, an inode number; neither linked nor saved. */
struct node *node_make(struct stage *s, enum node_kind kind, const char *name, struct err *err);

/* The name of a handle: inode, generation, and whether it may write. */
#define FH_INO_BITS 44
#define FH_WRITES   (1ull << 63)
uint64_t handle_make(const struct node *n, int flags);
struct node *handle_node(struct stage *s, uint64_t fh, struct err *err);
bool handle_is_stale(const struct node *n, uint64_t fh);

/* journal.c: s->lock held for all but open and sync. */
int journal_open(struct stage *s, struct err *err);
/* Whether `meta` says so: "boot" of which the last life was, "clean" 1 if it was not killed. */
bool journal_is(struct stage *s, const char *key, uint64_t value);
int journal_load(struct stage *s, struct err *err);
void journal_close(struct stage *s);
int journal_begin(struct stage *s, struct err *err);
int journal_commit(struct stage *s, struct err *err);
void journal_rollback(struct stage *s);
int journal_put(struct stage *s, const struct node *n, struct err *err);
int journal_put_record(struct stage *s, const struct record *r, struct err *err);
int journal_drop(struct stage *s, uint64_t ino, struct err *err);
int journal_doom(struct stage *s, const char *key, const char *upload, uint64_t ino,
                 struct err *err);
int journal_undoom(struct stage *s, const char *key, const char *upload, struct err *err);
int journal_call(struct stage *s, const struct stage_call *c, uint64_t ino, struct err *err);
int journal_meta(struct stage *s, const char *key, uint64_t value, struct err *err);
#define UPLOAD_GROWS "~" /* as `id`: `key` is a temporary name of what grows there */
int journal_upload(struct stage *s, uint64_t ino, const char *key, const char *id, struct err *err);
int journal_upload_drop(struct stage *s, uint64_t ino, struct err *err); /* with its parts */
int journal_part(struct stage *s, uint64_t ino, unsigned part, uint64_t len, const char *etag,
                 struct err *err);
int journal_part_drop(struct stage *s, uint64_t ino, unsigned part, struct err *err);
/* The upload of a node, if one was begun: id and parts. Gives false if there is none. */
typedef void journal_part_fn(void *arg, unsigned part, uint64_t len, const char *etag);
bool journal_find_upload(struct stage *s, uint64_t ino, char **ret_key, char **ret_id,
                         journal_part_fn *fn, void *arg);
/* One row alone, in a transaction of its own. */
int journal_save(struct stage *s, const struct node *n, struct err *err);
/* What was committed is on the disk when it returns. No lock. */
int journal_sync(struct stage *s, struct err *err);
/*
 * What ended in the store (a delete, a move) has ended on the disk, too. Else a machine that stops
 * would begin it again, and take away what was stored under that key meanwhile: it stands before
 * each change of the store, and before a caller hears that something is stored. No lock.
 */
int journal_barrier(struct stage *s, struct err *err);
int journal_barrier_held(struct stage *s, struct err *err); /* s->lock held, and given up */
/* Copies the journal's log into it, without keeping others waiting. No lock. */
void journal_checkpoint(struct stage *s);
/* The answer of an earlier life to this very call. s->lock held. */
bool call_answered(struct stage *s, const struct stage_call *c, uint64_t *ret_ino);

/* remote.c: what is asked of the store; no lock held. Stores with folders of their own (to be made
 * and removed, or in the way) are those that rename by themselves, too. */
#define STORE_FOLDERS (STORE_LOCAL | STORE_APPENDS)
#define STORE_RENAME  (STORE_LOCAL | STORE_APPENDS)
struct seen { /* what the store has */
    char etag[160];
    uint64_t size;
    int64_t mtime_ns;
};
struct level_item {
    const char *name; /* without '/' */
    bool folder;
    bool known; /* meta is the object's own */
    struct object_meta meta;
    const struct seen *seen;
};
typedef int level_fn(void *arg, const struct level_item *item, struct err *err);
int remote_level(struct stage *s, const char *prefix, level_fn *fn, void *arg, struct err *err);
int remote_look(struct stage *s, const char *key, struct object_meta *meta, bool *ret_known,
                struct seen *ret, struct err *err);
int remote_put(struct stage *s, const char *key, const void *body, size_t len,
               const struct object_meta *meta, struct seen *ret, struct err *err);
/* `temp`: where it grows first (STORE_APPENDS), or NULL. */
int remote_put_file(struct stage *s, const char *key, const char *temp, int fd, uint64_t len,
                    const struct object_meta *meta, struct seen *ret, struct err *err);
int remote_marker(struct stage *s, const char *key, const struct object_meta *meta,
                  struct err *err);
int remote_link(struct stage *s, const char *key, const char *target,
                const struct object_meta *meta, struct seen *ret, struct err *err);
int remote_target(struct stage *s, const char *key, uint64_t size, struct bytes *ret,
                  struct err *err);
/* To another key, or onto itself with other attributes. *ret_left: the old key is still there. */
int remote_move(struct stage *s, const char *from, const char *to, const struct object_meta *meta,
                const char *etag, bool *ret_left, struct seen *ret, struct err *err);
int remote_delete(struct stage *s, const char *key, struct err *err);
int remote_delete_many(struct stage *s, const char *const *keys, size_t n, struct err *err);
void count_upload(struct stage *s, uint64_t len);
int remote_abort(struct stage *s, const char *key, const char *upload, struct err *err);
int remote_read(struct stage *s, const char *key, const struct record *row, uint64_t off, void *buf,
                uint32_t len, struct err *err);

/* list.c */
/* The folder's listing is at most `refresh` old when it returns 0. STAGE_WAIT without `wait`. */
int folder_refresh(struct stage *s, struct node *folder, bool wait, bool force, struct err *err);
bool folder_is_fresh(const struct stage *s, const struct node *folder);
/* The attributes of an object of somebody else. STAGE_WAIT without `wait`. */
int node_look(struct stage *s, struct node *n, bool wait, struct err *err);
/* grown.c: whether the object that a listing shows is that of an open file, longer. s->lock held,
 * given up meanwhile; *ret_gen: the generation that it continues. */
bool node_has_grown(struct stage *s, struct node *n, const struct seen *seen, uint64_t *ret_gen);
/* Both are called with s->lock held and give it up while they wait; the caller's pin keeps the
 * node. */
void tell(struct stage *s, uint64_t ino, const char *name);
void *tell_main(void *arg);

/* content.c */
#define BLOCK_ABSENT   0 /* only in the store */
#define BLOCK_CLEAN    1 /* here, as in the store */
#define BLOCK_DIRTY    2 /* here alone */
#define BLOCK_FETCHING 3 /* on its way; after a kill: absent */

struct map { /* data/INO.map */
    char magic[8];
    uint64_t base_len; /* so many bytes of the stored object count; what follows was cut off */
    unsigned char blocks[];
};

struct uploading;

struct content {
    struct stage *stage;
    struct node *node;
    unsigned refs;    /* s->lock */
    struct lock lock; /* all below */
    struct cond cond;
    bool loaded;
    int fd;
    uint64_t size;
    struct map *map; /* NULL: every block is here alone */
    size_t map_size;
    int map_fd;
    uint64_t gen;   /* of the node's row, when it was loaded */
    bool draining;  /* an upload was overtaken too often: changes wait */
    bool appending; /* nothing was ever written but at the end */
    uint64_t next_read;
    struct uploading *up; /* begun and not ended */
};

/* A reference; s->lock held. */
struct content *content_ref(struct stage *s, struct node *n);
void content_unref(struct stage *s, struct content *c); /* s->lock held */
/* c->lock held. The staged file is open; made, with all blocks absent, where there is none. */
int content_load(struct content *c, struct err *err);
/* From the staged file, as it is: what blocks are absent is not looked at. */
int content_read(const struct content *c, uint64_t off, void *buf, size_t len, struct err *err);
/* Blocks that hold [off, off + len) are here, or STAGE_WAIT. */
int content_need(struct content *c, uint64_t off, uint64_t len, bool wait, struct err *err);
/* The node says DIRTY in the journal, and not SYNCED on the disk; or STAGE_WAIT. */
int content_dirty(struct content *c, bool wait, struct err *err);
/* The map has room for `size`; blocks past the old end are here: zeros. */
int content_grow(struct content *c, uint64_t size, struct err *err);
int content_truncate(struct content *c, uint64_t size, bool wait, struct err *err);
/* All blocks are as the store has them now. True: there is a map, the row must say so. */
bool content_published(struct content *c);
/* The staged file gets the node's mtime. s->lock held, too. */
void content_stamp(const struct content *c);
int content_sync(struct content *c, struct err *err);
uint64_t content_blocks(uint64_t size);
/* Whether [off, off + len) is as in the stored object, whose bytes all count there. */
bool content_same(const struct content *c, uint64_t off, uint64_t len);
void content_name(uint64_t ino, bool map, char out[32]);
/* The staged content of a node goes; nobody uses it. s->lock held; the row is the caller's. */
void content_discard(struct stage *s, struct node *n);

/* health.c. Any lock of ours may be held. The disk refused what was asked of it (errno `code`;
 * `err` says it in words, or is NULL), or it did something well that it may have refused before. */
int disk_failed(struct stage *s, enum disk_part part, int code, const struct err *err); /* -1 */
void disk_good(struct stage *s, enum disk_part part);

/* room.c: the disk. No lock, or any of ours. */
/* `len` more bytes may be written; drops clean content to make room. s->lock NOT held. */
int room_take(struct stage *s, uint64_t len, struct err *err);
void room_give(struct stage *s, uint64_t len);
/* What the node's file takes now replaces what was charged (`taken` was reserved). */
void room_settle(struct stage *s, struct node *n, int fd, uint64_t taken);
void room_recount(struct stage *s, struct node *n, int fd); /* s->lock held for both */
void drop_list_add(struct stage *s, struct node *n);        /* s->lock held, as below */
void drop_list_remove(struct stage *s, struct node *n);

/* part.c */
uint64_t part_offset(unsigned part); /* from 1 */
uint64_t part_length(unsigned part); /* of a whole one */
unsigned part_at(uint64_t off);      /* the part that holds this byte */
#define PARTS_MAX 10000u

/* upload.c: an upload in parts. c->lock held. */
/* Bytes [off, off + len) are about to change: what was sent of them counts no more. */
int upload_overtaken(struct content *c, uint64_t off, uint64_t len, struct err *err);
/* Whether a part in the middle was completed and may go up. */
bool upload_has_work(const struct content *c);
void uploading_free(struct uploading *up);
/* Ends for nothing: the store is told later. s->lock held, too. */
int upload_give_up(struct content *c, struct err *err);
/* Carries parts up; `finish`: all of them, and makes an object of them: what was stored, and of
 * which change of the content, is in *ret. Neither lock held. The worker's. */
struct snapshot {
    bool wished; /* given: it is stored because somebody wishes so (N_PUBLISH) */
    struct seen seen;
    struct object_meta meta;
    uint64_t seq;
};
#define PUBLISH_WITHDRAWN 1 /* the wish is no more: nothing was stored */
/* s->lock held. */
static inline bool snapshot_is_withdrawn(const struct snapshot *snap, const struct node *n)
{
    return snap->wished && !(n->row.flags & N_PUBLISH);
}
int upload_parts(struct content *c, const char *key, bool finish, struct snapshot *ret,
                 struct err *err);

/* memory.c: content in memory, within what conf allows; one body alone always may. Waits until
 * others gave some back, unless `busy` (bodies of the caller's own are under way, and will give
 * some back). False: busy, waited in vain, or the stage stops. Whoever has some of `coming` waits
 * for the network alone, so those who send may wait for it. No lock held. */
bool memory_take(struct stage *s, struct memory_use *m, uint64_t len, bool busy);
void memory_give(struct stage *s, struct memory_use *m, uint64_t len); /* s->lock NOT held */

/* publish.c: the content of one node goes to the store as an object; `wished`: unless nobody wishes
 * so any more (owed_withdraw()). No lock held. */
int node_publish(struct stage *s, struct node *n, const char *key, bool wished, struct err *err);

/* owed.c, worker.c: s->lock held. */
bool node_owes(const struct node *n);
void owed_add(struct stage *s, struct node *n); /* if it owes something */
void owed_remove(struct stage *s, struct node *n);
void owed_wake(struct stage *s);     /* there is work for one worker more */
void owed_wake_all(struct stage *s); /* what nobody could do may be done now */
void dirty_add(struct stage *s, struct node *n);
void dirty_remove(struct stage *s, struct node *n);
/* The content as it is now is to be stored. */
int owed_publish(struct stage *s, struct node *n, struct err *err);
/* It is not, after all: whoever changes it now wishes so again when he is through. */
int owed_withdraw(struct stage *s, struct node *n, struct err *err);
/* Waits until the node's content of now is stored and it owes nothing else that it owed when
 * called, or the caller waits no longer. s->lock held, given up meanwhile. */
int owed_wait(struct stage *s, const struct stage_call *c, struct node *n, struct err *err);
int doom_wait(struct stage *s, const struct stage_call *c, uint64_t ino, struct err *err);
/* A call that waits for the store looks so often whether its caller does, too. */
#define LOOK_NS (200 * NS_PER_MS)
static inline bool is_given_up(const struct stage_call *c)
{
    return c && c->given_up && c->given_up(c->arg);
}
int given_up(struct err *err); /* -1: EINTR */
void *worker_main(void *arg);
void *clock_main(void *arg);
void node_failed(struct stage *s, struct node *n, const struct err *err);
void store_answers(struct stage *s); /* it works again */
struct object_meta node_meta(const struct node *n);
/* The node's object is at `key` now; `left`: also where it was. Saves the row. */
int node_stored(struct stage *s, struct node *n, const char *key, const struct seen *seen,
                bool left, struct err *err);
void node_lose(struct stage *s, struct node *n); /* list.c: the store has it no more */
struct node *node_at(struct stage *s, const char *key);

/* Keys that a request is at work on. s->lock held. */
bool key_flies(const struct stage *s, const char *key);
void key_departs(struct stage *s, struct flight *f, const char *key);
void key_lands(struct stage *s, const struct flight *f);

/* How long until what failed so is tried again by itself. 0: with all others, when the pause of a
 * store in trouble ends (which begins here), or never. s->lock held. */
uint64_t pause_of(struct stage *s, const struct err *err, uint64_t now);
bool err_passes(const struct err *err); /* trouble of the store, not of this request */
void why_keep(struct err **to, const struct err *why);

/* dooms.c: s->lock held. */
struct doom *doom_find(struct stage *s, const char *key);
/* The journal has it already. */
void doom_add(struct stage *s, const char *key, const char *upload, uint64_t ino);
void doom_forget(struct stage *s, const char *key);
void doom_remove(struct stage *s, struct doom *d);
void doom_failed(struct stage *s, struct doom *d, const struct err *err);
/* A worker's turn: false if none may go now. s->lock is given up meanwhile. */
bool dooms_run(struct stage *s);

/* What went at the store by our doing lately, for listings that began before. s->lock held. */
void gone_add(struct stage *s, const char *key);
bool gone_since(const struct stage *s, const char *key, uint64_t moment);

/* meta.c; s->lock held. */
int folder_of(struct stage *s, uint64_t ino, struct node **ret, struct err *err);
/* The child of a folder whose listing is fresh; *ret NULL: there is none. STAGE_WAIT without wait.
 */
int child_now(struct stage *s, struct node *folder, const char *name, bool wait, struct node **ret,
              struct err *err);
/* Whether there is an object of it: at its stored key. And whether there may be one at its path
 * that nobody wrote down: a life that was killed after the store had taken it. */
bool node_is_stored(const struct node *n);
bool node_maybe_at_path(const struct node *n);
/* An implied folder that lost its last child gets a marker, or it would vanish. */
void keep_folder(struct stage *s, struct node *folder);
/* Within a transaction: what of a node that loses its name must go at the store. Then, after the
 * commit, its part in memory. */
int orphan_journal(struct stage *s, const struct node *n, struct err *err);
void orphan_apply(struct stage *s, struct node *n);
int not_there(const char *name, struct err *err);
int refuse(int e, const char *name, struct err *err);
/* Within a transaction, or alone: an upload of an orphan is given up. */
int orphan_upload(struct stage *s, const struct node *n, struct err *err);
/* io.c: no lock held. A reference for one call; NULL: err. */
struct content *handle_content(struct stage *s, uint64_t fh, struct err *err);
struct content *content_take(struct stage *s, struct node *n);
void content_done(struct content *c);

/* Calls that change names return when the store has the change. */
static inline bool waits_for_store(const struct stage *s)
{
    return s->conf.commit == COMMIT_CLOSE;
}

#endif
