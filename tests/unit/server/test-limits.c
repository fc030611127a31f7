/* Requests a second from one address. The clock is the test's own. */
#include <arpa/inet.h>
#include <criterion/criterion.h>

#include "clock.h"
#include "server-internal.h"

#define START NS_PER_S

static struct limits limits;

static struct sockaddr_in6 address(const char *text)
{
    struct sockaddr_in6 a = {.sin6_family = AF_INET6};
    cr_assert_eq(inet_pton(AF_INET6, text, &a.sin6_addr), 1);
    return a;
}

static unsigned taken(const char *text, unsigned n, uint64_t at)
{
    struct sockaddr_in6 a = address(text);
    unsigned yes = 0;
    for (unsigned i = 0; i < n; i++)
        yes += limits_take(&limits, (const struct sockaddr *)(const void *)&a, at);
    return yes;
}

Test(limits, a_second_holds_the_rate)
{
    limits_init(&limits, 50);
    cr_expect_eq(taken("::ffff:10.0.0.1", 200, START), 50);
    cr_expect_eq(taken("::ffff:10.0.0.1", 200, START + NS_PER_S / 2), 25);
    cr_expect_eq(taken("::ffff:10.0.0.1", 200, START + NS_PER_S * 100), 50,
                 "no more than a second's");
    cr_expect_eq(taken("::ffff:10.0.0.2", 200, START), 50, "another address has its own");
    limits_destroy(&limits);
}

/* Two threads ask at once: the one that looked at the clock first may come to the bucket last. */
Test(limits, who_comes_late_fills_nothing)
{
    limits_init(&limits, 50);
    cr_expect_eq(taken("::ffff:10.0.0.1", 60, START + NS_PER_S), 50);
    cr_expect_eq(taken("::ffff:10.0.0.1", 60, START), 0, "a time before the last one's");
    cr_expect_eq(taken("::ffff:10.0.0.1", 60, START + NS_PER_S), 0, "the clock was not set back");
    limits_destroy(&limits);
}

Test(limits, a_network_of_ipv6_is_one_client)
{
    limits_init(&limits, 50);
    cr_expect_eq(taken("2001:db8::1", 30, START), 30);
    cr_expect_eq(taken("2001:db8::2", 30, START), 20);
    cr_expect_eq(taken("2001:db8:0:1::1", 30, START), 30);
    limits_destroy(&limits);
}

Test(limits, what_is_refused_weighs_more)
{
    limits_init(&limits, 1000);
    struct sockaddr_in6 a = address("::ffff:10.0.0.1");
    const struct sockaddr *any = (const struct sockaddr *)(const void *)&a;
    unsigned n = 0;
    while (limits_take(&limits, any, START)) {
        limits_refused(&limits, any, START);
        n++;
    }
    cr_expect_eq(n, 100);
    limits_destroy(&limits);
}

Test(limits, zero_is_any_rate)
{
    limits_init(&limits, 0);
    cr_expect_eq(taken("::ffff:10.0.0.1", 5000, START), 5000);
    limits_destroy(&limits);
}

/* More addresses than there is room for: whoever asks most is not forgotten for them. */
Test(limits, a_flood_of_addresses)
{
    limits_init(&limits, 50);
    cr_expect_eq(taken("::ffff:10.0.0.1", 60, START), 50);
    for (unsigned i = 0; i < 100000; i++) {
        char text[40];
        snprintf(text, sizeof text, "2001:db8:%x:%x::1", i >> 16, i & 0xffff);
        taken(text, 1, START);
    }
    cr_expect_eq(taken("::ffff:10.0.0.1", 60, START), 0);
    limits_destroy(&limits);
}
