/* The pure policies: rate, retry, hedge, and where a listing is cut. */
#include <criterion/criterion.h>

#include "clock.h"
#include "hedge-internal.h"
#include "pace-internal.h"
#include "list-internal.h"
#include "rate-internal.h"
#include "retry-internal.h"

/* --- rate ------------------------------------------------------------------------------------- */

/* Takes pieces as fast as allowed for `seconds`; returns the bytes. */
static uint64_t run_rate(uint64_t per_s, uint64_t piece, uint64_t seconds)
{
    struct rate r = {0};
    uint64_t start = 1000 * NS_PER_S, now = start, bytes = 0;
    rate_set(&r, per_s, now);
    while (now < start + seconds * NS_PER_S) {
        uint64_t wait = rate_wait_ns(&r, now);
        now += wait;
        if (wait)
            continue;
        rate_take(&r, piece, now);
        bytes += piece;
    }
    return bytes;
}

Test(rate, holds_to_within_one_piece)
{
    static const uint64_t rates[] = {1000, 6000000, 6250000, 999999937, 12345678901};
    for (size_t i = 0; i < sizeof rates / sizeof rates[0]; i++) {
        uint64_t got = run_rate(rates[i], 16384, 10), want = rates[i] * 10;
        cr_expect_geq(got + 16384, want, "%lu a second", rates[i]);
        cr_expect_leq(got, want + 16384, "%lu a second", rates[i]);
    }
}

Test(rate, idle_time_saves_no_more_than_the_burst)
{
    struct rate r = {0};
    rate_set(&r, 1000000, NS_PER_S);
    uint64_t now = 100 * NS_PER_S, bytes = 0;
    while (rate_wait_ns(&r, now) == 0) {
        rate_take(&r, 1000, now);
        bytes += 1000;
    }
    cr_assert_eq(bytes, 51000); /* 50 ms of a megabyte a second, and the take that emptied it */
}

Test(rate, no_limit_never_waits)
{
    struct rate r = {0};
    rate_take(&r, UINT32_MAX, 5);
    cr_assert_eq(rate_wait_ns(&r, 5), 0);
}

/* --- retry ------------------------------------------------------------------------------------ */

static const struct retry_policy policy = {.max_tries = 6,
                                           .base_ns = 100 * NS_PER_MS,
                                           .cap_ns = 1000 * NS_PER_MS,
                                           .budget_ns = 60 * NS_PER_S};

#define AT (500 * NS_PER_S)

static const struct retry_row {
    const char *what;
    struct retry_ask ask;
    bool again;
    uint64_t pause_ms;
} retry_rows[] = {
    {"never", {RETRY_NEVER, 1, 0, 0, AT, 0, 0}, false, 0},
    {"at once", {RETRY_AT_ONCE, 1, 0, 0, AT, 77, 0}, true, 0},
    {"least jitter", {RETRY_PAUSE, 1, 0, 0, AT, 0, 0}, true, 0},
    {"most jitter", {RETRY_PAUSE, 1, 0, 0, AT, 100 * NS_PER_MS, 0}, true, 100},
    {"doubled", {RETRY_PAUSE, 3, 0, 0, AT, 400 * NS_PER_MS, 0}, true, 400},
    {"capped", {RETRY_PAUSE, 5, 0, 0, AT, 1000 * NS_PER_MS, 0}, true, 1000},
    {"asked by the server", {RETRY_PAUSE, 1, 0, 2 * NS_PER_S, AT, 5, 0}, true, 2000},
    {"tries used up", {RETRY_PAUSE, 6, 0, 0, AT, 0, 0}, false, 0},
    {"a try excused", {RETRY_PAUSE, 6, 0, 0, AT, 0, 1}, true, 0},
    {"time used up", {RETRY_PAUSE, 2, 60 * NS_PER_S, 0, AT, 0, 0}, false, 0},
    {"server asks too long", {RETRY_PAUSE, 1, 0, 61 * NS_PER_S, AT, 0, 0}, false, 0},
};

