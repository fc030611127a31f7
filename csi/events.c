/* Events of pods: a queue, and the thread that posts what is in it. */
#define LOG_MODULE "events"
#include "events.h"

#include <string.h>
#include <unistd.h>

#include "clock.h"
#include "http.h"
#include "json.h"
#include "mem.h"
#include "metrics.h"
#include "state.h"
#include "sync.h"

#define QUEUE_MOST 256 /* what comes beyond is counted as given up */
#define TRIES      6
#define PAUSE_NS   NS_PER_S /* before the second try; twice as long before each further one */
#define TIMEOUT_NS (5 * NS_PER_S)
#define ANSWER_MAX 65536
#define TOKEN_MAX  16384
#define POD_CHARS  200 /* of a pod's name in its event's name */

struct event {
    struct event *next;
    struct bytes body;
    char *namespace;
};
struct events {
    struct events_conf conf;
    char *server, *token_path, *ca_path;
    pthread_t thread;
    struct lock lock;
    struct cond cond;
    struct event *first, **last; /* guarded by lock, as all below */
    size_t queued;
    bool stop;
    counter told, failed;
};

/* --- the object ------------------------------------------------------------------------------- */

static void put_time(struct json_writer *w, const char *key, int64_t now_s)
{
    char text[CLOCK_TEXT];
    clock_text(now_s, text);
    jw_str(w, key, text);
}

static void put_name(struct json_writer *w, const struct pod_ref *pod, const char *about,
                     const char *reason)
{
    char hash[STATE_NAME_BYTES];
    cleanup_free char *all = xasprintf("%s\n%s\n%s", pod->uid, about, reason);
    state_name(all, hash);
    cleanup_free char *name = xasprintf("%.*s.%.16s", POD_CHARS, pod->name, hash);
    jw_str(w, "name", name);
}

void events_object(const struct events_conf *conf, const struct pod_ref *pod, const char *about,
                   const char *reason, const char *message, int64_t now_s, struct bytes *out)
{
    struct json_writer w;
    jw_init(&w, out);
    jw_object(&w, NULL);
    jw_str(&w, "apiVersion", "v1");
    jw_str(&w, "kind", "Event");
    jw_object(&w, "metadata");
    put_name(&w, pod, about, reason);
    jw_str(&w, "namespace", pod->namespace);
    jw_end(&w);
    jw_object(&w, "involvedObject");
    jw_str(&w, "apiVersion", "v1");
    jw_str(&w, "kind", "Pod");
    jw_str(&w, "name", pod->name);
    jw_str(&w, "namespace", pod->namespace);
    jw_str(&w, "uid", pod->uid);
    jw_end(&w);
    jw_str(&w, "type", "Warning");
    jw_str(&w, "reason", reason);
    jw_str(&w, "message", message);
    jw_object(&w, "source");
    jw_str(&w, "component", conf->component);
    jw_str(&w, "host", conf->node);
    jw_end(&w);
    jw_str(&w, "reportingComponent", conf->component);
    jw_str(&w, "reportingInstance", conf->node);
    put_time(&w, "firstTimestamp", now_s);
    put_time(&w, "lastTimestamp", now_s);
    jw_int(&w, "count", 1);
    jw_end(&w);
}

/* --- posting ---------------------------------------------------------------------------------- */

static void event_free(struct event *e)
{
    bytes_release(&e->body);
    free(e->namespace);
    free(e);
}

/* It is renewed on the disk from time to time: read for each request. */
static int read_token(const struct events *e, struct bytes *ret, struct err *err)
{
    if (file_read_whole(e->token_path, TOKEN_MAX, ret, err))
        return -1;
    while (ret->len && strchr("\r\n ", ret->data[ret->len - 1]))
        ret->data[--ret->len] = '\0';
    return 0;
}

/* The status of the answer; 0: none came. */
static int post(const struct events *e, const struct event *event, struct err *err)
{
    cleanup_wiped struct bytes token = {0};
    cleanup_http_req struct http_req r;
    cleanup_bytes struct bytes body = {0};
    struct http_answer answer;
    const struct http_peer peer = {.ca_file = e->ca_path, .connect_timeout_ns = TIMEOUT_NS};
    http_req_init(&r, HTTP_POST);
    if (read_token(e, &token, err))
        return 0;
    bytes_addf(&r.url, "%s/api/v1/namespaces/", e->server);
    url_encode(&r.url, event->namespace, strlen(event->namespace), /* keep_slash= */ false);
    bytes_add_str(&r.url, "/events");
    http_header(&r, "Authorization", "Bearer %s", token.data);
    http_header(&r, "Content-Type", "application/json");
    r.body = event->body.data;
    r.body_len = event->body.len;
    http_answer_init(&answer);
    if (http_do(&r, &peer, TIMEOUT_NS, ANSWER_MAX, &answer, &body, err))
        return 0;
    if (answer.status >= 300)
        err_set(err, ERR_FAILED, "the API server answers %d: %.300s", answer.status,
                body.data ? body.data : "");
    return answer.status;
}

