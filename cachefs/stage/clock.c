/*
 * The clock of a stage: ticks of `--commit interval`, what failed and may be tried again, the end
 * of a pause, checkpoints of the journal and room for it. It sleeps without a timeout while nothing
 * is due.
 */
#include "clock.h"

#include "owed-internal.h"

static void earlier(uint64_t *due, uint64_t at)
{
    if (at < *due)
        *due = at;
}

/* What failed and may be tried again by now; says when the next may. */
static void revive(struct stage *s, uint64_t now, uint64_t *due)
{
    for (struct node *n = s->failed.first, *next; n; n = next) {
        next = n->owed_next;
        if (n->due_ns <= now)
            owed_add(s, n);
        else
            earlier(due, n->due_ns);
    }
    for (struct doom *d = s->dooms; d; d = d->next) {
        if (!d->failed)
            continue;
        if (d->due_ns <= now) {
            d->failed = false;
            owed_wake(s);
        } else {
            earlier(due, d->due_ns);
        }
    }
    if (s->paused_until_ns && s->paused_until_ns <= now) {
        s->paused_until_ns = 0;
        owed_wake_all(s);
        if (s->owed.n || s->n_dooms)
            owed_wake(s);
    } else if (s->paused_until_ns) {
        earlier(due, s->paused_until_ns);
    }
}

static void end_grace(struct stage *s, uint64_t now, uint64_t *due)
{
    if (s->grace_until_ns > now) {
        earlier(due, s->grace_until_ns);
    } else if (s->grace_until_ns) {
        s->grace_until_ns = 0;
        owed_wake_all(s);
        owed_wake(s);
    }
}

static void tick(struct stage *s)
{
    for (struct node *n = s->dirty_first, *next; n; n = next) {
        next = n->dirty_next;
        if (n->seq != n->publish_seq && !(n->row.flags & N_HELD))
            owed_publish(s, n, NULL);
    }
}

void *clock_main(void *arg)
{
    struct stage *s = arg;
    uint64_t next_tick = 0;
    ACQUIRE(&s->lock);
    while (!s->stopping) {
        uint64_t now = clock_mono_ns(), due = UINT64_MAX;
        if (s->checkpoint_due) {
            s->checkpoint_due = false;
            lock_drop(&s->lock);
            bool is_long = journal_checkpoint(s);
            lock_take(&s->lock);
            if (is_long && s->commits) /* what came meanwhile is little */
                journal_checkpoint(s);
            continue;
        }
        if (s->room_due) {
            room_make(s);
            s->room_due = false;
        }
        if (s->conf.commit == COMMIT_INTERVAL && s->dirty_first) {
            if (next_tick == 0)
                next_tick = now + s->conf.interval_ns;
            if (now >= next_tick) {
                tick(s);
                next_tick = now + s->conf.interval_ns;
            }
            earlier(&due, next_tick);
        } else {
            next_tick = 0;
        }
        revive(s, now, &due);
        end_grace(s, now, &due);
        if (due == UINT64_MAX)
            cond_wait(&s->clock, &s->lock);
        else
            cond_wait_for(&s->clock, &s->lock, due - now);
    }
    return NULL;
}
