/*
 * Resuming in the middle of an epoch: with as many ranks as before the order simply goes on; with
 * another number all that no rank has read yet is dealt, once.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "order-internal.h"

static uint64_t pick(struct rng *g, uint64_t most)
{
    return rng_interval(g, most);
}

static struct order *make(const char *spec, uint64_t n)
{
    struct order_spec s;
    struct order *o;
    struct err err = {0};
    cr_assert_eq(order_spec_parse(&s, spec, &err), 0, "%s: %s", spec, err.msg);
    cr_assert_eq(order_new(&o, &s, n, &err), 0, "%s: %s", spec, err.msg);
    return o;
}

static struct order *resume(const struct order_token *t, uint32_t ranks, uint32_t rank)
{
    struct order *o;
    struct err err = {0};
    char text[ORDER_TOKEN_TEXT];
    struct order_token read;
    order_token_print(t, text);
    cr_assert_eq(order_token_parse(&read, text, &err), 0, "%s: %s", text, err.msg);
    cr_assert_eq(order_resume(&o, &read, ranks, rank, &err), 0, "%s: %s", text, err.msg);
    return o;
}

static struct order_token token_at(const char *spec, uint64_t n, uint64_t pos)
{
    struct order *o = make(spec, n);
    struct order_token t;
    struct err err = {0};
    cr_assert_eq(order_token_of(o, pos, &t, &err), 0, "%s", err.msg);
    order_free(o);
    return t;
}

static void expect(struct order *o, const char *want)
{
    char got[512] = "";
    size_t len = 0;
    for (uint64_t i = 0; i < order_length(o); i++)
        len += (size_t)snprintf(got + len, sizeof got - len, "%s%llu", i ? " " : "",
                                (unsigned long long)order_at(o, i));
    cr_expect_str_eq(got, want, "got %s, want %s", got, want);
    order_free(o);
}

Test(token, is_a_short_line)
{
    struct order_token t =
        token_at("random,ranks=3,rank=2,batch-size=2,shuffle=true,epoch=7", 11, 2);
    char text[ORDER_TOKEN_TEXT];
    order_token_print(&t, text);
    cr_expect_str_eq(
        text, "sampan-order-1:11:3@2:paddle-distributed,batch-size=2,epoch=7,shuffle=true:2d8ca7c4",
        "%s", text);
}

Test(token, refuses_what_is_none)
{
    static const struct {
        const char *text, *part;
    } rows[] = {
        {"", "this is none"},
        {"sampan-order-", "another version"},
        {"sampan-order-2:11:3@2:sequence:00000000", "another version"},
        {"sampan-order-1:11", "it is cut off"},
        {"sampan-order-1:11:3@2:sequence:00000000", "its sum is wrong"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct order_token t;
        struct err err = {0};
        cr_expect_eq(order_token_parse(&t, rows[i].text, &err), -1, "%s", rows[i].text);
        cr_expect_eq(err.class, ERR_USAGE);
        cr_expect(strstr(err.msg, rows[i].part), "%s: %s", rows[i].text, err.msg);
    }
}

static int parse_summed(const char *body, struct err *err)
{
    char text[ORDER_TOKEN_TEXT];
    struct order_crc c;
    struct order_token t;
    order_crc_init(&c);
    order_crc_bytes(&c, body, strlen(body));
    snprintf(text, sizeof text, "%s:%08x", body, order_crc_value(&c));
    return order_token_parse(&t, text, err);
}

Test(token, refuses_nonsense_with_a_right_sum)
{
    static const struct {
        const char *body, *part;
    } rows[] = {
        {"sampan-order-1:x:3@2:sequence", "SAMPLES is not a number"},
        {"sampan-order-1:99999999999:3@2:sequence", "SAMPLES is not a number"},
        {"sampan-order-1:11:0@2:sequence", "RANKS@POSITION"},
        {"sampan-order-1:11:3@:sequence", "RANKS@POSITION"},
        {"sampan-order-1:11:3:sequence", "RANKS@POSITION"},
        {"sampan-order-1:11:3@2,:sequence", "RANKS@POSITION"},
        {"sampan-order-1:11:3@2:nonsense", "unknown name"},
        {"sampan-order-1:11:3@2", "RANKS@POSITION"},
        {"sampan-order-1:1:1@1,1@1,1@1,1@1,1@1,1@1,1@1,1@1,1@1,1@1,1@1,1@1,1@1,1@1,1@1,1@1,1@1:"
         "sequence",
         "too many parts"},
    };
    struct err err = {0};
    cr_expect_eq(parse_summed("sampan-order-1:11:3@2:sequence", &err), 0, "%s", err.msg);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        err = (struct err){0};
        cr_expect_eq(parse_summed(rows[i].body, &err), -1, "%s", rows[i].body);
        cr_expect(strstr(err.msg, rows[i].part), "%s: %s", rows[i].body, err.msg);
    }
}

Test(resume, small_rests_exactly)
{
    /* r0 `6 0|1 7` r1 `4 10|9 3` r2 `2 8|0 5` of the vectors, broken off after one batch each. */
    const char *spec = "random,ranks=3,batch-size=2,shuffle=true";
    struct order_token t = token_at(spec, 11, 2);
    expect(resume(&t, 3, 0), "1 7");
    expect(resume(&t, 3, 2), "0 5");
    expect(resume(&t, 1, 0), "1 7 9 3 5"); /* 0 was read already: its repeat is not dealt */
    expect(resume(&t, 2, 0), "1 7 5");
    expect(resume(&t, 2, 1), "9 3 1"); /* padded with the rest's beginning */
    /* r0 `0 3 4 9` r1 `10 7 8 5` r2 `2 6 1 0`. */
    t = token_at("torch-distributed,ranks=3,epoch=1", 11, 1);
    expect(resume(&t, 2, 0), "3 6 8 9");
    expect(resume(&t, 2, 1), "7 4 1 5");
    t = token_at("torch-distributed,ranks=3,epoch=1,drop-last=true", 11, 1);
    expect(resume(&t, 3, 0), "3 4");
    expect(resume(&t, 3, 1), "7 8");
    expect(resume(&t, 2, 0), "3 6 8 9"); /* what 3 ranks would have left out is read now */
    t = token_at("torch-loader", 10, 4);
    expect(resume(&t, 1, 0), "2 0 9 8 3 5");
    expect(resume(&t, 3, 2), "2 0 9 8 3 5");
}

