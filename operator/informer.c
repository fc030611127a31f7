/*
 * States: LISTING (a page is asked for; `items` grows) -> WATCHING -> … Each request's end picks
 * the next one, with a delay where something failed.
 */
#define LOG_MODULE "informer"
#include "informer.h"

#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "hash.h"
#include "items.h"
#include "log.h"
#include "mem.h"
#include "metrics.h"
#include "object.h"

#define PAGE        250
#define WATCH_S     300 /* a watch lasts so long, and up to as much again */
#define SHORT_NS    NS_PER_S
#define BACK_OFF_NS (NS_PER_S / 2)
#define CAP_NS      (10 * NS_PER_S)
#define ABSENT_NS   (30 * NS_PER_S) /* until a kind that the server lacks is asked for again */
/* So often in a row must a kind be denied that was known: a server that starts knows little. */
#define DOUBTED 8

struct informer {
    struct informer_conf conf;
    char *path, *version, *more; /* more: the next page's token */
    struct object **items;       /* of the pages so far */
    size_t n, room;
    struct bytes text; /* of a page, or what of a watch's line has come */
    bool watching, too_old, alive, told;
    unsigned failures, denied; /* denied: how often in a row the server did not know the kind */
    bool known;                /* the last list was one */
    uint64_t began;
    counter lists, watches, failed;
};

char *kind_path(enum kind kind, const char *ns, const char *name)
{
    const struct kind_row *k = &kinds[kind];
    return xasprintf("/%s%s/%s%s%s/%s%s%s", *k->group ? "apis/" : "api", k->group, k->version,
                     ns && k->namespaced ? "/namespaces/" : "", ns && k->namespaced ? ns : "",
                     k->plural, name ? "/" : "", name ? name : "");
}

uint64_t informer_back_off(unsigned failures, unsigned retry_after_s, uint64_t dice)
{
    uint64_t ns = BACK_OFF_NS;
    for (unsigned i = 1; i < failures && ns < CAP_NS; i++)
        ns *= 2;
    ns = ns < CAP_NS ? ns : CAP_NS;
    ns = ns / 2 + hash_mix64(dice) % (ns / 2); /* so that a crowd comes back one by one */
    uint64_t asked = retry_after_s * NS_PER_S;
    return ns > asked ? ns : asked;
}

static void list_next(struct informer *i, uint64_t delay);
static void watch_next(struct informer *i, uint64_t delay);

static uint64_t delay_of(struct informer *i, unsigned retry_after_s)
{
    i->failures++;
    counter_add(&i->failed, 1);
    return informer_back_off(i->failures, retry_after_s, clock_mono_ns() ^ (uintptr_t)i);
}

/* --- lists ------------------------------------------------------------------------------------ */

static void drop_items(struct informer *i)
{
    for (size_t n = 0; n < i->n; n++)
        object_unref(i->items[n]);
    i->n = 0;
    free(take_ptr(&i->more));
}

static void add_item(void *arg, const char *text, size_t len)
{
    struct informer *i = arg;
    struct json_doc *doc = NULL;
    struct err err = {0};
    if (json_parse(&doc, kinds[i->conf.kind].kind, text, len, &err)) {
        log_warn(i->conf.log, "kind=%s: an object is passed over: %s", kinds[i->conf.kind].kind,
                 err.msg);
        return;
    }
    struct json root = json_root(doc);
    if (!object_name(&root)) {
        json_doc_free(doc);
        return;
    }
    if (i->n == i->room) {
        i->room = i->room ? 2 * i->room : 64;
        i->items = xrealloc(i->items, i->room * sizeof(struct object *));
    }
    i->items[i->n++] = object_new(i->conf.kind, doc);
}

static int take_page(struct informer *i, struct err *err)
{
    cleanup_json struct json_doc *doc = NULL;
    cleanup_bytes struct bytes rest = {0};
    const char *version, *more;
    items_cut(i->text.data, i->text.len, add_item, i, &rest);
    if (json_parse(&doc, "list", rest.data, rest.len, err))
        return -1;
    struct json root = json_root(doc), meta = json_get(&root, "metadata");
    if (json_str(&meta, "resourceVersion", &version, err) ||
        json_str_or(&meta, "continue", "", &more, err))
        return -1;
    free(i->version);
    free(i->more);
    i->version = xstrdup(version);
    i->more = *more ? xstrdup(more) : NULL;
    return 0;
}

