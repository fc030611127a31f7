/* Whole requests: put, multipart, head, delete. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

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
    cr_expect_eq(counter_get(&fetch_counts(engine)->failures), 0, "that is an answer");
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

/* What failed is told by what the store says, whatever a name looks like. */
Test(write, a_copys_name_says_nothing_of_its_failure)
{
    static const struct object_meta meta = {.mode = 0644};
    static const char key[] = "s503/PreconditionFailed";
    struct err err = {0};
    begin();
    cr_expect_eq(fetch_copy(engine, server.store, key, server.store, "up/any", "", &err), -1);
    cr_expect_eq(err.class, ERR_TRANSIENT, "%s", err.msg);
    err_clear(&err);
    cr_expect_eq(fetch_set_meta(engine, server.store, key, "", &meta, &err), -1);
    cr_expect_eq(err.class, ERR_TRANSIENT, "%s", err.msg);
    finish();
}

/* S3 begins to answer a copy, and the end of an upload, before it is done: "200" and then an error.
 */
Test(write, what_fails_after_200_has_failed)
{
    static const struct object_meta meta = {.mode = 0644};
    struct err err = {0};
    unsigned char *data;
    begin();
    cr_expect_eq(fetch_copy(engine, server.store, "late-error/a", server.store, "up/any", "", &err),
                 -1);
    cr_expect_eq(err.class, ERR_TRANSIENT, "%s", err.msg);
    err_clear(&err);
    cr_expect_eq(fetch_set_meta(engine, server.store, "late-error/b", "", &meta, &err), -1);
    cr_expect_eq(err.class, ERR_TRANSIENT, "%s", err.msg);
    err_clear(&err);
    cleanup_close int fd = file_of(FETCH_PUT_WHOLE, &data);
    cr_expect_eq(fetch_put_file(engine, server.store, "late-error/c", fd, FETCH_PUT_WHOLE, &err),
                 -1);
    cr_expect(strstr(err.msg, "InternalError"), "%s", err.msg);
    free(data);
    err_clear(&err);
    /* Once is a passing failure. */
    cr_expect_eq(
        fetch_copy(engine, server.store, "late-error=1/d", server.store, "up/any", "", &err), 0,
        "%s", err.msg);
    finish();
}

/* --- into a folder ---------------------------------------------------------------------------- */

#define LONG_BYTES (41u << 20) /* some pieces, and a part of one */

struct asked {
    const unsigned char *data;
    _Atomic unsigned at_once, most;
    uint64_t fails_at; /* of the piece that begins there; UINT64_MAX: none does */
};

/* Nobody gets the first pieces before two threads have asked. */
static int read_slowly(void *arg, uint64_t off, void *buf, size_t len, struct err *err)
{
    struct asked *a = arg;
    unsigned now = atomic_fetch_add(&a->at_once, 1) + 1, most = atomic_load(&a->most);
    while (now > most && !atomic_compare_exchange_weak(&a->most, &most, now))
        ;
    for (int i = 0; i < 300000 && atomic_load(&a->most) < 2; i++)
        usleep(1000);
    memcpy(buf, a->data + off, len);
    atomic_fetch_sub(&a->at_once, 1);
    return off == a->fails_at ? err_set(err, ERR_TRANSIENT, "the piece at %llu is not to be had",
                                        (unsigned long long)off)
                              : 0;
}

static void fill_folder(struct asked *a, struct fetch_stream *p, const char *folder)
{
    cleanup_free char *uri = xasprintf("file://%s", folder);
    cr_assert_eq(store_open(&p->store, uri, NULL, NULL), 0);
    p->key = "sub/long";
    p->len = LONG_BYTES - 5;
    p->read = read_slowly;
    p->parallel = true;
    p->arg = a;
}

Test(write, a_long_file_comes_in_pieces_at_once)
{
    struct err err = {0};
    unsigned char *data, *back = xmalloc(LONG_BYTES);
    char folder[] = "/tmp/sampan-write-XXXXXX";
    cr_assert_not_null(mkdtemp(folder));
    begin();
    close(file_of(LONG_BYTES, &data));
    memset(data + (9u << 20), 0, 6u << 20); /* a hole */
    struct asked a = {.data = data, .fails_at = UINT64_MAX};
    struct fetch_stream p = {0};
    fill_folder(&a, &p, folder);
    cr_expect_eq(fetch_put_stream(engine, &p, &err), 0, "%s", err.msg);
    cr_expect_geq(atomic_load(&a.most), 2);
    cr_assert_eq(store_local_read(p.store, p.key, strlen(p.key), 0, back, p.len, p.len, 0, &err), 0,
                 "%s", err.msg);
    cr_expect_eq(memcmp(back, data, p.len), 0);
    a.fails_at = 20u << 20;
    p.key = "sub/none";
    cr_expect_eq(fetch_put_stream(engine, &p, &err), -1);
    cr_expect_not_null(strstr(err.msg, "the piece at 20971520"), "%s", err.msg);
    cr_expect_eq(store_local_delete(p.store, "sub/long", NULL), 0);
    cr_expect_eq(store_local_remove_folder(p.store, "sub", NULL), 0);
    store_close(p.store);
    cr_expect_eq(rmdir(folder), 0, "something is left");
    free(data);
    free(back);
    finish();
}
