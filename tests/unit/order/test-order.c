/*
 * The orders, against vectors that the real libraries printed (paddlepaddle 3.3.1, torch 2.15,
 * numpy 2.4.6). A crc is the CRC-32 of the indices as little-endian int64.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "order-internal.h"

static uint32_t crc32_add(uint32_t crc, uint64_t value)
{
    crc = ~crc;
    for (int byte = 0; byte < 8; byte++) {
        crc ^= (uint32_t)(value >> (8 * byte)) & 0xff;
        for (int bit = 0; bit < 8; bit++)
            crc = (crc >> 1) ^ (crc & 1 ? 0xedb88320u : 0);
    }
    return ~crc;
}

static struct order *make(const char *spec, uint64_t n)
{
    struct order_spec s;
    struct err err = {0};
    cr_assert_eq(order_spec_parse(&s, spec, &err), 0, "%s: %s", spec, err.msg);
    struct order *o;
    cr_assert_eq(order_new(&o, &s, n, &err), 0, "%s: %s", spec, err.msg);
    return o;
}

static uint32_t crc_of(const char *spec, uint64_t n)
{
    struct order *o = make(spec, n);
    uint32_t crc = 0;
    for (uint64_t i = 0; i < order_length(o); i++)
        crc = crc32_add(crc, order_at(o, i));
    order_free(o);
    return crc;
}

static void expect(const char *spec, uint64_t n, const char *want)
{
    struct order *o = make(spec, n);
    char got[512] = "";
    size_t len = 0;
    for (uint64_t i = 0; i < order_length(o); i++)
        len += (size_t)snprintf(got + len, sizeof got - len, "%s%llu", i ? " " : "",
                                (unsigned long long)order_at(o, i));
    cr_expect_str_eq(got, want, "%s of %llu: got %s, want %s", spec, (unsigned long long)n, got,
                     want);
    order_free(o);
}

Test(rng, raw_draws)
{
    static const struct {
        uint32_t seed, draws[4];
    } rows[] = {{0, {2357136044u, 2546248239u, 3071714933u, 3626093760u}},
                {42, {1608637542u, 3421126067u, 4083286876u, 787846414u}}};
    struct rng g;
    for (size_t r = 0; r < 2; r++) {
        rng_seed(&g, rows[r].seed);
        for (int i = 0; i < 4; i++)
            cr_expect_eq(rng_u32(&g), rows[r].draws[i]);
    }
    uint32_t zero = 0;
    rng_seed_array(&g, &zero, 1);
    cr_expect_eq(rng_u32(&g), 3626764237u);
    cr_expect_eq(rng_u32(&g), 1654615998u);
}

Test(rng, skipping_equals_drawing)
{
    for (uint64_t n = 0; n < 2000; n += 311) {
        struct rng a, b;
        rng_seed(&a, 5);
        b = a;
        rng_skip(&a, n);
        for (uint64_t i = 0; i < n; i++)
            rng_u32(&b);
        cr_expect_eq(rng_u32(&a), rng_u32(&b), "after %llu", (unsigned long long)n);
    }
}

static uint32_t crc_table(const uint32_t *a, uint64_t n)
{
    uint32_t crc = 0;
    for (uint64_t i = 0; i < n; i++)
        crc = crc32_add(crc, a[i]);
    return crc;
}

Test(rng, shuffles_of_numpy_and_torch)
{
    static const struct {
        uint32_t seed;
        uint64_t n;
        uint32_t numpy, torch;
    } rows[] = {{0, 1000, 0x202ee912, 0x458fa90f},
                {1, 1000, 0xf65a7b52, 0x65b6b660},
                {0, 1281167, 0xb59dd858, 0x77bd8951},
                {7, 1281167, 0xb81bb870, 0x136615f9}};
    for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++) {
        uint32_t *a = malloc(rows[r].n * sizeof *a);
        for (uint64_t i = 0; i < rows[r].n; i++)
            a[i] = (uint32_t)i;
        struct rng g;
        rng_seed(&g, rows[r].seed);
        rng_shuffle(&g, a, rows[r].n);
        cr_expect_eq(crc_table(a, rows[r].n), rows[r].numpy, "numpy row %zu", r);
        rng_seed(&g, rows[r].seed);
        rng_randperm(&g, a, rows[r].n);
        cr_expect_eq(crc_table(a, rows[r].n), rows[r].torch, "torch row %zu", r);
        free(a);
    }
}

Test(order, small_orders_exactly)
{
    expect("sequence", 4, "0 1 2 3");
    expect("sequence,batch-size=3,drop-last=true", 4, "0 1 2");
    expect("paddle-distributed,ranks=3,rank=0,batch-size=2,shuffle=true", 11, "6 0 1 7");
    expect("paddle-distributed,ranks=3,rank=1,batch-size=2,shuffle=true", 11, "4 10 9 3");
    expect("paddle-distributed,ranks=3,rank=2,batch-size=2,shuffle=true", 11, "2 8 0 5");
    expect("paddle-distributed,ranks=3,rank=0,batch-size=2,shuffle=true,epoch=1", 11, "2 3 0 7");
    expect("paddle-distributed,ranks=3,rank=1,batch-size=2,shuffle=true,epoch=1", 11, "4 10 0 9");
    expect("paddle-distributed,ranks=3,rank=2,batch-size=2,shuffle=true,epoch=1", 11, "1 6 8 5");
    expect("random,ranks=3,rank=0,batch-size=2", 11, "0 1 6 7");
    expect("random,ranks=3,rank=1,batch-size=2", 11, "2 3 8 9");
    expect("random,ranks=3,rank=2,batch-size=2", 11, "4 5 10 0");
    expect("random,ranks=3,rank=0,batch-size=2,shuffle=true", 10, "6 1 1 7");
    expect("random,ranks=3,rank=1,batch-size=2,shuffle=true", 10, "4 0 9 3");
    expect("random,ranks=3,rank=2,batch-size=2,shuffle=true", 10, "2 8 0 5");
    expect("torch-distributed,ranks=3,rank=0,epoch=1", 11, "0 3 4 9");
    expect("torch-distributed,ranks=3,rank=1,epoch=1", 11, "10 7 8 5");
    expect("torch-distributed,ranks=3,rank=2,epoch=1", 11, "2 6 1 0");
    expect("torch-distributed,ranks=3,rank=0,epoch=1,drop-last=true", 11, "0 3 4");
    expect("torch-distributed,ranks=3,rank=1,epoch=1,drop-last=true", 11, "10 7 8");
    expect("torch-distributed,ranks=3,rank=2,epoch=1,drop-last=true", 11, "2 6 1");
    expect("torch-distributed,seed=0,epoch=1,ranks=3", 11, "0 3 4 9");
    expect("torch-distributed,seed=1,epoch=0,ranks=3", 11, "0 3 4 9");
}

Test(order, streams_of_random_samplers_and_loaders)
{
    expect("paddle-random,seed=1", 10, "2 9 6 4 0 3 1 7 8 5");
    expect("paddle-random,seed=1,epoch=1", 10, "9 5 3 0 8 4 2 1 6 7");
    expect("paddle-loader,seed=1,workers=2", 10, "2 3 4 9 1 6 0 7 5 8");
    expect("paddle-loader,seed=1,workers=2,epoch=1", 10, "1 7 0 3 8 9 5 6 4 2");
    expect("paddle-loader,seed=1,workers=0", 10, "2 9 6 4 0 3 1 7 8 5");
    expect("torch-loader", 10, "6 7 1 4 2 0 9 8 3 5");
    expect("torch-loader,epoch=1", 10, "2 4 7 0 8 9 5 3 6 1");
    expect("torch-loader,generator=true", 10, "3 7 5 2 0 8 1 6 9 4");
    expect("torch-loader,generator=true,epoch=1", 10, "1 3 2 7 5 9 0 6 4 8");
    expect("torch-random,generator=true", 10, "4 1 7 5 3 9 0 8 6 2");
    expect("torch-random,generator=true,epoch=1", 10, "4 0 8 5 9 1 6 3 7 2");
    expect("torch-loader,shuffle=false", 3, "0 1 2");
}

Test(order, large_orders_by_their_sums)
{
    static const struct {
        const char *spec;
        uint64_t n;
        uint32_t crc;
    } rows[] = {
        {"paddle-distributed,shuffle=true,batch-size=4,ranks=4,rank=3,epoch=0", 1, 0x6522df69},
        {"paddle-distributed,shuffle=true,batch-size=2,ranks=3,rank=1,epoch=5", 7, 0xe48ba680},
        {"paddle-distributed,shuffle=true,batch-size=32,ranks=4,rank=2,epoch=3", 1000, 0x37252fa4},
        {"random,shuffle=true,batch-size=256,ranks=8,rank=5,epoch=0", 1281167, 0x29bae82f},
        {"random,shuffle=true,batch-size=256,ranks=8,rank=5,epoch=89", 1281167, 0x7c9b61d0},
        {"random,shuffle=true,batch-size=256,ranks=1,rank=0,epoch=1", 1281167, 0xcecd261a},
        {"torch-distributed,ranks=3,rank=1,seed=2,epoch=5", 7, 0x6c81e127},
        {"torch-distributed,ranks=8,rank=5,seed=0,epoch=0", 1281167, 0x656177ad},
        {"torch-distributed,drop-last=true,ranks=4,rank=2,seed=0,epoch=3", 1000, 0xb3627884},
        {"torch-distributed,drop-last=true,ranks=8,rank=5,seed=0,epoch=89", 1281167, 0x0efa921d},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        cr_expect_eq(crc_of(rows[i].spec, rows[i].n), rows[i].crc, "%s", rows[i].spec);
}

/* Every rank together reads every sample: as often as padding says, no less. */
static void expect_cover(const char *kind, uint64_t n, unsigned ranks, unsigned batch)
{
    unsigned *seen = calloc(n ? n : 1, sizeof *seen);
    uint64_t total = 0;
    for (unsigned r = 0; r < ranks; r++) {
        char spec[128];
        snprintf(spec, sizeof spec, "%s,ranks=%u,rank=%u,batch-size=%u,epoch=3", kind, ranks, r,
                 batch);
        struct order *o = make(spec, n);
        for (uint64_t i = 0; i < order_length(o); i++, total++) {
            cr_assert_lt(order_at(o, i), n);
            seen[order_at(o, i)]++;
        }
        order_free(o);
    }
    for (uint64_t i = 0; i < n; i++)
        cr_expect_geq(seen[i], 1, "%s n=%llu ranks=%u: %llu is never read", kind,
                      (unsigned long long)n, ranks, (unsigned long long)i);
    cr_expect_eq(total, (n + ranks - 1) / ranks * ranks);
    free(seen);
}

