/* plan: which order comes, and who keeps what. Needs neither a mount nor a store. */
#include <string.h>
#include <sys/stat.h>

#include "mem.h"
#include "plan-internal.h"
#include "program.h"

static const struct conf_row rows[] = {
    {"count", CONF_INT, AT(plan_options, count), .arg = "N", .dflt = "-1", .min = -1,
     .max = INT64_MAX, .help = "Plan for so many samples instead of for a SET; -1: there is a SET"},
    {"sample-size", CONF_SIZE, AT(plan_options, sample_size), .arg = "SIZE",
     .help = "With --count: how large each sample is (0)"},
    {"sampler", CONF_STRING, AT(plan_options, sampler), .arg = "SPEC",
     .help = "The order of training, as of mount --sampler (sequence)"},
    {"strategy", CONF_ENUM, AT(plan_options, strategy),
     .choices = "auto|sequence|random|hash|local", .dflt = "auto",
     .help = "Who keeps what; auto: as the sampler reads"},
    {"weights", CONF_STRING, AT(plan_options, weights), .arg = "W0,W1,...",
     .help = "How much of what is dealt by hash each partition gets, in parts (equal)"},
    {"partitions", CONF_INT, AT(plan_options, partitions), .arg = "P", .dflt = "-1", .min = -1,
     .max = UINT32_MAX,
     .help = "Among how many nodes the set is divided; -1: one for each ranks-per-node ranks"},
    {"partition", CONF_STRING, AT(plan_options, partition), .arg = "I/P",
     .help = "Show this partition of P alone"},
    {"print", CONF_ENUM, AT(plan_options, print),
     .choices = "order|batches|partition|summary|token", .dflt = "summary",
     .help = "What to print"},
    {"resume", CONF_STRING, AT(plan_options, resume), .arg = "TOKEN",
     .help = "The rest of an epoch: set, sampler and epoch are the token's; --sampler gives ranks "
             "and rank"},
    {"position", CONF_INT, AT(plan_options, position), .arg = "N", .dflt = "0", .min = 0,
     .max = INT64_MAX, .help = "With --print token: samples that each rank has read"},
    SET_ROWS(plan_options, set),
    STORE_ROWS(plan_options, store),
    JSON_ROW(plan_options, json),
};

/* --- the set ---------------------------------------------------------------------------------- */

static int current_version(const char *dir, const char *set, struct catalog **ret, struct err *err)
{
    cleanup_free char *folder = xasprintf("%s/catalog", dir);
    cleanup_free char *word = shell_word(set);
    struct err why = {0};
    if (!catalog_current(ret, folder, &why))
        return 0;
    if (why.class == ERR_NOT_FOUND)
        return err_set(err, ERR_NOT_FOUND,
                       "no catalog of %s here (sampan scan %s makes one; or name a catalog file)",
                       set, word);
    if (err)
        *err = why;
    return -1;
}

/* Room for a share: of a mount, the limits of its tiers. */
static void room_of_mount(const struct control_mount *m, struct planning *g)
{
    cleanup_json struct json_doc *answer = NULL;
    if (ask_status(m, &answer, NULL))
        return;
    struct json root = json_root(answer), status = json_get(&root, "status");
    struct json cache = json_get(&status, "cache"), tiers = json_get(&cache, "tiers");
    g->room = 0;
    for (size_t i = 0; i < json_count(&tiers); i++) {
        struct json tier = json_at(&tiers, i);
        g->room += json_uint_at(&tier, "limit");
    }
    g->has_room = json_count(&tiers) > 0;
}

