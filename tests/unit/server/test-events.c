/* What is kept of events for clients that come back. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "mem.h"
#include "server-internal.h"

/* An event tells all of a job, whose options may name very many paths. */
Test(events, kept_ones_are_bounded_by_number_and_by_bytes)
{
    static const struct {
        size_t bytes;
        unsigned added, kept;
    } rows[] = {
        {10, 3, 3},       {10, EVENTS_KEPT + 7, EVENTS_KEPT}, {1 << 20, 7, 7},
        {1 << 20, 20, 7}, {EVENTS_BYTES + 100, 2, 1},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct events e = {0};
        cleanup_free char *data = xcalloc(rows[i].bytes + 1, 1);
        memset(data, 'x', rows[i].bytes);
        events_init(&e);
        uint64_t first = e.seq;
        for (unsigned k = 0; k < rows[i].added; k++)
            events_add(&e, "job", data);
        cr_expect(e.n == rows[i].kept, "row %zu: %u", i, e.n);
        cr_expect(e.oldest->seq == first + rows[i].added - rows[i].kept + 1, "row %zu", i);
        size_t bytes = 0;
        for (const struct event *event = e.oldest; event; event = event->next)
            bytes += strlen(event->text);
        cr_expect(bytes == e.bytes, "row %zu", i);
        events_destroy(&e);
    }
}

/* --- many at once ----------------------------------------------------------------------------- */

#define TELLERS 4
#define TELLS   240 /* with all of them fewer than are kept */

static int check_any(void *server, const struct json *o, struct bytes *ret, struct bytes *secret,
                     struct err *err)
{
    (void)server, (void)o, (void)secret, (void)err;
    bytes_add_str(ret, "{}");
    return 0;
}

static const struct job_kind waiting = {.type = "scan", .check = check_any};

struct teller {
    pthread_t thread;
    struct jobs *jobs;
    uint32_t partition;
};

static void *tell(void *arg)
{
    struct teller *t = arg;
    for (unsigned n = 1; n <= TELLS; n++)
        jobs_set_partition(t->jobs, "a", t->partition, JOB_RUNNING,
                           &(struct job_progress){.items = n}, "", NULL);
    return NULL;
}

static void submit_suspended(struct jobs *j)
{
    static const char text[] =
        "{\"id\":\"a\",\"type\":\"scan\",\"schedule\":\"0 0 1 1 *\",\"suspend\":true}";
    cleanup_json struct json_doc *doc = NULL;
    bool new;
    cr_assert(json_parse(&doc, "job", text, strlen(text), NULL) == 0);
    struct json root = json_root(doc);
    cr_assert(jobs_submit(j, &root, NULL, &new, NULL) == 0);
}

static void remove_jobs(const char *dir)
{
    static const char *const files[] = {"jobs.db", "jobs.db-wal", "jobs.db-shm"};
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        cleanup_free char *path = xasprintf("%s/%s", dir, files[i]);
        unlink(path);
    }
    cr_expect_eq(rmdir(dir), 0);
}

static void expect_newest_last(const struct events *e)
{
    int64_t last[TELLERS] = {0};
    for (const struct event *event = e->oldest; event; event = event->next) {
        const char *text = strchr(event->text, '{');
        cleanup_json struct json_doc *doc = NULL;
        cr_assert(json_parse(&doc, "event", text, strlen(text), NULL) == 0);
        struct json root = json_root(doc), parts = json_get(&root, "partitions");
        for (size_t i = 0; i < json_count(&parts); i++) {
            struct json part = json_at(&parts, i), progress = json_get(&part, "progress");
            int64_t k = 0, items = 0;
            cr_assert(json_int(&part, "partition", 0, TELLERS - 1, &k, NULL) == 0);
            cr_assert(json_int(&progress, "items", 0, TELLS, &items, NULL) == 0);
            cr_assert(items >= last[k], "partition %lld: %lld after %lld", (long long)k,
                      (long long)items, (long long)last[k]);
            last[k] = items;
        }
    }
    for (unsigned k = 0; k < TELLERS; k++)
        cr_expect(last[k] == TELLS, "partition %u: %lld", k, (long long)last[k]);
}

/* Whoever listens keeps the last that he heard of a job: what was so before must not come after. */
Test(events, a_job_is_told_of_in_the_order_of_its_changes)
{
    char dir[] = "/tmp/sampan-events-XXXXXX";
    cr_assert_not_null(mkdtemp(dir));
    struct server s = {0};
    struct jobs *j;
    struct teller tellers[TELLERS];
    events_init(&s.events);
    cr_assert(jobs_open(&j,
                        &(struct jobs_conf){.dir = dir,
                                            .kinds = &waiting,
                                            .n_kinds = 1,
                                            .changed = events_job_changed,
                                            .changed_arg = &s},
                        NULL) == 0);
    s.jobs = j;
    submit_suspended(j);
    for (unsigned k = 0; k < TELLERS; k++) {
        tellers[k] = (struct teller){.jobs = j, .partition = k};
        pthread_create(&tellers[k].thread, NULL, tell, &tellers[k]);
    }
    for (unsigned k = 0; k < TELLERS; k++)
        pthread_join(tellers[k].thread, NULL);
    expect_newest_last(&s.events);
    jobs_close(j);
    events_destroy(&s.events);
    remove_jobs(dir);
}
