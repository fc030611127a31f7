/* Collectives: nobody else, or Gloo with the store behind it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "collective.h"
#include "gloo-internal.h"
#include "mem.h"
#include "store.h"
#include "sync.h"

/* After a call that broke, how long to wait for the name of who died. */
#define NAME_NS (3 * NS_PER_S)
#define LOOK_NS (100 * NS_PER_MS) /* how often it is looked whether to wait on */
#define LAST_NS NS_PER_S          /* for a call whose others are known to be gone */

/* --- alone ------------------------------------------------------------------------------------ */

static int alone_sum(struct collective *c, float *y, size_t n, struct err *err)
{
    (void)c;
    (void)y;
    (void)n;
    (void)err;
    return 0;
}

static int alone_share(struct collective *c, void *bytes, size_t n, struct err *err)
{
    (void)bytes;
    return alone_sum(c, NULL, n, err);
}

static int alone_nothing(struct collective *c, struct err *err)
{
    return alone_sum(c, NULL, 0, err);
}

static bool alone_stops(struct collective *c)
{
    return c->stop && *c->stop;
}

static void alone_close(struct collective *c)
{
    free(c);
}

static const struct collective_ops alone = {"none",        alone_sum,   alone_share, alone_nothing,
                                            alone_nothing, alone_stops, alone_close};

/* --- Gloo ------------------------------------------------------------------------------------- */

/*
 * Calls, that by which ranks meet too, are made by a thread of their own, on memory of their own:
 * Gloo does not always notice that a peer is gone (its time limit would, minutes later), and never
 * that nobody waits for it any more. A call that is left alone ends with the process, as does all
 * that it may look at.
 */
enum call { CALL_NONE, CALL_MEET, CALL_SUM, CALL_SHARE, CALL_BARRIER, CALL_END };

struct job {
    struct collective base;
    struct rendezvous at;
    struct store *store;
    struct gloo_mesh *mesh;
    struct err met; /* why meeting failed, by the store */
    pthread_t thread;
    bool calls;     /* there is that thread */
    bool abandoned; /* it will not come back */

    struct lock lock; /* of all below; `data` is the thread's while there is a call */
    struct cond news;
    enum call call; /* NONE: the last one is done */
    int result;
    char why[GLOO_WHY];
    void *data;
    size_t n, room; /* bytes */
};

static struct job *job_of(struct collective *c)
{
    return (struct job *)c;
}

static int died(struct job *j, uint32_t rank, struct err *err)
{
    j->base.broken = true;
    bool still = store_is_still(j->store);
    if (still && rank == j->base.rank)
        return err_set(err, ERR_FAILED,
                       "this rank, %u of %u, stood still for longer than --collective_timeout: the "
                       "others have ended (start again: training goes on from the last checkpoint)",
                       rank, j->base.ranks);
    if (still)
        return err_set(err, ERR_FAILED,
                       "rank %u of %u stands still, or is cut off (start again: training goes on "
                       "from the last checkpoint)",
                       rank, j->base.ranks);
    return err_set(err, ERR_FAILED,
                   "rank %u of %u has died or ended (see its log; start again: training goes on "
                   "from the last checkpoint)",
                   rank, j->base.ranks);
}

static int gave_up(struct job *j, struct err *err)
{
    j->base.broken = true;
    return err_set(err, ERR_CANCELLED,
                   "asked to stop, and not all of %u ranks have answered %llu s later",
                   j->base.ranks, (unsigned long long)(STORE_STOP_NS / NS_PER_S));
}

/* A call broke: because of a death, if one becomes known, or because its time is over. */
static int broke(struct job *j, const char *what, uint64_t took_ns, struct err *err)
{
    uint32_t rank;
    if (took_ns >= j->at.answer_ns)
        store_find_still(j->store, NAME_NS);
    if (store_dead(j->store, NAME_NS, &rank) == 0)
        return died(j, rank, err);
    j->base.broken = true;
    return err_set(err, ERR_FAILED,
                   "%s with %u ranks: %s (no rank is known to have died: is one of them stopped, "
                   "or the network cut?)",
                   what, j->base.ranks, j->why);
}

static int mesh_set(void *arg, const char *key, const void *value, size_t len)
{
    struct job *j = arg;
    return store_set(j->store, key, value, len, &j->met);
}

static int mesh_get(void *arg, const char *key, void **ret, size_t *len)
{
    struct job *j = arg;
    return store_get(j->store, key, ret, len, &j->met);
}

static int make_call(struct job *j, enum call call)
{
    const struct gloo_store store = {mesh_set, mesh_get, j};
    const struct rendezvous *r = &j->at;
    switch (call) {
    case CALL_MEET:
        return gloo_mesh_open(&j->mesh, r->rank, r->ranks,
                              r->interface[0] ? r->interface : store_address(j->store),
                              r->answer_ns / NS_PER_MS, &store, j->why);
    case CALL_SUM:
        return gloo_mesh_sum(j->mesh, j->data, j->n / sizeof(float), j->why);
    case CALL_SHARE:
        return gloo_mesh_share(j->mesh, j->data, j->n, j->why);
    default:
        return gloo_mesh_barrier(j->mesh, j->why);
    }
}

static void *make_calls(void *arg)
{
    struct job *j = arg;
    for (;;) {
        {
            ACQUIRE(&j->lock);
            while (j->call == CALL_NONE)
                cond_wait(&j->news, &j->lock);
        }
        if (j->call == CALL_END)
            return NULL;
        int result = make_call(j, j->call);
        ACQUIRE(&j->lock);
        j->result = result;
        j->call = CALL_NONE;
        cond_broadcast(&j->news);
    }
}

