/*
 * A folder that one run at a time writes into: two runs would cut each other's files and remove
 * each other's checkpoints.
 *
 * A file in it says who writes there, and is locked for as long as that run lives: the lock of one
 * that was killed is gone with it. Where locks end at the machine (a mounted bucket), a run of
 * another machine takes the folder over, and the one before it finds that out by the file's text
 * and ends. At a run's end the file is removed.
 */
#ifndef SAMPAN_TRAIN_CLAIM_H
#define SAMPAN_TRAIN_CLAIM_H

#include "err.h"
#include "log.h"

struct claim;

/* Takes `dir`, which is made if need be, by its file `name`. ERR_FAILED: a run that lives has it;
 * the text says which. Where no locks are to be had, a line in the log says so. `log` outlives it.
 */
int claim_take(struct claim **ret, const char *dir, const char *name, struct log *log,
               struct err *err);
/* Is it still ours? A file that was removed is made again. */
int claim_keep(struct claim *c, struct err *err);
void claim_release(struct claim *c); /* NULL is fine */

#endif
