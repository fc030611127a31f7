/* status of one mount, as a text for people: from the object that --json prints. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cli-internal.h"
#include "pending-internal.h"
#include "program.h"

static void add_size(struct bytes *out, uint64_t n)
{
    char text[32];
    conf_format_size(n, text);
    bytes_add_str(out, text);
}

static void add_count(struct bytes *out, uint64_t n, const char *one)
{
    char text[64];
    conf_format_count(n, one, text);
    bytes_add_str(out, text);
}

double percent_of(double part, double whole)
{
    return whole > 0 ? 100 * part / whole : 0;
}

/* "SIZE of SIZE" */
static void add_part(struct bytes *out, const struct json *j, const char *part, const char *whole)
{
    add_size(out, json_uint_at(j, part));
    bytes_add_str(out, " of ");
    add_size(out, json_uint_at(j, whole));
}

static void add_tiers(struct bytes *out, const struct json *cache)
{
    struct json tiers = json_get(cache, "tiers");
    for (size_t i = 0; i < json_count(&tiers); i++) {
        struct json t = json_at(&tiers, i);
        bytes_addf(out, "            %s %s: ", json_str_at(&t, "tier"), json_str_at(&t, "dir"));
        add_part(out, &t, "used", "limit");
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
    bytes_add_str(out, "  fetch     ");
    add_count(out, json_uint_at(&fetch, "requests"), "request");
    bytes_add_str(out, ", ");
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
        add_one_line(out, "  stale     %s: %s", json_str_at(&object, "path"),
                     json_str_at(&object, "why"));
    }
}

/* Which version is served and why, which others are kept: as `set version=` takes them. */
static void add_version(struct bytes *out, const struct json *s)
{
    bool pinned = false, follows = false;
    json_bool_or(s, "pinned", false, &pinned, NULL);
    json_bool_or(s, "follows", false, &follows, NULL);
    cleanup_free char *at = shell_word(json_str_at(s, "mountpoint"));
    if (pinned && !follows)
        bytes_addf(out, "            pinned: it stays until `sampan set %s version=` lets it go\n",
                   at);
    if (follows)
        bytes_addf(out, "            that of the set's servers (--peers)%s%s%s\n",
                   pinned ? ", where it is pinned" : "", *json_str_at(s, "follows_why") ? ": " : "",
                   json_str_at(s, "follows_why"));
    struct json versions = json_get(s, "versions");
    for (size_t i = 1; i < json_count(&versions); i++) {
        struct json v = json_at(&versions, i);
        char ago[32];
        conf_format_duration((double)(time(NULL) - (time_t)json_uint_at(&v, "scanned_at")), ago);
        bytes_addf(out, "            also kept: %.12s, ", json_str_at(&v, "version"));
        add_count(out, json_uint_at(&v, "samples"), "sample");
        bytes_addf(out, ", scanned %s ago\n", ago);
    }
}

/* How old what is known of the source may be. */
static void add_refresh(struct bytes *out, const struct json *s)
{
    struct json refresh = json_get(s, "refresh");
    uint64_t failed = json_uint_at(&refresh, "failed");
    double every = json_num_at(&refresh, "every_s"), age;
    char text[32];
    if (every <= 0 && !failed)
        return;
    conf_format_duration(every, text);
    bytes_addf(out, "            listed %s%s", every > 0 ? "every " : "on demand",
               every > 0 ? text : "");
    bool known = json_num(&refresh, "ago_s", &age, NULL) == 0;
    if (known) {
        conf_format_duration(age, text);
        bytes_addf(out, ", the last time %s ago", text);
    }
    if (failed)
        bytes_addf(out, "; %s%" PRIu64 " failed: %s", known ? "since then " : "", failed,
                   json_str_at(&refresh, "why"));
    bytes_add_char(out, '\n');
}

#define PEERS_SHOWN 8