static void ask(struct job *j, enum call call)
{
    ACQUIRE(&j->lock);
    j->call = call;
    cond_broadcast(&j->news);
}

static bool is_done(struct job *j, uint64_t wait_ns)
{
    uint64_t end = clock_mono_ns() + wait_ns, now;
    ACQUIRE(&j->lock);
    while (j->call != CALL_NONE && (now = clock_mono_ns()) < end)
        cond_wait_for(&j->news, &j->lock, end - now);
    return j->call == CALL_NONE;
}

static int met_in_vain(struct job *j, struct err *err)
{
    j->base.broken = true;
    return err_set(
        err, ERR_TRANSIENT,
        "rendezvous: rank %u has not reached all of %u ranks within --rendezvous_timeout "
        "(do they reach each other's ports, and are all running?)",
        j->at.rank, j->at.ranks);
}

/* The call in hand: done, or -1: it is waited for no longer. */
static int await(struct job *j, uint64_t limit_ns, struct err *err)
{
    uint32_t rank;
    uint64_t began = clock_mono_ns();
    while (!is_done(j, LOOK_NS)) {
        bool dead = store_dead(j->store, 0, &rank) == 0, late = store_late(j->store);
        if (!dead && !late && clock_mono_ns() - began < limit_ns)
            continue;
        if (is_done(j, LAST_NS)) /* what was sent before may be on its way */
            break;
        j->abandoned = true;
        return dead ? died(j, rank, err) : late ? gave_up(j, err) : met_in_vain(j, err);
    }
    return 0;
}

static int run_call(struct job *j, enum call call, const char *what, void *y, size_t n,
                    struct err *err)
{
    uint32_t rank;
    if (store_dead(j->store, 0, &rank) == 0)
        return died(j, rank, err);
    if (j->base.broken)
        return err_set(err, ERR_FAILED, "%s: not after a call that failed", what);
    if (n > j->room) {
        free(j->data);
        j->data = xmalloc(n);
        j->room = n;
    }
    if (n)
        memcpy(j->data, y, n);
    j->n = n;
    uint64_t began = clock_mono_ns();
    store_waits(j->store, true);
    ask(j, call);
    int left = await(j, UINT64_MAX, err);
    store_waits(j->store, false);
    if (left)
        return -1;
    if (j->result)
        return broke(j, what, clock_mono_ns() - began, err);
    if (n)
        memcpy(y, j->data, n);
    return 0;
}

static int job_sum(struct collective *c, float *y, size_t n, struct err *err)
{
    return n ? run_call(job_of(c), CALL_SUM, "sum", y, n * sizeof *y, err) : 0;
}

static int job_share(struct collective *c, void *bytes, size_t n, struct err *err)
{
    return n ? run_call(job_of(c), CALL_SHARE, "share", bytes, n, err) : 0;
}

static int job_barrier(struct collective *c, struct err *err)
{
    return run_call(job_of(c), CALL_BARRIER, "barrier", NULL, 0, err);
}

static int job_check(struct collective *c, struct err *err)
{
    struct job *j = job_of(c);
    uint32_t rank;
    if (store_dead(j->store, 0, &rank) == 0)
        return died(j, rank, err);
    return store_late(j->store) ? gave_up(j, err) : 0;
}

static bool job_stops(struct collective *c)
{
    return alone_stops(c) || store_stops(job_of(c)->store);
}

static void job_close(struct collective *c)
{
    struct job *j = job_of(c);
    /* First: the others shall know why connections break. */
    if (j->abandoned) {
        store_leave(j->store, !c->failed);
        return;
    }
    store_close(j->store, !c->failed);
    if (j->calls) {
        ask(j, CALL_END);
        pthread_join(j->thread, NULL);
        lock_destroy(&j->lock);
        cond_destroy(&j->news);
    }
    if (j->mesh)
        gloo_mesh_close(j->mesh);
    free(j->data);
    free(j);
}

static const struct collective_ops gloo = {"gloo",    job_sum,   job_share, job_barrier,
                                           job_check, job_stops, job_close};

static int open_calls(struct job *j, struct err *err)
{
    lock_init(&j->lock, RANK_TRAIN, "train-sums");
    cond_init(&j->news);
    int code = thread_start(&j->thread, "train-sums", make_calls, j);
    if (code) {
        lock_destroy(&j->lock);
        cond_destroy(&j->news);
        return err_thread(err, code, "start a thread");
    }
    j->calls = true;
    return 0;
}

static int meet(struct job *j, const struct rendezvous *r, struct err *err)
{
    uint32_t dead;
    j->at = *r;
    if (store_open(&j->store, r, j->base.stop, err) || open_calls(j, err))
        return -1;
    ask(j, CALL_MEET);
    if (await(j, r->timeout_ns + LAST_NS, err)) /* the store says better who does not come */
        return -1;
    if (!j->result)
        return 0;
    if (j->met.class != ERR_NONE) {
        if (err)
            *err = j->met;
        return -1;
    }
    if (store_dead(j->store, NAME_NS, &dead) == 0)
        return died(j, dead, err);
    return err_set(err, ERR_FAILED, "rendezvous: the ranks do not reach each other: %s", j->why);
}

int collective_open(struct collective **ret, const struct rendezvous *r, const atomic_int *stop,
                    struct err *err)
{
    struct job *j = xcalloc(1, sizeof *j);
    j->base = (struct collective){
        .ops = r->ranks == 1 ? &alone : &gloo, .ranks = r->ranks, .rank = r->rank, .stop = stop};
    if (r->ranks > 1 && meet(j, r, err)) {
        j->base.failed = true;
        job_close(&j->base);
        return -1;
    }
    *ret = &j->base;
    return 0;
}

void collective_close(struct collective *c)
{
    if (c)
        c->ops->close(c);
}
