/* Lives that do nothing but die: a mount is degraded then, and tried again ever more seldom. */
#ifndef SAMPAN_KEEPER_BRAKE_INTERNAL_H
#define SAMPAN_KEEPER_BRAKE_INTERNAL_H

#include "state.h"

struct brake {
    bool trying;       /* the life that refuses was killed for one that does not */
    uint64_t trial_at; /* when that is due … */
    uint64_t trial_ms; /* … and how long it was put off; 0: not degraded, or well since */
};

/* From now on lives refuse. `since` is when that began, whatever trials failed meanwhile. */
void brake_put_on(struct brake *b, struct keeper_part *part);
/* A life that refuses is ready. */
void brake_put_off_trial(struct brake *b, uint64_t now_ms);
bool brake_trial_is_due(const struct brake *b, const struct keeper_part *part, uint64_t now_ms);
/* It was killed for a trial: one death without an answer puts the brake on again. */
void brake_release(struct keeper_part *part);

#endif
