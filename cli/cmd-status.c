/* status: every mount on this machine in a line, or one in full. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cli-internal.h"
#include "mem.h"
#include "pending-internal.h"

struct status_options {
    bool json;
};

static const struct conf_row rows[] = {JSON_ROW(status_options, json)};

/* --- a mount whose process is dead ------------------------------------------------------------ */

static void write_zeros(struct json_writer *w, const char *object, const char *const *keys,
                        size_t n)
{
    jw_object(w, object);
    for (size_t i = 0; i < n; i++)
        jw_int(w, keys[i], 0);
}

/* Scripts find every field of a live one. */
void status_zeros(struct json_writer *w)
{
    static const char *const set[] = {"samples", "bytes", "folders"};
    static const char *const cache[] = {"samples", "bytes"};
    static const char *const reads[] = {
        "total",  "bytes", "mem", "disk", "peer", "store", "pushed", "errors", "corrupt_repaired",
        "p50_us", "p99_us"};
    static const char *const fetch[] = {"requests", "bytes",     "retries",
                                        "hedges",   "in_flight", "in_flight_max"};
    static const char *const memory[] = {"resident", "limit"};
    static const char *const warmup[] = {"percent", "samples_done", "samples_total", "failed",
                                         "eta_s"};
    write_zeros(w, "set", set, COUNT(set));
    jw_end(w);
    write_zeros(w, "cache", cache, COUNT(cache));
    jw_array(w, "tiers");
    jw_end(w);
    jw_end(w);
    write_zeros(w, "reads", reads, COUNT(reads));
    jw_end(w);
    write_zeros(w, "fetch", fetch, COUNT(fetch));
    jw_end(w);
    write_zeros(w, "memory", memory, COUNT(memory));
    jw_end(w);
    write_zeros(w, "warmup", warmup, COUNT(warmup));
    jw_str(w, "state", "idle");
    jw_end(w);
    jw_raw(w, "partition", "null");
}

/* Nobody answers: dead, or recovering when a keeper is there. */
static void silent_json(const struct control_mount *m, struct bytes *text)
{
    struct json_writer w;
    jw_init(&w, text);
    jw_object(&w, NULL);
    jw_str(&w, "mountpoint", m->mountpoint);
    jw_str(&w, "uri", m->uri);
    jw_str(&w, "version", "");
    jw_str(&w, "state", m->alive ? "recovering" : "dead");
    jw_int(&w, "pid", m->recovering ? 0 : m->pid);
    jw_int(&w, "keeper_pid", m->keeper_pid);
    jw_int(&w, "restarts", 0);
    jw_int(&w, "uptime_s", 0);
    jw_str(&w, "mode", "");
    jw_str(&w, "profile", "");
    status_zeros(&w);
    jw_end(&w);
    bytes_add_char(text, '\n');
}

/* --- for people ------------------------------------------------------------------------------- */

static void add_size(struct bytes *out, uint64_t n)
{
    char text[32];
    conf_format_size(n, text);
    bytes_add_str(out, text);
}

static double percent(double part, double whole)
{
    return whole > 0 ? 100 * part / whole : 0;
}

static void add_tiers(struct bytes *out, const struct json *cache)
{
    struct json tiers = json_get(cache, "tiers");
    for (size_t i = 0; i < json_count(&tiers); i++) {
        struct json t = json_at(&tiers, i);
        bytes_addf(out, "            %s %s: ", json_str_at(&t, "tier"), json_str_at(&t, "dir"));
        add_size(out, json_uint_at(&t, "used"));
        bytes_add_str(out, " of ");
        add_size(out, json_uint_at(&t, "limit"));
        bytes_addf(out, ", %s%s%s\n", json_str_at(&t, "state"), *json_str_at(&t, "why") ? ": " : "",
                   json_str_at(&t, "why"));
    }
}

