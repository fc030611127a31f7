/* A store that does not answer for a while, or late: what goes on meanwhile, and what is stored
 * then. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "clock.h"
#include "mem.h"
#include "stage-testing.h"

Test(down, what_was_not_stored_is_kept)
{
    struct bench b;
    struct err err = {0};
    bench_start(&b, true);
    b.conf.patience_ns = 300 * NS_PER_MS;
    bench_open(&b, true);
    uint64_t fh, ino = t_create(&b, STAGE_ROOT, "f", &fh);
    t_write(&b, fh, 0, "kept");
    ask_number(&b, "/_set?down=1");
    cr_expect_eq(stage_flush(b.s, &waits, fh, &err), -1);
    cr_expect_eq(err_errno(&err), EIO, "%s", err.msg);
    t_write(&b, fh, 4, " and more");
    stage_release(b.s, &waits, fh, NULL);
    cr_expect_eq(t_size(&b, ino), 13);
    ask_number(&b, "/_set?down=0");
    stage_retry(b.s);
    b.conf.patience_ns = 20 * NS_PER_S;
    t_settle(&b);
    expect_stored(&b, "f", "kept and more");
    bench_stop(&b);
}

Test(down, passing_trouble_is_not_seen)
{
    struct bench b;
    bench_start(&b, true);
    bench_open(&b, true);
    t_file(&b, STAGE_ROOT, "e", "");
    ask_number(&b, "/_set?fail=7");
    t_file(&b, STAGE_ROOT, "f", "text");
    expect_stored(&b, "f", "text");
    t_rename(&b, STAGE_ROOT, "f", STAGE_ROOT, "g");
    expect_stored(&b, "g", "text");
    ask_number(&b, "/_set?fail=7");
    t_unlink(&b, STAGE_ROOT, "g");
    expect_stored(&b, "g", NULL);
    bench_stop(&b);
}

static bool waits_no_more(void *arg)
{
    (void)arg;
    return true;
}

Test(down, who_has_patience_asks_again)
{
    struct bench b;
    struct stage_attr a;
    struct err err = {0};
    bench_start(&b, true);
    b.conf.patience_ns = 300 * NS_PER_S;
    bench_open(&b, true);
    ask_number(&b, "/_set?down=1");
    struct stage_call call = waits;
    call.since_ns = clock_mono_ns();
    cr_expect_eq(stage_lookup(b.s, &call, STAGE_ROOT, "f", &a, &err), -1);
    cr_expect_eq(err.class, ERR_TRANSIENT, "%s", err.msg);
    cr_expect(stage_ask_again(b.s, &call, &err));
    cr_expect_eq(err.class, ERR_TRANSIENT, "%s", err.msg);
    struct err denied = {0};
    err_set(&denied, ERR_DENIED, "no");
    cr_expect_not(stage_ask_again(b.s, &call, &denied));
    struct stage_call other = call;
    other.wait = false;
    cr_expect_not(stage_ask_again(b.s, &other, &err), "it is asked again where it may wait");
    other = call;
    other.since_ns -= b.conf.patience_ns;
    cr_expect_not(stage_ask_again(b.s, &other, &err));
    cr_expect_eq(err_errno(&err), EIO);
    other = call;
    other.given_up = waits_no_more;
    cr_expect_not(stage_ask_again(b.s, &other, &err));
    cr_expect_eq(err_errno(&err), EINTR, "%s", err.msg);
    ask_number(&b, "/_set?down=0");
    err = (struct err){0};
    cr_expect_eq(stage_lookup(b.s, &call, STAGE_ROOT, "f", &a, &err), -1);
    cr_expect_eq(err_errno(&err), ENOENT, "%s", err.msg);
    bench_stop(&b);
}

static void check_down_while_writing(struct bench *b)
{
    t_file(b, STAGE_ROOT, "before", "1");
    ask_number(b, "/_set?down=1");
    for (int i = 0; i < 20; i++) {
        char name[16];
        snprintf(name, sizeof name, "f%d", i);
        t_file(b, STAGE_ROOT, name, name);
        expect_text(b, STAGE_ROOT, name, name);
    }
    t_unlink(b, STAGE_ROOT, "f0");
    t_rename(b, STAGE_ROOT, "f1", STAGE_ROOT, "g1");
    ask_number(b, "/_set?down=0");
    stage_retry(b->s);
    t_settle(b);
    expect_stored(b, "f0", NULL);
    expect_stored(b, "f1", NULL);
    expect_stored(b, "g1", "f1");
    expect_stored(b, "f19", "f19");
}

static void in_background(struct stage_conf *c)
{
    c->commit = COMMIT_BACKGROUND;
}

static void replace_before_it_moves(struct bench *b)
{
    ask_number(b, "/_set?down=1");
    t_rename(b, STAGE_ROOT, "f", STAGE_ROOT, "g");
    ask_number(b, "/_put/out/f?text=theirs");
    ask_number(b, "/_set?down=0");
    stage_retry(b->s);
    t_settle(b);
}

Test(down, replaced_before_it_moved)
{
    struct bench b;
    bench_start(&b, true);
    in_background(&b.conf);
    ask_number(&b, "/_put/out/f?text=stored");
    bench_open(&b, true);
    t_lookup(&b, STAGE_ROOT, "f"); /* none of its content is here */
    replace_before_it_moves(&b);
    expect_stored(&b, "f", NULL);
    expect_stored(&b, "g", "theirs");
    expect_text(&b, STAGE_ROOT, "g", "theirs");
    bench_stop(&b);
}

