/*
 * The state memfd: what one life of a cachefs leaves to the next.
 *
 * `sampan mount` makes it; the keeper writes nothing into it but its own part, and hands it to each
 * life with the device. It is a plain shared mapping, so whatever was stored before a kill -9 is
 * there after it. No pointer lives in it; each writer orders its stores so that any prefix of them
 * is a valid state. A life checks `magic`, `layout` and `bytes` before it believes a word
 * (keeper_state_check()), and refuses a foreign or half-written one: the keeper then goes back to
 * the program that knew it.
 *
 * Requests in hand. A worker reads each request from the device straight into its desk: the length
 * in the request's own header says whether one lies there (0: none), so there is no moment at which
 * a request is neither in the kernel's queue nor here. A READ that must wait for its bytes moves to
 * a slot and frees the desk. Reply first, then clear: a life that dies between the two answers a
 * request twice, and the kernel refuses the second answer (ENOENT), which is harmless.
 * A new life, before it reads the device: serves what lies on desks and in slots where the kernel
 * can't resend (before 6.9), or clears them and asks for FUSE_NOTIFY_RESEND where it can.
 *
 * Requests that kill. At a death by SEGV, BUS, ABRT, ILL or FPE the keeper counts a death for what
 * was in hand, by (opcode, nodeid, place: keeper_place()), in `suspects`. The next life is then
 * careful: one worker, one request at a time to its end, until every suspect that comes again is
 * answered; so the second and third death accuse one request alone. What is answered is absolved:
 * the life frees its entry. At 3 deaths a suspect is answered EIO, now and whenever it comes again,
 * and `status` names it.
 *
 * This header is libc only: the keeper is built from it and nothing else of the project.
 */
#ifndef SAMPAN_KEEPER_STATE_H
#define SAMPAN_KEEPER_STATE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define KEEPER_MAGIC      "sampank"
#define KEEPER_LAYOUT     1u
#define KEEPER_PAGE       4096u
#define KEEPER_DESKS_MAX  64u
#define KEEPER_SLOTS      4096u
#define KEEPER_SLOT_BYTES 1024u
#define KEEPER_SUSPECTS   64u
#define KEEPER_DEATHS     3u /* of one request: it is answered EIO from then on */
#define KEEPER_AREAS      32u
#define KEEPER_INIT_MAX   256u

/* A request's first 40 bytes, as the kernel sends it. */
struct keeper_request {
    uint32_t len, opcode;
    uint64_t unique, nodeid;
    uint32_t uid, gid, pid;
    uint16_t extensions, padding;
};

struct keeper_suspect {
    uint32_t opcode; /* 0: the entry is free */
    uint32_t deaths;
    uint64_t nodeid, offset; /* offset: what keeper_place() says */
};

/* A parked request; as long as its header's `len` is not 0 it awaits its reply. */
struct keeper_slot {
    union {
        struct keeper_request request;
        unsigned char bytes[KEEPER_SLOT_BYTES];
    };
};

/* A named piece of the tail that a module keeps between lives (counters, tables, settings). */
struct keeper_area {
    char name[24]; /* "" : free */
    uint32_t version;
    uint32_t bytes;
    uint64_t offset; /* from the start of the state */
};

/* What the keeper alone writes. */
struct keeper_part {
    int32_t keeper_pid;
    uint32_t life;        /* 1: the first; restarts = life - 1 */
    uint32_t idle_deaths; /* lives in a row that ended by themselves and had answered nothing */
    uint32_t degraded;    /* 1: this life refuses everything */
    int64_t since;        /* of degraded, seconds of the wall clock; 0 */
    int32_t last_signal;  /* how the last life ended: a signal, or 0 */
    int32_t last_code;    /* its exit code */
    char why[256];        /* of degraded, or of the last death, in plain words; then what the life
                             itself said last is in the text "last words" */
    struct keeper_suspect suspects[KEEPER_SUSPECTS];
    uint32_t upgrades;        /* asked for so far (keeper_next()) */
    uint32_t upgrade_outcome; /* enum keeper_upgrade: of the last one */
    char upgrade_why[256];    /* of UPGRADE_FAILED */
    int64_t began;            /* of the first life, seconds of the wall clock */
};

enum keeper_upgrade { UPGRADE_NONE, UPGRADE_STARTING, UPGRADE_DONE, UPGRADE_FAILED };

struct keeper_state {
    char magic[8];
    uint32_t layout;
    uint32_t n_desks;
    uint64_t bytes;      /* of the whole state */
    uint64_t desk_bytes; /* of one desk */
    uint64_t desks;      /* offsets from the start of the state */
    uint64_t slots;
    uint64_t tail, tail_bytes; /* where areas lie */
    struct keeper_part keeper;

    /* What the present life writes. */
    _Atomic uint64_t answered; /* replies of all lives: progress */
    _Atomic uint32_t careful;  /* 1: one request at a time (see above) */
    uint32_t init_len;         /* stored last: 0 until INIT was answered */
    unsigned char init[KEEPER_INIT_MAX];
    uint32_t hidden;     /* offers of the kernel that were masked (tests) */
    uint32_t can_resend; /* the kernel knows FUSE_NOTIFY_RESEND */
    _Atomic uint64_t tail_used;
    struct keeper_area areas[KEEPER_AREAS]; /* name stored last */
};

