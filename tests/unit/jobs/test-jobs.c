#include <criterion/criterion.h>
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "drop-folder.h"
#include "kick.h"
#include "log.h"
#include "zone.h"

/*
 * The kind "steps" takes `n` steps, each when the test allows it; it resumes
 * after those that it told of. "deaf" takes one and hears of no wish before; "asks" is such a one
 * that waits for others. "fails" fails.
 */
struct world {
    char dir[64];
    struct jobs *jobs;
    _Atomic int allowed;       /* steps */
    _Atomic int steps, begun;  /* of all jobs */
    _Atomic int running, most; /* at once */
    _Atomic int changed;       /* times that somebody was told */
    _Atomic int64_t clock;
    _Atomic bool killed; /* nothing that is done now counts */
};

static int check_steps(void *server, const struct json *o, struct bytes *ret, struct bytes *secret,
                       struct err *err)
{
    (void)server;
    static const char *const keys[] = {"n", "path", "secret", NULL};
    const char *path, *text;
    int64_t n;
    if (json_only_keys(o, keys, err) || json_int_or(o, "n", 0, 1000, 1, &n, err) ||
        json_str_or(o, "path", "", &path, err) || json_str_or(o, "secret", "", &text, err))
        return -1;
    struct json_writer w;
    jw_init(&w, ret);
    jw_object(&w, NULL);
    jw_int(&w, "n", n);
    jw_str(&w, "path", path);
    jw_end(&w);
    bytes_add_str(secret, text);
    return 0;
}

static void steps_touch(const struct json *o, struct bytes *ret)
{
    const char *path;
    if (json_str(o, "path", &path, NULL) == 0)
        bytes_add_str(ret, path);
}

static bool take_step(struct world *world)
{
    int left = atomic_load(&world->allowed);
    while (left > 0)
        if (atomic_compare_exchange_weak(&world->allowed, &left, left - 1))
            return true;
    return false;
}

static int run_steps(struct job_run *r, void *server, const struct json *o, struct bytes *result,
                     struct err *err)
{
    struct world *world = server;
    int64_t n, done = (int64_t)r->progress.items;
    if (json_int(o, "n", 0, 1000, &n, err))
        return -1;
    atomic_fetch_add(&world->begun, 1);
    int now = atomic_fetch_add(&world->running, 1) + 1;
    if (now > atomic_load(&world->most))
        atomic_store(&world->most, now);
    while (done < n && job_wanted(r) == JOB_GO_ON) {
        if (!take_step(world)) {
            usleep(200);
            continue;
        }
        done++;
        atomic_fetch_add(&world->steps, 1);
        struct job_progress p = {
            .items = (uint64_t)done, .total_items = (uint64_t)n, .eta_s = n - done};
        job_tell(r, &p);
        job_tell_partition(r, 1, JOB_RUNNING, &p, "");
    }
    atomic_fetch_sub(&world->running, 1);
    bytes_addf(result, "{\"secret\":%s}", job_secret(r) ? "true" : "false");
    return 0;
}

static int run_deaf(struct job_run *r, void *server, const struct json *o, struct bytes *result,
                    struct err *err)
{
    struct world *world = server;
    (void)o, (void)result, (void)err;
    atomic_fetch_add(&world->begun, 1);
    while (!take_step(world) && !atomic_load(&world->killed))
        usleep(200);
    if (job_wanted(r) == JOB_GO_ON)
        atomic_fetch_add(&world->steps, 1);
    return 0;
}

static bool always(const struct json *options)
{
    (void)options;
    return true;
}

static int check_none(void *server, const struct json *o, struct bytes *ret, struct bytes *secret,
                      struct err *err)
{
    (void)secret, (void)server;
    static const char *const keys[] = {NULL};
    bytes_add_str(ret, "{}");
    return json_only_keys(o, keys, err);
}

static int run_fails(struct job_run *r, void *server, const struct json *o, struct bytes *result,
                     struct err *err)
{
    (void)r, (void)server, (void)o, (void)result;
    return err_set(err, ERR_TRANSIENT, "the store said \"no\"");
}

static const struct job_kind kinds[] = {
    {"steps", check_steps, steps_touch, NULL, run_steps},
    {"fails", check_none, NULL, NULL, run_fails},
    {"deaf", check_none, NULL, NULL, run_deaf},
    {"asks", check_none, NULL, always, run_deaf},
};
#define N_KINDS (sizeof kinds / sizeof kinds[0])

