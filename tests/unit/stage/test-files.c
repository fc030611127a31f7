/* Files of a stage: made, written, read, cut, renamed, removed, over a folder and over S3. */
#include <criterion/criterion.h>
#include <errno.h>
#include <linux/fs.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>

#include "clock.h"
#include "mem.h"
#include "stage-testing.h"

static void background(struct stage_conf *c)
{
    c->commit = COMMIT_BACKGROUND;
}

Test(files, commit_takes_every_duration)
{
    static const struct {
        const char *text;
        uint64_t ms; /* 0: refused */
    } rows[] = {{"interval=10ms", 10},     {"interval=2s", 2000},     {"interval=0.5m", 30000},
                {"interval=1h", 3600000},  {"interval=1d", 86400000}, {"interval=9ms", 0},
                {"interval=25h", 0},       {"interval=5", 0},         {"interval=", 0},
                {"interval=2s, or so", 0}, {"interval", 0},           {"", 0}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        enum stage_commit how;
        uint64_t ns;
        struct err err = {0};
        int rc = stage_commit_parse(rows[i].text, &how, &ns, &err);
        cr_expect_eq(rc, rows[i].ms ? 0 : -1, "%s", rows[i].text);
        if (!rc)
            cr_expect(how == COMMIT_INTERVAL && ns == rows[i].ms * NS_PER_MS, "%s", rows[i].text);
        else
            cr_expect(strstr(err.msg, "10ms to 24h"), "%s", err.msg);
    }
}

static void check_create(struct bench *b)
{
    uint64_t fh, ino = t_create(b, STAGE_ROOT, "a", &fh);
    expect_stored(b, "a", NULL);
    t_write(b, fh, 0, "hello ");
    t_write(b, fh, 6, "world");
    cr_expect_eq(t_size(b, ino), 11);
    t_close(b, fh);
    expect_stored(b, "a", "hello world");
    expect_text(b, STAGE_ROOT, "a", "hello world");
    t_file(b, STAGE_ROOT, "empty", "");
    expect_stored(b, "empty", "");
    uint64_t dir = t_mkdir(b, STAGE_ROOT, "d");
    t_file(b, dir, "in it", "x%y");
    expect_stored(b, "d/in it", "x%y");
    char names[256];
    names_in(b, STAGE_ROOT, names, sizeof names);
    cr_expect_str_eq(names, "a d empty");
}

Test(files, create_write_close)
{
    on_both(check_create, NULL);
}

/* An fsync waits for the disk, changed or not: never who must not wait. */
static void check_fsync(struct bench *b)
{
    struct err err = {0};
    t_file(b, STAGE_ROOT, "a", "one");
    t_settle(b);
    uint64_t ino = t_lookup(b, STAGE_ROOT, "a");
    uint64_t fh = t_open(b, ino, O_RDWR);
    cr_expect_eq(stage_fsync(b->s, &hurries, fh, false, &err), STAGE_WAIT, "nothing changed");
    cr_expect_eq(stage_fsync(b->s, &waits, fh, false, &err), 0, "%s", err.msg);
    t_write(b, fh, 0, "two");
    cr_expect_eq(stage_fsync(b->s, &hurries, fh, false, &err), STAGE_WAIT, "changed");
    cr_expect_eq(stage_fsync(b->s, &waits, fh, false, &err), 0, "%s", err.msg);
    t_close(b, fh);
    t_settle(b);
    expect_stored(b, "a", "two");
}

Test(files, an_fsync_may_take_its_time)
{
    on_both(check_fsync, background);
}

static void check_reopen(struct bench *b)
{
    t_file(b, STAGE_ROOT, "a", "one");
    uint64_t ino = t_lookup(b, STAGE_ROOT, "a");
    uint64_t fh = t_open(b, ino, O_RDWR);
    t_write(b, fh, 1, "XY and more");
    t_close(b, fh);
    expect_stored(b, "a", "oXY and more");
    fh = t_open(b, ino, O_WRONLY | O_TRUNC);
    cr_expect_eq(t_size(b, ino), 0);
    t_write(b, fh, 3, "far");
    t_close(b, fh);
    cr_expect_eq(t_size(b, ino), 6);
    uint64_t one = t_open(b, ino, O_RDWR), two = t_open(b, ino, O_RDWR);
    t_write(b, one, 0, "abc");
    t_write(b, two, 3, "def");
    t_close(b, one);
    t_close(b, two);
    expect_stored(b, "a", "abcdef");
    t_close(b, t_open(b, ino, O_RDONLY | O_TRUNC));
    expect_stored(b, "a", "");
}

