/* sync: makes a destination hold what its sources hold. */
#include <inttypes.h>
#include <string.h>

#include "workers-internal.h"
#include "mem.h"
#include "transfer.h"

static const struct conf_row rows[] = {
    {"include", CONF_LIST, AT(sync_options, include), .arg = "PATTERN",
     .help = "Keep what fits, whatever a later --exclude says"},
    {"exclude", CONF_LIST, AT(sync_options, exclude), .arg = "PATTERN",
     .help = "Leave out what fits: *.tmp, cache/, /top/**, a folder with all below it"},
    {"match-full-path", CONF_FLAG, AT(sync_options, match_full_path),
     .help = "Match patterns against whole keys alone, not folder by folder"},
    {"start", CONF_STRING, AT(sync_options, start), .arg = "KEY", .help = "First key"},
    {"end", CONF_STRING, AT(sync_options, end), .arg = "KEY", .help = "Last key"},
    {"files-from", CONF_STRING, AT(sync_options, files_from), .arg = "FILE",
     .help = "Only the keys of this list, one a line; a line that ends in / is all below"},
    {"limit", CONF_INT, AT(sync_options, limit), .arg = "N", .min = 0, .max = INT64_MAX,
     .help = "Look at so many objects, no more; 0: at all"},
    {"update", CONF_FLAG, AT(sync_options, update),
     .help = "Copy what is newer at the source; without it, what has another size"},
    {"force-update", CONF_FLAG, AT(sync_options, force_update), .help = "Copy everything"},
    {"existing", CONF_FLAG, AT(sync_options, existing),
     .help = "Copy nothing that the destination does not have"},
    {"ignore-existing", CONF_FLAG, AT(sync_options, ignore_existing),
     .help = "Leave alone what the destination has"},
    {"delete-src", CONF_FLAG, AT(sync_options, delete_src),
     .help =
         "Delete at the source what the destination has, byte for byte; what differs is copied"},
    {"delete-dst", CONF_FLAG, AT(sync_options, delete_dst),
     .help = "Delete at the destination what the source does not have"},
    {"allow-empty", CONF_FLAG, AT(sync_options, allow_empty),
     .help = "Let --delete-dst go on where the source is empty"},
    {"dirs", CONF_FLAG, AT(sync_options, dirs), .help = "Folders too, empty ones included"},
    {"perms", CONF_FLAG, AT(sync_options, perms),
     .help = "Keep mode, owner and time: of local files, and as metadata of S3 and BOS"},
    {"links", CONF_FLAG, AT(sync_options, links),
     .help = "Copy links as links, in the same places, not what they lead to"},
    {"check-new", CONF_FLAG, AT(sync_options, check_new),
     .help = "Read back what was copied and compare every byte"},
    {"check-all", CONF_FLAG, AT(sync_options, check_all),
     .help = "Compare every byte of what was there already, too; copy it again if it differs"},
    {"no-fsync", CONF_FLAG, AT(sync_options, no_fsync),
     .help = "Do not wait until a local destination is on the disk: a power cut may damage it"},
    {"dry", CONF_FLAG, AT(sync_options, dry), .help = "Say what would be done, and do nothing"},
    {"threads", CONF_INT, AT(sync_options, threads), .arg = "N", .dflt = "16", .min = 1, .max = 256,
     .help = "Objects on their way at once"},
    {"bwlimit", CONF_RATE, AT(sync_options, bwlimit), .arg = "RATE",
     .help = "Bytes a second at most: 20MB, 400Mbit"},
    {"memory", CONF_SIZE, AT(sync_options, memory), .arg = "SIZE", .dflt = "256MiB",
     .help = "Memory for bodies on their way"},
    {"share", CONF_STRING, AT(sync_options, share), .arg = "I/N",
     .help = "Only the keys that fall to share I of N (0 to N-1), for several machines"},
    {"worker", CONF_STRING, AT(sync_options, worker), .arg = "HOST,...",
     .help = "Let the runtime servers of these nodes (HOST, HOST:PORT or a URL) each do a share"},
    {"token-file", CONF_STRING, AT(sync_options, token_file), .arg = "FILE",
     .help = "With --worker: their bearer token"},
    {"pack", CONF_SIZE, AT(sync_options, pack), .arg = "SIZE",
     .help = "Write packs of this size (8MiB to 64MiB) with their catalog instead of objects"},
    {"repack", CONF_FLAG, AT(sync_options, repack),
     .help = "With --pack: rewrite every pack that holds bytes nobody needs"},
    {"dst-endpoint", CONF_STRING, AT(sync_options, dst_endpoint), .arg = "URL",
     .help = "Address of the destination's store, if not that of --endpoint"},
    {"dst-region", CONF_STRING, AT(sync_options, dst_region), .arg = "NAME",
     .help = "Region of the destination, if not --region"},
    {"dst-credentials", CONF_STRING, AT(sync_options, dst_credentials), .arg = "FILE|DIR",
     .help = "Keys for the destination, if not --credentials"},
    STORE_ROWS(sync_options, store),
    LOG_ROWS(sync_options, log),
    JSON_ROW(sync_options, json),
    QUIET_ROW(sync_options, quiet),
};

