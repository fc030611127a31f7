/* A client's end, at any moment of its thread's round. */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <stdatomic.h>
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
