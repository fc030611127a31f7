/*
 * The log of a recorded run (meddle --record), read by replay: what happened to the files below the
 * recorded folders, in order. A struct op, then its two names and its data.
 *
 * Files and folders go by numbers: their inodes', which the recorder keeps from being used again.
 * A name is an entry of a folder, as on a disk: that is what a power cut may lose.
 */
#ifndef SAMPAN_TORTURE_OPLOG_H
#define SAMPAN_TORTURE_OPLOG_H

#include <stdint.h>

#define OPLOG_MAGIC 0x31504f53u /* "SOP1" */
#define OPLOG_PAGE  4096u
#define SECTOR      512u

enum op_kind {
    OP_ROOT = 1, /* ino: a recorded folder; name: its path. First of all, the folder is empty */
    OP_CREATE,   /* name in dir is the new file ino */
    OP_MKDIR,    /* … the new folder ino */
    OP_SYMLINK,  /* … a new link to name2 */
    OP_LINK,     /* … one more name of ino */
    OP_UNLINK,   /* name leaves dir (files and folders) */
    OP_RENAME,   /* name in dir becomes name2 in dir2; it is ino */
    OP_WRITE,    /* data at `off` of ino */
    OP_STORE,    /* the same through a mapping, seen later: a page that changed */
    OP_TRUNCATE, /* ino has `off` bytes from now on */
    OP_SYNC,     /* ino is on the disk, as far as the ops before number `off` go … */
    OP_RANGE,    /* … or its bytes [dir, dir2) alone, and not its size */
    OP_TIMES,    /* ino was written last at `off` ns since 1970; told when it gets its name */
    OP_MARK,     /* name: what the program said it had reached */
};

struct op {
    uint32_t magic;
    uint32_t kind;
    uint64_t ino, dir, dir2;
    uint64_t off;
    uint32_t len;                 /* of the data */
    uint16_t name_len, name2_len; /* without a NUL */
};

#endif
