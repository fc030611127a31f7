/* Whole requests: put, multipart, head, delete. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>

#include "mem.h"
#include "server.h"

static struct server server;
static struct fetch *engine;

static void begin(void)
{
    server_start(&server);
    engine = engine_new(3);
}

static void finish(void)
{
    fetch_free(engine);
    server_stop(&server);
}

/* The stored object must be these bytes. */
static void expect_stored(const char *key, const void *want, uint32_t len)
{
    struct got g;
    got_prepare(&g, &server, key, 0, len, len);
    cr_assert_eq(fetch_get(engine, &g.get, NULL), 0);
    got_wait(&g);
    cr_expect_eq(g.err.class, ERR_NONE, "%s", g.err.msg);
    cr_expect(memcmp(g.dest, want, len) == 0, "%s: wrong bytes", key);
    got_release(&g);
}

Test(write, put_head_delete)
{
    struct err err = {0};
    struct http_answer a;
    begin();
    cr_expect_eq(fetch_put(engine, server.store, "s503=1/new", "hello", 5, &err), 0, "%s", err.msg);
    expect_stored("s503=1/new", "hello", 5);
    cr_expect_eq(fetch_head(engine, server.store, "s503=1/new", &a, &err), 0, "%s", err.msg);
    cr_expect_eq(a.content_length, 5);
    cr_expect_eq(fetch_delete(engine, server.store, "s503=1/new", &err), 0, "%s", err.msg);
    cr_expect_eq(fetch_head(engine, server.store, "s404/none", &a, &err), -1);
    cr_expect_eq(err.class, ERR_NOT_FOUND, "%s", err.msg);
    finish();
}

static int file_of(size_t len, unsigned char **ret)
{
    int fd = memfd_create("upload", MFD_CLOEXEC);
    unsigned char *data = xmalloc(len);
    for (size_t i = 0; i < len; i++)
        data[i] = (unsigned char)(i * 31 + (i >> 12));
    cr_assert_eq(write(fd, data, len), (ssize_t)len);
    *ret = data;
    return fd;
}

static const size_t lengths[] = {0, 1, 100000, (16u << 20) - 1, 16u << 20, (35u << 20) + 7};

Test(write, files_of_any_length)
{
    begin();
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        struct err err = {0};
        unsigned char *data;
        char key[32];
        cleanup_close int fd = file_of(lengths[i], &data);
        snprintf(key, sizeof key, "up/%zu", lengths[i]);
        cr_expect_eq(fetch_put_file(engine, server.store, key, fd, lengths[i], &err), 0, "%s",
                     err.msg);
        expect_stored(key, data, (uint32_t)lengths[i]);
        free(data);
    }
    cr_expect_eq(server_number(&server, "/_uploads"), 0);
    finish();
}

Test(write, a_failed_upload_is_aborted)
{
    struct err err = {0};
    unsigned char *data;
    begin();
    cleanup_close int fd = file_of(20u << 20, &data);
    cr_expect_eq(fetch_put_file(engine, server.store, "s503/never", fd, 20u << 20, &err), -1);
    cr_expect(strstr(err.msg, "write \"s503/never\" in parts") == err.msg, "%s", err.msg);
    cr_expect_eq(server_number(&server, "/_uploads"), 0);
    err_clear(&err);
    cr_expect_eq(fetch_put_file(engine, server.store, "up/short", fd, 24u << 20, &err), -1);
    cr_expect(strstr(err.msg, "became shorter"), "%s", err.msg);
    cr_expect_eq(server_number(&server, "/_uploads"), 0);
    free(data);
    finish();
}
