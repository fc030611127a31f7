/* A client's end, at any moment of its thread's round; and what is asked beside a watch. */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "clock.h"
#include "kube.h"
#include "mem.h"

#define ROUNDS 400

static void on_data(void *arg, const char *bytes, size_t n)
{
    (void)arg, (void)bytes, (void)n;
}

static void on_end(void *arg, const struct kube_answer *answer, const struct err *why)
{
    (void)answer;
    cr_assert(why && why->class == ERR_CANCELLED, "%s", why ? why->msg : "it was answered");
    atomic_fetch_add((atomic_int *)arg, 1);
}

/* A server that takes connections and says nothing. */
static int listen_mute(char **ret_url)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof at;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    cr_assert(fd >= 0 && bind(fd, (struct sockaddr *)&at, sizeof at) == 0 &&
              listen(fd, 1024) == 0 && getsockname(fd, (struct sockaddr *)&at, &len) == 0);
    *ret_url = xasprintf("http://127.0.0.1:%u", ntohs(at.sin_port));
    return fd;
}

Test(kube_client, what_is_under_way_is_ended_whenever_it_closes)
{
    static const struct kube_calls calls = {on_data, on_end};
    const struct kube_request now = {.method = HTTP_GET, .path = "/api/v1/pods"};
    struct kube_config config = {0};
    int server = listen_mute(&config.server);
    for (int i = 0; i < ROUNDS; i++) {
        const struct kube_client_conf conf = {.config = &config};
        struct kube_client *c;
        struct err err = {0};
        atomic_int ended = 0;
        cr_assert_eq(kube_open(&c, &conf, &err), 0, "%s", err.msg);
        kube_start(c, &now, 0, &calls, &ended);
        kube_start(c, &now, 3600 * NS_PER_S, &calls, &ended);
        for (uint64_t end = clock_mono_ns() + (uint64_t)i * 1000; clock_mono_ns() < end;)
            ;
        kube_close(c);
        cr_assert_eq(ended, 2, "round %d: %d of 2 calls were told of their end", i, (int)ended);
    }
    close(server);
    free(config.server);
}

/* --- beside a watch --------------------------------------------------------------------------- */

#define GIVE_UP_MS 60000 /* decides nothing where it works */

struct api { /* a server without TLS */
    int listening;
    atomic_bool watched, asked;
};

static int take_request(int listening)
{
    struct pollfd p = {.fd = listening, .events = POLLIN};
    char request[4096] = "";
    size_t len = 0;
    if (poll(&p, 1, GIVE_UP_MS) != 1)
        return -1;
    int fd = accept(listening, NULL, NULL);
    while (!strstr(request, "\r\n\r\n") && len < sizeof request - 1) {
        ssize_t n = read(fd, request + len, sizeof request - 1 - len);
        if (n <= 0)
            break;
        len += (size_t)n;
    }
    return fd;
}

static void say(int fd, const char *text)
{
    cr_expect_eq(send(fd, text, strlen(text), MSG_NOSIGNAL), (ssize_t)strlen(text));
}

/* Answers a watch, which goes on for ever, when another request was made; and that one. */
static void *serve_two(void *arg)
{
    struct api *api = arg;
    int watch = take_request(api->listening);
    atomic_store(&api->watched, true);
    usleep(100000); /* for the client to see to the other one */
    say(watch, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n");
    int other = take_request(api->listening);
    atomic_store(&api->asked, other >= 0);
    if (other >= 0) {
        say(other, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}");
        close(other);
    }
    close(watch);
    return NULL;
}

static void on_any_end(void *arg, const struct kube_answer *answer, const struct err *why)
{
    (void)answer, (void)why;
    atomic_fetch_add((atomic_int *)arg, 1);
}

/* The library may hold a request back until it knows whether a connection that is being made can
 * carry several. Without TLS it learns that it can't, and tells the request only when another one
 * ends: which watches don't. */
Test(kube_client, what_is_asked_beside_a_watch_does_not_wait_for_its_end)
{
    static const struct kube_calls calls = {on_data, on_any_end};
    const struct kube_request watch = {
        .method = HTTP_GET, .path = "/api/v1/pods?watch=1", .watch = true};
    const struct kube_request lease = {.method = HTTP_GET, .path = "/leases", .urgent = true};
    struct kube_config config = {0};
    struct api api = {.listening = listen_mute(&config.server)};
    const struct kube_client_conf conf = {.config = &config};
    struct kube_client *c;
    atomic_int ended = 0;
    pthread_t server;
    cr_assert_eq(pthread_create(&server, NULL, serve_two, &api), 0);
    cr_assert_eq(kube_open(&c, &conf, NULL), 0);
    kube_start(c, &watch, 0, &calls, &ended);
    while (!atomic_load(&api.watched))
        usleep(1000);
    kube_start(c, &lease, 0, &calls, &ended);
    pthread_join(server, NULL);
    cr_expect(api.asked, "it was held back");
    kube_close(c);
    cr_expect_eq(ended, 2);
    close(api.listening);
    free(config.server);
}
