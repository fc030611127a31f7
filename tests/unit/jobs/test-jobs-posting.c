/* A server does for another one what that was asked for, and not what it lost. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "drop-folder.h"
#include "jobs-internal.h"

static _Atomic int runs;
static atomic_bool hold;

static int check(void *server, const struct json *o, struct bytes *ret, struct bytes *secret,
                 struct err *err)
{
    (void)server, (void)o, (void)secret, (void)err;
    bytes_add_str(ret, "{}");
    return 0;
}

static int run(struct job_run *r, void *server, const struct json *o, struct bytes *result,
               struct err *err)
{
    (void)server, (void)o, (void)result, (void)err;
    const struct job_progress p = {.items = 1, .eta_s = -1};
    job_tell_partition(r, 0, JOB_SUCCEEDED, &p, NULL);
    while (atomic_load(&hold))
        usleep(200);
    atomic_fetch_add(&runs, 1);
    return 0;
}

static bool is_new(struct jobs *j, const char *posting)
{
    static const char text[] = "{\"id\":\"a\",\"type\":\"k\"}";
    cleanup_json struct json_doc *doc = NULL;
    struct err err = {0};
    bool new;
    cr_assert(json_parse(&doc, "job", text, sizeof text - 1, &err) == 0);
    struct json root = json_root(doc);
    cr_assert(jobs_submit(j, &root, posting, &new, &err) == 0, "%s", err.msg);
    return new;
}

static void ends(struct jobs *j, int n)
{
    enum job_state state = JOB_PENDING;
    cleanup_bytes struct bytes error = {0};
    while (jobs_state(j, "a", &state, &error, NULL) || state != JOB_SUCCEEDED)
        usleep(200);
    cr_expect_eq(atomic_load(&runs), n);
}

Test(jobs_posting, what_has_ended_makes_room_for_a_job_of_another, .timeout = 60)
{
    static const struct job_kind kinds[] = {{"k", check, NULL, NULL, run}};
    char dir[] = "/tmp/jobs-posting-XXXXXX";
    cr_assert(mkdtemp(dir));
    const struct jobs_conf conf = {.dir = dir, .kinds = kinds, .n_kinds = 1};
    struct jobs *j;
    struct err err = {0};
    cr_assert(jobs_open(&j, &conf, &err) == 0, "%s", err.msg);
    cr_expect(is_new(j, "one"));
    ends(j, 1);
    cr_expect(!is_new(j, "one"));
    cr_expect(!is_new(j, NULL), "whoever posts it for itself knows it");
    cr_expect(!is_new(j, ""));
    cr_expect(is_new(j, "two"));
    ends(j, 2);
    cr_expect(!is_new(j, "two"));

    cr_assert(jobstore_set_posting(j->store, "a", "", NULL) == 0, "as an older program leaves it");
    cr_expect(!is_new(j, "three"), "it may be that one");
    cr_expect(is_new(j, "four"), "it is known by now");
    ends(j, 3);

    atomic_store(&hold, true);
    cr_expect(is_new(j, "five"));
    cr_expect(!is_new(j, "six"), "what has not ended does what is asked");
    atomic_store(&hold, false);
    ends(j, 4);
    cr_expect(!is_new(j, "six"));
    jobs_close(j);
    jobs_drop_folder(dir);
}
