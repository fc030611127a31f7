/*
 * How many requests below readers at once are worth while. Pure.
 *
 * On a narrow line more of them move nothing more: they share it, crowd each other's packets out,
 * and the last ones crawl when all others are done. So it begins with a few and doubles while that
 * moves at least a tenth more bytes a second; a doubling that did not is taken back, and tried
 * again after a while. Only rounds count in which the limit held requests back.
 */
#ifndef SAMPAN_FETCH_PACE_INTERNAL_H
#define SAMPAN_FETCH_PACE_INTERNAL_H

#include <stdbool.h>
#include <stdint.h>

#define PACE_START 32
#define PACE_HOLD  64 /* rounds until a doubling is tried again */

struct pace {
    unsigned limit; /* requests at once */
    unsigned most;  /* never more; the caller's */
    unsigned hold;  /* rounds until the next trial */
    bool trial;     /* `limit` was doubled, and it is not known yet what for */
    double rate;    /* bytes a nanosecond before the trial */
    /* The round: begins once as many as may be under way have landed since the limit changed, and
     * ends after as many again. */
    unsigned to_settle, landed;
    uint64_t began_ns, began_bytes;
};

void pace_init(struct pace *p);
/* One has landed, after `bytes` were received in all, those of unfinished ones too. `bound`: more
 * wait, and only the limit holds them back. */
void pace_landed(struct pace *p, uint64_t bytes, uint64_t now_ns, bool bound);

#endif
