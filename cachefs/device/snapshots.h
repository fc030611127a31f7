/*
 * `.sampan` in the root of a mount: `status.json`, a text of its own for whoever looks it up, and
 * where the mount offers its packs to those who see nothing else of the machine, the empty folder
 * `direct`, on which the folder of that socket (DIRECT_SOCKET) is to be mounted.
 */
#ifndef SAMPAN_SNAPSHOTS_H
#define SAMPAN_SNAPSHOTS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "sync.h"

/* Numbers of inodes from here on are our own. */
#define INO_CONTROL_DIR  (1ull << 62)
#define INO_DIRECT_DIR   (INO_CONTROL_DIR + 1)
#define INO_SNAPSHOTS    (INO_CONTROL_DIR + 16)
#define CONTROL_DIR_NAME ".sampan"
#define STATUS_NAME      "status.json"
#define DIRECT_DIR_NAME  "direct"
#define SNAPSHOTS_MAX    256

static inline bool ino_is_ours(uint64_t ino)
{
    return ino >= INO_CONTROL_DIR;
}
static inline bool ino_is_snapshot(uint64_t ino)
{
    return ino >= INO_SNAPSHOTS;
}

/*
 * Snapshots of the status text: one for each LOOKUP of status.json, so that what a reader sees
 * never changes under it. Forgotten by the kernel's FORGET; the oldest goes when the table is full.
 * The newest lie in memory that outlives the process as well: a reader that looked up before a
 * restart reads the text it was promised after it.
 */
#define SNAPSHOTS_KEPT     32
#define SNAPSHOT_KEPT_TEXT (32u << 10) /* a longer one ends with its process */

struct kept_snapshot {
    _Atomic uint64_t ino; /* stored last; 0: nothing */
    uint64_t lookups, len;
    int64_t made_ns;
};
/* An area of the keeper's state, zeroed at first. What is not used takes no memory. */
struct kept_snapshots {
    _Atomic uint64_t next; /* ino of the next one; 0: none yet */
    struct kept_snapshot of[SNAPSHOTS_KEPT];
    char texts[SNAPSHOTS_KEPT][SNAPSHOT_KEPT_TEXT];
};
#define SNAPSHOTS_KEPT_VERSION 1

struct snapshot {
    uint64_t ino; /* 0: the slot is free */
    uint64_t lookups;
    char *text;
    size_t len;
    int64_t made_ns;
    int pid;   /* who looked it up first */
    bool read; /* its text was read */
};
struct snapshots {
    struct lock lock;
    uint64_t next;               /* ino of the next one */
    struct kept_snapshots *kept; /* NULL: none outlives the process */
    struct snapshot slots[SNAPSHOTS_MAX];
};
void snapshots_init(struct snapshots *s);
/* Takes in what an earlier process left there, and notes there what is added. So numbers go on from
 * the last one: a text of another process is never taken for one of ours. Before the first one is
 * added. */
void snapshots_keep(struct snapshots *s, struct kept_snapshots *kept);
void snapshots_destroy(struct snapshots *s);
/* Takes `text` over and returns its inode number, looked up once. */
uint64_t snapshots_add(struct snapshots *s, char *text, size_t len, int pid);
/* A process that looks twice before it reads (cp: stat, then open) gets the same one: its number,
 * looked up once more, or 0. */
uint64_t snapshots_again(struct snapshots *s, int pid);
void snapshots_forget(struct snapshots *s, uint64_t ino, uint64_t lookups);
/* Copies at most `size` bytes from `off`. -1: no such snapshot (any more). `out` may be NULL. */
ssize_t snapshots_read(struct snapshots *s, uint64_t ino, uint64_t off, void *out, size_t size,
                       struct snapshot *ret_about);

#endif
