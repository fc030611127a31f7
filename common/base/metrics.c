/* Histograms, and the Prometheus text of a table of metrics. */
#include "metrics.h"

#include <inttypes.h>
#include <stdbool.h>
#include <string.h>

#include "json.h"

/*
 * Buckets: values below 8 ns have one each; above, the power of two and the three bits after the
 * leading one choose. 320 buckets reach 2^42 ns, more than an hour; longer ones share the last.
 */
static unsigned bucket_of(uint64_t ns)
{
    if (ns < 8)
        return (unsigned)ns;
    unsigned bits = 63 - (unsigned)__builtin_clzll(ns);
    unsigned b = (bits - 2) * 8 + (unsigned)(ns >> (bits - 3) & 7);
    return b < HISTOGRAM_BUCKETS ? b : HISTOGRAM_BUCKETS - 1;
}

/* The first value above the bucket. */
static uint64_t bucket_end(unsigned b)
{
    if (b < 8)
        return b + 1;
    unsigned bits = b / 8 + 2;
    return ((uint64_t)(b % 8) + 9) << (bits - 3);
}

void histogram_add(struct histogram *h, uint64_t ns)
{
    counter_add(&h->buckets[bucket_of(ns)], 1);
    counter_add(&h->count, 1);
    counter_add(&h->sum_ns, ns);
    uint64_t max = counter_get(&h->max_ns);
    while (ns > max && !atomic_compare_exchange_weak_explicit(
                           &h->max_ns, &max, ns, memory_order_relaxed, memory_order_relaxed))
        ;
}

uint64_t histogram_quantile_ns(const struct histogram *h, double q)
{
    uint64_t n = 0;
    for (unsigned b = 0; b < HISTOGRAM_BUCKETS; b++)
        n += counter_get(&h->buckets[b]);
    if (n == 0)
        return 0;
    double wanted = q * (double)n;
    uint64_t max = counter_get(&h->max_ns), seen = 0;
    for (unsigned b = 0; b < HISTOGRAM_BUCKETS; b++) {
        seen += counter_get(&h->buckets[b]);
        if (seen && (double)seen >= wanted) {
            uint64_t end = bucket_end(b) - 1; /* the largest value that falls into it */
            return end < max ? end : max;
        }
    }
    return max;
}

/* --- text ------------------------------------------------------------------------------------- */

static const char *kind_name(enum metric_kind kind)
{
    return kind == METRIC_COUNTER ? "counter" : kind == METRIC_GAUGE ? "gauge" : "histogram";
}

/* Prometheus gets one bucket a power of four from 1 us on: fine enough to see, cheap to keep. */
#define FIRST_BITS 10
#define LAST_BITS  36
#define N_BELOW    ((LAST_BITS - FIRST_BITS) / 2 + 1)

/* Values shorter than each bound; returns how many there are at all. */
static uint64_t count_below(const struct histogram *h, uint64_t ret[N_BELOW])
{
    uint64_t seen = 0;
    unsigned b = 0;
    for (unsigned i = 0; i < N_BELOW; i++) {
        for (; b < HISTOGRAM_BUCKETS && bucket_end(b) <= 1ull << (FIRST_BITS + 2 * i); b++)
            seen += counter_get(&h->buckets[b]);
        ret[i] = seen;
    }
    for (; b < HISTOGRAM_BUCKETS; b++)
        seen += counter_get(&h->buckets[b]);
    return seen;
}

static void add_buckets(struct bytes *out, const char *name, const char *labels,
                        const uint64_t below[N_BELOW], uint64_t count, double sum_ns)
{
    const char *comma = *labels ? "," : "";
    const char *open = *labels ? "{" : "", *close = *labels ? "}" : "";
    for (unsigned i = 0; i < N_BELOW; i++)
        bytes_addf(out, "%s_bucket{%s%sle=\"%.9g\"} %" PRIu64 "\n", name, labels, comma,
                   (double)(1ull << (FIRST_BITS + 2 * i)) / 1e9, below[i]);
    bytes_addf(out, "%s_bucket{%s%sle=\"+Inf\"} %" PRIu64 "\n", name, labels, comma, count);
    bytes_addf(out, "%s_sum%s%s%s %.9g\n", name, open, labels, close, sum_ns / 1e9);
    bytes_addf(out, "%s_count%s%s%s %" PRIu64 "\n", name, open, labels, close, count);
}

static void add_histogram(struct bytes *out, const struct metric_row *row,
                          const struct histogram *h)
{
    uint64_t below[N_BELOW], count = count_below(h, below);
    add_buckets(out, row->name, row->labels ? row->labels : "", below, count,
                (double)counter_get(&h->sum_ns));
}

void histogram_write(const struct histogram *h, struct json_writer *w, const char *key)
{
    uint64_t below[N_BELOW], count = count_below(h, below);
    jw_object(w, key);
    jw_uint(w, "count", count);
    jw_uint(w, "sum_ns", counter_get(&h->sum_ns));
    jw_array(w, "below");
    for (unsigned i = 0; i < N_BELOW; i++)
        jw_uint(w, NULL, below[i]);
    jw_end(w);
    jw_end(w);
}

void histogram_text(struct bytes *out, const struct json *h, const char *name, const char *labels)
{
    uint64_t below[N_BELOW];
    int64_t n, count;
    double sum_ns;
    struct json list = json_get(h, "below");
    if (json_count(&list) != N_BELOW || json_num(h, "sum_ns", &sum_ns, NULL) ||
        json_int(h, "count", 0, INT64_MAX, &count, NULL))
        return; /* of another version: rather none than a wrong one */
    for (unsigned i = 0; i < N_BELOW; i++) {
        struct json item = json_at(&list, i);
        if (json_as_int(&item, 0, INT64_MAX, &n, NULL))
            return;
        below[i] = (uint64_t)n;
    }
    add_buckets(out, name, labels, below, (uint64_t)count, sum_ns);
}

void metrics_text(struct bytes *out, const struct metric_row *rows, size_t n, const void *base)
{
    for (size_t i = 0; i < n; i++) {
        const struct metric_row *row = &rows[i];
        /* Rows of one name stand together and share one header. */
        if (i == 0 || strcmp(rows[i - 1].name, row->name) != 0)
            bytes_addf(out, "# HELP %s %s\n# TYPE %s %s\n", row->name, row->help, row->name,
                       kind_name(row->kind));
        const void *at = (const char *)base + row->offset;
        if (row->kind == METRIC_HISTOGRAM) {
            add_histogram(out, row, at);
            continue;
        }
        bytes_addf(out, "%s%s%s%s %" PRIu64 "\n", row->name, row->labels ? "{" : "",
                   row->labels ? row->labels : "", row->labels ? "}" : "",
                   counter_get((const counter *)at));
    }
}
