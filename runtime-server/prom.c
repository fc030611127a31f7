/*
 * /metrics: the server's own counters, and those of its mounts out of what their owners say. A row
 * of the table is a number in the owner's `stats` or `status`: a path into the JSON, a name, a help
 * text. What is more than one number (tiers, latencies, ratios) follows in functions of its own.
 */
#include <string.h>

#include "mem.h"
#include "server-internal.h"

struct row {
    const char *object,
        *field;                /* of `stats` and, failing that, of `status`; object NULL: its top */
    const char *name, *labels; /* labels: further ones, with their comma, or "" */
    const char *type, *help;   /* help NULL: the row above has the same name */
};

static const struct row rows[] = {
    {"reads", "total", "sampan_reads_total", "", "counter", "READs that reached the owner"},
    {"reads", "bytes", "sampan_read_bytes_total", "", "counter", "Bytes of those READs"},
    {"reads", "mem", "sampan_reads_by_source_total", ",source=\"mem\"", "counter",
     "READs by where their bytes were"},
    {"reads", "disk", "sampan_reads_by_source_total", ",source=\"disk\"", "counter", NULL},
    {"reads", "peer", "sampan_reads_by_source_total", ",source=\"peer\"", "counter", NULL},
    {"reads", "store", "sampan_reads_by_source_total", ",source=\"store\"", "counter", NULL},
    {"reads", "mem_bytes", "sampan_read_bytes_by_source_total", ",source=\"mem\"", "counter",
     "Bytes read, by where they were"},
    {"reads", "disk_bytes", "sampan_read_bytes_by_source_total", ",source=\"disk\"", "counter",
     NULL},
    {"reads", "peer_bytes", "sampan_read_bytes_by_source_total", ",source=\"peer\"", "counter",
     NULL},
    {"reads", "store_bytes", "sampan_read_bytes_by_source_total", ",source=\"store\"", "counter",
     NULL},
    {"reads", "pushed", "sampan_pushed_total", "", "counter",
     "Samples pushed into the page cache ahead of readers"},
    {"reads", "errors", "sampan_read_errors_total", "", "counter", "READs that failed"},
    {"reads", "corrupt_repaired", "sampan_corrupt_repaired_total", "", "counter",
     "Cached chunks that did not match their checksum and were fetched again"},
    {"fetch", "requests", "sampan_fetch_requests_total", "", "counter", "Requests to the store"},
    {"fetch", "bytes", "sampan_fetch_bytes_total", "", "counter", "Bytes received from the store"},
    {"fetch", "retries", "sampan_fetch_retries_total", "", "counter", "Requests tried again"},
    {"fetch", "hedges", "sampan_fetch_hedges_total", "", "counter",
     "Second requests sent because the first was slow"},
    {"fetch", "failures", "sampan_fetch_failures_total", "", "counter",
     "Requests that failed for good"},
    {"fetch", "mismatches", "sampan_fetch_mismatches_total", "", "counter",
     "Answers cut short, or whose bytes did not match their sum"},
    {"fetch", "in_flight", "sampan_fetch_in_flight", "", "gauge", "Requests under way"},
    {"fetch", "queued_ahead", "sampan_fetch_queued", "", "gauge", "Samples waiting to be fetched"},
    {"ahead", "outstanding", "sampan_ahead_outstanding", "", "gauge",
     "Samples on their way ahead of readers"},
    {"ahead", "window", "sampan_ahead_window", "", "gauge",
     "Samples of the order that may be fetched ahead now"},
    {"set", "samples", "sampan_set_samples", "", "gauge", "Samples of the set"},
    {"set", "bytes", "sampan_set_bytes", "", "gauge", "Bytes of the set"},
    {"refresh", "ago_s", "sampan_refresh_age_seconds", "", "gauge",
     "Time since the set was listed, if it was since the mount"},
    {"refresh", "failed", "sampan_refresh_failures", "", "gauge",
     "Listings since then that failed"},
    {"partition", "samples", "sampan_share_samples", "", "gauge",
     "Samples that this node is to keep"},
    {"partition", "bytes", "sampan_share_bytes", "", "gauge", "Bytes that this node is to keep"},
    {"cache", "samples", "sampan_cache_samples", "", "gauge", "Samples kept on this node"},
    {"cache", "bytes", "sampan_cache_bytes", "", "gauge", "Bytes kept on this node"},
    {"warmup", "samples_total", "sampan_warmup_samples", "", "gauge",
     "Samples of the last or the running warmup"},
    {"warmup", "samples_done", "sampan_warmup_samples_done", "", "gauge", "Of those, done"},
    {"warmup", "failed", "sampan_warmup_samples_failed", "", "gauge", "Of those, failed"},
    {"warmup", "percent", "sampan_warmup_progress_percent", "", "gauge",
     "How far it is; 100 only of one that is done and failed nowhere"},
    {"warmup", "eta_s", "sampan_warmup_eta_seconds", "", "gauge",
     "Time that it still needs; 0 if none runs"},
    {"memory", "resident", "sampan_resident_bytes", "", "gauge", "Memory of the owner"},
    {"memory", "limit", "sampan_resident_limit_bytes", "", "gauge", "What it is held to"},
    {"writes", "uploads", "sampan_uploads_total", "", "counter",
     "Files stored, of a mount that can be written"},
    {"writes", "uploaded_bytes", "sampan_uploaded_bytes_total", "", "counter", "Bytes of those"},
    {"writes", "upload_failures", "sampan_upload_failures_total", "", "counter",
     "Files that could not be stored at once"},
    {"pending", "files", "sampan_pending_files", "", "gauge", "Files not stored yet"},
    {"pending", "bytes", "sampan_pending_bytes", "", "gauge", "Bytes of those"},
    {NULL, "restarts", "sampan_owner_restarts_total", "", "counter",
     "Times that the keeper started the owner again"},
    {NULL, "uptime_s", "sampan_owner_uptime_seconds", "", "gauge", "Age of the owner's process"},
    {NULL, "stale", "sampan_stale_samples", "", "gauge",
     "Samples that changed at the source since the scan"},
};

