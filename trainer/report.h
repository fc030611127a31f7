/*
 * Reports: the log's lines, dots, the progress line on a terminal, and train.jsonl.
 *
 * Stall is the share of time in which the step waited for its samples; the first batch of a pass is
 * counted, too.
 */
#ifndef SAMPAN_TRAIN_REPORT_H
#define SAMPAN_TRAIN_REPORT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "err.h"
#include "log.h"

struct report_options {
    struct log *log;   /* NULL: silence (all ranks but the first) */
    FILE *terminal;    /* NULL: no progress line, no dots */
    FILE *json;        /* NULL, or gets each period, pass and the end, an object a line */
    const char *jsonl; /* NULL: none. Lines are appended to whole ones */
    bool line;         /* a progress line */
    uint64_t log_period, dot_period, passes;
};

/* Of the batches since some moment. */
struct report_sums {
    uint64_t batches, samples, wait_ns, step_ns;
    double loss, right; /* sums over samples */
    uint64_t old_batches,
        old_samples; /* of these, earlier runs': how long they took is not known */
};

/* What is known after a step at the end of a period. */
struct report_figures {
    double loss, accuracy, per_second, stall; /* stall: 0 to 1 */
};

/* A test of all ranks. */
struct report_test {
    uint64_t pass, step, samples;
    uint64_t skipped; /* left out of it */
    double loss, accuracy;
};

struct report {
    struct report_options o;
    FILE *jsonl;
    struct report_sums period, pass, all;
    uint64_t drawn_ns, opened_ns, epoch; /* epoch: of the newest step */
    struct report_figures newest;        /* of the pass in hand; NaN: nothing was learned yet */
    struct report_test test;             /* of this pass; loss NaN: not judged */
    uint64_t skipped, all_skipped;       /* samples that were left out: of this pass, of all */
    bool dirty;                          /* something stands on the terminal's last line */
};

/* One step of all ranks. */
struct report_step {
    uint64_t pass, batch, pass_batches, step, samples;
    uint64_t wait_ns, step_ns; /* of this rank: waiting for samples; all */
    double loss, right;        /* sums over the samples */
    double rate;
    /* What this rank's source measured so far (batch.h). */
    uint64_t read_ns, decode_ns, from_packs, from_mount;
};

int report_open(struct report *r, const struct report_options *o, struct err *err);
/* A pass that earlier runs began is gone on with, and so is the period in hand, unless its batches
 * are not those of this --log_period: loss and accuracy are those of all samples, speed and stall
 * those of this run's. */
void report_resume(struct report *r, uint64_t pass, const struct report_sums *done,
                   const struct report_sums *period);
/* True at the end of a period: *ret are its figures. */
bool report_step(struct report *r, const struct report_step *s, struct report_figures *ret);
/* Its line in the log. `skipped`: samples that were left out of it. */
void report_pass(struct report *r, uint64_t pass, uint64_t skipped, struct report_figures *ret);
/* The pass for those who read JSON; after its test. Another pass begins. */
void report_epoch(struct report *r, uint64_t pass, uint64_t step, const struct report_figures *f);
/* One that judged no sample has no line; what was left out of it is counted all the same. */
void report_test(struct report *r, const struct report_test *t);
/* The last line: over all that was done. `state`: "done" or "stopped"; `saved`: the newest
 * checkpoint, "" if there is none. */
void report_end(struct report *r, uint64_t step, const char *state, const char *saved);
/* Ends the terminal's line, so that another may be written. */
void report_break(struct report *r);
void report_close(struct report *r);

/* "[=====>    ] 12%  pass 1/3 …" without colours or a newline. Pure. */
void report_line(char *out, size_t size, const struct report_options *o,
                 const struct report_step *s, const struct report_figures *f, double eta_s);

#endif