static bool may_pass(int status)
{
    return status == 0 || status == 429 || status >= 500;
}

/* Sleeps, unless it is the end. */
static bool pause_for(struct events *e, uint64_t ns)
{
    uint64_t until = clock_mono_ns() + ns;
    ACQUIRE(&e->lock);
    for (uint64_t now; !e->stop && (now = clock_mono_ns()) < until;)
        cond_wait_for(&e->cond, &e->lock, until - now);
    return !e->stop;
}

static void tell(struct events *e, const struct event *event)
{
    struct err why = {0};
    for (int i = 0; i < TRIES; i++) {
        if (i && !pause_for(e, PAUSE_NS << (i - 1)))
            break;
        why = (struct err){0};
        int status = post(e, event, &why);
        if ((status >= 200 && status < 300) || status == 409) { /* it is there already */
            counter_add(&e->told, 1);
            return;
        }
        if (!may_pass(status))
            break;
    }
    counter_add(&e->failed, 1);
    log_warn(e->conf.log, "an event of a pod in %s could not be told: %s", event->namespace,
             why.msg);
}

static struct event *take(struct events *e)
{
    ACQUIRE(&e->lock);
    while (!e->first && !e->stop)
        cond_wait(&e->cond, &e->lock);
    struct event *event = e->stop ? NULL : e->first;
    if (!event)
        return NULL;
    e->first = event->next;
    if (!e->first)
        e->last = &e->first;
    e->queued--;
    return event;
}

static void *events_main(void *arg)
{
    struct events *e = arg;
    for (struct event *event; (event = take(e));) {
        tell(e, event);
        event_free(event);
    }
    return NULL;
}

void events_warn(struct events *e, const struct pod_ref *pod, const char *about, const char *reason,
                 const char *message)
{
    if (!e || !*pod->name || !*pod->namespace)
        return; /* the driver object says no podInfoOnMount: nobody to tell it of */
    struct event *event = xcalloc(1, sizeof *event);
    event->namespace = xstrdup(pod->namespace);
    events_object(&e->conf, pod, about, reason, message, clock_wall_ns() / (int64_t)NS_PER_S,
                  &event->body);
    lock_take(&e->lock);
    bool room = e->queued < QUEUE_MOST;
    if (room) {
        *e->last = event;
        e->last = &event->next;
        e->queued++;
        cond_signal(&e->cond);
    }
    lock_drop(&e->lock);
    if (room)
        return;
    counter_add(&e->failed, 1);
    event_free(event);
}

void events_counts(const struct events *e, uint64_t *ret_told, uint64_t *ret_failed)
{
    *ret_told = e ? counter_get(&e->told) : 0;
    *ret_failed = e ? counter_get(&e->failed) : 0;
}

/* --- start and end ---------------------------------------------------------------------------- */

static void events_free(struct events *e)
{
    for (struct event *event; (event = e->first);) {
        e->first = event->next;
        event_free(event);
    }
    free(e->server);
    free(e->token_path);
    free(e->ca_path);
    cond_destroy(&e->cond);
    lock_destroy(&e->lock);
    free(e);
}

int events_start(struct events **ret, const struct events_conf *conf, struct err *err)
{
    const char *host = getenv("KUBERNETES_SERVICE_HOST"), *port = getenv("KUBERNETES_SERVICE_PORT");
    cleanup_free char *token = xasprintf("%s/token", conf->account);
    *ret = NULL;
    if (!host || !*host || access(token, R_OK))
        return 0;
    struct events *e = xcalloc(1, sizeof *e);
    bool v6 = strchr(host, ':') != NULL;
    e->conf = *conf;
    e->server = xasprintf("https://%s%s%s:%s", v6 ? "[" : "", host, v6 ? "]" : "",
                          port && *port ? port : "443");
    e->token_path = take_ptr(&token);
    e->ca_path = xasprintf("%s/ca.crt", conf->account);
    e->last = &e->first;
    lock_init(&e->lock, RANK_NODE, "events");
    cond_init(&e->cond);
    int error = thread_start(&e->thread, "events", events_main, e);
    if (error) {
        events_free(e);
        return err_thread(err, error, "start the thread that tells events");
    }
    *ret = e;
    return 0;
}

void events_stop(struct events *e)
{
    if (!e)
        return;
    lock_take(&e->lock);
    e->stop = true;
    cond_broadcast(&e->cond);
    lock_drop(&e->lock);
    pthread_join(e->thread, NULL);
    events_free(e);
}
