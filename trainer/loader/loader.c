/* The contract: next, release, and where to go on. (figures.c: what there is to ask.) */
#include <inttypes.h>

#include "clock.h"
#include "loader-internal.h"

static struct slot *finished(struct loader *l, bool *ret_all_held)
{
    *ret_all_held = true;
    struct slot *found = NULL;
    for (uint32_t i = 0; i < l->o.depth; i++) {
        struct slot *s = &l->slots[i];
        *ret_all_held &= s->state == SLOT_HELD;
        /* Of an epoch that is left nothing is given. */
        if (s->state == SLOT_READY && s->sequence == l->give_sequence && !l->restart)
            found = s;
    }
    return found;
}

/* Its epoch is at its end: the next one is begun, if there is one. */
static void end_epoch(struct loader *l)
{
    if (l->give_epoch + 1 >= l->last_epoch)
        return;
    epoch_release(&l->epochs[l->give_epoch % 2]);
    if (l->plan_epoch == l->give_epoch) {
        l->plan_epoch++;
        l->plan_pos = 0;
    }
    l->give_epoch++;
    l->given = 0;
    tell_workers(l);
}

static int give(struct loader *l, struct slot *s, const struct loader_batch **ret, struct err *err)
{
    uint64_t now = clock_mono_ns();
    if (s->failed) {
        l->failed = s->why;
        *err = l->failed;
        return -1;
    }
    if (!l->batches) {
        l->first_ns = now - l->opened_ns;
        l->began_ns = now;
        l->waited_ns = 0; /* for the first batch: told apart */
    }
    l->last_ns = now;
    l->batches++;
    l->samples += s->batch.n;
    l->give_sequence++;
    l->given++;
    l->past_end = false;
    s->state = SLOT_HELD;
    l->given_token = s->token;
    *ret = &s->batch;
    return 1;
}

/* Until there may be something new for the consumer, or this moment. */
static void wait_for_batch(struct loader *l, uint64_t now, uint64_t until)
{
    if (worker_help(l) || wait_awake(l, &l->helper.sleeps))
        return;
    if (until == UINT64_MAX)
        cond_wait(&l->done, &l->lock);
    else
        cond_wait_for(&l->done, &l->lock, until - now);
}

static int next(struct loader *l, uint64_t until, const struct loader_batch **ret, struct err *err)
{
    for (;;) {
        bool all_held;
        struct slot *s = finished(l, &all_held);
        const struct epoch *e = &l->epochs[l->give_epoch % 2];
        /* First: what is finished may be the next epoch's. */
        if (e->order && e->number == l->give_epoch && l->given == e->batches) {
            end_epoch(l);
            return 0;
        }
        if (s)
            return give(l, s, ret, err);
        if (l->failed.class != ERR_NONE) {
            *err = l->failed;
            return -1;
        }
        if (l->give_epoch >= l->last_epoch)
            return 0;
        if (all_held)
            return err_set(err, ERR_LIMIT, "loader: all %u batches are held (release some)",
                           l->o.depth);
        uint64_t began = clock_mono_ns();
        if (began >= until)
            return LOADER_LATE;
        wait_for_batch(l, began, until);
        l->waited_ns += clock_mono_ns() - began;
    }
}

int loader_next_within(struct loader *l, uint64_t wait_ns, const struct loader_batch **ret,
                       struct err *err)
{
    ACQUIRE(&l->lock);
    l->last_ns = clock_mono_ns();
    if (l->ends_first) {
        l->past_end = l->ends_first = false;
        return 0;
    }
    return next(l, wait_ns > UINT64_MAX - l->last_ns ? UINT64_MAX : l->last_ns + wait_ns, ret, err);
}

int loader_next(struct loader *l, const struct loader_batch **ret, struct err *err)
{
    return loader_next_within(l, UINT64_MAX, ret, err);
}

void loader_release(struct loader *l, const struct loader_batch *b)
{
    if (!b)
        return;
    ACQUIRE(&l->lock);
    struct slot *s = &l->slots[b->slot];
    if (s->state == SLOT_HELD)
        s->state = SLOT_FREE;
    tell_workers(l);
    tell_consumer(l);
}

/* The lock is held. False: somebody reads or prepares still; nobody begins to. */
static bool rest(struct loader *l, uint64_t wait_ns)
{
    uint64_t began = clock_mono_ns(), now = began;
    l->restart = true;
    while ((l->busy || l->planning) && now - began < wait_ns) {
        cond_wait_for(&l->done, &l->lock, wait_ns - (now - began));
        now = clock_mono_ns();
    }
    return !l->busy && !l->planning;
}

bool loader_rest(struct loader *l, uint64_t wait_ns)
{
    ACQUIRE(&l->lock);
    return rest(l, wait_ns);
}

int loader_set_epoch_within(struct loader *l, uint64_t epoch, uint64_t wait_ns, struct err *err)
{
    ACQUIRE(&l->lock);
    if (epoch >= l->last_epoch)
        return err_set(err, ERR_USAGE, "loader: epoch %" PRIu64 ": the last one is %" PRIu64, epoch,
                       l->last_epoch - 1);
    l->ends_first = l->past_end && epoch + 1 == l->give_epoch;
    if (l->ends_first)
        return 0;
    if (epoch == l->give_epoch && !l->given && l->failed.class == ERR_NONE && !l->restart)
        return 0;
    if (!rest(l, wait_ns))
        return LOADER_LATE;
    l->past_end = false;
    plan_restart(l, epoch);
    struct order_spec spec = l->spec;
    spec.epoch = epoch;
    order_token_begin(&spec, l->index.files.n, &l->given_token);
    l->restart = false;
    tell_workers(l);
    return 0;
}

int loader_set_epoch(struct loader *l, uint64_t epoch, struct err *err)
{
    return loader_set_epoch_within(l, epoch, UINT64_MAX, err);
}

int loader_token(struct loader *l, char ret[LOADER_TOKEN_TEXT], struct err *err)
{
    (void)err;
    ACQUIRE(&l->lock);
    order_token_print(&l->given_token, ret);
    return 0;
}

int loader_token_after(struct loader *l, const struct loader_batch *b, char ret[LOADER_TOKEN_TEXT],
                       struct err *err)
{
    ACQUIRE(&l->lock);
    const struct slot *s = &l->slots[b->slot];
    if (s->state != SLOT_HELD)
        return err_set(err, ERR_USAGE, "loader: the token of a batch that was given back");
    order_token_print(&s->token, ret);
    return 0;
}
