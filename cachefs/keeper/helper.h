/*
 * The helper: a process of ours that does for us what may wait for our own mount.
 *
 * Whoever opens a name of the mount waits for a worker, and a notification waits for a lock that a
 * reader may hold while its request waits for a worker. A thread of this process that waits so when
 * it is killed can not end before it is answered; the kernel holds the dead process, and its next
 * life would never begin. So a small process of its own does both: it may stay behind until the
 * next life answers it, and ends when it sees that its master is gone. It is started at the first
 * use, has no descriptor but the device and its end of the channel, and an empty environment.
 *
 * Without a program to start, or where none can be started, it is all done on the caller's thread.
 */
#ifndef SAMPAN_KEEPER_HELPER_H
#define SAMPAN_KEEPER_HELPER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>
#include <unistd.h>

#include "sync.h"

#define HELPER_BATCH    8 /* files of one message: a switch to the helper costs more than a name */
#define HELPER_DEPTH    2 /* messages on their way */
#define HELPER_PATH_MAX (4096 + 256)

/* A sample that the kernel shall know, or read ahead. */
struct helper_file {
    uint64_t ino, dev; /* what must be found under the path */
    uint64_t size;
    bool
        hold; /* reads nothing, and keeps it open until the next file: its pages are to be stored */
};

struct helper_batch; /* files that wait for their message */

struct helper {
    const char *program; /* NULL: none; ours */
    int device;
    struct lock lock; /* the channel; one who asks holds it until it is answered */
    int channel;      /* under lock; -1: not started */
    _Atomic int pid;
    struct helper_batch *batch;
    unsigned under_way;                   /* under lock: messages not answered yet, */
    unsigned files_under_way;             /* and the files in them */
    void (*told)(void *arg, int outcome); /* of each file: 1 done, 0 not there, or -errno */
    void *arg;
    int held; /* without a helper: the file that is held open; -1 */
};

/* A program that does nothing but `return helper_main();` when its only word is HELPER_WORD. */
#define HELPER_WORD "fuse-helper"
int helper_main(void); /* the exit code */

/* `told`: NULL where no file is ever asked for. `device` is the caller's to set, and to close. */
void helper_init(struct helper *h, const char *program, void (*told)(void *arg, int outcome),
                 void *arg);
void helper_stop(struct helper *h); /* while workers still serve: it may wait for one */

/* Asks for a file, once HELPER_BATCH are together or at the next helper_settle(). told() hears of
 * them in order, on this thread, at some later call. */
void helper_file(struct helper *h, const struct helper_file *file, const char *path);
void helper_settle(struct helper *h); /* until all files are told of */
/* Puts down what is held. */
void helper_release(struct helper *h);
/* Writes a notification to the device. Like writev(). */
ssize_t helper_notify(struct helper *h, const struct iovec *iov, int count);

#endif