Test(files, written_again)
{
    on_both(check_reopen, NULL);
}

static void check_names(struct bench *b)
{
    uint64_t d = t_mkdir(b, STAGE_ROOT, "d"), e = t_mkdir(b, STAGE_ROOT, "e");
    t_file(b, d, "f", "text");
    t_rename(b, d, "f", e, "g");
    expect_stored(b, "d/f", NULL);
    expect_stored(b, "e/g", "text");
    expect_text(b, e, "g", "text");
    expect_text(b, d, "f", NULL);
    t_file(b, STAGE_ROOT, "over", "old");
    t_rename(b, e, "g", STAGE_ROOT, "over");
    expect_stored(b, "over", "text");
    expect_stored(b, "e/g", NULL);
    struct err err = {0};
    t_file(b, d, "in", "1");
    cr_expect_eq(stage_rmdir(b->s, &waits, STAGE_ROOT, "d", &err), -1);
    cr_expect_eq(err_errno(&err), ENOTEMPTY);
    cr_expect_eq(stage_rename(b->s, &waits, STAGE_ROOT, "d", d, "x", 0, &err), -1);
    cr_expect_eq(err_errno(&err), EINVAL);
    t_unlink(b, d, "in");
    cr_expect_eq(stage_rmdir(b->s, &waits, STAGE_ROOT, "d", &err), 0, "%s", err.msg);
    cr_expect_eq(stage_rmdir(b->s, &waits, STAGE_ROOT, "e", &err), 0, "%s", err.msg);
    t_unlink(b, STAGE_ROOT, "over");
    char names[256];
    names_in(b, STAGE_ROOT, names, sizeof names);
    cr_expect_str_eq(names, "");
    if (b->s3)
        cr_expect_eq(ask_number(b, "/_objects"), 0);
}

Test(files, rename_and_remove)
{
    on_both(check_names, NULL);
}

static void check_folder_move(struct bench *b)
{
    uint64_t d = t_mkdir(b, STAGE_ROOT, "d"), sub = t_mkdir(b, d, "sub");
    t_file(b, d, "one", "1");
    t_file(b, sub, "two", "22");
    t_rename(b, STAGE_ROOT, "d", STAGE_ROOT, "moved");
    expect_stored(b, "moved/one", "1");
    expect_stored(b, "moved/sub/two", "22");
    expect_stored(b, "d/one", NULL);
    expect_stored(b, "d/sub/two", NULL);
    cr_expect_eq(lookup_errno(b, STAGE_ROOT, "d"), ENOENT);
    t_settle(b);
    bench_close(b);
    bench_open(b, true);
    uint64_t m = t_lookup(b, STAGE_ROOT, "moved");
    cr_expect_eq(m, d);
    expect_text(b, m, "one", "1");
    expect_text(b, t_lookup(b, m, "sub"), "two", "22");
}

Test(files, a_folder_moves)
{
    on_both(check_folder_move, NULL);
}

static void check_swap(struct bench *b)
{
    t_file(b, STAGE_ROOT, "a", "was a");
    t_file(b, STAGE_ROOT, "b", "was b");
    t_settle(b);
    t_rename(b, STAGE_ROOT, "a", STAGE_ROOT, "t");
    t_rename(b, STAGE_ROOT, "b", STAGE_ROOT, "a");
    t_rename(b, STAGE_ROOT, "t", STAGE_ROOT, "b");
    expect_text(b, STAGE_ROOT, "a", "was b");
    expect_text(b, STAGE_ROOT, "b", "was a");
    t_settle(b);
    expect_stored(b, "a", "was b");
    expect_stored(b, "b", "was a");
    expect_stored(b, "t", NULL);
}

