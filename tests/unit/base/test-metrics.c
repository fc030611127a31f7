#include <criterion/criterion.h>
#include <stddef.h>
#include <string.h>

#include "json.h"
#include "metrics.h"

Test(metrics, quantiles_are_good_to_an_eighth)
{
    struct histogram h = {0};
    cr_expect_eq(histogram_quantile_ns(&h, 0.5), 0);
    for (uint64_t ns = 1; ns <= 100000; ns++)
        histogram_add(&h, ns * 10);
    for (int q = 1; q <= 99; q += 7) {
        double want = q * 10000.0, got = (double)histogram_quantile_ns(&h, q / 100.0);
        cr_expect(got >= want * 0.999 && got <= want * 1.126, "q %d: %f for %f", q, got, want);
    }
    cr_expect_eq(histogram_quantile_ns(&h, 1.0), 1000000);
    cr_expect_eq(counter_get(&h.count), 100000);
    cr_expect_eq(counter_get(&h.max_ns), 1000000);
}

Test(metrics, extremes_fit)
{
    struct histogram h = {0};
    histogram_add(&h, 0);
    histogram_add(&h, UINT64_MAX);
    cr_expect_eq(histogram_quantile_ns(&h, 0.1), 0);
    cr_expect_gt(histogram_quantile_ns(&h, 1.0), 1ull << 41);
}

struct counts {
    counter store, mem;
    counter in_flight;
    struct histogram latency;
};

Test(metrics, text)
{
    static const struct metric_row rows[] = {
        {"sampan_reads_total", "source=\"store\"", METRIC_COUNTER, offsetof(struct counts, store),
         "Reads by source"},
        {"sampan_reads_total", "source=\"mem\"", METRIC_COUNTER, offsetof(struct counts, mem),
         "Reads by source"},
        {"sampan_in_flight", NULL, METRIC_GAUGE, offsetof(struct counts, in_flight), "Now running"},
        {"sampan_latency_seconds", NULL, METRIC_HISTOGRAM, offsetof(struct counts, latency),
         "How long"},
    };
    struct counts c = {0};
    counter_add(&c.store, 3);
    counter_add(&c.in_flight, 2);
    histogram_add(&c.latency, 2000);
    histogram_add(&c.latency, 1000000000);
    struct bytes out = {0};
    metrics_text(&out, rows, 4, &c);
    static const char begin[] = "# HELP sampan_reads_total Reads by source\n"
                                "# TYPE sampan_reads_total counter\n"
                                "sampan_reads_total{source=\"store\"} 3\n"
                                "sampan_reads_total{source=\"mem\"} 0\n"
                                "# HELP sampan_in_flight Now running\n"
                                "# TYPE sampan_in_flight gauge\n"
                                "sampan_in_flight 2\n"
                                "# HELP sampan_latency_seconds How long\n"
                                "# TYPE sampan_latency_seconds histogram\n"
                                "sampan_latency_seconds_bucket{le=\"1.024e-06\"} 0\n"
                                "sampan_latency_seconds_bucket{le=\"4.096e-06\"} 1\n";
    cr_expect_eq(strncmp(out.data, begin, sizeof begin - 1), 0, "%s", out.data);
    cr_expect_not_null(strstr(out.data, "_bucket{le=\"+Inf\"} 2\nsampan_latency_seconds_sum "
                                        "1.000002\nsampan_latency_seconds_count 2\n"),
                       "%s", out.data);
    bytes_release(&out);
}

/* What another process tells of its histogram reads as our own. */
Test(metrics, a_histogram_told_as_json)
{
    static const struct metric_row row = {"sampan_x_seconds", "mount=\"/m\"", METRIC_HISTOGRAM, 0,
                                          "How long"};
    struct histogram h = {0};
    for (uint64_t ns = 1; ns < 1ull << 40; ns = ns * 3 + 1)
        histogram_add(&h, ns);
    struct bytes told = {0}, own = {0}, text = {0};
    struct json_writer w;
    struct json_doc *doc;
    struct err err;
    jw_init(&w, &told);
    histogram_write(&h, &w, NULL);
    cr_assert_eq(json_parse(&doc, "told", told.data, told.len, &err), 0, "%s", err.msg);
    struct json root = json_root(doc);
    metrics_text(&own, &row, 1, &h);
    histogram_text(&text, &root, "sampan_x_seconds", "mount=\"/m\"");
    const char *samples = strstr(own.data, "sampan_x_seconds_bucket");
    cr_expect_str_eq(text.data, samples);
    json_doc_free(doc);

    static const char *const others[] = {
        "{}", "{\"count\":1,\"sum_ns\":1,\"below\":[1]}",
        "{\"count\":-1,\"sum_ns\":1,\"below\":[0,0,0,0,0,0,0,0,0,0,0,0,0,0]}",
        "{\"count\":1,\"sum_ns\":1,\"below\":[0,0,0,\"x\",0,0,0,0,0,0,0,0,0,0]}"};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        bytes_clear(&text);
        cr_assert_eq(json_parse(&doc, "told", others[i], strlen(others[i]), &err), 0);
        root = json_root(doc);
        histogram_text(&text, &root, "x", "");
        cr_expect_eq(text.len, 0, "%s", others[i]);
        json_doc_free(doc);
    }
    bytes_release(&told);
    bytes_release(&own);
    bytes_release(&text);
}
