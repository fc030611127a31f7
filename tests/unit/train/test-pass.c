/* A pass on a device that computes while the next batch is taken. */
#include <criterion/criterion.h>
#include <string.h>

#include "backend.h"
#include "clock.h"
#include "options.h"
#include "rendezvous.h"
#include "train-internal.h"

static void feed(struct backend *b, int set)
{
    (void)b;
    (void)set;
}

static void feed_wait(struct backend *b)
{
    (void)b;
}

/* Whoever asks is answered when all is computed. */
static bool busy_for_an_hour(struct backend *b)
{
    (void)b;
    clock_advance(3600 * NS_PER_S);
    return false;
}

Test(pass, the_time_of_a_device_is_no_wait_for_samples)
{
    struct err err = {0};
    const struct options o = {.optimizer = "momentum", .num_passes = 1, .log_period = 1};
    const struct batch_options source = {
        .data = "synthetic:12,2", .batch = 4, .ranks = 1, .height = 4, .width = 4, .threads = 1};
    struct run r = {.o = &o, .schedule = {.kind = SCHEDULE_CONSTANT, .base = 0.1}};
    cr_assert_eq(backend_cpu(&r.b, 1, &err), 0, "%s", err.msg);
    struct backend_ops ops = *r.b->ops;
    ops.feed_begin = ops.feed_end = feed;
    ops.feed_wait = feed_wait;
    ops.busy = busy_for_an_hour;
    r.b->ops = &ops;
    cr_assert_eq(collective_open(&r.c, &(struct rendezvous){.ranks = 1}, NULL, &err), 0, "%s",
                 err.msg);
    cr_assert_eq(batch_open(&r.batches, MODEL_PICTURES, &source, &err), 0, "%s", err.msg);
    r.n = net_new(r.b, "small");
    net_softmax_loss(r.n, net_dense(r.n, net_image(r.n, 4, 4, 3), 2), 0);
    cr_assert_eq(net_finish(r.n, source.batch, 1, &err), 0, "%s", err.msg);
    cr_assert_eq(
        report_open(&r.report, &(struct report_options){.log_period = 1, .passes = 1}, &err), 0,
        "%s", err.msg);

    cr_assert_eq(run_pass(&r, &err), 0, "%s", err.msg);
    cr_expect_eq(r.at.step, 3);
    cr_expect_gt(r.report.all.step_ns, 3 * 3600 * NS_PER_S);
    cr_expect_lt(r.report.all.wait_ns, 3600 * NS_PER_S);

    report_close(&r.report);
    net_free(r.n);
    batch_close(r.batches);
    collective_close(r.c);
    backend_close(r.b);
}
