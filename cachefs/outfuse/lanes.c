/*
 * Lanes: threads that may wait for the store. They start as requests come that must wait, up to
 * LANES_MAX, and end when they had nothing to do for a while.
 */
#include <errno.h>
#include <stdio.h>

#include "clock.h"
#include "mem.h"
#include "outfuse-internal.h"

#define LOG_MODULE "fuse"
#include "log.h"

#define IDLE_NS     (5 * NS_PER_S)
#define QUICK_LOOKS 2

void lanes_init(struct outfuse *f)
{
    lock_init(&f->lanes.lock, RANK_METRICS, "lanes");
    cond_init(&f->lanes.due);
    cond_init(&f->lanes.rested);
}

/* Under the lock: the next request, or NULL: this lane is not needed any more. */
static struct job *next_job(struct lanes *l)
{
    while (!l->first && !l->stop) {
        l->idle++;
        int e = cond_wait_for(&l->due, &l->lock, IDLE_NS);
        l->idle--;
        if (e == ETIMEDOUT && !l->first)
            return NULL;
    }
    struct job *j = l->first;
    if (j) {
        l->first = j->next;
        l->queued--;
    }
    return j;
}

static void serve_job(struct outfuse *f, struct job *j)
{
    struct keeper_request *r = hands_at(&f->hands, j->place);

    if (!job_given_up(j))
        outfuse_serve(f, r, j);
    else if (outfuse_reply(f, r->unique, -EINTR, NULL) == 0)
        counter_add(&f->given_up, 1);
}

unsigned lanes_busy(const struct lanes *l)
{
    unsigned n = 0;

    for (unsigned i = 0; i < LANES_MAX; i++)
        n += l->lanes[i].now != NULL;
    for (unsigned i = 0; i < HERE_MAX; i++)
        n += l->here[i] != NULL;
    return n;
}

static bool all_rest(const struct lanes *l)
{
    return !l->queued && !lanes_busy(l);
}

static void *lane_run(void *arg)
{
    struct lane *lane = arg;
    struct outfuse *f = lane->f;
    struct lanes *l = &f->lanes;
    struct job *j = NULL;

    for (;;) {
        {
            ACQUIRE(&l->lock);
            free(j);
            if (all_rest(l))
                cond_broadcast(&l->rested);
            lane->now = j = next_job(l);
            if (!j) {
                l->running--;
                lane->life = LANE_ENDED;
                return NULL;
            }
        }
        serve_job(f, j);
        {
            ACQUIRE(&l->lock);
            lane->now = NULL; /* nobody looks at its place any more */
        }
        hands_free(&f->hands, j->place);
    }
}

bool lanes_rest(struct outfuse *f, uint64_t ns)
{
    struct lanes *l = &f->lanes;
    uint64_t end = clock_mono_ns() + ns, now;
    ACQUIRE(&l->lock);

    while (!all_rest(l) && (now = clock_mono_ns()) < end)
        cond_wait_for(&l->rested, &l->lock, end - now);
    return all_rest(l);
}

/* Under the lock. One that ended by itself is joined by whoever needs its place. */
static void start_lane(struct outfuse *f)
{
    struct lanes *l = &f->lanes;
    char name[16];

    for (unsigned i = 0; i < LANES_MAX; i++) {
        struct lane *lane = &l->lanes[i];

        if (lane->life == LANE_RUNS)
            continue;
        if (lane->life == LANE_ENDED)
            pthread_join(lane->thread, NULL);
        lane->life = LANE_NONE;
        lane->f = f;
        snprintf(name, sizeof(name), "fuse-lane-%u", i);
        int e = thread_start(&lane->thread, name, lane_run, lane);
        if (e) {
            log_warn(f->log, "start a thread: %s", strerror(e));
            return;
        }
        lane->life = LANE_RUNS;
        l->running++;
        return;
    }
}

static struct job *new_job(struct outfuse *f, struct place p)
{
    const struct keeper_request *r = hands_at(&f->hands, p);
    struct job *j = xcalloc(1, sizeof(*j));

    j->f = f;
    j->place = p;
    j->unique = r->unique & ~WIRE_RESENT;
    j->pid = r->pid;
    j->since_ns = clock_mono_ns();
    j->flush = r->opcode == WIRE_FLUSH;
    return j;
}

/* Under the lock. */
static bool was_interrupted(const struct lanes *l, uint64_t unique)
{
    for (unsigned i = 0; i < EARLY_INTERRUPTS; i++)
        if (l->early[i] == unique)
            return true;
    return false;
}

/* Under the lock. False: there is no lane, and none can be had. */
static bool enqueue(struct outfuse *f, struct job *j)
{
    struct lanes *l = &f->lanes;

    if (l->queued >= l->idle && l->running < LANES_MAX)
        start_lane(f);
    if (!l->running)
        return false;
    if (was_interrupted(l, j->unique))
        atomic_store(&j->interrupted, true);
    if (l->first)
        l->last->next = j;
    else
        l->first = j;
    l->last = j;
    l->queued++;
    cond_signal(&l->due);
    return true;
}

void lanes_add(struct outfuse *f, struct place p)
{
    struct job *j = new_job(f, p);
    {
        ACQUIRE(&f->lanes.lock);
        if (enqueue(f, j))
            return;
    }
    serve_job(f, j); /* on the worker itself */
    hands_free(&f->hands, p);
    free(j);
}

