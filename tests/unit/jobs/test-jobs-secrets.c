/* Secrets stay in memory no longer than the jobs that need them. */
#include "minutes.h"

static atomic_bool hold;

static int check(void *server, const struct json *o, struct bytes *ret, struct bytes *secret,
                 struct err *err)
{
    (void)server, (void)o, (void)err;
    bytes_add_str(ret, "{}");
    bytes_add_str(secret, "k3y");
    return 0;
}

static void touch(const struct json *o, struct bytes *ret)
{
    (void)o;
    bytes_add_str(ret, "/one\n");
}

/* Deaf to whatever is wished. */
static int run(struct job_run *r, void *server, const struct json *o, struct bytes *result,
               struct err *err)
{
    (void)r, (void)server, (void)o, (void)result, (void)err;
    while (atomic_load(&hold))
        usleep(200);
    return 0;
}

static bool has_secret(struct jobs *j, const char *id)
{
    ACQUIRE(&j->lock);
    return secret_find(j, id) != NULL;
}

Test(jobs_secrets, of_a_run_that_another_replaces_are_forgotten, .timeout = 60)
{
    static const struct job_kind kind = {"k", check, touch, NULL, run};
    struct minutes m;
    atomic_store(&hold, true);
    minutes_begin(&m, &kind);
    minutes_until(&m, 1, 1, JOB_RUNNING);
    minutes_until(&m, 2, 2, JOB_PENDING); /* the first one still runs */
    cleanup_free char *second = minutes_id(2), *third = minutes_id(3);
    cr_expect(has_secret(m.jobs, second));
    minutes_until(&m, 3, 2, JOB_CANCELLED);
    cr_expect(!has_secret(m.jobs, second));
    cr_expect(has_secret(m.jobs, third) && has_secret(m.jobs, "t"));
    atomic_store(&hold, false);
    minutes_end(&m);
}
