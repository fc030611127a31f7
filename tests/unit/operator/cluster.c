/* A cluster in memory. */
#include "cluster.h"

#include <criterion/criterion.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "as-text.h"
#include "mem.h"
#include "object.h"

/* --- JSON ------------------------------------------------------------------------------------- */

static bool is_null(const struct json *j)
{
    cleanup_bytes struct bytes text = {0};
    json_text(j, &text);
    return strcmp(text.data, "null") == 0;
}

static bool is_object(const struct json *j)
{
    return j->node && json_want_object(j, NULL) == 0;
}

static void copy(struct json_writer *w, const char *key, const struct json *j)
{
    cleanup_bytes struct bytes text = {0};
    json_text(j, &text);
    jw_raw(w, key, text.data);
}

/* RFC 7386. */
static void merge(struct json_writer *w, const char *key, const struct json *to,
                  const struct json *patch)
{
    if (!is_object(patch)) {
        copy(w, key, patch);
        return;
    }
    jw_object(w, key);
    for (size_t i = 0; is_object(to) && i < json_count(to); i++) {
        struct json old = json_member(to, i), new = json_get(patch, old.key);
        if (!new.node)
            copy(w, old.key, &old);
        else if (!is_null(&new))
            merge(w, old.key, &old, &new);
    }
    for (size_t i = 0; i < json_count(patch); i++) {
        struct json new = json_member(patch, i), none = {0};
        if (!is_null(&new) && !(is_object(to) && json_has(to, new.key)))
            merge(w, new.key, &none, &new);
    }
    jw_end(w);
}

static struct json_doc *parse(const char *text)
{
    struct json_doc *doc;
    struct err err = {0};
    cr_assert_eq(json_parse(&doc, "cluster", text, strlen(text), &err), 0, "%s: %s", err.msg, text);
    return doc;
}

static void merge_text(char **text, const char *patch)
{
    cleanup_json struct json_doc *a = parse(*text), *b = parse(patch);
    struct json to = json_root(a), from = json_root(b);
    struct bytes out = {0};
    struct json_writer w;
    jw_init(&w, &out);
    merge(&w, NULL, &to, &from);
    free(*text);
    *text = bytes_take(&out);
}

__attribute__((format(printf, 2, 3))) static void mergef(char **text, const char *fmt, ...)
{
    char *patch;
    va_list ap;
    va_start(ap, fmt);
    cr_assert_geq(vasprintf(&patch, fmt, ap), 0);
    va_end(ap);
    merge_text(text, patch);
    free(patch);
}

/* --- objects ---------------------------------------------------------------------------------- */

static bool same(const char *a, const char *b)
{
    return strcmp(a ? a : "", b ? b : "") == 0;
}

static struct cluster_object *find(const struct cluster *m, enum kind kind, const char *ns,
                                   const char *name)
{
    for (size_t i = 0; i < m->n; i++)
        if (m->items[i].kind == kind && same(m->items[i].ns, ns) && same(m->items[i].name, name))
            return &m->items[i];
    return NULL;
}

static void release_object(struct cluster_object *o)
{
    free(o->ns);
    free(o->name);
    free(o->text);
}

void cluster_release(struct cluster *m)
{
    for (size_t i = 0; i < m->n; i++)
        release_object(&m->items[i]);
    free(m->items);
    *m = (struct cluster){0};
}

void cluster_copy(struct cluster *to, const struct cluster *from)
{
    *to = *from;
    to->items = xcalloc(from->n + 1, sizeof *to->items);
    for (size_t i = 0; i < from->n; i++) {
        const struct cluster_object *o = &from->items[i];
        to->items[i] = (struct cluster_object){.kind = o->kind,
                                               .ns = o->ns ? xstrdup(o->ns) : NULL,
                                               .name = xstrdup(o->name),
                                               .text = xstrdup(o->text)};
    }
}

static void touch(struct cluster *m, struct cluster_object *o)
{
    mergef(&o->text, "{\"metadata\":{\"resourceVersion\":\"%u\"}}", ++m->version);
}

