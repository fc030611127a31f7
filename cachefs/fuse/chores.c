/* What must not run on a worker because it may wait for the kernel: ioctls that set the order. */
#include <errno.h>

#include "frontend-internal.h"

#define CHORES_MAX 64

static int set_epoch(struct frontend *f, uint64_t epoch, struct err *err)
{
    char text[24];

    if (!f->conf.set)
        return volume_set_epoch(f->volume, epoch, err);
    snprintf(text, sizeof(text), "%llu", (unsigned long long)epoch);
    return f->conf.set(f->conf.set_arg, "epoch", text, err);
}

static int set_sampler(struct frontend *f, const char *spec, struct err *err)
{
    return f->conf.set ? f->conf.set(f->conf.set_arg, "sampler", spec, err)
                       : volume_set_sampler(f->volume, spec, err);
}

static void run_chore(struct frontend *f, struct chore *c)
{
    struct err err = {0};

    if (c->kind == CHORE_SET_EPOCH ? set_epoch(f, c->epoch, &err) : set_sampler(f, c->spec, &err))
        fuse_reply_err(c->req, err_errno(&err));
    else
        fuse_reply_ioctl(c->req, 0, NULL, 0);
    if (c->slot != HAND_NO_SLOT)
        hand_unpark(&f->hand, c->slot);
}

static void *chores_run(void *arg)
{
    struct frontend *f = arg;

    for (;;) {
        struct chore *c;

        lock_take(&f->chores_lock);
        while (!f->chores && !f->chores_stop)
            cond_wait(&f->chores_due, &f->chores_lock);
        c = f->chores;
        if (c) {
            f->chores = c->next;
            f->n_chores--;
        }
        lock_drop(&f->chores_lock);
        if (!c)
            return NULL;
        run_chore(f, c);
        free(c);
    }
}

/* Its request moves from the worker's desk to a slot. */
int chores_add(struct frontend *f, struct chore *c)
{
    const struct wire_in_header *request = worker_request(f);
    ACQUIRE(&f->chores_lock);
    struct chore **at = &f->chores;

    if (f->n_chores >= CHORES_MAX || f->chores_stop)
        return EBUSY;
    while (*at)
        at = &(*at)->next;
    c->next = NULL;
    c->slot = request ? hand_park(&f->hand, request) : HAND_NO_SLOT;
    *at = c;
    f->n_chores++;
    cond_signal(&f->chores_due);
    return 0;
}

void chores_stop(struct frontend *f)
{
    if (!f->chores_started)
        return;
    lock_take(&f->chores_lock);
    f->chores_stop = true;
    cond_broadcast(&f->chores_due);
    lock_drop(&f->chores_lock);
    pthread_join(f->chores_thread, NULL);
    f->chores_started = false;
}

int chores_start(struct frontend *f, struct err *err)
{
    int e = thread_start(&f->chores_thread, "fuse-chores", chores_run, f);

    if (e)
        return err_thread(err, e, "start a thread");
    f->chores_started = true;
    return 0;
}
