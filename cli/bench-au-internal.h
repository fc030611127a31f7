/* bench au: bench-au.c runs, bench-au-report.c shows. */
#ifndef SAMPAN_CLI_BENCH_AU_INTERNAL_H
#define SAMPAN_CLI_BENCH_AU_INTERNAL_H

#include "bench-internal.h"

#define AU_READERS 4 /* an accelerator, unless told otherwise */

/* What MLPerf Storage says of a workload: per accelerator. */
struct au_model {
    const char *name, *title;
    uint32_t batch;
    double step_s;
    uint64_t bytes; /* of a sample, in the benchmark's own data set */
    double min_au;
};
const struct au_model *au_model_find(const char *name, struct err *err);

struct au_conf {
    const struct au_model *model;
    uint32_t accelerators, readers, epochs;
    uint64_t steps; /* an epoch's at most; 0: all */
    uint64_t buffer;
    bool blind, known;
    struct order_spec sampler;
    const atomic_bool *interrupted;
};

struct au_run {
    const char *dir;
    bool known; /* the mount was told the order */
    uint64_t epoch;
    double au, au_min; /* mean of the accelerators, and the worst */
    double seconds, first_s;
    uint64_t steps, samples, bytes, errors;
    struct err first_error;
};

struct au_report {
    const struct au_conf *conf;
    struct au_run *runs;
    size_t n;
};
struct au_run *au_report_add(struct au_report *r);
/* Could it write what --svg names? So that nothing is measured for a picture that cannot be kept.
 */
int au_report_may_write(const struct bench_options *o, struct err *err);
/* As a table or JSON, and as a picture if asked for. */
int au_report_print(const struct au_report *r, const struct bench_options *o, struct err *err);
/* The picture alone. Pure. */
void au_report_svg(const struct au_report *r, struct bytes *out);

#endif
