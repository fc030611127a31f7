/*
 * What the workers (keeper's crew.h) do with a request. libfuse parses and answers all but READ,
 * the hot path (op-read.c), and OPEN and RELEASE of --profile shards (passthrough.c). INTERRUPT is
 * ignored, which the protocol allows: each request gets its one reply anyway.
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

static bool is_read(const struct wire_in_header *h)
{
    return h->opcode == WIRE_READ && h->len >= sizeof(*h) + sizeof(struct wire_read_in);
}

static void refuse(struct frontend *f, const struct wire_in_header *h, uint32_t slot)
{
    if (h->opcode == WIRE_FLUSH)
        dev_reply(f, h->unique, -ENOSYS, NULL, 0); /* as always: nothing is ever to be flushed */
    else if (!wire_wants_no_reply(h->opcode))
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

/* READs on their way; their last step touches nothing but the count, so it is looked at again. */
static void wait_for_reads(struct frontend *f)
{
    const struct timespec pause = {.tv_nsec = 50 * 1000};

    while (atomic_load(&f->parked) > 0)
        nanosleep(&pause, NULL);
}

static void serve_one(struct frontend *f, const struct wire_in_header *h, uint32_t slot)
{
    struct keeper_suspect *s = crew_suspect(&f->crew, (const void *)h);

    if (crew_refuses(&f->crew, (const void *)h)) {
        refuse(f, h, slot);
        return;
    }
    dispatch(f, h, slot);
    if (!crew_is_careful(&f->crew))
        return;
    wait_for_reads(f);
    suspects_absolve(s);
}

/* --- what a dead life had in hand --- */

/* The kernel sends again what was not answered. False: it can't. */
static bool ask_again(struct frontend *f)
{
    if (!f->hand.state->can_resend)
        return false;
    int e = crew_ask_again(&f->crew);
    if (e == -EINVAL || e == -ENOSYS)
        return false;
    if (e) /* the workers will see */
        log_error(f->log, "ask the kernel for what was in hand: %s", strerror(-e));
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
    crew_start_careful(&f->crew);
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
    crew_end_careful(&f->crew);
}

/* --- the workers --- */

static uint32_t first_desk(void *arg, unsigned number)
{
    struct frontend *f = arg;

    atomic_store(&f->workers[number].tid, gettid());
    f->workers[number].now = hand_desk(&f->hand, number);
    return number;
}

static uint32_t serve_desk(void *arg, uint32_t desk)
{
    struct frontend *f = arg;

    serve_one(f, hand_desk(&f->hand, desk), HAND_NO_SLOT);
    hand_clear(hand_desk(&f->hand, desk)); /* answered, or moved to a slot */
    return desk;
}

const struct crew_ops worker_ops = {.desk = first_desk, .serve = serve_desk};

int workers_start(struct frontend *f, struct err *err)
{
    uint32_t n = f->hand.state->n_desks;

    return crew_start(&f->crew, n < CREW_WORKERS ? n : CREW_WORKERS, err);
}

const struct wire_in_header *worker_request(struct frontend *f)
{
    int tid = gettid();

    for (unsigned i = 0; i < CREW_WORKERS; i++)
        if (atomic_load(&f->workers[i].tid) == tid)
            return f->workers[i].now;
    return NULL;
}
