/* Names, conditions, statuses: what decisions about several kinds have in common. */
#include "parts.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hash.h"
#include "mem.h"
#include "object.h"
#include "zone.h"

#define RUNTIME_MAX  43 /* a StatefulSet's name is followed by a hash, its pods' by a number */
#define OLD_NAME_MAX 55
/* Sets that lie here are for everybody, unless they say for whom. */
#define COMMON_NAMESPACE "paddle-system"

/* --- JSON at hand ----------------------------------------------------------------------------- */

const char *part_text(const struct json *o, const char *key)
{
    const char *text;
    return json_str(o, key, &text, NULL) ? NULL : text;
}

const char *part_phase(const struct json *o)
{
    struct json status = json_get(o, "status");
    const char *phase = part_text(&status, "phase");
    return phase ? phase : "";
}

int64_t part_int(const struct json *o, const char *key)
{
    int64_t n;
    return json_int(o, key, INT64_MIN, INT64_MAX, &n, NULL) ? 0 : n;
}

bool part_flag(const struct json *o, const char *key)
{
    bool flag;
    return json_bool(o, key, &flag, NULL) == 0 && flag;
}

void part_time_text(int64_t unix_s, char ret[PART_TIME_BYTES])
{
    int64_t days = unix_s / 86400, second = unix_s % 86400, year;
    unsigned month, day;
    civil_date(days, &year, &month, &day);
    snprintf(ret, PART_TIME_BYTES, "%04d-%02u-%02uT%02d:%02d:%02dZ", (int)(year % 10000), month,
             day, (int)(second / 3600), (int)(second / 60 % 60), (int)(second % 60));
}

int64_t part_time(const char *text)
{
    unsigned year, month, day, hour, minute, second;
    int end = 0;
    if (!text ||
        sscanf(text, "%4u-%2u-%2uT%2u:%2u:%2u%n", &year, &month, &day, &hour, &minute, &second,
               &end) != 6 ||
        !end || month < 1 || month > 12 || day < 1 || day > 31)
        return -1;
    return civil_days(year, month, day) * 86400 + hour * 3600 + minute * 60 + second;
}

bool part_has_condition(const struct json *o, const char *type, const char *status)
{
    struct json of = json_get(o, "status"), all = json_get(&of, "conditions");
    for (size_t i = 0; i < json_count(&all); i++) {
        struct json c = json_at(&all, i);
        const char *t = part_text(&c, "type"), *s = part_text(&c, "status");
        if (t && s && strcmp(t, type) == 0 && strcmp(s, status) == 0)
            return true;
    }
    return false;
}

bool part_set_goes(const struct json *set)
{
    return object_is_deleted(set) && part_has_condition(set, PART_DELETION, "True");
}

#define NEW_S 5

bool part_is_new(struct view *v)
{
    struct json meta = json_get(view_object(v), "metadata");
    int64_t made = part_time(part_text(&meta, "creationTimestamp"));
    return made >= 0 && view_now(v) - made < NEW_S;
}

/* --- names ------------------------------------------------------------------------------------ */

char *part_name(size_t max, const char *fmt, ...)
{
    char hex[65];
    va_list ap;
    va_start(ap, fmt);
    char *text = xvasprintf(fmt, ap);
    va_end(ap);
    size_t len = strlen(text);
    if (len <= max)
        return text;
    sha256_hex(hex, text, len);
    size_t head = max - 9;
    while (head && (text[head - 1] == '-' || text[head - 1] == '.'))
        head--;
    snprintf(text + head, 10, "-%.8s", hex);
    return text;
}

char *part_node_label(const char *ns, const char *set)
{
    cleanup_free char *name = part_name(PART_NAME_MAX, "%s.%s", ns, set);
    return xasprintf("sampan.io/%s", name);
}

char *part_runtime_name(const char *set)
{
    cleanup_free char *base = part_name(RUNTIME_MAX - 8, "%s", set);
    for (char *c = base; *c; c++) /* a host name's part has no dots */
        if (*c == '.')
            *c = '-';
    if (!strchr(set, '.'))
        return xasprintf("%s-runtime", base);
    char hex[65]; /* "a.b" is not "a-b" */
    sha256_hex(hex, set, strlen(set));
    return xasprintf("%.26s-%.8s-runtime", base, hex);
}

char *part_node_value(const char *set, int64_t k)
{
    cleanup_free char *name = part_runtime_name(set);
    return xasprintf("%s-%" PRId64, name, k);
}

char *part_service_name(const char *set)
{
    cleanup_free char *name = part_runtime_name(set);
    return xasprintf("%s-service", name);
}

char *part_old_node_label(const char *set)
{
    return strlen(set) <= OLD_NAME_MAX ? xasprintf("paddlepaddle.org/juicefs-%s", set) : NULL;
}

