/*
 * Nodes of a set: which may have a server, and the labels by which jobs find partitions.
 *
 * A node keeps its label while the partition's pod is away or not placed: the cache is still there,
 * and the new pod is drawn to it. The label goes when the pod runs elsewhere, or when there is no
 * such partition any more.
 */
#include <stdlib.h>
#include <string.h>

#include "mem.h"
#include "object.h"
#include "sampleset-internal.h"

#define PLACED "NodesFound"

/* --- which nodes match ------------------------------------------------------------------------ */

static bool among(const struct json *values, const char *text)
{
    for (size_t i = 0; i < json_count(values); i++) {
        struct json item = json_at(values, i);
        const char *value;
        if (json_as_str(&item, &value, NULL) == 0 && strcmp(value, text) == 0)
            return true;
    }
    return false;
}

static bool compares(const struct json *values, const char *text, bool greater)
{
    struct json first = json_at(values, 0);
    const char *bound;
    char *end_a, *end_b;
    if (json_as_str(&first, &bound, NULL))
        return false;
    long long a = strtoll(text, &end_a, 10), b = strtoll(bound, &end_b, 10);
    return !*end_a && !*end_b && (greater ? a > b : a < b);
}

static bool expression_holds(const struct json *e, const char *value)
{
    struct json values = json_get(e, "values");
    const char *op = part_text(e, "operator");
    if (!op)
        return false;
    if (strcmp(op, "Exists") == 0)
        return value;
    if (strcmp(op, "DoesNotExist") == 0)
        return !value;
    if (strcmp(op, "NotIn") == 0)
        return !value || !among(&values, value);
    if (!value)
        return false;
    if (strcmp(op, "In") == 0)
        return among(&values, value);
    return compares(&values, value, strcmp(op, "Gt") == 0);
}

static bool term_holds(const struct json *term, const struct json *node)
{
    struct json labels = json_get(term, "matchExpressions"), fields = json_get(term, "matchFields");
    for (size_t i = 0; i < json_count(&labels); i++) {
        struct json e = json_at(&labels, i);
        const char *key = part_text(&e, "key");
        if (!key || !expression_holds(&e, object_label(node, key)))
            return false;
    }
    for (size_t i = 0; i < json_count(&fields); i++) {
        struct json e = json_at(&fields, i);
        if (!expression_holds(&e, object_name(node)))
            return false;
    }
    return json_count(&labels) + json_count(&fields) > 0;
}

/* Terms are alternatives. */
static bool affinity_holds(const struct json *affinity, const struct json *node)
{
    struct json required = json_get(affinity, "required");
    if (!required.node)
        required = json_get(affinity, "requiredDuringSchedulingIgnoredDuringExecution");
    struct json terms = json_get(&required, "nodeSelectorTerms");
    if (!terms.node)
        return true;
    for (size_t i = 0; i < json_count(&terms); i++) {
        struct json term = json_at(&terms, i);
        if (term_holds(&term, node))
            return true;
    }
    return false;
}

static bool selector_holds(const struct api_map *selector, const struct json *node)
{
    for (size_t i = 0; i < selector->n; i++) {
        const char *value = object_label(node, selector->pairs[i].key);
        if (!value || strcmp(value, selector->pairs[i].value) != 0)
            return false;
    }
    return true;
}

static bool is_schedulable(const struct json *node)
{
    struct json spec = json_get(node, "spec");
    return !part_flag(&spec, "unschedulable") && !object_is_deleted(node);
}

static void count_nodes(const struct set_plan *p, size_t *ret_match, size_t *ret_all)
{
    struct view_list nodes = view_list(p->v, KIND_NODE, NULL, NULL, NULL);
    const char *text = p->spec->node_affinity ? p->spec->node_affinity : "{}";
    cleanup_json struct json_doc *doc = NULL;
    struct json affinity = {0};
    if (json_parse(&doc, "nodeAffinity", text, strlen(text), NULL) == 0)
        affinity = json_root(doc);
    *ret_match = 0;
    *ret_all = nodes.n;
    for (size_t i = 0; i < nodes.n; i++)
        *ret_match += is_schedulable(nodes.items[i]) &&
                      selector_holds(&p->spec->node_selector, nodes.items[i]) &&
                      affinity_holds(&affinity, nodes.items[i]);
}

