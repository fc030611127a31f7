/* The pusher's window as arithmetic: which position comes next, and when pushing does not pay. */
#include "frontend-internal.h"

#define TRIPWIRE_MIN 128 /* so that tripwires cost less than 1 % of the reads */
#define TRIPWIRE_MAX 256
#define WINDOW_MIN   16
/* A reader that caught up gets this far before the pusher starts again ahead of it. */
#define LEAD 16
/* So many positions are worth the pusher's waking up. */
#define WORTH 16
/* After a stretch that readers mostly read by themselves, so many positions go by without a push:
 * twice as many each time in a row, since a try costs readers who take all the CPUs a tenth. */
#define PAUSE_MIN (16 * PUSH_STRETCH)
#define PAUSE_MAX (512 * PUSH_STRETCH)

static uint64_t clamp(uint64_t n, uint64_t low, uint64_t high)
{
    return n < low ? low : n > high ? high : n;
}

static void begin_stretch(struct push_window *w)
{
    w->stretch_start = w->reader;
    w->stretch_reads = 0;
}

void push_window_reset(struct push_window *w, uint64_t length, uint64_t window_samples)
{
    *w = (struct push_window){.length = length};
    w->window = window_samples < WINDOW_MIN ? WINDOW_MIN : window_samples;
    w->tripwire = clamp(w->window / 4, TRIPWIRE_MIN, TRIPWIRE_MAX);
    w->pause = PAUSE_MIN;
}

void push_window_resume(struct push_window *w, uint64_t pos, uint64_t next)
{
    w->reader = pos < w->length ? pos + 1 : w->length;
    w->next = clamp(next, w->reader, w->reader + w->window);
    begin_stretch(w);
}

void push_window_seen(struct push_window *w, uint64_t pos)
{
    uint64_t advanced;

    if (pos >= w->length)
        return;
    if (pos + w->window < w->reader) { /* the order is read again from an earlier place */
        w->reader = pos + 1;
        w->next = w->reader;
        w->paused_until = 0;
        begin_stretch(w);
        return;
    }
    w->stretch_reads++;
    if (pos < w->reader)
        return; /* one of several readers, a little behind */
    w->reader = pos + 1;
    if (w->next < w->reader)
        w->next = w->reader + LEAD;
    if (w->reader <= w->paused_until) { /* of course readers do it all now */
        begin_stretch(w);
        return;
    }
    advanced = w->reader - w->stretch_start;
    if (advanced < PUSH_STRETCH)
        return;
    /* Readers got more than half of the stretch by themselves: two cores are better left to them.
     */
    if (w->stretch_reads * 2 > advanced) {
        w->paused_until = w->reader + w->pause;
        w->pause = clamp(2 * w->pause, PAUSE_MIN, PAUSE_MAX);
    } else {
        w->pause = PAUSE_MIN;
    }
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
    if (w->reader < w->paused_until)
        return UINT64_MAX;
    if (w->next < w->reader)
        w->next = w->reader;
    if (w->next % w->tripwire == w->tripwire - 1)
        w->next++;
    if (w->next >= w->length || w->next >= w->reader + w->window)
        return UINT64_MAX;
    return w->next++;
}
