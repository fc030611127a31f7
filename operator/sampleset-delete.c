/*
 * The end of a set, in this order: the labels of nodes, the servers, their pods, the service, the
 * claims, the volumes, the finalizer. Each step waits for the one before, so that jobs are not sent
 * to what is going, and mounts have ended before their volumes do.
 *
 * A set that jobs use stays until they are over. Once it goes nobody holds it up: whoever comes
 * then waits for another of its name.
 */
#include <stdlib.h>
#include <string.h>

#include "build-runtime.h"
#include "mem.h"
#include "object.h"
#include "sampleset-internal.h"

#define CLEAR_JOB    "clear-for-deletion"
#define CLEAR_WAIT_S 60 /* servers that do not answer keep nobody longer */
#define NAMED_USERS  8

static bool blocked(struct set_plan *p)
{
    cleanup_bytes struct bytes names = {0};
    if (!p->n_used_by || part_set_goes(p->object))
        return false;
    for (size_t i = 0; i < p->n_used_by && i < NAMED_USERS; i++)
        bytes_addf(&names, "%s%s", i ? ", " : "", p->used_by[i]);
    if (p->n_used_by > NAMED_USERS)
        bytes_addf(&names, " and %zu more", p->n_used_by - NAMED_USERS);
    part_condition_warn(&p->conditions, PART_DELETION, "InUse",
                        "the set is deleted when these jobs are over: %s (wait, or delete them)",
                        names.data);
    return true;
}

/* With cache.reclaim: Delete, servers drop what nodes keep, as long as they are there. True: that
 * is under way. */
static bool clears(struct set_plan *p)
{
    /* Since it goes, not since it was asked to: until its jobs were over it waited. */
    int64_t since = part_condition_since(&p->conditions, PART_DELETION, "True");
    const struct sampleset_cache *cache = p->spec ? p->spec->cache : NULL;
    bool retain = cache && cache->reclaim && strcmp(cache->reclaim, "Retain") == 0;
    const struct json *sts = view_get(p->v, KIND_STATEFULSET, p->ns, p->runtime);
    if (retain || !sts || object_is_deleted(sts) || !p->n_rows || !p->rows[0].ready ||
        view_now(p->v) - since > CLEAR_WAIT_S)
        return false;
    cleanup_free char *url = part_server_url(p->ns, p->name, 0, "/v1/jobs/" CLEAR_JOB);
    const struct view_answer *a = view_fetch(p->v, url);
    if (!a)
        return true;
    const char *state = part_text(&a->body, "state");
    if (a->status == 404) {
        cleanup_free char *to = part_server_url(p->ns, p->name, 0, "/v1/jobs");
        struct action *send = act_send(&p->late, "POST", to);
        bytes_add_str(&send->body, "{\"id\":\"" CLEAR_JOB "\",\"type\":\"clear\",\"options\":{"
                                   "\"lost_after_s\":30}}");
    } else if (a->status == 200 && state && strcmp(state, "pending") != 0 &&
               strcmp(state, "running") != 0) {
        return false;
    }
    plan_again(p, 2);
    return true;
}

/* True: it is there, or its deletion is under way. */
static bool drop(struct set_plan *p, enum kind kind, const char *ns, const char *name)
{
    const struct json *o = view_get(p->v, kind, ns, name);
    if (!o || !part_is_child(o, p->object))
        return false;
    if (!object_is_deleted(o))
        act_delete(&p->children, kind, ns, name, object_uid(o));
    return true;
}

static bool drop_all(struct set_plan *p, enum kind kind)
{
    struct view_list list = view_list(p->v, kind, NULL, PART_OWNER_LABEL, p->uid);
    for (size_t i = 0; i < list.n; i++)
        drop(p, kind, object_namespace(list.items[i]), object_name(list.items[i]));
    return list.n > 0;
}

static bool pods_left(struct set_plan *p)
{
    return view_list(p->v, KIND_POD, p->ns, RUNTIME_POD_LABEL, p->runtime).n > 0;
}

static const char *step(struct set_plan *p)
{
    cleanup_free char *token = build_token_name(p);
    if (set_nodes_clear(p))
        return "labels are taken off the nodes";
    if (clears(p))
        return "the nodes' caches are being cleared (spec.cache.reclaim: Retain keeps them)";
    if (drop(p, KIND_STATEFULSET, p->ns, p->runtime) || pods_left(p))
        return "the servers are being ended";
    if (drop(p, KIND_SERVICE, p->ns, p->service))
        return "the service is being removed";
    if (drop(p, KIND_SECRET, p->ns, token)) {
        plan_again(p, 1); /* secrets are not watched: nothing else tells when it has gone */
        return "the servers' token is being removed";
    }
    if (drop_all(p, KIND_PVC))
        return "the claims are being removed, which waits for pods that use them";
    if (drop_all(p, KIND_PV))
        return "the volumes are being removed";
    return NULL;
}

void set_delete(struct set_plan *p)
{
    if (!part_has_finalizer(p->object, p->finalizer))
        return;
    if (!blocked(p)) {
        const char *doing = step(p);
        if (view_incomplete(p->v))
            return;
        if (!doing) {
            part_drop_finalizer(p->v, KIND_SAMPLESET, p->finalizer, p->out);
            return;
        }
        part_condition(&p->conditions, PART_DELETION, "True", "Deleting", "%s", doing);
        p->new_phase = "";
    }
    set_write_status(p);
}
