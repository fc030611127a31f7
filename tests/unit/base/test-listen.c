#include <criterion/criterion.h>
#include <string.h>
#include <unistd.h>

#include "listen.h"

Test(listen, host_and_port)
{
    static const struct {
        const char *where, *host, *port; /* host NULL: refused */
    } rows[] = {
        {"a:1", "a", "1"},       {"10.0.0.1:65535", "10.0.0.1", "65535"},
        {"[::1]:0", "::1", "0"}, {"::1:80", "::1", "80"},
        {"a:65536", NULL, NULL}, {"a:http", NULL, NULL},
        {"a:", NULL, NULL},      {"a", NULL, NULL},
        {":1", NULL, NULL},      {"[]:1", NULL, NULL},
        {"", NULL, NULL},        {"a-host-of-a-name-too-long:1", NULL, NULL},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char host[20], port[ADDRESS_PORT];
        bool good = address_split(rows[i].where, host, sizeof host, port);
        cr_assert_eq(good, rows[i].host != NULL, "%s", rows[i].where);
        if (good) {
            cr_expect_str_eq(host, rows[i].host);
            cr_expect_str_eq(port, rows[i].port);
        }
    }
}

Test(listen, what_is_no_address_is_said)
{
    static const char *const rows[][2] = {
        {"127.0.0.1",
         "\"127.0.0.1\": want ADDRESS:PORT, :PORT or [ADDRESS6]:PORT, with a port from "
         "0 to 65535"},
        {":http", "with a port from 0 to 65535"},
        {"[]:80", "want ADDRESS:PORT"},
        {"192.0.2.1:0", "cannot listen on 192.0.2.1, port 0: "},
        {"no.such.host.invalid:0", "no.such.host.invalid: "},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct err err = {0};
        cr_assert_eq(address_listen_at(rows[i][0], &err), -1, "%s", rows[i][0]);
        cr_expect(strstr(err.msg, rows[i][1]), "%s", err.msg);
    }
    int all = address_listen_at(":0", NULL), one = address_listen_at("127.0.0.1:0", NULL);
    cr_expect(all >= 0 && one >= 0);
    close(all);
    close(one);
}
