/* The store by which ranks find each other, from the bytes of two clients to its answers, which are
 * whole frames whatever came. The first byte says where the bytes of the second client begin. */
#include <assert.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "store-internal.h"

#define RANKS 3

static int listen_somewhere(struct sockaddr_un *ret, socklen_t *len)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    *ret = (struct sockaddr_un){.sun_family = AF_UNIX};
    *len = sizeof *ret;
    if (fd < 0 || bind(fd, (struct sockaddr *)ret, sizeof ret->sun_family) || listen(fd, 4) ||
        getsockname(fd, (struct sockaddr *)ret, len))
        abort();
    return fd;
}

static int say(const struct sockaddr_un *where, socklen_t len, const uint8_t *data, size_t size)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, (const struct sockaddr *)where, len))
        abort();
    while (size > 0) {
        ssize_t n = send(fd, data, size, MSG_NOSIGNAL);
        if (n <= 0)
            break; /* refused */
        data += n;
        size -= (size_t)n;
    }
    shutdown(fd, SHUT_WR);
    return fd;
}

static void hear(int fd)
{
    char buf[4096];
    struct bytes in = {0};
    struct store_frame f;
    long used = 0;
    ssize_t n;
    while ((n = recv(fd, buf, sizeof buf, 0)) > 0)
        bytes_add(&in, buf, (size_t)n);
    for (size_t at = 0; n == 0 && at < in.len; at += (size_t)used) {
        used = store_frame_parse(in.data + at, in.len - at, &f);
        assert(used > 0 && f.op >= STORE_VALUE);
    }
    bytes_release(&in);
    close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct sockaddr_un where;
    socklen_t len;
    struct store_server *s;
    if (size == 0)
        return 0;
    size_t first = data[0] < size - 1 ? data[0] : size - 1;
    if (store_serve(&s, listen_somewhere(&where, &len), RANKS, NULL))
        abort();
    int a = say(&where, len, data + 1, first);
    int b = say(&where, len, data + 1 + first, size - 1 - first);
    hear(a);
    hear(b);
    store_serve_end(s, 0);
    return 0;
}
