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

#define IDLE_NS (5 * NS_PER_S)

void lanes_init(struct outfuse *f)
{
    lock_init(&f->lanes.lock, RANK_METRICS, "lanes");
    cond_init(&f->lanes.due);
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

static void *lane_run(void *arg)
{
    struct lane *lane = arg;
    struct outfuse *f = lane->f;
    struct lanes *l = &f->lanes;

    for (;;) {
        struct job *j;

        {
            ACQUIRE(&l->lock);
            j = next_job(l);
            if (!j) {
                l->running--;
                lane->life = LANE_ENDED;
                return NULL;
            }
        }
        outfuse_serve(f, hands_at(&f->hands, j->place), /* wait= */ true);
        hands_free(&f->hands, j->place);
        free(j);
    }
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

void lanes_add(struct outfuse *f, struct place p)
{
    struct lanes *l = &f->lanes;
    struct job *j = xcalloc(1, sizeof(*j));
    bool alone = false;

    j->place = p;
    {
        ACQUIRE(&l->lock);
        if (l->first)
            l->last->next = j;
        else
            l->first = j;
        l->last = j;
        l->queued++;
        if (l->queued > l->idle && l->running < LANES_MAX)
            start_lane(f);
        if (!l->running) { /* no thread can be had: the worker serves it itself */
            alone = true;
            l->first = NULL;
            l->queued = 0;
        } else {
            cond_signal(&l->due);
        }
    }
    if (!alone)
        return;
    outfuse_serve(f, hands_at(&f->hands, p), /* wait= */ true);
    hands_free(&f->hands, p);
    free(j);
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
    lock_destroy(&f->lanes.lock);
}
