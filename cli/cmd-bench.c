/* bench: measures a mounted folder (or any other), or a store. */
#include <string.h>

#include "bench-internal.h"

static const struct conf_row rows[] = {
    {"threads", CONF_INT, AT(bench_options, threads), .arg = "T", .dflt = "0", .min = 0, .max = 256,
     .help = "So many readers at once (epoch: 1; au: of each accelerator, 4)"},
    {"order", CONF_STRING, AT(bench_options, order), .arg = "walk|shuffle|FILE", .dflt = "walk",
     .help =
         "epoch: sorted by class folder, shuffled by --seed, or the paths of a file, one a line"},
    {"seed", CONF_INT, AT(bench_options, seed), .arg = "N", .dflt = "0",
     .help = "epoch: of --order shuffle; au: of its own sampler"},
    {"sampler", CONF_STRING, AT(bench_options, sampler), .arg = "SPEC",
     .help = "epoch: read what this sampler's ranks read, batch by batch, of all of DIR; au: each "
             "accelerator is one of its ranks (torch-distributed)"},
    {"rate", CONF_INT, AT(bench_options, rate), .arg = "N", .dflt = "0", .min = 0, .max = 10000000,
     .help = "epoch: begin so many samples a second at most; 0: as fast as they come"},
    {"epochs", CONF_INT, AT(bench_options, epochs), .arg = "N", .dflt = "1", .min = 1,
     .max = 1000000, .help = "epoch, au: read everything so many times, one result each"},
    {"buffer", CONF_SIZE, AT(bench_options, buffer), .arg = "SIZE", .dflt = "1MiB",
     .help = "epoch, au: bytes asked for by one read()"},
    {"verify", CONF_FLAG, AT(bench_options, verify),
     .help = "epoch: a file that gives not as many bytes as its size says is an error"},
    {"compare", CONF_STRING, AT(bench_options, compare), .arg = "DIR",
     .help = "epoch: a file whose bytes differ from the same path below DIR is an error; au: "
             "measure these folders as well, separated by commas"},
    {"model", CONF_STRING, AT(bench_options, model), .arg = "NAME", .dflt = "resnet50",
     .help = "au: the load: resnet50, resnet50-a100, retinanet, unet3d, unet3d-b200, cosmoflow"},
    {"accelerators", CONF_INT, AT(bench_options, accelerators), .arg = "N", .dflt = "1", .min = 1,
     .max = 64, .help = "au: so many of them"},
    {"steps", CONF_INT, AT(bench_options, steps), .arg = "N", .dflt = "0", .min = 0,
     .max = INT32_MAX, .help = "au: so many batches an epoch at most; 0: all"},
    {"mode", CONF_STRING, AT(bench_options, mode), .arg = "blind|clairvoyant|both", .dflt = "both",
     .help = "au: without and with telling the mount the order; a folder that is no mount is only "
             "measured blind"},
    {"svg", CONF_STRING, AT(bench_options, svg), .arg = "FILE",
     .help = "au: draw the utilisations"},
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

/* What each of them goes by. */
static const char *const of_epoch[] = {"threads", "order",  "seed",    "sampler", "rate",  "epochs",
                                       "buffer",  "verify", "compare", "json",    "quiet", NULL};
static const char *const of_au[] = {"threads", "seed",  "sampler",      "epochs", "buffer",
                                    "compare", "model", "accelerators", "steps",  "mode",
                                    "svg",     "json",  "quiet",        NULL};
static const char *const of_meta[] = {"passes", "json", "quiet", NULL};
static const char *const of_fetch[] = {"samples", "connections", "json", "quiet", NULL};

/* What shuffles nothing would let who repeats a measurement think that the order is another one. */
static int refuse_idle_seed(const struct conf *conf, const struct bench_options *o, struct err *err)
{
    if (conf_origin_of(conf, "seed") != CONF_CLI)
        return 0;
    if (o->sampler)
        return err_set(err, ERR_USAGE, "--seed: not with --sampler, which says its own (seed=)");
    if (strcmp(conf_arg(conf, 0), "epoch") == 0 && strcmp(o->order, "shuffle") != 0)
        return err_set(err, ERR_USAGE, "--seed: goes with --order shuffle");
    return 0;
}

static int run(const struct conf *conf, const void *options, struct err *err)
{
    static const struct {
        const char *name;
        int (*fn)(const char *target, const struct bench_options *o, struct err *err);
        const char *const *options;
    } kinds[] = {{"epoch", bench_epoch, of_epoch},
                 {"au", bench_au, of_au},
                 {"meta", bench_meta, of_meta},
                 {"fetch", bench_fetch, of_fetch}};
    const struct bench_options *o = options;
    if (o->buffer < 4096 || o->buffer > (1u << 30))
        return err_set(err, ERR_USAGE, "--buffer: want 4KiB to 1GiB");
    for (size_t i = 0; i < COUNT(kinds); i++) {
        if (strcmp(kinds[i].name, conf_arg(conf, 0)) != 0)
            continue;
        if (refuse_besides(conf, kinds[i].options,
                           "goes with another benchmark (sampan help bench)", err) ||
            refuse_idle_seed(conf, o, err))
            return -1;
        return kinds[i].fn(conf_arg(conf, 1), o, err);
    }
    return err_set(err, ERR_USAGE, "unknown benchmark \"%s\" (known: epoch, au, meta, fetch)",
                   conf_arg(conf, 0));
}

const struct command cmd_bench = {
    .name = "bench",
    .args = "epoch DIR | au DIR | meta DIR | fetch SET",
    .summary = "measure a mounted folder, or a store",
    .about =
        "epoch opens, reads and closes every file below DIR; latencies are of just that. meta "
        "lists "
        "DIR and looks at every entry. au emulates accelerators that compute as long as MLPerf "
        "Storage says for a model, and reports AU = time computed / time passed from the first "
        "batch on. blind: the mount knows no order; clairvoyant: it is told the sampler (its rules "
        "forbid that: never mix the two). The second of both finds what the first left in the "
        "caches: measure each on a mount of its own where that matters. fetch gets whole objects "
        "from a store (of a mounted set: from where it comes) without cache and "
        "mount. DIR may be any folder, so that a mount can be set beside the plain disk.",
    .min_args = 2,
    .max_args = 2,
    .rows = rows,
    .n_rows = COUNT(rows),
    .options_size = sizeof(struct bench_options),
    .run = run,
};