/* What the scheduler says of the first pod that it cannot place. */
static const char *scheduler_says(const struct json *pod)
{
    struct json status = json_get(pod, "status"), list = json_get(&status, "conditions");
    for (size_t i = 0; i < json_count(&list); i++) {
        struct json c = json_at(&list, i);
        const char *type = part_text(&c, "type"), *reason = part_text(&c, "reason");
        if (type && reason && !strcmp(type, "PodScheduled") && !strcmp(reason, "Unschedulable"))
            return part_text(&c, "message");
    }
    return NULL;
}

static void judge(struct set_plan *p)
{
    size_t match, all;
    const char *says = NULL;
    int64_t placed = 0;
    for (size_t k = 0; k < p->n_rows && (int64_t)k < p->partitions; k++) {
        placed += p->rows[k].node != NULL;
        if (p->rows[k].pod && !p->rows[k].node && !says)
            says = scheduler_says(p->rows[k].pod);
    }
    if (placed == p->partitions) {
        part_condition(&p->conditions, PLACED, "True", "Placed", "all servers have a node");
        return;
    }
    count_nodes(p, &match, &all);
    if (!match)
        part_condition_warn(&p->conditions, PLACED, "NoNodeFits",
                            "none of %zu nodes fits nodeSelector and nodeAffinity of the set "
                            "(correct them, or label nodes)",
                            all);
    else if ((int64_t)match < p->partitions)
        part_condition_warn(&p->conditions, PLACED, "TooFewNodes",
                            "%lld partitions want as many nodes, %zu of %zu fit (add nodes, or "
                            "lower spec.partitions)",
                            (long long)p->partitions, match, all);
    else if (says)
        part_condition_warn(&p->conditions, PLACED, "Unschedulable",
                            "a server cannot be placed (its taints, ports or resources do not fit; "
                            "kubectl describe pod -l sampan.io/runtime=%s says which)",
                            p->runtime);
    else
        part_condition(&p->conditions, PLACED, "False", "Placing", "servers are being placed");
}

/* --- labels ----------------------------------------------------------------------------------- */

struct label {
    char *ours;
    char *old; /* upstream's key; NULL: it is left alone */
};

static bool is_older(const struct json *a, const struct json *b)
{
    struct json am = json_get(a, "metadata"), bm = json_get(b, "metadata");
    const char *at = part_text(&am, "creationTimestamp"), *bt = part_text(&bm, "creationTimestamp");
    int by_time = strcmp(at ? at : "", bt ? bt : "");
    return by_time ? by_time < 0 : object_compare(a, b) < 0;
}

/* Upstream's key says no namespace: of sets of one name the oldest has it. Their values are the
 * same, so the others do not even take it off. */
static struct label label_begin(struct set_plan *p)
{
    struct label l = {.ours = part_node_label(p->ns, p->name), .old = part_old_node_label(p->name)};
    struct view_list sets = view_list(p->v, KIND_SAMPLESET, NULL, MARK_NAME, p->name);
    for (size_t i = 0; i < sets.n && l.old; i++) {
        const char *uid = object_uid(sets.items[i]);
        if (uid && strcmp(uid, p->uid) != 0 && is_older(sets.items[i], p->object)) {
            free(l.old);
            l.old = NULL;
        }
    }
    return l;
}

static void label_end(struct label *l)
{
    free(l->ours);
    free(l->old);
}

/* Makes a node's labels what they should be; `value` NULL: none. Upstream's key is taken off only
 * where its value is that of ours. */