Test(resume, at_the_ends)
{
    struct order_token t = token_at("random,ranks=3,batch-size=2,shuffle=true", 11, 4);
    expect(resume(&t, 3, 0), "");
    expect(resume(&t, 5, 4), "");
    t = token_at("random,ranks=3,batch-size=2,shuffle=true", 11, 0);
    expect(resume(&t, 3, 1), "4 10 9 3");
    /* Nothing was read: the epoch as two ranks have it from its beginning. */
    struct order *fresh = make("random,ranks=2,rank=1,batch-size=2,shuffle=true", 11);
    struct order *o = resume(&t, 2, 1);
    cr_assert_eq(order_length(o), order_length(fresh));
    for (uint64_t i = 0; i < order_length(o); i++)
        cr_expect_eq(order_at(o, i), order_at(fresh, i));
    order_free(o);
    order_free(fresh);
    t = token_at("torch-distributed,ranks=4", 0, 0);
    expect(resume(&t, 3, 0), "");
}

Test(resume, refuses)
{
    struct order_token t = token_at("random,ranks=3,batch-size=2", 11, 2);
    struct order *o;
    struct err err = {0};
    cr_expect_eq(order_resume(&o, &t, 0, 0, &err), -1);
    cr_expect_eq(err.class, ERR_USAGE);
    cr_expect_eq(order_resume(&o, &t, 2, 2, &err), -1);
    t.parts[0].position = 5;
    cr_expect_eq(order_resume(&o, &t, 3, 0, &err), -1);
    cr_expect(strstr(err.msg, "each of 3 ranks reads only 4 samples"), "%s", err.msg);
    o = make("random,ranks=3,batch-size=2", 11);
    cr_expect_eq(order_token_of(o, 5, &t, &err), -1);
    order_free(o);
    t = token_at("random,ranks=1", 1000, 1);
    for (uint32_t i = 2; i < 17; i++) {
        o = resume(&t, i, 0);
        cr_assert_eq(order_token_of(o, 1, &t, &err), 0, "%s", err.msg);
        order_free(o);
    }
    o = resume(&t, 17, 0);
    cr_expect_eq(order_token_of(o, 1, &t, &err), -1);
    cr_expect_eq(err.class, ERR_LIMIT);
    order_free(o);
}

/* --- random grids ------------------------------------------------------------------------------
 */

struct epoch_seen {
    unsigned char *times; /* by sample, over all deals */
    uint64_t n;
};

