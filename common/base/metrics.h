/*
 * Counters, gauges and latency histograms declared in a table, so that the Prometheus text, the
 * help and the names never drift apart. Updating is one relaxed atomic add.
 */
#ifndef SAMPAN_BASE_METRICS_H
#define SAMPAN_BASE_METRICS_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "buf.h"

typedef _Atomic uint64_t counter;

static inline void counter_add(counter *c, uint64_t n)
{
    atomic_fetch_add_explicit(c, n, memory_order_relaxed);
}
static inline uint64_t counter_get(const counter *c)
{
    return atomic_load_explicit(c, memory_order_relaxed);
}

/* Log-linear buckets: 8 for each power of two of nanoseconds, good to 12 %. */
#define HISTOGRAM_BUCKETS 320
struct histogram {
    counter buckets[HISTOGRAM_BUCKETS];
    counter count;
    counter sum_ns;
    counter max_ns;
};
void histogram_add(struct histogram *h, uint64_t ns);
uint64_t histogram_quantile_ns(const struct histogram *h, double q); /* 0 if empty */

/* For others to tell of it: {"count","sum_ns","below":[n, …]}, n values shorter than 2^10, 2^12 …
 * 2^36 ns; and that object as Prometheus text. `labels` with its braces' inside, or "". */
struct json;
struct json_writer;
void histogram_write(const struct histogram *h, struct json_writer *w, const char *key);
void histogram_text(struct bytes *out, const struct json *h, const char *name, const char *labels);

enum metric_kind { METRIC_COUNTER, METRIC_GAUGE, METRIC_HISTOGRAM };
struct metric_row {
    const char *name;   /* "sampan_reads_total" */
    const char *labels; /* "source=\"store\"" or NULL */
    enum metric_kind kind;
    size_t offset; /* of the counter (gauges too) or histogram in the module's struct */
    const char *help;
};
void metrics_text(struct bytes *out, const struct metric_row *rows, size_t n, const void *base);

#endif
