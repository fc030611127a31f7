/*
 * A SampleJob that comes again by the clock: it does nothing itself, each run is a SampleJob of its
 * own, named after the minute that it was due. A run is made before the status says so, and is
 * found again by its name: a due run is made once, however often we are cut off.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cron.h"
#include "mem.h"
#include "object.h"
#include "samplejob-internal.h"

#define SCHEDULED   "Scheduled"
#define ROUNDS_MOST 100000 /* missed ones that are passed over */
#define RUN_NAME    253

/* --- runs ------------------------------------------------------------------------------------- */

struct run {
    const struct json *object;
    const char *phase;
    int64_t made; /* by its name's minute */
};

static const char *status_text(const struct json *o, const char *key)
{
    struct json status = json_get(o, "status");
    return part_text(&status, key);
}

static int newest_first(const void *a, const void *b)
{
    int64_t x = ((const struct run *)a)->made, y = ((const struct run *)b)->made;
    return x < y ? 1 : x > y ? -1 : 0;
}

static struct run *runs_of(struct job_plan *p, size_t *ret_n)
{
    struct view_list list = view_list(p->v, KIND_SAMPLEJOB, p->ns, PART_OWNER_LABEL, p->uid);
    struct run *runs = xcalloc(list.n + 1, sizeof *runs);
    *ret_n = 0;
    for (size_t i = 0; i < list.n; i++) {
        const char *name = object_name(list.items[i]), *dash = strrchr(name, '-');
        runs[(*ret_n)++] = (struct run){.object = list.items[i],
                                        .phase = part_phase(list.items[i]),
                                        .made = dash ? strtoll(dash + 1, NULL, 10) : 0};
    }
    qsort(runs, *ret_n, sizeof *runs, newest_first);
    return runs;
}

static void write_run(struct bytes *out, const struct run *r)
{
    static const char *const copied[] = {"startTime", "completionTime", "message"};
    struct json_writer w;
    if (out->len)
        bytes_add_char(out, ',');
    jw_init(&w, out);
    jw_object(&w, NULL);
    jw_str(&w, "name", object_name(r->object));
    if (*r->phase)
        jw_str(&w, "phase", r->phase);
    for (size_t i = 0; i < API_COUNT(copied); i++)
        if (status_text(r->object, copied[i]))
            jw_str(&w, copied[i], status_text(r->object, copied[i]));
    jw_end(&w);
}

/* Those that are remembered are told, the others go. */
static void tell_runs(struct job_plan *p, const struct run *runs, size_t n, struct actions *drops)
{
    int64_t done = 0, wrong = 0;
    for (size_t i = 0; i < n; i++) {
        bool over = job_is_over(runs[i].phase), good = strcmp(runs[i].phase, "Succeeded") == 0;
        int64_t kept = over ? good ? ++done : ++wrong : 0;
        int64_t limit = good ? p->spec->schedule->kept_done : p->spec->schedule->kept_failed;
        const char *ended = status_text(runs[i].object, "completionTime");
        if (good && ended && (!p->last_success || strcmp(p->last_success, ended) < 0))
            job_text(&p->last_success, xstrdup(ended));
        if (!over || kept <= limit)
            write_run(&p->runs, &runs[i]);
        else if (!object_is_deleted(runs[i].object))
            act_delete(drops, KIND_SAMPLEJOB, p->ns, object_name(runs[i].object),
                       object_uid(runs[i].object));
    }
}

/* --- making one ------------------------------------------------------------------------------- */

static void write_spec(const struct job_plan *p, struct bytes *out)
{
    struct json spec = json_get(p->object, "spec");
    struct json_writer w;
    jw_init(&w, out);
    jw_object(&w, NULL);
    jw_object(&w, "spec");
    for (size_t i = 0; i < json_count(&spec); i++) {
        struct json m = json_member(&spec, i);
        cleanup_bytes struct bytes text = {0};
        if (strcmp(m.key, "schedule") == 0)
            continue;
        json_text(&m, &text);
        jw_raw(&w, m.key, text.data);
    }
    jw_end(&w);
    jw_end(&w);
}

