/*
 * Curves: what TensorBoard and VisualDL read, in one folder.
 *
 *   DIR/events.out.tfevents.SECONDS.HOST.PID.0   TensorBoard: TFRecords with sums
 *   DIR/vdlrecords.SECONDS.log                   VisualDL: length and record, no sums
 *
 * One folder is one run, with one file of each (VisualDL shows only the newest of several). A run
 * that goes on from a checkpoint goes on in the same files, which are cut back first: to whole
 * records that were written before the checkpoint. So a curve is never torn nor doubled. Each
 * record is one write(), and one that is written in part is taken back: VisualDL cannot read a file
 * that ends within one. A run that begins anew sets what is there aside:
 *
 *   DIR/earlier-N/                               all of it, and train.jsonl; N from 1
 *
 * The first failure stays; the functions do nothing after it, and events_flush() returns it.
 */
#ifndef SAMPAN_TRAIN_EVENTS_H
#define SAMPAN_TRAIN_EVENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "err.h"
#include "net.h"

struct events;

/* The file of report.h beside them. */
#define EVENTS_LINES "train.jsonl"

/* Precision and recall at EVENTS_THRESHOLDS thresholds, from 0 to 1. */
#define EVENTS_THRESHOLDS 101
struct events_pr {
    /* Judgements with a score in (i/100, (i+1)/100], right and wrong ones. */
    uint64_t right[EVENTS_THRESHOLDS], wrong[EVENTS_THRESHOLDS];
};
void events_pr_add(struct events_pr *p, double score, int right);

/* What a run before left in the folder becomes another run, which both programs show beside the new
 * one: *ret is its folder (the caller's, free). NULL: there was nothing. */
int events_set_aside(const char *dir, char **ret, struct err *err);
/* Makes the folder if need be. Records of steps after `step` are cut off; if a pass is to go on
 * (`within`), so is what was told when it was over, after that step: all but train/… and input/… */
int events_open(struct events **ret, const char *dir, uint64_t step, bool within, struct err *err);
void events_close(struct events *e); /* NULL is fine */

void events_scalar(struct events *e, const char *tag, uint64_t step, double value);
void events_histogram(struct events *e, const char *tag, uint64_t step, const float *x, size_t n);
/* Pixels of 0..255, RGB. */
void events_image(struct events *e, const char *tag, uint64_t step, const uint8_t *rgb, int height,
                  int width);
void events_pr_curve(struct events *e, const char *tag, uint64_t step, const struct events_pr *p);
/* The net's layers (TensorBoard alone: VisualDL draws graphs from model files). */
void events_graph(struct events *e, const struct net *n);
/* What the net's layers cost in the step that was measured, beside the graph. */
void events_costs(struct events *e, const struct net *n, uint64_t step);
/* To the disk; and the first failure of all calls before. */
int events_flush(struct events *e, struct err *err);

#endif
