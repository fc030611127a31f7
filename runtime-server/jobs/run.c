/* Runners: one thread for each job that runs, what it may ask and tell, and its end. */
#define LOG_MODULE "jobs"
#include <string.h>

#include "clock.h"
#include "jobs-internal.h"
#include "log.h"

/* --- what a runner asks and tells ------------------------------------------------------------- */

const char *job_id(const struct job_run *r)
{
    return r->id;
}

const char *job_type(const struct job_run *r)
{
    return r->kind->type;
}

bool job_is_closing(const struct job_run *r)
{
    return atomic_load(&r->wish) == WISH_CLOSE;
}

unsigned job_try(const struct job_run *r)
{
    return r->tries;
}

const char *job_posting(const struct job_run *r)
{
    return r->posting;
}

enum job_wish job_wanted(struct job_run *r)
{
    int wish = atomic_load(&r->wish);
    if (wish != JOB_GO_ON)
        atomic_store(&r->told, wish);
    return wish == WISH_CLOSE ? JOB_PAUSE : (enum job_wish)wish;
}

const char *job_secret(const struct job_run *r)
{
    return r->secret.text;
}

/* In memory each time; on the disk and to listeners at most once a second. */
void job_tell(struct job_run *r, const struct job_progress *p)
{
    uint64_t now = clock_mono_ns();
    bool store = false;
    {
        ACQUIRE(&r->jobs->lock);
        r->progress = *p;
        store = now - r->stored_ns >= NS_PER_S || r->stored_ns == 0;
        if (store) {
            r->stored_ns = now;
            jobstore_set_progress(r->jobs->store, r->id, p, NULL); /* the end is stored for sure */
        }
    }
    if (store)
        jobs_changed(r->jobs, r->id);
}

void job_tell_partition(struct job_run *r, uint32_t partition, enum job_state state,
                        const struct job_progress *p, const char *error)
{
    {
        ACQUIRE(&r->jobs->lock);
        jobstore_set_part(r->jobs->store, r->id, partition, state, p, error, NULL);
    }
    jobs_changed(r->jobs, r->id);
}

/* --- the end ---------------------------------------------------------------------------------- */

/*
 * What the job is after its runner returned. A wish that the runner never saw did not end it: its
 * work is done. One that it saw may have been taken back meanwhile: then it runs again.
 */
static enum job_state state_after(const struct job_run *r, int rc)
{
    int told = atomic_load(&r->told), wish = atomic_load(&r->wish);
    if (r->keys_lost)
        return JOB_FAILED;
    if (told == JOB_CANCEL || (rc && wish == JOB_CANCEL))
        return JOB_CANCELLED;
    if (told == WISH_CLOSE || (rc && wish == WISH_CLOSE))
        return JOB_PENDING;
    if (rc)
        return JOB_FAILED;
    if (told == JOB_PAUSE)
        return wish == JOB_PAUSE ? JOB_PAUSED : wish == JOB_CANCEL ? JOB_CANCELLED : JOB_PENDING;
    return JOB_SUCCEEDED;
}

static int save_end(struct job_run *r, enum job_state state, const char *result,
                    const struct err *why, struct err *err)
{
    struct jobs *j = r->jobs;
    const char *text = state == JOB_FAILED ? why->msg : state == JOB_CANCELLED ? "" : NULL;
    jobstore_set_progress(j->store, r->id, &r->progress, NULL);
    if (jobstore_set_state(j->store, r->id, state, jobs_now(j), text, result, err))
        return -1;
    /* Of one that runs again what was wished at the last moment is still to be done. */
    return state == JOB_PENDING ? 0 : jobstore_set_wish(j->store, r->id, JOB_GO_ON, NULL);
}

/* The job runs until its end is on the disk: nobody is told of an end that a restart would not
 * know. If we are to end before that, the next start runs it again. */
