/*
 * The workers: each reads one request at a time from the device into its desk and sees to its
 * answer. libfuse parses and answers all but READ, the hot path (op-read.c), and OPEN and RELEASE
 * of --profile shards (passthrough.c). INTERRUPT is ignored, which the protocol allows: each
 * request gets its one reply anyway.
 *
 * Careful: after a death that some request may have caused, one worker serves one request at a time
 * to its end, until all that was in hand then has been answered (keeper's state.h).
 */
#include <errno.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "clock.h"
#include "frontend-internal.h"
#include "mem.h"
#include "suspects.h"

#define LOG_MODULE "fuse"
#include "log.h"

/* --- one request --- */

static bool needs_no_reply(uint32_t opcode)
{
    return opcode == WIRE_FORGET || opcode == WIRE_BATCH_FORGET || opcode == WIRE_INTERRUPT;
}

static bool is_read(const struct wire_in_header *h)
{
    return h->opcode == WIRE_READ && h->len >= sizeof(*h) + sizeof(struct wire_read_in);
}

static void refuse(struct frontend *f, const struct wire_in_header *h, uint32_t slot)
{
    if (h->opcode == WIRE_FLUSH)
        dev_reply(f, h->unique, -ENOSYS, NULL, 0); /* as always: nothing is ever to be flushed */
    else if (!needs_no_reply(h->opcode))
        dev_reply(f, h->unique, h->opcode == WIRE_DESTROY ? 0 : -EIO, NULL, 0);
    if (slot != HAND_NO_SLOT)
        hand_unpark(&f->hand, slot);
}

static void dispatch(struct frontend *f, const struct wire_in_header *h, uint32_t slot)
{
    struct fuse_buf buf = {.mem = (void *)h, .size = h->len};

    if (f->conf.refuse)
        refuse(f, h, slot);
    else if (h->opcode == WIRE_INTERRUPT)
        return;
    else if (is_read(h))
        op_read(f, h, (const void *)(h + 1), slot);
    else if (h->opcode == WIRE_OPEN && f->passthrough)
        passthrough_open(f, h);
    else if (h->opcode == WIRE_RELEASE && f->passthrough)
        passthrough_release(f, h);
    else
        fuse_session_process_buf(f->session, &buf);
}

static void answer_guilty(struct frontend *f, const struct wire_in_header *h, uint32_t slot)
{
    log_warn(f->log, "refused a request that ended %u lives: %s of id %llu", KEEPER_DEATHS,
             suspect_op_name(h->opcode), (unsigned long long)h->nodeid);
    refuse(f, h, slot);
}

/* READs on their way; their last step touches nothing but the count, so it is looked at again. */
static void wait_for_reads(struct frontend *f)
{
    const struct timespec pause = {.tv_nsec = 50 * 1000};

    while (atomic_load(&f->parked) > 0)
        nanosleep(&pause, NULL);
}

static void serve_one(struct frontend *f, const struct wire_in_header *h, uint32_t slot)
{
    struct keeper_part *kept = &f->hand.state->keeper;
    struct keeper_suspect *s = f->has_suspects ? suspects_find(kept, (const void *)h) : NULL;

    if (s && suspect_is_guilty(s)) {
        answer_guilty(f, h, slot);
        return;
    }
    dispatch(f, h, slot);
    if (!atomic_load_explicit(&f->careful, memory_order_relaxed))
        return;
    wait_for_reads(f);
    if (s)
        suspects_absolve(s);
}

/* --- being careful --- */

static void start_careful(struct frontend *f)
{
    struct keeper_state *state = f->hand.state;

    f->has_suspects = suspects_any(&state->keeper);
    atomic_store(&f->careful, suspects_open(&state->keeper));
    atomic_store(&state->careful, atomic_load(&f->careful));
    if (atomic_load(&f->careful))
        log_warn(f->log, "one request at a time, until what was in hand at the last death is "
                         "answered");
}

/* On the one worker that serves, or before there is any. */
static void end_careful(struct frontend *f)
{
    struct keeper_state *state = f->hand.state;

    if (!atomic_load_explicit(&f->careful, memory_order_relaxed))
        return;
    suspects_absolve_all(&state->keeper);
    atomic_store(&state->careful, 0);
    ACQUIRE(&f->state_lock);
    atomic_store(&f->careful, false);
    cond_broadcast(&f->ended);
}

/* What the kernel sends again it sends first: the first new request says that all is answered. */
static bool is_new(const struct wire_in_header *h)
{
    return !needs_no_reply(h->opcode) && !(h->unique & WIRE_RESENT);
}

/* --- what a dead life had in hand --- */

/* The kernel sends again what was not answered. False: it can't. */
static bool ask_again(struct frontend *f)
{
    struct wire_out_header h = {.len = sizeof(h), .error = WIRE_NOTIFY_RESEND};

    if (!f->hand.state->can_resend)
        return false;
    if (write(f->dev, &h, sizeof(h)) < 0) {
        if (errno == EINVAL || errno == ENOSYS)
            return false;
        log_error(f->log, "ask the kernel for what was in hand: %m"); /* the workers will see */
    }
    hand_clear_all(&f->hand);
    return true;
}

