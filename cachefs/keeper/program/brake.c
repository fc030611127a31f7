#include "brake-internal.h"

#include <time.h>

#include "channel.h"

void brake_put_on(struct brake *b, struct keeper_part *part)
{
    part->degraded = 1;
    if (!b->trial_ms)
        part->since = (int64_t)time(NULL);
    b->trial_ms = b->trial_ms ? 2 * b->trial_ms : keeper_trial_ms();
    if (b->trial_ms > KEEPER_TRIALS_LATE)
        b->trial_ms = KEEPER_TRIALS_LATE;
}

/* A keeper that found it degraded does not know how long it has been put off. */
void brake_put_off_trial(struct brake *b, uint64_t now_ms)
{
    b->trial_at = now_ms + (b->trial_ms ? b->trial_ms : keeper_trial_ms());
}

bool brake_trial_is_due(const struct brake *b, const struct keeper_part *part, uint64_t now_ms)
{
    return part->degraded && !b->trying && now_ms >= b->trial_at;
}

void brake_release(struct keeper_part *part)
{
    part->degraded = 0;
    part->idle_deaths = KEEPER_BRAKE - 1;
}
