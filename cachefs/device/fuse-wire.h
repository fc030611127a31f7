/*
 * The kernel's FUSE protocol, as far as the front ends speak it by themselves: what the kernel
 * sends, and what it takes for an answer. The read-only one leaves most of it to libfuse.
 * Declared here because a system's header may be older than its kernel (what the kernel does not
 * know it ignores), and because its field names collide with functions that this project bans.
 */
#ifndef SAMPAN_DEVICE_WIRE_H
#define SAMPAN_DEVICE_WIRE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/ioctl.h>

#define WIRE_MAJOR 7
#define WIRE_MINOR 38 /* that the front end of writable mounts answers INIT with */

enum wire_opcode {
    WIRE_LOOKUP = 1,
    WIRE_FORGET = 2,
    WIRE_GETATTR = 3,
    WIRE_SETATTR = 4,
    WIRE_READLINK = 5,
    WIRE_SYMLINK = 6,
    WIRE_MKNOD = 8,
    WIRE_MKDIR = 9,
    WIRE_UNLINK = 10,
    WIRE_RMDIR = 11,
    WIRE_RENAME = 12,
    WIRE_LINK = 13,
    WIRE_OPEN = 14,
    WIRE_READ = 15,
    WIRE_WRITE = 16,
    WIRE_STATFS = 17,
    WIRE_RELEASE = 18,
    WIRE_FSYNC = 20,
    WIRE_GETXATTR = 22,
    WIRE_FLUSH = 25,
    WIRE_INIT = 26,
    WIRE_OPENDIR = 27,
    WIRE_READDIR = 28,
    WIRE_RELEASEDIR = 29,
    WIRE_FSYNCDIR = 30,
    WIRE_CREATE = 35,
    WIRE_INTERRUPT = 36,
    WIRE_DESTROY = 38,
    WIRE_IOCTL = 39,
    WIRE_BATCH_FORGET = 42,
    WIRE_FALLOCATE = 43,
    WIRE_READDIRPLUS = 44,
    WIRE_RENAME2 = 45,
};

static inline bool wire_wants_no_reply(uint32_t opcode)
{
    return opcode == WIRE_FORGET || opcode == WIRE_BATCH_FORGET || opcode == WIRE_INTERRUPT;
}

enum wire_notify {
    WIRE_NOTIFY_INVAL_INODE = 2,
    WIRE_NOTIFY_INVAL_ENTRY = 3,
    WIRE_NOTIFY_STORE = 4,
    WIRE_NOTIFY_RESEND = 7,
};

/* Set in the number of a request that the kernel sends once more. The answer carries it, too. */
#define WIRE_RESENT (UINT64_C(1) << 63)

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

/* Of INIT. */
#define WIRE_ASYNC_READ       (1u << 0)
#define WIRE_ATOMIC_O_TRUNC   (1u << 3)
#define WIRE_BIG_WRITES       (1u << 5)
#define WIRE_HAS_IOCTL_DIR    (1u << 11)
#define WIRE_DO_READDIRPLUS   (1u << 13)
#define WIRE_READDIRPLUS_AUTO (1u << 14)
#define WIRE_ASYNC_DIO        (1u << 15)
#define WIRE_NO_OPEN          (1u << 17)
#define WIRE_PARALLEL_DIROPS  (1u << 18)
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

struct wire_attr {
    uint64_t ino, size, blocks;
    uint64_t atime_s, mtime_s, ctime_s;
    uint32_t atime_ns, mtime_ns, ctime_ns;
    uint32_t mode, nlink, uid, gid, rdev, blksize, flags;
};

struct wire_entry_out {
    uint64_t nodeid, generation;
    uint64_t entry_valid, attr_valid;
    uint32_t entry_valid_ns, attr_valid_ns;
    struct wire_attr attr;
};

struct wire_attr_out {
    uint64_t attr_valid;
    uint32_t attr_valid_ns, padding;
    struct wire_attr attr;
};

struct wire_forget_in {
    uint64_t lookups;
};
struct wire_batch_forget_in {
    uint32_t count, padding;
};
struct wire_forget_one {
    uint64_t nodeid, lookups;
};

struct wire_getattr_in {
    uint32_t flags, padding;
    uint64_t fh;
};

/* Of SETATTR's `valid`. */
#define WIRE_SET_MODE      (1u << 0)
#define WIRE_SET_UID       (1u << 1)
#define WIRE_SET_GID       (1u << 2)
#define WIRE_SET_SIZE      (1u << 3)
#define WIRE_SET_ATIME     (1u << 4)
#define WIRE_SET_MTIME     (1u << 5)
#define WIRE_SET_ATIME_NOW (1u << 7)
#define WIRE_SET_MTIME_NOW (1u << 8)
struct wire_setattr_in {
    uint32_t valid, padding;
    uint64_t fh, size, lock_owner;
    uint64_t atime_s, mtime_s, ctime_s;
    uint32_t atime_ns, mtime_ns, ctime_ns;
    uint32_t mode, unused4, uid, gid, unused5;
};