static int64_t world_clock(void *arg)
{
    return atomic_load(&((struct world *)arg)->clock);
}

static void count_change(void *arg, const char *id)
{
    (void)id;
    atomic_fetch_add(&((struct world *)arg)->changed, 1);
}

static void world_open(struct world *w)
{
    struct jobs_conf conf = {.dir = w->dir,
                             .kinds = kinds,
                             .n_kinds = N_KINDS,
                             .server = w,
                             .parallel = 2,
                             .keep_s = 3600,
                             .wall_s = world_clock,
                             .wall_arg = w,
                             .changed = count_change,
                             .changed_arg = w};
    struct err err = {0};
    cr_assert_eq(jobs_open(&w->jobs, &conf, &err), 0, "%s", err.msg);
}

static struct world *world_new(void)
{
    struct world *w = xcalloc(1, sizeof *w);
    memcpy(w->dir, "/tmp/sampan-jobs-XXXXXX", sizeof "/tmp/sampan-jobs-XXXXXX");
    cr_assert(mkdtemp(w->dir));
    atomic_store(&w->clock, civil_days(2026, 11, 21) * 86400);
    world_open(w);
    return w;
}

static void world_free(struct world *w)
{
    jobs_close(w->jobs);
    jobs_drop_folder(w->dir);
    free(w);
}

static int submit(struct world *w, const char *text, bool *ret_new, struct err *err)
{
    cleanup_json struct json_doc *doc = NULL;
    bool new;
    if (json_parse(&doc, "job", text, strlen(text), err))
        return -1;
    struct json root = json_root(doc);
    return jobs_submit(w->jobs, &root, NULL, ret_new ? ret_new : &new, err);
}

#define SUBMIT(w, text)                                                    \
    do {                                                                   \
        struct err why_ = {0};                                             \
        cr_assert_eq(submit((w), (text), NULL, &why_), 0, "%s", why_.msg); \
    } while (0)

static enum job_state state_of(struct world *w, const char *id)
{
    enum job_state s = JOB_STATES;
    cleanup_bytes struct bytes error = {0};
    jobs_state(w->jobs, id, &s, &error, NULL);
    return s;
}

/* Waits as long as it takes: the test's own time limit ends a hang. */
static void wait_for(struct world *w, const char *id, enum job_state state)
{
    while (state_of(w, id) != state)
        usleep(500);
}

static char *text_of(struct world *w, const char *id)
{
    struct bytes out = {0};
    struct json_writer writer;
    jw_init(&writer, &out);
    cr_assert_eq(jobs_write(w->jobs, id, &writer, NULL), 0);
    return bytes_take(&out);
}

Test(jobs, runs_and_tells)
{
    struct world *w = world_new();
    atomic_store(&w->allowed, 3);
    SUBMIT(w, "{\"id\":\"a\",\"type\":\"steps\",\"options\":{\"n\":3}}");
    wait_for(w, "a", JOB_SUCCEEDED);
    cleanup_free char *text = text_of(w, "a");
    static const char *const parts[] = {
        "\"state\":\"succeeded\"",
        "\"progress\":{\"items\":3,\"bytes\":0,\"total\":3,\"total_bytes\":0,\"failed\":0,"
        "\"percent\":100",
        "\"result\":{\"secret\":false}",
        "\"created\":\"2026-11-21T00:00:00Z\"",
        "\"tries\":1",
        "\"partitions\":[{\"partition\":1",
    };
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        cr_expect(strstr(text, parts[i]), "%s in %s", parts[i], text);
    world_free(w);
}

Test(jobs, same_id_is_the_same_job_and_other_options_are_refused)
{
    struct world *w = world_new();
    struct err err = {0};
    bool new;
    static const char text[] = "{\"id\":\"a\",\"type\":\"steps\",\"options\":{\"n\":1}}";
    cr_assert_eq(submit(w, text, &new, &err), 0);
    cr_expect(new);
    cr_assert_eq(submit(w, text, &new, &err), 0);
    cr_expect_not(new);
    cr_assert_eq(submit(w, "{\"id\":\"a\",\"type\":\"steps\"}", &new, &err), 0,
                 "one step is the default");
    cr_expect_eq(submit(w, "{\"id\":\"a\",\"type\":\"steps\",\"options\":{\"n\":2}}", &new, &err),
                 -1);
    cr_expect_eq(err_errno(&err), EEXIST);
    cr_expect_eq(submit(w, "{\"id\":\"a\",\"type\":\"fails\"}", &new, &err), -1);
    cr_expect_eq(err_errno(&err), EEXIST);
    atomic_store(&w->allowed, 1);
    wait_for(w, "a", JOB_SUCCEEDED);
    cr_expect_eq(atomic_load(&w->steps), 1);
    world_free(w);
}

