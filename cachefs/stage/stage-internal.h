/*
 * The inside of a stage: what all its files share. Beside it: the journal (journal-internal.h),
 * what is asked of the store (remote-internal.h), the content of a node in use
 * (content-internal.h), and what is owed to the store (owed-internal.h).
 *
 * What is kept and who is right. The journal (SQLite) holds one row a node: its name, attributes,
 * and what the store has of it. Nothing says "do this": what is owed follows from the difference
 * between what the row wants and what it says the store has, so a restart needs no replay.
 *
 *   row                                       the store must ...                      done in
 *   DIRTY and PUBLISH                         get the content under the node's path    upload.c
 *   at other key than its path (`skey`)       move the object to the path              move.c
 *   META                                      get the attributes                       move.c
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

#include "journal-internal.h"
#include "stage.h"
#include "sync.h"

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
    N_LISTED = 2048,  /* a folder: since the kernel mounted this, a listing of it was merged here */
    N_OPEN = 4096,    /* a file that may be open, and not be all here when it is removed */
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
struct seen;

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
    bool known_before;  /* to the kernel, perhaps: in an earlier life, whose lookups are not here */
    uint64_t told_gen;  /* the kernel was told the attributes of this one, asking for them */
    uint64_t same_back; /* so many generations back the content was the beginning of this one */
    unsigned opens, writers; /* handles; those that may change it */
    unsigned folders;        /* among its children */
    unsigned pins;           /* users of the pointer itself */
    bool held;               /* `opens` holds a reference on the content */
    bool in_names, in_drop, in_dirty, queued, busy, failed, foreign_told;
    bool unfetched; /* it failed, and so did fetching it for who waits for its key */
    /* This generation was opened to be read (or may have been, in an earlier life): who has it open
     * does not go on in what another writer replaces it by. */
    bool given;
    bool again;        /* wanted anew while a try was under way: that one's failure is no answer */
    bool fetch_first;  /* an orphan that is open: its content comes here before its object goes */
    bool parts_wanted; /* a part in the middle of a file being written is complete */
    bool has_upload;   /* the journal knows of an upload in parts, or did */
    bool upload_asked; /* for one that may have begun; no answer came */
    bool explicit_mtime; /* set by a call, not by writing */
    bool stirred;        /* a folder: something in it was stored by this life */
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

struct call_answer {
    uint64_t unique, ino;
};