Test(down, replaced_before_it_moved_with_its_content_here)
{
    struct bench b;
    bench_start(&b, true);
    in_background(&b.conf);
    b.conf.refresh_ns = STAGE_EACH_LOOK;
    bench_open(&b, true);
    t_file(&b, STAGE_ROOT, "f", "ours");
    t_settle(&b);
    replace_before_it_moves(&b);
    expect_stored(&b, "f", "theirs");
    expect_stored(&b, "g", "ours");
    expect_text(&b, STAGE_ROOT, "g", "ours");
    for (int i = 0; i < 30000 && lookup_errno(&b, STAGE_ROOT, "f"); i++)
        usleep(10000); /* a listing that failed is not tried again at once */
    expect_text(&b, STAGE_ROOT, "f", "theirs");
    bench_stop(&b);
}

Test(down, work_goes_on_while_the_store_is_down)
{
    struct bench b;
    bench_start(&b, true);
    in_background(&b.conf);
    bench_open(&b, true);
    check_down_while_writing(&b);
    bench_stop(&b);
}

/* What was listed holds; of what was not, nothing is claimed. */
static void check_new_life_while_down(struct bench *b, struct bench *other)
{
    char names[64];
    uint64_t theirs = t_mkdir(other, STAGE_ROOT, "theirs");
    t_file(other, theirs, "hidden", "2");
    uint64_t ours = t_mkdir(b, STAGE_ROOT, "ours");
    t_file(b, ours, "before", "1");
    t_settle(b);
    names_in(b, STAGE_ROOT, names, sizeof names);
    cr_assert_str_eq(names, "ours theirs");
    theirs = t_lookup(b, STAGE_ROOT, "theirs");
    ask_number(b, "/_set?down=1");
    bench_close(b);
    bench_open(b, false);
    names_in(b, STAGE_ROOT, names, sizeof names);
    cr_expect_str_eq(names, "ours theirs");
    cr_expect_eq(lookup_errno(b, ours, "after"), ENOENT);
    t_file(b, ours, "after", "3");
    names_in(b, ours, names, sizeof names);
    cr_expect_str_eq(names, "after before");
    cr_expect_eq(lookup_errno(b, theirs, "hidden"), EIO);
    bench_close(b);
    bench_open(b, true); /* another mount: since then anything may have happened */
    cr_expect_eq(lookup_errno(b, STAGE_ROOT, "ours"), EIO);
    ask_number(b, "/_set?down=0");
    stage_retry(b->s);
    t_settle(b);
    expect_stored(b, "ours/after", "3");
}

Test(down, work_goes_on_in_a_new_life_while_the_store_is_down)
{
    struct bench b, other;
    bench_start(&b, true);
    in_background(&b.conf);
    bench_open(&b, true);
    bench_other(&other, &b);
    other.conf.commit = COMMIT_CLOSE;
    bench_open(&other, true);
    check_new_life_while_down(&b, &other);
    bench_stop(&other);
    bench_stop(&b);
}

/* Whoever of the workers sleeps, and however many there are yet: as many uploads as may be are
 * under way while none has ended, and each end lets go what waited for it. */
