/* Names of stores: a server that moved to another address is found there at the next try. */
#include <criterion/criterion.h>
#include <dlfcn.h>
#include <netdb.h>
#include <stdatomic.h>
#include <string.h>

#include "engine-internal.h"
#include "server.h"

static _Atomic(const char *) address = "127.0.0.9"; /* of moves.test; nobody listens there */

typedef int resolve_fn(const char *, const char *, const struct addrinfo *, struct addrinfo **);

/* Stands before the C library's. The first look-up sees where the server was, later ones where it
 * is. */
int getaddrinfo(const char *restrict name, const char *restrict service,
                const struct addrinfo *restrict hints, struct addrinfo **restrict ret)
{
    resolve_fn *resolve = (resolve_fn *)(uintptr_t)dlsym(RTLD_NEXT, "getaddrinfo");
    bool ours = name && strcmp(name, "moves.test") == 0;
    const char *at = ours ? atomic_exchange(&address, "127.0.0.1") : name;
    return resolve(at, service, hints, ret);
}

Test(names, a_server_that_moved_is_found)
{
    const struct store_conf conf = {.anonymous = true, .region = "us-east-1"};
    struct server server;
    struct got g;
    struct err err = {0};
    char uri[64];
    server_start(&server);
    struct fetch *engine = engine_new(3);
    store_close(server.store);
    snprintf(uri, sizeof uri, "minio://moves.test:%u/b/", server.port);
    cr_assert_eq(store_open(&server.store, uri, &conf, &err), 0, "%s", err.msg);
    got_prepare(&g, &server, "size=5000/moved", 0, 5000, 5000);
    cr_assert_eq(fetch_get(engine, &g.get, &err), 0, "%s", err.msg);
    got_wait(&g);
    cr_expect(got_right(&g), "%s", g.err.msg);
    cr_expect_eq(counter_get(&engine->counts->retries), 1);
    got_release(&g);
    fetch_free(engine);
    server_stop(&server);
}
