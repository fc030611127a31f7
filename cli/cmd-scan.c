/* scan: lists a source and publishes a version of its catalog. */
#include <inttypes.h>
#include <string.h>

#include "cli-internal.h"
#include "mem.h"

struct scan_options {
    struct set_options set;
    struct store_options store;
    struct log_options log;
    const char *out, *sampler;
    int64_t connections;
    bool diff, json, quiet;
};

static const struct conf_row rows[] = {
    {"o", CONF_STRING, AT(scan_options, out), .arg = "CATALOG",
     .help = "Write a copy of the version to this file"},
    {"diff", CONF_FLAG, AT(scan_options, diff),
     .help = "Show what changed since the last version: + added, - removed, ~ changed"},
    {"sampler", CONF_STRING, AT(scan_options, sampler), .arg = "SPEC",
     .help = "Number the samples by this SPEC's list= instead of by the folders' order"},
    {"connections", CONF_INT, AT(scan_options, connections), .arg = "N", .dflt = "64", .min = 1,
     .max = 1024, .help = "Requests at once at most"},
    SET_ROWS(scan_options, set),
    STORE_ROWS(scan_options, store),
    LOG_ROWS(scan_options, log),
    JSON_ROW(scan_options, json),
    QUIET_ROW(scan_options, quiet),
};

/* Those that go with a mount, too. */
static const char *const of_mounts[] = {"o", "diff", "json", "quiet", NULL};

/* What both ways of scanning tell. */
struct outcome {
    char version[CATALOG_DIGEST + 1];
    uint64_t samples, bytes, folders, added, changed, removed, bad_names;
    double seconds;
};

static int report(const struct scan_options *o, const struct outcome *r,
                  const struct bytes *changes, struct err *err)
{
    cleanup_bytes struct bytes out = {0};
    char size[32], samples[64], folders[64];
    if (o->json) {
        struct json_writer w;
        jw_init(&w, &out);
        jw_object(&w, NULL);
        jw_str(&w, "version", r->version);
        jw_uint(&w, "samples", r->samples);
        jw_uint(&w, "bytes", r->bytes);
        jw_uint(&w, "folders", r->folders);
        jw_uint(&w, "added", r->added);
        jw_uint(&w, "changed", r->changed);
        jw_uint(&w, "removed", r->removed);
        jw_uint(&w, "bad_names", r->bad_names);
        jw_num(&w, "seconds", r->seconds);
        jw_end(&w);
        bytes_add_char(&out, '\n');
        return print_out(&out, err);
    }
    if (changes->len)
        bytes_add(&out, changes->data, changes->len);
    conf_format_size(r->bytes, size);
    conf_format_count(r->samples, "sample", samples);
    conf_format_count(r->folders, "folder", folders);
    bytes_addf(&out,
               "%s, %s, %s in %.1f s (%" PRIu64 " added, %" PRIu64 " changed, %" PRIu64
               " removed)\nversion %s\n",
               samples, size, folders, r->seconds, r->added, r->changed, r->removed, r->version);
    return print_out(&out, err);
}

/* --- what changed ----------------------------------------------------------------------------- */

static bool add_change(void *arg, char kind, const char *path, size_t len, bool folder,
                       uint64_t old_id, uint64_t new_id)
{
    (void)old_id, (void)new_id;
    struct bytes *out = arg;
    if (!folder || kind != '~') /* a folder's time changes with what is in it */
        add_one_line(out, "%c %.*s%s", kind, (int)len, path, folder ? "/" : "");
    return true;
}

/* The version before a scan, if its differences are wanted; NULL for the first version: everything
 * is new then, and that is no list to print. */
static struct catalog *version_before(const char *dir, const struct scan_options *o)
{
    cleanup_free char *versions = xasprintf("%s/catalog", dir);
    struct catalog *before = NULL;
    return o->diff && catalog_current(&before, versions, NULL) == 0 ? before : NULL;
}

static int list_changes(struct catalog *before, const char *file, struct bytes *out,
                        struct err *err)
{
    struct catalog *after;
    if (catalog_open(&after, file, err))
        return -1;
    int result = catalog_diff(before, after, add_change, out, err);
    catalog_unref(after);
    return result;
}

static int say_bad(void *arg, const char *key, size_t len, const char *why, struct err *err)
{
    struct bytes *out = arg;
    (void)err;
    add_one_line(out, "sampan scan: warning: not in the set: %.*s: %s", (int)len, key, why);
    return out->len >= (64u << 10); /* doctor lists all of them */
}

static void warn_bad_names(const char *file)
{
    struct catalog *c;
    cleanup_bytes struct bytes text = {0};
    if (catalog_open(&c, file, NULL))
        return;
    if (catalog_info(c)->bad_names && catalog_bad_names(c, say_bad, &text, NULL) == 0)
        fwrite(text.data, 1, text.len, stderr);
    catalog_unref(c);
}

/* --- a set that is mounted: its owner scans, and serves the new version ----------------------- */

