/* Objects that decisions make and keep as they should be. */
#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "hash.h"
#include "mem.h"
#include "object.h"
#include "parts.h"

/* "SUM.GENERATION": what a child was made of, and the generation that it has by our own writes. */
#define SUM_ANNOTATION "sampan.io/made-of"
#define SUM_CHARS      16

/* --- the difference of two nodes -------------------------------------------------------------- */

static bool is_object(const struct json *j)
{
    return j->node && json_want_object(j, NULL) == 0;
}

static void write_diff(const struct json *have, const struct json *want, struct json_writer *w)
{
    for (size_t i = 0; i < json_count(have); i++) {
        struct json old = json_member(have, i);
        if (!json_get(want, old.key).node)
            jw_raw(w, old.key, "null");
    }
    for (size_t i = 0; i < json_count(want); i++) {
        struct json new = json_member(want, i), old = json_get(have, new.key);
        if (old.node && json_same(&old, &new))
            continue;
        if (is_object(&old) && is_object(&new)) {
            jw_object(w, new.key);
            write_diff(&old, &new, w);
            jw_end(w);
            continue;
        }
        cleanup_bytes struct bytes text = {0};
        json_text(&new, &text);
        jw_raw(w, new.key, text.data);
    }
}

/* The merge patch that makes `have` into `want`: members that differ, null for those that `want`
 * lacks. False: nothing differs, and nothing is written. Either node may be absent. */
static bool part_diff(const struct json *have, const struct json *want, struct bytes *out)
{
    struct json_writer w;
    if (is_object(have) && json_same(have, want))
        return false;
    jw_init(&w, out);
    jw_object(&w, NULL);
    write_diff(have, want, &w);
    jw_end(&w);
    return true;
}

/* Does `have` say all that `want` does? What it has beside that is the API server's, or others'. */
static bool holds(const struct json *have, const struct json *want)
{
    bool object = is_object(want), array = want->node && json_want_array(want, NULL) == 0;
    size_t n = json_count(want);
    if (!object && !array)
        return json_same(have, want);
    if (object ? !is_object(have) : json_count(have) != n)
        return false;
    for (size_t i = 0; i < n; i++) {
        struct json sub = object ? json_member(want, i) : json_at(want, i);
        struct json old = object ? json_get(have, sub.key) : json_at(have, i);
        if (!holds(&old, &sub))
            return false;
    }
    return true;
}

/* --- children --------------------------------------------------------------------------------- */

bool part_is_child(const struct json *object, const struct json *owner)
{
    const char *label = object_label(object, PART_OWNER_LABEL), *uid = object_uid(owner);
    return label && uid && strcmp(label, uid) == 0;
}

static void api_version_of(enum kind kind, struct bytes *out)
{
    bytes_addf(out, "%s%s%s", kinds[kind].group, *kinds[kind].group ? "/" : "",
               kinds[kind].version);
}

static void write_owner(struct json_writer *w, enum kind kind, const struct json *owner)
{
    cleanup_bytes struct bytes version = {0};
    assert(kind < KIND_N);
    api_version_of(kind, &version);
    jw_array(w, "ownerReferences");
    jw_object(w, NULL);
    jw_str(w, "apiVersion", version.data);
    jw_str(w, "kind", kinds[kind].kind);
    jw_str(w, "name", object_name(owner));
    jw_str(w, "uid", object_uid(owner));
    jw_bool(w, "controller", true);
    jw_bool(w, "blockOwnerDeletion", true);
    jw_end(w);
    jw_end(w);
}

static void write_pairs(struct json_writer *w, const struct part_pair *pairs, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (pairs[i].value)
            jw_str(w, pairs[i].key, pairs[i].value);
}

static void write_labels(struct json_writer *w, const struct json *owner,
                         const struct part_child *child)
{
    jw_object(w, "labels");
    jw_str(w, MANAGED_KEY, MANAGED_BY);
    jw_str(w, PART_OWNER_LABEL, object_uid(owner));
    write_pairs(w, child->labels, child->n_labels);
    jw_end(w);
}

