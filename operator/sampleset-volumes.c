/*
 * Volumes and claims of a set: one pair for its own namespace, and one for each namespace whose
 * jobs use it. The latter cannot be owned by the set (it is elsewhere): its end removes them.
 */
#include <stdlib.h>
#include <string.h>

#include "build-volume.h"
#include "mem.h"
#include "object.h"
#include "sampleset-internal.h"

#define BOUND        "VolumeBound"
#define TAKEN_WAIT_S 15 /* others' volumes and claims do not wake a set */

struct pair {
    char *key, *volume, *claim, *annotation;
    struct part_pair labels[2], notes[1];
};

static void pair_begin(const struct set_plan *p, const char *for_ns, struct pair *ret)
{
    *ret = (struct pair){.key = part_node_label(p->ns, p->name),
                         .volume = build_volume_name(p, for_ns),
                         .claim = part_claim_name(p->ns, p->name, for_ns),
                         .annotation = xasprintf("%s/%s", p->ns, p->name)};
    ret->labels[0] = (struct part_pair){ret->key, "true"};
    ret->labels[1] = (struct part_pair){"app.kubernetes.io/name", "sampan"};
    ret->notes[0] = (struct part_pair){PART_SET_ANNOTATION, ret->annotation};
}

static void pair_end(struct pair *pair)
{
    free(pair->key);
    free(pair->volume);
    free(pair->claim);
    free(pair->annotation);
}

/* A volume whose claim is gone serves no other one: it is made anew. Nothing is in it that could be
 * lost. */
static bool drop_released(struct set_plan *p, const char *name)
{
    const struct json *pv = view_get(p->v, KIND_PV, NULL, name);
    if (!pv || !part_is_child(pv, p->object) || object_is_deleted(pv) ||
        (strcmp(part_phase(pv), "Released") != 0 && strcmp(part_phase(pv), "Failed") != 0))
        return false;
    act_delete(&p->children, KIND_PV, NULL, name, object_uid(pv));
    return true;
}

/* --- what it was made with -------------------------------------------------------------------- */

/* The members of `a` that `b` has otherwise; with `absent_only`, those that it lacks. */
static void add_other(const struct json *a, const struct json *b, bool absent_only,
                      struct bytes *out)
{
    for (size_t i = 0; i < json_count(a); i++) {
        struct json here = json_member(a, i), there = json_get(b, here.key);
        if (absent_only ? !there.node : !json_same(&here, &there))
            bytes_addf(out, "%s%s", out->len ? ", " : "", here.key);
    }
}

/* Kubernetes lets nobody change where a volume leads, nor with whose keys: what the set says now
 * holds for the next one. */
static void tell_outdated(struct set_plan *p, const struct json *pv, const struct bytes *members)
{
    cleanup_json struct json_doc *doc = NULL;
    cleanup_bytes struct bytes other = {0};
    if (!pv || !part_is_child(pv, p->object) ||
        json_parse(&doc, "volume", members->data, members->len, NULL))
        return;
    struct json root = json_root(doc);
    struct json spec = json_get(&root, "spec"), want = json_get(&spec, "csi");
    struct json spec_was = json_get(pv, "spec"), have = json_get(&spec_was, "csi");
    struct json attributes = json_get(&want, "volumeAttributes"),
                was = json_get(&have, "volumeAttributes");
    struct json keys = json_get(&want, "nodeStageSecretRef"),
                keys_were = json_get(&have, "nodeStageSecretRef");
    add_other(&attributes, &was, /*absent_only=*/false, &other);
    add_other(&was, &attributes, /*absent_only=*/true, &other);
    if (!json_same(&keys, &keys_were))
        bytes_addf(&other, "%ssecretRef", other.len ? ", " : "");
    if (other.len)
        part_condition_warn(&p->conditions, "VolumeCurrent", "Outdated",
                            "volume %s was made with another %s than the set has now, and is used "
                            "with that (delete the set and make it anew)",
                            object_name(pv), other.data);
}

static enum part_child_state want_volume(struct set_plan *p, const char *for_ns, struct pair *pair)
{
    struct part_child child = {.kind = KIND_PV,
                               .name = pair->volume,
                               .labels = pair->labels,
                               .n_labels = 2,
                               .annotations = pair->notes,
                               .n_annotations = 1,
                               .orphan = true,
                               .fixed = true};
    /* A store that became unusable later changes no volume, and makes none. */
    if (!p->store_ok)
        return view_get(p->v, KIND_PV, NULL, pair->volume) ? PART_THERE : PART_GOING;
    build_volume(p, for_ns, &child.members);
    if (strcmp(for_ns, p->ns) == 0)
        tell_outdated(p, view_get(p->v, KIND_PV, NULL, pair->volume), &child.members);
    return part_want(p->v, &p->children, &child);
}

static enum part_child_state want_claim(struct set_plan *p, const char *for_ns, struct pair *pair)
{
    bool elsewhere = strcmp(for_ns, p->ns) != 0;
    struct part_child child = {.kind = KIND_PVC,
                               .ns = for_ns,
                               .name = pair->claim,
                               .labels = pair->labels,
                               .n_labels = 2,
                               .annotations = pair->notes,
                               .n_annotations = 1,
                               .orphan = elsewhere,
                               .alone = elsewhere, /* a quota of theirs */
                               .fixed = true};
    if (!view_get(p->v, KIND_PVC, for_ns, pair->claim) &&
        !part_volume_known(view_get(p->v, KIND_PV, NULL, pair->volume)))
        return PART_GOING; /* the volume's news wake the set */
    build_claim(p, for_ns, &child.members);
    return part_want(p->v, &p->children, &child);
}

static void name_taken(struct set_plan *p, const char *what, const char *ns, const char *name)
{
    part_condition_warn(&p->conditions, BOUND, "NameTaken",
                        "%s %s%s%s is not of this set (delete it, or give the set another name)",
                        what, ns ? ns : "", ns ? "/" : "", name);
    plan_again(p, TAKEN_WAIT_S);
}

static bool pair_wanted(struct set_plan *p, const char *for_ns)
{
    struct pair pair;
    bool bound = false;
    pair_begin(p, for_ns, &pair);
    if (drop_released(p, pair.volume)) {
        plan_again(p, 1);
    } else if (want_volume(p, for_ns, &pair) == PART_FOREIGN) {
        name_taken(p, "PersistentVolume", NULL, pair.volume);
    } else if (want_claim(p, for_ns, &pair) == PART_FOREIGN) {
        name_taken(p, "PersistentVolumeClaim", for_ns, pair.claim);
    } else {
        const struct json *claim = view_get(p->v, KIND_PVC, for_ns, pair.claim);
        bound = claim && !object_is_deleted(claim) && strcmp(part_phase(claim), "Bound") == 0;
        if (!strcmp(for_ns, p->ns))
            part_condition(&p->conditions, BOUND, bound ? "True" : "False",
                           bound ? "Bound" : "Pending", "claim %s/%s is %s", for_ns, pair.claim,
                           bound ? "bound" : "not bound yet");
    }
    pair_end(&pair);
    return bound;
}

static void for_consumer(void *arg, const char *ns)
{
    pair_wanted(arg, ns);
}

/* Pairs of namespaces whose jobs are over stay until the set ends: pods of users may mount them. */
void set_volumes(struct set_plan *p)
{
    p->bound = pair_wanted(p, p->ns);
    set_each_consumer(p, for_consumer, p);
}
