/*
 * TensorBoard's event files: TFRecords (length, sum, data, sum) of Event messages.
 *
 * Event {1 wall_time, 2 step, 3 file_version, 4 graph_def, 5 summary}; Summary {1 value};
 * Value {1 tag, 2 simple_value, 4 image, 5 histo, 8 tensor, 9 metadata}.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "clock.h"
#include "events-internal.h"
#include "crc.h"

#define FRAME_HEAD 12
#define FRAME_TAIL 4
#define PR_ROWS    6
#define DT_FLOAT   1

static void frame(struct bytes *out, const struct bytes *event)
{
    size_t at = out->len;
    pb_fixed(out, event->len, 8);
    pb_fixed(out, crc32c_masked(out->data + at, 8), 4);
    bytes_add(out, event->data, event->len);
    pb_fixed(out, crc32c_masked(event->data, event->len), 4);
}

static void begin(struct bytes *event, int64_t ns, uint64_t step)
{
    int64_t ms = ns / (int64_t)NS_PER_MS;
    pb_double(event, 1, (double)ms / 1000);
    if (step)
        pb_varint(event, 2, step);
}

/* One value of a summary, framed. */
static void record(struct bytes *out, int64_t ns, uint64_t step, const struct bytes *value)
{
    cleanup_bytes struct bytes event = {0}, summary = {0};
    begin(&event, ns, step);
    pb_bytes(&summary, 1, value->data, value->len);
    pb_bytes(&event, 5, summary.data, summary.len);
    frame(out, &event);
}

static void head(struct bytes *out, int64_t ns)
{
    cleanup_bytes struct bytes event = {0};
    begin(&event, ns, 0);
    pb_text(&event, 3, "brain.Event:2");
    frame(out, &event);
}

static void scalar(struct bytes *out, int64_t ns, uint64_t step, const char *tag, double x)
{
    cleanup_bytes struct bytes value = {0};
    pb_text(&value, 1, tag);
    pb_float(&value, 2, (float)x);
    record(out, ns, step, &value);
}

static void histogram(struct bytes *out, int64_t ns, uint64_t step, const char *tag,
                      const struct histogram *h)
{
    cleanup_bytes struct bytes value = {0}, histo = {0};
    pb_double(&histo, 1, h->min);
    pb_double(&histo, 2, h->max);
    pb_double(&histo, 3, (double)h->n);
    pb_double(&histo, 4, h->sum);
    pb_double(&histo, 5, h->squares);
    pb_doubles(&histo, 6, h->edges + 1, 30); /* upper ends */
    pb_doubles(&histo, 7, h->counts, 30);
    pb_text(&value, 1, tag);
    pb_bytes(&value, 5, histo.data, histo.len);
    record(out, ns, step, &value);
}

static void image(struct bytes *out, int64_t ns, uint64_t step, const char *tag,
                  const struct bytes *png, int height, int width)
{
    cleanup_bytes struct bytes value = {0}, picture = {0};
    pb_varint(&picture, 1, (uint64_t)height);
    pb_varint(&picture, 2, (uint64_t)width);
    pb_varint(&picture, 3, 3); /* RGB */
    pb_bytes(&picture, 4, png->data, png->len);
    pb_text(&value, 1, tag);
    pb_bytes(&value, 4, picture.data, picture.len);
    record(out, ns, step, &value);
}

static void add_floats(struct bytes *out, const uint64_t *x)
{
    for (int i = 0; i < EVENTS_THRESHOLDS; i++) {
        float f = (float)x[i];
        uint32_t bits;
        memcpy(&bits, &f, sizeof bits);
        pb_fixed(out, bits, 4);
    }
}

/* A tensor of 6 rows: TP, FP, TN, FN, precision, recall; the plugin's name says what it is. */
static void pr(struct bytes *out, int64_t ns, uint64_t step, const char *tag,
               const struct pr_curve *p)
{
    cleanup_bytes struct bytes value = {0}, tensor = {0}, shape = {0}, dim = {0}, rows = {0},
                               data = {0}, plugin = {0}, meta = {0};
    add_floats(&rows, p->tp);
    add_floats(&rows, p->fp);
    add_floats(&rows, p->tn);
    add_floats(&rows, p->fn);
    for (int k = 0; k < 2; k++)
        for (int i = 0; i < EVENTS_THRESHOLDS; i++) {
            float f = (float)(k ? p->recall[i] : p->precision[i]);
            uint32_t bits;
            memcpy(&bits, &f, sizeof bits);
            pb_fixed(&rows, bits, 4);
        }
    pb_varint(&dim, 1, PR_ROWS);
    pb_bytes(&shape, 2, dim.data, dim.len);
    bytes_clear(&dim);
    pb_varint(&dim, 1, EVENTS_THRESHOLDS);
    pb_bytes(&shape, 2, dim.data, dim.len);
    pb_varint(&tensor, 1, DT_FLOAT);
    pb_bytes(&tensor, 2, shape.data, shape.len);
    pb_bytes(&tensor, 4, rows.data, rows.len);
    pb_varint(&data, 2, EVENTS_THRESHOLDS);
    pb_text(&plugin, 1, "pr_curves");
    pb_bytes(&plugin, 2, data.data, data.len);
    pb_bytes(&meta, 1, plugin.data, plugin.len);
    pb_text(&value, 1, tag);
    pb_bytes(&value, 8, tensor.data, tensor.len);
    pb_bytes(&value, 9, meta.data, meta.len);
    record(out, ns, step, &value);
}

