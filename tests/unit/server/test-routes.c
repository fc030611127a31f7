/* The table of routes: paths, methods, and what stands for {id}. */
#include <criterion/criterion.h>
#include <string.h>

#include "server-internal.h"

Test(routes, found)
{
    static const struct {
        const char *method, *path, *route, *id, *methods;
    } cases[] = {
        {"GET", "/v1/jobs", "/v1/jobs", NULL, ""},
        {"HEAD", "/v1/status", "/v1/status", NULL, ""},
        {"GET", "/v1/jobs/a.b", "/v1/jobs/{id}", "a.b", ""},
        {"DELETE", "/v1/jobs/..", "/v1/jobs/{id}", "..", ""},
        {"POST", "/v1/jobs/a/pause", "/v1/jobs/{id}/pause", "a", ""},
        {"GET", "/ui", "/ui", NULL, ""},
        {"GET", "/ui/app.js", "/ui/{id}", "app.js", ""},
        {"PUT", "/v1/jobs/a", NULL, NULL, "GET, HEAD, DELETE"},
        {"DELETE", "/v1/status", NULL, NULL, "GET, HEAD"},
        {"GET", "/v1/jobs/a/pause", NULL, NULL, "POST"},
        {"GET", "/v1/jobs/", NULL, NULL, ""},
        {"GET", "/v1/jobs/a/b", NULL, NULL, ""},
        {"GET", "/ui/a/b", NULL, NULL, ""},
        {"GET", "/ui/../v1/status", NULL, NULL, ""},
        {"GET", "//v1/status", NULL, NULL, ""},
        {"GET", "v1/status", NULL, NULL, ""},
        {"GET", "", NULL, NULL, ""},
        {"get", "/healthz", NULL, NULL, "GET, HEAD"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char id[256] = "", methods[METHODS_MAX];
        const struct route *r = route_find(cases[i].method, cases[i].path, id, methods);
        cr_expect_eq(r != NULL, cases[i].route != NULL, "%s %s", cases[i].method, cases[i].path);
        if (r && cases[i].route)
            cr_expect_str_eq(r->path, cases[i].route);
        if (cases[i].id)
            cr_expect_str_eq(id, cases[i].id);
        if (!r)
            cr_expect_str_eq(methods, cases[i].methods, "%s %s", cases[i].method, cases[i].path);
    }
}

Test(routes, an_id_that_is_too_long)
{
    char path[400] = "/v1/jobs/", id[256], methods[METHODS_MAX];
    memset(path + 9, 'a', 256);
    cr_expect_null(route_find("GET", path, id, methods));
    path[9 + 255] = '\0';
    cr_expect_not_null(route_find("GET", path, id, methods));
    cr_expect_eq(strlen(id), 255);
}

/* Only health and the dashboard's files are open to everybody. */
Test(routes, who_needs_no_token)
{
    static const char *const open[] = {"/", "/ui", "/ui/", "/ui/x", "/healthz", "/readyz"};
    static const char *const closed[] = {"/metrics",      "/events",     "/v1/status",
                                         "/v1/jobs",      "/v1/jobs/x",  "/v1/members",
                                         "/v1/catalog/x", "/v1/identity"};
    char id[256], methods[METHODS_MAX];
    for (size_t i = 0; i < sizeof open / sizeof open[0]; i++)
        cr_expect_eq(route_find("GET", open[i], id, methods)->guard, OPEN, "%s", open[i]);
    for (size_t i = 0; i < sizeof closed / sizeof closed[0]; i++)
        cr_expect_eq(route_find("GET", closed[i], id, methods)->guard, TOKEN, "%s", closed[i]);
}
