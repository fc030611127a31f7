/*
 * The workers (keeper's crew.h): each serves what needs no waiting and hands the rest to a lane,
 * but for a small file that is closed: some of them wait for that one themselves.
 *
 * While one is careful, a request that must wait for the store is waited for, too, but only for a
 * moment: it is in no handler then, and a store that is away must not stop who works here.
 */
#include <errno.h>
#include <string.h>

#include "clock.h"
#include "outfuse-internal.h"

#define LOG_MODULE "fuse"
#include "log.h"

/* How long a careful worker waits for one request in a lane, and for all together. */
#define LANE_NS      (1 * NS_PER_S)
#define ALL_LANES_NS (5 * NS_PER_S)

/* --- being careful --------------------------------------------------------------------------- */

/* What still waits in a lane stays a suspect until it is answered. */
static bool rested(void *arg)
{
    return lanes_rest(arg, 0);
}

/* After a request went to a lane. */
static void wait_for_lanes(struct outfuse *f)
{
    uint64_t most = f->patience_ns < LANE_NS ? f->patience_ns : LANE_NS, began = clock_mono_ns();

    if (!crew_is_careful(&f->crew) || !most)
        return;
    lanes_rest(f, most);
    uint64_t took = clock_mono_ns() - began;
    f->patience_ns -= took < f->patience_ns ? took : f->patience_ns;
}

/* --- what a dead life left ------------------------------------------------------------------- */

static void serve_left(void *arg, struct place p)
{
    lanes_add(arg, p);
    wait_for_lanes(arg);
}

void out_workers_take_up(struct outfuse *f)
{
    struct keeper_state *state = f->hands.state;

    session_learn_init(f, (const void *)state->init, state->init_len);
    f->patience_ns = ALL_LANES_NS;
    crew_start_careful(&f->crew);
    if (state->can_resend) {
        hands_forget_all(&f->hands);
        int e = crew_ask_again(&f->crew);
        if (!e)
            return;
        log_warn(f->log, "ask the kernel to send requests again: %s", strerror(-e));
    }
    hands_left(&f->hands, serve_left, f);
    crew_end_careful(&f->crew);
}

/* --- the threads ----------------------------------------------------------------------------- */

static uint32_t first_desk(void *arg, unsigned number)
{
    struct outfuse *f = arg;

    (void)number;
    return hands_take_desk(&f->hands);
}

/* The desk to go on with: another, if the request had to keep this one. */
static uint32_t serve_desk(void *arg, uint32_t desk)
{
    struct outfuse *f = arg;
    struct hands *h = &f->hands;

    if (outfuse_serve(f, hands_at(h, (struct place){.index = desk}), NULL)) {
        hands_clear(h, desk);
        return desk;
    }
    struct place p = hands_park(h, desk);
    if (p.slot && lanes_serve_here(f, p))
        return desk;
    lanes_add(f, p);
    wait_for_lanes(f);
    return p.slot ? desk : hands_take_desk(h);
}

const struct crew_ops out_worker_ops = {.desk = first_desk, .serve = serve_desk, .rested = rested};
