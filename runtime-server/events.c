/*
 * /events: server-sent events, one for each change of a job. The newest are kept, so that a
 * client that comes back with Last-Event-ID misses nothing short of a long absence; one that reads
 * too slowly skips what is gone, and sees so by the gap in the numbers. A stream ends when
 * the token that it was asked for with is no longer good: nothing is told to who shows an old one,
 * and within BEAT_S it hears so.
 */
#include <string.h>

#include "clock.h"
#include "mem.h"
#include "server-internal.h"

#define LISTENERS 64 /* each holds a connection and its thread */
#define BEAT_S    10 /* a comment, so that dead connections are noticed */

struct listener {
    struct server *server;
    struct cond news;
    struct listener *next;
    struct secret shown; /* the header by which it was let in */
    uint64_t seen;       /* the number of the last event taken */
    struct bytes ready;  /* of it, what is still to be sent */
    size_t sent;
};

void events_init(struct events *e)
{
    lock_init(&e->telling, RANK_JOBS - 1, "server job told");
    lock_init(&e->lock, RANK_METRICS, "server events");
    /* Numbers of another life are lower: what a client saw before a restart hides nothing. */
    e->seq = (uint64_t)clock_wall_ns() / NS_PER_MS;
    e->end = &e->oldest;
}

void events_stop(struct events *e)
{
    ACQUIRE(&e->lock);
    e->stopping = true;
    for (struct listener *l = e->listeners; l; l = l->next)
        cond_broadcast(&l->news);
}

static void drop_oldest(struct events *e)
{
    struct event *old = e->oldest;
    e->oldest = old->next;
    if (!e->oldest)
        e->end = &e->oldest;
    e->n--;
    e->bytes -= old->len;
    free(old->text);
    free(old);
}

void events_destroy(struct events *e)
{
    while (e->oldest)
        drop_oldest(e);
    lock_destroy(&e->lock);
    lock_destroy(&e->telling);
}

void events_add(struct events *e, const char *name, const char *data)
{
    struct event *event = xcalloc(1, sizeof *event);
    ACQUIRE(&e->lock);
    event->seq = ++e->seq;
    event->text =
        xasprintf("id: %llu\nevent: %s\ndata: %s\n\n", (unsigned long long)event->seq, name, data);
    event->len = strlen(event->text);
    e->bytes += event->len;
    *e->end = event;
    e->end = &event->next;
    e->n++;
    while (e->n > EVENTS_KEPT || (e->bytes > EVENTS_BYTES && e->n > 1))
        drop_oldest(e);
    for (struct listener *l = e->listeners; l; l = l->next)
        cond_broadcast(&l->news);
}

void events_job_changed(void *server, const char *id)
{
    struct server *s = server;
    cleanup_bytes struct bytes text = {0};
    struct json_writer w;
    jw_init(&w, &text);
    ACQUIRE(&s->events.telling);
    if (s->jobs && jobs_write(s->jobs, id, &w, NULL) == 0)
        events_add(&s->events, "job", text.data);
}

/* --- one client ------------------------------------------------------------------------------- */

/* Waits for something to say; false: the server ends. */
static bool next_text(struct listener *l)
{
    struct events *e = &l->server->events;
    bool waited = false;
    ACQUIRE(&e->lock);
    for (;;) {
        if (e->stopping)
            return false;
        for (const struct event *event = e->oldest; event; event = event->next) {
            if (event->seq <= l->seen)
                continue;
            l->seen = event->seq;
            bytes_add_str(&l->ready, event->text);
            return true;
        }
        if (waited) {
            bytes_add_str(&l->ready, ":\n\n");
            return true;
        }
        waited = cond_wait_for(&l->news, &e->lock, BEAT_S * NS_PER_S) != 0;
    }
}

static ssize_t read_events(void *cls, uint64_t pos, char *buf, size_t max)
{
    struct listener *l = cls;
    (void)pos;
    if (l->sent == l->ready.len) {
        bytes_clear(&l->ready);
        l->sent = 0;
        if (!next_text(l) || !auth_token_is(&l->server->auth, l->shown.text))
            return MHD_CONTENT_READER_END_OF_STREAM;
    }
    size_t n = l->ready.len - l->sent;
    n = n < max ? n : max;
    memcpy(buf, l->ready.data + l->sent, n);
    l->sent += n;
    return (ssize_t)n;
}

static void forget_listener(void *cls)
{
    struct listener *l = cls;
    struct events *e = &l->server->events;
    {
        ACQUIRE(&e->lock);
        for (struct listener **at = &e->listeners; *at; at = &(*at)->next)
            if (*at == l) {
                *at = l->next;
                e->n_listeners--;
                break;
            }
    }
    cond_destroy(&l->news);
    secret_release(&l->shown);
    bytes_release(&l->ready);
    free(l);
}

/* One that listens from now on, or after the event numbered `last`; NULL: they are too many. */
static struct listener *new_listener(struct server *s, const char *last, const char *shown)
{
    struct events *e = &s->events;
    ACQUIRE(&e->lock);
    if (e->n_listeners == LISTENERS)
        return NULL;
    struct listener *l = xcalloc(1, sizeof *l);
    uint64_t seen = last ? strtoull(last, NULL, 10) : e->seq;
    l->server = s;
    if (shown)
        secret_set(&l->shown, shown, strlen(shown));
    cond_init(&l->news);
    bytes_add_str(&l->ready, "retry: 2000\n\n");
    l->seen =
        seen <= e->seq ? seen : 0; /* of before a restart with another clock: all that is kept */
    l->next = e->listeners;
    e->listeners = l;
    e->n_listeners++;
    return l;
}

void serve_events(struct request *r, struct answer *a)
{
    struct listener *l = new_listener(r->server, request_header(r, "Last-Event-ID"),
                                      request_header(r, MHD_HTTP_HEADER_AUTHORIZATION));
    if (!l) {
        struct err err = {0};
        err_set(&err, ERR_TRANSIENT, "%d clients listen to events already (try again later)",
                LISTENERS);
        answer_error(a, &err);
        return;
    }
    struct MHD_Response *response =
        MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, 4096, read_events, l, forget_listener);
    if (!response) {
        forget_listener(l);
        a->status = MHD_HTTP_SERVICE_UNAVAILABLE;
        return;
    }
    MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, "text/event-stream");
    MHD_add_response_header(response, MHD_HTTP_HEADER_CACHE_CONTROL, "no-store");
    MHD_queue_response(r->connection, MHD_HTTP_OK, response);
    MHD_destroy_response(response);
    a->status = 0;
}
