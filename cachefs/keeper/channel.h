/*
 * What keeper and cachefs say to each other over their channel, a SOCK_SEQPACKET pair: one struct a
 * message, descriptors beside it. libc only.
 */
#ifndef SAMPAN_KEEPER_CHANNEL_H
#define SAMPAN_KEEPER_CHANNEL_H

#include <stdint.h>

enum keeper_word {
    KEEPER_PING = 1, /* to cachefs: say PONG if you make progress */
    KEEPER_PONG,
    KEEPER_HOLD,  /* two descriptors: the device and the listener */
    KEEPER_READY, /* this life serves */
    KEEPER_NEXT,  /* one descriptor: the program to start when this life has ended */
    KEEPER_DONE,  /* the mount is gone as asked: let go of it, and end with me */
};

struct keeper_message {
    uint32_t word;
    uint32_t unused;
};

/* The keeper's own arguments: this text, then the cachefs's words. -1: none. `life`: the pidfd of a
 * cachefs that runs already, with which it shares `channel`. */
#define KEEPER_ARGS_FORMAT "program=%d,state=%d,dev=%d,listen=%d,report=%d,channel=%d,life=%d"
/* What each life finds in its environment. */
#define KEEPER_ENV        "SAMPAN_KEPT"
#define KEEPER_ENV_FORMAT "channel=%d,state=%d,dev=%d,listen=%d,report=%d,refuse=%d"

/* One byte on the report pipe: the mount is ready. Anything longer says why not. */
#define KEEPER_REPORT_READY "R"

#define KEEPER_PING_MS 2000
#define KEEPER_HANG_MS 10000
#define KEEPER_BRAKE   5 /* lives in a row that answered nothing */

#endif
