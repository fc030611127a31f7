/*
 * The workers: a few threads that read the device. Each serves what needs no waiting and hands the
 * rest to a lane.
 *
 * Careful (keeper's state.h): after a death that some request may have caused, one worker alone
 * serves, one request at a time, until all that was in hand then has been answered. A request that
 * must wait for the store is waited for, too, but only for a moment: it is in no handler then, and
 * a store that is away must not stop who works here. What ended three lives is answered EIO.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "clock.h"
#include "outfuse-internal.h"
#include "suspects.h"

#define LOG_MODULE "fuse"
#include "log.h"

/* How long a careful worker waits for one request in a lane, and for all together. */
#define LANE_NS      (1 * NS_PER_S)
#define ALL_LANES_NS (5 * NS_PER_S)

/* --- requests that kill ---------------------------------------------------------------------- */

static struct keeper_suspect *suspect(struct outfuse *f, const struct keeper_request *r)
{
    return f->has_suspects ? suspects_find(&f->hands.state->keeper, r) : NULL;
}

bool out_worker_refuses(struct outfuse *f, const struct keeper_request *r)
{
    const struct keeper_suspect *s = suspect(f, r);

    if (!s || !suspect_is_guilty(s))
        return false;
    log_warn(f->log, "refused a request that ended %u lives: %s of inode %llu", KEEPER_DEATHS,
             suspect_op_name(r->opcode), (unsigned long long)r->nodeid);
    return true;
}

void out_worker_answered(struct outfuse *f, const struct keeper_request *r)
{
    struct keeper_suspect *s = suspect(f, r);

    if (s)
        suspects_absolve(s);
}

static void start_careful(struct outfuse *f)
{
    struct keeper_state *state = f->hands.state;

    f->has_suspects = suspects_any(&state->keeper);
    atomic_store(&f->careful, suspects_open(&state->keeper));
    atomic_store(&state->careful, atomic_load(&f->careful));
    f->patience_ns = ALL_LANES_NS;
    if (atomic_load(&f->careful))
        log_warn(f->log, "one request at a time, until what was in hand at the last death is "
                         "answered");
}

/* What still waits in a lane stays a suspect until it is answered. */
static void end_careful(struct outfuse *f)
{
    if (!atomic_load_explicit(&f->careful, memory_order_relaxed))
        return;
    if (lanes_rest(f, 0))
        suspects_absolve_all(&f->hands.state->keeper);
    atomic_store(&f->hands.state->careful, 0);
    ACQUIRE(&f->state_lock);
    atomic_store(&f->careful, false);
    cond_broadcast(&f->ended);
}

/* While one is careful the others wait. */
static void wait_while_careful(struct outfuse *f)
{
    ACQUIRE(&f->state_lock);

    while (atomic_load(&f->careful))
        cond_wait(&f->ended, &f->state_lock);
}

/* After a request went to a lane. */
static void wait_for_lanes(struct outfuse *f)
{
    uint64_t most = f->patience_ns < LANE_NS ? f->patience_ns : LANE_NS, began = clock_mono_ns();

    if (!atomic_load_explicit(&f->careful, memory_order_relaxed) || !most)
        return;
    lanes_rest(f, most);
    uint64_t took = clock_mono_ns() - began;
    f->patience_ns -= took < f->patience_ns ? took : f->patience_ns;
}

/* What the kernel sends again it sends first: the first new request says that all is answered. */
static bool is_new(const struct keeper_request *r)
{
    return !request_wants_no_reply(r->opcode) && !(r->unique & WIRE_RESENT);
}

/* --- what a dead life left ------------------------------------------------------------------- */

static void serve_left(void *arg, struct place p)
{
    lanes_add(arg, p);
    wait_for_lanes(arg);
}

static int ask_to_resend(struct outfuse *f)
{
    struct wire_out_header h = {.len = sizeof(h), .error = WIRE_NOTIFY_RESEND};

    return write(f->dev, &h, sizeof(h)) < 0 ? -errno : 0;
}

void out_workers_take_up(struct outfuse *f)
{
    struct keeper_state *state = f->hands.state;

    session_learn_init(f, (const void *)state->init, state->init_len);
    start_careful(f);
    if (state->can_resend) {
        hands_forget_all(&f->hands);
        int e = ask_to_resend(f);
        if (!e)
            return;
        log_warn(f->log, "ask the kernel to send requests again: %s", strerror(-e));
    }
    hands_left(&f->hands, serve_left, f);
    end_careful(f);
}

/* --- the threads ----------------------------------------------------------------------------- */

ssize_t out_worker_receive(struct outfuse *f, uint32_t desk)
{
    struct keeper_request *at = hands_at(&f->hands, (struct place){.index = desk});
    ssize_t n;

    do /* ENOENT: its caller gave it up while it was handed out */
        n = read(f->dev, at, hands_room(&f->hands));
    while (n < 0 && (errno == EINTR || errno == EAGAIN || errno == ENOENT));
    return n < 0 ? -errno : n;
}

/* The desk to go on with: another, if the request had to keep this one. */
static uint32_t serve_desk(struct outfuse *f, uint32_t desk)
{
    struct hands *h = &f->hands;

    if (outfuse_serve(f, hands_at(h, (struct place){.index = desk}), NULL)) {
        hands_clear(h, desk);
        return desk;
    }
    struct place p = hands_park(h, desk);
    lanes_add(f, p);
    wait_for_lanes(f);
    return p.slot ? desk : hands_take_desk(h);
}

static void worker_ended(void *arg)
{
    struct outfuse *f = arg;
    ACQUIRE(&f->state_lock);

    f->workers_running--;
    atomic_store(&f->careful, false); /* it may be the one that the others wait for */
    cond_broadcast(&f->ended);
}

/* A worker is cancelled only while it waits for a request: see out_workers_stop(). */
static void *worker(void *arg)
{
    struct worker *w = arg;
    struct outfuse *f = w->f;
    uint32_t desk = hands_take_desk(&f->hands);
    ssize_t n;

    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
    pthread_cleanup_push(worker_ended, f);
    if (w->number > 0)
        wait_while_careful(f);
    while (!atomic_load(&f->stopping)) {
        pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, NULL);
        n = out_worker_receive(f, desk);
        pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
        if (n <= 0)
            break;
        if (is_new(hands_at(&f->hands, (struct place){.index = desk})))
            end_careful(f);
        desk = serve_desk(f, desk);
    }
    pthread_cleanup_pop(1);
    return NULL;
}

int out_workers_start(struct outfuse *f, struct err *err)
{
    char name[16];

    for (unsigned i = 0; i < OUTFUSE_WORKERS; i++) {
        struct worker *w = &f->workers[i];

        *w = (struct worker){.f = f, .number = i};
        lock_take(&f->state_lock);
        f->workers_running++;
        lock_drop(&f->state_lock);
        snprintf(name, sizeof(name), "fuse-%u", i);
        int e = thread_start(&w->thread, name, worker, w);
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

void out_workers_stop(struct outfuse *f)
{
    atomic_store(&f->stopping, true);
    {
        ACQUIRE(&f->state_lock);
        atomic_store(&f->careful, false);
        cond_broadcast(&f->ended);
    }
    for (unsigned i = 0; i < f->n_workers; i++)
        pthread_cancel(f->workers[i].thread);
}

void out_workers_join(struct outfuse *f)
{
    for (unsigned i = 0; i < f->n_workers; i++)
        pthread_join(f->workers[i].thread, NULL);
    f->n_workers = 0;
}