static void publish(struct informer *i)
{
    cache_replace(i->conf.cache, i->conf.kind, i->items, i->n, i->version);
    i->n = 0; /* the cache has them */
    if (i->conf.synced && !i->told)
        i->conf.synced(i->conf.arg);
    i->told = true;
    free(take_ptr(&i->items));
    i->room = 0;
    bytes_release(&i->text);
}

/* The kind's definition is not installed: there are none of it. */
static void accept_absence(struct informer *i)
{
    if (!i->told || i->known)
        log_warn(i->conf.log, "the server knows no kind %s (is its definition installed?)",
                 kinds[i->conf.kind].kind);
    free(i->version);
    i->version = xstrdup("");
    i->known = false;
    publish(i);
    list_next(i, ABSENT_NS);
}

/* What a list's end means. */
static void after_list(struct informer *i, const struct kube_answer *answer, const struct err *why)
{
    struct err err = {0};
    const char *kind = kinds[i->conf.kind].kind;
    if (!why && take_page(i, &err) == 0) {
        if (i->more) {
            list_next(i, 0);
            return;
        }
        i->known = true;
        i->denied = 0;
        log_debug(i->conf.log, "listed kind=%s objects=%zu version=%s", kind, i->n, i->version);
        publish(i);
        watch_next(i, 0);
        return;
    }
    drop_items(i);
    if (answer->status == 404 && i->conf.optional && (!i->known || ++i->denied >= DOUBTED)) {
        accept_absence(i);
        return;
    }
    uint64_t delay = delay_of(i, answer->retry_after_s);
    log_warn(i->conf.log, "cannot list kind=%s: %s; again in %llu ms", kind,
             why ? why->msg : err.msg, delay / NS_PER_MS);
    list_next(i, delay);
}

/* --- watches ---------------------------------------------------------------------------------- */

static void remember(struct informer *i, const struct json *object)
{
    const char *version = object_version(object);
    if (!version)
        return;
    free(i->version);
    i->version = xstrdup(version);
}

/* One line: {"type":…,"object":…}. */
static int take_event(struct informer *i, const char *line, size_t len, struct err *err)
{
    cleanup_json struct json_doc *doc = NULL;
    const char *type;
    int64_t code = 0;
    if (json_parse(&doc, "watch", line, len, err))
        return -1;
    struct json root = json_root(doc), object = json_get(&root, "object");
    if (json_str(&root, "type", &type, err) || json_want_object(&object, err))
        return -1;
    if (strcmp(type, "ERROR") == 0) {
        const char *message = "?";
        json_int_or(&object, "code", 0, 999, 0, &code, NULL);
        json_str_or(&object, "message", "?", &message, NULL);
        i->too_old = code == 410;
        return err_set(err, ERR_STALE, "the watch ended: %s", message);
    }
    remember(i, &object);
    if (strcmp(type, "BOOKMARK") == 0) {
        cache_bookmark(i->conf.cache, i->conf.kind, i->version);
    } else if (!object_name(&object)) {
        return err_set(err, ERR_CORRUPT, "its object has no name");
    } else {
        struct object *o = object_new(i->conf.kind, json_doc_of(&object, kinds[i->conf.kind].kind));
        cache_changed(i->conf.cache, i->conf.kind, o, strcmp(type, "DELETED") == 0);
    }
    return 0;
}

static void take_lines(struct informer *i)
{
    char *from = i->text.data, *end = i->text.data + i->text.len, *line;
    while ((line = memchr(from, '\n', (size_t)(end - from)))) {
        struct err err = {0};
        if (line == from || take_event(i, from, (size_t)(line - from), &err) == 0)
            i->alive = true;
        else if (err.class == ERR_STALE)
            log_info(i->conf.log, "kind=%s: %s", kinds[i->conf.kind].kind, err.msg);
        else
            log_warn(i->conf.log, "kind=%s: a change is passed over: %s", kinds[i->conf.kind].kind,
                     err.msg);
        from = line + 1;
    }
    size_t left = (size_t)(end - from);
    memmove(i->text.data, from, left);
    i->text.len = left;
}