/* --- telling ---------------------------------------------------------------------------------- */

struct telling {
    const struct sync_options *options;
    struct progress progress;
    struct bytes failures; /* JSON objects, separated by commas */
    struct json_writer writer;
    uint64_t n_failures;
};

static const char *const phase_names[] = {"listed", "objects", "deleted", "published"};

static void show(void *arg, enum sync_phase phase, const struct sync_counts *n, uint64_t total)
{
    struct telling *t = arg;
    bool listing = phase == SYNC_LISTING;
    struct how_far far = {.done = listing                  ? n->found
                                  : phase == SYNC_DELETING ? n->deleted
                                                           : n->copied + n->skipped + n->failed,
                          .bytes = n->copied_bytes + n->moving_bytes};
    if (phase == SYNC_COPYING) {
        far.total = total;
        far.percent = percent_of((double)(far.bytes + n->skipped_bytes), (double)n->found_bytes);
    }
    progress_show(&t->progress, phase_names[phase], &far);
}

static void say_failed(void *arg, const char *key, const char *why)
{
    struct telling *t = arg;
    if (t->options->json) {
        if (++t->n_failures > 10000)
            return; /* they are counted on */
        jw_object(&t->writer, NULL);
        jw_str(&t->writer, "path", key);
        jw_str(&t->writer, "error", why);
        jw_end(&t->writer);
        return;
    }
    progress_end(&t->progress);
    say_failure("sync: failed", key, why);
}

static void say_would(void *arg, enum sync_act act, const char *key, uint64_t size)
{
    static const char *const names[] = {[SYNC_COPY] = "copy",
                                        [SYNC_COMPARE] = "compare",
                                        [SYNC_DELETE] = "delete",
                                        [SYNC_DELETE_SRC] = "delete at the source"};
    const struct telling *t = arg;
    if (t->options->json || !names[act])
        return;
    cleanup_bytes struct bytes line = {0};
    add_one_line(&line, "%s %s (%" PRIu64 " bytes)", names[act], key, size);
    fwrite(line.data, 1, line.len, stdout);
}

static void add_json(struct bytes *out, const struct sync_counts *n, const struct telling *t)
{
    struct json_writer w;
    jw_init(&w, out);
    jw_object(&w, NULL);
    jw_uint(&w, "found", n->found);
    jw_uint(&w, "found_bytes", n->found_bytes);
    jw_uint(&w, "excluded", n->excluded);
    jw_uint(&w, "copied", n->copied);
    jw_uint(&w, "copied_bytes", n->copied_bytes);
    jw_uint(&w, "skipped", n->skipped);
    jw_uint(&w, "skipped_bytes", n->skipped_bytes);
    jw_uint(&w, "checked", n->checked);
    jw_uint(&w, "checked_bytes", n->checked_bytes);
    jw_uint(&w, "deleted", n->deleted);
    jw_uint(&w, "deleted_src", n->deleted_src);
    jw_uint(&w, "extra", n->extra);
    jw_uint(&w, "failed", n->failed);
    jw_uint(&w, "aborted_uploads", n->aborted_uploads);
    jw_uint(&w, "resumed_bytes", n->resumed_bytes);
    if (t->options->pack) {
        jw_uint(&w, "packed", n->packed);
        jw_uint(&w, "packs", n->packs);
        jw_uint(&w, "packs_deleted", n->packs_deleted);
    }
    jw_bool(&w, "dry", t->options->dry);
    jw_num(&w, "seconds", n->seconds);
    jw_raw(&w, "failures", t->failures.data);
    jw_end(&w);
    bytes_add_char(out, '\n');
}