static void finish(struct job_run *r, int rc, const char *result, const struct err *why)
{
    struct jobs *j = r->jobs;
    enum job_state state;
    {
        ACQUIRE(&j->lock);
        bool said = false;
        for (struct err err = {0};; err = (struct err){0}) {
            state = state_after(r, rc);
            if (save_end(r, state, result, why, &err) == 0 || j->stopping)
                break;
            if (!said)
                log_error(j->conf.log,
                          "job %s has ended, but that can't be written (it is tried again): %s",
                          r->id, err.msg);
            said = true;
            cond_wait_for(&j->news, &j->lock, AGAIN_S * NS_PER_S);
        }
        if (job_state_final(state))
            secret_drop(j, r->id);
        r->ended = true;
        cond_broadcast(&j->news);
    }
    if (state == JOB_FAILED)
        log_warn(j->conf.log, "job %s failed: %s", r->id, why->msg);
    else
        log_info(j->conf.log, "job %s: %s", r->id, job_state_name(state));
}

static int do_work(struct job_run *r, struct bytes *result, struct err *err)
{
    cleanup_json struct json_doc *doc = NULL;
    if (json_parse(&doc, "options", r->options, strlen(r->options), err))
        return -1;
    struct json options = json_root(doc);
    return r->kind->run(r, r->jobs->conf.server, &options, result, err);
}

static int keys_are_lost(struct err *err)
{
    return err_set(err, ERR_DENIED,
                   "the credentials given with the job are lost since the server's restart "
                   "(submit it again under another id, or give the server a credentials file)");
}

static void *run_main(void *arg)
{
    struct job_run *r = arg;
    struct jobs *j = r->jobs;
    struct err why = {0};
    cleanup_bytes struct bytes result = {0};
    cleanup_free char *id = xstrdup(r->id);
    jobs_changed(j, id);
    int rc = do_work(r, &result, &why);
    if (r->keys_lost)
        rc = keys_are_lost(&why);
    finish(r, rc, result.len ? result.data : NULL, &why);
    jobs_changed(j, id); /* `r` may be gone */
    return NULL;
}

/* --- the start -------------------------------------------------------------------------------- */

static void run_free(struct job_run *r)
{
    free(r->id);
    free(r->options);
    free(r->touches);
    free(r->posting);
    secret_release(&r->secret);
    free(r);
}

static bool waits(const struct job_kind *kind, const char *options)
{
    cleanup_json struct json_doc *doc = NULL;
    if (!kind->waits || json_parse(&doc, "options", options, strlen(options), NULL))
        return false;
    struct json root = json_root(doc);
    return kind->waits(&root);
}

bool run_waits(const struct jobs *j, const struct job_row *row)
{
    const struct job_kind *kind = kind_of(j, row->type);
    return kind && waits(kind, row->options);
}

static char *touches_of(const struct job_kind *kind, const char *options)
{
    cleanup_json struct json_doc *doc = NULL;
    struct bytes text = {0};
    if (kind->touches && json_parse(&doc, "options", options, strlen(options), NULL) == 0) {
        struct json root = json_root(doc);
        kind->touches(&root, &text);
    }
    return bytes_take(&text);
}

/* One path is the other, or lies below it. */
static bool overlap(const char *a, size_t a_len, const char *b, size_t b_len)
{
    while (a_len && a[a_len - 1] == '/')
        a_len--;
    while (b_len && b[b_len - 1] == '/')
        b_len--;
    size_t n = a_len < b_len ? a_len : b_len;
    if (memcmp(a, b, n) != 0)
        return false;
    return a_len == b_len || (a_len < b_len ? b[n] : a[n]) == '/';
}

static bool touch_same(const char *a, const char *b)
{
    for (const char *p = a; *p; p += strcspn(p, "\n"), p += *p == '\n')
        for (const char *q = b; *q; q += strcspn(q, "\n"), q += *q == '\n')
            if (overlap(p, strcspn(p, "\n"), q, strcspn(q, "\n")))
                return true;
    return false;
}

