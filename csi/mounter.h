/*
 * What the driver does to the machine: programs run, mounts looked at, made and undone. The real
 * one is below; tests have one in memory.
 *
 * Every member may be called from many threads at once; one path is never in two calls at a time.
 */
#ifndef SAMPAN_CSI_MOUNTER_H
#define SAMPAN_CSI_MOUNTER_H

#include <stdbool.h>
#include <stdint.h>

#include "buf.h"
#include "err.h"
#include "log.h"

struct mount_look {
    bool mounted; /* something is mounted on the path */
    bool ours;    /* and it is one of Sampan's */
    uint64_t dev; /* which file system: binds of one mount have the same */
};

/* Processes behind a mount, as the register of mounts says; 0: none. */
struct mount_serving {
    bool alive; /* somebody serves, or a keeper is about to start somebody */
    int pid, keeper_pid;
};

#define MOUNT_FDS 3

/* How much lies in a file system, as statfs tells. */
struct mount_usage {
    int64_t bytes_total, bytes_used, bytes_free;
    int64_t files_total, files_used, files_free;
};

struct mounter;
struct mounter_ops {
    /* Runs `sampan` with these words (argv[0] = "sampan", NULL at the end) until `deadline_ns`. Its
     * output lands in `out` (may be NULL). A failure is the last line that it said, with the class
     * of its exit code; no answer in time is ETIMEDOUT, and the program is ended. */
    int (*run)(struct mounter *m, const char *const *argv, uint64_t deadline_ns, struct bytes *out,
               struct err *err);
    /* Never asks the file system behind the path: a dead one cannot make it wait. */
    int (*look)(struct mounter *m, const char *path, struct mount_look *ret, struct err *err);
    /* Who serves the mount of a set. */
    void (*serving)(struct mounter *m, const char *mountpoint, struct mount_serving *ret);
    /* Device, state and listener of a mount that is served: who has them can revive it. */
    int (*hold)(struct mounter *m, const char *mountpoint, int ret_fds[MOUNT_FDS], struct err *err);
    /* Starts keeper and owner again on such descriptors after both were killed. */
    int (*revive)(struct mounter *m, const int fds[MOUNT_FDS], uint64_t deadline_ns,
                  struct err *err);
    /* Shows `from` at `to` as well. Read-only from the first moment, if asked for. */
    int (*bind)(struct mounter *m, const char *from, const char *to, bool read_only,
                struct err *err);
    /* Takes the topmost mount off the path; a busy one leaves the tree now, and ends with its last
     * user. Nothing is mounted there: fine. */
    int (*unbind)(struct mounter *m, const char *path, struct err *err);
    int (*usage)(struct mounter *m, const char *path, struct mount_usage *ret, struct err *err);
    /* Does a process of that pod see the file system `dev`, and it is one of Sampan's? Of pods
     * whose processes are not to be seen from here (no --host): false. */
    bool (*pod_sees)(struct mounter *m, const char *pod_uid, uint64_t dev);
    /* Gives the folder to the group: it may write there, and what it makes there is its own. */
    int (*own)(struct mounter *m, const char *path, int64_t gid, struct err *err);
};
struct mounter {
    const struct mounter_ops *ops;
};

struct mounter_conf {
    const char *program;   /* path of `sampan` */
    const char *host_root; /* "/proc/1/root": programs run in the host's namespaces and a cgroup of
                              their own; "": here */
    const char *cgroup;    /* name of that cgroup */
    struct log *log;
};
int mounter_real(struct mounter **ret, const struct mounter_conf *conf, struct err *err);
void mounter_free(struct mounter *m);

#endif
