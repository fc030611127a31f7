/* The gather over an engine that is none: a read is raised at the moment when nobody has it yet. */
#include <criterion/criterion.h>

#define fetch_get      fake_get
#define fetch_raise    fake_raise
#define fetch_give_up  fake_give_up
#define gather_new     fake_gather_new
#define gather_free    fake_gather_free
#define gather_add     fake_gather_add
#define gather_raise   fake_gather_raise
#define gather_give_up fake_gather_give_up
#include "gather.c"

#define SIZE 100

static struct gather *gather;
static struct fetch_get sent[GETS_MAX + 1]; /* what the engine has */
static unsigned n_sent, n_done;
static const void *raise_first; /* before the engine has the next one */

int fake_get(struct fetch *f, const struct fetch_get *g, struct err *err)
{
    (void)f, (void)err;
    const void *dest = take_ptr(&raise_first);
    if (dest)
        gather_raise(gather, dest, PRIO_READER);
    cr_assert_lt(n_sent, GETS_MAX + 1);
    sent[n_sent++] = *g;
    return 0;
}

void fake_raise(struct fetch *f, const void *dest, enum prio prio)
{
    (void)f;
    for (unsigned i = 0; i < n_sent; i++)
        if (sent[i].dest == dest)
            sent[i].prio = prio;
}

void fake_give_up(struct fetch *f)
{
    (void)f;
}

static void on_done(void *arg, const struct err *err)
{
    (void)arg;
    cr_expect_null(err);
    n_done++;
}

static void add(unsigned char *dest, uint64_t off)
{
    const struct fetch_get g = {.key = "pack",
                                .key_len = 4,
                                .off = off,
                                .len = SIZE,
                                .etag = "",
                                .dest = dest,
                                .prio = PRIO_WARMUP,
                                .done = on_done};
    gather_add(gather, &g);
}

static void end_all(unsigned from)
{
    for (unsigned i = from; i < n_sent; i++)
        sent[i].done(sent[i].arg, NULL);
    gather_free(gather);
}

Test(gather, a_read_that_is_raised_while_it_is_sent)
{
    unsigned char dest[SIZE];
    gather = gather_new(NULL);
    raise_first = dest;
    add(dest, 0);
    cr_expect_eq(sent[0].prio, PRIO_READER);
    end_all(0);
    cr_expect_eq(n_done, 1);
}

Test(gather, a_read_of_a_run_that_is_raised_while_it_is_sent)
{
    unsigned char dest[GETS_MAX + 2][SIZE];
    gather = gather_new(NULL);
    for (unsigned i = 0; i < GETS_MAX + 2; i++)
        add(dest[i], (uint64_t)i * SIZE);
    cr_assert_eq(n_sent, GETS_MAX);
    raise_first = dest[GETS_MAX + 1];
    sent[0].done(sent[0].arg, NULL);
    cr_expect_eq(sent[GETS_MAX].len, 2 * SIZE);
    cr_expect_eq(sent[GETS_MAX].prio, PRIO_READER);
    memset(sent[GETS_MAX].dest, 0, (size_t)2 * SIZE);
    end_all(1);
    cr_expect_eq(n_done, GETS_MAX + 2);
}
