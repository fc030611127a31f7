/*
 * The crew of a mount: the few threads that read its device, each one request at a time into a desk
 * of the state. The same for every front end; what a request means is the front end's own.
 *
 * Careful (state.h): after a death that some request may have caused, one worker alone serves, one
 * request at a time, until all that was in hand then has been answered. What ended three lives is
 * refused (suspects.h).
 *
 * Life: crew_init() .. crew_board() .. crew_start_careful() (later lives) .. crew_start() ..
 * crew_wait() .. crew_stop() .. crew_join() .. crew_destroy().
 */
#ifndef SAMPAN_KEEPER_CREW_H
#define SAMPAN_KEEPER_CREW_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>

#include "err.h"
#include "log.h"
#include "suspects.h"
#include "sync.h"

#define CREW_WORKERS 4u

/* What a front end does, on the worker's thread, which cannot be cancelled meanwhile. */
struct crew_ops {
    /* The worker's first desk. */
    uint32_t (*desk)(void *arg, unsigned number);
    /* Serves what lies on the desk; the desk to go on with. */
    uint32_t (*serve)(void *arg, uint32_t desk);
    /* Is all answered that was served so far? NULL: it always is. */
    bool (*rested)(void *arg);
};

struct crew {
    const struct crew_ops *ops;
    void *arg;
    struct log *log;
    int dev;
    struct keeper_state *state;

    bool has_suspects;   /* set before the workers start */
    atomic_bool careful; /* false is stored under lock */
    atomic_bool stopping;
    struct lock lock;
    struct cond changed;
    unsigned running; /* under lock */
    bool wait_over;   /* under lock */
    unsigned n;
    struct crew_worker {
        struct crew *crew;
        unsigned number;
        pthread_t thread;
    } workers[CREW_WORKERS];
};

void crew_init(struct crew *c, const struct crew_ops *ops, void *arg, struct log *log);
void crew_destroy(struct crew *c);
/* What all below work on; neither is the crew's to close. */
void crew_board(struct crew *c, int dev, struct keeper_state *state);

/* The next request, into a desk: its length, or a negative errno. */
ssize_t crew_receive(struct crew *c, uint32_t desk);
/* The kernel sends again what was not answered. 0 or a negative errno. */
int crew_ask_again(struct crew *c);

/* A later life, before its workers start: careful, if something is accused. */
void crew_start_careful(struct crew *c);
/* On the one worker that serves, or before there is any. */
void crew_end_careful(struct crew *c);
static inline bool crew_is_careful(const struct crew *c)
{
    return atomic_load_explicit(&c->careful, memory_order_relaxed);
}
/* What is held against this request, or NULL. Any thread, as the next one. */
struct keeper_suspect *crew_suspect(struct crew *c, const struct keeper_request *r);
/* It ended so many lives that it is to be answered EIO. */
bool crew_refuses(struct crew *c, const struct keeper_request *r);

/* At most CREW_WORKERS. */
int crew_start(struct crew *c, unsigned n, struct err *err);
/* Until the mount is gone, no worker is left, or crew_end_wait(). */
void crew_wait(struct crew *c);
void crew_end_wait(struct crew *c);
/* They end in their wait for a request; what they serve they serve to its end. */
void crew_stop(struct crew *c);
void crew_join(struct crew *c);

#endif
