/*
 * The keeper, seen from cachefs.
 *
 * `sampan-keeper` (program/) is the smallest process of all: it holds the device, the state memfd
 * (state.h) and the control socket's listening descriptor; it starts a cachefs, and another one
 * when that dies. It reads no sample, starts no program but those it was handed as descriptors, and
 * never talks to the network.
 *
 *   sampan mount    makes the state and the report pipe, becomes (execs) the keeper
 *   sampan-keeper   starts `sampan mount …` once more; what it holds stands in the environment:
 *                   SAMPAN_KEPT=channel=N,state=N,dev=N,listen=N,report=N,refuse=0 (-1: not there)
 *   first life      opens the volume, mounts, keeper_hold(device, listener), keeper_ready()
 *   later lives     find dev >= 0: they adopt the mount as the state tells, and say ready
 *
 * Until the first ready a death is a failed start: the keeper ends with the child's code, and
 * nothing is held. After it:
 *   - the child ends after keeper_done(): the mount is gone as asked; the keeper ends too, with its
 *     code;
 *   - after keeper_next(PROGRAM): that program is started next; if it does not get ready it is the
 *     old one again (held as a descriptor, so that it may be replaced on the disk);
 *   - anything else is a death: a new life at once, or after a pause if lives die without having
 *     answered anything (0, 50, 100, 200, 400 ms). Deaths by SIGKILL or SIGTERM from outside never
 *     count, those by the kernel's out-of-memory killer do (/proc/vmstat oom_kill rose). 5 in a
 *     row: degraded: the next life is started with refuse=1 and answers EIO to all. After a minute
 *     it is killed for one that does not refuse, for what lacked (memory, tasks, a disk) may be
 *     there again; if that one ends without an answer, it is degraded as before, for twice as long,
 *     32 minutes at most. `sampan upgrade MOUNT` tries at once, `sampan umount` ends it.
 *   - no pong for hang_ms (10 s; SAMPAN_KEEPER_HANG_MS for tests) although the keeper itself ran
 *     all the time: the child is killed and replaced; that counts as a death. A program that is
 *     tried after keeper_next() must be ready within that time.
 *
 * The keeper is replaced (keeper_replace(), at an upgrade): the life starts the new one, which maps
 * the state, says KEEPER_HELD and waits. The life sends the old one KEEPER_YIELD with the end of a
 * socket; the old one sends a byte there and ends; that byte makes the new one the keeper. At no
 * moment are there two that would start a life, whoever is killed: a new one without that byte ends
 * by itself, and an old one that was not told goes on.
 *
 * The keeper dies: the channel's end says so. The cachefs carries on with its own descriptors and
 * starts a new keeper (five that end at once: it goes on without, and says so), which watches it by
 * pidfd; SIGSTOP of either for a minute harms nothing.
 * Whoever else holds device, state and listener (the node plugin asks for them with the control
 * operation "descriptors", root only) can start a keeper with keeper_start() after both are gone.
 * That is told by the state's lock: keepers and lives of one mount hand on one open file of the
 * state, which has it, and whoever else got the state has another open file. So a life that its
 * keeper started in its last moment is never joined by a second one.
 */
#ifndef SAMPAN_KEEPER_H
#define SAMPAN_KEEPER_H

#include <stdbool.h>
#include <sys/types.h>

#include "channel.h"
#include "err.h"
#include "state.h"

/* What passes from hand to hand. Numbers of descriptors, -1: none. */
struct keeper_fds {
    int state, dev, listen;
    int report; /* the pipe on which `sampan mount` waits for the first start's outcome */
};

/* Finds the program: $SAMPAN_KEEPER (tests), beside this program, or ../libexec/sampan/ from it. */
int keeper_find(char **ret_path, struct err *err);
/* The one that came with `program`: beside it, or in ../libexec/sampan/ from it. */
int keeper_beside(const char *program, char **ret_path, struct err *err);
/* A new state memfd, sealed against shrinking and growing; claimed. */
int keeper_state_make(uint32_t n_desks, uint64_t desk_bytes, int *ret_fd, struct err *err);
/* The same state through an open file of its own, without the lock. */
int keeper_state_reopen(int fd, int *ret_fd, struct err *err);
/* Takes the lock for this open file, and who inherits it. ERR_LIMIT: a keeper or a life is there.
 */
int keeper_state_claim(int fd, struct err *err);
/* Nobody has the lock where a version that knew none made the mount: *state becomes an open file of
 * our own that has it, for us and for whom we start. */