struct wire_mknod_in {
    uint32_t mode, rdev, umask, padding;
};
struct wire_mkdir_in {
    uint32_t mode, umask;
};
struct wire_rename_in {
    uint64_t new_parent;
};
struct wire_rename2_in {
    uint64_t new_parent;
    uint32_t flags, padding;
};
struct wire_link_in {
    uint64_t nodeid;
};

struct wire_open_in {
    uint32_t flags, open_flags;
};
struct wire_create_in {
    uint32_t flags, mode, umask, open_flags;
};
#define WIRE_FOPEN_DIRECT_IO   (1u << 0)
#define WIRE_FOPEN_KEEP_CACHE  (1u << 1)
#define WIRE_FOPEN_NOFLUSH     (1u << 5)
#define WIRE_FOPEN_PASSTHROUGH (1u << 7)
struct wire_open_out {
    uint64_t fh;
    uint32_t open_flags;
    int32_t backing_id; /* of FOPEN_PASSTHROUGH, else 0 */
};
struct wire_create_out {
    struct wire_entry_out entry;
    struct wire_open_out open;
};

struct wire_read_in {
    uint64_t fh, offset;
    uint32_t size, read_flags;
    uint64_t lock_owner;
    uint32_t flags, padding;
};
#define WIRE_WRITE_KILL_SUIDGID (1u << 2) /* in write_flags */
struct wire_write_in {
    uint64_t fh, offset;
    uint32_t size, write_flags;
    uint64_t lock_owner;
    uint32_t flags, padding;
};
struct wire_write_out {
    uint32_t size, padding;
};
struct wire_flush_in {
    uint64_t fh;
    uint32_t unused, padding;
    uint64_t lock_owner;
};
struct wire_release_in {
    uint64_t fh;
    uint32_t flags, release_flags;
    uint64_t lock_owner;
};
#define WIRE_FSYNC_DATA_ONLY (1u << 0)
struct wire_fsync_in {
    uint64_t fh;
    uint32_t flags, padding;
};
struct wire_fallocate_in {
    uint64_t fh, offset, length;
    uint32_t mode, padding;
};

struct wire_statfs_out {
    uint64_t blocks, bfree, bavail, files, ffree;
    uint32_t bsize, namelen, frsize, padding;
    uint32_t spare[6];
};

struct wire_dirent {
    uint64_t ino, off;
    uint32_t namelen, type;
};
struct wire_direntplus {
    struct wire_entry_out entry;
    struct wire_dirent dirent;
};
/* Entries of a listing begin at multiples of 8. */
#define WIRE_ALIGN(n) (((n) + 7u) & ~(size_t)7)

#define WIRE_IOCTL_DIR (1u << 4)
struct wire_ioctl_in {
    uint64_t fh;
    uint32_t flags, cmd;
    uint64_t arg;
    uint32_t in_size, out_size;
};
struct wire_ioctl_out {
    int32_t result;
    uint32_t flags, in_iovs, out_iovs;
};

struct wire_inval_inode_out {
    uint64_t ino;
    int64_t off, len;
};
struct wire_inval_entry_out {
    uint64_t parent;
    uint32_t namelen, flags;
};

struct wire_interrupt_in {
    uint64_t unique; /* of the request that its caller does not wait for any more */
};
struct wire_store_out {
    uint64_t nodeid, offset;
    uint32_t size, padding;
};

/* Files that the kernel reads by itself (passthrough). */
struct wire_backing_map {
    int32_t fd;
    uint32_t flags;
    uint64_t padding;
};
#define WIRE_IOC_BACKING_OPEN  _IOW(229, 1, struct wire_backing_map)
#define WIRE_IOC_BACKING_CLOSE _IOW(229, 2, uint32_t)

_Static_assert(sizeof(struct wire_in_header) == 40, "layout of the protocol");
_Static_assert(sizeof(struct wire_out_header) == 16, "layout of the protocol");
_Static_assert(sizeof(struct wire_init_in) == 64, "layout of the protocol");
_Static_assert(sizeof(struct wire_init_out) == 64, "layout of the protocol");
_Static_assert(sizeof(struct wire_attr) == 88, "layout of the protocol");
_Static_assert(sizeof(struct wire_entry_out) == 128, "layout of the protocol");
_Static_assert(sizeof(struct wire_setattr_in) == 88, "layout of the protocol");
_Static_assert(sizeof(struct wire_read_in) == 40, "layout of the protocol");
_Static_assert(sizeof(struct wire_write_in) == 40, "layout of the protocol");
_Static_assert(sizeof(struct wire_statfs_out) == 80, "layout of the protocol");
_Static_assert(sizeof(struct wire_direntplus) == 152, "layout of the protocol");

#endif
