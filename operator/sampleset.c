/*
 * SampleSet: from a source to nodes that keep it.
 *
 * Everything follows from what there is; of the old status only the phase, the id of the last job
 * and the times of conditions are taken up. The phases are upstream's:
 *
 *   ""            the source cannot be used, its volume is not bound, or it goes
 *   Bound         the volume is there; no server is ready
 *   Mount         a server is ready
 *   Syncing       the source is being listed, or copied
 *   SyncFailed    that failed; it is tried again, later and later
 *   PartialReady  listed; not all servers are ready on labelled nodes
 *   Ready
 */
#include <stdlib.h>
#include <string.h>

#include "dir.h"
#include "mem.h"
#include "object.h"
#include "sampleset-internal.h"

#define LOOK_S        31 /* seconds to the next look while figures change */
#define LOOK_USED_S   62 /* while a job reads, or the number of servers goes by how they fare */
#define LOOK_WORK_S   10 /* while a SampleJob changes what is cached */
#define FINALIZER_MAX 63

/* --- the plan --------------------------------------------------------------------------------- */

static void plan_begin(struct set_plan *p, struct view *v, const struct operator_config *config,
                       struct actions *out)
{
    const struct json *o = view_object(v);
    *p = (struct set_plan){.v = v, .config = config, .out = out, .object = o};
    p->status = json_get(o, "status");
    p->ns = object_namespace(o);
    p->name = object_name(o);
    p->uid = object_uid(o) ? object_uid(o) : "";
    p->phase = part_phase(o);
    p->new_phase = p->phase;
    p->runtime = part_runtime_name(p->name);
    p->service = part_service_name(p->name);
    cleanup_free char *name = part_name(FINALIZER_MAX, "sampleset-%s", p->name);
    p->finalizer = xasprintf(FINALIZER_PREFIX "%s", name);
    part_conditions_begin(&p->conditions, v, out);
}

static void plan_end(struct set_plan *p)
{
    actions_move(p->out, &p->children);
    actions_move(p->out, &p->late);
    if (p->again)
        act_again(p->out, p->again);
    set_store_release(&p->store);
    set_store_release(&p->from);
    for (size_t i = 0; i < p->n_used_by; i++)
        free(p->used_by[i]);
    free(p->used_by);
    free(p->rows);
    free(p->numbers.error);
    free(p->scaled);
    free(p->sampler);
    free(p->sync_job);
    free(p->refreshed_at);
    free(p->runtime);
    free(p->service);
    free(p->finalizer);
    part_conditions_release(&p->conditions);
    api_free(api_sampleset.spec, p->spec);
}

/* --- what the API server would have refused, and what it cannot see --------------------------- */

static bool levels_hold(const struct set_plan *p, struct bytes *why)
{
    const struct sampleset_cache *cache = p->spec->cache;
    for (size_t i = 0; cache && i < cache->levels.n; i++) {
        const char *path = ((const struct sampleset_level *)cache->levels.items)[i].path;
        for (;; path++) {
            size_t len = strcspn(path, ":");
            cleanup_free char *one = xstrndup(path, len);
            if (one[0] != '/' || path_leads_up(one) || strpbrk(one, ",= \t\n")) {
                bytes_addf(why,
                           "spec.cache.levels[%zu].path: \"%s\" is no absolute folder (want "
                           "/FOLDER, several with a colon between them)",
                           i, one);
                return false;
            }
            path += len;
            if (!*path)
                break;
        }
    }
    return true;
}

static bool spec_is_valid(struct set_plan *p)
{
    struct json spec = json_get(p->object, "spec");
    cleanup_bytes struct bytes why = {0};
    struct err err = {0};
    void *read = NULL;
    if (api_read(api_sampleset.spec, &spec, &read, &err)) {
        /* The path in the text begins with what the cache calls the object. */
        const char *at = strstr(err.msg, "spec");
        part_condition_warn(&p->conditions, "SpecValid", "InvalidSpec",
                            "%s (correct it; kubectl explain sampleset.spec tells what is known)",
                            at ? at : err.msg);
        return false;
    }
    p->spec = read;
    if (!levels_hold(p, &why)) {
        part_condition_warn(&p->conditions, "SpecValid", "InvalidSpec", "%s", why.data);
        return false;
    }
    part_condition(&p->conditions, "SpecValid", "True", "Valid", "the spec can be used");
    return true;
}

/* --- phases ----------------------------------------------------------------------------------- */

static bool all_are_ready(const struct set_plan *p)
{
    return p->ready == p->partitions && p->replicas == p->partitions &&
           p->labelled == p->partitions && p->numbers.answered > 0;
}

static const char *phase_now(const struct set_plan *p)
{
    bool listed = p->sync == SYNC_DONE;
    if (!p->bound)
        return "";
    if (listed && p->ready)
        return all_are_ready(p) ? "Ready" : "PartialReady";
    if (listed) /* it was further already */
        return !strcmp(p->phase, "Ready") || !strcmp(p->phase, "PartialReady") ? "PartialReady"
                                                                               : "Bound";
    if (p->sync == SYNC_FAILED)
        return "SyncFailed";
    if (!p->ready)
        return "Bound";
    return p->sync == SYNC_RUNS ? "Syncing" : "Mount";
}

static void tell_phase(struct set_plan *p)
{
    struct part_conditions *c = &p->conditions;
    p->new_phase = phase_now(p);
    if (!strcmp(p->new_phase, "Ready"))
        part_condition(c, "Ready", "True", "Ready", "all partitions are served");
    else
        part_condition(c, "Ready", "False", *p->new_phase ? p->new_phase : "Pending",
                       "the other conditions say what is missing");
    if (strcmp(p->new_phase, p->phase) != 0 && strcmp(p->new_phase, "Ready") == 0)
        act_event(p->out, false, "Ready", "all %lld partitions are served",
                  (long long)p->partitions);
}

