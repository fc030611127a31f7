/* Secrets stay in memory no longer than the jobs that need them. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "drop-folder.h"
#include "kick.h"

#define MINUTE_0 1700000040ll

static _Atomic int64_t now;
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

static int64_t read_clock(void *arg)
{
    (void)arg;
    return atomic_load(&now);
}

static char *id_of_minute(int minute)
{
    return xasprintf("t-%lld", MINUTE_0 + 60ll * minute);
}

static bool has_secret(struct jobs *j, const char *id)
{
    ACQUIRE(&j->lock);
    return secret_find(j, id) != NULL;
}

/* The clock says so; waits until that minute's job is in that state. */
static void until(struct jobs *j, int clock, int minute, enum job_state want)
{
    cleanup_free char *id = id_of_minute(minute);
    enum job_state state;
    cleanup_bytes struct bytes error = {0};
    atomic_store(&now, MINUTE_0 + 60 * clock);
    jobs_kick(j);
    while (jobs_state(j, id, &state, &error, NULL) || state != want)
        usleep(200);
}

Test(jobs_secrets, of_a_run_that_another_replaces_are_forgotten, .timeout = 60)
{
    static const char text[] = "{\"id\":\"t\",\"type\":\"k\",\"options\":{},\"schedule\":"
                               "\"* * * * *\",\"concurrencyPolicy\":\"Replace\"}";
    static const struct job_kind kinds[] = {{"k", check, touch, NULL, run}};
    char dir[] = "/tmp/jobs-secrets-XXXXXX";
    cr_assert(mkdtemp(dir));
    const struct jobs_conf conf = {.dir = dir, .kinds = kinds, .n_kinds = 1, .wall_s = read_clock};
    struct jobs *j;
    struct err err = {0};
    bool is_new;
    cleanup_json struct json_doc *doc = NULL;
    atomic_store(&now, MINUTE_0);
    atomic_store(&hold, true);
    cr_assert(jobs_open(&j, &conf, &err) == 0, "%s", err.msg);
    cr_assert(json_parse(&doc, "job", text, sizeof text - 1, &err) == 0);
    struct json root = json_root(doc);
    cr_assert(jobs_submit(j, &root, NULL, &is_new, &err) == 0, "%s", err.msg);
    until(j, 1, 1, JOB_RUNNING);
    until(j, 2, 2, JOB_PENDING); /* the first one still runs */
    cleanup_free char *second = id_of_minute(2), *third = id_of_minute(3);
    cr_expect(has_secret(j, second));
    until(j, 3, 2, JOB_CANCELLED);
    cr_expect(!has_secret(j, second));
    cr_expect(has_secret(j, third) && has_secret(j, "t"));
    atomic_store(&hold, false);
    jobs_close(j);
    jobs_drop_folder(dir);
}
