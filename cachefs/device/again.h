/* What the kernel asks a second time after a read that failed: again.c. */
#ifndef SAMPAN_DEVICE_AGAIN_H
#define SAMPAN_DEVICE_AGAIN_H

#include <stdatomic.h>
#include <stdint.h>

#include "clock.h"
#include "sync.h"

#define AGAIN_LONG_NS  (5 * NS_PER_S) /* less is no long wait */
#define AGAIN_ASKED_NS NS_PER_S       /* the second question comes at once */
#define AGAIN_KEPT     32

struct failed_read {
    uint64_t ino, off, until_ns; /* until_ns: again_note() fills it */
    uint32_t size, pid;          /* pid: as the kernel tells it; 0 where it can't */
    int error;
};

/* Zeroed, then again_init(). Any thread may call. */
struct again {
    struct lock lock; /* reads, next */
    struct failed_read reads[AGAIN_KEPT];
    unsigned next;
    atomic_uint_fast64_t until_ns; /* of the last: nobody takes the lock after it */
};

void again_init(struct again *a);
void again_destroy(struct again *a);
/* A read began at `started_ns` and fails now. */
void again_note(struct again *a, const struct failed_read *read, uint64_t started_ns,
                uint64_t now_ns);
/* What to answer to this read: an errno, told once, or 0: it is to be asked for. */
int again_error(struct again *a, uint32_t pid, uint64_t ino, uint64_t off, uint64_t now_ns);

#endif