Test(down, a_burst_goes_up_at_once)
{
    struct bench b;
    char name[16];
    bench_start(&b, true);
    in_background(&b.conf);
    b.conf.uploads = 12;
    bench_open(&b, true);
    t_file(&b, STAGE_ROOT, "first", "of all");
    t_settle(&b);
    ask_number(&b, "/_set?hold=1");
    for (int i = 0; i < 12; i++) {
        snprintf(name, sizeof name, "f%d", i);
        t_file(&b, STAGE_ROOT, name, name);
    }
    while (ask_number(&b, "/_held") < 12) /* the runner ends what lasts for ever */
        usleep(1000);
    for (int i = 0; i < 12; i++) { /* moves wait for the uploads, a removal for a move */
        char to[16];
        snprintf(name, sizeof name, "f%d", i);
        snprintf(to, sizeof to, "g%d", i / 2);
        t_rename(&b, STAGE_ROOT, name, STAGE_ROOT, to);
    }
    t_unlink(&b, STAGE_ROOT, "g5");
    ask_number(&b, "/_set?hold=0");
    t_settle(&b);
    expect_stored(&b, "g0", "f1");
    expect_stored(&b, "g4", "f9");
    expect_stored(&b, "g5", NULL);
    expect_stored(&b, "f0", NULL);
    cr_expect_eq(ask_number(&b, "/_objects"), 6);
    bench_stop(&b);
}

static void stored_soon(struct bench *b, const char *name)
{
    cleanup_free char *path = xasprintf("/_md5/out/%s", name);
    char sum[64] = "-";
    t_file(b, STAGE_ROOT, name, name);
    for (unsigned tries = 0; tries < 30000 && sum[0] == '-'; tries++) {
        usleep(10000);
        ask(b, path, sum, sizeof sum);
    }
    expect_stored(b, name, name);
}

/* Closed, not stored yet, and emptied by who writes it anew: the store never sees a half of that,
 * also where a life ends in between. (What was closed it may have, or what it had before.) */
static void check_emptied_while_it_waits(struct bench *b, const char *one, const char *two)
{
    struct err err = {0};
    t_file(b, STAGE_ROOT, "before", "1");
    ask_number(b, "/_set?down=1");
    t_file(b, STAGE_ROOT, "f", "second");
    uint64_t ino = t_lookup(b, STAGE_ROOT, "f");
    uint64_t fh = t_open(b, ino, O_WRONLY | O_TRUNC);
    t_write(b, fh, 0, "thi");
    ask_number(b, "/_set?down=0");
    stage_retry(b->s);
    stored_soon(b, one);
    bench_close(b);
    bench_open(b, false);
    stored_soon(b, two);
    t_write(b, fh, 3, "rd");
    t_close(b, fh);
    t_settle(b);
    expect_stored(b, "f", "third");
    /* An fsync is a wish of its own. */
    fh = t_open(b, ino, O_WRONLY | O_TRUNC);
    t_write(b, fh, 0, "fourth, of which");
    cr_expect_eq(stage_fsync(b->s, &waits, fh, false, &err), 0, "%s", err.msg);
    t_settle(b);
    expect_stored(b, "f", "fourth, of which");
    t_close(b, fh);
    t_settle(b);
    stage_forget(b->s, ino, 1);
    char sizes[64];
    ask(b, "/_history/out/f", sizes, sizeof sizes);
    for (char *save, *size = strtok_r(sizes, ",", &save); size; size = strtok_r(NULL, ",", &save))
        cr_expect(strtoul(size, NULL, 10) >= strlen("third"), "%s bytes of it were stored", size);
}

Test(down, emptied_while_it_waits_for_the_store)
{
    struct bench b;
    bench_start(&b, true);
    in_background(&b.conf);
    bench_open(&b, true);
    check_emptied_while_it_waits(&b, "one", "two");
    check_emptied_while_it_waits(&b, "three", "four");
    bench_stop(&b);
}

static void make_files(struct bench *b, const char *folder, unsigned n)
{
    uint64_t ino = t_mkdir(b, STAGE_ROOT, folder);
    for (unsigned i = 0; i < n; i++) {
        char name[16];
        snprintf(name, sizeof name, "f%u", i);
        t_file(b, ino, name, folder);
    }
}

/* Objects that move into the place of others come first in the queue of a new life, and more of
 * them than are looked at. */
Test(down, many_wait_for_what_comes_after_them)
{
    struct bench b;
    bench_start(&b, true);
    in_background(&b.conf);
    b.conf.patience_ns = 20 * NS_PER_S;
    bench_open(&b, true);
    make_files(&b, "older", 80);
    make_files(&b, "newer", 80);
    t_settle(&b);
    ask_number(&b, "/_set?down=1");
    t_rename(&b, STAGE_ROOT, "newer", STAGE_ROOT, "away");
    t_rename(&b, STAGE_ROOT, "older", STAGE_ROOT, "newer");
    bench_close(&b);
    ask_number(&b, "/_set?down=0");
    bench_open(&b, false);
    t_settle(&b);
    expect_stored(&b, "newer/f79", "older");
    expect_stored(&b, "away/f79", "newer");
    bench_stop(&b);
}

