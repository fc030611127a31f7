/* A cluster in memory: objects, views of them, and what Kubernetes' own controllers do. */
#include "model-internal.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "as-text.h"
#include "mem.h"
#include "object.h"
#include "parts.h"
#include "sampleset-internal.h"
#include "view-internal.h"

#define PASSES_MOST 200
#define LOG_SHOWN   4000

static const char *set_files[] = {"/data/sets/", "/x"};

const struct operator_config model_config = {.image = "sampan/sampan",
                                             .namespace_ = "sampan-system",
                                             .csi_driver = "csi.sampan.io",
                                             .token_key = "0123456789abcdef",
                                             .set_files = {.items = set_files, .n = 2}};

/* --- objects ---------------------------------------------------------------------------------- */

const char *model_text_at(const json_t *o, const char *path)
{
    static char number[32];
    cleanup_free char *copy = xstrdup(path);
    char *save = NULL;
    for (char *part = strtok_r(copy, "|", &save); part && o; part = strtok_r(NULL, "|", &save))
        o = json_is_array(o) ? json_array_get(o, (size_t)atoi(part)) : json_object_get(o, part);
    if (json_is_integer(o)) {
        snprintf(number, sizeof number, "%lld", (long long)json_integer_value(o));
        return number;
    }
    return json_is_string(o) ? json_string_value(o) : json_is_true(o) ? "true" : "";
}

json_t *model_meta(json_t *o)
{
    json_t *meta = json_object_get(o, "metadata");
    if (!meta) {
        json_object_set_new(o, "metadata", json_object());
        meta = json_object_get(o, "metadata");
    }
    return meta;
}

json_t *model_child(json_t *o, const char *key)
{
    if (!json_object_get(o, key))
        json_object_set_new(o, key, json_object());
    return json_object_get(o, key);
}

static void touch(struct model *m, json_t *o)
{
    char text[32];
    snprintf(text, sizeof text, "%ld", ++m->versions);
    json_object_set_new(model_meta(o), "resourceVersion", json_string(text));
}

static void insert(struct model *m, json_t *o)
{
    char uid[48];
    json_t *meta = model_meta(o);
    snprintf(uid, sizeof uid, "00000000-0000-0000-0000-%012ld", ++m->uids);
    if (!json_object_get(meta, "uid"))
        json_object_set_new(meta, "uid", json_string(uid));
    if (!json_object_get(meta, "creationTimestamp"))
        model_put_time(m, meta, "creationTimestamp");
    if (!json_object_get(meta, "generation"))
        json_object_set_new(meta, "generation", json_integer(1));
    touch(m, o);
    json_array_append_new(m->objects, o);
}

json_t *model_parsed(const char *text)
{
    json_error_t e;
    json_t *j = json_loads(text, 0, &e);
    cr_assert(j, "%s at %d: %s", e.text, e.position, text);
    return j;
}

struct model *model_new(const char *objects)
{
    struct model *m = xcalloc(1, sizeof *m);
    *m = (struct model){.objects = json_array(),
                        .jobs = json_object(),
                        .samplers = json_object(),
                        .pins = json_object(),
                        .older = "v1",
                        .events = json_object(),
                        .now = 1800000000,
                        .jobs_end = "succeeded",
                        .limit = 1000000000,
                        .kill_after = -1};
    json_t *list = model_parsed(objects);
    for (size_t i = 0; i < json_array_size(list); i++)
        insert(m, json_incref(json_array_get(list, i)));
    json_decref(list);
    return m;
}

struct model *model_copy(const struct model *m)
{
    struct model *copy = xmalloc(sizeof *copy);
    *copy = *m;
    copy->objects = json_deep_copy(m->objects);
    copy->jobs = json_deep_copy(m->jobs);
    copy->samplers = json_deep_copy(m->samplers);
    copy->pins = json_deep_copy(m->pins);
    copy->events = json_deep_copy(m->events);
    copy->log = (struct bytes){0};
    return copy;
}

void model_free(struct model *m)
{
    json_decref(m->objects);
    json_decref(m->jobs);
    json_decref(m->samplers);
    json_decref(m->pins);
    json_decref(m->events);
    bytes_release(&m->log);
    free(m);
}

