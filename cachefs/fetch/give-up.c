/*
 * Jobs that end without an answer: those whose token is set, or all when the engine stops. All that
 * a job holds is given back first (flights with their slots, its place in a queue), and done()
 * comes last, when no list is being walked: it may submit again.
 */
#include "engine-internal.h"

bool job_unwanted(const struct job *j)
{
    return source_given_up(j->is_get ? j->get.given_up : j->whole.given_up);
}

void jobs_look_at_tokens(struct fetch *f)
{
    f->given_up = true;
    f->asleep = false;
    engine_wake(f);
}

void fetch_give_up(struct fetch *f)
{
    ACQUIRE(&f->lock);
    jobs_look_at_tokens(f);
    local_poke(f);
}

size_t jobs_take(struct job **list, bool (*which)(const struct job *j), struct job **taken)
{
    size_t n = 0;
    for (struct job **at = list; *at;) {
        struct job *j = *at;
        if (!which(j)) {
            at = &j->next;
            continue;
        }
        *at = j->next;
        j->next = *taken;
        *taken = j;
        n++;
    }
    return n;
}

/* --- where jobs are --------------------------------------------------------------------------- */

struct taking {
    struct queues *queues;
    bool (*which)(const struct job *j);
    struct job *taken;
};

static void take_queued(void *arg, struct queue_item *item)
{
    struct taking *t = arg;
    struct job *j = (struct job *)item;
    if (!t->which(j))
        return;
    queues_remove(t->queues, item);
    j->next = t->taken;
    t->taken = j;
}

static void take_waiting(struct fetch *f, struct queues *q, struct taking *t)
{
    t->queues = q;
    ACQUIRE(&f->lock);
    queues_each(q, take_queued, t);
}

/* Backwards: an end moves the last flights to the freed places, and those were seen. */
static void take_flying(struct fetch *f, struct taking *t)
{
    for (size_t i = f->n_flying; i-- > 0;) {
        struct job *j = i < f->n_flying ? f->flying[i]->job : NULL;
        if (!j || !t->which(j))
            continue;
        job_end_flights(f, j);
        j->next = t->taken;
        t->taken = j;
    }
}

int err_stopping(struct err *err)
{
    return err_set(err, ERR_CANCELLED, "cancelled: the engine is stopping");
}

/* --- their end -------------------------------------------------------------------------------- */

static void end_jobs(struct fetch *f, bool (*which)(const struct job *j), const struct err *why)
{
    struct taking t = {.which = which};
    f->bound = false; /* what ends early says nothing of the line: the pace counts anew */
    take_waiting(f, &f->http, &t);
    take_waiting(f, &f->local, &t);
    take_flying(f, &t);
    f->n_parked -= jobs_take(&f->parked, which, &t.taken);
    creds_take_waiting(f, which, &t.taken);
    while (t.taken) {
        struct job *j = t.taken;
        t.taken = j->next;
        job_finish_failed(f, j, why);
    }
}

void jobs_give_up(struct fetch *f)
{
    struct err why = {0};
    err_given_up(&why);
    end_jobs(f, job_unwanted, &why);
}

static bool any(const struct job *j)
{
    (void)j;
    return true;
}

void jobs_cancel_all(struct fetch *f)
{
    struct err why = {0};
    err_stopping(&why);
    end_jobs(f, any, &why);
}