Test(jobs, bad_submissions_name_the_place)
{
    static const char *const rows[][2] = {
        {"[]", "object"},
        {"{}", "id"},
        {"{\"id\":\"\",\"type\":\"steps\"}", "id"},
        {"{\"id\":\"../x\",\"type\":\"steps\"}", "id"},
        {"{\"id\":\"a b\",\"type\":\"steps\"}", "id"},
        {"{\"id\":\"a\"}", "type"},
        {"{\"id\":\"a\",\"type\":\"what\"}", "want one of: steps fails deaf asks"},
        {"{\"id\":\"a\",\"type\":\"steps\",\"options\":3}", "options"},
        {"{\"id\":\"a\",\"type\":\"steps\",\"options\":{\"n\":\"x\"}}", "options.n"},
        {"{\"id\":\"a\",\"type\":\"steps\",\"options\":{\"m\":1}}", "m"},
        {"{\"id\":\"a\",\"type\":\"steps\",\"colour\":1}", "colour"},
        {"{\"id\":\"a\",\"type\":\"steps\",\"schedule\":\"x\"}", "schedule"},
        {"{\"id\":\"a\",\"type\":\"steps\",\"schedule\":\"0 0 30 2 *\"}", "never comes"},
        {"{\"id\":\"a\",\"type\":\"steps\",\"schedule\":\"@daily\",\"timeZone\":\"No/Where\"}",
         "No/Where"},
        {"{\"id\":\"a\",\"type\":\"steps\",\"schedule\":\"@daily\",\"concurrencyPolicy\":\"x\"}",
         "Allow, Forbid or Replace"},
        {"{\"id\":\"a\",\"type\":\"steps\",\"timeZone\":\"UTC\"}", "schedule"},
    };
    struct world *w = world_new();
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct err err = {0};
        cr_expect_eq(submit(w, rows[i][0], NULL, &err), -1, "%s", rows[i][0]);
        cr_expect(strstr(err.msg, rows[i][1]), "%s: %s", rows[i][0], err.msg);
    }
    uint64_t count[JOB_STATES];
    cr_assert_eq(jobs_count(w->jobs, count, NULL), 0);
    for (int i = 0; i < JOB_STATES; i++)
        cr_expect_eq(count[i], 0);
    world_free(w);
}

Test(jobs, failure_is_kept_with_its_reason)
{
    struct world *w = world_new();
    SUBMIT(w, "{\"id\":\"f\",\"type\":\"fails\"}");
    wait_for(w, "f", JOB_FAILED);
    cleanup_free char *text = text_of(w, "f");
    cr_expect(strstr(text, "\"error\":\"the store said \\\"no\\\"\""), "%s", text);
    world_free(w);
}

Test(jobs, at_most_so_many_run_at_once)
{
    struct world *w = world_new();
    for (int i = 0; i < 6; i++) {
        char text[80];
        snprintf(text, sizeof text, "{\"id\":\"j%d\",\"type\":\"steps\",\"options\":{\"n\":2}}", i);
        SUBMIT(w, text);
    }
    atomic_store(&w->allowed, 12);
    for (int i = 0; i < 6; i++) {
        char id[16];
        snprintf(id, sizeof id, "j%d", i);
        wait_for(w, id, JOB_SUCCEEDED);
    }
    cr_expect_eq(atomic_load(&w->steps), 12);
    cr_expect_leq(atomic_load(&w->most), 2);
    world_free(w);
}