/* What the owner of one mount said; NULL: it did not answer. */
struct seen {
    struct bytes label; /* mount="…" */
    struct json_doc *stats, *status;
};

static void add_label(struct bytes *out, const char *value)
{
    for (; *value; value++) {
        if (strchr("\"\\\n", *value))
            bytes_add_char(out, '\\');
        bytes_add_char(out, *value == '\n' ? 'n' : *value);
    }
}

static void add_head(struct bytes *out, const char *name, const char *type, const char *help)
{
    bytes_addf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static bool number_in(const struct json_doc *doc, const char *what, const struct row *row,
                      double *ret)
{
    if (!doc)
        return false;
    struct json root = json_root(doc), top = json_get(&root, what);
    if (!row->object)
        return json_num(&top, row->field, ret, NULL) == 0;
    struct json object = json_get(&top, row->object);
    return json_want_object(&object, NULL) == 0 && json_num(&object, row->field, ret, NULL) == 0;
}

/* One name's lines stand together, as the format wants: so a row goes over all mounts. */
static void add_row(struct bytes *out, const struct row *row, const struct seen *seen, size_t n)
{
    if (row->help)
        add_head(out, row->name, row->type, row->help);
    for (size_t i = 0; i < n; i++) {
        double value;
        if (number_in(seen[i].stats, "stats", row, &value) ||
            number_in(seen[i].status, "status", row, &value))
            bytes_addf(out, "%s{%s%s} %.17g\n", row->name, seen[i].label.data, row->labels, value);
    }
}

/* --- what is more than one number ------------------------------------------------------------- */

static void add_up(struct bytes *out, const struct seen *seen, size_t n)
{
    add_head(out, "sampan_mount_up", "gauge", "Does the mount's owner answer");
    for (size_t i = 0; i < n; i++)
        bytes_addf(out, "sampan_mount_up{%s} %d\n", seen[i].label.data, seen[i].status != NULL);
}

static double count_of(const struct seen *seen, const char *source)
{
    const struct row row = {.object = "reads", .field = source};
    double n = 0;
    number_in(seen->stats, "stats", &row, &n);
    return n;
}

static void add_hit_ratio(struct bytes *out, const struct seen *seen, size_t n)
{
    add_head(out, "sampan_hit_ratio", "gauge",
             "Share of READs answered from this node's cache, since the mount began");
    for (size_t i = 0; i < n; i++) {
        double local = count_of(&seen[i], "mem") + count_of(&seen[i], "disk");
        double all = local + count_of(&seen[i], "peer") + count_of(&seen[i], "store");
        if (all > 0)
            bytes_addf(out, "sampan_hit_ratio{%s} %.6f\n", seen[i].label.data, local / all);
    }
}

static void add_latency(struct bytes *out, const char *of, const char *name, const char *help,
                        const struct seen *seen, size_t n)
{
    add_head(out, name, "histogram", help);
    for (size_t i = 0; i < n; i++) {
        if (!seen[i].stats)
            continue;
        struct json root = json_root(seen[i].stats), stats = json_get(&root, "stats");
        struct json latency = json_get(&stats, "latency"), h = json_get(&latency, of);
        histogram_text(out, &h, name, seen[i].label.data);
    }
}

static void add_tier(struct bytes *out, const char *name, const char *field,
                     const struct seen *seen, const struct json *tier)
{
    const char *kind = "", *dir = "", *state = "";
    double value = 0;
    json_str(tier, "tier", &kind, NULL);
    json_str(tier, "dir", &dir, NULL);
    if (strcmp(field, "failed") == 0)
        value = json_str(tier, "state", &state, NULL) == 0 && strcmp(state, "failed") == 0;
    else
        json_num(tier, field, &value, NULL);
    bytes_addf(out, "%s{%s,tier=\"%s\",dir=\"", name, seen->label.data, kind);
    add_label(out, dir);
    bytes_addf(out, "\"} %.17g\n", value);
}

static void add_tiers(struct bytes *out, const struct seen *seen, size_t n)
{
    static const struct {
        const char *field, *name, *help;
    } of[] = {
        {"used", "sampan_tier_used_bytes", "Bytes below a tier's folder"},
        {"limit", "sampan_tier_limit_bytes", "What it may hold"},
        {"free", "sampan_tier_free_bytes", "Free space of the disk under it"},
        {"failed", "sampan_tier_failed", "1: it failed and is set aside"},
    };
    for (size_t k = 0; k < sizeof of / sizeof of[0]; k++) {
        add_head(out, of[k].name, "gauge", of[k].help);
        for (size_t i = 0; i < n; i++) {
            if (!seen[i].status)
                continue;
            struct json root = json_root(seen[i].status), status = json_get(&root, "status");
            struct json cache = json_get(&status, "cache"), tiers = json_get(&cache, "tiers");
            for (size_t t = 0; t < json_count(&tiers); t++) {
                struct json tier = json_at(&tiers, t);
                add_tier(out, of[k].name, of[k].field, &seen[i], &tier);
            }
        }
    }
}

/* --- of the server itself --------------------------------------------------------------------- */

static void add_jobs(struct bytes *out, struct server *s)
{
    uint64_t count[JOB_STATES];
    if (jobs_count(s->jobs, count, NULL))
        return;
    add_head(out, "sampan_jobs", "gauge", "Jobs by state");
    for (int i = 0; i < JOB_STATES; i++)
        bytes_addf(out, "sampan_jobs{state=\"%s\"} %llu\n", job_state_name((enum job_state)i),
                   (unsigned long long)count[i]);
}

static void add_members(struct bytes *out, struct server *s)
{
    add_head(out, "sampan_member_up", "gauge",
             "Does the server of this partition answer; missing where it was not asked yet");
    for (unsigned k = 0; k < members_partitions(s->members); k++) {
        enum member_state state = members_state(s->members, k, NULL, NULL);
        if (state != MEMBER_UNKNOWN)
            bytes_addf(out, "sampan_member_up{member=\"%u\"} %d\n", k, state == MEMBER_OK);
    }
}

static void add_clients(struct bytes *out, struct server *s)
{
    uint64_t connections, listeners;
    {
        ACQUIRE(&s->clients.lock);
        connections = s->clients.n;
    }
    {
        ACQUIRE(&s->events.lock);
        listeners = s->events.n_listeners;
    }
    add_head(out, "sampan_http_connections", "gauge", "Connections of clients");
    bytes_addf(out, "sampan_http_connections %llu\n", (unsigned long long)connections);
    add_head(out, "sampan_http_event_listeners", "gauge", "Of those, that listen to events");
    bytes_addf(out, "sampan_http_event_listeners %llu\n", (unsigned long long)listeners);
}

static void add_own(struct bytes *out, struct server *s)
{
    static const struct metric_row own[] = {
        {"sampan_http_requests_total", NULL, METRIC_COUNTER, offsetof(struct server, requests),
         "Requests to this server"},
        {"sampan_http_refused_total", NULL, METRIC_COUNTER, offsetof(struct server, refused),
         "Requests refused before they were looked at"},
        {"sampan_http_limited_total", NULL, METRIC_COUNTER, offsetof(struct server, limited),
         "Requests refused as their address asked too often"},
        {"sampan_http_timed_out_total", NULL, METRIC_COUNTER,
         offsetof(struct server, clients.timed_out),
         "Connections ended as a request or the taking of its answer took too long"},
        {"sampan_http_request_duration_seconds", NULL, METRIC_HISTOGRAM,
         offsetof(struct server, latency), "Time from a request's head to its answer"},
        {"sampan_http_failed_total", NULL, METRIC_COUNTER, offsetof(struct server, failed),
         "Requests answered with a status of 500 or more"},
        {"sampan_peer_requests_total", NULL, METRIC_COUNTER,
         offsetof(struct server, peers.requests), "Requests of other machines for samples"},
        {"sampan_peer_samples_total", NULL, METRIC_COUNTER, offsetof(struct server, peers.samples),
         "Samples sent to other machines"},
        {"sampan_peer_bytes_total", NULL, METRIC_COUNTER, offsetof(struct server, peers.bytes),
         "Bytes of those samples"},
    };
    metrics_text(out, own, sizeof own / sizeof own[0], s);
    add_clients(out, s);
    add_jobs(out, s);
    add_members(out, s);
}

static struct seen *look(const struct server *s)
{
    struct seen *seen = xcalloc(s->conf.n_mounts + 1, sizeof *seen);
    for (size_t i = 0; i < s->conf.n_mounts; i++) {
        bytes_add_str(&seen[i].label, "mount=\"");
        add_label(&seen[i].label, s->mounts[i]);
        bytes_add_char(&seen[i].label, '"');
        if (mount_look(s->mounts[i], "status", &seen[i].status, NULL) == 0)
            mount_look(s->mounts[i], "stats", &seen[i].stats, NULL);
    }
    return seen;
}

void serve_metrics(struct request *r, struct answer *a)
{
    struct server *s = r->server;
    size_t n = s->conf.n_mounts;
    struct seen *seen = look(s);
    add_up(&a->body, seen, n);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        add_row(&a->body, &rows[i], seen, n);
    add_hit_ratio(&a->body, seen, n);
    add_latency(&a->body, "reads", "sampan_read_duration_seconds", "Time to answer a READ", seen,
                n);
    add_latency(&a->body, "fetch", "sampan_fetch_duration_seconds",
                "Time of a request to the store", seen, n);
    add_tiers(&a->body, seen, n);
    add_own(&a->body, s);
    for (size_t i = 0; i < n; i++) {
        bytes_release(&seen[i].label);
        json_doc_free(seen[i].stats);
        json_doc_free(seen[i].status);
    }
    free(seen);
    a->status = 200;
    a->type = "text/plain; version=0.0.4; charset=utf-8";
}
