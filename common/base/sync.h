/*
 * Locks with a name and a rank.
 *
 * docs/threads.md lists every rank. A thread may only take a lock of a higher rank than all it
 * holds; builds with SAMPAN_DEBUG_LOCKS (asan, tsan, unit tests) check that and abort with both
 * names. ACQUIRE(&lock) holds until the end of the enclosing block, so that an early return cannot
 * leak it.
 */
#ifndef SAMPAN_BASE_SYNC_H
#define SAMPAN_BASE_SYNC_H

#include <pthread.h>
#include <stdint.h>

#include "cleanup.h"

enum lock_rank {
    RANK_RUNS = 3,     /* what `sampan-train ui` has read of event files */
    RANK_TRAIN = 4,    /* the trainer's store of ranks: news from rank 0; its end */
    RANK_MOUNT = 5,    /* the program around a volume: what is up */
    RANK_RPC = 6,      /* calls of the CSI plugin that wait for a worker */
    RANK_NODE = 7,     /* volumes and sets of the CSI plugin */
    RANK_JOBS = 8,     /* the runtime server's jobs and their database */
    RANK_SETTINGS = 9, /* of a mount, while they are applied */
    RANK_CONTROL = 10,
    RANK_LEAD = 11,    /* the operator: who leads */
    RANK_OBJECTS = 12, /* the operator's caches */
    RANK_QUEUE = 13,   /* keys that wait for their controller */
    RANK_EVENTS = 14,  /* events that were told */
    RANK_KUBE = 15,    /* requests to the API server that wait for their turn */
    RANK_NAMING = 18,  /* the cache is told what a version names */
    RANK_VOLUME = 20,  /* versions, order, progress */
    RANK_AHEAD = 25,   /* windows of reading ahead */
    RANK_PUSH = 30,
    RANK_GATE = 35,         /* reads under way, while a volume closes */
    RANK_STAGE_FILE = 37,   /* the content of one file of a stage */
    RANK_STAGE = 38,        /* a stage's names, journal and queue */
    RANK_CACHE_SETTLE = 39, /* the index after a restart, a step at a time */
    RANK_CACHE_FILL = 40,   /* fill slots and waiters, one lock a stripe */
    RANK_CACHE_EVICT = 45,  /* policies */
    RANK_CACHE_TIER = 50,   /* packs of one tier */
    RANK_FETCH_QUEUE = 60,
    RANK_CATALOG = 70,
    RANK_STORE_CREDS = 75,
    RANK_POOL = 80,
    RANK_METRICS = 85,
    RANK_LOG = 90, /* always last: anybody may log */
};

struct lock {
    pthread_mutex_t mutex;
    const char *name;
    enum lock_rank rank;
};

void lock_init(struct lock *l, enum lock_rank rank, const char *name);
/* One that is held for less time than a thread takes to sleep and wake, and wanted often: who finds
 * it taken looks for a moment before it sleeps. */
void lock_init_brief(struct lock *l, enum lock_rank rank, const char *name);
void lock_destroy(struct lock *l);
void lock_take(struct lock *l);
void lock_drop(struct lock *l);

static inline void lock_scope_end(struct lock **l)
{
    lock_drop(*l);
}

#define SYNC_PASTE_(a, b) a##b
#define SYNC_PASTE(a, b)  SYNC_PASTE_(a, b)
#define ACQUIRE(l)                                                          \
    CLEANUP(lock_scope_end) struct lock *SYNC_PASTE(held_, __LINE__) = (l); \
    lock_take(SYNC_PASTE(held_, __LINE__))

/* Condition variables on the monotonic clock. */
struct cond {
    pthread_cond_t cond;
};

void cond_init(struct cond *c);
void cond_destroy(struct cond *c);
void cond_wait(struct cond *c, struct lock *l);
/* Returns 0, or ETIMEDOUT after `ns` nanoseconds. */
int cond_wait_for(struct cond *c, struct lock *l, uint64_t ns);
void cond_signal(struct cond *c);
void cond_broadcast(struct cond *c);

/* Starts a thread with all signals blocked and `name` (at most 15 characters) shown by ps and top.
 * Returns 0 or an errno. */
int thread_start(pthread_t *ret, const char *name, void *(*fn)(void *), void *arg);

#endif
