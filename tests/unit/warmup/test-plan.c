/* Plans over a catalog: all samples once, ranges even in bytes, keys that are paths. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "hash.h"
#include "mem.h"
#include "plan.h"

struct world {
    char dir[64];
    struct catalog *catalog;
    uint64_t samples, numbered, bytes;
};

/* `n` images of growing size in folders of seven, and two files that are not in the order. */
static void world_new(struct world *w, uint64_t n)
{
    static const struct catalog_source_row source = {"file:///data", ""};
    struct catalog_builder *b;
    struct err err = {0};
    char *file;
    *w = (struct world){.dir = "/tmp/sampan-plan-XXXXXX"};
    cr_assert(mkdtemp(w->dir));
    cr_assert_eq(catalog_builder_new(&b, w->dir, NULL, &source, 1, &err), 0, "%s", err.msg);
    for (uint64_t i = 0; i < n + 2; i++) {
        char key[64];
        int len = i < n ? snprintf(key, sizeof key, "c%03d/%05d.jpg", (int)(i / 7), (int)i)
                        : snprintf(key, sizeof key, "labels%d.txt", (int)(i - n));
        struct row row = {.key = key, .key_len = (size_t)len, .size = i % 900, .etag = ""};
        cr_assert_eq(catalog_builder_add(b, &row, &err), 0, "%s", err.msg);
        w->bytes += row.size;
    }
    cr_assert_eq(catalog_builder_finish(b, NULL, &file, NULL, &err), 0, "%s", err.msg);
    catalog_builder_free(b);
    cr_assert_eq(catalog_open(&w->catalog, file, &err), 0, "%s", err.msg);
    free(file);
    w->samples = n + 2;
    w->numbered = n;
    cr_assert_eq(catalog_info(w->catalog)->numbered, n);
}

static void world_free(struct world *w)
{
    catalog_unref(w->catalog);
    pid_t pid = fork();
    if (pid == 0) {
        execlp("rm", "rm", "-rf", w->dir, (char *)NULL);
        _exit(127);
    }
    waitpid(pid, NULL, 0);
}

static struct plan *make(const struct world *w, enum owner_strategy strategy, const char *spec,
                         uint32_t partitions)
{
    struct plan_conf c = {
        .catalog = w->catalog, .strategy = strategy, .partitions = partitions, .count = 1000};
    struct plan *p;
    struct err err = {0};
    cr_assert_eq(order_spec_parse(&c.sampler, spec, &err), 0, "%s", err.msg);
    cr_assert_eq(plan_new(&p, &c, &err), 0, "%s: %s", spec, err.msg);
    return p;
}

struct counted {
    const struct world *w;
    uint64_t samples, bytes, numbered, repeats, parts[16], last_number;
    bool contiguous;
};

static bool count(void *arg, const struct plan_sample *s)
{
    struct counted *c = arg;
    c->samples++;
    c->bytes += s->size;
    c->numbered += s->number != OWNER_NO_NUMBER;
    c->repeats += s->n_repeats;
    c->parts[s->owner]++;
    cr_assert(plan_keeps(s, s->owner));
    return true;
}

static void check(const struct world *w, enum owner_strategy strategy, const char *spec,
                  uint32_t partitions)
{
    struct plan *p = make(w, strategy, spec, partitions);
    struct counted c = {.w = w};
    struct plan_part parts[16];
    uint64_t samples = 0, bytes = 0, repeats = 0;
    struct err err = {0};
    cr_assert_eq(plan_each(p, count, &c, &err), 0, "%s", err.msg);
    cr_expect_eq(c.samples, w->samples);
    cr_expect_eq(c.bytes, w->bytes);
    cr_expect_eq(c.numbered, w->numbered);
    cr_assert_eq(plan_summary(p, parts, &err), 0, "%s", err.msg);
    for (uint32_t i = 0; i < partitions; i++) {
        cr_expect_eq(parts[i].samples, c.parts[i]);
        cr_expect_geq(parts[i].stored, parts[i].bytes + parts[i].repeat_bytes);
        samples += parts[i].samples;
        bytes += parts[i].bytes;
        repeats += parts[i].repeat_samples;
        if (strategy == OWNER_RANDOM || strategy == OWNER_LOCAL)
            cr_expect_eq(parts[i].reads, parts[i].local, "%s: %u", spec, i);
    }
    cr_expect_eq(samples, w->samples);
    cr_expect_eq(bytes, w->bytes);
    cr_expect_eq(repeats, c.repeats);
    plan_free(p);
}

