/*
 * Jobs: sync, warmup, rmr, clear, evict, scan. Work that a client asked for, that outlives the
 * client and us.
 *
 * A job is a row of SQLite: the id that its client chose, its type, its options as canonical JSON
 * without secrets, its state, its progress, a row for each partition it runs on. What holds:
 *
 *  1. The same id with the same options is the same job, and its present state the answer; with
 *     other options it is refused (err_errno() EEXIST), and nothing changes. A job that has ended
 *     makes room for one of another posting, where both are known: whoever posted it does not
 *     know that one any more.
 *  2. A state is written before anybody is told of it:
 *       pending -> running -> succeeded | failed | cancelled      (pending | running) <-> paused
 *     A final state never changes. What was running when we were killed is pending again at the
 *     next start, and its runner resumes: each runner does only what is not done yet.
 *  3. At most `parallel` jobs run at once, oldest first, and two that touch the same paths (or one
 *     a path below the other's) never run side by side, nor the later of them first.
 *  4. Cancel and pause reach a runner through job_wanted(), which it asks between small steps. Of a
 *     job that does not run they take effect at once. What was wished outlives a kill.
 *  5. Secrets given with the options live in memory alone; they are in no row and in no answer. A
 *     job that needs them and lost them in a restart fails and says so.
 *  6. A job with a schedule is a template: it never runs itself; each due time makes one child
 *     "ID-UNIXTIME", whatever restarts in between. Times missed while nobody was there are made up
 *     for once, by the last of them, if it is not older than the starting deadline. Pausing a
 *     template suspends it, cancelling it ends it; children go on.
 *
 * Thread-safe. Runners and `changed` are called without any lock held.
 */
#ifndef SAMPAN_JOBS_H
#define SAMPAN_JOBS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "buf.h"
#include "err.h"
#include "json.h"

struct log;

enum job_state {
    JOB_PENDING,
    JOB_RUNNING,
    JOB_PAUSED,
    JOB_SUCCEEDED,
    JOB_FAILED,
    JOB_CANCELLED,
    JOB_STATES
};
const char *job_state_name(enum job_state s); /* "pending" … */
static inline bool job_state_final(enum job_state s)
{
    return s >= JOB_SUCCEEDED;
}

struct job_progress {
    uint64_t items, bytes;             /* done */
    uint64_t total_items, total_bytes; /* 0: not known yet */
    uint64_t failed;
    int64_t eta_s; /* -1: not known */
};

/* --- kinds: how a type of job is checked and done ------------------------------------------- */

struct job_run; /* a runner's view of its job */
const char *job_id(const struct job_run *r);
const char *job_type(const struct job_run *r);
unsigned job_try(const struct job_run *r); /* 1: the first run; more: it resumes */
/* Of all jobs that ever had its id it names this one; "": not known (an older program's job). */
const char *job_posting(const struct job_run *r);
/* JOB_PAUSE was wished because all jobs are being closed, and by nobody else. */
bool job_is_closing(const struct job_run *r);
/* After JOB_PAUSE and JOB_CANCEL run() returns 0 soon; a paused one is called again. */
enum job_wish { JOB_GO_ON, JOB_PAUSE, JOB_CANCEL };
enum job_wish job_wanted(struct job_run *r);
void job_tell(struct job_run *r, const struct job_progress *p);
/* A row of "partitions"; `error` NULL or "": none. */
void job_tell_partition(struct job_run *r, uint32_t partition, enum job_state state,
                        const struct job_progress *p, const char *error);
/* What check() took out of the options, or NULL: none, or lost in a restart. */
const char *job_secret(const struct job_run *r);

struct job_kind {
    const char *type;
    /* Writes the options in canonical form (defaults filled in) to `ret` and secrets, if there are
     * any, to `secret`. Errors name the JSON path. */
    int (*check)(void *server, const struct json *options, struct bytes *ret, struct bytes *secret,
                 struct err *err);
    /* The paths or URIs that the work touches, a line each; nothing: none. */
    void (*touches)(const struct json *options, struct bytes *ret);
    /* Only waits for work that others do, so that it takes no place of the `parallel` ones. NULL:
     * none does. */
    bool (*waits)(const struct json *options);
    /* Does the work, on a thread of its own; `result` gets one JSON value, or nothing. */
    int (*run)(struct job_run *r, void *server, const struct json *options, struct bytes *result,
               struct err *err);
};

/* --- the jobs ------------------------------------------------------------------------------- */

struct jobs_conf {
    const char *dir; /* jobs.db lies here; it is locked for these jobs */
    const struct job_kind *kinds;
    size_t n_kinds;
    void *server;                 /* handed to run() */
    unsigned parallel;            /* 0: 4 */
    uint64_t keep_s;              /* ended jobs are forgotten after this; 0: 7 days */
    int64_t (*wall_s)(void *arg); /* NULL: the clock */
    void *wall_arg;
    /* A job's state or progress changed. Must not block. */
    void (*changed)(void *arg, const char *id);
    void *changed_arg;
    struct log *log;
};

struct jobs;
int jobs_open(struct jobs **ret, const struct jobs_conf *conf, struct err *err);
/* Tells what runs to stop and waits for it; those jobs are pending at the next start. */
void jobs_close(struct jobs *j);

/*
 * {"id","type","options":{…}} and, for a template, "schedule" (a cron expression), "timeZone",
 * "concurrencyPolicy" (Allow | Forbid | Replace), "startingDeadlineSeconds", "suspend". *ret_new
 * tells a new job from one that was there. `posting` names the job that it is done for; NULL or
 * "": none, or none that is known.
 */
int jobs_submit(struct jobs *j, const struct json *root, const char *posting, bool *ret_new,
                struct err *err);
int jobs_cancel(struct jobs *j, const char *id, struct err *err); /* of an ended one: no change */
int jobs_pause(struct jobs *j, const char *id, struct err *err);
int jobs_resume(struct jobs *j, const char *id, struct err *err);

/* One job as an object of `GET /v1/jobs/ID`: id, type, state, progress {items, bytes, total,
 * total_bytes, failed, percent, eta_s}, error, result, options, partitions, created, started, ended
 * (RFC 3339 or null), tries, parent; of a template what it was submitted with, and next. */
int jobs_write(struct jobs *j, const char *id, struct json_writer *w, struct err *err);
/* All of them, newest first, in an array that the caller opened; `state` NULL: any. */
int jobs_write_all(struct jobs *j, const char *type, const char *state, struct json_writer *w,
                   struct err *err);
int jobs_state(struct jobs *j, const char *id, enum job_state *ret, struct bytes *ret_error,
               struct err *err);
/* A row of "partitions" of a job that does not run. */
int jobs_set_partition(struct jobs *j, const char *id, uint32_t partition, enum job_state state,
                       const struct job_progress *p, const char *error, struct err *err);
/* How many are in each state. */
int jobs_count(struct jobs *j, uint64_t ret[JOB_STATES], struct err *err);

#endif
