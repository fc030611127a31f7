/*
 * Shared by the files of jobs; nobody outside includes it.
 *
 * jobstore.c  the rows            run.c       runners: threads, wishes, progress
 * jobs.c      the state machine   schedule.c  templates and their due times
 *
 * One lock (RANK_JOBS) guards all that is below and the database. A runner's thread takes it for
 * each job_tell(), for microseconds.
 */
#ifndef SAMPAN_JOBS_INTERNAL_H
#define SAMPAN_JOBS_INTERNAL_H

#include <pthread.h>
#include <sqlite3.h>
#include <stdatomic.h>

#include "jobs.h"
#include "log.h"
#include "mem.h"
#include "sync.h"

/* --- jobstore.c ------------------------------------------------------------------------------ */

enum policy { POLICY_ALLOW, POLICY_FORBID, POLICY_REPLACE };

/* A row. Strings are its own. */
struct job_row {
    int64_t seq; /* order of submission */
    char *id, *type, *options, *error, *result, *parent;
    char *posting;         /* "": an older program's job */
    char *schedule, *zone; /* "" : no template */
    enum job_state state;
    enum policy policy;
    int64_t deadline_s; /* -1: none */
    int64_t due;        /* of a template: the next time, seconds since 1970 */
    bool has_secret;    /* its options had one */
    struct job_progress progress;
    int64_t created, started, ended; /* seconds since 1970; 0: not yet */
    int64_t tries;
};
void row_release(struct job_row *r);
#define cleanup_row CLEANUP(row_release)

struct jobstore;
int jobstore_open(struct jobstore **ret, const char *dir, struct err *err);
void jobstore_close(struct jobstore *s);
int jobstore_insert(struct jobstore *s, const struct job_row *r, struct err *err);
/* Instead of the one that has its id. */
int jobstore_replace(struct jobstore *s, const struct job_row *r, struct err *err);
int jobstore_set_posting(struct jobstore *s, const char *id, const char *posting, struct err *err);
int jobstore_get(struct jobstore *s, const char *id, struct job_row *ret, struct err *err);
/* Calls fn for each row, oldest first but where it says otherwise; fn must not call the store. A
 * hundred thousand may have ended: only who asks for all of them looks at those. */
typedef void row_fn(void *arg, const struct job_row *r);
enum row_filter {
    ROWS_NEWEST_FIRST, /* all of them */
    ROWS_PENDING,
    ROWS_TOLD, /* pending, with a wish */
    ROWS_NOT_ENDED,
    ROWS_TEMPLATES,
};
int jobstore_each(struct jobstore *s, enum row_filter which, row_fn *fn, void *arg,
                  struct err *err);
/* Those of one state, newest first. */
int jobstore_in_state(struct jobstore *s, enum job_state state, row_fn *fn, void *arg,
                      struct err *err);
/* State with what belongs to it; NULL texts stay as they are. */
int jobstore_set_state(struct jobstore *s, const char *id, enum job_state state, int64_t now,
                       const char *error, const char *result, struct err *err);
int jobstore_set_progress(struct jobstore *s, const char *id, const struct job_progress *p,
                          struct err *err);
/* What was wished of a job that runs (JOB_GO_ON: nothing), until its runner has ended. */
int jobstore_set_wish(struct jobstore *s, const char *id, enum job_wish wish, struct err *err);
enum job_wish jobstore_wish(struct jobstore *s, const char *id);
int jobstore_set_due(struct jobstore *s, const char *id, int64_t due, struct err *err);
/* A due time's child and the template's next time, both or neither. */
int jobstore_spawn(struct jobstore *s, const struct job_row *child, int64_t next_due,
                   struct err *err);
/* Of a job that is there; of none, nothing is kept. */
int jobstore_set_part(struct jobstore *s, const char *id, uint32_t partition, enum job_state state,
                      const struct job_progress *p, const char *error, struct err *err);
typedef void part_fn(void *arg, uint32_t partition, enum job_state state,
                     const struct job_progress *p, const char *error);
