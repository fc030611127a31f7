/* Between direct.c (reading) and direct-ask.c (learning where). */
#ifndef SAMPAN_LOADER_DIRECT_ASK_INTERNAL_H
#define SAMPAN_LOADER_DIRECT_ASK_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>

#include "buf.h"
#include "direct-internal.h"
#include "sync.h"

#define PACKS_MAX     4000 /* below the owner's limit of leases for one connection */
#define PLACE_UNKNOWN 0u   /* pack 0 is never used */
#define PLACE_NEVER   UINT32_MAX

struct place {
    _Atomic uint32_t pack; /* below the others are true as long as a hand holds this pack */
    _Atomic bool checked;  /* its sum was compared once */
    uint32_t len, crc;
    uint64_t offset;
};

struct pack {
    const unsigned char *map; /* NULL: free */
    size_t size;
    dev_t dev;
    ino_t ino;
    uint64_t lease;
};

struct direct_hand {
    _Atomic uint32_t pack; /* in use, or PLACE_UNKNOWN */
    struct place *place;
    struct direct_hand *next;
};

struct direct {
    const struct file_list *files;
    size_t n;
    int dir; /* the mount's root: the loader's */
    char *socket;
    bool verify_always;
    struct place *places;
    struct pack packs[PACKS_MAX]; /* written by the asking thread, while no place names it */
    pthread_t thread;

    /* The asking thread's alone. */
    char *version, *ids;
    struct bytes give_back; /* leases, as a list of numbers */

    struct lock lock;
    struct cond wake, asked;
    /* below: guarded by lock */
    struct direct_hand *hands;
    int sock; /* -1: none */
    bool stop, epoch_began, asked_all;
    bool tell, telling, tell_failed; /* `epoch` is to be told the mount, is just told; one was
                                        refused */
    uint64_t epoch;
    int64_t known; /* less than 0 while a place was found bad before it is counted */
    uint64_t revoked;
    char why[256];
};

/* direct.c: no place names it any more, and no hand. */
void pack_forget(struct direct *d, uint32_t pack);

#endif
