/*
 * Touching the pages of a mapped file. A page that the disk cannot deliver, or that lies beyond the
 * end of a file somebody cut, raises SIGBUS: inside guard_run() that is a false.
 */
#ifndef SAMPAN_BASE_GUARD_H
#define SAMPAN_BASE_GUARD_H

#include <stdbool.h>

/* Before the first guard_run() of the process; again is nothing. */
void guard_install(void);
/* Runs fn(arg); false: a mapping it touched could not be read or written (SIGBUS). fn may hold
 * nothing that needs releasing. */
bool guard_run(void (*fn)(void *arg), void *arg);

#endif