void cluster_put(struct cluster *m, const char *text)
{
    cleanup_json struct json_doc *doc = parse(text);
    struct json o = json_root(doc);
    const char *ns = object_namespace(&o);
    struct cluster_object new = {.kind = object_kind(&o),
                                 .ns = ns ? xstrdup(ns) : NULL,
                                 .name = xstrdup(object_name(&o)),
                                 .text = xstrdup(text)};
    cr_assert_neq(new.kind, KIND_N, "%s", text);
    if (!object_uid(&o))
        mergef(&new.text, "{\"metadata\":{\"uid\":\"u%u\",\"generation\":1}}", ++m->uid);
    m->items = xrealloc(m->items, (m->n + 1) * sizeof *m->items);
    m->items[m->n] = new;
    touch(m, &m->items[m->n++]);
}

const char *cluster_get(const struct cluster *m, enum kind kind, const char *ns, const char *name)
{
    const struct cluster_object *o = find(m, kind, ns, name);
    return o ? o->text : NULL;
}

char *cluster_at(const struct cluster *m, enum kind kind, const char *ns, const char *name, ...)
{
    const char *text = cluster_get(m, kind, ns, name), *key;
    if (!text)
        return xstrdup("");
    cleanup_json struct json_doc *doc = parse(text);
    struct json at = json_root(doc);
    struct bytes out = {0};
    va_list ap;
    va_start(ap, name);
    while (at.node && (key = va_arg(ap, const char *)))
        at = json_get(&at, key);
    va_end(ap);
    if (at.node)
        json_text(&at, &out);
    return bytes_take(&out);
}

size_t cluster_count(const struct cluster *m, enum kind kind)
{
    size_t n = 0;
    for (size_t i = 0; i < m->n; i++)
        n += m->items[i].kind == kind;
    return n;
}

/* --- the end of objects ----------------------------------------------------------------------- */

static char *uid_of(const char *text)
{
    cleanup_json struct json_doc *doc = parse(text);
    struct json o = json_root(doc);
    return xstrdup(object_uid(&o));
}

static bool is_owned_by(const char *text, const char *uid)
{
    cleanup_json struct json_doc *doc = parse(text);
    struct json o = json_root(doc), meta = json_get(&o, "metadata"),
                owners = json_get(&meta, "ownerReferences");
    for (size_t i = 0; i < json_count(&owners); i++) {
        struct json owner = json_at(&owners, i);
        const char *theirs;
        if (!json_str(&owner, "uid", &theirs, NULL) && strcmp(theirs, uid) == 0)
            return true;
    }
    return false;
}

static void remove_at(struct cluster *m, size_t i)
{
    release_object(&m->items[i]);
    memmove(&m->items[i], &m->items[i + 1], (m->n - i - 1) * sizeof *m->items);
    m->n--;
}

/* With all that it owns, as the garbage collector does. */
static void collect(struct cluster *m, struct cluster_object *o)
{
    char *uid = uid_of(o->text);
    remove_at(m, (size_t)(o - m->items));
    for (size_t i = 0; i < m->n;) {
        if (!is_owned_by(m->items[i].text, uid)) {
            i++;
            continue;
        }
        collect(m, &m->items[i]);
        i = 0;
    }
    free(uid);
}

static bool has_finalizers(const char *text)
{
    cleanup_json struct json_doc *doc = parse(text);
    struct json o = json_root(doc), meta = json_get(&o, "metadata"),
                list = json_get(&meta, "finalizers");
    return json_count(&list) > 0;
}

static void delete_object(struct cluster *m, struct cluster_object *o)
{
    if (has_finalizers(o->text) || o->kind == KIND_POD) {
        mergef(&o->text, "{\"metadata\":{\"deletionTimestamp\":\"2026-11-21T00:00:00Z\"}}");
        touch(m, o);
    } else {
        collect(m, o);
    }
}

void cluster_delete(struct cluster *m, enum kind kind, const char *ns, const char *name)
{
    struct cluster_object *o = find(m, kind, ns, name);
    cr_assert(o, "%s", name);
    delete_object(m, o);
}

void cluster_patch(struct cluster *m, enum kind kind, const char *ns, const char *name,
                   const char *patch)
{
    struct cluster_object *o = find(m, kind, ns, name);
    cr_assert(o, "%s", name);
    merge_text(&o->text, patch);
    touch(m, o);
}

