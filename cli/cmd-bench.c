/* bench: measures a mounted folder (or any other), or a store. */
#include <string.h>

#include "bench-internal.h"

static const struct conf_row rows[] = {
    {"threads", CONF_INT, AT(bench_options, threads), .arg = "T", .dflt = "1", .min = 1, .max = 256,
     .help = "epoch: so many readers at once"},
    {"order", CONF_STRING, AT(bench_options, order), .arg = "walk|shuffle|FILE", .dflt = "walk",
     .help =
         "epoch: sorted by class folder, shuffled by --seed, or the paths of a file, one a line"},
    {"seed", CONF_INT, AT(bench_options, seed), .arg = "N", .dflt = "0",
     .help = "epoch: of --order shuffle"},
    {"sampler", CONF_STRING, AT(bench_options, sampler), .arg = "SPEC",
     .help = "epoch: read what this sampler's ranks read, batch by batch"},
    {"rate", CONF_INT, AT(bench_options, rate), .arg = "N", .dflt = "0", .min = 0, .max = 10000000,
     .help = "epoch: begin so many samples a second at most; 0: as fast as they come"},
    {"epochs", CONF_INT, AT(bench_options, epochs), .arg = "N", .dflt = "1", .min = 1,
     .max = 1000000, .help = "epoch: read everything so many times, one result each"},
    {"buffer", CONF_SIZE, AT(bench_options, buffer), .arg = "SIZE", .dflt = "1MiB",
     .help = "epoch: bytes asked for by one read()"},
    {"verify", CONF_FLAG, AT(bench_options, verify),
     .help = "epoch: a file that gives not as many bytes as its size says is an error"},
    {"compare", CONF_STRING, AT(bench_options, compare), .arg = "DIR",
     .help = "epoch: a file whose bytes differ from the same path below DIR is an error"},
    {"passes", CONF_INT, AT(bench_options, passes), .arg = "N", .dflt = "1", .min = 1, .max = 1000,
     .help = "meta: so many times, one result each"},
    {"samples", CONF_INT, AT(bench_options, samples), .arg = "N", .dflt = "0", .min = 0,
     .max = INT32_MAX, .help = "fetch: so many objects at most; 0: all"},
    {"connections", CONF_INT, AT(bench_options, connections), .arg = "N", .dflt = "64", .min = 1,
     .max = 1024, .help = "fetch: transfers at once at most"},
    STORE_ROWS(bench_options, store),
    JSON_ROW(bench_options, json),
    QUIET_ROW(bench_options, quiet),
};

static int run(const struct conf *conf, const void *options, struct err *err)
{
    static const struct {
        const char *name;
        int (*fn)(const char *target, const struct bench_options *o, struct err *err);
    } kinds[] = {{"epoch", bench_epoch}, {"meta", bench_meta}, {"fetch", bench_fetch}};
    const struct bench_options *o = options;
    if (o->buffer < 4096 || o->buffer > (1u << 30))
        return err_set(err, ERR_USAGE, "--buffer: want 4KiB to 1GiB");
    for (size_t i = 0; i < COUNT(kinds); i++)
        if (strcmp(kinds[i].name, conf_arg(conf, 0)) == 0)
            return kinds[i].fn(conf_arg(conf, 1), o, err);
    return err_set(err, ERR_USAGE, "unknown benchmark \"%s\" (known: epoch, meta, fetch)",
                   conf_arg(conf, 0));
}

const struct command cmd_bench = {
    .name = "bench",
    .args = "epoch DIR | meta DIR | fetch SET",
    .summary = "measure a mounted folder, or a store",
    .about =
        "epoch opens, reads and closes every file below DIR; latencies are of just that. meta "
        "lists "
        "DIR and looks at every entry. fetch gets whole objects from a store without cache and "
        "mount. DIR may be any folder, so that a mount can be set beside the plain disk.",
    .min_args = 2,
    .max_args = 2,
    .rows = rows,
    .n_rows = COUNT(rows),
    .options_size = sizeof(struct bench_options),
    .run = run,
};
