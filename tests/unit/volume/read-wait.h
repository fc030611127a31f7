/* volume_read() for a thread that can wait: no front end has one, tests do. */
#ifndef SAMPAN_TESTS_VOLUME_READ_WAIT_H
#define SAMPAN_TESTS_VOLUME_READ_WAIT_H

#include "sync.h"
#include "volume.h"

struct waiting_read {
    struct volume_read r;
    struct lock lock;
    struct cond cond;
    bool finished, failed; /* guarded by lock */
    struct view view;
    struct err err;
};

static inline void waiting_read_done(struct volume_read *r, struct view *view,
                                     const struct err *err)
{
    struct waiting_read *w = r->priv;
    ACQUIRE(&w->lock);
    w->failed = err != NULL;
    if (err)
        w->err = *err;
    else
        w->view = *view;
    w->finished = true;
    cond_signal(&w->cond);
}

static inline int volume_read_wait(struct volume *v, uint64_t id, uint64_t off, uint32_t len,
                                   struct view *ret, struct err *err)
{
    struct waiting_read w = {.r = {.done = waiting_read_done, .priv = &w}};
    lock_init(&w.lock, RANK_VOLUME, "read that waits");
    cond_init(&w.cond);
    int rc = volume_read(v, id, off, len, &w.r, &w.view, err);
    if (rc == SOURCE_PENDING) {
        ACQUIRE(&w.lock);
        while (!w.finished)
            cond_wait(&w.cond, &w.lock);
        rc = w.failed ? -1 : 0;
        if (w.failed && err)
            *err = w.err;
    }
    cond_destroy(&w.cond);
    lock_destroy(&w.lock);
    if (!rc)
        *ret = w.view;
    return rc;
}

#endif
