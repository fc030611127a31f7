/* Connecting, accepting, sending. */
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "address.h"

#define UNHEARD_MS 15000 /* bytes that are not acknowledged end a connection */
#define CONNECT_MS 5000  /* the kernel by itself tries for two minutes */

static void tune(int fd)
{
    int yes = 1, idle = 10, each = 5, times = 2;
    unsigned ms = UNHEARD_MS;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &yes, sizeof yes);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &each, sizeof each);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &times, sizeof times);
    setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &ms, sizeof ms);
}

/* False: not in CONNECT_MS, or errno. */
static bool connects(int fd, const struct addrinfo *a)
{
    struct pollfd p = {.fd = fd, .events = POLLOUT};
    int failed = 0, n;
    socklen_t len = sizeof failed;
    if (connect(fd, a->ai_addr, a->ai_addrlen) == 0)
        return true;
    if (errno != EINPROGRESS)
        return false;
    while ((n = poll(&p, 1, CONNECT_MS)) < 0 && errno == EINTR)
        ;
    if (n < 0 || (n > 0 && getsockopt(fd, SOL_SOCKET, SO_ERROR, &failed, &len)))
        return false;
    errno = n == 0 ? ETIMEDOUT : failed;
    return errno == 0;
}

static int connect_one(const struct addrinfo *a)
{
    int fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -1;
    if (connects(fd, a) && fcntl(fd, F_SETFL, 0) == 0)
        return fd;
    int failed = errno;
    close(fd);
    errno = failed;
    return -1;
}

int address_connect(const char *host, const char *port, char why[ADDRESS_WHY])
{
    struct addrinfo want = {.ai_socktype = SOCK_STREAM}, *found = NULL;
    int code = getaddrinfo(host, port, &want, &found), fd = -1;
    snprintf(why, ADDRESS_WHY, "%s", code ? gai_strerror(code) : "no address");
    for (struct addrinfo *a = code ? NULL : found; a && fd < 0; a = a->ai_next) {
        fd = connect_one(a);
        if (fd < 0)
            snprintf(why, ADDRESS_WHY, "%s", strerrordesc_np(errno));
    }
    if (!code)
        freeaddrinfo(found);
    if (fd >= 0)
        tune(fd);
    return fd;
}

int address_accept(int listener)
{
    int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    if (fd >= 0)
        tune(fd);
    return fd;
}

void address_peer(int fd, char *out, size_t size)
{
    struct sockaddr_storage a;
    socklen_t len = sizeof a;
    char host[NI_MAXHOST], port[NI_MAXSERV];
    if (getpeername(fd, (struct sockaddr *)&a, &len) ||
        getnameinfo((struct sockaddr *)&a, len, host, sizeof host, port, sizeof port,
                    NI_NUMERICHOST | NI_NUMERICSERV))
        snprintf(out, size, "somebody");
    else
        snprintf(out, size, "%.*s:%s", (int)size - 8, host, port);
}

int address_send(int fd, const void *data, size_t len)
{
    const char *p = data;
    while (len > 0) {
        ssize_t n = send(fd, p, len, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return -1;
        p += n;
        len -= (size_t)n;
    }
    return 0;
}