/* GraphDef {1 node {1 name, 2 op, 3 input, 4 device}, 4 versions {1 producer}}. The device goes by
 * the name under which tensorboard_costs() tells its times. */
void tensorboard_graph(struct bytes *out, int64_t ns, const struct net *n)
{
    cleanup_bytes struct bytes event = {0}, graph = {0}, versions = {0};
    char device[32];
    net_backend(n)->ops->place(net_backend(n), device, sizeof device);
    for (size_t i = 0; i < net_n_layers(n); i++) {
        cleanup_bytes struct bytes node = {0};
        struct net_layer l;
        net_layer(n, i, &l);
        pb_text(&node, 1, l.name);
        pb_text(&node, 2, l.kind);
        for (int k = 0; l.inputs[k]; k++)
            pb_text(&node, 3, l.inputs[k]);
        pb_text(&node, 4, device);
        pb_bytes(&graph, 1, node.data, node.len);
    }
    pb_varint(&versions, 1, 22);
    pb_bytes(&graph, 4, versions.data, versions.len);
    begin(&event, ns, 0);
    pb_bytes(&event, 4, graph.data, graph.len);
    frame(out, &event);
}

/* NodeExecStats {1 node_name, 2 all_start_micros, 4 op_end_rel_micros, 5 all_end_rel_micros,
 * 6 memory {1 allocator_name, 2 total_bytes}, 16 all_end_rel_nanos}: "op" is the way forward, "all"
 * both ways. Readers take 0 for unknown. */
static void add_cost(struct bytes *out, const char *name, uint64_t begun_ns,
                     const struct net_cost *c)
{
    cleanup_bytes struct bytes node = {0}, memory = {0};
    uint64_t all = c->forward_ns + c->backward_ns;
    pb_text(&node, 1, name);
    pb_varint(&node, 2, begun_ns / 1000);
    pb_varint(&node, 4, (c->forward_ns + 999) / 1000);
    pb_varint(&node, 5, (all + 999) / 1000);
    pb_text(&memory, 1, "training");
    pb_varint(&memory, 2, c->bytes);
    pb_bytes(&node, 6, memory.data, memory.len);
    pb_varint(&node, 16, all);
    pb_bytes(out, 2, node.data, node.len);
}

/* Event {8 tagged_run_metadata {1 tag, 2 RunMetadata {1 step_stats {1 dev_stats {1 device,
 * 2 node_stats}}}}}. */
void tensorboard_costs(struct bytes *out, int64_t ns, uint64_t step, const struct net *n)
{
    cleanup_bytes struct bytes event = {0}, tagged = {0}, run = {0}, steps = {0}, device = {0};
    char text[40];
    uint64_t begun = (uint64_t)ns;
    net_backend(n)->ops->place(net_backend(n), text, sizeof text);
    pb_text(&device, 1, text);
    for (size_t i = 0; i < net_n_layers(n); i++) {
        const struct net_cost *c = &net_costs(n)[i];
        struct net_layer l;
        net_layer(n, i, &l);
        add_cost(&device, l.name, begun, c);
        begun += c->forward_ns + c->backward_ns;
    }
    pb_bytes(&steps, 1, device.data, device.len);
    pb_bytes(&run, 1, steps.data, steps.len);
    snprintf(text, sizeof text, "step %" PRIu64, step);
    pb_text(&tagged, 1, text);
    pb_bytes(&tagged, 2, run.data, run.len);
    begin(&event, ns, step);
    pb_bytes(&event, 8, tagged.data, tagged.len);
    frame(out, &event);
}

static size_t first(const char *data, size_t len, uint64_t *step, struct pb_field *tag)
{
    if (len < FRAME_HEAD + FRAME_TAIL || pb_fixed_at(data + 8, 4) != crc32c_masked(data, 8))
        return 0;
    uint64_t n = pb_fixed_at(data, 8);
    if (n > len - FRAME_HEAD - FRAME_TAIL ||
        pb_fixed_at(data + FRAME_HEAD + n, 4) != crc32c_masked(data + FRAME_HEAD, (size_t)n))
        return 0;
    const char *event = data + FRAME_HEAD;
    size_t left = (size_t)n;
    struct pb_field f;
    *step = 0;
    for (int got; (got = pb_next(&event, &left, &f)) != 0;) {
        if (got < 0)
            return 0;
        if (f.number == 2 && f.type == 0)
            *step = f.value;
    }
    struct pb_field summary, value;
    pb_part(data + FRAME_HEAD, (size_t)n, 5, &summary);
    pb_part(summary.data, summary.len, 1, &value);
    pb_part(value.data, value.len, 1, tag);
    return FRAME_HEAD + (size_t)n + FRAME_TAIL;
}

const struct events_format events_tensorboard = {.marker = "events.out.tfevents.",
                                                 .head = head,
                                                 .scalar = scalar,
                                                 .histogram = histogram,
                                                 .image = image,
                                                 .pr = pr,
                                                 .first = first};