static int open_set(const struct conf *conf, struct planning *g, struct err *err)
{
    static const char *const of_mounts[] = {"sampler",   "strategy", "weights",  "partitions",
                                            "partition", "print",    "position", "cache",
                                            "json",      NULL};
    const struct plan_options *o = g->options;
    const char *set = conf_arg(conf, 0);
    cleanup_mount struct control_mount m = {0};
    struct stat st;
    int is_mount = mount_of_set(set, &m, err);
    if (is_mount < 0)
        return -1;
    if (is_mount) {
        if (refuse_of_mount(conf, of_mounts, &m, err))
            return -1;
        /* The socket lies in the owner's folder, and so do the versions. */
        cleanup_free char *dir = xstrndup(m.socket, (size_t)(strrchr(m.socket, '/') - m.socket));
        if (!g->has_room)
            room_of_mount(&m, g);
        return current_version(dir, set, &g->conf.catalog, err);
    }
    bool file = stat(set, &st) == 0 && S_ISREG(st.st_mode);
    if (file && catalog_open(&g->conf.catalog, set, NULL) == 0)
        return 0;
    struct store_conf store;
    cleanup_owner struct owner owner = {0};
    store_conf_of(&o->store, &store);
    if (owner_resolve(&owner, set, &o->set, &store, err))
        return -1;
    return current_version(owner.dir, set, &g->conf.catalog, err);
}

static int room_of_tiers(struct planning *g, struct err *err)
{
    const struct conf_list *list = &g->options->set.cache;
    for (size_t i = 0; i < list->n; i++) {
        struct tier_conf tier;
        if (tier_conf_parse(&tier, list->items[i], err))
            return err_wrap(err, "--cache");
        free((char *)(uintptr_t)tier.dir);
        g->room += tier.limit;
    }
    g->has_room = list->n > 0;
    return 0;
}

/* --- the sampler and its partitions ----------------------------------------------------------- */

static int take_sampler(struct planning *g, const struct order_token *token, struct err *err)
{
    const struct plan_options *o = g->options;
    struct order_spec given;
    uint32_t ranks = token ? token->parts[token->n_parts - 1].ranks : 1;
    if (order_spec_parse_among(&given, o->sampler ? o->sampler : "sequence", ranks, err))
        return err_wrap(err, "--sampler");
    g->conf.sampler = given;
    if (!token)
        return 0;
    g->conf.sampler = token->spec;
    g->conf.sampler.ranks = given.ranks;
    g->conf.sampler.rank = given.rank;
    g->conf.sampler.has_rank = given.has_rank;
    g->resume = token;
    return 0;
}

static int take_partitions(struct planning *g, struct err *err)
{
    const struct plan_options *o = g->options;
    const struct order_spec *s = &g->conf.sampler;
    uint32_t partition, partitions;
    g->only = -1;
    g->conf.may_be_empty = o->partitions < 0 && !o->partition;
    uint32_t per_node = s->ranks_per_node ? s->ranks_per_node : 1;
    g->conf.partitions = (s->ranks + per_node - 1) / per_node;
    if (o->partitions >= 0)
        g->conf.partitions = (uint32_t)o->partitions;
    if (o->partition) {
        if (owner_share_parse(o->partition, &partition, &partitions, err))
            return err_wrap(err, "--partition");
        if (o->partitions >= 0 && o->partitions != partitions)
            return err_set(err, ERR_USAGE, "--partition %s: --partitions says %lld", o->partition,
                           (long long)o->partitions);
        g->only = partition;
        g->conf.partitions = partitions;
    }
    if (o->weights && owner_weights_parse(&g->conf.weights, o->weights, err))
        return err_wrap(err, "--weights");
    g->conf.strategy = owner_strategy_for(s);
    if (strcmp(o->strategy, "auto") != 0)
        return owner_strategy_parse(&g->conf.strategy, o->strategy, err);
    return 0;
}

/* What only goes with another option, or with a SET. */
static int check(const struct conf *conf, const struct plan_options *o, struct err *err)
{
    static const char *const of_counts[] = {
        "count", "sample-size", "sampler",  "strategy", "weights", "partitions", "partition",
        "print", "resume",      "position", "cache",    "json",    NULL};
    bool set = conf_n_args(conf) > 0;
    if (strcmp(o->print, "token") != 0 && conf_origin_of(conf, "position") == CONF_CLI)
        return err_set(err, ERR_USAGE, "--position: goes with --print token");
    if (set && conf_origin_of(conf, "sample-size") == CONF_CLI)
        return err_set(err, ERR_USAGE, "--sample-size: goes with --count (the SET has its own)");
    return set ? 0 : refuse_besides(conf, of_counts, "goes with a SET (name one)", err);
}