void model_add(struct model *m, const char *object)
{
    insert(m, model_parsed(object));
}

static bool is(const json_t *o, const char *kind, const char *ns, const char *name)
{
    return strcmp(model_text_at(o, "kind"), kind) == 0 &&
           strcmp(model_text_at(o, "metadata|name"), name) == 0 &&
           strcmp(model_text_at(o, "metadata|namespace"), ns ? ns : "") == 0;
}

static size_t place_of(struct model *m, const char *kind, const char *ns, const char *name)
{
    size_t i = 0;
    while (i < json_array_size(m->objects) && !is(json_array_get(m->objects, i), kind, ns, name))
        i++;
    return i;
}

json_t *model_get(struct model *m, const char *kind, const char *ns, const char *name)
{
    return json_array_get(m->objects, place_of(m, kind, ns, name));
}

/* RFC 7386. */
static void merge(json_t *to, const json_t *patch)
{
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)patch, key, value)
    {
        if (json_is_null(value)) {
            json_object_del(to, key);
        } else if (json_is_object(value)) {
            if (!json_is_object(json_object_get(to, key)))
                json_object_set_new(to, key, json_object());
            merge(json_object_get(to, key), value);
        } else {
            json_object_set(to, key, value);
        }
    }
}

static void remove_if_free(struct model *m, json_t *o)
{
    json_t *meta = model_meta(o);
    if (!json_object_get(meta, "deletionTimestamp") ||
        json_array_size(json_object_get(meta, "finalizers")))
        return;
    for (size_t i = 0; i < json_array_size(m->objects); i++)
        if (json_array_get(m->objects, i) == o) {
            json_array_remove(m->objects, i);
            return;
        }
}

static void change(struct model *m, json_t *o, const json_t *patch)
{
    cleanup_free char *was = json_dumps(o, JSON_SORT_KEYS);
    json_t *spec = json_deep_copy(json_object_get(o, "spec"));
    merge(o, patch);
    cleanup_free char *now = json_dumps(o, JSON_SORT_KEYS);
    json_t *meta = model_meta(o);
    if (!json_equal(spec, json_object_get(o, "spec")))
        json_object_set_new(
            meta, "generation",
            json_integer(json_integer_value(json_object_get(meta, "generation")) + 1));
    json_decref(spec);
    if (strcmp(was, now) != 0)
        touch(m, o);
    remove_if_free(m, o);
}

void model_patch(struct model *m, const char *kind, const char *ns, const char *name,
                 const char *patch)
{
    json_t *p = model_parsed(patch), *o = model_get(m, kind, ns, name);
    cr_assert(o, "%s %s is not there", kind, name);
    change(m, o, p);
    json_decref(p);
}

static void begin_deletion(struct model *m, json_t *o)
{
    if (!json_object_get(model_meta(o), "deletionTimestamp")) {
        model_put_time(m, model_meta(o), "deletionTimestamp");
        touch(m, o);
    }
    remove_if_free(m, o);
}

void model_delete(struct model *m, const char *kind, const char *ns, const char *name)
{
    json_t *o = model_get(m, kind, ns, name);
    if (o)
        begin_deletion(m, o);
}

const char *model_at(struct model *m, const char *kind, const char *ns, const char *name,
                     const char *path)
{
    return model_text_at(model_get(m, kind, ns, name), path);
}

const char *model_condition(struct model *m, const char *kind, const char *ns, const char *name,
                            const char *type)
{
    static char text[256];
    json_t *o = model_get(m, kind, ns, name), *c;
    size_t i;
    json_array_foreach(json_object_get(json_object_get(o, "status"), "conditions"), i, c)
    {
        if (strcmp(model_text_at(c, "type"), type) != 0)
            continue;
        snprintf(text, sizeof text, "%s", model_text_at(c, "status"));
        snprintf(text + strlen(text), sizeof text - strlen(text), " %s",
                 model_text_at(c, "reason"));
        return text;
    }
    return "";
}

