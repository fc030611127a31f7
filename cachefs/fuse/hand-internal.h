/*
 * Requests in hand: desks and slots of keeper's state.h, where a request lies from the moment it
 * leaves the kernel's queue until its reply is written. Without a keeper they are plain memory of
 * the same layout, so that there is one code path.
 *
 *   kernel --read()--> desk --answered at once--> cleared
 *                       |--must wait--> slot --answered--> cleared
 */
#ifndef SAMPAN_FUSE_HAND_INTERNAL_H
#define SAMPAN_FUSE_HAND_INTERNAL_H

#include <stdatomic.h>
#include <stdbool.h>

#include "crew.h"
#include "err.h"
#include "state.h"
#include "sync.h"
#include "fuse-wire.h"

/* A worker each. The kernel refuses to hand requests out into less than 8 KiB. */
#define FRONTEND_DESKS      CREW_WORKERS
#define FRONTEND_DESK_BYTES (16u << 10)

#define HAND_NO_SLOT UINT32_MAX

struct hand {
    struct keeper_state *state;
    struct keeper_state *own; /* NULL: it is the keeper's */
    /* Free slots, a stack without a lock: a count of changes above, number + 1 below; 0: empty. */
    _Atomic uint64_t free_slots;
    _Atomic uint32_t *below; /* [KEEPER_SLOTS]: number + 1 of the slot below in the stack */
    /* Slots from here on were never used: looking at them would only fill the memory. Kept. */
    _Atomic uint32_t *top;
    struct lock lock;
    struct cond given;        /* a slot came back while somebody waited */
    _Atomic unsigned waiting; /* for a slot */
};

/* Takes `state` into use (NULL: memory of our own). What lies in it stays. */
int hand_open(struct hand *h, struct keeper_state *state, struct err *err);
void hand_close(struct hand *h);

static inline struct wire_in_header *hand_desk(struct hand *h, uint32_t i)
{
    return (struct wire_in_header *)(void *)keeper_desk(h->state, i);
}
static inline uint32_t hand_desk_bytes(const struct hand *h)
{
    return (uint32_t)h->state->desk_bytes;
}

/* The length in a request's header says whether it is in hand. */
static inline bool hand_holds(const struct wire_in_header *place)
{
    return atomic_load_explicit((const _Atomic uint32_t *)&place->len, memory_order_acquire) != 0;
}
static inline void hand_clear(struct wire_in_header *place)
{
    atomic_store_explicit((_Atomic uint32_t *)&place->len, 0, memory_order_release);
}

/* Copies a request into a free slot (at most its KEEPER_SLOT_BYTES) and returns its number. Waits
 * while all are taken: never to be called by a thread that empties slots. */
uint32_t hand_park(struct hand *h, const struct wire_in_header *request);
/* After the reply. Any thread; touches nothing of `h` that hand_close() takes away afterwards. */
void hand_unpark(struct hand *h, uint32_t slot);
/* The request in a slot; its len is 0 if none is. */
static inline struct wire_in_header *hand_slot(struct hand *h, uint32_t slot)
{
    return (struct wire_in_header *)(void *)keeper_slot(h->state, slot);
}
/* No slot from this number on holds a request. */
static inline uint32_t hand_top(const struct hand *h)
{
    uint32_t top = atomic_load(h->top);

    return top < KEEPER_SLOTS ? top : KEEPER_SLOTS;
}
/* Empties all desks and slots. Nobody else may use them meanwhile. */
void hand_clear_all(struct hand *h);

static inline void hand_answered(struct hand *h)
{
    atomic_fetch_add_explicit(&h->state->answered, 1, memory_order_relaxed);
}

#endif