static void add_text(struct bytes *out, const struct sync_counts *n, const struct telling *t)
{
    char copied[32], skipped[32], resumed[32];
    conf_format_size(n->copied_bytes, copied);
    conf_format_size(n->skipped_bytes, skipped);
    bytes_addf(out,
               "%s%" PRIu64 " found: %" PRIu64 " copied (%s), %" PRIu64 " skipped (%s), %" PRIu64
               " deleted, %" PRIu64 " failed",
               t->options->dry ? "would be: " : "", n->found, n->copied, copied, n->skipped,
               skipped, n->deleted, n->failed);
    const struct {
        const char *what;
        uint64_t n;
    } more[] = {{"excluded", n->excluded},
                {"checked", n->checked},
                {"deleted at the source", n->deleted_src},
                {"extra at the destination", n->extra},
                {"uploads of earlier runs aborted", n->aborted_uploads},
                {"packs written", n->packs},
                {"packs removed", n->packs_deleted}};
    for (size_t i = 0; i < COUNT(more); i++)
        if (more[i].n)
            bytes_addf(out, ", %" PRIu64 " %s", more[i].n, more[i].what);
    conf_format_size(n->resumed_bytes, resumed);
    if (n->resumed_bytes)
        bytes_addf(out, ", %s were sent by earlier runs", resumed);
    bytes_addf(out, ", in %.1f s\n", n->seconds);
}

/* --- what was asked for ----------------------------------------------------------------------- */

static int share_of(const char *text, struct sync_conf *ret, struct err *err)
{
    char *end;
    if (!text)
        return 0;
    unsigned long i = strtoul(text, &end, 10);
    const char *slash = end;
    unsigned long n = *slash == '/' ? strtoul(slash + 1, &end, 10) : 0;
    bool digits =
        text[0] >= '0' && text[0] <= '9' && slash[0] == '/' && slash[1] >= '0' && slash[1] <= '9';
    if (!digits || *end || n == 0 || i >= n || n > UINT32_MAX)
        return err_set(err, ERR_USAGE, "--share: \"%s\" is not I/N with I from 0 to N-1", text);
    ret->share = (uint32_t)i;
    ret->shares = (uint32_t)n;
    return 0;
}

/* Both lists as one, in the order in which they were given. */
static struct sync_rule *rules_of(const struct sync_options *o, size_t *ret_n)
{
    const struct conf_list *a = &o->include, *b = &o->exclude;
    struct sync_rule *all = xcalloc(a->n + b->n + 1, sizeof *all);
    size_t n = 0, i = 0, k = 0;
    while (i < a->n || k < b->n) {
        bool include = k == b->n || (i < a->n && a->places[i] < b->places[k]);
        all[n++] = (struct sync_rule){include, include ? a->items[i] : b->items[k]};
        if (include)
            i++;
        else
            k++;
    }
    *ret_n = n;
    return all;
}

static int conf_of(const struct sync_options *o, struct sync_conf *ret, struct err *err)
{
    *ret = (struct sync_conf){
        .match_full_path = o->match_full_path,
        .start = o->start,
        .end = o->end,
        .files_from = o->files_from,
        .limit = (uint64_t)o->limit,
        .update = o->update,
        .force_update = o->force_update,
        .existing = o->existing,
        .ignore_existing = o->ignore_existing,
        .check_new = o->check_new,
        .check_all = o->check_all,
        .delete_src = o->delete_src,
        .delete_dst = o->delete_dst,
        .allow_empty = o->allow_empty,
        .dirs = o->dirs,
        .perms = o->perms,
        .links = o->links,
        .hasty = o->no_fsync,
        .dry = o->dry,
        .pack_size = o->pack,
        .repack = o->repack,
        .threads = (unsigned)o->threads,
        .bandwidth = o->bwlimit,
        .memory = o->memory,
    };
    store_conf_of(&o->store, &ret->from);
    ret->to = ret->from;
    if (o->dst_endpoint)
        ret->to.endpoint = o->dst_endpoint;
    if (o->dst_region)
        ret->to.region = o->dst_region;
    if (o->dst_credentials)
        ret->to.credentials = o->dst_credentials;
    return share_of(o->share, ret, err);
}

