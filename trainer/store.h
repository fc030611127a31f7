/*
 * The store: small values by key, kept by rank 0, through which ranks find each other; and a watch
 * over them.
 *
 * Every rank holds one connection to rank 0 for as long as it lives. When one breaks without a good
 * bye, rank 0 tells all others which: so a rank that was killed, or whose machine is gone, is known
 * by name within a second or so (TCP keepalive: about 20 s where a machine vanishes silently).
 * Where rank 0 dies, each of the others sees its own connection break.
 *
 * So does the wish of one rank to stop: all know of it within a fraction of a second, whatever they
 * are waiting for.
 *
 * A rank that stands still keeps its connection. But who waits in a call says so to rank 0 twice a
 * second: when the time of one is over, rank 0 tells all which one did not.
 *
 * Frames, both ways: u8 operation, u32 rank, u32 key length, u32 value length, key, value (little
 * endian). Only numbers and addresses of ranks pass here, never data of the job.
 *
 * Threads: store_set/get from one thread at a time; the others from any. On rank 0 one more thread
 * serves; on each rank one listens.
 */
#ifndef SAMPAN_TRAIN_STORE_H
#define SAMPAN_TRAIN_STORE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "err.h"
#include "clock.h"
#include "rendezvous.h"

/* How long ranks that were asked to stop wait for each other: less than half of what a cluster
 * commonly gives them to end, as rank 0 has a checkpoint to write then. */
#define STORE_STOP_NS (10 * NS_PER_S)

struct store;

/* Rank 0 listens; the others connect, again and again until the rendezvous' time is over.
 * `stop`: not 0 when this rank is asked to stop; NULL: it never is. */
int store_open(struct store **ret, const struct rendezvous *r, const atomic_int *stop,
               struct err *err);
/* Says good bye (`well`): this rank has ended, and did not die. Rank 0 first waits (a few seconds
 * at most) for the good byes of the others. Not well: the others hear of a death. */
void store_close(struct store *s, bool well);
/* The same, but nothing is freed: a thread may be in store_set() or store_get() still. */
void store_leave(struct store *s, bool well);

int store_set(struct store *s, const char *key, const void *value, size_t len, struct err *err);
/* Waits until somebody sets it, at most the rendezvous' time. `*ret` is the caller's (free). */
int store_get(struct store *s, const char *key, void **ret, size_t *len, struct err *err);
/* This rank begins to wait for others, or has ended to: while it does, it can be told apart from
 * one that stands still. */
void store_waits(struct store *s, bool does);
/* One that all others wait for is lost, as one that died is: store_dead() tells its number. Asked
 * by whoever has waited for too long; waits for the answer, which rank 0 owes, up to `wait_ns`. */
void store_find_still(struct store *s, uint64_t wait_ns);
/* Did the rank of store_dead() not die, but stand still? */
bool store_is_still(struct store *s);
/* A rank that died: 0 and its number, or -1 for none. Waits up to `wait_ns` for the news. */
int store_dead(struct store *s, uint64_t wait_ns, uint32_t *ret);
/* Was a rank asked to stop, this one or another? */
bool store_stops(struct store *s);
/* Was that STORE_STOP_NS ago, or longer? */
bool store_late(struct store *s);
/* This rank's own address on the way to rank 0, as text. */
const char *store_address(const struct store *s);

#endif
