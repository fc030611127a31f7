/* Actions become requests. What the cache shows to be done already is not asked for again. */
#define LOG_MODULE "apply"
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "mem.h"
#include "object.h"
#include "operator-internal.h"
#include "parts.h"

#define SEND_NS  (10 * NS_PER_S)
#define BODY_MAX (8u << 20)

/* An object that a step before has changed from the version that was decided on to a newer one: the
 * decision was about all of that, so its later steps go by the newer one. */
struct written {
    char *from, *to; /* NULL: the step wrote nothing by a version */
};

/* One action under way. */
struct step {
    struct operator* op;
    const struct controller *controller;
    const struct json *about;
    const struct action *action;
    struct applied *applied;
    const struct actions *actions;
    struct written *written; /* as many as actions */
    const char *version;     /* of the action, as it is now */
};

static int ask(const struct step *s, enum http_method method, const char *path,
               const struct bytes *body, struct json_doc **ret, struct kube_answer *answer,
               struct err *err)
{
    const struct kube_request r = {.method = method, .path = path, .body = body};
    return kube_ask(s->op->conf.client, &r, ret, answer, err);
}

/* What the API server gave back goes into the cache at once. */
static void keep(const struct step *s, struct json_doc *doc)
{
    enum kind kind = s->action->kind;
    struct json root = doc ? json_root(doc) : (struct json){0};
    const char *version = doc ? object_version(&root) : NULL;
    if (version && s->action->version && !s->applied->conflict) {
        struct written *w = &s->written[s->action - s->actions->items];
        w->from = xstrdup(s->action->version);
        w->to = xstrdup(version);
    }
    /* Named as the watch names it: what is said of it does not depend on who brought it. */
    if (doc && operator_watches(s->op, kind))
        cache_put(s->op->cache, kind, object_new(kind, json_doc_of(&root, kinds[kind].kind)));
    json_doc_free(doc);
}

/* --- create ----------------------------------------------------------------------------------- */

static bool owned_by(const struct json *o, const struct json *owner)
{
    const char *uid = object_uid(owner), *is;
    struct json meta = json_get(o, "metadata"), refs = json_get(&meta, "ownerReferences");
    for (size_t i = 0, n = json_count(&refs); uid && i < n; i++) {
        struct json ref = json_at(&refs, i);
        if (json_str(&ref, "uid", &is, NULL) == 0 && strcmp(is, uid) == 0)
            return true;
    }
    return false;
}

/* The name is taken. By ourselves, in a life whose answer got lost: fine. By somebody else: the
 * next decision sees the object and says so. */
static int meet_existing(const struct step *s, struct err *err)
{
    const struct action *x = s->action;
    cleanup_free char *path = kind_path(x->kind, x->ns, x->name);
    struct json_doc *doc = NULL;
    struct kube_answer answer;
    if (ask(s, HTTP_GET, path, NULL, &doc, &answer, err) || !doc)
        return -1;
    struct json root = json_root(doc);
    bool managed = object_is_managed(&root), owned = owned_by(&root, s->about);
    err_clear(err);
    if (managed || !operator_watches(s->op, x->kind)) {
        keep(s, doc);
        s->applied->again_s = s->applied->again_s ? s->applied->again_s : 1;
        return 0;
    }
    cache_foreign(s->op->cache, x->kind, object_new(x->kind, doc));
    if (owned)
        return 0;
    s->applied->conflict = true; /* what we knew was wrong; no advice to the user is needed here */
    return err_set(
        err, ERR_STALE,
        "create %s %s: the name is taken by an object that is not ours (rename or delete "
        "it)",
        kinds[x->kind].kind, x->name);
}

static int create(const struct step *s, struct err *err)
{
    const struct action *x = s->action;
    cleanup_free char *path = kind_path(x->kind, x->ns, NULL);
    struct json_doc *doc = NULL;
    struct kube_answer answer;
    if (ask(s, HTTP_POST, path, &x->body, &doc, &answer, err) == 0) {
        keep(s, doc);
        return 0;
    }
    if (answer.status == 409 && strcmp(answer.reason, "AlreadyExists") == 0)
        return meet_existing(s, err);
    return -1;
}

