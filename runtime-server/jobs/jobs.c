/*
 * The state machine: submitting, asking, wishing; and the scheduler, one thread that starts what
 * may run and wakes only for news or the next due time.
 */
#define LOG_MODULE "jobs"
#include "jobs-internal.h"

#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <string.h>
#include <sys/random.h>

#include "clock.h"
#include "hash.h"
#include "log.h"

#define ID_MAX      200
#define DUE_MAX     20 /* of a due time, which a template's children add to its id with a '-' */
#define PARALLEL    4
#define KEEP_S      (7 * 86400)
#define WATCH_CLOCK 30 /* seconds: the wall clock may be set while a due time is waited for */

static const char *const state_names[] = {
    [JOB_PENDING] = "pending",     [JOB_RUNNING] = "running", [JOB_PAUSED] = "paused",
    [JOB_SUCCEEDED] = "succeeded", [JOB_FAILED] = "failed",   [JOB_CANCELLED] = "cancelled",
};

const char *job_state_name(enum job_state s)
{
    return state_names[s];
}

int64_t jobs_now(const struct jobs *j)
{
    return j->conf.wall_s ? j->conf.wall_s(j->conf.wall_arg) : clock_wall_ns() / (int64_t)NS_PER_S;
}

const struct job_kind *kind_of(const struct jobs *j, const char *type)
{
    for (size_t i = 0; i < j->conf.n_kinds; i++)
        if (strcmp(j->conf.kinds[i].type, type) == 0)
            return &j->conf.kinds[i];
    return NULL;
}

struct job_run *run_of(const struct jobs *j, const char *id)
{
    for (struct job_run *r = j->runs; r; r = r->next)
        if (!r->ended && strcmp(r->id, id) == 0)
            return r;
    return NULL;
}

void jobs_changed(struct jobs *j, const char *id)
{
    if (j->conf.changed)
        j->conf.changed(j->conf.changed_arg, id);
}

/* --- secrets ---------------------------------------------------------------------------------- */

static void secret_free(struct kept_secret *s)
{
    free(s->id);
    secret_release(&s->text);
    free(s);
}

void secret_keep(struct jobs *j, const char *id, const char *text)
{
    struct kept_secret *s = xcalloc(1, sizeof *s);
    s->id = xstrdup(id);
    secret_set(&s->text, text, strlen(text));
    s->next = j->secrets;
    j->secrets = s;
}

void secret_drop(struct jobs *j, const char *id)
{
    for (struct kept_secret **at = &j->secrets; *at; at = &(*at)->next)
        if (strcmp((*at)->id, id) == 0) {
            struct kept_secret *s = *at;
            *at = s->next;
            secret_free(s);
            return;
        }
}

const char *secret_find(const struct jobs *j, const char *id)
{
    for (const struct kept_secret *s = j->secrets; s; s = s->next)
        if (strcmp(s->id, id) == 0)
            return s->text.text;
    return NULL;
}

/* --- the scheduler ---------------------------------------------------------------------------- */

struct ready {
    const struct jobs *jobs;
    struct bytes ids; /* each with its NUL */
    struct turns turns;
};

static void note_told(void *arg, const struct job_row *row)
{
    struct ready *r = arg;
    bytes_add(&r->ids, row->id, strlen(row->id) + 1);
}

static void note_ready(void *arg, const struct job_row *row)
{
    struct ready *r = arg;
    if (run_fits(r->jobs, row, &r->turns))
        note_told(r, row);
}

/* False: what is to be written for it can't be. */
static bool start_one(struct jobs *j, const char *id, struct bytes *changed)
{
    cleanup_row struct job_row row = {0};
    struct err err = {0};
    if (jobstore_get(j->store, id, &row, NULL))
        return true;
    enum begun begun = run_start(j, &row, &err);
    if (begun == REFUSED &&
        jobstore_set_state(j->store, id, JOB_FAILED, jobs_now(j), err.msg, NULL, &err))
        begun = NOT_SAVED;
    if (begun == NOT_SAVED)
        log_error(j->conf.log, "job %s can't be begun (it is tried again): %s", id, err.msg);
    else if (begun != BEGUN)
        bytes_add(changed, id, strlen(id) + 1);
    return begun != NOT_SAVED;
}

/* Starts those that `note` takes. Thousands may wait: who can't begin is not looked up. */
static bool start_all(struct jobs *j, enum row_filter which, row_fn *note, struct bytes *changed)
{
    struct ready ready = {.jobs = j};
    bool saved = true;
    jobstore_each(j->store, which, note, &ready, NULL);
    for (const char *id = ready.ids.data; id && saved && id < ready.ids.data + ready.ids.len;
         id += strlen(id) + 1)
        saved = start_one(j, id, changed);
    bytes_release(&ready.ids);
    bytes_release(&ready.turns.touched);
    return saved;
}

