/* Templates: jobs with a schedule, and the children that their due times make. */
#define LOG_MODULE "jobs"
#include <string.h>

#include "cron.h"
#include "jobs-internal.h"
#include "log.h"

const char *policy_name(enum policy policy)
{
    static const char *const names[] = {"Allow", "Forbid", "Replace"};
    return names[policy <= POLICY_REPLACE ? policy : POLICY_ALLOW];
}

static int policy_parse(const char *text, enum policy *ret, struct err *err)
{
    for (int i = POLICY_ALLOW; i <= POLICY_REPLACE; i++)
        if (strcmp(text, policy_name((enum policy)i)) == 0) {
            *ret = (enum policy)i;
            return 0;
        }
    return err_set(err, ERR_USAGE, "concurrencyPolicy: \"%s\": want Allow, Forbid or Replace",
                   text);
}

int schedule_next(const struct job_row *r, int64_t after, int64_t *ret, struct err *err)
{
    struct cron cron;
    struct zone *zone;
    if (cron_parse(&cron, r->schedule, err) || zone_open(&zone, r->zone, err))
        return -1;
    *ret = cron_next(&cron, zone, after);
    zone_free(zone);
    return 0;
}

int schedule_parse(struct job_row *r, const struct json *root, int64_t now, struct err *err)
{
    const char *schedule, *zone, *policy;
    bool suspend;
    if (json_str_or(root, "schedule", "", &schedule, err) ||
        json_str_or(root, "timeZone", "", &zone, err) ||
        json_str_or(root, "concurrencyPolicy", "Allow", &policy, err) ||
        json_int_or(root, "startingDeadlineSeconds", 0, INT32_MAX, -1, &r->deadline_s, err) ||
        json_bool_or(root, "suspend", false, &suspend, err) ||
        policy_parse(policy, &r->policy, err))
        return -1;
    r->schedule = xstrdup(schedule);
    r->zone = xstrdup(zone);
    if (!*schedule)
        return *zone || suspend
                   ? err_set(err, ERR_USAGE, "timeZone, suspend: want a \"schedule\" beside them")
                   : 0;
    if (schedule_next(r, now, &r->due, err))
        return -1;
    if (r->due < 0)
        return err_set(err, ERR_USAGE, "schedule: \"%s\" never comes", schedule);
    r->state = suspend ? JOB_PAUSED : JOB_PENDING;
    return 0;
}

/* --- due times -------------------------------------------------------------------------------- */

struct due {
    struct job_row *rows; /* copies of the templates that are due */
    size_t n;
    int64_t now, next;
};

static void note_due(void *arg, const struct job_row *r)
{
    struct due *d = arg;
    if (r->due > d->now) {
        d->next = r->due < d->next ? r->due : d->next;
        return;
    }
    d->rows = xrealloc(d->rows, (d->n + 1) * sizeof *d->rows);
    struct job_row *copy = &d->rows[d->n++];
    *copy = *r;
    copy->id = xstrdup(r->id);
    copy->type = xstrdup(r->type);
    copy->options = xstrdup(r->options);
    copy->schedule = xstrdup(r->schedule);
    copy->zone = xstrdup(r->zone);
    copy->posting = xstrdup(r->posting);
    copy->error = copy->result = copy->parent = NULL;
}

struct children {
    const char *parent;
    struct bytes *active; /* ids, each with its NUL */
};

static void note_child(void *arg, const struct job_row *r)
{
    struct children *c = arg;
    if (strcmp(r->parent, c->parent) == 0)
        bytes_add(c->active, r->id, strlen(r->id) + 1);
}

/* Ends those that a new child replaces. */
static void replace(struct jobs *j, const struct bytes *active, struct bytes *changed)
{
    struct err err = {0};
    for (const char *id = active->data; id && id < active->data + active->len;
         id += strlen(id) + 1) {
        if (job_wish_it(j, id, JOB_CANCEL, "replaced", &err))
            log_error(j->conf.log, "job %s is not replaced: %s", id, err.msg);
        bytes_add(changed, id, strlen(id) + 1);
    }
}

/* The last of the due times that have passed: the others are not made up for. */
static int last_passed(const struct job_row *t, int64_t now, int64_t *ret_last, int64_t *ret_next,
                       struct err *err)
{
    *ret_last = t->due;
    for (;;) {
        if (schedule_next(t, *ret_last, ret_next, err))
            return -1;
        if (*ret_next < 0 || *ret_next > now)
            return 0;
        *ret_last = *ret_next;
        if (now - *ret_last > 86400) { /* long ago: step from a day before now */
            int64_t near = now - 86400;
            int64_t first;
            if (schedule_next(t, near, &first, err))
                return -1;
            if (first >= 0 && first <= now)
                *ret_last = first;
        }
    }
}

static int spawn(struct jobs *j, const struct job_row *t, int64_t now, int64_t *ret_next,
                 struct bytes *changed, struct err *err)
{
    int64_t last;
    cleanup_bytes struct bytes active = {0};
    if (last_passed(t, now, &last, ret_next, err))
        return -1;
    struct children children = {.parent = t->id, .active = &active};
    if (t->policy != POLICY_ALLOW &&
        jobstore_each(j->store, ROWS_NOT_ENDED, note_child, &children, err))
        return -1;
    bool late = t->deadline_s >= 0 && now - last > t->deadline_s;
    if (late || (t->policy == POLICY_FORBID && active.len)) {
        log_info(j->conf.log, "job %s: the run due at %lld is left out: %s", t->id, (long long)last,
                 late ? "its starting deadline passed" : "the last one still runs");
        return jobstore_set_due(j->store, t->id, *ret_next, err);
    }
    if (t->policy == POLICY_REPLACE)
        replace(j, &active, changed);
    cleanup_row struct job_row child = {.id = xasprintf("%s-%lld", t->id, (long long)last),
                                        .type = xstrdup(t->type),
                                        .options = xstrdup(t->options),
                                        .parent = xstrdup(t->id),
                                        .posting = xstrdup(t->posting),
                                        .schedule = xstrdup(""),
                                        .zone = xstrdup(""),
                                        .state = JOB_PENDING,
                                        .has_secret = t->has_secret,
                                        .created = now};
    if (jobstore_spawn(j->store, &child, *ret_next, err))
        return -1;
    const char *secret = secret_find(j, t->id);
    if (secret)
        secret_keep(j, child.id, secret);
    bytes_add(changed, child.id, strlen(child.id) + 1);
    return 0;
}

int64_t schedule_run(struct jobs *j, struct bytes *changed)
{
    struct due due = {.now = jobs_now(j), .next = INT64_MAX};
    struct err err = {0};
    if (jobstore_each(j->store, ROWS_TEMPLATES, note_due, &due, &err))
        log_error(j->conf.log, "schedules can't be read: %s", err.msg);
    for (size_t i = 0; i < due.n; i++) {
        int64_t next = -1;
        if (spawn(j, &due.rows[i], due.now, &next, changed, &err)) {
            log_error(j->conf.log, "job %s: its due run can't be made: %s", due.rows[i].id,
                      err.msg);
            next = due.now + 60; /* a full disk may pass */
        }
        if (next >= 0 && next < due.next)
            due.next = next;
        row_release(&due.rows[i]);
    }
    free(due.rows);
    return due.next;
}