/* --- running ---------------------------------------------------------------------------------- */

/* What only goes with another option. (Files of configuration and the environment, which serve
 * other calls too, may say it.) */
static int check(const struct conf *conf, const struct sync_options *o, struct err *err)
{
    if (!o->pack && o->repack && conf_origin_of(conf, "repack") == CONF_CLI)
        return err_set(err, ERR_USAGE, "--repack: goes with --pack");
    if (!o->worker && o->token_file && conf_origin_of(conf, "token-file") == CONF_CLI)
        return err_set(err, ERR_USAGE, "--token-file: goes with --worker");
    if (o->worker && conf_origin_of(conf, "memory") == CONF_CLI)
        return err_set(err, ERR_USAGE,
                       "--worker goes with no --memory: the servers have their own");
    if (!o->delete_dst && o->allow_empty && conf_origin_of(conf, "allow-empty") == CONF_CLI)
        return err_set(err, ERR_USAGE, "--allow-empty: goes with --delete-dst");
    return 0;
}

static int report(const struct sync_counts *n, const struct telling *t, struct err *err)
{
    cleanup_bytes struct bytes out = {0};
    if (t->options->json)
        add_json(&out, n, t);
    else
        add_text(&out, n, t);
    fflush(stdout);
    return print_out(&out, err);
}

static int run(const struct conf *conf, const void *options, struct err *err)
{
    const struct sync_options *o = options;
    size_t n = conf_n_args(conf);
    struct sync_conf c;
    if (check(conf, o, err) || conf_of(o, &c, err))
        return -1;
    struct log_file log;
    if (log_file_open(&log, &o->log, false, err))
        return -1;
    cleanup_free const char **sources = xcalloc(n, sizeof *sources);
    for (size_t i = 0; i + 1 < n; i++)
        sources[i] = conf_arg(conf, i);
    cleanup_free struct sync_rule *rules = rules_of(o, &c.n_rules);
    c.sources = sources;
    c.n_sources = n - 1;
    c.destination = conf_arg(conf, n - 1);
    c.rules = rules;
    c.log = c.from.log = c.to.log = log.log;

    struct telling t = {.options = o};
    const struct sync_watch watch = {show, say_failed, say_would, &t};
    struct sync_counts counts;
    jw_init(&t.writer, &t.failures);
    jw_array(&t.writer, NULL);
    progress_init(&t.progress, o->quiet);
    c.stop = catch_interrupts();
    int result =
        o->worker ? workers_sync(o, &c, &watch, &counts, err) : sync_run(&c, &watch, &counts, err);
    progress_end(&t.progress);
    jw_end(&t.writer);
    bool ran = result == 0 || counts.found || counts.failed;
    if (ran && report(&counts, &t, result ? NULL : err))
        result = -1;
    bytes_release(&t.failures);
    log_file_close(&log);
    return result ? result : counts.failed ? 1 : 0;
}

const struct command cmd_sync = {
    .name = "sync",
    .args = "SRC... DST",
    .summary = "make a store or folder hold what others hold",
    .about =
        "Copies what is new or changed from SRC (URIs or set files, several into one) to DST, "
        "between any two stores, without a copy on this machine. What has the same size is left "
        "alone; --update, --force-update and --check-all look closer. An object of DST is always "
        "whole.\n\n"
        "A run that was broken off is gone on with by the same command; interrupted it takes back "
        "what it began to send in parts, and waits for nothing else. Nothing is deleted before all "
        "of both sides was listed, nor where source and destination overlap.\n\n"
        "Patterns are rsync's: --include and --exclude are tried in the order given, folder by "
        "folder from the top, and the first that fits decides.\n\n"
        "With --worker the runtime servers of other nodes do the work, a share each, with the keys "
        "that "
        "they have; this command follows them, and ends them when it is interrupted.\n\n"
        "The exit code is 1 if anything failed; each failure is a line on stderr.",
    .min_args = 2,
    .max_args = -1,
    .rows = rows,
    .n_rows = COUNT(rows),
    .options_size = sizeof(struct sync_options),
    .run = run,
};