static void add_reads(struct bytes *out, const struct json *s)
{
    struct json reads = json_get(s, "reads"), fetch = json_get(s, "fetch");
    bytes_addf(
        out,
        "  reads     %" PRIu64 " (mem %" PRIu64 ", disk %" PRIu64 ", peer %" PRIu64
        ", store %" PRIu64 "), pushed %" PRIu64 ", errors %" PRIu64 ", repaired %" PRIu64 "\n",
        json_uint_at(&reads, "total"), json_uint_at(&reads, "mem"), json_uint_at(&reads, "disk"),
        json_uint_at(&reads, "peer"), json_uint_at(&reads, "store"), json_uint_at(&reads, "pushed"),
        json_uint_at(&reads, "errors"), json_uint_at(&reads, "corrupt_repaired"));
    bytes_addf(out, "            p50 %.0f us, p99 %.0f us\n", json_num_at(&reads, "p50_us"),
               json_num_at(&reads, "p99_us"));
    bytes_addf(out, "  fetch     %" PRIu64 " requests, ", json_uint_at(&fetch, "requests"));
    add_size(out, json_uint_at(&fetch, "bytes"));
    bytes_addf(out, ", %" PRIu64 " retries, %" PRIu64 " hedged, %" PRIu64 " under way\n",
               json_uint_at(&fetch, "retries"), json_uint_at(&fetch, "hedges"),
               json_uint_at(&fetch, "in_flight"));
}

static void add_stale(struct bytes *out, const struct json *s)
{
    struct json stale = json_get(s, "stale_objects");
    for (size_t i = 0; i < json_count(&stale); i++) {
        struct json object = json_at(&stale, i);
        bytes_addf(out, "  stale     %s: %s\n", json_str_at(&object, "path"),
                   json_str_at(&object, "why"));
    }
}

/* How often it began anew, and what it refuses since. */
static void add_keeper(struct bytes *out, const struct json *s)
{
    uint64_t since = json_uint_at(s, "since");
    if (since) {
        char ago[32];
        conf_format_duration((double)(time(NULL) - (time_t)since), ago);
        bytes_addf(out, "            for %s: %s\n", ago, json_str_at(s, "why"));
    }
    if (!json_uint_at(s, "keeper_pid")) {
        bytes_add_str(out, "  keeper    none: readers fail if the daemon dies\n");
        return;
    }
    bytes_addf(out, "  keeper    pid %" PRIu64 ", %" PRIu64 " restarts%s%s\n",
               json_uint_at(s, "keeper_pid"), json_uint_at(s, "restarts"),
               *json_str_at(s, "last_end") ? "; the last time: " : "", json_str_at(s, "last_end"));
    struct json poisoned = json_get(s, "poisoned");
    for (size_t i = 0; i < json_count(&poisoned); i++) {
        struct json r = json_at(&poisoned, i);
        bytes_addf(out,
                   "  refused   %s of inode %" PRIu64 " at %" PRIu64 " %s: it killed %" PRIu64
                   " times\n",
                   json_str_at(&r, "op"), json_uint_at(&r, "id"), json_uint_at(&r, "offset"),
                   json_str_at(&r, "path"), json_uint_at(&r, "deaths"));
    }
}

/* A version that comes from a store, and why it does not. */
static void add_arriving(struct bytes *out, const struct json *s)
{
    struct json arriving = json_get(s, "catalog_arriving");
    if (!arriving.node)
        return;
    bytes_add_str(out, "  catalog   ");
    add_size(out, json_uint_at(&arriving, "bytes"));
    bytes_add_str(out, " of ");
    add_size(out, json_uint_at(&arriving, "total"));
    bytes_addf(out, " are here%s%s\n", *json_str_at(&arriving, "why") ? ": " : "",
               json_str_at(&arriving, "why"));
}

