/* evict: makes room in a mount's cache. */

#include "evict-internal.h"

#define SECOND 1000000000

static const struct conf_row rows[] = {
    {"to", CONF_STRING, AT(evict_options, to), .arg = "SIZE",
     .help = "Drop what is least worth keeping until the cache is no larger than this; with "
             "--store, remove the oldest samples until the set is"},
    {"older-than", CONF_DURATION, AT(evict_options, older_than), .arg = "DUR",
     .help = "Drop samples that were last changed at the source longer ago than this"},
    {"unused-for", CONF_DURATION, AT(evict_options, unused_for), .arg = "DUR",
     .help = "Drop samples that were neither read nor pushed for so long, and that the running "
             "epoch does not read"},
    {"store", CONF_FLAG, AT(evict_options, store),
     .help = "Remove the samples from the source, not the copies here; says what would go, and "
             "removes it only with --yes"},
    {"yes", CONF_FLAG, AT(evict_options, yes), .help = "With --store: remove them"},
    {"skip-trash", CONF_FLAG, AT(evict_options, skip_trash),
     .help = "With --store: for good; without it, what goes lies in .trash/ for a day"},
    STORE_ROWS(evict_options, conf),
    JSON_ROW(evict_options, json),
    QUIET_ROW(evict_options, quiet),
};

/* 0 is what is not given. (Files of configuration may say it.) */
static int check_age(const struct conf *conf, const char *option, uint64_t age, struct err *err)
{
    return age < SECOND && conf_origin_of(conf, option) == CONF_CLI
               ? err_set(err, ERR_USAGE, "--%s: at least 1s (--to 0 drops all)", option)
               : 0;
}

static int check(const struct conf *conf, const struct evict_options *o, struct err *err)
{
    if (check_age(conf, "older-than", o->older_than, err) ||
        check_age(conf, "unused-for", o->unused_for, err))
        return -1;
    if (!!o->to + !!o->older_than + !!o->unused_for != 1)
        return err_set(err, ERR_USAGE, "want one of --to SIZE, --older-than DUR, --unused-for DUR");
    if (!o->store && (o->yes || o->skip_trash))
        return err_set(err, ERR_USAGE, "%s: goes with --store", o->yes ? "--yes" : "--skip-trash");
    static const char *const here[] = {"to", "older-than", "unused-for", "json", "quiet", NULL};
    if (!o->store && refuse_besides(conf, here, "goes with --store", err))
        return -1;
    if (o->store && o->unused_for)
        return err_set(err, ERR_USAGE,
                       "--unused-for: this mount knows only its own reads: with --store give "
                       "--older-than or --to");
    return 0;
}

static int ask_evict(const struct control_mount *m, const struct evict_options *o, uint64_t to,
                     struct json_doc **ret, struct err *err)
{
    cleanup_bytes struct bytes request = {0};
    struct json_writer w;
    ask_begin(&w, &request, "evict");
    if (o->to)
        jw_uint(&w, "to", to);
    else if (o->older_than)
        jw_uint(&w, "older_than_s", o->older_than / SECOND);
    else
        jw_uint(&w, "unused_for_s", o->unused_for / SECOND);
    return ask(m, &w, &request, NULL, NULL, ret, err);
}

static int run(const struct conf *conf, const void *options, struct err *err)
{
    const struct evict_options *o = options;
    cleanup_mount struct control_mount m = {0};
    cleanup_json struct json_doc *answer = NULL;
    uint64_t to = 0;
    if (check(conf, o, err))
        return -1;
    if (o->to && conf_size(o->to, &to, err))
        return err_wrap(err, "--to");
    if (mount_of(conf_arg(conf, 0), &m, NULL, err))
        return -1;
    if (o->store)
        return evict_store(&m, o, to, err);
    if (ask_evict(&m, o, to, &answer, err))
        return -1;
    struct json root = json_root(answer);
    return report_dropped(json_uint_at(&root, "samples"), json_uint_at(&root, "bytes"), o->json,
                          err);
}

const struct command cmd_evict = {
    .name = "evict",
    .args = "MOUNT",
    .summary = "make room in the cache",
    .about =
        "Drops cached copies; the data stays in the store, and readers fetch it again. What was "
        "read is known to some minutes: in doubt a sample counts as used. Reads that the kernel "
        "answers from its own pages are not seen.\n\n"
        "With --store old samples are removed at the source itself, by the time of their last "
        "change: those older than DUR, or the oldest until the set is no larger than SIZE (at the "
        "--endpoint of the mount, unless another is given). The set is scanned first; then it says "
        "what would go and removes nothing, until --yes is given. "
        "What is removed lies for a day in .trash/ at the root of the source, unless --skip-trash "
        "is given; the mount shows the new version then. Nothing is removed behind a link of a "
        "local folder: such a sample is told as failed. The exit code is 1 if something could "
        "not be removed.",
    .min_args = 1,
    .max_args = 1,
    .rows = rows,
    .n_rows = COUNT(rows),
    .options_size = sizeof(struct evict_options),
    .run = run,
};
