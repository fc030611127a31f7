/*
 * What stands in files of events, whoever wrote them: TensorBoard's writers (torch, TensorFlow,
 * ours) and VisualDL's. All but record_next() are pure functions on bytes, which may be anything.
 *
 * Event {1 wall_time, 2 step, 4 graph_def, 5 summary, 8 tagged_run_metadata {1 tag, 2 metadata}};
 * Summary {1 value}; Value {1 tag, 2 simple_value, 4 image {4 encoded}, 5 histo {6 limits, 7
 * counts}, 6 audio {4 encoded}, 8 tensor {1 dtype, 4 content, 5 floats, 6 doubles, 8 strings}, 9
 * metadata {1 plugin {1 name}}}.
 *
 * Record {1 value}; Value {1 step, 2 tag, 3 timestamp in ms, 4 value, 5 image {4 encoded},
 * 6 audio {4 encoded}, 8 histogram {1 counts, 2 edges}, 9 precision and recall {5 precision, 6
 * recall}}.
 */
#ifndef SAMPAN_CURVES_RECORDS_H
#define SAMPAN_CURVES_RECORDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "buf.h"

#define RECORD_MAX (256u << 20)

enum event_format { EVENTS_TENSORBOARD, EVENTS_VISUALDL, EVENTS_FORMATS };
/* The format that a file's name says; EVENTS_FORMATS: none. */
enum event_format event_format_of(const char *name);

/* Reads the record at `*at` and goes behind it. 1; 0: the file ends before or within it (it may
 * grow); -1: it is damaged, and nothing behind it can be found. */
int record_next(FILE *f, enum event_format format, uint64_t *at, struct bytes *ret);

enum value_kind {
    VALUE_SCALAR,
    VALUE_HISTOGRAM,
    VALUE_IMAGE,
    VALUE_AUDIO,
    VALUE_PR,
    VALUE_GRAPH,
    VALUE_COSTS,
    VALUE_KINDS
};
struct event_value {
    enum value_kind kind;
    int64_t step;
    double time; /* seconds since 1970 */
    const char *tag;
    size_t tag_len;
    double scalar;
    const char *data; /* an image or a sound as it was encoded; GraphDef; RunMetadata; a histogram
                         in a form */
    size_t len;
    /* Of a histogram and of precision and recall: a message that names upper ends, or all edges
     * (and VisualDL's); a tensor's numbers. */
    enum { FORM_LIMITS, FORM_EDGES, FORM_DOUBLES, FORM_FLOATS } form;
};
/* Hands over each value of a record that is of one of these kinds, until `take` says false. -1: it
 * is no such message (some may have been handed over). */
int record_values(enum event_format format, const char *data, size_t len,
                  bool (*take)(void *arg, const struct event_value *v), void *arg);

/* Of a histogram: bar i goes from x[i] to x[i + 1], and y[i] is its count. Of precision over
 * recall: x is recall, y is precision, by threshold. The caller releases it. -1: it is neither, or
 * longer than DRAWN_BYTES, which no page could draw. */
#define DRAWN_BYTES (256u << 10)
struct drawn {
    double *x, *y;
    size_t n_x, n; /* one more x than y, or as many */
};
int drawn_of(const struct event_value *v, struct drawn *ret);
void drawn_release(struct drawn *d);
#define cleanup_drawn CLEANUP(drawn_release)

#endif
