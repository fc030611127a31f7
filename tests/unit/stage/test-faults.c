/* A store that refuses, or is changed by others; a stage that is full; names that no key can have.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <ftw.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "clock.h"
#include "mem.h"
#include "stage-testing.h"

Test(faults, denied)
{
    struct bench b;
    struct err err = {0};
    bench_start(&b, true);
    bench_open(&b, true);
    uint64_t fh;
    t_create(&b, STAGE_ROOT, "f", &fh);
    t_write(&b, fh, 0, "kept");
    ask_number(&b, "/_set?deny=1");
    cr_expect_eq(stage_flush(b.s, &waits, fh, &err), -1);
    cr_expect_eq(err_errno(&err), EACCES, "%s", err.msg);
    stage_release(b.s, &waits, fh, &err);
    expect_text(&b, STAGE_ROOT, "f", "kept");
    expect_pending(&b, "\"failed\":1");
    expect_pending(&b, "\"path\":\"f\",\"bytes\":4,\"why\":\"");
    expect_pending(&b, "AccessDenied");
    cr_expect_eq(stage_settle(b.s, clock_mono_ns() + NS_PER_S, &err), -1);
    cr_expect(strstr(err.msg, "not stored: f: "), "%s", err.msg);
    bench_close(&b); /* the next life has it, too */
    bench_open(&b, true);
    expect_text(&b, STAGE_ROOT, "f", "kept");
    ask_number(&b, "/_set?deny=0");
    stage_retry(b.s);
    t_settle(&b);
    expect_stored(&b, "f", "kept");
    expect_pending(&b, "\"files\":0");
    bench_stop(&b);
}

static void check_full(struct bench *b)
{
    struct err err = {0};
    char *data = xcalloc(1, 1u << 20);
    uint64_t fh, got = 0;
    t_create(b, STAGE_ROOT, "f", &fh);
    if (b->s3)
        ask_number(b, "/_set?late=20");
    while (got < 64u << 20 && stage_write(b->s, &waits, fh, got, data, 1u << 20, &err) == 0)
        got += 1u << 20;
    cr_expect_eq(err_errno(&err), ENOSPC, "%s", err.msg);
    cr_expect(got >= 4u << 20 && got <= 8u << 20, "%llu", (unsigned long long)got);
    t_close(b, fh); /* what was taken is good, and makes room once it is stored */
    for (int i = 0; i < 20; i++) {
        char name[16];
        snprintf(name, sizeof name, "g%d", i);
        t_create(b, STAGE_ROOT, name, &fh);
        cr_assert_eq(stage_write(b->s, &waits, fh, 0, data, 1u << 20, &err), 0, "%s", err.msg);
        t_close(b, fh);
    }
    /* Read back: most were dropped. */
    uint64_t in = t_open(b, t_lookup(b, STAGE_ROOT, "g0"), O_RDONLY);
    size_t n = 0;
    cr_assert_eq(stage_read(b->s, &waits, in, 0, data, 1u << 20, &n, &err), 0, "%s", err.msg);
    cr_expect_eq(n, 1u << 20);
    t_close(b, in);
    free(data);
}

static void small_stage(struct stage_conf *c)
{
    c->limit = 8u << 20;
}

Test(faults, a_full_stage)
{
    on_both(check_full, small_stage);
}

/* A writer waits for that, and so does who allocates: but not for more than there can ever be. */
static void a_full_stage_empties(bool allocate)
{
    struct bench b;
    struct err err = {0};
    uint64_t fh;
    bench_start(&b, true);
    b.conf.limit = 8u << 20;
    b.conf.commit = COMMIT_BACKGROUND;
    bench_open(&b, true);
    ask_number(&b, "/_set?late=10");
    char *data = xcalloc(1, 1u << 20);
    for (int i = 0; i < 24; i++) {
        char name[16];
        snprintf(name, sizeof name, "f%d", i);
        t_create(&b, STAGE_ROOT, name, &fh);
        cr_assert_eq(allocate ? stage_fallocate(b.s, &waits, fh, 0, 0, 1u << 20, &err)
                              : stage_write(b.s, &waits, fh, 0, data, 1u << 20, &err),
                     0, "%s", err.msg);
        t_close(&b, fh);
    }
    free(data);
    t_create(&b, STAGE_ROOT, "vast", &fh);
    cr_expect_eq(stage_fallocate(b.s, &waits, fh, 0, 0, 8u << 20, &err), -1);
    cr_expect_eq(err_errno(&err), ENOSPC, "%s", err.msg);
    t_close(&b, fh);
    t_settle(&b);
    cr_expect_eq(ask_number(&b, "/_objects"), 25);
    bench_stop(&b);
}

