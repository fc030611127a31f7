/*
 * The samples of a job: the set, the claim by which its pods get it, and the node that keeps what a
 * worker reads; and where its results go.
 *
 * The claim is the set's business, in the job's namespace too: the set is told of a job elsewhere
 * by the job's annotation. For results of which a set's store takes care the job has a volume and a
 * claim of its own, made after the set's. Both go with the job; what was written stays.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "hash.h"
#include "mem.h"
#include "object.h"
#include "paddlejob-internal.h"

#define HANDLE_MAX   127 /* of CSI */
#define OUTPUT_MODES "[\"ReadWriteMany\"]"

/* In the set's own folder, which scans pass over (cachefs/object: STORE_OUTPUT). */
#define OUTPUT_FOLDER ".sampan-output"

/* --- the volume of results -------------------------------------------------------------------- */

/* "NS.CLAIM": volumes are of the whole cluster. */
static char *volume_name(const char *ns, const char *claim)
{
    return part_name(253, "%s.%s", ns, claim);
}

/* The volume of the set's own claim; NULL: it is not bound yet. */
static const struct json *set_volume(struct job *j, const struct json *set)
{
    const struct json *claim = view_get(j->v, KIND_PVC, object_namespace(set), object_name(set));
    const char *volume = claim ? build_text(claim, "spec", "volumeName", NULL) : NULL;
    return volume ? view_get(j->v, KIND_PV, NULL, volume) : NULL;
}

static void write_attributes(struct json_writer *w, const struct json *csi, const char *below)
{
    /* Two owners do not share a cache folder: results pass through the driver's own. What reading
     * is tuned by goes not with writing, where the driver refuses it or takes it otherwise. */
    static const char *const ours[] = {"uri",     "writable", "version", "catalogs",
                                       "cache",   "profile",  "peers",   "prefetch",
                                       "refresh", "direct",   NULL};
    struct json attributes = json_get(csi, "volumeAttributes");
    const char *uri = part_text(&attributes, "uri");
    size_t len = uri ? strlen(uri) : 0;
    cleanup_free char *output =
        xasprintf("%s%s%s", uri ? uri : "", len && uri[len - 1] == '/' ? "" : "/", below);
    jw_object(w, "volumeAttributes");
    jw_str(w, "uri", output);
    jw_str(w, "writable", "true");
    build_copy_members(w, &attributes, ours);
    jw_end(w);
}

/* `below` is where in the store it writes. */
static void want_volume(struct job *j, const struct json *like, const char *set, const char *claim,
                        const char *below)
{
    /* The set is read by many and its mount tuned for that; results are written, with no options.
     */
    static const char *const ours[] = {"csi", "claimRef", "accessModes", "mountOptions", NULL};
    static const char *const ours_csi[] = {"volumeHandle", "volumeAttributes", "readOnly", NULL};
    cleanup_free char *name = volume_name(j->ns, claim);
    cleanup_free char *handle = part_name(HANDLE_MAX, "%s", name);
    struct json spec = json_get(like, "spec"), csi = json_get(&spec, "csi");
    const struct part_pair notes[] = {{PART_SET_ANNOTATION, set}};
    struct part_child child = {.kind = KIND_PV,
                               .name = name,
                               .annotations = notes,
                               .n_annotations = 1,
                               .orphan = true,
                               .fixed = true};
    struct json_writer w;
    jw_init(&w, &child.members);
    jw_object(&w, NULL);
    jw_object(&w, "spec");
    build_copy_members(&w, &spec, ours);
    jw_raw(&w, "accessModes", OUTPUT_MODES);
    jw_object(&w, "claimRef");
    jw_str(&w, "namespace", j->ns);
    jw_str(&w, "name", claim);
    jw_end(&w);
    jw_object(&w, "csi");
    build_copy_members(&w, &csi, ours_csi);
    jw_str(&w, "volumeHandle", handle);
    write_attributes(&w, &csi, below);
    jw_end(&w);
    jw_end(&w);
    jw_end(&w);
    part_want(j->v, &j->children, &child);
}

static void want_claim(struct job *j, const struct json *like, const char *set, const char *claim)
{
    cleanup_free char *volume = volume_name(j->ns, claim);
    struct json class = build_at(like, "spec", "storageClassName", NULL),
                capacity = build_at(like, "spec", "capacity", NULL);
    const struct part_pair notes[] = {{PART_SET_ANNOTATION, set}};
    struct part_child child = {.kind = KIND_PVC,
                               .ns = j->ns,
                               .name = claim,
                               .annotations = notes,
                               .n_annotations = 1,
                               .orphan = true,
                               .fixed = true};
    struct json_writer w;
    jw_init(&w, &child.members);
    jw_object(&w, NULL);
    jw_object(&w, "spec");
    jw_raw(&w, "accessModes", OUTPUT_MODES);
    if (class.node)
        build_copy(&w, "storageClassName", &class);
    else
        jw_str(&w, "storageClassName", "");
    jw_str(&w, "volumeName", volume);
    jw_object(&w, "resources");
    build_copy(&w, "requests", &capacity);
    jw_end(&w);
    jw_end(&w);
    jw_end(&w);
    part_want(j->v, &j->children, &child);
}

