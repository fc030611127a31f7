/*
 * The front end: a volume as a mounted folder (libfuse3 low level).
 *
 * Mode "no_open": OPEN and OPENDIR are answered ENOSYS, so that a page-cache hit makes no round
 * trip at all; timeouts last a day; a version switch invalidates only what changed. nodeid = the
 * sample's permanent id (root 1), so the daemon keeps no inode table. Each handler is: find the
 * inode, one call into the volume, one reply; a cold READ parks its request instead of a thread.
 * probe.c decides the mode from what the kernel offers and says why; SAMPAN_FUSE_MASK (tests) hides
 * offers: a comma list of no_open, no_opendir, readdirplus, async_read, passthrough, notify, ioctl,
 * max_pages and resend.
 *
 * A life after another one (dev >= 0 and a state) takes up what the dead one had in hand: the
 * kernel sends it once more, or, where it can't, it lies in the state (keeper's state.h).
 */
#ifndef SAMPAN_FRONTEND_H
#define SAMPAN_FRONTEND_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "err.h"
#include "json.h"
#include "volume.h"

struct log;
struct keeper_state;

struct frontend_conf {
    const char *mountpoint; /* absolute, real path */
    uid_t uid;
    gid_t gid;
    bool allow_other;
    bool shards;            /* --profile shards: OPEN is used, passthrough where it can be had */
    const char *shards_dir; /* whole objects for passthrough lie here; NULL: no passthrough */
    uint64_t shards_limit;  /* bytes of everything in shards_dir, never exceeded */
    unsigned connections;   /* sizes max_background */
    uint64_t push_window;   /* bytes pushed ahead at most; 0: automatic */
    bool direct;            /* `.sampan` has the folder `direct` */
    /* -1: mount; else the device of a mount that a dead life left: it is adopted (ours from
     * frontend_mount() on, also if that fails), and goes on in the mode it has. */
    int dev;
    /* What outlives this life, with desks as frontend_desks() says; NULL: no keeper. */
    struct keeper_state *state;
    /* The program of the helper (keeper's helper.h). NULL: a killed process may be held by the
     * kernel, as it waits for itself. */
    const char *helper;
    /* Answer every request EIO. For an adopted mount alone; the volume is NULL then. */
    bool refuse;
    /* The text of .sampan/status.json and of the ioctl. */
    void (*status)(void *arg, struct bytes *json);
    void *status_arg;
    /* Takes a setting ("sampler", "epoch") that came through the mount itself, until
     * frontend_detach() returns. NULL: the volume's own. */
    int (*set)(void *arg, const char *key, const char *value, struct err *err);
    void *set_arg;
    struct log *log;
};

struct frontend;

/* Mounts (directly as root, through fusermount3 otherwise) and negotiates. The mount is usable once
 * frontend_start() serves. Refuses a mount point that is missing, not empty or mounted already. */
int frontend_mount(struct frontend **ret, struct volume *v, const struct frontend_conf *conf,
                   struct err *err);
/* The device, for the keeper: stays ours. */
int frontend_device(const struct frontend *f);
/* What a state must offer this front end: keeper_state_make(). */
void frontend_desks(unsigned *ret_n, uint64_t *ret_bytes);
/* Starts the serving threads; returns when the first request (INIT) is answered. */
int frontend_start(struct frontend *f, struct err *err);
/* Blocks until the mount is gone (umount from outside), or frontend_stop() was called. */
void frontend_wait(struct frontend *f);
void frontend_stop(struct frontend *f); /* from any thread, not from a signal handler */
/* Takes the mount out of the tree (lazily) if it is still there: before the keeper is told that all
 * is done, so that a kill in between leaves no dead mount. */
void frontend_detach(struct frontend *f);
/* For a successor on the same device: stops reading it, waits at most a second for the answers to
 * what is in hand, leaves the mount as it is. The caller then ends the process without
 * frontend_free(): our own threads may be waiting for answers that only the successor gives. */
void frontend_leave(struct frontend *f);
/* Unmounts if still mounted, frees. */
void frontend_free(struct frontend *f);

const char *frontend_mode(const struct frontend *f); /* "no_open+push" */
const char *frontend_why(const struct frontend *f);  /* what was tried, and why it is this mode */
void frontend_status(struct frontend *f, struct json_writer *w); /* "mode", "mode_why", "push" … */
/* Drops the kernel's pages of a sample (clear, evict). */
void frontend_drop_pages(struct frontend *f, uint64_t id);

#endif
