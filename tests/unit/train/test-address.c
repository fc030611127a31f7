/* Connections between processes of a job: what is reached, what refuses, what says nothing. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "address.h"
#include "mem.h"

#define CROWD 8

static void port_of(int listener, char port[ADDRESS_PORT])
{
    struct sockaddr_in a;
    socklen_t len = sizeof a;
    cr_assert_eq(getsockname(listener, (struct sockaddr *)&a, &len), 0);
    snprintf(port, ADDRESS_PORT, "%u", ntohs(a.sin_port));
}

Test(address, reached_it_is_one_that_waits)
{
    struct err err = {0};
    char port[ADDRESS_PORT], why[ADDRESS_WHY], byte = 'x';
    int listener = address_listen("127.0.0.1", "0", &err);
    cr_assert_geq(listener, 0, "%s", err.msg);
    port_of(listener, port);
    int fd = address_connect("127.0.0.1", port, why), other = address_accept(listener);
    cr_assert(fd >= 0 && other >= 0, "%s", why);
    cr_expect_eq(fcntl(fd, F_GETFL) & O_NONBLOCK, 0);
    cr_assert_eq(address_send(fd, "a", 1), 0);
    cr_assert_eq(recv(other, &byte, 1, 0), 1);
    cr_expect_eq(byte, 'a');
    close(fd);
    close(other);
    close(listener);
    cr_expect_eq(address_connect("127.0.0.1", port, why), -1);
    cr_expect_str_eq(why, "Connection refused");
    cr_expect_eq(address_connect("no.such.host.invalid", port, why), -1);
    cr_expect_str_neq(why, "");
}

/* Of IPv6, too, where there is any. */
Test(address, of_none_is_every_address)
{
    struct err err = {0};
    char port[ADDRESS_PORT], why[ADDRESS_WHY];
    int own = address_listen("::1", "0", NULL), listener = address_listen(NULL, "0", &err);
    cr_assert_geq(listener, 0, "%s", err.msg);
    port_of(listener, port);
    int v4 = address_connect("127.0.0.1", port, why), v6 = address_connect("::1", port, why);
    cr_expect_geq(v4, 0);
    cr_expect(own < 0 || v6 >= 0, "%s", why);
    close(v4);
    close(v6);
    close(own);
    close(listener);
}

/* A listener whose queue is full answers nobody, as a machine that is gone. */
Test(address, one_that_says_nothing_is_given_up, .timeout = 60)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    char port[ADDRESS_PORT], why[ADDRESS_WHY];
    int listener = socket(AF_INET, SOCK_STREAM, 0), crowd[CROWD];
    cr_assert_eq(bind(listener, (struct sockaddr *)&a, sizeof a), 0);
    cr_assert_eq(listen(listener, 0), 0);
    port_of(listener, port);
    socklen_t len = sizeof a;
    cr_assert_eq(getsockname(listener, (struct sockaddr *)&a, &len), 0);
    for (int i = 0; i < CROWD; i++) {
        crowd[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
        (void)connect(crowd[i], (struct sockaddr *)&a, sizeof a);
    }
    cr_expect_eq(address_connect("127.0.0.1", port, why), -1);
    cr_expect_str_eq(why, "Connection timed out");
    for (int i = 0; i < CROWD; i++)
        close(crowd[i]);
    close(listener);
}
