/* Desks and slots: hand-internal.h tells what they are for. */
#include "hand-internal.h"

#include <stdlib.h>
#include <string.h>

#include "keeper.h"
#include "mem.h"

/* Only a lost wake-up would need this, and none is known: hand_unpark() looks after it stored. */
#define LOOK_AGAIN_NS (10ull * 1000 * 1000)

static void push_free(struct hand *h, uint32_t slot)
{
    uint64_t top = atomic_load(&h->free_slots);
    uint64_t next;

    do {
        atomic_store_explicit(&h->below[slot], (uint32_t)top, memory_order_relaxed);
        next = ((top >> 32) + 1) << 32 | (slot + 1);
    } while (!atomic_compare_exchange_weak(&h->free_slots, &top, next));
}

static uint32_t pop_free(struct hand *h)
{
    uint64_t top = atomic_load(&h->free_slots);
    uint64_t next;

    do {
        if (!(uint32_t)top)
            return HAND_NO_SLOT;
        next = ((top >> 32) + 1) << 32 |
               atomic_load_explicit(&h->below[(uint32_t)top - 1], memory_order_relaxed);
    } while (!atomic_compare_exchange_weak(&h->free_slots, &top, next));
    return (uint32_t)top - 1;
}

int hand_open(struct hand *h, struct keeper_state *state, struct err *err)
{
    if (state && (state->n_desks < 1 || state->desk_bytes < FRONTEND_DESK_BYTES))
        return err_set(err, ERR_USAGE, "the keeper's state has %u desks of %llu bytes, not of %u",
                       state->n_desks, (unsigned long long)state->desk_bytes, FRONTEND_DESK_BYTES);
    if (!state && keeper_state_own(FRONTEND_DESKS, FRONTEND_DESK_BYTES, &h->own, err) < 0)
        return -1;
    h->state = state ? state : h->own;
    lock_init(&h->lock, RANK_METRICS, "fuse slots");
    cond_init(&h->given);
    h->below = xcalloc(KEEPER_SLOTS, sizeof(*h->below));
    h->top = keeper_area(h->state, "slots", 1, sizeof(*h->top));
    if (!h->top)
        return err_set(err, ERR_LIMIT, "the keeper's state has no room for a count of slots");
    for (uint32_t i = KEEPER_SLOTS; i-- > 0;)
        if (i >= hand_top(h) || !hand_holds(hand_slot(h, i)))
            push_free(h, i);
    keeper_desks_touch(h->state, 0, h->state->n_desks);
    return 0;
}

void hand_close(struct hand *h)
{
    if (!h->state)
        return;
    keeper_state_unmap(h->own);
    h->state = NULL;
    free((void *)h->below);
    cond_destroy(&h->given);
    lock_destroy(&h->lock);
}

static uint32_t wait_for_slot(struct hand *h)
{
    ACQUIRE(&h->lock);
    uint32_t slot;

    atomic_fetch_add(&h->waiting, 1);
    while ((slot = pop_free(h)) == HAND_NO_SLOT)
        cond_wait_for(&h->given, &h->lock, LOOK_AGAIN_NS);
    atomic_fetch_sub(&h->waiting, 1);
    return slot;
}

static void raise_top(struct hand *h, uint32_t to)
{
    uint32_t top = atomic_load_explicit(h->top, memory_order_relaxed);

    while (top < to && !atomic_compare_exchange_weak(h->top, &top, to))
        ;
}

uint32_t hand_park(struct hand *h, const struct wire_in_header *request)
{
    uint32_t slot = pop_free(h);
    uint32_t len = request->len < KEEPER_SLOT_BYTES ? request->len : KEEPER_SLOT_BYTES;
    struct wire_in_header *to;

    if (slot == HAND_NO_SLOT)
        slot = wait_for_slot(h);
    raise_top(h, slot + 1);
    to = hand_slot(h, slot);
    /* The length last: with it the slot holds a request, and before that nothing. */
    memcpy((char *)to + sizeof(to->len), (const char *)request + sizeof(to->len),
           len - sizeof(to->len));
    atomic_store_explicit((_Atomic uint32_t *)&to->len, request->len, memory_order_release);
    return slot;
}

void hand_unpark(struct hand *h, uint32_t slot)
{
    hand_clear(hand_slot(h, slot));
    push_free(h, slot);
    if (atomic_load(&h->waiting)) {
        ACQUIRE(&h->lock);
        cond_signal(&h->given);
    }
}

void hand_clear_all(struct hand *h)
{
    for (uint32_t i = 0; i < h->state->n_desks; i++)
        hand_clear(hand_desk(h, i));
    for (uint32_t i = 0; i < hand_top(h); i++)
        if (hand_holds(hand_slot(h, i)))
            hand_unpark(h, i);
}
