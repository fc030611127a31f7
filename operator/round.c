/*
 * One decision's facts: objects of the cache, held for as long as the round lasts, and what must be
 * asked for (secrets, runtime servers), asked between two passes.
 */
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "mem.h"
#include "object.h"
#include "operator-internal.h"
#include "view-internal.h"

#define FETCH_NS (5 * NS_PER_S)
#define BODY_MAX (8u << 20)

struct need {
    struct need *next;
    bool known;
    enum kind kind; /* KIND_N: a runtime server's URL */
    char *ns, *name;
    struct object *object; /* NULL: there is none */
    struct json_doc *doc;  /* of the answer */
    struct view_answer answer;
    char *error;
};

struct round {
    struct operator* op;
    struct need *needs;
    struct object **held;
    size_t n, room;
    bool met_foreign;
};

struct round *round_new(struct operator* op)
{
    struct round *r = xcalloc(1, sizeof *r);
    r->op = op;
    return r;
}

void round_free(struct round *r)
{
    for (size_t i = 0; i < r->n; i++)
        object_unref(r->held[i]);
    while (r->needs) {
        struct need *n = r->needs;
        r->needs = n->next;
        object_unref(n->object);
        json_doc_free(n->doc);
        free(n->ns);
        free(n->name);
        free(n->error);
        free(n);
    }
    free(r->held);
    free(r);
}

bool round_met_foreign(const struct round *r)
{
    return r->met_foreign;
}

static const struct json *hold(struct round *r, struct object *o)
{
    if (r->n == r->room) {
        r->room = r->room ? 2 * r->room : 32;
        r->held = xrealloc(r->held, r->room * sizeof(struct object *));
    }
    r->held[r->n++] = o;
    return &o->root;
}

static bool same(const char *a, const char *b)
{
    return strcmp(a ? a : "", b ? b : "") == 0;
}

static struct need *need_of(struct round *r, enum kind kind, const char *ns, const char *name)
{
    for (struct need *n = r->needs; n; n = n->next)
        if (n->kind == kind && same(n->ns, ns) && strcmp(n->name, name) == 0)
            return n;
    struct need *n = xcalloc(1, sizeof *n);
    n->kind = kind;
    n->ns = ns ? xstrdup(ns) : NULL;
    n->name = xstrdup(name);
    n->next = r->needs;
    r->needs = n;
    return n;
}

/* --- for the view ----------------------------------------------------------------------------- */

static bool round_get(void *arg, enum kind kind, const char *ns, const char *name,
                      const struct json **ret)
{
    struct round *r = arg;
    if (operator_watches(r->op, kind)) {
        struct object *o = cache_get(r->op->cache, kind, ns, name);
        if (!o)
            return true;
        *ret = hold(r, o);
        r->met_foreign |= watch_of[kind] != WATCH_ALL && !object_is_managed(*ret);
        return true;
    }
    const struct need *n = need_of(r, kind, ns, name);
    *ret = n->object ? &n->object->root : NULL;
    return n->known;
}

static void add_held(void *arg, struct object *o)
{
    hold(arg, o);
}

static int by_key(const void *a, const void *b)
{
    return strcmp((*(struct object *const *)a)->key, (*(struct object *const *)b)->key);
}

static void round_list(void *arg, enum kind kind, const char *ns, const char *key,
                       const char *value, void (*add)(void *to, const struct json *object),
                       void *to)
{
    struct round *r = arg;
    size_t from = r->n;
    cache_list(r->op->cache, kind, ns, key, value, add_held, r);
    /* Almost the order that a view wants, and cheap: it has to look into few objects then. */
    if (r->n > from)
        qsort(r->held + from, r->n - from, sizeof(struct object *), by_key);
    for (size_t i = from; i < r->n; i++)
        add(to, &r->held[i]->root);
}

static bool round_ask(void *arg, const char *url, const struct view_answer **ret)
{
    const struct need *n = need_of(arg, KIND_N, NULL, url);
    *ret = &n->answer;
    return n->known;
}

struct view *round_view(struct round *r, enum kind kind, const struct json *object)
{
    static const struct view_source source = {round_get, round_list, round_ask, NULL};
    return view_new(&source, r, kind, object, clock_wall_ns() / (int64_t)NS_PER_S);
}

/* --- between passes --------------------------------------------------------------------------- */

static int fetch_object(struct round *r, struct need *n, struct err *err)
{
    cleanup_free char *path = kind_path(n->kind, n->ns, n->name);
    struct json_doc *doc = NULL;
    struct kube_answer answer;
    const struct kube_request request = {.method = HTTP_GET, .path = path};
    if (kube_ask(r->op->conf.client, &request, &doc, &answer, err)) {
        if (answer.status != 404)
            return -1;
        err_clear(err);
    }
    n->object = doc ? object_new(n->kind, doc) : NULL;
    return 0;
}

static void fetch_answer(struct round *r, struct need *n)
{
    cleanup_bytes struct bytes body = {0};
    struct http_answer answer;
    struct err err = {0};
    if (ask_server(r->op, HTTP_GET, n->name, NULL, NULL, FETCH_NS, &answer, &body, &err)) {
        n->error = xstrdup(err.msg);
        n->answer.error = n->error;
        return;
    }
    n->answer.status = answer.status;
    if (body.len && body.len < BODY_MAX &&
        json_parse(&n->doc, "answer", body.data, body.len, NULL) == 0)
        n->answer.body = json_root(n->doc);
}

int round_fetch(struct round *r, struct err *err)
{
    for (struct need *n = r->needs; n; n = n->next) {
        if (n->known)
            continue;
        if (n->kind == KIND_N)
            fetch_answer(r, n);
        else if (fetch_object(r, n, err))
            return -1;
        n->known = true;
    }
    return 0;
}
