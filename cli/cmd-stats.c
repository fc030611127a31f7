/* stats: rates of a running mount, one line an interval. */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <time.h>

#include "cli-internal.h"
#include "clock.h"

struct stats_options {
    uint64_t interval;
    int64_t count;
    bool json;
};

static const struct conf_row rows[] = {
    {"interval", CONF_DURATION, AT(stats_options, interval), .arg = "DUR", .dflt = "1s",
     .min = 10 * NS_PER_MS, .help = "Time between two lines"},
    {"count", CONF_INT, AT(stats_options, count), .arg = "N", .dflt = "0", .min = 0,
     .max = INT32_MAX, .help = "End after so many lines; 0: go on until interrupted"},
    JSON_ROW(stats_options, json),
};

#define HEADER_EVERY 20

static const char *const sources[] = {"mem", "disk", "peer", "store", "pushed", "errors"};

static int take(const struct control_mount *m, struct json_doc **ret, struct err *err)
{
    cleanup_bytes struct bytes request = {0};
    struct json_writer w;
    ask_begin(&w, &request, "stats");
    return ask_within(m, ASK_PATIENCE_S, &w, &request, ret, err);
}

static double grown(const struct json *before, const struct json *after, const char *object,
                    const char *key, double seconds)
{
    struct json a = json_get(before, object), b = json_get(after, object);
    uint64_t x = json_uint_at(&a, key), y = json_uint_at(&b, key);
    return y > x && seconds > 0 ? (double)(y - x) / seconds : 0;
}

static void add_json(struct bytes *out, const struct json *before, const struct json *after,
                     double s)
{
    struct json fetch = json_get(after, "fetch"), latency = json_get(after, "latency");
    struct json memory = json_get(after, "memory"), cache = json_get(after, "cache");
    struct json_writer w;
    jw_init(&w, out);
    jw_object(&w, NULL);
    jw_num(&w, "seconds", s);
    jw_object(&w, "reads");
    jw_num(&w, "per_s", grown(before, after, "reads", "total", s));
    jw_num(&w, "bytes_per_s", grown(before, after, "reads", "bytes", s));
    for (size_t i = 0; i < COUNT(sources); i++)
        jw_num(&w, sources[i], grown(before, after, "reads", sources[i], s));
    jw_end(&w);
    jw_object(&w, "fetch");
    jw_num(&w, "requests_per_s", grown(before, after, "fetch", "requests", s));
    jw_num(&w, "bytes_per_s", grown(before, after, "fetch", "bytes", s));
    jw_uint(&w, "in_flight", json_uint_at(&fetch, "in_flight"));
    jw_uint(&w, "queued_ahead", json_uint_at(&fetch, "queued_ahead"));
    jw_end(&w);
    jw_object(&w, "latency");
    jw_num(&w, "p50_us", json_num_at(&latency, "p50_us"));
    jw_num(&w, "p99_us", json_num_at(&latency, "p99_us"));
    jw_end(&w);
    jw_uint(&w, "cached_samples", json_uint_at(&cache, "samples"));
    jw_uint(&w, "resident", json_uint_at(&memory, "resident"));
    jw_end(&w);
    bytes_add_char(out, '\n');
}

static void add_line(struct bytes *out, const struct json *before, const struct json *after,
                     double s, int64_t number)
{
    if (number % HEADER_EVERY == 0)
        bytes_addf(out, "%9s %11s %9s %9s %9s %9s %9s %9s %7s %11s %9s %9s\n", "reads/s", "bytes/s",
                   "mem/s", "disk/s", "peer/s", "store/s", "pushed/s", "errors/s", "flight",
                   "fetched/s", "p50 us", "p99 us");
    char read[32], fetched[32];
    struct json fetch = json_get(after, "fetch"), latency = json_get(after, "latency");
    conf_format_size((uint64_t)grown(before, after, "reads", "bytes", s), read);
    conf_format_size((uint64_t)grown(before, after, "fetch", "bytes", s), fetched);
    bytes_addf(
        out, "%9.0f %11s %9.0f %9.0f %9.0f %9.0f %9.0f %9.0f %7" PRIu64 " %11s %9.0f %9.0f\n",
        grown(before, after, "reads", "total", s), read, grown(before, after, "reads", "mem", s),
        grown(before, after, "reads", "disk", s), grown(before, after, "reads", "peer", s),
        grown(before, after, "reads", "store", s), grown(before, after, "reads", "pushed", s),
        grown(before, after, "reads", "errors", s), json_uint_at(&fetch, "in_flight"), fetched,
        json_num_at(&latency, "p50_us"), json_num_at(&latency, "p99_us"));
}

static void pause_for(uint64_t ns)
{
    struct timespec t = {.tv_sec = (time_t)(ns / NS_PER_S), .tv_nsec = (long)(ns % NS_PER_S)};
    nanosleep(&t, NULL);
}

static int run(const struct conf *conf, const void *options, struct err *err)
{
    const struct stats_options *o = options;
    cleanup_mount struct control_mount m = {0};
    cleanup_json struct json_doc *before = NULL;
    if (mount_of(conf_arg(conf, 0), &m, NULL, err) || take(&m, &before, err))
        return -1;
    signal(SIGPIPE, SIG_IGN);
    uint64_t then = clock_mono_ns();
    for (int64_t i = 0; !o->count || i < o->count; i++) {
        pause_for(o->interval);
        cleanup_json struct json_doc *after = NULL;
        if (take(&m, &after, err))
            return -1;
        uint64_t now = clock_mono_ns();
        double s = (double)(now - then) / NS_PER_S;
        struct json x = json_root(before), y = json_root(after);
        struct json a = json_get(&x, "stats"), b = json_get(&y, "stats");
        cleanup_bytes struct bytes out = {0};
        if (o->json)
            add_json(&out, &a, &b, s);
        else
            add_line(&out, &a, &b, s, i);
        if (print_out(&out, err))
            return err->sys == EPIPE ? 0 : -1; /* who watched has seen enough */
        struct json_doc *old = before;
        before = take_ptr(&after);
        json_doc_free(old);
        then = now;
    }
    return 0;
}

const struct command cmd_stats = {
    .name = "stats",
    .args = "MOUNT",
    .summary = "show rates by source, latency and queue of a mount",
    .about =
        "One line an interval. Reads that the kernel answers from its page cache reach no one and "
        "are not counted.",
    .min_args = 1,
    .max_args = 1,
    .rows = rows,
    .n_rows = COUNT(rows),
    .options_size = sizeof(struct stats_options),
    .run = run,
};
