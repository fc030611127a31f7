/* Calls that the store refuses to a caller who waits for it: nothing is half there afterwards. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "clock.h"
#include "mem.h"
#include "stage-testing.h"

/* a: stored; b: stored; e/: an empty folder; d/: one and two; */
static void begin(struct bench *b)
{
    bench_start(b, true);
    bench_open(b, true);
    t_file(b, STAGE_ROOT, "a", "content of a");
    t_file(b, STAGE_ROOT, "b", "content of b");
    t_mkdir(b, STAGE_ROOT, "e");
    uint64_t d = t_mkdir(b, STAGE_ROOT, "d");
    t_file(b, d, "one", "1");
    t_file(b, d, "two", "2");
}

static void expect_attributes(struct bench *b, const char *name, mode_t mode, const char *stored)
{
    struct stage_attr a;
    char path[64], got[64];
    cr_assert_eq(stage_getattr(b->s, &waits, t_lookup(b, STAGE_ROOT, name), &a, NULL), 0);
    cr_expect_eq(a.st.st_mode & 07777, mode, "%s: %o", name, a.st.st_mode);
    cr_expect_neq(a.st.st_mtim.tv_sec, 1);
    snprintf(path, sizeof path, "/_meta/out/%s?name=x-amz-meta-mode", stored);
    ask(b, path, got, sizeof got);
    cr_expect_eq((mode_t)strtoul(got, NULL, 10) & 07777, mode, "%s: %s", stored, got);
}

static void expect_all(struct bench *b)
{
    char names[256];
    expect_attributes(b, "a", 0644, "a");
    expect_attributes(b, "e", 0755, "e/");
    names_in(b, STAGE_ROOT, names, sizeof names);
    cr_expect_str_eq(names, "a b d e");
    uint64_t d = t_lookup(b, STAGE_ROOT, "d");
    names_in(b, d, names, sizeof names);
    cr_expect_str_eq(names, "one two");
    expect_text(b, STAGE_ROOT, "a", "content of a");
    expect_text(b, STAGE_ROOT, "b", "content of b");
    expect_text(b, d, "one", "1");
    expect_text(b, d, "two", "2");
    expect_stored(b, "a", "content of a");
    expect_stored(b, "b", "content of b");
    expect_stored(b, "d/one", "1");
    expect_stored(b, "d/two", "2");
    expect_stored(b, "d/", "");
    expect_stored(b, "e/", "");
}

/* All is as before: now, to a life that follows, and once the store takes it again. */
static void end(struct bench *b)
{
    t_settle(b);
    expect_all(b);
    expect_pending(b, "\"files\":0");
    bench_close(b);
    bench_open(b, false);
    expect_all(b);
    ask_number(b, "/_set?deny=0");
    ask_number(b, "/_deny/");
    stage_retry(b->s);
    t_settle(b);
    expect_all(b);
    expect_pending(b, "\"files\":0");
    cr_expect_eq(ask_number(b, "/_objects"), 6);
    bench_stop(b);
}

enum what {
    MKDIR,
    SYMLINK,
    UNLINK,
    RMDIR,
    RENAME,
    RENAME_OVER,
    RENAME_FOLDER,
    RENAME_OVER_FOLDER,
    ATTRIBUTES,
    ATTRIBUTES_OF_A_FOLDER
};

static int set_attributes(struct bench *b, const char *name, const struct stage_call *c,
                          struct err *err)
{
    struct stage_attr a;
    const struct stat st = {.st_mode = 0600, .st_mtim = {.tv_sec = 1}};
    return stage_setattr(b->s, c, t_lookup(b, STAGE_ROOT, name), &st,
                         STAGE_SET_MODE | STAGE_SET_MTIME, &a, err);
}

static int do_it(struct bench *b, enum what what, const struct stage_call *c, struct err *err)
{
    struct stage_attr a;
    const uint64_t root = STAGE_ROOT;
    switch (what) {
    case MKDIR:
        return stage_mkdir(b->s, c, root, "new", 0755, &a, err);
    case SYMLINK:
        return stage_symlink(b->s, c, root, "new", "a", &a, err);
    case UNLINK:
        return stage_unlink(b->s, c, root, "a", err);
    case RMDIR:
        return stage_rmdir(b->s, c, root, "e", err);
    case RENAME:
        return stage_rename(b->s, c, root, "a", t_lookup(b, root, "d"), "new", 0, err);
    case RENAME_OVER:
        return stage_rename(b->s, c, root, "a", root, "b", 0, err);
    case RENAME_FOLDER:
        return stage_rename(b->s, c, root, "d", root, "new", 0, err);
    case RENAME_OVER_FOLDER:
        return stage_rename(b->s, c, root, "d", root, "e", 0, err);
    case ATTRIBUTES:
        return set_attributes(b, "a", c, err);
    case ATTRIBUTES_OF_A_FOLDER:
        return set_attributes(b, "e", c, err);
    }
    return 0;
}

