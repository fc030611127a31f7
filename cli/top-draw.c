/* Two looks as text: a screen, lines, or JSON. Pure. */
#include <inttypes.h>
#include <limits.h>
#include <string.h>

#include "top-internal.h"

#define BAR_WIDTH 24

static const char *const sources[] = {"mem", "disk", "peer", "store"};

/* One mount in both looks. */
struct pair {
    const struct top_frame *frame;
    struct json before, after;
    bool known; /* it was there before */
};

static struct pair pair_at(const struct top_frame *f, const struct json *mounts, size_t i)
{
    struct pair p = {.frame = f, .after = json_at(mounts, i)};
    const char *name = json_str_at(&p.after, "mountpoint");
    struct json old = json_get(&f->before, "mounts");
    for (size_t k = 0; k < json_count(&old) && !p.known; k++) {
        struct json m = json_at(&old, k);
        if (strcmp(json_str_at(&m, "mountpoint"), name) == 0) {
            p.before = m;
            p.before.parent = NULL; /* that of `old` does not outlive this call */
            p.known = true;
        }
    }
    p.after.parent = NULL;
    return p;
}

static uint64_t now(const struct pair *p, const char *object, const char *key)
{
    struct json o = json_get(&p->after, object);
    return json_uint_at(&o, key);
}

static double now_num(const struct pair *p, const char *object, const char *key)
{
    struct json o = json_get(&p->after, object);
    return json_num_at(&o, key);
}

static const char *now_str(const struct pair *p, const char *object, const char *key)
{
    const struct json o = json_get(&p->after, object);
    const char *text = "";
    return json_str(&o, key, &text, NULL) ? "" : text;
}

/* A second; a counter that went back began anew. */
static double rate(const struct pair *p, const char *object, const char *key)
{
    struct json a = json_get(&p->before, object);
    uint64_t x = p->known ? json_uint_at(&a, key) : 0, y = now(p, object, key);
    return p->known && y > x && p->frame->seconds > 0 ? (double)(y - x) / p->frame->seconds : 0;
}

static bool warms(const struct pair *p)
{
    return strcmp(now_str(p, "warmup", "state"), "running") == 0;
}

/* Of the reads so far, in percent; -1: there were none. */
static double hits(const struct pair *p)
{
    double local = (double)(now(p, "reads", "mem") + now(p, "reads", "disk"));
    double all = local + (double)(now(p, "reads", "peer") + now(p, "reads", "store"));
    return all > 0 ? 100 * local / all : -1;
}

/* What this node is to keep. */
static uint64_t share(const struct pair *p)
{
    struct json part = json_get(&p->after, "partition");
    return json_want_object(&part, NULL) == 0 ? json_uint_at(&part, "samples")
                                              : now(p, "set", "samples");
}

/* Rounded down: 100 is said of what is whole, and of nothing else. */
static double percent(uint64_t part, uint64_t whole)
{
    double p = whole ? 100 * (double)part / (double)whole : 0;
    return part < whole && p > 99.9 ? 99.9 : p > 100 ? 100 : p;
}

/* --- the screen ------------------------------------------------------------------------------- */

static void add_bar(struct bytes *out, double of_100)
{
    size_t full = (size_t)(BAR_WIDTH * of_100 / 100);
    bytes_add_char(out, '[');
    for (size_t i = 0; i < BAR_WIDTH; i++)
        bytes_add_char(out, i < full ? '#' : '.');
    bytes_addf(out, "] %5.1f %%  ", of_100);
}

static void add_size(struct bytes *out, double n)
{
    char text[32];
    conf_format_size((uint64_t)n, text);
    bytes_add_str(out, text);
}

static void add_reads(struct bytes *out, const struct pair *p)
{
    bytes_addf(out, "  reads     %.0f/s, ", rate(p, "reads", "total"));
    add_size(out, rate(p, "reads", "bytes"));
    bytes_addf(out, "/s, p50 %.0f us, p99 %.0f us, %" PRIu64 " errors\n",
               now_num(p, "reads", "p50_us"), now_num(p, "reads", "p99_us"),
               now(p, "reads", "errors"));
    bytes_add_str(out, "  from      ");
    for (size_t i = 0; i < COUNT(sources); i++)
        bytes_addf(out, "%s %.0f/s   ", sources[i], rate(p, "reads", sources[i]));
    bytes_addf(out, "pushed %.0f/s\n", rate(p, "reads", "pushed"));
    if (hits(p) >= 0)
        bytes_addf(out, "  hits      %.1f %% local of %" PRIu64 " reads\n", hits(p),
                   now(p, "reads", "total"));
    bytes_addf(out, "  store     %.0f requests/s, ", rate(p, "fetch", "requests"));
    add_size(out, rate(p, "fetch", "bytes"));
    bytes_addf(out, "/s, %" PRIu64 " under way, %" PRIu64 " waiting\n",
               now(p, "fetch", "in_flight"), now(p, "fetch", "queued_ahead"));
}

