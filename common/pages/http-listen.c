#include "http-listen.h"

#include <errno.h>
#include <netdb.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "conf.h"
#include "mem.h"

#define BACKLOG 64

static int split(const char *address, char **host, char **port, struct err *err)
{
    const char *colon = strrchr(address, ':');
    if (!colon || !conf_is_port(colon + 1))
        return err_set(err, ERR_USAGE, "%s: want ADDR:PORT or :PORT, with a port from 0 to 65535",
                       address);
    bool bracket = address[0] == '[' && colon > address + 1 && colon[-1] == ']';
    const char *from = bracket ? address + 1 : address;
    size_t n = (size_t)(colon - from) - bracket;
    *host = n ? xstrndup(from, n) : NULL;
    *port = xstrdup(colon + 1);
    return 0;
}

int http_listen(const char *address, int *ret, struct err *err)
{
    cleanup_free char *host = NULL, *port = NULL;
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE}, *found = NULL;
    if (split(address, &host, &port, err))
        return -1;
    int code = getaddrinfo(host, port, &hints, &found);
    if (code)
        return err_set(err, ERR_USAGE, "%s: %s", address, gai_strerror(code));
    int one = 1;
    cleanup_close int sock = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (sock >= 0)
        setsockopt(sock, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    bool ok = sock >= 0 && bind(sock, found->ai_addr, found->ai_addrlen) == 0 &&
              listen(sock, BACKLOG) == 0;
    int why = errno;
    freeaddrinfo(found);
    if (!ok)
        return err_sys(err, why, "listen on %s", address);
    *ret = take_fd(&sock);
    return 0;
}
