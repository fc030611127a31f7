/* Between writing checkpoints (checkpoint.c) and reading them (checkpoint-load.c). */
#ifndef SAMPAN_TRAIN_CHECKPOINT_INTERNAL_H
#define SAMPAN_TRAIN_CHECKPOINT_INTERNAL_H

#include "checkpoint.h"

#define CHECKPOINT_DONE    "sampan-checkpoint 1 "
#define CHECKPOINT_FORMAT  1
#define CHECKPOINT_HEAD    16
#define CHECKPOINT_NAME    64
#define CHECKPOINT_OF_PASS UINT64_MAX /* as a batch: the whole pass */

/* The folders of checkpoints in `dir`, newest first; `done` or not. */
struct checkpoint_place {
    char name[CHECKPOINT_NAME];
    uint64_t pass, batch;
    bool done;
};
int checkpoint_list(const char *dir, struct checkpoint_place **ret, size_t *n, struct err *err);

/* Paddle's header of a parameter's file. */
void checkpoint_head(unsigned char out[CHECKPOINT_HEAD], uint64_t numbers);

#endif
