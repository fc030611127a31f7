/*
 * Pods that have to go: those that failed, those whose peers have moved, those beyond the replicas,
 * those of an elastic job that were made for another number of them.
 *
 * A failure is counted in three steps, each of which may be the last one before the operator is
 * killed: the failed pod is marked with the number that the count will have; the status takes over
 * the highest mark; a marked pod is deleted once the status has its number. Nothing is counted
 * twice, and nothing is forgotten.
 *
 * Who goes with a failed pod: in a training of workers alone, all, since none can go on without it;
 * beside parameter servers, a worker goes alone, a server takes all with it. An elastic training
 * goes on.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "mem.h"
#include "object.h"
#include "paddlejob-internal.h"

#define BACK_OFF_FIRST 10
#define BACK_OFF_MOST  300

/* --- failures --------------------------------------------------------------------------------- */

static int64_t ended_at(const struct json *pod)
{
    struct json all = build_at(pod, "status", "containerStatuses", NULL);
    int64_t latest = -1;
    for (size_t i = 0; i < json_count(&all); i++) {
        struct json c = json_at(&all, i);
        int64_t at = part_time(build_text(&c, "state", "terminated", "finishedAt", NULL));
        latest = at > latest ? at : latest;
    }
    return latest;
}

static int64_t back_off(int64_t restarts)
{
    int64_t s = BACK_OFF_FIRST;
    for (int64_t i = 0; i < restarts && s < BACK_OFF_MOST; i++)
        s *= 2;
    return s < BACK_OFF_MOST ? s : BACK_OFF_MOST;
}

static bool is_new_failure(const struct job_pod *p)
{
    return p->state == POD_FAILED && !p->counted;
}

static const struct job_pod *first_failure(const struct job *j)
{
    for (int r = 0; r < ROLE_N; r++)
        for (size_t i = 0; i < j->roles[r].n; i++)
            if (is_new_failure(&j->roles[r].pods[i]))
                return &j->roles[r].pods[i];
    return NULL;
}

static void mark(struct job *j, const struct job_pod *p, int64_t number)
{
    struct action *a = act_patch(&j->children, KIND_POD, j->ns, p->name, object_version(p->object));
    bytes_addf(&a->body, "{\"metadata\":{\"annotations\":{\"" COUNTED_NOTE "\":\"%" PRId64 "\"}}}",
               number);
}

static void mark_all(struct job *j, int64_t number)
{
    for (int r = 0; r < ROLE_N; r++)
        for (size_t i = 0; i < j->roles[r].n; i++)
            if (is_new_failure(&j->roles[r].pods[i]))
                mark(j, &j->roles[r].pods[i], number);
}

/* All that failed until now count as one failure: mostly they are. */
enum job_verdict job_failures(struct job *j)
{
    const struct job_pod *p = first_failure(j);
    if (!p)
        return j->restarts > j->restarts_was || job_count(j, POD_FAILED) ? VERDICT_WAIT
                                                                         : VERDICT_GO_ON;
    cleanup_free char *why = job_why_failed(j, p);
    if (j->restarts >= j->spec->backoff_limit) {
        if (j->spec->backoff_limit)
            job_says(j, "%s, after %" PRId64 " restarts (spec.backoffLimit)", why, j->restarts);
        else
            job_says(j, "%s (kubectl logs says more; spec.backoffLimit: 3 would try again)", why);
        return VERDICT_FAILED;
    }
    int64_t ended = ended_at(p->object), now = view_now(j->v);
    int64_t due = (ended < 0 ? now : ended) + back_off(j->restarts);
    job_says(j, "%s; it is tried again (%" PRId64 " of %" PRId64 ")", why, j->restarts + 1,
             j->spec->backoff_limit);
    if (ended >= 0 && now < due)
        job_again(j, due - now);
    else
        mark_all(j, j->restarts + 1);
    return VERDICT_WAIT;
}

/* --- who goes --------------------------------------------------------------------------------- */

static void remove_pod(struct job *j, struct job_pod *p)
{
    if (!p->object || p->going || p->removed)
        return;
    act_delete(&j->children, KIND_POD, j->ns, p->name, object_uid(p->object));
    p->removed = true;
}

static bool is_counted(const struct job *j, const struct job_pod *p)
{
    return p->state == POD_FAILED && p->counted && p->counted <= j->restarts_was;
}

