/*
 * /metrics: the server's own counters, and those of its mounts out of their `stats` and `status`,
 * each a row of one table: a path into the JSON, a name, a help text.
 */
#include <string.h>

#include "mem.h"
#include "server-internal.h"

struct row {
    const char *object, *field; /* of `stats`; object NULL: of the top */
    const char *name, *labels;  /* labels: further ones, with their comma, or "" */
    const char *type, *help;
};

static const struct row rows[] = {
    {"reads", "total", "sampan_reads_total", "", "counter", "READs that reached the owner"},
    {"reads", "bytes", "sampan_read_bytes_total", "", "counter", "Bytes of those READs"},
    {"reads", "mem", "sampan_reads_by_source_total", ",source=\"mem\"", "counter",
     "READs by where their bytes were"},
    {"reads", "disk", "sampan_reads_by_source_total", ",source=\"disk\"", "counter", NULL},
    {"reads", "peer", "sampan_reads_by_source_total", ",source=\"peer\"", "counter", NULL},
    {"reads", "store", "sampan_reads_by_source_total", ",source=\"store\"", "counter", NULL},
    {"reads", "pushed", "sampan_pushed_total", "", "counter",
     "Samples pushed into the page cache ahead of readers"},
    {"reads", "errors", "sampan_read_errors_total", "", "counter", "READs that failed"},
    {"fetch", "requests", "sampan_fetch_requests_total", "", "counter", "Requests to the store"},
    {"fetch", "bytes", "sampan_fetch_bytes_total", "", "counter", "Bytes received from the store"},
    {"fetch", "retries", "sampan_fetch_retries_total", "", "counter", "Requests tried again"},
    {"fetch", "failures", "sampan_fetch_failures_total", "", "counter",
     "Requests that failed for good"},
    {"fetch", "in_flight", "sampan_fetch_in_flight", "", "gauge", "Requests under way"},
    {"fetch", "queued_ahead", "sampan_fetch_queued", "", "gauge", "Samples waiting to be fetched"},
    {"latency", "p50_us", "sampan_read_latency_microseconds", ",quantile=\"0.5\"", "gauge",
     "Time to answer a READ"},
    {"latency", "p99_us", "sampan_read_latency_microseconds", ",quantile=\"0.99\"", "gauge", NULL},
    {"cache", "samples", "sampan_cache_samples", "", "gauge", "Samples kept on this node"},
    {"cache", "bytes", "sampan_cache_bytes", "", "gauge", "Bytes kept on this node"},
    {"memory", "resident", "sampan_resident_bytes", "", "gauge", "Memory of the owner"},
};

static void add_label(struct bytes *out, const char *value)
{
    for (; *value; value++) {
        if (*value == '"' || *value == '\\')
            bytes_add_char(out, '\\');
        bytes_add_char(out, *value == '\n' ? ' ' : *value);
    }
}

/* One name's lines stand together, as the format wants: so a row goes over all mounts. */
static void add_row(struct bytes *out, const struct row *row, const struct server *s,
                    struct json_doc *const *stats)
{
    if (row->help)
        bytes_addf(out, "# HELP %s %s\n# TYPE %s %s\n", row->name, row->help, row->name, row->type);
    for (size_t i = 0; i < s->conf.n_mounts; i++) {
        double value;
        if (!stats[i])
            continue;
        struct json root = json_root(stats[i]), top = json_get(&root, "stats");
        struct json object = json_get(&top, row->object);
        if (!json_has(&top, row->object) || json_num(&object, row->field, &value, NULL))
            continue;
        bytes_addf(out, "%s{mount=\"", row->name);
        add_label(out, s->mounts[i]);
        bytes_addf(out, "\"%s} %.17g\n", row->labels, value);
    }
}

static void add_up(struct bytes *out, const struct server *s, struct json_doc *const *stats)
{
    bytes_add_str(out, "# HELP sampan_mount_up Does the mount's owner answer\n"
                       "# TYPE sampan_mount_up gauge\n");
    for (size_t i = 0; i < s->conf.n_mounts; i++) {
        bytes_add_str(out, "sampan_mount_up{mount=\"");
        add_label(out, s->mounts[i]);
        bytes_addf(out, "\"} %d\n", stats[i] != NULL);
    }
}

static void add_jobs(struct bytes *out, struct server *s)
{
    uint64_t count[JOB_STATES];
    if (jobs_count(s->jobs, count, NULL))
        return;
    bytes_add_str(out, "# HELP sampan_jobs Jobs by state\n# TYPE sampan_jobs gauge\n");
    for (int i = 0; i < JOB_STATES; i++)
        bytes_addf(out, "sampan_jobs{state=\"%s\"} %llu\n", job_state_name((enum job_state)i),
                   (unsigned long long)count[i]);
}

void serve_metrics(struct request *r, struct answer *a)
{
    static const struct metric_row own[] = {
        {"sampan_http_requests_total", NULL, METRIC_COUNTER, offsetof(struct server, requests),
         "Requests to this server"},
        {"sampan_http_refused_total", NULL, METRIC_COUNTER, offsetof(struct server, refused),
         "Requests refused before they were looked at"},
        {"sampan_http_limited_total", NULL, METRIC_COUNTER, offsetof(struct server, limited),
         "Requests refused as their address asked too often"},
        {"sampan_http_timed_out_total", NULL, METRIC_COUNTER,
         offsetof(struct server, limits.timed_out),
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
    struct server *s = r->server;
    struct json_doc **stats = xcalloc(s->conf.n_mounts + 1, sizeof *stats);
    for (size_t i = 0; i < s->conf.n_mounts; i++)
        mount_ask(s->mounts[i], "stats", "", NULL, NULL, &stats[i], NULL);
    add_up(&a->body, s, stats);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        add_row(&a->body, &rows[i], s, stats);
    add_jobs(&a->body, s);
    metrics_text(&a->body, own, sizeof own / sizeof own[0], s);
    for (size_t i = 0; i < s->conf.n_mounts; i++)
        json_doc_free(stats[i]);
    free(stats);
    a->status = 200;
    a->type = "text/plain; version=0.0.4; charset=utf-8";
}
