/* Who waits for a store looks at no flag: its engine is stopped from beside. */
#include "clock.h"
#include "fetch.h"

#define LOOK_EVERY_NS (50 * NS_PER_MS)

/* Waits a little; false once it is ended. */
static bool goes_on(struct fetch_stopper *s)
{
    ACQUIRE(&s->lock);
    if (!s->over)
        cond_wait_for(&s->ended, &s->lock, LOOK_EVERY_NS);
    return !s->over;
}

static void *stopper_main(void *arg)
{
    struct fetch_stopper *s = arg;
    uint64_t told_ns = 0;
    while (goes_on(s)) {
        uint64_t now = clock_mono_ns();
        if (!s->told(s->arg)) {
            told_ns = 0;
            continue;
        }
        told_ns = told_ns ? told_ns : now;
        if (now - told_ns < s->patience_ns)
            continue;
        fetch_stop(s->fetch);
        break;
    }
    return NULL;
}

int fetch_stopper_begin(struct fetch_stopper *s, struct err *err)
{
    lock_init(&s->lock, RANK_VOLUME, "fetch-stop");
    cond_init(&s->ended);
    int e = thread_start(&s->thread, "fetch-stop", stopper_main, s);
    if (!e)
        return 0;
    cond_destroy(&s->ended);
    lock_destroy(&s->lock);
    return err_thread(err, e, "start a thread");
}

void fetch_stopper_end(struct fetch_stopper *s)
{
    {
        ACQUIRE(&s->lock);
        s->over = true;
        cond_signal(&s->ended);
    }
    pthread_join(s->thread, NULL);
    cond_destroy(&s->ended);
    lock_destroy(&s->lock);
}
