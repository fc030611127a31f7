/* The test server and the bytes it makes up: see server.h. */
#include "server.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "mem.h"

void server_start(struct server *s)
{
    int in[2], out[2];
    cr_assert(pipe2(in, O_CLOEXEC) == 0 && pipe2(out, O_CLOEXEC) == 0);
    s->pid = fork();
    cr_assert_geq(s->pid, 0);
    if (s->pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        dup2(in[0], 0);
        dup2(out[1], 1);
        unsetenv("LD_PRELOAD");
        execlp("python3", "python3", "tests/servers/faultsrv.py", (char *)NULL);
        _exit(127);
    }
    close(in[0]);
    close(out[1]);
    FILE *said = fdopen(out[0], "r");
    cr_assert_eq(fscanf(said, "listening on %u", &s->port), 1, "the server did not start");
    fclose(said);
    s->stop_fd = in[1];
    s->store = server_bucket(s, "b");
}

void server_stop(struct server *s)
{
    store_close(s->store);
    close(s->stop_fd);
    waitpid(s->pid, NULL, 0);
}

struct store *server_bucket(const struct server *s, const char *bucket)
{
    struct store *store;
    struct err err = {0};
    char uri[256];
    const struct store_conf conf = {.anonymous = true, .region = "us-east-1"};
    snprintf(uri, sizeof uri, "minio://127.0.0.1:%u/%s/", s->port, bucket);
    cr_assert_eq(store_open(&store, uri, &conf, &err), 0, "%s", err.msg);
    return store;
}

struct fetch *engine_new(unsigned max_tries)
{
    struct fetch *engine;
    struct fetch_conf c;
    struct err err = {0};
    fetch_conf_defaults(&c);
    c.max_tries = max_tries;
    c.away_ns = 0;
    c.cut_page_ns = 0; /* listings are cut however fast the server is */
    cr_assert_eq(fetch_new(&engine, &c, &err), 0, "%s", err.msg);
    return engine;
}

unsigned server_number(const struct server *s, const char *path)
{
    struct http_req r;
    struct http_answer a;
    struct bytes body = {0};
    struct err err = {0};
    http_req_init(&r, HTTP_GET);
    bytes_addf(&r.url, "http://127.0.0.1:%u%s", s->port, path);
    cr_assert_eq(http_do(&r, &(struct http_peer){0}, 300000000000ull, 100, &a, &body, &err), 0,
                 "%s", err.msg);
    unsigned n = body.len ? (unsigned)strtoul(body.data, NULL, 10) : 0;
    bytes_release(&body);
    http_req_release(&r);
    return n;
}

static uint32_t seed_of(const char *key)
{
    uint32_t h = 2166136261u;
    for (const char *p = "b/"; *p; p++)
        h = (h ^ (unsigned char)*p) * 16777619u;
    for (const char *p = key; *p; p++)
        h = (h ^ (unsigned char)*p) * 16777619u;
    return h;
}

void made_up(const char *key, uint64_t off, size_t len, unsigned char *out)
{
    uint64_t seed = seed_of(key) % 65521;
    for (size_t i = 0; i < len; i++) {
        uint64_t j = (seed + off + i) % 65521;
        out[i] = (unsigned char)(7 * j + 13 * (j >> 8));
    }
}

void made_up_etag(const char *key, char out[9])
{
    snprintf(out, 9, "%08x", seed_of(key));
}

static void on_done(void *arg, const struct err *err)
{
    struct got *g = arg;
    if (err)
        g->err = *err;
    if (g->order)
        g->place = atomic_fetch_add(g->order, 1);
    atomic_fetch_add(&g->done, 1);
}

void got_prepare(struct got *g, const struct server *s, const char *key, uint64_t off, uint32_t len,
                 uint64_t size)
{
    *g = (struct got){.dest = xcalloc(1, len + 1)};
    made_up_etag(key, g->etag);
    g->get = (struct fetch_get){.store = s->store,
                                .key = key,
                                .key_len = strlen(key),
                                .off = off,
                                .len = len,
                                .object_size = size,
                                .etag = g->etag,
                                .dest = g->dest,
                                .prio = PRIO_READER,
                                .done = on_done,
                                .arg = g};
}

void got_wait(struct got *g)
{
    while (!atomic_load(&g->done))
        poll(NULL, 0, 1);
}

bool got_right(const struct got *g)
{
    size_t len = g->get.len;
    unsigned char *want = xmalloc(len + 1);
    made_up(g->get.key, g->get.off, len, want);
    bool right = g->err.class == ERR_NONE && g->done == 1 && memcmp(want, g->dest, len) == 0;
    free(want);
    return right;
}

void got_release(struct got *g)
{
    free(g->dest);
}

void catalog_remove(struct catalog *c, const char *dir)
{
    cleanup_free char *version = xasprintf("%s/%s.catalog", dir, catalog_info(c)->digest);
    cleanup_free char *current = xasprintf("%s/current", dir);
    cleanup_free char *next_id = xasprintf("%s/next-id", dir);
    catalog_unref(c);
    unlink(version);
    unlink(current);
    unlink(next_id);
    rmdir(dir);
}
