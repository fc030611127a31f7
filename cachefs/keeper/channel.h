/*
 * What keeper and cachefs say to each other over their channel, a SOCK_SEQPACKET pair: one struct a
 * message, descriptors beside it. libc only.
 */
#ifndef SAMPAN_KEEPER_CHANNEL_H
#define SAMPAN_KEEPER_CHANNEL_H

#include <stdint.h>
#include <stdlib.h>

enum keeper_word {
    KEEPER_PING = 1, /* to cachefs: say PONG if you make progress */
    KEEPER_PONG,
    KEEPER_HOLD,  /* two descriptors: the device and the listener */
    KEEPER_READY, /* this life serves */
    KEEPER_NEXT,  /* one descriptor: the program to start when this life has ended */
    KEEPER_DONE,  /* the mount is gone as asked: let go of it, and end with me */
    KEEPER_HELD,  /* to cachefs, from a keeper that waits for its turn: I hold all */
    KEEPER_YIELD, /* one descriptor: say there that it is its turn, and end */
};

struct keeper_message {
    uint32_t word;
    uint32_t unused;
};

/* The keeper's own arguments: this text, then the cachefs's words. -1: none. `life`: the pidfd of a
 * cachefs that runs already, with which it shares `channel`. `turn`: a socket whose other end the
 * keeper before it gets with KEEPER_YIELD; until a byte comes there, that one is the keeper. */
#define KEEPER_ARGS_FORMAT \
    "program=%d,state=%d,dev=%d,listen=%d,report=%d,channel=%d,life=%d,turn=%d"
/* What each life finds in its environment. */
#define KEEPER_ENV        "SAMPAN_KEPT"
#define KEEPER_ENV_FORMAT "channel=%d,state=%d,dev=%d,listen=%d,report=%d,refuse=%d"

/* One byte on the report pipe: the mount is ready. Anything longer says why not. */
#define KEEPER_REPORT_READY "R"

#define KEEPER_PING_MS 2000
#define KEEPER_HANG_MS 10000
/* Milliseconds that the environment says; tests have other patience. */
static inline uint64_t keeper_ms_of(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    long ms = text ? strtol(text, NULL, 10) : 0;
    return ms >= 100 && ms <= 600000 ? (uint64_t)ms : otherwise;
}

/* What says nothing for so long hangs. */
static inline uint64_t keeper_hang_ms(void)
{
    return keeper_ms_of("SAMPAN_KEEPER_HANG_MS", KEEPER_HANG_MS);
}

#define KEEPER_BRAKE       5 /* lives in a row that answered nothing */
#define KEEPER_TRIAL_MS    60000
#define KEEPER_TRIALS_LATE (32 * 60000)
/* After so long a degraded mount is tried for the first time. */
static inline uint64_t keeper_trial_ms(void)
{
    return keeper_ms_of("SAMPAN_KEEPER_TRIAL_MS", KEEPER_TRIAL_MS);
}

#endif