/* When to look again, at the latest. */
static int64_t start_ready(struct jobs *j, int64_t now, struct bytes *changed)
{
    /* Who is only to tell others that they end waits for nobody's turn. */
    if (start_all(j, ROWS_TOLD, note_told, changed) &&
        start_all(j, ROWS_PENDING, note_ready, changed))
        return INT64_MAX;
    return now + AGAIN_S; /* a full disk may pass */
}

/* With the lock dropped, as listeners ask for the job's state. */
static void tell_changed(struct jobs *j, struct bytes *changed)
{
    lock_drop(&j->lock);
    for (const char *id = changed->data; id && id < changed->data + changed->len;
         id += strlen(id) + 1)
        jobs_changed(j, id);
    bytes_release(changed);
    lock_take(&j->lock);
}

static void *scheduler_main(void *arg)
{
    struct jobs *j = arg;
    ACQUIRE(&j->lock);
    while (!j->stopping) {
        struct bytes changed = {0};
        runs_reap(j);
        if (j->stopping)
            break; /* the lock was dropped: what starts now would not be told to stop */
        int64_t now = jobs_now(j), next = schedule_run(j, &changed);
        jobstore_forget(j->store, now - (int64_t)j->conf.keep_s, NULL);
        int64_t again = start_ready(j, now, &changed);
        next = again < next ? again : next;
        if (changed.len) {
            tell_changed(j, &changed);
            continue; /* what happened meanwhile was not waited for */
        }
        if (next == INT64_MAX)
            cond_wait(&j->news, &j->lock);
        else if (next > now)
            cond_wait_for(&j->news, &j->lock,
                          (uint64_t)(next - now < WATCH_CLOCK ? next - now : WATCH_CLOCK) *
                              NS_PER_S);
    }
    return NULL;
}

/* --- opening and closing ---------------------------------------------------------------------- */

int jobs_open(struct jobs **ret, const struct jobs_conf *conf, struct err *err)
{
    struct jobs *j = xcalloc(1, sizeof *j);
    j->conf = *conf;
    j->conf.parallel = conf->parallel ? conf->parallel : PARALLEL;
    j->conf.keep_s = conf->keep_s ? conf->keep_s : KEEP_S;
    lock_init(&j->lock, RANK_JOBS, "jobs");
    cond_init(&j->news);
    int rc = jobstore_open(&j->store, conf->dir, err);
    if (!rc)
        rc = jobstore_recover(j->store, err);
    int e = rc ? 0 : thread_start(&j->scheduler, "jobs", scheduler_main, j);
    j->scheduler_runs = !rc && !e;
    if (e)
        rc = err_thread(err, e, "start a thread");
    if (rc) {
        jobs_close(j);
        return -1;
    }
    *ret = j;
    return 0;
}

static void stop_runs(struct jobs *j)
{
    ACQUIRE(&j->lock);
    j->stopping = true;
    cond_broadcast(&j->news);
    for (struct job_run *r = j->runs; r; r = r->next) {
        int go_on = JOB_GO_ON;
        /* One that was told to pause is paused, not pending, at the next start. */
        atomic_compare_exchange_strong(&r->wish, &go_on, WISH_CLOSE);
    }
    for (;;) {
        bool busy = false;
        for (const struct job_run *r = j->runs; r; r = r->next)
            busy = busy || !r->ended;
        if (!busy)
            break;
        cond_wait(&j->news, &j->lock);
    }
}

void jobs_close(struct jobs *j)
{
    if (!j)
        return;
    stop_runs(j);
    if (j->scheduler_runs)
        pthread_join(j->scheduler, NULL);
    lock_take(&j->lock);
    runs_reap(j);
    lock_drop(&j->lock);
    while (j->secrets)
        secret_drop(j, j->secrets->id);
    jobstore_close(j->store);
    cond_destroy(&j->news);
    lock_destroy(&j->lock);
    free(j);
}

/* --- submitting ------------------------------------------------------------------------------- */

static const char *const submit_keys[] = {"id",
                                          "type",
                                          "options",
                                          "schedule",
                                          "timeZone",
                                          "concurrencyPolicy",
                                          "startingDeadlineSeconds",
                                          "suspend",
                                          NULL};

