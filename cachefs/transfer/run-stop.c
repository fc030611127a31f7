/*
 * A run that is told to stop begins nothing more, and what is in hand ends. But who waits for a
 * store looks at no flag: an answer that does not come is waited for no longer than STOP_AFTER_NS,
 * then the engine is stopped from beside. What that breaks off the next run goes on with. Not while
 * an object goes up in parts: its parts are taken back from the store first.
 */
#include "clock.h"
#include "sync-internal.h"

#define LOOK_EVERY_NS (100 * NS_PER_MS)
#define STOP_AFTER_NS (3 * NS_PER_S)

static bool sends_parts(struct sync_run *r)
{
    ACQUIRE(&r->lock);
    return r->n_large > 0;
}

/* Waits a little; false once the run is over. */
static bool goes_on(struct stopper *s)
{
    ACQUIRE(&s->lock);
    if (!s->over)
        cond_wait_for(&s->ended, &s->lock, LOOK_EVERY_NS);
    return !s->over;
}

static void *stopper_main(void *arg)
{
    struct stopper *s = arg;
    uint64_t told_ns = 0;
    while (goes_on(s)) {
        if (!told_ns && atomic_load(s->run->conf->stop))
            told_ns = clock_mono_ns();
        if (!told_ns || clock_mono_ns() - told_ns < STOP_AFTER_NS || sends_parts(s->run))
            continue;
        fetch_stop(s->run->fetch);
        return NULL;
    }
    return NULL;
}

int stopper_begin(struct stopper *s, struct sync_run *r, struct err *err)
{
    *s = (struct stopper){.run = r};
    if (!r->conf->stop)
        return 0;
    lock_init(&s->lock, RANK_VOLUME, "sync-stop");
    cond_init(&s->ended);
    int e = thread_start(&s->thread, "sync-stop", stopper_main, s);
    s->started = e == 0;
    if (!e)
        return 0;
    cond_destroy(&s->ended);
    lock_destroy(&s->lock);
    return err_thread(err, e, "start a thread");
}

void stopper_end(struct stopper *s)
{
    if (!s->started)
        return;
    {
        ACQUIRE(&s->lock);
        s->over = true;
        cond_signal(&s->ended);
    }
    pthread_join(s->thread, NULL);
    cond_destroy(&s->ended);
    lock_destroy(&s->lock);
}
