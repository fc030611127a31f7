/*
 * Shared by the files of this front end; nobody outside includes it.
 *
 *   session.c     a mount's life: negotiation, the end
 *   workers.c     what the threads that read the device do; what a dead life left
 *   hands.c       requests in hand: desks and slots of the state
 *   lanes.c       threads that may wait           caller.c      who waits no longer
 *   serve.c       one request: checked, handed to its row of the table, answered
 *   op-names.c    names and attributes          op-content.c  files        op-dir.c  folders
 *   news.c        what the kernel is told when others change the store
 *
 * A request's life: a worker reads it into its desk; outfuse_serve() runs its handler without
 * waiting; it is answered, then its desk is cleared. Or the handler gave STAGE_WAIT: hands_park()
 * moves it to a slot (a large one keeps its desk, and the worker takes another), and a lane serves
 * it again, this time waiting.
 */
#ifndef SAMPAN_OUTFUSE_INTERNAL_H
#define SAMPAN_OUTFUSE_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "again.h"
#include "crew.h"
#include "device.h"
#include "metrics.h"
#include "outfuse.h"
#include "fuse-wire.h"
#include "helper.h"
#include "snapshots.h"
#include "state.h"
#include "sync.h"

#define LANES_MAX        64u
#define EARLY_INTERRUPTS 64u
#define MAX_WRITE        (1u << 20)
#define DAY_NS           (86400ull * 1000 * 1000 * 1000)

/* --- hands.c -------------------------------------------------------------------------------- */

/* Where a request lies. */
struct place {
    bool slot;
    uint32_t index;
};

struct hands {
    struct keeper_state *state;
    struct keeper_state *own; /* NULL: it is the keeper's */
    struct lock lock;
    struct cond desk_back;
    uint64_t spare_desks; /* bit i: nobody has desk i; under lock */
    uint16_t *free_slots; /* a stack; under lock */
    uint32_t n_free_slots;
    uint64_t *done; /* numbers of changes that a dead life made and did not answer */
    size_t n_done;
};
/* In the header (`padding`) of a WRITE or FALLOCATE once its bytes are in the stage. A new life
 * answers only: made again, it could undo what came after the answer that the old one's end cut
 * off, or be refused for want of room although it is done. */
#define HAND_DONE 1
int hands_open(struct hands *h, struct keeper_state *state, struct err *err);
void hands_close(struct hands *h);
struct keeper_request *hands_at(struct hands *h, struct place p);
/* A desk nobody has; waits for one. */
uint32_t hands_take_desk(struct hands *h);
/* The request there is answered: the place is free again (a desk too). */
void hands_free(struct hands *h, struct place p);
/* The request there is answered: a worker keeps its desk for the next one. */
void hands_clear(struct hands *h, uint32_t desk);
/* A request that must wait: to a slot, which is returned, if it fits and one is free; else it stays
 * on its desk, which is its own from now on. */
struct place hands_park(struct hands *h, uint32_t desk);
/* What a dead life left: calls `fn` for each place with a request, which is taken then. */
void hands_left(struct hands *h, void (*fn)(void *arg, struct place p), void *arg);
/* The kernel sends it all again: nothing is left but the numbers of what was done. */
void hands_forget_all(struct hands *h);
bool hands_was_done(const struct hands *h, const struct keeper_request *r);

/* --- lanes.c -------------------------------------------------------------------------------- */

struct job {
    struct job *next;
    struct outfuse *f;
    struct place place;
    uint64_t unique; /* of the request, without its marks */
    uint32_t pid;    /* of its caller; 0: not of ours to see */
    uint64_t since_ns;
    /* A signal came to the caller. Whether it is one to end for is looked up while it waits. */
    atomic_bool interrupted;
    bool flush;     /* who ends closes his files where no signal reaches him any more */
    unsigned looks; /* of its lane */
    bool left;      /* its caller was told EINTR; it is still at work */
};
/* So many workers may wait for a light close themselves: the others read on. */
#define HERE_MAX (CREW_WORKERS / 2)
enum lane_life { LANE_NONE, LANE_RUNS, LANE_ENDED };
struct lanes {
    struct lock lock;
    struct cond due;
    struct cond rested;       /* nothing is queued or served */
    struct job *first, *last; /* under lock, all below too */
    unsigned idle, running, queued;
    /* Interrupts of requests that were not here yet: on their way from a worker. */
    uint64_t early[EARLY_INTERRUPTS];
    unsigned n_early;
    bool stop;
    struct job *here[HERE_MAX]; /* what workers serve, or NULL */
    struct lane {
        struct outfuse *f;
        pthread_t thread;
        enum lane_life life;
        struct job *now; /* what it serves, or NULL */
    } lanes[LANES_MAX];
};
void lanes_init(struct outfuse *f);
/* Serves what lies there on a thread that may wait. */
void lanes_add(struct outfuse *f, struct place p);
/* Serves what lies there on the worker itself, as a lane would, if it is a close that waits for one
 * small request: no other thread is woken for it. False: it is a lane's. */
bool lanes_serve_here(struct outfuse *f, struct place p);
/* A signal came to who waits for this request. If he is to end, one that only looks is answered
 * EINTR at once (its lane answers in vain later), and so is one that was not begun; one that
 * changes something is answered EINTR by the stage, as soon as it only waits: what it was about
 * stays staged, and goes on being owed. */
void lanes_interrupt(struct outfuse *f, uint64_t unique);
bool job_given_up(void *job);               /* of a stage_call */
void job_leave(void *job);                  /* the same */
unsigned lanes_busy(const struct lanes *l); /* how many serve something; under its lock */
/* Waits until all that was added is answered, or so long. */
bool lanes_rest(struct outfuse *f, uint64_t ns);
void lanes_stop(struct outfuse *f); /* all that was added is answered first */
void lanes_destroy(struct outfuse *f);

