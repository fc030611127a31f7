/* What the front end tells about itself. */
#include <string.h>

#include "frontend-internal.h"

const char *frontend_mode(const struct frontend *f)
{
    const struct push *push = &f->push;
    bool pushing = atomic_load(&push->active) && atomic_load(&push->how) != PUSH_OFF;

    if (!strcmp(f->mode.mode, "no_open"))
        return pushing ? "no_open+push" : "no_open";
    if (!strcmp(f->mode.mode, "open"))
        return pushing ? "open+push" : "open";
    return f->mode.mode;
}

const char *frontend_why(const struct frontend *f)
{
    return f->mode.why;
}

void frontend_status(struct frontend *f, struct json_writer *w)
{
    struct push *push = &f->push;
    struct push_window window;
    char why[sizeof(push->why)];

    lock_take(&push->lock);
    window = push->w;
    memcpy(why, push->why, sizeof(why));
    lock_drop(&push->lock);
    jw_str(w, "mode", frontend_mode(f));
    jw_str(w, "mode_why", frontend_why(f));
    jw_object(w, "push");
    jw_bool(w, "active", atomic_load(&push->active));
    jw_str(w, "how", push_how_name(atomic_load(&push->how)));
    jw_str(w, "why", why);
    jw_uint(w, "samples", counter_get(&f->kept->pushed));
    jw_uint(w, "bytes", counter_get(&f->kept->pushed_bytes));
    jw_uint(w, "skipped", counter_get(&f->kept->push_skipped));
    jw_uint(w, "failed", counter_get(&f->kept->push_failed));
    jw_uint(w, "reader", window.reader);
    jw_uint(w, "next", window.next);
    jw_uint(w, "length", window.length);
    jw_uint(w, "window", window.window);
    jw_bool(w, "paused", window.reader < window.paused_until);
    jw_end(w);
    jw_object(w, "kernel");
    jw_uint(w, "reads", counter_get(&f->kept->reads));
    jw_uint(w, "read_bytes", counter_get(&f->kept->read_bytes));
    jw_uint(w, "read_errors", counter_get(&f->kept->read_errors));
    jw_uint(w, "refetched", counter_get(&f->kept->refetched));
    jw_uint(w, "invalidated", counter_get(&f->kept->invalidated));
    jw_end(w);
    jw_uint(w, "in_hand", atomic_load(&f->parked));
    jw_bool(w, "careful", crew_is_careful(&f->crew));
    if (f->passthrough)
        passthrough_status(f, w);
}
