/* A set's status, whole. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "mem.h"
#include "object.h"
#include "sampleset-internal.h"

static void write_texts(struct json_writer *w, const char *key, char *const *items, size_t n)
{
    if (!n)
        return;
    jw_array(w, key);
    for (size_t i = 0; i < n; i++)
        jw_str(w, NULL, items[i]);
    jw_end(w);
}

static const char *version_of(const struct set_plan *p)
{
    for (size_t k = 0; k < p->n_rows; k++) {
        const char *version = part_text(&p->rows[k].mount, "version");
        if (version)
            return version;
    }
    return part_text(&p->status, "version");
}

/* As the first that answers has them. */
static void write_versions(const struct set_plan *p, struct json_writer *w)
{
    struct json all = {0};
    for (size_t k = 0; k < p->n_rows && !json_count(&all); k++)
        all = json_get(&p->rows[k].mount, "versions");
    if (!json_count(&all))
        all = json_get(&p->status, "versions");
    if (!json_count(&all))
        return;
    jw_array(w, "versions");
    for (size_t i = 0; i < json_count(&all); i++) {
        struct json one = json_at(&all, i);
        const char *version = part_text(&one, "version");
        if (version || !json_as_str(&one, &version, NULL))
            jw_str(w, NULL, version);
    }
    jw_end(w);
}

static void size_text(struct json_writer *w, const char *key, const struct json *from,
                      const char *name)
{
    char text[32];
    snprintf(text, sizeof text, "%" PRId64, part_int(from, name));
    jw_str(w, key, text);
}

static void write_figures(struct json_writer *w, const struct set_row *row)
{
    struct json share = json_get(&row->mount, "partition"), cache = json_get(&row->mount, "cache");
    bool divided = json_has(&share, "samples");
    jw_int(w, "samples", divided ? part_int(&share, "samples") : 0);
    jw_int(w, "cachedSamples", part_int(divided ? &share : &cache, divided ? "cached" : "samples"));
    if (divided)
        size_text(w, "bytes", &share, "bytes");
    if (row->mount.node) /* a node keeps more than its share: what it had of others before */
        size_text(w, "cachedBytes", divided ? &share : &cache, divided ? "cached_bytes" : "bytes");
}

static const char *row_state(const struct set_row *row)
{
    struct json share = json_get(&row->mount, "partition"),
                warmup = json_get(&row->mount, "warmup");
    const char *warm = part_text(&warmup, "state");
    struct json none = {0}, pod = json_get(row->pod ? row->pod : &none, "status");
    const char *phase = part_text(&pod, "phase");
    if (!row->node || !phase || strcmp(phase, "Running") != 0)
        return "Pending";
    if (!row->ready || !row->mount.node)
        return "Lost";
    if (warm && strcmp(warm, "running") == 0)
        return "Warming";
    if (json_has(&share, "samples") && part_int(&share, "cached") < part_int(&share, "samples"))
        return "Partial";
    return "Ready";
}

static void write_row(const struct set_plan *p, struct json_writer *w, size_t k)
{
    const struct set_row *row = &p->rows[k];
    cleanup_free char *pod = part_node_value(p->name, (int64_t)k);
    jw_object(w, NULL);
    jw_int(w, "index", (int64_t)k);
    if (row->node)
        jw_str(w, "node", row->node);
    jw_str(w, "pod", pod);
    jw_str(w, "state", row_state(row));
    write_figures(w, row);
    jw_end(w);
}

static void write_servers(const struct set_plan *p, struct json_writer *w)
{
    cleanup_free char *shown = xasprintf("%" PRId64 "/%" PRId64, p->ready, p->partitions);
    jw_object(w, "runtimeStatus");
    jw_int(w, "specReplicas", p->partitions);
    jw_int(w, "readyReplicas", p->ready);
    jw_str(w, "runtimeReady", shown);
    jw_end(w);
}

static void write_all(const struct set_plan *p, struct json_writer *w)
{
    const char *version = version_of(p);
    jw_object(w, NULL);
    if (*p->new_phase)
        jw_str(w, "phase", p->new_phase);
    if (version)
        jw_str(w, "version", version);
    write_versions(p, w);
    jw_str(w, "order", p->sampler || set_order_shown(p) ? "known" : "unknown");
    if (p->n_rows) {
        set_write_numbers(p, w);
        write_servers(p, w);
        jw_array(w, "partitions");
        for (size_t k = 0; k < p->n_rows && (int64_t)k < p->partitions; k++)
            write_row(p, w, k);
        jw_end(w);
    }
    write_texts(w, "usedBy", p->used_by, p->n_used_by);
    if (p->sync_job)
        jw_str(w, "syncJobName", p->sync_job);
    if (p->refreshed_at)
        jw_str(w, "refreshedAt", p->refreshed_at);
    jw_int(w, "observedGeneration", p->conditions.generation);
    part_conditions_write(&p->conditions, w);
    jw_end(w);
}

void set_write_status(struct set_plan *p)
{
    cleanup_bytes struct bytes text = {0};
    struct json_writer w;
    jw_init(&w, &text);
    write_all(p, &w);
    part_status(p->v, KIND_SAMPLESET, &text, p->out);
}