/* --- patch ------------------------------------------------------------------------------------ */

/* The patch, with the version that it was decided on in its metadata. */
static void add_version(const struct json *patch, const char *version, struct bytes *out)
{
    struct json_writer w;
    struct json meta = json_get(patch, "metadata");
    jw_init(&w, out);
    jw_object(&w, NULL);
    jw_object(&w, "metadata");
    jw_str(&w, "resourceVersion", version);
    for (size_t i = 0, n = json_count(&meta); i < n; i++) {
        struct json member = json_member(&meta, i);
        cleanup_bytes struct bytes text = {0};
        json_text(&member, &text);
        if (strcmp(member.key, "resourceVersion") != 0)
            jw_raw(&w, member.key, text.data);
    }
    jw_end(&w);
    for (size_t i = 0, n = json_count(patch); i < n; i++) {
        struct json member = json_member(patch, i);
        cleanup_bytes struct bytes text = {0};
        json_text(&member, &text);
        if (strcmp(member.key, "metadata") != 0)
            jw_raw(&w, member.key, text.data);
    }
    jw_end(&w);
}

/* Our picture is old: the newest one is fetched, so that the next decision is about that. */
static int conflict(const struct step *s)
{
    const struct action *x = s->action;
    cleanup_free char *path = kind_path(x->kind, x->ns, x->name);
    struct json_doc *doc = NULL;
    struct kube_answer answer;
    s->applied->conflict = true;
    if (operator_watches(s->op, x->kind) && ask(s, HTTP_GET, path, NULL, &doc, &answer, NULL) == 0)
        keep(s, doc);
    return -1;
}

enum worth { WORTH_SENDING, WORTH_NOTHING, WORTH_A_CONFLICT };

static enum worth worth_of(const struct step *s, const struct json *patch)
{
    const struct action *x = s->action;
    if (!operator_watches(s->op, x->kind))
        return WORTH_SENDING;
    struct object *known = cache_get(s->op->cache, x->kind, x->ns, x->name);
    enum worth worth = WORTH_SENDING;
    if (known && s->version && strcmp(object_version(&known->root), s->version) != 0)
        worth = WORTH_A_CONFLICT;
    else if (known && !json_patch_changes(&known->root, patch))
        worth = WORTH_NOTHING;
    object_unref(known);
    return worth;
}

static int send_patch(const struct step *s, const struct json *patch, struct err *err)
{
    const struct action *x = s->action;
    cleanup_free char *name = xasprintf("%s%s", x->name, x->type == ACTION_STATUS ? "/status" : "");
    cleanup_free char *path = kind_path(x->kind, x->ns, name);
    cleanup_bytes struct bytes body = {0};
    struct json_doc *doc = NULL;
    struct kube_answer answer;
    if (s->version)
        add_version(patch, s->version, &body);
    else
        bytes_add(&body, x->body.data, x->body.len);
    if (ask(s, HTTP_PATCH, path, &body, &doc, &answer, err) == 0) {
        keep(s, doc);
        return 0;
    }
    if (answer.status == 404) {
        s->applied->conflict = true; /* it is gone: the watch will say so */
        return -1;
    }
    return answer.status == 409 ? conflict(s) : -1;
}

static int patch(const struct step *s, struct err *err)
{
    cleanup_json struct json_doc *doc = NULL;
    if (json_parse(&doc, "patch", s->action->body.data, s->action->body.len, err))
        return -1;
    struct json root = json_root(doc);
    switch (worth_of(s, &root)) {
    case WORTH_NOTHING:
        counter_add(&s->op->unchanged, 1);
        return 0;
    case WORTH_A_CONFLICT:
        s->applied->conflict = true;
        return err_set(err, ERR_STALE, "%s %s changed meanwhile", kinds[s->action->kind].kind,
                       s->action->name);
    default:
        return send_patch(s, &root, err);
    }
}

/* --- the others ------------------------------------------------------------------------------- */