/* --- by the clock ----------------------------------------------------------------------------- */

static bool figures_changed(const struct set_plan *p)
{
    cleanup_bytes struct bytes text = {0};
    cleanup_json struct json_doc *doc = NULL;
    struct json_writer w;
    jw_init(&w, &text);
    jw_object(&w, NULL);
    set_write_numbers(p, &w);
    jw_end(&w);
    if (json_parse(&doc, "cacheStatus", text.data, text.len, NULL))
        return true;
    struct json root = json_root(doc), now = json_get(&root, "cacheStatus"),
                was = json_get(&p->status, "cacheStatus");
    return !json_same(&was, &now); /* not as texts: the API server has an order of its own */
}

static void look_again(struct set_plan *p)
{
    if (!p->ready)
        return;
    if (p->numbers.answered < p->numbers.asked)
        plan_again(p, LOOK_S);
    else if (p->work_runs)
        plan_again(p, LOOK_WORK_S);
    else if (figures_changed(p))
        plan_again(p, LOOK_S);
    else if (p->job_runs || p->spec->autoscale)
        plan_again(p, LOOK_USED_S);
    else
        act_again(p->out, SET_REST_S);
}

/* --- the decision ----------------------------------------------------------------------------- */

/* Without a usable source nothing is begun; what runs already goes on. */
static bool has_begun(struct set_plan *p)
{
    cleanup_free char *volume = part_name(253, "%s.%s", p->ns, p->name);
    const struct json *pv = view_get(p->v, KIND_PV, NULL, volume);
    return pv && part_is_child(pv, p->object);
}

static void work(struct set_plan *p)
{
    set_find_users(p);
    set_source(p);
    if (view_incomplete(p->v) || (!p->store_ok && !has_begun(p)))
        return;
    set_rows(p);
    p->partitions = set_partitions(p);
    set_volumes(p);
    set_servers(p);
    set_nodes(p);
    set_sync(p);
    set_order(p);
    set_version(p);
    tell_phase(p);
    look_again(p);
}

static void wind_up(struct set_plan *p)
{
    struct json spec = json_get(p->object, "spec");
    void *read = NULL;
    /* An invalid set has to end, too. */
    if (api_read(api_sampleset.spec, &spec, &read, NULL) == 0) {
        p->spec = read;
        p->partitions = p->spec->partitions;
        set_rows(p);
    }
    set_find_users(p);
    set_delete(p);
}

static int decide(struct view *v, const struct operator_config *config, struct actions *out,
                  struct err *err)
{
    struct set_plan p;
    if (!config->token_key)
        return err_set(err, ERR_USAGE, "no key for the tokens of runtime servers was given");
    plan_begin(&p, v, config, out);
    if (object_is_deleted(p.object)) {
        wind_up(&p);
    } else if (!part_has_finalizer(p.object, p.finalizer)) {
        part_add_finalizer(v, KIND_SAMPLESET, p.finalizer, out);
    } else {
        if (spec_is_valid(&p))
            work(&p);
        if (!view_incomplete(v))
            set_write_status(&p);
    }
    plan_end(&p);
    return 0;
}

/* --- what wakes it ---------------------------------------------------------------------------- */

static void by_annotation(const struct json *o, void (*add)(void *arg, const char *key), void *arg)
{
    const char *set = object_annotation(o, PART_SET_ANNOTATION);
    if (set)
        add(arg, set);
}

static void by_reference(const struct json *o, const struct json *ref,
                         void (*add)(void *arg, const char *key), void *arg)
{
    const char *name = part_text(ref, "name"), *ns = part_text(ref, "namespace");
    if (!name)
        return;
    cleanup_free char *key = xasprintf("%s/%s", ns && *ns ? ns : object_namespace(o), name);
    add(arg, key);
}

static void by_job(const struct json *o, void (*add)(void *arg, const char *key), void *arg)
{
    struct json spec = json_get(o, "spec"), ref = json_get(&spec, "sampleSetRef");
    struct json output = json_get(&spec, "output"), to = json_get(&output, "sampleSetRef");
    const char *plain = part_text(&spec, "sampleset");
    by_annotation(o, add, arg);
    by_reference(o, &ref, add, arg);
    by_reference(o, &to, add, arg);
    if (plain) {
        cleanup_free char *key = xasprintf("%s/%s", object_namespace(o), plain);
        add(arg, key);
    }
}

/* A node wakes the sets whose label it has; a hashed name says not whose it is. */
static void by_node(const struct json *o, void (*add)(void *arg, const char *key), void *arg)
{
    struct json meta = json_get(o, "metadata"), labels = json_get(&meta, "labels");
    for (size_t i = 0; i < json_count(&labels); i++) {
        struct json m = json_member(&labels, i);
        const char *dot = strncmp(m.key, "sampan.io/", 10) == 0 ? strchr(m.key + 10, '.') : NULL;
        if (!dot)
            continue;
        cleanup_free char *key = xasprintf("%.*s/%s", (int)(dot - m.key - 10), m.key + 10, dot + 1);
        add(arg, key);
    }
}

static const struct wake wakes[] = {
    {KIND_STATEFULSET, by_annotation}, {KIND_POD, by_annotation}, {KIND_SERVICE, by_annotation},
    {KIND_PVC, by_annotation},         {KIND_PV, by_annotation},  {KIND_NODE, by_node},
    {KIND_PADDLEJOB, by_job},          {KIND_SAMPLEJOB, by_job},
};

const struct controller sampleset_controller = {
    .name = "sampleset",
    .kind = KIND_SAMPLESET,
    .wakes = wakes,
    .n_wakes = sizeof wakes / sizeof wakes[0],
    .decide = decide,
};
