#include "listen.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "conf.h"
#include "mem.h"

#define BACKLOG 512

bool address_split(const char *where, char *host, size_t size, char port[ADDRESS_PORT])
{
    const char *colon = strrchr(where, ':');
    size_t len = colon ? (size_t)(colon - where) : 0;
    if (len == 0 || len >= size || !conf_is_port(colon + 1))
        return false;
    bool brackets = where[0] == '[' && where[len - 1] == ']';
    snprintf(host, size, "%.*s", (int)(brackets ? len - 2 : len), where + brackets);
    snprintf(port, ADDRESS_PORT, "%s", colon + 1);
    return *host != '\0';
}

/* -1: errno says why. */
static int listen_one(const struct addrinfo *a)
{
    const int yes = 1, no = 0;
    cleanup_close int fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    if (a->ai_family == AF_INET6)
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof no);
    if (bind(fd, a->ai_addr, a->ai_addrlen) || listen(fd, BACKLOG))
        return -1;
    return take_fd(&fd);
}

/* Where one of them can be had. All addresses are the one of IPv6: its socket hears IPv4 as well.
 */
static int listen_at_one(const struct addrinfo *found, bool all)
{
    int fd = -1;
    for (const struct addrinfo *a = found; all && a && fd < 0; a = a->ai_next)
        if (a->ai_family == AF_INET6)
            fd = listen_one(a);
    for (const struct addrinfo *a = found; a && fd < 0; a = a->ai_next)
        fd = listen_one(a);
    return fd;
}

int address_listen(const char *host, const char *port, struct err *err)
{
    struct addrinfo want = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE}, *found = NULL;
    int code = getaddrinfo(host, port, &want, &found);
    if (code)
        return err_set(err, ERR_USAGE, "%s: %s", host ? host : "*", gai_strerror(code));
    int fd = listen_at_one(found, !host), why = errno;
    freeaddrinfo(found);
    if (fd < 0)
        return err_sys(err, why, "cannot listen on %s, port %s", host ? host : "any address", port);
    return fd;
}

int address_listen_at(const char *where, struct err *err)
{
    char host[ADDRESS_HOST], port[ADDRESS_PORT];
    if (*where == ':' && conf_is_port(where + 1))
        return address_listen(NULL, where + 1, err);
    if (!address_split(where, host, sizeof host, port))
        return err_set(err, ERR_USAGE,
                       "\"%s\": want ADDRESS:PORT, :PORT or [ADDRESS6]:PORT, with a port from 0 to "
                       "65535",
                       where);
    return address_listen(host, port, err);
}

bool address_is_loopback(int sock)
{
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    } got = {.v6 = {0}};
    socklen_t len = sizeof got;
    if (getsockname(sock, &got.any, &len))
        return false;
    if (got.any.sa_family == AF_INET)
        return ntohl(got.v4.sin_addr.s_addr) >> 24 == 127;
    const struct in6_addr *a = &got.v6.sin6_addr;
    return got.any.sa_family == AF_INET6 &&
           (IN6_IS_ADDR_LOOPBACK(a) || (IN6_IS_ADDR_V4MAPPED(a) && a->s6_addr[12] == 127));
}
