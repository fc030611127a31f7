/*
 * A call that waited for the store and was refused (denied, full) has changed nothing here either:
 * what it made is gone, what it removed, replaced or set is back. Trouble that passes is no
 * refusal, nor is a caller who waits no longer: then the change stays, and goes on being owed.
 * s->lock is held throughout.
 */
#ifndef SAMPAN_STAGE_UNDO_INTERNAL_H
#define SAMPAN_STAGE_UNDO_INTERNAL_H

#include "owed-internal.h"

/* A node that loses its name, and may get it back. */
struct removed {
    struct node *n; /* pinned; NULL: nothing */
    unsigned flags; /* as they were */
    bool elsewhere; /* its object did not lie at its path: it can't be had back */
    bool kept;      /* its folder got a marker for that (keep_folder()) */
};
/* Before it loses its name; end: whatever came of it. */
void removed_begin(struct removed *r, struct node *n);
void removed_end(struct stage *s, struct removed *r);
/* Whether its name is free, or `leaving` has it; its folder in *ret. */
bool removed_can_return(struct stage *s, const struct removed *r, const struct node *leaving,
                        struct node **ret_folder);
/* Within a transaction; then, after the commit and once the name is free, its part in memory. */
int removed_return_journal(struct stage *s, const struct removed *r, const struct node *folder,
                           struct err *err);
void removed_return(struct stage *s, struct removed *r, struct node *folder);

/* What the call made, which nobody has put anything into meanwhile. */
void undo_make(struct stage *s, const struct stage_call *c, struct node *n);
void undo_remove(struct stage *s, const struct stage_call *c, struct removed *r);

/* What setattr changes, but for the size: bytes that were cut off are gone. */
struct attributes {
    mode_t mode;
    uid_t uid;
    gid_t gid;
    int64_t mtime_ns;
    bool explicit_mtime, owed; /* N_META */
};
struct attributes attributes_of(const struct node *n);
/* `made`: after the call. Does nothing where somebody changed them again meanwhile. */
void undo_attributes(struct stage *s, const struct stage_call *c, struct node *n,
                     const struct attributes *before, const struct attributes *made);
/* Its folder needs no marker, after all. */
void unkeep_folder(struct stage *s, struct node *folder);

#endif
