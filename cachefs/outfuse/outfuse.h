/*
 * The front end of a folder that can be written: a stage (stage.h) as a mounted folder.
 *
 * It speaks the kernel's protocol itself: each request is read into shared memory that outlives
 * this process (keeper/state.h), handed to one handler, and answered once. So a new life of a
 * killed process goes on with the same mount, the same inode numbers, the same open files.
 *
 * No worker ever waits for the network: each request is first tried with what is here; what the
 * stage answers STAGE_WAIT moves to a lane, a thread that may wait, and the worker goes on. A dead
 * store so never holds up what is local.
 *
 * Signals: whoever waits for the store and is to end (SIGKILL or a signal that ends him; SIGINT,
 * SIGQUIT, SIGTERM, SIGHUP also where he handles it) gets EINTR. What he wrote stays staged, and
 * goes on being owed. Other signals that he handles wait: no timer or child makes a close() fail.
 *
 * Not used, and why: the kernel's write-back cache (a write that returned must be in the stage, a
 * full disk must be told at write(2), and with it the kernel trusts its own idea of sizes, so that
 * another node's growing log would never be seen); the kernel's remote locks (flock and fcntl work
 * between the processes of this node, by the kernel alone); hard links (an object has one key:
 * EPERM); extended attributes (ENOTSUP).
 */
#ifndef SAMPAN_OUTFUSE_H
#define SAMPAN_OUTFUSE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "err.h"
#include "json.h"
#include "stage.h"

struct log;
struct keeper_state;

/* Requests in hand: so many desks of so many bytes, for keeper_state_make(). */
#define OUTFUSE_DESKS      24u
#define OUTFUSE_DESK_BYTES ((1u << 20) + 4096u)

struct outfuse_conf {
    const char *mountpoint; /* absolute, real path */
    const char *source;     /* what /proc/mounts shows: the URI */
    bool allow_other;
    uid_t uid; /* of .sampan; the stage knows the owners of all else */
    gid_t gid;
    int dev; /* -1: mount; else the device of a mount that a dead life left: it is
                adopted (ours from outfuse_mount() on, also if that fails) */
    struct keeper_state *state; /* what outlives this life; NULL: no keeper */
    /* The program of the helper (keeper's helper.h), which tells the kernel of other writers'
     * changes. NULL: a killed process may be held by the kernel, as it waits for itself. */
    const char *helper;
    bool refuse; /* answer every request EIO; `s` is NULL then, and only an adopted mount will do */
    /* The text of .sampan/status.json and of the ioctl. */
    void (*status)(void *arg, struct bytes *json);
    void *status_arg;
    /* Tests: told of each request before it is served; NULL. */
    void (*before)(void *arg, const char *op, uint64_t ino);
    void *before_arg;
    struct log *log;
};

struct outfuse;

/* Mounts (directly as root, through fusermount3 otherwise) or adopts. Refuses a mount point that is
 * missing, not empty or mounted already. */
int outfuse_mount(struct outfuse **ret, struct stage *s, const struct outfuse_conf *conf,
                  struct err *err);
/* The device, for the keeper: stays ours. */
int outfuse_device(const struct outfuse *f);
/* Negotiates if that was not done yet, takes up what a dead life had in hand, starts to serve. */
int outfuse_start(struct outfuse *f, struct err *err);
/* Blocks until the mount is gone (umount from outside), or outfuse_stop() was called. */
void outfuse_wait(struct outfuse *f);
void outfuse_stop(struct outfuse *f); /* from any thread, not from a signal handler */
/* Takes the mount out of the tree (lazily) if it is still there: before the keeper is told that all
 * is done, so that a kill in between leaves no dead mount. */
void outfuse_detach(struct outfuse *f);
/* For a successor on the same device: stops reading it, answers what is in hand, leaves the mount
 * as it is. The caller then ends the process without outfuse_free(). */
void outfuse_leave(struct outfuse *f);
/* Unmounts if still mounted, ends the threads, frees. Lanes may still wait for the store: end that
 * first (fetch_stop()) where it may not take long. Before stage_close(). */
void outfuse_free(struct outfuse *f);

/* "mode", "mode_why" and what was asked of it. */
void outfuse_status(struct outfuse *f, struct json_writer *w);

#endif
