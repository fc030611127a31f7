/* A run that waits for others tells them when the next one of its schedule takes its place, also
 * where that comes due while nobody is there. */
#include "minutes.h"

static _Atomic int began, cancels;

static int check(void *server, const struct json *o, struct bytes *ret, struct bytes *secret,
                 struct err *err)
{
    (void)server, (void)o, (void)secret, (void)err;
    bytes_add_str(ret, "{}");
    return 0;
}

static bool always(const struct json *options)
{
    (void)options;
    return true;
}

static int run(struct job_run *r, void *server, const struct json *o, struct bytes *result,
               struct err *err)
{
    (void)server, (void)o, (void)result, (void)err;
    enum job_wish wish;
    atomic_fetch_add(&began, 1);
    while ((wish = job_wanted(r)) == JOB_GO_ON)
        usleep(200);
    atomic_fetch_add(&cancels, wish == JOB_CANCEL);
    return 0;
}

Test(jobs_replaced, others_hear_of_it_after_a_restart, .timeout = 60)
{
    static const struct job_kind kind = {"k", check, NULL, always, run};
    struct minutes m;
    minutes_begin(&m, &kind);
    minutes_until(&m, 1, 1, JOB_RUNNING);
    while (atomic_load(&began) < 1)
        usleep(200);
    jobs_close(m.jobs);
    cr_expect_eq(atomic_load(&cancels), 0);
    atomic_store(&m.now, MINUTE_0 + 120);
    minutes_open(&m);
    minutes_until(&m, 2, 1, JOB_CANCELLED);
    minutes_until(&m, 2, 2, JOB_RUNNING);
    cr_expect_eq(atomic_load(&cancels), 1, "those who work for the first run are not told");
    minutes_end(&m);
}