size_t model_count(struct model *m, const char *kind)
{
    size_t n = 0;
    for (size_t i = 0; i < json_array_size(m->objects); i++)
        n += strcmp(model_text_at(json_array_get(m->objects, i), "kind"), kind) == 0;
    return n;
}

long long model_event(struct model *m, const char *text)
{
    const char *key;
    json_t *n;
    long long sum = 0;
    json_object_foreach(m->events, key, n) if (strncmp(key, text, strlen(text)) == 0) sum +=
        json_integer_value(n);
    return sum;
}

/* --- views ------------------------------------------------------------------------------------ */

#define ANSWERS_MOST 256

struct look {
    struct model *m;
    struct json_doc *doc;
    struct json root, *items;
    size_t n;
    struct {
        struct json_doc *doc;
        struct view_answer answer;
        char *url;
    } answers[ANSWERS_MOST];
    size_t n_answers;
};

static bool same(const char *a, const char *b)
{
    return strcmp(a ? a : "", b ? b : "") == 0;
}

static bool look_get(void *arg, enum kind kind, const char *ns, const char *name,
                     const struct json **ret)
{
    const struct look *l = arg;
    *ret = NULL;
    for (size_t i = 0; i < l->n; i++)
        if (object_kind(&l->items[i]) == kind && same(object_name(&l->items[i]), name) &&
            same(object_namespace(&l->items[i]), ns))
            *ret = &l->items[i];
    return true;
}

static void look_list(void *arg, enum kind kind, const char *ns, const char *key, const char *value,
                      void (*add)(void *to, const struct json *object), void *to)
{
    const struct look *l = arg;
    for (size_t i = 0; i < l->n; i++)
        if (object_kind(&l->items[i]) == kind && object_matches(&l->items[i], ns, key, value))
            add(to, &l->items[i]);
}

static const char *why_not(struct model *m)
{
    return m->unanswered++ % 2 ? "no answer after 5003 milliseconds" : "connection refused";
}

static bool look_fetch(void *arg, const char *url, const struct view_answer **ret)
{
    struct look *l = arg;
    for (size_t i = 0; i < l->n_answers; i++)
        if (strcmp(l->answers[i].url, url) == 0) {
            *ret = &l->answers[i].answer;
            return true;
        }
    cr_assert(l->n_answers < ANSWERS_MOST);
    size_t i = l->n_answers++;
    int status;
    json_t *body = model_answer(l->m, url, &status);
    l->answers[i].url = xstrdup(url);
    l->answers[i].answer =
        (struct view_answer){.status = status, .error = status ? NULL : why_not(l->m)};
    if (body) {
        cleanup_free char *text = json_dumps(body, 0);
        json_decref(body);
        struct err err = {0};
        cr_assert_eq(json_parse(&l->answers[i].doc, "answer", text, strlen(text), &err), 0, "%s",
                     err.msg);
        l->answers[i].answer.body = json_root(l->answers[i].doc);
    }
    *ret = &l->answers[i].answer;
    return true;
}

static void look_free(void *arg)
{
    struct look *l = arg;
    for (size_t i = 0; i < l->n_answers; i++) {
        json_doc_free(l->answers[i].doc);
        free(l->answers[i].url);
    }
    json_doc_free(l->doc);
    free(l->items);
    free(l);
}

static struct view *look_at(struct model *m, size_t at)
{
    static const struct view_source source = {look_get, look_list, look_fetch, look_free};
    struct look *l = xcalloc(1, sizeof *l);
    struct err err = {0};
    /* The API server sorts the members of objects. */
    cleanup_free char *text = json_dumps(m->objects, JSON_SORT_KEYS);
    cr_assert_eq(json_parse(&l->doc, "cluster", text, strlen(text), &err), 0, "%s", err.msg);
    l->m = m;
    l->root = json_root(l->doc);
    l->n = json_count(&l->root);
    l->items = xcalloc(l->n + 1, sizeof *l->items);
    for (size_t i = 0; i < l->n; i++)
        l->items[i] = json_at(&l->root, i);
    return view_new(&source, l, object_kind(&l->items[at]), &l->items[at], m->now);
}

/* --- actions ---------------------------------------------------------------------------------- */

