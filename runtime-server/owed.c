/*
 * What servers that were lost are still to be told: a job of the cluster was cancelled, paused or
 * given up while one of them was away, and its child there must not go on when it comes back.
 *
 * Not a list of messages but of jobs to look at: for each, every child is brought in line with what
 * the job is now, until all of them are. It is made anew from the jobs at each start.
 */
#define LOG_MODULE "cluster"
#include <string.h>

#include "clock.h"
#include "log.h"
#include "mem.h"
#include "server-internal.h"

#define LOOK_NS (2 * NS_PER_S)

struct todo {
    struct todo *next;
    char *id;
};

struct owed {
    struct server *server;
    struct lock lock;
    struct cond news;
    struct todo *todo; /* guarded by the lock, as the next */
    bool stop;
    pthread_t thread;
    bool runs;
};

static int read_job(struct server *s, const char *id, struct json_doc **ret, struct err *err)
{
    cleanup_bytes struct bytes text = {0};
    struct json_writer w;
    jw_init(&w, &text);
    if (jobs_write(s->jobs, id, &w, err))
        return -1;
    return json_parse(ret, "job", text.data, text.len, err);
}

static const char *state_at(const struct json *o)
{
    const char *state = "";
    json_str(o, "state", &state, NULL);
    return state;
}

static bool is_final(const char *state)
{
    return strcmp(state, "succeeded") == 0 || strcmp(state, "failed") == 0 ||
           strcmp(state, "cancelled") == 0;
}

/* Does the child on this server rest as it should? It is told if not, and looked at again. What has
 * become of it is written into its row, unless that says already how it ended. */
static bool bring_in_line(struct server *s, const char *id, const struct json *row, bool paused)
{
    cleanup_json struct json_doc *doc = NULL;
    cleanup_bytes struct bytes child = {0};
    struct job_progress progress = {.eta_s = -1};
    enum job_state state = paused ? JOB_PAUSED : JOB_CANCELLED; /* of one that never heard of it */
    struct err err = {0};
    int64_t partition = 0;
    json_int(row, "partition", 0, UINT32_MAX, &partition, NULL);
    unsigned k = (unsigned)partition;
    if (k >= members_partitions(s->members))
        return true;
    if (members_state(s->members, k, NULL, NULL) == MEMBER_LOST)
        return false;
    fanout_child_id(id, k, &child);
    if (cluster_ask(s, k, ASK_STATE, child.data, NULL, NULL, &doc, &err) == 0) {
        struct json job = json_root(doc);
        fanout_read(&job, &state, &progress);
    } else if (err.class != ERR_NOT_FOUND) {
        return false;
    }
    if (!job_state_final(state) && !(paused && state == JOB_PAUSED)) {
        cleanup_json struct json_doc *after = NULL;
        cluster_ask(s, k, paused ? ASK_PAUSE : ASK_CANCEL, child.data, NULL, NULL, &after, NULL);
        return false;
    }
    const char *told = state_at(row);
    if (is_final(told) || strcmp(told, job_state_name(state)) == 0)
        return true;
    jobs_set_partition(s->jobs, id, k, state, &progress, "", NULL);
    log_info(s->conf.log, "job %s is %s on server %u, which is back", id, job_state_name(state), k);
    return true;
}

/* True: there is nothing more to do for this job. */
static bool owed_job(struct server *s, const char *id)
{
    cleanup_json struct json_doc *doc = NULL;
    bool settled = true;
    if (read_job(s, id, &doc, NULL))
        return true;
    struct json job = json_root(doc), parts = json_get(&job, "partitions");
    const char *state = state_at(&job);
    bool paused = strcmp(state, "paused") == 0;
    if (strcmp(state, "running") == 0)
        return false; /* it is about to be what it was told to be */
    if (!paused && strcmp(state, "cancelled") != 0 && strcmp(state, "failed") != 0)
        return true;
    for (size_t i = 0; i < json_count(&parts); i++) {
        struct json part = json_at(&parts, i);
        settled = bring_in_line(s, id, &part, paused) && settled;
    }
    return settled;
}

/* --- which jobs ------------------------------------------------------------------------------- */