/* Pods that come before their claim is bound would be told to be unschedulable. */
static bool is_bound(struct job *j, const struct json *pvc)
{
    const char *phase = pvc ? build_text(pvc, "status", "phase", NULL) : NULL;
    return j->started || (phase && strcmp(phase, "Bound") == 0);
}

static bool waits_for_output(struct job *j, const char *what, const char *name, unsigned seconds)
{
    part_condition(&j->conditions, "OutputReady", "False", "NotBound", "waits until %s%s", what,
                   name);
    job_says(j, "waits until %s%s", what, name);
    job_again(j, seconds);
    return false;
}

/* Makes what is missing. False: it cannot be made now, or is not bound yet. */
static bool want_both(struct job *j, const struct json *set, const char *claim, const char *below)
{
    cleanup_free char *id = xasprintf("%s/%s", object_namespace(set), object_name(set));
    cleanup_free char *volume = volume_name(j->ns, claim);
    const struct json *pvc = view_get(j->v, KIND_PVC, j->ns, claim);
    const struct json *pv = view_get(j->v, KIND_PV, NULL, volume);
    const struct json *like = set_volume(j, set);
    if ((pvc && !part_is_child(pvc, j->object)) || (pv && !part_is_child(pv, j->object))) {
        part_condition_warn(
            &j->conditions, "OutputReady", "NameTaken",
            "the claim %s or the volume %s is somebody else's (delete it, or rename "
            "the job)",
            claim, volume);
        job_says(j, "the claim %s or the volume %s is somebody else's", claim, volume);
        job_again(j, 30);
        return false;
    }
    if ((pvc && object_is_deleted(pvc)) || (pv && object_is_deleted(pv)) ||
        (!like && (!pv || !pvc)))
        return waits_for_output(j, "the volume is bound of SampleSet ", id, 5);
    if (!pv)
        want_volume(j, like, id, claim, below);
    /* A claim that Kubernetes sees before its volume waits for the next of its rounds. */
    if (!pvc && !part_volume_known(pv))
        return waits_for_output(j, "the volume of its results is known", "", 1);
    if (!pvc)
        want_claim(j, like, id, claim);
    if (!is_bound(j, pvc))
        return waits_for_output(j, "its results' volume is bound to the claim ", claim, 5);
    part_condition(&j->conditions, "OutputReady", "True", "Bound",
                   "the claim of its results is bound");
    return true;
}

/* --- the samples ------------------------------------------------------------------------------ */

/* The set is told of a job elsewhere by the job's annotation. */
static void note_set(struct job *j)
{
    const char *ns = object_namespace(j->set),
               *there = object_annotation(j->object, PART_SET_ANNOTATION);
    cleanup_free char *id = xasprintf("%s/%s", ns, object_name(j->set));
    if (strcmp(ns, j->ns) == 0 || (there && strcmp(there, id) == 0))
        return;
    job_annotate(j, PART_SET_ANNOTATION, id);
}

static bool claim_samples(struct job *j)
{
    cleanup_free char *why = NULL;
    if (!j->spec->set)
        return true;
    j->set = part_find_set(j->v, j->ns, j->spec->set->namespace, j->spec->set->name, &why);
    if (!j->set && part_is_new(j->v)) {
        part_condition(&j->conditions, "SamplesReady", "False", "NotSeenYet",
                       "its SampleSet is looked for");
        job_again(j, 2);
        return false;
    }
    if (!j->set) {
        part_condition_warn(&j->conditions, "SamplesReady", "NoSampleSet", "%s",
                            why ? why : "it is not known yet");
        job_says(j, "%s", why ? why : "the set is not known yet");
        job_again(j, 30);
        return false;
    }
    const char *ns = object_namespace(j->set), *name = object_name(j->set);
    if (part_set_goes(j->set)) {
        part_condition_warn(&j->conditions, "SamplesReady", "SetGoes",
                            "SampleSet %s/%s is being deleted", ns, name);
        job_says(j, "SampleSet %s/%s is being deleted: waits for another one of that name", ns,
                 name);
        job_again(j, 30);
        return false;
    }
    note_set(j);
    j->claim = part_claim_name(ns, name, j->ns);
    const struct json *pvc = view_get(j->v, KIND_PVC, j->ns, j->claim);
    /* A set is only Ready when that of its own namespace is bound. */
    if (pvc && (strcmp(ns, j->ns) == 0 || is_bound(j, pvc)))
        return true;
    job_says(
        j,
        "waits until SampleSet %s/%s has its claim in this namespace%s (kubectl -n %s describe "
        "sampleset %s tells whether it is refused)",
        ns, name, pvc ? ", bound" : "", ns, name);
    part_condition(&j->conditions, "SamplesReady", "False", pvc ? "NotBound" : "NoClaim",
                   pvc ? "the claim of SampleSet %s/%s in namespace %s is not bound yet"
                       : "SampleSet %s/%s has no claim in namespace %s yet",
                   ns, name, j->ns);
    job_again(j, 5);
    return false;
}

