/*
 * Before anything is started: does every pod reach every other? Each listens where its parameter
 * server will, says its number to all others there, and hears all of theirs. A pod goes on when it
 * reached all and was reached by all, so that nobody still needs it.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "address.h"
#include "clock.h"
#include "launch.h"
#include "mem.h"

#define HELLO        "sampan-launch "
#define TRY_NS       (200 * NS_PER_MS)
#define LINE_MAX_LEN 400

struct reach {
    const struct launch_conf *c;
    const struct launch_nodes *n;
    int64_t id;
    int listener;
    bool *reached, *heard;
    char (*why)[ADDRESS_WHY];
};

static int hello_of(const struct reach *r, int64_t from, int64_t to, char out[LINE_MAX_LEN])
{
    return snprintf(out, LINE_MAX_LEN, HELLO "%s %lld %lld\n", r->c->job, (long long)from,
                    (long long)to);
}

/* A line, within a second: what the other side sends at once. */
static void read_line(int fd, char out[LINE_MAX_LEN])
{
    size_t n = 0;
    uint64_t end = clock_mono_ns() + NS_PER_S;
    out[0] = '\0';
    while (n + 1 < LINE_MAX_LEN && !strchr(out, '\n') && clock_mono_ns() < end) {
        struct pollfd p = {.fd = fd, .events = POLLIN};
        if (poll(&p, 1, 100) <= 0)
            continue;
        ssize_t got = recv(fd, out + n, LINE_MAX_LEN - 1 - n, 0);
        if (got <= 0)
            return;
        n += (size_t)got;
        out[n] = '\0';
    }
}

/* One that has waited too long asks again, and may find nobody then: it has not been answered. */
static bool has_gone(int fd)
{
    char c;
    return recv(fd, &c, 1, MSG_PEEK | MSG_DONTWAIT) == 0;
}

/* Somebody comes: one of ours is told that it was heard. */
static void hear(struct reach *r, int wait_ms)
{
    struct pollfd p = {.fd = r->listener, .events = POLLIN};
    char line[LINE_MAX_LEN], want[LINE_MAX_LEN];
    if (poll(&p, 1, wait_ms) <= 0)
        return;
    cleanup_close int fd = accept4(r->listener, NULL, NULL, SOCK_CLOEXEC);
    if (fd < 0)
        return;
    read_line(fd, line);
    for (int64_t i = 0; i < r->n->n; i++) {
        hello_of(r, i, r->id, want);
        if (strcmp(line, want) == 0 && !has_gone(fd) && address_send(fd, "ok\n", 3) == 0)
            r->heard[i] = true;
    }
}

/* A pod that connects waits for the answer while it may itself be asked: it looks after that. */
static void reach_one(struct reach *r, int64_t to)
{
    char port[ADDRESS_PORT], line[LINE_MAX_LEN];
    snprintf(port, sizeof port, "%lld", (long long)r->c->port);
    cleanup_close int fd = address_connect(r->n->ip[to], port, r->why[to]);
    if (fd < 0)
        return;
    snprintf(r->why[to], ADDRESS_WHY, "no answer (a process of another job?)");
    if (address_send(fd, line, (size_t)hello_of(r, r->id, to, line)))
        return;
    uint64_t end = clock_mono_ns() + NS_PER_S;
    struct pollfd p = {.fd = fd, .events = POLLIN};
    while (clock_mono_ns() < end && poll(&p, 1, 10) == 0)
        hear(r, 0);
    read_line(fd, line);
    r->reached[to] = strcmp(line, "ok\n") == 0;
}

static int missing(const struct reach *r, struct err *err)
{
    const char *own = r->n->ip[r->id];
    for (int64_t i = 0; i < r->n->n; i++)
        if (!r->reached[i])
            return err_set(err, ERR_TRANSIENT,
                           "launch: %s does not reach %s port %lld: %s (a network policy, or a pod "
                           "that ended?)",
                           own, r->n->ip[i], (long long)r->c->port, r->why[i]);
    for (int64_t i = 0; i < r->n->n; i++)
        if (!r->heard[i])
            return err_set(err, ERR_TRANSIENT,
                           "launch: %s is not reached by %s at port %lld (a network policy, or a "
                           "pod that ended?)",
                           own, r->n->ip[i], (long long)r->c->port);
    return 0;
}

static int reach_all(struct reach *r, const atomic_int *stop, struct err *err)
{
    uint64_t end = clock_mono_ns() + r->c->reach_ns, next = 0;
    r->reached[r->id] = r->heard[r->id] = true;
    while (missing(r, NULL)) {
        uint64_t now = clock_mono_ns();
        if (*stop)
            return err_set(err, ERR_CANCELLED, "launch: stopped by a signal");
        if (now > end)
            return missing(r, err);
        for (int64_t i = 0; now >= next && i < r->n->n; i++)
            if (!r->reached[i])
                reach_one(r, i);
        if (now >= next)
            next = clock_mono_ns() + TRY_NS;
        hear(r, 50);
    }
    return 0;
}

int launch_reach(const struct launch_conf *c, const struct launch_nodes *n, int64_t id,
                 const atomic_int *stop, struct err *err)
{
    char port[ADDRESS_PORT];
    size_t all = (size_t)n->n;
    cleanup_free bool *reached = xcalloc(all, sizeof *reached),
                      *heard = xcalloc(all, sizeof *heard);
    cleanup_free char(*why)[ADDRESS_WHY] = xcalloc(all, sizeof *why);
    snprintf(port, sizeof port, "%lld", (long long)c->port);
    cleanup_close int listener = address_listen(n->ip[id], port, err);
    if (listener < 0)
        return err_wrap(err, "launch: this pod");
    struct reach r = {c, n, id, listener, reached, heard, why};
    return reach_all(&r, stop, err);
}
