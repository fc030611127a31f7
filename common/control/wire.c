/* Messages on a stream socket: a little-endian length, the JSON, and perhaps descriptors. */
#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "control.h"

#define HEAD 4

union fd_space {
    struct cmsghdr align;
    char bytes[CMSG_SPACE(CONTROL_FDS_MAX * sizeof(int))];
};

static void attach_fds(struct msghdr *m, union fd_space *space, const int *fds, size_t n)
{
    memset(space, 0, sizeof *space);
    m->msg_control = space->bytes;
    m->msg_controllen = CMSG_SPACE(n * sizeof *fds);
    struct cmsghdr *c = CMSG_FIRSTHDR(m);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(n * sizeof *fds);
    memcpy(CMSG_DATA(c), fds, n * sizeof *fds);
}

static int send_all(int sock, struct iovec *iov, size_t n, const int *fds, size_t n_fds,
                    struct err *err)
{
    union fd_space space;
    while (n) {
        struct msghdr m = {.msg_iov = iov, .msg_iovlen = n};
        if (n_fds)
            attach_fds(&m, &space, fds, n_fds);
        ssize_t sent = sendmsg(sock, &m, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent < 0)
            return err_sys(err, errno, "control socket: send");
        n_fds = 0; /* they went with the first byte */
        for (size_t left = (size_t)sent; n && left >= iov->iov_len; iov++, n--) {
            left -= iov->iov_len;
            sent = (ssize_t)left;
        }
        if (n) {
            iov->iov_base = (char *)iov->iov_base + sent;
            iov->iov_len -= (size_t)sent;
        }
    }
    return 0;
}

int control_send_fds(int sock, const struct bytes *msg, const int *fds, size_t n_fds,
                     struct err *err)
{
    if (n_fds > CONTROL_FDS_MAX)
        return err_set(err, ERR_BUG, "control socket: %zu descriptors in a message", n_fds);
    if (msg->len > CONTROL_MAX)
        return err_set(err, ERR_LIMIT, "control socket: message of %zu bytes: the limit is %u",
                       msg->len, CONTROL_MAX);
    uint32_t len = (uint32_t)msg->len;
    unsigned char head[HEAD] = {(unsigned char)len, (unsigned char)(len >> 8),
                                (unsigned char)(len >> 16), (unsigned char)(len >> 24)};
    struct iovec iov[2] = {{head, HEAD}, {msg->data, msg->len}};
    return send_all(sock, iov, msg->len ? 2 : 1, fds, n_fds, err);
}

int control_send(int sock, const struct bytes *msg, int fd, struct err *err)
{
    return control_send_fds(sock, msg, &fd, fd >= 0 ? 1 : 0, err);
}

/* What came with a message, and how many the receiver wants: the rest is closed. */
struct came {
    int *fds;
    size_t n, max;
};

static void collect_fds(struct msghdr *m, struct came *came)
{
    for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c)) {
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
            continue;
        size_t n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < n; i++) {
            int fd;
            memcpy(&fd, CMSG_DATA(c) + i * sizeof fd, sizeof fd);
            if (came->n < came->max)
                came->fds[came->n++] = fd;
            else
                close(fd);
        }
    }
}

static int cut_short(struct err *err)
{
    return err_set(err, ERR_TRANSIENT,
                   "control socket: the other side ended in the middle of a message");
}

/* Exactly `len` bytes. Returns 1 if the stream ended before the first of them. */
static int recv_all(int sock, void *data, size_t len, struct came *came, struct err *err)
{
    size_t got = 0;
    while (got < len) {
        union fd_space space;
        struct iovec iov = {(char *)data + got, len - got};
        struct msghdr m = {.msg_iov = &iov,
                           .msg_iovlen = 1,
                           .msg_control = space.bytes,
                           .msg_controllen = sizeof space.bytes};
        ssize_t n = recvmsg(sock, &m, MSG_CMSG_CLOEXEC);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return err_sys(err, errno, "control socket: receive");
        collect_fds(&m, came);
        if (n == 0 && got == 0)
            return 1;
        if (n == 0)
            return cut_short(err);
        got += (size_t)n;
    }
    return 0;
}

static int recv_message(int sock, size_t most, struct bytes *msg, struct came *came,
                        struct err *err)
{
    unsigned char head[HEAD];
    int end = recv_all(sock, head, HEAD, came, err);
    if (end > 0)
        return err_set(err, ERR_NOT_FOUND, "control socket: the other side closed it");
    if (end < 0)
        return -1;
    uint32_t len = (uint32_t)head[0] | (uint32_t)head[1] << 8 | (uint32_t)head[2] << 16 |
                   (uint32_t)head[3] << 24;
    if (len > most)
        return err_set(err, ERR_CORRUPT,
                       "control socket: a message claims %u bytes: the limit is %zu", len, most);
    bytes_clear(msg);
    bytes_reserve(msg, len);
    end = len ? recv_all(sock, msg->data, len, came, err) : 0;
    if (end)
        return end > 0 ? cut_short(err) : -1;
    msg->len = len;
    if (msg->data)
        msg->data[len] = '\0';
    return 0;
}

int control_recv_fds(int sock, struct bytes *msg, int *fds, size_t max, size_t *ret_n,
                     struct err *err)
{
    struct came came = {fds, 0, max};
    int failed = recv_message(sock, CONTROL_MAX, msg, &came, err);
    while (failed && came.n)
        close(fds[--came.n]);
    *ret_n = came.n;
    return failed;
}

int control_recv(int sock, struct bytes *msg, int *ret_fd, struct err *err)
{
    int fd = -1;
    size_t n;
    int failed = control_recv_fds(sock, msg, &fd, 1, &n, err);
    if (!failed && ret_fd)
        *ret_fd = take_fd(&fd);
    else if (!failed && fd >= 0)
        close(fd);
    return failed;
}

int control_recv_short(int sock, size_t most, struct bytes *msg, struct err *err)
{
    return recv_message(sock, most, msg, &(struct came){0}, err);
}
