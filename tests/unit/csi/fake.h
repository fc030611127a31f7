/*
 * A machine in memory for tests of the CSI services: programs run, mounts made, all in one table
 * that outlives the processes which change it (it is shared memory), as the kernel's outlives a
 * plugin.
 *
 * Calls may come from many threads. Each change counts as a step; at step `die_at` the process ends
 * on the spot.
 */
#ifndef SAMPAN_TEST_CSI_FAKE_H
#define SAMPAN_TEST_CSI_FAKE_H

#include <stdatomic.h>

#include "mounter.h"
#include "node.h"
#include "service.h"

#define FAKE_MOUNTS 64
#define FAKE_DIED   86

struct fake_mount {
    char path[256]; /* "": free */
    uint64_t dev;
    bool read_only;
};
struct fake {
    struct fake_mount mounts[FAKE_MOUNTS];
    struct fake_owner {
        uint64_t dev; /* 0: free */
        char mountpoint[256];
    } served[FAKE_MOUNTS], lost[FAKE_MOUNTS];
    uint64_t last_dev;
    _Atomic int step;      /* so many changes so far */
    int die_at;            /* 0: never */
    int full_at;           /* from then on no file takes a byte (SIGXFSZ is ignored); 0: never */
    enum err_class refuse; /* what every `sampan mount` and work on a store says; 0: it works */
    bool late;             /* they take longer than they may */
    bool revives;          /* what was lost goes on with its descriptors */
    bool blind;            /* no mount can be looked at */
    atomic_bool frozen;    /* none says how much it holds */
    _Atomic int asked;     /* so many calls asked for that */
    uint64_t deadline_ns;  /* of the last program */
    int busy;              /* so many say "cache folder in use" first */
    int copied;            /* so many `sampan umount` end no owner: another namespace has a copy */
    int mounted, unmounted, upgraded; /* programs run so far */
    int held;                         /* so many took the descriptors of a mount */
    int revived;                      /* so many tried to go on with them */
    char words[2048];                 /* of the last program */
    enum err_class own_refuse;        /* what the next change of a root says; 0: it works */
    uint64_t owned_dev;               /* whose root was given to a group last, */
    int64_t owned_by;                 /* which one, */
    int held_before;                  /* and how many had taken descriptors of mounts by then */
    char pod_uid[64];                 /* a pod with processes, */
    uint64_t pod_dev;                 /* and the one mount that they see */
};

/* The machine of this test; zeroed. */
struct fake *fake_new(void);
struct mounter *fake_mounter(struct fake *f);
size_t fake_count(const struct fake *f);
const struct fake_mount *fake_at(const struct fake *f, const char *path);
void fake_lose(struct fake *f);                     /* every daemon and keeper is killed */
void fake_umount(struct fake *f, const char *path); /* somebody else does, lazily */
void fake_step(void *fake, const char *what);

#endif