/* --- the API server --------------------------------------------------------------------------- */

void cluster_decide(struct cluster *m, const struct controller *c,
                    const struct operator_config *config, const char *ns, const char *name,
                    struct actions *out)
{
    cleanup_bytes struct bytes text = {0};
    const struct cluster_object *of = find(m, c->kind, ns, name);
    struct view *v;
    struct err err = {0};
    bool first = true;
    cr_assert(of, "%s", name);
    bytes_addf(&text, "{\"now\":%" PRId64 ",\"object\":%s,\"objects\":[", m->now, of->text);
    for (size_t i = 0; i < m->n; i++) {
        if (&m->items[i] == of)
            continue;
        bytes_addf(&text, "%s%s", first ? "" : ",", m->items[i].text);
        first = false;
    }
    bytes_add_str(&text, "]}");
    cr_assert_eq(view_of_text(&v, text.data, &err), 0, "%s", err.msg);
    cr_assert_eq(c->decide(v, config, out, &err), 0, "%s", err.msg);
    cr_assert(!view_incomplete(v));
    view_free(v);
}

static bool is_stale(const struct cluster_object *o, const struct action *a)
{
    cleanup_json struct json_doc *doc = parse(o->text);
    struct json j = json_root(doc);
    return (a->version && !same(a->version, object_version(&j))) ||
           (a->uid && !same(a->uid, object_uid(&j)));
}

static bool apply_patch(struct cluster *m, struct cluster_object *o, const struct action *a)
{
    if (!o || is_stale(o, a))
        return false;
    merge_text(&o->text, a->body.data);
    touch(m, o);
    cleanup_json struct json_doc *doc = parse(o->text);
    struct json j = json_root(doc);
    if (object_is_deleted(&j) && !has_finalizers(o->text))
        collect(m, o);
    return true;
}

bool cluster_apply(struct cluster *m, const struct action *a)
{
    struct cluster_object *o = a->name ? find(m, a->kind, a->ns, a->name) : NULL;
    switch (a->type) {
    case ACTION_CREATE:
        if (!o)
            cluster_put(m, a->body.data);
        return true;
    case ACTION_PATCH:
    case ACTION_STATUS:
        return apply_patch(m, o, a);
    case ACTION_DELETE:
        if (o && !is_stale(o, a))
            delete_object(m, o);
        return true;
    case ACTION_SEND:
        m->sent++;
        return true;
    case ACTION_EVENT:
    case ACTION_AGAIN:
        return true;
    }
    return false;
}

/* --- the kubelet ------------------------------------------------------------------------------ */

static char *text_at(const struct json *from, const char *a, const char *b, const char *c)
{
    struct json x = json_get(from, a), y = json_get(&x, b), z = c ? json_get(&y, c) : y;
    const char *text;
    return z.node && !json_as_str(&z, &text, NULL) ? xstrdup(text) : xstrdup("");
}

/* Does the pod wait at a barrier that is still closed? */
static bool is_held(const struct cluster *m, const struct json *pod)
{
    struct json spec = json_get(pod, "spec"), all = json_get(&spec, "initContainers");
    for (size_t i = 0; i < json_count(&all); i++) {
        struct json c = json_at(&all, i);
        const char *name;
        if (json_str(&c, "name", &name, NULL) || strcmp(name, "sampan-barrier") != 0)
            continue;
        const char *want = object_annotation(pod, "sampan.io/peers");
        struct json owner_meta = json_get(pod, "metadata"),
                    owners = json_get(&owner_meta, "ownerReferences"), first = json_at(&owners, 0);
        const char *job;
        cr_assert_eq(json_str(&first, "name", &job, NULL), 0);
        char *have =
            cluster_at(m, KIND_CONFIGMAP, object_namespace(pod), job, "data", "SAMPAN_PEERS", NULL);
        char *quoted = xasprintf("\"%s\"", want ? want : "");
        bool held = !*have || strcmp(have, quoted) != 0;
        free(have);
        free(quoted);
        return held;
    }
    return false;
}

