#include "http-listen.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "conf.h"
#include "mem.h"

#define BACKLOG 256

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

/* -1: errno says why. */
static int listen_at(const struct addrinfo *a)
{
    const int yes = 1, no = 0;
    cleanup_close int sock = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (sock < 0)
        return -1;
    setsockopt(sock, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    if (a->ai_family == AF_INET6)
        setsockopt(sock, IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof no);
    if (bind(sock, a->ai_addr, a->ai_addrlen) || listen(sock, BACKLOG))
        return -1;
    return take_fd(&sock);
}

/* Where one of them can be had. Every address is the one of IPv6: its socket hears IPv4 as well. */
static int listen_at_one(const struct addrinfo *found, bool every)
{
    int sock = -1;
    for (const struct addrinfo *a = found; every && a && sock < 0; a = a->ai_next)
        if (a->ai_family == AF_INET6)
            sock = listen_at(a);
    for (const struct addrinfo *a = found; a && sock < 0; a = a->ai_next)
        sock = listen_at(a);
    return sock;
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
    int sock = listen_at_one(found, !host);
    int why = errno;
    freeaddrinfo(found);
    if (sock < 0)
        return err_sys(err, why, "listen on %s", address);
    *ret = sock;
    return 0;
}