Test(faults, a_full_stage_empties)
{
    a_full_stage_empties(false);
}

Test(faults, a_full_stage_empties_for_who_allocates)
{
    a_full_stage_empties(true);
}

static void check_refused_names(struct bench *b)
{
    struct stage_attr a;
    uint64_t fh;
    char longest[257];
    memset(longest, 'n', 256);
    longest[256] = '\0';
    struct {
        const char *name;
        int e;
    } rows[] = {{"bad\xff", b->s3 ? EILSEQ : 0},
                {longest, ENAMETOOLONG},
                {longest + 1, 0},
                {"100% of it", 0},
                {"a b+c&d=?#", 0},
                {"\xc3\xa4\xe2\x82\xac", 0}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct err err = {0};
        int result =
            stage_create(b->s, &waits, STAGE_ROOT, rows[i].name, 0644, O_RDWR, &a, &fh, &err);
        cr_expect_eq(result ? err_errno(&err) : 0, rows[i].e, "%s: %s", rows[i].name, err.msg);
        if (result == 0)
            t_close(b, fh);
    }
    bench_close(b);
    bench_open(b, true);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (rows[i].e == 0)
            expect_text(b, STAGE_ROOT, rows[i].name, "");
}

/* A path that the store could not hold is refused where it is made, not owed for ever. */
static void check_long_path(struct bench *b)
{
    struct err err = {0};
    struct stage_attr a;
    char name[201] = "";
    uint64_t ino = STAGE_ROOT;
    int depth = 0;
    memset(name, 'd', 200);
    while (depth < 30 && stage_mkdir(b->s, &waits, ino, name, 0755, &a, &err) == 0) {
        ino = a.st.st_ino;
        depth++;
    }
    cr_expect_eq(err_errno(&err), ENAMETOOLONG, "%s", err.msg);
    cr_expect(b->s3 ? depth == 5 : depth >= 19 && depth <= 20, "%d", depth);
    t_settle(b);
}

Test(faults, a_path_too_long_for_the_store)
{
    on_both(check_long_path, NULL);
}

Test(faults, names)
{
    on_both(check_refused_names, NULL);
}

Test(faults, the_stage_of_another_store)
{
    struct bench b, c;
    struct err err = {0};
    bench_start(&b, false);
    bench_open(&b, true);
    struct stage *second;
    cr_expect_eq(stage_open(&second, &b.conf, &err), -1);
    cr_expect(strstr(err.msg, "in use"), "%s", err.msg);
    bench_close(&b);
    bench_start(&c, false);
    c.conf = b.conf;
    c.conf.store = c.store;
    cr_expect_eq(stage_open(&second, &c.conf, &err), -1);
    cr_expect_eq(err.class, ERR_LIMIT, "%s", err.msg);
    bench_open(&b, true);
    bench_close(&b);
    char path[128];
    snprintf(path, sizeof path, "%s/journal.db", b.dir);
    int fd = open(path, O_WRONLY | O_TRUNC);
    cr_assert(write(fd, "this is no journal at all, but long enough to look like a file", 62) ==
              62);
    close(fd);
    snprintf(path, sizeof path, "%s/journal.db-wal", b.dir);
    unlink(path);
    cr_expect_eq(stage_open(&second, &b.conf, &err), -1);
    cr_expect_eq(err.class, ERR_CORRUPT, "%s", err.msg);
    bench_stop(&b);
    bench_stop(&c);
}

struct told {
    _Atomic unsigned inodes, names;
};

static void on_change(void *arg, uint64_t ino, const char *name)
{
    struct told *t = arg;
    (void)ino;
    atomic_fetch_add(name ? &t->names : &t->inodes, 1);
}

static void quick(struct stage_conf *c)
{
    c->refresh_ns = STAGE_EACH_LOOK;
}

