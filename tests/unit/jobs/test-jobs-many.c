/* What tens of thousands of jobs that have ended cost those that have not: nothing. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "drop-folder.h"
#include "jobs-internal.h"

#define ENDED  20000
#define POSTED 50

/* Steps of all statements, in hundreds. */
static _Atomic unsigned long steps;

static int count_steps(void *arg)
{
    (void)arg;
    atomic_fetch_add(&steps, 1);
    return 0;
}

/* Called for each connection that is opened, which it then counts for. */
static int count_for(sqlite3 *db, const char **ret_error, const struct sqlite3_api_routines *api)
{
    (void)ret_error, (void)api;
    sqlite3_progress_handler(db, 100, count_steps, NULL);
    return SQLITE_OK;
}

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
    (void)r, (void)server, (void)o, (void)result, (void)err;
    return 0;
}

static void post(struct jobs *j, int i)
{
    cleanup_free char *text = xasprintf("{\"id\":\"new-%d\",\"type\":\"k\"}", i);
    cleanup_json struct json_doc *doc = NULL;
    struct err err = {0};
    bool new;
    cr_assert_eq(json_parse(&doc, "job", text, strlen(text), &err), 0, "%s", err.msg);
    struct json root = json_root(doc);
    cr_assert_eq(jobs_submit(j, &root, NULL, &new, &err), 0, "%s", err.msg);
}

static void wait_for_end(struct jobs *j, int i)
{
    cleanup_free char *id = xasprintf("new-%d", i);
    enum job_state state = JOB_PENDING;
    while (state != JOB_SUCCEEDED) {
        cleanup_bytes struct bytes error = {0};
        usleep(5000);
        cr_assert_eq(jobs_state(j, id, &state, &error, NULL), 0);
    }
}

/* Copies of the one that is there, as old as it. */
static void add_ended(const char *dir)
{
    cleanup_free char *file = xasprintf("%s/jobs.db", dir);
    cleanup_free char *sql = xasprintf(
        "CREATE TEMP TABLE t AS SELECT * FROM job; UPDATE t SET seq=NULL;"
        "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x+1 FROM c WHERE x<%d)"
        "INSERT INTO job SELECT NULL,'old-'||x,type,options,state,error,result,note,parent,"
        "schedule,zone,policy,deadline,due,secret,items,bytes,total_items,total_bytes,failed,eta,"
        "created,started,ended,tries FROM t,c;",
        ENDED);
    sqlite3 *db;
    cr_assert_eq(sqlite3_open(file, &db), SQLITE_OK);
    cr_assert_eq(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK, "%s", sqlite3_errmsg(db));
    sqlite3_close(db);
}

static size_t length_listed(struct jobs *j, const char *state)
{
    cleanup_bytes struct bytes text = {0};
    struct json_writer w;
    jw_init(&w, &text);
    jw_array(&w, NULL);
    cr_assert_eq(jobs_write_all(j, NULL, state, &w, NULL), 0);
    jw_end(&w);
    return text.len;
}

Test(jobs_many, that_have_ended_are_not_looked_at, .timeout = 120)
{
    static const struct job_kind kinds[] = {{"k", check, NULL, NULL, run}};
    char dir[] = "/tmp/jobs-many-XXXXXX";
    cr_assert(mkdtemp(dir));
    const struct jobs_conf conf = {.dir = dir, .kinds = kinds, .n_kinds = 1};
    struct jobs *j;
    cr_assert_eq(jobs_open(&j, &conf, NULL), 0);
    post(j, -1);
    wait_for_end(j, -1);
    jobs_close(j);
    add_ended(dir);

    cr_assert_eq(sqlite3_auto_extension((void (*)(void))count_for), SQLITE_OK);
    cr_assert_eq(jobs_open(&j, &conf, NULL), 0);
    for (int i = 0; i < POSTED; i++) {
        post(j, i);
        cr_expect_lt(length_listed(j, "running"), 2000);
        wait_for_end(j, i);
    }
    unsigned long taken = atomic_load(&steps) * 100;
    cr_expect_lt(taken, POSTED * ENDED, "%lu steps", taken);
    cr_expect_gt(length_listed(j, "succeeded"), (size_t)ENDED * 100);
    jobs_close(j);
    jobs_drop_folder(dir);
}