static bool fits(const struct jobs *j, const struct turns *t, bool waiter, const char *touches)
{
    unsigned n = t->taken;
    for (const struct job_run *r = j->runs; r; r = r->next) {
        n += !r->ended && !r->waits;
        if (!r->ended && touch_same(touches, r->touches))
            return false;
    }
    return (waiter || n < j->conf.parallel) &&
           !(t->touched.len && touch_same(touches, t->touched.data));
}

bool run_fits(const struct jobs *j, const struct job_row *row, struct turns *t)
{
    const struct job_kind *kind = kind_of(j, row->type);
    cleanup_free char *touches = kind ? touches_of(kind, row->options) : xstrdup("");
    bool waiter = run_waits(j, row), yes = fits(j, t, waiter, touches);
    t->taken += yes && !waiter;
    size_t len = strlen(touches);
    bytes_add(&t->touched, touches, len);
    if (len && touches[len - 1] != '\n')
        bytes_add_char(&t->touched, '\n');
    return yes;
}

static struct job_run *run_new(struct jobs *j, const struct job_row *row,
                               const struct job_kind *kind, enum job_wish wish)
{
    struct job_run *r = xcalloc(1, sizeof *r);
    const char *secret = secret_find(j, row->id);
    r->jobs = j;
    r->kind = kind;
    r->id = xstrdup(row->id);
    r->options = xstrdup(row->options);
    r->posting = xstrdup(row->posting);
    r->touches = touches_of(kind, row->options);
    if (secret)
        secret_set(&r->secret, secret, strlen(secret));
    r->waits = waits(kind, row->options);
    atomic_store(&r->wish, (int)wish);
    r->tries = (unsigned)row->tries + 1;
    r->progress = row->progress;
    return r;
}

/* A kill came between a wish and its runner's end. */
static enum begun stop_unstarted(struct jobs *j, const struct job_row *row, enum job_wish wish,
                                 struct err *err)
{
    enum job_state to = wish == JOB_CANCEL ? JOB_CANCELLED : JOB_PAUSED;
    if (jobstore_set_state(j->store, row->id, to, jobs_now(j), "", NULL, err) ||
        jobstore_set_wish(j->store, row->id, JOB_GO_ON, err))
        return NOT_SAVED;
    if (wish == JOB_CANCEL)
        secret_drop(j, row->id);
    return STOPPED;
}

enum begun run_start(struct jobs *j, const struct job_row *row, struct err *err)
{
    const struct job_kind *kind = kind_of(j, row->type);
    enum job_wish wish = jobstore_wish(j->store, row->id);
    if (!kind) {
        err_set(err, ERR_USAGE, "this server knows no jobs of type \"%s\"", row->type);
        return REFUSED;
    }
    /* What others do for the job is to end, too: its runner tells them. */
    bool tells = waits(kind, row->options);
    if (wish != JOB_GO_ON && !tells)
        return stop_unstarted(j, row, wish, err);
    bool keys_lost = wish == JOB_GO_ON && row->has_secret && !secret_find(j, row->id);
    if (keys_lost && !(tells && row->tries)) {
        keys_are_lost(err);
        return REFUSED;
    }
    if (jobstore_set_state(j->store, row->id, JOB_RUNNING, jobs_now(j), "", NULL, err))
        return NOT_SAVED;
    struct job_run *r = run_new(j, row, kind, keys_lost ? JOB_CANCEL : wish);
    r->keys_lost = keys_lost;
    int e = thread_start(&r->thread, "job", run_main, r);
    if (e) {
        run_free(r);
        err_thread(err, e, "start a thread");
        return REFUSED;
    }
    r->next = j->runs;
    j->runs = r;
    return BEGUN;
}

void runs_reap(struct jobs *j)
{
    for (struct job_run **at = &j->runs; *at;) {
        struct job_run *r = *at;
        if (!r->ended) {
            at = &r->next;
            continue;
        }
        *at = r->next;
        lock_drop(&j->lock);
        pthread_join(r->thread, NULL);
        run_free(r);
        lock_take(&j->lock);
        at = &j->runs; /* the list may be another one by now */
    }
}