static bool make_run(struct job_plan *p, int64_t due)
{
    cleanup_free char *head = part_name(RUN_NAME - 12, "%s", p->name);
    cleanup_free char *name = xasprintf("%s-%" PRId64, head, due / 60);
    cleanup_free char *parent = xasprintf("%s/%s", p->ns, p->name);
    const struct part_pair notes[] = {{JOB_PARENT_ANNOTATION, parent}};
    struct part_child child = {.kind = KIND_SAMPLEJOB,
                               .ns = p->ns,
                               .name = name,
                               .annotations = notes,
                               .n_annotations = 1,
                               .fixed = true};
    write_spec(p, &child.members);
    switch (part_want(p->v, p->out, &child)) {
    case PART_CREATED:
    case PART_THERE:
    case PART_GOING:
        return true;
    case PART_FOREIGN:
    case PART_BAD:
        part_condition_warn(&p->conditions, SCHEDULED, "NameTaken",
                            "SampleJob %s/%s is not a run of this one (delete it)", p->ns, name);
        return false;
    }
    return false;
}

/* --- when ------------------------------------------------------------------------------------- */

static int64_t last_of(const struct job_plan *p)
{
    struct json meta = json_get(p->object, "metadata");
    int64_t last = part_time(part_text(&p->status, "lastScheduleTime"));
    if (last < 0)
        last = part_time(part_text(&meta, "creationTimestamp"));
    return last < 0 ? view_now(p->v) : last;
}

/* The last moment up to now at which a run was due and was not made; 0: none. */
static int64_t due_at(const struct job_plan *p, const struct cron *cron, const struct zone *zone,
                      int64_t *ret_next)
{
    int64_t last = last_of(p), due = 0, at;
    *ret_next = -1;
    for (int n = 0; n < ROUNDS_MOST && (at = cron_next(cron, zone, last)) >= 0; n++) {
        *ret_next = at;
        if (at > view_now(p->v))
            break;
        due = last = at;
    }
    return due;
}

static void keep_time(char **to, int64_t t)
{
    char text[PART_TIME_BYTES];
    part_time_text(t, text);
    job_text(to, xstrdup(text));
}

/* May the run of `due` begin now? With Replace, those under way are deleted, which cancels them. It
 * may have been made already, by who was cut off before the status said so. */
static bool may_begin(struct job_plan *p, int64_t due, const struct run *runs, size_t n,
                      struct actions *drops)
{
    const char *policy = p->spec->schedule->concurrency;
    bool replace = policy && strcmp(policy, "Replace") == 0;
    if (policy && strcmp(policy, "Allow") == 0)
        return true;
    for (size_t i = 0; i < n; i++) {
        if (job_is_over(runs[i].phase) || runs[i].made == due / 60)
            continue;
        if (!replace)
            return false;
        if (!object_is_deleted(runs[i].object))
            act_delete(drops, KIND_SAMPLEJOB, p->ns, object_name(runs[i].object),
                       object_uid(runs[i].object));
    }
    return true;
}

static void next_run(struct job_plan *p, const struct run *runs, size_t n, struct actions *drops)
{
    const struct api_schedule *s = p->spec->schedule;
    struct cron cron;
    struct zone *zone = NULL;
    struct err err = {0};
    int64_t next;
    if (cron_parse(&cron, s->cron, &err) || zone_open(&zone, s->zone ? s->zone : "UTC", &err)) {
        part_condition_warn(&p->conditions, SCHEDULED, "InvalidSchedule", "spec.schedule: %s",
                            err.msg);
        return;
    }
    int64_t due = due_at(p, &cron, zone, &next);
    zone_free(zone);
    part_condition(&p->conditions, SCHEDULED, "True", "Scheduled", "runs begin by the clock");
    if (due && !may_begin(p, due, runs, n, drops))
        part_condition(&p->conditions, SCHEDULED, "True", "WaitsForRun",
                       "a run is due and waits for the one under way");
    else if (due && make_run(p, due))
        keep_time(&p->last_run, due);
    if (next > view_now(p->v)) {
        keep_time(&p->next, next);
        job_again(p, (unsigned)(next - view_now(p->v)));
    }
}

void job_schedule(struct job_plan *p, struct actions *drops)
{
    size_t n;
    struct run *runs = runs_of(p, &n);
    if (p->spec->schedule->suspend || p->spec->terminate) {
        p->new_phase = "Suspended";
        part_condition(&p->conditions, SCHEDULED, "False", "Suspended",
                       "no run begins (spec.schedule.suspend)");
    } else {
        p->new_phase = SCHEDULED;
        next_run(p, runs, n, drops);
    }
    tell_runs(p, runs, n, drops);
    free(runs);
}