/* --- on a worker ------------------------------------------------------------------------------ */

/* Under the lock. NULL: enough workers wait. */
static struct job **place_here(struct lanes *l)
{
    for (unsigned i = 0; i < HERE_MAX; i++)
        if (!l->here[i])
            return &l->here[i];
    return NULL;
}

bool lanes_serve_here(struct outfuse *f, struct place p)
{
    struct lanes *l = &f->lanes;
    const struct keeper_request *r = hands_at(&f->hands, p);
    const struct wire_flush_in *in = (const void *)(r + 1);
    struct job **here;

    if (r->opcode != WIRE_FLUSH || r->len < sizeof(*r) + sizeof(*in) || crew_is_careful(&f->crew) ||
        !stage_flush_is_light(f->stage, in->fh))
        return false;
    cleanup_free struct job *j = new_job(f, p);
    {
        ACQUIRE(&l->lock);
        here = place_here(l);
        if (!here)
            return false;
        *here = j;
        if (was_interrupted(l, j->unique))
            atomic_store(&j->interrupted, true);
    }
    serve_job(f, j);
    {
        ACQUIRE(&l->lock);
        *here = NULL;
        if (all_rest(l))
            cond_broadcast(&l->rested);
    }
    hands_free(&f->hands, p);
    return true;
}

/* --- who does not wait any more --------------------------------------------------------------- */

/* Under the lock: in the queue, or in a lane. */
static struct job *find_job(struct lanes *l, uint64_t unique)
{
    for (struct job *j = l->first; j; j = j->next)
        if (j->unique == unique)
            return j;
    for (unsigned i = 0; i < LANES_MAX; i++)
        if (l->lanes[i].now && l->lanes[i].now->unique == unique)
            return l->lanes[i].now;
    for (unsigned i = 0; i < HERE_MAX; i++)
        if (l->here[i] && l->here[i]->unique == unique)
            return l->here[i];
    return NULL;
}

/* Under the lock. True: it was in the queue, and no lane will serve it. */
static bool take_back(struct lanes *l, struct job *j)
{
    struct job **at = &l->first, *before = NULL;

    while (*at && *at != j) {
        before = *at;
        at = &before->next;
    }
    if (!*at)
        return false;
    *at = j->next;
    if (l->last == j)
        l->last = before;
    l->queued--;
    return true;
}

static bool only_looks(uint32_t opcode)
{
    return opcode == WIRE_READ || opcode == WIRE_LOOKUP || opcode == WIRE_GETATTR ||
           opcode == WIRE_READLINK || opcode == WIRE_READDIR || opcode == WIRE_READDIRPLUS;
}

/* Under the lock: a request that is in a lane may be answered and gone a moment later. True: it is
 * the caller's now. */
static bool give_up(struct outfuse *f, struct job *j)
{
    const struct keeper_request *r = hands_at(&f->hands, j->place);

    atomic_store(&j->interrupted, true); /* whoever waits in a lane looks every now and then */
    if (!caller_must_end(j->pid))
        return false;
    bool mine = take_back(&f->lanes, j);
    if ((mine || only_looks(r->opcode)) && outfuse_reply(f, r->unique, -EINTR, NULL) == 0)
        counter_add(&f->given_up, 1);
    return mine;
}

void lanes_interrupt(struct outfuse *f, uint64_t unique)
{
    struct lanes *l = &f->lanes;
    struct job *j;
    {
        ACQUIRE(&l->lock);
        j = find_job(l, unique);
        if (!j) {
            l->early[l->n_early++ % EARLY_INTERRUPTS] = unique;
            return;
        }
        if (!give_up(f, j))
            return;
    }
    hands_free(&f->hands, j->place);
    free(j);
}

bool job_given_up(void *arg)
{
    struct job *j = arg;

    if (atomic_load(&j->interrupted))
        return caller_must_end(j->pid);
    /* Not at once: most closes take their moment, and end. */
    return j->flush && ++j->looks > QUICK_LOOKS && caller_was_killed(j->pid);
}

/* On the thread that serves it, whose answer nobody awaits any more. */
void job_leave(void *arg)
{
    struct job *j = arg;

    j->left = true;
    if (outfuse_reply(j->f, hands_at(&j->f->hands, j->place)->unique, -EINTR, NULL) == 0)
        counter_add(&j->f->given_up, 1);
}

void lanes_stop(struct outfuse *f)
{
    struct lanes *l = &f->lanes;

    {
        ACQUIRE(&l->lock);
        l->stop = true;
        cond_broadcast(&l->due);
    }
    for (unsigned i = 0; i < LANES_MAX; i++) {
        /* No lane is started any more: nobody else writes `life` from LANE_NONE. */
        enum lane_life life;
        {
            ACQUIRE(&l->lock);
            life = l->lanes[i].life;
        }
        if (life == LANE_NONE)
            continue;
        pthread_join(l->lanes[i].thread, NULL);
        l->lanes[i].life = LANE_NONE;
    }
}

void lanes_destroy(struct outfuse *f)
{
    cond_destroy(&f->lanes.due);
    cond_destroy(&f->lanes.rested);
    lock_destroy(&f->lanes.lock);
}
