/* Pages over the HTTP library. */
#include "metrics-http.h"

#include <microhttpd.h>
#include <string.h>
#include <unistd.h>

#include "http-clients.h"
#include "http-reply.h"
#include "listen.h"
#include "clock.h"
#include "mem.h"

#define CONNECTIONS 16
#define IDLE_S      10

struct metrics_http {
    struct metrics_http_conf conf;
    struct MHD_Daemon *daemon;
    struct http_clients clients;
};

static unsigned say_how(bool ok, const struct err *why, struct bytes *text)
{
    bytes_addf(text, "%s\n", ok ? "ok" : why->msg);
    return ok ? MHD_HTTP_OK : MHD_HTTP_SERVICE_UNAVAILABLE;
}

static enum MHD_Result on_request(void *arg, struct MHD_Connection *c, const char *url,
                                  const char *method, const char *version, const char *upload,
                                  size_t *upload_size, void **state)
{
    const struct metrics_http *m = arg;
    cleanup_bytes struct bytes text = {0};
    struct err why = {0};
    unsigned status = MHD_HTTP_OK;
    const char *allow = NULL;
    (void)version;
    (void)upload;
    if (!*state || *upload_size) { /* the library takes an answer when all has come */
        *state = c;
        *upload_size = 0;
        return MHD_YES;
    }
    if (!http_reads(method)) {
        status = MHD_HTTP_METHOD_NOT_ALLOWED;
        allow = "GET, HEAD";
        bytes_add_str(&text, "want GET\n");
    } else if (strcmp(url, "/metrics") == 0) {
        m->conf.metrics(m->conf.arg, &text);
    } else if (strcmp(url, "/healthz") == 0) {
        bool ok = m->conf.healthy(m->conf.arg, &why);
        status = say_how(ok, &why, &text);
    } else if (strcmp(url, "/readyz") == 0 && m->conf.ready) {
        bool ok = m->conf.ready(m->conf.arg, &why);
        status = say_how(ok, &why, &text);
    } else {
        status = MHD_HTTP_NOT_FOUND;
        bytes_add_str(&text, "/metrics and /healthz are here\n");
    }
    const struct reply_header more[] = {{MHD_HTTP_HEADER_ALLOW, allow}, {NULL, NULL}};
    http_clients_step(c, STEP_ANSWER);
    return http_reply(c, status, HTTP_TEXT, text.data, text.len, more);
}

static void on_completed(void *arg, struct MHD_Connection *c, void **state,
                         enum MHD_RequestTerminationCode why)
{
    (void)arg, (void)state, (void)why;
    http_clients_step(c, STEP_REQUEST); /* the next one */
}

int metrics_http_start(struct metrics_http **ret, const struct metrics_http_conf *conf,
                       struct err *err)
{
    int sock = address_listen_at(conf->address, err);
    if (sock < 0)
        return err_wrap(err, "--metrics");
    struct metrics_http *m = xcalloc(1, sizeof *m);
    m->conf = *conf;
    http_clients_init(&m->clients);
    if (http_clients_start(&m->clients, conf->request_ns ? conf->request_ns : IDLE_S * NS_PER_S,
                           err)) {
        close(sock);
        metrics_http_stop(m);
        return -1;
    }
    m->daemon = MHD_start_daemon(
        MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_POLL, 0, NULL, NULL, on_request, m,
        MHD_OPTION_LISTEN_SOCKET, sock, MHD_OPTION_NOTIFY_CONNECTION, http_clients_on_connection,
        &m->clients, MHD_OPTION_NOTIFY_COMPLETED, on_completed, NULL, MHD_OPTION_CONNECTION_LIMIT,
        (unsigned)CONNECTIONS, MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)IDLE_S, MHD_OPTION_END);
    if (!m->daemon) {
        close(sock);
        metrics_http_stop(m);
        return err_set(err, ERR_FAILED, "--metrics: cannot serve %s", conf->address);
    }
    *ret = m;
    return 0;
}

unsigned metrics_http_port(const struct metrics_http *m)
{
    const union MHD_DaemonInfo *info = MHD_get_daemon_info(m->daemon, MHD_DAEMON_INFO_BIND_PORT);
    return info ? info->port : 0;
}

void metrics_http_stop(struct metrics_http *m)
{
    if (!m)
        return;
    if (m->daemon)
        MHD_stop_daemon(m->daemon);
    http_clients_destroy(&m->clients);
    free(m);
}
