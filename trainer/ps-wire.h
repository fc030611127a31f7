/*
 * The wire between trainers and parameter servers, over TCP. All numbers are little endian.
 *
 *   frame   u32 magic "SPS1"   u16 kind   u16 0   u32 length of the payload   u32 its CRC-32C
 *
 * A trainer asks, and each request but BYE and STOP has one reply; after an ERROR (a line of text)
 * the server hangs up. A frame that is none of these, or longer than its sender may send, ends the
 * connection: a stranger can make a server keep no more than PS_GREETING_MAX bytes.
 *
 *   HELLO  struct ps_hello, then a struct ps_shape a table that this server shall keep
 *                                                       -> OK, or of a job with a secret CHALLENGE
 *   PROOF  the sum that answers a CHALLENGE (ps-secret.h)                                -> OK
 *   PULL   {u32 table, u32 n, n x u32 row}...                      -> VALUES: floats of those rows
 *   PUSH   struct ps_push, then {u32 table, u32 n, n x u32 row, n x dim floats}...
 *                                                      -> VALUES: 3 floats, the sums over trainers
 *                                  or, async: those of this trainer, then struct ps_others
 *   SUM    floats                                            -> VALUES: their sums over trainers
 *   SHARE  bytes                                             -> VALUES: those of trainer 0
 *   FETCH  struct ps_part                                              -> VALUES: floats
 *   STORE  struct ps_part, then floats                                 -> OK
 *   BYE    nothing: this trainer has ended and did not die
 *   STOP   nothing: this trainer was asked to stop. Has no reply, but all trainers of this server
 *          get a STOP, between answers, and so know at once, whatever they are waiting for
 *   LATE   nothing: this trainer has waited long enough for a round. Has no reply; if the server
 *          still waits for others as well, all get an ERROR that names them, and the job is over
 *
 * PUSH, SUM and SHARE are rounds: all trainers send the same one, and are answered when all have;
 * where the greeting says async, a PUSH is a step by itself, and a trainer that died is not waited
 * for in rounds.
 * What they sent is added up in the order of the trainers' numbers: the same bits in every run.
 */
#ifndef SAMPAN_TRAIN_PS_WIRE_H
#define SAMPAN_TRAIN_PS_WIRE_H

#include <stddef.h>
#include <stdint.h>

#include "buf.h"
#include "err.h"
#include "ps-secret.h"

#define PS_MAGIC        0x31535053u
#define PS_HEAD         16u
#define PS_GREETING_MAX (1u << 18)
#define PS_MAX          (1u << 30)
#define PS_NAME         64
#define PS_TABLES       1024u

enum ps_kind {
    PS_HELLO = 1,
    PS_PULL,
    PS_PUSH,
    PS_SUM,
    PS_SHARE,
    PS_FETCH,
    PS_STORE,
    PS_BYE,
    PS_OK,
    PS_VALUES,
    PS_ERROR,
    PS_CHALLENGE,
    PS_PROOF,
    PS_STOP,
    PS_LATE,
    PS_KINDS,
};

struct ps_hello {
    char job[PS_NAME];
    uint32_t rank, ranks;
    uint64_t seed;
    uint32_t n_tables, mode;   /* mode: enum ps_mode, or'ed */
    uint8_t number[PS_NUMBER]; /* with a secret: drawn anew for each greeting */
};

enum ps_mode { PS_MODE_SECRET = 1, PS_MODE_ASYNC = 2 };

struct ps_challenge {
    uint8_t number[PS_NUMBER], sum[PS_NUMBER];
};

/* A table as this server keeps it: rows offset, offset + stride ... of the parameter. A dense
 * parameter is one row. */
struct ps_shape {
    char name[PS_NAME];
    uint64_t rows, offset, stride;
    uint32_t dim, kind; /* kind: enum param_kind */
    float first;
    uint32_t drawn;
};

struct ps_push {
    uint64_t step;
    float rate, momentum, decay, trust;
    float sums[3];  /* loss, right, count: enum net_sum */
    uint32_t flags; /* async: enum ps_flag, or'ed */
};

enum ps_flag {
    PS_STOPS = 1, /* this trainer was asked to stop, and so shall all be */
    PS_DONE = 2,  /* it makes no more steps; nothing follows */
};
/* Async: what follows the sums in the answer to PUSH. */
struct ps_others {
    float stop; /* a trainer was asked to stop */
    float left; /* trainers that still make steps */
};

enum ps_which { PS_WEIGHTS, PS_VELOCITIES };
struct ps_part {
    uint32_t table, which;
    uint64_t from, rows;
};

/* Begins a frame; what is added to `out` up to ps_end() is its payload. */
size_t ps_begin(struct bytes *out, enum ps_kind kind);
void ps_end(struct bytes *out, size_t begun);
/* A whole frame. */
void ps_frame(struct bytes *out, enum ps_kind kind, const void *payload, size_t len);

/* The length of the payload behind a head of PS_HEAD bytes; -1: this is none of our frames, or
 * longer than `max`. */
int64_t ps_head(const void *head, size_t max, enum ps_kind *kind);
/* Is the payload what was sent? */
int ps_check(const void *head, const void *payload, size_t len);

/* Reading a payload: what is not there is zero, and `bad`. */
struct ps_in {
    const unsigned char *at;
    size_t left;
    int bad;
};
const void *ps_take(struct ps_in *in, size_t len); /* NULL: not there */
void ps_copy(struct ps_in *in, void *to, size_t len);
uint32_t ps_u32(struct ps_in *in);

#endif
