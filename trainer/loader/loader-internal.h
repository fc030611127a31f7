/*
 * What the loader's files share.
 *
 *   index.c    which samples there are, and their labels     mount.c   tells the mount its order
 *   reader.c   a sample's bytes: a pack's, or a file's       direct.c  places in packs, leases
 *   plan.c     epochs and the batches they make              slots.c   the buffers of batches
 *   worker.c   threads that fill batches                     wait.c    telling and waiting
 *   loader.c   the contract: open to close                   single.c  a picture without a loader
 *   picture-internal.h: from bytes to pixels
 */
#ifndef SAMPAN_LOADER_INTERNAL_H
#define SAMPAN_LOADER_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "direct-internal.h"
#include "loader.h"
#include "order.h"
#include "picture-internal.h"
#include "sync.h"
#include "walk.h"

#define THREADS_MAX 256
#define DEPTH_MAX   64
#define BATCH_MAX   (1u << 20)
#define SIDE_MAX    16384u
#define RESIZE_MAX  65535u
#define SKIPS_KEPT  16
#define CHUNKS_MAX  64 /* of a raw batch: each at least as large as all before it */

/* --- index.c ---------------------------------------------------------------------------------- */

struct index {
    struct file_list files; /* by number */
    struct file_list classes;
    int32_t *labels;
    uint32_t n_classes, empty; /* empty: classes without a sample */
    size_t first_empty;        /* the first of them */
};
int index_open(struct index *ret, const char *dir, const char *list, struct err *err);
void index_release(struct index *x);

/* --- single.c --------------------------------------------------------------------------------- */

/* Can they be had, and such pictures be made? */
int options_of_pictures(const struct loader_options *o, struct err *err);

/* --- mount.c ---------------------------------------------------------------------------------- */

/* Tell the mount below the open folder. -1: it is none of ours, or refuses. */
int mount_tell_sampler(int dir, const struct order_spec *s, struct err *err);
int mount_tell_epoch(int dir, uint64_t epoch, struct err *err);

/* --- reader.c --------------------------------------------------------------------------------- */

/* Memory for a sample of `size` bytes. NULL: err says why. */
typedef void *room_fn(void *arg, size_t size, struct err *err);

struct reader {
    const struct index *index;
    int dir;
    struct direct *direct; /* NULL: not directly */
    bool direct_only;
    uint64_t max_bytes;
};
struct counts { /* of one thread; others may look */
    _Atomic uint64_t read_ns, decode_ns, idle_ns;
    _Atomic uint64_t direct_samples, direct_bytes, mount_samples, mount_bytes, corrupt;
};
/* The whole sample into what `room` gives. `hand`: this thread's, of direct.h. */
int reader_read(const struct reader *r, uint64_t number, struct direct_hand *hand, struct counts *c,
                room_fn *room, void *arg, void **ret, size_t *ret_len, struct err *err);

/* --- slots.c ---------------------------------------------------------------------------------- */

enum slot_state { SLOT_FREE, SLOT_FILLING, SLOT_READY, SLOT_HELD };
struct chunk {
    unsigned char *at;
    size_t size;
    _Atomic size_t used; /* more than `size`: somebody found no room */
};
struct slot {
    struct loader_batch batch; /* what the consumer sees; first: it gives this pointer back */
    enum slot_state state;
    uint64_t sequence;              /* over all epochs */
    uint32_t wanted, claimed, done; /* samples */
    struct order_token token;       /* of the place after it */
    bool failed; /* policy fail: the first sample in order that could not be had */
    uint32_t failed_at;
    struct err why;

    /* Filled by the threads that claimed a sample, each its own place. */
    int32_t *labels;
    uint64_t *numbers;
    bool *bad;
    unsigned char *pixels;
    size_t pixels_size;
    const uint8_t **data;
    uint64_t *sizes;

    /* Raw samples lie in chunks, filled one after the other. */
    _Atomic(struct chunk *) filling; /* NULL: there is none yet */
    struct lock room;                /* for going on to the next chunk */
    struct chunk chunks[CHUNKS_MAX];
    uint32_t n_chunks;
};
int slot_init(struct slot *s, const struct loader_options *o, size_t sample_size, struct err *err);
void slot_release(struct slot *s, const struct loader_options *o);
/* Makes it the batch of these samples. */
void slot_begin(struct slot *s, uint32_t wanted);
/* What a thread took of a batch's room and has not used: threads that ask for each sample's, and
 * whose samples lie by turns, wait for each other's cache lines. */
struct piece {
    struct slot *slot;
    uint64_t sequence; /* of the batch */
    unsigned char *at;
    size_t left;
};
/* For samples of this batch: with what is left of the last claim of it. */
void piece_begin(struct piece *p, struct slot *s);
/* Room for the bytes of one raw sample. */
void *piece_room(struct piece *p, const struct loader_options *o, size_t size, struct err *err);
/* All samples are there: leaves bad ones out. */
void slot_end(struct slot *s, size_t sample_size);