static void store_anew(struct bench *b, const char *text)
{
    uint64_t fh = t_open(b, t_lookup(b, STAGE_ROOT, "f"), O_WRONLY | O_TRUNC);
    t_write(b, fh, 0, text);
    t_close(b, fh);
}

static void check_others(struct bench *b)
{
    struct bench o;
    struct told told = {0};
    struct err err = {0};
    t_file(b, STAGE_ROOT, "f", "first");
    bench_other(&o, b);
    bench_open(&o, true);
    stage_on_change(o.s, on_change, &told);
    uint64_t fh = t_open(&o, t_lookup(&o, STAGE_ROOT, "f"), O_RDONLY);
    char buf[32];
    size_t n;
    cr_assert_eq(stage_read(o.s, &waits, fh, 0, buf, sizeof buf, &n, &err), 0, "%s", err.msg);
    t_file(b, STAGE_ROOT, "g", "new");
    uint64_t again = t_open(b, t_lookup(b, STAGE_ROOT, "f"), O_WRONLY | O_TRUNC);
    t_write(b, again, 0, "second one");
    t_close(b, again);
    expect_text(&o, STAGE_ROOT, "f", "second one");
    expect_text(&o, STAGE_ROOT, "g", "new");
    cr_expect_eq(stage_read(o.s, &waits, fh, 0, buf, sizeof buf, &n, &err), -1);
    cr_expect_eq(err_errno(&err), ESTALE, "%s", err.msg);
    t_close(&o, fh);
    store_anew(b, "third"); /* nobody has it open now: it is the same file */
    expect_text(&o, STAGE_ROOT, "f", "third");
    for (int i = 0; i < 30000 && (!atomic_load(&told.inodes) || !atomic_load(&told.names)); i++)
        usleep(10000);
    cr_expect(atomic_load(&told.inodes) && atomic_load(&told.names));
    /* Changed under a file that is being written: ours wins. */
    uint64_t ours = t_open(&o, t_lookup(&o, STAGE_ROOT, "f"), O_WRONLY | O_TRUNC);
    t_write(&o, ours, 0, "ours");
    again = t_open(b, t_lookup(b, STAGE_ROOT, "f"), O_WRONLY | O_TRUNC);
    t_write(b, again, 0, "theirs");
    t_close(b, again);
    cr_expect_eq(lookup_errno(&o, STAGE_ROOT, "f"), 0);
    t_close(&o, ours);
    expect_stored(b, "f", "ours");
    expect_text(b, STAGE_ROOT, "f", "ours");
    t_unlink(b, STAGE_ROOT, "g");
    expect_text(&o, STAGE_ROOT, "g", NULL);
    bench_stop(&o);
}

Test(faults, changes_of_others)
{
    on_both(check_others, quick);
}

static void lazily(struct stage_conf *c)
{
    c->refresh_ns = 3600 * NS_PER_S; /* no look lists by itself */
}

static void expect_read(struct bench *b, uint64_t fh, uint64_t off, const char *text)
{
    struct err err = {0};
    char buf[64] = "";
    size_t n;
    cr_expect_eq(stage_read(b->s, &waits, fh, off, buf, sizeof buf - 1, &n, &err), 0, "%s",
                 err.msg);
    cr_expect_str_eq(buf, text);
}

static int open_errno(struct bench *b, uint64_t ino, int flags)
{
    struct err err = {0};
    uint64_t fh;
    return stage_open_file(b->s, &waits, ino, flags, &fh, &err) ? err_errno(&err) : 0;
}

/* What is opened is what the kernel was told of: else it is to ask again. */
static void check_opened_as_told(struct bench *b)
{
    struct bench o;
    t_file(b, STAGE_ROOT, "f", "first");
    bench_other(&o, b);
    bench_open(&o, true);
    uint64_t ino = t_lookup(&o, STAGE_ROOT, "f");
    store_anew(b, "longer than it was");
    cr_expect_eq(open_errno(&o, ino, O_RDONLY), ESTALE);
    cr_expect_eq(open_errno(&o, ino, O_WRONLY | O_TRUNC), ESTALE);
    cr_expect_eq(t_size(&o, t_lookup(&o, STAGE_ROOT, "f")), 18);
    uint64_t fh = t_open(&o, ino, O_RDONLY);
    store_anew(b, "short");
    expect_read(&o, fh, 0, "longer than it was");
    bench_stop(&o);
}