Test(retry, decisions)
{
    for (size_t i = 0; i < sizeof retry_rows / sizeof retry_rows[0]; i++) {
        const struct retry_row *r = &retry_rows[i];
        struct retry_budget b;
        retry_budget_init(&b, AT);
        uint64_t pause = 12345;
        cr_expect_eq(retry_decide(&policy, &b, &r->ask, &pause), r->again, "%s", r->what);
        cr_expect_eq(pause, r->again ? r->pause_ms * NS_PER_MS : 12345, "%s", r->what);
    }
}

Test(retry, a_storm_is_stretched_to_ten_retries_a_second)
{
    struct retry_budget b;
    retry_budget_init(&b, AT);
    const struct retry_ask ask = {RETRY_PAUSE, 1, 0, 0, AT, 0, 0};
    uint64_t pause = 0;
    unsigned now = 0, later = 0;
    while (retry_decide(&policy, &b, &ask, &pause))
        pause ? later++ : now++;
    cr_assert_eq(now, RETRY_TOKENS);
    cr_assert_eq(later, 599); /* what 60 seconds bring; the next would come too late */
}

Test(retry, a_success_brings_a_token_back)
{
    struct retry_budget b;
    retry_budget_init(&b, AT);
    const struct retry_ask ask = {RETRY_PAUSE, 1, 0, 0, AT, 0, 0};
    uint64_t pause = 0;
    for (unsigned i = 0; i < RETRY_TOKENS; i++)
        retry_decide(&policy, &b, &ask, &pause);
    retry_budget_success(&b);
    cr_assert(retry_decide(&policy, &b, &ask, &pause));
    cr_assert_eq(pause, 0);
    cr_assert(retry_decide(&policy, &b, &ask, &pause));
    cr_assert_eq(pause, 100 * NS_PER_MS);
}

Test(retry, classes)
{
    for (int c = ERR_NONE; c <= ERR_BUG; c++)
        cr_expect_eq(retry_of_class((enum err_class)c),
                     c == ERR_TRANSIENT || c == ERR_CORRUPT ? RETRY_PAUSE : RETRY_NEVER, "%s",
                     err_class_name((enum err_class)c));
}

/* --- hedge ------------------------------------------------------------------------------------ */

Test(hedge, knows_nothing_before_enough_samples)
{
    static struct hedge h;
    for (unsigned i = 0; i < HEDGE_ENOUGH - 1; i++)
        hedge_learn(&h, 1000, 20 * NS_PER_MS, 8);
    cr_assert_eq(hedge_after_ns(&h, 1000), UINT64_MAX);
    hedge_learn(&h, 1000, 20 * NS_PER_MS, 8);
    cr_assert_neq(hedge_after_ns(&h, 1000), UINT64_MAX);
    cr_assert_eq(hedge_after_ns(&h, 4u << 20), UINT64_MAX); /* another class of length */
}

Test(hedge, finds_the_95th_percentile)
{
    static struct hedge h;
    for (unsigned i = 0; i < 960; i++)
        hedge_learn(&h, 1000, i % 100 < 90 ? 20 * NS_PER_MS : 200 * NS_PER_MS, 8);
    uint64_t after = hedge_after_ns(&h, 1000);
    cr_assert_geq(after, 200 * NS_PER_MS);
    cr_assert_leq(after, 225 * NS_PER_MS); /* buckets are an eighth of an octave */
}

Test(hedge, forgets)
{
    static struct hedge h;
    for (unsigned i = 0; i < 2000; i++)
        hedge_learn(&h, 1000, 500 * NS_PER_MS, 8);
    for (unsigned i = 0; i < 8000; i++)
        hedge_learn(&h, 1000, 20 * NS_PER_MS, 8);
    cr_assert_leq(hedge_after_ns(&h, 1000), 23 * NS_PER_MS);
}

