/* The disk that staged files take: what is of no use any more gives it back. */
#include <criterion/criterion.h>
#include <errno.h>
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

/* On a full disk the journal cannot say that content goes before it has gone: it goes, and is in
 * the store for who reads it then. */
static void check_went_unsaid(struct bench *b)
{
    enum { MIB = 1 << 20 };
    struct err err = {0};
    uint64_t fh;
    size_t n = 0;
    cleanup_free char *data = xcalloc(1, 4 * MIB), *got = xcalloc(1, 4 * MIB);
    memset(data, 'x', 4 * MIB);
    uint64_t old = t_create(b, STAGE_ROOT, "old", &fh);
    cr_assert_eq(stage_write(b->s, &waits, fh, 0, data, 4 * MIB, &err), 0, "%s", err.msg);
    t_close(b, fh);
    t_create(b, STAGE_ROOT, "new", &fh);
    t_journal_full(b, true);
    (void)stage_write(b->s, &waits, fh, 0, data, 4 * MIB, NULL);
    t_journal_full(b, false);
    cr_assert_not(is_staged(b, old));
    cr_expect_eq(stage_write(b->s, &waits, fh, 0, data, 4 * MIB, &err), 0, "%s", err.msg);
    t_close(b, fh);
    for (int life = 0; life < 2; life++) {
        fh = t_open(b, old, O_RDONLY);
        cr_assert_eq(stage_read(b->s, &waits, fh, 0, got, 4 * MIB, &n, &err), 0, "%s", err.msg);
        cr_expect(n == 4 * MIB && memcmp(got, data, n) == 0, "life %d: %zu", life, n);
        t_close(b, fh);
        bench_close(b);
        bench_open(b, false);
    }
}

static void of_six_mib(struct stage_conf *c)
{
    c->limit = 6 << 20;
}