Test(files, names_swapped)
{
    on_both(check_swap, background);
    on_both(check_swap, NULL);
}

static void check_background(struct bench *b)
{
    for (int i = 0; i < 50; i++) {
        char name[32];
        snprintf(name, sizeof name, "f%d", i);
        t_file(b, STAGE_ROOT, name, name);
    }
    t_settle(b);
    for (int i = 0; i < 50; i++) {
        char name[32];
        snprintf(name, sizeof name, "f%d", i);
        expect_stored(b, name, name);
    }
    cleanup_free char *text = t_pending(b);
    cr_expect_str_eq(text, "{\"pending\":{\"files\":0,\"bytes\":0,\"failed\":0,\"oldest_s\":0,"
                           "\"items\":[]}}");
}

Test(files, in_the_background)
{
    on_both(check_background, background);
}

/* What a folder's file system is told of it; -1: it can't be told such things. */
static int told_apart(const char *dir, bool tell)
{
    int flags = 0, fd = open(dir, O_RDONLY | O_DIRECTORY);
    int result = ioctl(fd, FS_IOC_GETFLAGS, &flags);
    if (result == 0 && tell) {
        flags |= FS_TOPDIR_FL;
        result = ioctl(fd, FS_IOC_SETFLAGS, &flags);
    }
    close(fd);
    return result ? -1 : (flags & FS_TOPDIR_FL) != 0;
}

/* Others that remove files beside the stage must not make its own slow to come. */
Test(files, apart_from_what_others_remove)
{
    struct bench b;
    bench_start(&b, false);
    bench_open(&b, true);
    if (told_apart(b.bucket, true) == 1)
        cr_expect_eq(told_apart(b.dir, false), 1);
    bench_stop(&b);
}

static void check_attributes(struct bench *b)
{
    struct err err = {0};
    struct stage_attr a;
    t_file(b, STAGE_ROOT, "f", "text");
    uint64_t ino = t_lookup(b, STAGE_ROOT, "f");
    const struct stat st = {.st_mode = 0600, .st_mtim = {.tv_sec = 1500000000, .tv_nsec = 5000}};
    cr_assert_eq(stage_setattr(b->s, &waits, ino, &st, STAGE_SET_MODE | STAGE_SET_MTIME, &a, &err),
                 0, "%s", err.msg);
    cr_expect_eq(a.st.st_mode, S_IFREG | 0600);
    cr_assert_eq(stage_symlink(b->s, &waits, STAGE_ROOT, "l", "to/there", &a, &err), 0, "%s",
                 err.msg);
    struct bench other;
    bench_other(&other, b);
    bench_open(&other, true);
    cr_assert_eq(stage_lookup(other.s, &waits, STAGE_ROOT, "f", &a, &err), 0, "%s", err.msg);
    cr_expect_eq(a.st.st_mode, S_IFREG | 0600, "%o", a.st.st_mode);
    cr_expect_eq(a.st.st_mtim.tv_sec, 1500000000);
    cr_expect_eq(a.st.st_mtim.tv_nsec, 5000);
    cr_assert_eq(stage_lookup(other.s, &waits, STAGE_ROOT, "l", &a, &err), 0, "%s", err.msg);
    cr_expect_eq(a.st.st_mode, S_IFLNK | 0777, "%o", a.st.st_mode);
    struct bytes target = {0};
    cr_assert_eq(stage_readlink(other.s, &waits, a.st.st_ino, &target, &err), 0, "%s", err.msg);
    cr_expect_str_eq(target.data, "to/there");
    bytes_release(&target);
    bench_stop(&other);
}

Test(files, attributes_and_links)
{
    on_both(check_attributes, NULL);
}

static void expect_mtime(struct bench *b, const char *name, int64_t seconds)
{
    struct err err = {0};
    struct stage_attr a;
    cr_assert_eq(stage_lookup(b->s, &waits, STAGE_ROOT, name, &a, &err), 0, "%s", err.msg);
    cr_expect_eq(a.st.st_mtim.tv_sec, seconds, "%s: %lld", name, (long long)a.st.st_mtim.tv_sec);
}

