/*
 * A stage in memory, for tests of the front end: a few nodes, no store. A node whose name begins
 * with "slow" must be waited for: calls that may not wait give STAGE_WAIT, those that may wait
 * until fake_let_go(); a close of "slow-light…" is light, and what is about
 * "slow-trouble…" fails for the moment instead. A file "full" takes no byte. Changes are
 * counted, and a repeat (the same `unique`) changes nothing.
 */
#ifndef FAKE_STAGE_H
#define FAKE_STAGE_H

#include "stage.h"

struct stage *fake_stage(void);
void fake_free(struct stage *s);
/* All who wait go on, now and from now on. */
void fake_let_go(struct stage *s);
unsigned fake_changes(struct stage *s);
unsigned fake_writes(struct stage *s);
unsigned fake_failures(struct stage *s); /* of "slow-trouble…" */
unsigned fake_lookups(struct stage *s, uint64_t ino);
/* Another writer's change. */
void fake_news(struct stage *s, uint64_t ino, const char *name);

#endif
