/*
 * Requests that kill (keeper's state.h): the keeper counts a death against what was in hand; a life
 * that comes after one is careful, absolves what it answered, and refuses what killed three times.
 */
#ifndef SAMPAN_FUSE_SUSPECTS_INTERNAL_H
#define SAMPAN_FUSE_SUSPECTS_INTERNAL_H

#include <stdbool.h>

#include "state.h"
#include "wire-internal.h"

/* NULL: nothing is held against this request. */
struct keeper_suspect *suspects_find(struct keeper_part *kept, const struct wire_in_header *h);
bool suspects_any(const struct keeper_part *kept);
/* Is anything accused and not yet proved? Then a life must be careful. */
bool suspects_open(const struct keeper_part *kept);
static inline bool suspect_is_guilty(const struct keeper_suspect *s)
{
    return s->deaths >= KEEPER_DEATHS;
}
/* It was answered: nothing is held against it any more. A guilty one stays. */
void suspects_absolve(struct keeper_suspect *s);
void suspects_absolve_all(struct keeper_part *kept);

const char *wire_op_name(uint32_t opcode);

#endif