Test(hedge, never_early)
{
    static struct hedge h;
    for (unsigned i = 0; i < 200; i++)
        hedge_learn(&h, 1000, 3000, 8);
    cr_assert_eq(hedge_after_ns(&h, 1000), HEDGE_MIN_NS);
}

Test(hedge, at_most_five_percent)
{
    static struct hedge h;
    unsigned hedges = 0;
    for (unsigned i = 0; i < 10000; i++) {
        hedge_request(&h);
        hedges += hedge_take(&h);
    }
    cr_assert_eq(hedges, 500);
}

Test(hedge, straggles_by_its_own_pace)
{
    static const struct {
        uint32_t got, took_ms, silent_ms, crowd;
        bool straggles;
    } rows[] = {
        {0, 390, 390, 8, false}, /* not later than half of the others; later */
        {0, 460, 460, 8, true},     {500, 460, 0, 8, true},   /* as much again is left, or soon over
                                                               */
        {900, 460, 0, 8, false},    {900, 3000, 0, 8, false}, /* ... unless it crawls, or nothing
                                                                 comes any more */
        {900, 4500, 0, 8, true},    {900, 3000, 390, 8, false},  {900, 3000, 460, 8, true},
        {950, 3000, 260, 3, true}, /* alone on the line, another one would be quick */
        {950, 3000, 240, 1, false}, {900, 3000, 390, 99, false}, {1000, 9000, 9000, 8, false},
    };
    static struct hedge h, fast;
    struct hedge_look look = {.len = 1000, .took_ns = NS_PER_S, .crowd = 1};
    cr_expect(!hedge_straggles(&h, &look)); /* nothing is known */
    for (unsigned i = 0; i < 320; i++) {
        hedge_learn(&h, 1000, i % 100 < 90 ? 400 * NS_PER_MS : 2 * NS_PER_S, 8);
        hedge_learn(&fast, 1000, NS_PER_MS, 8);
    }
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        look = (struct hedge_look){1000, rows[i].got, rows[i].took_ms * NS_PER_MS,
                                   rows[i].silent_ms * NS_PER_MS, rows[i].crowd};
        cr_expect_eq(hedge_straggles(&h, &look), rows[i].straggles, "row %zu", i);
    }
    look = (struct hedge_look){.len = 1000, .took_ns = HEDGE_LOOK_NS - 1, .crowd = 8};
    cr_expect(!hedge_straggles(&fast, &look)); /* never that early */
    look.took_ns++;
    cr_expect(hedge_straggles(&fast, &look));
}

/* --- how many warmup requests at once ----------------------------------------------------------
 */

/* A line that moves `most_per_ns`, and each request at most `each_per_ns`: so many of them land. */
static void land(struct pace *p, unsigned n, double most_per_ns, double each_per_ns, uint64_t *now)
{
    static uint64_t bytes;

    for (; n; n--) {
        double rate = p->limit * each_per_ns;
        *now += (uint64_t)(115000 / (rate < most_per_ns ? rate : most_per_ns));
        pace_landed(p, bytes += 115000, *now, /*bound*/ true);
    }
}

Test(pace, grows_while_more_move_more)
{
    struct pace p;
    uint64_t now = 1;
    pace_init(&p);
    p.most = 64;
    cr_assert_eq(p.limit, PACE_START);
    land(&p, 300, 1e9, 1e-3, &now); /* a wide line far away */
    cr_expect_eq(p.limit, 64);
    land(&p, 3000, 1e9, 1e-3, &now);
    cr_expect_eq(p.limit, 64);
}

