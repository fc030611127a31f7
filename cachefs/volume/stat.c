/* What a volume tells about itself: status, counters, objects that changed at the source. */
#include "volume-internal.h"

#include <math.h>
#include <stdio.h>

#include "clock.h"
#include "peer.h"

uint64_t process_resident(void)
{
    cleanup_file FILE *f = fopen("/proc/self/status", "re");
    char line[256];
    uint64_t kib = 0;
    while (f && fgets(line, sizeof line, f)) {
        unsigned long long n;
        if (sscanf(line, "RssAnon: %llu", &n) == 1 || sscanf(line, "RssShmem: %llu", &n) == 1)
            kib += n;
    }
    return kib << 10;
}

static const char *state_name(struct volume *v, bool scanning, const struct cache_stat *s)
{
    if (arrival_is_refused(v))
        return "degraded";
    for (size_t i = 0; i < s->n_tiers; i++)
        if (strcmp(s->tiers[i].state, "failed") == 0)
            return "degraded";
    return scanning ? "scanning" : "ready";
}

static void write_set(struct json_writer *w, const struct catalog_info *info)
{
    jw_object(w, "set");
    jw_uint(w, "samples", info->samples);
    jw_uint(w, "bytes", info->bytes);
    jw_uint(w, "folders", info->folders);
    jw_uint(w, "numbered", info->numbered);
    jw_uint(w, "bad_names", info->bad_names);
    jw_int(w, "scanned_at", info->scanned_at);
    jw_end(w);
}

static void write_cache(struct json_writer *w, const struct cache_stat *s)
{
    jw_object(w, "cache");
    jw_uint(w, "samples", s->samples);
    jw_uint(w, "bytes", s->bytes);
    jw_bool(w, "compressed", s->compressed);
    jw_num(w, "ratio", s->ratio);
    jw_uint(w, "index_bytes", s->index_bytes);
    jw_array(w, "tiers");
    for (size_t i = 0; i < s->n_tiers; i++) {
        const struct tier_stat *t = &s->tiers[i];
        jw_object(w, NULL);
        jw_str(w, "tier", tier_kind_name(t->kind));
        jw_str(w, "dir", t->dir);
        jw_uint(w, "limit", t->limit);
        jw_uint(w, "used", t->used);
        jw_uint(w, "free", t->free);
        jw_str(w, "state", t->state);
        jw_str(w, "why", t->why);
        jw_end(w);
    }
    jw_end(w);
    jw_end(w);
}

static double quantile_us(const struct histogram *h, double q)
{
    return (double)histogram_quantile_ns(h, q) / 1e3;
}

static void write_read_counts(struct json_writer *w, const struct read_counts *r)
{
    jw_uint(w, "total", counter_get(&r->total));
    jw_uint(w, "bytes", counter_get(&r->bytes));
    jw_uint(w, "mem", counter_get(&r->from[FROM_MEM]));
    jw_uint(w, "disk", counter_get(&r->from[FROM_DISK]));
    jw_uint(w, "peer", counter_get(&r->from[FROM_PEER]));
    jw_uint(w, "store", counter_get(&r->from[FROM_STORE]));
    jw_uint(w, "pushed", counter_get(&r->pushed));
    jw_uint(w, "errors", counter_get(&r->errors));
}

static void write_reads(struct volume *v, struct json_writer *w)
{
    jw_object(w, "reads");
    write_read_counts(w, &v->counts->reads);
    jw_uint(w, "corrupt_repaired", counter_get(&cache_counts(v->cache)->corrupt));
    jw_num(w, "p50_us", quantile_us(&v->counts->reads.latency, 0.50));
    jw_num(w, "p99_us", quantile_us(&v->counts->reads.latency, 0.99));
    jw_end(w);
}

static void write_fetch(struct volume *v, struct json_writer *w)
{
    const struct fetch_counts *n = fetch_counts(v->fetch);
    jw_object(w, "fetch");
    jw_uint(w, "requests", counter_get(&n->requests));
    jw_uint(w, "bytes", counter_get(&n->bytes));
    jw_uint(w, "retries", counter_get(&n->retries));
    jw_uint(w, "hedges", counter_get(&n->hedges));
    jw_uint(w, "failures", counter_get(&n->failures));
    jw_uint(w, "mismatches", counter_get(&n->mismatches));
    jw_uint(w, "in_flight", counter_get(&n->in_flight));
    jw_uint(w, "in_flight_max", counter_get(&n->in_flight_max));
    jw_uint(w, "queued_ahead", ahead_queued(v));
    jw_end(w);
}

