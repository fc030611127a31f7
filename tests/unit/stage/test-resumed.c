/* Uploads in parts that were begun before: what was changed since, and before anybody asked for the
 * upload again, goes up again. Over S3. */
#include <criterion/criterion.h>
#include <string.h>
#include <unistd.h>

#include "clock.h"
#include "mem.h"
#include "stage-testing.h"

#define MIB  (1u << 20)
#define LEN  (20 * MIB)
#define PART (8 * MIB) /* the first ones */

/* A file in the background, *ret_data, whose first parts went up while it is written, unless the
 * server was told something. */
static uint64_t begin(struct bench *b, char **ret_data, const char *setting)
{
    struct err err = {0};
    uint64_t fh;
    char *data = xmalloc(LEN);
    for (size_t i = 0; i < LEN; i++)
        data[i] = (char)(i * 7 + (i >> 11) * 13);
    bench_start(b, true);
    b->conf.commit = COMMIT_BACKGROUND;
    bench_open(b, true);
    if (setting)
        ask_number(b, setting);
    t_create(b, STAGE_ROOT, "big", &fh);
    for (size_t at = 0; at < LEN; at += MIB)
        cr_assert_eq(stage_write(b->s, &waits, fh, at, data + at, MIB, &err), 0, "%s", err.msg);
    while (!setting && ask_number(b, "/_count/PART") < 2)
        usleep(10000);
    *ret_data = data;
    return fh;
}

static void expect_data(struct bench *b, char *data, size_t len)
{
    char got[64], want[33];
    t_settle(b);
    ask(b, "/_md5/out/big", got, sizeof got);
    sum_of(data, len, want);
    cr_expect_str_eq(got, want);
    cr_expect_eq(ask_number(b, "/_uploads"), 0);
    free(data);
    bench_stop(b);
}

/* Of the second part alone, so that the first one need not go up again. */
static void change(struct bench *b, uint64_t fh, char *data)
{
    memcpy(data + PART, "changed", 7);
    t_write(b, fh, PART, "changed");
}

Test(resumed, changed_in_the_next_life)
{
    struct bench b;
    char *data;
    uint64_t fh = begin(&b, &data, NULL);
    bench_close(&b);
    bench_open(&b, false);
    change(&b, fh, data);
    t_close(&b, fh);
    expect_data(&b, data, LEN);
}

/* Closed while the store is away, and opened again. */
Test(resumed, changed_after_a_try_that_failed)
{
    struct bench b;
    char *data;
    uint64_t fh = begin(&b, &data, NULL);
    ask_number(&b, "/_set?down=1");
    t_close(&b, fh);
    t_until_pending(&b, "\"why\":\"");
    fh = t_open(&b, t_lookup(&b, STAGE_ROOT, "big"), O_RDWR);
    change(&b, fh, data);
    t_close(&b, fh);
    ask_number(&b, "/_set?down=0");
    stage_retry(b.s);
    expect_data(&b, data, LEN);
}

/* Cut by the next life to less than goes up in parts: then the upload is given up. */
Test(resumed, cut_in_the_next_life)
{
    struct bench b;
    char *data;
    struct stage_attr a;
    struct err err = {0};
    const struct stat st = {.st_size = 5};
    uint64_t fh = begin(&b, &data, NULL);
    bench_close(&b);
    bench_open(&b, false);
    uint64_t ino = t_lookup(&b, STAGE_ROOT, "big");
    cr_assert_eq(stage_setattr(b.s, &waits, ino, &st, STAGE_SET_SIZE, &a, &err), 0, "%s", err.msg);
    t_close(&b, fh);
    expect_data(&b, data, 5);
}

/* An upload that the store began, and of which no answer came, is not left there: another one is
 * begun, by a try of the same request or by a later one. */
static void begun_unheard(const char *setting)
{
    struct bench b;
    char *data;
    uint64_t fh = begin(&b, &data, setting);
    t_close(&b, fh);
    expect_data(&b, data, LEN);
}

Test(resumed, begun_unheard)
{
    begun_unheard("/_set?lostbegin=2");
}

Test(resumed, begun_unheard_by_a_try_that_failed)
{
    begun_unheard("/_set?lostbegin=5");
}