static void refused(enum what what, const char *how)
{
    struct bench b;
    struct err err = {0};
    const struct stage_call call = {.unique = 10, .wait = true};
    begin(&b);
    ask_number(&b, how);
    cr_expect_eq(do_it(&b, what, &call, &err), -1);
    cr_expect_eq(err_errno(&err), EACCES, "%s", err.msg);
    t_settle(&b); /* what was under way */
    expect_all(&b);
    expect_pending(&b, "\"files\":0");
    bench_close(&b); /* killed before it could answer: the kernel asks again */
    bench_open(&b, false);
    err = (struct err){0};
    cr_expect_eq(do_it(&b, what, &call, &err), -1);
    cr_expect_eq(err_errno(&err), EACCES, "%s", err.msg);
    end(&b);
}

#define DENIED "/_set?deny=1"

Test(refused, mkdir)
{
    refused(MKDIR, DENIED);
}
Test(refused, symlink)
{
    refused(SYMLINK, DENIED);
}
Test(refused, unlink)
{
    refused(UNLINK, DENIED);
}
Test(refused, rmdir)
{
    refused(RMDIR, DENIED);
}
Test(refused, rename)
{
    refused(RENAME, DENIED);
}
Test(refused, rename_over_a_file)
{
    refused(RENAME_OVER, DENIED);
}
Test(refused, rename_of_a_folder)
{
    refused(RENAME_FOLDER, DENIED);
}
Test(refused, rename_over_an_empty_folder)
{
    refused(RENAME_OVER_FOLDER, DENIED);
}

Test(refused, attributes)
{
    refused(ATTRIBUTES, DENIED);
}
Test(refused, attributes_of_a_folder)
{
    refused(ATTRIBUTES_OF_A_FOLDER, DENIED);
}

/* Some of it went, some did not: what went comes back. */
Test(refused, rename_of_a_folder_half_way)
{
    struct bench b;
    struct err err = {0};
    begin(&b);
    ask_number(&b, "/_deny/out/new/two");
    cr_expect_eq(do_it(&b, RENAME_FOLDER, &waits, &err), -1);
    cr_expect_eq(err_errno(&err), EACCES, "%s", err.msg);
    t_settle(&b);
    expect_stored(&b, "new/one", NULL);
    expect_stored(&b, "new/", NULL);
    end(&b);
}

/* A copy that was let through, and whose origin can't go: both are there. */
Test(refused, rename_whose_old_name_stays)
{
    struct bench b;
    struct err err = {0};
    begin(&b);
    ask_number(&b, "/_set?deny=2");
    cr_expect_eq(stage_rename(b.s, &waits, STAGE_ROOT, "a", STAGE_ROOT, "new", 0, &err), -1);
    cr_expect_eq(err_errno(&err), EACCES, "%s", err.msg);
    expect_pending(&b, "\"files\":0");
    expect_text(&b, STAGE_ROOT, "a", "content of a");
    expect_text(&b, STAGE_ROOT, "new", "content of a");
    ask_number(&b, "/_set?deny=0");
    t_unlink(&b, STAGE_ROOT, "new");
    end(&b);
}

/* It has an open file, which goes on as if nothing had been tried. */
Test(refused, unlink_of_an_open_file)
{
    struct bench b;
    struct err err = {0};
    begin(&b);
    uint64_t fh = t_open(&b, t_lookup(&b, STAGE_ROOT, "a"), O_RDWR);
    ask_number(&b, DENIED);
    cr_expect_eq(do_it(&b, UNLINK, &waits, &err), -1);
    ask_number(&b, "/_set?deny=0");
    t_write(&b, fh, 0, "CONTENT");
    t_close(&b, fh);
    expect_stored(&b, "a", "CONTENT of a");
    fh = t_open(&b, t_lookup(&b, STAGE_ROOT, "a"), O_RDWR);
    t_write(&b, fh, 0, "content");
    t_close(&b, fh);
    end(&b);
}

static void hear(void *arg, uint64_t ino, const char *name)
{
    if (!name)
        *(_Atomic uint64_t *)arg = ino;
}

/* The size of an open file is content: close or fsync tell of it, also where the last close was
 * refused. Of one that nobody has open the cut itself does, and it stays: the kernel is told. */
