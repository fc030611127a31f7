/* The disk that staged files take: what is of no use any more gives it back. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "clock.h"
#include "mem.h"
#include "stage-testing.h"

static bool is_staged(const struct bench *b, uint64_t ino)
{
    cleanup_free char *file = xasprintf("%s/data/%016llx", b->dir, (unsigned long long)ino);
    cleanup_free char *map = xasprintf("%s.map", file);
    return access(file, F_OK) == 0 || access(map, F_OK) == 0;
}

static uint64_t free_blocks(struct bench *b)
{
    struct statvfs v;
    struct err err = {0};
    cr_assert_eq(stage_statfs(b->s, &v, &err), 0, "%s", err.msg);
    return v.f_bfree;
}

static void quick(struct stage_conf *c)
{
    c->refresh_ns = STAGE_EACH_LOOK;
}

/* Replaced by another writer while it was open: the bytes that were here are of nothing. */
static void check_replaced(struct bench *b)
{
    struct bench o;
    struct err err = {0};
    char buf[8];
    size_t n;
    t_file(b, STAGE_ROOT, "f", "first");
    bench_other(&o, b);
    bench_open(&o, true);
    uint64_t before = free_blocks(&o), ino = t_lookup(&o, STAGE_ROOT, "f");
    uint64_t fh = t_open(&o, ino, O_RDONLY);
    cr_assert_eq(stage_read(o.s, &waits, fh, 0, buf, sizeof buf, &n, &err), 0, "%s", err.msg);
    cr_assert(is_staged(&o, ino));
    uint64_t again = t_open(b, t_lookup(b, STAGE_ROOT, "f"), O_WRONLY | O_TRUNC);
    t_write(b, again, 0, "second");
    t_close(b, again);
    t_lookup(&o, STAGE_ROOT, "f");
    t_close(&o, fh);
    cr_expect_not(is_staged(&o, ino), "the old bytes are here still");
    cr_expect_eq(free_blocks(&o), before);
    expect_text(&o, STAGE_ROOT, "f", "second");
    bench_stop(&o);
}

Test(room, of_what_another_replaced)
{
    on_both(check_replaced, quick);
}

/* The journal could not say that content goes, so it stayed: it may go later. */
Test(room, of_what_could_not_go_at_first)
{
    enum { MIB = 1 << 20 };
    struct bench b;
    struct err err = {0};
    uint64_t fh;
    cleanup_free char *data = xcalloc(1, 4 * MIB);
    bench_start(&b, false);
    b.conf.limit = 6 * MIB;
    bench_open(&b, true);
    uint64_t old = t_create(&b, STAGE_ROOT, "old", &fh);
    cr_assert_eq(stage_write(b.s, &waits, fh, 0, data, 4 * MIB, &err), 0, "%s", err.msg);
    t_close(&b, fh);
    t_create(&b, STAGE_ROOT, "new", &fh);
    t_journal_full(&b, true);
    int rc = stage_write(b.s, &waits, fh, 0, data, 4 * MIB, &err);
    t_journal_full(&b, false);
    cr_assert(rc == -1 && is_staged(&b, old));
    err = (struct err){0};
    cr_expect_eq(stage_write(b.s, &waits, fh, 0, data, 4 * MIB, &err), 0, "%s", err.msg);
    cr_expect_not(is_staged(&b, old));
    t_close(&b, fh);
    bench_stop(&b);
}

struct greedy {
    struct bench *b;
    uint64_t fh;
    const char *data;
    size_t len;
    atomic_bool stop;
};

static void *ask_for_too_much(void *arg)
{
    struct greedy *g = arg;
    while (!atomic_load(&g->stop))
        stage_write(g->b->s, &waits, g->fh, 0, g->data, g->len, NULL);
    return NULL;
}

/* What one asks for and does not get is not missing to another. */
Test(room, of_what_another_did_not_get)
{
    enum { MIB = 1 << 20 };
    struct bench b;
    pthread_t thread;
    uint64_t fh;
    cleanup_free char *data = xcalloc(1, 8 * MIB);
    struct greedy g = {.b = &b, .data = data, .len = 8 * MIB};
    bench_start(&b, false);
    b.conf.limit = 6 * MIB;
    bench_open(&b, true);
    t_create(&b, STAGE_ROOT, "large", &g.fh);
    t_create(&b, STAGE_ROOT, "small", &fh);
    cr_assert_eq(pthread_create(&thread, NULL, ask_for_too_much, &g), 0);
    for (int i = 0; i < 20000; i++)
        t_write(&b, fh, 0, "small");
    atomic_store(&g.stop, true);
    pthread_join(thread, NULL);
    t_close(&b, g.fh);
    t_close(&b, fh);
    bench_stop(&b);
}
