/* The orders of the ranks of one node, merged. */
#include <criterion/criterion.h>
#include <sys/resource.h>

#include "mem.h"
#include "order.h"
#include "support.h"
#include "volume-internal.h"

/* A version of so many samples; with a reference. */
static struct catalog *numbered_version(const struct world *w, unsigned samples)
{
    const struct catalog_source_row source = {w->uri, ""};
    struct catalog_builder *b;
    struct catalog *c;
    struct err err = {0};
    char *file;
    cr_assert_eq(catalog_builder_new(&b, w->root, NULL, &source, 1, &err), 0, "%s", err.msg);
    for (unsigned i = 0; i < samples; i++) {
        char key[16];
        int len = snprintf(key, sizeof key, "%07u", i);
        struct row r = {.key = key, .key_len = (size_t)len, .size = 10, .etag = ""};
        cr_assert_eq(catalog_builder_add(b, &r, &err), 0, "%s", err.msg);
    }
    cr_assert_eq(catalog_builder_finish(b, NULL, &file, NULL, &err), 0, "%s", err.msg);
    catalog_builder_free(b);
    free(file);
    cr_assert_eq(catalog_current(&c, w->root, &err), 0, "%s", err.msg);
    return c;
}

static struct epoch_order *merged(const struct world *w, const struct order_spec *spec,
                                  struct catalog *c)
{
    struct epoch_order *o;
    struct err err = {0};
    cr_assert_eq(epoch_order_new(&o, spec, &(struct share_conf){0}, c, w->root, 1, &err), 0, "%s",
                 err.msg);
    return o;
}

/* Batch by batch, as the ranks take turns. */
static void check_turns(const struct epoch_order *o, struct catalog *c, const char *text)
{
    uint64_t n = catalog_info(c)->numbered, at = 0, length = 0;
    for (uint64_t begin = 0; begin == 0 || begin < length; begin += o->spec.batch_size) {
        for (uint32_t rank = 0; rank < o->spec.ranks; rank++) {
            struct order_spec spec = o->spec;
            struct order *one;
            uint64_t id;
            spec.rank = rank;
            cr_assert_eq(order_new(&one, &spec, n, NULL), 0);
            length = order_length(one);
            for (uint64_t i = begin; i < begin + spec.batch_size && i < length; i++) {
                cr_assert_eq(catalog_numbers(c, order_at(one, i), 1, &id, NULL), 0);
                cr_assert_eq(epoch_order_id(o, at++), id, "%s: rank %u, position %lu", text, rank,
                             (unsigned long)i);
            }
            order_free(one);
        }
    }
    cr_assert_eq(o->length, at, "%s", text);
}

Test(ranks, take_turns_whatever_the_sampler)
{
    static const char *const specs[] = {
        "paddle-distributed,ranks=4,batch-size=7,shuffle=true",
        "paddle-distributed,ranks=3,batch-size=8,shuffle=false,drop-last=true",
        "torch-distributed,ranks=5,batch-size=4,epoch=3",
        "local,ranks=4,batch-size=6,epoch=2,rotate=1",
        "torch-random,ranks=2,batch-size=10",
        "paddle-loader,ranks=3,batch-size=10,drop-last=true",
        "sequence,ranks=2,batch-size=16",
        "torch-distributed,ranks=1,batch-size=1000",
    };
    struct world w;
    world_new(&w);
    struct catalog *c = numbered_version(&w, 103);
    for (size_t i = 0; i < sizeof specs / sizeof specs[0]; i++) {
        struct order_spec spec;
        cr_assert_eq(order_spec_parse(&spec, specs[i], NULL), 0);
        struct epoch_order *o = merged(&w, &spec, c);
        check_turns(o, c, specs[i]);
        epoch_order_unref(o);
    }
    catalog_unref(c);
    world_free(&w);
}

static rlim_t own_data_bytes(void)
{
    cleanup_file FILE *f = fopen("/proc/self/status", "re");
    char line[128];
    unsigned long kib = 0;
    while (fgets(line, sizeof line, f) && sscanf(line, "VmData: %lu", &kib) != 1)
        ;
    cr_assert(kib > 0);
    return (rlim_t)kib << 10;
}

/* The tables of 64 ranks are 64 MB here: there is room for some of them. */
Test(ranks, share_one_table)
{
    enum { SAMPLES = 250000, ROOM = 16 << 20 };
    static const char *const specs[] = {
        "paddle-distributed,ranks=64,shuffle=true",
        "torch-distributed,ranks=64",
        "torch-random,ranks=64",
    };
    struct world w;
    world_new(&w);
    struct catalog *c = numbered_version(&w, SAMPLES);
    struct rlimit limit;
    cr_assert_eq(getrlimit(RLIMIT_DATA, &limit), 0);
    limit.rlim_cur = own_data_bytes() + ROOM;
    cr_assert_eq(setrlimit(RLIMIT_DATA, &limit), 0);
    for (size_t i = 0; i < sizeof specs / sizeof specs[0]; i++) {
        struct order_spec spec;
        cr_assert_eq(order_spec_parse(&spec, specs[i], NULL), 0);
        struct epoch_order *o = merged(&w, &spec, c);
        cr_expect_geq(o->length, SAMPLES);
        epoch_order_unref(o);
    }
    catalog_unref(c);
    world_free(&w);
}