/* The time that a call gave a folder stays, here and in the store, though what was written before
 * comes to the store only later, and though its files are written again. */
static void check_folder_time(struct bench *b)
{
    const struct stat st = {.st_mtim = {.tv_sec = 1500000000}};
    struct err err = {0};
    struct stage_attr a;
    struct bench other;
    b->conf.refresh_ns = 0;
    bench_close(b);
    bench_open(b, false);
    uint64_t dir = t_mkdir(b, STAGE_ROOT, "d");
    for (unsigned i = 0; i < 50; i++) {
        char name[16];
        snprintf(name, sizeof name, "f%u", i);
        t_file(b, dir, name, "text");
    }
    cr_assert_eq(stage_setattr(b->s, &waits, dir, &st, STAGE_SET_MTIME, &a, &err), 0, "%s",
                 err.msg);
    for (unsigned i = 0; i < 20; i++)
        expect_mtime(b, "d", 1500000000);
    uint64_t fh = t_open(b, t_lookup(b, dir, "f7"), O_WRONLY | O_TRUNC);
    t_write(b, fh, 0, "other");
    t_close(b, fh);
    cr_assert_eq(stage_sync(b->s, &waits, &err), 0, "%s", err.msg);
    expect_mtime(b, "d", 1500000000);
    bench_other(&other, b);
    bench_open(&other, true);
    expect_mtime(&other, "d", 1500000000);
    bench_stop(&other);
}

Test(files, time_of_a_folder)
{
    on_both(check_folder_time, background);
}

static int64_t mtime_ns_of(struct bench *b, const char *name)
{
    struct err err = {0};
    struct stage_attr a;
    cr_assert_eq(stage_lookup(b->s, &waits, STAGE_ROOT, name, &a, &err), 0, "%s", err.msg);
    return a.st.st_mtim.tv_sec * (int64_t)1000000000 + a.st.st_mtim.tv_nsec;
}

/* The file is written and stored, until the store's folder is later than that. */
static void stir(struct bench *b, uint64_t folder, const char *path, int64_t than)
{
    char at[200];
    struct stat st;
    struct err err = {0};
    snprintf(at, sizeof at, "%s/%s", b->bucket, path);
    do {
        uint64_t fh = t_open(b, t_lookup(b, folder, "f"), O_WRONLY | O_TRUNC);
        t_write(b, fh, 0, "other");
        t_close(b, fh);
        cr_assert_eq(stage_sync(b->s, &waits, &err), 0, "%s", err.msg);
        if (b->s3)
            return;
        cr_assert_eq(stat(at, &st), 0);
    } while (st.st_mtim.tv_sec * (int64_t)1000000000 + st.st_mtim.tv_nsec <= than);
}

static void remove_and_look(struct bench *b, uint64_t folder, const char *file)
{
    struct err err = {0};
    t_unlink(b, folder, file);
    int64_t made = mtime_ns_of(b, "d");
    cr_assert_eq(stage_sync(b->s, &waits, &err), 0, "%s", err.msg);
    cr_expect_eq(mtime_ns_of(b, "d"), made, "%s", file);
}

/* A folder's time is that of its names, not of when the store learns of them, or of what is in its
 * files: neither of those that this life made, nor of those that it found. */
static void check_folder_time_of_names(struct bench *b)
{
    char file[16];
    b->conf.refresh_ns = 0;
    bench_close(b);
    bench_open(b, false);
    uint64_t dir = t_mkdir(b, STAGE_ROOT, "d");
    t_file(b, dir, "f", "text");
    for (unsigned i = 0; i < 20; i++) {
        snprintf(file, sizeof file, "%u", i);
        t_file(b, dir, file, "text");
    }
    for (unsigned life = 0; life < 2; life++) {
        int64_t made = mtime_ns_of(b, "d");
        stir(b, dir, "d", made);
        cr_expect_eq(mtime_ns_of(b, "d"), made);
        bench_close(b);
        bench_open(b, false);
        dir = t_lookup(b, STAGE_ROOT, "d");
    }
    for (unsigned i = 0; i < 20; i++) {
        snprintf(file, sizeof file, "%u", i);
        remove_and_look(b, dir, file);
    }
}

