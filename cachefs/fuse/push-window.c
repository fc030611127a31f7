/* The pusher's window as arithmetic: which position comes next, and when pushing does not pay. */
#include "frontend-internal.h"

#define TRIPWIRE_MIN 128 /* so that tripwires cost less than 1 % of the reads */
#define TRIPWIRE_MAX 256
/* A smaller window is none: readers of such samples read far ahead within them. */
#define WINDOW_MIN 4
/* A reader that caught up gets this far before the pusher starts again ahead of it. */
#define LEAD 16
/* So many positions are worth the pusher's waking up. */
#define WORTH 16
/*
 * Where readers mostly read by themselves, although we push, CPUs may be better left to them: 8
 * readers on two CPUs take both. Or not: one reader alone waits for its READ, while a CPU idles.
 * So it is tried: a short pause, and unless readers are clearly slower in it, a long one, twice as
 * long each time in a row. If they are slower, the next trial is as much later each time.
 */
#define PAUSE_MIN (16 * PUSH_STRETCH)
#define PAUSE_MAX (512 * PUSH_STRETCH)
/* A reader who does something else for a while says nothing about speed. */
#define POSITION_NS (1000 * 1000ull)

static uint64_t clamp(uint64_t n, uint64_t low, uint64_t high)
{
    return n < low ? low : n > high ? high : n;
}

static void begin_stretch(struct push_window *w)
{
    w->stretch_start = w->reader;
    w->stretch_reads = 0;
    w->stretch_ns = 0;
}

static void pushing_pays(struct push_window *w)
{
    w->pause = PAUSE_MIN;
    w->patience = PAUSE_MIN;
}

void push_window_reset(struct push_window *w, uint64_t length, uint64_t window_samples)
{
    unsigned unread = w->reader ? 0 : w->unread + (w->next > 0);

    *w = (struct push_window){.length = length, .unread = unread};
    w->window = window_samples < WINDOW_MIN ? 0 : window_samples;
    w->tripwire = clamp(w->window / 4, TRIPWIRE_MIN, TRIPWIRE_MAX);
    /* A reader that is seen after the window's end has found nothing pushed meanwhile. */
    w->tripwire = clamp(w->tripwire, 2, clamp(w->window / 3, 2, TRIPWIRE_MAX));
    pushing_pays(w);
}

void push_window_resume(struct push_window *w, uint64_t pos, uint64_t next)
{
    w->reader = pos < w->length ? pos + 1 : w->length;
    w->next = clamp(next, w->reader, w->reader + w->window);
    begin_stretch(w);
}

/* The time since the last READ counts for the positions in between. */
static void time_passes(struct push_window *w, uint64_t advanced, uint64_t now)
{
    if (w->seen_ns)
        w->stretch_ns += clamp(now - w->seen_ns, 0, advanced * POSITION_NS);
    w->seen_ns = now;
}

static uint64_t ns_a_position(const struct push_window *w)
{
    return w->stretch_ns / (w->reader - w->stretch_start);
}

static void pause_for(struct push_window *w, uint64_t positions, bool trial)
{
    w->paused_until = w->reader + positions;
    w->trial = trial;
}

static void end_pause(struct push_window *w)
{
    uint64_t without = ns_a_position(w);

    if (w->trial && without < w->pushing_ns + w->pushing_ns / 8) {
        pause_for(w, w->pause, false);
        w->pause = clamp(2 * w->pause, PAUSE_MIN, PAUSE_MAX);
    } else if (w->trial) {
        w->trial_from = w->reader + w->patience;
        w->patience = clamp(2 * w->patience, PAUSE_MIN, PAUSE_MAX);
        w->pause = PAUSE_MIN;
    }
}

static void end_stretch(struct push_window *w, uint64_t advanced)
{
    if (w->stretch_reads * 2 <= advanced) {
        pushing_pays(w);
    } else if (w->reader >= w->trial_from) {
        w->pushing_ns = ns_a_position(w);
        pause_for(w, PUSH_TRIAL, true);
    }
}

void push_window_seen(struct push_window *w, uint64_t pos, uint64_t now)
{
    bool paused = w->reader < w->paused_until;
    uint64_t advanced;

    if (pos >= w->length)
        return;
    if (pos + w->window < w->reader) { /* the order is read again from an earlier place */
        w->reader = pos + 1;
        w->next = w->reader;
        w->paused_until = 0;
        w->trial_from = 0;
        w->seen_ns = now;
        begin_stretch(w);
        return;
    }
    w->stretch_reads++;
    if (pos < w->reader)
        return; /* one of several readers, a little behind */
    time_passes(w, pos + 1 - w->reader, now);
    w->reader = pos + 1;
    if (w->next < w->reader)
        w->next = w->reader + clamp(w->window / 2, 0, LEAD);
    advanced = w->reader - w->stretch_start;
    if (paused && w->reader >= w->paused_until)
        end_pause(w);
    else if (!paused && advanced >= PUSH_STRETCH)
        end_stretch(w, advanced);
    else
        return;
    begin_stretch(w);
}

bool push_window_is_worth(const struct push_window *w)
{
    uint64_t end = w->length - w->reader < w->window ? w->length : w->reader + w->window;
    uint64_t next = w->next < w->reader ? w->reader : w->next;
    uint64_t least = w->window / 2 < WORTH ? w->window / 2 : WORTH;

    return w->reader >= w->paused_until && next < end && (end - next >= least || end == w->length);
}

uint64_t push_window_take(struct push_window *w)
{
    if (w->reader < w->paused_until || !w->window || (w->unread >= PUSH_UNREAD && !w->reader))
        return UINT64_MAX;
    if (w->next < w->reader)
        w->next = w->reader;
    if (w->next % w->tripwire == w->tripwire - 1)
        w->next++;
    if (w->next >= w->length || w->next >= w->reader + w->window)
        return UINT64_MAX;
    return w->next++;
}

/* --- what the kernel has queued --- */

bool push_queue_is_full(struct push_queue *q, uint64_t arrived, bool busy)
{
    if (q->asked < arrived) /* READs are of whole pages */
        q->asked = arrived;
    q->idle = busy || arrived != q->seen ? 0 : q->idle + 1;
    q->seen = arrived;
    if (q->idle >= PUSH_QUEUE_IDLE)
        q->asked = arrived;
    return q->asked - arrived >= PUSH_QUEUE_BYTES;
}
