/* What a user may have got wrong, as far as the API server does not say so at once. */
#include <string.h>

#include "object.h"
#include "paddlejob-internal.h"

static bool bad(struct job *j, const char *reason, const char *what, const char *cure)
{
    part_condition_warn(&j->conditions, "Valid", reason, "%s (%s)", what, cure);
    job_says(j, "%s (%s)", what, cure);
    return false;
}

static bool check_roles(struct job *j)
{
    static const char *const lacks[ROLE_N] = {"spec.ps.template has no container",
                                              "spec.worker.template has no container",
                                              "spec.heter.template has no container"};
    if (!j->roles[ROLE_WORKER].n && !j->roles[ROLE_PS].n)
        return bad(j, "NoPods", "the job has neither workers nor servers",
                   "set spec.worker.replicas to 1 or more");
    for (int r = 0; r < ROLE_N; r++) {
        struct json all = build_at(&j->roles[r].template, "spec", "containers", NULL);
        if (j->roles[r].n && !json_count(&all))
            return bad(j, "NoContainer", lacks[r], "give an image and a command there");
    }
    return true;
}

static bool mounts_at(const struct json *template, const char *path)
{
    struct json all = build_at(template, "spec", "containers", NULL), first = json_at(&all, 0),
                mounts = json_get(&first, "volumeMounts");
    for (size_t i = 0; path && i < json_count(&mounts); i++) {
        struct json m = json_at(&mounts, i);
        const char *at = part_text(&m, "mountPath");
        if (at && strcmp(at, path) == 0)
            return true;
    }
    return false;
}

static bool check_mounts(struct job *j)
{
    const char *samples = j->spec->set ? j->spec->set->mount_path : NULL;
    const char *output = j->spec->output ? j->spec->output->mount_path : NULL;
    if (j->spec->set && (!samples || samples[0] != '/'))
        return bad(j, "NoMountPath", "spec.sampleSetRef has no mountPath that begins with /",
                   "say there where the samples shall be in the containers, as /data");
    if (output && output[0] != '/')
        return bad(j, "NoMountPath", "spec.output.mountPath does not begin with /",
                   "say there where results go, as /output");
    if (samples && output && strcmp(samples, output) == 0)
        return bad(j, "SameMountPath", "samples and output have the same mountPath",
                   "give spec.output.mountPath another one: samples are read-only");
    for (int r = 0; r < ROLE_N; r++)
        if (mounts_at(&j->roles[r].template, samples) || mounts_at(&j->roles[r].template, output))
            return bad(j, "SameMountPath",
                       "a template mounts a volume of its own where samples or output shall be",
                       "give one of them another mountPath");
    return true;
}

static bool check_elastic(struct job *j)
{
    const struct paddlejob_role *w = j->spec->worker;
    if (!job_is_elastic(j))
        return true;
    if (!j->config->etcd_servers)
        return bad(j, "NoEtcd", "spec.elastic is set, and the operator knows no etcd",
                   "start the operator with --etcd, or remove spec.elastic");
    if (w && w->requests >= 0 && w->limits >= 0 && w->requests > w->limits)
        return bad(j, "BadBounds", "spec.worker.requests is above spec.worker.limits",
                   "requests is the fewest pods that can train, limits the most");
    return true;
}

static bool check_output(struct job *j)
{
    const struct paddlejob_output *o = j->spec->output;
    if (o && !o->set == !o->claim)
        return bad(j, "BadOutput",
                   "spec.output wants one of sampleSetRef and persistentVolumeClaim",
                   "keep the one where results shall go");
    if (o && o->claim && o->claim->namespace && strcmp(o->claim->namespace, j->ns) != 0)
        return bad(j, "BadOutput",
                   "spec.output.persistentVolumeClaim is in another namespace than the job",
                   "pods mount claims of their own namespace only: make one there");
    return true;
}

/* Pods are found by the names of Services, which are parts of host names. */
static bool check_name(struct job *j)
{
    bool usable = j->name[0] >= 'a' && j->name[0] <= 'z' && !strchr(j->name, '.');
    if (j->net == NET_SERVICE && !usable)
        return bad(
            j, "BadName",
            "with intranet: Service the job's name must begin with a letter and have no dots",
            "make it anew under another name, or use intranet: PodIP");
    return true;
}

bool job_check(struct job *j)
{
    return check_name(j) && check_roles(j) && check_mounts(j) && check_elastic(j) &&
           check_output(j);
}