/* Reads `count` positions of every rank. */
static void read_on(struct epoch_seen *seen, const struct order_token *t, uint32_t ranks,
                    uint64_t count)
{
    for (uint32_t r = 0; r < ranks; r++) {
        struct order *o = resume(t, ranks, r);
        cr_assert_leq(count, order_length(o));
        for (uint64_t i = 0; i < count; i++) {
            uint64_t s = order_at(o, i);
            cr_assert_lt(s, seen->n);
            seen->times[s] += seen->times[s] < 200;
        }
        order_free(o);
    }
}

static void one_case(struct rng *g, const char *kind, bool dealt)
{
    uint64_t n = 1 + pick(g, pick(g, 3) ? 60 : 900);
    uint32_t ranks = 1 + (uint32_t)pick(g, 8);
    bool drop = pick(g, 1);
    char spec[200];
    snprintf(spec, sizeof spec, "%s,ranks=%u,batch-size=%u,epoch=%u,drop-last=%s%s", kind, ranks,
             1 + (unsigned)pick(g, 9), (unsigned)pick(g, 5), drop ? "true" : "false",
             dealt && pick(g, 1) ? ",shuffle=true" : "");
    struct epoch_seen seen = {calloc(n, 1), n};
    struct order_token t = token_at(spec, n, 0);
    t.parts[0].ranks = ranks;
    unsigned deals = 1 + (unsigned)pick(g, 3);
    uint64_t repeats = 0;
    for (unsigned d = 0; d <= deals; d++) {
        struct order *o = resume(&t, ranks, 0);
        uint64_t length = order_length(o), count = d == deals ? length : pick(g, length);
        read_on(&seen, &t, ranks, count);
        repeats += ranks - 1;
        cr_assert_eq(order_token_of(o, count, &t, NULL), 0);
        order_free(o);
        if (d + 1 < deals || (d < deals && pick(g, 1)))
            ranks = 1 + (uint32_t)pick(g, 8);
    }
    uint64_t missing = 0, again = 0;
    for (uint64_t i = 0; i < n; i++) {
        missing += seen.times[i] == 0;
        again += seen.times[i] ? seen.times[i] - 1u : 0;
    }
    if (drop) /* less than a round of batches is left out */
        cr_expect_lt(missing, (uint64_t)ranks * t.spec.batch_size, "%s: %llu never read", spec,
                     (unsigned long long)missing);
    else
        cr_expect_eq(missing, 0, "%s: %llu never read", spec, (unsigned long long)missing);
    cr_expect_leq(again, n < 8 ? repeats * 8 : repeats, "%s: %llu repeats", spec,
                  (unsigned long long)again);
    free(seen.times);
}

Test(resume, whatever_the_ranks_the_epoch_is_read_once)
{
    struct rng g;
    rng_seed(&g, 20);
    for (int i = 0; i < 400; i++) {
        one_case(&g, "paddle-distributed", true);
        one_case(&g, "torch-distributed", true);
        one_case(&g, "local,rotate=2", true);
    }
}

/* The same ranks: position by position what an unbroken epoch has. */
Test(resume, the_same_ranks_go_on)
{
    static const char *const specs[] = {
        "paddle-distributed,shuffle=true,batch-size=3,ranks=4,rank=3",
        "torch-distributed,ranks=4,rank=3",
        "torch-distributed,drop-last=true,ranks=4,rank=3",
        "local,batch-size=3,ranks=4,rank=3",
        "paddle-loader,seed=3,workers=2,ranks=4,rank=3",
        "sequence,ranks=4,rank=3",
    };
    for (size_t i = 0; i < sizeof specs / sizeof specs[0]; i++) {
        struct order *whole = make(specs[i], 101);
        for (uint64_t pos = 0; pos <= order_length(whole); pos++) {
            struct order_token t;
            cr_assert_eq(order_token_of(whole, pos, &t, NULL), 0);
            struct order *o = resume(&t, 4, 3);
            cr_assert_eq(order_length(o), order_length(whole) - pos, "%s", specs[i]);
            for (uint64_t k = 0; k < order_length(o); k++)
                cr_assert_eq(order_at(o, k), order_at(whole, pos + k), "%s", specs[i]);
            order_free(o);
        }
        order_free(whole);
    }
}

Test(crc, is_the_usual_one)
{
    struct order_crc c;
    order_crc_init(&c);
    order_crc_bytes(&c, "123456789", 9);
    cr_expect_eq(order_crc_value(&c), 0xcbf43926u);
    order_crc_init(&c);
    order_crc_add(&c, 0x0807060504030201ull);
    uint32_t by_number = order_crc_value(&c);
    order_crc_init(&c);
    order_crc_bytes(&c, "\1\2\3\4\5\6\7\10", 8);
    cr_expect_eq(by_number, order_crc_value(&c));
}
