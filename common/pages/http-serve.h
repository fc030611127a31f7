/* A small program's HTTP: serves until a signal ends it. */
#ifndef SAMPAN_HTTP_SERVE_H
#define SAMPAN_HTTP_SERVE_H

#include <microhttpd.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "err.h"
#include "log.h"

/* A request that has come whole. */
struct http_asked {
    const char *method, *url;
    const void *body;
    size_t len;
    bool too_large; /* longer than body_max: it has no body then */
    bool no_room;   /* others have taken bodies_max: nor then */
};

struct http_service {
    const char *address;         /* as address_listen_at() takes it, the value of --listen */
    uint64_t request_ns;         /* for a request's head, and for its body, to arrive; 0: 60 s */
    size_t body_max, bodies_max; /* of one request; of all that are here together */
    unsigned connections;
    /* Where only this machine can ask, browsers must do so by a name of it (http-host.h). */
    bool by_own_name;
    /* Queues the answer. Each connection has a thread of its own, so it may take its time. Bodies
     * that are answered at once are never more than body_max together: what is made of them may be
     * far larger. The others wait, in the order in which they came. */
    enum MHD_Result (*answer)(void *arg, struct MHD_Connection *c, const struct http_asked *q);
    void *arg;
};

/* Logs "ready port=N" once it listens, and returns 0 after one of `ends`, which the caller has
 * blocked. What is being answered then is answered to its end, and within 20 s its client may take
 * it; what still waits for its turn, or comes later, is refused with 503. A second one does what it
 * does by itself: it ends the process. */
int http_serve(const struct http_service *s, const sigset_t *ends, struct log *log,
               struct err *err);

#endif
