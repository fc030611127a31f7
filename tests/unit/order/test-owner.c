/* Partitions: disjoint, complete, read by their own ranks, and moving no more than they must. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "order-internal.h"
#include "owner.h"

static struct order_spec parse(const char *text)
{
    struct order_spec s;
    struct err err = {0};
    cr_assert_eq(order_spec_parse(&s, text, &err), 0, "%s: %s", text, err.msg);
    return s;
}

static struct owners *make(enum owner_strategy strategy, const char *spec, uint32_t partitions,
                           uint64_t n)
{
    struct owner_conf c = {.strategy = strategy,
                           .partitions = partitions,
                           .sampler = parse(spec),
                           .samples = n,
                           .numbered = n};
    struct owners *o;
    struct err err = {0};
    cr_assert_eq(owners_new(&o, &c, &err), 0, "%s of %llu over %u: %s", spec, (unsigned long long)n,
                 partitions, err.msg);
    return o;
}

/* "0 1 1,0 …": owners, and keepers of repeats behind a comma. */
static void expect(enum owner_strategy strategy, const char *spec, uint32_t partitions, uint64_t n,
                   const char *want)
{
    struct owners *o = make(strategy, spec, partitions, n);
    char got[512] = "";
    size_t len = 0;
    for (uint64_t i = 0; i < n; i++) {
        uint32_t more[8];
        size_t k = owners_repeats(o, i, more, 8);
        len += (size_t)snprintf(got + len, sizeof got - len, "%s%u", i ? " " : "",
                                owners_of(o, i, owner_key(i)));
        for (size_t j = 0; j < k; j++)
            len += (size_t)snprintf(got + len, sizeof got - len, ",%u", more[j]);
    }
    cr_expect_str_eq(got, want, "%s over %u: got %s, want %s", spec, partitions, got, want);
    owners_free(o);
}

Test(owner, small_shares_exactly)
{
    expect(OWNER_SEQUENCE, "sequence", 3, 7, "0 0 1 1 1 2 2");
    expect(OWNER_SEQUENCE, "sequence", 1, 3, "0 0 0");
    expect(OWNER_RANDOM, "random,ranks=3,batch-size=2", 3, 11, "0,2 0 1 1 2 2 0 0 1 1 2");
    /* r0 `6 0|1 7` r1 `4 10|9 3` r2 `2 8|0 5`: 0 is read at 1 by rank 0, at 2 by rank 2 */
    expect(OWNER_RANDOM, "random,ranks=3,batch-size=2,shuffle=true", 3, 11,
           "0,2 0 2 1 1 2 0 0 2 1 1");
    /* r0 `0 3 4 9` r1 `10 7 8 5` r2 `2 6 1 0` */
    expect(OWNER_RANDOM, "torch-distributed,ranks=3,epoch=1", 3, 11, "0,2 2 2 0 0 1 2 1 1 0 1");
    expect(OWNER_RANDOM, "torch-distributed,ranks=4,shuffle=false", 2, 8, "0 0 1 1 0 0 1 1");
    expect(OWNER_RANDOM, "torch-distributed,ranks=4,shuffle=false,ranks-per-node=2", 2, 7,
           "0,1 0 1 1 0 0 1");
    expect(OWNER_LOCAL, "local,ranks=2,shuffle=false,rotate=1", 2, 5, "0,1 0 0 1 1");
    expect(OWNER_LOCAL, "local,ranks=2,shuffle=false,rotate=1,epoch=1", 2, 5, "1,0 1 1 0 0");
    expect(OWNER_RANDOM, "random,ranks=4", 4, 4, "0 1 2 3");
}

Test(owner, wrapped_sets_are_kept_by_all_their_readers)
{
    expect(OWNER_RANDOM, "torch-distributed,ranks=4", 1, 1, "0");
    struct owners *o = make(OWNER_RANDOM, "torch-distributed,ranks=5", 2, 2);
    /* five ranks on two nodes, one each: ranks 2 to 4 are on none */
    uint32_t all = 0;
    for (uint64_t i = 0; i < 2; i++)
        all |= 1u << owners_of(o, i, owner_key(i));
    cr_expect_eq(all, 3);
    owners_free(o);
}