/* What of the set is this node's, and the order to come. */
static void add_share(struct bytes *out, const struct json *s)
{
    struct json order = json_get(s, "order"), share = json_get(s, "partition");
    if (*json_str_at(&order, "sampler"))
        bytes_addf(out, "  order     %s, %" PRIu64 " samples here\n",
                   json_str_at(&order, "sampler"), json_uint_at(&order, "length"));
    if (!json_has(&share, "partitions"))
        return;
    bytes_addf(out, "  share     partition %" PRIu64 " of %" PRIu64 " (%s), %" PRIu64 " samples, ",
               json_uint_at(&share, "partition"), json_uint_at(&share, "partitions"),
               json_str_at(&share, "strategy"), json_uint_at(&share, "samples"));
    add_size(out, json_uint_at(&share, "bytes"));
    if (json_uint_at(&share, "kept_epoch") != json_uint_at(&share, "epoch"))
        bytes_addf(out, "; keeps that of epoch %" PRIu64, json_uint_at(&share, "kept_epoch"));
    bytes_add_char(out, '\n');
    struct json ahead = json_get(s, "epochs_ahead");
    if (!json_uint_at(&ahead, "budget"))
        return;
    bytes_addf(out, "  ahead     epoch %" PRIu64 ": %s, %" PRIu64 " of %" PRIu64 " looked at, ",
               json_uint_at(&ahead, "epoch"), json_str_at(&ahead, "state"),
               json_uint_at(&ahead, "position"), json_uint_at(&ahead, "length"));
    add_size(out, json_uint_at(&ahead, "held"));
    bytes_add_str(out, " kept of at most ");
    add_size(out, json_uint_at(&ahead, "budget"));
    bytes_add_char(out, '\n');
}

static void add_pending(struct bytes *out, const struct json *s)
{
    struct json pending = json_get(s, "pending");
    if (!pending.node)
        return;
    bytes_addf(out, "  commit    %s\n  pending   ", json_str_at(s, "commit"));
    if (json_uint_at(&pending, "files"))
        pending_text(&pending, out);
    else
        bytes_add_str(out, "nothing");
    bytes_add_char(out, '\n');
}

static void add_full(struct bytes *out, const struct json *s)
{
    struct json set = json_get(s, "set"), cache = json_get(s, "cache");
    struct json memory = json_get(s, "memory"), warmup = json_get(s, "warmup");
    char up[32];
    conf_format_duration(json_num_at(s, "uptime_s"), up);
    bytes_addf(out, "%s  %s\n", json_str_at(s, "mountpoint"), json_str_at(s, "uri"));
    bytes_addf(out, "  state     %s, up %s, pid %" PRIu64 "\n", json_str_at(s, "state"), up,
               json_uint_at(s, "pid"));
    add_keeper(out, s);
    bytes_addf(out, "  mode      %s, profile %s\n", json_str_at(s, "mode"),
               json_str_at(s, "profile"));
    if (*json_str_at(s, "mode_why"))
        bytes_addf(out, "            %s\n", json_str_at(s, "mode_why"));
    bytes_addf(out, "  set       %" PRIu64 " samples, ", json_uint_at(&set, "samples"));
    add_size(out, json_uint_at(&set, "bytes"));
    bytes_addf(out, ", %" PRIu64 " folders, version %.12s\n", json_uint_at(&set, "folders"),
               json_str_at(s, "version"));
    add_arriving(out, s);
    bytes_addf(out, "  cache     %" PRIu64 " samples (%.1f %%), ", json_uint_at(&cache, "samples"),
               percent(json_num_at(&cache, "samples"), json_num_at(&set, "samples")));
    add_size(out, json_uint_at(&cache, "bytes"));
    bytes_add_char(out, '\n');
    add_tiers(out, &cache);
    add_share(out, s);
    add_reads(out, s);
    bytes_add_str(out, "  memory    ");
    add_size(out, json_uint_at(&memory, "resident"));
    bytes_add_str(out, " of ");
    add_size(out, json_uint_at(&memory, "limit"));
    bytes_addf(out, "\n  warmup    %s", json_str_at(&warmup, "state"));
    if (strcmp(json_str_at(&warmup, "state"), "idle") != 0)
        bytes_addf(out, ", %.1f %%, %" PRIu64 " of %" PRIu64 " samples, %" PRIu64 " failed",
                   json_num_at(&warmup, "percent"), json_uint_at(&warmup, "samples_done"),
                   json_uint_at(&warmup, "samples_total"), json_uint_at(&warmup, "failed"));
    bytes_add_char(out, '\n');
    add_stale(out, s);
    add_pending(out, s);
}