/* How many there are and what came from them; by name those that are not well. */
static void add_peers(struct bytes *out, const struct json *s)
{
    struct json peers = json_get(s, "peers");
    size_t n = json_count(&peers), unwell = 0;
    uint64_t samples = 0, bytes = 0;
    if (!n && !*json_str_at(s, "peers_why"))
        return;
    cleanup_bytes struct bytes lines = {0};
    bytes_add(&lines, "", 0);
    for (size_t i = 0; i < n; i++) {
        struct json p = json_at(&peers, i);
        const char *state = json_str_at(&p, "state"), *why = json_str_at(&p, "why");
        samples += json_uint_at(&p, "samples");
        bytes += json_uint_at(&p, "bytes");
        if (strcmp(state, "ok") == 0 || unwell++ >= PEERS_SHOWN)
            continue;
        bytes_addf(&lines, "            partition %" PRIu64 ", %s: %s%s%s\n",
                   json_uint_at(&p, "partition"), json_str_at(&p, "url"),
                   strcmp(state, "version") == 0 ? "not used" : state, *why ? ": " : "", why);
    }
    bytes_addf(out, "  peers     %zu known, %zu ok, ", n, n - unwell);
    add_count(out, samples, "sample");
    bytes_add_str(out, " (");
    add_size(out, bytes);
    bytes_addf(out, ") came from them\n%s", lines.data);
    if (unwell > PEERS_SHOWN)
        bytes_addf(out, "            and %zu more that are not ok\n", unwell - PEERS_SHOWN);
    if (*json_str_at(s, "peers_why"))
        bytes_addf(out, "            who they are cannot be asked: %s\n",
                   json_str_at(s, "peers_why"));
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
        add_one_line(out,
                     "  refused   %s of inode %" PRIu64 " at %" PRIu64 " %s: it killed %" PRIu64
                     " times",
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
    add_part(out, &arriving, "bytes", "total");
    bytes_addf(out, " are here%s%s\n", *json_str_at(&arriving, "why") ? ": " : "",
               json_str_at(&arriving, "why"));
}

/* What of the set is this node's, and the order to come. */
static void add_share(struct bytes *out, const struct json *s)
{
    struct json order = json_get(s, "order"), share = json_get(s, "partition");
    if (*json_str_at(&order, "sampler")) {
        bytes_addf(out, "  order     %s, ", json_str_at(&order, "sampler"));
        add_count(out, json_uint_at(&order, "length"), "sample");
        bytes_add_str(out, " here\n");
    }
    if (*json_str_at(&order, "error"))
        bytes_addf(out, "  order     cannot be used: %s\n", json_str_at(&order, "error"));
    if (!json_has(&share, "partitions"))
        return;
    bytes_addf(out, "  share     partition %" PRIu64 " of %" PRIu64 " (%s), ",
               json_uint_at(&share, "partition"), json_uint_at(&share, "partitions"),
               json_str_at(&share, "strategy"));
    add_count(out, json_uint_at(&share, "samples"), "sample");
    bytes_add_str(out, ", ");
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

static void add_set(struct bytes *out, const struct json *s)
{
    struct json set = json_get(s, "set");
    uint64_t bad = json_uint_at(&set, "bad_names");
    bytes_add_str(out, "  set       ");
    add_count(out, json_uint_at(&set, "samples"), "sample");
    bytes_add_str(out, ", ");
    add_size(out, json_uint_at(&set, "bytes"));
    bytes_add_str(out, ", ");
    add_count(out, json_uint_at(&set, "folders"), "folder");
    bytes_addf(out, ", version %.12s\n", json_str_at(s, "version"));
    if (bad) {
        bytes_add_str(out, "            not shown: ");
        add_count(out, bad, "object");
        bytes_add_str(out, " (see sampan doctor)\n");
    }
    add_refresh(out, s);
    add_version(out, s);
    add_arriving(out, s);
}

static void add_cache(struct bytes *out, const struct json *s)
{
    struct json cache = json_get(s, "cache"), set = json_get(s, "set");
    bytes_add_str(out, "  cache     ");
    add_count(out, json_uint_at(&cache, "samples"), "sample");
    bytes_addf(out, " (%.1f %%), ",
               percent_of(json_num_at(&cache, "samples"), json_num_at(&set, "samples")));
    add_size(out, json_uint_at(&cache, "bytes"));
    bytes_add_char(out, '\n');
    add_tiers(out, &cache);
}

static void add_warmup(struct bytes *out, const struct json *s)
{
    struct json warmup = json_get(s, "warmup");
    const char *error = json_str_at(&warmup, "error");
    double eta_s = json_num_at(&warmup, "eta_s");
    char left[32];
    bytes_addf(out, "  warmup    %s", json_str_at(&warmup, "state"));
    if (strcmp(json_str_at(&warmup, "state"), "idle") != 0) {
        bytes_addf(out, ", %.1f %%, %" PRIu64 " of ", json_num_at(&warmup, "percent"),
                   json_uint_at(&warmup, "samples_done"));
        add_count(out, json_uint_at(&warmup, "samples_total"), "sample");
        bytes_addf(out, ", %" PRIu64 " failed", json_uint_at(&warmup, "failed"));
    }
    if (eta_s > 0) {
        conf_format_duration(eta_s, left);
        bytes_addf(out, ", %s left", left);
    }
    bytes_addf(out, "%s%s\n", *error ? "\n            " : "", error);
}

/* Of a mount that can be written. */
static void add_staged(struct bytes *out, const struct json *s)
{
    struct json cache = json_get(s, "cache");
    bytes_add_str(out, "  cache     ");
    add_size(out, json_uint_at(&cache, "bytes"));
    bytes_add_char(out, '\n');
    add_tiers(out, &cache);
}

static void add_writes(struct bytes *out, const struct json *s)
{
    struct json writes = json_get(s, "writes"), pending = json_get(s, "pending");
    bytes_addf(out, "  writes    %" PRIu64 " (", json_uint_at(&writes, "total"));
    add_size(out, json_uint_at(&writes, "bytes"));
    bytes_addf(out, "), %" PRIu64 " uploads (", json_uint_at(&writes, "uploads"));
    add_size(out, json_uint_at(&writes, "uploaded_bytes"));
    bytes_addf(out, "), %" PRIu64 " failed, %" PRIu64 " deletes\n",
               json_uint_at(&writes, "upload_failures"), json_uint_at(&writes, "deletes"));
    bytes_addf(out, "  commit    %s\n  pending   ", json_str_at(s, "commit"));
    if (json_uint_at(&pending, "files"))
        pending_text(&pending, out);
    else
        bytes_add_str(out, "nothing");
    bytes_add_char(out, '\n');
}

void status_text(struct bytes *out, const struct json *s)
{
    struct json memory = json_get(s, "memory"), pending = json_get(s, "pending");
    char up[32];
    size_t at = out->len;
    conf_format_duration(json_num_at(s, "uptime_s"), up);
    add_one_line(out, "%s  %s", json_str_at(s, "mountpoint"), json_str_at(s, "uri"));
    bytes_addf(out, "  state     %s, up %s, pid %" PRIu64 "\n", json_str_at(s, "state"), up,
               json_uint_at(s, "pid"));
    add_keeper(out, s);
    bytes_addf(out, "  mode      %s, profile %s\n", json_str_at(s, "mode"),
               json_str_at(s, "profile"));
    if (*json_str_at(s, "mode_why"))
        bytes_addf(out, "            %s\n", json_str_at(s, "mode_why"));
    if (pending.node) {
        add_staged(out, s);
    } else {
        add_set(out, s);
        add_cache(out, s);
        add_share(out, s);
        add_peers(out, s);
    }
    add_reads(out, s);
    bytes_add_str(out, "  memory    ");
    add_part(out, &memory, "resident", "limit");
    bytes_add_char(out, '\n');
    if (pending.node) {
        add_writes(out, s);
    } else {
        add_warmup(out, s);
        add_stale(out, s);
    }
    disarm(out->data + at); /* what a store or another machine said, or how a folder is named */
}