Test(faults, replaced_before_it_is_opened)
{
    on_both(check_opened_as_told, lazily);
}

/* Who has it open keeps the inode, its size and its pages; for others it is another file. */
static void check_replaced_while_open(struct bench *b)
{
    struct bench o;
    struct err err = {0};
    struct stage_attr a = {.st = {.st_size = 1}};
    char buf[8];
    size_t n;
    t_file(b, STAGE_ROOT, "f", "longer than it will be");
    bench_other(&o, b);
    bench_open(&o, true);
    uint64_t ino = t_lookup(&o, STAGE_ROOT, "f"), fh = t_open(&o, ino, O_RDONLY);
    store_anew(b, "short");
    stage_set_refresh(o.s, STAGE_EACH_LOOK);
    uint64_t new = t_lookup(&o, STAGE_ROOT, "f");
    cr_expect_neq(new, ino);
    cr_expect_eq(t_size(&o, ino), 22);
    cr_expect_eq(stage_read(o.s, &waits, fh, 0, buf, sizeof buf, &n, &err), -1);
    cr_expect_eq(err_errno(&err), ESTALE, "%s", err.msg);
    cr_expect_eq(open_errno(&o, ino, O_RDONLY), ESTALE);
    cr_expect_eq(open_errno(&o, ino, O_WRONLY), ESTALE, "what is written would be lost");
    cr_expect_eq(stage_setattr(o.s, &waits, ino, &a.st, STAGE_SET_SIZE, &a, &err), -1);
    cr_expect_eq(err_errno(&err), ESTALE, "%s", err.msg);
    uint64_t second = t_open(&o, new, O_RDONLY);
    expect_read(&o, second, 0, "short");
    t_unlink(b, STAGE_ROOT, "f");
    cr_expect_eq(lookup_errno(&o, STAGE_ROOT, "f"), ENOENT,
                 "removed there, though it is open here");
    cr_expect_eq(open_errno(&o, new, O_WRONLY), ESTALE);
    expect_read(&o, second, 0, "short");
    t_close(&o, fh);
    t_close(&o, second);
    bench_stop(&o);
}

Test(faults, replaced_while_it_is_open)
{
    on_both(check_replaced_while_open, lazily);
}

static void check_answers(struct bench *b)
{
    struct stage_attr a;
    struct err err = {0};
    uint64_t fh, again;
    const struct stage_call create = {.unique = 10, .wait = true},
                            move = {.unique = 12, .wait = true},
                            remove = {.unique = 14, .wait = true},
                            dir = {.unique = 16, .wait = true};
    cr_assert_eq(stage_create(b->s, &create, STAGE_ROOT, "f", 0644, O_RDWR | O_EXCL, &a, &fh, &err),
                 0);
    t_write(b, fh, 0, "text");
    uint64_t ino = a.st.st_ino;
    bench_close(b);
    bench_open(b, false);
    cr_assert_eq(
        stage_create(b->s, &create, STAGE_ROOT, "f", 0644, O_RDWR | O_EXCL, &a, &again, &err), 0,
        "%s", err.msg);
    cr_expect(a.st.st_ino == ino && again == fh);
    t_close(b, again);
    cr_assert_eq(stage_rename(b->s, &move, STAGE_ROOT, "f", STAGE_ROOT, "g", 0, &err), 0, "%s",
                 err.msg);
    cr_assert_eq(stage_mkdir(b->s, &dir, STAGE_ROOT, "d", 0755, &a, &err), 0, "%s", err.msg);
    bench_close(b);
    bench_open(b, false);
    cr_assert_eq(stage_rename(b->s, &move, STAGE_ROOT, "f", STAGE_ROOT, "g", 0, &err), 0, "%s",
                 err.msg);
    cr_assert_eq(stage_mkdir(b->s, &dir, STAGE_ROOT, "d", 0755, &a, &err), 0, "%s", err.msg);
    cr_assert_eq(stage_unlink(b->s, &remove, STAGE_ROOT, "g", &err), 0, "%s", err.msg);
    bench_close(b);
    bench_open(b, false);
    cr_assert_eq(stage_unlink(b->s, &remove, STAGE_ROOT, "g", &err), 0, "%s", err.msg);
    bench_close(b);
    bench_open(b, true); /* another mount counts its requests anew */
    cr_expect_eq(stage_unlink(b->s, &remove, STAGE_ROOT, "g", &err), -1);
    cr_expect_eq(err_errno(&err), ENOENT);
    expect_stored(b, "g", NULL);
}

