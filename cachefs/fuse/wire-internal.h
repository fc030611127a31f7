/*
 * The few pieces of the kernel's FUSE protocol (7.45) that are handled here and not by libfuse.
 * Declared anew because the system's header may be older than the kernel: what the kernel does not
 * know it ignores.
 */
#ifndef SAMPAN_FUSE_WIRE_INTERNAL_H
#define SAMPAN_FUSE_WIRE_INTERNAL_H

#include <stdint.h>
#include <sys/ioctl.h>

enum {
    WIRE_FORGET = 2,
    WIRE_OPEN = 14,
    WIRE_READ = 15,
    WIRE_RELEASE = 18,
    WIRE_FLUSH = 25,
    WIRE_INIT = 26,
    WIRE_INTERRUPT = 36,
    WIRE_DESTROY = 38,
    WIRE_BATCH_FORGET = 42,
}; /* opcodes */
enum { WIRE_NOTIFY_STORE = 4, WIRE_NOTIFY_RESEND = 7 };

/* Of `unique`: the kernel sends this request once more. The answer carries it too. */
#define WIRE_UNIQUE_RESEND (1ull << 63)

struct wire_in_header {
    uint32_t len, opcode;
    uint64_t unique, nodeid;
    uint32_t uid, gid, pid;
    uint16_t extensions, padding;
};

struct wire_out_header {
    uint32_t len;
    int32_t error; /* negative errno; of a notification (unique 0) its code */
    uint64_t unique;
};

struct wire_read_in {
    uint64_t fh, offset;
    uint32_t size, read_flags;
    uint64_t lock_owner;
    uint32_t flags, padding;
};

struct wire_store_out {
    uint64_t nodeid, offset;
    uint32_t size, padding;
};

#define WIRE_ASYNC_READ       (1u << 0)
#define WIRE_DO_READDIRPLUS   (1u << 13)
#define WIRE_READDIRPLUS_AUTO (1u << 14)
#define WIRE_NO_OPEN          (1u << 17)
#define WIRE_MAX_PAGES        (1u << 22)
#define WIRE_NO_OPENDIR       (1u << 24)
#define WIRE_INIT_EXT         (1u << 30)
/* Of flags2. */
#define WIRE2_DIRECT_IO_MMAP (1u << 4)
#define WIRE2_PASSTHROUGH    (1u << 5)
#define WIRE2_HAS_RESEND     (1u << 7)

struct wire_init_in {
    uint32_t major, minor, max_readahead, flags;
    uint32_t flags2; /* there if flags has INIT_EXT */
    uint32_t unused[11];
};

struct wire_init_out {
    uint32_t major, minor, max_readahead, flags;
    uint16_t max_background, congestion_threshold;
    uint32_t max_write, time_gran;
    uint16_t max_pages, map_alignment;
    uint32_t flags2, max_stack_depth;
    uint16_t request_timeout, unused[11];
};

_Static_assert(sizeof(struct wire_in_header) == 40, "layout of the protocol");
_Static_assert(sizeof(struct wire_out_header) == 16, "layout of the protocol");
_Static_assert(sizeof(struct wire_read_in) == 40, "layout of the protocol");
_Static_assert(sizeof(struct wire_init_in) == 64, "layout of the protocol");
_Static_assert(sizeof(struct wire_init_out) == 64, "layout of the protocol");

/* An answer to OPEN with a backing file: the flag, and the id in what used to be padding. */
#define WIRE_FOPEN_DIRECT_IO   (1u << 0)
#define WIRE_FOPEN_KEEP_CACHE  (1u << 1)
#define WIRE_FOPEN_NOFLUSH     (1u << 5)
#define WIRE_FOPEN_PASSTHROUGH (1u << 7)
struct wire_open_out {
    uint64_t fh;
    uint32_t open_flags;
    int32_t backing_id;
};

struct wire_backing_map {
    int32_t fd;
    uint32_t flags;
    uint64_t padding;
};
#define WIRE_IOC_BACKING_OPEN  _IOW(229, 1, struct wire_backing_map)
#define WIRE_IOC_BACKING_CLOSE _IOW(229, 2, uint32_t)

#endif