static int delete (const struct step *s, struct err *err)
{
    const struct action *x = s->action;
    cleanup_free char *path = kind_path(x->kind, x->ns, x->name);
    cleanup_bytes struct bytes body = {0};
    struct json_doc *doc = NULL;
    struct kube_answer answer;
    struct json_writer w;
    jw_init(&w, &body);
    jw_object(&w, NULL);
    jw_str(&w, "apiVersion", "v1");
    jw_str(&w, "kind", "DeleteOptions");
    jw_str(&w, "propagationPolicy", "Background");
    if (x->uid) {
        jw_object(&w, "preconditions");
        jw_str(&w, "uid", x->uid);
        jw_end(&w);
    }
    jw_end(&w);
    int result = ask(s, HTTP_DELETE, path, &body, &doc, &answer, err);
    if (result && answer.status != 404 && answer.status != 409)
        return -1;
    if (result)
        err_clear(err); /* it is gone, or another one has its name */
    struct json root = doc ? json_root(doc) : (struct json){0};
    if (doc && object_is_deleted(&root)) {
        keep(s, doc); /* it waits for its finalizers */
        return 0;
    }
    json_doc_free(doc);
    if (operator_watches(s->op, x->kind) && answer.status != 409)
        cache_gone(s->op->cache, x->kind, x->ns, x->name, x->uid);
    return 0;
}

static int tell(const struct step *s, struct err *err)
{
    const struct action *x = s->action;
    struct err why = {0};
    (void)err;
    if (event_tell(s->op->events, s->controller->kind, s->about, x->warning, x->reason, x->message,
                   &why))
        log_warn(s->op->conf.log, "event not told: %s", why.msg);
    return 0; /* events are for people: nothing waits for one */
}

int ask_server(struct operator* op, enum http_method method, const char *url, const char *header,
               const struct bytes *body, uint64_t timeout_ns, struct http_answer *ret,
               struct bytes *ret_body, struct err *err)
{
    const struct http_peer peer = {.ca_file = op->conf.server_ca_file, .proxy = ""};
    cleanup_http_req struct http_req r;
    http_req_init(&r, method);
    bytes_add_str(&r.url, url);
    const char *value = header ? strstr(header, ": ") : NULL;
    if (value) {
        cleanup_free char *name = xstrndup(header, (size_t)(value - header));
        http_header(&r, name, "%s", value + 2);
    }
    cleanup_free char *token =
        op->conf.config.token_key ? part_url_token(op->conf.config.token_key, url) : NULL;
    if (token) {
        http_header(&r, "Authorization", "Bearer %s", token);
        explicit_bzero(token, strlen(token));
    }
    if (body && body->len) {
        http_header(&r, "Content-Type", "%s", "application/json");
        r.body = body->data;
        r.body_len = body->len;
    }
    return http_do(&r, &peer, timeout_ns, BODY_MAX, ret, ret_body, err);
}