/* A request of a slot, whole again: what did not fit is zero bytes. */
static void serve_slot(struct frontend *f, uint32_t slot)
{
    const struct wire_in_header *h = hand_slot(&f->hand, slot);
    size_t kept = h->len < KEEPER_SLOT_BYTES ? h->len : KEEPER_SLOT_BYTES;
    char *copy;

    if (h->len < sizeof(*h) || h->len > hand_desk_bytes(&f->hand)) {
        hand_unpark(&f->hand, slot);
        return;
    }
    if (is_read(h)) { /* goes on waiting in its slot */
        serve_one(f, h, slot);
        return;
    }
    copy = xcalloc(1, h->len);
    memcpy(copy, h, kept);
    serve_one(f, (const void *)copy, HAND_NO_SLOT);
    free(copy);
    hand_unpark(&f->hand, slot);
}

void worker_take_over(struct frontend *f)
{
    start_careful(f);
    if (ask_again(f))
        return;
    f->replaying = true; /* requests may have been executed before */
    atomic_store(&f->workers[0].tid, gettid());
    for (uint32_t i = 0; i < hand_top(&f->hand); i++)
        if (hand_holds(hand_slot(&f->hand, i)))
            serve_slot(f, i);
    for (uint32_t i = 0; i < f->hand.state->n_desks; i++) {
        struct wire_in_header *desk = hand_desk(&f->hand, i);

        if (hand_holds(desk) && desk->len >= sizeof(*desk) &&
            desk->len <= hand_desk_bytes(&f->hand)) {
            f->workers[0].now = desk;
            serve_one(f, desk, HAND_NO_SLOT);
        }
        hand_clear(desk);
    }
    f->replaying = false;
    end_careful(f);
}

/* --- the threads --- */

/* Reads the next request into the desk. False: the mount is gone, or we are to end. */
static bool take_request(struct frontend *f, struct wire_in_header *desk)
{
    for (;;) {
        ssize_t n;

        pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, NULL);
        n = read(f->dev, desk, hand_desk_bytes(&f->hand));
        pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
        if (n >= (ssize_t)sizeof(*desk))
            return true;
        /* ENOENT: the reader gave it up while it was handed out. */
        if (n < 0 && (errno == EINTR || errno == EAGAIN || errno == ENOENT))
            continue;
        if (n >= 0)
            log_error(f->log, "the kernel handed out %zd bytes, which is no request", n);
        else if (errno != ENODEV) /* unmounted */
            log_error(f->log, "read /dev/fuse: %m");
        return false;
    }
}

static void worker_ended(void *arg)
{
    struct frontend *f = arg;
    ACQUIRE(&f->state_lock);

    f->workers_running--;
    atomic_store(&f->careful, false); /* it may be the one that the others wait for */
    cond_broadcast(&f->ended);
}

/* While one is careful the others wait. */
static void wait_while_careful(struct frontend *f)
{
    ACQUIRE(&f->state_lock);

    while (atomic_load(&f->careful))
        cond_wait(&f->ended, &f->state_lock);
}

/* A worker is cancelled only while it waits for a request: see stop_workers(). */
static void *worker_run(void *arg)
{
    struct worker *w = arg;
    struct frontend *f = w->f;
    struct wire_in_header *desk = hand_desk(&f->hand, w->desk);

    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
    pthread_cleanup_push(worker_ended, f);
    atomic_store(&w->tid, gettid());
    w->now = desk;
    if (w->desk > 0)
        wait_while_careful(f);
    while (!atomic_load(&f->stop_workers) && take_request(f, desk)) {
        if (is_new(desk))
            end_careful(f);
        serve_one(f, desk, HAND_NO_SLOT);
        hand_clear(desk); /* answered, or moved to a slot */
    }
    pthread_cleanup_pop(1);
    return NULL;
}

int workers_start(struct frontend *f, struct err *err)
{
    char name[16];

    for (unsigned i = 0; i < FRONTEND_WORKERS && i < f->hand.state->n_desks; i++) {
        struct worker *w = &f->workers[i];

        w->f = f;
        w->desk = i;
        lock_take(&f->state_lock);
        f->workers_running++;
        lock_drop(&f->state_lock);
        snprintf(name, sizeof(name), "fuse-%u", i);
        int e = thread_start(&w->thread, name, worker_run, w);
        if (e) {
            lock_take(&f->state_lock);
            f->workers_running--;
            lock_drop(&f->state_lock);
            return err_sys(err, e, "start a thread");
        }
        f->n_workers++;
    }
    return 0;
}

/* They are cancelled in their wait for a request; what they serve they serve to its end. */
void workers_stop(struct frontend *f)
{
    atomic_store(&f->stop_workers, true);
    {
        ACQUIRE(&f->state_lock);
        atomic_store(&f->careful, false);
        cond_broadcast(&f->ended);
    }
    for (unsigned i = 0; i < f->n_workers; i++)
        pthread_cancel(f->workers[i].thread);
    for (unsigned i = 0; i < f->n_workers; i++)
        pthread_join(f->workers[i].thread, NULL);
    f->n_workers = 0;
}

const struct wire_in_header *worker_request(struct frontend *f)
{
    int tid = gettid();

    for (unsigned i = 0; i < FRONTEND_WORKERS; i++)
        if (atomic_load(&f->workers[i].tid) == tid)
            return f->workers[i].now;
    return NULL;
}