static void write_memory(struct volume *v, struct json_writer *w)
{
    jw_object(w, "memory");
    jw_uint(w, "resident", process_resident());
    jw_uint(w, "limit", atomic_load(&v->memory));
    jw_uint(w, "pool_used", pool_used(v->pool) + pool_used(v->gather_pool));
    jw_uint(w, "pool_limit", pool_limit(v->pool) + pool_limit(v->gather_pool));
    jw_end(w);
}

/* 100 is said only of a warmup that is done and failed nowhere. */
static double percent_of(const struct warm_progress *p)
{
    if (p->state == WARM_DONE)
        return 100;
    double percent = warm_percent(p);
    return percent > 99.9 ? 99.9 : percent;
}

static double eta_of(const struct warm_progress *p)
{
    if (p->state != WARM_RUNNING || !p->work || p->work >= p->work_total)
        return 0;
    double elapsed = (double)(clock_mono_ns() - p->started_ns) / 1e9;
    return elapsed / (double)p->work * (double)(p->work_total - p->work);
}

static void write_warmup(struct json_writer *w, const struct warm_progress *p)
{
    static const char *const names[] = {"idle", "running", "done", "failed", "cancelled"};
    jw_object(w, "warmup");
    jw_str(w, "state", names[p->state]);
    jw_num(w, "percent", percent_of(p));
    jw_uint(w, "samples_done", p->done);
    jw_uint(w, "samples_total", p->total);
    jw_uint(w, "failed", p->failed);
    jw_num(w, "eta_s", eta_of(p));
    jw_str(w, "error", p->error);
    jw_end(w);
}

/* What is guarded by the volume's lock, taken at one moment. */
struct snapshot {
    struct warm_progress warm;
    bool scanning, has_spec;
    struct order_spec spec;
    uint64_t order_length, order_gen, n_stale;
    char order_error[256];
};

static void take_snapshot(struct volume *v, struct snapshot *s)
{
    ACQUIRE(&v->lock);
    s->warm = v->warm;
    s->scanning = v->scanning;
    s->has_spec = v->has_spec;
    s->spec = v->spec;
    s->order_length = v->order ? v->order->length : 0;
    s->order_gen = v->order_gen;
    s->n_stale = v->n_stale;
    memcpy(s->order_error, v->order_error, sizeof s->order_error);
}

static void write_order(struct json_writer *w, const struct snapshot *s)
{
    char text[1400] = "";
    if (s->has_spec)
        order_spec_print(&s->spec, text, sizeof text);
    jw_object(w, "order");
    jw_str(w, "sampler", text);
    jw_uint(w, "epoch", s->has_spec ? s->spec.epoch : 0);
    jw_uint(w, "length", s->order_length);
    jw_uint(w, "generation", s->order_gen);
    jw_str(w, "error", s->order_error);
    jw_end(w);
}

/* Those that the current version still has: a newer one took the others' places already. */
static void write_stale(struct catalog *now, struct json_writer *w, const struct stale_object *s)
{
    struct entry e;
    cleanup_bytes struct bytes path = {0};
    if (catalog_get(now, s->id, &e, NULL) || catalog_path(now, s->id, &path, NULL))
        return;
    jw_object(w, NULL);
    jw_uint(w, "id", s->id);
    jw_strn(w, "path", path.data, path.len);
    jw_str(w, "why", s->why);
    jw_num(w, "at", (double)s->at_ns / 1e9);
    jw_end(w);
}

/* The newest `most` of them, newest last. */
static void write_stale_objects(struct volume *v, struct json_writer *w, const char *name,
                                uint64_t most)
{
    struct stale_object *copy = xcalloc(most, sizeof *copy);
    uint64_t n, first;
    {
        ACQUIRE(&v->lock);
        n = v->n_stale;
        first = n > most ? n - most : 0;
        for (uint64_t i = first; i < n; i++)
            copy[i - first] = v->stale[i % STALE_KEPT];
    }
    struct catalog *now = volume_catalog(v);
    jw_array(w, name);
    for (uint64_t i = 0; i < n - first; i++)
        write_stale(now, w, &copy[i]);
    jw_end(w);
    catalog_unref(now);
    free(copy);
}

