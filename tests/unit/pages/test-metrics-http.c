/* Pages of a program: clients that are slow. */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <netinet/in.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "cleanup.h"
#include "clock.h"
#include "metrics-http.h"

static bool healthy(void *arg, struct err *why)
{
    (void)arg, (void)why;
    return true;
}

static int connected(const void *to, socklen_t len)
{
    int sock = socket(((const struct sockaddr *)to)->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    cr_assert_eq(connect(sock, to, len), 0, "%m");
    return sock;
}

static int client_of(const struct metrics_http *m)
{
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)metrics_http_port(m)),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    return connected(&to, sizeof to);
}

static bool machine_has_ipv6(void)
{
    struct sockaddr_in6 own = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    cleanup_close int sock = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
    return bind(sock, (const struct sockaddr *)&own, sizeof own) == 0;
}

static void send_text(int sock, const char *text)
{
    send(sock, text, strlen(text), MSG_NOSIGNAL);
}

static bool is_cut_off(int sock)
{
    struct pollfd p = {.fd = sock, .events = POLLIN};
    char byte;
    return poll(&p, 1, 50) == 1 && recv(sock, &byte, 1, 0) <= 0;
}

/* It would never be silent, and hold its place for ever. */
Test(metrics_http, who_sends_a_byte_now_and_then_is_cut_off, .timeout = 100)
{
    const struct metrics_http_conf conf = {
        .address = "127.0.0.1:0", .healthy = healthy, .request_ns = NS_PER_S / 2};
    struct metrics_http *m = NULL;
    struct err err = {0};
    cr_assert_eq(metrics_http_start(&m, &conf, &err), 0, "%s", err.msg);
    cleanup_close int slow = client_of(m);
    send_text(slow, "GET /heal");
    while (!is_cut_off(slow))
        send_text(slow, "x");
    char answer[16] = "";
    cleanup_close int other = client_of(m);
    send_text(other, "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n");
    cr_expect_eq(recv(other, answer, 12, MSG_WAITALL), 12);
    cr_expect_str_eq(answer, "HTTP/1.1 200");
    metrics_http_stop(m);
}

/* The address of a pod may be of either family, or of IPv6 alone. */
Test(metrics_http, every_address_is_of_both_families, .timeout = 100)
{
    const struct metrics_http_conf conf = {.address = ":0", .healthy = healthy};
    struct metrics_http *m = NULL;
    struct err err = {0};
    cr_assert_eq(metrics_http_start(&m, &conf, &err), 0, "%s", err.msg);
    close(client_of(m));
    struct sockaddr_in6 to = {.sin6_family = AF_INET6,
                              .sin6_port = htons((uint16_t)metrics_http_port(m)),
                              .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    if (machine_has_ipv6())
        close(connected(&to, sizeof to));
    metrics_http_stop(m);
}

Test(metrics_http, a_request_with_a_body_is_told_what_is_wrong, .timeout = 100)
{
    const struct metrics_http_conf conf = {.address = "127.0.0.1:0", .healthy = healthy};
    struct metrics_http *m = NULL;
    struct err err = {0};
    char answer[1024] = "";
    cr_assert_eq(metrics_http_start(&m, &conf, &err), 0, "%s", err.msg);
    cleanup_close int sock = client_of(m);
    send_text(sock, "POST /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
                    "Content-Length: 3\r\n\r\nabc");
    recv(sock, answer, sizeof answer - 1, MSG_WAITALL);
    cr_expect(strncmp(answer, "HTTP/1.1 405", 12) == 0 && strstr(answer, "\nAllow: GET, HEAD\r"),
              "%s", answer);
    metrics_http_stop(m);
}