/* Of those that were there at the start: one with a child that may not have heard. */
static bool may_be_owed(struct server *s, const char *id)
{
    cleanup_json struct json_doc *doc = NULL;
    if (read_job(s, id, &doc, NULL))
        return false;
    struct json job = json_root(doc), parts = json_get(&job, "partitions");
    bool failed = strcmp(state_at(&job), "failed") == 0;
    for (size_t i = 0; i < json_count(&parts); i++) {
        struct json part = json_at(&parts, i);
        const char *state = state_at(&part);
        if (failed ? strcmp(state, "failed") == 0
                   : !is_final(state) && strcmp(state, "paused") != 0)
            return true;
    }
    return false;
}

static void look_at_all(struct server *s)
{
    static const char *const states[] = {"cancelled", "paused", "failed"};
    for (size_t k = 0; k < sizeof states / sizeof states[0]; k++) {
        cleanup_bytes struct bytes text = {0};
        cleanup_json struct json_doc *doc = NULL;
        struct json_writer w;
        jw_init(&w, &text);
        jw_array(&w, NULL);
        jobs_write_all(s->jobs, NULL, states[k], &w, NULL);
        jw_end(&w);
        if (json_parse(&doc, "jobs", text.data, text.len, NULL))
            continue;
        struct json list = json_root(doc);
        for (size_t i = 0; i < json_count(&list); i++) {
            struct json job = json_at(&list, i), options = json_get(&job, "options");
            const char *id;
            if (cluster_is_job(&options) && json_str(&job, "id", &id, NULL) == 0 &&
                may_be_owed(s, id))
                owed_later(s, id);
        }
    }
}

void owed_later(struct server *s, const char *id)
{
    struct owed *t = s->owed;
    if (!t)
        return;
    ACQUIRE(&t->lock);
    for (const struct todo *i = t->todo; i; i = i->next)
        if (strcmp(i->id, id) == 0)
            return;
    struct todo *new = xcalloc(1, sizeof *new);
    new->id = xstrdup(id);
    new->next = t->todo;
    t->todo = new;
    cond_broadcast(&t->news);
}

/* --- the thread ------------------------------------------------------------------------------- */

/* Lock held; dropped for each job. */
static void owed_all(struct owed *t)
{
    struct todo *all = t->todo, *left = NULL;
    t->todo = NULL;
    while (all && !t->stop) {
        struct todo *one = all;
        all = one->next;
        lock_drop(&t->lock);
        bool settled = owed_job(t->server, one->id);
        lock_take(&t->lock);
        one->next = left;
        left = settled ? left : one;
        if (settled) {
            free(one->id);
            free(one);
        }
    }
    struct todo **end = &t->todo;
    while (*end)
        end = &(*end)->next;
    *end = left;
    while (*end)
        end = &(*end)->next;
    *end = all;
}

static void *owed_main(void *arg)
{
    struct owed *t = arg;
    look_at_all(t->server);
    ACQUIRE(&t->lock);
    while (!t->stop) {
        if (!t->todo) {
            cond_wait(&t->news, &t->lock);
            continue;
        }
        owed_all(t);
        if (t->todo && !t->stop)
            cond_wait_for(&t->news, &t->lock, LOOK_NS);
    }
    return NULL;
}

void owed_init(struct server *s)
{
    if (!members_are_several(s->members) || s->conf.ordinal != 0)
        return;
    s->owed = xcalloc(1, sizeof *s->owed);
    s->owed->server = s;
    lock_init(&s->owed->lock, RANK_CONTROL, "cluster");
    cond_init(&s->owed->news);
}

int owed_start(struct server *s, struct err *err)
{
    if (!s->owed)
        return 0;
    int e = thread_start(&s->owed->thread, "cluster", owed_main, s->owed);
    s->owed->runs = !e;
    return e ? err_thread(err, e, "start a thread") : 0;
}

void owed_stop(struct server *s)
{
    struct owed *t = s->owed;
    if (!t || !t->runs)
        return;
    {
        ACQUIRE(&t->lock);
        t->stop = true;
        cond_broadcast(&t->news);
    }
    pthread_join(t->thread, NULL);
}

void owed_free(struct server *s)
{
    struct owed *t = s->owed;
    if (!t)
        return;
    while (t->todo) {
        struct todo *next = t->todo->next;
        free(t->todo->id);
        free(t->todo);
        t->todo = next;
    }
    cond_destroy(&t->news);
    lock_destroy(&t->lock);
    free(t);
}
