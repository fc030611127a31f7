/*
 * Is the stage's own disk to be trusted? Who writes gets the error of his call; this is for whoever
 * looks after the machine. The journal and the staged files are told apart, and their syncs, since
 * one that goes well says nothing of the others.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "stage-internal.h"

int disk_failed(struct stage *s, enum disk_part part, int code, const struct err *err)
{
    struct disk_health *h = &s->health[part];
    if (code == ENOSPC || code == EDQUOT || code == EFBIG)
        return -1; /* it is full, which room.c tells */
    ACQUIRE(&s->health_lock);
    atomic_store(&h->failing, true);
    snprintf(h->why, sizeof h->why, "%.*s", (int)sizeof h->why - 1,
             err && err->msg[0] ? err->msg : strerror(code));
    return -1;
}

void disk_lacks(struct stage *s, struct err *err)
{
    if (err->sys != ENOENT)
        return;
    struct err was = *err;
    err_set(err, ERR_FAILED, "%s (was it removed from the cache folder? unmount, mount again)",
            was.msg);
    err->sys = EIO;
    disk_failed(s, DISK_DATA, EIO, err);
}

void disk_good(struct stage *s, enum disk_part part)
{
    atomic_store(&s->health[part].failing, false);
}

bool stage_disk_fails(struct stage *s, char *ret_why, size_t size)
{
    ACQUIRE(&s->health_lock);
    for (unsigned part = 0; part < DISK_PARTS; part++) {
        if (!atomic_load(&s->health[part].failing))
            continue;
        snprintf(ret_why, size, "%s", s->health[part].why);
        return true;
    }
    return false;
}