#define KEEPER_TAIL_BYTES (48u << 20) /* room for the names of a long warmup, twice */

static inline uint64_t keeper_round(uint64_t n)
{
    return (n + KEEPER_PAGE - 1) / KEEPER_PAGE * KEEPER_PAGE;
}

/* Size of a state with such desks. The memfd is sparse: what is not used takes no memory. */
static inline uint64_t keeper_state_bytes(uint32_t n_desks, uint64_t desk_bytes)
{
    return keeper_round(sizeof(struct keeper_state)) + n_desks * keeper_round(desk_bytes) +
           keeper_round((uint64_t)KEEPER_SLOTS * KEEPER_SLOT_BYTES) + KEEPER_TAIL_BYTES;
}

/* Lays a state out in zeroed memory of keeper_state_bytes(); the magic comes last. */
static inline void keeper_state_init(struct keeper_state *s, uint32_t n_desks, uint64_t desk_bytes)
{
    s->layout = KEEPER_LAYOUT;
    s->n_desks = n_desks;
    s->desk_bytes = keeper_round(desk_bytes);
    s->bytes = keeper_state_bytes(n_desks, desk_bytes);
    s->desks = keeper_round(sizeof(*s));
    s->slots = s->desks + n_desks * s->desk_bytes;
    s->tail = s->slots + keeper_round((uint64_t)KEEPER_SLOTS * KEEPER_SLOT_BYTES);
    s->tail_bytes = KEEPER_TAIL_BYTES;
    atomic_signal_fence(memory_order_release);
    memcpy(s->magic, KEEPER_MAGIC, sizeof(s->magic));
}

/* NULL, or why this mapping of `mapped` bytes can't be used. Nothing in it is believed before. */
static inline const char *keeper_state_check(const struct keeper_state *s, uint64_t mapped)
{
    if (mapped < sizeof(*s) || memcmp(s->magic, KEEPER_MAGIC, sizeof(s->magic)) != 0)
        return "not a keeper's state, or half-written";
    if (s->layout != KEEPER_LAYOUT)
        return "a keeper's state of another version";
    if (s->n_desks == 0 || s->n_desks > KEEPER_DESKS_MAX || s->desk_bytes < KEEPER_PAGE ||
        s->desk_bytes > (16u << 20) || s->desk_bytes % KEEPER_PAGE ||
        s->bytes != keeper_state_bytes(s->n_desks, s->desk_bytes) || s->bytes != mapped ||
        s->desks != keeper_round(sizeof(*s)) || s->slots != s->desks + s->n_desks * s->desk_bytes ||
        s->tail != s->slots + keeper_round((uint64_t)KEEPER_SLOTS * KEEPER_SLOT_BYTES) ||
        s->tail_bytes != KEEPER_TAIL_BYTES || s->init_len > KEEPER_INIT_MAX)
        return "a keeper's state whose sizes contradict each other";
    return NULL;
}

static inline int keeper_has_offset(uint32_t opcode)
{
    return opcode == 15 || opcode == 16; /* READ, WRITE: after the handle, which follows the head */
}

static inline int keeper_has_name(uint32_t opcode)
{
    /* LOOKUP; SYMLINK, MKNOD, MKDIR, UNLINK, RMDIR, RENAME, LINK; CREATE; RENAME2 */
    return opcode == 1 || (opcode >= 6 && opcode <= 13) || opcode == 35 || opcode == 45;
}

/*
 * What tells a request from the others of its kind on the same inode: the offset of READ and WRITE;
 * of those that name something a hash of what follows the head (so that a name that kills does not
 * take its whole folder along); else 0. Looks at the request's first KEEPER_SLOT_BYTES at most.
 */
static inline uint64_t keeper_place(const struct keeper_request *r)
{
    const unsigned char *at = (const unsigned char *)r;
    uint64_t place = 0;
    uint32_t len = r->len < KEEPER_SLOT_BYTES ? r->len : KEEPER_SLOT_BYTES;

    if (keeper_has_offset(r->opcode)) {
        if (len >= sizeof(*r) + 16)
            memcpy(&place, at + sizeof(*r) + 8, sizeof(place));
    } else if (keeper_has_name(r->opcode)) {
        place = 0xcbf29ce484222325u; /* FNV-1a */
        for (uint32_t i = sizeof(*r); i < len; i++)
            place = (place ^ at[i]) * 0x100000001b3u;
    }
    return place;
}

static inline struct keeper_request *keeper_desk(struct keeper_state *s, uint32_t i)
{
    return (struct keeper_request *)(void *)((char *)s + s->desks + i * s->desk_bytes);
}

static inline struct keeper_slot *keeper_slot(struct keeper_state *s, uint32_t i)
{
    return (struct keeper_slot *)(void *)((char *)s + s->slots) + i;
}

#endif
