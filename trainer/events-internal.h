/* How the two formats write each kind of record, as pure functions on bytes, and how they are cut.
 */
#ifndef SAMPAN_TRAIN_EVENTS_INTERNAL_H
#define SAMPAN_TRAIN_EVENTS_INTERNAL_H

#include <stdbool.h>

#include "buf.h"
#include "events.h"
#include "protobuf.h"

/* --- what is written -------------------------------------------------------------------------- */

struct histogram {
    double min, max, sum, squares;
    size_t n;
    double edges[31], counts[30];
};
void histogram_of(struct histogram *ret, const float *x, size_t n);
void png_encode(struct bytes *out, const uint8_t *rgb, int height, int width);

struct pr_curve { /* at threshold i / (EVENTS_THRESHOLDS - 1): scores above it are taken */
    uint64_t tp[EVENTS_THRESHOLDS], fp[EVENTS_THRESHOLDS], tn[EVENTS_THRESHOLDS],
        fn[EVENTS_THRESHOLDS];
    double precision[EVENTS_THRESHOLDS], recall[EVENTS_THRESHOLDS];
};
void pr_curve_of(struct pr_curve *ret, const struct events_pr *p);

/* A format: each function appends one whole record, framed. */
struct events_format {
    const char *marker; /* a file's name holds it */
    void (*head)(struct bytes *out, int64_t ns);
    void (*scalar)(struct bytes *out, int64_t ns, uint64_t step, const char *tag, double value);
    void (*histogram)(struct bytes *out, int64_t ns, uint64_t step, const char *tag,
                      const struct histogram *h);
    void (*image)(struct bytes *out, int64_t ns, uint64_t step, const char *tag,
                  const struct bytes *png, int height, int width);
    void (*pr)(struct bytes *out, int64_t ns, uint64_t step, const char *tag,
               const struct pr_curve *p);
    /* Bytes of the first record, whose step is *step and whose tag is *tag (empty: it has none);
     * 0: not whole, or damaged. */
    size_t (*first)(const char *data, size_t len, uint64_t *step, struct pb_field *tag);
};
extern const struct events_format events_tensorboard, events_visualdl;
void tensorboard_graph(struct bytes *out, int64_t ns, const struct net *n);
void tensorboard_costs(struct bytes *out, int64_t ns, uint64_t step, const struct net *n);

#endif