Test(plan, every_sample_has_one_owner)
{
    struct world w;
    world_new(&w, 1001);
    for (uint32_t p = 1; p < 9; p++) {
        check(&w, OWNER_RANDOM, "random,ranks=8,batch-size=4,shuffle=true", p);
        check(&w, OWNER_LOCAL, "local,ranks=8", p);
        check(&w, OWNER_HASH, "random,ranks=8", p);
        check(&w, OWNER_SEQUENCE, "sequence", p);
    }
    world_free(&w);
}

/* plan_sum() leaves out rounds that are all alike, and comes to the same. */
Test(plan, sums_are_those_of_every_sample)
{
    static const char *const specs[] = {"random,ranks=4,batch-size=3",
                                        "random,ranks=4,batch-size=3,drop-last=true",
                                        "random,ranks=6,ranks-per-node=2,batch-size=5",
                                        "random,ranks=3,batch-size=2,shuffle=true",
                                        "torch-distributed,ranks=5",
                                        "torch-distributed,ranks=4,shuffle=false,drop-last=true",
                                        "torch-distributed,ranks=1"};
    for (size_t i = 0; i < sizeof specs / sizeof specs[0]; i++) {
        for (uint64_t n = 0; n < 400; n += n < 60 ? 1 : 17) {
            struct plan_conf c = {
                .count = n, .sample_bytes = 1000, .strategy = OWNER_RANDOM, .may_be_empty = true};
            struct plan_part sum[6], each[6];
            struct plan *p;
            cr_assert_eq(order_spec_parse(&c.sampler, specs[i], NULL), 0);
            for (c.partitions = 1; c.partitions <= 6; c.partitions++) {
                cr_assert_eq(plan_new(&p, &c, NULL), 0);
                cr_assert_eq(plan_summary(p, each, NULL), 0);
                plan_free(p);
                cr_assert_eq(plan_sum(&c, sum, NULL), 0);
                cr_expect_arr_eq(sum, each, c.partitions * sizeof each[0], "%s of %u: %u", specs[i],
                                 (unsigned)n, c.partitions);
            }
        }
    }
}

Test(plan, ranges_are_even_in_bytes)
{
    struct world w;
    struct plan_part parts[5];
    world_new(&w, 5000);
    struct plan *p = make(&w, OWNER_SEQUENCE, "sequence", 5);
    cr_assert_eq(plan_summary(p, parts, NULL), 0);
    for (int i = 0; i < 5; i++) {
        int64_t off = (int64_t)parts[i].bytes - (int64_t)(w.bytes / 5);
        cr_expect(off < 3000 && off > -3000, "partition %d is %lld bytes off", i, (long long)off);
        cr_expect_eq(parts[i].reads, w.numbered);
    }
    plan_free(p);
    world_free(&w);
}

struct found {
    uint64_t id;
    uint32_t owner;
};

static bool find(void *arg, const struct plan_sample *s)
{
    struct found *f = arg;
    if (s->id != f->id)
        return true;
    f->owner = s->owner;
    return false;
}