Test(jobs, what_touches_the_same_path_waits)
{
    static const struct {
        const char *a, *b;
        bool together;
    } rows[] = {
        {"/set", "/set", false},    {"/set", "/set/train", false}, {"/set/train/", "/set", false},
        {"/set/a", "/set/b", true}, {"/set", "/settled", true},    {"", "/set", true},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct world *w = world_new();
        char text[120];
        snprintf(text, sizeof text,
                 "{\"id\":\"a\",\"type\":\"steps\",\"options\":{\"path\":\"%s\"}}", rows[i].a);
        SUBMIT(w, text);
        wait_for(w, "a", JOB_RUNNING);
        snprintf(text, sizeof text,
                 "{\"id\":\"b\",\"type\":\"steps\",\"options\":{\"path\":\"%s\"}}", rows[i].b);
        SUBMIT(w, text);
        if (rows[i].together)
            wait_for(w, "b", JOB_RUNNING);
        atomic_store(&w->allowed, 2);
        wait_for(w, "b", JOB_SUCCEEDED);
        cr_expect(rows[i].together || atomic_load(&w->most) == 1, "%s and %s", rows[i].a,
                  rows[i].b);
        world_free(w);
    }
}

Test(jobs, of_those_that_touch_the_same_the_first_runs_first)
{
    struct world *w = world_new();
    SUBMIT(w, "{\"id\":\"a\",\"type\":\"steps\",\"options\":{\"path\":\"/set/a\"}}");
    wait_for(w, "a", JOB_RUNNING);
    SUBMIT(w, "{\"id\":\"all\",\"type\":\"steps\",\"options\":{\"path\":\"/set\"}}");
    SUBMIT(w, "{\"id\":\"b\",\"type\":\"steps\",\"options\":{\"path\":\"/set/b\"}}");
    SUBMIT(w, "{\"id\":\"c\",\"type\":\"steps\",\"options\":{\"path\":\"/other\"}}");
    wait_for(w, "c", JOB_RUNNING); /* it was looked at after "b" */
    cr_expect_eq(state_of(w, "b"), JOB_PENDING, "it came after one that touches all");
    cr_assert_eq(jobs_cancel(w->jobs, "c", NULL), 0);
    wait_for(w, "c", JOB_CANCELLED);
    atomic_store(&w->allowed, 1);
    wait_for(w, "all", JOB_RUNNING);
    cr_expect_eq(state_of(w, "b"), JOB_PENDING);
    atomic_store(&w->allowed, 2);
    wait_for(w, "b", JOB_SUCCEEDED);
    world_free(w);
}

Test(jobs, pause_resume_and_cancel)
{
    struct world *w = world_new();
    struct err err = {0};
    SUBMIT(w, "{\"id\":\"a\",\"type\":\"steps\",\"options\":{\"n\":4}}");
    atomic_store(&w->allowed, 2);
    while (atomic_load(&w->steps) < 2)
        usleep(200);
    cr_assert_eq(jobs_pause(w->jobs, "a", &err), 0, "%s", err.msg);
    wait_for(w, "a", JOB_PAUSED);
    cr_assert_eq(jobs_pause(w->jobs, "a", &err), 0, "twice is once");
    atomic_store(&w->allowed, 2);
    cr_assert_eq(jobs_resume(w->jobs, "a", &err), 0, "%s", err.msg);
    wait_for(w, "a", JOB_SUCCEEDED);
    cr_expect_eq(atomic_load(&w->steps), 4, "it went on where it was");
    cr_expect_eq(jobs_pause(w->jobs, "a", &err), -1);
    cr_expect_eq(err_errno(&err), EEXIST);
    cr_expect_eq(jobs_resume(w->jobs, "a", &err), -1);
    cr_expect_eq(jobs_cancel(w->jobs, "a", &err), 0);
    cr_expect_eq(state_of(w, "a"), JOB_SUCCEEDED, "a final state never changes");

    SUBMIT(w, "{\"id\":\"b\",\"type\":\"steps\"}");
    wait_for(w, "b", JOB_RUNNING);
    cr_assert_eq(jobs_cancel(w->jobs, "b", &err), 0);
    wait_for(w, "b", JOB_CANCELLED);
    cr_expect_eq(jobs_cancel(w->jobs, "none", &err), -1);
    cr_expect_eq(err.class, ERR_NOT_FOUND);
    world_free(w);
}