/* --- caller.c ------------------------------------------------------------------------------- */

/* Whether a signal is pending that ends this thread's process, or asks it to end. */
bool caller_must_end(uint32_t pid);
bool signals_end(const char *status); /* the same, from the text of /proc/PID/status */
/* Whether a signal has ended this thread, which is on its way out. */
bool caller_was_killed(uint32_t pid);
bool stat_was_killed(const char *stat); /* the same, from the text of /proc/PID/stat */

/* --- workers.c ------------------------------------------------------------------------------ */

extern const struct crew_ops out_worker_ops; /* arg: the front end */
/* Before they start: what a dead life had in hand. */
void out_workers_take_up(struct outfuse *f);

/* --- news.c --------------------------------------------------------------------------------- */

/* A notification waits for locks of the kernel that a process may hold while its own request waits
 * for us: so neither a worker, nor a lane, nor a thread of the stage ever sends one, and the helper
 * process writes it (helper.h). */
struct news_item {
    uint64_t ino;
    char *name; /* NULL: the inode itself */
};
struct news {
    struct lock lock;
    struct cond due;
    struct news_item *items; /* under lock, all below too */
    size_t n, cap;
    bool stop;
    bool started;
    pthread_t thread;
    struct helper helper;
    counter told, dropped;
};
int news_start(struct outfuse *f, struct err *err);
void news_stop(struct outfuse *f); /* while workers still serve: it may wait for one */

/* --- the whole ------------------------------------------------------------------------------ */

/* The content that was last seen under an inode number: the kernel may keep its pages when the file
 * is opened and nothing else was there meanwhile. One place for many numbers: losing it costs pages
 * only. Empty at the start of each life. */
#define SEEN_PLACES 8192
struct seen {
    uint64_t ino;
    uint64_t size;
    int64_t mtime_ns, ctime_ns;
    bool refused; /* a change of it: the next open keeps no page */
};
/* A change of its content is about to be refused: pages of the kernel may hold what the stage does
 * not, above all those of a mapping, which it writes back on its own. Before the answer: whoever
 * opens the file after the error sees what is stored. The kernel is not told to drop them: that
 * waits for pages that are being written back, and a life that is killed in that wait can't end,
 * while the one that would answer waits for its end. */
void seen_refused(struct outfuse *f, uint64_t ino);

struct outfuse {
    struct outfuse_conf conf; /* its strings are ours */
    struct stage *stage;
    struct log *log;
    int dev;
    dev_t mount_dev; /* of the mounted file system */
    bool adopted;
    bool readdirplus, async_read;
    bool past_pages; /* what is only written goes past the kernel's pages */

    struct hands hands;
    struct lanes lanes;
    struct news news;
    struct snapshots snapshots;

    struct lock seen_lock;
    struct seen *seen; /* under seen_lock */

    struct crew crew;
    bool mounted;
    uint64_t patience_ns; /* of the one worker that is careful, with what waits in lanes */

    counter requests, waited, resent, errors, given_up;
    _Atomic uint64_t last_complaint_ns;
    struct again again;
};

/* --- serve.c -------------------------------------------------------------------------------- */

#define NO_REPLY 2 /* of a handler: the kernel awaits none */

/* One request while its handler runs. */
struct call {
    struct outfuse *f;
    const struct wire_in_header *h;
    const void *in;              /* the operation's fixed part */
    const char *name, *new_name; /* checked: ended by a NUL, no '/' */
    const char *data;            /* what follows the fixed part */
    size_t data_len;
    struct stage_call who;

    /* The answer: `out`, then `more`. */
    union {
        struct wire_entry_out entry;
        struct wire_create_out create;
        struct wire_attr_out attr;
        struct wire_open_out open;
        struct wire_write_out write;
        struct wire_statfs_out statfs;
        struct wire_init_out init;
        struct wire_ioctl_out ioctl;
    } out;
    size_t out_len;
    void *more; /* freed after the reply */
    size_t more_len;
};
/* 0: answered by out and more; -1: by err's errno; STAGE_WAIT; NO_REPLY. */
typedef int op_fn(struct call *c, struct err *err);

/* Serves the request that lies there, waiting if it is a lane's job. False: it must wait (only
 * with job = NULL) and was not answered. */
bool outfuse_serve(struct outfuse *f, struct keeper_request *at, struct job *job);
/* Writes one answer. 0 or a negative errno. */
int outfuse_reply(struct outfuse *f, uint64_t unique, int error, const struct call *c);
/* outfuse_serve() knows INIT too, which session.c answers. */
op_fn out_init;
/* What the kernel can, from its INIT. */
void session_learn_init(struct outfuse *f, const struct wire_init_in *in, size_t len);

op_fn out_lookup, out_forget, out_batch_forget, out_getattr, out_setattr, out_readlink, out_mknod,
    out_mkdir, out_unlink, out_rmdir, out_symlink, out_rename, out_rename2, out_link, out_statfs;
op_fn out_create, out_open, out_read, out_write, out_flush, out_release, out_fsync, out_fallocate;
/* What a listing counted as lookups, and the kernel did not hear of. */
void forget_listed(struct outfuse *f, const void *more, size_t len);
op_fn out_opendir, out_releasedir, out_readdir, out_readdirplus, out_fsyncdir, out_ioctl;

/* --- attributes (op-names.c) --- */

void entry_of_stage(const struct stage_attr *a, struct wire_entry_out *ret);
/* The files of .sampan. */
#define CONTROL_DIR_NAME ".sampan"
#define STATUS_NAME      "status.json"
int may_make(struct call *c, mode_t *mode, struct err *err); /* or STAGE_WAIT */

#endif
