/*
 * Whoever waits for a small file carries it up himself: no worker is woken for it, nor he when it
 * is there. It is journalled and queued as all that is owed, so that it goes on as all else does
 * where this comes to no end.
 */
#include "content-internal.h"
#include "owed-internal.h"

#define LIGHT_BYTES STAGE_BLOCK

bool carry_is_light(const struct stage *s, const struct node *n)
{
    const unsigned looked_at = N_STAGED | N_DIRTY | N_MAP | N_ORPHAN | N_HELD;
    return s->caps & STORE_META && !(s->caps & (STORE_LOCAL | STORE_APPENDS)) &&
           n->row.kind == NODE_FILE && (n->row.flags & looked_at) == (N_STAGED | N_DIRTY) &&
           !n->row.skey && !n->busy && n->row.size <= LIGHT_BYTES;
}

void carrier_look(void *arg)
{
    struct carrier *carrier = arg;
    if (carrier->left || !is_given_up(carrier->call))
        return;
    carrier->left = true;
    carrier->call->leave(carrier->call->arg);
}

/* The workers have their own share of the store; those who carry take half as much beside it. */
static bool may_carry(const struct stage *s, const struct node *n)
{
    return !n->failed && !work_is_paused(s) && s->n_carriers < (s->conf.uploads + 1) / 2;
}

int carry_up(struct stage *s, const struct stage_call *c, struct node *n, struct err *err)
{
    uint64_t want = n->seq;
    if (!may_carry(s, n))
        return CARRY_NOT;
    if (owed_wish(s, n, err))
        return -1;
    owed_enqueue(s, n);
    n->pins++;
    s->n_carriers++;
    bool done = worker_do_now(s, c, n);
    s->n_carriers--;
    n->pins--;
    bool owes = node_owes(n);
    if (n->failed)
        return owed_give_up(n->why, err);
    if (owes) /* not this, or more than this */
        owed_wake(s);
    if (done && (!owes || (n->stored_seq >= want && !n->row.skey)))
        return journal_barrier_held(s, err);
    return CARRY_NOT;
}