Test(jobs, resume_while_the_runner_is_on_its_way_out_runs_again)
{
    struct world *w = world_new();
    for (int i = 0; i < 30; i++) {
        char text[100], id[16];
        snprintf(id, sizeof id, "j%d", i);
        snprintf(text, sizeof text, "{\"id\":\"%s\",\"type\":\"steps\",\"options\":{\"n\":2}}", id);
        int before = atomic_load(&w->steps);
        SUBMIT(w, text);
        wait_for(w, id, JOB_RUNNING);
        cr_assert_eq(jobs_pause(w->jobs, id, NULL), 0);
        usleep(i % 5 * 100);
        cr_assert_eq(jobs_resume(w->jobs, id, NULL), 0);
        atomic_store(&w->allowed, 2);
        wait_for(w, id, JOB_SUCCEEDED);
        cr_expect_eq(atomic_load(&w->steps) - before, 2, "no step is lost and none is said twice");
    }
    world_free(w);
}

Test(jobs, a_restart_resumes_what_ran)
{
    struct world *w = world_new();
    SUBMIT(w, "{\"id\":\"a\",\"type\":\"steps\",\"options\":{\"n\":5}}");
    SUBMIT(w, "{\"id\":\"s\",\"type\":\"steps\",\"options\":{\"secret\":\"k3y\"}}");
    atomic_store(&w->allowed, 2);
    while (atomic_load(&w->steps) < 2)
        usleep(200);
    jobs_close(w->jobs);
    int steps = atomic_load(&w->steps);
    atomic_store(&w->allowed, 6 - steps);
    world_open(w);
    wait_for(w, "a", JOB_SUCCEEDED);
    while (!job_state_final(state_of(w, "s")))
        usleep(500);
    cleanup_free char *text = text_of(w, "s");
    cr_expect(state_of(w, "s") == JOB_SUCCEEDED || strstr(text, "lost since the server's restart"),
              "%s", text);
    cr_expect_not(strstr(text, "k3y"), "a secret is never readable back");
    text = (free(text), text_of(w, "a"));
    cr_expect(strstr(text, "\"items\":5"), "%s", text);
    cr_expect_leq(atomic_load(&w->steps), 6);
    world_free(w);
}