static void expect_old(const struct stage_attr *a)
{
    const struct timespec *t = &a->st.st_mtim;
    cr_expect(t->tv_sec == -2 && t->tv_nsec == 500000000, "%lld.%09ld", (long long)t->tv_sec,
              t->tv_nsec);
}

/* A time before 1970 counts like any other, in the next life too while the file is not stored. */
Test(down, old_time_of_a_file_that_waits_for_the_store)
{
    const struct stat st = {.st_mtim = {.tv_sec = -2, .tv_nsec = 500000000}};
    struct err err = {0};
    struct stage_attr a;
    struct bench b;
    bench_start(&b, true);
    in_background(&b.conf);
    bench_open(&b, true);
    t_file(&b, STAGE_ROOT, "before", "1");
    ask_number(&b, "/_set?down=1");
    t_file(&b, STAGE_ROOT, "f", "text");
    uint64_t ino = t_lookup(&b, STAGE_ROOT, "f");
    cr_assert_eq(stage_setattr(b.s, &waits, ino, &st, STAGE_SET_MTIME, &a, &err), 0, "%s", err.msg);
    expect_old(&a);
    bench_close(&b);
    bench_open(&b, false);
    cr_assert_eq(stage_getattr(b.s, &waits, ino, &a, &err), 0, "%s", err.msg);
    expect_old(&a);
    ask_number(&b, "/_set?down=0");
    bench_stop(&b);
}

/* Attributes that a call set are those of the object that is there by then. */
Test(down, replaced_before_it_gets_a_time)
{
    const struct stat st = {.st_mtim = {.tv_sec = 1000}};
    struct err err = {0};
    struct stage_attr a;
    struct bench b;
    char got[64];
    bench_start(&b, true);
    bench_open(&b, true);
    t_file(&b, STAGE_ROOT, "f", "text");
    uint64_t ino = t_lookup(&b, STAGE_ROOT, "f");
    ask_number(&b, "/_put/out/f?text=theirs");
    cr_assert_eq(stage_setattr(b.s, &waits, ino, &st, STAGE_SET_MTIME, &a, &err), 0, "%s", err.msg);
    cr_expect_eq(a.st.st_mtim.tv_sec, 1000);
    ask(&b, "/_meta/out/f?name=x-amz-meta-mtime", got, sizeof got);
    cr_expect_eq(strtol(got, NULL, 10), 1000, "%s", got);
    expect_stored(&b, "f", "theirs");
    bench_stop(&b);
}

/* What was removed while it is open, and is only in the store, is there for who reads it when that
 * answers again; what was closed meanwhile is not asked for. */
Test(down, removed_while_it_is_open)
{
    struct bench b, other;
    char buf[16];
    size_t n = 0;
    struct err err = {0};
    bench_start(&b, true);
    bench_open(&b, true);
    t_file(&b, STAGE_ROOT, "read", "still here");
    t_file(&b, STAGE_ROOT, "closed", "no more");
    bench_other(&other, &b);
    in_background(&other.conf);
    bench_open(&other, true);
    /* Not O_RDONLY, at which the first block comes. */
    uint64_t fh = t_open(&other, t_lookup(&other, STAGE_ROOT, "read"), O_WRONLY),
             closed = t_open(&other, t_lookup(&other, STAGE_ROOT, "closed"), O_WRONLY);
    ask_number(&b, "/_set?down=1");
    t_unlink(&other, STAGE_ROOT, "read");
    t_until_pending(&other, "\"path\":\"read\",\"bytes\":0,\"why\":\"");
    t_unlink(&other, STAGE_ROOT, "closed");
    stage_release(other.s, &waits, closed, NULL);
    ask_number(&b, "/_set?down=0");
    t_settle(&other);
    expect_stored(&b, "read", NULL);
    expect_stored(&b, "closed", NULL);
    cr_expect_eq(stage_read(other.s, &waits, fh, 0, buf, sizeof buf, &n, &err), 0, "%s", err.msg);
    cr_expect(n == 10 && memcmp(buf, "still here", n) == 0);
    cr_expect_eq(counter_get(&stage_counts(other.s)->fetched_bytes), 10);
    stage_release(other.s, &waits, fh, NULL);
    bench_stop(&other);
    bench_stop(&b);
}