static bool create(struct model *m, const struct action *a)
{
    json_t *o = model_parsed(a->body.data);
    cr_assert(is(o, kinds[a->kind].kind, a->ns, a->name), "%s", a->body.data);
    cr_assert_str_eq(model_text_at(o, "metadata|labels|" MANAGED_KEY), MANAGED_BY);
    cr_assert_eq(strlen(model_text_at(o, "metadata|labels|sampan.io/owner")), 36);
    if (model_get(m, kinds[a->kind].kind, a->ns, a->name)) {
        json_decref(o);
        return true; /* apply.c looks whether it is ours */
    }
    if (a->kind == KIND_PVC)
        json_object_set_new(model_meta(o), "finalizers",
                            json_pack("[s]", "kubernetes.io/pvc-protection"));
    insert(m, o);
    return true;
}

static bool patch(struct model *m, const struct action *a)
{
    json_t *o = model_get(m, kinds[a->kind].kind, a->ns, a->name);
    if (!o || (a->version && strcmp(model_text_at(o, "metadata|resourceVersion"), a->version) != 0))
        return false; /* 404, 409 */
    json_t *p = model_parsed(a->body.data);
    change(m, o, p);
    json_decref(p);
    return true;
}

static bool apply(struct model *m, const struct action *a)
{
    switch (a->type) {
    case ACTION_CREATE:
        return create(m, a);
    case ACTION_PATCH:
    case ACTION_STATUS:
        return patch(m, a);
    case ACTION_DELETE:
        model_delete(m, kinds[a->kind].kind, a->ns, a->name);
        return true;
    case ACTION_EVENT: {
        cleanup_free char *text =
            xasprintf("%s %s: %s", a->warning ? "Warning" : "Normal", a->reason, a->message);
        json_object_set_new(m->events, text,
                            json_integer(json_integer_value(json_object_get(m->events, text)) + 1));
        return true;
    }
    case ACTION_SEND:
        return model_server_takes(m, a);
    case ACTION_AGAIN:
        if (a->after_s == SET_REST_S)
            m->rests = true;
        else if (!m->again || a->after_s < m->again)
            m->again = a->after_s;
        return true;
    }
    return true;
}

static bool decide_one(struct model *m, size_t at, const struct controller *c)
{
    struct actions out = {0};
    struct err err = {0};
    bool changed = false;
    struct view *v = look_at(m, at);
    cr_assert_eq(c->decide(v, &model_config, &out, &err), 0, "%s", err.msg);
    cr_assert(!view_incomplete(v));
    for (size_t i = 0; i < out.n; i++) {
        if (m->kill_after == 0) { /* what is left of this decision is lost */
            m->kill_after = -1;
            m->killed = true;
            changed = true;
            break;
        }
        bool again = out.items[i].type == ACTION_AGAIN;
        m->kill_after -= m->kill_after > 0 && !again;
        m->actions += !again;
        changed = changed || !again;
        if (!apply(m, &out.items[i]))
            break;
    }
    actions_text(&out, &m->log);
    actions_release(&out);
    view_free(v);
    return changed;
}

static bool decide_all(struct model *m)
{
    static const struct {
        const char *kind;
        const struct controller *c;
    } all[] = {{"SampleSet", &sampleset_controller}, {"SampleJob", &samplejob_controller}};
    bool changed = false;
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        for (size_t k = 0; k < json_array_size(m->objects); k++)
            if (strcmp(model_text_at(json_array_get(m->objects, k), "kind"), all[i].kind) == 0)
                changed = decide_one(m, k, all[i].c) || changed;
    return changed;
}

/* --- Kubernetes' own controllers -------------------------------------------------------------- */

static bool set_phase(struct model *m, json_t *o, const char *phase)
{
    if (strcmp(model_text_at(o, "status|phase"), phase) == 0)
        return false;
    json_object_set_new(model_child(o, "status"), "phase", json_string(phase));
    touch(m, o);
    return true;
}