/* A kill: what is on the disk now is what the next start finds. */
static void kill_jobs(struct world *w)
{
    static const char *const files[] = {"jobs.db", "jobs.db-wal", "jobs.db-shm"};
    cleanup_free char *path = xasprintf("%s/jobs.db", w->dir);
    cleanup_free char *then = xasprintf("%s/then", w->dir);
    cleanup_free char *copy = xasprintf("VACUUM INTO '%s'", then);
    sqlite3 *db;
    cr_assert_eq(sqlite3_open(path, &db), SQLITE_OK);
    cr_assert_eq(sqlite3_exec(db, copy, NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
    atomic_store(&w->killed, true);
    jobs_close(w->jobs);
    atomic_store(&w->killed, false);
    atomic_store(&w->begun, 0);
    atomic_store(&w->steps, 0);
    for (int i = 0; i < 3; i++) {
        cleanup_free char *file = xasprintf("%s/%s", w->dir, files[i]);
        unlink(file);
    }
    cr_assert_eq(rename(then, path), 0);
    world_open(w);
}

Test(jobs, a_kill_forgets_no_wish)
{
    struct world *w = world_new();
    SUBMIT(w, "{\"id\":\"c\",\"type\":\"deaf\"}");
    SUBMIT(w, "{\"id\":\"p\",\"type\":\"deaf\"}");
    SUBMIT(w, "{\"id\":\"w\",\"type\":\"asks\"}");
    SUBMIT(w, "{\"id\":\"r\",\"type\":\"asks\"}");
    while (atomic_load(&w->begun) < 4)
        usleep(200);
    cr_assert_eq(jobs_cancel(w->jobs, "c", NULL), 0);
    cr_assert_eq(jobs_pause(w->jobs, "p", NULL), 0);
    cr_assert_eq(jobs_cancel(w->jobs, "w", NULL), 0);
    cr_assert_eq(jobs_pause(w->jobs, "r", NULL), 0);
    cr_assert_eq(jobs_resume(w->jobs, "r", NULL), 0);
    kill_jobs(w);
    wait_for(w, "c", JOB_CANCELLED);
    wait_for(w, "p", JOB_PAUSED);
    while (atomic_load(&w->begun) < 2) /* these have others to tell, or were resumed */
        usleep(200);
    atomic_store(&w->allowed, 2);
    wait_for(w, "w", JOB_CANCELLED);
    wait_for(w, "r", JOB_SUCCEEDED);
    cr_expect_eq(atomic_load(&w->begun), 2, "what is cancelled or paused does not begin");
    cr_expect_eq(atomic_load(&w->steps), 1, "just the resumed one did its work");
    world_free(w);
}

static void limit_files(rlim_t bytes)
{
    struct rlimit limit;
    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &limit);
    limit.rlim_cur = bytes;
    cr_assert_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

/* The disk is full after n pages more, wherever that is between the end of a job and the start of
 * the next: none is told to have ended or begun before that is written, and later all is done. */
Test(jobs, what_cannot_be_written_is_written_later)
{
    for (int n = 0; n < 12; n++) {
        struct world *w = world_new();
        struct stat st;
        cleanup_free char *wal = xasprintf("%s/jobs.db-wal", w->dir);
        SUBMIT(w, "{\"id\":\"a\",\"type\":\"deaf\"}");
        SUBMIT(w, "{\"id\":\"b\",\"type\":\"deaf\"}");
        SUBMIT(w, "{\"id\":\"c\",\"type\":\"deaf\"}"); /* waits for a place */
        while (atomic_load(&w->begun) < 2)
            usleep(200);
        cr_assert_eq(stat(wal, &st), 0);
        limit_files((rlim_t)(st.st_size + n * (4096 + 24)));
        atomic_store(&w->changed, 0);
        atomic_store(&w->allowed, 3);
        while (atomic_load(&w->steps) < 2)
            usleep(200);
        usleep(30000);
        int told = atomic_load(&w->changed);
        cr_expect_lt(told, 30, "%d pages: %d changes are told of three jobs", n, told);
        cr_expect(n || state_of(w, "a") == JOB_RUNNING, "its end is not on the disk");
        limit_files(RLIM_INFINITY);
        jobs_kick(w->jobs);
        for (const char *id = "a\0b\0c\0"; *id; id += 2)
            wait_for(w, id, JOB_SUCCEEDED);
        cr_expect_eq(atomic_load(&w->begun), 3, "%d pages: each is begun once", n);
        world_free(w);
    }
}

Test(jobs, ended_jobs_are_forgotten_after_a_while)
{
    struct world *w = world_new();
    SUBMIT(w, "{\"id\":\"f\",\"type\":\"fails\"}");
    wait_for(w, "f", JOB_FAILED);
    atomic_fetch_add(&w->clock, 3599);
    jobs_kick(w->jobs);
    usleep(2000);
    cr_expect_eq(state_of(w, "f"), JOB_FAILED);
    atomic_fetch_add(&w->clock, 2);
    jobs_kick(w->jobs);
    wait_for(w, "f", JOB_STATES);
    world_free(w);
}

/* --- schedules ------------------------------------------------------------------------------- */

static unsigned long count_jobs(struct world *w)
{
    uint64_t count[JOB_STATES], n = 0;
    cr_assert_eq(jobs_count(w->jobs, count, NULL), 0);
    for (int i = 0; i < JOB_STATES; i++)
        n += count[i];
    return n;
}

static void move_clock(struct world *w, int64_t seconds, unsigned long jobs_then)
{
    atomic_fetch_add(&w->clock, seconds);
    jobs_kick(w->jobs);
    while (count_jobs(w) != jobs_then)
        usleep(500);
}

Test(jobs, each_due_time_makes_one_child)
{
    struct world *w = world_new();
    int64_t start = atomic_load(&w->clock);
    atomic_store(&w->allowed, 100);
    SUBMIT(w, "{\"id\":\"t\",\"type\":\"steps\",\"schedule\":\"*/10 * * * *\"}");
    move_clock(w, 600, 2);
    char child[40];
    snprintf(child, sizeof child, "t-%lld", (long long)start + 600);
    wait_for(w, child, JOB_SUCCEEDED);
    cleanup_free char *text = text_of(w, child);
    cr_expect(strstr(text, "\"parent\":\"t\""), "%s", text);
    text = (free(text), text_of(w, "t"));
    cr_expect(strstr(text, "\"next\":\"2026-11-21T00:20:00Z\""), "%s", text);
    cr_expect_eq(state_of(w, "t"), JOB_PENDING);
    /* Three times passed while nobody was there: one child, of the last of them. */
    jobs_close(w->jobs);
    atomic_fetch_add(&w->clock, 1900);
    world_open(w);
    snprintf(child, sizeof child, "t-%lld", (long long)start + 2400);
    wait_for(w, child, JOB_SUCCEEDED);
    cr_expect_eq(count_jobs(w), 3);
    cr_assert_eq(jobs_cancel(w->jobs, "t", NULL), 0);
    atomic_fetch_add(&w->clock, 600);
    jobs_kick(w->jobs);
    usleep(3000);
    cr_expect_eq(count_jobs(w), 3, "a cancelled template makes no more");
    world_free(w);
}

Test(jobs, concurrency_policies)
{
    static const struct {
        const char *policy;
        unsigned long jobs;   /* template and children after a second due time */
        enum job_state first; /* of the first child then */
    } rows[] = {
        {"Allow", 3, JOB_RUNNING}, {"Forbid", 2, JOB_RUNNING}, {"Replace", 3, JOB_CANCELLED}};
    for (size_t i = 0; i < 3; i++) {
        struct world *w = world_new();
        char text[160], child[40];
        snprintf(text, sizeof text,
                 "{\"id\":\"t\",\"type\":\"steps\",\"schedule\":\"* * * * *\","
                 "\"concurrencyPolicy\":\"%s\"}",
                 rows[i].policy);
        snprintf(child, sizeof child, "t-%lld", (long long)atomic_load(&w->clock) + 60);
        SUBMIT(w, text);
        move_clock(w, 60, 2);
        wait_for(w, child, JOB_RUNNING);
        move_clock(w, 60, rows[i].jobs);
        wait_for(w, child, rows[i].first);
        usleep(2000);
        cr_expect_eq(count_jobs(w), rows[i].jobs, "%s", rows[i].policy);
        atomic_store(&w->allowed, 2);
        world_free(w);
    }
}

Test(jobs, a_suspended_template_waits_and_a_late_one_is_left_out)
{
    struct world *w = world_new();
    atomic_store(&w->allowed, 100);
    SUBMIT(w, "{\"id\":\"t\",\"type\":\"steps\",\"schedule\":\"*/10 * * * *\",\"suspend\":true}");
    atomic_fetch_add(&w->clock, 700);
    jobs_kick(w->jobs);
    usleep(3000);
    cr_expect_eq(count_jobs(w), 1);
    cr_assert_eq(jobs_resume(w->jobs, "t", NULL), 0);
    jobs_kick(w->jobs);
    usleep(3000);
    cr_expect_eq(count_jobs(w), 1, "the time of the suspension is not made up for");
    move_clock(w, 600, 2);
    SUBMIT(w, "{\"id\":\"d\",\"type\":\"steps\",\"schedule\":\"0 12 * * *\","
              "\"startingDeadlineSeconds\":100}");
    cr_assert_eq(jobs_cancel(w->jobs, "t", NULL), 0);
    jobs_close(w->jobs);
    atomic_fetch_add(&w->clock, 13 * 3600); /* an hour too late */
    w->jobs = NULL;
    world_open(w);
    while (1) {
        cleanup_free char *text = text_of(w, "d");
        if (strstr(text, "\"next\":\"2026-11-22T12:00:00Z\""))
            break;
        usleep(500);
    }
    cr_expect_eq(state_of(w, "d-1795262400"), JOB_STATES);
    world_free(w);
}

/* --- the file -------------------------------------------------------------------------------- */

Test(jobs, a_foreign_file_is_refused_and_left_alone)
{
    char dir[] = "/tmp/sampan-jobs-XXXXXX";
    cr_assert(mkdtemp(dir));
    cleanup_free char *path = xasprintf("%s/jobs.db", dir);
    FILE *f = fopen(path, "w");
    fputs("this is no database, but somebody's notes, and they are long enough", f);
    fclose(f);
    struct jobs_conf conf = {.dir = dir, .kinds = kinds, .n_kinds = N_KINDS};
    struct jobs *jobs;
    struct err err = {0};
    cr_expect_eq(jobs_open(&jobs, &conf, &err), -1);
    cr_expect(strstr(err.msg, "jobs.db"), "%s", err.msg);
    f = fopen(path, "r");
    cr_expect_eq(fgetc(f), 't');
    fclose(f);
    unlink(path);
    rmdir(dir);
    conf.dir = "/no/such/folder";
    cr_expect_eq(jobs_open(&jobs, &conf, &err), -1);
}