static void add_tiers(struct bytes *out, const struct pair *p)
{
    struct json cache = json_get(&p->after, "cache"), tiers = json_get(&cache, "tiers");
    for (size_t i = 0; i < json_count(&tiers); i++) {
        struct json t = json_at(&tiers, i);
        const char *state = json_str_at(&t, "state");
        bytes_addf(out, "  %-9s ", json_str_at(&t, "tier"));
        add_bar(out, percent(json_uint_at(&t, "used"), json_uint_at(&t, "limit")));
        add_size(out, json_num_at(&t, "used"));
        bytes_add_str(out, " of ");
        add_size(out, json_num_at(&t, "limit"));
        bytes_addf(out, "%s%s%s%s\n", strcmp(state, "ok") == 0 ? "" : ", ",
                   strcmp(state, "ok") == 0 ? "" : state, *json_str_at(&t, "why") ? ": " : "",
                   json_str_at(&t, "why"));
    }
}

static void add_warmup(struct bytes *out, const struct pair *p)
{
    const char *state = now_str(p, "warmup", "state");
    if (strcmp(state, "idle") == 0 || !*state)
        return;
    bytes_add_str(out, "  warmup    ");
    add_bar(out, now_num(p, "warmup", "percent"));
    bytes_addf(out, "%" PRIu64 " of %" PRIu64, now(p, "warmup", "samples_done"),
               now(p, "warmup", "samples_total"));
    if (warms(p)) {
        char left[32];
        conf_format_duration(now_num(p, "warmup", "eta_s"), left);
        bytes_addf(out, ", %.0f/s, %s left", rate(p, "warmup", "samples_done"), left);
    } else {
        bytes_addf(out, ", %s", state);
    }
    if (now(p, "warmup", "failed"))
        bytes_addf(out, ", %" PRIu64 " failed", now(p, "warmup", "failed"));
    bytes_add_char(out, '\n');
}

static void add_mount(struct bytes *out, const struct pair *p)
{
    char up[32];
    conf_format_duration(json_num_at(&p->after, "uptime_s"), up);
    bytes_addf(out, "%s  %s  %s, up %s\n", json_str_at(&p->after, "mountpoint"),
               json_str_at(&p->after, "uri"), json_str_at(&p->after, "state"), up);
    if (*json_str_at(&p->after, "error"))
        bytes_addf(out, "  %s\n", json_str_at(&p->after, "error"));
    struct json set = json_get(&p->after, "set");
    if (json_want_object(&set, NULL))
        return;
    add_reads(out, p);
    bytes_add_str(out, "  cached    ");
    add_bar(out, percent(now(p, "cache", "samples"), share(p)));
    char samples[64];
    conf_format_count(share(p), "sample", samples);
    bytes_addf(out, "%" PRIu64 " of %s, ", now(p, "cache", "samples"), samples);
    add_size(out, now_num(p, "cache", "bytes"));
    bytes_add_char(out, '\n');
    add_tiers(out, p);
    add_warmup(out, p);
}

static void add_jobs(struct bytes *out, const struct top_frame *f)
{
    struct json jobs = json_get(&f->after, "jobs");
    if (json_count(&jobs))
        bytes_add_str(out, "\njobs\n");
    for (size_t i = 0; i < json_count(&jobs); i++) {
        struct json j = json_at(&jobs, i), progress = json_get(&j, "progress");
        bytes_addf(out, "  %-9s ", json_str_at(&j, "type"));
        add_bar(out, json_num_at(&progress, "percent"));
        bytes_addf(out, "%s, %s\n", json_str_at(&j, "id"), json_str_at(&j, "state"));
    }
}

/* Lines cut to the width, at most so many; what is no text becomes '?', so that no name of a file
 * or a mount speaks to the terminal. */
static void add_cut(struct bytes *out, const struct bytes *text, unsigned width, unsigned height)
{
    const char *at = text->data ? text->data : "", *end = at + text->len;
    for (unsigned line = 0; line < height && at < end; line++) {
        if (line)
            bytes_add_char(out, '\n');
        unsigned column = 0;
        for (; at < end && *at != '\n'; at++) {
            bool goes_on = ((unsigned char)*at & 0xc0) == 0x80; /* of a UTF-8 character */
            column += !goes_on;
            if (column <= width)
                bytes_add_char(out, (unsigned char)*at < ' ' || *at == 0x7f ? '?' : *at);
        }
        at += at < end;
    }
}

