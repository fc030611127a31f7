#include <criterion/criterion.h>
#include <string.h>

#include "members.h"

static void list_is(const char *text, bool lines, unsigned partitions, const char *want)
{
    cleanup_member_list struct member_list l = {0};
    cleanup_bytes struct bytes got = {0};
    struct err err = {0};
    int rc = members_parse(text, lines, partitions, &l, &err);
    for (size_t i = 0; i < l.n; i++)
        bytes_addf(&got, "%s%s", i ? " " : "", l.urls[i]);
    if (l.service)
        bytes_add_str(&got, " service");
    cr_assert_str_eq(rc ? err.msg : got.data, want, "of \"%s\"", text);
}

Test(members, lists)
{
    list_is("http://a:1", false, 1, "http://a:1");
    list_is("http://a:1", false, 2, "http://a:1 service");
    list_is("http://a:1,http://b:2/", false, 2, "http://a:1 http://b:2");
    list_is(" https://[::1]:7716 , ,http://10.0.0.1:80,", false, 2,
            "https://[::1]:7716 http://10.0.0.1:80");
    list_is("http://s-{k}.s:7716", false, 3,
            "http://s-0.s:7716 http://s-1.s:7716 http://s-2.s:7716");
    list_is("http://s-{k}.s:7716", false, 1, "http://s-0.s:7716");
    list_is("# all\n\nhttp://a:1 # one\r\n\thttp://b:2\n", true, 2, "http://a:1 http://b:2");
    list_is("http://a:1\n", true, 2, "http://a:1 service");
}

Test(members, bad_lists)
{
    static const char want[] = "want http://HOST:PORT or https://HOST:PORT";
    const char *const bad[] = {"a:1",          "ftp://a:1",     "http://a",        "http://a:",
                               "http://:1",    "http://a:b",    "http://a:1/x",    "http://u@a:1",
                               "http://a:1?x", "http://a:1#x",  "http://a:123456", "http://a b:1",
                               "http://a:1//", "http://a:65536"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        char text[200];
        snprintf(text, sizeof text, "\"%.*s\": %s",
                 (int)strlen(bad[i]) - (bad[i][strlen(bad[i]) - 1] == '/'), bad[i], want);
        list_is(bad[i], false, 2, text);
    }
    list_is("", false, 2, "no server is named (want http://HOST:PORT)");
    list_is("# none\n \n", true, 2, "no server is named (want http://HOST:PORT)");
    char text[200];
    snprintf(text, sizeof text, "line 2: \"x\": %s", want);
    list_is("http://a:1\nx\n", true, 2, text);
}