void keeper_state_claim_older(int *state);
/* Maps a whole state (sparse: what is not used takes no memory) and checks it. */
int keeper_state_map(int fd, struct keeper_state **ret, struct err *err);
/* The same layout in plain memory, for a mount without a keeper. */
int keeper_state_own(uint32_t n_desks, uint64_t desk_bytes, struct keeper_state **ret,
                     struct err *err);
void keeper_state_unmap(struct keeper_state *s); /* NULL is fine */
/*
 * The kernel copies requests into the desks. A page that is not there yet would have to be faulted
 * in, which it refuses to do for a thread that is being killed: the copy would fail and end the
 * caller's request with EIO. So before somebody reads into desks each of their pages is written
 * once, and kept in memory if we may.
 */
void keeper_desks_touch(struct keeper_state *s, uint32_t first, uint32_t n);

/*
 * Runs the keeper `program` over `argv` (what its lives see as their words; the program they run is
 * this process's own). Without `adopt` this process becomes the keeper: returns only on failure.
 * With `adopt` the keeper is started as a process of its own session that takes this one over, and
 * *ret_channel is our end of their channel.
 */
int keeper_start(const char *program, char *const argv[], const struct keeper_fds *fds, bool adopt,
                 int *ret_channel, struct err *err);

/* The same with `adopt`, for a keeper that waits for its turn (channel.h): `turn` is its end of
 * a pair of sockets. *ret_pidfd (NULL: not wanted) is set once it was started, even if it proves no
 * program. */
int keeper_follow(const char *program, char *const argv[], const struct keeper_fds *fds, int turn,
                  int *ret_channel, int *ret_pidfd, struct err *err);

/* A life's view of its keeper. */
struct keeper;
struct keeper_conf {
    /* The workers never wait for anybody: if all desks hold the same requests from one ping to the
     * next, no pong is sent. */
    bool watch_desks;
    /* The keeper was killed and a new one watches. On the link's thread; may be NULL. */
    void (*renewed)(void *arg);
    /* The keeper is gone and there is no new one (before the first ready none is tried): told once,
     * on the link's thread. */
    void (*lost)(void *arg, const struct err *why);
    void *arg;
    char *const *argv; /* of this process, for a keeper that this life starts */
};
/* *ret is NULL (and 0 returned) if this process was not started by a keeper. Takes SAMPAN_KEPT out
 * of the environment; all descriptors become close-on-exec. A state that keeper_state_check()
 * refuses is an error. */
int keeper_attach(struct keeper **ret, struct err *err);
/* Answers pings and watches the keeper from here on. `conf` is copied. */
int keeper_watch(struct keeper *k, const struct keeper_conf *conf, struct err *err);
void keeper_detach(struct keeper *k); /* ends the thread, unmaps, closes; NULL is fine */

struct keeper_state *keeper_state(struct keeper *k);
/* dev >= 0: adopt that mount. The numbers are the keeper's link's own: duplicate what you close. */
const struct keeper_fds *keeper_held(const struct keeper *k);
bool keeper_refuses(const struct keeper *k); /* degraded: answer EIO to all */
pid_t keeper_pid(const struct keeper *k);    /* 0: there is none any more */

int keeper_hold(struct keeper *k, int dev, int listen, struct err *err);
int keeper_ready(struct keeper *k, struct err *err);
/* `program`: a path. Refused if that is no program. */
int keeper_next(struct keeper *k, const char *program, struct err *err);
int keeper_done(struct keeper *k, struct err *err);
/* Another keeper takes over from the one that runs. Returns when it watches, or with an error when
 * all is as before. One caller at a time. */
int keeper_replace(struct keeper *k, const char *program, struct err *err);

/* A module's memory that outlives the life: zeroed the first time, afterwards as the last life left
 * it. Another `version` or size than before: zeroed anew. NULL only if the tail is full. Not
 * thread-safe: at start. `s` may be NULL (no keeper): plain zeroed memory for the rest of the
 * process. */
void *keeper_area(struct keeper_state *s, const char *name, uint32_t version, size_t bytes);

/* Small texts (settings, a running job) that change as a whole: two halves and a flip, so that a
 * kill leaves the old or the new one. `max` (without the NUL) is the same in every life. One writer
 * at a time. */
struct keeper_text;
struct keeper_text *keeper_text(struct keeper_state *s, const char *name, size_t max);
int keeper_text_set(struct keeper_text *t, const char *text,
                    struct err *err);                     /* ERR_LIMIT: too long */
const char *keeper_text_get(const struct keeper_text *t); /* "" at first; for NULL too */

#endif