Test(faults, a_call_that_comes_again)
{
    on_both(check_answers, NULL);
}

static void ticking(struct stage_conf *c)
{
    c->commit = COMMIT_INTERVAL;
    c->interval_ns = 50 * NS_PER_MS;
    c->refresh_ns = 20 * NS_PER_MS;
}

/* As `tail -f` does: one descriptor, read at its end again and again. */
static void follow(struct bench *b, uint64_t fh, uint64_t off, const char *text)
{
    char buf[64];
    struct err err = {0};
    size_t n = 0;
    for (int i = 0; i < 30000 && n < strlen(text); i++, usleep(10000)) {
        t_size(b, t_lookup(b, STAGE_ROOT, "log"));
        cr_assert_eq(stage_read(b->s, &waits, fh, off, buf, sizeof buf, &n, &err), 0, "%s",
                     err.msg);
    }
    cr_expect(n == strlen(text) && memcmp(buf, text, n) == 0, "%.*s", (int)n, buf);
}

static void check_log(struct bench *b)
{
    struct bench o;
    uint64_t fh;
    t_create(b, STAGE_ROOT, "log", &fh);
    t_write(b, fh, 0, "line 1\n");
    bench_other(&o, b);
    bench_open(&o, true);
    for (int i = 0; i < 30000 && lookup_errno(&o, STAGE_ROOT, "log"); i++)
        usleep(10000);
    expect_text(&o, STAGE_ROOT, "log", "line 1\n");
    t_write(b, fh, 7, "line 2\n");
    for (int i = 0; i < 30000 && t_size(&o, t_lookup(&o, STAGE_ROOT, "log")) < 14; i++)
        usleep(10000);
    expect_text(&o, STAGE_ROOT, "log", "line 1\nline 2\n");
    uint64_t tail = t_open(&o, t_lookup(&o, STAGE_ROOT, "log"), O_RDONLY);
    follow(&o, tail, 0, "line 1\nline 2\n");
    t_write(b, fh, 14, "line 3\n");
    follow(&o, tail, 14, "line 3\n");
    t_write(b, fh, 21, "line 4\n");
    follow(&o, tail, 21, "line 4\n");
    t_close(&o, tail);
    bench_stop(&o);
    t_close(b, fh);
}

Test(faults, a_log_is_read_while_it_grows)
{
    on_both(check_log, ticking);
}

Test(faults, a_folder_implied_by_keys_below_it)
{
    struct bench b;
    struct err err = {0};
    bench_start(&b, true);
    b.conf.refresh_ns = STAGE_EACH_LOOK;
    ask_number(&b, "/_put/out/d/e/f?text=deep");
    ask_number(&b, "/_put/out/both?text=file");
    ask_number(&b, "/_put/out/both/in?text=it");
    bench_open(&b, true);
    uint64_t d = t_lookup(&b, STAGE_ROOT, "d"), e = t_lookup(&b, d, "e");
    expect_text(&b, e, "f", "deep");
    expect_text(&b, t_lookup(&b, STAGE_ROOT, "both"), "in", "it");
    cr_expect_eq(stage_rmdir(b.s, &waits, d, "e", &err), -1);
    cr_expect_eq(err_errno(&err), ENOTEMPTY);
    t_unlink(&b, e, "f");
    t_settle(&b);
    cr_expect_eq(t_lookup(&b, d, "e"), e, "an empty folder is still there");
    cr_expect_eq(stage_rmdir(b.s, &waits, d, "e", &err), 0, "%s", err.msg);
    t_settle(&b);
    ask_number(&b, "/_put/out/d/late?text=x");
    cr_expect_eq(stage_rmdir(b.s, &waits, STAGE_ROOT, "d", &err), -1);
    cr_expect_eq(err_errno(&err), ENOTEMPTY);
    bench_stop(&b);
}