void top_screen(const struct top_frame *f, unsigned width, unsigned height, struct bytes *out)
{
    cleanup_bytes struct bytes text = {0};
    struct json mounts = json_get(&f->after, "mounts");
    bytes_addf(&text, "sampan top   %s   q ends\n", f->title);
    for (size_t i = 0; i < json_count(&mounts); i++) {
        struct pair p = pair_at(f, &mounts, i);
        bytes_add_char(&text, '\n');
        add_mount(&text, &p);
    }
    if (!json_count(&mounts))
        bytes_add_str(&text, "\nnothing is mounted\n");
    add_jobs(&text, f);
    add_cut(out, &text, width, height);
}

/* --- lines and JSON --------------------------------------------------------------------------- */

void top_lines(const struct top_frame *f, bool header, struct bytes *ret)
{
    cleanup_bytes struct bytes text = {0};
    struct bytes *out = &text;
    struct json mounts = json_get(&f->after, "mounts");
    if (header)
        bytes_addf(out, "%9s %11s %9s %9s %9s %9s %9s %7s %8s %8s  %s\n", "reads/s", "bytes/s",
                   "mem/s", "disk/s", "peer/s", "store/s", "pushed/s", "hits %", "cached %",
                   "warmup %", "mount");
    for (size_t i = 0; i < json_count(&mounts); i++) {
        struct pair p = pair_at(f, &mounts, i);
        char bytes[32], hit[16] = "-", warm[16] = "-";
        conf_format_size((uint64_t)rate(&p, "reads", "bytes"), bytes);
        if (hits(&p) >= 0)
            snprintf(hit, sizeof hit, "%.1f", hits(&p));
        if (warms(&p))
            snprintf(warm, sizeof warm, "%.1f", now_num(&p, "warmup", "percent"));
        bytes_addf(out, "%9.0f %11s", rate(&p, "reads", "total"), bytes);
        for (size_t k = 0; k < COUNT(sources); k++)
            bytes_addf(out, " %9.0f", rate(&p, "reads", sources[k]));
        bytes_addf(out, " %9.0f %7s %8.1f %8s  %s\n", rate(&p, "reads", "pushed"), hit,
                   percent(now(&p, "cache", "samples"), share(&p)), warm,
                   json_str_at(&p.after, "mountpoint"));
    }
    add_cut(ret, &text, UINT_MAX, UINT_MAX);
    if (text.len)
        bytes_add_char(ret, '\n');
}

static void write_rates(struct json_writer *w, const struct pair *p)
{
    jw_object(w, "reads");
    jw_num(w, "per_s", rate(p, "reads", "total"));
    jw_num(w, "bytes_per_s", rate(p, "reads", "bytes"));
    for (size_t k = 0; k < COUNT(sources); k++)
        jw_num(w, sources[k], rate(p, "reads", sources[k]));
    jw_num(w, "pushed", rate(p, "reads", "pushed"));
    jw_num(w, "errors", rate(p, "reads", "errors"));
    jw_end(w);
    jw_object(w, "fetch");
    jw_num(w, "requests_per_s", rate(p, "fetch", "requests"));
    jw_num(w, "bytes_per_s", rate(p, "fetch", "bytes"));
    jw_uint(w, "in_flight", now(p, "fetch", "in_flight"));
    jw_uint(w, "queued_ahead", now(p, "fetch", "queued_ahead"));
    jw_end(w);
}

/* A part of the status as it came; `null` where there is none. */
static void copy_part(struct json_writer *w, const struct pair *p, const char *key)
{
    struct json part = json_get(&p->after, key);
    cleanup_bytes struct bytes text = {0};
    if (part.node)
        json_text(&part, &text);
    jw_raw(w, key, part.node ? text.data : "null");
}

static void write_mount(struct json_writer *w, const struct pair *p)
{
    jw_object(w, NULL);
    jw_str(w, "mountpoint", json_str_at(&p->after, "mountpoint"));
    jw_str(w, "state", json_str_at(&p->after, "state"));
    write_rates(w, p);
    if (hits(p) >= 0)
        jw_num(w, "hit_ratio", hits(p) / 100);
    else
        jw_raw(w, "hit_ratio", "null");
    copy_part(w, p, "set");
    copy_part(w, p, "partition");
    copy_part(w, p, "cache");
    copy_part(w, p, "warmup");
    jw_end(w);
}

void top_json(const struct top_frame *f, struct bytes *out)
{
    struct json mounts = json_get(&f->after, "mounts"), jobs = json_get(&f->after, "jobs");
    cleanup_bytes struct bytes text = {0};
    struct json_writer w;
    jw_init(&w, out);
    jw_object(&w, NULL);
    jw_num(&w, "seconds", f->seconds);
    jw_array(&w, "mounts");
    for (size_t i = 0; i < json_count(&mounts); i++) {
        struct pair p = pair_at(f, &mounts, i);
        write_mount(&w, &p);
    }
    jw_end(&w);
    json_text(&jobs, &text);
    jw_raw(&w, "jobs", text.data);
    jw_end(&w);
    bytes_add_char(out, '\n');
}