int jobstore_parts(struct jobstore *s, const char *id, part_fn *fn, void *arg, struct err *err);
/* What ran is pending again. */
int jobstore_recover(struct jobstore *s, struct err *err);
int jobstore_forget(struct jobstore *s, int64_t ended_before, struct err *err);
int jobstore_count(struct jobstore *s, uint64_t ret[JOB_STATES], struct err *err);

#define AGAIN_S 2 /* what can't be written, as the disk is full, is tried again */

/* --- jobs.c ---------------------------------------------------------------------------------- */

struct kept_secret {
    struct kept_secret *next;
    char *id;
    struct secret text;
};

/* A wish beyond enum job_wish: jobs_close() wants it to stop, and it will be pending again. */
#define WISH_CLOSE (JOB_CANCEL + 1)

struct job_run {
    struct job_run *next; /* under the lock */
    struct jobs *jobs;
    const struct job_kind *kind;
    char *id, *options, *touches, *posting;
    struct secret secret; /* empty: none */
    unsigned tries;
    _Atomic int wish; /* enum job_wish, or WISH_CLOSE */
    _Atomic int told; /* the wish that the runner has seen: what its return means */
    bool waits;       /* takes no place */
    bool keys_lost;   /* since a restart: it fails, once those are told who work for it */
    bool ended;       /* its thread is about to return; under the lock */
    pthread_t thread;
    struct job_progress progress; /* under the lock */
    uint64_t stored_ns;           /* when progress was last written; under the lock */
};

struct jobs {
    struct jobs_conf conf;
    struct lock lock;
    struct cond news;
    struct jobstore *store;
    struct job_run *runs;        /* those that run */
    struct kept_secret *secrets; /* of jobs that have not ended */
    bool stopping;
    pthread_t scheduler;
    bool scheduler_runs;
};

int64_t jobs_now(const struct jobs *j);
const struct job_kind *kind_of(const struct jobs *j, const char *type);
struct job_run *run_of(const struct jobs *j, const char *id); /* lock held */
void jobs_changed(struct jobs *j, const char *id);            /* no lock held */
/* Pauses or cancels a job that does not run, with `text` (NULL: none) as its error; one that runs,
 * or has others at work, is told. Lock held. */
int job_wish_it(struct jobs *j, const char *id, enum job_wish wish, const char *text,
                struct err *err);
void secret_keep(struct jobs *j, const char *id, const char *text);
void secret_drop(struct jobs *j, const char *id);
const char *secret_find(const struct jobs *j, const char *id);

/* --- run.c ----------------------------------------------------------------------------------- */

enum begun {
    BEGUN,    /* it is "running" in the store */
    STOPPED,  /* it was told to stop before a kill, and is at rest now */
    REFUSED,  /* it cannot be run: `err` says why */
    NOT_SAVED /* that it runs can't be written down: try again later */
};
/* Starts a pending row. Lock held. */
enum begun run_start(struct jobs *j, const struct job_row *r, struct err *err);
/* Joins and frees those that ended. Lock held; dropped meanwhile. */
void runs_reap(struct jobs *j);
/* In one look at the pending rows, in the order of their submission: of those that came before. */
struct turns {
    struct bytes touched; /* by all of them: jobs that touch the same run one after the other */
    unsigned taken;       /* places of those that begin now */
};
/* May this row begin, beside those that run and those of the same look that begin now, and before
 * those that wait? It counts in `t` from now on. Lock held. */
bool run_fits(const struct jobs *j, const struct job_row *r, struct turns *t);
/* Does its runner only wait for work that others do? */
bool run_waits(const struct jobs *j, const struct job_row *r);

/* --- schedule.c ------------------------------------------------------------------------------ */

const char *policy_name(enum policy policy);
/* Reads the template's keys of a submitted object into a row; no schedule: leaves it alone. */
int schedule_parse(struct job_row *r, const struct json *root, int64_t now, struct err *err);
/* The first due time after `after`; -1: never. */
int schedule_next(const struct job_row *r, int64_t after, int64_t *ret, struct err *err);
/* Makes the children that are due; returns the next due time of all templates, INT64_MAX: none.
 * Lock held. The ids of jobs that changed are appended to `ret_changed`, each with its NUL. */
int64_t schedule_run(struct jobs *j, struct bytes *ret_changed);

#endif