Test(files, time_of_a_folder_is_of_its_names)
{
    on_both(check_folder_time_of_names, background);
}

static void check_cut(struct bench *b)
{
    struct err err = {0};
    struct stage_attr a;
    t_file(b, STAGE_ROOT, "f", "0123456789");
    bench_close(b);
    bench_open(b, true); /* nothing is open, the content may be dropped */
    uint64_t ino = t_lookup(b, STAGE_ROOT, "f");
    cr_assert_eq(
        stage_setattr(b->s, &waits, ino, &(struct stat){.st_size = 4}, STAGE_SET_SIZE, &a, &err), 0,
        "%s", err.msg);
    expect_stored(b, "f", "0123");
    cr_assert_eq(
        stage_setattr(b->s, &waits, ino, &(struct stat){.st_size = 8}, STAGE_SET_SIZE, &a, &err), 0,
        "%s", err.msg);
    cr_expect_eq(t_size(b, ino), 8);
    uint64_t fh = t_open(b, ino, O_RDONLY);
    char buf[16];
    size_t n = 0;
    cr_assert_eq(stage_read(b->s, &waits, fh, 0, buf, sizeof buf, &n, &err), 0);
    cr_expect(n == 8 && memcmp(buf, "0123\0\0\0\0", 8) == 0);
    t_close(b, fh);
}

Test(files, cut_and_lengthened)
{
    on_both(check_cut, NULL);
}

static void check_unlinked(struct bench *b)
{
    struct err err = {0};
    uint64_t fh, ino = t_create(b, STAGE_ROOT, "f", &fh);
    t_write(b, fh, 0, "still here");
    t_unlink(b, STAGE_ROOT, "f");
    expect_text(b, STAGE_ROOT, "f", NULL);
    char buf[32];
    size_t n = 0;
    cr_assert_eq(stage_read(b->s, &waits, fh, 0, buf, sizeof buf, &n, &err), 0, "%s", err.msg);
    cr_expect(n == 10 && memcmp(buf, "still here", 10) == 0);
    t_close(b, fh);
    stage_forget(b->s, ino, 1);
    struct stage_attr a;
    cr_expect_eq(stage_getattr(b->s, &waits, ino, &a, &err), -1);
    expect_stored(b, "f", NULL);
}

Test(files, unlinked_while_open)
{
    on_both(check_unlinked, NULL);
}

/* Opened in a life before the one that its name goes in: it is open until the kernel forgets it,
 * which knows of more lookups than this life. */
static void check_unlinked_later(struct bench *b)
{
    uint64_t fh[2];
    uint64_t ino[2] = {t_create(b, STAGE_ROOT, "f", &fh[0]), t_create(b, STAGE_ROOT, "g", &fh[1])};
    for (int i = 0; i < 2; i++)
        t_write(b, fh[i], 0, "still here");
    bench_close(b);
    bench_open(b, false);
    t_unlink(b, STAGE_ROOT, "f");
    t_file(b, STAGE_ROOT, "other", "another");
    t_rename(b, STAGE_ROOT, "other", STAGE_ROOT, "g");
    for (int i = 0; i < 2; i++) {
        char buf[16];
        struct err err = {0};
        struct stage_attr a;
        size_t n = 0;
        cr_expect_eq(stage_read(b->s, &waits, fh[i], 0, buf, sizeof buf, &n, &err), 0, "%s",
                     err.msg);
        cr_expect(n == 10 && memcmp(buf, "still here", 10) == 0);
        t_close(b, fh[i]);
        stage_forget(b->s, ino[i], 3);
        cr_expect_eq(stage_getattr(b->s, &waits, ino[i], &a, &err), -1);
    }
    expect_stored(b, "f", NULL);
    expect_stored(b, "g", "another");
}

Test(files, unlinked_while_open_from_an_earlier_life)
{
    on_both(check_unlinked_later, NULL);
}

enum { LONG = 6 << 20, PIECE = 16 }; /* more than one read brings */

static char *long_text(void)
{
    char *text = xcalloc(1, LONG + 1);
    for (size_t i = 0; i < LONG; i++)
        text[i] = (char)('a' + i / PIECE % 26);
    return text;
}