static int take_set(struct planning *g, const struct conf *conf, const struct order_token *token,
                    struct err *err)
{
    const struct plan_options *o = g->options;
    int sets = (conf_n_args(conf) > 0) + (o->count >= 0) + (token != NULL);
    if (sets != 1)
        return err_set(err, ERR_USAGE, "want one of: a SET, --count N, --resume TOKEN");
    if (conf_n_args(conf)) {
        if (open_set(conf, g, err))
            return -1;
        g->samples = catalog_info(g->conf.catalog)->numbered;
        return 0;
    }
    g->samples = g->conf.count = token ? token->n : (uint64_t)o->count;
    g->conf.sample_bytes = o->sample_size;
    if (g->samples > UINT32_MAX)
        return err_set(err, ERR_LIMIT, "--count %llu: at most %u samples can be ordered",
                       (unsigned long long)g->samples, UINT32_MAX);
    return 0;
}

static int print(const struct planning *g, struct err *err)
{
    static const struct {
        const char *name;
        int (*print)(const struct planning *g, struct err *err);
    } what[] = {
        {"order", plan_print_order},         {"batches", plan_print_batches},
        {"partition", plan_print_partition}, {"token", plan_print_token},
        {"summary", plan_print_summary},
    };
    if (g->options->json)
        return plan_print_summary(g, err);
    for (size_t i = 0; i < COUNT(what); i++)
        if (strcmp(what[i].name, g->options->print) == 0)
            return what[i].print(g, err);
    return err_set(err, ERR_BUG, "--print %s", g->options->print);
}

static int run(const struct conf *conf, const void *options, struct err *err)
{
    const struct plan_options *o = options;
    struct planning g = {.options = o};
    struct order_token token;
    if (o->resume && order_token_parse(&token, o->resume, err))
        return err_wrap(err, "--resume");
    const struct order_token *resume = o->resume ? &token : NULL;
    if (check(conf, o, err) || take_sampler(&g, resume, err) || take_partitions(&g, err) ||
        room_of_tiers(&g, err) || take_set(&g, conf, resume, err))
        return -1;
    int result = print(&g, err);
    if (g.conf.catalog)
        catalog_unref(g.conf.catalog);
    return result;
}

const struct command cmd_plan = {
    .name = "plan",
    .args = "[SET]",
    .summary = "show which order comes, and who keeps what",
    .about =
        "Works on a SET that was scanned here (a URI, a mount, a catalog file), or on --count N "
        "samples; reads no sample and asks no store.\n\n"
        "--print order: one sample index a line, as rank `rank` of the sampler reads them (all of "
        "its `epochs`, one after the other). batches: one batch a line. partition: index, tab, "
        "the partition that owns the sample, and after commas those that keep it too since the "
        "sampler repeats it there; samples outside the reading order are not listed. token: the "
        "resume token at --position. summary: samples, bytes and local reads of each partition; "
        "local reads are the share of what its ranks read in the epoch that it keeps itself.\n\n"
        "Strategies: sequence gives contiguous ranges of equally many bytes; random and local "
        "give each partition what its ranks read; hash deals by a hash of the path, and moves the "
        "least when the number of partitions changes. Samples that no rank reads are dealt by "
        "hash, and so are all where every rank reads the whole set.\n\n"
        "With --cache, `fits` says whether the share of a partition fits into these tiers. --json "
        "prints the summary with crc32, the CRC-32 of what --print order prints, as little-endian "
        "int64.",
    .min_args = 0,
    .max_args = 1,
    .rows = rows,
    .n_rows = COUNT(rows),
    .options_size = sizeof(struct plan_options),
    .run = run,
};
