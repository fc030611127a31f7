/*
 * Locks, conditions and threads. In builds with SAMPAN_DEBUG_LOCKS each thread keeps the list of
 * locks it holds; taking one whose rank is not above all of them aborts with both names.
 */
#include "sync.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "mem.h"

/* A failing mutex is a broken invariant of ours: the wrong thread, or memory already freed. */
static void check(int error, const char *what, const char *name)
{
    if (!error)
        return;
    fprintf(stderr, "lock \"%s\": %s: error %d\n", name, what, error);
    abort();
}

#ifdef SAMPAN_DEBUG_LOCKS

#define HELD_MAX 16
static _Thread_local const struct lock *held[HELD_MAX];
static _Thread_local unsigned n_held;

static void rank_check(const struct lock *l)
{
    for (unsigned i = 0; i < n_held; i++) {
        if (held[i]->rank < l->rank)
            continue;
        fprintf(stderr, "lock order: \"%s\" (rank %d) taken while \"%s\" (rank %d) is held\n",
                l->name, (int)l->rank, held[i]->name, (int)held[i]->rank);
        abort();
    }
    if (n_held == HELD_MAX) {
        fprintf(stderr, "lock order: \"%s\" is the %dth lock of one thread\n", l->name, HELD_MAX);
        abort();
    }
}

static void rank_push(const struct lock *l)
{
    held[n_held++] = l;
}

static unsigned rank_find(const struct lock *l)
{
    for (unsigned i = n_held; i-- > 0;)
        if (held[i] == l)
            return i;
    fprintf(stderr, "lock \"%s\": not held by this thread\n", l->name);
    abort();
}

static void rank_pop(const struct lock *l)
{
    unsigned i = rank_find(l);
    memmove(&held[i], &held[i + 1], (--n_held - i) * sizeof held[0]);
}

#else

static inline void rank_check(const struct lock *l)
{
    (void)l;
}
static inline void rank_push(const struct lock *l)
{
    (void)l;
}
static inline unsigned rank_find(const struct lock *l)
{
    (void)l;
    return 0;
}
static inline void rank_pop(const struct lock *l)
{
    (void)l;
}

#endif

void lock_init(struct lock *l, enum lock_rank rank, const char *name)
{
    *l = (struct lock){.name = name, .rank = rank};
    check(pthread_mutex_init(&l->mutex, NULL), "init", name);
}

void lock_init_brief(struct lock *l, enum lock_rank rank, const char *name)
{
    pthread_mutexattr_t brief;
    *l = (struct lock){.name = name, .rank = rank};
    check(pthread_mutexattr_init(&brief), "init", name);
    check(pthread_mutexattr_settype(&brief, PTHREAD_MUTEX_ADAPTIVE_NP), "init", name);
    check(pthread_mutex_init(&l->mutex, &brief), "init", name);
    check(pthread_mutexattr_destroy(&brief), "init", name);
}

void lock_destroy(struct lock *l)
{
    check(pthread_mutex_destroy(&l->mutex), "destroy", l->name);
}

void lock_take(struct lock *l)
{
    rank_check(l);
    check(pthread_mutex_lock(&l->mutex), "take", l->name);
    rank_push(l);
}

void lock_drop(struct lock *l)
{
    rank_pop(l);
    check(pthread_mutex_unlock(&l->mutex), "drop", l->name);
}

void cond_init(struct cond *c)
{
    pthread_condattr_t attr;
    check(pthread_condattr_init(&attr), "init", "condition");
    check(pthread_condattr_setclock(&attr, CLOCK_MONOTONIC), "set clock", "condition");
    check(pthread_cond_init(&c->cond, &attr), "init", "condition");
    pthread_condattr_destroy(&attr);
}

void cond_destroy(struct cond *c)
{
    check(pthread_cond_destroy(&c->cond), "destroy", "condition");
}

void cond_wait(struct cond *c, struct lock *l)
{
    rank_find(l);
    check(pthread_cond_wait(&c->cond, &l->mutex), "wait", l->name);
}

int cond_wait_for(struct cond *c, struct lock *l, uint64_t ns)
{
    rank_find(l);
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    uint64_t sum = (uint64_t)until.tv_nsec + ns % 1000000000u;
    uint64_t s = ns / 1000000000u + sum / 1000000000u;
    if (s > 1000000000u)
        s = 1000000000u; /* thirty years: "for ever", and no overflow of time_t */
    until.tv_sec += (time_t)s;
    until.tv_nsec = (long)(sum % 1000000000u);
    int error = pthread_cond_timedwait(&c->cond, &l->mutex, &until);
    if (error == ETIMEDOUT)
        return ETIMEDOUT;
    check(error, "wait", l->name);
    return 0;
}

void cond_signal(struct cond *c)
{
    check(pthread_cond_signal(&c->cond), "signal", "condition");
}

void cond_broadcast(struct cond *c)
{
    check(pthread_cond_broadcast(&c->cond), "broadcast", "condition");
}

struct thread_start {
    void *(*fn)(void *);
    void *arg;
    char name[16];
};

static void *thread_main(void *p)
{
    struct thread_start start = *(struct thread_start *)p;
    free(p);
    pthread_setname_np(pthread_self(), start.name);
    return start.fn(start.arg);
}

int thread_start(pthread_t *ret, const char *name, void *(*fn)(void *), void *arg)
{
    struct thread_start *start = xcalloc(1, sizeof *start);
    start->fn = fn;
    start->arg = arg;
    snprintf(start->name, sizeof start->name, "%s", name);

    /* Signals belong to the main program's signal thread. Those that a fault raises stay open: a
     * blocked one would kill the process past its handler. */
    sigset_t block, old;
    sigfillset(&block);
    static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP, SIGSYS};
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++)
        sigdelset(&block, faults[i]);
    pthread_sigmask(SIG_SETMASK, &block, &old);
    int error = pthread_create(ret, NULL, thread_main, start);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (error)
        free(start);
    return error;
}
