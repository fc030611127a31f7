/* Files that grow while they go up. */
#include <criterion/criterion.h>
#include <unistd.h>

#include "clock.h"
#include "mem.h"
#include "stage-testing.h"

enum { MIB = 1 << 20 };

static void until(struct bench *b, const char *what, unsigned n)
{
    for (int i = 0; i < 30000 && ask_number(b, what) < n; i++)
        usleep(10000);
    cr_assert_geq(ask_number(b, what), n, "%s", what);
}

static void add(struct bench *b, uint64_t fh, unsigned from, unsigned to)
{
    struct err err = {0};
    cleanup_free char *data = xcalloc(1, MIB);
    for (unsigned i = from; i < to; i++)
        cr_assert_eq(stage_write(b->s, &waits, fh, (uint64_t)i * MIB, data, MIB, &err), 0, "%s",
                     err.msg);
}

static void flush(struct bench *b, uint64_t fh)
{
    struct err err = {0};
    cr_assert_eq(stage_flush(b->s, &waits, fh, &err), 0, "%s", err.msg);
}

static void start(struct bench *b)
{
    bench_start(b, true);
    b->conf.commit = COMMIT_BACKGROUND;
    b->conf.body_bytes = MIB;
    bench_open(b, true);
}

/* One more part was complete, and went up with the whole: no upload begins for it. */
Test(growing, a_part_more_goes_with_the_whole)
{
    struct bench b;
    uint64_t fh;
    start(&b);
    t_create(&b, STAGE_ROOT, "f", &fh);
    add(&b, fh, 0, 20);
    until(&b, "/_count/PART", 2);
    ask_number(&b, "/_set?hold=1");
    flush(&b, fh);
    until(&b, "/_held", 1);
    add(&b, fh, 20, 36);
    ask_number(&b, "/_set?hold=0");
    t_settle(&b);
    cr_expect_eq(ask_number(&b, "/_objects"), 1);
    cr_expect_eq(ask_number(&b, "/_uploads"), 0);
    t_close(&b, fh);
    bench_stop(&b);
}

/* It was small when it got its turn, and large when there was memory for that. */
Test(growing, what_became_large_goes_in_parts)
{
    struct bench b;
    uint64_t fh;
    start(&b);
    t_create(&b, STAGE_ROOT, "first", &fh);
    add(&b, fh, 0, 1);
    ask_number(&b, "/_set?hold=1");
    t_close(&b, fh);
    until(&b, "/_held", 1);
    t_create(&b, STAGE_ROOT, "f", &fh);
    add(&b, fh, 0, 1);
    flush(&b, fh);
    usleep(200000); /* it waits for memory by now, or the test says nothing */
    add(&b, fh, 1, 20);
    ask_number(&b, "/_set?hold=0");
    t_settle(&b);
    cr_expect_eq(ask_number(&b, "/_count/END"), 1);
    cr_expect_eq(ask_number(&b, "/_uploads"), 0);
    t_close(&b, fh);
    bench_stop(&b);
}