static void write_annotations(struct json_writer *w, const struct part_child *child,
                              const char *sum)
{
    jw_object(w, "annotations");
    write_pairs(w, child->annotations, child->n_annotations);
    jw_str(w, SUM_ANNOTATION, sum);
    jw_end(w);
}

/* "metadata": name, namespace, labels, annotations, the owner reference. */
static void write_metadata(struct json_writer *w, const struct view *v,
                           const struct part_child *child, const char *sum)
{
    jw_object(w, "metadata");
    jw_str(w, "name", child->name);
    if (child->ns)
        jw_str(w, "namespace", child->ns);
    write_labels(w, view_object(v), child);
    write_annotations(w, child, sum);
    if (!child->orphan)
        write_owner(w, view_kind(v), view_object(v));
    jw_end(w);
}

static void write_members(struct json_writer *w, const struct json *members)
{
    for (size_t i = 0; i < json_count(members); i++) {
        struct json m = json_member(members, i);
        cleanup_bytes struct bytes text = {0};
        json_text(&m, &text);
        jw_raw(w, m.key, text.data);
    }
}

static void write_whole(const struct view *v, const struct part_child *child,
                        const struct json *members, const char *sum, struct bytes *out)
{
    cleanup_bytes struct bytes version = {0};
    struct json_writer w;
    api_version_of(child->kind, &version);
    jw_init(&w, out);
    jw_object(&w, NULL);
    jw_str(&w, "apiVersion", version.data);
    jw_str(&w, "kind", kinds[child->kind].kind);
    write_metadata(&w, v, child, sum);
    write_members(&w, members);
    jw_end(&w);
}

/* Labels and annotations are added to those that are there; of the rest, what `members` has is
 * made what it says, whole. */
static void write_patch(const struct json *owner, const struct part_child *child,
                        const struct json *have, const struct json *members, const char *sum,
                        struct bytes *out)
{
    struct json_writer w;
    jw_init(&w, out);
    jw_object(&w, NULL);
    jw_object(&w, "metadata");
    write_labels(&w, owner, child);
    write_annotations(&w, child, sum);
    jw_end(&w);
    for (size_t i = 0; i < json_count(members); i++) {
        struct json want = json_member(members, i), old = json_get(have, want.key);
        cleanup_bytes struct bytes text = {0};
        if (is_object(&want) && part_diff(&old, &want, &text))
            jw_raw(&w, want.key, text.data);
    }
    jw_end(&w);
}

/* The sum alone: SUM_CHARS of them. */
static void sum_of(const struct part_child *child, char ret[65])
{
    cleanup_bytes struct bytes all = {0};
    for (size_t i = 0; i < child->n_labels; i++)
        bytes_addf(&all, "%s=%s\n", child->labels[i].key,
                   child->labels[i].value ? child->labels[i].value : "");
    for (size_t i = 0; i < child->n_annotations; i++)
        bytes_addf(&all, "%s:%s\n", child->annotations[i].key,
                   child->annotations[i].value ? child->annotations[i].value : "");
    bytes_add(&all, child->members.data, child->members.len);
    sha256_hex(ret, all.data, all.len);
    ret[SUM_CHARS] = '\0';
}

static int64_t generation_of(const struct json *o)
{
    struct json meta = json_get(o, "metadata");
    return part_int(&meta, "generation");
}

/*
 * Has somebody changed what we said in it? The API server may write a value in another way ("1000m"
 * as "1"): that is no change, so where it counts changes those since our last write are looked at.
 */
static bool is_edited(const struct json *have, const struct json *members, const char *made_of)
{
    int64_t now = generation_of(have);
    if (now && made_of[SUM_CHARS] == '.' && now <= strtoll(made_of + SUM_CHARS + 1, NULL, 10))
        return false;
    return !holds(have, members);
}

