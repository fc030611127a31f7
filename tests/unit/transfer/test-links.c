/* Links of a bucket, which is anybody's. */
#include <criterion/criterion.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "copy-internal.h"
#include "mem.h"

struct bucket {
    pid_t pid;
    int stop_fd;
    struct store *store;
    struct fetch *fetch;
};

static unsigned start_server(struct bucket *b)
{
    int in[2], out[2];
    unsigned port = 0;
    cr_assert(pipe(in) == 0 && pipe(out) == 0);
    b->pid = fork();
    cr_assert_geq(b->pid, 0);
    if (b->pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        dup2(in[0], 0);
        dup2(out[1], 1);
        close(in[1]);
        unsetenv("LD_PRELOAD");
        execlp("python3", "python3", "tests/servers/s3mem.py", (char *)NULL);
        _exit(127);
    }
    close(in[0]);
    close(out[1]);
    FILE *said = fdopen(out[0], "r");
    cr_assert_eq(fscanf(said, "listening on %u", &port), 1, "the server did not start");
    fclose(said);
    b->stop_fd = in[1];
    return port;
}

static void bucket_begin(struct bucket *b)
{
    struct err err = {0};
    const struct store_conf conf = {.anonymous = true, .region = "us-east-1"};
    struct fetch_conf fc;
    cleanup_free char *uri = xasprintf("minio://127.0.0.1:%u/b/in", start_server(b));
    cr_assert_eq(store_open(&b->store, uri, &conf, &err), 0, "%s", err.msg);
    fetch_conf_defaults(&fc);
    fc.max_tries = 4;
    cr_assert_eq(fetch_new(&b->fetch, &fc, &err), 0, "%s", err.msg);
}

static void bucket_end(struct bucket *b)
{
    fetch_free(b->fetch);
    store_close(b->store);
    close(b->stop_fd);
    waitpid(b->pid, NULL, 0);
}

static int target_of(struct bucket *b, size_t size, struct bytes *ret, struct err *err)
{
    struct sync_source source = {.store = b->store};
    struct sync_run run = {.fetch = b->fetch, .sources = &source, .n_sources = 1};
    struct side src = {.there = true, .row = {.size = size, .kind = SYNC_LINK}};
    struct meta meta;
    const struct copying c = {.run = &run, .key = "l", .src = &src, .source = &source, .from = "l"};
    return link_target(&c, &meta, ret, err);
}

/* It was short when it was listed, and is looked at again because it changed. */
Test(links, whose_target_has_grown)
{
    struct bucket b;
    struct err err = {0};
    cleanup_bytes struct bytes target = {0};
    const struct object_meta link = {.mode = S_IFLNK | 0777};
    const struct fetch_put_opts opts = {.meta = &link};
    const size_t sizes[] = {0, PATH_MAX, 1 << 20};
    char *body = xcalloc(1, 1 << 20);
    memset(body, 'a', 1 << 20);
    bucket_begin(&b);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        cr_assert_eq(fetch_put_bytes(b.fetch, b.store, "l", body, sizes[i], &opts, NULL, &err), 0);
        cr_expect_eq(target_of(&b, sizes[i], &target, &err), -1);
        cr_expect_eq(err.class, ERR_CORRUPT, "%s", err.msg);
    }
    cr_assert_eq(fetch_put_bytes(b.fetch, b.store, "l", "x/y", 3, &opts, NULL, &err), 0);
    cr_expect_eq(target_of(&b, 3, &target, &err), 1, "%s", err.msg);
    cr_expect_str_eq(target.data, "x/y");
    free(body);
    bucket_end(&b);
}
