#define LOG_MODULE "http"
#include "http-serve.h"

#include <unistd.h>

#include "buf.h"
#include "clock.h"
#include "http-clients.h"
#include "http-listen.h"
#include "mem.h"

#define IDLE_S    60 /* a silent connection is closed */
#define REQUEST_S 60

struct request {
    struct bytes body;
    bool too_large;
};

static void take_body(struct request *r, size_t max, const char *upload, size_t n)
{
    r->too_large |= r->body.len + n > max;
    if (r->too_large)
        bytes_release(&r->body);
    else
        bytes_add(&r->body, upload, n);
}

static enum MHD_Result on_request(void *arg, struct MHD_Connection *c, const char *url,
                                  const char *method, const char *version, const char *upload,
                                  size_t *upload_size, void **state)
{
    const struct http_service *s = arg;
    struct request *r = *state;
    (void)version;
    if (!r) { /* the head alone has come */
        http_clients_step(c, STEP_REQUEST);
        *state = xcalloc(1, sizeof *r);
        return MHD_YES;
    }
    if (*upload_size) {
        take_body(r, s->body_max, upload, *upload_size);
        *upload_size = 0;
        return MHD_YES;
    }
    const struct http_asked q = {.method = method,
                                 .url = url,
                                 .body = r->body.data ? r->body.data : "",
                                 .len = r->body.len,
                                 .too_large = r->too_large};
    http_clients_step(c, STEP_UNLIMITED); /* the time is ours now */
    enum MHD_Result result = s->answer(s->arg, c, &q);
    http_clients_step(c, STEP_ANSWER);
    return result;
}

static void on_completed(void *arg, struct MHD_Connection *c, void **state,
                         enum MHD_RequestTerminationCode why)
{
    struct request *r = *state;
    (void)arg, (void)why;
    http_clients_step(c, STEP_REQUEST); /* the next one */
    if (r)
        bytes_release(&r->body);
    free(r);
    *state = NULL;
}

static int serve(const struct http_service *s, struct http_clients *clients, const sigset_t *ends,
                 struct log *log, struct err *err)
{
    int sock = -1, signal_number = 0;
    if (http_listen(s->address, &sock, err))
        return err_wrap(err, "--listen");
    struct MHD_Daemon *d = MHD_start_daemon(
        MHD_USE_THREAD_PER_CONNECTION | MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_POLL |
            MHD_USE_ITC,
        0, NULL, NULL, on_request, (void *)(uintptr_t)s, MHD_OPTION_LISTEN_SOCKET, sock,
        MHD_OPTION_NOTIFY_CONNECTION, http_clients_on_connection, clients,
        MHD_OPTION_NOTIFY_COMPLETED, on_completed, NULL, MHD_OPTION_CONNECTION_LIMIT,
        s->connections, MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)IDLE_S, MHD_OPTION_END);
    if (!d) {
        close(sock);
        return err_set(err, ERR_FAILED, "--listen: cannot serve %s", s->address);
    }
    const union MHD_DaemonInfo *info = MHD_get_daemon_info(d, MHD_DAEMON_INFO_BIND_PORT);
    log_info(log, "ready port=%u", info ? info->port : 0u);
    while (sigwait(ends, &signal_number))
        ;
    log_info(log, "ending signal=%d", signal_number);
    pthread_sigmask(SIG_UNBLOCK, ends, NULL); /* a second one does not wait for what is in hand */
    MHD_stop_daemon(d);
    return 0;
}

int http_serve(const struct http_service *s, const sigset_t *ends, struct log *log, struct err *err)
{
    struct http_clients clients = {0};
    http_clients_init(&clients);
    int result =
        http_clients_start(&clients, s->request_ns ? s->request_ns : REQUEST_S * NS_PER_S, err) ||
                serve(s, &clients, ends, log, err)
            ? -1
            : 0;
    http_clients_destroy(&clients);
    return result;
}