Test(pace, stays_where_more_move_nothing_more)
{
    struct pace p;
    uint64_t now = 1;
    unsigned crowded = 0;
    pace_init(&p);
    p.most = 64;
    land(&p, 300, 6.25e-3, 1, &now); /* a narrow one */
    cr_expect_eq(p.limit, PACE_START);
    for (unsigned i = 0; i < 5000; i++) {
        land(&p, 1, 6.25e-3, 1, &now);
        cr_assert_leq(p.limit, 2 * PACE_START);
        crowded += p.limit > PACE_START;
    }
    cr_expect_lt(crowded, 500, "tried now and then: %u of 5000", crowded);
    cr_expect_gt(crowded, 50);
    land(&p, 5000, 1e9, 1e-3, &now); /* it is a wide one now */
    cr_expect_eq(p.limit, 64);
}

Test(pace, learns_nothing_while_there_is_little_to_do)
{
    struct pace p;
    uint64_t now = 1;
    pace_init(&p);
    p.most = 64;
    for (unsigned i = 0; i < 1000; i++)
        pace_landed(&p, 115000, now += 1000, /*bound*/ false);
    cr_expect_eq(p.limit, PACE_START);
    cr_expect_eq(p.landed, 0);
}

/* --- where a listing is cut ------------------------------------------------------------------- */

static const struct split {
    const char *prefix, *end, *first, *last;
    bool folders;
    size_t most;
    const char *at; /* joined by blanks; "": nowhere */
} splits[] = {
    /* Where names differ, then nearer to the prefix: what follows in its row, and what is beyond.
     */
    {"", "", "7_068", "7_079", false, 99,
     "7_08 7_09 7_0: 7_1 7_2 7_3 7_4 7_5 7_6 7_7 7_8 7_9 7_: 7` 8 9 :"},
    {"", "7_4", "7_068", "7_079", false, 99, "7_08 7_09 7_0: 7_1 7_2 7_3"},
    {"", "7_4", "7_068", "7_079", false, 3, "7_09 7_1 7_3"},
    {"", "7_4", "7_068", "7_079", false, 1, "7_1"},
    {"a/", "", "a/4c", "a/7d", false, 99, "a/8 a/9 a/:"},
    {"a/", "", "a/cx", "a/dx", false, 99, "a/e a/f a/g"},
    {"a/", "a/G", "a/Dx", "a/Ex", false, 99, "a/F"},
    {"", "", "y", "yx", false, 99, "yy yz y{ z {"}, /* the first is where the last begins */
    {"", "", "5/8", "5/8", false, 99, "5/9 5/: 50 6 7 8 9 :"},
    {"a/", "", "b/img", "b/img", false, 99,
     ""},                               /* not below the prefix: the server lists nonsense */
    {"", "", "~", "~~", false, 99, ""}, /* nothing to raise */
    {"", "", "\xc3\xa8",
     "\xc3\xa9"
     "8",
     false, 9,
     "\xc3\xa9"
     "9"}, /* never within a character */
    {"", "img_000999\x01", "img_000000", "img_000999", false, 99, ""},
    {"", "9", "7/", "8.8/", true, 99, "8.9"}, /* '.' + 1 would be a '/' */
    {"", "", "7/", "8/", true, 99, "9 :"},
    {"", "", "81/z", "82/z", true, 3, "84 88 9"},
};

Test(list, splits)
{
    for (size_t i = 0; i < sizeof splits / sizeof splits[0]; i++) {
        const struct split *t = &splits[i];
        struct span s = {.prefix = (char *)t->prefix,
                         .after = (char *)"",
                         .end = (char *)t->end,
                         .folders = t->folders};
        struct bytes at[99] = {0}, joined = {0};
        bytes_add_str(&joined, "");
        size_t n = span_cuts(&s, t->first, t->last, t->most, at);
        for (size_t k = 0; k < n; k++)
            bytes_addf(&joined, "%s%s", k ? " " : "", at[k].data);
        cr_expect_str_eq(joined.data, t->at, "row %zu: %s", i, joined.data);
        for (size_t k = 0; k < n; k++)
            bytes_release(&at[k]);
        bytes_release(&joined);
    }
}
