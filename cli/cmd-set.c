/* set: changes what a running mount does. */
#include <string.h>

#include "cli-internal.h"
#include "mem.h"

struct setting_options {
    bool json;
};

static const struct conf_row rows[] = {JSON_ROW(setting_options, json)};

static const char *const keys[] = {
    "sampler", "strategy",    "partition", "epoch", "bandwidth",       "memory", "connections",
    "refresh", "ahead-bytes", "weights",   "peers", "peer-token-file", "version"};

/* `seen`: a bit for each of the keys above. */
static int add_setting(struct json_writer *w, const char *word, uint32_t *seen, struct err *err)
{
    const char *equals = strchr(word, '=');
    if (!equals)
        return err_set(err, ERR_USAGE, "\"%s\": want KEY=VALUE", word);
    cleanup_free char *key = xstrndup(word, (size_t)(equals - word));
    for (size_t i = 0; i < COUNT(keys); i++) {
        if (strcmp(keys[i], key) != 0)
            continue;
        if (*seen & 1u << i)
            return err_set(err, ERR_USAGE, "%s is given twice", key);
        *seen |= 1u << i;
        bool is_file = equals[1] && (strcmp(key, "peer-token-file") == 0 ||
                                     (strcmp(key, "peers") == 0 && !strstr(equals, "://")));
        cleanup_free char *path = is_file ? path_absolute(equals + 1) : NULL;
        jw_str(w, key, path ? path : equals + 1);
        return 0;
    }
    return err_set(
        err, ERR_USAGE,
        "\"%s\" cannot be changed while mounted (known: sampler, strategy, partition, weights, "
        "version, epoch, ahead-bytes, bandwidth, memory, connections, refresh, peers, "
        "peer-token-file)",
        key);
}

static int run(const struct conf *conf, const void *options, struct err *err)
{
    const struct setting_options *o = options;
    cleanup_mount struct control_mount m = {0};
    cleanup_bytes struct bytes request = {0};
    cleanup_json struct json_doc *answer = NULL;
    struct json_writer w;
    uint32_t seen = 0;
    ask_begin(&w, &request, "set");
    for (size_t i = 1; i < conf_n_args(conf); i++)
        if (add_setting(&w, conf_arg(conf, i), &seen, err))
            return -1;
    if (mount_of(conf_arg(conf, 0), &m, NULL, err) ||
        ask(&m, &w, &request, NULL, NULL, &answer, err))
        return -1;
    struct json root = json_root(answer);
    return o->json ? print_json(&root, err) : 0;
}

const struct command cmd_set = {
    .name = "set",
    .args = "MOUNT KEY=VALUE...",
    .summary = "change a running mount",
    .about =
        "Keys: sampler (a SPEC as for mount --sampler; empty turns it off), strategy (who keeps "
        "what: sequence, random, hash or local; empty: as the sampler reads), partition (I/P: "
        "this node's share is partition I of P, counted from 0; empty: all of the set), weights "
        "(one a "
        "partition, as for mount --weights; empty: equal), epoch (the "
        "number "
        "of the epoch that begins; a newer version of the set is taken into use), version (the "
        "name, or its first 8 digits or more, of one of the versions that status lists: it is "
        "served, and stays, for later "
        "mounts too, until this is set again; empty: the newest), ahead-bytes (a "
        "size: see mount), bandwidth (a rate), memory (a size), connections (a number), peers (who "
        "the other machines are, as for mount --peers; empty: nobody), peer-token-file (the token "
        "for them); of a mount that "
        "can be written: "
        "bandwidth, connections, refresh (a duration). An unknown key changes nothing. "
        "Values are taken in this order, up to the first that is refused.",
    .min_args = 2,
    .max_args = -1,
    .rows = rows,
    .n_rows = COUNT(rows),
    .options_size = sizeof(struct setting_options),
    .run = run,
};
