/* Taking reads back: who waits for a fill may let it go, and a fill that nobody waits for ends. */
#include "cache-internal.h"

static bool is_given_up(const struct waiter *w)
{
    return source_given_up(w->piece.given_up);
}

/* Stripe held. Moves the waiters that were given up to `taken`; a fill that has none left is given
 * up itself. */
static void take_waiters(struct fill *f, struct waiter **taken)
{
    for (struct waiter **at = &f->waiters; *at;) {
        struct waiter *w = *at;
        if (!is_given_up(w)) {
            at = &w->next;
            continue;
        }
        *at = w->next;
        w->next = *taken;
        *taken = w;
    }
    if (!f->waiters)
        atomic_store(&f->given_up, true);
}

void fill_give_up(struct cache *c)
{
    struct err err = {0};
    struct waiter *taken = NULL;
    for (size_t i = 0; i < STRIPES; i++) {
        ACQUIRE(&c->stripes[i].lock);
        for (struct fill *f = c->stripes[i].fills; f; f = f->next)
            if (f->state == FILL_RUNNING)
                take_waiters(f, &taken);
    }
    err_given_up(&err);
    while (taken) {
        struct waiter *w = taken;
        taken = w->next;
        w->wait->done(w->wait, NULL, &err);
        free(w);
    }
    if (c->source.inner)
        source_give_up(c->source.inner);
}