static int check_id(const char *id, bool template, struct err *err)
{
    int most = template ? ID_MAX - DUE_MAX - 1 : ID_MAX;
    size_t len = strlen(id);
    bool good = len > 0 && len <= (size_t)most && id[0] != '.';
    for (const char *p = id; *p && good; p++)
        good = isalnum((unsigned char)*p) || strchr("._-", *p);
    return good ? 0
                : err_set(err, ERR_USAGE,
                          "id: \"%.40s\": want 1 to %d letters, digits, '.', '_' or '-', not "
                          "starting with a dot%s",
                          id, most, template ? " (the runs of a schedule get longer ids)" : "");
}

static int no_such_type(const struct jobs *j, const char *type, struct err *err)
{
    cleanup_bytes struct bytes known = {0};
    for (size_t i = 0; i < j->conf.n_kinds; i++)
        bytes_addf(&known, "%s%s", i ? " " : "", j->conf.kinds[i].type);
    return err_set(err, ERR_USAGE, "type: \"%s\": want one of: %s", type,
                   known.data ? known.data : "");
}

static int draw_posting(struct job_row *row, struct err *err)
{
    unsigned char random[8];
    if (getrandom(random, sizeof random, 0) != (ssize_t)sizeof random)
        return err_sys(err, errno, "random bytes");
    row->posting = xcalloc(1, 2 * sizeof random + 1);
    hex_encode(row->posting, random, sizeof random);
    return 0;
}

static int parse_submit(struct jobs *j, const struct json *root, const char *posting,
                        struct job_row *ret, struct bytes *secret, struct err *err)
{
    const char *id, *type, *schedule;
    cleanup_bytes struct bytes options = {0};
    if (json_want_object(root, err) || json_only_keys(root, submit_keys, err) ||
        json_str_or(root, "schedule", "", &schedule, err) || json_str(root, "id", &id, err) ||
        check_id(id, *schedule != '\0', err) || json_str(root, "type", &type, err))
        return -1;
    const struct job_kind *kind = kind_of(j, type);
    if (!kind)
        return no_such_type(j, type, err);
    static const char none[] = "{}";
    cleanup_json struct json_doc *empty = NULL;
    struct json given = json_get(root, "options");
    if (!json_has(root, "options")) {
        if (json_parse(&empty, "options", none, strlen(none), err))
            return -1;
        given = json_root(empty);
    }
    if (json_want_object(&given, err) || kind->check(j->conf.server, &given, &options, secret, err))
        return -1;
    *ret = (struct job_row){.id = xstrdup(id),
                            .type = xstrdup(type),
                            .options = bytes_take(&options),
                            .parent = xstrdup(""),
                            .state = JOB_PENDING,
                            .has_secret = secret->len > 0,
                            .created = jobs_now(j)};
    if (posting)
        ret->posting = xstrdup(posting);
    else if (draw_posting(ret, err))
        return -1;
    return schedule_parse(ret, root, ret->created, err);
}

static bool same_job(const struct job_row *a, const struct job_row *b)
{
    assert(a->type && a->options && a->schedule && a->zone);
    return strcmp(a->type, b->type) == 0 && strcmp(a->options, b->options) == 0 &&
           strcmp(a->schedule, b->schedule) == 0 && strcmp(a->zone, b->zone) == 0 &&
           a->policy == b->policy && a->deadline_s == b->deadline_s;
}

/* It was done for a job that its server lost: that one's results are not this one's. One that has
 * not ended does what is asked now, too. */
static bool is_past(const struct job_row *old, const struct job_row *row)
{
    assert(old->posting && row->posting);
    return job_state_final(old->state) && *old->posting && strcmp(old->posting, row->posting) != 0;
}

static int submit_row(struct jobs *j, const struct job_row *row, bool posted_for,
                      const struct bytes *secret, bool *ret_new, struct err *err)
{
    ACQUIRE(&j->lock);
    cleanup_row struct job_row old = {0};
    struct err why = {0};
    bool there = jobstore_get(j->store, row->id, &old, &why) == 0;
    bool past = there && posted_for && is_past(&old, row);
    if (there && !past) {
        *ret_new = false;
        if (same_job(row, &old))
            return posted_for && strcmp(row->posting, old.posting) != 0
                       ? jobstore_set_posting(j->store, row->id, row->posting, err)
                       : 0;
        err_set(err, ERR_DENIED,
                "id: job %s is there already, with other options (choose another id)", row->id);
        if (err)
            err->sys = EEXIST;
        return -1;
    }
    if (!there && why.class != ERR_NOT_FOUND) {
        if (err)
            *err = why;
        return -1;
    }
    if ((past ? jobstore_replace : jobstore_insert)(j->store, row, err))
        return -1;
    if (secret->len)
        secret_keep(j, row->id, secret->data);
    *ret_new = true;
    cond_broadcast(&j->news);
    return 0;
}