Test(owner, ranks_of_partitions)
{
    static const struct {
        const char *spec;
        uint32_t partitions, partition, first, n;
    } rows[] = {
        {"random,ranks=8", 4, 1, 2, 2}, {"random,ranks=6", 4, 3, 3, 1},
        {"random,ranks=6", 8, 7, 6, 0}, {"random,ranks=8,ranks-per-node=3", 3, 2, 6, 2},
        {"random,ranks=2", 2, 1, 1, 1}, {"random,ranks=8,ranks-per-node=8", 2, 1, 8, 0},
        {"random", 3, 0, 0, 1},         {"random", 3, 1, 1, 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct order_spec s = parse(rows[i].spec);
        uint32_t first, n = owner_ranks(&s, rows[i].partitions, rows[i].partition, &first);
        cr_expect(n == rows[i].n && first == rows[i].first, "%s: %u ranks from %u", rows[i].spec, n,
                  first);
    }
}

Test(owner, refuses)
{
    static const struct {
        enum owner_strategy strategy;
        const char *spec, *part;
        uint32_t partitions;
        uint64_t samples;
    } rows[] = {
        {OWNER_HASH, "sequence", "partitions: 0: want 1", 0, 10},
        {OWNER_HASH, "sequence", "there are only 3 samples", 4, 3},
        {OWNER_HASH, "sequence", "there are only 0 samples", 2, 0},
        {OWNER_HASH, "sequence", "want 1 to 65535", 65536, 1000000},
        {OWNER_LOCAL, "sequence", "only the sampler \"local\"", 2, 10},
        {OWNER_RANDOM, "random,ranks=2,shuffle=true,epoch=4294967296", "epochs up to", 2, 10},
        {OWNER_RANDOM, "random,ranks=1048576", "can be ordered", 2, UINT32_MAX},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct owner_conf c = {.strategy = rows[i].strategy,
                               .partitions = rows[i].partitions,
                               .sampler = parse(rows[i].spec),
                               .samples = rows[i].samples,
                               .numbered = rows[i].samples};
        struct owners *o;
        struct err err = {0};
        cr_expect_eq(owners_new(&o, &c, &err), -1, "%s", rows[i].part);
        cr_expect(strstr(err.msg, rows[i].part), "%s: %s", rows[i].part, err.msg);
    }
    uint32_t i, p;
    static const char *const bad[] = {"",     "1",   "1/",   "/2",      "2/2",  "0/0",
                                      "-1/2", "0/x", "0/2x", "0/65536", "0x0/2"};
    for (size_t k = 0; k < sizeof bad / sizeof bad[0]; k++) {
        struct err err = {0};
        cr_expect_eq(owner_share_parse(bad[k], &i, &p, &err), -1, "%s", bad[k]);
        cr_expect_eq(err.class, ERR_USAGE);
    }
    cr_expect(!owner_share_parse("3/4", &i, &p, NULL) && i == 3 && p == 4);
    enum owner_strategy s;
    struct err err = {0};
    cr_expect_eq(owner_strategy_parse(&s, "sequnce", &err), -1);
    cr_expect(strstr(err.msg, "known: sequence, random, hash, local"), "%s", err.msg);
    cr_expect(!owner_strategy_parse(&s, "hash", NULL) && s == OWNER_HASH);
}

Test(owner, sets_of_no_and_one_sample)
{
    static const enum owner_strategy all[] = {OWNER_SEQUENCE, OWNER_RANDOM, OWNER_HASH};
    for (size_t i = 0; i < 3; i++) {
        struct owners *o = make(all[i], "random,ranks=3,batch-size=2,shuffle=true", 1, 0);
        cr_expect_eq(owners_of(o, OWNER_NO_NUMBER, 7), 0);
        owners_free(o);
        o = make(all[i], "random,ranks=3,batch-size=2,shuffle=true", 1, 1);
        cr_expect_eq(owners_of(o, 0, 7), 0);
        owners_free(o);
    }
}

/* --- random grids ------------------------------------------------------------------------------
 */

/* As its owner, or for a repeat. */
static bool keeps(const struct owners *o, uint32_t partition, uint64_t number)
{
    uint32_t more[64];
    size_t n = owners_repeats(o, number, more, 64);
    bool ret = owners_of(o, number, owner_key(number)) == partition;
    for (size_t i = 0; i < n; i++)
        ret |= more[i] == partition;
    return ret;
}

/* Each rank finds all that it reads in its own partition; each sample has one owner, who reads it
 * first. */
static void check_reads(const struct owners *o, const struct order_spec *spec, uint32_t partitions,
                        uint64_t n, const char *text)
{
    uint64_t *first = malloc(n * sizeof *first);
    uint32_t *reader = malloc(n * sizeof *reader);
    memset(first, 0xff, n * sizeof *first);
    memset(reader, 0xff, n * sizeof *reader);
    for (uint32_t p = 0; p < partitions; p++) {
        uint32_t rank, ranks = owner_ranks(spec, partitions, p, &rank);
        for (uint32_t i = 0; i < ranks; i++) {
            struct order_spec s = *spec;
            struct order *epoch;
            s.rank = rank + i;
            cr_assert_eq(order_new(&epoch, &s, n, NULL), 0);
            for (uint64_t pos = 0; pos < order_length(epoch); pos++) {
                uint64_t x = order_at(epoch, pos);
                cr_assert(keeps(o, p, x), "%s: rank %u of %u misses %llu", text, s.rank, p,
                          (unsigned long long)x);
                if (pos < first[x]) {
                    first[x] = pos;
                    reader[x] = p;
                }
            }
            order_free(epoch);
        }
    }
    for (uint64_t x = 0; x < n; x++) {
        uint32_t owner = owners_of(o, x, owner_key(x));
        cr_assert_lt(owner, partitions);
        cr_assert(reader[x] == UINT32_MAX || reader[x] == owner, "%s: %llu is read first by %u",
                  text, (unsigned long long)x, reader[x]);
    }
    free(first);
    free(reader);
}

Test(owner, a_rank_reads_what_its_partition_keeps)
{
    static const char *const kinds[] = {"paddle-distributed", "torch-distributed",
                                        "local,rotate=2"};
    struct rng g;
    rng_seed(&g, 11);
    for (int i = 0; i < 600; i++) {
        uint64_t n = 1 + rng_interval(&g, i % 3 ? 40 : 700);
        uint32_t partitions = 1 + (uint32_t)rng_interval(&g, n < 8 ? n - 1 : 7);
        char text[160];
        snprintf(text, sizeof text, "%s,ranks=%u,batch-size=%u,epoch=%u,shuffle=%s,drop-last=%s",
                 kinds[i % 3], 2 + (unsigned)rng_interval(&g, 14),
                 1 + (unsigned)rng_interval(&g, 8), (unsigned)rng_interval(&g, 6),
                 rng_interval(&g, 1) ? "true" : "false", rng_interval(&g, 1) ? "true" : "false");
        struct order_spec s = parse(text);
        struct owners *o = make(i % 3 == 2 ? OWNER_LOCAL : OWNER_RANDOM, text, partitions, n);
        check_reads(o, &s, partitions, n, text);
        owners_free(o);
    }
}

struct sizes {
    uint64_t *before;
    unsigned asked;
};

static int bytes_before(void *arg, uint64_t number, uint64_t *ret, struct err *err)
{
    struct sizes *s = arg;
    (void)err;
    s->asked++;
    *ret = s->before[number];
    return 0;
}

Test(owner, ranges_are_contiguous_and_even_in_bytes)
{
    struct rng g;
    rng_seed(&g, 5);
    for (int i = 0; i < 300; i++) {
        uint64_t n = 1 + rng_interval(&g, 400), largest = 0;
        uint32_t partitions = 1 + (uint32_t)rng_interval(&g, n < 12 ? n - 1 : 11);
        struct sizes s = {malloc((n + 1) * sizeof *s.before), 0};
        s.before[0] = 0;
        for (uint64_t k = 0; k < n; k++) {
            uint64_t size = i % 5 ? rng_interval(&g, 5000) : 0;
            largest = size > largest ? size : largest;
            s.before[k + 1] = s.before[k] + size;
        }
        struct owner_conf c = {.strategy = OWNER_SEQUENCE,
                               .partitions = partitions,
                               .sampler = parse("sequence"),
                               .samples = n,
                               .numbered = n,
                               .bytes = bytes_before,
                               .arg = &s};
        struct owners *o;
        cr_assert_eq(owners_new(&o, &c, NULL), 0);
        uint64_t bytes[12] = {0}, samples[12] = {0};
        uint32_t last = 0;
        for (uint64_t k = 0; k < n; k++) {
            uint32_t p = owners_of(o, k, owner_key(k));
            cr_assert(p == last || p == last + 1);
            last = p;
            samples[p]++;
            bytes[p] += s.before[k + 1] - s.before[k];
        }
        cr_assert_eq(last, partitions - 1, "the last partition is empty");
        for (uint32_t p = 0; p < partitions; p++) {
            cr_expect_gt(samples[p], 0);
            uint64_t even = s.before[n] / partitions;
            if (n > 20 * partitions) /* where each has its one sample, that may cost balance */
                cr_expect(bytes[p] <= even + largest + 1 && bytes[p] + largest + 1 >= even,
                          "%llu bytes of %llu", (unsigned long long)bytes[p],
                          (unsigned long long)even);
        }
        owners_free(o);
        free(s.before);
    }
}

/* --- rendezvous --------------------------------------------------------------------------------
 */

Test(owner, hash_moves_only_what_a_newcomer_wins)
{
    enum { N = 20000 };
    for (uint32_t p = 1; p < 40; p += 3) {
        struct owners *few = make(OWNER_HASH, "sequence", p, N);
        struct owners *more = make(OWNER_HASH, "sequence", p + 1, N);
        uint64_t moved = 0;
        for (uint64_t i = 0; i < N; i++) {
            uint32_t a = owners_of(few, i, owner_key(i)), b = owners_of(more, i, owner_key(i));
            cr_assert(a == b || b == p, "%llu went from %u to %u", (unsigned long long)i, a, b);
            moved += a != b;
        }
        uint64_t share = N / (p + 1);
        cr_expect(moved > share - share / 4 && moved < share + share / 4, "%llu of %d moved to %u",
                  (unsigned long long)moved, N, p);
        owners_free(few);
        owners_free(more);
    }
}

Test(owner, hash_follows_weights)
{
    enum { N = 60000 };
    static const uint64_t weights[] = {100, 200, 300, 0}, heavier[] = {100, 200, 600, 0};
    struct owner_conf c = {.strategy = OWNER_HASH,
                           .partitions = 4,
                           .sampler = parse("sequence"),
                           .samples = N,
                           .numbered = N,
                           .weights = weights};
    struct owners *o, *h;
    cr_assert_eq(owners_new(&o, &c, NULL), 0);
    c.weights = heavier;
    cr_assert_eq(owners_new(&h, &c, NULL), 0);
    uint64_t got[4] = {0};
    for (uint64_t i = 0; i < N; i++) {
        uint32_t a = owners_of(o, i, owner_key(i)), b = owners_of(h, i, owner_key(i));
        cr_assert(a == b || b == 2, "%llu moved between the others", (unsigned long long)i);
        got[a]++;
    }
    cr_expect_eq(got[3], 0);
    for (int p = 0; p < 3; p++) {
        uint64_t want = N / 600 * weights[p];
        cr_expect(got[p] > want - want / 20 && got[p] < want + want / 20, "%d: %llu, want %llu", p,
                  (unsigned long long)got[p], (unsigned long long)want);
    }
    owners_free(o);
    owners_free(h);
}

/* Every node, of any make, must come to these. */
Test(owner, hash_is_what_it_was)
{
    struct owners *o = make(OWNER_HASH, "sequence", 5, 1000);
    struct order_crc c;
    order_crc_init(&c);
    for (uint64_t i = 0; i < 1000; i++)
        order_crc_add(&c, owners_of(o, i, owner_key(i)));
    cr_expect_eq(order_crc_value(&c), 0x77c12e3fu, "%08x", order_crc_value(&c));
    owners_free(o);
}

Test(owner, a_set_of_two_to_the_31)
{
    struct owner_conf c = {.strategy = OWNER_SEQUENCE,
                           .partitions = 1000,
                           .sampler = parse("sequence"),
                           .samples = 1ull << 31,
                           .numbered = 1ull << 31};
    struct owners *o;
    cr_assert_eq(owners_new(&o, &c, NULL), 0);
    cr_expect_eq(owners_of(o, 0, 0), 0);
    cr_expect_eq(owners_of(o, (1ull << 31) - 1, 0), 999);
    cr_expect_eq(owners_of(o, 1ull << 30, 0), 500);
    owners_free(o);
    struct order *e;
    cr_assert_eq(order_new(&e, &c.sampler, 1ull << 31, NULL), 0);
    cr_expect_eq(order_at(e, (1ull << 31) - 1), (1ull << 31) - 1);
    order_free(e);
}
