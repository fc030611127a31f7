/*
 * Shared by the files of the front end; nobody outside includes it.
 *
 * Threads: a crew (crew.h) serves the device; one "chores" thread runs what may wait for the kernel
 * (ioctls that change the order), so that no worker ever does; one pusher. A notification to the
 * kernel can wait for a lock that a reader holds while its own request waits for a worker: so no
 * worker ever sends one, and the helper process writes it (helper.h).
 */
#ifndef SAMPAN_FRONTEND_INTERNAL_H
#define SAMPAN_FRONTEND_INTERNAL_H

#define FUSE_USE_VERSION 314

#include <fuse_lowlevel.h>
#include "fuse-wire.h"
#include <pthread.h>
#include <stdatomic.h>

#include "again.h"
#include "crew.h"
#include "device.h"
#include "frontend.h"
#include "hand-internal.h"
#include "helper.h"
#include "snapshots.h"
#include "sync.h"

#define DAY_S    86400.0
#define MAX_READ (1u << 20)

/* --- inode.c: numbers, attributes, the files of .sampan --- */

/* nodeid = permanent id of the catalog; numbers from INO_CONTROL_DIR on are our own (snapshots.h).
 */

void attr_of_entry(const struct frontend *f, const struct entry *e, struct stat *ret);
/* Of `.sampan` or its folder. */
void attr_of_own_dir(const struct frontend *f, uint64_t ino, struct stat *ret);
/* Is it one of the two, and there? */
static inline bool ino_is_own_dir(const struct frontend_conf *conf, uint64_t ino)
{
    return ino == INO_CONTROL_DIR || (ino == INO_DIRECT_DIR && conf->direct);
}
void attr_of_snapshot(const struct frontend *f, const struct snapshot *s, struct stat *ret);

/* Directory offsets: 1 and 2 are "." and "..", above them the catalog's cookies. */
static inline uint64_t dir_offset(uint64_t cookie)
{
    return cookie + 2;
}
static inline uint64_t dir_cookie(uint64_t offset)
{
    return offset <= 2 ? 0 : offset - 2;
}

/* --- listing.c: folders --- */

/* A page of a folder as the kernel asked for it, or as it will ask for the next one. */
struct page {
    uint64_t folder, offset;
    size_t size; /* most bytes */
    bool plus;
    char *buf; /* NULL: none */
    size_t used;
    uint64_t last;                    /* the offset behind its last entry */
    uint64_t first_folder;            /* the first folder in it; 0: none */
    bool more;                        /* an entry did not fit: there are more */
    char version[CATALOG_DIGEST + 1]; /* of a page made ahead: what it was made from */
};

#define PAGES_AHEAD 4 /* walks side by side; at most 4 MiB, in practice 512 KiB */
struct pages {
    struct lock lock;
    struct page slots[PAGES_AHEAD]; /* under lock */
    unsigned next;                  /* the slot to be used; under lock */
};
void pages_init(struct pages *p);
void pages_destroy(struct pages *p);
/* Gives the page that `want` describes, if it was made ahead from that version: `want` is freed. */
bool pages_take(struct pages *p, const char *version, struct page *want);
void pages_put(struct pages *p, const struct page *page); /* takes its buffer over */
/* Where a walk goes after the last page of a folder: into the first folder below it, if that is
 * known, else to the next one beside it or beside those above. 0: nowhere. */
uint64_t pages_next_folder(struct catalog *c, const struct page *last);

/* Answers READDIR or READDIRPLUS. */
void list_folder(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off, bool plus);
void entry_param(const struct frontend *f, const struct entry *e, struct fuse_entry_param *ret);

/* --- probe.c: which mode, and why --- */

enum offer {
    OFFER_NO_OPEN = 1 << 0,
    OFFER_NO_OPENDIR = 1 << 1,
    OFFER_READDIRPLUS = 1 << 2,
    OFFER_ASYNC_READ = 1 << 3,
    OFFER_PASSTHROUGH = 1 << 4,
    OFFER_NOTIFY = 1 << 5,
    OFFER_IOCTL = 1 << 6, /* of the device: registers backing files */
    OFFER_MAX_PAGES = 1 << 7,
    OFFER_RESEND = 1 << 8,
    OFFER_ALL = (1 << 9) - 1,
};
/* Offers hidden by a comma list of names; an unknown name is ERR_USAGE. NULL or "": none. */
int probe_mask_parse(const char *text, unsigned *ret_hidden, struct err *err);
/* What an INIT request offers. `len` is of the whole request. */
unsigned probe_offers(const void *init_request, size_t len);
/* Takes hidden offers out of an INIT request before anybody reads it. */
void probe_hide(void *init_request, size_t len, unsigned hidden);