static bool bind_claim(struct model *m, json_t *pvc)
{
    const char *volume = model_text_at(pvc, "spec|volumeName");
    json_t *pv = *volume ? model_get(m, "PersistentVolume", NULL, volume) : NULL;
    if (!pv ||
        strcmp(model_text_at(pv, "spec|claimRef|name"), model_text_at(pvc, "metadata|name")) != 0)
        return false;
    bool changed = set_phase(m, pv, "Bound");
    return set_phase(m, pvc, "Bound") || changed;
}

static bool take_up_volume(struct model *m, json_t *pv)
{
    return !*model_text_at(pv, "status|phase") && set_phase(m, pv, "Available");
}

static bool claim_is_used(struct model *m, const json_t *pvc)
{
    for (size_t i = 0; i < json_array_size(m->objects); i++) {
        json_t *pod = json_array_get(m->objects, i);
        if (strcmp(model_text_at(pod, "kind"), "Pod") == 0 &&
            strcmp(model_text_at(pod, "metadata|namespace"),
                   model_text_at(pvc, "metadata|namespace")) == 0 &&
            strcmp(model_text_at(pod, "spec|volumes|0|persistentVolumeClaim|claimName"),
                   model_text_at(pvc, "metadata|name")) == 0)
            return true;
    }
    return false;
}

static bool release_claim(struct model *m, json_t *pvc)
{
    if (!*model_text_at(pvc, "metadata|deletionTimestamp") || claim_is_used(m, pvc))
        return false;
    json_t *pv = model_get(m, "PersistentVolume", NULL, model_text_at(pvc, "spec|volumeName"));
    if (pv)
        set_phase(m, pv, "Released");
    json_object_del(model_meta(pvc), "finalizers");
    remove_if_free(m, pvc);
    return true;
}

static json_t *make_pod(struct model *m, const json_t *sts, const char *name)
{
    json_t *tmpl = json_object_get(json_object_get(sts, "spec"), "template");
    json_t *pod = json_deep_copy(tmpl), *meta = model_meta(pod);
    json_object_set_new(pod, "apiVersion", json_string("v1"));
    json_object_set_new(pod, "kind", json_string("Pod"));
    json_object_set_new(meta, "name", json_string(name));
    json_object_set_new(meta, "namespace", json_string(model_text_at(sts, "metadata|namespace")));
    insert(m, pod);
    return pod;
}

static bool run_statefulset(struct model *m, json_t *sts)
{
    long long want = m->no_pods ? 0 : atoll(model_text_at(sts, "spec|replicas"));
    cleanup_free char *ns = xstrdup(model_text_at(sts, "metadata|namespace"));
    cleanup_free char *name = xstrdup(model_text_at(sts, "metadata|name"));
    bool changed = false;
    for (long long k = 0; k < 50; k++) {
        cleanup_free char *pod = xasprintf("%s-%lld", name, k);
        json_t *o = model_get(m, "Pod", ns, pod);
        if (k < want && !o && (changed = true))
            make_pod(m, sts, pod);
        if (k >= want && o && (changed = true))
            begin_deletion(m, o);
    }
    return changed;
}

static bool node_fits(struct model *m, const json_t *pod, const json_t *node)
{
    const char *key;
    json_t *value, *labels = json_object_get(json_object_get(node, "metadata"), "labels");
    json_object_foreach(json_object_get(json_object_get(pod, "spec"), "nodeSelector"), key,
                        value) if (strcmp(model_text_at(labels, key), json_string_value(value)) !=
                                   0) return false;
    for (size_t i = 0; i < json_array_size(m->objects); i++) {
        json_t *other = json_array_get(m->objects, i);
        if (strcmp(model_text_at(other, "kind"), "Pod") == 0 &&
            strcmp(model_text_at(other, "metadata|namespace"),
                   model_text_at(pod, "metadata|namespace")) == 0 &&
            strcmp(model_text_at(other, "spec|nodeName"), model_text_at(node, "metadata|name")) ==
                0 &&
            strcmp(model_text_at(other, "metadata|labels|sampan.io/runtime"),
                   model_text_at(pod, "metadata|labels|sampan.io/runtime")) == 0)
            return false;
    }
    return true;
}

