/* Who uses a set: jobs that are not over. */
#include <stdlib.h>
#include <string.h>

#include "mem.h"
#include "object.h"
#include "sampleset-internal.h"

static bool is_any(const char *phase, const char *const *list)
{
    while (*list && strcmp(*list, phase) != 0)
        list++;
    return *list != NULL;
}

/* Does a reference in an object of `ns` mean this set? */
static bool means(struct set_plan *p, const char *ns, const struct json *ref)
{
    const char *name = part_text(ref, "name"), *in = part_text(ref, "namespace");
    if (!name || strcmp(name, p->name) != 0 || (in && *in && strcmp(in, p->ns) != 0))
        return false;
    const struct json *set = part_find_set(p->v, ns, in, name, NULL);
    const char *uid = set ? object_uid(set) : NULL;
    return uid && strcmp(uid, p->uid) == 0;
}

static bool paddlejob_uses(struct set_plan *p, const struct json *job)
{
    static const char *const over[] = {"Completed", "Failed",     "Succeed",
                                       "Aborted",   "Terminated", NULL};
    struct json spec = json_get(job, "spec"), ref = json_get(&spec, "sampleSetRef");
    struct json output = json_get(&spec, "output"), to = json_get(&output, "sampleSetRef");
    const char *ns = object_namespace(job);
    return !is_any(part_phase(job), over) && (means(p, ns, &ref) || means(p, ns, &to));
}

static bool samplejob_uses(struct set_plan *p, const struct json *job)
{
    static const char *const under_way[] = {"Pending", "Running", NULL};
    struct json spec = json_get(job, "spec"), ref = json_get(&spec, "sampleSetRef");
    const char *plain = part_text(&spec, "sampleset"), *ns = object_namespace(job);
    if (!is_any(part_phase(job), under_way))
        return false;
    return means(p, ns, &ref) || (plain && !strcmp(plain, p->name) && !strcmp(ns, p->ns));
}

static void add_user(struct set_plan *p, const struct json *job)
{
    p->used_by = xrealloc(p->used_by, (p->n_used_by + 1) * sizeof *p->used_by);
    p->used_by[p->n_used_by++] = xasprintf("%s/%s", object_namespace(job), object_name(job));
}

void set_find_users(struct set_plan *p)
{
    struct view_list jobs = view_list(p->v, KIND_PADDLEJOB, NULL, MARK_USES, p->name);
    for (size_t i = 0; i < jobs.n; i++) {
        if (!paddlejob_uses(p, jobs.items[i]))
            continue;
        add_user(p, jobs.items[i]);
        p->job_runs = p->job_runs || strcmp(part_phase(jobs.items[i]), "Running") == 0;
    }
    p->n_jobs = p->n_used_by;
    struct view_list work = view_list(p->v, KIND_SAMPLEJOB, NULL, MARK_USES, p->name);
    for (size_t i = 0; i < work.n; i++)
        if (samplejob_uses(p, work.items[i])) {
            add_user(p, work.items[i]);
            p->work_runs = true;
        }
}

/* The list is sorted by namespace. */
void set_each_consumer(struct set_plan *p, void (*add)(void *arg, const char *ns), void *arg)
{
    cleanup_free char *last = xstrdup("");
    for (size_t i = 0; i < p->n_jobs; i++) {
        cleanup_free char *ns = xstrndup(p->used_by[i], strcspn(p->used_by[i], "/"));
        if (strcmp(ns, p->ns) == 0 || strcmp(ns, last) == 0)
            continue;
        add(arg, ns);
        free(last);
        last = xstrdup(ns);
    }
}