static void check_open_and_gone(struct bench *b)
{
    struct bench o;
    struct err err = {0};
    char buf[32];
    size_t n = 0;
    t_file(b, STAGE_ROOT, "f", "read me");
    t_file(b, STAGE_ROOT, "g", "me too");
    t_file(b, STAGE_ROOT, "new", "instead");
    bench_other(&o, b);
    bench_open(&o, true);
    uint64_t f = t_open(&o, t_lookup(&o, STAGE_ROOT, "f"), O_RDONLY);
    uint64_t g = t_open(&o, t_lookup(&o, STAGE_ROOT, "g"), O_RDONLY);
    t_unlink(&o, STAGE_ROOT, "f");
    t_rename(&o, STAGE_ROOT, "new", STAGE_ROOT, "g");
    expect_stored(b, "f", NULL);
    expect_stored(b, "g", "instead");
    cr_assert_eq(stage_read(o.s, &waits, f, 0, buf, sizeof buf, &n, &err), 0, "%s", err.msg);
    cr_expect(n == 7 && memcmp(buf, "read me", 7) == 0);
    cr_assert_eq(stage_read(o.s, &waits, g, 0, buf, sizeof buf, &n, &err), 0, "%s", err.msg);
    cr_expect(n == 6 && memcmp(buf, "me too", 6) == 0);
    t_close(&o, f);
    t_close(&o, g);
    bench_stop(&o);
}

Test(faults, removed_while_another_has_it_open)
{
    on_both(check_open_and_gone, NULL);
}

static void check_three_mounts(struct bench *first)
{
    struct bench m[3];
    for (int i = 0; i < 3; i++) {
        bench_other(&m[i], first);
        bench_open(&m[i], true);
    }
    for (int i = 0; i < 3; i++) { /* all at once: who comes late finds it there */
        struct stage_attr a;
        struct err err = {0};
        char name[32];
        if (stage_mkdir(m[i].s, &waits, STAGE_ROOT, "output", 0755, &a, &err))
            cr_expect_eq(err_errno(&err), EEXIST, "%s", err.msg);
        snprintf(name, sizeof name, "node_%d", i);
        uint64_t dir = t_mkdir(&m[i], t_lookup(&m[i], STAGE_ROOT, "output"), name);
        t_file(&m[i], dir, "train.log", name);
    }
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 3; j++) {
            char name[32];
            snprintf(name, sizeof name, "node_%d", j);
            uint64_t output = t_lookup(&m[i], STAGE_ROOT, "output");
            expect_text(&m[i], t_lookup(&m[i], output, name), "train.log", name);
        }
    for (int i = 0; i < 3; i++)
        bench_stop(&m[i]);
}

Test(faults, three_mounts_make_one_folder)
{
    on_both(check_three_mounts, quick);
}

/* --- a disk that takes no more of the journal ------------------------------------------------ */

/* What others stored is listed, and nothing of it can be written down: neither are the inode
 * numbers that were taken for it. */
Test(faults, inode_numbers_that_the_journal_never_had)
{
    struct bench b;
    char names[256];
    bench_start(&b, false);
    b.conf.commit = COMMIT_BACKGROUND;
    for (int i = 0; i < 8; i++) {
        cleanup_free char *path = xasprintf("%s/%d", b.bucket, i);
        cleanup_close int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
        cr_assert_geq(fd, 0);
    }
    bench_open(&b, true);
    t_journal_full(&b, true);
    names_in(&b, STAGE_ROOT, names, sizeof names);
    cr_expect_str_eq(names, "0 1 2 3 4 5 6 7");
    t_journal_full(&b, false);
    uint64_t fh, ino = t_create(&b, STAGE_ROOT, "mine", &fh);
    t_write(&b, fh, 0, "mine");
    bench_close(&b);
    bench_open(&b, false);
    for (int i = 0; i < 16; i++) {
        cleanup_free char *name = xasprintf("other%d", i);
        uint64_t other_fh, other = t_create(&b, STAGE_ROOT, name, &other_fh);
        cr_expect_neq(other, ino);
        t_close(&b, other_fh);
    }
    expect_text(&b, STAGE_ROOT, "mine", "mine");
    t_close(&b, fh);
    t_settle(&b);
    expect_stored(&b, "mine", "mine");
    bench_stop(&b);
}