Test(room, of_what_goes_unsaid)
{
    on_both(check_went_unsaid, of_six_mib);
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

/* Of a file that is open since an earlier life, and of which no call came yet, the content may go
 * for room. If the file is removed then, it comes back first: who has it open goes on reading. */
static void check_open_since_before(struct bench *b)
{
    enum { MIB = 1 << 20, FILES = 4, CLOSED = 3 };
    static const char *const names[FILES] = {"made", "opened", "small", "closed"};
    uint64_t fh[FILES], ino[FILES], other;
    struct err err = {0};
    cleanup_free char *data = xcalloc(1, 7 * MIB), *got = xcalloc(1, 2 * MIB);
    memset(data, 'x', 7 * MIB);
    for (int i = 0; i < FILES; i++) {
        size_t len = strcmp(names[i], "small") == 0 ? 5 : 2 * MIB;
        ino[i] = t_create(b, STAGE_ROOT, names[i], &fh[i]);
        cr_assert_eq(stage_write(b->s, &waits, fh[i], 0, data, len, &err), 0, "%s", err.msg);
        cr_assert_eq(stage_flush(b->s, &waits, fh[i], &err), 0, "%s", err.msg);
        if (i)
            stage_release(b->s, &waits, fh[i], NULL);
        if (i && i != CLOSED)
            fh[i] = t_open(b, ino[i], O_RDONLY);
    }
    bench_close(b);
    bench_open(b, false);
    t_create(b, STAGE_ROOT, "new", &other);
    cr_assert_eq(stage_write(b->s, &waits, other, 0, data, 7 * MIB, &err), 0, "%s", err.msg);
    t_close(b, other);
    for (int i = 0; i < FILES; i++) {
        cr_expect_not(is_staged(b, ino[i]), "%s", names[i]);
        t_unlink(b, STAGE_ROOT, names[i]);
    }
    t_settle(b);
    cr_expect_eq(counter_get(&stage_counts(b->s)->fetched_bytes), 4 * MIB + 5);
    for (int i = 0; i < CLOSED; i++) {
        size_t n = 0, want = strcmp(names[i], "small") == 0 ? 5 : 2 * MIB;
        expect_stored(b, names[i], NULL);
        cr_expect_eq(stage_read(b->s, &waits, fh[i], 0, got, 2 * MIB, &n, &err), 0, "%s: %s",
                     names[i], err.msg);
        cr_expect(n == want && memcmp(got, data, n) == 0, "%s: %zu", names[i], n);
    }
}

static void of_eight_mib(struct stage_conf *c)
{
    c->limit = 8 << 20;
}

Test(room, of_what_is_open_since_before)
{
    on_both(check_open_since_before, of_eight_mib);
}

/* The journal's log is copied into the journal now and then, and begun anew: else it would grow
 * with each change for as long as the mount lasts. */
Test(room, of_the_log_of_the_journal)
{
    enum { ALOUD = 12000, MOST = 25000 };
    struct bench b;
    struct err err = {0};
    struct stat st = {.st_mode = S_IFREG | 0640}, log = {0};
    struct stage_attr a;
    uint64_t fh;
    bench_start(&b, false);
    b.conf.commit = COMMIT_BACKGROUND;
    bench_open(&b, true);
    cleanup_free char *file = xasprintf("%s/journal.db-wal", b.dir);
    uint64_t ino = t_create(&b, STAGE_ROOT, "f", &fh);
    bool anew = false; /* what is written takes the place of what was */
    for (int i = 0; i < MOST && !anew; i++) {
        off_t before = log.st_size;
        st.st_mode ^= 0100;
        cr_assert_eq(stage_setattr(b.s, &waits, ino, &st, STAGE_SET_MODE, &a, &err), 0, "%s",
                     err.msg);
        cr_assert_eq(stat(file, &log), 0);
        anew = before && log.st_size == before;
        if (i > ALOUD) /* the log is long: a disk may be slow to copy it */
            usleep(1000);
    }
    cr_expect(anew, "the log has %lld bytes", (long long)log.st_size);
    t_close(&b, fh);
    bench_stop(&b);
}

/* Somebody removes staged files of a mount that is up: what is stored comes again. Without the
 * folder nothing can be staged, and no file of the mount is said not to be there for that. */
static void check_removed(struct bench *b)
{
    struct err err = {0};
    struct stage_attr a;
    uint64_t fh;
    t_file(b, STAGE_ROOT, "f", "stored");
    t_file(b, STAGE_ROOT, "g", "stored, too");
    uint64_t f = t_lookup(b, STAGE_ROOT, "f"), g = t_lookup(b, STAGE_ROOT, "g");
    cleanup_free char *data = xasprintf("%s/data", b->dir);
    for (int i = 0; i < 2; i++) {
        cleanup_free char *file =
            xasprintf("%s/%016llx", data, (unsigned long long)(i == 0 ? f : g));
        cr_assert_eq(unlink(file), 0);
        if (i == 0)
            expect_text(b, STAGE_ROOT, "f", "stored");
    }
    cleanup_free char *file = xasprintf("%s/%016llx", data, (unsigned long long)f);
    cleanup_free char *map = xasprintf("%s.map", file);
    cr_assert(unlink(file) == 0 && (unlink(map) == 0 || errno == ENOENT) && rmdir(data) == 0);
    cr_expect_eq(stage_open_file(b->s, &waits, g, O_RDWR | O_TRUNC, &fh, &err), -1);
    cr_expect_eq(err.sys, EIO, "%s", err.msg);
    cr_expect_eq(stage_create(b->s, &waits, STAGE_ROOT, "n", 0644, O_RDWR, &a, &fh, &err), -1);
    cr_expect_eq(err.sys, EIO, "%s", err.msg);
    char why[sizeof err.msg];
    cr_assert(stage_disk_fails(b->s, why, sizeof why));
    cr_expect(strstr(why, "was it removed"), "%s", why);
    expect_stored(b, "f", "stored");
    expect_stored(b, "g", "stored, too");
}

Test(room, of_staged_files_that_somebody_removes)
{
    on_both(check_removed, NULL);
}