static void expect_piece(struct bench *b, uint64_t fh, uint64_t at, const char *text)
{
    char buf[PIECE];
    size_t n = 0;
    struct err err = {0};
    cr_expect_eq(stage_read(b->s, &waits, fh, at, buf, sizeof buf, &n, &err), 0, "%s", err.msg);
    cr_expect(n == sizeof buf && memcmp(buf, text + at, n) == 0, "%llu", (unsigned long long)at);
}

/* The same where some of it, or all, is only in the store: it comes before its object goes. */
static void check_unlinked_later_absent(struct bench *b)
{
    enum { FILES = 3 };
    static const char *const names[FILES] = {"read", "opened", "replaced"};
    struct bench other;
    uint64_t fh[FILES], ino[FILES];
    cleanup_free char *text = long_text();
    bench_other(&other, b);
    bench_open(&other, true);
    for (int i = 0; i < FILES; i++)
        t_file(b, STAGE_ROOT, names[i], text);
    for (int i = 0; i < FILES; i++) {
        ino[i] = t_lookup(&other, STAGE_ROOT, names[i]);
        fh[i] = t_open(&other, ino[i], O_RDONLY);
    }
    expect_piece(&other, fh[0], 0, text);
    bench_close(&other);
    bench_open(&other, false);
    t_unlink(&other, STAGE_ROOT, names[0]);
    t_unlink(&other, STAGE_ROOT, names[1]);
    t_file(&other, STAGE_ROOT, "new", "another");
    t_rename(&other, STAGE_ROOT, "new", STAGE_ROOT, names[2]);
    for (int i = 0; i < FILES; i++) {
        expect_piece(&other, fh[i], LONG - PIECE, text);
        t_close(&other, fh[i]);
        stage_forget(other.s, ino[i], 3);
    }
    expect_stored(b, names[0], NULL);
    expect_stored(b, names[1], NULL);
    expect_stored(b, names[2], "another");
    bench_stop(&other);
}

Test(files, unlinked_while_open_from_an_earlier_life_and_not_here)
{
    on_both(check_unlinked_later_absent, NULL);
}

/* What was closed again is removed after a pause without its bytes. */
static void check_unlinked_closed(struct bench *b)
{
    struct bench other;
    cleanup_free char *text = long_text();
    bench_other(&other, b);
    bench_open(&other, true);
    t_file(b, STAGE_ROOT, "f", text);
    uint64_t ino = t_lookup(&other, STAGE_ROOT, "f"), fh = t_open(&other, ino, O_RDONLY);
    expect_piece(&other, fh, 0, text);
    t_close(&other, fh);
    bench_close(&other);
    bench_open(&other, false);
    uint64_t before = counter_get(&stage_counts(other.s)->fetched_bytes);
    t_unlink(&other, STAGE_ROOT, "f");
    t_settle(&other);
    cr_expect_eq(counter_get(&stage_counts(other.s)->fetched_bytes), before);
    expect_stored(b, "f", NULL);
    stage_forget(other.s, ino, 1);
    bench_stop(&other);
}

Test(files, unlinked_after_an_earlier_life_closed_it)
{
    on_both(check_unlinked_closed, NULL);
}

/* The life that removes it ends before all of it is here: the next one goes on with that. */
Test(files, unlinked_while_open_and_not_here_when_the_life_ends)
{
    struct bench b, other;
    cleanup_free char *text = long_text();
    bench_start(&b, true);
    bench_open(&b, true);
    bench_other(&other, &b);
    background(&other.conf);
    bench_open(&other, true);
    t_file(&b, STAGE_ROOT, "f", text);
    uint64_t ino = t_lookup(&other, STAGE_ROOT, "f"), fh = t_open(&other, ino, O_RDONLY);
    ask_number(&b, "/_set?late=300");
    t_unlink(&other, STAGE_ROOT, "f");
    bench_close(&other);
    ask_number(&b, "/_set?late=0");
    bench_open(&other, false);
    t_settle(&other);
    expect_stored(&b, "f", NULL);
    expect_piece(&other, fh, LONG - PIECE, text);
    t_close(&other, fh);
    stage_forget(other.s, ino, 1);
    bench_stop(&other);
    bench_stop(&b);
}

