/*
 * Requests in hand. Each lies on a desk or in a slot of the state from the moment the kernel gives
 * it out until it is answered: the length in its own header says so. state.h has the rules.
 *
 * The first CREW_WORKERS desks are the workers' to begin with. A large request that must wait keeps
 * its desk; its worker goes on with a spare one. When no desk is spare the worker waits: so much
 * (OUTFUSE_DESKS MiB) may wait in large requests, and no more.
 *
 * A desk has all its pages as long as somebody reads into it (keeper_desks_touch()).
 */
#include <string.h>
#include <sys/mman.h>

#include "keeper.h"
#include "mem.h"
#include "outfuse-internal.h"

int hands_open(struct hands *h, struct keeper_state *state, struct err *err)
{
    lock_init(&h->lock, RANK_METRICS, "requests in hand");
    cond_init(&h->desk_back);
    if (!state && keeper_state_own(OUTFUSE_DESKS, OUTFUSE_DESK_BYTES, &h->own, err) < 0)
        return -1;
    h->state = state ? state : h->own;
    if (h->state->n_desks <= CREW_WORKERS || h->state->desk_bytes < OUTFUSE_DESK_BYTES)
        return err_set(err, ERR_CORRUPT,
                       "the state left by another life is not of a mount that can be written");
    h->spare_desks = h->state->n_desks >= 64 ? UINT64_MAX : (UINT64_C(1) << h->state->n_desks) - 1;
    h->free_slots = xcalloc(KEEPER_SLOTS, sizeof(*h->free_slots));
    for (uint32_t i = KEEPER_SLOTS; i-- > 0;)
        h->free_slots[h->n_free_slots++] = (uint16_t)i;
    return 0;
}

void hands_close(struct hands *h)
{
    keeper_state_unmap(h->own);
    free(h->free_slots);
    free(h->done);
    cond_destroy(&h->desk_back);
    lock_destroy(&h->lock);
}

struct keeper_request *hands_at(struct hands *h, struct place p)
{
    return p.slot ? &keeper_slot(h->state, p.index)->request : keeper_desk(h->state, p.index);
}

/* A new life sees either the whole request or none. */
static void set_len(struct keeper_request *r, uint32_t len)
{
    __atomic_store_n(&r->len, len, __ATOMIC_RELEASE);
}

static uint32_t take_spare(struct hands *h)
{
    ACQUIRE(&h->lock);
    uint32_t i;

    while (!h->spare_desks)
        cond_wait(&h->desk_back, &h->lock);
    i = (uint32_t)__builtin_ctzll(h->spare_desks);
    h->spare_desks &= ~(UINT64_C(1) << i);
    return i;
}

uint32_t hands_take_desk(struct hands *h)
{
    uint32_t i = take_spare(h);

    keeper_desks_touch(h->state, i, 1);
    return i;
}

void hands_clear(struct hands *h, uint32_t desk)
{
    set_len(keeper_desk(h->state, desk), 0);
}

static void free_desk(struct hands *h, uint32_t i)
{
    char *at = (char *)keeper_desk(h->state, i);

    set_len((void *)at, 0);
    /* A spare desk takes no memory but its first page. */
    munlock(at, h->state->desk_bytes);
    madvise(at + KEEPER_PAGE, h->state->desk_bytes - KEEPER_PAGE, MADV_REMOVE);
    ACQUIRE(&h->lock);
    h->spare_desks |= UINT64_C(1) << i;
    cond_signal(&h->desk_back);
}

void hands_free(struct hands *h, struct place p)
{
    if (!p.slot) {
        free_desk(h, p.index);
        return;
    }
    set_len(&keeper_slot(h->state, p.index)->request, 0);
    ACQUIRE(&h->lock);
    h->free_slots[h->n_free_slots++] = (uint16_t)p.index;
}

/* A slot of its own, or none (-1). */
static int take_slot(struct hands *h)
{
    ACQUIRE(&h->lock);
    return h->n_free_slots ? h->free_slots[--h->n_free_slots] : -1;
}