static void after_watch(struct informer *i, const struct kube_answer *answer, const struct err *why)
{
    bool useful = i->alive || (!why && clock_mono_ns() - i->began > SHORT_NS);
    if (useful)
        i->failures = 0;
    if (answer->status == 410 || i->too_old) {
        uint64_t delay = useful ? 0 : delay_of(i, answer->retry_after_s);
        log_info(i->conf.log, "kind=%s: the watch fell behind; listing again",
                 kinds[i->conf.kind].kind);
        list_next(i, delay);
        return;
    }
    if (answer->status == 404) { /* the kind went away */
        list_next(i, delay_of(i, 0));
        return;
    }
    uint64_t delay = useful && !why ? 0 : delay_of(i, answer->retry_after_s);
    if (why)
        log_warn(i->conf.log, "watch broken kind=%s: %s; again in %llu ms",
                 kinds[i->conf.kind].kind, why->msg, delay / NS_PER_MS);
    watch_next(i, delay);
}

/* --- requests --------------------------------------------------------------------------------- */

static void on_data(void *arg, const char *bytes, size_t n)
{
    struct informer *i = arg;
    bytes_add(&i->text, bytes, n);
    if (i->watching && memchr(bytes, '\n', n))
        take_lines(i);
}

static void on_end(void *arg, const struct kube_answer *answer, const struct err *why)
{
    struct informer *i = arg;
    if (why && why->class == ERR_CANCELLED)
        return;
    if (i->watching)
        after_watch(i, answer, why);
    else
        after_list(i, answer, why);
}

static const struct kube_calls calls = {on_data, on_end};

static void add_query(const struct informer *i, struct bytes *path)
{
    if (!i->conf.selector)
        return;
    bytes_add_str(path, "&labelSelector=");
    url_encode(path, i->conf.selector, strlen(i->conf.selector), false);
}

static void list_next(struct informer *i, uint64_t delay)
{
    struct bytes path = {0};
    bytes_addf(&path, "%s?limit=%d", i->path, PAGE);
    add_query(i, &path);
    if (i->more) {
        bytes_add_str(&path, "&continue=");
        url_encode(&path, i->more, strlen(i->more), false);
    } else {
        counter_add(&i->lists, 1);
    }
    bytes_clear(&i->text);
    i->watching = false;
    const struct kube_request r = {.method = HTTP_GET, .path = path.data};
    kube_start(i->conf.client, &r, delay, &calls, i);
    bytes_release(&path);
}

static void watch_next(struct informer *i, uint64_t delay)
{
    struct bytes path = {0};
    uint64_t now = clock_mono_ns();
    bytes_addf(&path,
               "%s?watch=1&allowWatchBookmarks=true&timeoutSeconds=%llu&resourceVersion=", i->path,
               (unsigned long long)(WATCH_S + hash_mix64(now ^ (uintptr_t)i) % WATCH_S));
    url_encode(&path, i->version, strlen(i->version), false);
    add_query(i, &path);
    bytes_clear(&i->text);
    counter_add(&i->watches, 1);
    i->watching = true;
    i->too_old = i->alive = false;
    i->began = now + delay;
    const struct kube_request r = {.method = HTTP_GET, .path = path.data, .watch = true};
    kube_start(i->conf.client, &r, delay, &calls, i);
    bytes_release(&path);
}

/* --- for everybody ---------------------------------------------------------------------------- */

struct informer *informer_start(const struct informer_conf *conf)
{
    struct informer *i = xcalloc(1, sizeof *i);
    i->conf = *conf;
    i->path = kind_path(conf->kind, NULL, NULL);
    list_next(i, 0);
    return i;
}

void informer_free(struct informer *i)
{
    if (!i)
        return;
    drop_items(i);
    free(i->items);
    free(i->path);
    free(i->version);
    bytes_release(&i->text);
    free(i);
}

void informer_numbers(const struct informer *i, struct informer_numbers *ret)
{
    *ret = (struct informer_numbers){.lists = counter_get(&i->lists),
                                     .watches = counter_get(&i->watches),
                                     .failures = counter_get(&i->failed)};
}
