/*
 * A cachefs for tests. The test program itself is what the keeper starts: before any test runs, it
 * sees that it is a life and does what the text "script" says, the part between the commas of its
 * number (the last part serves all later lives):
 *
 *   r  hold (in the first life) and be ready        a  answer a request
 *   q  have a READ of inode 7 at 4096 in hand       Q  have one of inode 8 in hand, in a slot
 *   D  have something on every desk, for ever
 *   s  die of SIGSEGV    k  of SIGKILL    e  end with code 3    x  end with code 0
 *   d  say done, and end with code 0                h  stop (SIGSTOP)
 *   n  ask for /bin/true to be next                 m  ask for this program to be next
 *   w  wait for SIGTERM, then as d
 *   R  have another keeper take over             F  have a program try that which is none
 *   Y  start one that is to follow, and never tell the one there is
 *   l  send an empty message with a descriptor, and end with code 0 when nobody holds that any more
 */
#ifndef TEST_KEEPER_LIFE_H
#define TEST_KEEPER_LIFE_H

#include <stdatomic.h>

#include "keeper.h"

#define LIVES_NOTED 64
#define SCRIPT_MAX  1000

/* The area "lives": what each life saw. */
struct life_note {
    _Atomic int pid;
    int refuses, has_dev;
    uint64_t at_ms;
};
struct life_notes {
    struct life_note of[LIVES_NOTED]; /* by number, from 1 */
};

uint64_t life_now_ms(void);

#endif
