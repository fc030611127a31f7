/* A view of a text: all its objects are known, and so are all answers. Actions as a text. */
#include "as-text.h"

#include <string.h>

#include "mem.h"
#include "object.h"
#include "view-internal.h"

struct answer {
    struct view_answer answer;
    char *url;
};

/* Views of nodes lead to their parents by pointer: what is parsed stays where it is. */
struct facts {
    struct json_doc *doc;
    struct json root, object, list, replies;
    struct json *objects;
    size_t n_objects;
    struct json *replies_of; /* by URL: parents of the bodies */
    struct answer *answers;
    size_t n_answers;
};

static void facts_free(void *arg)
{
    struct facts *f = arg;
    for (size_t i = 0; i < f->n_answers; i++)
        free(f->answers[i].url);
    free(f->answers);
    free(f->replies_of);
    free(f->objects);
    json_doc_free(f->doc);
    free(f);
}

enum kind object_kind(const struct json *o)
{
    const char *version, *kind;
    if (json_str(o, "apiVersion", &version, NULL) || json_str(o, "kind", &kind, NULL))
        return KIND_N;
    return kind_of(version, kind);
}

static bool same(const char *a, const char *b)
{
    return strcmp(a ? a : "", b ? b : "") == 0;
}

static bool facts_get(void *arg, enum kind kind, const char *ns, const char *name,
                      const struct json **ret)
{
    const struct facts *f = arg;
    for (size_t i = 0; i < f->n_objects; i++) {
        const struct json *o = &f->objects[i];
        if (object_kind(o) == kind && same(object_name(o), name) && same(object_namespace(o), ns))
            *ret = o;
    }
    return true;
}

static void facts_list(void *arg, enum kind kind, const char *ns, const char *key,
                       const char *value, void (*add)(void *to, const struct json *object),
                       void *to)
{
    const struct facts *f = arg;
    for (size_t i = 0; i < f->n_objects; i++)
        if (object_kind(&f->objects[i]) == kind && object_matches(&f->objects[i], ns, key, value))
            add(to, &f->objects[i]);
}

static bool facts_fetch(void *arg, const char *url, const struct view_answer **ret)
{
    static const struct view_answer none = {.error = "the test gives no answer"};
    const struct facts *f = arg;
    *ret = &none;
    for (size_t i = 0; i < f->n_answers; i++)
        if (strcmp(f->answers[i].url, url) == 0)
            *ret = &f->answers[i].answer;
    return true;
}

static const struct view_source source = {facts_get, facts_list, facts_fetch, facts_free};

static int read_objects(struct facts *f, struct err *err)
{
    f->n_objects = json_count(&f->list) + 1;
    f->objects = xcalloc(f->n_objects, sizeof *f->objects);
    f->objects[0] = f->object;
    for (size_t i = 1; i < f->n_objects; i++)
        f->objects[i] = json_at(&f->list, i - 1);
    for (size_t i = 0; i < f->n_objects; i++) {
        cleanup_bytes struct bytes path = {0};
        json_path(&f->objects[i], &path);
        if (object_kind(&f->objects[i]) == KIND_N)
            return err_set(err, ERR_USAGE, "%s: no apiVersion and kind that kinds.c has",
                           path.data);
        if (!object_name(&f->objects[i]))
            return err_set(err, ERR_USAGE, "%s: no metadata.name", path.data);
    }
    return 0;
}

static int read_answers(struct facts *f, struct err *err)
{
    f->n_answers = json_count(&f->replies);
    f->answers = xcalloc(f->n_answers + 1, sizeof *f->answers);
    f->replies_of = xcalloc(f->n_answers + 1, sizeof *f->replies_of);
    for (size_t i = 0; i < f->n_answers; i++) {
        struct json *reply = &f->replies_of[i];
        struct view_answer *a = &f->answers[i].answer;
        int64_t status;
        *reply = json_member(&f->replies, i);
        f->answers[i].url = xstrdup(reply->key);
        if (json_int_or(reply, "status", 0, 599, 200, &status, err) ||
            json_str_or(reply, "error", status ? NULL : "no answer", &a->error, err))
            return -1;
        a->status = (int)status;
        a->body = json_get(reply, "body");
    }
    return 0;
}

int view_of_text(struct view **ret, const char *text, struct err *err)
{
    struct facts *f = xcalloc(1, sizeof *f);
    int64_t now = 0;
    if (json_parse(&f->doc, "view", text, strlen(text), err))
        goto fail;
    f->root = json_root(f->doc);
    f->object = json_get(&f->root, "object");
    f->list = json_get(&f->root, "objects");
    f->replies = json_get(&f->root, "answers");
    static const char *const keys[] = {"now", "object", "objects", "answers", NULL};
    if (json_only_keys(&f->root, keys, err) || json_want_object(&f->object, err) ||
        json_int_or(&f->root, "now", 0, INT64_MAX, 0, &now, err) || read_objects(f, err) ||
        read_answers(f, err))
        goto fail;
    *ret = view_new(&source, f, object_kind(&f->object), &f->object, now);
    return 0;
fail:
    facts_free(f);
    return -1;
}

/* --- actions --------------------------------------------------------------------------------- */

static void add_body(const struct action *x, struct bytes *out)
{
    if (x->body.len)
        bytes_addf(out, " %s", x->body.data);
}

static void add_object(const char *verb, const struct action *x, struct bytes *out)
{
    bytes_addf(out, "%s %s %s%s%s", verb, kinds[x->kind].kind, x->ns ? x->ns : "", x->ns ? "/" : "",
               x->name);
    if (x->version)
        bytes_addf(out, " version=%s", x->version);
    if (x->uid)
        bytes_addf(out, " uid=%s", x->uid);
    add_body(x, out);
}

void actions_text(const struct actions *a, struct bytes *out)
{
    for (size_t i = 0; i < a->n; i++) {
        const struct action *x = &a->items[i];
        switch (x->type) {
        case ACTION_CREATE:
            add_object("create", x, out);
            break;
        case ACTION_PATCH:
            add_object("patch", x, out);
            break;
        case ACTION_STATUS:
            add_object("status", x, out);
            break;
        case ACTION_DELETE:
            add_object("delete", x, out);
            break;
        case ACTION_EVENT:
            bytes_addf(out, "event %s %s: %s", x->warning ? "Warning" : "Normal", x->reason,
                       x->message);
            break;
        case ACTION_SEND:
            bytes_addf(out, "send %s %s", x->method, x->url);
            if (x->header)
                bytes_addf(out, " [%s]", x->header);
            add_body(x, out);
            break;
        case ACTION_AGAIN:
            bytes_addf(out, "again %us", x->after_s);
            break;
        }
        bytes_add_char(out, '\n');
    }
}
