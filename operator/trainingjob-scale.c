/*
 * How many trainers a job of style edl has, between its bounds: one more as long as all run, fewer
 * where no node takes one. What room there is the scheduler knows; a trainer that found none is
 * taken back, and the next one is tried later. Trainers that go so are no failures: the Job ends
 * them.
 *
 * With the annotation sampan.io/autoscale: "false" somebody else sets the Job's parallelism, and is
 * left alone within the bounds.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "mem.h"
#include "object.h"
#include "trainingjob-internal.h"

#define AUTOSCALE "sampan.io/autoscale"
#define SCALED    "sampan.io/scaled" /* on the Job: when it was, and "full" where no node was free */
#define STEP_S    30                 /* from one change to the next */
#define FULL_S    300                /* after one that found no room */

int64_t training_most(const struct trainingjob_role *r)
{
    return r->max >= r->min ? r->max : r->min;
}

/* A Job that was made for a fixed number of trainers keeps it: Kubernetes starts no more than its
 * completions, which cannot be changed. */
static int64_t most_of_job(const struct training *t)
{
    int64_t most = training_most(t->spec->trainer);
    int64_t fixed = build_int(most, t->job, "spec", "completions", NULL);
    return fixed < most ? fixed : most;
}

static int64_t unplaced(struct training *t)
{
    struct view_list pods = view_list(t->v, KIND_POD, t->ns, PART_OWNER_LABEL, t->uid);
    int64_t n = 0;
    for (size_t i = 0; i < pods.n; i++)
        n += object_label(pods.items[i], "paddle-job") && !object_is_deleted(pods.items[i]) &&
             part_has_condition(pods.items[i], "PodScheduled", "False");
    return n;
}

static void change(struct training *t, int64_t to, const char *note)
{
    struct action *a =
        act_patch(&t->children, KIND_JOB, t->ns, object_name(t->job), object_version(t->job));
    bytes_addf(&a->body,
               "{\"metadata\":{\"annotations\":{\"" SCALED "\":\"%" PRId64
               " %s\"}},\"spec\":{\"parallelism\":%" PRId64 "}}",
               view_now(t->v), note, to);
    t->parallelism = to;
}

/* When the number last changed: since then it is looked whether that was right. */
static int64_t changed_at(struct training *t, bool *full)
{
    const char *text = object_annotation(t->job, SCALED);
    int64_t started = part_time(part_text(&t->was, "startTime"));
    *full = text && strstr(text, " full");
    return text ? strtoll(text, NULL, 10) : started < 0 ? view_now(t->v) : started;
}

static void follow_room(struct training *t)
{
    const struct trainingjob_role *r = t->spec->trainer;
    bool full;
    int64_t now = t->parallelism, since = changed_at(t, &full), lacks = unplaced(t);
    int64_t left = since + (full && !lacks ? FULL_S : STEP_S) - view_now(t->v);
    bool shrinks = lacks > 0 && now > r->min;
    bool grows = !lacks && !t->succeeded && t->running >= now && now < most_of_job(t);
    if ((shrinks || grows) && left > 0) {
        act_again(&t->children, (unsigned)left);
    } else if (shrinks) {
        int64_t to = now - lacks > r->min ? now - lacks : r->min;
        act_event(t->out, false, "Scaled",
                  "from %" PRId64 " trainers to %" PRId64 ": no node takes more", now, to);
        change(t, to, "full");
    } else if (grows) {
        act_event(t->out, false, "Scaled", "from %" PRId64 " trainers to %" PRId64 ": all run", now,
                  now + 1);
        change(t, now + 1, "grown");
    } else if (t->running < now && training_most(r) > r->min) {
        act_again(&t->children, STEP_S); /* pods of a Job do not wake us */
    }
}

void training_scale(struct training *t)
{
    const struct trainingjob_role *r = t->spec->trainer;
    const char *self = object_annotation(t->object, AUTOSCALE);
    int64_t now = t->parallelism;
    if (!t->job)
        return;
    int64_t most = most_of_job(t), least = r->min < most ? r->min : most;
    int64_t within = now < least ? least : now > most ? most : now;
    if (most < training_most(r) && !t->message)
        t->message = xasprintf("the Job %s was made for %" PRId64 " trainers and takes no more "
                               "(deleted, it is made anew with more)",
                               object_name(t->job), most);
    if (within != now)
        change(t, within, "bounds");
    else if ((!self || strcmp(self, "false") != 0) &&
             (strcmp(t->phase, "Running") == 0 || strcmp(t->phase, "Scaling") == 0))
        follow_room(t);
}
