#define LOG_MODULE "http"
#include "http-serve.h"

#include <unistd.h>

#include "http-listen.h"

int http_serve(const char *address, MHD_AccessHandlerCallback answer, void *arg,
               struct MHD_OptionItem *more, const sigset_t *ends, struct log *log, struct err *err)
{
    int sock = -1, signal_number = 0;
    if (http_listen(address, &sock, err))
        return err_wrap(err, "--listen");
    struct MHD_Daemon *d =
        MHD_start_daemon(MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_POLL, 0, NULL, NULL, answer, arg,
                         MHD_OPTION_LISTEN_SOCKET, sock, MHD_OPTION_CONNECTION_TIMEOUT,
                         (unsigned)HTTP_SERVE_IDLE_S, MHD_OPTION_ARRAY, more, MHD_OPTION_END);
    if (!d) {
        close(sock);
        return err_set(err, ERR_FAILED, "--listen: cannot serve %s", address);
    }
    const union MHD_DaemonInfo *info = MHD_get_daemon_info(d, MHD_DAEMON_INFO_BIND_PORT);
    log_info(log, "ready port=%u", info ? info->port : 0u);
    while (sigwait(ends, &signal_number))
        ;
    log_info(log, "ending signal=%d", signal_number);
    MHD_stop_daemon(d);
    return 0;
}