/* Other nodes list for themselves: ids may differ, paths do not. */
Test(plan, keys_are_paths)
{
    struct world w;
    struct entry e;
    struct owners *o;
    struct owner_conf c = {.strategy = OWNER_HASH, .partitions = 13, .samples = 100};
    world_new(&w, 300);
    cr_assert_eq(owners_new(&o, &c, NULL), 0);
    struct plan *p = make(&w, OWNER_HASH, "sequence", 13);
    static const char *const paths[] = {"c000/00003.jpg", "c042/00299.jpg", "labels1.txt"};
    for (size_t i = 0; i < 3; i++) {
        cr_assert_eq(catalog_find(w.catalog, paths[i], &e, NULL), 0);
        struct found f = {.id = e.id};
        cr_assert_eq(plan_each(p, find, &f, NULL), 0);
        cr_expect_eq(f.owner, owners_of(o, OWNER_NO_NUMBER, hash64(paths[i], strlen(paths[i]), 0)));
    }
    owners_free(o);
    plan_free(p);
    world_free(&w);
}

Test(plan, numbers_alone_in_ranges_and_one_by_one)
{
    static const char *const specs[] = {"sequence", "sequence,batch-size=7,drop-last=true",
                                        "torch-loader", "torch-loader,batch-size=7,drop-last=true",
                                        "random,ranks=4,batch-size=7"};
    struct world w = {.samples = 1000, .numbered = 1000, .bytes = 0};
    for (size_t i = 0; i < 5; i++) {
        struct plan *p = make(&w, OWNER_SEQUENCE, specs[i], 3);
        struct plan_part parts[3];
        struct counted c = {0};
        cr_assert_eq(plan_summary(p, parts, NULL), 0);
        cr_assert_eq(plan_each(p, count, &c, NULL), 0);
        uint64_t local = 0, reads = 0;
        for (int k = 0; k < 3; k++) {
            cr_expect_eq(parts[k].samples, c.parts[k]);
            local += parts[k].local;
            reads += parts[k].reads;
        }
        cr_expect(local > 0 && local < reads);
        if (i < 4) /* each partition reads all; together they keep each once */
            cr_expect_eq(local, reads / 3, "%s: %llu of %llu", specs[i], (unsigned long long)local,
                         (unsigned long long)reads);
        plan_free(p);
    }
}

/* What the cache reserves for one: docs/formats/pack.md. */
Test(capacity, knows_what_a_pack_adds)
{
    const uint64_t head = 32 + 8 + 48; /* and what the journal has of it */
    cr_expect_geq(plan_stored_bytes(5000, 1.0), 5000 + head);
    cr_expect_leq(plan_stored_bytes(5000, 1.0), 5000 + 256);
    cr_expect_geq(plan_stored_bytes(115000, 1.0), 115000 + head);
    cr_expect_geq(plan_stored_bytes(10u << 20, 1.0), (10u << 20) + 3 * (head + 4096));
    cr_expect_geq(plan_stored_bytes(985, 1.0), 985 + head + 63); /* the longest padding */
    cr_expect_leq(plan_stored_bytes((512u << 10) - 1, 1.0), (512u << 10) + 256);
}

Test(capacity, names_what_does_not_fit)
{
    struct plan_fit f = {.room = plan_stored_bytes(100, 1.0) * 3, .ratio = 1.0};
    struct err err = {0};
    for (uint64_t id = 10; id < 13; id++)
        plan_fit_add(&f, id, 100);
    cr_expect_eq(plan_fit_check(&f, "", &err), 0);
    cr_expect_eq(f.first_too_many_id, 0);
    plan_fit_add(&f, 13, 100);
    plan_fit_add(&f, 14, 100);
    cr_expect_eq(f.first_too_many_id, 13);
    cr_expect_eq(plan_fit_check(&f, "a/b.jpg", &err), -1);
    cr_expect_eq(err.class, ERR_LIMIT);
    cr_expect(strstr(err.msg, "5 samples take") && strstr(err.msg, "2 of them, from a/b.jpg on"),
              "%s", err.msg);
}
