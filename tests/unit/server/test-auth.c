/* Who may ask: tokens, addresses, pages of other sites. */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "server-internal.h"

Test(auth, tokens)
{
    char path[] = "/tmp/sampan-token-XXXXXX";
    int fd = mkstemp(path);
    cr_assert_geq(fd, 0);
    cr_assert_eq(write(fd, "0123456789abcdef\n", 17), 17);
    close(fd);
    const struct server_conf conf = {.token_file = path};
    struct auth a = {0};
    struct err err;
    cr_assert_eq(auth_open(&a, &conf, &err), 0, "%s", err.msg);
    static const struct {
        const char *header;
        bool good;
    } cases[] = {
        {"Bearer 0123456789abcdef", true},
        {"bearer 0123456789abcdef", true},
        {"Bearer 0123456789abcdeF", false},
        {"Bearer 0123456789abcde", false},
        {"Bearer 0123456789abcdeff", false},
        {"Bearer x123456789abcdef", false},
        {"Bearer 0", false},
        {"Bearer ", false},
        {"Bearer", false},
        {"Bearer  0123456789abcdef", false},
        {"0123456789abcdef", false},
        {"Basic 0123456789abcdef", false},
        {"", false},
        {NULL, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        cr_expect_eq(auth_token_is(&a, cases[i].header), cases[i].good, "%s",
                     cases[i].header ? cases[i].header : "none");
    auth_close(&a);
    unlink(path);
}

Test(auth, pages_of_other_sites)
{
    static const struct {
        bool open;
        const char *site, *origin, *host;
        bool foreign;
    } cases[] = {
        {false, NULL, NULL, "node-3:7716", false},
        {false, NULL, NULL, NULL, false},
        {false, "same-origin", "http://node-3:7716", "node-3:7716", false},
        {false, "same-origin", "HTTP://Node-3:7716", "node-3:7716", false},
        {false, "none", NULL, "node-3:7716", false},
        {false, "cross-site", NULL, "node-3:7716", true},
        {false, "same-site", NULL, "node-3:7716", true},
        {false, "anything", NULL, "node-3:7716", true},
        {false, NULL, "http://evil", "node-3:7716", true},
        {false, NULL, "http://node-3:7717", "node-3:7716", true},
        {false, NULL, "null", "node-3:7716", true},
        {false, NULL, "http://node-3:7716", NULL, true},
        {true, NULL, NULL, "127.0.0.1:7716", false},
        {true, NULL, NULL, "127.9.9.9", false},
        {true, NULL, NULL, "localhost:1", false},
        {true, NULL, NULL, "LOCALHOST", false},
        {true, NULL, NULL, "[::1]:7716", false},
        {true, NULL, NULL, NULL, false},
        {true, NULL, NULL, "localhost.evil", true},
        {true, NULL, NULL, "127.0.0.1.evil", true},
        {true, NULL, NULL, "[::1].evil", true},
        {true, NULL, NULL, "10.0.0.1", true},
        {true, NULL, NULL, "evil:7716", true},
        {true, NULL, NULL, "", true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        cr_expect_eq(
            auth_is_foreign_page(cases[i].open, cases[i].site, cases[i].origin, cases[i].host),
            cases[i].foreign, "case %zu", i);
}

Test(auth, networks)
{
    struct auth a = {0};
    struct err err;
    cr_assert_eq(networks_parse("10.0.0.0/8,fd00::/9,1.2.3.4", &a.compat, &a.n_compat, &err), 0);
    static const struct {
        const char *address;
        bool in;
    } cases[] = {{"10.1.2.3", true},       {"11.0.0.0", false}, {"1.2.3.4", true},
                 {"1.2.3.5", false},       {"fd7f::1", true},   {"fd80::1", false},
                 {"::ffff:10.1.1.1", true}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct sockaddr_in v4 = {.sin_family = AF_INET};
        struct sockaddr_in6 v6 = {.sin6_family = AF_INET6};
        const struct sockaddr *any = (const struct sockaddr *)(const void *)&v4;
        if (inet_pton(AF_INET, cases[i].address, &v4.sin_addr) != 1) {
            cr_assert_eq(inet_pton(AF_INET6, cases[i].address, &v6.sin6_addr), 1);
            any = (const struct sockaddr *)(const void *)&v6;
        }
        cr_expect_eq(auth_is_compat_peer(&a, any), cases[i].in, "%s", cases[i].address);
    }
    free(a.compat);
}
