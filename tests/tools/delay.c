/*
 * delay: a TCP relay that stands for a long or narrow link.
 *
 *   delay PORT ONE_WAY_MS [BYTES_PER_SECOND]
 *
 * Listens on a loopback port of the kernel's choice, prints it, and relays each connection to
 * 127.0.0.1:PORT: every byte arrives ONE_WAY_MS later in each direction, and what comes from the
 * server shares one rate over all connections. One thread; each direction of a connection is a
 * queue of chunks with the time when they are due. A full queue stops reading, so a slow receiver
 * is felt by the sender.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define CHUNK      (16u << 10)
#define QUEUE_MAX  (4u << 20)
#define QUEUE_SLOW (128u << 10) /* with a rate: a short queue, as a router's */
#define EVENTS     256

struct chunk {
    struct chunk *next;
    uint64_t due;
    size_t at, len;
    char bytes[CHUNK];
};

struct side {
    int in, out;
    struct chunk *first, **last;
    size_t queued;
    bool limited, ended, shut;
};

struct link {
    struct side up, down;
    struct link *next;
    bool dead;
};

struct relay {
    int epoll, listener;
    uint16_t port;
    uint64_t delay_ns, rate, link_free;
    size_t queue_max;
    struct link *links;
};

static uint64_t now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void side_init(struct side *s, int in, int out, bool limited)
{
    *s = (struct side){.in = in, .out = out, .limited = limited};
    s->last = &s->first;
}

static int connect_to(uint16_t port)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(port)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (fd >= 0 && connect(fd, (struct sockaddr *)&to, sizeof(to))) {
        close(fd);
        return -1;
    }
    return fd;
}

static void watch(struct relay *r, int fd, struct link *l)
{
    struct epoll_event e = {.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, .data.ptr = l};
    int one = 1;

    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    epoll_ctl(r->epoll, EPOLL_CTL_ADD, fd, &e);
}

static void accept_all(struct relay *r)
{
    for (;;) {
        int client = accept4(r->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (client < 0)
            return;
        int server = connect_to(r->port);
        struct link *l = server < 0 ? NULL : calloc(1, sizeof(*l));
        if (!l) {
            close(client);
            continue;
        }
        side_init(&l->up, client, server, false);
        side_init(&l->down, server, client, true);
        l->next = r->links;
        r->links = l;
        watch(r, client, l);
        watch(r, server, l);
    }
}

/* When the last byte of `len` more bytes has passed the link. */
static uint64_t due_of(struct relay *r, const struct side *s, size_t len)
{
    uint64_t now = now_ns();

    if (!s->limited || !r->rate)
        return now + r->delay_ns;
    if (r->link_free < now)
        r->link_free = now;
    r->link_free += len * 1000000000u / r->rate;
    return r->link_free + r->delay_ns;
}

static void take_in(struct relay *r, struct side *s)
{
    while (!s->ended && s->queued < r->queue_max) {
        struct chunk *c = malloc(sizeof(*c));
        ssize_t n = c ? recv(s->in, c->bytes, sizeof(c->bytes), MSG_DONTWAIT) : -1;

        if (n <= 0) {
            bool again = n < 0 && (errno == EAGAIN || errno == EINTR);
            free(c);
            s->ended = !again;
            return;
        }
        c->next = NULL;
        c->due = due_of(r, s, (size_t)n);
        c->at = 0;
        c->len = (size_t)n;
        *s->last = c;
        s->last = &c->next;
        s->queued += (size_t)n;
    }
}

/* Sends what is due. False: the receiver is gone. */
static bool give_out(struct side *s, uint64_t now)
{
    while (s->first && s->first->due <= now) {
        struct chunk *c = s->first;
        ssize_t n = send(s->out, c->bytes + c->at, c->len - c->at, MSG_DONTWAIT | MSG_NOSIGNAL);

        if (n < 0)
            return errno == EAGAIN || errno == EINTR;
        c->at += (size_t)n;
        s->queued -= (size_t)n;
        if (c->at < c->len)
            return true;
        s->first = c->next;
        if (!s->first)
            s->last = &s->first;
        free(c);
    }
    if (s->ended && !s->first && !s->shut) {
        shutdown(s->out, SHUT_WR);
        s->shut = true;
    }
    return true;
}

static void side_free(struct side *s)
{
    while (s->first) {
        struct chunk *c = s->first;
        s->first = c->next;
        free(c);
    }
}

/* Moves all that can move; returns when the next chunk is due. */
static uint64_t pump(struct relay *r)
{
    uint64_t now = now_ns(), next = UINT64_MAX;

    for (struct link **at = &r->links; *at;) {
        struct link *l = *at;
        struct side *sides[] = {&l->up, &l->down};

        for (int i = 0; i < 2; i++) {
            take_in(r, sides[i]);
            l->dead |= !give_out(sides[i], now);
            if (sides[i]->first && sides[i]->first->due < next)
                next = sides[i]->first->due;
        }
        if (l->dead || (l->up.shut && l->down.shut)) {
            close(l->up.in);
            close(l->down.in);
            side_free(&l->up);
            side_free(&l->down);
            *at = l->next;
            free(l);
        } else {
            at = &l->next;
        }
    }
    return next;
}

static int listen_on_any(uint16_t *ret_port)
{
    struct sockaddr_in on = {.sin_family = AF_INET};
    socklen_t len = sizeof(on);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    on.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (fd < 0 || bind(fd, (struct sockaddr *)&on, sizeof(on)) || listen(fd, 512) ||
        getsockname(fd, (struct sockaddr *)&on, &len))
        return -1;
    *ret_port = ntohs(on.sin_port);
    return fd;
}

int main(int argc, char **argv)
{
    struct relay r = {.queue_max = QUEUE_MAX};
    uint16_t port;

    if (argc < 3) {
        fprintf(stderr, "delay PORT ONE_WAY_MS [BYTES_PER_SECOND]\n");
        return 2;
    }
    r.port = (uint16_t)atoi(argv[1]);
    r.delay_ns = (uint64_t)(atof(argv[2]) * 1e6);
    r.rate = argc > 3 ? strtoull(argv[3], NULL, 10) : 0;
    if (r.rate)
        r.queue_max = QUEUE_SLOW;
    r.epoll = epoll_create1(EPOLL_CLOEXEC);
    r.listener = listen_on_any(&port);
    struct epoll_event e = {.events = EPOLLIN, .data.ptr = NULL};
    if (r.epoll < 0 || r.listener < 0 || epoll_ctl(r.epoll, EPOLL_CTL_ADD, r.listener, &e)) {
        perror("delay");
        return 1;
    }
    printf("%u\n", port);
    fflush(stdout);
    for (;;) {
        struct epoll_event events[EVENTS];
        uint64_t next = pump(&r), now = now_ns();
        uint64_t wait = next == UINT64_MAX ? 1000000000u : next > now ? next - now : 0;
        struct timespec t = {.tv_sec = (time_t)(wait / 1000000000u),
                             .tv_nsec = (long)(wait % 1000000000u)};
        int n = epoll_pwait2(r.epoll, events, EVENTS, &t, NULL);

        for (int i = 0; i < n; i++)
            if (!events[i].data.ptr)
                accept_all(&r);
    }
}