/* Written after the last flush, through a mapping say: who closes it hears of no error. */
Test(faults, a_close_that_the_journal_never_had)
{
    struct bench b;
    struct err err = {0};
    uint64_t fh;
    bench_start(&b, false);
    b.conf.commit = COMMIT_BACKGROUND;
    bench_open(&b, true);
    t_create(&b, STAGE_ROOT, "f", &fh);
    t_write(&b, fh, 0, "late");
    t_journal_full(&b, true);
    cr_expect_eq(stage_release(b.s, &waits, fh, &err), 0, "%s", err.msg);
    expect_pending(&b, "\"files\":1");
    t_journal_full(&b, false);
    t_settle(&b);
    expect_stored(&b, "f", "late");
    bench_stop(&b);
}

static blkcnt_t largest;

static int take_largest(const char *path, const struct stat *st, int kind, struct FTW *ftw)
{
    (void)path, (void)kind, (void)ftw;
    if (st->st_blocks > largest)
        largest = st->st_blocks;
    return 0;
}

/* Whatever size a store, or a caller, gives a file: what is known of its blocks fills no disk. */
Test(faults, a_file_larger_than_any)
{
    struct bench b;
    struct err err = {0};
    struct stage_attr a;
    bench_start(&b, false);
    b.conf.commit = COMMIT_BACKGROUND;
    cleanup_free char *path = xasprintf("%s/f", b.bucket);
    FILE *f = fopen(path, "we");
    cr_assert(f && fputs("text", f) >= 0 && fclose(f) == 0);
    bench_open(&b, true);
    uint64_t ino = t_lookup(&b, STAGE_ROOT, "f"), fh = t_open(&b, ino, O_RDWR);
    t_write(&b, fh, 0, "t");
    cr_expect_eq(stage_setattr(b.s, &waits, ino, &(struct stat){.st_size = 1ll << 47},
                               STAGE_SET_SIZE, &a, &err),
                 -1);
    cr_assert_eq(nftw(b.dir, take_largest, 16, FTW_PHYS), 0);
    cr_expect_lt(largest * 512, 1 << 20);
    t_close(&b, fh);
    expect_text(&b, STAGE_ROOT, "f", "text");
    bench_stop(&b);
}

static void limit_memory(bool none)
{
    struct rlimit r;
    cr_assert_eq(getrlimit(RLIMIT_AS, &r), 0);
    r.rlim_cur = none ? 1 : r.rlim_max;
    cr_assert_eq(setrlimit(RLIMIT_AS, &r), 0);
}

/* A map of blocks that could not be made longer goes on saying which of them are not here. */
Test(faults, no_memory_for_a_longer_map)
{
    enum { MIB = 1 << 20 };
    struct bench b;
    struct err err = {0};
    struct stage_attr a;
    cleanup_free char *data = xmalloc(2 * MIB), *got = xcalloc(1, 2 * MIB);
    size_t n = 0;
    memset(data, 'x', 2 * MIB);
    bench_start(&b, false);
    b.conf.commit = COMMIT_BACKGROUND;
    cleanup_free char *path = xasprintf("%s/f", b.bucket);
    FILE *f = fopen(path, "we");
    cr_assert(f && fwrite(data, 2 * MIB, 1, f) == 1 && fclose(f) == 0);
    bench_open(&b, true);
    uint64_t ino = t_lookup(&b, STAGE_ROOT, "f"), fh = t_open(&b, ino, O_RDWR);
    t_write(&b, fh, 0, "x");
    limit_memory(true);
    int rc = stage_setattr(b.s, &waits, ino, &(struct stat){.st_size = 1ll << 33}, STAGE_SET_SIZE,
                           &a, &err);
    limit_memory(false);
    cr_expect_eq(rc, -1);
    cr_expect_eq(err_errno(&err), ENOMEM, "%s", err.msg);
    cr_assert_eq(stage_read(b.s, &waits, fh, 0, got, 2 * MIB, &n, &err), 0, "%s", err.msg);
    cr_expect(n == 2 * MIB && memcmp(got, data, n) == 0);
    t_close(&b, fh);
    bench_stop(&b);
}
