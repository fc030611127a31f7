/*
 * Clients of the HTTP library, and the time that each has for what it does next. The library ends
 * connections that are silent; one that sends a byte now and then, or takes one, would hold its
 * place, of which there are few, for ever.
 *
 * A thread ends those that are late by shutting their sockets down; the library then closes them as
 * if the client had gone. No client is late while we are at work for it, so the library must have a
 * thread for each connection, or answer at once.
 */
#ifndef SAMPAN_HTTP_CLIENTS_H
#define SAMPAN_HTTP_CLIENTS_H

#include <microhttpd.h>
#include <stdbool.h>
#include <stdint.h>

#include "err.h"
#include "metrics.h"
#include "sync.h"

struct http_client;
struct http_clients {
    uint64_t request_ns; /* for a request's head, and for its body, to arrive */
    struct lock lock;    /* guards all below */
    struct cond wake;
    struct http_client *first;
    uint64_t n;
    bool stopping;
    bool watches; /* before other threads are there */
    pthread_t watcher;
    counter timed_out; /* no lock needed */
};
void http_clients_init(struct http_clients *cs);
int http_clients_start(struct http_clients *cs, uint64_t request_ns, struct err *err);
void http_clients_destroy(struct http_clients *cs); /* after the library's end */

/* For the library (MHD_OPTION_NOTIFY_CONNECTION); cls is the clients. */
void http_clients_on_connection(void *cls, struct MHD_Connection *connection, void **context,
                                enum MHD_ConnectionNotificationCode what);
/* What the client has to do next, within its time from now. A new one has to ask. */
enum http_step { STEP_REQUEST, STEP_ANSWER, STEP_UNLIMITED };
void http_clients_step(struct MHD_Connection *connection, enum http_step step);

#endif
