/* A small file that is closed is carried up by the thread that waits for it (stage/carry.c). */
#include <criterion/criterion.h>
#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cleanup.h"
#include "mem.h"
#include "stage-testing.h"

static void start(struct bench *b)
{
    bench_start(b, true);
    bench_open(b, true);
}

static uint64_t file_of(struct bench *b, const char *name)
{
    uint64_t fh;
    t_create(b, STAGE_ROOT, name, &fh);
    t_write(b, fh, 0, name);
    return fh;
}

static bool has_workers(void)
{
    bool found = false;
    DIR *tasks = opendir("/proc/self/task");
    cr_assert(tasks);
    for (const struct dirent *e; (e = readdir(tasks));) {
        char name[32] = "";
        cleanup_free char *path = xasprintf("/proc/self/task/%s/comm", e->d_name);
        cleanup_file FILE *f = fopen(path, "re");
        found |= f && fgets(name, sizeof name, f) && strncmp(name, "stage-up", 8) == 0;
    }
    closedir(tasks);
    return found;
}

/* Workers start when there is something for them. */
Test(carry, nobody_else_is_woken)
{
    struct bench b;
    struct err err = {0};
    start(&b);
    uint64_t fh = file_of(&b, "one");
    cr_expect(stage_flush_is_light(b.s, fh));
    cr_expect_eq(stage_flush(b.s, &hurries, fh, &err), STAGE_WAIT);
    cr_assert_eq(stage_flush(b.s, &waits, fh, &err), 0, "%s", err.msg);
    expect_stored(&b, "one", "one");
    cr_expect_not(stage_flush_is_light(b.s, fh), "nothing is owed");
    cr_expect_not(has_workers());
    t_write(&b, fh, 3, "more");
    cr_assert_eq(stage_fsync(b.s, &waits, fh, false, &err), 0, "%s", err.msg);
    expect_stored(&b, "one", "onemore");
    cr_expect_not(has_workers());
    t_unlink(&b, STAGE_ROOT, "one"); /* not a close */
    cr_expect(has_workers());
    bench_stop(&b);
}

Test(carry, what_the_store_refuses_is_refused_once)
{
    struct bench b;
    struct err err = {0};
    start(&b);
    uint64_t fh = file_of(&b, "one");
    ask_number(&b, "/_set?deny=1");
    cr_assert_eq(stage_flush(b.s, &waits, fh, &err), -1);
    cr_expect_eq(err_errno(&err), EACCES, "%s", err.msg);
    cr_expect_eq(counter_get(&stage_counts(b.s)->upload_failures), 1);
    ask_number(&b, "/_set?deny=0");
    t_settle(&b);
    expect_stored(&b, "one", "one");
    bench_stop(&b);
}

Test(carry, where_the_store_is_in_trouble_it_waits_with_all_others)
{
    struct bench b;
    struct err err = {0};
    start(&b);
    uint64_t fh = file_of(&b, "one");
    ask_number(&b, "/_set?fail=3"); /* more than one request bears */
    cr_assert_eq(stage_flush(b.s, &waits, fh, &err), 0, "%s", err.msg);
    expect_stored(&b, "one", "one");
    cr_expect_geq(counter_get(&stage_counts(b.s)->upload_failures), 1);
    bench_stop(&b);
}

/* --- who leaves ------------------------------------------------------------------------------ */

struct closer {
    struct bench *b;
    uint64_t fh;
    atomic_bool leaves;
    atomic_uint told;
    int result;
    bool dies; /* of being told */
};

static bool leaves(void *arg)
{
    struct closer *c = arg;
    return atomic_load(&c->leaves);
}

static void leave(void *arg)
{
    struct closer *c = arg;
    atomic_fetch_add(&c->told, 1);
    if (c->dies)
        _exit(7);
}

static void *close_it(void *arg)
{
    struct closer *c = arg;
    const struct stage_call call = {
        .unique = 100, .wait = true, .given_up = leaves, .leave = leave, .arg = c};
    c->result = stage_flush(c->b->s, &call, c->fh, NULL);
    return NULL;
}

/* As often as the runner's patience lets it: it ends what lasts for ever. */
static void until(struct bench *b, const char *what, unsigned n)
{
    while (ask_number(b, what) != n)
        usleep(1000);
}

Test(carry, who_leaves_is_told_at_once_and_the_file_is_stored)
{
    struct bench b;
    pthread_t thread;
    start(&b);
    struct closer c = {.b = &b, .fh = file_of(&b, "one")};
    ask_number(&b, "/_set?hold=1");
    cr_assert_eq(pthread_create(&thread, NULL, close_it, &c), 0);
    until(&b, "/_held", 1);
    cr_expect_eq(atomic_load(&c.told), 0);
    atomic_store(&c.leaves, true);
    while (!atomic_load(&c.told))
        usleep(1000);
    cr_expect_eq(ask_number(&b, "/_held"), 1, "it is under way still");
    ask_number(&b, "/_set?hold=0");
    pthread_join(thread, NULL);
    cr_expect_eq(c.result, 0);
    cr_expect_eq(atomic_load(&c.told), 1);
    expect_stored(&b, "one", "one");
    bench_stop(&b);
}

static void close_and_die(struct bench *b)
{
    bench_connect(b);
    bench_open(b, true);
    struct closer c = {.b = b, .fh = file_of(b, "one"), .leaves = true, .dies = true};
    close_it(&c);
    _exit(8);
}

/* Nobody asks the next life for it again. */
Test(carry, what_was_left_is_owed_by_the_next_life)
{
    struct bench b;
    int status;
    bench_start_bare(&b, true);
    b.conf.grace_ns = 1;
    ask_number(&b, "/_set?hold=1");
    pid_t pid = fork();
    if (pid == 0)
        close_and_die(&b);
    cr_assert_eq(waitpid(pid, &status, 0), pid);
    cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 7, "it was not told: %x", status);
    ask_number(&b, "/_set?hold=0");
    until(&b, "/_objects", 1); /* what the dead life had sent */
    ask_number(&b, "/_delete/out/one");
    bench_connect(&b);
    bench_open(&b, false);
    until(&b, "/_objects", 1);
    expect_stored(&b, "one", "one");
    bench_stop(&b);
}
