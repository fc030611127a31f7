/* A name that was a file's becomes a folder's, and the other way round, in a store with folders. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "clock.h"
#include "mem.h"
#include "stage-testing.h"

static void settle(struct bench *b, const char *when)
{
    struct err err = {0};
    cr_assert_eq(stage_settle(b->s, clock_mono_ns() + 20 * NS_PER_S, &err), 0, "%s: %s", when,
                 err.msg);
}

/* The only worker is busy meanwhile: what is owed is queued by number in the next life. */
static void occupy(struct bench *b, const char *name)
{
    uint64_t fh;
    struct err err = {0};
    cleanup_free char *data = xcalloc(1, 1 << 20);
    t_create(b, STAGE_ROOT, name, &fh);
    for (unsigned i = 0; i < 128; i++)
        cr_assert_eq(stage_write(b->s, &waits, fh, (uint64_t)i << 20, data, 1 << 20, &err), 0);
    t_close(b, fh);
}

static void start(struct bench *b)
{
    bench_start(b, false);
    b->conf.commit = COMMIT_BACKGROUND;
    b->conf.uploads = 1;
    b->conf.refresh_ns = 3600 * NS_PER_S;
    bench_open(b, true);
    t_file(b, t_mkdir(b, STAGE_ROOT, "d"), "f", "in the folder");
    t_file(b, STAGE_ROOT, "x", "file");
    settle(b, "made");
    occupy(b, "large");
}

static void check_next_life(struct bench *b, const char *file, const char *in_folder)
{
    bench_close(b);
    bench_open(b, false);
    settle(b, "moved");
    expect_stored(b, file, "file");
    expect_stored(b, in_folder, "in the folder");
    bench_stop(b);
}

Test(kinds, a_folder_moves_where_a_file_was)
{
    struct bench b;
    start(&b);
    t_rename(&b, STAGE_ROOT, "x", STAGE_ROOT, "y");
    t_rename(&b, STAGE_ROOT, "d", STAGE_ROOT, "x");
    check_next_life(&b, "y", "x/f");
}

Test(kinds, a_file_and_a_folder_change_places)
{
    struct bench b;
    start(&b);
    t_rename(&b, STAGE_ROOT, "x", STAGE_ROOT, "y");
    t_rename(&b, STAGE_ROOT, "d", STAGE_ROOT, "x");
    t_rename(&b, STAGE_ROOT, "y", STAGE_ROOT, "d");
    check_next_life(&b, "d", "x/f");
}

Test(kinds, a_file_moves_below_its_own_name)
{
    struct bench b;
    start(&b);
    t_rename(&b, STAGE_ROOT, "x", STAGE_ROOT, "y");
    t_rename(&b, STAGE_ROOT, "y", t_mkdir(&b, STAGE_ROOT, "x"), "y");
    check_next_life(&b, "x/y", "d/f");
}

Test(kinds, a_file_moves_below_a_name_that_it_had_for_a_moment)
{
    struct bench b;
    start(&b);
    t_rename(&b, STAGE_ROOT, "x", STAGE_ROOT, "y");
    t_rename(&b, STAGE_ROOT, "y", STAGE_ROOT, "z");
    t_rename(&b, STAGE_ROOT, "z", t_mkdir(&b, STAGE_ROOT, "y"), "z");
    check_next_life(&b, "y/z", "d/f");
}

/* The power went when the store had renamed x to y, and the journal did not know it. Of what was
 * stored nothing is here then. */
static void cut_when_renamed(struct bench *b, uint64_t ino)
{
    cleanup_free char *x = xasprintf("%s/x", b->bucket), *y = xasprintf("%s/y", b->bucket);
    cleanup_free char *staged = xasprintf("%s/data/%016llx", b->dir, (unsigned long long)ino);
    bench_close(b);
    if (access(x, F_OK) == 0) /* else the worker was quick, and has done all */
        cr_assert(unlink(staged) == 0 && rename(x, y) == 0);
    bench_open(b, false);
    settle(b, "after the cut");
}

Test(kinds, what_the_store_renamed_before_the_power_went_is_not_written_over)
{
    struct bench b;
    start(&b);
    uint64_t x = t_lookup(&b, STAGE_ROOT, "x"), d = t_lookup(&b, STAGE_ROOT, "d");
    t_rename(&b, STAGE_ROOT, "x", STAGE_ROOT, "y");
    t_rename(&b, STAGE_ROOT, "y", STAGE_ROOT, "z");
    t_rename(&b, d, "f", STAGE_ROOT, "y");
    cut_when_renamed(&b, x);
    expect_stored(&b, "y", "in the folder");
    expect_stored(&b, "z", "file");
    bench_stop(&b);
}

Test(kinds, what_the_store_renamed_before_the_power_went_changes_names)
{
    struct bench b;
    start(&b);
    uint64_t x = t_lookup(&b, STAGE_ROOT, "x"), d = t_lookup(&b, STAGE_ROOT, "d");
    t_rename(&b, STAGE_ROOT, "x", STAGE_ROOT, "y");
    t_rename(&b, STAGE_ROOT, "y", STAGE_ROOT, "swap");
    t_rename(&b, d, "f", STAGE_ROOT, "y");
    t_rename(&b, STAGE_ROOT, "swap", d, "f");
    cut_when_renamed(&b, x);
    expect_stored(&b, "y", "in the folder");
    expect_stored(&b, "d/f", "file");
    expect_stored(&b, "x", NULL);
    bench_stop(&b);
}

/* A folder that was renamed away is not there any more, though the store still has an object below
 * its old name that must go. */
Test(kinds, a_folder_renamed_away_stays_away)
{
    struct bench b;
    bench_start(&b, true);
    b.conf.commit = COMMIT_BACKGROUND;
    b.conf.refresh_ns = STAGE_EACH_LOOK;
    bench_open(&b, true);
    ask_number(&b, "/_put/out/d/sub/f?text=theirs");
    uint64_t sub = t_lookup(&b, t_lookup(&b, STAGE_ROOT, "d"), "sub");
    expect_text(&b, sub, "f", "theirs");
    ask_number(&b, "/_set?deny=2");
    t_rename(&b, STAGE_ROOT, "d", STAGE_ROOT, "moved");
    for (bool refused = false; !refused; usleep(10000)) {
        cleanup_free char *text = t_pending(&b);
        refused = strstr(text, "\"path\":\"d/sub/f\",\"bytes\":0,\"why\":\"");
    }
    cr_expect_eq(lookup_errno(&b, STAGE_ROOT, "d"), ENOENT);
    t_mkdir(&b, STAGE_ROOT, "d");
    ask_number(&b, "/_set?deny=0");
    stage_retry(b.s);
    t_settle(&b);
    expect_stored(&b, "d/sub/f", NULL);
    expect_stored(&b, "moved/sub/f", "theirs");
    bench_stop(&b);
}
