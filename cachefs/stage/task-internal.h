/*
 * What a worker does for one node, between the moments at which it holds s->lock. No lock held.
 */
#ifndef SAMPAN_STAGE_TASK_INTERNAL_H
#define SAMPAN_STAGE_TASK_INTERNAL_H

#include "owed-internal.h"

struct task {
    struct node *n;
    char *key, *from; /* from: where its object is now, if elsewhere */
    unsigned flags;
    enum node_kind kind;
    struct object_meta meta;
    char *target, *etag;
    struct flight to_flight, from_flight;
    bool fetch;                    /* only make it independent of where it is */
    const struct stage_call *call; /* who waits for it and does it himself; NULL: a worker does */
};

/* The store has it at `key`; `left`: also where it was. `clear`: flags that are done with. */
int done_at(struct stage *s, struct node *n, const char *key, const struct seen *seen, bool left,
            const struct object_meta *meta, unsigned clear, struct err *err);

/* move.c: its object goes to its key, or gets its attributes. */
int do_move(struct stage *s, struct task *t, struct err *err);
/* The object is not where the row says, in a store that renames: if it lies under a key that it may
 * have left meanwhile, the row says so from now on, and the node's turn comes again. */
bool move_from_left(struct stage *s, struct task *t);
/* `err` says why the object could not be fetched. If it is another one by now, the row says so from
 * now on, and the node's turn comes again; else -1. */
int move_from_other(struct stage *s, struct task *t, struct err *err);

#endif