static bool set_label(struct set_plan *p, const struct label *l, const struct json *node,
                      const char *value)
{
    const char *ours = object_label(node, l->ours),
               *old = l->old ? object_label(node, l->old) : NULL;
    bool mine = old && ours && strcmp(old, ours) == 0;
    bool change = value ? !ours || strcmp(ours, value) != 0 : ours != NULL;
    bool change_old = l->old && (value ? !old || strcmp(old, value) != 0 : mine);
    if (!change && !change_old)
        return false;
    struct action *a = act_patch(&p->children, KIND_NODE, NULL, object_name(node), NULL);
    struct json_writer w;
    jw_init(&w, &a->body);
    jw_object(&w, NULL);
    jw_object(&w, "metadata");
    jw_object(&w, "labels");
    if (change)
        jw_str(&w, l->ours, value);
    if (change_old)
        jw_str(&w, l->old, value);
    jw_end(&w);
    jw_end(&w);
    jw_end(&w);
    return true;
}

static const struct json *node_of(struct set_plan *p, const char *name)
{
    return name ? view_get(p->v, KIND_NODE, NULL, name) : NULL;
}

/* The partition that a node's label names; -1: none that there should be. */
static int64_t partition_of(const struct set_plan *p, const char *value)
{
    for (int64_t k = 0; k < p->partitions; k++) {
        cleanup_free char *name = part_node_value(p->name, k);
        if (strcmp(name, value) == 0)
            return k;
    }
    return -1;
}

static bool is_stale(struct set_plan *p, const struct label *l, const struct json *node)
{
    const char *value = object_label(node, l->ours);
    int64_t k = value ? partition_of(p, value) : -1;
    if (k < 0 || (size_t)k >= p->n_rows)
        return true;
    return p->rows[k].node && strcmp(p->rows[k].node, object_name(node)) != 0;
}

static void drop_stale(struct set_plan *p, const struct label *l)
{
    struct view_list nodes = view_list(p->v, KIND_NODE, NULL, l->ours, NULL);
    for (size_t i = 0; i < nodes.n; i++) {
        /* Another partition may have come to a node that one has left. */
        const char *name = object_name(nodes.items[i]);
        bool taken = false;
        for (size_t k = 0; k < p->n_rows && (int64_t)k < p->partitions; k++)
            taken = taken || (p->rows[k].node && strcmp(p->rows[k].node, name) == 0);
        if (!taken && is_stale(p, l, nodes.items[i]))
            set_label(p, l, nodes.items[i], NULL);
    }
}

/* Another partition's server is there, too, as while one that was evicted is still spoken of: a
 * node has one label, and it is that of the server that is ready, else of the first. */
static bool is_anothers(const struct set_plan *p, size_t k)
{
    const struct set_row *mine = &p->rows[k];
    for (size_t i = 0; i < p->n_rows && (int64_t)i < p->partitions; i++) {
        const struct set_row *row = &p->rows[i];
        if (i != k && row->node && strcmp(row->node, mine->node) == 0 &&
            (row->ready != mine->ready ? row->ready : i < k))
            return true;
    }
    return false;
}

void set_nodes(struct set_plan *p)
{
    struct label l = label_begin(p);
    p->labelled = 0;
    for (size_t k = 0; k < p->n_rows && (int64_t)k < p->partitions; k++) {
        const struct json *node = node_of(p, p->rows[k].node);
        cleanup_free char *value = part_node_value(p->name, (int64_t)k);
        if (node && !is_anothers(p, k) && !set_label(p, &l, node, value))
            p->labelled++;
    }
    drop_stale(p, &l);
    label_end(&l);
    judge(p);
}

bool set_nodes_clear(struct set_plan *p)
{
    struct label l = label_begin(p);
    struct view_list nodes = view_list(p->v, KIND_NODE, NULL, l.ours, NULL);
    bool some = false;
    for (size_t i = 0; i < nodes.n; i++)
        some = set_label(p, &l, nodes.items[i], NULL) || some;
    label_end(&l);
    return some;
}
