/*
 * A run that is told to stop begins nothing more, and what is in hand ends. But an answer that does
 * not come is waited for no longer than FETCH_PATIENCE_NS: what that breaks off the next run goes
 * on with. Not while an object goes up in parts: its parts are taken back from the store first.
 */
#include "sync-internal.h"

bool run_breaks_off(void *arg)
{
    struct sync_run *r = arg;
    if (!r->conf->stop || !atomic_load(r->conf->stop))
        return false;
    ACQUIRE(&r->lock);
    return r->n_large == 0;
}
