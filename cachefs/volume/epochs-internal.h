/*
 * One run of the thread that fetches epochs ahead, as epochs.c and epochs-room.c share it. It is
 * the thread's own; what readers change is in struct epochs, behind its lock.
 */
#ifndef SAMPAN_EPOCHS_INTERNAL_H
#define SAMPAN_EPOCHS_INTERNAL_H

#include "volume-internal.h"

/* A running epoch, and those after it. */
struct epochs_run {
    struct volume *v;
    struct epochs *e;
    struct share_conf division;
    struct epoch_order *orders[EPOCHS_AHEAD + 1]; /* [0]: the running one */
    size_t n;                                     /* of them are known */
    size_t k;                                     /* what is fetched next: in this epoch … */
    uint64_t pos;                                 /* … at this position */
    uint64_t hand;                                /* leftovers: ids below were looked at */
    uint64_t swept;                  /* positions of the running epoch below were looked at */
    uint64_t tail[EPOCHS_AHEAD + 1]; /* positions of those to come from here on were looked at */
    uint64_t looked_ns;
    size_t looked;
    unsigned changes; /* of what was set, as far as they are known here */
};

/* The order, the budget or the end was set since: the run is over. */
bool epochs_outdated(struct epochs_run *r);
/* The order of the epoch after the last known one. False: there is none, or it can't be built. */
bool epochs_next_order(struct epochs_run *r);
/* Has the running epoch done with what it reads at this position? What was pushed: once its reader
 * was seen further on. Lock held. */
bool epochs_done_with(const struct epochs *e, uint64_t pos);

/* epochs-room.c */

/* Never, if it is larger than all tiers: there is no room for it, whatever goes. */
bool epochs_may_fit(const struct volume *v, const struct entry *e);
/* Is there room for so many bytes? Makes some if not. */
bool epochs_room_for(struct epochs_run *r, uint64_t want);

#endif