int jobs_submit(struct jobs *j, const struct json *root, const char *posting, bool *ret_new,
                struct err *err)
{
    cleanup_row struct job_row row = {0};
    cleanup_wiped struct bytes secret = {0};
    if (posting && !*posting)
        posting = NULL;
    int rc = parse_submit(j, root, posting, &row, &secret, err);
    if (!rc)
        rc = submit_row(j, &row, posting != NULL, &secret, ret_new, err);
    if (!rc)
        jobs_changed(j, row.id);
    return rc;
}

/* --- wishes ----------------------------------------------------------------------------------- */

static int not_now(const struct job_row *row, const char *what, struct err *err)
{
    err_set(err, ERR_DENIED, "%s job %s: it is %s", what, row->id, job_state_name(row->state));
    if (err)
        err->sys = EEXIST; /* a conflict with what is */
    return -1;
}

/* What others do for the job is to stop, too: its runner is started to tell them. */
static int wish_begun(struct jobs *j, const struct job_row *row, enum job_wish wish,
                      struct err *err)
{
    if (jobstore_set_wish(j->store, row->id, wish, err) ||
        jobstore_set_state(j->store, row->id, JOB_PENDING, jobs_now(j), NULL, NULL, err))
        return -1;
    cond_broadcast(&j->news);
    return 0;
}

int job_wish_it(struct jobs *j, const char *id, enum job_wish wish, const char *text,
                struct err *err)
{
    cleanup_row struct job_row row = {0};
    struct err why = {0};
    enum job_state to = wish == JOB_CANCEL ? JOB_CANCELLED : JOB_PAUSED;
    if (jobstore_get(j->store, id, &row, err))
        return -1;
    if (job_state_final(row.state))
        return wish == JOB_CANCEL ? 0 : not_now(&row, "pause", err);
    struct job_run *run = run_of(j, id);
    if (run) {
        int go_on = JOB_GO_ON;
        if (wish == JOB_CANCEL)
            atomic_store(&run->wish, JOB_CANCEL);
        else if (!atomic_compare_exchange_strong(&run->wish, &go_on, JOB_PAUSE))
            return 0;
        /* Also a full disk keeps nobody from stopping a job: then a kill may forget it. */
        if (jobstore_set_wish(j->store, id, wish, &why))
            log_warn(j->conf.log, "job %s: %s", id, why.msg);
        return 0;
    }
    if (row.state == to || (wish == JOB_PAUSE && jobstore_wish(j->store, id) == JOB_CANCEL))
        return 0;
    if (row.tries && run_waits(j, &row))
        return wish_begun(j, &row, wish, err);
    if (to == JOB_CANCELLED)
        secret_drop(j, id);
    return jobstore_set_state(j->store, id, to, jobs_now(j), text, NULL, err);
}

static int wish(struct jobs *j, const char *id, enum job_wish wish, struct err *err)
{
    ACQUIRE(&j->lock);
    return job_wish_it(j, id, wish, NULL, err);
}

int jobs_cancel(struct jobs *j, const char *id, struct err *err)
{
    int rc = wish(j, id, JOB_CANCEL, err);
    if (!rc)
        jobs_changed(j, id);
    return rc;
}

int jobs_pause(struct jobs *j, const char *id, struct err *err)
{
    int rc = wish(j, id, JOB_PAUSE, err);
    if (!rc)
        jobs_changed(j, id);
    return rc;
}

static int resume_row(struct jobs *j, const char *id, struct err *err)
{
    ACQUIRE(&j->lock);
    cleanup_row struct job_row row = {0};
    if (jobstore_get(j->store, id, &row, err))
        return -1;
    struct job_run *run = run_of(j, id);
    int pause = JOB_PAUSE;
    if (jobstore_wish(j->store, id) == JOB_PAUSE && jobstore_set_wish(j->store, id, JOB_GO_ON, err))
        return -1;
    if (run && atomic_compare_exchange_strong(&run->wish, &pause, JOB_GO_ON))
        return 0; /* it goes on, or runs again if it was on its way out: state_after() */
    if (job_state_final(row.state))
        return not_now(&row, "resume", err);
    if (row.state != JOB_PAUSED)
        return 0;
    /* A suspended template does not make up for the time of its suspension. */
    int64_t next = row.due;
    if (*row.schedule &&
        (schedule_next(&row, jobs_now(j), &next, err) || jobstore_set_due(j->store, id, next, err)))
        return -1;
    cond_broadcast(&j->news);
    return jobstore_set_state(j->store, id, JOB_PENDING, jobs_now(j), NULL, NULL, err);
}

int jobs_resume(struct jobs *j, const char *id, struct err *err)
{
    int rc = resume_row(j, id, err);
    if (!rc)
        jobs_changed(j, id);
    return rc;
}
