/*
 * A mount as such, whatever it serves: making it (directly as root, through fusermount3 otherwise)
 * and ending it from any process, also when nobody serves it any more.
 */
#ifndef SAMPAN_DEVICE_H
#define SAMPAN_DEVICE_H

#include <stdbool.h>
#include <sys/types.h>

#include "buf.h"
#include "err.h"
#include "mountinfo.h"

#define MOUNT_MAX_READ (1u << 20)

struct log;

struct mount_conf {
    const char *mountpoint; /* absolute, real path */
    const char *source;     /* what /proc/mounts shows */
    bool allow_other;
    bool writable;
};

/* Refuses a mount point that is missing, not empty or mounted already. */
int mount_check_point(const char *path, struct err *err);
/* Mounts and returns the device's descriptor. */
int mount_fuse(const struct mount_conf *conf, int *ret_dev, struct err *err);
/* The absolute path without symbolic links; the last part may be a dead mount. */
int mount_real_path(const char *path, char ret[4096], struct err *err);
/* Raises the kernel's readahead of the mount (root only; quiet if it can't be). */
void mount_readahead(const struct mount_row *row, unsigned kib);
/* Is one of our mounts there, whose server is gone? The path is taken as it is. */
bool mount_is_dead(const char *path);
/* For a mount that nobody will serve again. If it is silent instead of dead, a process holds the
 * device that waits for a lock of the kernel (keeper's helper.h), while who has the lock waits for
 * an answer: the kernel is told to fail it all. Root may, and who mounted it, where
 * /sys/fs/fuse/connections is mounted. */
void mount_make_dead(const char *path);
/* Unmounts a mount point from any process, a dead one's too. Busy: ERR_LIMIT naming the users. */
int mount_end(const char *mountpoint, bool lazy, struct err *err);
/* Where the file system `dev` is mounted yet, in any mount namespace that this user may look at:
 * "at /b; at /a for kubelet (pid 7)", one for each namespace. False: nowhere. */
bool mount_elsewhere(dev_t dev, struct bytes *ret);
/* Which file system is mounted there now; 0: none is. Raises its readahead as well. */
dev_t mount_learn(const char *mountpoint, unsigned readahead_kib);
/* If it is mounted (`mounted`, false then): lazily, and only the mount that `dev` says (0: not
 * learnt yet): one that took its place is not ours to end. What fails is a warning. */
void mount_leave(bool *mounted, const char *mountpoint, dev_t dev, struct log *log);
/* Ends the connection, unless a keeper holds it too: the kernel fails every request from here on.
 * The number of the descriptor stays taken, for replies that are still to come. */
void mount_hang_up(int dev);

#endif
