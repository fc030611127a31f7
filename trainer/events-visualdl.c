/*
 * VisualDL's records: length, then Record {1 values}.
 *
 * Value {1 id (the step), 2 tag, 3 timestamp (ms), 4 value, 5 image {4 encoded}, 8 histogram
 * {1 hist, 2 bin_edges}, 9 pr_curve {1 TP, 2 FP, 3 TN, 4 FN, 5 precision, 6 recall}, 10 meta_data}.
 */
#include "clock.h"
#include "events-internal.h"

#define FRAME_HEAD 8

static void begin(struct bytes *value, int64_t ns, uint64_t step, const char *tag)
{
    if (step)
        pb_varint(value, 1, step);
    pb_text(value, 2, tag);
    pb_varint(value, 3, (uint64_t)(ns / (int64_t)NS_PER_MS));
}

static void frame(struct bytes *out, const struct bytes *value)
{
    cleanup_bytes struct bytes record = {0};
    pb_bytes(&record, 1, value->data, value->len);
    pb_fixed(out, record.len, FRAME_HEAD);
    bytes_add(out, record.data, record.len);
}

static void head(struct bytes *out, int64_t ns)
{
    cleanup_bytes struct bytes value = {0};
    begin(&value, ns, 0, "meta_data_tag");
    pb_bytes(&value, 10, "", 0);
    frame(out, &value);
}

static void scalar(struct bytes *out, int64_t ns, uint64_t step, const char *tag, double x)
{
    cleanup_bytes struct bytes value = {0};
    begin(&value, ns, step, tag);
    pb_float(&value, 4, (float)x);
    frame(out, &value);
}

static void histogram(struct bytes *out, int64_t ns, uint64_t step, const char *tag,
                      const struct histogram *h)
{
    cleanup_bytes struct bytes value = {0}, histo = {0};
    begin(&value, ns, step, tag);
    pb_doubles(&histo, 1, h->counts, 30);
    pb_doubles(&histo, 2, h->edges, 31);
    pb_bytes(&value, 8, histo.data, histo.len);
    frame(out, &value);
}

static void image(struct bytes *out, int64_t ns, uint64_t step, const char *tag,
                  const struct bytes *png, int height, int width)
{
    (void)height;
    (void)width;
    cleanup_bytes struct bytes value = {0}, picture = {0};
    begin(&value, ns, step, tag);
    pb_bytes(&picture, 4, png->data, png->len);
    pb_bytes(&value, 5, picture.data, picture.len);
    frame(out, &value);
}

static void pr(struct bytes *out, int64_t ns, uint64_t step, const char *tag,
               const struct pr_curve *p)
{
    cleanup_bytes struct bytes value = {0}, curve = {0};
    begin(&value, ns, step, tag);
    pb_varints(&curve, 1, p->tp, EVENTS_THRESHOLDS);
    pb_varints(&curve, 2, p->fp, EVENTS_THRESHOLDS);
    pb_varints(&curve, 3, p->tn, EVENTS_THRESHOLDS);
    pb_varints(&curve, 4, p->fn, EVENTS_THRESHOLDS);
    pb_doubles(&curve, 5, p->precision, EVENTS_THRESHOLDS);
    pb_doubles(&curve, 6, p->recall, EVENTS_THRESHOLDS);
    pb_bytes(&value, 9, curve.data, curve.len);
    frame(out, &value);
}

static size_t first(const char *data, size_t len, uint64_t *step, struct pb_field *tag)
{
    struct pb_field record, f;
    if (len < FRAME_HEAD)
        return 0;
    uint64_t n = pb_fixed_at(data, FRAME_HEAD);
    if (n > len - FRAME_HEAD)
        return 0;
    const char *p = data + FRAME_HEAD;
    size_t left = (size_t)n;
    *step = 0;
    if (pb_next(&p, &left, &record) != 1 || record.number != 1 || record.type != 2)
        return 0;
    pb_part(record.data, record.len, 2, tag);
    for (int got; (got = pb_next(&record.data, &record.len, &f)) != 0;) {
        if (got < 0)
            return 0;
        if (f.number == 1 && f.type == 0)
            *step = f.value;
    }
    return FRAME_HEAD + (size_t)n;
}

const struct events_format events_visualdl = {.marker = "vdlrecords.",
                                              .head = head,
                                              .scalar = scalar,
                                              .histogram = histogram,
                                              .image = image,
                                              .pr = pr,
                                              .first = first};
