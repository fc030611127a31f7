/* Events, and a table of those told of late. */
#include "events.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "hash.h"
#include "informer.h"
#include "mem.h"
#include "object.h"
#include "sync.h"

#define KNOWN       2048 /* a row each; a newer event takes the row of an older one */
#define QUIET_NS    (300 * NS_PER_S)
#define MESSAGE_MAX 1000
#define NAME_MAX_   230

struct told {
    uint64_t id; /* 0: none */
    int64_t count;
    uint64_t written_at;
};

struct events {
    struct kube_client *client;
    char *instance;
    struct lock lock;
    struct told told[KNOWN];
};

struct events *events_new(struct kube_client *client, const char *instance)
{
    struct events *e = xcalloc(1, sizeof *e);
    e->client = client;
    e->instance = xstrdup(instance);
    lock_init(&e->lock, RANK_EVENTS, "events");
    return e;
}

void events_free(struct events *e)
{
    if (!e)
        return;
    lock_destroy(&e->lock);
    free(e->instance);
    free(e);
}

/* What makes two events the same. */
static uint64_t id_of(const struct json *about, bool warning, const char *reason,
                      const char *message)
{
    const char *uid = object_uid(about);
    cleanup_free char *text = xasprintf("%s\n%s\n%d\n%s\n%s", uid ? uid : "", object_name(about),
                                        warning, reason, message);
    uint64_t id = hash64(text, strlen(text), 0);
    return id ? id : 1;
}

/* The count to write now; 0: nothing to write. */
static int64_t count_of(struct events *e, uint64_t id)
{
    ACQUIRE(&e->lock);
    struct told *t = &e->told[id % KNOWN];
    uint64_t now = clock_mono_ns();
    if (t->id != id)
        *t = (struct told){.id = id};
    t->count++;
    if (t->count > 1 && now - t->written_at < QUIET_NS)
        return 0;
    t->written_at = now;
    return t->count;
}

static void set_count(struct events *e, uint64_t id, int64_t count)
{
    ACQUIRE(&e->lock);
    struct told *t = &e->told[id % KNOWN];
    if (t->id == id)
        t->count = count;
}

/* It could not be written: when it is told again, it is as new. */
static void forget(struct events *e, uint64_t id)
{
    ACQUIRE(&e->lock);
    struct told *t = &e->told[id % KNOWN];
    if (t->id == id)
        *t = (struct told){0};
}

static void time_text(char out[CLOCK_TEXT])
{
    clock_text(clock_wall_ns() / (int64_t)NS_PER_S, out);
}

static void write_reference(struct json_writer *w, enum kind kind, const struct json *about)
{
    const struct kind_row *k = &kinds[kind];
    cleanup_free char *version = xasprintf("%s%s%s", k->group, *k->group ? "/" : "", k->version);
    jw_object(w, "involvedObject");
    jw_str(w, "apiVersion", version);
    jw_str(w, "kind", k->kind);
    if (object_namespace(about))
        jw_str(w, "namespace", object_namespace(about));
    jw_str(w, "name", object_name(about));
    if (object_uid(about))
        jw_str(w, "uid", object_uid(about));
    if (object_version(about))
        jw_str(w, "resourceVersion", object_version(about));
    jw_end(w);
}

/* At most `max` bytes, and no character cut in two: the writer mends nothing that is whole. */
static size_t cut(const char *text, size_t max)
{
    size_t len = strlen(text);
    if (len <= max)
        return len;
    while (max && ((unsigned char)text[max] & 0xc0) == 0x80)
        max--;
    return max;
}

struct event {
    enum kind kind;
    const struct json *about;
    bool warning;
    const char *reason, *message, *ns, *name;
};

static void write_new(const struct events *e, const struct event *ev, struct bytes *out)
{
    struct json_writer w;
    char now[CLOCK_TEXT];
    time_text(now);
    jw_init(&w, out);
    jw_object(&w, NULL);
    jw_str(&w, "apiVersion", "v1");
    jw_str(&w, "kind", "Event");
    jw_object(&w, "metadata");
    jw_str(&w, "name", ev->name);
    jw_str(&w, "namespace", ev->ns);
    jw_end(&w);
    write_reference(&w, ev->kind, ev->about);
    jw_str(&w, "type", ev->warning ? "Warning" : "Normal");
    jw_str(&w, "reason", ev->reason);
    jw_strn(&w, "message", ev->message, cut(ev->message, MESSAGE_MAX));
    jw_object(&w, "source");
    jw_str(&w, "component", MANAGED_BY);
    jw_end(&w);
    jw_str(&w, "reportingComponent", MANAGED_BY);
    jw_str(&w, "reportingInstance", e->instance);
    jw_str(&w, "firstTimestamp", now);
    jw_str(&w, "lastTimestamp", now);
    jw_int(&w, "count", 1);
    jw_end(&w);
}

static int write_count(struct events *e, const char *path, int64_t count, struct err *err)
{
    cleanup_bytes struct bytes body = {0};
    struct json_writer w;
    struct kube_answer answer;
    char now[CLOCK_TEXT];
    time_text(now);
    jw_init(&w, &body);
    jw_object(&w, NULL);
    jw_int(&w, "count", count);
    jw_str(&w, "lastTimestamp", now);
    jw_end(&w);
    const struct kube_request r = {.method = HTTP_PATCH, .path = path, .body = &body};
    int result = kube_ask(e->client, &r, NULL, &answer, err);
    return result && answer.status == 404 ? 1 : result; /* 1: it is no more there */
}

/* An earlier life told it: its count goes on. */
static int go_on(struct events *e, uint64_t id, const char *path, struct err *err)
{
    cleanup_json struct json_doc *doc = NULL;
    struct kube_answer answer;
    int64_t count = 1;
    const struct kube_request r = {.method = HTTP_GET, .path = path};
    if (kube_ask(e->client, &r, &doc, &answer, err))
        return -1;
    struct json root = json_root(doc);
    if (json_int_or(&root, "count", 0, INT32_MAX - 1, 1, &count, NULL))
        count = 1;
    set_count(e, id, count + 1);
    return write_count(e, path, count + 1, err);
}

static int tell_new(struct events *e, uint64_t id, const struct event *ev, const char *path,
                    struct err *err)
{
    cleanup_bytes struct bytes body = {0};
    cleanup_free char *all = kind_path(KIND_EVENT, ev->ns, NULL);
    struct kube_answer answer;
    const struct kube_request r = {.method = HTTP_POST, .path = all, .body = &body};
    write_new(e, ev, &body);
    if (kube_ask(e->client, &r, NULL, &answer, err) == 0)
        return 0;
    return answer.status == 409 ? go_on(e, id, path, err) : -1;
}

int event_tell(struct events *e, enum kind kind, const struct json *about, bool warning,
               const char *reason, const char *message, struct err *err)
{
    uint64_t id = id_of(about, warning, reason, message);
    int64_t count = count_of(e, id);
    if (!count)
        return 0;
    const char *ns = object_namespace(about), *of = object_name(about);
    cleanup_free char *name = xasprintf("%.*s.%016" PRIx64, (int)cut(of, NAME_MAX_), of, id);
    struct event ev = {kind, about, warning, reason, message, ns ? ns : "default", name};
    cleanup_free char *path = kind_path(KIND_EVENT, ev.ns, name);
    int result = count == 1 ? 1 : write_count(e, path, count, err);
    if (result > 0)
        result = tell_new(e, id, &ev, path, err);
    if (result)
        forget(e, id);
    return result;
}