static enum part_child_state want(struct view *v, struct actions *out,
                                  const struct part_child *child, const struct json *members)
{
    const struct json *owner = view_object(v);
    const struct json *have = view_get(v, child->kind, child->ns, child->name);
    char hash[65];
    sum_of(child, hash);
    cleanup_free char *sum =
        xasprintf("%s.%" PRId64, hash, have ? generation_of(have) + 1 : INT64_C(1));
    if (view_incomplete(v))
        return PART_CREATED;
    if (!have) {
        struct action *a = act_create(out, child->kind, child->ns, child->name);
        a->alone = child->alone;
        write_whole(v, child, members, sum, &a->body);
        return PART_CREATED;
    }
    if (!part_is_child(have, owner))
        return PART_FOREIGN;
    if (object_is_deleted(have))
        return PART_GOING;
    const char *was = object_annotation(have, SUM_ANNOTATION);
    if (child->fixed ||
        (was && strncmp(was, hash, SUM_CHARS) == 0 && !is_edited(have, members, was)))
        return PART_THERE;
    struct action *a = act_patch(out, child->kind, child->ns, child->name, object_version(have));
    write_patch(owner, child, have, members, sum, &a->body);
    return PART_CREATED;
}

enum part_child_state part_want(struct view *v, struct actions *out, struct part_child *child)
{
    cleanup_json struct json_doc *doc = NULL;
    enum part_child_state state = PART_BAD;
    if (json_parse(&doc, child->name, child->members.data, child->members.len, NULL) == 0) {
        struct json members = json_root(doc);
        state = want(v, out, child, &members);
    }
    bytes_release(&child->members);
    return state;
}

/* --- finalizers ------------------------------------------------------------------------------- */

bool part_has_finalizer(const struct json *o, const char *name)
{
    struct json meta = json_get(o, "metadata"), list = json_get(&meta, "finalizers");
    for (size_t i = 0; i < json_count(&list); i++) {
        struct json item = json_at(&list, i);
        const char *text;
        if (json_as_str(&item, &text, NULL) == 0 && strcmp(text, name) == 0)
            return true;
    }
    return false;
}

static void patch_finalizers(struct view *v, enum kind kind, const char *name, bool there,
                             struct actions *out)
{
    const struct json *o = view_object(v);
    struct json meta = json_get(o, "metadata"), list = json_get(&meta, "finalizers");
    struct action *a = act_patch(out, kind, object_namespace(o), object_name(o), object_version(o));
    struct json_writer w;
    jw_init(&w, &a->body);
    jw_object(&w, NULL);
    jw_object(&w, "metadata");
    jw_array(&w, "finalizers");
    for (size_t i = 0; i < json_count(&list); i++) {
        struct json item = json_at(&list, i);
        const char *text = "";
        json_as_str(&item, &text, NULL);
        if (strcmp(text, name) != 0)
            jw_str(&w, NULL, text);
    }
    if (there)
        jw_str(&w, NULL, name);
    jw_end(&w);
    jw_end(&w);
    jw_end(&w);
}

void part_add_finalizer(struct view *v, enum kind kind, const char *name, struct actions *out)
{
    if (!part_has_finalizer(view_object(v), name))
        patch_finalizers(v, kind, name, true, out);
}

void part_drop_finalizer(struct view *v, enum kind kind, const char *name, struct actions *out)
{
    if (part_has_finalizer(view_object(v), name))
        patch_finalizers(v, kind, name, false, out);
}

/* --- status ----------------------------------------------------------------------------------- */

void part_status(struct view *v, enum kind kind, const struct bytes *status, struct actions *out)
{
    const struct json *o = view_object(v);
    cleanup_json struct json_doc *doc = NULL;
    cleanup_bytes struct bytes patch = {0};
    if (json_parse(&doc, "status", status->data, status->len, NULL))
        abort(); /* base's writer made it, of texts and numbers alone */
    struct json want = json_root(doc), have = json_get(o, "status");
    if (!part_diff(&have, &want, &patch))
        return;
    struct action *a =
        act_status(out, kind, object_namespace(o), object_name(o), object_version(o));
    bytes_addf(&a->body, "{\"status\":%s}", patch.data);
}