struct decision {
    bool no_open, no_opendir, readdirplus, async_read;
    bool cache_dirs;  /* the kernel may keep listings: it can be told when they change */
    bool passthrough; /* asked of the kernel in INIT; passthrough_probe() has the last word */
    bool notify;      /* the kernel can be told of changes: day-long timeouts are safe */
    double timeout_s; /* of names and attributes */
    char mode[32];
    char why[400];
};
/* Pure. `backing`: NULL, or why backing files can't be registered here. */
void probe_decide(unsigned offers, bool shards, const char *backing, struct decision *ret);

/* --- push.c --- */

/*
 * The window, as numbers: pure, so that tests can walk it. Positions count the samples of the
 * order. The pusher works in [reader, reader + window); every `tripwire`-th position is left to the
 * reader, whose READ then tells where it is.
 */
struct push_window {
    uint64_t length;   /* of the order */
    uint64_t reader;   /* the first position the reader has not reached */
    uint64_t next;     /* the next position to push */
    uint64_t window;   /* positions */
    uint64_t tripwire; /* positions */
    /* Who fills the page cache of the present stretch (the share of READs that readers sent), and
     * how fast it goes by. */
    uint64_t stretch_start;
    uint64_t stretch_reads;
    uint64_t stretch_ns;
    uint64_t seen_ns;      /* when a reader was seen last; 0: not yet */
    uint64_t paused_until; /* no push below this position of the reader */
    uint64_t pause;        /* positions: how long the next pause is to be */
    bool trial;            /* this pause is one to learn how fast readers are without */
    uint64_t pushing_ns;   /* nanoseconds a position before the trial */
    uint64_t trial_from;   /* the first position of the next trial */
    uint64_t patience;     /* positions until the next one, if this one is lost */
    unsigned unread;       /* orders in a row that were pushed for nobody */
};
#define PUSH_STRETCH 128
#define PUSH_TRIAL   256
/* So many orders that nobody read (all of it was in the page cache, or the reader takes bytes from
 * packs): the next ones are pushed from the first READ on, not before it. */
#define PUSH_UNREAD 2
/* A new order; *w is the last one's, or zeroed. */
void push_window_reset(struct push_window *w, uint64_t length, uint64_t window_samples);
/* After push_window_reset(): another life saw a reader at `pos` and had pushed up to `next`. */
void push_window_resume(struct push_window *w, uint64_t pos, uint64_t next);
/* A READ of a reader at `pos` reached us now, on the monotonic clock. */
void push_window_seen(struct push_window *w, uint64_t pos, uint64_t now);
/* Is there enough to push for waking somebody up? A wake-up for each READ costs readers who take
 * all the CPUs a tenth. */
bool push_window_is_worth(const struct push_window *w);
/* The next position to push, or UINT64_MAX: nothing to do until the reader moves. */
uint64_t push_window_take(struct push_window *w);

/*
 * What the kernel was asked to read ahead and has not sent us READs for: its queue, in which a
 * reader's own request waits behind them all. Pages that were there already cost no READ: where
 * none comes for PUSH_QUEUE_IDLE looks, none is queued.
 */
struct push_queue {
    uint64_t asked; /* bytes */
    uint64_t seen;  /* `arrived` at the last look */
    unsigned idle;  /* looks */
};
#define PUSH_QUEUE_BYTES (8ull << 20)
#define PUSH_QUEUE_IDLE  2
/* `arrived`: bytes of all READs that came so far. `busy`: one of them is being answered. */
bool push_queue_is_full(struct push_queue *q, uint64_t arrived, bool busy);

enum push_how { PUSH_READAHEAD, PUSH_STORE, PUSH_OFF };
const char *push_how_name(enum push_how how);

struct push {
    struct lock lock;
    struct cond moved;
    struct push_window w; /* under lock */
    uint64_t gen;         /* of the order the window is of; under lock */
    bool news;            /* the order may be another one; under lock */
    bool stopping;        /* under lock */
    bool started;
    pthread_t thread;
    _Atomic int tid;               /* READs of what is pushed carry it, or helper.pid */
    _Atomic int last;              /* what became of the last file: push_told() */
    _Atomic bool active;           /* an order is set */
    _Atomic uint64_t hushed_until; /* on the monotonic clock */
    _Atomic unsigned in_flight;    /* READs of the pusher under way */
    _Atomic uint64_t arrived;      /* bytes of all of them so far */
    _Atomic enum push_how how;
    char why[200]; /* how it was chosen; under lock */
};
int push_start(struct frontend *f, struct err *err);
void push_stop(struct frontend *f);
void push_told(void *frontend, int outcome); /* the helper's */
/* A READ of the pusher's. The other end of its way: in_flight. */
void push_arrived(struct frontend *f, uint32_t size);
/* A reader's READ at the start of sample `id`. Cheap when no order is set. */
void push_seen(struct frontend *f, uint64_t id);
/* Opens nothing on the mount for two seconds. */
void push_hush(struct frontend *f);

/* --- invalidate.c --- */

void invalidate_on_switch(void *arg, struct catalog *from, struct catalog *to);
/* Before the kernel is answered: it will know the version served now, or goes on knowing what an
 * earlier life told it. */