char *part_claim_name(const char *set_ns, const char *set, const char *in_ns)
{
    return strcmp(set_ns, in_ns) == 0 ? xstrdup(set) : part_name(253, "%s.%s", set_ns, set);
}

char *part_server_url(const char *ns, const char *set, int64_t k, const char *path)
{
    cleanup_free char *pod = part_node_value(set, k), *service = part_service_name(set);
    return xasprintf("http://%s.%s.%s:7716%s", pod, service, ns, path);
}

/* Twice, as in HMAC: what is appended to the text says nothing about the sum. */
static char *token_of(const char *token_key, const char *service, size_t len)
{
    char inner[65], *token = xmalloc(65);
    cleanup_free char *first = xasprintf("runtime\n%s\n%.*s", token_key, (int)len, service);
    sha256_hex(inner, first, strlen(first));
    cleanup_free char *second = xasprintf("token\n%s\n%s", token_key, inner);
    sha256_hex(token, second, strlen(second));
    explicit_bzero(first, strlen(first));
    explicit_bzero(second, strlen(second));
    return token;
}

char *part_server_token(const char *token_key, const char *ns, const char *set)
{
    cleanup_free char *url = part_server_url(ns, set, 0, "/");
    return part_url_token(token_key, url);
}

/* http://POD.SERVICE.NAMESPACE:7716/…: the token is that of SERVICE.NAMESPACE. */
char *part_url_token(const char *token_key, const char *url)
{
    if (strncmp(url, "http://", 7) != 0)
        return NULL;
    const char *host = url + 7, *service = strchr(host, '.');
    size_t len = strcspn(host, ":/");
    if (!service || service > host + len || strncmp(host + len, ":7716/", 6) != 0)
        return NULL;
    service++;
    return token_of(token_key, service, len - (size_t)(service - host));
}

/* --- references to sets ----------------------------------------------------------------------- */

/* May pods of this namespace use the set: it is its own, or spec.sharedTo has it or "*"? Without
 * spec.sharedTo a set in paddle-system is for all, any other for its own namespace alone. */
static bool part_is_shared_to(const struct json *set, const char *ns)
{
    struct json spec = json_get(set, "spec"), list = json_get(&spec, "sharedTo");
    const char *own = object_namespace(set);
    if (own && strcmp(own, ns) == 0)
        return true;
    if (!list.node)
        return own && strcmp(own, COMMON_NAMESPACE) == 0;
    for (size_t i = 0; i < json_count(&list); i++) {
        struct json item = json_at(&list, i);
        const char *text;
        if (!json_as_str(&item, &text, NULL) && (!strcmp(text, "*") || !strcmp(text, ns)))
            return true;
    }
    return false;
}

static void say(char **why, char *text)
{
    if (why)
        *why = text;
    else
        free(text);
}

static const struct json *find_in(struct view *v, const char *in_ns, const char *ns,
                                  const char *name, char **why)
{
    const struct json *set = view_get(v, KIND_SAMPLESET, ns, name);
    if (set && part_is_shared_to(set, in_ns))
        return set;
    if (set)
        say(why, xasprintf("SampleSet %s/%s is not shared to namespace %s (add it to the set's "
                           "spec.sharedTo)",
                           ns, name, in_ns));
    else
        say(why, xasprintf("there is no SampleSet %s/%s (create it, or correct the reference)", ns,
                           name));
    return NULL;
}

const struct json *part_find_set(struct view *v, const char *in_ns, const char *ns,
                                 const char *name, char **why)
{
    if (why)
        *why = NULL;
    if (ns && *ns)
        return find_in(v, in_ns, ns, name, why);
    const struct json *own = view_get(v, KIND_SAMPLESET, in_ns, name), *found = NULL;
    if (own)
        return own;
    struct view_list all = view_list(v, KIND_SAMPLESET, NULL, MARK_NAME, name);
    cleanup_bytes struct bytes places = {0};
    size_t n = 0;
    for (size_t i = 0; i < all.n; i++) {
        if (!part_is_shared_to(all.items[i], in_ns))
            continue;
        found = all.items[i];
        bytes_addf(&places, "%s%s", n++ ? ", " : "", object_namespace(found));
    }
    if (n == 1)
        return found;
    if (n)
        say(why, xasprintf("SampleSets named %s are shared to namespace %s from: %s (name one in "
                           "sampleSetRef.namespace)",
                           name, in_ns, places.data));
    else
        say(why, xasprintf("there is no SampleSet %s in namespace %s, and none of that name is "
                           "shared to it (create it, or name another namespace)",
                           name, in_ns));
    return NULL;
}

