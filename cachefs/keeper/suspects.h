/*
 * Requests that kill (state.h): the keeper counts a death against what was in hand; a life that
 * comes after one is careful, absolves what it answered, and refuses what killed three times. Works
 * on the keeper's table alone, so it is the same for every front end.
 *
 * Threads: a request is absolved by whoever answered it; the others may look at any time.
 */
#ifndef SAMPAN_KEEPER_SUSPECTS_H
#define SAMPAN_KEEPER_SUSPECTS_H

#include <stdbool.h>

#include "buf.h"
#include "json.h"
#include "state.h"

/* NULL: nothing is held against this request, which is whole where it lies, or cut to what a slot
 * holds. */
struct keeper_suspect *suspects_find(struct keeper_part *kept, const struct keeper_request *r);
bool suspects_any(const struct keeper_part *kept);
/* Is anything accused and not yet proved? Then a life must be careful. */
bool suspects_open(const struct keeper_part *kept);
static inline bool suspect_is_guilty(const struct keeper_suspect *s)
{
    return s->deaths >= KEEPER_DEATHS;
}
/* It was answered: nothing is held against it any more. A guilty one stays. NULL is fine. */
void suspects_absolve(struct keeper_suspect *s);
void suspects_absolve_all(struct keeper_part *kept);

/* "poisoned": [{"path","id","op","offset","deaths"}]: those that are refused. path_of appends the
 * path of an inode, or nothing. */
void suspects_status(const struct keeper_part *kept,
                     void (*path_of)(void *arg, uint64_t ino, struct bytes *ret), void *arg,
                     struct json_writer *w);

/* "read"; "other" for what has no name here. */
const char *suspect_op_name(uint32_t opcode);

#endif