/* The number since which all pods have to be new; 0: none has. */
static int64_t everybody_since(const struct job *j)
{
    int64_t since = 0;
    if (job_is_elastic(j))
        return 0;
    if (j->mode != MODE_PS)
        return j->restarts_was;
    for (size_t i = 0; i < j->roles[ROLE_PS].n; i++) {
        const struct job_pod *p = &j->roles[ROLE_PS].pods[i];
        if (is_counted(j, p) && p->counted > since)
            since = p->counted;
    }
    return since;
}

/* A server that failed says that all have to go: it goes last. */
static void remove_failed(struct job *j, int64_t since)
{
    size_t others = 0;
    for (int r = 0; r < ROLE_N; r++)
        for (size_t i = 0; i < j->roles[r].n; i++) {
            struct job_pod *p = &j->roles[r].pods[i];
            bool failed = is_counted(j, p);
            if (!p->object || p->going || (r == ROLE_PS && failed))
                continue;
            if (failed || p->attempt < since) {
                remove_pod(j, p);
                others++;
            }
        }
    for (size_t i = 0; i < j->roles[ROLE_PS].n && !others; i++)
        if (is_counted(j, &j->roles[ROLE_PS].pods[i]))
            remove_pod(j, &j->roles[ROLE_PS].pods[i]);
}

/* What it was let go with is not what it needs now: somebody it cannot train without has moved. */
static bool has_moved_peers(const struct job *j, const struct job_pod *p)
{
    const char *core = p->peers ? strchr(p->peers, '.') : NULL;
    return p->object && !p->going && !p->waits && core && j->core &&
           (p->state == POD_STARTING || p->state == POD_RUNNING) && strcmp(core + 1, j->core) != 0;
}

static void remove_moved(struct job *j)
{
    size_t n = 0;
    for (int r = 0; r < ROLE_N && !job_is_elastic(j); r++)
        for (size_t i = 0; i < j->roles[r].n; i++)
            if (has_moved_peers(j, &j->roles[r].pods[i])) {
                remove_pod(j, &j->roles[r].pods[i]);
                n++;
            }
    if (n) {
        act_event(j->out, false, "PeersMoved",
                  "%zu pods start again: others have come, gone or moved", n);
        job_says(j, "starts again with its pods' new addresses");
    }
}

static bool has_begun(const struct json *pod)
{
    struct json all = build_at(pod, "status", "containerStatuses", NULL);
    for (size_t i = 0; i < json_count(&all); i++) {
        struct json c = json_at(&all, i), state = json_get(&c, "state");
        if (json_has(&state, "running"))
            return true;
    }
    return false;
}

/* An elastic job was resized before all its pods ran. A launcher that begins with the former number
 * ends where etcd has the new one, again and again: who has not begun is made anew, with that. */
static void remove_outnumbered(struct job *j)
{
    struct job_role *r = &j->roles[job_deciding_role(j)];
    size_t n = 0;
    for (size_t i = 0; i < r->n && job_is_elastic(j) && !j->started; i++) {
        struct job_pod *p = &r->pods[i];
        bool waits = p->state == POD_PENDING || p->state == POD_STARTING;
        if (waits && p->np && p->np != (int64_t)r->n && !has_begun(p->object)) {
            remove_pod(j, p);
            n++;
        }
    }
    if (n)
        act_event(j->out, false, "Resized", "%zu pods that had not begun are made anew, for %zu", n,
                  r->n);
}

void job_remove_obsolete(struct job *j)
{
    for (size_t i = 0; i < j->n_extra; i++)
        if (!object_is_deleted(j->extra[i]))
            act_delete(&j->children, KIND_POD, j->ns, object_name(j->extra[i]),
                       object_uid(j->extra[i]));
    remove_failed(j, everybody_since(j));
    remove_moved(j);
    remove_outnumbered(j);
}

void job_remove_pods(struct job *j, bool running_only)
{
    for (int r = 0; r < ROLE_N; r++)
        for (size_t i = 0; i < j->roles[r].n; i++) {
            struct job_pod *p = &j->roles[r].pods[i];
            if (!running_only || (p->state != POD_FAILED && p->state != POD_SUCCEEDED))
                remove_pod(j, p);
        }
    for (size_t i = 0; i < j->n_extra; i++)
        if (!object_is_deleted(j->extra[i]))
            act_delete(&j->children, KIND_POD, j->ns, object_name(j->extra[i]),
                       object_uid(j->extra[i]));
}