bool part_volume_known(const struct json *pv)
{
    const char *phase = pv ? part_phase(pv) : "";
    return *phase && strcmp(phase, "Pending") != 0;
}

/* --- conditions ------------------------------------------------------------------------------- */

void part_conditions_begin(struct part_conditions *ret, struct view *v, struct actions *out)
{
    const struct json *o = view_object(v);
    struct json meta = json_get(o, "metadata");
    *ret = (struct part_conditions){.now = view_now(v),
                                    .generation = part_int(&meta, "generation"),
                                    .status = json_get(o, "status"),
                                    .out = out};
    ret->old = json_get(&ret->status, "conditions");
}

static struct json condition_was(const struct part_conditions *c, const char *type)
{
    for (size_t i = 0; i < json_count(&c->old); i++) {
        struct json item = json_at(&c->old, i);
        const char *text = part_text(&item, "type");
        if (text && strcmp(text, type) == 0)
            return item;
    }
    return (struct json){0};
}

const char *part_condition_was(const struct part_conditions *c, const char *type)
{
    struct json old = condition_was(c, type);
    return part_text(&old, "status");
}

const char *part_condition_reason_was(const struct part_conditions *c, const char *type)
{
    struct json old = condition_was(c, type);
    return part_text(&old, "reason");
}

static bool same(const char *a, const char *b)
{
    return a && b && strcmp(a, b) == 0;
}

int64_t part_condition_since(const struct part_conditions *c, const char *type, const char *status)
{
    struct json old = condition_was(c, type);
    int64_t since = part_time(part_text(&old, "lastTransitionTime"));
    return since >= 0 && same(part_text(&old, "status"), status) ? since : c->now;
}

static struct part_condition *slot(struct part_conditions *c, const char *type)
{
    for (size_t i = 0; i < c->n; i++)
        if (strcmp(c->items[i].type, type) == 0) {
            free(c->items[i].reason);
            free(c->items[i].message);
            return &c->items[i];
        }
    if (c->n == PART_CONDITIONS_MAX)
        abort(); /* types are constants of the program */
    return &c->items[c->n++];
}

/* Takes `message`. */
static void put(struct part_conditions *c, const char *type, const char *status, const char *reason,
                char *message)
{
    struct json old = condition_was(c, type);
    struct part_condition *i = slot(c, type);
    const char *since = part_text(&old, "lastTransitionTime");
    *i = (struct part_condition){
        .type = type, .status = status, .reason = xstrdup(reason), .message = message};
    if (since && same(part_text(&old, "status"), status))
        snprintf(i->since, sizeof i->since, "%s", since);
    else
        part_time_text(c->now, i->since);
}

bool part_condition(struct part_conditions *c, const char *type, const char *status,
                    const char *reason, const char *fmt, ...)
{
    struct json old = condition_was(c, type);
    va_list ap;
    va_start(ap, fmt);
    char *message = xvasprintf(fmt, ap);
    va_end(ap);
    put(c, type, status, reason, message);
    return !same(part_text(&old, "status"), status) || !same(part_text(&old, "reason"), reason);
}

void part_condition_warn(struct part_conditions *c, const char *type, const char *reason,
                         const char *fmt, ...)
{
    struct json old = condition_was(c, type);
    va_list ap;
    va_start(ap, fmt);
    char *message = xvasprintf(fmt, ap);
    va_end(ap);
    if (!same(part_text(&old, "reason"), reason) || !same(part_text(&old, "message"), message))
        act_event(c->out, true, reason, "%s", message);
    put(c, type, "False", reason, message);
}

void part_condition_keep(struct part_conditions *c, const char *type)
{
    static const char *const values[] = {"True", "False", "Unknown"};
    struct json old = condition_was(c, type);
    const char *status = part_text(&old, "status"), *reason = part_text(&old, "reason"),
               *message = part_text(&old, "message");
    for (size_t i = 0; i < 3; i++)
        if (same(status, values[i]))
            put(c, type, values[i], reason ? reason : "", xstrdup(message ? message : ""));
}

void part_conditions_write(const struct part_conditions *c, struct json_writer *w)
{
    jw_array(w, "conditions");
    for (size_t k = 0; k < c->n; k++) {
        const struct part_condition *i = &c->items[k];
        jw_object(w, NULL);
        jw_str(w, "type", i->type);
        jw_str(w, "status", i->status);
        jw_int(w, "observedGeneration", c->generation);
        jw_str(w, "lastTransitionTime", i->since);
        jw_str(w, "reason", i->reason);
        jw_str(w, "message", i->message);
        jw_end(w);
    }
    jw_end(w);
}

void part_conditions_release(struct part_conditions *c)
{
    for (size_t i = 0; i < c->n; i++) {
        free(c->items[i].reason);
        free(c->items[i].message);
    }
    c->n = 0;
}
