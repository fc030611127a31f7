/*
 * A round of a parameter server: what all its trainers must send before any of them is answered.
 * What they sent is added up in the order of their numbers. No network here.
 */
#ifndef SAMPAN_TRAIN_PS_ROUND_H
#define SAMPAN_TRAIN_PS_ROUND_H

#include <stdbool.h>

#include "ps-table.h"

struct ps_round {
    enum ps_kind kind;
    uint32_t ranks;
    size_t came;
    struct bytes *from; /* of each rank, without the head */
    bool *has;
};

void ps_round_init(struct ps_round *r, uint32_t ranks);
void ps_round_release(struct ps_round *r);
/* A trainer that sends another kind than the others, or twice, is out of step: ERR_CORRUPT. */
int ps_round_join(struct ps_round *r, uint32_t rank, enum ps_kind kind, const void *payload,
                  size_t len, struct err *err);
/* Nothing is waited for from this one any more; what it sent is not counted. */
void ps_round_leave(struct ps_round *r, uint32_t rank);
/* The answer, from those that came; then the next round begins. Trainer 0 is among them. */
int ps_round_finish(struct ps_round *r, struct ps_tables *t, struct bytes *reply, struct err *err);

#endif