Test(order, ranks_cover_the_set)
{
    static const uint64_t ns[] = {0, 1, 2, 7, 100, 1001};
    static const unsigned rankss[] = {1, 2, 3, 16, 33};
    for (size_t i = 0; i < sizeof ns / sizeof ns[0]; i++)
        for (size_t r = 0; r < sizeof rankss / sizeof rankss[0]; r++) {
            expect_cover("paddle-distributed", ns[i], rankss[r], 4);
            expect_cover("torch-distributed", ns[i], rankss[r], 4);
            expect_cover("local,rotate=2", ns[i], rankss[r], 4);
        }
}

Test(spec, bad_ones_say_what_is_known)
{
    static const struct {
        const char *spec, *part;
    } rows[] = {
        {"", "unknown name"},
        {"shuffle", "known: sequence paddle-random"},
        {"sequence,seed=1", "unknown key \"seed\" (it knows: ranks rank ranks-per-node"},
        {"random,ranks=0", "ranks=0: want 1.."},
        {"random,ranks=2,rank=2", "rank=2: there are 2 ranks"},
        {"random,batch-size=0", "batch-size=0"},
        {"random,epoch=-1", "epoch=-1: want a whole number"},
        {"random,shuffle=yes", "shuffle=yes: want true or false"},
        {"random,ranks", "has no value"},
        {"random,ranks=2,ranks=3", "given twice"},
        {"random,ranks=2,ranks-per-node=3", "only 2 ranks"},
        {"paddle-random,seed=4294967296", "want 0..4294967295"},
        {"paddle-random,seed=-1", "seed=-1: want a whole number, not below 0"},
        {"torch-random,seed=x", "want a whole number, not below -9223372036854775808"},
        {"torch-random,seed=-", "seed=-: want a whole number"},
        {"torch-random,seed=- 1", "seed=- 1: want a whole number"},
        {"torch-random,seed=--1", "seed=--1: want a whole number"},
        {"torch-random,seed=-9223372036854775809",
         "want -9223372036854775808..18446744073709551615"},
        {"torch-random,seed=18446744073709551616",
         "want -9223372036854775808..18446744073709551615"},
        {"sequence,", "unknown key \"\""},
        {"random,list=", "want a path"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct order_spec s;
        struct err err = {0};
        cr_expect_eq(order_spec_parse(&s, rows[i].spec, &err), -1, "%s", rows[i].spec);
        cr_expect_eq(err.class, ERR_USAGE);
        cr_expect(strstr(err.msg, rows[i].part), "%s: %s", rows[i].spec, err.msg);
    }
}

Test(spec, prints_what_it_read)
{
    struct order_spec s, again;
    char text[1024];
    cr_assert_eq(order_spec_parse(&s, "torch-loader,seed=-1,generator=true,list=a.txt", NULL), 0);
    cr_assert_eq(s.seed, UINT64_MAX);
    order_spec_print(&s, text, sizeof text);
    cr_assert_eq(order_spec_parse(&again, text, NULL), 0, "%s", text);
    char text_again[1024];
    order_spec_print(&again, text_again, sizeof text_again);
    cr_assert_str_eq(text, text_again);
    cr_assert(again.generator && !again.has_rank);
    cr_assert_str_eq(again.list, "a.txt");
}

Test(order, a_printed_spec_says_no_more_than_was_given)
{
    static const char *const specs[] = {"random,ranks=8,batch-size=4", "random,ranks=8,rank=0",
                                        "local,ranks=8,ranks-per-node=1", "sequence"};
    for (size_t i = 0; i < sizeof specs / sizeof specs[0]; i++) {
        struct order_spec given, again;
        char text[1024];
        cr_assert_eq(order_spec_parse(&given, specs[i], NULL), 0);
        order_spec_print(&given, text, sizeof text);
        cr_assert_eq(order_spec_parse(&again, text, NULL), 0, "%s", text);
        cr_assert(order_spec_same(&given, &again), "%s became %s", specs[i], text);
    }
}

Test(order, what_the_libraries_refuse)
{
    static const struct {
        const char *spec;
        uint64_t n;
        enum err_class class;
    } rows[] = {{"paddle-random", 0, ERR_USAGE},
                {"torch-loader", 0, ERR_USAGE},
                {"random,shuffle=true,epoch=4294967296", 5, ERR_USAGE},
                {"sequence", 1ull << 33, ERR_LIMIT},
                {"torch-distributed", UINT64_MAX, ERR_LIMIT}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct order_spec s;
        struct order *o;
        struct err err = {0};
        cr_assert_eq(order_spec_parse(&s, rows[i].spec, NULL), 0);
        cr_expect_eq(order_new(&o, &s, rows[i].n, &err), -1, "%s", rows[i].spec);
        cr_expect_eq(err.class, rows[i].class, "%s", err.msg);
    }
}

/* Whoever reaches an epoch by drawing those before it is told when that would take too long, and
 * what is beyond the numbers of epochs is refused by all. */
Test(order, epochs_out_of_reach_are_refused)
{
    static const struct {
        const char *spec;
        uint64_t n, epoch;
        const char *says; /* NULL: it is an order */
    } rows[] = {
        {"paddle-random", 1u << 20, 1u << 12, "epoch=4096: out of reach"},
        {"paddle-random", 1u << 20, INT64_MAX, "of 1048576 samples the last is 4095"},
        {"paddle-loader,workers=1", 1, INT64_MAX, "out of reach"},
        {"torch-random,generator=true", 1000, 1ull << 40, "out of reach"},
        {"torch-random", 10, 1ull << 62, "out of reach"},
        {"torch-loader", 10, INT64_MAX, "out of reach"},
        {"torch-loader", 10, 1000000, NULL},
        {"torch-loader,shuffle=false", 10, INT64_MAX, NULL},
        {"torch-distributed,ranks=3,seed=18446744073709551615", 10, INT64_MAX, NULL},
        {"local,ranks=3,rank=2,rotate=1", 10, INT64_MAX, NULL},
        {"local,ranks=3,rank=2,rotate=1", 10, UINT64_MAX, "the last is 9223372036854775807"},
        {"sequence", 10, UINT64_MAX, "out of reach"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct order_spec s;
        struct order *o = NULL;
        struct err err = {0};
        cr_assert_eq(order_spec_parse(&s, rows[i].spec, NULL), 0, "%s", rows[i].spec);
        s.epoch = rows[i].epoch;
        int rc = order_new(&o, &s, rows[i].n, &err);
        cr_expect_eq(rc, rows[i].says ? -1 : 0, "%zu: %s", i, rows[i].spec);
        if (rc)
            cr_expect(err.class == ERR_USAGE && strstr(err.msg, rows[i].says), "%zu: %s", i,
                      err.msg);
        order_free(o);
    }
}

Test(order, the_sum_of_a_range_is_that_of_its_numbers)
{
    static const uint64_t ranges[][2] = {
        {0, 0},   {0, 1},       {5, 5},       {3, 4},
        {0, 256}, {1, 1000003}, {255, 70000}, {4294900000, 4294967299}};
    for (size_t i = 0; i < sizeof ranges / sizeof ranges[0]; i++) {
        struct order_crc one, all;
        order_crc_init(&one);
        order_crc_add(&one, 77); /* it goes on where something else was summed */
        all = one;
        for (uint64_t n = ranges[i][0]; n < ranges[i][1]; n++)
            order_crc_add(&one, n);
        order_crc_range(&all, ranges[i][0], ranges[i][1]);
        cr_expect_eq(order_crc_value(&all), order_crc_value(&one), "range %zu", i);
    }
}

/* Who says that it is a range reads one. */
Test(order, ranges_are_known)
{
    static const struct {
        const char *spec;
        bool range;
    } rows[] = {{"sequence", true},
                {"sequence,batch-size=7,drop-last=true", true},
                {"random", true},
                {"random,batch-size=8,drop-last=true", true},
                {"torch-distributed,shuffle=false", true},
                {"random,ranks=2", false},
                {"torch-distributed", false},
                {"torch-loader", false},
                {"local", false}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct order_spec s;
        struct order *o;
        uint64_t first = 0;
        cr_assert_eq(order_spec_parse(&s, rows[i].spec, NULL), 0);
        cr_assert_eq(order_new(&o, &s, 1000, NULL), 0);
        cr_expect_eq(order_is_range(o, &first), rows[i].range, "%s", rows[i].spec);
        for (uint64_t pos = 0; rows[i].range && pos < order_length(o); pos++)
            cr_expect_eq(order_at(o, pos), first + pos, "%s", rows[i].spec);
        order_free(o);
    }
}
