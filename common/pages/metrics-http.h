/*
 * GET /metrics (Prometheus text), GET /healthz and GET /readyz (200 "ok", or 503 with the reason)
 * on a TCP address. No secret and no name of a volume is served here: no authentication.
 */
#ifndef SAMPAN_METRICS_HTTP_H
#define SAMPAN_METRICS_HTTP_H

#include <stdbool.h>
#include <stdint.h>

#include "buf.h"
#include "err.h"

struct metrics_http_conf {
    const char *address; /* "ADDR:PORT", ":PORT" (every address), "[::1]:PORT" */
    void (*metrics)(void *arg, struct bytes *out);
    bool (*healthy)(void *arg, struct err *why);
    bool (*ready)(void *arg, struct err *why); /* NULL: there is no such page */
    void *arg;
    uint64_t request_ns; /* for a request to arrive; 0: 10 s */
};
struct metrics_http;
int metrics_http_start(struct metrics_http **ret, const struct metrics_http_conf *conf,
                       struct err *err);
/* Where it listens: what the kernel chose, if the address said port 0. */
unsigned metrics_http_port(const struct metrics_http *m);
void metrics_http_stop(struct metrics_http *m); /* NULL is fine */

#endif