void invalidate_begin(struct frontend *f);
/* Once switches are heard of, and workers serve: what was switched unheard, or not told to the end.
 */
void invalidate_untold(struct frontend *f);

/* --- passthrough.c --- */

struct passthrough;
/* Decides, after INIT, whether the kernel takes our backing files; completes f->mode. */
int passthrough_start(struct frontend *f, struct err *err);
void passthrough_stop(struct frontend *f);
/* OPEN and RELEASE of that mode, from the wire. */
void passthrough_open(struct frontend *f, const struct wire_in_header *h);
void passthrough_release(struct frontend *f, const struct wire_in_header *h);
void passthrough_drop(struct frontend *f, uint64_t id);
/* Is all of an object here as one file? */
bool passthrough_has(struct frontend *f, uint64_t id);
void passthrough_status(struct frontend *f, struct json_writer *w);

/* --- worker.c --- */

struct worker {
    _Atomic int tid;
    const struct wire_in_header *now; /* what it serves; read by itself alone */
};
extern const struct crew_ops worker_ops; /* arg: the front end */
int workers_start(struct frontend *f, struct err *err);
/* Before the workers of a later life: takes up what the dead one had in hand. */
void worker_take_over(struct frontend *f);
/* The request that the calling worker serves. NULL: no worker's thread. */
const struct wire_in_header *worker_request(struct frontend *f);

/* --- chores.c --- */

enum chore_kind { CHORE_SET_EPOCH, CHORE_SET_SAMPLER };
struct chore {
    struct chore *next;
    fuse_req_t req;
    uint32_t slot; /* where its request lies meanwhile */
    enum chore_kind kind;
    uint64_t epoch;
    char spec[1024];
};
int chores_start(struct frontend *f, struct err *err);
void chores_stop(struct frontend *f);
/* From a worker: hands its request to the chores thread, which answers it. EBUSY: too many wait. */
int chores_add(struct frontend *f, struct chore *c);

/* --- session.c --- */

/* What a later life goes on with: an area of keeper's state. */
#define KEPT_VERSION 2
struct kept {
    counter reads, read_bytes, read_errors, refetched, invalidated;
    counter pushed, pushed_bytes, push_failed, push_skipped;
    /* The known order: of how many samples; the position at which a reader was seen last, and the
     * sample there (0: none was seen); what is to be pushed next. */
    _Atomic uint64_t order_length, seen, seen_id, push_next;
};

struct frontend {
    struct frontend_conf conf; /* its strings are ours */
    struct volume *volume;
    struct log *log;
    struct hand hand;
    struct helper helper;
    int dev;         /* /dev/fuse; the session closes it */
    bool adopted;    /* the mount is older than this life */
    dev_t mount_dev; /* of the mounted file system */
    struct fuse_session *session;

    unsigned hidden; /* SAMPAN_FUSE_MASK */
    unsigned offers; /* of the kernel, less those hidden */
    struct decision mode;
    bool negotiated; /* INIT was answered */
    bool init_reply_due;

    struct crew crew;
    struct worker workers[CREW_WORKERS];
    bool replaying;          /* requests from desks and slots, which may have been executed */
    _Atomic unsigned parked; /* READs under way */
    bool mounted;

    struct lock chores_lock;
    struct cond chores_due;
    struct chore *chores; /* oldest first; under chores_lock */
    unsigned n_chores;
    bool chores_stop;
    bool chores_started;
    pthread_t chores_thread;

    struct snapshots snapshots;
    struct pages pages;
    struct push push;
    struct passthrough *passthrough; /* --profile shards */
    struct kept *kept;
    struct lock telling;       /* one diff after the other is told */
    struct keeper_text *known; /* by the kernel: a version's name; under telling */
    _Atomic uint64_t last_complaint_ns;
    struct again again;
};

/* Answers a request by its number, without libfuse. 0 or a negative errno. */
int dev_reply(struct frontend *f, uint64_t unique, int error, const void *data, size_t len);

/* --- op-meta.c, op-read.c --- */

extern const struct fuse_lowlevel_ops frontend_ops;
void op_init(void *userdata, struct fuse_conn_info *conn); /* session.c */
/* Serves one READ straight from the wire: it is the hot path, and it must survive a reply that
 * fails. `slot`: where the request lies already, else HAND_NO_SLOT. */
void op_read(struct frontend *f, const struct wire_in_header *h, const struct wire_read_in *in,
             uint32_t slot);
/* Reads for ourselves, ahead of the readers, and waits. */
int read_pushed(struct frontend *f, uint64_t id, uint64_t off, uint32_t len, struct view *ret,
                struct err *err);
/* The row of `id` in the version that knows it. ERR_STALE: none does any more. */
int entry_of(struct frontend *f, uint64_t id, struct entry *ret, struct err *err);
void op_open(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi);
void op_release(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi);

#endif