static bool place_pod(struct model *m, json_t *pod)
{
    const char *key =
        model_text_at(pod, "spec|affinity|nodeAffinity|"
                           "preferredDuringSchedulingIgnoredDuringExecution|0|preference|"
                           "matchExpressions|0|key");
    json_t *best = NULL;
    if (*model_text_at(pod, "spec|nodeName"))
        return false;
    for (size_t i = 0; i < json_array_size(m->objects); i++) {
        json_t *node = json_array_get(m->objects, i);
        if (strcmp(model_text_at(node, "kind"), "Node") != 0 || !node_fits(m, pod, node))
            continue;
        json_t *labels = json_object_get(json_object_get(node, "metadata"), "labels");
        if (!best ||
            (json_object_get(labels, key) &&
             !json_object_get(json_object_get(json_object_get(best, "metadata"), "labels"), key)))
            best = node;
    }
    if (!best)
        return false;
    json_object_set_new(model_child(pod, "spec"), "nodeName",
                        json_string(model_text_at(best, "metadata|name")));
    touch(m, pod);
    return true;
}

static bool start_pod(struct model *m, json_t *pod)
{
    if (!*model_text_at(pod, "spec|nodeName") ||
        !strcmp(model_text_at(pod, "status|phase"), "Running"))
        return false;
    json_object_set_new(pod, "status",
                        json_pack("{s:s,s:[{s:s,s:s}]}", "phase", "Running", "conditions", "type",
                                  "Ready", "status", "True"));
    touch(m, pod);
    return true;
}

/* Owners that are gone take what they own along. */
static bool collect(struct model *m)
{
    bool changed = false;
    for (size_t i = 0; i < json_array_size(m->objects); i++) {
        json_t *o = json_array_get(m->objects, i);
        const char *kind = model_text_at(o, "kind");
        cleanup_free char *owner = xstrdup(model_text_at(o, "metadata|ownerReferences|0|uid"));
        bool alive = !*owner;
        for (size_t k = 0; k < json_array_size(m->objects) && !alive; k++)
            alive =
                strcmp(model_text_at(json_array_get(m->objects, k), "metadata|uid"), owner) == 0;
        if (strcmp(kind, "Pod") == 0)
            alive = !*model_text_at(o, "metadata|labels|sampan.io/runtime") ||
                    model_get(m, "StatefulSet", model_text_at(o, "metadata|namespace"),
                              model_text_at(o, "metadata|labels|sampan.io/runtime"));
        if (!alive && !*model_text_at(o, "metadata|deletionTimestamp")) {
            begin_deletion(m, o);
            changed = true;
            i = (size_t)-1;
        }
    }
    return changed;
}

static bool kubernetes(struct model *m)
{
    bool changed = false;
    for (size_t i = 0; i < json_array_size(m->objects); i++) {
        json_t *o = json_incref(json_array_get(m->objects, i));
        const char *kind = model_text_at(o, "kind");
        if (strcmp(kind, "PersistentVolume") == 0)
            changed = take_up_volume(m, o) || changed;
        else if (strcmp(kind, "PersistentVolumeClaim") == 0)
            changed = bind_claim(m, o) || release_claim(m, o) || changed;
        else if (strcmp(kind, "StatefulSet") == 0)
            changed = run_statefulset(m, o) || changed;
        else if (strcmp(kind, "Pod") == 0)
            changed = place_pod(m, o) || start_pod(m, o) || changed;
        json_decref(o);
    }
    return collect(m) || changed;
}

/* --- all -------------------------------------------------------------------------------------- */

bool model_pass(struct model *m)
{
    m->again = 0;
    m->rests = false;
    bool changed = decide_all(m);
    changed = kubernetes(m) || changed;
    return model_servers_work(m) || changed;
}

int model_settle(struct model *m, int clocks)
{
    int passes = 0;
    for (;;) {
        while (model_pass(m)) {
            cr_assert(++passes < PASSES_MOST, "it does not come to rest:\n%s",
                      m->log.data + (m->log.len > LOG_SHOWN ? m->log.len - LOG_SHOWN : 0));
        }
        if (!m->again || clocks-- <= 0 || (m->until && m->now + m->again > m->until))
            return passes;
        m->now += m->again;
    }
}