/* All that are kept, the served one first. */
static void write_versions(struct volume *v, struct json_writer *w)
{
    ACQUIRE(&v->lock);
    jw_bool(w, "pinned", v->pinned);
    jw_array(w, "versions");
    for (size_t i = 0; i < VERSIONS_KEPT && v->versions[i]; i++) {
        const struct catalog_info *info = catalog_info(v->versions[i]);
        jw_object(w, NULL);
        jw_str(w, "version", info->digest);
        jw_uint(w, "samples", info->samples);
        jw_int(w, "scanned_at", info->scanned_at);
        jw_end(w);
    }
    jw_end(w);
}

/* How old what is known of the source may be. */
static void write_refresh(struct volume *v, struct json_writer *w)
{
    ACQUIRE(&v->lock);
    const struct refreshes *r = &v->refreshes;
    jw_object(w, "refresh");
    jw_num(w, "every_s", (double)v->conf.refresh_ns / 1e9);
    jw_num(w, "ago_s", r->done_ns ? (double)(clock_mono_ns() - r->done_ns) / 1e9 : NAN);
    jw_uint(w, "failed", r->failed);
    jw_str(w, "why", r->why);
    jw_end(w);
}

void volume_status(struct volume *v, struct json_writer *w)
{
    struct snapshot s;
    struct cache_stat cache;
    take_snapshot(v, &s);
    cache_stat(v->cache, &cache);
    struct catalog *c = volume_catalog(v);
    jw_str(w, "version", catalog_info(c)->digest);
    jw_str(w, "state", state_name(v, s.scanning, &cache));
    write_set(w, catalog_info(c));
    catalog_unref(c);
    write_versions(v, w);
    write_refresh(v, w);
    follow_status(v, w);
    write_cache(w, &cache);
    write_reads(v, w);
    write_fetch(v, w);
    write_memory(v, w);
    write_warmup(w, &s.warm);
    write_order(w, &s);
    arrival_status(v, w);
    share_status(v, &cache, w);
    peer_status(v->peers, w);
    epochs_status(v, w);
    jw_object(w, "ahead");
    ahead_status(v, w);
    jw_end(w);
    jw_uint(w, "stale", s.n_stale);
    write_stale_objects(v, w, "stale_objects", STALE_SHOWN);
}

void volume_stats(struct volume *v, struct json_writer *w)
{
    struct cache_stat cache;
    cache_stat(v->cache, &cache);
    jw_uint(w, "time_ns", clock_mono_ns());
    const struct read_counts *r = &v->counts->reads;
    jw_object(w, "reads");
    write_read_counts(w, r);
    jw_uint(w, "mem_bytes", counter_get(&r->bytes_from[FROM_MEM]));
    jw_uint(w, "disk_bytes", counter_get(&r->bytes_from[FROM_DISK]));
    jw_uint(w, "peer_bytes", counter_get(&r->bytes_from[FROM_PEER]));
    jw_uint(w, "store_bytes", counter_get(&r->bytes_from[FROM_STORE]));
    jw_uint(w, "corrupt_repaired", counter_get(&cache_counts(v->cache)->corrupt));
    jw_end(w);
    write_fetch(v, w);
    jw_object(w, "latency");
    jw_num(w, "p50_us", quantile_us(&v->counts->reads.latency, 0.50));
    jw_num(w, "p99_us", quantile_us(&v->counts->reads.latency, 0.99));
    histogram_write(&r->latency, w, "reads");
    histogram_write(&fetch_counts(v->fetch)->latency, w, "fetch");
    jw_end(w);
    jw_object(w, "cache");
    jw_uint(w, "samples", cache.samples);
    jw_uint(w, "bytes", cache.bytes);
    jw_end(w);
    jw_object(w, "ahead");
    ahead_status(v, w);
    jw_end(w);
    jw_object(w, "memory");
    jw_uint(w, "resident", process_resident());
    jw_uint(w, "limit", atomic_load(&v->memory));
    jw_end(w);
}

void volume_stale(struct volume *v, struct json_writer *w)
{
    write_stale_objects(v, w, "stale", STALE_KEPT);
}
