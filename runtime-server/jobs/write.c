/* Jobs as JSON: what clients see of them. */
#include <string.h>

#include "clock.h"
#include "jobs-internal.h"

static void write_time(struct json_writer *w, const char *key, int64_t at)
{
    char text[CLOCK_TEXT];
    clock_text(at, text);
    jw_str(w, key, at > 0 && *text ? text : NULL);
}

/* By bytes where their total is known: samples differ in size. 100 is said of a job that succeeded,
 * and of no other. */
static double percent(enum job_state state, const struct job_progress *p)
{
    if (state == JOB_SUCCEEDED)
        return 100;
    uint64_t done = p->total_bytes ? p->bytes : p->items;
    uint64_t total = p->total_bytes ? p->total_bytes : p->total_items;
    if (!total)
        return 0;
    double share = 100.0 * (double)done / (double)total;
    return share > 99.9 ? 99.9 : share;
}

static void write_progress(struct json_writer *w, enum job_state state,
                           const struct job_progress *p)
{
    jw_object(w, "progress");
    jw_uint(w, "items", p->items);
    jw_uint(w, "bytes", p->bytes);
    jw_uint(w, "total", p->total_items);
    jw_uint(w, "total_bytes", p->total_bytes);
    jw_uint(w, "failed", p->failed);
    jw_num(w, "percent", percent(state, p));
    if (p->eta_s >= 0 && !job_state_final(state))
        jw_int(w, "eta_s", p->eta_s);
    else
        jw_str(w, "eta_s", NULL);
    jw_end(w);
}

static void write_part(void *arg, uint32_t partition, enum job_state state,
                       const struct job_progress *p, const char *error)
{
    struct json_writer *w = arg;
    jw_object(w, NULL);
    jw_uint(w, "partition", partition);
    jw_str(w, "state", job_state_name(state));
    write_progress(w, state, p);
    jw_str(w, "error", error);
    jw_end(w);
}

static void write_fields(struct jobs *j, const struct job_row *row, struct json_writer *w)
{
    const struct job_run *run = run_of(j, row->id);
    jw_str(w, "id", row->id);
    jw_str(w, "type", row->type);
    jw_str(w, "state", job_state_name(row->state));
    write_progress(w, row->state, run ? &run->progress : &row->progress);
    jw_str(w, "error", row->error);
    jw_raw(w, "options", row->options);
    jw_raw(w, "result", *row->result ? row->result : "null");
    write_time(w, "created", row->created);
    write_time(w, "started", row->started);
    write_time(w, "ended", row->ended);
    jw_int(w, "tries", row->tries);
    jw_str(w, "parent", *row->parent ? row->parent : NULL);
    if (!*row->schedule)
        return;
    jw_str(w, "schedule", row->schedule);
    jw_str(w, "timeZone", row->zone);
    jw_str(w, "concurrencyPolicy", policy_name(row->policy));
    if (row->deadline_s >= 0)
        jw_int(w, "startingDeadlineSeconds", row->deadline_s);
    write_time(w, "next", row->state == JOB_PENDING ? row->due : 0);
}

int jobs_write(struct jobs *j, const char *id, struct json_writer *w, struct err *err)
{
    ACQUIRE(&j->lock);
    cleanup_row struct job_row row = {0};
    if (jobstore_get(j->store, id, &row, err))
        return -1;
    jw_object(w, NULL);
    write_fields(j, &row, w);
    jw_array(w, "partitions");
    int rc = jobstore_parts(j->store, id, write_part, w, err);
    jw_end(w);
    jw_end(w);
    return rc;
}

struct listing {
    struct jobs *jobs;
    const char *type;
    struct json_writer *w;
};

static void write_row(void *arg, const struct job_row *row)
{
    struct listing *l = arg;
    if (l->type && strcmp(l->type, row->type) != 0)
        return;
    jw_object(l->w, NULL);
    write_fields(l->jobs, row, l->w);
    jw_end(l->w);
}

int jobs_write_all(struct jobs *j, const char *type, const char *state, struct json_writer *w,
                   struct err *err)
{
    ACQUIRE(&j->lock);
    struct listing l = {.jobs = j, .type = type, .w = w};
    if (!state)
        return jobstore_each(j->store, ROWS_NEWEST_FIRST, write_row, &l, err);
    int k = 0;
    while (k < JOB_STATES && strcmp(state, job_state_name((enum job_state)k)) != 0)
        k++;
    return k < JOB_STATES ? jobstore_in_state(j->store, (enum job_state)k, write_row, &l, err) : 0;
}

int jobs_state(struct jobs *j, const char *id, enum job_state *ret, struct bytes *ret_error,
               struct err *err)
{
    ACQUIRE(&j->lock);
    cleanup_row struct job_row row = {0};
    if (jobstore_get(j->store, id, &row, err))
        return -1;
    *ret = row.state;
    bytes_clear(ret_error);
    bytes_add_str(ret_error, row.error);
    return 0;
}

int jobs_set_partition(struct jobs *j, const char *id, uint32_t partition, enum job_state state,
                       const struct job_progress *p, const char *error, struct err *err)
{
    {
        ACQUIRE(&j->lock);
        if (jobstore_set_part(j->store, id, partition, state, p, error, err))
            return -1;
    }
    jobs_changed(j, id);
    return 0;
}

int jobs_count(struct jobs *j, uint64_t ret[JOB_STATES], struct err *err)
{
    ACQUIRE(&j->lock);
    return jobstore_count(j->store, ret, err);
}