static bool claim_output(struct job *j)
{
    const struct paddlejob_output *o = j->spec->output;
    cleanup_free char *why = NULL;
    if (!o)
        return true;
    if (o->claim) {
        j->output_claim = xstrdup(o->claim->name);
        return true;
    }
    const struct json *set = part_find_set(j->v, j->ns, o->set->namespace, o->set->name, &why);
    if (!set) {
        part_condition_warn(&j->conditions, "OutputReady", "NoSampleSet", "spec.output: %s",
                            why ? why : "it is not known yet");
        job_says(j, "spec.output: %s", why ? why : "it is not known yet");
        job_again(j, 30);
        return false;
    }
    cleanup_free char *below = xasprintf(OUTPUT_FOLDER "/%s/%s", j->ns, j->name);
    j->output_claim = part_name(253, "%s-output", j->name);
    return want_both(j, set, j->output_claim, below);
}

bool job_claims(struct job *j)
{
    bool samples = claim_samples(j), output = claim_output(j);
    return samples && output;
}

/* Only a job's beginning waits: one that trains goes on with what it reads from elsewhere. */
bool job_samples_ready(struct job *j)
{
    if (!j->set)
        return true;
    const char *phase = build_text(j->set, "status", "phase", NULL);
    const char *ns = object_namespace(j->set), *name = object_name(j->set);
    const char *servers = build_text(j->set, "status", "runtimeStatus", "runtimeReady", NULL);
    if (phase && strcmp(phase, "Ready") == 0) {
        part_condition(&j->conditions, "SamplesReady", "True", "Ready", "SampleSet %s/%s is ready",
                       ns, name);
        return true;
    }
    part_condition(&j->conditions, "SamplesReady", "False", "NotReady",
                   "SampleSet %s/%s is %s%s%s%s", ns, name, phase && *phase ? phase : "new",
                   servers ? " (servers " : "", servers ? servers : "", servers ? ")" : "");
    if (j->started || strcmp(j->spec->start_policy, "Immediate") == 0)
        return true;
    job_says(j,
             "waits until SampleSet %s/%s is Ready; it is %s (spec.startPolicy: Immediate does not "
             "wait)",
             ns, name, phase && *phase ? phase : "new");
    job_again(j, 5);
    return false;
}

/* --- the node of a partition ------------------------------------------------------------------ */

static bool is_required(struct job *j, enum role role, const struct json *node)
{
    const char *placement = j->spec->placement;
    cleanup_free char *why = NULL;
    if (placement)
        return strcmp(placement, "Required") == 0;
    return build_fits(&j->roles[role].template, node, &why);
}

struct build_place job_place(struct job *j, enum role role, size_t index)
{
    struct build_place none = {0};
    if (role != ROLE_WORKER || !j->set ||
        (j->spec->placement && strcmp(j->spec->placement, "None") == 0) ||
        (int64_t)index >= build_int(1, j->set, "spec", "partitions", NULL))
        return none;
    cleanup_free char *label = part_node_label(object_namespace(j->set), object_name(j->set));
    cleanup_free char *value = part_node_value(object_name(j->set), (int64_t)index);
    struct view_list nodes = view_list(j->v, KIND_NODE, NULL, label, value);
    if (!nodes.n)
        return none;
    bool required = is_required(j, role, nodes.items[0]);
    return (struct build_place){
        .label = take_ptr(&label), .value = take_ptr(&value), .required = required};
}

/* --- the end ---------------------------------------------------------------------------------- */

void job_drop_claims(struct job *j)
{
    cleanup_free char *output = part_name(253, "%s-output", j->name);
    cleanup_free char *volume = volume_name(j->ns, output);
    const struct json *pvc = view_get(j->v, KIND_PVC, j->ns, output);
    const struct json *pv = view_get(j->v, KIND_PV, NULL, volume);
    if (pvc && part_is_child(pvc, j->object) && !object_is_deleted(pvc))
        act_delete(&j->children, KIND_PVC, j->ns, output, object_uid(pvc));
    if (pv && part_is_child(pv, j->object) && !object_is_deleted(pv))
        act_delete(&j->children, KIND_PV, NULL, volume, object_uid(pv));
}