static void add_line(struct bytes *out, const struct control_mount *m, const struct json *s)
{
    char bytes[32];
    struct json set = json_get(s, "set"), cache = json_get(s, "cache");
    conf_format_size(json_uint_at(&set, "bytes"), bytes);
    bytes_addf(out, "%-28s %-10s %10" PRIu64 " %10s %7.1f %8d  %s\n", m->mountpoint,
               json_str_at(s, "state"), json_uint_at(&set, "samples"), bytes,
               percent(json_num_at(&cache, "samples"), json_num_at(&set, "samples")), m->pid,
               m->uri);
}

/* --- asking ----------------------------------------------------------------------------------- */

/* One mount, in one of the three forms. */
static int show(const struct control_mount *m, bool json, bool full, struct bytes *out,
                struct err *err)
{
    cleanup_json struct json_doc *answer = NULL;
    if (ask_status(m, &answer, err))
        return err_wrap(err, "%s", m->mountpoint);
    struct json root = json_root(answer), status = json_get(&root, "status");
    if (json) {
        json_text(&status, out);
        bytes_add_char(out, '\n');
    } else if (full) {
        add_full(out, &status);
    } else {
        add_line(out, m, &status);
    }
    return 0;
}

static void show_silent(const struct control_mount *m, bool json, struct bytes *out)
{
    if (json)
        silent_json(m, out);
    else
        bytes_addf(out, "%-28s %-10s %10s %10s %7s %8d  %s (%s)\n", m->mountpoint,
                   m->alive ? "recovering" : "dead", "-", "-", "-",
                   m->recovering ? m->keeper_pid : m->pid, m->uri,
                   m->alive ? "its daemon is being started" : "sampan umount cleans up");
}

static int show_all(bool json, struct err *err)
{
    struct control_mount *mounts;
    size_t n;
    if (control_mounts(&mounts, &n, err))
        return -1;
    cleanup_bytes struct bytes out = {0};
    bytes_add(&out, "", 0);
    if (!json && n)
        bytes_addf(&out, "%-28s %-10s %10s %10s %7s %8s  %s\n", "MOUNTPOINT", "STATE", "SAMPLES",
                   "BYTES", "CACHED%", "PID", "URI");
    for (size_t i = 0; i < n; i++) {
        ask_wait_recovered(&mounts[i]);
        if (!mounts[i].alive || mounts[i].recovering || show(&mounts[i], json, false, &out, NULL))
            show_silent(&mounts[i], json, &out);
    }
    control_mounts_free(mounts, n);
    if (!json && !n)
        bytes_add_str(&out, "nothing is mounted\n");
    return print_out(&out, err);
}

static int run(const struct conf *conf, const void *options, struct err *err)
{
    const struct status_options *o = options;
    if (!conf_n_args(conf))
        return show_all(o->json, err);
    cleanup_mount struct control_mount m = {0};
    cleanup_bytes struct bytes out = {0};
    if (mount_of(conf_arg(conf, 0), &m, NULL, err))
        return -1;
    ask_wait_recovered(&m);
    if (m.recovering)
        show_silent(&m, o->json, &out);
    else if (show(&m, o->json, true, &out, err))
        return -1;
    return print_out(&out, err);
}

const struct command cmd_status = {
    .name = "status",
    .args = "[MOUNT]",
    .summary = "show every mount on this machine, or one in full",
    .about =
        "Without MOUNT one line a mount; with --json one object a line. The same object stands in "
        ".sampan/status.json of each mount. A mount whose process has died is \"recovering\" while "
        "its "
        "keeper starts the next one, \"degraded\" if none of them lives (why and since when are "
        "said), and \"dead\" without a keeper.",
    .max_args = 1,
    .rows = rows,
    .n_rows = COUNT(rows),
    .options_size = sizeof(struct status_options),
    .run = run,
};
