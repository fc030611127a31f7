/* Which samples make the next batch. */
#include <assert.h>
#include <stdio.h>

#include "loader-internal.h"

uint64_t epoch_batches(const struct loader *l, uint64_t samples)
{
    return l->o.drop_last ? samples / l->o.batch : (samples + l->o.batch - 1) / l->o.batch;
}

/* How much of the epoch this rank had read when it was stopped: known if it had as many ranks. */
static uint64_t read_before(const struct loader *l)
{
    const struct order_part *last = &l->token.parts[l->token.n_parts - 1];
    return last->ranks == l->spec.ranks || !order_spec_deals(&l->spec) ? last->position : 0;
}

int epoch_prepare(struct loader *l, struct epoch *e, bool resume, struct err *err)
{
    struct order_spec spec = l->spec;
    spec.epoch = e->number;
    if (resume ? order_resume(&e->order, &l->token, l->spec.ranks, l->spec.rank, err)
               : order_new(&e->order, &spec, l->index.files.n, err))
        return -1;
    e->before = resume ? read_before(l) : 0;
    e->samples = order_length(e->order);
    e->batches = epoch_batches(l, e->samples);
    return 0;
}

void epoch_release(struct epoch *e)
{
    order_free(e->order);
    *e = (struct epoch){0};
}

static struct epoch *epoch_of(struct loader *l, uint64_t number)
{
    return &l->epochs[number % 2];
}

static void fail(struct loader *l, const struct err *why)
{
    if (l->failed.class == ERR_NONE)
        l->failed = *why;
    tell_consumer(l);
}

static int tell_mount(struct loader *l, bool sampler, uint64_t epoch, struct err *err)
{
    if (sampler && mount_tell_sampler(l->dir, &l->spec, err))
        return -1;
    return mount_tell_epoch(l->dir, epoch, err);
}

/* The order of an epoch takes a while: others go on meanwhile. */
static void prepare(struct loader *l, uint64_t number)
{
    struct epoch e = {.number = number};
    struct err why = {0}, quiet = {0};
    l->planning = true;
    bool tell = !l->o.quiet_mount && !l->mount_why[0], sampler = tell && l->tell_sampler;
    l->tell_sampler = false;
    lock_drop(&l->lock);
    int rc = epoch_prepare(l, &e, false, &why);
    tell = tell && !rc && (sampler || !(l->direct && direct_tell(l->direct, number)));
    int told = tell ? tell_mount(l, sampler, number, &quiet) : 0;
    if (l->direct && !rc)
        direct_epoch(l->direct);
    lock_take(&l->lock);
    l->planning = false;
    if (told)
        snprintf(l->mount_why, sizeof l->mount_why, "%.*s", (int)sizeof l->mount_why - 1,
                 quiet.msg);
    if (rc)
        fail(l, &why);
    else
        *epoch_of(l, number) = e;
    tell_workers(l);
    tell_consumer(l);
}

enum ready { READY, CHANGED, NOTHING };

/* Is the next batch that of an epoch whose order is known? Else makes it so, if it may. */
static enum ready plan_ready(struct loader *l)
{
    struct epoch *e = epoch_of(l, l->plan_epoch);
    if (e->order && l->plan_pos < e->batches)
        return READY;
    if (e->order) {
        /* One epoch ahead of the consumer at most. */
        if (l->plan_epoch != l->give_epoch || l->plan_epoch + 1 >= l->last_epoch)
            return NOTHING;
        l->plan_epoch++;
        l->plan_pos = 0;
        return CHANGED;
    }
    if (l->planning || l->plan_epoch >= l->last_epoch)
        return NOTHING;
    prepare(l, l->plan_epoch);
    return CHANGED; /* the lock was dropped: all of it may be another now */
}

static int place_batch(struct loader *l, const struct epoch *e, struct slot *s, struct err *err)
{
    assert(l->o.batch > 0);
    uint64_t first = l->plan_pos * l->o.batch, left = e->samples - first;
    uint32_t n = left < l->o.batch ? (uint32_t)left : l->o.batch;
    if (order_token_of(e->order, first + n, &s->token, err))
        return -1;
    slot_begin(s, n);
    for (uint32_t i = 0; i < n; i++) {
        s->numbers[i] = order_at(e->order, first + i);
        s->labels[i] = l->index.labels[s->numbers[i]];
    }
    s->batch.epoch = e->number;
    s->batch.position = e->before + first + n;
    s->batch.step = e->before / l->o.batch + l->plan_pos;
    s->sequence = l->plan_sequence++;
    s->state = SLOT_FILLING;
    l->plan_pos++;
    return 0;
}

bool plan_open_known(struct loader *l)
{
    const struct epoch *e = epoch_of(l, l->plan_epoch);
    return e->order && l->plan_pos < e->batches && plan_open(l);
}

bool plan_open(struct loader *l)
{
    struct slot *free = NULL;
    for (uint32_t i = 0; i < l->o.depth && !free; i++)
        if (l->slots[i].state == SLOT_FREE)
            free = &l->slots[i];
    if (!free || l->failed.class != ERR_NONE || l->stop || l->restart)
        return false;
    enum ready ready = plan_ready(l);
    if (ready != READY)
        return ready == CHANGED;
    struct err why = {0};
    if (place_batch(l, epoch_of(l, l->plan_epoch), free, &why)) {
        fail(l, &why);
        return false;
    }
    return true;
}

void plan_restart(struct loader *l, uint64_t epoch)
{
    for (uint32_t i = 0; i < l->o.depth; i++)
        if (l->slots[i].state != SLOT_HELD)
            l->slots[i].state = SLOT_FREE;
    for (size_t i = 0; i < 2; i++)
        epoch_release(&l->epochs[i]);
    l->plan_epoch = l->give_epoch = epoch;
    l->plan_pos = l->given = 0;
    l->give_sequence = l->plan_sequence;
    l->failed = (struct err){0};
}