struct memory_use {
    uint64_t used; /* s->lock */
    uint64_t most;
    uint64_t patience_ns; /* nobody waits longer; 0: as long as it takes */
    unsigned waiting;     /* s->lock */
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
    unsigned n_busy, n_carriers; /* nodes that are worked on; by those who wait for them */
    struct gone *gone;           /* what we deleted lately */
    uint32_t *going;             /* of folders: how much in them is about to go */
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
    struct pool *parts; /* of uploads: what a part was read into serves the next one */
    pthread_t workers[WORKERS_MAX], clock_thread, tell_thread;
    /* `wakes`: of the idle workers, those who were called. `passed_over`: some work waits for the
     * end of other work, as a worker saw since all were called. */
    unsigned n_workers, idle_workers, wakes, n_threads;
    bool passed_over;
    bool no_part_copy; /* the store refused it */
    unsigned commits;  /* since the last checkpoint */
    bool checkpoint_due;
    bool room_due; /* a call found, or will soon find, no room on the disk */
    struct change *tells, **tells_end;
    stage_changed_fn *changed_fn;
    void *changed_arg;
    bool telling; /* changed_fn runs */
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
/* In the journal, for orphan_apply() in later lives: it is open, or may be, and bytes of it are in
 * the store alone, or may be by then. Where that can't be written, a removal after a kill costs its
 * reader the bytes. */
void node_note_open(struct stage *s, struct node *n, bool open);
/* What is here may go for room in a later life, which does not know who has it open. A file of so
 * many bytes is noted when it is opened and stored; it would cost too much for each that is less,
 * so such a one is noted when it goes, and fetched before it is removed though nobody may have it
 * open. */
#define NOTED_BYTES STAGE_BLOCK
/* A file that is not all here. */
static inline bool node_is_absent(const struct node *n)
{
    return n->row.kind == NODE_FILE && (!(n->row.flags & N_STAGED) || n->row.flags & N_MAP);
}

static inline bool node_is_folder(const struct node *n)
{
    return n->row.kind == NODE_FOLDER;
}
/* What is ours alone needs no listing. */
static inline bool node_is_ours(const struct node *n)
{
    return n->row.flags & (N_DIRTY | N_META) || n->row.skey;
}
void record_release(struct record *r);
int name_check(const struct stage *s, const struct node *parent, const char *name, struct err *err);
/* A node made now: row filled with defaults, an inode number; neither linked nor saved. */
struct node *node_make(struct stage *s, enum node_kind kind, const char *name, struct err *err);

/* The name of a handle: inode, generation, and whether it may write. */
#define FH_INO_BITS 44
#define FH_WRITES   (1ull << 63)
uint64_t handle_make(const struct node *n, int flags);
struct node *handle_node(struct stage *s, uint64_t fh, struct err *err);
bool handle_is_stale(const struct node *n, uint64_t fh);

/* list.c */
/* The folder's listing is at most `refresh` old when it returns 0. STAGE_WAIT without `wait`. */
int folder_refresh(struct stage *s, struct node *folder, bool wait, bool force, struct err *err);
bool folder_is_fresh(const struct stage *s, const struct node *folder);
/* Or it was tried, and what was known before goes on to hold. */
bool folder_was_listed(const struct node *folder, uint64_t since_ns);
/* The attributes of an object of somebody else. STAGE_WAIT without `wait`. */
int node_look(struct stage *s, struct node *n, bool wait, struct err *err);
/* grown.c: whether the object that a listing shows is that of an open file, longer. s->lock held,
 * given up meanwhile; *ret_gen: the generation that it continues. */
bool node_has_grown(struct stage *s, struct node *n, const struct seen *seen, uint64_t *ret_gen);
/* folder_refresh() and node_look() are called with s->lock held and give it up while they wait; the
 * caller's pin keeps the node. */
void *tell_main(void *arg); /* the thread that calls s->changed_fn */
/* s->lock held. As stage_changed_fn has it. */
void tell_change(struct stage *s, uint64_t ino, const char *name);

/* health.c. Any lock of ours may be held. The disk refused what was asked of it (errno `code`;
 * `err` says it in words, or is NULL), or it did something well that it may have refused before. */
int disk_failed(struct stage *s, enum disk_part part, int code, const struct err *err); /* -1 */
/* `err`: why a file of the stage's own could not be opened. That somebody removed it is a fault of
 * the disk (EIO): ENOENT would say that the caller's file is not there. */
void disk_lacks(struct stage *s, struct err *err);
void disk_good(struct stage *s, enum disk_part part);

/* room.c; s->lock held. The disk has less room or fewer inodes than may be needed by and by; clean
 * content goes for that, as far as there is any. */
bool room_is_short(const struct stage *s);
void room_make(struct stage *s);
void room_want(struct stage *s); /* the clock's thread looks to that */

/* gone.c; s->lock held. What went at the store by our doing lately, for listings that began before;
 * the folders that it lay in are told, too. */
void gone_add(struct stage *s, const char *key);
bool gone_since(const struct stage *s, const char *key, uint64_t moment);
/* A key that must go, or whose object moves away (1), or that does no more (-1). */
void going_add(struct stage *s, const char *key, int by);
bool goes_below(const struct stage *s, const char *folder); /* its key ends in '/' */

/* meta.c; s->lock held. */
int folder_of(struct stage *s, uint64_t ino, struct node **ret, struct err *err);
/* The child of a folder whose listing is fresh; *ret NULL: there is none. STAGE_WAIT without wait.
 */
int child_now(struct stage *s, struct node *folder, const char *name, bool wait, struct node **ret,
              struct err *err);
/* The staged file has the node's mtime. */
void node_stamp(struct stage *s, const struct node *n);
/* Whether there is an object of it: at its stored key. And whether there may be one at its path
 * that nobody wrote down: a life that was killed after the store had taken it. */
bool node_is_stored(const struct stage *s, const struct node *n);
bool node_maybe_at_path(const struct node *n);
/* An implied folder that lost its last child gets a marker, or it would vanish: true. */
bool keep_folder(struct stage *s, struct node *folder);
/* Within a transaction: what of a node that loses its name must go at the store. Then, after the
 * commit, its part in memory. */
int orphan_journal(struct stage *s, const struct node *n, struct err *err);
void orphan_apply(struct stage *s, struct node *n);
int not_there(const char *name, struct err *err);
/* The end of work on a pinned node of that name, without the lock in between: as `result` says,
 * unless the name is gone since. The node is freed then. */
int unpinned(struct stage *s, struct node *n, const char *name, int result, struct err *err);
int refuse(int e, const char *name, struct err *err);
/* Within a transaction, or alone: an upload of an orphan is given up. */
int orphan_upload(struct stage *s, const struct node *n, struct err *err);

/* Calls that change names return when the store has the change. */
static inline bool waits_for_store(const struct stage *s)
{
    return s->conf.commit == COMMIT_CLOSE;
}

#endif