/* --- the loader ------------------------------------------------------------------------------- */

/* One epoch of this rank. Two are known at most: that which the consumer reads, and the next. */
struct epoch {
    struct order *order; /* NULL: not known yet */
    uint64_t number;
    uint64_t samples, batches; /* what is read of it here */
    uint64_t before;           /* read already, where it was resumed */
};

struct worker {
    struct loader *loader;
    pthread_t thread;
    bool started;
    struct direct_hand *hand;
    struct decoder *decoder;
    struct resample *resample;
    struct counts counts;
    struct piece piece;
    unsigned sleeps; /* wait_awake()'s */
    unsigned char *scratch;
    size_t scratch_cap;
};

struct loader {
    struct loader_options o; /* texts are ours */
    struct order_spec spec;
    struct order_token token; /* of o.resume ... */
    struct order_spec rest;   /* ... and the order of what it left of its epoch */
    bool resumed;
    struct index index;
    int dir;
    struct direct *direct;
    struct reader reader;
    struct normal normal;
    size_t sample_size;  /* bytes of one sample in `pixels`; 0: raw */
    uint32_t run;        /* samples that a thread claims at once */
    uint32_t brisk_run;  /* … where the last claim was brisk */
    uint32_t cores;      /* that this process may use */
    uint64_t last_epoch; /* the first that is not read any more */
    uint64_t opened_ns;

    char direct_why[256];
    uint64_t epoch_samples; /* of a whole epoch of this rank */

    struct worker *workers;
    struct worker helper; /* the consumer, where it reads instead of waiting; no thread */
    struct slot *slots;
    uint32_t n_slots;

    struct lock lock;
    struct cond work;      /* there may be something to do for a thread */
    struct cond done;      /* … for the consumer */
    struct cond aside;     /* the loader ends: for who waits in wait_aside() */
    _Atomic uint32_t news; /* how often either was signalled; changes under the lock */
    /* below: guarded by lock */
    bool stop, restart;     /* claim nothing: the loader ends; a new epoch is set */
    uint32_t busy;          /* threads that hold a claim */
    bool brisk;             /* the last claim was: copied from memory, without a wait */
    bool planning;          /* a thread prepares an epoch without the lock */
    struct epoch epochs[2]; /* by number % 2 */
    uint64_t plan_epoch, plan_pos;
    uint64_t plan_sequence, give_sequence;
    uint64_t give_epoch, given; /* batches of it */
    bool past_end;   /* nothing was given yet, and of the token's epoch, the one before, was all */
    bool ends_first; /* that one was set once more: its end comes first */
    struct err failed; /* class NONE: it goes on */
    struct loader_skip skips[SKIPS_KEPT];
    uint64_t n_skips;
    struct order_token given_token; /* of the place after the batch given last */
    uint64_t batches, samples, skipped, waited_ns, first_ns, began_ns, last_ns;
    char mount_why[256];
    bool tell_sampler; /* the mount was told the order of `rest`: ours, with the epoch after it */
};

/* plan.c: prepares the order of `e->number`. Slow; without the lock. */
int epoch_prepare(struct loader *l, struct epoch *e, bool resume, struct err *err);
void epoch_release(struct epoch *e);
uint64_t epoch_batches(const struct loader *l, uint64_t samples);
/* The lock is held for all below; plan_open() may drop it for a while. */
/* Opens the next batch, or comes nearer to it. False: there is no free slot, or nothing more to
 * plan now. */
bool plan_open(struct loader *l);
/* Opens the next batch, if it only has to be written down. */
bool plan_open_known(struct loader *l);
/* Starts all over with this epoch. Nobody holds a claim. */
void plan_restart(struct loader *l, uint64_t epoch);

/* --- wait.c: the only way to signal `work` and `done` ----------------------------------------- */

/* The lock is held for all of these. */
void tell_workers(struct loader *l);
void tell_consumer(struct loader *l);
/* Before a wait for either, where a sample is read in less time than a thread is put to sleep and
 * woken (bytes from packs): drops the lock and looks for news for some microseconds. False: there
 * was none until now, so it is right to wait. `sleeps` is this thread's: how often it is not to
 * look, 0 at first. */
bool wait_awake(struct loader *l, unsigned *sleeps);
/* Leaves the work to others for a moment. News do not end it: to wake a thread costs them more
 * than a claim. */
void wait_aside(struct loader *l);

/* worker.c */
/* How much a thread claims at once: of the options and `cores`. */
void worker_runs(struct loader *l);
void *worker_main(void *worker);
/* A consumer that would wait reads some samples itself, where that takes microseconds: bytes from
 * packs. So batches of small samples cost no wake-ups. The lock is held, and dropped meanwhile.
 * False: there is nothing to help with. */
bool worker_help(struct loader *l);

#endif