static int method_of(const char *name, enum http_method *ret, struct err *err)
{
    static const struct {
        const char *name;
        enum http_method method;
    } rows[] = {{"GET", HTTP_GET},       {"PUT", HTTP_PUT},     {"POST", HTTP_POST},
                {"DELETE", HTTP_DELETE}, {"PATCH", HTTP_PATCH}, {"HEAD", HTTP_HEAD}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (strcmp(rows[i].name, name) == 0) {
            *ret = rows[i].method;
            return 0;
        }
    return err_set(err, ERR_BUG, "send: %s: no method", name);
}

static int send_to(const struct step *s, enum http_method method, const char *url, struct err *err)
{
    const struct action *x = s->action;
    cleanup_bytes struct bytes body = {0};
    struct http_answer answer;
    uint64_t now = clock_mono_ns(), until = lead_write_until(s->op->conf.lead);
    if (until <= now)
        return err_set(err, ERR_CANCELLED, "%s %s: not sent: another operator may lead now",
                       x->method, url);
    uint64_t timeout = until - now < SEND_NS ? until - now : SEND_NS;
    if (ask_server(s->op, method, url, x->header, &x->body, timeout, &answer, &body, err))
        return -1;
    if (answer.status / 100 == 2 || (answer.status == 404 && method == HTTP_DELETE))
        return 0;
    return err_set(err, answer.status >= 500 ? ERR_TRANSIENT : ERR_FAILED, "%s %s: %d: %.200s",
                   x->method, url, answer.status, body.data ? body.data : "");
}

/* Whoever is asked after one that may have taken it finds it done: that is harmless (actions.h). */
static int send_to_server(const struct step *s, struct err *err)
{
    enum http_method method = HTTP_GET;
    int result = method_of(s->action->method, &method, err);
    for (const char *at = s->action->url; !result && *at;) {
        size_t len = strcspn(at, " ");
        cleanup_free char *url = xstrndup(at, len);
        struct err why = {0};
        at += len + (at[len] == ' ');
        if (send_to(s, method, url, &why) == 0)
            return 0;
        bool gone_on = *at && why.class != ERR_FAILED && why.class != ERR_CANCELLED;
        if (gone_on)
            log_warn(s->op->conf.log, "%s; the next one is asked", why.msg);
        else
            result = err_set(err, why.class, "%s", why.msg);
    }
    return result;
}

/* --- all of them ------------------------------------------------------------------------------ */

static int again(const struct step *s, struct err *err)
{
    unsigned *at = &s->applied->again_s, after = s->action->after_s ? s->action->after_s : 1;
    (void)err;
    *at = *at && *at < after ? *at : after;
    return 0;
}

static bool is_refusal(const struct err *why)
{
    return why->class == ERR_USAGE || why->class == ERR_DENIED;
}

/* What the API server will refuse again and again, the user must hear of; and whatever keeps etcd
 * or a runtime server from taking what it is sent, since nothing else of the object says it. */
static void tell_refusal(const struct step *s, const struct err *why)
{
    struct err err = {0};
    bool unsent = s->action->type == ACTION_SEND && why->class != ERR_CANCELLED;
    if (s->action->type == ACTION_EVENT || (!is_refusal(why) && !unsent))
        return;
    if (event_tell(s->op->events, s->controller->kind, s->about, true,
                   unsent ? "NotTaken" : "Refused", why->msg, &err))
        log_warn(s->op->conf.log, "event not told: %s", err.msg);
}

static const char *version_now(const struct actions *actions, const struct written *written,
                               const struct action *x)
{
    const char *version = x->version;
    for (const struct action *before = actions->items; version && before < x; before++) {
        const struct written *w = &written[before - actions->items];
        if (w->from && strcmp(w->from, x->version) == 0 && before->kind == x->kind &&
            strcmp(before->name, x->name) == 0 &&
            strcmp(before->ns ? before->ns : "", x->ns ? x->ns : "") == 0)
            version = w->to;
    }
    return version;
}

int apply_actions(struct operator* op, const struct controller *c, const struct json *about,
                  const struct actions *actions, struct applied *ret, struct err *err)
{
    static int (*const carry_out[])(const struct step *, struct err *) = {
        [ACTION_CREATE] = create, [ACTION_PATCH] = patch, [ACTION_STATUS] = patch,
        [ACTION_DELETE] = delete, [ACTION_EVENT] = tell,  [ACTION_SEND] = send_to_server,
        [ACTION_AGAIN] = again,
    };
    *ret = (struct applied){0};
    struct written *written = xcalloc(actions->n + 1, sizeof *written);
    int result = 0;
    bool goes_on = true;
    for (size_t i = 0; i < actions->n && goes_on; i++) {
        struct err why = {0};
        const struct action *x = &actions->items[i];
        const struct step s = {op,  c,       about,   x,
                               ret, actions, written, version_now(actions, written, x)};
        counter_add(&op->actions[x->type], 1);
        if (carry_out[x->type](&s, &why) == 0)
            continue;
        tell_refusal(&s, &why);
        goes_on = x->alone && is_refusal(&why);
        result = err_set(err, why.class, "%s", why.msg);
    }
    for (size_t i = 0; i < actions->n; i++) {
        free(written[i].from);
        free(written[i].to);
    }
    free(written);
    return result;
}