static int owner_rescan(const struct control_mount *m, struct outcome *ret, struct err *err)
{
    cleanup_bytes struct bytes request = {0};
    cleanup_json struct json_doc *answer = NULL;
    struct json_writer w;
    ask_begin(&w, &request, "rescan");
    if (ask(m, &w, &request, NULL, NULL, &answer, err))
        return -1;
    struct json root = json_root(answer);
    *ret = (struct outcome){
        .samples = json_uint_at(&root, "samples"),
        .bytes = json_uint_at(&root, "bytes"),
        .folders = json_uint_at(&root, "folders"),
        .added = json_uint_at(&root, "added"),
        .changed = json_uint_at(&root, "changed"),
        .removed = json_uint_at(&root, "removed"),
        .bad_names = json_uint_at(&root, "bad_names"),
        .seconds = json_num_at(&root, "seconds"),
    };
    snprintf(ret->version, sizeof ret->version, "%s", json_str_at(&root, "version"));
    return 0;
}

static int scan_mount(const struct control_mount *m, const struct scan_options *o, struct err *err)
{
    /* The socket lies in the owner's folder, and so do the versions. */
    cleanup_free char *dir = xstrndup(m->socket, (size_t)(strrchr(m->socket, '/') - m->socket));
    cleanup_free char *current = xasprintf("%s/catalog/current", dir);
    cleanup_bytes struct bytes changes = {0};
    struct catalog *before = version_before(dir, o);
    struct outcome r;
    int result = owner_rescan(m, &r, err);
    if (!result && before)
        result = list_changes(before, current, &changes, err);
    if (!result && o->out)
        result = catalog_copy_file(current, o->out, err);
    if (before)
        catalog_unref(before);
    if (result)
        return result;
    warn_bad_names(current);
    return report(o, &r, &changes, err);
}

/* --- a set that is not mounted ---------------------------------------------------------------- */

static int scan_folder(const struct volume_conf *conf, const struct scan_options *o,
                       struct err *err)
{
    struct progress progress;
    struct scan_result result = {0};
    cleanup_bytes struct bytes changes = {0};
    struct catalog *before = version_before(conf->dir, o);
    progress_init(&progress, o->quiet);
    int failed = volume_scan(conf, o->out, progress_volume, &progress, &result, err);
    progress_end(&progress);
    if (!failed && before)
        failed = list_changes(before, result.file, &changes, err);
    if (before)
        catalog_unref(before);
    if (!failed) {
        struct outcome r = {
            .samples = result.info.samples,
            .bytes = result.info.bytes,
            .folders = result.info.folders,
            .bad_names = result.info.bad_names,
            .added = result.diff.added,
            .changed = result.diff.changed,
            .removed = result.diff.removed,
            .seconds = result.seconds,
        };
        memcpy(r.version, result.digest, sizeof r.version);
        warn_bad_names(result.file);
        failed = report(o, &r, &changes, err);
    }
    free(result.file);
    return failed;
}

static int scan_set(const char *set, struct owner *owner, struct store_conf *store,
                    const struct scan_options *o, struct err *err)
{
    struct log_file log;
    struct volume_conf volume = {.set = set, .sampler = o->sampler, .rescan = true};
    if (owner_make(owner, err) || check_nested(set, store, owner, NULL, err) ||
        owner_lock(owner, err) || log_file_open(&log, &o->log, false, err))
        return -1;
    fetch_conf_defaults(&volume.fetch);
    volume.fetch.connections = (unsigned)o->connections;
    volume.log = volume.fetch.log = store->log = log.log;
    volume.store = *store;
    volume.stop = catch_interrupts();
    owner_to_volume(owner, &volume);
    int result = scan_folder(&volume, o, err);
    if (result && atomic_load(volume.stop))
        err_set(err, ERR_CANCELLED, "interrupted: no new version was made");
    log_file_close(&log);
    return result;
}

static int run(const struct conf *conf, const void *options, struct err *err)
{
    const struct scan_options *o = options;
    const char *set = conf_arg(conf, 0);
    cleanup_mount struct control_mount m = {0};
    struct store_conf store;
    cleanup_owner struct owner owner = {0};
    if (o->out && catalog_may_copy_to(o->out, err))
        return err_wrap(err, "-o");
    int is_mount = mount_of_set(set, &m, err);
    if (is_mount)
        return is_mount < 0 || refuse_of_mount(conf, of_mounts, &m, err) ? -1
                                                                         : scan_mount(&m, o, err);
    store_conf_of(&o->store, &store);
    if (owner_resolve(&owner, set, &o->set, &store, err))
        return -1;
    if (mount_by_folder(owner.dir, &m)) {
        if (o->sampler && conf_origin_of(conf, "sampler") == CONF_CLI)
            return err_set(err, ERR_USAGE,
                           "--sampler: %s is mounted at %s, whose sampler numbers its samples "
                           "(mount it with this one)",
                           set, m.mountpoint);
        return scan_mount(&m, o, err);
    }
    int result = scan_set(set, &owner, &store, o, err);
    if (result)
        owner_unmake(&owner);
    return result;
}

const struct command cmd_scan = {
    .name = "scan",
    .args = "SET",
    .summary = "list a source and publish a version of its catalog",
    .about =
        "Lists SET in parallel and publishes a new version if anything changed; mounts of the set "
        "take it into use with --refresh, with set MOUNT epoch=N, or when SET is the mount itself, "
        "at once. Names that no file system can hold, and links of a folder that lead nowhere, are "
        "reported: they are not in the set.",
    .min_args = 1,
    .max_args = 1,
    .rows = rows,
    .n_rows = COUNT(rows),
    .options_size = sizeof(struct scan_options),
    .run = run,
};
