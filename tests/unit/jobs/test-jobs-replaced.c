/* A run that waits for others tells them when the next one of its schedule takes its place, also
 * where that comes due while nobody is there. */
#include <criterion/criterion.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "drop-folder.h"
#include "kick.h"

#define MINUTE_0 1700000040ll

static _Atomic int64_t now;
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

static int64_t read_clock(void *arg)
{
    (void)arg;
    return atomic_load(&now);
}

static void wait_for(struct jobs *j, int minute, enum job_state want)
{
    cleanup_free char *id = xasprintf("t-%lld", MINUTE_0 + 60ll * minute);
    cleanup_bytes struct bytes error = {0};
    enum job_state state;
    while (jobs_state(j, id, &state, &error, NULL) || state != want)
        usleep(200);
}

Test(jobs_replaced, others_hear_of_it_after_a_restart, .timeout = 60)
{
    static const char text[] = "{\"id\":\"t\",\"type\":\"k\",\"schedule\":\"* * * * *\","
                               "\"concurrencyPolicy\":\"Replace\"}";
    static const struct job_kind kinds[] = {{"k", check, NULL, always, run}};
    char dir[] = "/tmp/jobs-replaced-XXXXXX";
    cr_assert(mkdtemp(dir));
    const struct jobs_conf conf = {.dir = dir, .kinds = kinds, .n_kinds = 1, .wall_s = read_clock};
    struct jobs *j;
    struct err err = {0};
    bool is_new;
    cleanup_json struct json_doc *doc = NULL;
    atomic_store(&now, MINUTE_0);
    cr_assert(jobs_open(&j, &conf, &err) == 0, "%s", err.msg);
    cr_assert(json_parse(&doc, "job", text, sizeof text - 1, &err) == 0);
    struct json root = json_root(doc);
    cr_assert(jobs_submit(j, &root, NULL, &is_new, &err) == 0, "%s", err.msg);
    atomic_store(&now, MINUTE_0 + 60);
    jobs_kick(j);
    wait_for(j, 1, JOB_RUNNING);
    while (atomic_load(&began) < 1)
        usleep(200);
    jobs_close(j);
    cr_expect_eq(atomic_load(&cancels), 0);
    atomic_store(&now, MINUTE_0 + 120);
    cr_assert(jobs_open(&j, &conf, &err) == 0, "%s", err.msg);
    wait_for(j, 1, JOB_CANCELLED);
    wait_for(j, 2, JOB_RUNNING);
    cr_expect_eq(atomic_load(&cancels), 1, "those who work for the first run are not told");
    jobs_close(j);
    jobs_drop_folder(dir);
}