static unsigned count_names(const char *dir, const char *prefix)
{
    unsigned n = 0;
    cleanup_dir DIR *d = opendir(dir);
    for (const struct dirent *e; d && (e = readdir(d));)
        n += strncmp(e->d_name, prefix, strlen(prefix)) == 0;
    return n;
}

/* The folder of the staged files is made under a name that no other stage had (where it lies on the
 * disk goes by that), then gets its own. What lives left that were killed between the two goes. */
Test(files, the_folder_of_staged_files_has_one_name)
{
    struct bench b;
    struct stat before, now;
    char data[128], left[128];
    bench_start(&b, true);
    snprintf(data, sizeof data, "%s/data", b.dir);
    snprintf(left, sizeof left, "%s/data-00000000000000ff", b.dir);
    cr_assert_eq(mkdir(left, 0700), 0);
    cr_assert_eq(access(data, F_OK), -1);
    bench_open(&b, true);
    cr_expect_eq(stat(data, &before), 0);
    cr_expect_eq(count_names(b.dir, "data"), 1, "one folder of staged files");
    bench_close(&b);
    cr_assert_eq(mkdir(left, 0700), 0);
    bench_open(&b, false);
    cr_expect_eq(stat(data, &now), 0);
    cr_expect_eq(now.st_ino, before.st_ino, "the folder is kept");
    cr_expect_eq(count_names(b.dir, "data"), 1, "one folder of staged files");
    bench_stop(&b);
}

/* A life that ended between the bytes of a write and the map that counts them: of a block that is
 * only in the store nothing else counts, and beyond its end there are zeros. */
Test(files, bytes_that_the_map_does_not_know)
{
    struct bench b;
    struct stat st = {.st_size = 9};
    struct stage_attr a;
    uint64_t fh;
    char path[128];
    bench_start(&b, true);
    ask_number(&b, "/_put/out/f?text=text");
    bench_open(&b, true);
    uint64_t ino = t_lookup(&b, STAGE_ROOT, "f");
    fh = t_open(&b, ino, O_WRONLY);
    cr_assert_eq(stage_setattr(b.s, &waits, ino, &st, STAGE_SET_SIZE, &a, NULL), 0);
    snprintf(path, sizeof path, "%s/data/%016llx", b.dir, (unsigned long long)ino);
    int fd = open(path, O_WRONLY);
    cr_assert_eq(pwrite(fd, "01234567", 8, 0), 8);
    close(fd);
    bench_close(&b);
    bench_open(&b, false);
    t_close(&b, fh);
    t_settle(&b);
    char got[64], want[33];
    ask(&b, "/_md5/out/f", got, sizeof got);
    sum_of("text\0\0\0\0", 9, want);
    cr_expect_str_eq(got, want);
    bench_stop(&b);
}

/* It is all listed before, once, however long that takes and however soon a listing is old. */
Test(files, a_folder_of_many_folders_moves)
{
    enum { FOLDERS = 20 };
    struct bench b, other;
    bench_start(&b, true);
    bench_open(&b, true);
    uint64_t top = t_mkdir(&b, STAGE_ROOT, "d");
    for (int i = 0; i < FOLDERS; i++) {
        cleanup_free char *name = xasprintf("s%02d", i);
        t_file(&b, t_mkdir(&b, top, name), "f", name);
    }
    bench_other(&other, &b);
    other.conf.refresh_ns = 50 * NS_PER_MS;
    bench_open(&other, true);
    ask_number(&b, "/_set?late=20");
    t_rename(&other, STAGE_ROOT, "d", STAGE_ROOT, "e");
    ask_number(&b, "/_set?late=0");
    for (int i = 0; i < FOLDERS; i++) {
        cleanup_free char *was = xasprintf("d/s%02d/f", i), *is = xasprintf("e/s%02d/f", i);
        cleanup_free char *text = xasprintf("s%02d", i);
        expect_stored(&b, was, NULL);
        expect_stored(&b, is, text);
    }
    bench_stop(&other);
    bench_stop(&b);
}