struct place hands_park(struct hands *h, uint32_t desk)
{
    struct keeper_request *from = keeper_desk(h->state, desk);
    int slot = from->len <= KEEPER_SLOT_BYTES ? take_slot(h) : -1;
    struct keeper_request *to;

    if (slot < 0)
        return (struct place){.slot = false, .index = desk};
    to = &keeper_slot(h->state, (uint32_t)slot)->request;
    /* The length comes last. Killed before the desk is cleared, it is in both: it has one number,
     * so the stage answers the second from its journal, and the kernel takes one answer. */
    memcpy((char *)to + sizeof(to->len), (char *)from + sizeof(from->len),
           from->len - sizeof(from->len));
    set_len(to, from->len);
    set_len(from, 0);
    return (struct place){.slot = true, .index = (uint32_t)slot};
}

/* What lies there is a request as a kernel sends it, as far as its length goes. */
static bool holds_request(const struct keeper_request *r, size_t room)
{
    return r->len >= sizeof(*r) && r->len <= room;
}

/* Desks that hold a request are no spare ones. */
static uint64_t desks_left(struct hands *h)
{
    uint64_t left = 0;

    for (uint32_t i = 0; i < h->state->n_desks; i++) {
        struct keeper_request *r = keeper_desk(h->state, i);

        if (holds_request(r, h->state->desk_bytes))
            left |= UINT64_C(1) << i;
        else
            set_len(r, 0);
    }
    ACQUIRE(&h->lock);
    h->spare_desks &= ~left;
    return left;
}

/* Slots that hold a request are taken from the free ones, into ret[]. */
static uint32_t slots_left(struct hands *h, uint16_t *ret)
{
    ACQUIRE(&h->lock);
    uint32_t n = h->n_free_slots, n_left = 0;

    h->n_free_slots = 0;
    for (uint32_t i = n; i-- > 0;) {
        if (holds_request(&keeper_slot(h->state, i)->request, KEEPER_SLOT_BYTES))
            ret[n_left++] = (uint16_t)i;
        else
            h->free_slots[h->n_free_slots++] = (uint16_t)i;
    }
    return n_left;
}

/* fn() may have a place given back before it returns: all are known by then. */
void hands_left(struct hands *h, void (*fn)(void *arg, struct place p), void *arg)
{
    uint64_t desks = desks_left(h);
    cleanup_free uint16_t *slots = xcalloc(KEEPER_SLOTS, sizeof(*slots));
    uint32_t n = slots_left(h, slots);

    for (uint32_t i = 0; i < h->state->n_desks; i++)
        if (desks >> i & 1)
            fn(arg, (struct place){.slot = false, .index = i});
    for (uint32_t i = 0; i < n; i++)
        fn(arg, (struct place){.slot = true, .index = slots[i]});
}

static void forget(struct hands *h, struct keeper_request *r, size_t room)
{
    if (holds_request(r, room) && r->padding == HAND_DONE) {
        h->done = xrealloc(h->done, (h->n_done + 1) * sizeof(*h->done));
        h->done[h->n_done++] = r->unique & ~WIRE_RESENT;
    }
    set_len(r, 0);
}

void hands_forget_all(struct hands *h)
{
    for (uint32_t i = 0; i < h->state->n_desks; i++)
        forget(h, keeper_desk(h->state, i), h->state->desk_bytes);
    for (uint32_t i = 0; i < KEEPER_SLOTS; i++)
        forget(h, &keeper_slot(h->state, i)->request, KEEPER_SLOT_BYTES);
}

bool hands_was_done(const struct hands *h, const struct keeper_request *r)
{
    bool found = r->padding == HAND_DONE;

    for (size_t i = 0; !found && r->unique & WIRE_RESENT && i < h->n_done; i++)
        found = h->done[i] == (r->unique & ~WIRE_RESENT);
    return found;
}