static bool step_pod(struct cluster *m, struct cluster_object *o)
{
    cleanup_json struct json_doc *doc = parse(o->text);
    struct json pod = json_root(doc);
    char *phase = text_at(&pod, "status", "phase", NULL);
    char *node = text_at(&pod, "spec", "nodeName", NULL);
    bool moved = true;
    if (!*node)
        mergef(&o->text,
               "{\"spec\":{\"nodeName\":\"n\"},\"status\":{\"phase\":\"Pending\",\"podIP\":"
               "\"10.0.0.%u\"}}",
               ++m->address);
    else if (strcmp(phase, "Pending") == 0 && !is_held(m, &pod))
        mergef(&o->text, "{\"status\":{\"phase\":\"Running\",\"initContainerStatuses\":[{\"name\":"
                         "\"sampan-barrier\",\"state\":{\"terminated\":{\"exitCode\":0}}}],"
                         "\"containerStatuses\":[{\"ready\":true}]}}");
    else
        moved = false;
    free(phase);
    free(node);
    if (moved)
        touch(m, o);
    return moved;
}

/* Kubernetes' controller of volumes; before the kubelet looks. */
static bool bind_claims(struct cluster *m)
{
    bool moved = false;
    for (size_t i = 0; i < m->n; i++) {
        if (m->items[i].kind != KIND_PVC || strstr(m->items[i].text, "\"Bound\""))
            continue;
        mergef(&m->items[i].text, "{\"status\":{\"phase\":\"Bound\"}}");
        touch(m, &m->items[i]);
        moved = true;
    }
    return moved;
}

bool cluster_kubelet(struct cluster *m)
{
    bool moved = bind_claims(m);
    for (size_t i = 0; i < m->n; i++) {
        if (m->items[i].kind != KIND_POD)
            continue;
        if (strstr(m->items[i].text, "\"deletionTimestamp\"")) {
            remove_at(m, i--);
            moved = true;
        } else {
            moved = step_pod(m, &m->items[i]) || moved;
        }
    }
    return moved;
}

void cluster_end_pod(struct cluster *m, const char *ns, const char *name, int code)
{
    struct cluster_object *o = find(m, KIND_POD, ns, name);
    cr_assert(o, "%s", name);
    mergef(&o->text,
           "{\"status\":{\"phase\":\"%s\",\"containerStatuses\":[{\"ready\":false,\"state\":{"
           "\"terminated\":{\"exitCode\":%d,\"finishedAt\":\"1970-01-01T00:00:00Z\"}}}]}}",
           code ? "Failed" : "Succeeded", code);
    touch(m, o);
}

/* --- what is there ---------------------------------------------------------------------------- */

static int by_name(const void *a, const void *b)
{
    const struct cluster_object *x = *(const struct cluster_object *const *)a,
                                *y = *(const struct cluster_object *const *)b;
    if (x->kind != y->kind)
        return x->kind < y->kind ? -1 : 1;
    int ns = strcmp(x->ns ? x->ns : "", y->ns ? y->ns : "");
    return ns ? ns : strcmp(x->name, y->name);
}

/* Blanks what follows each of these marks up to the next quote. */
static void blank(char *text)
{
    static const char *const marks[] = {"\"uid\":\"",
                                        "\"resourceVersion\":\"",
                                        "\"podIP\":\"",
                                        "\"sampan.io/owner\":\"",
                                        "\"sampan.io/peers\":\"",
                                        "\"SAMPAN_PEERS\":\"",
                                        "\"sampan.io/made-of\":\"",
                                        "10.0.0."};
    for (size_t i = 0; i < sizeof marks / sizeof marks[0]; i++)
        for (char *at = text; (at = strstr(at, marks[i]));) {
            at += strlen(marks[i]);
            for (char *c = at; *c && *c != '"' && *c != ',' && *c != ':'; c++)
                *c = '_';
        }
}

void cluster_dump(const struct cluster *m, struct bytes *out)
{
    const struct cluster_object **sorted = xcalloc(m->n + 1, sizeof(*sorted));
    for (size_t i = 0; i < m->n; i++)
        sorted[i] = &m->items[i];
    qsort(sorted, m->n, sizeof(*sorted), by_name);
    for (size_t i = 0; i < m->n; i++) {
        char *text = xstrdup(sorted[i]->text);
        blank(text);
        bytes_addf(out, "%s\n", text);
        free(text);
    }
    free(sorted);
}