Test(refused, sizes)
{
    struct bench b;
    struct err err = {0};
    struct stage_attr attr;
    _Atomic uint64_t told = 0;
    begin(&b);
    stage_on_change(b.s, hear, (void *)&told);
    uint64_t a = t_lookup(&b, STAGE_ROOT, "a"), fh = t_open(&b, a, O_RDWR);
    ask_number(&b, DENIED);
    t_write(&b, fh, 0, "CONTENT");
    cr_expect_eq(stage_flush(b.s, &waits, fh, &err), -1);
    cr_expect_eq(
        stage_setattr(b.s, &waits, a, &(struct stat){.st_size = 9}, STAGE_SET_SIZE, &attr, &err), 0,
        "%s", err.msg);
    cr_expect_eq(attr.st.st_size, 9);
    cr_expect_eq(stage_flush(b.s, &waits, fh, &err), -1);
    cr_expect_eq(stage_release(b.s, &waits, fh, &err), 0);
    cr_expect_eq(told, 0);
    cr_expect_eq(
        stage_setattr(b.s, &waits, a, &(struct stat){.st_size = 7}, STAGE_SET_SIZE, &attr, &err),
        -1);
    cr_expect_eq(err_errno(&err), EACCES, "%s", err.msg);
    for (int i = 0; i < 10000 && !told; i++)
        usleep(1000);
    cr_expect_eq(told, a);
    expect_text(&b, STAGE_ROOT, "a", "CONTENT");
    expect_stored(&b, "a", "content of a");
    ask_number(&b, "/_set?deny=0");
    stage_retry(b.s);
    t_settle(&b);
    expect_stored(&b, "a", "CONTENT");
    stage_on_change(b.s, NULL, NULL);
    bench_stop(&b);
}

/* Trouble that passes is no refusal: what it asked for comes. */
Test(refused, the_store_is_only_away)
{
    struct bench b;
    struct err err = {0};
    struct stage_attr a;
    bench_start(&b, true);
    b.conf.patience_ns = 300000000;
    bench_open(&b, true);
    t_file(&b, STAGE_ROOT, "a", "content of a");
    ask_number(&b, "/_set?down=1");
    cr_expect_eq(stage_mkdir(b.s, &waits, STAGE_ROOT, "new", 0755, &a, &err), -1);
    cr_expect_eq(err_errno(&err), EIO, "%s", err.msg);
    ask_number(&b, "/_set?down=0");
    stage_retry(b.s);
    t_settle(&b);
    expect_stored(&b, "new/", "");
    bench_stop(&b);
}

/* However many keys the store does not give up, the next one is tried. */
Test(refused, keys_that_stay_hold_up_no_others)
{
    enum { MANY = 1001 };
    struct bench b;
    char name[16];
    bench_start(&b, true);
    b.conf.commit = COMMIT_BACKGROUND;
    bench_open(&b, true);
    for (int i = 0; i <= MANY; i++) {
        snprintf(name, sizeof name, "%d", i);
        t_file(&b, STAGE_ROOT, name, "x");
    }
    t_settle(&b);
    ask_number(&b, "/_set?deny=2");
    for (int i = 0; i < MANY; i++) {
        snprintf(name, sizeof name, "%d", i);
        t_unlink(&b, STAGE_ROOT, name);
    }
    t_until_pending(&b, "\"failed\":1001");
    ask_number(&b, "/_set?deny=0");
    t_unlink(&b, STAGE_ROOT, "1001");
    while (ask_number(&b, "/_objects") != MANY)
        usleep(10000);
    expect_pending(&b, "\"failed\":1001");
    stage_retry(b.s);
    t_settle(&b);
    cr_expect_eq(ask_number(&b, "/_objects"), 0);
    bench_stop(&b);
}

static void put_in_bucket(const struct bench *b, const char *key, const char *text)
{
    cleanup_free char *path = xasprintf("%s/%s", b->bucket, key);
    FILE *f = fopen(path, "we");
    cr_assert(f && fputs(text, f) >= 0 && fclose(f) == 0);
}

/* Each waits for the other's object to leave, and neither object is the one that was known. */
Test(refused, a_swap_of_what_another_writer_replaced)
{
    struct bench b, other;
    uint64_t fh;
    bench_start(&b, false);
    bench_open(&b, true);
    t_file(&b, STAGE_ROOT, "a", "was a");
    t_file(&b, STAGE_ROOT, "b", "was b");
    bench_other(&other, &b);
    other.conf.commit = COMMIT_BACKGROUND;
    other.conf.uploads = 1;
    other.conf.refresh_ns = 3600 * NS_PER_S;
    bench_open(&other, true);
    t_lookup(&other, STAGE_ROOT, "a");
    t_lookup(&other, STAGE_ROOT, "b");
    t_create(&other, STAGE_ROOT, "large", &fh); /* its upload holds up what comes after it */
    cleanup_free char *block = xmalloc((1 << 20) + 1);
    memset(block, 'x', 1 << 20);
    block[1 << 20] = '\0';
    for (uint64_t i = 0; i < 48; i++)
        t_write(&other, fh, i << 20, block);
    put_in_bucket(&other, "a", "a of another writer");
    put_in_bucket(&other, "b", "b of another writer");
    t_close(&other, fh);
    t_rename(&other, STAGE_ROOT, "a", STAGE_ROOT, "t");
    t_rename(&other, STAGE_ROOT, "b", STAGE_ROOT, "a");
    t_rename(&other, STAGE_ROOT, "t", STAGE_ROOT, "b");
    t_settle(&other);
    expect_stored(&other, "a", "b of another writer");
    expect_stored(&other, "b", "a of another writer");
    expect_stored(&other, "t", NULL);
    bench_stop(&other);
    bench_stop(&b);
}
